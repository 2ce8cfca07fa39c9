"""The four places where position can enter attention.

For a query at position i and the keys at positions j, attention computes

    x_i  <- embed(x_i, i)                                       (1) added to the input
    q_i, k_j <- transform(q_i, t_i), transform(k_j, t_j)        (2) applied to queries and keys
    s_ij = <q_i, k_j> * scale + score_bias(q, k, p_ij)          (3) inside the score
    o_i  = sum_j softmax(s)_ij (v_j + value_bias(p_ij))         (4) inside the value

with what the positions alone decide, computed once per forward for all layers:

    t_i = per_token(i),    p_ij = per_pair(i, j)

A positional encoding is a choice of one or two of these places. Each method below does nothing, or passes on what it is
given, until a scheme overrides it.
"""

import inspect
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from posenc_lib.placed import Placed
from posenc_lib.relative import distinct, relative_gather, relative_position

Place = Literal["input", "query and key", "score", "value"]
PLACES: tuple[Place, ...] = ("input", "query and key", "score", "value")
HOOKS: dict[str, Place] = {
    "embed": "input",
    "transform": "query and key",
    "transform_query": "query and key",
    "transform_key": "query and key",
    "score_bias": "score",
    "value_bias": "value",
}


class PositionScheme(nn.Module):
    """A way of telling attention where its tokens are; this base class tells it nothing.

    Shapes: x (B, L, D); q, k, v (B, H, L, d); scores and weights (B, H, Lq, Lk); positions (L,) or (B, L) integers that
    need be neither contiguous nor start at 0. Relative position is ``key - query``.

    A scheme of attention gets the positions of a batch as (B, 1, L), so that what it makes of them fits all heads. A
    scheme whose positions are points on a grid says how many coordinates they have in ``num_axes`` and gets (L, n) or
    (B, 1, L, n).

    Attributes:
        name: as its authors write it; that of the class unless a scheme says otherwise.
        places: the places that the scheme uses; attention does not ask it about any other.
        relative: a promise that scores do not change when all positions grow by the same number.
        by_distance: whether all that it adds to a score is ``distance_bias``, see :class:`DistanceBias`.
        num_axes: coordinates of a position; None for a plain number.
        variants: settings other than the defaults that are worth a test, by name.
    Example:
        >>> from posenc_lib import scores
        >>> class Nearer(PositionScheme):
        ...     places = ("score",)
        ...     def score_bias(self, q, k, pair):
        ...         return -pair.abs()
        >>> q = torch.zeros(1, 1, 3, 2)
        >>> scores(q, q, Nearer())
        tensor([[[[ 0., -1., -2.],
                  [-1.,  0., -1.],
                  [-2., -1.,  0.]]]])
    """

    name: ClassVar[str] = "PositionScheme"
    places: ClassVar[tuple[Place, ...]] = PLACES
    relative: ClassVar[bool] = False
    by_distance: ClassVar[bool] = False
    num_axes: int | None = None
    variants: ClassVar[dict[str, dict[str, Any]]] = {}

    def __init__(self) -> None:
        super().__init__()

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        cls.name = vars(cls).get("name", cls.__name__)
        for hook, place in HOOKS.items():
            if hook in vars(cls) and place not in cls.places:
                raise TypeError(f"{cls.__name__} defines {hook}, so its places must have {place!r}, got {cls.places}")

    def at(
        self,
        query_positions: Tensor | int,
        key_positions: Tensor | int | None = None,
        like: Tensor | None = None,
    ) -> Placed:
        """The scheme at these positions, for every layer of one forward: what they alone decide is computed once.

        Args:
            query_positions: (Lq,) or (B, Lq) integers, (Lq, n) or (B, Lq, n) coordinates on a grid; a number L stands
                for the last L keys, or for 0..L-1 if no keys are given.
            key_positions: the same for the keys; those of the queries if None, 0..L-1 for a number L.
            like: a tensor with the dtype and device of the queries; float32 on the CPU if None.
        Returns:
            What :func:`posenc_lib.attention.attend` takes in the place of a scheme and positions.
        Raises:
            ValueError: positions whose shapes do not fit.
            TypeError: positions that are not integers.
        """
        return Placed(self, query_positions, key_positions, like)

    def per_token(self, positions: Tensor) -> Any:
        """What a position alone decides, for hook 2: the positions themselves unless a scheme says otherwise."""
        return positions

    def per_pair(self, query_positions: Tensor, key_positions: Tensor) -> Any:
        """What two positions alone decide, for hooks 3 and 4: the relative position (..., Lq, Lk), key minus query.

        On a grid it has the axis of coordinates at its end, (..., Lq, Lk, n).
        """
        if self.num_axes is None:
            return relative_position(query_positions, key_positions)
        return key_positions[..., None, :, :] - query_positions[..., :, None, :]

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Hook 1: the input x (B, L, D) with position (L,) or (B, L) added, same shape and dtype."""
        return x

    def transform(self, x: Tensor, token: Any) -> Tensor:
        """Hook 2: queries or keys x (B, H, L, d) with position applied, same shape and dtype.

        ``token`` is what ``per_token`` says about their positions.
        """
        return x

    def transform_query(self, q: Tensor, token: Any) -> Tensor:
        """Hook 2 for queries; a scheme overrides this and the next if it treats queries and keys differently."""
        return self.transform(q, token)

    def transform_key(self, k: Tensor, token: Any) -> Tensor:
        """Hook 2 for keys."""
        return self.transform(k, token)

    def read_tokens(self, x: Tensor | None, query_token: Any, key_token: Any) -> tuple[Any, Any]:
        """What the text adds to ``per_token``: x (B, Lk, D) are the hidden states of the keys, once per layer.

        Most schemes do not read; they return what they are given, for queries and for keys.
        """
        return query_token, key_token

    def read(self, x: Tensor | None, pair: Any) -> Any:
        """What the text adds to ``per_pair``: as ``read_tokens``, for hooks 3 and 4."""
        return pair

    def score_bias(self, q: Tensor, k: Tensor, pair: Any) -> Tensor | None:
        """Hook 3: what is added to the scaled scores, broadcastable to (B, H, Lq, Lk), or None for nothing.

        ``q`` and ``k`` have been through hook 2, and ``pair`` is what ``per_pair`` says. The bias is added after
        scaling: a term that the paper divides by the square root of d must be divided here.
        """
        return None

    def value_bias(self, weights: Tensor, pair: Any) -> Tensor | None:
        """Hook 4: sum_j weights_ij value_bias(p_ij), shape (B, H, Lq, d), or None for nothing.

        It receives the softmax weights (B, H, Lq, Lk), so that a scheme with few distinct vectors can sum the weights
        that share a vector instead of building an (Lq, Lk, d) table.
        """
        return None

    def scale(self, head_dim: int) -> float:
        """Factor of the dot product in the score: 1 / sqrt(d) unless a scheme says otherwise."""
        return head_dim**-0.5

    def extra_repr(self) -> str:
        """The arguments of the constructor, as ``print`` shows them; a scheme keeps each under its own name."""
        arguments = ((name, getattr(self, name)) for name in inspect.signature(type(self)).parameters)
        return ", ".join(f"{name}={_shown(value)}" for name, value in arguments)


def _shown(value: object) -> str:
    value = value.item() if isinstance(value, Tensor) else value
    return f"{value:g}" if isinstance(value, float) else repr(value)


class DistanceBias(PositionScheme):
    """A scheme that adds to a score a number of each head, which depends on j - i only.

    It needs one number per distance, not one per pair: attention over contiguous positions reads them through a view.

    Example:
        >>> from posenc_lib import scores
        >>> class Nearer(DistanceBias):
        ...     def distance_bias(self, relative_position):
        ...         return -relative_position.abs()[None]  # one head
        >>> q = torch.zeros(1, 1, 3, 2)
        >>> scores(q, q, Nearer())
        tensor([[[[ 0., -1., -2.],
                  [-1.,  0., -1.],
                  [-2., -1.,  0.]]]])
    """

    places = ("score",)
    relative = by_distance = True

    def distance_bias(self, relative_position: Tensor) -> Tensor:
        """(H, R) for the relative positions (R,)."""
        raise NotImplementedError(f"{type(self).__name__} must define distance_bias")

    def per_pair(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """The bias of every pair, (H, Lq, Lk) or (B, H, Lq, Lk)."""
        relative, index = distinct(relative_position(query_positions, key_positions))
        return relative_gather(self.distance_bias(relative)[:, None], index)

    def score_bias(self, q: Tensor, k: Tensor, pair: Tensor) -> Tensor:
        """Hook 3: what ``per_pair`` says."""
        return pair
