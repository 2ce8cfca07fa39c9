"""The folder of a class, in any place and under any name, as nbgrader can work with it."""

import contextlib
import hashlib
import os
import shutil
import tempfile
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from nbgrader.api import Gradebook
from sqlalchemy.engine import URL
from traitlets.config import Config, PyFileConfigLoader

from feedback import course_config
from roster import shown

HERE = Path(__file__).resolve().parent
CONFIGURATION = "nbgrader_config.py"
LARGEST_NOTEBOOK = 50 * 2**20  # bytes


def prepare(course: Path) -> None:
    """Write into ``course`` the configuration without which nbgrader would show hidden tests and run foreign scripts.

    Raises:
        ValueError: if the folder has a configuration of its own that does not load the course's.
    """
    path, text = course / CONFIGURATION, course_config(HERE)
    if course == HERE or (path.exists() and text in path.read_text()):
        return
    if path.exists() and path.read_text().splitlines()[:1] != text.splitlines()[:1]:  # not one that we wrote
        raise ValueError(f"{path} must begin with these lines, or nbgrader shows hidden tests there:\n\n{text}")
    path.write_text(text)


@contextlib.contextmanager
def seen_by_nbgrader(course: Path) -> Iterator[tuple[Path, Config]]:
    """A temporary folder with links to ``course``, whose own path may mean something to nbgrader, and a configuration.

    What nbgrader writes to ``autograded`` and ``feedback`` stays in the temporary folder.
    """
    with tempfile.TemporaryDirectory(prefix="course-") as folder:
        root = Path(folder)
        for name in ("source", "release", "gradebook.db"):
            (root / name).symlink_to(course / name)
        config = PyFileConfigLoader(str(course / CONFIGURATION)).load_config()  # with what the teacher added
        config.CourseDirectory.root = str(root)
        config.PutIntoReleased.released = str(root / "release")
        yield root, Config(config)


def gradebook(course: Path) -> Gradebook:
    """The gradebook of a class."""
    return Gradebook(URL.create("sqlite", database=str(course / "gradebook.db")))


def identifier(student: str) -> str:
    """The name by which nbgrader knows a student: the folder's, unless that holds signs that mean something to it."""
    if student == called(student) == student.strip():
        return student
    return f"student-{hashlib.sha256(os.fsencode(student)).hexdigest()[:12]}"


def called(student: str) -> str:
    """How a student whose name nbgrader does not take is called in its pages: letters, digits and a few signs."""
    return "".join(c if unicodedata.category(c)[0] in "LMN" or c in " .,'’@()-_" else "_" for c in shown(student))


def replace(old: Path, new: Path) -> None:
    """Put the folder ``new`` into the place of ``old``."""
    waiting = old.with_name(f".{old.name}.new")
    shutil.rmtree(waiting, ignore_errors=True)
    waiting.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(new, waiting)
    shutil.rmtree(old, ignore_errors=True)
    waiting.rename(old)
