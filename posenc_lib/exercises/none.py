"""Checks of the exercises in notebook 00."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from posenc_lib.attention import attend
from posenc_lib.exercises.check import Check
from posenc_lib.lab.measure import randn
from posenc_lib.schemes.none import NoPosition


def _visible(q: Tensor, k: Tensor, last: bool = True, past: bool = False, itself: bool = True) -> Tensor:
    """Which key (columns) a query (rows) may see; ``last``: the queries stand at the last places of the keys."""
    j = torch.arange(k.shape[-2])
    i = j[-q.shape[-2] :] if last else torch.arange(q.shape[-2])
    if past:
        return j >= i[:, None]
    return j <= i[:, None] if itself else j < i[:, None]


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool,
    *,
    root: float = 0.5,
    axis: int = -1,
    hidden: float = -math.inf,
    last: bool = True,
    past: bool = False,
    itself: bool = True,
) -> Tensor:
    s = q @ k.mT / q.shape[-1] ** root
    if causal:
        s = s.masked_fill(~_visible(q, k, last, past, itself), hidden)
    return s.softmax(axis).nan_to_num() @ v


def _masked_too_late(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    w = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
    return (w.masked_fill(~_visible(q, k), 0) if causal else w) @ v


def _three(queries: int, keys: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    return randn(2, 3, queries, 4, seed=seed), randn(2, 3, keys, 4, seed=seed + 1), randn(2, 3, keys, 4, seed=seed + 2)


check_my_attend = Check(
    "my_attend",
    lambda q, k, v, causal: attend(q, k, v, NoPosition(), causal),
    cases=[
        (*_three(5, 5, seed=0), False),
        (*_three(2, 6, seed=3), False),
        (*_three(4, 5, seed=6), True),
        (*_three(2, 6, seed=9), True),
    ],
    mistakes=[
        (
            "the scores are not divided by the square root of d",
            lambda q, k, v, causal: _attend(q, k, v, causal, root=0),
        ),
        (
            "the scores are divided by d; by its square root is right",
            lambda q, k, v, causal: _attend(q, k, v, causal, root=1),
        ),
        (
            "the softmax runs over the queries; the weights of one query must add up to 1, so take the last axis",
            lambda q, k, v, causal: _attend(q, k, v, causal, axis=-2),
        ),
        (
            "the mask is missing: causal is not used",
            lambda q, k, v, causal: _attend(q, k, v, False),
        ),
        (
            "you hide what comes before a query and let it see what comes after",
            lambda q, k, v, causal: _attend(q, k, v, causal, past=True),
        ),
        (
            "a query may see the key at its own place; hide only those after it, j > i",
            lambda q, k, v, causal: _attend(q, k, v, causal, itself=False),
        ),
        (
            "right for as many queries as keys; fewer stand at the last places, not at the first",
            lambda q, k, v, causal: _attend(q, k, v, causal, last=False),
        ),
        (
            "a hidden score of 0 still gets a weight, since exp(0) = 1; hide with minus infinity",
            lambda q, k, v, causal: _attend(q, k, v, causal, hidden=0.0),
        ),
        (
            "you hide weights after the softmax, so the others do not add up to 1; hide scores before it",
            _masked_too_late,
        ),
    ],
)


def _layer(diagonal: int, axis: int = -1) -> Callable[[Tensor], Tensor]:
    """Attention of a text to itself, in which a query sees ``diagonal`` keys after its own."""

    def f(x: Tensor) -> Tensor:
        visible = torch.ones(len(x), len(x), dtype=torch.bool).tril(diagonal)
        return (x @ x.T).masked_fill(~visible, -torch.inf).softmax(axis) @ x

    return f


def _future_leak(f: Callable[[Tensor], Tensor], x: Tensor, i: int) -> Tensor:
    other = x.clone()
    other[i + 1 :] *= -1
    return (f(other) - f(x))[: i + 1].abs().max()


def _without_the_last(f: Callable[[Tensor], Tensor], x: Tensor, i: int) -> Tensor:
    other = x.clone()
    other[i + 1 :] *= -1
    return (f(other) - f(x))[:i].abs().max()


def _only_at(f: Callable[[Tensor], Tensor], x: Tensor, i: int) -> Tensor:
    other = x.clone()
    other[i + 1 :] *= -1
    return (f(other) - f(x))[i].abs().max()


def _itself_too(f: Callable[[Tensor], Tensor], x: Tensor, i: int) -> Tensor:
    other = x.clone()
    other[i:] *= -1
    return (f(other) - f(x))[: i + 1].abs().max()


def _everywhere(f: Callable[[Tensor], Tensor], x: Tensor, i: int) -> Tensor:
    other = x.clone()
    other[i + 1 :] *= -1
    return (f(other) - f(x)).abs().max()


def _signed(f: Callable[[Tensor], Tensor], x: Tensor, i: int) -> Tensor:
    other = x.clone()
    other[i + 1 :] *= -1
    return (f(other) - f(x))[: i + 1].max()


def _mean(f: Callable[[Tensor], Tensor], x: Tensor, i: int) -> Tensor:
    other = x.clone()
    other[i + 1 :] *= -1
    return (f(other) - f(x))[: i + 1].abs().mean()


check_future_leak = Check(
    "future_leak",
    _future_leak,
    cases=[
        (_layer(0), randn(6, 4, seed=0), 2),
        (_layer(1), randn(6, 4, seed=1), 2),
        (_layer(6), randn(6, 4, seed=2), 3),
        (_layer(0, axis=-2), randn(6, 4, seed=3), 4),
        (lambda x: x - x.mean(0), randn(5, 3, seed=4), 1),
    ],
    mistakes=[
        (
            "you compare all outputs; those after i may change, so look at 0 to i",
            _everywhere,
        ),
        (
            "you left out the output at i, which must not see what comes after it either",
            _without_the_last,
        ),
        (
            "you look at the output at i only; those before it must not change either",
            _only_at,
        ),
        (
            "you changed token i as well; only those after i",
            _itself_too,
        ),
        (
            "always 0: you changed x itself and compare it with itself; clone it first",
            lambda f, x, i: torch.zeros((), dtype=torch.float64),
        ),
        (
            "you took the largest difference; a negative one can be larger in size",
            _signed,
        ),
        (
            "you took the mean of the differences; the largest is asked for",
            _mean,
        ),
    ],
)


def _told_apart(score: float, resolution: float, most: int = 10**9) -> int:
    w, i = math.exp(score), 0
    while i < most and w / (w + i) - w / (w + i + 1) >= resolution:
        i += 1
    return i


def _weights_above(score: float, resolution: float) -> int:
    w, i = math.exp(score), 0
    while w / (w + i) >= resolution:
        i += 1
    return i


check_told_apart = Check(
    "told_apart",
    _told_apart,
    cases=[(0.0, 0.01), (3.5, 0.001), (5.5, 0.001), (7.0, 0.001), (-1.5, 0.03), (6.9, 0.0001)],
    mistakes=[
        (
            "you count places; 5 steps lie between 6 places, and steps are asked for",
            lambda score, resolution: _told_apart(score, resolution) + 1,
        ),
        (
            "one too few: the step from place 0 to place 1 counts, too",
            lambda score, resolution: max(_told_apart(score, resolution) - 1, 0),
        ),
        (
            "a table of 512 weights has 511 steps; the text has no end",
            lambda score, resolution: _told_apart(score, resolution, most=511),
        ),
        (
            "right up to 512 places; the text has no end",
            lambda score, resolution: _told_apart(score, resolution, most=512),
        ),
        (
            "right for a BOS score of 0 only: is score used at all?",
            lambda score, resolution: _told_apart(0.0, resolution),
        ),
        (
            "softmax takes the exponential of the score: exp(score), not score",
            lambda score, resolution: _told_apart(math.log(abs(score) + 1e-12), resolution),
        ),
        (
            "you compare the weight with the resolution; the step from one place to the next is asked for",
            _weights_above,
        ),
    ],
)
