"""Means of 1 / rank: a count by hand, what a failure counts, who fails in a resample, who leads and how surely."""

import itertools
import math

import numpy as np
import pytest

from posenc_lib.lab.ranks import (
    FAILED,
    FEWEST,
    OF_TASKS,
    REDRAWN,
    Standing,
    fails,
    guesses,
    on_one_scale,
    ranked_in,
    reciprocal_ranks,
    standing,
)
from posenc_lib.lab.report import guessing
from posenc_lib.lab.statistics import MARGIN, RESAMPLES, Cell, resampled
from posenc_lib.lab.trial import TASKS

TASK, FAR = "passkey", 256


def cell(*values, scheme="A", met=None, task=TASK, length=FAR):
    return Cell(scheme, task, tuple(range(len(values))), met or (True,) * len(values), {length: values})


def by_hand(values):
    """1 / rank, one by one; None has no rank."""
    return [
        math.nan if mine is None else 1 / (1 + sum(other is not None and other > mine + MARGIN for other in values))
        for mine in values
    ]


@pytest.mark.parametrize("n", [2, 3, 5])
def test_ranks_are_those_of_a_count_by_hand(n):
    for values in itertools.islice(itertools.permutations([0.9, 0.895, 0.5, 0.51, 0.3, None], n), 200):
        cells = [None if value is None else cell(*[value] * 5) for value in values]
        if any(cells):
            found = reciprocal_ranks(cells, 8, "has no rank", resamples=2)
            assert found.shape == (3, n)
            assert found[0].tolist() == pytest.approx(by_hand(values), nan_ok=True)


def test_who_is_ahead_by_just_the_margin_is_level():
    """As "none" in passkey at twice the length: .99936 - .98936 is .01, and in float64 a little more."""
    behind, ahead = cell(0.9984, 1.0, 0.975, 0.9953, 0.9781), cell(1.0, 0.9984, 1.0, 1.0, 0.9984)
    gap = np.mean(ahead.measures[FAR]) - np.mean(behind.measures[FAR])
    assert MARGIN < gap < MARGIN + 1e-12
    assert reciprocal_ranks([behind, ahead], 8, "has no rank", resamples=1)[0].tolist() == [1.0, 1.0]


def test_bits_are_better_if_they_are_fewer():
    few, many = (cell(*[bits] * 5, task="next character", length=512) for bits in (2.1, 2.5))
    assert reciprocal_ranks([many, few], 8, "has no rank", resamples=1).tolist() == [[0.5, 1.0]] * 2
    assert not fails(many, 8) and not guesses(many, 8)


def test_who_needs_as_many_bits_as_letter_frequencies_fails():
    level = guessing("next character")
    for bits, out in ((level - 0.06, False), (level - 0.04, True), (level + 1, True)):
        one = cell(*[bits] * 5, task="next character", length=512)
        assert fails(one, 8) == guesses(one, 8) == out


def test_what_a_failure_counts():
    cells = [cell(*[0.9] * 5), cell(*[0.8] * 5, met=(True,) * 4 + (False,)), cell(*[0.7] * 5)]
    found = {failed: reciprocal_ranks(cells, 8, failed, resamples=1)[0].tolist() for failed in FAILED}
    assert found["has no rank"] == pytest.approx([1, math.nan, 1 / 2], nan_ok=True)
    assert found["counts 0"] == pytest.approx([1, 0, 1 / 2])
    assert found["is ranked"] == pytest.approx([1, 1 / 2, 1 / 3])
    assert np.isnan(found["is left out for all"]).all()


def test_bits_and_accuracies_on_one_scale():
    values = np.array([[0.2, 0.9]])
    assert on_one_scale("passkey", values) is values
    level = guessing("next character")
    bits = np.array([level, (level + FEWEST) / 2, FEWEST, level + 1])
    assert on_one_scale("next character", bits) == pytest.approx([0, 0.5, 1, 0])
    with pytest.raises(ValueError, match="task must be one of"):
        on_one_scale("chess", values)


def test_who_fails():
    level = guessing(TASK)
    assert not fails(cell(*[0.9] * 5), 8)
    assert fails(cell(*[0.9] * 5, met=(True,) * 4 + (False,)), 8)
    assert fails(cell(*[0.9] * 4), 8)  # too few seeds
    assert fails(cell(*[level + 0.04] * 5), 8) and guesses(cell(*[level + 0.04] * 5), 8)
    assert not fails(cell(*[level + 0.06] * 5), 8) and not guesses(cell(*[level + 0.06] * 5), 8)
    nobody = Cell("A", TASK, (), (), {})
    assert not fails(nobody, 8) and not guesses(nobody, 8)
    assert np.isnan(reciprocal_ranks([nobody, cell(*[0.9] * 5)], 8, "is left out for all", resamples=1)[:, 0]).all()


def test_who_fails_or_is_a_trained_rope_made_longer_is_not_ranked():
    cells = [
        cell(*[0.9] * 5, scheme="Alibi"),
        cell(*[0.9] * 5, scheme="Rotary", met=(True,) * 4 + (False,)),
        cell(*[0.02] * 5, scheme="Fire"),
        cell(*[0.9] * 5, scheme="Rotary, YaRN"),
    ]
    assert ranked_in({(one.scheme, TASK): one for one in cells}, TASK, 8) == cells[:1]


def test_in_a_resample_the_seeds_that_are_drawn_decide():
    values, met = (0.9, 0.8, 0.7, 0.6, 0.5), (True, True, True, True, False)
    found = reciprocal_ranks([cell(*[0.72] * 5), cell(*values, met=met)], 8, "counts 0", resamples=200)
    draws = resampled(5, 200, list(TASKS).index(TASK), side=1)
    for row, drawn in zip(found[1:].tolist(), draws.tolist(), strict=True):
        mean = sum(values[seed] for seed in drawn) / 5
        if 4 in drawn:
            assert row == [1, 0]
        else:
            assert row == by_hand([0.72, mean])
    assert len({tuple(row) for row in found.tolist()}) >= 3


def test_who_leads():
    first = np.array([[1, 0.5, np.nan], [1, 0.5, np.nan], [0.5, 1, np.nan]])
    second = np.array([[0.5, 0.5, np.nan], [0.5, 0.5, np.nan], [0.5, np.nan, np.nan]])
    found = standing([first, second])
    assert found.means.tolist() == pytest.approx([0.75, 0.5, math.nan], nan_ok=True)
    assert (found.first, found.share) == (0, 0.5)
    assert standing([second]).first is None
    assert standing([np.full((3, 2), np.nan)]).first is None
    assert isinstance(found, Standing)


def test_who_leads_if_tasks_are_drawn_again():
    """One by one: three tasks, three schemes, of which one has no rank in two of them."""
    first = [[1, 1 / 2, 1 / 3], [1 / 2, 1, 1 / 3], [1, 1 / 2, 1 / 3]]  # with other seeds the second leads
    seeds = np.array([first, [[1 / 2, 1, np.nan]] * 3, [[1, 0, np.nan]] * 3])
    every = np.concatenate([seeds[:, :1], np.tile(seeds[:, 1:], (1, 300, 1))], axis=1)
    for redrawn in REDRAWN[1:]:
        leads, resamples = 0, RESAMPLES if redrawn == "tasks" else 600
        for resample, drawn in enumerate(resampled(3, resamples, side=OF_TASKS).tolist(), start=1):
            row = resample if redrawn == "seeds and tasks" else 0
            means = []
            for scheme in range(3):
                ranked = [every[task, row, scheme] for task in drawn if not math.isnan(every[task, row, scheme])]
                means.append(sum(ranked) / len(ranked) if ranked else -1)
            leads += means[0] > max(means[1:]) + 1e-9
        found = standing(list(every), redrawn)
        assert found.means.tolist() == pytest.approx([5 / 6, 1 / 2, 1 / 3])
        assert found.first == 0 and 0 < leads < resamples
        assert found.share == pytest.approx(leads / resamples)


def test_tasks_drawn_again_count_as_often_as_they_are_drawn():
    """A task for the first and two for the second, all else level: the binomial distribution."""
    one, two = np.array([[1.0, 0.5]] * 3), np.array([[0.5, 1.0]] * 3)
    found = standing([one, two, two], "tasks")
    assert (found.first, standing([one, two, two]).share) == (1, 1)
    assert found.share == pytest.approx((2 / 3) ** 3 + 3 * (2 / 3) ** 2 / 3, abs=0.01)  # two or three of three
    assert standing([one], "tasks").share == 1


def test_what_is_no_rule_is_refused():
    with pytest.raises(ValueError, match=r"failed.*has no rank.*got .counts."):
        reciprocal_ranks([cell(*[0.9] * 5)], 8, "counts")
    with pytest.raises(ValueError, match="cells must be of one task, got none"):
        reciprocal_ranks([None, None], 8, FAILED[0])
    with pytest.raises(ValueError, match="cells must be of one task, got grid, passkey"):
        reciprocal_ranks([cell(*[0.9] * 5), cell(0.5, task="grid")], 8, FAILED[0])
    with pytest.raises(ValueError, match="found"):
        standing([])
    with pytest.raises(ValueError, match=r"redrawn.*got .rules."):
        standing([np.ones((2, 2))], "rules")


def test_tasks_are_drawn_apart():
    def in_task(task):
        n = TASKS[task].lengths(TASKS[task].length)[-1]
        values = (0.9, 0.8, 0.7, 0.6, 0.5)
        cells = [Cell(s, task, tuple(range(5)), (True,) * 5, {n: v}) for s, v in (("A", values), ("B", (0.7,) * 5))]
        return reciprocal_ranks(cells, 8, "has no rank", resamples=200)

    one, other = in_task("passkey"), in_task("copy back")
    assert (one[0] == other[0]).all() and (one != other).any()
