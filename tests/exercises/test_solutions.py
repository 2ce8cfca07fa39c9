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
SOLUTION = re.compile(r"<details>\s*<summary>Solution</summary>(.*?)</details>", re.DOTALL)
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
CHECK = re.compile(r"^(check_\w+)\((\w+)\)", re.MULTILINE)

CHECKS = {
    f"{info.name}.{name}": value
    for info in pkgutil.iter_modules(exercises.__path__)
    for name, value in vars(importlib.import_module(f"posenc_lib.exercises.{info.name}")).items()
    if isinstance(value, Check)
}


def exercises_of(path):
    """(solution code, code of the stub cell) of each exercise, and the code of the setup cell.

    An exercise whose heading says "pen and paper" has no stub, and its solution need not be code.
    """
    cells = nbformat.read(path, 4).cells
    setup = next(c.source for c in cells if c.cell_type == "code")
    pairs, heading = [], ""
    for cell, following in pairwise(cells):
        if cell.cell_type == "markdown":
            for part in re.split(r"^(?=##+ [A-Z])", cell.source, flags=re.MULTILINE):
                heading = part.splitlines()[0] if part.startswith("##") else heading
                found = SOLUTION.search(part)
                if found and "pen and paper" not in heading.lower():
                    pairs.append((PYTHON.search(found[1])[1], following.source))
    return setup, pairs


def checks_called(source):
    return CHECK.findall(source)


def test_there_are_notebooks_and_checks():
    assert NOTEBOOKS
    assert CHECKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_solutions_pass(path):
    setup, pairs = exercises_of(path)
    second_edition = "## The picture that moves" in path.read_text(encoding="utf-8")
    assert 2 <= len(pairs) <= (5 if second_edition else 4)
    stubs = [c for c in nbformat.read(path, 4).cells if c.cell_type == "code" and CHECK.search(c.source)]
    assert len(stubs) == len(pairs), "a stub has no folded solution just above it"
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


def test_exercises_on_paper_have_no_stub(tmp_path):
    on_paper = "### Exercise 1 (5 minutes, Pen and Paper)\n<details>\n<summary>Solution</summary>\n\n$2$\n</details>\n"
    in_code = "<details><summary>Solution</summary>\n\n```python\n## one\nx = 1\n```\n</details>"
    markdown, code = nbformat.v4.new_markdown_cell, nbformat.v4.new_code_cell
    cells = [
        code("setup"),
        markdown(on_paper),
        markdown(f"{on_paper}\n### Exercise 2"),
        markdown(in_code),
        code("stub"),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "a.ipynb")
    assert exercises_of(tmp_path / "a.ipynb") == ("setup", [("## one\nx = 1\n", "stub")])


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
