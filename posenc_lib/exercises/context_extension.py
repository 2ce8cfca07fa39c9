"""Checks of the exercises in notebook 14."""

import math

import torch
from torch import Tensor

from posenc_lib.exercises.check import Check
from posenc_lib.lab.measure import randn
from posenc_lib.schemes.context_extension import dynamic_ntk, ntk_aware, position_interpolation, yarn
from posenc_lib.schemes.rope import inverse_frequencies, rotate

TURN = 2 * math.pi


def _count(condition: Tensor) -> int:
    return int(condition.sum())


def _frequencies(head_dim: int, base: float, rescaled: Tensor | None = None) -> tuple[Tensor, Tensor]:
    theta = inverse_frequencies(head_dim, base)
    return theta, theta if rescaled is None else rescaled


check_new_angles = Check(
    "new_angles",
    lambda theta, new, L, s: _count((L * theta < TURN) & (s * new > theta)),
    cases=[
        (*_frequencies(16, 1e4), 64, 4.0),
        (*_frequencies(128, 1e4), 4096, 8.0),
        (*_frequencies(128, 1e4, position_interpolation(128, 1e4, 4.0).inv_freq), 4096, 8.0),
        (*_frequencies(128, 5e5, position_interpolation(128, 5e5, 8.0).inv_freq), 8192, 8.0),
        (*_frequencies(64, 1e4, ntk_aware(64, 1e4, 9.0).inv_freq), 512, 4.0),
        (*_frequencies(64, 1e4, yarn(64, 1e4, 4.0, 512).inv_freq), 512, 4.0),
    ],
    mistakes=[
        (
            "you count every pair with less than a turn in training; one that is divided enough shows nothing new",
            lambda theta, new, L, s: _count(L * theta < TURN),
        ),
        (
            "a pair that made a full turn in training has seen every angle; do not count it",
            lambda theta, new, L, s: _count(s * new > theta),
        ),
        (
            "the turns in training are those of the old frequencies",
            lambda theta, new, L, s: _count((L * new < TURN) & (s * new > theta)),
        ),
        (
            "the turns that count are those in L tokens, the text of the training, not in s L",
            lambda theta, new, L, s: _count((s * L * theta < TURN) & (s * new > theta)),
        ),
        (
            "a full turn is 2 pi, not 1",
            lambda theta, new, L, s: _count((L * theta < 1) & (s * new > theta)),
        ),
        (
            "compare the largest angles: s L times the new frequency with L times the old one; you left out s",
            lambda theta, new, L, s: _count((L * theta < TURN) & (new > theta)),
        ),
        (
            "you count the pairs that are safe",
            lambda theta, new, L, s: _count((L * theta >= TURN) | (s * new <= theta)),
        ),
    ],
)

check_ntk_base = Check(
    "ntk_base",
    lambda head_dim, base, factor, pair: base * factor ** (head_dim / (2 * pair)),
    cases=[(128, 1e4, 4.0, 63), (128, 1e4, 4.0, 46), (16, 1e4, 2.0, 2), (64, 500.0, 3.0, 10)],
    mistakes=[
        (
            "right for the last pair only: d / (d - 2) is d / 2t at t = d/2 - 1",
            lambda head_dim, base, factor, pair: base * factor ** (head_dim / (head_dim - 2)),
        ),
        (
            "factor^(1/t) is the step from one pair to the next; the base takes its d/2-th power",
            lambda head_dim, base, factor, pair: base * factor ** (1 / pair),
        ),
        (
            "right up to the exponent: base'^(-2t/d) must be base^(-2t/d) / factor; you have 2t/d where d/2t belongs",
            lambda head_dim, base, factor, pair: base * factor ** (2 * pair / head_dim),
        ),
        (
            "d/t where d/2t belongs: the exponent of the frequency is 2t/d",
            lambda head_dim, base, factor, pair: base * factor ** (head_dim / pair),
        ),
        (
            "you returned what the base is multiplied by",
            lambda head_dim, base, factor, pair: factor ** (head_dim / (2 * pair)),
        ),
        (
            "you multiplied the base by the factor itself, which divides pair t by factor^(2t/d)",
            lambda head_dim, base, factor, pair: base * factor,
        ),
        (
            "the base must grow: a larger base is a smaller frequency",
            lambda head_dim, base, factor, pair: base / factor ** (head_dim / (2 * pair)),
        ),
    ],
    tolerance=1e-5,
)


def _scores(q: Tensor, keys: Tensor, theta: Tensor, at: int | None = None) -> Tensor:
    """Scores of a query at the last position with all keys, turned with the frequencies theta."""
    n, d = keys.shape
    last = torch.tensor([n - 1 if at is None else at])
    return rotate(keys, torch.arange(n), theta) @ rotate(q[None], last, theta)[0] / d**0.5


def _rotated_cache(q: Tensor, keys: Tensor, base: float, L: int) -> Tensor:
    n, d = keys.shape
    rules = [dynamic_ntk(d, base, length, L).inv_freq for length in range(1, n + 1)]
    cache = torch.cat([rotate(keys[m : m + 1], torch.tensor([m]), rules[m]) for m in range(n)])
    return cache @ rotate(q[None], torch.tensor([n - 1]), rules[-1])[0] / d**0.5


def _right(q: Tensor, keys: Tensor, base: float, L: int) -> Tensor:
    n, d = keys.shape
    return _scores(q, keys, dynamic_ntk(d, base, n, L).inv_freq)


def _without_bound(q: Tensor, keys: Tensor, base: float, L: int) -> Tensor:
    n, d = keys.shape
    return _scores(q, keys, inverse_frequencies(d, base * (n / L) ** (d / (d - 2))))


check_dynamic_scores = Check(
    "dynamic_scores",
    _right,
    cases=[
        (randn(16, seed=1), randn(200, 16, seed=2), 1e4, 64),
        (randn(32, seed=3), randn(40, 32, seed=4), 1e4, 64),
        (randn(8, seed=5), randn(70, 8, seed=6), 5e5, 16),
    ],
    mistakes=[
        (
            "each key is turned as when it arrived; all of them must be turned anew at the present length",
            _rotated_cache,
        ),
        ("in a text shorter than L nothing changes: s is at least 1", _without_bound),
        (
            "the query is token n - 1, counted from 0; you put it at n",
            lambda q, keys, base, L: _scores(
                q, keys, dynamic_ntk(keys.shape[1], base, len(keys), L).inv_freq, at=len(keys)
            ),
        ),
        (
            "the scores are divided by sqrt d",
            lambda q, keys, base, L: _right(q, keys, base, L) * keys.shape[1] ** 0.5,
        ),
        (
            "these are the scores of the model as trained: the base must grow with the text",
            lambda q, keys, base, L: _scores(q, keys, inverse_frequencies(keys.shape[1], base)),
        ),
        (
            "you divided all frequencies by s: that is position interpolation",
            lambda q, keys, base, L: _scores(
                q, keys, position_interpolation(keys.shape[1], base, max(1.0, len(keys) / L)).inv_freq
            ),
        ),
        (
            "length and L are exchanged: s is n / L",
            lambda q, keys, base, L: _scores(q, keys, dynamic_ntk(keys.shape[1], base, L, len(keys)).inv_freq),
        ),
        ("the keys are not turned at all", lambda q, keys, base, L: keys @ q / keys.shape[1] ** 0.5),
    ],
)
