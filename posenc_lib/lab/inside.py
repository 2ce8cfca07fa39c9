"""Inside one layer of a tiny transformer: what enters it, its scores and weights; and cures that train nothing."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.attention import scores, weights
from posenc_lib.lab.model import TinyTransformer
from posenc_lib.relative import relative_position
from posenc_lib.schemes.rope import Rotary, rotate
from posenc_lib.schemes.temperature import QueryTemperature

PIECE = 128  # tokens


@torch.no_grad()
def entering(model: TinyTransformer, layer: int, tokens: Tensor) -> Tensor:
    """What enters a layer.

    If all layers below have a window, they are run on pieces of the text, each with the tokens before it that they
    reach: of a long text the whole would not fit.

    Args:
        model: a causal one.
        layer: from 0.
        tokens: (B, L).
    Returns:
        (B, L, D).
    Raises:
        ValueError: a layer that the model does not have.
    Example:
        >>> from posenc_lib import NoPosition
        >>> from posenc_lib.lab import TinyTransformer
        >>> model = TinyTransformer(NoPosition(), vocabulary=3, dim=8, windows=[2, None])
        >>> entering(model, layer=1, tokens=torch.zeros(1, 300, dtype=torch.int64)).shape
        torch.Size([1, 300, 8])
    """
    _layer_of(model, layer)
    length = tokens.shape[1]
    below = [window for window in model.windows[:layer] if window is not None]
    piece = PIECE if len(below) == layer else length
    before = sum(below) - len(below)  # each reaches window - 1 tokens back
    made = []
    for start in range(0, length, piece):
        first = max(start - before, 0)
        stop = min(start + piece, length)
        places = torch.arange(first, stop, device=tokens.device)
        made.append(model.hidden(tokens[:, first:stop], places, layers=layer)[:, start - first :])
    return torch.cat(made, dim=1)


@torch.no_grad()
def attention(model: TinyTransformer, layer: int, tokens: Tensor) -> Tensor:
    """The weights of one layer.

    Args:
        model: a causal one.
        layer: from 0.
        tokens: (B, L).
    Returns:
        (B, H, L, L), rows of queries.
    Raises:
        ValueError: a layer that the model does not have, or one with a window or sinks.
    Example:
        >>> from posenc_lib import NoPosition
        >>> from posenc_lib.lab import TinyTransformer
        >>> model = TinyTransformer(NoPosition(), vocabulary=3)
        >>> attention(model, layer=1, tokens=torch.zeros(2, 5, dtype=torch.int64)).shape
        torch.Size([2, 4, 5, 5])
    """
    block = _layer_of(model, layer)
    if model.windows[layer] is not None or block.sinks is not None:
        raise ValueError(f"layer must be one without a window and sinks, got {layer}")
    y = block.norm_1(entering(model, layer, tokens))
    q, k, _ = block.qkv(y).unflatten(-1, (3, block.num_heads, -1)).permute(2, 0, 3, 1, 4)
    return weights(q, k, model.schemes[layer], causal=True, x=y)


@torch.no_grad()
def seen_scores(model: TinyTransformer, layer: int, tokens: Tensor, queries: Tensor) -> Tensor:
    """The scores of some queries of a layer with the keys that they see.

    Args:
        model: a causal one.
        layer: from 0.
        tokens: (B, L).
        queries: (n,) integers, places of the text.
    Returns:
        (B, H, n, L), -inf where a key is not seen.
    Raises:
        ValueError: a layer that the model does not have.
        TypeError: places that are not integers.
    Example:
        >>> from posenc_lib import NoPosition
        >>> from posenc_lib.lab import TinyTransformer
        >>> model = TinyTransformer(NoPosition(), vocabulary=3)
        >>> s = seen_scores(model, 0, torch.zeros(1, 4, dtype=torch.int64), torch.tensor([1]))
        >>> s.isfinite()[0, 0]
        tensor([[ True,  True, False, False]])
    """
    block = _layer_of(model, layer)
    validate.positions("queries", queries)
    y = block.norm_1(entering(model, layer, tokens))
    q, k, _ = block.qkv(y).unflatten(-1, (3, block.num_heads, -1)).permute(2, 0, 3, 1, 4)
    places = torch.arange(tokens.shape[1], device=tokens.device)
    s = scores(q[:, :, queries], k, model.schemes[layer], queries, places)
    r, window = relative_position(queries, places), model.windows[layer]
    seen = (r <= 0) & (r > -(tokens.shape[1] if window is None else window))
    return s.masked_fill(~seen, -torch.inf)


def tempered(model: TinyTransformer, every: int, beta: float) -> TinyTransformer:
    """A copy of the model whose queries are made longer with their position; nothing is trained again.

    Layers with a window stay as they are: their crowd does not grow.

    Args:
        model: is not changed.
        every, beta: see :func:`posenc_lib.schemes.temperature.temperature`.
    Raises:
        ValueError: as :class:`posenc_lib.schemes.temperature.QueryTemperature`.
    Example:
        >>> from posenc_lib import NoPosition
        >>> from posenc_lib.lab import TinyTransformer
        >>> model = TinyTransformer(NoPosition(), vocabulary=3, windows=[8, None])
        >>> [scheme.name for scheme in tempered(model, every=32, beta=0.2).schemes]
        ['none', 'query temperature']
    """
    other = copy.deepcopy(model)
    other.scheme = nn.ModuleList(
        QueryTemperature(every, beta, scheme=inner) if window is None else inner
        for inner, window in zip(other.schemes, other.windows, strict=True)
    )
    return other


class CappedRotary(Rotary):
    """RoPE in which every key beyond a distance comes at the angle of that distance (ReRoPE).

    For a causal model: keys after the query are not changed.

    Args:
        clip: the distance, at least 0.
        others: see :class:`posenc_lib.schemes.rope.Rotary`; pairs are neighbours.
    Raises:
        ValueError: a distance below 0, and as Rotary.
    Source: Su 2023 (kexue.fm/archives/9708), with a window of ``clip`` and no step beyond it.
    Example:
        >>> from posenc_lib import scores
        >>> q = torch.tensor([[[[1.0, 0.0]] * 4]])
        >>> scores(q, q, CappedRotary(2, clip=1))[0, 0, 3] * 2**0.5  # of distances 3, 2, 1, 0
        tensor([0.5403, 0.5403, 0.5403, 1.0000])
    """

    places = ("query and key", "score")  # type: ignore[assignment]  # rotated as ever, then far scores are replaced

    def __init__(
        self,
        head_dim: int,
        base: float = 10_000.0,
        *,
        clip: int,
        rotary_fraction: float = 1.0,
        rope_scaling: Any = None,
    ):
        super().__init__(head_dim, base, rotary_fraction=rotary_fraction, rope_scaling=rope_scaling)
        self.clip = validate.integer("clip", clip, at_least=0)

    def per_pair(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Both positions, as :meth:`score_bias` takes them."""
        return queries, keys

    def score_bias(self, q: Tensor, k: Tensor, pair: tuple[Tensor, Tensor]) -> Tensor:
        """What replaces the scores of far keys by those at the farthest distance, (..., L_q, L_k)."""
        i, j = pair  # q comes rotated by i, k by j: their products are the scores of RoPE
        scale, rotated = self.scale(q.shape[-1]), 2 * len(self.inv_freq)
        q, k = q[..., :rotated], k[..., :rotated]  # the others score alike at every distance
        far_q, far_k = rotate(q, self.clip - i, self.inv_freq), rotate(k, -j, self.inv_freq)
        both_q, both_k = torch.cat([far_q, -q], -1), torch.cat([far_k, k], -1)  # one product: the difference of two
        bias = both_q * scale @ both_k.mT
        return bias.masked_fill_(i[:, None] - j <= self.clip, 0)


def capped(model: TinyTransformer, clip: int) -> TinyTransformer:
    """A copy of the model in which no distance is above this one, where a layer rotates and has no window.

    Args:
        model: is not changed. Where it has :class:`posenc_lib.schemes.rope.Rotary` without a window, pairs are
            neighbours.
        clip: see :class:`CappedRotary`.
    Raises:
        ValueError: a rotation of another layout, and as CappedRotary.
    Example:
        >>> from posenc_lib import Rotary
        >>> from posenc_lib.lab import TinyTransformer
        >>> model = TinyTransformer(Rotary(16), vocabulary=3, windows=[8, None])
        >>> [type(scheme).__name__ for scheme in capped(model, clip=27).schemes]
        ['Rotary', 'CappedRotary']
    """
    other, schemes = copy.deepcopy(model), []
    for layer, (inner, window) in enumerate(zip(model.schemes, model.windows, strict=True)):
        if not isinstance(inner, Rotary) or window is not None:
            schemes.append(other.schemes[layer])
            continue
        if inner.layout != "interleaved":
            raise ValueError(
                "model must rotate pairs of neighbours where it has no window, got layout "
                f"{inner.layout!r} in layer {layer}"
            )
        settings: dict = {"rotary_fraction": inner.rotary_fraction, "rope_scaling": inner.rope_scaling}
        schemes.append(CappedRotary(inner.head_dim, inner.base, clip=clip, **settings))
    other.scheme = nn.ModuleList(schemes)
    return other


def _layer_of(model: TinyTransformer, layer: int) -> Any:
    validate.integer("layer", layer, at_least=0)
    if layer >= len(model.blocks):
        raise ValueError(f"layer must be less than the {len(model.blocks)} of the model, got {layer}")
    return model.blocks[layer]
