"""Checks of the exercises in notebook 01."""

from collections.abc import Callable

import torch
from torch import Tensor

from posenc_lib.exercises.check import Check, JudgeCheck
from posenc_lib.schemes.sinusoidal import encode, frequencies, shift_matrix


def _interleaved(angles: Tensor) -> Tensor:
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


def _halves(angles: Tensor) -> Tensor:
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def _angles(positions: Tensor, dim: int, base: float, exponent: float = -2.0) -> Tensor:
    return positions[:, None] * base ** (exponent * torch.arange(dim // 2, dtype=torch.float64) / dim)


def _in_float32(positions: Tensor, dim: int, base: float) -> Tensor:
    return _interleaved((positions[:, None].float() * frequencies(dim, base).float()).double())


def _cosine_of_its_own(positions: Tensor, dim: int, base: float = 10_000.0, step: int = 1) -> Tensor:
    """A table in which the cosine of a pair is slower than its sine: component c has the exponent -step c / dim."""
    slower = base ** (-step * torch.arange(dim, dtype=torch.float64) / dim)
    angles = positions[:, None] * slower
    return torch.stack([angles[:, 0::2].sin(), angles[:, 1::2].cos()], dim=-1).flatten(-2)


check_my_encode = Check(
    "my_encode",
    encode,
    cases=[
        (torch.arange(6), 8, 10_000.0),
        (torch.tensor([5, -900, 17]), 64, 100.0),
        (torch.tensor([1_000_000]), 10, 10_000.0),
        (torch.arange(3), 2, 10_000.0),
    ],
    mistakes=[
        (
            "all sines stand before all cosines; here the two of a pair stand side by side",
            lambda p, *a: _halves(_angles(p, *a)),
        ),
        (
            "sine and cosine are exchanged: the sine comes first",
            lambda p, *a: encode(p, *a).unflatten(-1, (-1, 2)).flip(-1).flatten(-2),
        ),
        (
            "t counts pairs, 0, 1, 2, ...; you let it run over the components 0, 2, 4, ...",
            lambda p, dim, base: _interleaved(_angles(p, dim, base, exponent=-4.0)),
        ),
        (
            "the exponent has lost its minus sign: each hand is faster than the one before",
            lambda p, dim, base: _interleaved(_angles(p, dim, base, exponent=2.0)),
        ),
        (
            "the exponent is -t/dim and not -2t/dim: the hands do not slow down enough",
            lambda p, dim, base: _interleaved(_angles(p, dim, base, exponent=-1.0)),
        ),
        (
            "sine and cosine of a pair have one speed; yours go by the component and not by the pair",
            _cosine_of_its_own,
        ),
        ("you use 10,000 whatever base is given", lambda p, dim, base: encode(p, dim)),
        ("you multiplied in float32, which is too coarse at position 1,000,000; use float64", _in_float32),
    ],
)


def _offset(a: Tensor, b: Tensor, pair: int = -1, divide: bool = True, sign: int = 1) -> int:
    (sin_a, cos_a), (sin_b, cos_b) = a.view(-1, 2)[pair], b.view(-1, 2)[pair]
    angle = torch.atan2(sin_b * cos_a - cos_b * sin_a, cos_b * cos_a + sin_b * sin_a)
    return sign * round(float(angle / frequencies(len(a))[pair] if divide else angle))


def _difference_of(angle: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], int]:
    """The offset from the angles that are read off the slowest pair of each row, subtracted as they are."""
    return lambda a, b: round(float((angle(b[-2:]) - angle(a[-2:])) / frequencies(len(a))[-1]))


def _pair_of_rows(p: int, r: int, dim: int) -> tuple[Tensor, Tensor]:
    return encode(torch.tensor([p]), dim)[0], encode(torch.tensor([p + r]), dim)[0]


check_offset_between = Check(
    "offset_between",
    _offset,
    cases=[
        _pair_of_rows(20, 3, 64),
        _pair_of_rows(700, -650, 64),
        _pair_of_rows(3, 1000, 128),
        _pair_of_rows(50, 0, 64),
        _pair_of_rows(123, -1, 32),
        _pair_of_rows(23_000, 900, 64),
    ],
    mistakes=[
        ("right up to the sign: the offset goes from a to b", lambda a, b: _offset(a, b, sign=-1)),
        (
            "you read the fastest pair, which has gone round many times; the slowest has not",
            lambda a, b: _offset(a, b, pair=0),
        ),
        (
            "you returned the angle of the slowest pair; divide it by its theta",
            lambda a, b: _offset(a, b, divide=False),
        ),
        (
            "you returned the size of the offset; atan2 of sine and cosine keeps the direction",
            lambda a, b: abs(_offset(a, b)),
        ),
        (
            "the difference of two angles may be a whole turn off; bring it between -pi and pi",
            _difference_of(lambda hand: torch.atan2(hand[0], hand[1])),
        ),
        (
            "asin takes two hands for one, on the way up and on the way down; atan2 does not",
            _difference_of(lambda hand: torch.asin(hand[0])),
        ),
    ],
)


def _looks_right(E: Tensor) -> bool:
    dots = E @ E.T
    return bool((dots[1:, 1:] - dots[:-1, :-1]).abs().max() < 1e-9)


def _moved_by_a_matrix(E: Tensor) -> bool:
    best = torch.linalg.lstsq(E[:-1], E[1:], driver="gelsd").solution
    return bool((E[:-1] @ best - E[1:]).abs().max() < 1e-8)


def _constant(values: Tensor) -> bool:
    return bool((values - values[0]).abs().max() < 1e-9)


def _without_first_row(E: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(E[:1]), E[1:]])


_P = torch.arange(64)

TABLES: dict[str, Tensor] = {
    "a table from position 0": encode(_P, 16),
    "halves, base 1000, from position 40": _halves(_angles(_P + 40, 16, 1000.0)),
    "base 10, width 512, from position 100,000": encode(_P + 100_000, 512, 10.0),
    "the table of the tutorial": _cosine_of_its_own(_P, 16, step=2),
    "sines only": torch.sin(_angles(_P, 32, 10_000.0)),
    "angles in float32 from position 1,000,000": _in_float32(_P + 1_000_000, 64, 10_000.0),
    "a last row that repeats the one before": encode(_P.clamp(max=62), 16),
    "positions that turn round in the middle": encode((_P - 31).abs(), 16),
    "a first row of zeros": _without_first_row(encode(_P, 16)),
}

check_looks_right = JudgeCheck(
    "looks_right",
    _looks_right,
    cases=[(table,) for table in TABLES.values()],
    judged=[(name, "") for name in TABLES],
    mistakes=[
        (
            "every row has the right length in some of the wrong tables; compare rows with each other",
            lambda E: bool((E.norm(dim=-1) - (E.shape[-1] / 2) ** 0.5).abs().max() < 1e-9),
        ),
        (
            "you compare two pairs of rows; the fault may sit anywhere in the table",
            lambda E: bool((E[0] @ E[1] - E[1] @ E[2]).abs() < 1e-9),
        ),
        (
            "steps between neighbours are not enough: a table that turns round in the middle has equal ones",
            lambda E: _constant((E[1:] - E[:-1]).norm(dim=-1)),
        ),
        (
            "you take neighbouring columns for a pair; in another layout a sine and its cosine stand apart",
            lambda E: bool((E[:, 0::2].square() + E[:, 1::2].square() - 1).abs().max() < 1e-9),
        ),
        (
            "some matrix moves any table with no more rows than columns; compare rows with each other",
            _moved_by_a_matrix,
        ),
        (
            "you refuse every table: allow 1e-9 for rounding, and compare what should not depend on p",
            lambda E: False,
        ),
        ("you accept every table", lambda E: True),
    ],
)


def _smallest(similarity: Tensor, looked_at: int) -> float:
    """The factor of the similarities at which one of them gets 90 % of the softmax."""
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        enough = torch.softmax(middle * similarity, dim=0)[looked_at] >= 0.9
        low, high = (low, middle) if enough else (middle, high)
    return high


def _gain(dim: int, base: float, looked_at: int = -1, most: int = 0) -> float:
    """The factor at which the query at 40 gives 90 % of its weight to the key that a shift by one points at."""
    r = torch.arange(-40, most + 1)
    return _smallest(torch.cos((r + 1)[:, None] * frequencies(dim, base)).sum(-1), 40 + looked_at)


def _gain_at_one_base(dim: int, base: float) -> float:
    P = encode(torch.arange(41), dim, base)
    return _smallest(P[40] @ shift_matrix(1, dim) @ P.T, 39)


check_gain = Check(
    "gain",
    _gain,
    cases=[(64, 10_000.0), (64, 100.0), (16, 10_000.0), (256, 500_000.0)],
    mistakes=[
        (
            "you divide the scores by sqrt(dim), which the exercise leaves out",
            lambda dim, base: dim**0.5 * _gain(dim, base),
        ),
        (
            "you count keys after the query; it sees j = 0 to 40",
            lambda dim, base: _gain(dim, base, most=40),
        ),
        (
            "the shift has base 10,000 whatever base is given; shift_matrix takes it as its third argument",
            _gain_at_one_base,
        ),
        (
            "it never gets there: is the weight you look at that of key 39, and is M_1 on the side of the key?",
            lambda dim, base: _gain(dim, base, looked_at=0),
        ),
    ],
    tolerance=1e-3,
)
