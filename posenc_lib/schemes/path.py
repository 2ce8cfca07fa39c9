"""PaTH: between a key and a query stands a product of matrices, one for each token passed, chosen by the text.

Yang et al. 2025 (arXiv:2505.16381), section 2. Each head reads the hidden state x_t of every token:

    w_t = W x_t / |W x_t|,  beta_t = 2 sigmoid(u . x_t + b)     a direction, and a number between 0 and 2
    H_t = I - beta_t w_t w_t^T                                  scales along w_t by 1 - beta_t, and nothing else
    s_ij = k_j^T H_{j+1} ... H_i q_i / sqrt(d)

At beta = 2 the factor is a reflection (Householder's), at 1 it deletes what lies along w_t, at 0 it does nothing. These
matrices do not commute, and a deletion has no inverse: unlike in RoPE, FoX and selective RoPE, no running product per
token is enough, and position stays between query and key.

Here is the definition and no more: the factors are applied one after the other, in L steps with L d numbers each, which
a gradient keeps, L^2 d in all. That is for short texts; the paper has an algorithm in blocks. Keys after the query,
which its models do not see, keep the product of their content alone, and so does what a token says of itself. Not here
are the authors' options: w_t from a projection of low rank and a short convolution, and the gates of FoX beside it.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.relative import relative_gather
from posenc_lib.scheme import PositionScheme


def path_products(
    q: Tensor, k: Tensor, w: Tensor, beta: Tensor, query_positions: Tensor, key_positions: Tensor
) -> Tensor:
    """k_j^T H_{j+1} ... H_i q_i for all pairs, and k_j^T q_i for keys after the query.

    Args:
        q: (B, H, Lq, d) queries.
        k: (B, H, Lk, d) keys.
        w: (B, H, Lk, d) directions of the factors, of length 1.
        beta: (B, H, Lk) their strengths.
        query_positions: (Lq,) or (B, 1, Lq) integers.
        key_positions: (Lk,) or (B, 1, Lk) integers, in any order.
    Returns:
        (B, H, Lq, Lk), in the dtype of q, not yet divided by sqrt(d).
    Raises:
        ValueError: shapes that do not fit.
        TypeError: what holds no floating-point numbers, positions that are no integers.
    Source: Yang et al. 2025 (arXiv:2505.16381), section 2.
    Example:
        >>> q = torch.tensor([[[[1.0, 2.0], [1.0, 2.0]]]])
        >>> w, beta = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]]]]), torch.tensor([[[2.0, 2.0]]])
        >>> path_products(q, q, w, beta, torch.arange(2), torch.arange(2))  # token 1 reflects the second component
        tensor([[[[ 5.,  5.],
                  [-3.,  5.]]]])
    """
    for name, value, shape in (("q", q, "(B, H, Lq, d)"), ("k", k, "(B, H, Lk, d)"), ("w", w, "(B, H, Lk, d)")):
        validate.floating(name, validate.tensor(name, value, shape=shape))
    validate.floating("beta", validate.tensor("beta", beta, shape="(B, H, Lk)"))
    validate.last_axis("k", k, q.shape[-1])
    if w.shape != k.shape or beta.shape != k.shape[:3]:
        raise ValueError(
            f"w and beta must have the shapes (B, H, Lk, d) and (B, H, Lk) of k, {tuple(k.shape)}, "
            f"got {tuple(w.shape)} and {tuple(beta.shape)}"
        )
    i = validate.positions("query_positions", query_positions, length=q.shape[2])
    j = validate.positions("key_positions", key_positions, length=k.shape[2])
    if not k.shape[2]:
        return q @ k.mT
    order = j.argsort(dim=-1, stable=True)
    k, w = (relative_gather(y.mT, order[..., None, :]).mT for y in (k, w))
    beta = relative_gather(beta, order)
    passed = (j.gather(-1, order)[..., None, :] <= i[..., :, None]).to(q)  # (..., Lq, Lk): 1 if not after the query
    columns = []
    for t in reversed(range(k.shape[2])):  # from the last key to the first, each query takes H_t when it passes t
        k_t, w_t = k[:, :, t, :, None], w[:, :, t, :, None]
        columns.append(q @ k_t)
        q = q - passed[..., t, None] * beta[:, :, t, None, None] * (q @ w_t) @ w_t.mT
    s = torch.cat(columns[::-1], dim=-1)
    return relative_gather(s, order.argsort(-1)[..., None, :])


class PaTH(PositionScheme):
    """Puts a factor for every token passed between key and query; D H d + D H + H parameters, any (short) length.

    It reads the hidden states, which ``attend`` is therefore given as ``x``.

    Args:
        dim: width D of the hidden states.
        num_heads: H.
        head_dim: width d of a head.
    Raises:
        ValueError: a number that is not positive.
    Example:
        >>> from posenc_lib import attend
        >>> x, q = torch.randn(1, 3, 8), torch.randn(1, 2, 3, 4)
        >>> attend(q, q, q, PaTH(8, num_heads=2, head_dim=4), causal=True, x=x).shape
        torch.Size([1, 2, 3, 4])
    """

    name = "PaTH"
    places = ("score",)
    relative = True

    def __init__(self, dim: int, num_heads: int, head_dim: int):
        super().__init__()
        self.dim = validate.integer("dim", dim, at_least=1)
        self.num_heads = validate.integer("num_heads", num_heads, at_least=1)
        self.head_dim = validate.integer("head_dim", head_dim, at_least=1)
        self.direction = nn.Linear(dim, num_heads * head_dim, bias=False)
        self.strength = nn.Linear(dim, num_heads)

    def factors(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """w (B, H, L, d) and beta (B, H, L), in float32 or better, of hidden states x (B, L, D)."""
        dtype, x = torch.promote_types(x.dtype, torch.float32), x.to(self.direction.weight)
        w = self.direction(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        return F.normalize(w.to(dtype), dim=-1), 2 * self.strength(x).mT.to(dtype).sigmoid()

    def per_pair(self, query_positions: Tensor, key_positions: Tensor) -> tuple[Tensor, Tensor]:
        """The positions of queries and keys; what is between two tokens depends on the text."""
        return query_positions, key_positions

    def read(self, x: Tensor | None, pair: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
        """w and beta from the hidden states x (B, Lk, D) of the keys, and the positions."""
        return *self.factors(validate.hidden(x, self.dim, self)), *pair

    def score_bias(self, q: Tensor, k: Tensor, pair: tuple[Tensor, ...]) -> Tensor:
        """What the factors make of k_j^T q_i, less k_j^T q_i itself, which attention adds."""
        validate.heads("q", q, self.num_heads, self.head_dim)
        w, beta, i, j = pair
        q, k = q.to(w), k.to(w)
        return (path_products(q, k, w, beta, i, j) - q @ k.mT) * self.scale(self.head_dim)
