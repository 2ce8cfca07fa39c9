"""Checks of the exercises in notebook 10."""

import torch
from torch import Tensor

from posenc_lib.exercises.check import Check
from posenc_lib.lab.measure import randn
from posenc_lib.schemes.deberta import bucket_index, log_bucket


def _position_to_content(k: Tensor, Q_r: Tensor, sign: int = 1) -> Tensor:
    p = sign * torch.arange(len(k))
    row = bucket_index(p, p[:, None], len(Q_r) // 2)  # entry (i, j) is delta(j, i)
    return (k * Q_r[row]).sum(-1)


def _by_query(k: Tensor, Q_r: Tensor) -> Tensor:
    p = torch.arange(len(k))
    return (k @ Q_r.T).gather(-1, bucket_index(p, p[:, None], len(Q_r) // 2))


check_position_to_content = Check(
    "position_to_content",
    _position_to_content,
    cases=[(randn(L, 4, seed=L), randn(2 * reach, 4, seed=reach)) for L, reach in ((5, 8), (9, 3), (1, 1))],
    mistakes=[
        (
            "that is the row of the second term, delta(i, j): the published code has it, the paper does not",
            lambda k, Q_r: _position_to_content(k, Q_r, sign=-1),
        ),
        (
            "you gathered from row i: that is the query's place, the key stands at j (transpose after the gather)",
            _by_query,
        ),
        ("right, but transposed: queries belong in the rows", lambda k, Q_r: _position_to_content(k, Q_r).T),
        (
            "right up to the scale: do not divide here",
            lambda k, Q_r: _position_to_content(k, Q_r) / (3 * k.shape[-1]) ** 0.5,
        ),
    ],
)


check_mirrored = Check(
    "mirrored",
    lambda Q_r: torch.cat([Q_r[:1], Q_r[1:].flip(0)]),
    cases=[(randn(2 * reach, 3, seed=reach),) for reach in (4, 7, 1)],
    mistakes=[
        ("off by one: flip sends row m to 2k - 1 - m, but the two rows add up to 2k", lambda Q_r: Q_r.flip(0)),
        (
            "the mirror turns about row k, but row 0 is not to change: it is no distance's mirror image",
            lambda Q_r: torch.cat([Q_r[-1:], Q_r[1:].flip(0)]),
        ),
        ("off by one the other way: row 2k - 1 has to become row 1", lambda Q_r: Q_r.flip(0).roll(2, 0)),
        ("you flipped the components; mirror the rows", lambda Q_r: torch.cat([Q_r[:1], Q_r[1:].flip(1)])),
        ("you returned the table as it came", lambda Q_r: Q_r),
    ],
)


def _last_bucket(buckets: int, max_position: int, clip: bool = True, row: int = 0) -> int:
    b = log_bucket(torch.arange(1, max_position + 1), buckets, max_position)
    return int(((b.clamp(max=buckets - 1) if clip else b) == buckets - 1 - row).sum())


check_last_bucket = Check(
    "last_bucket",
    _last_bucket,
    cases=[(256, 512), (8, 32), (32, 128), (16, 300)],
    mistakes=[
        (
            "you missed max_position itself: its bucket is beyond the last, and the table clips it there",
            lambda buckets, max_position: _last_bucket(buckets, max_position, clip=False),
        ),
        (
            "that is the bucket before the last",
            lambda buckets, max_position: _last_bucket(buckets, max_position, row=1),
        ),
        (
            "that is how many a clip at B would put there: the buckets before it are logarithmic",
            lambda buckets, max_position: max_position - (buckets - 1) + 1,
        ),
    ],
)
