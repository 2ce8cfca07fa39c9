"""Checks of the exercises in notebook 05."""

import math

import torch
from torch import Tensor

from posenc_lib.exercises.check import Check
from posenc_lib.lab.measure import randn
from posenc_lib.schemes.sinusoidal import encode
from posenc_lib.schemes.transformer_xl import relative_shift


def _term_d(W_R: Tensor, v: Tensor, distances: Tensor, scaled: bool = True) -> Tensor:
    s = encode(distances, W_R.shape[1]) @ W_R.T @ v
    return s / math.sqrt(len(v)) if scaled else s


check_term_d = Check(
    "term_d",
    _term_d,
    cases=[
        (randn(8, 8, seed=1), randn(8, seed=2), torch.arange(12)),
        (randn(4, 4, seed=3), randn(4, seed=4), torch.tensor([-3, 0, 700, 5])),
        (torch.eye(16, dtype=torch.float64), encode(torch.tensor([3]), 16)[0], torch.arange(-5, 6)),
    ],
    mistakes=[
        ("right up to the scale: the whole score is divided by sqrt(d)", lambda W, v, m: _term_d(W, v, m, False)),
        (
            "you divided by sqrt of the number of distances; d is the width of v",
            lambda W, v, m: _term_d(W, v, m, False) / math.sqrt(len(m)),
        ),
        ("W_R is on the wrong side: rows of encodings need R @ W_R.T", lambda W, v, m: _term_d(W.T, v, m)),
        ("you encoded j - i; the distance is i - j", lambda W, v, m: _term_d(W, v, -m)),
    ],
)


def _ascending(logits: Tensor) -> Tensor:
    return relative_shift(logits.flip(-1)).tril()


check_shift_ascending = Check(
    "shift_ascending",
    _ascending,
    cases=[(randn(n, n, seed=n),) for n in (1, 4, 7)],
    mistakes=[
        (
            "right on and below the diagonal; above it stands what is left over, put zeros there",
            lambda logits: relative_shift(logits.flip(-1)),
        ),
        (
            "the shift expects the largest distance first; your columns still stand the other way round",
            lambda logits: relative_shift(logits).tril(),
        ),
        (
            "you turned the columns round after the shift; turn them before it",
            lambda logits: relative_shift(logits).flip(-1).tril(),
        ),
        (
            "you turned the queries round (the rows); only the distances (the columns) have to be",
            lambda logits: relative_shift(logits.flip(-2)).tril(),
        ),
        ("the columns are still distances, not keys: row i has not been moved", lambda logits: logits.tril()),
    ],
)


def _first_seen(t: int, layers: int, segment: int, memory: int) -> int:
    for _ in range(layers):
        t = t // segment * segment - memory  # a text without a beginning
    return t


def _smallest_memory(context: int, layers: int, segment: int, places: range | None = None) -> int:
    memory = 0
    places = range(segment) if places is None else places
    while any(t - _first_seen(t, layers, segment, memory) < context for t in places):
        memory += 1
    return memory


check_smallest_memory = Check(
    "smallest_memory",
    _smallest_memory,
    cases=[(20, 2, 8), (24, 3, 8), (17, 3, 8), (100, 4, 16), (5, 1, 4), (130, 2, 32)],
    mistakes=[
        (
            "true for the last token of a segment; the first one has fewer places before it",
            lambda context, layers, segment: _smallest_memory(context, layers, segment, range(segment - 1, segment)),
        ),
        (
            "you divided the context by the layers; a token in the memory also sees the start of its own segment",
            lambda context, layers, segment: -(-context // layers),
        ),
        (
            "that is what one layer would need; the reach grows with the layers",
            lambda context, layers, segment: _smallest_memory(context, 1, segment),
        ),
        (
            "one less is enough: a reach of exactly context counts",
            lambda context, layers, segment: _smallest_memory(context + 1, layers, segment),
        ),
    ],
)
