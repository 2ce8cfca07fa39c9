"""Checks of the exercises in notebook 04."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from posenc_lib.exercises.check import Check
from posenc_lib.lab.measure import randn
from posenc_lib.schemes.music_transformer import skew


def _where_from(i: int, j: int, length: int, cut: int = 1) -> tuple[int, int]:
    row, column = divmod((i + cut) * length + j, length + 1)
    return row, column - 1


check_where_from = Check(
    "where_from",
    _where_from,
    cases=[(3, 1, 5), (4, 0, 5), (2, 2, 5), (1, 2, 5), (0, 4, 5), (2, 4, 5), (0, 0, 1), (6, 3, 9), (3, 6, 9)],
    mistakes=[
        (
            "right on and below the diagonal; above it stand the padding and the next row",
            lambda i, j, length: (i, j - i + length - 1),
        ),
        (
            "the first row of the reshaped matrix is cut off: entry (i, j) stood in its row i + 1",
            lambda i, j, length: _where_from(i, j, length, cut=0),
        ),
        (
            "that is the column of the padded matrix; the padding is column -1 and the logits start at column 0",
            lambda i, j, length: divmod((i + 1) * length + j, length + 1),
        ),
        ("you divided by L; a row of the padded matrix has L + 1 numbers", lambda i, j, length: (i + 1, j - 1)),
    ],
)


def _both_ways(logits: Tensor) -> Tensor:
    rows, columns = logits.shape
    return pad(logits, (1, 0)).flatten()[rows:].reshape(rows, columns)


check_skew_both_ways = Check(
    "skew_both_ways",
    lambda logits: _both_ways(logits)[:, : len(logits)],
    cases=[(randn(n, 2 * n - 1, seed=n),) for n in (1, 4, 5, 8)],
    mistakes=[
        (
            "right on and below the diagonal; the distances 1 to L - 1 have columns of their own, the last L - 1",
            lambda logits: skew(logits[:, : len(logits)]),
        ),
        (
            "right on and below the diagonal; nothing is masked here, keys after the query have scores too",
            lambda logits: _both_ways(logits)[:, : len(logits)].tril(),
        ),
        ("the rows are in place, but there are 2 L - 1 columns: only the first L are keys", _both_ways),
        (
            "you kept the last L columns; the keys are the first",
            lambda logits: _both_ways(logits)[:, len(logits) - 1 :],
        ),
        (
            "right up to the sign: column c is the distance c - (L - 1), you read it from the other end",
            lambda logits: _both_ways(logits.flip(-1))[:, : len(logits)],
        ),
        (
            "the rows have not moved: that is the distances -(L - 1) to 0 of every query",
            lambda logits: logits[:, : len(logits)],
        ),
    ],
)


def _by_distance(weights: Tensor) -> Tensor:
    length = len(weights)
    return pad(weights, (0, 0, 1, 0)).reshape(length, length + 1)[:, 1:]


def _causal(length: int) -> Tensor:
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    return randn(length, length, seed=length).masked_fill(future, -torch.inf).softmax(-1)


check_by_distance = Check(
    "by_distance",
    _by_distance,
    cases=[(_causal(n),) for n in (1, 4, 5, 8)],
    mistakes=[
        ("you skewed the weights once more; the way back pads, reads and cuts in the other order", skew),
        (
            "the columns stand the other way round: distance 0 belongs in the last column",
            lambda weights: _by_distance(weights).flip(-1),
        ),
        ("the columns are still keys: row i has to move to the right by L - 1 - i", lambda weights: weights),
        (
            "every row has moved by the same amount; row i moves by L - 1 - i",
            lambda weights: weights.roll(1, -1),
        ),
        (
            "that has L + 1 columns: the first holds what is left of the padding, cut it off",
            lambda weights: pad(weights, (0, 0, 1, 0)).reshape(len(weights), -1),
        ),
    ],
)
