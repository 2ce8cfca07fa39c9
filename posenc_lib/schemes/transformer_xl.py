"""Transformer-XL's score: content and distance, each once for the query and once for everybody.

Dai et al. 2019 (arXiv:1901.02860), section 3.3. With R_{i-j} the sinusoidal encoding of the distance and W_R learned:

    s_ij = ( q_i.k_j + q_i.W_R R_{i-j} + u.k_j + v.W_R R_{i-j} ) / sqrt(d)
             (a)       (b)               (c)     (d)

It comes from expanding the score of x_i + P_i with x_j + P_j: P_j becomes the distance, and the query's own position,
which must not matter, becomes two learned vectors u and v. Keys may come from an earlier segment (a memory): only
distances enter. The distance here is i - j, query minus key, as in the paper: positive to the left.
"""

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.relative import distinct, relative_gather, relative_position
from posenc_lib.scheme import PositionScheme
from posenc_lib.schemes.sinusoidal import encode


def relative_shift(logits: Tensor) -> Tensor:
    """Move row i of (..., Lq, Lr) left by Lq - 1 - i, so that a column that means a distance comes to mean a key.

    Args:
        logits: (..., Lq, Lr) with Lr >= Lq; column c stands for the distance i - j = Lr - 1 - c.
    Returns:
        (..., Lq, Lr) whose column j is the key at place j, when the query of row i stands at place Lr - Lq + i. Entries
        with j after the query mean nothing: one zero of the padding, then what is left over from the next row.
    Raises:
        ValueError: if there are more rows than columns.
        TypeError: if ``logits`` is no tensor.
    Source: Dai et al. 2019 (arXiv:1901.02860), appendix B.
    Example:
        >>> relative_shift(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
        tensor([[2., 3., 0.],
                [4., 5., 6.]])
    """
    if not isinstance(logits, Tensor):
        raise TypeError(f"logits must be a tensor (..., Lq, Lr), got {type(logits).__name__}")
    if logits.dim() < 2 or logits.shape[-2] > logits.shape[-1]:
        raise ValueError(f"logits must have shape (..., Lq, Lr) with Lr >= Lq, got {tuple(logits.shape)}")
    rows, columns = logits.shape[-2:]
    padded = nn.functional.pad(logits, (1, 0))
    return padded.reshape(*logits.shape[:-2], columns + 1, rows)[..., 1:, :].reshape(logits.shape)


def score_terms(
    q: Tensor, k: Tensor, r: Tensor, u: Tensor, v: Tensor, index: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The four terms of the score, not yet divided by sqrt(d).

    Args:
        q: (B, H, Lq, d) queries.
        k: (B, H, Lk, d) keys.
        r: (H, R, d) projected encodings W_R R of the distances that occur.
        u, v: (H, d) what every query asks of contents and of distances.
        index: (Lq, Lk) or (B, 1, Lq, Lk) row of r for each pair.
    Returns:
        (a) content-content (B, H, Lq, Lk), (b) content-distance (B, H, Lq, Lk), (c) everybody-content (B, H, 1, Lk),
        (d) everybody-distance (1 or B, H, Lq, Lk).
    Raises:
        ValueError: shapes that do not fit, such as r, u or v for another number of heads than q.
        TypeError: an argument that is no tensor, an index that holds no integers.
    Source: Dai et al. 2019 (arXiv:1901.02860), section 3.3.
    Example:
        >>> q, r, u = torch.ones(1, 1, 2, 4), torch.ones(1, 3, 4), torch.ones(1, 4)
        >>> index = torch.tensor([[1, 0], [2, 1]])
        >>> [tuple(term.shape) for term in score_terms(q, q, r, u, u, index)]
        [(1, 1, 2, 2), (1, 1, 2, 2), (1, 1, 1, 2), (1, 1, 2, 2)]
    """
    heads, head_dim = validate.tensor("q", q, shape="(B, H, L, d)").shape[1::2]
    validate.tensor("k", k, shape="(B, H, L, d)")
    for name, value, shape in (("r", r, "(H, R, d)"), ("u", u, "(H, d)"), ("v", v, "(H, d)")):
        if (validate.tensor(name, value, shape=shape).shape[0], value.shape[-1]) != (heads, head_dim):
            raise ValueError(f"{name} must have H = {heads} and d = {head_dim} like q, got {tuple(value.shape)}")
    if validate.integers("index", index).shape[-2:] != (q.shape[2], k.shape[2]):
        raise ValueError(f"index must have shape (..., Lq, Lk), {(q.shape[2], k.shape[2])}, got {tuple(index.shape)}")
    a = q @ k.mT
    b = relative_gather(q @ r.mT, index)
    c = u[:, None] @ k.mT
    d = relative_gather((v[:, None] @ r.mT)[None], index)
    return a, b, c, d


class TransformerXL(PositionScheme):
    """Scores with sinusoidal distances, a learned projection of them, and two learned vectors per head.

    Args:
        num_heads: H.
        head_dim: width d of a head; H * d, the width of the sinusoid, must be even.
    Example:
        >>> from posenc_lib import scores
        >>> q, k = torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 5, 4)  # two keys are those of a memory
        >>> scores(q, k, TransformerXL(2, head_dim=4)).shape
        torch.Size([1, 2, 3, 5])
    """

    name = "Transformer-XL"
    places = ("score",)
    relative = True

    def __init__(self, num_heads: int, head_dim: int):
        super().__init__()
        self.num_heads = validate.integer("num_heads", num_heads, at_least=1)
        self.head_dim = validate.integer("head_dim", head_dim, at_least=1)
        self.width = validate.width("num_heads * head_dim", num_heads * head_dim)
        self.u = nn.Parameter(torch.randn(num_heads, head_dim) * head_dim**-0.5)
        self.v = nn.Parameter(torch.randn(num_heads, head_dim) * head_dim**-0.5)
        self.r_proj = nn.Linear(self.width, self.width, bias=False)

    def per_pair(self, query_positions: Tensor, key_positions: Tensor) -> tuple[Tensor, Tensor]:
        """W_R R of the distances that occur, (H, R, d), and its row for each pair (..., Lq, Lk)."""
        distances, index = distinct(-relative_position(query_positions, key_positions))
        r = self.r_proj(encode(distances, self.width).to(self.r_proj.weight))
        return r.unflatten(-1, (self.num_heads, self.head_dim)).transpose(0, 1), index

    def score_bias(self, q: Tensor, k: Tensor, pair: tuple[Tensor, Tensor]) -> Tensor:
        """Terms (b), (c) and (d), divided by sqrt(d); (b) and (d) share a product, (q_i + v) . W_R R_{i-j}."""
        r, index = pair
        validate.heads("q", q, self.num_heads, self.head_dim)
        by_distance = relative_gather((q + self.v.to(q)[:, None]) @ r.to(q).mT, index)
        return (by_distance + self.u.to(q)[:, None] @ k.mT) * self.scale(self.head_dim)

    def terms(
        self, q: Tensor, k: Tensor, query_positions: Tensor, key_positions: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The four terms of :func:`score_terms` for queries and keys at these positions."""
        validate.heads("q", q, self.num_heads, self.head_dim)
        r, index = self.at(query_positions, key_positions, like=q).pairs
        return score_terms(q, k, r.to(q), self.u.to(q), self.v.to(q), index)
