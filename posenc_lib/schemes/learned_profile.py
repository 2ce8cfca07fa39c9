"""A learned profile per query: every token mixes, from a few learned curves over the distance, one of its own.

Inkling (Thinking Machines 2026; no paper, code in transformers). Each head reads the hidden state x_i of the query:

    r_i  = W x_i                                       n numbers per head: how much of each curve
    s_ij = q_i.k_j / sqrt(d) + r_i . P[:, i - j]       for 0 <= i - j < max_distance; else nothing is added

P has n rows, the curves, and one column per distance; all heads share it. With r_i = q_i and n = d this would be the
relative score of the Music Transformer: a learned profile is one of rank n, mixed by a projection of its own. What is
farther away than the table is long gets the score of its content alone.

The formula needs the hidden state of the query. Attention is given those of the keys, and a query is one of them: that
at its own position, the first if there are several.
"""

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.relative import relative_gather, relative_position
from posenc_lib.scheme import PositionScheme


def profile_bias(mix: Tensor, profiles: Tensor, relative_position: Tensor) -> Tensor:
    """r_i . P[:, i - j] where 0 <= i - j < E, and 0 for every other pair.

    Args:
        mix: (B, H, Lq, n) r_i of every query.
        profiles: (n, E) P, one column for each distance i - j = 0, 1, ...
        relative_position: (Lq, Lk) or (B, 1, Lq, Lk) integers j - i.
    Returns:
        (B, H, Lq, Lk), in the dtype of ``mix``.
    Raises:
        ValueError: shapes that do not fit.
        TypeError: what holds no floating-point numbers, positions that are no integers.
    Source: ``InklingRelativeLogits`` in transformers.
    Example:
        >>> P = torch.tensor([[1.0, 0.5], [0.0, 2.0]])
        >>> r = torch.tensor([[[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]]])
        >>> profile_bias(r, P, torch.tensor([[0, 1, 2], [-1, 0, 1], [-2, -1, 0]]))[0, 0]
        tensor([[1.0000, 0.0000, 0.0000],
                [2.0000, 0.0000, 0.0000],
                [0.0000, 2.5000, 1.0000]])
    """
    validate.floating("mix", validate.tensor("mix", mix, shape="(B, H, Lq, n)"))
    n, longest = validate.floating("profiles", validate.tensor("profiles", profiles, shape="(n, E)")).shape
    validate.last_axis("mix", mix, n)
    distance = -validate.integers("relative_position", relative_position).long()
    if distance.dim() < 2 or distance.shape[-2] != mix.shape[2]:
        raise ValueError(
            f"relative_position must have a row for each of the {mix.shape[2]} queries, got {tuple(distance.shape)}"
        )
    bias = relative_gather(mix @ profiles.to(mix), distance.clamp(0, longest - 1))
    return bias.masked_fill((distance < 0) | (distance >= longest), 0.0)


class LearnedProfile(PositionScheme):
    """Adds to a score what the query's own curve says of the distance to the key; n (D H + max_distance) parameters.

    It reads the hidden states, which ``attend`` is therefore given as ``x``. With a cache only those of the queries
    matter. Scores of keys after the query do not change.

    Args:
        dim: width D of the hidden states.
        num_heads: H.
        num_profiles: n, the number of curves.
        max_distance: the number of distances, from 0, that a curve has a value for.
    Raises:
        ValueError: a number that is not positive; in use, a query at a position where there is no key.
    Example:
        >>> from posenc_lib import attend
        >>> x, q = torch.randn(1, 3, 8), torch.randn(1, 2, 3, 4)
        >>> attend(q, q, q, LearnedProfile(8, num_heads=2), causal=True, x=x).shape
        torch.Size([1, 2, 3, 4])
    """

    name = "learned profile"
    places = ("score",)
    relative = True
    variants = {"short": {"max_distance": 3}}

    def __init__(self, dim: int, num_heads: int, num_profiles: int = 16, max_distance: int = 1024):
        super().__init__()
        self.dim = validate.integer("dim", dim, at_least=1)
        self.num_heads = validate.integer("num_heads", num_heads, at_least=1)
        self.num_profiles = validate.integer("num_profiles", num_profiles, at_least=1)
        self.max_distance = validate.integer("max_distance", max_distance, at_least=1)
        self.mix = nn.Linear(dim, num_heads * num_profiles, bias=False)
        self.profiles = nn.Parameter(0.02 * torch.randn(num_profiles, max_distance))  # as in x_transformers

    def per_pair(self, query_positions: Tensor, key_positions: Tensor) -> tuple[Tensor, Tensor]:
        """The relative positions (..., Lq, Lk), and which of the keys each query is (..., Lq).

        Raises:
            ValueError: if there are keys, but none at the position of some query.
        """
        relative = relative_position(query_positions, key_positions)
        if not relative.numel():
            return relative, relative.new_zeros(relative.shape[:-1])
        own = relative == 0
        if not (found := own.any(-1)).all():
            missing = query_positions.expand(found.shape)[~found][0]
            raise ValueError(
                "query_positions must be among key_positions, because LearnedProfile reads the hidden state of every "
                f"query, got {int(missing)}"
            )
        return relative, own.byte().argmax(-1)

    def read(self, x: Tensor | None, pair: tuple[Tensor, Tensor]) -> Tensor | None:
        """(B, H, Lq, Lk) what is added, from the hidden states x (B, Lk, D) of the keys; None without a pair."""
        x = validate.hidden(x, self.dim, self)
        relative, own = pair
        if not relative.numel():
            return None
        of_queries = relative_gather(x.mT, own).mT.to(self.mix.weight)
        mix = self.mix(of_queries).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        return profile_bias(mix, self.profiles, relative)

    def score_bias(self, q: Tensor, k: Tensor, pair: Tensor | None) -> Tensor | None:
        """What ``read`` says."""
        return pair
