"""Of the exercises of notebook 24: other right ways to write them pass, and are the library's rule."""

import math
from collections import Counter
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
import torch

from posenc_lib.exercises.how_sure import FIVES, check_exact_share, check_smallest_p, check_surely_ahead
from posenc_lib.lab.contest import RATES_SEED, entries
from posenc_lib.lab.ranks import FAILED, FIVE, reciprocal_ranks, standing
from posenc_lib.lab.report import chosen_rates, length_at
from posenc_lib.lab.statistics import LEVEL, of_size, resampled, share_above, table
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


@pytest.mark.parametrize("alike", [0.0, 0.5, 0.9])
def test_pairs_of_seeds_are_wrong_as_often_whatever_the_correlation(alike):
    """Student's t of 4 degrees of freedom is beyond 1.471 in .215 of the cases, on both sides together."""
    one, two = np.random.default_rng(0).normal(size=(2, 4000, 5))
    apart = one - (alike * one + math.sqrt(1 - alike**2) * two)
    ahead = (apart[:, resampled(5, 1000)].mean(2) > 0).mean(1)
    assert np.mean((ahead >= LEVEL) | (ahead <= 1 - LEVEL)) == pytest.approx(0.215, abs=0.02)


def test_the_share_of_pairs_that_the_notebook_states():
    cells = table(of_size(entries(DATA / "contest.jsonl")))
    nezha, shaw = (cells[scheme, "passkey"].at(length_at("passkey", 8)) for scheme in ("Nezha", "Shaw"))
    every = np.array(list(product(nezha - shaw, repeat=5))).mean(1)
    assert (every > 0.01).mean() == pytest.approx(0.934, abs=0.0005)
    assert share_above(nezha, shaw, paired=True) == pytest.approx(0.934, abs=0.01)


@pytest.mark.parametrize(
    ("times", "on_the_sixth", "on_all_six"), [(2, "T5Bias", "Alibi"), (4, "T5Bias", "T5Bias"), (8, "Alibi", "T5Bias")]
)
def test_the_sixth_seed_alone_has_other_leaders_and_all_six_have_not(times, on_the_sixth, on_all_six):
    file = of_size(entries(DATA / "contest.jsonl"))
    cells, rates = table(file), chosen_rates(file)
    sixth = {
        (run["scheme"], run["task"]): result["measure"]
        for run, result in file
        if run["seed"] == RATES_SEED and run["learning_rate"] == rates.get((run["scheme"], run["task"]))
    }
    for weight, leader in ((1.0, on_the_sixth), (1 / 6, on_all_six)):
        found = []
        for task in TASKS:
            n = length_at(task, times)
            mine = []
            for scheme in FIVE:
                five = np.mean(cells[scheme, task].measures[n])
                value = weight * sixth[scheme, task][str(n)] + (1 - weight) * five
                mine.append(cells[scheme, task]._replace(measures={n: (value,) * 5}))
            found.append(reciprocal_ranks(mine, times, FAILED[0], 1))
        assert FIVE[standing(found).first] == leader
