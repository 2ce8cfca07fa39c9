"""Checks of the exercises in notebook 03."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from posenc_lib.exercises.check import Check
from posenc_lib.lab.measure import randn

Attention = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def _rows(length: int, clip: int, sign: int = 1) -> Tensor:
    p = torch.arange(length)
    return (sign * (p - p[:, None])).clamp(-clip, clip) + clip


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_table: Tensor,
    value_table: Tensor,
    clip: int,
    rows: Tensor | None = None,
    value_rows: Tensor | None = None,
    key_scale: float = 1.0,
    scaled: bool = True,
    causal: bool = False,
) -> Tensor:
    rows = _rows(len(q), clip) if rows is None else rows
    s = q @ k.T + key_scale * (q @ key_table.T).gather(1, rows)
    s = s / math.sqrt(q.shape[-1]) if scaled else s
    s = s.masked_fill(torch.ones_like(s).bool().triu(1), -torch.inf) if causal else s
    alpha = s.softmax(-1)
    return alpha @ v + torch.einsum("ij,ijd->id", alpha, value_table[rows if value_rows is None else value_rows])


def _case(length: int, d: int, clip: int) -> tuple:
    return *randn(3, length, d), *randn(2, 2 * clip + 1, d, seed=1), clip


def _values_unweighted(
    q: Tensor, k: Tensor, v: Tensor, key_table: Tensor, value_table: Tensor, clip: int, mean: bool = False
) -> Tensor:
    plain = _attend(q, k, v, key_table, 0 * value_table, clip)
    added = value_table[_rows(len(q), clip)]
    return plain + (added.mean(1) if mean else added.sum(1))


def _key_meets_table(q: Tensor, k: Tensor, v: Tensor, key_table: Tensor, value_table: Tensor, clip: int) -> Tensor:
    rows = _rows(len(q), clip)
    s = (q @ k.T + (k @ key_table.T).gather(1, rows.T).T) / math.sqrt(q.shape[-1])
    alpha = s.softmax(-1)
    return alpha @ v + torch.einsum("ij,ijd->id", alpha, value_table[rows])


check_shaw_attention = Check(
    "shaw_attention",
    _attend,
    cases=[_case(6, 4, 2), _case(9, 8, 3), _case(5, 6, 8), _case(7, 2, 1)],
    mistakes=[
        (
            "right up to the sign: the tables are indexed by j - i, you used i - j",
            lambda q, k, v, a, b, clip: _attend(q, k, v, a, b, clip, rows=_rows(len(q), clip, -1)),
        ),
        (
            "the value term is missing: a^V is added to the values, inside the weighted sum",
            lambda q, k, v, a, b, clip: _attend(q, k, v, a, 0 * b, clip),
        ),
        (
            "the key term is missing: a^K is added to the keys before the product with q",
            lambda q, k, v, a, b, clip: _attend(q, k, v, 0 * a, b, clip),
        ),
        (
            "the position term must be divided by the square root of d too",
            lambda q, k, v, a, b, clip: _attend(q, k, v, a, b, clip, key_scale=math.sqrt(q.shape[-1])),
        ),
        (
            "you forgot the scale 1 / sqrt(d)",
            lambda q, k, v, a, b, clip: _attend(q, k, v, a, b, clip, scaled=False),
        ),
        (
            "add clip to the clipped j - i: a negative index counts from the end of the table",
            lambda q, k, v, a, b, clip: _attend(q, k, v, a, b, clip, rows=(_rows(len(q), clip) - clip) % len(a)),
        ),
        (
            "the two tables are exchanged: the first belongs to the keys",
            lambda q, k, v, a, b, clip: _attend(q, k, v, b, a, clip),
        ),
        (
            "the value table is indexed by i - j; both tables are indexed by j - i",
            lambda q, k, v, a, b, clip: _attend(q, k, v, a, b, clip, value_rows=_rows(len(q), clip, -1)),
        ),
        ("you multiplied a^K by the key; in equation 4 it meets the query", _key_meets_table),
        ("the vectors a^V must be weighted like the values: sum_j alpha_ij (v_j + a^V)", _values_unweighted),
        (
            "the vectors a^V are averaged; weight them like the values: sum_j alpha_ij (v_j + a^V)",
            lambda q, k, v, a, b, clip: _values_unweighted(q, k, v, a, b, clip, mean=True),
        ),
        (
            "that is attention under a causal mask; here every query sees every key",
            lambda q, k, v, a, b, clip: _attend(q, k, v, a, b, clip, causal=True),
        ),
    ],
)


CLIP = 3  # of the programs that a learner tells apart


def _program(rows: Callable[[Tensor], Tensor], causal: bool = False, scaled: bool = True) -> Attention:
    """Attention whose row of the tables for a relative position is ``rows(r)``."""

    def attention(q: Tensor, k: Tensor, v: Tensor, key_table: Tensor, value_table: Tensor) -> Tensor:
        p = torch.arange(len(q))
        return _attend(q, k, v, key_table, value_table, CLIP, rows(p - p[:, None]), causal=causal, scaled=scaled)

    return attention


PROGRAMS = {
    "right": _program(lambda r: r.clamp(-CLIP, CLIP) + CLIP),
    "one short on the right": _program(lambda r: r.clamp(-CLIP, CLIP - 1) + CLIP),
    "a row too far": _program(lambda r: (r.clamp(-CLIP, CLIP) + CLIP + 1) % (2 * CLIP + 1)),
    "without + c": _program(lambda r: r.clamp(-CLIP, CLIP) % (2 * CLIP + 1)),
    "causal mask left in": _program(lambda r: r.clamp(-CLIP, CLIP) + CLIP, causal=True),
    "i - j": _program(lambda r: (-r).clamp(-CLIP, CLIP) + CLIP),  # its own mirror image
    "without sqrt(d)": _program(lambda r: r.clamp(-CLIP, CLIP) + CLIP, scaled=False),
}


def _gap(
    attention: Attention,
    *inputs: Tensor,
    texts: bool = True,
    key_table: bool = True,
    value_table: bool = True,
    output: bool = True,
    axis: int = 0,
) -> Tensor:
    turned = (texts, texts, texts, key_table, value_table)
    backwards = attention(*(x.flip(axis) if turn else x for x, turn in zip(inputs, turned, strict=True)))
    return (backwards.flip(axis) if output else backwards) - attention(*inputs)


def _largest(attention: Attention, *inputs: Tensor, **turned: Any) -> Tensor:
    return _gap(attention, *inputs, **turned).abs().max()


check_mirror_gap = Check(
    "mirror_gap",
    _largest,
    cases=[
        (attention, *randn(3, 9, 4, seed=seed), *randn(2, 2 * CLIP + 1, 4, seed=seed + 20))
        for seed, attention in enumerate(PROGRAMS.values())
    ],
    mistakes=[
        (
            "reverse the tables too: what stood to the left now stands to the right",
            lambda *case: _largest(*case, key_table=False, value_table=False),
        ),
        ("reverse both tables, that of the values too", lambda *case: _largest(*case, value_table=False)),
        ("reverse both tables, that of the keys too", lambda *case: _largest(*case, key_table=False)),
        (
            "the outputs come out backwards: reverse them before you compare",
            lambda *case: _largest(*case, output=False),
        ),
        (
            "reverse the text as well as the tables: q, k and v, and then the outputs",
            lambda *case: _largest(*case, texts=False, output=False),
        ),
        (
            "flip(-1) reverses the numbers in each vector, which changes no product; flip(0) reverses the rows",
            lambda *case: _largest(*case, axis=-1),
        ),
        ("take the absolute value before the maximum", lambda *case: _gap(*case).max()),
        ("the largest difference, not the mean", lambda *case: _gap(*case).abs().mean()),
        ("the largest difference, not the sum", lambda *case: _gap(*case).abs().sum()),
        (
            "return the difference itself, not whether it is 0",
            lambda *case: (_largest(*case) < 1e-9).double(),
        ),
    ],
)


def _places(outputs: Tensor, value_table: Tensor, here: int = 1, right: int = 1) -> Tensor:
    direction = value_table[0] - value_table[2]
    rest = len(outputs) * outputs - here * value_table[1] - right * (len(outputs) - 1) * value_table[2]
    return rest @ direction / (direction @ direction)


def _places_case(order: list[int], d: int) -> tuple:
    table = randn(3, d, seed=len(order))
    i = torch.tensor(order, dtype=torch.float64)[:, None]
    return (i * table[0] + table[1] + (len(order) - 1 - i) * table[2]) / len(order), table


check_place_of = Check(
    "place_of",
    lambda outputs, value_table: _places(outputs, value_table).round(),
    cases=[
        _places_case([2, 0, 1, 3], 8),
        _places_case([4, 6, 5, 0, 1, 3, 2], 4),
        _places_case([(7 * n) % 12 for n in range(12)], 6),
    ],
    mistakes=[
        (
            "you counted from the right: row 0 of the table belongs to the keys on the left",
            lambda outputs, value_table: len(outputs) - 1 - _places(outputs, value_table).round(),
        ),
        (
            "the places are counted from 0, you counted from 1",
            lambda outputs, value_table: _places(outputs, value_table).round() + 1,
        ),
        (
            "the value terms are divided by L; multiply them by it first",
            lambda outputs, value_table: _places(outputs / len(outputs), value_table).round(),
        ),
        (
            "subtract (L - 1) a_1 as well: at place 0 all other keys stand to the right",
            lambda outputs, value_table: _places(outputs, value_table, right=0).round(),
        ),
        (
            "subtract a_0 as well: each query sees itself",
            lambda outputs, value_table: _places(outputs, value_table, here=0).round(),
        ),
        (
            "you gave the places 0, 1, 2, ... in the order of the rows; they must be read from the outputs",
            lambda outputs, value_table: torch.arange(len(outputs)).double(),
        ),
        (
            "you ranked the rows the wrong way round, or gave the order that sorts them and not their places",
            lambda outputs, value_table: _places(outputs, value_table).argsort().double(),
        ),
    ],
)
