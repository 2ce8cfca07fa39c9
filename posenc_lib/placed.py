"""A scheme at the positions of one forward: what they alone decide, computed once and shared by all layers."""

from __future__ import annotations

from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from posenc_lib import validate

if TYPE_CHECKING:
    from posenc_lib.scheme import PositionScheme


def fitting(hook: str, bias: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Refuse a bias that would stretch what it is added to, such as one for four heads added to a single head."""
    if bias.dim() > len(shape) or any(n not in (1, m) for n, m in zip(bias.shape[::-1], shape[::-1], strict=False)):
        raise ValueError(f"{hook} must fit {tuple(shape)}, got {tuple(bias.shape)}: has the scheme as many heads as q?")
    return bias


class Placed:
    """What :meth:`posenc_lib.scheme.PositionScheme.at` returns; see there for the arguments.

    Nothing is computed before it is asked for, and nothing twice. Tables are in float32, or in float64 if ``like`` is.

    Attributes:
        scheme: whose positions these are.
        query_positions, key_positions: (L,), or (B, 1, L) for a batch; a last axis of coordinates on a grid.
    Example:
        >>> from posenc_lib import Rotary
        >>> here = Rotary(4).at(3)
        >>> here.query_positions
        tensor([0, 1, 2])
        >>> cos, sin = here.query_tokens
        >>> cos.shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        scheme: PositionScheme,
        query_positions: Tensor | int,
        key_positions: Tensor | int | None,
        like: Tensor | None,
    ):
        self.scheme = scheme
        self.dtype = torch.float32 if like is None else torch.promote_types(like.dtype, torch.float32)
        self.device = torch.device("cpu") if like is None else like.device
        if key_positions is None:
            key_positions = query_positions
        keys = self._positions("key_positions", key_positions)
        if isinstance(query_positions, int):
            queries = self._last(query_positions, keys)
        elif query_positions is key_positions:
            queries = keys
        else:
            queries = self._positions("query_positions", query_positions)
        self.query_positions, self.key_positions = queries, keys
        self._counted = isinstance(query_positions, int) and isinstance(key_positions, int)

    def _positions(self, name: str, value: Tensor | int) -> Tensor:
        """Positions as the scheme's methods get them."""
        axes = self.scheme.num_axes
        if isinstance(value, int):
            value = torch.arange(validate.integer(name, value, at_least=0))
        if axes is None:
            value = validate.integers(name, value).to(self.device, torch.int64)
            allowed = "(L,) or (B, L)"
        else:
            value = validate.coordinates(name, value).to(self.device)
            value = value[:, None].expand(-1, axes) if value.dim() == 1 else value
            allowed = f"(L,), (L, {axes}) or (B, L, {axes})"
        dims = value.dim() - (axes is not None)
        if dims not in (1, 2) or axes not in (None, value.shape[-1]):
            raise ValueError(f"{name} must have shape {allowed}, got {tuple(value.shape)}")
        return value.unsqueeze(1) if dims == 2 else value

    def _last(self, n: int, keys: Tensor) -> Tensor:
        """Positions of the last n keys."""
        axis, n_keys = self._axis, keys.shape[self._axis]
        if validate.integer("query_positions", n, at_least=0) > n_keys:
            raise ValueError(
                f"query_positions must be given when there are more queries than keys, got {n} and {n_keys}"
            )
        return keys if n == n_keys else keys.narrow(axis, n_keys - n, n)

    @property
    def _axis(self) -> int:
        """The axis of positions that counts tokens."""
        return -1 if self.scheme.num_axes is None else -2

    @property
    def n_queries(self) -> int:
        """Lq."""
        return self.query_positions.shape[self._axis]

    @property
    def n_keys(self) -> int:
        """Lk."""
        return self.key_positions.shape[self._axis]

    @cached_property
    def query_tokens(self) -> Any:
        """What ``per_token`` says about the queries."""
        return self._cast(self.scheme.per_token(self.query_positions))

    @cached_property
    def key_tokens(self) -> Any:
        """What ``per_token`` says about the keys."""
        if self.query_positions is self.key_positions:
            return self.query_tokens
        return self._cast(self.scheme.per_token(self.key_positions))

    @cached_property
    def pairs(self) -> Any:
        """What ``per_pair`` says about queries and keys."""
        return self._cast(self.scheme.per_pair(self.query_positions, self.key_positions))

    @cached_property
    def offset(self) -> int | None:
        """How far the first query stands after the first key, if both are without gaps and the same for every text."""
        i, j = self.query_positions, self.key_positions
        if not i.numel() or not j.numel():
            return None
        if self._counted or self.scheme.num_axes is not None:
            return self.n_keys - self.n_queries
        if i.dim() > 1 or j.dim() > 1:
            return None
        gapless = (i.diff() == 1).all() & (j.diff() == 1).all()
        return int(i[0] - j[0]) if gapless else None

    @cached_property
    def distances(self) -> Tensor:
        """All relative positions of queries and keys without gaps, ascending, (Lq + Lk - 1,)."""
        assert self.offset is not None
        first = 1 - self.n_queries - self.offset
        return torch.arange(first, self.n_keys - self.offset, device=self.device)

    @cached_property
    def distance_bias(self) -> Tensor:
        """(H, R): the bias of a scheme that is declared ``by_distance``, one number per distance."""
        scheme: Any = self.scheme  # has the method, as it declares
        return self._cast(scheme.distance_bias(self.distances))

    @cached_property
    def not_after(self) -> Tensor:
        """(Lq, Lk) or (B, 1, Lq, Lk) bool: which keys are not after the query; on a grid, in the order of the text."""
        if self.scheme.num_axes is None:
            return self.key_positions[..., None, :] <= self.query_positions[..., :, None]
        every = torch.ones(self.n_queries, self.n_keys, dtype=torch.bool, device=self.device)
        return every.tril(self.n_keys - self.n_queries)

    def visible(self, causal: bool, masks: list[Tensor]) -> Tensor | None:
        """Which keys a query may see, broadcastable to (B, H, Lq, Lk), or None for all."""
        conditions = [self.not_after, *masks] if causal else masks
        return reduce(torch.logical_and, conditions) if conditions else None

    def transform(self, q: Tensor, k: Tensor, x: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Hook 2: queries (B, H, Lq, d) and keys (B, H, Lk, d) with their positions applied; x as in ``score_bias``."""
        if "query and key" not in self.scheme.places:
            return q, k
        query_tokens, key_tokens = self.scheme.read_tokens(x, self.query_tokens, self.key_tokens)
        return self.scheme.transform_query(q, query_tokens), self.scheme.transform_key(k, key_tokens)

    def score_bias(self, q: Tensor, k: Tensor, x: Tensor | None) -> Tensor | None:
        """Hook 3 for transformed q and k, in their dtype, or None; x (B, Lk, D) for a scheme that reads the text."""
        if "score" not in self.scheme.places:
            return None
        bias = self.scheme.score_bias(q, k, self.scheme.read(x, self.pairs))
        return None if bias is None else fitting("score_bias", bias, (*q.shape[:3], k.shape[2])).to(q.dtype)

    def value_bias(self, weights: Tensor, head_dim: int) -> Tensor | None:
        """Hook 4 for weights (B, H, Lq, Lk), in their dtype, or None."""
        if "value" not in self.scheme.places:
            return None
        bias = self.scheme.value_bias(weights, self.pairs)
        return None if bias is None else fitting("value_bias", bias, (*weights.shape[:3], head_dim)).to(weights.dtype)

    def _cast(self, value: Any) -> Any:
        """The same with every floating-point tensor in the precision of the tables."""
        if isinstance(value, tuple):
            return tuple(self._cast(item) for item in value)
        return value.to(self.dtype) if isinstance(value, Tensor) and value.is_floating_point() else value
