"""How nbgrader treats this course; the commands ``release.py`` and ``grade.py`` read it too."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # nbgrader calls alembic

import nbgrader  # noqa: E402
from nbgrader.preprocessors import (  # noqa: E402
    AssignLatePenalties,
    CheckCellMetadata,
    ClearOutput,
    DeduplicateIds,
    LimitOutput,
    OverwriteCells,
    OverwriteKernelspec,
    SaveAutoGrades,
)

from feedback import ClearTeachersHiddenTests, Harmless, Scores, clean_html, markdown2html  # noqa: E402
from submission import PutIntoReleased, RunAndTest  # noqa: E402

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "positional-encodings"
c.ClearSolutions.code_stub = {"python": "# YOUR CODE HERE\nraise NotImplementedError"}
c.Autograde.sanitize_preprocessors = [
    PutIntoReleased, ClearOutput, DeduplicateIds, OverwriteKernelspec, OverwriteCells, CheckCellMetadata,
]  # fmt: skip
c.Autograde.autograde_preprocessors = [
    RunAndTest, LimitOutput, SaveAutoGrades, AssignLatePenalties, CheckCellMetadata,
]  # fmt: skip
c.GenerateFeedback.preprocessors = [ClearTeachersHiddenTests, Scores]
# What a submission shows is cleaned, in the students' pages and in Formgrader. nbgrader's templates leave it as it is.
c.HTMLExporter.preprocessors = [Harmless]
c.HTMLExporter.filters = {"markdown2html": markdown2html, "clean_html": clean_html}
c.HTMLExporter.sanitize_html = True
FORMGRADER = Path(nbgrader.__file__).parent / "server_extensions" / "formgrader" / "templates"
c.HTMLExporter.extra_template_basedirs = [str(HERE / "templates"), str(FORMGRADER)]
