"""A master gets the expected values of its visible tests from its hidden ones."""

import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import renew
from submission import names

SOURCE = Path(renew.__file__).parent / "source"
MASTERS = sorted(SOURCE.glob("*/*.ipynb"))

SETUP = """\
import math
import torch
from posenc_lib.exercises.check import Check
from posenc_lib.exercises.graded import require, require_answer"""


def sources(path):
    return {name: cell.source for name, cell in renew.read(path)[1].items()}


def untrained(cells):
    """The cells that need no training of a model, not even by an earlier cell."""
    trained, kept = {"train"}, {}
    for cell, source in cells.items():
        asked, made = names(source)
        if (asked - made) & trained:
            trained |= made
        else:
            kept[cell] = source
    return kept


def small(right, case, results, mistakes="", hidden="", tolerance=1e-6, reference="f"):
    """A master with one question, whose solution is also the hidden reference."""
    return {
        "setup": SETUP,
        "solution": f"f = {right}",
        "test": f"require(Check('f', {results}, [({case},)], [{mistakes}], {tolerance}), f)\n"
        f"### BEGIN HIDDEN TESTS\n"
        f"require(Check('f', {reference}, [({case},)], [{hidden}]), f)\n"
        f"### END HIDDEN TESTS",
    }


def visible(cells):
    return cells["test"].split("\n")[0]


@pytest.mark.parametrize("path", MASTERS, ids=lambda path: path.stem)
def test_what_a_master_has_written_down_is_what_its_hidden_tests_compute(path):
    cells = untrained(sources(path))
    assert sum("HIDDEN TESTS" in source for source in cells.values()) >= 5
    result = renew.renew(cells)
    assert result.cells == cells
    assert result.wrong == []


def test_a_changed_case_changes_its_results_and_nothing_else(tmp_path, monkeypatch, capsys):
    path = tmp_path / "02_sinusoidal.ipynb"
    master = (SOURCE / "02_sinusoidal" / path.name).read_text()
    assert master.count("[(2, 4, 100.0)]") == 1
    path.write_text(changed := master.replace("[(2, 4, 100.0)]", "[(3, 4, 25.0)]"))

    monkeypatch.setattr(sys, "argv", ["renew.py", str(path)])
    renew.main()
    assert path.read_text() == changed
    shown = capsys.readouterr().out
    assert "+        [torch.tensor([-1.979985, -1.979985, 1.6506712, 1.6506712])]," in shown  # 2 cos 3, 2 cos 0.6
    assert shown.endswith("The renewed master passes.\n")

    monkeypatch.setattr(sys, "argv", ["renew.py", str(path), "--write"])
    renew.main()
    before, after = changed.split("\n"), path.read_text().split("\n")
    assert [after[i].strip() for i in range(len(after)) if after[i] != before[i]] == [
        r'"        [torch.tensor([-1.979985, -1.979985, 1.6506712, 1.6506712])],\n",',
        r'"                [torch.tensor([-0.9899925, -0.9899925, 0.8253356, 0.8253356])],\n",',
        r'"                [torch.tensor([-1.979985, 1.6506712, -1.979985, 1.6506712])],\n",',
    ]
    assert renew.renew(sources(path)).cells == sources(path)


@pytest.mark.parametrize("name", ["03_relative", "04_rope", "05_context"])
def test_a_master_passes_with_other_seeds(name):
    cells = sources(SOURCE / name / f"{name}.ipynb")
    result = renew.renew(cells, 1000)
    assert result.wrong == []
    assert sum(result.cells[cell] != cells[cell] for cell in cells) >= 2


@pytest.mark.parametrize(
    ("right", "case", "old", "new"),
    [
        ("lambda x: x", "3", "[1]", "[3]"),
        ("lambda x: x", "-3", "[1]", "[-3]"),
        ("lambda x: x", "3", "[-1]", "[3]"),
        ("lambda x: float(x)", "3", "[1]", "[3]"),
        ("lambda x: x", "3", "[1.5]", "[3.0]"),
        ("lambda x: 1 / x", "3", "[1.5]", "[0.3333333]"),
        ("lambda x: 1 / x", "3", "[1]", "[0.3333333]"),
        ("lambda x: 1000.0 * x", "30", "[2_000.0]", "[30_000.0]"),
        ("lambda x: x > 1", "3", "[False]", "[True]"),
        ("lambda x: torch.tensor(x)", "3", "[1]", "[3]"),
        ("lambda x: x", "-1e-12", "[1.5]", "[0.0]"),
        ("lambda x: [x, 2]", "3", "[[1, 2]]", "[[3, 2]]"),
        ("lambda x: (x, 2)", "3", "[[1, 2]]", "[[3, 2]]"),
        ("lambda x: torch.tensor([x, 2])", "2**25 + 1", "[torch.tensor([1, 2])]", "[torch.tensor([33_554_433, 2])]"),
        ("lambda x: torch.tensor([x, 2.0])", "3.5", "[torch.tensor([ 1.0,2 ])]", "[torch.tensor([ 3.5,2 ])]"),
        (
            "lambda x: torch.tensor([x, math.log(3)])",
            "0.5",
            "[torch.tensor([1.0, math.log(3)], dtype=torch.float64)]",
            "[torch.tensor([0.5, math.log(3)], dtype=torch.float64)]",
        ),
        (
            "lambda x: torch.tensor([x, 2 / 3], dtype=torch.float64)",
            "200 / 3",
            "[torch.tensor([1.0, 2.0])]",
            "[torch.tensor([66.6666667, 0.6666667], dtype=torch.float64)]",
        ),
        (
            "lambda x: torch.tensor([x], dtype=torch.float64)",
            "200 / 3",
            "[torch.tensor([1.0], dtype=torch.float64)]",
            "[torch.tensor([66.6666667], dtype=torch.float64)]",
        ),
        (
            "lambda x: torch.tensor([[x]], dtype=torch.float64)",
            "200 / 3",
            "[torch.eye(1)]",
            "[torch.tensor([[66.6666667]], dtype=torch.float64)]",
        ),
        ("lambda x: torch.arange(x)", "3", "[torch.tensor([0, 1])]", "[torch.tensor([0, 1, 2])]"),
        ("lambda x: torch.tensor(x)", "3", "[torch.tensor([1, 2])]", "[3]"),
        ("lambda x: x * torch.eye(2)", "3", "[torch.eye(2)]", "[torch.tensor([[3.0, 0.0], [0.0, 3.0]])]"),
        (
            "lambda x: torch.tensor([[1, x]]).T",
            "3",
            "[torch.tensor([[1, 2]]).T]",
            "[torch.tensor([[1, 3]]).T]",
        ),
        ("lambda x: x * torch.ones(2)", "3", "torch.tensor([[1.0, 2.0]])", "torch.tensor([[3.0, 3.0]])"),
        ("lambda x: x * torch.ones(2, 1)", "3", "torch.tensor([[[1.0, 2]]]).mT", "torch.tensor([[[3.0, 3.0]]]).mT"),
        ("lambda x: x * torch.ones(2)", "3", "torch.tensor([[1.0]])", "torch.tensor([[3.0, 3.0]])"),
        ("torch.arange", "3,), (1", "torch.tensor([[1], [2]])", "[torch.tensor([0, 1, 2]), torch.tensor([0])]"),
    ],
)
def test_every_form_keeps_its_form(right, case, old, new):
    for results, mistakes in ((f"{old}", ""), ("lambda x: torch.as_tensor(f(x)) + 1", f"('größer', {old})")):
        cells = small(right, case, results, mistakes, f"('größer', {right})", reference=f"({right})")
        result = renew.renew(cells)
        assert visible(result.cells) == visible(cells).replace(old, new)
        assert result.cells["test"].split("\n")[1:] == cells["test"].split("\n")[1:]
    assert renew.renew(small(right, case, new)).wrong == []


@pytest.mark.parametrize(
    ("old", "right", "new"),
    [
        ('"left"', "'right'", '"right"'),
        ("2.5", "7.0", "7.0"),
        ("torch.tensor([1, 2])", "(1, 3)", "torch.tensor([1, 3])"),
    ],
)
def test_answers_are_renewed_too(old, right, new):
    cells = {
        "setup": SETUP,
        "test": f"answer = torch.tensor({right}) if 'tensor' in '{old}' else {right}\n"
        f"require_answer('answer', answer, {old}, [('the old one', 'x')])\n"
        f"### BEGIN HIDDEN TESTS\nrequire_answer('answer', answer, answer, [('the old one', {old})])\n"
        f"### END HIDDEN TESTS",
    }
    result = renew.renew(cells)
    assert result.cells["test"].split("\n")[1] == f"require_answer('answer', answer, {new}, [('the old one', {old})])"
    assert result.wrong == []


def test_without_a_function_in_the_hidden_part_the_solution_gives_the_results():
    cells = small("lambda x: 3 * x", "5", "[9]", hidden="('one', [50]), ('another', [50])", reference="[15]")
    result = renew.renew(cells)
    assert visible(result.cells) == visible(cells).replace("[9]", "[15]")
    assert (result.by_hand, result.wrong) == ([], [])


def test_a_check_has_its_partner_in_the_same_cell_and_under_the_same_name():
    cells = small("lambda x: 3 * x", "5", "[9]")
    other = cells["test"].replace("'f'", "'g'").replace(", f", ", abs")
    two = "\n".join(
        [visible(cells), visible({"test": other}), *other.split("\n")[1:-1], *cells["test"].split("\n")[2:]]
    )
    result = renew.renew(cells | {"before": other.replace("'g'", "'f'"), "two": two})
    assert visible(result.cells) == visible(cells).replace("[9]", "[15]")
    assert result.cells["before"].startswith("require(Check('f', [5]")
    assert [line[:21] for line in result.cells["two"].split("\n")[:2]] == [
        "require(Check('f', [1",
        "require(Check('g', [5",
    ]


def test_functions_may_write_into_the_cases():
    mistakes = "('four times', [torch.tensor([4.0])])"
    cells = small("lambda x: x.mul_(2)", "torch.ones(1)", "[torch.tensor([2.0])]", mistakes, "('four times', four)")
    cells["solution"] += "\nfour = lambda x: x.mul_(4)"
    assert renew.renew(cells).cells == cells


def test_of_answers_in_a_loop_only_the_wrong_ones_are_told():
    loop = "for name, x, right, wrong in (('a', 1, 1, [('m', 2)]), ('b', 3, 4, [('m', 2)])):\n"
    cells = {"setup": SETUP, "test": loop + "    require_answer(name, x, right, wrong)"}
    result = renew.renew(cells)
    assert result.cells == cells
    assert result.by_hand == ["test: b: the right results: should be 3, and is written elsewhere than in the call"]
    assert result.wrong == ["test: b: not yet: b is not right"]


def test_arguments_may_be_named():
    cells = small("lambda x: 3 * x", "5", "[15]")
    cells["test"] = cells["test"].replace("[15], [(5,)], []", "cases=[(5,)], mistakes=[('less', [1])], reference=[9]")
    cells["test"] = cells["test"].replace("f, [(5,)], []", "f, [(5,)], mistakes=[('less', lambda x: x)]")
    cells["test"] = cells["test"].replace(", 1e-06", "")
    result = renew.renew(cells)
    assert "mistakes=[('less', [5])], reference=[15])" in visible(result.cells)
    assert result.wrong == []


def test_what_cannot_be_computed_is_left_alone_and_told():
    mistakes = "('alone', [1]), ('twice', [2]), ('twice', [3]), ('fails', [4]), ('no number', [5.0]), ('named', old)"
    hidden = (
        "('twice', lambda x: 10), ('fails', lambda x: x[0]), ('no number', lambda x: math.nan), ('named', lambda x: 7)"
    )
    cells = small("lambda x: x", "9", "[9]", mistakes, hidden)
    cells["solution"] += "\nold = [6]"
    result = renew.renew(cells)
    assert result.cells == cells
    assert result.by_hand == [
        "test: f: alone",
        "test: f: twice",
        "test: f: twice",
        "test: f: fails",
        "test: f: no number: one of them is nan",
        "test: f: named: should be [7], and is written elsewhere than in the call",
    ]


def test_mistakes_that_stand_elsewhere_are_told_too():
    cells = small("lambda x: x", "9", "[9]", "*common")
    cells["solution"] += "\ncommon = [('shared', [6])]"
    assert renew.renew(cells).by_hand == ["test: f: shared"]


def test_one_mistake_of_two_with_the_same_message_may_have_no_partner():
    cells = small("lambda x: x", "9", "[9]", "('same', [1]), ('same', [10])", "('same', lambda x: x + 1)")
    result = renew.renew(cells)
    assert (result.cells, result.by_hand) == (cells, ["test: f: same"])
    cells = small("lambda x: x", "9", "[9]", "('same', [1]), ('same', [2])", "('same', min), ('same', lambda x: 18)")
    assert renew.renew(cells).by_hand == ["test: f: same"] * 2  # min does not take a number
    cells = small("lambda x: x", "9", "[9]", "('same', [1]), ('same', [18])", "('same', lambda x: 18), ('same', int)")
    cells["test"] = cells["test"].replace("int)", "lambda x: 8)")
    assert "('same', [8]), ('same', [18])" in visible(renew.renew(cells).cells)


def test_cases_that_do_not_tell_mistakes_apart_are_told():
    mistakes = "('squared', [9]), ('doubled', [6]), ('doubled', [6]), ('plus itself', [7])"
    hidden = "('squared', lambda x: x * x), ('doubled', lambda x: 2 * x), ('plus itself', lambda x: x + x)"
    result = renew.renew(small("lambda x: x * x", "0.5", "[9]", "('the half', [1.5])", "('the half', lambda x: x / 2)"))
    assert result.wrong == ["test: f: the same results for 'the right results' and 'the half'"]
    result = renew.renew(small("lambda x: -x", "3", "[-3]", mistakes, hidden))
    assert result.wrong == ["test: f: the same results for 'doubled' and 'plus itself'"] * 2
    assert "('plus itself', [6])" in visible(result.cells)


def test_a_master_that_does_not_pass_is_told():
    cells = small("lambda x: x", "9", "[9]", reference="lambda x: x + 1")
    result = renew.renew(cells)
    assert visible(result.cells) == visible(cells).replace("[9]", "[10]")
    assert result.wrong == ["test: f: f, case 1 of 1: the values differ, by 1 where they differ most"] * 2


SEEDED = """\
require(Check('f', [9], [(9,)]), f)
g = torch.Generator().manual_seed(1)
def draw(n, seed):
    return float(torch.rand(n, generator=torch.Generator().manual_seed(seed))[0])
def by_seed(x, seed=2):
    return x
### BEGIN HIDDEN TESTS
torch.manual_seed(3); g.manual_seed(4); draw(2, 5); draw(2, seed=6); draw(*(), 2, 7); draw(2, 8 + len('a'))
late = lambda seed: torch.Generator().manual_seed(seed)
cases = [(draw(2, 1_0),), (f(draw(9, 11)),)]
require(Check('f', f, cases, [('wrong', lambda x: draw(2, 12))]), f)
require(Check('f', by_seed, [(7, 13), (draw(2, 14), 17)], [('wrong', lambda x, y: x + draw(2, 15))]), lambda x, y: x)
### END HIDDEN TESTS
draw(2, 16)"""


def test_literal_seeds_of_hidden_parts_change_and_no_others():
    cells = {"setup": SETUP, "solution": "f = lambda x: x", "test": SEEDED}
    result = renew.renew(cells, 100)
    expected = SEEDED.replace("1_0)", "110)")
    for seed in (3, 4, 5, 11, 13, 14, 17):
        expected = re.sub(rf"\b{seed}\)", f"{100 + seed})", expected)
    assert result.cells == cells | {"test": expected.replace("seed=6", "seed=106")}
    assert result.by_hand == ["test: the seed 8 + len('a') is computed, and stays"]
    assert result.wrong == []
    assert renew.renew(cells).cells == cells


def notebook(path, *sources, grade=True):
    label = {"schema_version": 3, "grade": grade, "solution": False, "locked": True, "task": False, "points": 5}
    cells = [new_markdown_cell("text"), *(new_code_cell(source) for source in sources)]
    cells[-1].metadata["nbgrader"] = label | {"grade_id": "last"}
    nbformat.write(new_notebook(cells=cells), path)


@pytest.mark.parametrize(
    ("sources", "options", "message"),
    [
        (["1", "x = 1\n1 / 0"], [], "last (cell 3) fails: ZeroDivisionError: division by zero"),
        (["%matplotlib", "1"], [], "without a name (cell 2) fails: SyntaxError: invalid syntax (<unknown>, line 1)"),
        (["1", "assert 1 == 2, 'no'"], [], "last (cell 3) fails: AssertionError: no"),
        (["raise NotImplementedError"], [], "last (cell 2) fails: NotImplementedError: "),
        (["x = ("], ["--seeds", "1"], "'(' was never closed (last (cell 2), line 1)"),
        ([SETUP, "x = 2\nrequire_answer('x', 1, x)"], [], "The renewed master does not pass:\n  "),
    ],
)
def test_a_failing_cell_is_named(tmp_path, monkeypatch, sources, options, message):
    notebook(tmp_path / "a.ipynb", *sources)
    monkeypatch.setattr(sys, "argv", ["renew.py", str(tmp_path / "a.ipynb"), *options])
    with pytest.raises(SystemExit, match="^" + re.escape(message)):
        renew.main()


def test_what_is_no_master_is_refused(tmp_path):
    notebook(tmp_path / "a.ipynb", "1", grade=False)
    with pytest.raises(ValueError, match=r"a\.ipynb has no tests: none of its code cells has points"):
        renew.read(tmp_path / "a.ipynb")
    (tmp_path / "b.ipynb").write_text("hello")
    with pytest.raises(ValueError, match=r"b\.ipynb is not a notebook: NotJSONError"):
        renew.read(tmp_path / "b.ipynb")
    (tmp_path / "b.ipynb").write_text(
        '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{"cell_type": "code", "id": "a"}]}'
    )
    with pytest.raises(ValueError, match=r"b\.ipynb is not a notebook: .*ValidationError"):
        renew.read(tmp_path / "b.ipynb")
    with pytest.raises(ValueError, match=r"c\.ipynb is not a notebook: FileNotFoundError"):
        renew.read(tmp_path / "c.ipynb")
