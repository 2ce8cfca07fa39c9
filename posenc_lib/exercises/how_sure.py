"""Checks of the exercises of notebook 24."""

import math
from collections.abc import Callable
from itertools import combinations_with_replacement, product

import torch
from torch import Tensor

from posenc_lib.exercises.check import Check, JudgeCheck

RESAMPLES = 4000


def _surely(
    first: Tensor,
    second: Tensor,
    margin: float,
    level: float = 0.95,
    number: int | None = None,
    replaced: bool = True,
    paired: bool = False,
) -> bool:
    """Whether the mean of the first is ahead by more than the margin in so many resamples."""
    draws = torch.Generator().manual_seed(0)

    def places(values: Tensor) -> Tensor:
        n = len(values)
        if replaced:
            return torch.randint(n, (RESAMPLES, number or n), generator=draws)
        return torch.rand(RESAMPLES, n, generator=draws).argsort(-1)[:, :number]

    one = places(first)
    two = one if paired else places(second)
    ahead = first[one].mean(1) > second[two].mean(1) + margin + 1e-9
    return bool(ahead.double().mean() >= level)


def _five(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


FIVES = [  # what is judged, five values of each of two schemes, the margin
    ("five seeds far ahead", _five(0.90, 0.91, 0.92, 0.93, 0.94), _five(0.60, 0.61, 0.62, 0.63, 0.64), 0.01),
    ("five seeds far behind", _five(0.60, 0.61, 0.62, 0.63, 0.64), _five(0.90, 0.91, 0.92, 0.93, 0.94), 0.01),
    (
        "a lead that hangs on one lost seed",
        _five(0.97, 0.93, 0.89, 0.99, 0.40),
        _five(0.99, 0.85, 0.22, 0.95, 0.67),
        0.01,
    ),
    ("a lead of less than the margin, by all seeds", _five(*[0.9] * 5), _five(*[0.895] * 5), 0.01),
    (
        "a lead of less than a great margin",
        _five(0.80, 0.82, 0.84, 0.86, 0.88),
        _five(0.70, 0.72, 0.74, 0.76, 0.78),
        0.15,
    ),
    (
        "means apart where single seeds overlap",
        _five(0.66, 0.80, 0.90, 0.95, 0.99),
        _five(0.50, 0.55, 0.60, 0.75, 0.78),
        0.01,
    ),
    (
        "a lead in four of five resamples",
        _five(0.80, 0.82, 0.84, 0.86, 0.88),
        _five(0.72, 0.80, 0.80, 0.82, 0.89),
        0.01,
    ),
    ("a lead that one lucky seed makes", _five(0.35, 0.37, 0.42, 0.53, 1.00), _five(*[0.521] * 5), 0.01),
    ("two that rise and fall with the seed", _five(0.2, 0.4, 0.6, 0.8, 1.0), _five(0.15, 0.35, 0.55, 0.75, 0.95), 0.01),
]

check_surely_ahead = JudgeCheck(
    "surely_ahead",
    _surely,
    cases=[tuple(case) for _, *case in FIVES],
    judged=[(words, "") for words, *_ in FIVES],
    mistakes=[
        ("the margin is not used", lambda a, b, m: _surely(a, b, 0.0)),
        (
            "you compare the means as they are: draw seeds with replacement",
            lambda a, b, m: _surely(a, b, m, replaced=False),
        ),
        ("draw as many seeds as there are, and compare their means", lambda a, b, m: _surely(a, b, m, number=1)),
        ("draw the seeds of the second for themselves", lambda a, b, m: _surely(a, b, m, paired=True)),
        ("more than half of the resamples is not sure: 95 % are asked", lambda a, b, m: _surely(a, b, m, level=0.5)),
        ("the first must be ahead, not one of the two", lambda a, b, m: _surely(a, b, m) or _surely(b, a, m)),
        ("the first must be ahead, not the second", lambda a, b, m: _surely(b, a, m)),
    ],
)


Draws = Callable[[int], Tensor]  # of n values all resamples, as places (resamples, n)


def _all_draws(n: int) -> Tensor:
    return torch.tensor(list(product(range(n), repeat=n)))


def _as_they_are(n: int) -> Tensor:
    return torch.arange(n)[None]


def _different(n: int) -> Tensor:
    """Each content once, as if all of them were equally likely."""
    return torch.tensor(list(combinations_with_replacement(range(n), n)))


def _exact_share(first: Tensor, second: Tensor, margin: float, draws: Draws = _all_draws) -> float:
    """The share of all pairs of resamples in which the first mean is ahead by more than the margin."""
    ahead = first[draws(len(first))].mean(1)[:, None] - second[draws(len(second))].mean(1)
    return int((ahead > margin).sum()) / ahead.numel()


def _share_paired(first: Tensor, second: Tensor, margin: float) -> float:
    draws = _all_draws(len(first))
    ahead = first[draws].mean(1) - second[draws].mean(1) if len(first) == len(second) else torch.zeros(1)
    return int((ahead > margin).sum()) / ahead.numel()


def _share_against_mean(first: Tensor, second: Tensor, margin: float) -> float:
    ahead = first[_all_draws(len(first))].mean(1) - second.mean()
    return int((ahead > margin).sum()) / ahead.numel()


def _share_of_values(first: Tensor, second: Tensor, margin: float) -> float:
    ahead = first[:, None] - second
    return int((ahead > margin).sum()) / ahead.numel()


check_exact_share = Check(
    "exact_share",
    _exact_share,
    cases=[  # no difference of two means is a margin
        (_five(0.35, 0.37, 0.42, 0.53, 0.98), _five(0.35, 0.57, 0.45, 0.51, 0.22), 0.0137),
        (_five(0.97, 0.93, 0.40, 0.89), _five(0.99, 0.85, 0.22, 0.95), 0.0137),
        (_five(0.80, 0.86, 0.88), _five(0.78, 0.84, 0.90), 0.0211),
    ],
    mistakes=[
        ("the margin is not used", lambda a, b, m: _exact_share(a, b, 0.0)),
        (
            "you compare the means as they are: go through the resamples of both",
            lambda a, b, m: _exact_share(a, b, m, _as_they_are),
        ),
        (
            "not all contents are equally likely: five times the same value comes in one order only, most in many",
            lambda a, b, m: _exact_share(a, b, m, _different),
        ),
        ("every resample of the first meets every one of the second, not only that of the same places", _share_paired),
        ("the second has resamples, too: its mean moves", _share_against_mean),
        ("compare means of resamples, not single values", _share_of_values),
        ("the first must be ahead, not the second", lambda a, b, m: _exact_share(b, a, m)),
        (
            "the first must be ahead, not one of the two",
            lambda a, b, m: _exact_share(a, b, m) + _exact_share(b, a, m),
        ),
        (
            "return the share, not whether it is 95 %",
            lambda a, b, m: float(_exact_share(a, b, m) >= 0.95),
        ),
        (
            "return a share from 0 to 1, not a number of pairs",
            lambda a, b, m: _exact_share(a, b, m) * len(a) ** len(a) * len(b) ** len(b),
        ),
    ],
    tolerance=1e-6,  # that of a share in float32
)


check_smallest_p = Check(
    "smallest_p",
    lambda n: 2 / math.comb(2 * n, n),
    cases=[(n,) for n in (2, 3, 5, 9, 12)],
    mistakes=[
        (
            "that is one side; a split and its mirror image have the same distance, so two splits are the furthest",
            lambda n: 1 / math.comb(2 * n, n),
        ),
        ("split all 2n values, not n of them", lambda n: 2 / math.comb(n, n // 2)),
        ("the order within a side does not count: choose n of 2n", lambda n: 2 / math.factorial(2 * n)),
        (
            "the order within a side does not count: choose n of 2n",
            lambda n: 2 * math.factorial(n) / math.factorial(2 * n),
        ),
        ("both sides must have n values: not every subset of the 2n is a split", lambda n: 2 / 4**n),
        ("the values are not paired: do not swap within pairs, choose n of 2n", lambda n: 2 / 2**n),
        ("divide the two furthest splits by the number of all", lambda n: math.comb(2 * n, n) / 2),
        ("return a share, not the number of splits", lambda n: math.comb(2 * n, n)),
    ],
    tolerance=1e-12,
)
