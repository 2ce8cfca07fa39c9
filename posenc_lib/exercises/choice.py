"""Checks of the exercises in notebook 23."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from posenc_lib.exercises.check import Check

Part = tuple[float, int]  # tokens, and the length of the texts in which they are read


def _training_cost(
    width: int, layers: int, parts: Sequence[Part], passes: int = 3, matrices: int = 12, pairs: float = 1.0
) -> float:
    """In 10^21 operations: two for each number of the matrices, four times the width for each pair."""
    of_token = [2 * matrices * width**2 + 4 * width * pairs * length for _, length in parts]
    return passes * layers * sum(tokens * each for (tokens, _), each in zip(parts, of_token, strict=True)) / 1e21


def _pairs_of_a_text(width: int, layers: int, parts: Sequence[Part]) -> float:
    return _training_cost(width, layers, [(tokens, length**2) for tokens, length in parts])


check_training_cost = Check(
    "training_cost",
    _training_cost,
    cases=[
        (4096, 32, [(4e11, 32768)]),
        (4096, 32, [(3e11, 4096), (1e11, 32768)]),
        (1024, 24, [(1e11, 512), (2e11, 2048), (5e10, 8192)]),
        (8192, 80, [(2e12, 4096)]),
    ],
    mistakes=[
        (
            "a training has a backward pass, too, of twice as many operations",
            lambda width, layers, parts: _training_cost(width, layers, parts, passes=1),
        ),
        (
            "the backward pass has twice as many operations as the forward pass: three times in all",
            lambda width, layers, parts: _training_cost(width, layers, parts, passes=2),
        ),
        ("the layers are not counted", lambda width, layers, parts: _training_cost(width, 1, parts)),
        (
            "the result is asked for in units of 10^21 operations",
            lambda width, layers, parts: 1e21 * _training_cost(width, layers, parts),
        ),
        (
            "all pairs are counted here, those behind the mask, too",
            lambda width, layers, parts: _training_cost(width, layers, parts, pairs=0.5),
        ),
        (
            "each number of a matrix takes a multiplication and an addition",
            lambda width, layers, parts: _training_cost(width, layers, parts, matrices=6),
        ),
        (
            "the projections have 4 D^2 numbers, the MLP has 8 D^2 more",
            lambda width, layers, parts: _training_cost(width, layers, parts, matrices=4),
        ),
        ("a token meets L keys, not L^2: tokens are counted here, not texts", _pairs_of_a_text),
        ("the pairs are not counted", lambda width, layers, parts: _training_cost(width, layers, parts, pairs=0.0)),
    ],
)


def _not_beaten(
    values: Tensor, margin: float, in_all: Callable[[Tensor, int], Tensor] = torch.all, better: bool = True
) -> Tensor:
    """Who has nobody beside it that is ahead somewhere, and behind nowhere."""
    ahead = values[:, None] > values[None] + margin  # (by whom, of whom, column)
    beats = in_all(~ahead.transpose(0, 1), -1) & ~torch.eye(len(values), dtype=torch.bool)
    return ~(beats & ahead.any(-1) if better else beats).any(0)


def _best_of_one(values: Tensor, margin: float) -> Tensor:
    return (values >= values.max(0).values - margin).any(-1)


def _ahead_in_all(values: Tensor, margin: float) -> Tensor:
    return ~(values[:, None] > values[None] + margin).all(-1).any(0)


def _numbers(*rows: tuple[float, ...]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


check_not_beaten = Check(
    "not_beaten",
    _not_beaten,
    cases=[
        (_numbers((0.9, 0.2), (0.5, 0.5), (0.4, 0.4), (0.2, 0.9), (0.9, 0.1)), 0.01),
        (_numbers((0.7, 0.7), (0.7, 0.7), (0.6, 0.7), (0.1, 0.8)), 0.0),
        (_numbers((1.0, 0.3, 0.5), (0.9, 0.4, 0.5), (0.9, 0.4, 0.6), (1.0, 0.2, 0.1)), 0.01),
        (_numbers((0.95, 0.5), (1.0, 0.45), (0.96, 0.8)), 0.07),
    ],
    mistakes=[
        ("these are the beaten: return the others", lambda values, margin: ~_not_beaten(values, margin)),
        ("who is best in one column is one of them, but not the only one", _best_of_one),
        ("the margin is not used", lambda values, margin: _not_beaten(values, 0.0)),
        (
            "two that are level everywhere do not beat each other: one must be ahead somewhere",
            lambda values, margin: _not_beaten(values, margin, better=False),
        ),
        ("who beats is ahead in one column and behind in none, not ahead in all", _ahead_in_all),
        (
            "who is ahead in one column only beats nobody: it must not be behind in another",
            lambda values, margin: _not_beaten(values, margin, in_all=torch.any),
        ),
        ("less is not more: turn the comparison round", lambda values, margin: _not_beaten(-values, margin)),
    ],
)


Row = Mapping[str, Any]
_ROWS: list[Row] = [
    {"kernel": "any", "sides": "both", "trained": True, "accuracy": 0.55},
    {"kernel": "place", "sides": "alike", "trained": True, "accuracy": 0.97},
    {"kernel": "place", "sides": "both", "trained": True, "accuracy": 0.91},
    {"kernel": "mask", "sides": "before only", "trained": True, "accuracy": 0.99},
    {"kernel": "any", "sides": "both", "trained": False, "accuracy": 0.98},
    {"kernel": "none", "sides": "both", "trained": True, "accuracy": 0.93},
    {"kernel": "any", "sides": "both", "trained": True, "accuracy": 0.9},
]


def _suitable(
    rows: Sequence[Row],
    kernels: Sequence[str],
    without_mask: bool,
    at_least: float,
    trained: bool = True,
    asks_sides: bool = True,
    asks_kernel: bool = True,
    enough: Callable[[float, float], bool] = lambda has, needs: has >= needs,
    alike: bool = False,
) -> list[int]:
    sides = ("both", "alike") if alike else ("both",)
    return [
        n
        for n, row in enumerate(rows)
        if (row["trained"] or not trained)
        and (row["kernel"] in kernels or not asks_kernel)
        and (row["sides"] in sides or not without_mask or not asks_sides)
        and enough(row["accuracy"], at_least)
    ]


check_suitable = Check(
    "suitable",
    _suitable,
    cases=[
        (_ROWS, ("any", "place"), False, 0.9),
        (_ROWS, ("any", "place", "mask", "none"), True, 0.91),
        (_ROWS, ("any",), True, 0.5),
        (_ROWS, ("any", "place", "mask", "none"), False, 0.95),
    ],
    mistakes=[
        (
            "a scheme that is not trained is not known to be suitable",
            lambda rows, k, mask, least: _suitable(rows, k, mask, least, trained=False),
        ),
        (
            "without a mask sides that are alike cannot be told apart",
            lambda rows, k, mask, least: _suitable(rows, k, mask, least, alike=True),
        ),
        ("the sides are not asked", lambda rows, k, mask, least: _suitable(rows, k, mask, least, asks_sides=False)),
        ("the kernel is not asked", lambda rows, k, mask, least: _suitable(rows, k, mask, least, asks_kernel=False)),
        (
            "what is as good as asked is good enough",
            lambda rows, k, mask, least: _suitable(rows, k, mask, least, enough=lambda has, needs: has > needs),
        ),
        (
            "the accuracy is not asked",
            lambda rows, k, mask, least: _suitable(rows, k, mask, least, enough=lambda has, needs: True),
        ),
        (
            "with a mask a scheme need not tell the sides apart",
            lambda rows, kernels, mask, least: _suitable(rows, kernels, True, least),
        ),
    ],
)
