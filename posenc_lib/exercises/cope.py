"""Checks of the exercises in notebook 15."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from posenc_lib.exercises.check import Check
from posenc_lib.lab.measure import randn

Weight = Callable[[Tensor, Tensor], Tensor]


def _from_here_on(gates: Tensor) -> Tensor:
    return gates.flip(-1).cumsum(-1).flip(-1)


check_positions_of_gates = Check(
    "positions_of_gates",
    lambda gates: _from_here_on(gates.tril()),
    cases=[(randn(5, 5).sigmoid(),), (randn(8, 8, seed=1).sigmoid(),), (torch.ones(6, 6).double(),)],
    mistakes=[
        (
            "you count from the start of the text up to j; count from j to the query",
            lambda g: g.tril().cumsum(-1).tril(),
        ),
        ("you count from the start of the text up to j; count from j to the query", lambda g: g.tril().cumsum(-1)),
        ("the keys after the query are counted too: set their gates to 0 first", _from_here_on),
        (
            "you hid the keys after the query, but only after they were counted: set their gates to 0 before the sum",
            lambda g: _from_here_on(g).tril(),
        ),
        ("the key j itself is missing: the sum runs over s = j, ..., i", lambda g: _from_here_on(g.tril()) - g.tril()),
        (
            "you summed over the queries; a row belongs to a query, so sum along it",
            lambda g: _from_here_on(g.tril().mT).mT,
        ),
    ],
)


def _between(
    z: Tensor, p: Tensor, low_weight: Weight = lambda w, n: 1 - w, high_weight: Weight = lambda w, n: w
) -> Tensor:
    """The rows around p with the given weights, functions of w = p - n and n = floor(p)."""
    p = _limited(p, z)
    n = p.floor()
    return low_weight(p - n, n) * z[n.long()] + high_weight(p - n, n) * z[p.ceil().long()]


def _limited(p: Tensor, z: Tensor) -> Tensor:
    return p.clamp(max=len(z) - 1)


def _between_case(rows: int, places: list[float]) -> tuple[Tensor, Tensor]:
    return randn(rows, seed=rows), torch.tensor(places, dtype=torch.float64)


check_between_rows = Check(
    "between_rows",
    _between,
    cases=[
        _between_case(4, [0.0, 0.25, 1.0, 1.75, 2.5]),
        _between_case(6, [4.9, 5.0, 0.1]),
        _between_case(3, [0.6, 1.4, 2.0, 2.3, 9.0]),
    ],
    mistakes=[
        (
            "you rounded to the nearest row; go straight from one to the next",
            lambda z, p: z[_limited(p, z).round().long()],
        ),
        ("you took the row below; go straight from one to the next", lambda z, p: z[_limited(p, z).floor().long()]),
        ("you took the row above; go straight from one to the next", lambda z, p: z[_limited(p, z).ceil().long()]),
        (
            "the two weights are exchanged: a p just above n is nearly all row n",
            lambda z, p: _between(z, p, lambda w, n: w, lambda w, n: 1 - w),
        ),
        (
            "the row below weighs 1 - (p - n) = 1 - p + n; you have 1 - p - n",
            lambda z, p: _between(z, p, lambda w, n: 1 - w - 2 * n),
        ),
    ],
)


check_sharpness_for = Check(
    "sharpness_for",
    lambda n, error: math.log(n / error - 1),
    cases=[(256, 0.5), (64, 0.25), (1000, 0.1), (10, 0.5)],
    mistakes=[
        (
            "right up to the sign: a token that does not count has the gate sigmoid(-c)",
            lambda n, e: -math.log(n / e - 1),
        ),
        ("nearly: sigmoid(-c) is 1 / (1 + e^c), not e^(-c)", lambda n, e: math.log(n / e)),
        ("the error is given, and not always 1/2", lambda n, e: math.log(2 * n - 1)),
        ("you solved sigmoid(-c) = error for one token; n of them add up", lambda n, e: math.log(1 / e - 1)),
        (
            "n gates of sigmoid(-c) add up to the error: divide the error by n, do not multiply",
            lambda n, e: math.log(n * e - 1),
        ),
    ],
)
