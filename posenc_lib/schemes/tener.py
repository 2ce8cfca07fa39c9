"""TENER: distance and direction, unscaled.

Yan et al. 2019 (arXiv:1911.04474), equations 17 and 18. With R_r the sinusoidal encoding of the relative position,
interleaved and of the width of a head, not projected:

    s_ij = q_i.k_j + q_i.R_{j-i} + u.k_j + v.R_{j-i}
            (a)       (b)           (c)     (d)

R_r and R_{-r} share their cosines and differ in the sign of their sines, so the score can tell left from right. The
scores are not divided by sqrt(d). The paper writes R_{i-j}: the same with the sines negated. Its keys are slices of the
input, without a projection of their own; here k is given. The authors' code adds a fifth term, k_j.R_{i-j}.
"""

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.relative import distinct, relative_gather, relative_position
from posenc_lib.scheme import PositionScheme
from posenc_lib.schemes.sinusoidal import encode
from posenc_lib.schemes.transformer_xl import score_terms


class Tener(PositionScheme):
    """Adds fixed encodings of the signed distance to the score, with two learned vectors per head.

    Args:
        num_heads: H.
        head_dim: width d of a head, even.
    Example:
        >>> from posenc_lib import scores
        >>> q = torch.zeros(1, 2, 3, 4)
        >>> scores(q, q, Tener(2, head_dim=4)).shape
        torch.Size([1, 2, 3, 3])
    """

    name = "TENER"
    places = ("score",)
    relative = True

    def __init__(self, num_heads: int, head_dim: int):
        super().__init__()
        self.num_heads = validate.integer("num_heads", num_heads, at_least=1)
        self.head_dim = validate.width("head_dim", head_dim)
        self.u = nn.Parameter(torch.randn(num_heads, head_dim) * head_dim**-0.5)
        self.v = nn.Parameter(torch.randn(num_heads, head_dim) * head_dim**-0.5)

    def scale(self, head_dim: int) -> float:
        """1: the paper found that sharper weights serve named entities better."""
        return 1.0

    def per_pair(self, query_positions: Tensor, key_positions: Tensor) -> tuple[Tensor, Tensor]:
        """R of the relative positions that occur, (R, d), the same for every head, and its row for each pair."""
        relative, index = distinct(relative_position(query_positions, key_positions))
        return encode(relative, self.head_dim), index

    def score_bias(self, q: Tensor, k: Tensor, pair: tuple[Tensor, Tensor]) -> Tensor:
        """Terms (b), (c) and (d); (b) and (d) share a product, (q_i + v).R_{j-i}."""
        R, index = pair
        validate.heads("q", q, self.num_heads, self.head_dim)
        return relative_gather((q + self.v.to(q)[:, None]) @ R.to(q).mT, index) + self.u.to(q)[:, None] @ k.mT

    def terms(
        self, q: Tensor, k: Tensor, query_positions: Tensor, key_positions: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The four terms as in :func:`posenc_lib.schemes.transformer_xl.score_terms`, whose sum is the score."""
        validate.heads("q", q, self.num_heads, self.head_dim)
        R, index = self.at(query_positions, key_positions, like=q).pairs
        return score_terms(q, k, R.to(q).expand(self.num_heads, -1, -1), self.u.to(q), self.v.to(q), index)
