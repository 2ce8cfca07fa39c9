"""Relative position representations: a learned vector for every distance, clipped, added to keys and values.

Shaw et al. 2018 (arXiv:1803.02155), equations 3 and 4, with w_r = r clipped to [-clip, clip]:

    s_ij = q_i . (k_j + a^K[w_{j-i}]) / sqrt(d)
    o_i  = sum_j softmax(s)_ij (v_j + a^V[w_{j-i}])

The vectors are added after the projections, in every layer. Both tables have 2 clip + 1 rows, so q_i . a^K is computed
once per row and then picked, instead of building the (L, L, d) tensor of section 3.3.
"""

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.relative import relative_gather, relative_position, sum_by_row
from posenc_lib.scheme import PositionScheme


def clipped_index(relative_position: Tensor, clip: int) -> Tensor:
    """Row of the table for a relative position: clip + max(-clip, min(clip, r)).

    Args:
        relative_position: integers of any shape, key minus query.
        clip: largest distance that has a row of its own; not negative.
    Returns:
        int64 in 0..2*clip, same shape.
    Raises:
        ValueError: if ``clip`` is negative or not an integer.
        TypeError: if ``relative_position`` holds no integers.
    Source: Shaw et al. 2018 (arXiv:1803.02155), section 3.2.
    Example:
        >>> clipped_index(torch.arange(-3, 4), clip=2)
        tensor([0, 0, 1, 2, 3, 4, 4])
    """
    validate.integers("relative_position", relative_position)
    return relative_position.to(torch.int64).clamp(-validate.integer("clip", clip, at_least=0), clip) + clip


class Shaw(PositionScheme):
    """Adds a learned vector per clipped distance to the keys and to the values.

    Args:
        head_dim: width d of a head.
        clip: largest distance with a row of its own; 0 tells attention nothing.
        num_heads: give each of so many heads its own tables (num_heads, 2*clip+1, d); shared by the heads if None.
    Raises:
        ValueError: a number that is too small or not whole.
    Example:
        >>> Shaw(4, clip=2).key_table.shape
        torch.Size([5, 4])
        >>> Shaw(4, clip=2, num_heads=3).value_table.shape
        torch.Size([3, 5, 4])
    """

    name = "Shaw"
    places = ("score", "value")
    relative = True
    variants = {"per head": {"num_heads": 4}}

    def __init__(self, head_dim: int, clip: int, num_heads: int | None = None):
        super().__init__()
        self.head_dim = validate.integer("head_dim", head_dim, at_least=1)
        self.clip = validate.integer("clip", clip, at_least=0)
        self.num_heads = None if num_heads is None else validate.integer("num_heads", num_heads, at_least=1)
        heads = () if num_heads is None else (num_heads,)
        shape = (*heads, 2 * self.clip + 1, self.head_dim)
        self.key_table = nn.Parameter(torch.randn(shape) * self.head_dim**-0.5)
        self.value_table = nn.Parameter(torch.randn(shape) * self.head_dim**-0.5)

    def per_pair(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """(..., Lq, Lk) row of the tables for each pair."""
        return clipped_index(relative_position(query_positions, key_positions), self.clip)

    def score_bias(self, q: Tensor, k: Tensor, pair: Tensor) -> Tensor:
        """q_i . a^K[j - i] / sqrt(d), shape (B, H, Lq, Lk). Source: the second term of equation 5."""
        validate.heads("q", q, self.num_heads, self.head_dim)
        return relative_gather(q @ self.key_table.to(q).mT * self.scale(self.head_dim), pair)

    def value_bias(self, weights: Tensor, pair: Tensor) -> Tensor:
        """sum_j weights_ij a^V[j - i], shape (B, H, Lq, d). Source: the second term of equation 3."""
        return sum_by_row(weights, pair, 2 * self.clip + 1) @ self.value_table.to(weights)
