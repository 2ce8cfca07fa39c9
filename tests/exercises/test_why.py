"""Of the exercises of notebook 25: other right ways to write them pass, and are the library's change of a bias."""

import math
from pathlib import Path

import pytest
import torch

from posenc_lib.exercises.why import FOUND, check_best_within, check_change_far, check_lowering
from posenc_lib.lab.contest import entries
from posenc_lib.lab.mended import FarKeys
from posenc_lib.scheme import DistanceBias

DATA = Path(__file__).resolve().parents[2] / "notebooks" / "data"


class Table(DistanceBias):
    """A bias (heads, L) by distance as a scheme."""

    name = "table"

    def __init__(self, bias):
        super().__init__()
        self.bias = bias

    def distance_bias(self, relative_position):
        return self.bias[:, relative_position.abs()]


def of_the_library(bias, flat, lower, slope, near=8):
    length = bias.shape[1]
    with torch.no_grad():
        # its slope is multiplied in float32
        return FarKeys(Table(bias), near, length, flat, lower).distance_bias(-torch.arange(length)) - (
            slope * (torch.arange(length, dtype=torch.float64) - near).clamp(min=0)
        )


def in_place(bias, flat, lower, slope, near=8):
    heads, length = bias.shape
    for h in range(heads):
        if flat:
            bias[h, near:] = bias[h, near:].logsumexp(0) - math.log(length - near)
        for distance in range(near, length):
            bias[h, distance] -= lower + slope * (distance - near)
    return bias


@pytest.mark.parametrize("way", [of_the_library, in_place])
def test_other_ways_to_change_far_keys_pass(way):
    assert check_change_far.verdict(way)[0]


def by_shares(bias, short, long, near=8):
    """From the odds of near keys in a short text and in a long one."""

    def odds(length):
        share = bias[:, :length].softmax(1)[:, :near].sum(1)
        return (share / (1 - share)).log()

    return odds(short) - odds(long)


def test_another_way_to_find_the_amounts_passes():
    assert check_lowering.verdict(by_shares)[0]


@pytest.mark.parametrize(("short", "long", "near"), [(16, 64, 8), (32, 64, 8), (32, 48, 5)])
def test_far_keys_that_are_lowered_so_leave_near_ones_their_share(short, long, near):
    bias = check_lowering.cases[0][0]
    amounts = check_lowering.reference(bias, short, long, near)
    lowered = torch.cat([bias[:, :near], bias[:, near:] - amounts[:, None]], 1)
    shares = [(b[:, :n].softmax(1)[:, :near].sum(1)) for b, n in ((bias, short), (lowered, long))]
    assert torch.allclose(*shares, atol=1e-12)


def test_far_keys_that_are_alike_need_the_formula_of_the_notebook():
    bias = torch.zeros(1, 256, dtype=torch.float64)
    assert check_lowering.reference(bias, 32, 256).item() == pytest.approx(math.log(248 / 24))


def test_the_amounts_that_the_notebook_states():
    found = entries(DATA / "mended.jsonl")
    learned = next(e.result["learned"] for e in found if (e.setting["task"], e.setting["seed"]) == ("induction", 0))
    bias = torch.tensor(learned, dtype=torch.float64)
    bias = torch.cat([bias, bias[:, -1:].expand(-1, 192)], 1)
    amounts = check_lowering.reference(bias, 32, 256)
    assert amounts.tolist() == pytest.approx([1.61, 1.40, 1.89, 2.86], abs=0.015)


def by_sorting(found, loss):
    order = sorted(found, key=lambda pair: (-found[pair][1], pair[0] + pair[1]))
    return next(pair for pair in order if found[0, 0][0] - found[pair][0] <= loss + 1e-9)


def test_another_way_to_choose_a_pair_passes():
    assert check_best_within.verdict(by_sorting)[0]


@pytest.mark.parametrize("found", FOUND)
def test_with_any_loss_the_best_in_long_texts_is_chosen(found):
    assert found[check_best_within.reference(found, 1.0)][1] == max(long for _, long in found.values())


@pytest.mark.parametrize("found", FOUND)
def test_what_is_chosen_loses_no_more_than_it_may(found):
    for loss in (0.0, 0.01, 0.03, 0.2):
        assert found[0, 0][0] - found[check_best_within.reference(found, loss)][0] <= loss + 1e-9
