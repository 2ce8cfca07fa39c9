"""The assignments are whole, and their released versions give nothing away."""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

import release

SOURCE = Path(release.HERE) / "source"
MASTERS = sorted(path.parent.name for path in SOURCE.glob("*/*.ipynb"))


@pytest.fixture(params=MASTERS)
def master(request):
    return nbformat.read(SOURCE / request.param / f"{request.param}.ipynb", as_version=4)


def labels(notebook):
    return [(cell, cell.metadata.get("nbgrader", {})) for cell in notebook.cells]


def test_there_are_at_least_six():
    assert len(MASTERS) >= 6


def test_points_add_to_100_and_some_are_given_by_hand(master):
    graded = [(cell.cell_type, label["points"]) for cell, label in labels(master) if label.get("grade")]
    assert sum(points for _, points in graded) == 100
    assert 15 <= sum(points for kind, points in graded if kind == "markdown") <= 30


def test_every_test_has_a_visible_and_a_hidden_part(master):
    for cell, label in labels(master):
        if label.get("grade") and cell.cell_type == "code":
            visible = release.SECRET.sub("", cell.source)
            assert any(word in visible for word in ("require", "assert")), label["grade_id"]
            assert cell.source.count("### BEGIN HIDDEN TESTS") == 1, label["grade_id"]
            assert any(word in release.SECRET.search(cell.source)[2] for word in ("require", "assert", "check_"))


def test_text_and_tests_are_locked_and_masters_have_no_outputs(master):
    names = [label["grade_id"] for _, label in labels(master) if label]
    assert len(names) == len(set(names))
    for cell, label in labels(master):
        assert label or cell.cell_type == "code"  # a free cell to try things in
        assert not label or label["locked"] != label["solution"]
        assert cell.cell_type == "markdown" or (not cell.outputs and cell.execution_count is None)


def test_the_readme_lists_every_graded_cell_with_its_points(master):
    readme = (Path(release.HERE) / "README.md").read_text()
    for _, label in labels(master):
        if label.get("grade"):
            by_hand = f"`{label['grade_id']}`, by hand, {label['points']} points:"
            assert (by_hand if label["solution"] else f"| `{label['grade_id']}` | {label['points']} |") in readme


def test_the_number_chooses_parameters_and_stays_hidden(master):
    sources = "\n".join(cell.source for cell in master.cells)
    assert "mine = own(\n    STUDENT" in sources or "mine = own(STUDENT" in sources


@pytest.mark.parametrize("name", MASTERS)
def test_a_released_version_shows_no_solution_and_no_hidden_test(course, name):
    built = course(name)
    assert all(len(lines) > 20 for lines in release.secrets(built.master))
    text = "\n".join(cell.source for cell in built.released.cells)
    assert release.leaks(built.master, built.released) == []
    assert "SOLUTION" not in text and "HIDDEN" not in text
    for cell, label in labels(built.released):
        if label.get("locked"):
            assert cell.metadata.editable is False and cell.metadata.deletable is False
        elif label.get("solution"):
            assert cell.metadata.get("editable", True) and cell.metadata.deletable is False
            assert "YOUR ANSWER HERE" in cell.source or "raise NotImplementedError" in cell.source


def test_a_hidden_test_that_was_not_taken_out_is_found():
    both = "assert f(1) == 2\n### BEGIN HIDDEN TESTS\nassert f(50) == 100\n### END HIDDEN TESTS"
    master = new_notebook(cells=[new_code_cell(both)])
    assert release.leaks(master, new_notebook(cells=[new_code_cell("assert f(1) == 2")])) == []
    assert release.leaks(master, master) == ["assert f(50) == 100"]


def test_a_leak_is_found():
    solved = "def f():\n    ### BEGIN SOLUTION\n    return 12345678\n    ### END SOLUTION"
    master = new_notebook(cells=[new_code_cell(solved, metadata={"nbgrader": {"solution": True}})])
    assert release.leaks(master, new_notebook(cells=[new_code_cell("def f():\n    pass")])) == []
    assert release.leaks(master, new_notebook(cells=[new_code_cell("x\nreturn 12345678")])) == ["return 12345678"]
    shown = new_code_cell("f()", outputs=[new_output("stream", text="12345678\n")])
    assert release.leaks(master, new_notebook(cells=[shown])) == ["an output"]


def test_an_assignment_that_would_give_something_away_is_not_released(small):
    told = "# Think of 6 * 7.\nanswer = 6 * 7"
    small.master.cells.append(new_code_cell(told))
    nbformat.write(small.master, small.root / "source" / "small" / "small.ipynb")
    with pytest.raises(RuntimeError, match=r"small would show: answer = 6 \* 7"):
        release.release(small.root)
    assert not (small.root / "release" / "small" / "small.ipynb").exists()
