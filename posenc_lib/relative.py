"""What schemes of relative position share: which distances occur, and how to look up one value or vector for each.

A table has one row per distinct relative position, never one per pair of tokens: (Lq, Lk, d) numbers become
(Lq + Lk - 1, d), and the (Lq, Lk) index says which row belongs to which pair.
"""

import torch
from torch import Tensor


def relative_position(query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """(..., Lq, Lk) integers, key minus query: negative to the left of the query.

    Example:
        >>> relative_position(torch.arange(2), torch.arange(3))
        tensor([[ 0,  1,  2],
                [-1,  0,  1]])
    """
    return key_positions[..., None, :] - query_positions[..., :, None]


def distinct(relative: Tensor) -> tuple[Tensor, Tensor]:
    """The relative positions that occur, ascending (R,), and for each pair the row of its own (..., Lq, Lk).

    For contiguous positions the rows are all integers from the smallest to the largest; where positions are scattered,
    only those that occur.

    Example:
        >>> distinct(torch.tensor([[0, 1], [-1, 0]]))
        (tensor([-1,  0,  1]), tensor([[1, 2],
                [0, 1]]))
    """
    if not relative.numel():
        return relative.new_zeros(0), relative
    low, high = int(relative.min()), int(relative.max())
    if high - low < sum(relative.shape[-2:]):
        return torch.arange(low, high + 1, device=relative.device), relative - low
    return torch.unique(relative, return_inverse=True)


def relative_gather(logits: Tensor, index: Tensor) -> Tensor:
    """Relative gather: scores (..., Lq, Lk) from logits (..., Lq, R) of every query with every row of a table.

    Entry (i, j) is entry index[..., i, j] of row i; axes of length 1 are shared.

    Example:
        >>> logits = torch.tensor([[10, 20, 30], [40, 50, 60]])
        >>> relative_gather(logits, torch.tensor([[1, 2], [0, 1]]))
        tensor([[20, 30],
                [40, 50]])
    """
    lead = torch.broadcast_shapes(logits.shape[:-1], index.shape[:-1])
    return logits.expand(*lead, -1).gather(-1, index.expand(*lead, -1))


def relative_gather_by_key(logits: Tensor, index: Tensor) -> Tensor:
    """Scores (..., Lq, Lk) from logits (..., Lk, R) of every key with every row: entry index[..., i, j] of row j.

    Example:
        >>> logits = torch.tensor([[10, 20, 30], [40, 50, 60]])
        >>> relative_gather_by_key(logits, torch.tensor([[1, 2], [0, 1]]))
        tensor([[20, 60],
                [10, 50]])
    """
    return relative_gather(logits, index.mT).mT


def heads_first(bias: Tensor) -> Tensor:
    """(H, Lq, Lk) from (Lq, Lk, H), and (B, H, Lq, Lk) from (B, 1, Lq, Lk, H).

    Example:
        >>> heads_first(torch.zeros(2, 3, 4)).shape
        torch.Size([4, 2, 3])
    """
    return bias.movedim(-1, -3) if bias.dim() == 3 else bias.movedim(-1, 1).squeeze(2)


def sum_by_row(weights: Tensor, index: Tensor, rows: int) -> Tensor:
    """Weights (B, H, Lq, Lk) added up over the keys that share a row of the table: (B, H, Lq, rows).

    Example:
        >>> weights = torch.tensor([[[[0.5, 0.3, 0.2]]]])
        >>> sum_by_row(weights, torch.tensor([[0, 1, 1]]), rows=2)
        tensor([[[[0.5000, 0.5000]]]])
    """
    sums = weights.new_zeros(*weights.shape[:-1], rows)
    return sums.scatter_add(-1, index.expand(weights.shape), weights)


def toeplitz_rows_reversed(bias: Tensor, rows: int) -> Tensor:
    """All pairs of contiguous tokens from one value per distance, without copying: a view, rows in reverse order.

    Entry (i, j) depends on j - i only, so row i is row i + 1 moved by one place. Reading ``bias`` with step 1 along
    both axes gives these rows from the last to the first (PyTorch has no negative steps).

    Args:
        bias: (..., rows + columns - 1), ascending relative position.
        rows: Lq.
    Returns:
        (..., rows, columns) view; its row i belongs to query Lq - 1 - i. Not to be written into.
    Example:
        >>> toeplitz_rows_reversed(torch.tensor([-1, 0, 1, 2]), rows=2)
        tensor([[-1,  0,  1],
                [ 0,  1,  2]])
    """
    bias = bias.contiguous()
    columns = bias.shape[-1] - rows + 1
    return bias.as_strided((*bias.shape[:-1], rows, columns), (*bias.stride()[:-1], 1, 1), bias.storage_offset())
