"""What nbgrader does with one submission here: put its answers into the released notebook, run it, run the tests.

The tests run in the grader's process, never in the submission's. A test that names something of the submission gets its
value, or a stand-in that calls the function over there. So a submission cannot read a test, patch it or fake a verdict.
"""

import base64
import builtins
import contextlib
import copy
import io
import re
import stat
import symtable
from collections import Counter, defaultdict
from pathlib import Path
from urllib.parse import unquote

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import is_grade, is_locked, is_solution
from traitlets import Float, Integer, Unicode

from posenc_lib.exercises.graded import student_number
from sandbox import LARGEST_ERROR, LARGEST_TEXT, MEGABYTE, ConfinedKernel, readable

HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS\n(.*?)### END HIDDEN TESTS", re.DOTALL)


PICTURES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
LINKED = re.compile(r"!\[[^\]\n]*\]\(([^()\s:]+)\)")  # ![words](file)
LARGEST_SOURCE = 200_000  # characters of a cell
LARGEST_PICTURES = 20 * MEGABYTE  # that lie beside a notebook
MOST_NOTES = 12


class PutIntoReleased(NbGraderPreprocessor):
    """The released notebook with the submission's answers; cells that the student added stay where they were."""

    released = Unicode("release", help="folder of the released assignments").tag(config=True)

    def preprocess(self, nb, resources):
        """What nbconvert calls."""
        names = resources["nbgrader"]
        path = f"{self.released}/{names['assignment']}/{names['notebook']}.ipynb"
        return put_into(nbformat.read(path, as_version=4), nb), resources


def put_into(released: NotebookNode, submitted: NotebookNode) -> NotebookNode:
    """``released`` with the answers and the added cells of ``submitted``; what was noticed stands in its metadata."""
    known = {identity(cell): cell for cell in released.cells if identity(cell)}
    handed_in, added, last = {}, defaultdict(list), None  # added cells by the teacher's cell above them
    for cell in submitted.cells:
        name, cell = identity(cell), taken_over(cell)
        if name in known and name not in handed_in:
            handed_in[name], last = cell, name
        else:
            added[last].append(cell)

    notes, above = [], None
    for name, cell in known.items():
        if name not in handed_in:
            notes.append(f"cell {name} was deleted")
        elif is_solution(cell) and cell.cell_type == "markdown" and same_text(handed_in[name], cell):
            if beside := [extra for extra in added[above] + added[name] if extra.source.strip()]:
                handed_in[name] = together(beside)
                added[above], added[name] = [], []
                notes.append(f"the answer of {name} stood in another cell and was put where it belongs")
        elif not is_solution(cell) and not same_text(handed_in[name], cell):
            notes.append(f"cell {name} was changed")
        above = name

    result = copy.deepcopy(released)
    result.cells = added[None]
    for name, cell in known.items():
        cell = copy.deepcopy(cell)
        if name in handed_in and is_solution(cell):
            cell.source = handed_in[name].source
            if "attachments" in handed_in[name]:
                cell.attachments = handed_in[name].attachments
        result.cells += [cell, *added[name]]
    for number, cell in enumerate(result.cells):
        cell.id = f"cell-{number}"
    result.metadata["grading"] = {"notes": notes}
    return result


def taken_over(cell: NotebookNode) -> NotebookNode:
    """A new cell with the text of a student's cell, and its pictures."""
    source = readable(cell.source, LARGEST_SOURCE)
    if cell.cell_type == "code":
        return new_code_cell(source)
    copied, pictures = new_markdown_cell(source), {}
    for name, kinds in dict(cell.get("attachments") or {}).items():
        kept = {kind: data for kind, data in dict(kinds).items() if kind in PICTURES.values() and isinstance(data, str)}
        if kept:
            pictures[readable(name, 200)] = kept
    if pictures:
        copied.attachments = NotebookNode(pictures)
    return copied


def together(cells: list[NotebookNode]) -> NotebookNode:
    """One text cell with what stands in several."""
    joined = new_markdown_cell("\n\n".join(cell.source for cell in cells))
    if pictures := {name: data for cell in cells for name, data in cell.get("attachments", {}).items()}:
        joined.attachments = NotebookNode(pictures)
    return joined


def same_text(cell: NotebookNode, other: NotebookNode) -> bool:
    """Whether two cells say the same, whatever their lines end with."""
    lines, others = ([line.rstrip() for line in one.source.strip().splitlines()] for one in (cell, other))
    return lines == others


def with_pictures(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """``notebook``, in which pictures that lie beside it, in ``folder``, have become attachments of its text cells."""
    room = LARGEST_PICTURES  # of all together
    for cell in notebook.cells:
        for link in dict.fromkeys(LINKED.findall(cell.source) if cell.cell_type == "markdown" else []):
            name = unquote(link)
            kind, path = PICTURES.get(Path(name).suffix.lower()), folder / name
            try:
                if kind is None or path.parent != folder or not stat.S_ISREG(path.lstat().st_mode):
                    continue
                data = base64.b64encode(path.read_bytes()).decode() if path.stat().st_size <= room else ""
            except (OSError, ValueError):
                continue
            room -= len(data)
            cell.setdefault("attachments", NotebookNode())[name] = {kind: data}
            cell.source = cell.source.replace(f"]({link})", f"](attachment:{name})")
    return notebook


def identity(cell: NotebookNode) -> str | None:
    """The name of a cell that came from the teacher, as far as its metadata can be believed."""
    label = cell.metadata.get("nbgrader")
    name = label.get("grade_id") if isinstance(label, dict) else None
    return name if isinstance(name, str) else None


class RunAndTest(NbGraderPreprocessor):
    """Runs the cells of the submission in a confined kernel and the locked cells here."""

    seconds = Float(30, help="that a cell, or the call of a function, may take").tag(config=True)
    memory = Integer(4096, help="megabytes of address space of the submission's process").tag(config=True)

    def preprocess(self, nb, resources):
        """What nbconvert calls."""
        names = resources["nbgrader"]
        with Gradebook(names["db_url"]) as gradebook:
            sources = {
                cell.name: cell.source
                for cell in gradebook.find_notebook(names["notebook"], names["assignment"]).source_cells
                if cell.locked
            }
        with ConfinedKernel(self.seconds, self.memory * MEGABYTE) as kernel:
            tests = Tests(kernel)
            for cell in nb.cells:
                if cell.cell_type != "code":
                    continue
                kernel.place = f"cell {identity(cell) or 'of the student'}"
                if is_locked(cell):
                    source = sources[cell.metadata.nbgrader["grade_id"]]
                    if not is_grade(cell):
                        kernel.run(source)
                    cell.outputs = tests.run(source)
                else:
                    cell.outputs = kernel.run(cell.source)
            notes = kernel.notes + tests.later_number()
        grading = nb.metadata.setdefault("grading", {"notes": []})
        counted = Counter(grading["notes"] + notes)
        notes = [note if n == 1 else f"{note} ({n} times)" for note, n in counted.items()]
        more = [f"and {len(notes) - MOST_NOTES} more"] if len(notes) > MOST_NOTES else []
        grading |= {"notes": notes[:MOST_NOTES] + more, "number": tests.student}
        return nb, resources


class Tests:
    """The locked cells of an assignment, run in this process on the functions and values of a submission.

    The student number is the one that stands there when a locked cell first asks for it, whatever becomes of it later.
    """

    def __init__(self, kernel: ConfinedKernel):
        self.kernel, self.namespace, self.made = kernel, {"__name__": "__main__"}, set()
        self.student: int | str | None = None

    def run(self, source: str) -> list[NotebookNode]:
        """The outputs of a locked cell: what it printed, and its error without the lines of the test.

        Where the visible part fails, the hidden part is asked too: it knows the names of the mistakes.
        """
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            stops = len(self.kernel.notes)
            error, hidden, more = self._failure(source), HIDDEN.search(source), None
            if hidden and isinstance(error, AssertionError) and len(self.kernel.notes) == stops:
                more = self._failure(hidden[1])
        said = (str(e) for e in (error, more) if isinstance(e, AssertionError) or e is error)
        words = "\n".join(dict.fromkeys(readable(text, LARGEST_ERROR) for text in said))
        text = readable(printed.getvalue(), LARGEST_TEXT)
        outputs = [new_output("stream", name="stdout", text=text)] if text else []
        if error:
            name = type(error).__name__
            outputs.append(new_output("error", ename=name, evalue=words, traceback=[f"{name}: {words}"]))
        return outputs

    def _failure(self, source: str) -> Exception | None:
        """Run ``source`` with what it names of the submission; the error that it ended with."""
        used, made = names(source)
        self.made |= made
        try:
            for name in used - self.made - vars(builtins).keys():
                self.namespace[name] = self._number() if name == "STUDENT" else self.kernel.look_up(name)
            exec(compile(source, "<test>", "exec"), self.namespace)
        except Exception as error:
            return error
        return None

    def _number(self) -> object:
        """The student number; what is none is left to ``own`` to refuse."""
        if self.student is not None:
            return self.student
        number = self.kernel.look_up("STUDENT")
        with contextlib.suppress(TypeError, ValueError):
            student_number(number)
            self.student = number
        return number

    def later_number(self) -> list[str]:
        """A note, if the submission ends with another student number than the one it was graded with."""
        try:
            last = self.kernel.look_up("STUDENT")
        except Exception:
            return []
        changed = self.student is not None and (type(last) is not type(self.student) or last != self.student)
        return [f"the student number was changed later, to {readable(repr(last), 40)}"] if changed else []


def names(source: str) -> tuple[set[str], set[str]]:
    """The names that ``source`` asks the module for, also from within functions, and those that it gives the module."""
    module = symtable.symtable(source, "<test>", "exec")
    scopes = [module]
    for scope in scopes:
        scopes += scope.get_children()
    asked = [s for scope in scopes for s in scope.get_symbols() if scope is module or s.is_global()]
    given = [s for s in module.get_symbols() if s.is_assigned() or s.is_imported()]
    return {s.get_name() for s in asked if s.is_referenced()}, {s.get_name() for s in given}
