"""Of the exercises of notebook 24: other right ways to write them pass, and are the library's rule."""

import math
from collections import Counter
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
import torch

from posenc_lib.exercises.how_sure import FIVES, check_exact_share, check_smallest_p, check_surely_ahead
from posenc_lib.lab.contest import entries
from posenc_lib.lab.ranks import FAILED, FIVE, reciprocal_ranks, standing
from posenc_lib.lab.report import length_at
from posenc_lib.lab.statistics import LEVEL, of_size, share_above, table
from posenc_lib.lab.trial import TASKS

DATA = Path(__file__).resolve().parents[2] / "notebooks" / "data"


def of_the_library(first, second, margin):
    return share_above(first.tolist(), second.tolist(), margin) >= LEVEL


def with_numpy(first, second, margin):
    draws = np.random.default_rng(7)
    one, two = (draws.choice(values.numpy(), (4000, len(values))).mean(1) for values in (first, second))
    return np.mean(one - two > margin) >= 0.95


@pytest.mark.parametrize("way", [of_the_library, with_numpy])
def test_other_ways_to_write_surely_ahead_pass(way):
    assert check_surely_ahead.verdict(way)[0]


def test_no_case_is_near_the_level():
    for words, first, second, margin in FIVES:
        assert abs(check_exact_share.reference(first, second, margin) - LEVEL) > 0.02, words


def by_counts(first, second, margin):
    """Each content of a hat once, with how often it comes."""
    means = []
    for values in (first.tolist(), second.tolist()):
        n = len(values)
        means.append(Counter(tuple(sorted(draw)) for draw in product(values, repeat=n)))
    total = ahead = 0
    for one, often in means[0].items():
        for two, as_often in means[1].items():
            total += often * as_often
            ahead += often * as_often * (sum(one) / len(one) > sum(two) / len(two) + margin)
    return ahead / total


def by_sorting(first, second, margin):
    one, two = (
        torch.cartesian_prod(*[values] * len(values)).mean(1).sort().values + more
        for values, more in ((first, 0.0), (second, margin))
    )
    return torch.searchsorted(two, one).double().mean() / len(two)


@pytest.mark.parametrize("way", [by_counts, by_sorting])
def test_other_ways_to_write_an_exact_share_pass(way):
    assert check_exact_share.verdict(way)[0]


def test_draws_come_near_the_exact_share():
    first, second, margin = check_exact_share.cases[0]
    exact = check_exact_share.reference(first, second, margin)
    assert share_above(first.tolist(), second.tolist(), margin) == pytest.approx(exact, abs=0.015)


def test_the_exact_shares_that_the_notebook_states():
    cells = table(of_size(entries(DATA / "contest.jsonl")))
    first, second = (
        torch.from_numpy(cells[scheme, "passkey"].at(length_at("passkey", 8))) for scheme in ("Nezha", "Shaw")
    )
    found = [check_exact_share.reference(*sides, 0.01) for sides in ((first, second), (second, first))]
    assert [f"{share:.3f}" for share in found] == ["0.718", "0.243"]


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_no_permutation_test_gives_less(n):
    values = range(2 * n)  # all of one side above all of the other
    gaps = [sum(side) - sum(set(values) - set(side)) for side in combinations(values, n)]
    most = sum(abs(gap) >= max(gaps) for gap in gaps)
    assert check_smallest_p.reference(n) == most / len(gaps) == 2 / math.comb(2 * n, n)


@pytest.mark.parametrize(
    ("times", "leader", "alone", "share"), [(2, "Alibi", 5, 1.0), (4, "T5Bias", 3, 0.9), (8, "T5Bias", 5, 1.0)]
)
def test_the_leaders_that_the_notebook_states(times, leader, alone, share):
    """Of the mean of 1 / rank: all resamples of the seeds at 2 x and 8 x agree, and each seed alone does."""
    cells = table(of_size(entries(DATA / "contest.jsonl")))

    def standing_of(seeds, resamples):
        found = []
        for task in TASKS:
            mine = [cells[scheme, task] for scheme in FIVE]
            n = length_at(task, times)
            drawn = [cell._replace(measures={n: tuple(cell.measures[n][seed] for seed in seeds)}) for cell in mine]
            found.append(reciprocal_ranks(drawn, times, FAILED[0], resamples))
        return standing(found)

    whole = standing_of(range(5), 600)
    assert FIVE[whole.first] == leader
    assert whole.share == 1 if share == 1 else share < whole.share < 1
    leads = [standing_of([seed] * 5, 1).first for seed in range(5)]
    assert sum(FIVE[first] == leader for first in leads) == alone
