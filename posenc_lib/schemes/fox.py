"""FoX, the forgetting transformer: every token says how much of all that stands before it is forgotten.

Lin et al. 2025 (arXiv:2503.02130), section 3. Each head reads the hidden state x_t of every token:

    f_t  = sigmoid(w . x_t + b)                                  forget gate, between 0 and 1
    s_ij = q_i.k_j / sqrt(d) + sum of log f_t over j < t <= i

The weight of a key is multiplied by every gate between it and the query. If all gates were the same this would be
ALiBi with the slope -log f; here the text decides: where a gate closes, what stands before it is out of sight.

Sums are differences: with c(p) the sum of log f over the tokens up to position p, the bias is c(i) - c(j). Two things
that the formula leaves open: keys after the query, which the paper's causal models do not see, are treated alike, with
the gates from i + 1 to j; and a place without a key (dropped from a cache) closes no gate.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.relative import relative_gather
from posenc_lib.scheme import PositionScheme


def running_sums(values: Tensor, query_positions: Tensor, key_positions: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of ``values`` over the keys up to the position of each query, and up to that of each key.

    Args:
        values: (B, N, Lk) numbers of the keys.
        query_positions: (Lq,) or (B, 1, Lq) integers.
        key_positions: (Lk,) or (B, 1, Lk) integers, in any order; keys at the same position count together.
    Returns:
        (B, N, Lq) and (B, N, Lk), in the dtype of ``values``.
    Raises:
        ValueError: shapes that do not fit.
        TypeError: positions that are no integers.
    Example:
        >>> running_sums(torch.tensor([[[1.0, 2.0, 4.0]]]), torch.tensor([9]), torch.tensor([2, 0, 1]))
        (tensor([[[7.]]]), tensor([[[7., 2., 6.]]]))
    """
    i = validate.positions("query_positions", query_positions).long()
    j = validate.positions("key_positions", key_positions, length=values.shape[-1]).long()
    ordered, order = j.sort(dim=-1)
    c = F.pad(relative_gather(values, order).cumsum(-1), (1, 0))  # entry n: the sum over the first n keys
    i = i if ordered.dim() == 1 else i.expand(*ordered.shape[:-1], -1)
    c_i, c_j = (relative_gather(c, torch.searchsorted(ordered, p.contiguous(), right=True)) for p in (i, j))
    return c_i, c_j


def forgetting(log_gates: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Sum of ``log_gates`` over the keys between j and i: those after the earlier and up to the later of the two.

    Args:
        log_gates: (B, H, Lk) logarithms of the gates of the keys, not positive.
        query_positions: (Lq,) or (B, 1, Lq) integers i.
        key_positions: (Lk,) or (B, 1, Lk) integers j, in any order.
    Returns:
        (B, H, Lq, Lk), not positive, in the dtype of ``log_gates``.
    Raises:
        ValueError: shapes that do not fit.
        TypeError: gates that are no floating-point numbers, positions that are no integers.
    Source: Lin et al. 2025 (arXiv:2503.02130), equation 6.
    Example:
        >>> gates = torch.tensor([[[0.9, 0.5, 0.1]]])
        >>> forgetting(gates.log(), torch.tensor([2]), torch.arange(3)).exp()
        tensor([[[[0.0500, 0.1000, 1.0000]]]])
    """
    validate.floating("log_gates", validate.tensor("log_gates", log_gates, shape="(B, H, Lk)"))
    c_i, c_j = running_sums(log_gates, query_positions, key_positions)
    return -(c_i[..., :, None] - c_j[..., None, :]).abs()


class Fox(PositionScheme):
    """Adds to a score the logarithms of the forget gates between key and query; D H + H parameters, any length.

    It reads the hidden states, which ``attend`` is therefore given as ``x``.

    Args:
        dim: width D of the hidden states.
        num_heads: H.
    Raises:
        ValueError: a number that is not positive.
    Example:
        >>> from posenc_lib import attend
        >>> x, q = torch.randn(1, 3, 8), torch.randn(1, 2, 3, 4)
        >>> attend(q, q, q, Fox(8, num_heads=2), causal=True, x=x).shape
        torch.Size([1, 2, 3, 4])
    """

    name = "FoX"
    places = ("score",)
    relative = True

    def __init__(self, dim: int, num_heads: int):
        super().__init__()
        self.dim = validate.integer("dim", dim, at_least=1)
        self.num_heads = validate.integer("num_heads", num_heads, at_least=1)
        self.gate = nn.Linear(dim, num_heads)
        nn.init.constant_(self.gate.bias, 5.0)  # nearly open, f = .993, as in x_transformers

    def per_pair(self, query_positions: Tensor, key_positions: Tensor) -> tuple[Tensor, Tensor]:
        """The positions of queries and keys; what is between two tokens depends on the text."""
        return query_positions, key_positions

    def read(self, x: Tensor | None, pair: tuple[Tensor, Tensor]) -> Tensor:
        """(B, H, Lq, Lk) what is forgotten, from the hidden states x (B, Lk, D) of the keys."""
        x = validate.hidden(x, self.dim, self)
        log_gates = F.logsigmoid(self.gate(x.to(self.gate.weight))).mT
        return forgetting(log_gates.to(torch.promote_types(x.dtype, torch.float32)), *pair)

    def score_bias(self, q: Tensor, k: Tensor, pair: Tensor) -> Tensor:
        """What ``read`` says."""
        return pair
