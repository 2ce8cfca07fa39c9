"""Checks of the exercises in notebook 11."""

import torch
from torch import Tensor

from posenc_lib.exercises.check import Check
from posenc_lib.relative import toeplitz_rows_reversed
from posenc_lib.schemes.t5 import relative_position_bucket


def _share_bucket(r: int, every: Tensor, bidirectional: bool = True) -> Tensor:
    bucket = relative_position_bucket(every, bidirectional)
    return every[bucket == relative_position_bucket(torch.tensor(r), bidirectional)]


def _window(length: int) -> Tensor:
    return torch.arange(1 - length, length)


def _one_side(r: int, length: int) -> Tensor:
    return _share_bucket(r, torch.arange(length))


def _distances_only(r: int, length: int) -> Tensor:
    every = _window(length)
    return every[relative_position_bucket(-every.abs()) == relative_position_bucket(torch.tensor(-abs(r)))]


check_same_bucket = Check(
    "same_bucket",
    lambda r, length: _share_bucket(r, _window(length)),
    cases=[(20, 200), (-9, 200), (0, 50), (100, 150), (-100, 120), (5, 8)],
    mistakes=[
        ("relative positions are negative too: a key may stand to the left of the query", _one_side),
        ("you put both directions into one bucket: the sign of r matters", _distances_only),
        (
            "you used the causal buckets; here each direction has 16",
            lambda r, length: _share_bucket(r, _window(length), bidirectional=False),
        ),
        (
            "a text of L tokens has relative positions -(L-1) to L-1; your range has other ends",
            lambda r, length: _share_bucket(r, torch.arange(-length, length + 1)),
        ),
        (
            "you left out L-1, the last relative position: arange stops before its end",
            lambda r, length: _share_bucket(r, _window(length)[:-1]),
        ),
        (
            "you returned distances; relative positions are wanted, with their sign",
            lambda r, length: _share_bucket(r, _window(length)).abs(),
        ),
    ],
)


def _tail_share(b: Tensor, length: int, bidirectional: bool = False, last: int = 31) -> Tensor:
    bucket = relative_position_bucket(-torch.arange(length), bidirectional)
    return b[bucket].softmax(0)[bucket == last].sum()


def _bias_share(b: Tensor, length: int) -> Tensor:
    """The share by the numbers themselves, without the exponential."""
    bucket = relative_position_bucket(-torch.arange(length), bidirectional=False)
    return b[bucket][bucket == 31].sum() / b[bucket].sum()


_GENERATOR = torch.Generator().manual_seed(0)
_B = torch.randn(32, generator=_GENERATOR, dtype=torch.float64)

check_tail_share = Check(
    "tail_share",
    _tail_share,
    cases=[(_B, 512), (_B.flip(0), 129), (_B - torch.arange(32) / 4, 2048), (_B, 50)],
    mistakes=[
        (
            "you took the softmax over the 32 buckets; it runs over keys, and a bucket may hold many keys or none",
            lambda b, length: b.softmax(0)[31],
        ),
        (
            "you used the bidirectional buckets, of which a causal text sees the left half",
            lambda b, length: _tail_share(b, length, bidirectional=True, last=15),
        ),
        (
            "you counted the keys in the last bucket but did not weigh them by e^b",
            lambda b, length: _tail_share(0 * b, length),
        ),
        ("you weighed the keys by b where e^b is meant", _bias_share),
        (
            "you returned the weight of one key; the last bucket holds many",
            lambda b, length: b[relative_position_bucket(-torch.arange(length), False)].softmax(0)[-1],
        ),
    ],
)


def _matrix(values: Tensor) -> Tensor:
    return toeplitz_rows_reversed(values, (len(values) + 1) // 2).flip(0)


check_from_values = Check(
    "from_values",
    _matrix,
    cases=[(torch.arange(5),), (torch.tensor([2.0, -1.0, 7.0]),), (torch.arange(13) ** 2,), (torch.tensor([4.0]),)],
    mistakes=[
        (
            "the rows are in reverse order: flip them, row 0 begins with values[L - 1]",
            lambda values: _matrix(values).flip(0),
        ),
        (
            "transposed: entry (i, j) belongs to j - i; did you flip the columns where the rows are reversed?",
            lambda values: _matrix(values).T,
        ),
        (
            "every row begins with values[L - 1]: moving down a row must move the window one place to the left",
            lambda values: values[len(values) // 2 :].expand(len(values) // 2 + 1, -1),
        ),
    ],
)
