"""How nbgrader treats this course; the commands ``release.py`` and ``grade.py`` read it too."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # nbgrader calls alembic

import bleach  # noqa: E402
from nbconvert.filters import markdown2html  # noqa: E402
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
# What a submission shows runs no script in its reader's browser. nbgrader's template leaves text as it is.
c.HTMLExporter.sanitize_html = True
HEADINGS, TABLES = {f"h{level}" for level in range(1, 7)}, {"table", "thead", "tbody", "tr", "th", "td"}
TAGS = bleach.ALLOWED_TAGS | HEADINGS | TABLES | {"p", "br", "hr", "pre", "div", "span"}
SAFE = {"tags": TAGS, "attributes": {"*": ["id", "class"], "a": ["href"]}}
c.HTMLExporter.filters = {"markdown2html": lambda text: bleach.clean(markdown2html(text), **SAFE)}
