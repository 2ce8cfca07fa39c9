"""The four places where position can enter attention.

For a query at position i and the keys at positions j, attention computes

    x_i  <- embed(x_i, i)                                      (1) added to the input
    q_i, k_j <- transform(q_i, i), transform(k_j, j)           (2) applied to queries and keys
    s_ij = <q_i, k_j> * scale + score_bias(q, k, i, j)         (3) inside the score
    o_i  = sum_j softmax(s)_ij (v_j + value_bias(i, j))        (4) inside the value

A positional encoding is a choice of one or two of these. Each hook below does nothing until a scheme overrides it.
"""

from torch import Tensor, nn

from posenc_lib.relative import distinct, relative_position


class PositionScheme(nn.Module):
    """A way of telling attention where its tokens are; this base class tells it nothing.

    Shapes: x (B, L, D); q, k, v (B, H, L, d); scores and weights (B, H, Lq, Lk); positions (L,) integers that need be
    neither contiguous nor start at 0. Relative position is ``key - query``.
    """

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Hook 1: the input x (B, L, D) with position added, same shape and dtype."""
        return x

    def transform(self, x: Tensor, positions: Tensor) -> Tensor:
        """Hook 2: queries or keys x (B, H, L, d) with position applied, same shape and dtype."""
        return x

    def transform_query(self, q: Tensor, positions: Tensor) -> Tensor:
        """Hook 2 for queries; a scheme overrides this and the next if it treats queries and keys differently."""
        return self.transform(q, positions)

    def transform_key(self, k: Tensor, positions: Tensor) -> Tensor:
        """Hook 2 for keys."""
        return self.transform(k, positions)

    def score_bias(self, q: Tensor, k: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor | None:
        """Hook 3: what is added to the scaled scores, broadcastable to (B, H, Lq, Lk), or None for nothing.

        ``q`` and ``k`` have been through hook 2. The bias is added after scaling: a term that the paper divides
        by the square root of d must be divided here.
        """
        if type(self).distance_bias is PositionScheme.distance_bias:
            return None
        relative, index = distinct(relative_position(query_positions, key_positions))
        return self.distance_bias(relative)[:, index]

    def distance_bias(self, relative_position: Tensor) -> Tensor | None:
        """Hook 3 in short, for a bias that depends on j - i only: (H, R) for the relative positions (R,), or None.

        A scheme that overrides this method need not override ``score_bias``, and attention over contiguous positions
        then needs one number per distance where it would need one per pair.
        """
        return None

    def value_bias(self, weights: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor | None:
        """Hook 4: sum_j weights_ij value_bias(i, j), shape (B, H, Lq, d), or None for nothing.

        It receives the softmax weights (B, H, Lq, Lk), so that a scheme with few distinct vectors can sum the weights
        that share a vector instead of building an (Lq, Lk, d) table.
        """
        return None

    def scale(self, head_dim: int) -> float:
        """Factor of the dot product in the score: 1 / sqrt(d) unless a scheme says otherwise."""
        return head_dim**-0.5
