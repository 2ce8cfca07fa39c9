"""What the notebooks say about trained models: of the committed results, and of one model that is trained here."""

from pathlib import Path

import numpy as np
import pytest
import torch

from posenc_lib.lab import TinyTransformer, accuracy, induction, train
from posenc_lib.lab.claims import STATEMENTS, Statement, sure, values, whatever_rate, why_not
from posenc_lib.lab.contest import entries, outdated
from posenc_lib.lab.statistics import Cell, table
from posenc_lib.lab.trial import TASKS, TIMES
from posenc_lib.schemes.context_extension import yarn
from posenc_lib.schemes.rope import Rotary

CELLS = table(entries(Path(__file__).parents[2] / "notebooks" / "data" / "contest.jsonl"))
NAMES = [f"{s.topic}-{s.words}" for s in STATEMENTS]
SEEDS = (0, 1, 2, 3, 4)


def made(statement, above, below, met=True):
    """Cells in which the two sides of a statement have these values, and five seeds."""
    cells = {}
    for side, value in ((statement.above, above), (statement.below, below)):
        if isinstance(side, tuple):
            lengths = TASKS[statement.task].lengths(TASKS[statement.task].length)
            before = cells.get((side[0], statement.task))
            measures = before.measures if before else dict.fromkeys(lengths, (0.5,) * 5)
            measures = measures | {lengths[TIMES.index(side[1])]: tuple(value + 0.001 * n for n in SEEDS)}
            cells[side[0], statement.task] = Cell(side[0], statement.task, SEEDS, (met,) * 5, measures)
    return cells


def number(side, value):
    return value if isinstance(side, tuple) else side


@pytest.mark.parametrize("statement", STATEMENTS, ids=NAMES)
def test_a_statement_is_borne_out_by_the_committed_file_where_it_can_be_asked(statement):
    assert sure(statement, CELLS) is not False


@pytest.mark.parametrize("statement", STATEMENTS, ids=NAMES)
def test_a_statement_can_fail(statement):
    low, high = number(statement.below, 0.2), number(statement.above, 0.9)
    assert sure(statement, made(statement, high + 0.1, low - 0.1)) is True
    assert sure(statement, made(statement, low - 0.1, high + 0.1)) is False
    level = number(statement.above, number(statement.below, 0.5))
    assert sure(statement, made(statement, level, level)) is False  # level is not above
    reason = why_not(statement, made(statement, high + 0.1, low - 0.1, met=False))
    assert (reason is None) == statement.anyway


@pytest.mark.parametrize("statement", STATEMENTS, ids=NAMES)
def test_a_changed_file_is_noticed(statement):
    """The schemes of the file change places, or the better one is lowered to the worse."""
    if sure(statement, CELLS) is None:
        pytest.skip("cannot be asked yet")
    above, below = (values(side, statement.task, CELLS) for side in (statement.above, statement.below))
    cells = made(statement, 0.0, 0.0)
    for side, value in ((statement.above, below), (statement.below, above)):  # exchanged
        if isinstance(side, tuple):
            cell = cells[side[0], statement.task]
            length = list(cell.measures)[TIMES.index(side[1])]
            spoiled = tuple(np.broadcast_to(value, 5).tolist())
            cells[side[0], statement.task] = cell._replace(measures=cell.measures | {length: spoiled})
    assert sure(statement, cells) is False


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("other", ["T5Bias", "Alibi"])
def test_none_is_nowhere_surely_above_t5_or_alibi(task, other):
    """As the notebook says, at eight times the training length."""
    sides = (("NoPosition", 8), (other, 8))
    above, below = sides[::-1] if TASKS[task].bits else sides
    assert not sure(Statement("", "", task, above, below), CELLS)


def test_what_cannot_be_asked_says_why():
    statement = STATEMENTS[0]._replace(above=("Alibi", 1), below=0.5, task="copy back", anyway=False)
    assert why_not(statement, table([], ["Alibi"], ["copy back"])) == "Alibi: not trained yet"
    assert "takes no part" in why_not(statement, table([], ["Rotary"], ["copy back"]))
    assert sure(statement, table([], ["Rotary"], ["copy back"])) is None


@pytest.mark.parametrize("statement", STATEMENTS, ids=NAMES)
def test_another_rate_can_overturn_a_statement(statement):
    low, high = number(statement.below, 0.2), number(statement.above, 0.9)
    cells = made(statement, high + 0.1, low - 0.1)
    assert whatever_rate(statement, cells, {}) is None
    for side, worse in ((statement.above, low - 0.2), (statement.below, high + 0.2)):
        if isinstance(side, tuple):
            pair = side[0], statement.task
            n = list(cells[pair].measures)[TIMES.index(side[1])]
            assert whatever_rate(statement, cells, {pair: {0.01: {n: worse}}}) is False
            fair = number(side, float(np.mean(values(side, statement.task, cells))))
            assert whatever_rate(statement, cells, {pair: {0.01: {n: fair}}}) is True
    assert whatever_rate(statement, table([]), {}) is None


def test_the_committed_file_is_of_this_code():
    assert outdated(entries(Path(__file__).parents[2] / "notebooks" / "data" / "contest.jsonl")) == []


def test_rotary_loses_its_induction_beyond_the_training_length_and_by_parts_brings_it_back():
    torch.manual_seed(0)
    model = TinyTransformer(Rotary(16), vocabulary=64)
    train(model, induction, length=64, steps=600, learning_rate=4e-3)
    assert accuracy(model, induction, 64, batch=32) > 0.95
    assert accuracy(model, induction, 256, batch=24) < 0.4
    untouched = accuracy(model, induction, 128, batch=32)
    model.scheme = Rotary(16, rope_scaling=yarn(16, 1e4, 2, 64, beta_fast=4)._replace(attention_factor=1.0))
    assert accuracy(model, induction, 128, batch=32) > untouched + 0.3
