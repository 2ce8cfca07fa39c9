"""Checks of the exercises in notebook 08."""

from collections.abc import Callable

import torch
from torch import Tensor

from posenc_lib.exercises.check import Check
from posenc_lib.lab.measure import randn
from posenc_lib.relative import relative_position
from posenc_lib.schemes.sinusoidal import encode

Encoding = Callable[[Tensor, int], Tensor]


def _odd_part(v: Tensor, r: Tensor) -> Tensor:
    return encode(r, len(v))[:, 0::2] @ v[0::2]


check_odd_part = Check(
    "odd_part",
    _odd_part,
    cases=[
        (randn(16, seed=1), torch.arange(-6, 7)),
        (randn(8, seed=2), torch.tensor([40, -3, 0, 7, 3])),
        (randn(2, seed=3), torch.tensor([-1])),
    ],
    mistakes=[
        ("that is the even part: the components with the cosines", lambda v, r: encode(r, len(v))[:, 1::2] @ v[1::2]),
        ("that is the whole curve v.R_r", lambda v, r: encode(r, len(v)) @ v),
        ("twice too large: the odd part of f is half of f(r) - f(-r)", lambda v, r: 2 * _odd_part(v, r)),
        ("right up to the sign: f(r) - f(-r), not f(-r) - f(r)", lambda v, r: -_odd_part(v, r)),
        (
            "you took the first half of v; sine and cosine of a pair stand side by side, so take v[0::2]",
            lambda v, r: encode(r, len(v))[:, 0::2] @ v[: len(v) // 2],
        ),
    ],
)


def _no_sines(r: Tensor, d: int) -> Tensor:
    return encode(r, d) * torch.tensor([0.0, 1.0], dtype=torch.float64).repeat(d // 2)


def _four_terms(q: Tensor, k: Tensor, u: Tensor, v: Tensor, encoded: Encoding = encode) -> Tensor:
    r = relative_position(torch.arange(len(q)), torch.arange(len(k)))
    return (q + u) @ k.T + torch.einsum("id,ijd->ij", q + v, encoded(r, len(v)))


def _published(q: Tensor, k: Tensor, u: Tensor, v: Tensor) -> Tensor:
    seen_from_the_key = relative_position(torch.arange(len(k)), torch.arange(len(q))).T
    return _four_terms(q, k, u, v) + torch.einsum("jd,ijd->ij", k, encode(seen_from_the_key, len(v)))


check_tener_scores = Check(
    "tener_scores",
    _four_terms,
    cases=[
        (randn(6, 8, seed=4), randn(6, 8, seed=5), randn(8, seed=6), randn(8, seed=7)),
        (randn(3, 4, seed=8), randn(5, 4, seed=9), randn(4, seed=10), randn(4, seed=11)),
        (randn(1, 2, seed=12), randn(3, 2, seed=13), randn(2, seed=14), randn(2, seed=15)),
    ],
    mistakes=[
        (
            "you divided by sqrt(d); TENER does not",
            lambda q, k, u, v: _four_terms(q, k, u, v) * len(v) ** -0.5,
        ),
        (
            "right up to the sign of the distance: here r = j - i, key minus query",
            lambda q, k, u, v: _four_terms(q, k, u, v, lambda r, d: encode(-r, d)),
        ),
        (
            "you took |r|: left and right of the query have become the same",
            lambda q, k, u, v: _four_terms(q, k, u, v, lambda r, d: encode(r.abs(), d)),
        ),
        (
            "the sines are missing: left and right of the query are the same",
            lambda q, k, u, v: _four_terms(q, k, u, v, _no_sines),
        ),
        (
            "u and v are exchanged: u meets the key, v meets the distance",
            lambda q, k, u, v: _four_terms(q, k, v, u),
        ),
        ("the term u.k_j is missing", lambda q, k, u, v: _four_terms(q, k, 0 * u, v)),
        ("the term v.R_r is missing", lambda q, k, u, v: _four_terms(q, k, u, 0 * v)),
        ("you added k_j.R as well: that is the authors' code, the paper has four terms", _published),
    ],
)


def _frequencies_taken(heads: int, d: int, step: int) -> Tensor:
    """Every head reads the pairs 0, step, 2 step, ... of the wide sinusoid, with the sines negated."""
    W = torch.zeros(heads, d, heads * d, dtype=torch.float64)
    t = torch.arange(d // 2)
    W[:, 2 * t, 2 * step * t] = -1.0
    W[:, 2 * t + 1, 2 * step * t + 1] = 1.0
    return W.flatten(0, 1)


def _sines_not_negated(heads: int, d: int) -> Tensor:
    return _frequencies_taken(heads, d, heads).abs()


check_projection = Check(
    "projection",
    lambda heads, d: _frequencies_taken(heads, d, heads),
    cases=[(1, 4), (2, 6), (4, 8), (3, 2)],
    mistakes=[
        (
            "right up to the sign of the sines: Transformer-XL counts i - j, TENER here j - i",
            _sines_not_negated,
        ),
        (
            "every head reads the first d components, whose waves are too fast; the pairs of TENER lie H pairs apart",
            lambda heads, d: _frequencies_taken(heads, d, 1),
        ),
        (
            "each head reads a slice of its own, so that only the first has the fast waves; all heads read the same",
            lambda heads, d: torch.diag(torch.tensor([-1.0, 1.0], dtype=torch.float64).repeat(heads * d // 2)),
        ),
        (
            "transposed: row = component of a head, column = component of the wide sinusoid",
            lambda heads, d: _frequencies_taken(heads, d, heads).T,
        ),
        (
            "that is one head of shape (d, D); W_R holds one such block for each head, one below the other",
            lambda heads, d: _frequencies_taken(heads, d, heads)[:d],
        ),
    ],
)
