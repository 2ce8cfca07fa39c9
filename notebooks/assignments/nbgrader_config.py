"""How nbgrader treats this course; the commands ``release.py`` and ``grade.py`` read it too."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # nbgrader calls alembic

from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor  # noqa: E402
from nbgrader.preprocessors import (  # noqa: E402
    CheckCellMetadata,
    ClearHiddenTests,
    ClearOutput,
    DeduplicateIds,
    GetGrades,
    LimitOutput,
    OverwriteCells,
    OverwriteKernelspec,
    SaveAutoGrades,
)

from submission import PutIntoReleased, RunAndTest  # noqa: E402

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "positional-encodings"
c.ClearSolutions.code_stub = {"python": "# YOUR CODE HERE\nraise NotImplementedError"}
c.Autograde.sanitize_preprocessors = [
    PutIntoReleased, ClearOutput, DeduplicateIds, OverwriteKernelspec, OverwriteCells, CheckCellMetadata,
]  # fmt: skip
c.Autograde.autograde_preprocessors = [RunAndTest, LimitOutput, SaveAutoGrades, CheckCellMetadata]
c.GenerateFeedback.preprocessors = [ClearHiddenTests, GetGrades, CSSHTMLHeaderPreprocessor]
c.HTMLExporter.sanitize_html = True  # what a submission shows runs no script in the reader's browser
