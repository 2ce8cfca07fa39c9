"""What nbgrader does with one submission here: put its answers into the released notebook, run it, run the tests.

The tests run in the grader's process, never in the submission's. A test that names something of the submission gets its
value, or a stand-in that calls the function over there. So a submission cannot read a test, patch it or fake a verdict.
"""

import builtins
import contextlib
import copy
import io
import re
import symtable
from collections import defaultdict

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import is_grade, is_locked, is_solution
from traitlets import Float, Integer, Unicode

from sandbox import MEGABYTE, ConfinedKernel

HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS\n(.*?)### END HIDDEN TESTS", re.DOTALL)


class PutIntoReleased(NbGraderPreprocessor):
    """The released notebook with the submission's answers; cells that the student added stay where they were."""

    released = Unicode("release", help="folder of the released assignments").tag(config=True)

    def preprocess(self, nb, resources):
        """What nbconvert calls."""
        names = resources["nbgrader"]
        path = f"{self.released}/{names['assignment']}/{names['notebook']}.ipynb"
        return put_into(nbformat.read(path, as_version=4), nb), resources


def put_into(released: NotebookNode, submitted: NotebookNode) -> NotebookNode:
    """``released`` with the answers and the added cells of ``submitted``; what was altered is noted in its metadata."""
    known = {identity(cell): cell for cell in released.cells if identity(cell)}
    handed_in, added, last = {}, defaultdict(list), None
    for cell in submitted.cells:
        name = identity(cell)
        if name in known and name not in handed_in:
            handed_in[name], last = str(cell.source), name
        elif cell.cell_type == "code":
            added[last].append(new_code_cell(str(cell.source)))
        else:
            added[last].append(new_markdown_cell(str(cell.source)))

    result, notes = copy.deepcopy(released), []
    result.cells = added[None]
    for name, cell in known.items():
        cell = copy.deepcopy(cell)
        if name not in handed_in:
            notes.append(f"cell {name} was deleted")
        elif is_solution(cell):
            cell.source = handed_in[name]
        elif handed_in[name] != cell.source:
            notes.append(f"cell {name} was changed")
        result.cells += [cell, *added[name]]
    for number, cell in enumerate(result.cells):
        cell.id = f"cell-{number}"
    result.metadata["grading"] = {"notes": notes}
    return result


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
            number = tests.number()
        grading = nb.metadata.setdefault("grading", {"notes": []})
        grading["notes"] += kernel.notes
        grading["number"] = number
        return nb, resources


class Tests:
    """The locked cells of an assignment, run in this process on the functions and values of a submission."""

    def __init__(self, kernel: ConfinedKernel):
        self.kernel, self.namespace, self.made = kernel, {"__name__": "__main__"}, set()

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
        words = "\n".join(dict.fromkeys(str(e) for e in (error, more) if isinstance(e, AssertionError) or e is error))
        outputs = [new_output("stream", name="stdout", text=text)] if (text := printed.getvalue()) else []
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
                self.namespace[name] = self.kernel.look_up(name)
            exec(compile(source, "<test>", "exec"), self.namespace)
        except Exception as error:
            return error
        return None

    def number(self) -> int | None:
        """The student number that the submission states."""
        try:
            number = self.kernel.look_up("STUDENT")
        except Exception:
            return None
        return number if isinstance(number, int) else None


def names(source: str) -> tuple[set[str], set[str]]:
    """The names that ``source`` asks the module for, also from within functions, and those that it gives the module."""
    module = symtable.symtable(source, "<test>", "exec")
    scopes = [module]
    for scope in scopes:
        scopes += scope.get_children()
    asked = [s for scope in scopes for s in scope.get_symbols() if scope is module or s.is_global()]
    given = [s for s in module.get_symbols() if s.is_assigned() or s.is_imported()]
    return {s.get_name() for s in asked if s.is_referenced()}, {s.get_name() for s in given}
