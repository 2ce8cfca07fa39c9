"""Functional relative encoding: Shaw's place, the sinusoid's vectors, no parameters.

Wei et al. 2019 (arXiv:1909.00204), with w_r = r clipped to [-clip, clip] and P the sinusoidal encoding of
width d (P_r[2t] = sin(r theta_t), P_r[2t+1] = cos(r theta_t)):

    a^K[r] = a^V[r] = P[w_r],    r = j - i

The authors' code tabulates P_0 .. P_{2 clip} instead of P_{-clip} .. P_clip. The tables differ by one rotation, which
the projections of a model can undo; notebook 07 shows it.
"""

import torch
from torch import Tensor

from posenc_lib import validate
from posenc_lib.relative import relative_gather, relative_position, sum_by_row
from posenc_lib.scheme import PositionScheme
from posenc_lib.schemes.shaw import clipped_index
from posenc_lib.schemes.sinusoidal import encode


class Nezha(PositionScheme):
    """Shaw's scheme with a fixed sinusoidal table, the same for keys and values.

    Args:
        head_dim: width d of a head, even.
        clip: largest distance with a row of its own; it may be as large as the longest text.
    Raises:
        ValueError: an odd width, a negative clip.
    Example:
        >>> Nezha(2, clip=1).key_table
        tensor([[-0.8415,  0.5403],
                [ 0.0000,  1.0000],
                [ 0.8415,  0.5403]], dtype=torch.float64)
    """

    name = "NEZHA"
    places = ("score", "value")
    relative = True
    key_table: Tensor

    def __init__(self, head_dim: int, clip: int = 64):
        super().__init__()
        self.head_dim = validate.width("head_dim", head_dim)
        self.clip = validate.integer("clip", clip, at_least=0)
        table = encode(torch.arange(-self.clip, self.clip + 1), self.head_dim)
        self.register_buffer("key_table", table, persistent=False)

    @property
    def value_table(self) -> Tensor:
        """a^V, which is a^K."""
        return self.key_table

    def per_pair(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """(..., Lq, Lk) row of the table for each pair."""
        return clipped_index(relative_position(query_positions, key_positions), self.clip)

    def score_bias(self, q: Tensor, k: Tensor, pair: Tensor) -> Tensor:
        """q_i . P[w_{j-i}] / sqrt(d), shape (B, H, Lq, Lk)."""
        validate.heads("q", q, None, self.head_dim)
        return relative_gather(q @ self.key_table.to(q).mT * self.scale(self.head_dim), pair)

    def value_bias(self, weights: Tensor, pair: Tensor) -> Tensor:
        """sum_j weights_ij P[w_{j-i}], shape (B, H, Lq, d)."""
        return sum_by_row(weights, pair, 2 * self.clip + 1) @ self.value_table.to(weights)
