"""Disentangled attention: content and relative position kept apart, and compared three ways.

He et al. 2020 (arXiv:2006.03654), equations 2 to 4. With K^r and Q^r learned projections of one table of 2k rows:

    s_ij = ( q_i.k_j + q_i.K^r[delta(i, j)] + k_j.Q^r[delta(j, i)] ) / sqrt(3d)
    delta(i, j) = 0 if i - j <= -k,  2k - 1 if i - j >= k,  i - j + k otherwise

The fourth combination, position to position, would not depend on the tokens and is dropped. Three terms of equal size
need sqrt(3d) where one needs sqrt(d). The authors' implementation looks up Q^r[delta(i, j)] in the third term; that is
what ``terms`` gives when all positions are negated.
"""

import math

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.relative import relative_gather, relative_gather_by_key, relative_position
from posenc_lib.scheme import PositionScheme


def bucket_index(i: Tensor | int, j: Tensor | int, k: int) -> Tensor:
    """delta(i, j): row of the table for a token at i that looks at a token at j.

    Args:
        i, j: integer positions, broadcast against each other.
        k: largest distance; positive.
    Returns:
        int64 in 0..2k-1; the distances i - j = k - 1 and k share the last row.
    Raises:
        ValueError: if ``k`` is not a positive integer.
        TypeError: if positions are not integers.
    Source: He et al. 2020 (arXiv:2006.03654), equation 3.
    Example:
        >>> bucket_index(torch.arange(5), 2, k=2)
        tensor([0, 1, 2, 3, 3])
    """
    i, j = (validate.integers(name, torch.as_tensor(x)) for name, x in (("i", i), ("j", j)))
    k = validate.integer("k", k, at_least=1)
    return (i.long() - j.long() + k).clamp(0, 2 * k - 1)


def log_bucket(relative: Tensor, buckets: int, max_position: int) -> Tensor:
    """DeBERTa v2's distance: exact up to buckets / 2, then logarithmic, signed.

    Args:
        relative: integers i - j of any shape.
        buckets: twice the largest distance that is kept exactly; even.
        max_position: the bucket of distance max_position - 1 is buckets - 1; at least buckets / 2 + 2.
    Returns:
        int64, same shape and sign; beyond max_position - 1 it grows on, and the table clips it.
    Raises:
        ValueError: if ``buckets`` is odd or not positive, or ``max_position`` is too small.
        TypeError: if ``relative`` does not hold integers.
    Source: the published implementation of DeBERTa v2 (He et al. 2021, arXiv:2111.09543).
    Example:
        >>> log_bucket(torch.tensor([-2, 4, 8, 16, 32]), buckets=8, max_position=33)
        tensor([-2,  4,  5,  6,  7])
    """
    relative = validate.integers("relative", relative).long()
    exact = validate.integer("buckets", buckets, at_least=2, even=True) // 2
    validate.integer("max_position", max_position, at_least=exact + 2)
    distance = relative.abs().to(torch.float64).clamp(min=exact)
    # the rounding keeps a distance whose logarithm is whole, such as max_position - 1, from being lifted by an error
    steps = ((distance / exact).log() / math.log((max_position - 1) / exact) * (exact - 1)).round(decimals=9)
    return torch.where(relative.abs() <= exact, relative, relative.sign() * (steps.ceil().long() + exact))


class Deberta(PositionScheme):
    """Content-to-content, content-to-position and position-to-content scores.

    Args:
        num_heads: H.
        head_dim: width d of a head.
        max_relative_positions: k, the largest distance; the table has 2k rows of width H * d.
        position_buckets: None counts distances as version 1 does; an integer puts those up to
            ``max_relative_positions`` into so many logarithmic buckets, as version 2 does, and takes the place of k.
    Raises:
        ValueError: a number that is not positive, or numbers that ``log_bucket`` refuses.
    Example:
        >>> Deberta(2, 4, max_relative_positions=3).table.shape
        torch.Size([6, 8])
        >>> Deberta(2, 4, max_relative_positions=33, position_buckets=8).table.shape
        torch.Size([16, 8])
    """

    name = "DeBERTa"
    places = ("score",)
    relative = True
    variants = {"v2": {"position_buckets": 8}}

    def __init__(self, num_heads: int, head_dim: int, max_relative_positions: int, position_buckets: int | None = None):
        super().__init__()
        self.num_heads = validate.integer("num_heads", num_heads, at_least=1)
        self.head_dim = validate.integer("head_dim", head_dim, at_least=1)
        self.max_relative_positions = validate.integer("max_relative_positions", max_relative_positions, at_least=1)
        self.position_buckets = position_buckets
        if position_buckets is not None:
            validate.integer("position_buckets", position_buckets, at_least=2, even=True)
            validate.integer("max_relative_positions", max_relative_positions, at_least=position_buckets // 2 + 2)
        self.k = max_relative_positions if position_buckets is None else position_buckets
        width = num_heads * head_dim
        self.table = nn.Parameter(torch.randn(2 * self.k, width) * 0.02)
        self.key_proj = nn.Linear(width, width, bias=False)
        self.query_proj = nn.Linear(width, width)

    def scale(self, head_dim: int) -> float:
        """1 / sqrt(3d)."""
        return (3 * head_dim) ** -0.5

    def per_pair(self, query_positions: Tensor, key_positions: Tensor) -> tuple[Tensor, ...]:
        """K^r and Q^r (H, 2k, d), and delta(i, j) and delta(j, i) (..., Lq, Lk)."""
        distance = self._counted(-relative_position(query_positions, key_positions))  # i - j, as the paper counts
        keys, queries = (
            proj(self.table).unflatten(-1, (self.num_heads, self.head_dim)).transpose(0, 1)
            for proj in (self.key_proj, self.query_proj)
        )
        return keys, queries, bucket_index(distance, 0, self.k), bucket_index(-distance, 0, self.k)

    def score_bias(self, q: Tensor, k: Tensor, pair: tuple[Tensor, ...]) -> Tensor:
        """Both position terms, divided by sqrt(3d), shape (B, H, Lq, Lk)."""
        content_to_position, position_to_content = self._terms(q, k, pair)
        return (content_to_position + position_to_content) * self.scale(self.head_dim)

    def terms(self, q: Tensor, k: Tensor, query_positions: Tensor, key_positions: Tensor) -> tuple[Tensor, Tensor]:
        """q_i.K^r[delta(i, j)] and k_j.Q^r[delta(j, i)], each (B, H, Lq, Lk), not yet divided.

        Raises:
            ValueError: if q and k do not have this scheme's heads and width.
        """
        return self._terms(q, k, self.at(query_positions, key_positions, like=q).pairs)

    def _terms(self, q: Tensor, k: Tensor, pair: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        keys, queries, delta_ij, delta_ji = pair
        for name, x in (("q", q), ("k", k)):
            validate.heads(name, x, self.num_heads, self.head_dim)
        return relative_gather(q @ keys.to(q).mT, delta_ij), relative_gather_by_key(k @ queries.to(q).mT, delta_ji)

    def _counted(self, distance: Tensor) -> Tensor:
        """Distances as the version counts them."""
        if self.position_buckets is None:
            return distance
        return log_bucket(distance, self.position_buckets, self.max_relative_positions)
