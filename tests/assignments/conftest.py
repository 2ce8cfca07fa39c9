"""Courses in temporary folders, with the assignments of the repository or a small one, and submissions for them."""

import argparse
import copy
import csv
import os
import shutil
from functools import partial
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import grade
import release
from labels import labelled
from sandbox import bubblewrap
from submission import identity

ASSIGNMENTS = Path(grade.HERE)


@pytest.fixture(scope="session")
def confined():
    """What needs the sandbox asks for this."""
    if bubblewrap() is None:
        reason = "no working bubblewrap (bwrap): submissions are not confined"
        (pytest.fail if os.environ.get("REQUIRE_SANDBOX") == "1" else pytest.skip)(reason)


class Course:
    """One assignment, released, in a folder of its own."""

    def __init__(self, root: Path, name: str):
        self.root, self.name = root, name
        self.master, self.released = (
            nbformat.read(root / step / name / f"{name}.ipynb", as_version=4) for step in ("source", "release")
        )
        self.points = {
            identity(cell): cell.metadata.nbgrader["points"]
            for cell in self.master.cells
            if cell.metadata.get("nbgrader", {}).get("grade")
        }
        self.manual = {
            identity(cell)
            for cell in self.master.cells
            if cell.cell_type == "markdown" and cell.metadata.get("nbgrader", {}).get("grade")
        }

    def answered(self, *blank: str, **code: str):
        """The released notebook with the master's answers, but for the cells named."""
        answers, notebook = {identity(cell): cell.source for cell in self.master.cells}, copy.deepcopy(self.released)
        for cell in notebook.cells:
            name = identity(cell)
            if cell.metadata.get("nbgrader", {}).get("solution") and name not in blank:
                cell.source = code.get(name, answers[name])
        return notebook

    def hand_in(self, student: str, notebook) -> Path:
        """Write a submission: a notebook, or text."""
        path = self.root / "submitted" / student / self.name / f"{self.name}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(notebook if isinstance(notebook, str) else nbformat.writes(notebook))
        return path

    def grade(self, **options) -> dict[str, dict]:
        """The rows of the table, by student."""
        defaults = {
            "assignment": None,
            "jobs": 2,
            "seconds": 20,
            "memory": 4096,
            "limit": 300,
            "again": False,
            "student": None,
        }
        grade.grade_class(self.root, argparse.Namespace(**defaults | options))
        return self.rows()

    def rows(self) -> dict[str, dict]:
        """The rows of the table as it is, by student."""
        with open(self.root / "grades.csv", newline="", encoding="utf-8") as file:
            return {row["student"]: row for row in csv.DictReader(file)}

    def autograded(self, student: str):
        """The grader's copy of a submission, with what its cells showed."""
        return nbformat.read(self.root / "autograded" / student / self.name / f"{self.name}.ipynb", as_version=4)

    def graded(self, student: str) -> dict[str, str]:
        """What the cells of the grader's copy show, by name; cells of the student's own under their numbers."""
        return {
            identity(cell) or str(number): "\n".join(o.get("text") or o.get("evalue") or "" for o in cell.outputs)
            for number, cell in enumerate(self.autograded(student).cells)
            if cell.cell_type == "code"
        }

    def feedback(self, student: str) -> str:
        """The page that the student gets."""
        return (self.root / "feedback" / student / self.name / f"{self.name}.html").read_text()


def built(root: Path, name: str, master) -> Path:
    """``root`` with one assignment in it, released."""
    (root / "source" / name).mkdir(parents=True)
    nbformat.write(master, root / "source" / name / f"{name}.ipynb")
    assert release.release(root) == [name]
    return root


@pytest.fixture(scope="session")
def course_in():
    """Makes a course from an assignment of the repository, in a given folder; texts of it may be changed."""

    def make(root: Path, name: str, **changes: str) -> Course:
        master = nbformat.read(ASSIGNMENTS / "source" / name / f"{name}.ipynb", as_version=4)
        for before, after in changes.items():
            assert sum(before in cell.source for cell in master.cells) == 1
            for cell in master.cells:
                cell.source = cell.source.replace(before, after)
        return Course(built(root, name, master), name)

    return make


@pytest.fixture
def course(course_in, tmp_path):
    """Makes a course from an assignment of the repository."""
    return partial(course_in, tmp_path)


SMALL = {
    "double": "def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION",
    "answer": "# answer: a number\n### BEGIN SOLUTION\nanswer = 6 * 7\n### END SOLUTION",
    "double-test": "assert double(3) == 6\n"
    "### BEGIN HIDDEN TESTS\nassert double(50) == 100, 'not twice as much'\n### END HIDDEN TESTS",
    "answer-test": "assert answer\n### BEGIN HIDDEN TESTS\nassert answer == 42\n### END HIDDEN TESTS",
}


def small_master():
    """An assignment with two questions, which is graded quickly."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    master = new_notebook(metadata={"kernelspec": kernel})
    for name in ("double", "answer"):
        master.cells.append(labelled(new_code_cell, SMALL[name], name, solution=True))
        test = f"{name}-test"
        master.cells.append(labelled(new_code_cell, SMALL[test], test, grade=True, locked=True, points=50))
    return master


@pytest.fixture(scope="session")
def small_course(tmp_path_factory):
    """The folder of a course with that assignment."""
    return built(tmp_path_factory.mktemp("small"), "small", small_master())


@pytest.fixture
def small(small_course, tmp_path):
    """A copy of that course."""
    return Course(shutil.copytree(small_course, tmp_path / "course"), "small")


@pytest.fixture
def small_written(tmp_path):
    """A course whose assignment also has a question that is answered in words."""
    master = small_master()
    master.cells += [
        labelled(new_markdown_cell, "Why?", "words-text", locked=True),
        labelled(new_markdown_cell, "Because.", "words", grade=True, solution=True, points=20),
    ]
    return Course(built(tmp_path / "course", "small", master), "small")
