"""Learned absolute positions: a trained table, one row per position, added to the input.

Gehring et al. 2017 (arXiv:1705.03122); GPT (Radford et al. 2018), BERT (Devlin et al. 2018, arXiv:1810.04805):

    x_i <- x_i + P[i],        P a parameter of shape (max_length, D)

A row that training never reaches gets no gradient, and there is no row beyond the last.
"""

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.scheme import PositionScheme


def positions_without_padding(is_padding: Tensor) -> Tensor:
    """Position of each token in a padded batch, counting real tokens only.

    RoBERTa and OPT keep position p in row p + 2 of their tables, so that padding has row 1 and row 0 is never used.

    Args:
        is_padding: (B, L) bool, True where a token is padding.
    Returns:
        (B, L) int64: 0, 1, 2, ... for the real tokens of each sequence, -1 for padding, which a mask must hide.
    Raises:
        TypeError: if ``is_padding`` is not bool.
        ValueError: if it has not two axes.
    Source: fairseq's ``make_positions``, used by RoBERTa (arXiv:1907.11692) and OPT (arXiv:2205.01068).
    Example:
        >>> positions_without_padding(torch.tensor([[True, True, False, False, False]]))
        tensor([[-1, -1,  0,  1,  2]])
    """
    validate.tensor("is_padding", is_padding, shape="(B, L)")
    if is_padding.dtype != torch.bool:
        raise TypeError(f"is_padding must be bool, got {is_padding.dtype}")
    return ((~is_padding).cumsum(-1) - 1).masked_fill(is_padding, -1)


class Learned(PositionScheme):
    """Adds row p of a trained table to the token at position p.

    Args:
        dim: width D of the input.
        max_length: number of rows; positions 0..max_length-1 are possible, and -1 for padding, to which nothing is
            added (as fairseq's row for padding, which stays zero).
    Example:
        >>> scheme = Learned(4, max_length=8)
        >>> torch.equal(scheme.embed(torch.zeros(1, 3, 4), torch.arange(3))[0], scheme.table[:3])
        True
    """

    name = "learned"
    places = ("input",)

    def __init__(self, dim: int, max_length: int):
        super().__init__()
        self.dim = validate.integer("dim", dim, at_least=1)
        self.max_length = validate.integer("max_length", max_length, at_least=1)
        self.table = nn.Parameter(torch.randn(max_length, dim) * 0.02)  # the deviation that GPT and BERT start from

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """x (B, L, D) plus the rows of ``positions`` (L,) or (B, L).

        Raises:
            ValueError: if a position is less than -1 or beyond the table.
        """
        validate.embedded(x, positions, self.dim)
        outside = positions[(positions < -1) | (positions >= len(self.table))]
        if len(outside):
            raise ValueError(
                f"positions must be in 0..{len(self.table) - 1}, the rows of the table, or -1 for padding, "
                f"got {int(outside[0])}"
            )
        rows = self.table[positions.clamp(min=0).long()]
        return x + rows.where((positions >= 0)[..., None], 0.0).to(x)
