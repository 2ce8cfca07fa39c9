"""Four ways to let a distance change a score: three that multiply it and one that adds to it.

Z. Huang, Liang, Xu and Xiang 2020 (arXiv:2009.13658), methods 1 to 4, all divided by sqrt(d):

    M1: (q_i.k_j) a_{|r|}                   one number per distance, without direction
    M2: (q_i.k_j) a_r                       one number per signed distance
    M3: sum_c q_ic k_jc a_{r,c}             one vector per signed distance
    M4: q_i.k_j + q_i.a_r + k_j.a_r         one vector per signed distance, added

M4 is (q_i + a_r).(k_j + a_r) without the term a_r.a_r. BERT's ``relative_key_query`` is M4 with r = i - j.
"""

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.relative import relative_gather, relative_gather_by_key, relative_position
from posenc_lib.scheme import PositionScheme

METHODS = (1, 2, 3, 4)


def method_scores(q: Tensor, k: Tensor, a: Tensor, method: int) -> Tensor:
    """Scores of method 1, 2, 3 or 4, from what the table says for each pair.

    Args:
        q: (B, H, Lq, d) queries.
        k: (B, H, Lk, d) keys.
        a: (Lq, Lk) for methods 1 and 2, (Lq, Lk, d) for methods 3 and 4; both may have an axis B in front.
        method: 1, 2, 3 or 4.
    Returns:
        (B, H, Lq, Lk), divided by sqrt(d).
    Raises:
        ValueError: an unknown method, or shapes that do not fit.
        TypeError: an argument that is no tensor of floating-point numbers.
    Source: Z. Huang et al. 2020 (arXiv:2009.13658), section 3.
    Example:
        >>> q, a = torch.ones(1, 1, 2, 4), torch.tensor([[1.0, 0.5], [0.5, 1.0]])
        >>> method_scores(q, q, a, method=1)
        tensor([[[[2., 1.],
                  [1., 2.]]]])
    """
    validate.choice("method", method, METHODS)
    for name, x, shape in (("q", q, "(B, H, Lq, d)"), ("k", k, "(B, H, Lk, d)")):
        validate.floating(name, validate.tensor(name, x, shape=shape))
    validate.last_axis("k", k, q.shape[-1])
    if not isinstance(a, Tensor):
        raise TypeError(f"a must be a tensor, got {type(a).__name__}")
    pairs, d = (q.shape[-2], k.shape[-2]), q.shape[-1]
    expected = pairs if method <= 2 else (*pairs, d)
    if validate.floating("a", a).shape not in (expected, (len(q), *expected)):
        raise ValueError(f"a must have shape {expected} for method {method}, got {tuple(a.shape)}")
    if a.dim() == len(expected):
        a = a[None]
    if method <= 2:
        s = (q @ k.mT) * a[:, None]
    elif method == 3:
        s = torch.einsum("bhid,bhjd,bijd->bhij", q, k, a)
    else:
        s = q @ k.mT + torch.einsum("bhid,bijd->bhij", q, a) + torch.einsum("bhjd,bijd->bhij", k, a)
    return s * d**-0.5


class Huang(PositionScheme):
    """One of the four methods, with a learned table over the distances below ``max_length``.

    Args:
        head_dim: width d of a head.
        max_length: distances up to max_length - 1 have a row.
        method: 1, 2, 3 or 4.
    Raises:
        ValueError: a number that is not positive, or an unknown method.
    Example:
        >>> Huang(4, max_length=8).table.shape
        torch.Size([15, 4])
        >>> Huang(4, max_length=8, method=1).table.shape
        torch.Size([8])
    """

    name = "Z. Huang"
    places = ("score",)
    relative = True
    variants = {f"M{method}": {"method": method} for method in METHODS[:3]}

    def __init__(self, head_dim: int, max_length: int, method: int = 4):
        super().__init__()
        self.head_dim = validate.integer("head_dim", head_dim, at_least=1)
        self.max_length = validate.integer("max_length", max_length, at_least=1)
        self.method = validate.choice("method", method, METHODS)
        rows = max_length if method == 1 else 2 * max_length - 1
        if method == 4:
            self.table = nn.Parameter(torch.randn(rows, head_dim) * head_dim**-0.5)
        else:  # these multiply the score, so they start at 1
            self.table = nn.Parameter(torch.ones(rows) if method <= 2 else torch.ones(rows, head_dim))

    def per_pair(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """(..., Lq, Lk) row of the table for each pair.

        Raises:
            ValueError: if two positions are max_length or more apart.
        """
        relative = relative_position(query_positions, key_positions)
        if relative.numel() and (farthest := int(relative.abs().max())) >= self.max_length:
            raise ValueError(
                f"key_positions must be less than max_length = {self.max_length} from the query, got {farthest}"
            )
        return relative.abs() if self.method == 1 else relative + self.max_length - 1

    def score_bias(self, q: Tensor, k: Tensor, pair: Tensor) -> Tensor:
        """What the method adds to q.k / sqrt(d), shape (B, H, Lq, Lk)."""
        validate.heads("q", q, None, self.head_dim)
        table = self.table.to(q)
        if self.method == 4:  # one product per row of the table, not per pair
            from_queries, from_keys = relative_gather(q @ table.mT, pair), relative_gather_by_key(k @ table.mT, pair)
            return (from_queries + from_keys) * self.scale(self.head_dim)
        index = pair[:, 0] if pair.dim() == 4 else pair  # all heads share the table
        return method_scores(q, k, table[index] - 1, self.method)
