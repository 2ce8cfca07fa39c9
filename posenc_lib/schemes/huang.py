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
from posenc_lib.relative import pick, pick_by_key, relative_position
from posenc_lib.scheme import PositionScheme

METHODS = (1, 2, 3, 4)


def method_scores(q: Tensor, k: Tensor, a: Tensor, method: int) -> Tensor:
    """Scores of method 1, 2, 3 or 4, from what the table says for each pair.

    Args:
        q: (B, H, Lq, d) queries.
        k: (B, H, Lk, d) keys.
        a: (Lq, Lk) for methods 1 and 2, (Lq, Lk, d) for methods 3 and 4.
        method: 1, 2, 3 or 4.
    Returns:
        (B, H, Lq, Lk), divided by sqrt(d).
    Raises:
        ValueError: an unknown method, or shapes that do not fit.
        TypeError: an argument that is no tensor of floating-point numbers.
    Source: Z. Huang et al. 2020 (arXiv:2009.13658), section 3.
    """
    validate.choice("method", method, METHODS)
    for name, x, shape in (("q", q, "(B, H, Lq, d)"), ("k", k, "(B, H, Lk, d)")):
        validate.floating(name, validate.tensor(name, x, shape=shape))
    validate.last_axis("k", k, q.shape[-1])
    a = validate.floating("a", validate.tensor("a", a, shape="(Lq, Lk)" if method <= 2 else "(Lq, Lk, d)"))
    pairs, d = (q.shape[-2], k.shape[-2]), q.shape[-1]
    expected = pairs if method <= 2 else (*pairs, d)
    if a.shape != expected:
        raise ValueError(f"a must have shape {expected} for method {method}, got {tuple(a.shape)}")
    if method <= 2:
        s = (q @ k.mT) * a
    elif method == 3:
        s = torch.einsum("bhid,bhjd,ijd->bhij", q, k, a)
    else:
        s = q @ k.mT + torch.einsum("bhid,ijd->bhij", q, a) + torch.einsum("bhjd,ijd->bhij", k, a)
    return s * d**-0.5


class Huang(PositionScheme):
    """One of the four methods, with a learned table over the distances below ``max_length``.

    Args:
        head_dim: width d of a head.
        max_length: distances up to max_length - 1 have a row.
        method: 1, 2, 3 or 4.
    Raises:
        ValueError: a number that is not positive, or an unknown method.
    """

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

    def score_bias(self, q: Tensor, k: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """What the method adds to q.k / sqrt(d), shape (B, H, Lq, Lk).

        Raises:
            ValueError: if two positions are max_length or more apart.
        """
        validate.last_axis("q", q, self.head_dim)
        index = self._index(query_positions, key_positions)
        table = self.table.to(q)
        if self.method == 4:  # one product per row of the table, not per pair
            return (pick(q @ table.mT, index) + pick_by_key(k @ table.mT, index)) * self.scale(self.head_dim)
        return method_scores(q, k, table[index] - 1, self.method)

    def _index(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        relative = relative_position(query_positions, key_positions)
        if relative.numel() and int(relative.abs().max()) >= self.max_length:
            raise ValueError(
                f"key_positions must be less than max_length = {self.max_length} from the query, "
                f"got {int(relative.abs().max())}"
            )
        return relative.abs() if self.method == 1 else relative + self.max_length - 1
