"""XLNet: Transformer-XL's score under a permutation mask, with a bias for tokens of the same segment.

Yang et al. 2019 (arXiv:1906.08237), sections 2.2 to 2.5. A factorization order z says in which order the tokens are
predicted; the token z_t is predicted from z_1, ..., z_{t-1}, wherever these stand. Two streams share the weights:

    content stream h: sees the tokens up to and including its own place in the order, its own content among them;
    query stream g:   sees the tokens strictly before it in the order, and its own position but not its own content.

Both take their keys and values from h. Distances run both ways, because an order may put a token before its left
neighbour. Relative segments add to the score of i and j

    (q_i + b) . e[0 if i and j are in the same segment, else 1] / sqrt(d)

so that it matters whether two tokens share a segment, and not which one.
"""

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.schemes.transformer_xl import TransformerXL


def permutation_mask(order: Tensor, include_self: bool = False) -> Tensor:
    """Which token may see which, when tokens are predicted in the given order.

    Args:
        order: (L,) a permutation of 0..L-1; ``order[t]`` is the place of the token predicted at step t.
        include_self: let a token see itself (the content stream); the query stream does not.
    Returns:
        (L, L) bool, entry (i, j) True where token i may see token j.
    Raises:
        ValueError: if ``order`` is no permutation.
        TypeError: if ``order`` holds no integers, or ``include_self`` is no bool.
    Source: Yang et al. 2019 (arXiv:1906.08237), section 2.3.
    Example:
        >>> permutation_mask(torch.tensor([2, 0, 1])).int()  # the token at place 2 comes first
        tensor([[0, 0, 1],
                [1, 0, 1],
                [0, 0, 0]], dtype=torch.int32)
    """
    validate.vector("order", order)
    if not isinstance(include_self, bool):
        raise TypeError(f"include_self must be True or False, got {include_self!r}")
    if order.sort().values.tolist() != list(range(len(order))):
        raise ValueError(f"order must be a permutation of 0..{len(order) - 1}, got {order.tolist()}")
    step = order.argsort()  # at which step each place is predicted
    return step <= step[:, None] if include_self else step < step[:, None]


class XLNet(TransformerXL):
    """Transformer-XL's score, and the segment bias to be added to it where a text has segments.

    Args:
        num_heads: H.
        head_dim: width d of a head; H * d, the width of the sinusoid, must be even.
    Example:
        >>> q, segments = torch.zeros(1, 2, 3, 4), torch.tensor([0, 0, 1])
        >>> XLNet(2, head_dim=4).segment_bias(q, segments, segments).shape
        torch.Size([1, 2, 3, 3])
    """

    name = "XLNet"

    def __init__(self, num_heads: int, head_dim: int):
        super().__init__(num_heads, head_dim)
        self.segment_query = nn.Parameter(torch.randn(num_heads, head_dim) * head_dim**-0.5)  # b
        self.segment_table = nn.Parameter(torch.randn(2, num_heads, head_dim) * head_dim**-0.5)  # e: same, other

    def segment_bias(self, q: Tensor, query_segments: Tensor, key_segments: Tensor) -> Tensor:
        """(q_i + b) . e[0 if the segments are the same, else 1] / sqrt(d), to be added to the scores.

        Args:
            q: (B, H, Lq, d) queries.
            query_segments, key_segments: (Lq,), (Lk,) integers, equal where tokens share a segment.
        Returns:
            (B, H, Lq, Lk).
        Raises:
            ValueError: shapes that do not fit.
            TypeError: an argument that is no tensor, segments that are not integers.
        Source: Yang et al. 2019 (arXiv:1906.08237), section 2.5.
        """
        validate.heads("q", q, self.num_heads, self.head_dim)
        validate.vector("query_segments", query_segments, length=q.shape[2])
        validate.vector("key_segments", key_segments)
        table = self.segment_table.to(q).permute(1, 2, 0)
        same, other = ((q + self.segment_query.to(q)[:, None]) @ table).unbind(-1)
        differs = key_segments != query_segments[:, None]
        return torch.where(differs, other[..., None], same[..., None]) * self.scale(self.head_dim)
