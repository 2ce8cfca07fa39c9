"""Checks of the exercises in notebook 12."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from posenc_lib.exercises.check import Check
from posenc_lib.schemes.alibi import slopes
from posenc_lib.schemes.fire import relative_progress


def _two_parts(heads: int, shift: float = 0.0, start: int = 0, step: int = 2) -> Tensor:
    """The slopes of P heads and some of those of 2P, with the exponents moved by ``shift`` places."""
    P = 2 ** int(math.log2(heads))
    exponents = -8 * (torch.arange(1, 2 * P + 1, dtype=torch.float64) + shift)
    return torch.cat([2 ** (exponents[:P] / P), 2 ** (exponents / (2 * P))[start::step][: heads - P]])


def _geometric(heads: int) -> Tensor:
    return 2 ** (-8 * torch.arange(1, heads + 1, dtype=torch.float64) / heads)


def _from_the_flat_end(heads: int) -> Tensor:
    P = 2 ** int(math.log2(heads))
    return torch.cat([_geometric(P), _geometric(2 * P)[::2].flip(0)[: heads - P]])


check_slopes_for = Check(
    "slopes_for",
    slopes,
    cases=[(8,), (1,), (12,), (6,), (25,)],
    mistakes=[
        ("that is the rule for powers of two; for other numbers of heads the authors' code has two parts", _geometric),
        ("the first exponent is -8 / P, not 0: count the heads from 1", lambda heads: _two_parts(heads, shift=-1.0)),
        (
            "the second part takes the 1st, 3rd, 5th, ... slope of 2P heads; you took the 2nd, 4th, ..., which the "
            "first part has already",
            lambda heads: _two_parts(heads, start=1),
        ),
        ("the second part takes every second slope of 2P heads; you took all", lambda heads: _two_parts(heads, step=1)),
        ("the second part starts at the steep end, with the largest of the new slopes", _from_the_flat_end),
        (
            "the right slopes, but sorted; the authors' code appends the second part to the first",
            lambda heads: slopes(heads).sort(descending=True).values,
        ),
        ("the slopes are positive; the minus sign belongs to the score", lambda heads: -slopes(heads)),
        ("you returned the exponents; the slopes are powers of 2", lambda heads: slopes(heads).log2()),
    ],
)


def _window(m: float, share: float, length: int) -> int:
    weights = (-m * torch.arange(length, dtype=torch.float64)).softmax(0)
    return int((weights.cumsum(0) < share).sum()) + 1


def _endless(m: float, share: float) -> float:
    return -math.log(1 - share) / m


check_window = Check(
    "window",
    _window,
    cases=[(0.5, 0.95, 1000), (1 / 256, 0.95, 512), (0.03, 0.5, 40), (0.001, 0.95, 64), (0.1, 0.8, 3)],
    mistakes=[
        (
            "right for an endless text; in a short one there are fewer keys to share among, so that fewer hold the "
            "share",
            lambda m, share, length: math.ceil(_endless(m, share)),
        ),
        (
            "right for an endless text, then cut at its length; but a short text has other weights, they sum to 1",
            lambda m, share, length: min(length, math.ceil(_endless(m, share))),
        ),
        (
            "one too few: you returned the distance of the farthest key, or a floor; the number of keys is asked for",
            lambda m, share, length: _window(m, share, length) - 1,
        ),
        (
            "you found how many of the FARTHEST keys hold the share: is the sign of the slope right?",
            lambda m, share, length: _window(-m, share, length),
        ),
        (
            "you found how many keys hold 1 - share",
            lambda m, share, length: _window(m, 1 - share, length),
        ),
        (
            "every key counts the same in your function; weigh them by e^(-m x)",
            lambda m, share, length: math.ceil(share * length),
        ),
    ],
)


def _progress(i: int, c: float, threshold: float) -> Tensor:
    numbers = (torch.tensor(x, dtype=torch.float64) for x in (c, threshold))
    return relative_progress(torch.tensor([i]), torch.arange(i + 1), *numbers)[0]


def _by_hand(
    i: int,
    c: float,
    threshold: float,
    longest: Callable[[float, float], float] = max,
    psi: Callable[[Tensor, float], Tensor] = lambda x, c: torch.log1p(c * x),
) -> Tensor:
    distance = torch.arange(i, -1, -1, dtype=torch.float64)
    return psi(distance, c) / psi(torch.tensor(longest(float(i), threshold), dtype=torch.float64), c)


check_progress = Check(
    "progress",
    _progress,
    cases=[(5, 0.3, 40.0), (60, 0.1, 20.0), (9, 2.0, 9.5)],
    mistakes=[
        (
            "the denominator takes the larger of i and the threshold; you took the smaller",
            lambda i, c, threshold: _by_hand(i, c, threshold, longest=min),
        ),
        (
            "you left out the threshold: for a query before it, the distance is measured by the threshold",
            lambda i, c, threshold: _by_hand(i, c, threshold, longest=lambda i, t: i),
        ),
        (
            "you left out i: beyond the threshold the distance is measured by i",
            lambda i, c, threshold: _by_hand(i, c, threshold, longest=lambda i, t: t),
        ),
        ("you left out the logarithm", lambda i, c, threshold: _by_hand(i, c, threshold, psi=lambda x, c: x)),
        (
            "take the logarithm of the distance and of the longest one, then divide; you divided first",
            lambda i, c, threshold: torch.log1p(c * torch.arange(i, -1, -1).double() / max(threshold, i)),
        ),
        (
            "entry j belongs to key j, whose distance is i - j; you ordered by distance",
            lambda i, c, threshold: _progress(i, c, threshold).flip(0),
        ),
        (
            "psi(x) is log(1 + c x), so that psi(0) = 0; you took log(c + x)",
            lambda i, c, threshold: _by_hand(i, c, threshold, psi=lambda x, c: torch.log(c + x)),
        ),
        (
            "the slope c belongs inside the logarithm, where it matters; outside it cancels",
            lambda i, c, threshold: _by_hand(i, c, threshold, psi=lambda x, c: c * torch.log1p(x)),
        ),
    ],
)
