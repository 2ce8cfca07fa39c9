"""The folded solutions pass their checks, and every mistake that a check claims to recognize is recognized."""

import importlib
import pkgutil
import re
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest

from posenc_lib import exercises
from posenc_lib.exercises.check import Check

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
SOLUTION = re.compile(r"<summary>Solution</summary>.*?```python\n(.*?)```", re.DOTALL)

CHECKS = {
    f"{info.name}.{name}": value
    for info in pkgutil.iter_modules(exercises.__path__)
    for name, value in vars(importlib.import_module(f"posenc_lib.exercises.{info.name}")).items()
    if isinstance(value, Check)
}


def exercises_of(path):
    """(solution code, code of the stub cell) of each exercise, and the code of the setup cell."""
    cells = nbformat.read(path, 4).cells
    setup = next(c.source for c in cells if c.cell_type == "code")
    pairs = []
    for cell, following in pairwise(cells):
        if cell.cell_type == "markdown" and (found := SOLUTION.search(cell.source)):
            pairs.append((found[1], following.source))
    return setup, pairs


def checks_called(source):
    return re.findall(r"^(check_\w+)\((\w+)\)", source, re.MULTILINE)


def test_there_are_notebooks_and_checks():
    assert NOTEBOOKS
    assert CHECKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_solutions_pass(path):
    setup, pairs = exercises_of(path)
    assert 2 <= len(pairs) <= 4
    for solution, stub in pairs:
        namespace = {}
        exec(setup, namespace)
        (check, function), *more = checks_called(stub)
        assert not more
        exec(solution, namespace)
        assert namespace[check].verdict(namespace[function]).passed


def test_every_check_is_used_in_exactly_one_notebook():
    used = [name for path in NOTEBOOKS for _, stub in exercises_of(path)[1] for name, _ in checks_called(stub)]
    assert sorted(used) == sorted(name.split(".")[1] for name in CHECKS)


@pytest.mark.parametrize("name", CHECKS)
def test_reference_passes(name):
    check = CHECKS[name]
    assert check.verdict(check.reference).passed


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name, check in CHECKS.items() for number in range(len(check.mistakes))]
)
def test_mistake_is_recognized(name, number):
    message, wrong = CHECKS[name].mistakes[number]
    assert CHECKS[name].verdict(wrong).message == f"not yet: {message}"


@pytest.mark.parametrize("name", CHECKS)
def test_stub_is_not_done(name):
    assert CHECKS[name].verdict(lambda *args: None).message.startswith("not done yet")
