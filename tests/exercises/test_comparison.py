"""Of the exercises of notebook 20: other right ways to write them pass, and are the library's rule."""

import numpy as np
import pytest
import torch

from posenc_lib.exercises.comparison import check_mean_reciprocal_rank
from posenc_lib.lab.ranks import reciprocal_ranks, standing
from posenc_lib.lab.statistics import Cell


def by_loops(values, fails, margin):
    found = []
    for scheme in range(len(values)):
        shares = []
        for task in range(values.shape[1]):
            if not fails[scheme, task]:
                others = values[~fails[:, task], task]
                shares.append(1 / (1 + int((others > values[scheme, task] + margin).sum())))
        found.append(sum(shares) / len(shares))
    return torch.tensor(found, dtype=torch.float64)


def by_differences(values, fails, margin):
    ahead = (values[:, None] - values[None] > margin) & ~fails[:, None]
    share = torch.where(fails, 0.0, 1 / (1.0 + ahead.double().sum(0)))
    return share.sum(1) / (~fails).sum(1)


@pytest.mark.parametrize("way", [by_loops, by_differences])
def test_other_ways_to_write_the_mean_of_1_over_rank_pass(way):
    assert check_mean_reciprocal_rank.verdict(way)[0]


def test_it_is_the_rule_of_the_library():
    values, fails, margin = check_mean_reciprocal_rank.cases[0]
    tasks = ["copy back", "induction", "look-up", "reverse", "flip-flop", "passkey", "grid"]  # accuracies
    values, fails = values[:, : len(tasks)] + 1, fails[:, : len(tasks)]  # nobody is near guessing

    def cell(scheme, number):
        value, met = values[scheme, number].item(), not fails[scheme, number]
        task = tasks[number]
        length = {"reverse": 96, "grid": 196}.get(task, 256)
        return Cell(str(scheme), task, tuple(range(5)), (met,) * 5, {length: (value,) * 5})

    found = [
        reciprocal_ranks([cell(scheme, n) for scheme in range(len(values))], 8, "has no rank", 1, margin)
        for n in range(len(tasks))
    ]
    np.testing.assert_allclose(standing(found).means, check_mean_reciprocal_rank.reference(values, fails, margin))
