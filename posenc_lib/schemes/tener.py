"""TENER: distance and direction, unscaled.

Yan et al. 2019 (arXiv:1911.04474), equations 7 to 9. With R_r the sinusoidal encoding of the relative position,
interleaved and of the width of a head, not projected:

    s_ij = q_i.k_j + q_i.R_{j-i} + u.k_j + v.R_{j-i}

R_r and R_{-r} share their cosines and differ in the sign of their sines, so the score can tell left from right. The
scores are not divided by sqrt(d). The paper writes R_{i-j}: the same with the sines negated.
"""

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.relative import distinct, relative_position
from posenc_lib.scheme import PositionScheme
from posenc_lib.schemes.sinusoidal import encode
from posenc_lib.schemes.transformer_xl import score_terms


class Tener(PositionScheme):
    """Adds fixed encodings of the signed distance to the score, with two learned vectors per head.

    Args:
        num_heads: H.
        head_dim: width d of a head, even.
    """

    def __init__(self, num_heads: int, head_dim: int):
        super().__init__()
        validate.integer("num_heads", num_heads, at_least=1)
        self.head_dim = validate.width("head_dim", head_dim)
        self.u = nn.Parameter(torch.randn(num_heads, head_dim) * head_dim**-0.5)
        self.v = nn.Parameter(torch.randn(num_heads, head_dim) * head_dim**-0.5)

    def scale(self, head_dim: int) -> float:
        """1: the paper found that sharper weights serve named entities better."""
        return 1.0

    def score_bias(self, q: Tensor, k: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """q_i.R + u.k_j + v.R, shape (B, H, Lq, Lk)."""
        validate.last_axis("q", q, self.head_dim)
        values, index = distinct(relative_position(query_positions, key_positions))
        R = encode(values, self.head_dim).to(q).expand(len(self.u), -1, -1)
        _, b, c, d = score_terms(q, k, R, self.u.to(q), self.v.to(q), index)
        return b + c + d
