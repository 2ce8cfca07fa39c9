"""Checks of the exercises in notebook 00."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from posenc_lib.attention import attend
from posenc_lib.exercises.check import Check
from posenc_lib.lab.measure import randn
from posenc_lib.schemes.none import NoPosition


def _causal_mask(query_positions: Tensor, key_positions: Tensor) -> Tensor:
    return key_positions <= query_positions[:, None]


check_causal_mask = Check(
    "causal_mask",
    _causal_mask,
    cases=[
        (torch.arange(4), torch.arange(4)),
        (torch.tensor([5, 6]), torch.arange(7)),
        (torch.tensor([3, 10, 4]), torch.tensor([0, 3, 4, 7, 10])),
        (torch.tensor([2]), torch.tensor([2, 1, 0, 3])),
    ],
    mistakes=[
        (
            "rows are queries and columns are keys; you have them the other way round",
            lambda query_positions, key_positions: _causal_mask(query_positions, key_positions).T,
        ),
        (
            "a token sees itself too; you left out key position = query position",
            lambda query_positions, key_positions: key_positions < query_positions[:, None],
        ),
        (
            "you let a query see what comes after it and hid what comes before",
            lambda query_positions, key_positions: key_positions >= query_positions[:, None],
        ),
        (
            "True means visible here; you marked what is hidden",
            lambda query_positions, key_positions: key_positions > query_positions[:, None],
        ),
        (
            "you compared places in the tensor; compare the positions that you are given",
            lambda query_positions, key_positions: torch.ones(len(query_positions), len(key_positions)).tril(),
        ),
        (
            "you lined up the last query with the last key; compare the positions that you are given",
            lambda query_positions, key_positions: torch.ones(len(query_positions), len(key_positions)).tril(
                len(key_positions) - len(query_positions)
            ),
        ),
    ],
)


def _self_attention(causal: bool) -> Callable[[Tensor], Tensor]:
    def f(x: Tensor) -> Tensor:
        x = x[None, None]
        return attend(x, x, x, NoPosition(), causal)[0, 0]

    return f


def _tokens(length: int, dim: int, seed: int) -> Tensor:
    return randn(length, dim, seed=seed)


check_permutation_error = Check(
    "permutation_error",
    lambda f, x, order: (f(x[order]) - f(x)[order]).abs().max(),
    cases=[
        (_self_attention(causal=False), _tokens(5, 4, seed=0), torch.tensor([1, 2, 3, 4, 0])),
        (_self_attention(causal=True), _tokens(5, 4, seed=1), torch.tensor([1, 2, 3, 4, 0])),
        (_self_attention(causal=True), _tokens(7, 3, seed=2), torch.tensor([2, 6, 0, 1, 3, 5, 4])),
        (lambda x: x.cumsum(0), _tokens(4, 2, seed=3), torch.tensor([3, 0, 1, 2])),
    ],
    mistakes=[
        (
            "you asked for the same output in the same rows, which is invariance; equivariance moves the rows along",
            lambda f, x, order: (f(x[order]) - f(x)).abs().max(),
        ),
        (
            "you used the inverse permutation: only a swap is undone by doing it again, others need order.argsort()",
            lambda f, x, order: (f(x[order])[order] - f(x)).abs().max(),
        ),
        (
            "you took the largest difference; a negative one can be larger in size",
            lambda f, x, order: (f(x[order]) - f(x)[order]).max(),
        ),
        (
            "you took the mean of the differences; the largest one is asked for",
            lambda f, x, order: (f(x[order]) - f(x)[order]).abs().mean(),
        ),
    ],
)


def _weight(positions: list[int], bos_score: float) -> tuple[Tensor, float]:
    i = torch.tensor(positions, dtype=torch.float64)
    return math.exp(bos_score) / (math.exp(bos_score) + i), bos_score


check_position_from_weight = Check(
    "position_from_weight",
    lambda weight, bos_score: math.exp(bos_score) * (1 / weight - 1),
    cases=[_weight([0, 1, 2, 31], 0.0), _weight([5, 3, 200], 3.0), _weight([1, 40], -1.0), _weight([17], 0.5)],
    mistakes=[
        (
            "right for a BOS score of 0 only: is bos_score used at all?",
            lambda weight, bos_score: 1 / weight - 1,
        ),
        (
            "you count the tokens seen, BOS included; position 0 is the BOS itself",
            lambda weight, bos_score: math.exp(bos_score) * (1 / weight - 1) + 1,
        ),
        (
            "you subtracted 1 for the BOS; its share of the denominator is exp(bos_score)",
            lambda weight, bos_score: math.exp(bos_score) / weight - 1,
        ),
        (
            "softmax takes the exponential of the score: exp(bos_score), not bos_score",
            lambda weight, bos_score: bos_score * (1 / weight - 1),
        ),
        (
            "you divided by exp(bos_score) where you should multiply",
            lambda weight, bos_score: math.exp(-bos_score) * (1 / weight - 1),
        ),
    ],
)
