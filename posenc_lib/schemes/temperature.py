"""Query temperature: queries far from the start are made longer, so that attention among more keys stays as sharp.

    q_i <- q_i (1 + beta ln(1 + floor((i + first) / every)))

Nakanishi 2025 (arXiv:2501.19399) has the logarithm of the number of keys. The steps of ``every`` tokens are those of
Llama 4, in its layers without RoPE (first = 1), and of Ministral 3, in all layers after the rotation (first = 0).
"""

from typing import Any

import torch
from torch import Tensor

from posenc_lib import validate
from posenc_lib.scheme import PositionScheme
from posenc_lib.schemes.none import NoPosition


def temperature(positions: Tensor, every: int, beta: float = 0.1, first: int = 0) -> Tensor:
    """What the query at each position is multiplied by.

    Args:
        positions: (..., L) integers.
        every: tokens until the next step.
        beta: 0 for no change.
        first: the number of the first position, 0 or 1.
    Returns:
        (..., L) float64.
    Raises:
        ValueError: a number out of its range.
        TypeError: positions that are not integers.
    Source: ``get_llama_4_attn_scale`` of Ministral 3 and ``Llama4TextAttention`` in transformers.
    Example:
        >>> temperature(torch.tensor([0, 8191, 8192, 1_000_000]), every=8192)
        tensor([1.0000, 1.0000, 1.0693, 1.4812], dtype=torch.float64)
    """
    validate.positions("positions", positions)
    steps = (positions + first).div(validate.integer("every", every, at_least=1), rounding_mode="floor")
    return 1 + validate.real("beta", beta) * steps.to(torch.float64).log1p()


class QueryTemperature(PositionScheme):
    """Another scheme whose queries are made longer with their position.

    Args:
        every, beta, first: see :func:`temperature`.
        scheme: the other scheme, in which positions are plain numbers; none if None.
    Raises:
        ValueError: a number out of its range, a scheme of points on a grid.
        TypeError: if ``scheme`` is no scheme.
    Example:
        >>> from posenc_lib import scores
        >>> q = torch.ones(1, 1, 3, 1)
        >>> scores(q, q, QueryTemperature(every=2, beta=1.0))
        tensor([[[[1.0000, 1.0000, 1.0000],
                  [1.0000, 1.0000, 1.0000],
                  [1.6931, 1.6931, 1.6931]]]])
    """

    name = "query temperature"

    def __init__(self, every: int, beta: float = 0.1, first: int = 0, scheme: PositionScheme | None = None):
        super().__init__()
        inner = NoPosition() if scheme is None else scheme
        if not isinstance(inner, PositionScheme):
            raise TypeError(f"scheme must be a PositionScheme or None, got {type(scheme).__name__}")
        if inner.num_axes is not None:
            raise ValueError(f"scheme must count positions with plain numbers, got {inner}")
        self.scheme, self.every, self.beta = inner, every, beta
        self.first = validate.integer("first", first, at_least=0)
        self.places = tuple(dict.fromkeys((*inner.places, "query and key")))  # type: ignore[misc]
        temperature(torch.zeros(1, dtype=torch.int64), every, beta, first)  # refuses what it cannot use

    def per_token(self, positions: Tensor) -> tuple[Any, Tensor]:
        """What the scheme says of the positions, and the factors (..., L, 1)."""
        return self.scheme.per_token(positions), temperature(positions, self.every, self.beta, self.first)[..., None]

    def per_pair(self, query_positions: Tensor, key_positions: Tensor) -> Any:
        """What the scheme says of the pairs."""
        return self.scheme.per_pair(query_positions, key_positions)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Hook 1 of the scheme."""
        return self.scheme.embed(x, positions)

    def transform_query(self, q: Tensor, token: tuple[Any, Tensor]) -> Tensor:
        """Hook 2 of the scheme, then times the factor of each position."""
        return self.scheme.transform_query(q, token[0]) * token[1].to(q)

    def transform_key(self, k: Tensor, token: tuple[Any, Tensor]) -> Tensor:
        """Hook 2 of the scheme."""
        return self.scheme.transform_key(k, token[0])

    def read_tokens(self, x: Tensor | None, query_token: Any, key_token: Any) -> tuple[Any, Any]:
        """What the scheme reads, and the factors."""
        query, key = self.scheme.read_tokens(x, query_token[0], key_token[0])
        return (query, query_token[1]), (key, key_token[1])

    def read(self, x: Tensor | None, pair: Any) -> Any:
        """What the scheme reads."""
        return self.scheme.read(x, pair)

    def score_bias(self, q: Tensor, k: Tensor, pair: Any) -> Tensor | None:
        """Hook 3 of the scheme."""
        return self.scheme.score_bias(q, k, pair)

    def value_bias(self, weights: Tensor, pair: Any) -> Tensor | None:
        """Hook 4 of the scheme."""
        return self.scheme.value_bias(weights, pair)

    def scale(self, head_dim: int) -> float:
        """That of the scheme."""
        return self.scheme.scale(head_dim)
