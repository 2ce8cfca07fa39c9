"""Build the student versions of all assignments: make release, or

    python release.py [COURSE]

reads COURSE/source/ASSIGNMENT/ASSIGNMENT.ipynb and writes COURSE/release/ASSIGNMENT/ASSIGNMENT.ipynb and the gradebook.
A version that still holds a line of a solution or of a hidden test is not released.
"""

import argparse
import re
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.apps import NbGraderAPI

from course import HERE, prepare, seen_by_nbgrader

SECRET = re.compile(r"### BEGIN (SOLUTION|HIDDEN TESTS)\n(.*?)### END \1", re.DOTALL)
HARMLESS = re.compile(r'\W*"[^"]*"\W*|\W*[\w.]+\W*|.{,11}')  # only a message or a name, or too short to be recognized


def secrets(master: NotebookNode) -> tuple[set[str], set[str]]:
    """Lines of a master that no student may read: those of solutions, and those that only hidden tests have."""
    solutions, tests, shown = set(), set(), set()
    for cell in master.cells:
        whole = cell.metadata.get("nbgrader", {}).get("solution") and not SECRET.search(cell.source)
        for kind, part in [("SOLUTION", cell.source)] if whole else SECRET.findall(cell.source):
            (solutions if kind == "SOLUTION" else tests).update(line.strip() for line in part.splitlines())
        shown |= {line.strip() for line in ("" if whole else SECRET.sub("", cell.source)).splitlines()}
    return tuple({line for line in lines if not HARMLESS.fullmatch(line)} for lines in (solutions, tests - shown))


def leaks(master: NotebookNode, released: NotebookNode) -> list[str]:
    """Secret lines of ``master`` that ``released`` shows, and outputs, which could give an answer away."""
    text = "\n".join(cell.source for cell in released.cells)
    lines = {line.strip() for line in text.splitlines()}
    solutions, tests = secrets(master)
    outputs = ["an output" for cell in released.cells if cell.get("outputs")]
    return sorted({line for line in solutions if line in text} | (tests & lines)) + outputs


def release(course: Path) -> list[str]:
    """Build the student version of every assignment of ``course``; their names.

    Raises:
        RuntimeError: if an assignment cannot be built or would give something away.
        ValueError: if the folder has an nbgrader configuration of another kind.
    """
    prepare(course)
    (course / "release").mkdir(exist_ok=True)
    names = sorted(path.stem for path in (course / "source").glob("*/*.ipynb") if path.stem == path.parent.name)
    for name in names:
        with seen_by_nbgrader(course) as (_, config):
            done = NbGraderAPI(config=config).generate_assignment(name)
        if not done["success"]:
            raise RuntimeError(f"{name}: {done.get('log')}\n{done.get('error')}")
        paths = [course / step / name / f"{name}.ipynb" for step in ("source", "release")]
        if found := leaks(*(nbformat.read(path, as_version=4) for path in paths)):
            paths[1].unlink()
            raise RuntimeError(f"{name} would show: {'; '.join(found)}")
    return names


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("course", nargs="?", type=Path, default=HERE, help="folder of the course; by default this one")
    course = parser.parse_args().course.resolve()
    names = release(course)
    if not names:
        sys.exit(f"There is no assignment in {course / 'source'}.")
    print(f"{len(names)} assignments in {course / 'release'}: {', '.join(names)}")


if __name__ == "__main__":
    main()
