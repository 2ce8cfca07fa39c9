"""Learned absolute positions: a trained table, one row per position, added to the input.

Gehring et al. 2017 (arXiv:1705.03122); GPT (Radford et al. 2018), BERT (Devlin et al. 2018, arXiv:1810.04805):

    x_i <- x_i + P[i],        P a parameter of shape (max_length, D)

A row that training never reaches gets no gradient, and there is no row beyond the last.
"""

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.scheme import PositionScheme


class Learned(PositionScheme):
    """Adds row p of a trained table to the token at position p.

    Args:
        max_length: number of rows; positions 0..max_length-1 are possible.
        dim: width D of the input.
    """

    def __init__(self, max_length: int, dim: int):
        super().__init__()
        validate.integer("max_length", max_length, at_least=1)
        validate.integer("dim", dim, at_least=1)
        self.table = nn.Parameter(torch.randn(max_length, dim) * 0.02)  # the deviation that BERT and GPT-2 start from

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """x (B, L, D) plus the rows of ``positions`` (L,).

        Raises:
            ValueError: if a position is negative or beyond the table.
        """
        validate.tensor("x", x, shape="(B, L, D)")
        validate.last_axis("x", x, self.table.shape[1])
        validate.positions("positions", positions, length=x.shape[1])
        outside = positions[(positions < 0) | (positions >= len(self.table))]
        if len(outside):
            raise ValueError(
                f"positions must be in 0..{len(self.table) - 1}, the rows of the table, got {int(outside[0])}"
            )
        return x + self.table[positions.long()].to(x)
