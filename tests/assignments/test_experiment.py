"""Assignment 6: tables of results are checked by training again, for every student number."""

import contextlib
import copy
import functools
import io

import nbformat
import pytest

import release
from submission import Tests, identity

pytestmark = pytest.mark.xdist_group("experiment")  # trained once

NUMBERS = range(1, 10_001)


class Submission:
    """What ``Tests`` asks of a kernel, from a dictionary."""

    def __init__(self, names):
        self.names, self.notes = names, []

    def look_up(self, name):
        return self.names[name]


@pytest.fixture(scope="module")
def cells():
    """The sources of the master, with trainings of two steps."""
    path = f"{release.HERE}/source/06_experiment/06_experiment.ipynb"
    sources = {identity(cell): cell.source for cell in nbformat.read(path, as_version=4).cells}
    assert sources["setup"].count("STEPS = 16, 16, (16, 32, 64), 200") == 1
    sources["setup"] = sources["setup"].replace("(16, 32, 64), 200", "(16, 32, 64), 2")
    return sources


def submission(cells, number, *more):
    """The names of a notebook with a student number, after the cells up to the trainings and some more."""
    names = {}
    cells = cells | {"student": f"STUDENT = {number}"}
    with contextlib.redirect_stdout(io.StringIO()):
        for name in ("setup", "student", "mine", "training", *more):
            exec(cells[name], names)
    return names


def verdict(cells, names):
    """The error of the test of the tables, empty if they pass."""
    tests = Tests(Submission(names))
    for name in ("setup", "mine", "training"):
        tests.run(cells[name])
    return "".join(output.evalue for output in tests.run(cells["results-test"]) if output.output_type == "error")


@pytest.fixture(scope="module")
def honest(cells):
    tables = ("table", "results_first", "results_second", "results_none")
    return functools.cache(lambda number: submission(cells, number, *tables))


@pytest.mark.parametrize("number", [1, 4711, 9999])
def test_tables_of_trainings_pass(cells, honest, number):
    assert not verdict(cells, honest(number))


def test_tables_of_ones_do_not_pass(cells, honest):
    names = dict(honest(4711))
    for name in ("results_first", "results_second", "results_none"):
        names[name] = {key: [1.0] * 3 for key in (16, 32, 64, "loss")}
    assert "in your table" in verdict(cells, names)


@pytest.mark.parametrize(("name", "index"), [("results_first", 0), ("results_second", 1), ("results_none", 2)])
@pytest.mark.parametrize("key", [16, 32, 64, "loss"])
def test_no_number_of_a_table_can_be_another(cells, honest, name, index, key):
    names = dict(honest(4711))
    names[name] = copy.deepcopy(names[name])
    names[name][key][index] += 0.01
    assert f"seed {names['SEEDS'][index]}, {key}:" in verdict(cells, names)


def test_tables_of_another_student_do_not_pass(cells, honest):
    names = dict(honest(4711)) | {name: value for name, value in honest(4712).items() if name.startswith("results")}
    assert "in your table" in verdict(cells, names)


def test_every_training_that_a_number_asks_for_runs(cells):
    asked = {}
    for number in NUMBERS:
        names = submission(cells | {"setup": "from posenc_lib.exercises.graded import own", "training": ""}, number)
        mine = names["mine"]
        asked |= {(name, mine.back): mine.seed for name in (mine.first, mine.second, "NoPosition")}
    assert len(asked) == 8 * 5  # schemes, distances
    run = submission(cells, 1)["run"]
    for (name, back), seed in asked.items():
        found = run(name, seed, 1, back)
        assert all(0 <= found[n] <= 1 for n in (16, 32, 64)) and found["loss"] > 0
