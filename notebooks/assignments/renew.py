"""New expected values for a master in which numbers of visible cases, or seeds, were changed:

    python renew.py NOTEBOOK [--seeds N] [--write]

runs the master with its own solutions. What a visible test has written down as results is compared with what the
hidden part of the same cell computes for the visible cases: the right results with its reference (with the solution,
where there is none), those of a mistake with its mistake of the same message. Numbers that no longer agree are
replaced; --seeds adds N to the seeds of the hidden parts. Then the master is run once more. Without --write the changes
are only shown.
"""

import argparse
import ast
import contextlib
import copy
import difflib
import inspect
import io
import itertools
import json
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import torch
from nbformat import NotebookNode
from torch import Tensor

from posenc_lib.exercises.check import Check
from posenc_lib.exercises.graded import require, require_answer

BEGIN, END = "### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS"
RIGHT = "the right results"
Edits = list[tuple[ast.expr, str]]  # parts of a cell's source and what shall stand there


@dataclass
class Test:
    """A check that a cell made, or an answer that it compared: then a check of one case without arguments."""

    cell: str
    hidden: bool
    check: Check
    failure: str  # why the solution does not pass; empty if it does
    written: list[tuple[str, object, ast.expr | None]]  # message, value and source of results that are written down
    functions: list[tuple[str, Callable]]  # message and function of those that are not, at last the solution

    def results(self, function: Callable) -> list:
        """What a function gives for the cases."""
        return [function(*copy.deepcopy(case)) for case in self.check.cases]


@dataclass
class Renewal:
    """The code cells of a master by name, what is left to the teacher, and what is wrong with it now."""

    cells: dict[str, str]
    by_hand: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def read(path: Path) -> tuple[NotebookNode, dict[str, NotebookNode]]:
    """A master and its code cells by name.

    Raises:
        ValueError: if it is none.
    """
    try:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
    except Exception as error:
        raise ValueError(f"{path} is not a notebook: {type(error).__name__}") from None
    cells, tests = {}, 0
    for number, cell in enumerate(notebook.cells, start=1):
        if cell.cell_type == "code":
            label = cell.metadata.get("nbgrader", {})
            cells[f"{label.get('grade_id', 'without a name')} (cell {number})"] = cell
            tests += label.get("grade", False)
    if not tests:
        raise ValueError(f"{path} has no tests: none of its code cells has points")
    return notebook, cells


def hidden_lines(source: str) -> range:
    """The lines of a cell that only the grader sees, counted from 1."""
    lines = source.split("\n")
    return range(lines.index(BEGIN) + 1, lines.index(END) + 1) if BEGIN in lines else range(0)


def argument(call: ast.Call, function: Callable, name: str) -> ast.expr | None:
    """The source of an argument of a call."""
    index = list(inspect.signature(function).parameters).index(name)
    named = (keyword.value for keyword in call.keywords if keyword.arg == name)
    return next(named, call.args[index] if index < len(call.args) else None)


def run(cells: dict[str, str]) -> list[Test]:
    """Run a master and collect its tests. One that does not pass is noted and stops nothing.

    Raises:
        RuntimeError: if a cell fails for another reason.
    """
    tests, calls = [], []

    def called(number: int, function: Callable, *positional, **named):
        """What every call of Check, require and require_answer becomes."""
        cell, call = calls[number]
        given = inspect.signature(function).bind(*positional, **named).arguments
        if function is Check:
            check = Check(**given)
            check.call = call
            return check
        failure = ""
        try:
            function(**given)
        except AssertionError as error:
            failure = str(error)
        if function is require:
            check, solution, right = given["check"], given["candidate"], "reference"
            call, function = check.call, Check
        else:
            mistakes = [(message, [wrong]) for message, wrong in given.get("mistakes", ())]
            check = Check(given["name"], [given["expected"]], [()], mistakes, given.get("tolerance", 1e-9))
            solution, right = (lambda: given["answer"]), "expected"
        nodes = [argument(call, function, right)]
        pairs = getattr(argument(call, function, "mistakes"), "elts", [])
        nodes += [pair.elts[1] if isinstance(pair, ast.Tuple) else None for pair in pairs]
        nodes += [None] * (1 + len(check.mistakes) - len(nodes))  # where the mistakes stand elsewhere
        values = [(RIGHT, check.reference), *check.mistakes]
        functions = [(message, value) for message, value in values if callable(value)]
        if function is require_answer:
            nodes = [node and ast.List([node]) for node in nodes]
            functions = [(message, lambda value=value: value[0]) for message, value in values]
        written = [(*pair, node) for pair, node in zip(values, nodes, strict=True) if not callable(pair[1])]
        hidden = call.lineno in hidden_lines(cells[cell])
        tests.append(Test(cell, hidden, check, failure, written, [*functions, ("", solution)]))

    namespace = {"__name__": "__main__", "__called__": called}
    for cell, source in cells.items():
        try:
            tree = ast.parse(source)
            for node in list(ast.walk(tree)):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Check", "require", "require_answer"):
                    calls.append((cell, copy.copy(node)))
                    node.args = [ast.Constant(len(calls) - 1), node.func, *node.args]
                    node.func = ast.Name("__called__", ast.Load())
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(ast.fix_missing_locations(tree), cell, "exec"), namespace)
        except Exception as error:
            raise RuntimeError(f"{cell} fails: {type(error).__name__}: {error}") from error
    return tests


def plain(value: object) -> object:
    """Tensors as lists and numbers."""
    return [plain(x) for x in value] if isinstance(value, list | tuple) else getattr(value, "tolist", lambda: value)()


def agree(left: object, right: object, tolerance: float) -> bool:
    """Whether results are the same words, or numbers within ``tolerance``, in the same shape."""
    left, right = plain(left), plain(right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(agree(a, b, tolerance) for a, b in zip(left, right, strict=True))
    if isinstance(left, list | str) or isinstance(right, list | str):
        return left == right
    return abs(left - right) <= tolerance


def too_fine(value: Tensor, tolerance: float) -> bool:
    """Whether float32, which torch.tensor makes of floats, is off by more than half of ``tolerance``."""
    return value.is_floating_point() and bool(((value.float() - value.double()).abs() > tolerance / 2).any())


def text(value: object, tolerance: float) -> str:
    """Source for a value, with a digit more than ``tolerance`` asks for."""
    if isinstance(value, Tensor) and value.dim():
        return f"torch.tensor({text(plain(value), tolerance)}{', dtype=torch.float64' * too_fine(value, tolerance)})"
    if isinstance(value, list):
        return f"[{', '.join(text(x, tolerance) for x in value)}]"
    value = plain(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if not math.isfinite(value):
        raise ValueError(f"one of them is {value}")
    if isinstance(value, float):
        value = round(value, 1 + math.ceil(-math.log10(tolerance or 1e-16))) + 0.0  # no -0.0
    return f"{value:_}" if abs(value) >= 10_000 else repr(value)


def rewritten(node: ast.expr | None, old: object, new: object, tolerance: float) -> Iterator[tuple[ast.expr, str]]:
    """The parts of ``node``, whose value is ``old``, that must change for the value ``new``, and their text then."""
    if agree(old, new, tolerance):
        return
    if node is None or isinstance(node, ast.Name):
        raise ValueError(f"should be {text(new, tolerance)}, and is written elsewhere than in the call")
    number, tensors = plain(new), isinstance(old, Tensor) and isinstance(new, Tensor) and new.dim() > 0
    if isinstance(node, ast.List) and isinstance(number, list) and len(node.elts) == len(old) == len(new):
        for parts in zip(node.elts, old, new, strict=True):
            yield from rewritten(*parts, tolerance)
    elif tensors and isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
        yield from rewritten(node.value, getattr(old, node.attr), getattr(new, node.attr), tolerance)
    elif tensors and isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.tensor":
        if node.keywords or not too_fine(new, tolerance):
            yield from rewritten(node.args[0], plain(old), number, tolerance)
        else:
            yield node.args[0], f"{text(number, tolerance)}, dtype=torch.float64"
    else:
        kind, short = type(plain(old)), text(new, tolerance)
        same_kind = kind in (bool, int, float) and isinstance(number, float | int) and kind(number) == number
        yield node, text(kind(number), tolerance) if same_kind else short  # 3.0 in the place of a 2 is written 3


def compare(test: Test, tests: list[Test]) -> tuple[Edits, list[str]]:
    """What must change in a visible test, and what the hidden ones do not tell."""
    edits, by_hand, tolerance = [], [], test.check.tolerance
    hidden = [t for t in tests if t.hidden and (t.cell, t.check.name) == (test.cell, test.check.name)]
    functions = [pair for t in hidden for pair in t.functions]
    if RIGHT not in dict(functions):
        functions.append((RIGHT, dict(test.functions)[""]))
    for message in dict.fromkeys(message for message, *_ in test.written):
        written, found = [(value, node) for m, value, node in test.written if m == message], []
        for _, function in (pair for pair in functions if pair[0] == message):
            with contextlib.suppress(Exception):  # it may be made for other cases than these
                found.append(test.results(function))
        old = [(value, node) for value, node in written if not any(agree(value, x, tolerance) for x in found)]
        new = [x for x in found if not any(agree(value, x, tolerance) for value, _ in written)]
        place = f"{test.cell}: {test.check.name}: {message}"
        if len(new) < len(old):  # it cannot be known which of them is which; mistakes of answers in a loop are not told
            by_hand += [place for _, node in old if node or test.check.cases != [()]]
            continue
        for (value, node), x in zip(old, new, strict=False):
            if isinstance(value, Tensor) and len({torch.as_tensor(result).shape for result in x}) == 1:
                x = torch.stack([torch.as_tensor(result) for result in x])
            try:
                edits += list(rewritten(node, value, x, tolerance))
            except ValueError as error:
                by_hand.append(f"{place}: {error}")
    return edits, by_hand


def replaced(source: str, edits: Edits) -> str:
    """``source`` with new text for some of its parts."""
    content = source.encode()  # ast counts bytes
    starts = list(itertools.accumulate((len(line) + 1 for line in content.split(b"\n")), initial=0))
    places = {
        (starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset): new.encode()
        for node, new in edits
    }
    for (start, end), new in sorted(places.items(), reverse=True):
        content = content[:start] + new + content[end:]
    return content.decode()


def seeds(cell: str, source: str) -> list[ast.expr]:
    """What stands for a seed in the hidden part of a cell, the mistakes left out.

    That is the argument of manual_seed, the argument ``seed`` of any function, and what a function of this cell gets
    for its parameter ``seed``, in a call or in the cases of a check.
    """
    tree, hidden, found = ast.parse(source, cell), hidden_lines(source), []
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    names = {function.name: [a.arg for a in function.args.args] for function in functions}
    place = {"manual_seed": 0} | {name: names[name].index("seed") for name in names if "seed" in names[name]}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.lineno in hidden]
    checks = [call for call in calls if ast.unparse(call.func) == "Check"]
    left_out = [id(n) for c in checks for n in ast.walk(argument(c, Check, "mistakes") or ast.Pass())]
    for call in (call for call in calls if id(call) not in left_out):
        name, given = ast.unparse(call.func).split(".")[-1], [call.args]
        if call in checks:
            name = getattr(argument(call, Check, "reference"), "id", "")
            given = [getattr(case, "elts", []) for case in getattr(argument(call, Check, "cases"), "elts", [])]
        index = place.get(name, math.inf)
        found += [x[index] for x in given if index < len(x) and not any(isinstance(y, ast.Starred) for y in x[:index])]
        found += [keyword.value for keyword in call.keywords if keyword.arg == "seed"]
    return found


def renew(cells: dict[str, str], by: int = 0) -> Renewal:
    """Renew the code cells of a master.

    Args:
        cells: their sources, by names.
        by: what is added to the seeds of the hidden parts.
    Raises:
        RuntimeError, SyntaxError: if a cell fails.
    """
    result, edits = Renewal(dict(cells)), {cell: [] for cell in cells}
    for cell, source in cells.items() if by else ():
        found = seeds(cell, source)
        literal = [node for node in found if isinstance(node, ast.Constant)]
        result.cells[cell] = replaced(source, [(node, str(node.value + by)) for node in literal])
        others = {ast.unparse(node) for node in found if node not in literal} - {"seed"}
        result.by_hand += [f"{cell}: the seed {seed} is computed, and stays" for seed in sorted(others)]
    before, tests = dict(result.cells), run(result.cells)
    for test in (test for test in tests if not test.hidden):
        more, by_hand = compare(test, tests)
        edits[test.cell] += more
        result.by_hand += by_hand
    result.cells = {cell: replaced(source, edits[cell]) for cell, source in before.items()}
    if result.cells != before:
        tests = run(result.cells)
    for test in tests:
        if test.failure:
            result.wrong.append(f"{test.cell}: {test.check.name}: {test.failure}")
        for (one, x, _), (two, y, _) in itertools.combinations([] if test.hidden else test.written, 2):
            if one != two and agree(x, y, test.check.tolerance):
                result.wrong.append(f"{test.cell}: {test.check.name}: the same results for {one!r} and {two!r}")
    return result


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebook", type=Path, help="a master")
    parser.add_argument("--seeds", type=int, default=0, metavar="N", help="to add to the seeds of the hidden parts")
    parser.add_argument("--write", action="store_true", help="change the notebook")
    options = parser.parse_args()
    try:
        notebook, cells = read(options.notebook)
        result = renew({name: cell.source for name, cell in cells.items()}, options.seeds)
    except (ValueError, RuntimeError, SyntaxError) as error:
        sys.exit(str(error))
    for name, cell in cells.items():
        old, cell.source = cell.source, result.cells[name]
        for line in difflib.unified_diff(old.split("\n"), cell.source.split("\n"), name, name, n=1, lineterm=""):
            print(line)
    if options.write:
        nbformat.write(notebook, options.notebook)
    if result.by_hand:
        print("Left to you (a mistake here has no partner in the hidden part: look at it if you changed its cases):")
        print(*dict.fromkeys(f"  {line}" for line in result.by_hand), sep="\n")
    if result.wrong:
        sys.exit("\n  ".join(["The renewed master does not pass:", *result.wrong]))
    print("The renewed master passes.")


if __name__ == "__main__":
    main()
