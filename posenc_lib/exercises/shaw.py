"""Checks of the exercises in notebook 03."""

import torch
from torch import Tensor

from posenc_lib.exercises.check import Check
from posenc_lib.lab.measure import randn
from posenc_lib.relative import relative_position, sum_by_row
from posenc_lib.schemes.shaw import clipped_index


def _index(length: int, clip: int, sign: int = 1) -> Tensor:
    p = torch.arange(length)
    return clipped_index(sign * relative_position(p, p), clip)


check_table_row = Check(
    "table_row",
    lambda i, j, clip: max(-clip, min(clip, j - i)) + clip,
    cases=[(3, 1, 4), (0, 9, 4), (9, 0, 4), (5, 5, 2), (100, 103, 16), (7, 2, 3), (2, 3, 0)],
    mistakes=[
        (
            "right up to the sign: the relative position is j - i, key minus query",
            lambda i, j, clip: max(-clip, min(clip, i - j)) + clip,
        ),
        (
            "you returned the clipped distance, which may be negative; add clip to get a row",
            lambda i, j, clip: max(-clip, min(clip, j - i)),
        ),
        ("you did not clip: the row must lie between 0 and 2 clip", lambda i, j, clip: j - i + clip),
        ("a maximum alone bounds one side only; clip on both", lambda i, j, clip: max(j - i, clip) + clip),
        ("you clipped on the right only: j - i may be below -clip", lambda i, j, clip: min(clip, j - i) + clip),
        ("you clipped on the left only: j - i may be above clip", lambda i, j, clip: max(-clip, j - i) + clip),
        (
            "you dropped the direction: left and right have rows of their own",
            lambda i, j, clip: min(clip, abs(j - i)),
        ),
    ],
)


def _scores(q: Tensor, k: Tensor, table: Tensor, clip: int, sign: int = 1) -> Tensor:
    return (q @ k.T + (q @ table.T).gather(1, _index(len(q), clip, sign))) / q.shape[-1] ** 0.5


def _scores_case(length: int, d: int, clip: int) -> tuple:
    return *randn(2, length, d), randn(2 * clip + 1, d, seed=1), clip


check_relative_scores = Check(
    "relative_scores",
    _scores,
    cases=[_scores_case(6, 4, 2), _scores_case(9, 8, 3), _scores_case(5, 6, 8), _scores_case(7, 2, 1)],
    mistakes=[
        (
            "right up to the sign: the table is indexed by j - i, you used i - j",
            lambda q, k, table, clip: _scores(q, k, table, clip, sign=-1),
        ),
        (
            "the position term must be divided by the square root of d too",
            lambda q, k, table, clip: q @ k.T / q.shape[-1] ** 0.5 + (q @ table.T).gather(1, _index(len(q), clip)),
        ),
        ("you forgot the scale 1 / sqrt(d)", lambda q, k, table, clip: _scores(q, k, table, clip) * q.shape[-1] ** 0.5),
        (
            "you multiplied the table by the key; in equation 4 it meets the query",
            lambda q, k, table, clip: (
                (q @ k.T + (k @ table.T).gather(1, _index(len(q), clip).T).T) / q.shape[-1] ** 0.5
            ),
        ),
        (
            "the content term q . k is missing",
            lambda q, k, table, clip: (q @ table.T).gather(1, _index(len(q), clip)) / q.shape[-1] ** 0.5,
        ),
        ("the position term is missing", lambda q, k, table, clip: q @ k.T / q.shape[-1] ** 0.5),
    ],
)


def _value_term(weights: Tensor, table: Tensor, clip: int, sign: int = 1) -> Tensor:
    return sum_by_row(weights, _index(len(weights), clip, sign), 2 * clip + 1) @ table


def _overwritten(weights: Tensor, table: Tensor, clip: int) -> Tensor:
    """As from ``sums[i, index[i, j]] = weights[i, j]``: the last key of a row wins."""
    sums = torch.zeros(len(weights), 2 * clip + 1, dtype=weights.dtype)
    for i, rows in enumerate(_index(len(weights), clip)):
        for j, row in enumerate(rows):
            sums[i, row] = weights[i, j]
    return sums @ table


def _value_case(length: int, d: int, clip: int) -> tuple:
    return randn(length, length).softmax(-1), randn(2 * clip + 1, d, seed=1), clip


check_value_term = Check(
    "value_term",
    _value_term,
    cases=[_value_case(6, 4, 2), _value_case(9, 8, 3), _value_case(5, 6, 8), _value_case(7, 2, 1)],
    mistakes=[
        (
            "right up to the sign: the table is indexed by j - i, you used i - j",
            lambda weights, table, clip: _value_term(weights, table, clip, sign=-1),
        ),
        (
            "keys that share a row overwrite one another; their weights must be added (scatter_add, not scatter)",
            _overwritten,
        ),
        (
            "you added up the weights over the queries; transpose: weights[i, j] belongs to query i",
            lambda weights, table, clip: _value_term(weights.T, table, clip, sign=-1),
        ),
        (
            "each row was counted once, whatever its weight",
            lambda weights, table, clip: _value_term(torch.ones_like(weights), table, clip),
        ),
    ],
)
