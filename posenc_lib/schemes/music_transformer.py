"""Relative attention without a vector per pair: multiply first, then skew.

C.-Z. A. Huang et al. 2018 (arXiv:1809.04281), section 3.4. For causal attention over at most ``max_length`` positions:

    s_ij = (q_i . k_j + q_i . E[j - i]) / sqrt(d),        E one row per distance, -(max_length - 1) to 0

That is Shaw's score without the clip and without the term for the values. Column c of Q E^T belongs to distance
c - (L - 1), so row i must move left by L - 1 - i. Padding one column on the left and reading the numbers in rows of
another length does that, and the (L, L, d) tensor of one vector per pair is never built.
"""

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.relative import relative_gather, relative_position
from posenc_lib.scheme import PositionScheme


def skew(logits: Tensor) -> Tensor:
    """Move row i of a square matrix left by L - 1 - i, so that column "distance" becomes column "key".

    Args:
        logits: (..., L, L); column c of row i belongs to the key at i + c - (L - 1).
    Returns:
        (..., L, L); entry (i, j) with j <= i is ``logits[i, j - i + L - 1]``. Entries above the diagonal mean nothing:
        the zero of the padding at (i, i + 1), then ``logits[i + 1, j - i - 2]``, left over from the next row.
    Raises:
        ValueError: if the last two axes differ.
        TypeError: if ``logits`` is no tensor.
    Source: C.-Z. A. Huang et al. 2018 (arXiv:1809.04281), section 3.4.
    Example:
        >>> skew(torch.tensor([[9.0, 9.0, 1.0], [9.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
        tensor([[1., 0., 9.],
                [2., 3., 0.],
                [4., 5., 6.]])
    """
    if not isinstance(logits, Tensor):
        raise TypeError(f"logits must be a tensor (..., L, L), got {type(logits).__name__}")
    if logits.dim() < 2 or logits.shape[-1] != logits.shape[-2]:
        raise ValueError(f"logits must have shape (..., L, L), got {tuple(logits.shape)}")
    length = logits.shape[-1]
    padded = nn.functional.pad(logits, (1, 0))
    return padded.reshape(*logits.shape[:-2], length + 1, length)[..., 1:, :]


class MusicTransformer(PositionScheme):
    """Adds a learned vector per distance to the keys, looking back only; use with a causal mask.

    Args:
        head_dim: width d of a head.
        max_length: number of distances, 0 to max_length - 1.
        num_heads: give each of so many heads its own table (num_heads, max_length, d), as in the paper; shared by the
            heads if None.
    Raises:
        ValueError: a number that is too small or not whole.
    Example:
        >>> MusicTransformer(4, max_length=8).table.shape
        torch.Size([8, 4])
        >>> MusicTransformer(4, max_length=8, num_heads=2).table.shape
        torch.Size([2, 8, 4])
    """

    name = "Music Transformer"
    places = ("score",)
    relative = True
    variants = {"per head": {"num_heads": 4}}

    def __init__(self, head_dim: int, max_length: int, num_heads: int | None = None):
        super().__init__()
        self.head_dim = validate.integer("head_dim", head_dim, at_least=1)
        self.max_length = validate.integer("max_length", max_length, at_least=1)
        self.num_heads = None if num_heads is None else validate.integer("num_heads", num_heads, at_least=1)
        heads = () if num_heads is None else (num_heads,)
        self.table = nn.Parameter(torch.randn(*heads, self.max_length, self.head_dim) * self.head_dim**-0.5)

    def per_pair(self, query_positions: Tensor, key_positions: Tensor) -> tuple[int, Tensor]:
        """How many distances occur, n, and the row of each pair among the last n of the table, (..., Lq, Lk).

        The row of a key after the query is n, which is none.

        Raises:
            ValueError: if a key is max_length or more positions before its query.
        """
        relative = relative_position(query_positions, key_positions)
        farthest = max(0, -int(relative.min())) if relative.numel() else 0
        if farthest >= self.max_length:
            raise ValueError(
                f"key_positions must be less than max_length = {self.max_length} before the query, got {farthest}"
            )
        return farthest + 1, (relative + farthest).clamp(max=farthest + 1)

    def score_bias(self, q: Tensor, k: Tensor, pair: tuple[int, Tensor]) -> Tensor:
        """q_i . E[j - i] / sqrt(d) for j <= i, and 0 for the keys after the query, which have no row.

        Any positions are allowed here, so the logits are gathered; :func:`skew` does it for positions without gaps.
        """
        validate.heads("q", q, self.num_heads, self.head_dim)
        n, row = pair
        logits = q @ self.table[..., self.max_length - n :, :].to(q).mT * self.scale(self.head_dim)
        return relative_gather(nn.functional.pad(logits, (0, 1)), row)
