"""CoPE: contextual position encoding, where a position is a count of those tokens that a gate lets through.

Golovneva et al. 2024 (arXiv:2405.18719), section 4, for a key j that is not after its query i:

    g_is = sigmoid(q_i . k_s / sqrt(d))                         does key s count, for query i?
    p_ij = min(P, sum of g_is over the keys s from j to i)      0 < p_ij <= P, a fraction
    e[p] = (1 - w) e[n] + w e[n + 1],  n = floor(p), w = p - n  between two learned vectors
    s_ij = q_i . (k_j + e[p_ij]) / sqrt(d)

With all gates 1, p_ij = i - j + 1: a relative position. A query that opens the gates at full stops counts sentences.

Three things that the formula leaves open. A key after its query is not counted and gets p_ij = 0, so that all of them
share e[0]: CoPE is made for causal attention, and cannot tell them apart. What is counted are keys, not distances: a
place without a key (dropped from a cache, or never there) adds nothing, and p_ij does not change when all positions
move. Keys that a mask hides are counted like others, because no hook sees a mask; padding at either end of a text is
never between a key and its query, so it does no harm.

The formulas are printed without sqrt(d); code has it. The authors' repository (facebookresearch/RAM) divides both the
argument of the gate and q_i . e[p], as here; x_transformers, after the listing in appendix B, only the first.
"""

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.relative import relative_gather, relative_position
from posenc_lib.scheme import PositionScheme


def count_gates(logits: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """g_is: how much each key counts for each query; 0 for the keys after the query.

    Args:
        logits: (B, H, Lq, Lk) scaled dot products q_i . k_s / sqrt(d).
        query_positions: (Lq,) or (B, 1, Lq) integers.
        key_positions: (Lk,) or (B, 1, Lk) integers.
    Returns:
        (B, H, Lq, Lk) in [0, 1], in the dtype of ``logits``.
    Raises:
        ValueError: shapes that do not fit.
        TypeError: logits that are no floating-point numbers, positions that are no integers.
    Source: Golovneva et al. 2024 (arXiv:2405.18719), section 4.
    Example:
        >>> p = torch.arange(3)
        >>> count_gates(torch.zeros(1, 1, 3, 3), p, p)[0, 0]
        tensor([[0.5000, 0.0000, 0.0000],
                [0.5000, 0.5000, 0.0000],
                [0.5000, 0.5000, 0.5000]])
    """
    n_queries, n_keys = _floating("logits", logits, "(B, H, Lq, Lk)").shape[2:]
    i = validate.positions("query_positions", query_positions, length=n_queries)
    j = validate.positions("key_positions", key_positions, length=n_keys)
    return logits.sigmoid().masked_fill(relative_position(i.long(), j.long()) > 0, 0.0)


def contextual_positions(gates: Tensor, key_positions: Tensor) -> Tensor:
    """p_ij: the sum of the gates of all keys from j on; gates after the query must be 0.

    Args:
        gates: (B, H, Lq, Lk), as ``count_gates`` returns them.
        key_positions: (Lk,) or (B, 1, Lk) integers in any order; keys at the same position count together.
    Returns:
        (B, H, Lq, Lk), in the dtype of ``gates``; not yet limited to a largest position.
    Raises:
        ValueError: shapes that do not fit.
        TypeError: gates that are no floating-point numbers, positions that are no integers.
    Source: Golovneva et al. 2024 (arXiv:2405.18719), section 4.
    Example:
        >>> gates = torch.ones(1, 1, 3, 3).tril()
        >>> contextual_positions(gates, torch.arange(3))[0, 0]
        tensor([[1., 0., 0.],
                [2., 1., 0.],
                [3., 2., 1.]])
    """
    n_keys = _floating("gates", gates, "(B, H, Lq, Lk)").shape[3]
    j = validate.positions("key_positions", key_positions, length=n_keys)
    if (j.diff() > 0).all():
        return _sum_from_here_on(gates)
    order = j.argsort(-1)
    first = torch.searchsorted(j.gather(-1, order), j)  # of the keys at this position, in ascending order
    sums = _sum_from_here_on(relative_gather(gates, order[..., None, :]))
    return relative_gather(sums, first[..., None, :])


def _sum_from_here_on(x: Tensor) -> Tensor:
    return x.flip(-1).cumsum(-1).flip(-1)


def interpolate(logits: Tensor, p: Tensor) -> Tensor:
    """q_i . e[p_ij] for fractional p, from the logits q_i . e[n] of the whole positions.

    The product is linear in e, so that interpolating products and interpolating vectors is the same; of the first there
    are P + 1 per query, not d for every pair. Positions above P are taken as P. At a whole p the derivative by p is
    that to the right (to the left at P), and beyond P it is 0.

    Args:
        logits: (B, H, Lq, P + 1), one for each whole position 0..P.
        p: (B, H, Lq, Lk), not negative.
    Returns:
        (B, H, Lq, Lk), in the dtype of ``logits``.
    Raises:
        ValueError: shapes that do not fit, fewer than two whole positions.
        TypeError: what holds no floating-point numbers.
    Source: Golovneva et al. 2024 (arXiv:2405.18719), section 4.
    Example:
        >>> logits = torch.tensor([[[[0.0, 10.0, 30.0]]]])
        >>> interpolate(logits, torch.tensor([[[[0.5, 1.5, 7.0]]]]))
        tensor([[[[ 5., 20., 30.]]]])
    """
    largest = _floating("logits", logits, "(B, H, Lq, P + 1)").shape[3] - 1
    _floating("p", p, "(B, H, Lq, Lk)")
    if largest < 1:
        raise ValueError(f"logits must have at least two whole positions 0 and 1, got {largest + 1}")
    if logits.shape[:3] != p.shape[:3]:
        raise ValueError(
            f"logits and p must have the same (B, H, Lq), got {tuple(logits.shape[:3])} and {tuple(p.shape[:3])}"
        )
    p = p.clamp(max=largest)
    below = p.detach().floor().clamp(0, largest - 1)
    share, below = (p - below).to(logits.dtype), below.long()
    return logits.gather(-1, below).lerp(logits.gather(-1, below + 1), share)


def _floating(name: str, value: Tensor, shape: str) -> Tensor:
    return validate.floating(name, validate.tensor(name, value, shape=shape))


class Cope(PositionScheme):
    """Adds a learned vector to each key, chosen by a count of the keys between it and the query.

    One table for all heads, which differ in what they count; it starts from zeros, as in the authors' code.

    Args:
        head_dim: width d of a head.
        max_position: P, the largest count that is told apart; the table has P + 1 rows.
    Raises:
        ValueError: a number that is too small or not whole.
    Example:
        >>> scheme, q, p = Cope(4, max_position=8), torch.zeros(1, 1, 3, 4), torch.arange(3)
        >>> scheme.positions(q, q, p, p)[0, 0]  # every gate is half open
        tensor([[0.5000, 0.0000, 0.0000],
                [1.0000, 0.5000, 0.0000],
                [1.5000, 1.0000, 0.5000]])
    """

    name = "CoPE"
    places = ("score",)
    relative = True

    def __init__(self, head_dim: int, max_position: int = 64):
        super().__init__()
        self.head_dim = validate.integer("head_dim", head_dim, at_least=1)
        self.max_position = validate.integer("max_position", max_position, at_least=1)
        self.table = nn.Parameter(torch.zeros(self.max_position + 1, self.head_dim))

    def per_pair(self, query_positions: Tensor, key_positions: Tensor) -> tuple[Tensor, Tensor]:
        """The positions of queries and keys; what is between two tokens depends on the text."""
        return query_positions, key_positions

    def positions(self, q: Tensor, k: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """p_ij, shape (B, H, Lq, Lk), not yet limited to P; counted in float32 or better."""
        logits = (q @ k.mT * self.scale(self.head_dim)).to(torch.promote_types(q.dtype, torch.float32))
        return contextual_positions(count_gates(logits, query_positions, key_positions), key_positions)

    def score_bias(self, q: Tensor, k: Tensor, pair: tuple[Tensor, Tensor]) -> Tensor:
        """q_i . e[p_ij] / sqrt(d), shape (B, H, Lq, Lk)."""
        validate.heads("q", q, None, self.head_dim)
        logits = q @ self.table.to(q).mT * self.scale(self.head_dim)
        return interpolate(logits, self.positions(q, k, *pair))
