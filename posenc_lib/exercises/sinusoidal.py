"""Checks of the exercises in notebook 01."""

import math

import torch
from torch import Tensor

from posenc_lib.exercises.check import Check
from posenc_lib.schemes.sinusoidal import encode, frequencies, shift_matrix


def _wavelengths(dim: int, base: float) -> Tensor:
    return 2 * math.pi / frequencies(dim, base)


def _by_component(dim: int, base: float) -> Tensor:
    """Wavelengths as they come out when t is read as the component and runs over all of them."""
    return 2 * math.pi * base ** (2 * torch.arange(dim, dtype=torch.float64) / dim)


check_slow_pairs = Check(
    "slow_pairs",
    lambda dim, base, length: int((_wavelengths(dim, base) > length).sum()),
    cases=[(512, 10_000.0, 512), (64, 10_000.0, 2048), (64, 500_000.0, 8192), (32, 100.0, 1000), (8, 10.0, 5)],
    mistakes=[
        (
            "you compared 1 / theta_t with the length: a full turn takes 2 pi / theta_t positions",
            lambda dim, base, length: int((1 / frequencies(dim, base) > length).sum()),
        ),
        (
            "you counted components; every pair has two",
            lambda dim, base, length: 2 * int((_wavelengths(dim, base) > length).sum()),
        ),
        (
            "t counts pairs, 0 to dim/2 - 1; you let it run over all components",
            lambda dim, base, length: int((_by_component(dim, base) > length).sum()),
        ),
        (
            "you counted the pairs that do complete a turn",
            lambda dim, base, length: int((_wavelengths(dim, base) <= length).sum()),
        ),
    ],
)


def _rotate_pairs(P: Tensor, k: int, sign: int) -> Tensor:
    angles = k * frequencies(P.shape[-1])
    c, s = angles.cos(), sign * angles.sin()
    sine, cosine = P[:, 0::2], P[:, 1::2]
    return torch.stack([c * sine + s * cosine, c * cosine - s * sine], dim=-1).flatten(-2)


def _rotate_halves(P: Tensor, k: int) -> Tensor:
    angles = k * frequencies(P.shape[-1])
    c, s = angles.cos(), angles.sin()
    sine, cosine = P.chunk(2, dim=-1)
    return torch.cat([c * sine + s * cosine, c * cosine - s * sine], dim=-1)


check_shift = Check(
    "shift",
    lambda P, k: P @ shift_matrix(k, P.shape[-1]).T,
    cases=[
        (encode(torch.arange(6), 8), 3),
        (encode(torch.tensor([5, 900, 17]), 64), -7),
        (encode(torch.arange(3), 10), 0),
        (encode(torch.arange(40, 45), 2), 1000),
    ],
    mistakes=[
        (
            "right up to the sign of k: you move to the left by k (row vectors need P @ M_k.T, not P @ M_k)",
            lambda P, k: _rotate_pairs(P, k, sign=-1),
        ),
        ("you paired component t with t + D/2; here sine and cosine of a pair stand side by side", _rotate_halves),
        (
            "you added the encoding of k; moving is a rotation, not a sum",
            lambda P, k: P + encode(torch.tensor([k]), P.shape[-1]),
        ),
        ("you returned P as it came", lambda P, k: P),
    ],
)


def _offset(a: Tensor, b: Tensor, pair: int = -1, divide: bool = True, sign: int = 1) -> int:
    (sin_a, cos_a), (sin_b, cos_b) = a.view(-1, 2)[pair], b.view(-1, 2)[pair]
    angle = torch.atan2(sin_b * cos_a - cos_b * sin_a, cos_b * cos_a + sin_b * sin_a)
    return sign * round(float(angle / frequencies(len(a))[pair] if divide else angle))


def _case(p: int, k: int, dim: int) -> tuple[Tensor, Tensor]:
    return encode(torch.tensor([p]), dim)[0], encode(torch.tensor([p + k]), dim)[0]


check_offset_between = Check(
    "offset_between",
    _offset,
    cases=[_case(20, 3, 64), _case(700, -650, 64), _case(3, 1000, 128), _case(50, 0, 64), _case(123, -1, 32)],
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
    ],
)
