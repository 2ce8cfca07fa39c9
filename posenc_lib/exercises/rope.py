"""Checks of the exercises in notebook 13."""

import torch
from torch import Tensor

from posenc_lib.exercises.check import Check
from posenc_lib.lab.measure import randn
from posenc_lib.schemes.rope import inverse_frequencies, layout_permutation, rotate, rotation_matrix


def _complex(x: Tensor) -> Tensor:
    return torch.view_as_complex(x.view(-1, 2).contiguous())


def _sum(q: Tensor, k: Tensor, offset: int, inv_freq: Tensor) -> Tensor:
    return (q * k * torch.polar(torch.ones_like(inv_freq), -offset * inv_freq)).sum()


def _halves(x: Tensor) -> Tensor:
    return torch.complex(*x.chunk(2))


check_relative_score = Check(
    "relative_score",
    lambda q, k, offset, inv_freq: q @ rotation_matrix(offset, inv_freq) @ k,
    cases=[
        (randn(d, seed=1), randn(d, seed=2), offset, inverse_frequencies(d, base))
        for d, offset, base in (
            (8, 3, 10_000.0),
            (64, -17, 10_000.0),
            (2, 1, 10.0),
            (16, 0, 100.0),
            (128, 900, 500_000.0),
        )
    ],
    mistakes=[
        (
            "right up to the sign of the offset: m - n stands in the exponent, and the offset is n - m",
            lambda q, k, offset, f: _sum(_complex(q), _complex(k).conj(), -offset, f).real,
        ),
        (
            "the conjugate is missing: <q, k> is the real part of q conj(k)",
            lambda q, k, offset, f: _sum(_complex(q), _complex(k), offset, f).real,
        ),
        (
            "you returned the complex sum; the dot product is its real part",
            lambda q, k, offset, f: _sum(_complex(q), _complex(k).conj(), offset, f),
        ),
        (
            "you took the modulus of the sum; the dot product is its real part",
            lambda q, k, offset, f: _sum(_complex(q), _complex(k).conj(), offset, f).abs(),
        ),
        (
            "you paired component t with t + d/2; in this layout a pair stands side by side",
            lambda q, k, offset, f: _sum(_halves(q), _halves(k).conj(), offset, f).real,
        ),
        ("you left out the rotation: that is the score at offset 0", lambda q, k, offset, f: q @ k),
    ],
)


def _per_head(W: Tensor, head_dim: int, order: Tensor) -> Tensor:
    return W.unflatten(0, (-1, head_dim))[:, order].flatten(0, 1)


def _heads_last(W: Tensor, head_dim: int) -> Tensor:
    return W.unflatten(0, (head_dim, -1))[layout_permutation(head_dim)].flatten(0, 1)


check_convert_weight = Check(
    "convert_weight",
    lambda W, head_dim: _per_head(W, head_dim, layout_permutation(head_dim)),
    cases=[(randn(24, 24, seed=3), 6), (randn(32, 48, seed=4), 8), (randn(16, 16, seed=5), 16)],
    mistakes=[
        (
            "you permuted the columns, which belong to the input; the components of q are rows of W",
            lambda W, head_dim: W.unflatten(1, (-1, head_dim))[:, :, layout_permutation(head_dim)].flatten(1),
        ),
        (
            "you permuted all rows as if they were one head; each head has its own pairs",
            lambda W, head_dim: W[layout_permutation(len(W))],
        ),
        (
            "that is the inverse permutation: it turns the half layout into the interleaved one",
            lambda W, head_dim: _per_head(W, head_dim, layout_permutation(head_dim).argsort()),
        ),
        ("the rows are grouped by head first: view them as (heads, head_dim, D)", _heads_last),
        ("you returned W as it came", lambda W, head_dim: W),
    ],
)


def _cached(positions: list[int], d: int, old: float, new: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    p = torch.tensor(positions)
    before, after = inverse_frequencies(d, old), inverse_frequencies(d, new)
    return rotate(randn(len(p), d, seed=d), p, before), p, before, after


check_rescale_cache = Check(
    "rescale_cache",
    lambda keys, positions, old, new: rotate(keys, positions, new - old),
    cases=[
        _cached([0, 1, 2, 3, 4], 16, 10_000.0, 40_000.0),
        _cached([100, 7, 512], 64, 10_000.0, 500_000.0),
        _cached([30, 31, 32, 33], 8, 500_000.0, 10_000.0),
    ],
    mistakes=[
        (
            "the keys still hold the old rotation: you turned them by the new one on top of it",
            lambda keys, positions, old, new: rotate(keys, positions, new),
        ),
        (
            "you took the old rotation off and did not put the new one on",
            lambda keys, positions, old, new: rotate(keys, positions, -old),
        ),
        (
            "right up to the sign: take the old angles off and put the new ones on",
            lambda keys, positions, old, new: rotate(keys, positions, old - new),
        ),
        (
            "you put the key in row r at position r; the positions are given",
            lambda keys, positions, old, new: rotate(keys, torch.arange(len(keys)), new - old),
        ),
        (
            "you paired component t with t + d/2; in this layout a pair stands side by side",
            lambda keys, positions, old, new: rotate(keys, positions, new - old, "half"),
        ),
        ("you returned the keys as they came", lambda keys, positions, old, new: keys),
    ],
)
