"""Inside one layer of a tiny transformer: what enters it, its scores and weights; and cures that train nothing."""

import copy
from typing import Any, cast

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.attention import scores, weights
from posenc_lib.lab.model import TinyTransformer
from posenc_lib.relative import relative_position
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


def slowed(model: TinyTransformer, tokens: float, factor: float) -> TinyTransformer:
    """A copy of the model whose slow pairs turn more slowly, or not at all; nothing is trained again.

    Args:
        model: is not changed.
        tokens: pairs that turn less than once in so many tokens are slow.
        factor: how many times as slowly they turn in the copy, at least 1; infinity stops them.
    Raises:
        ValueError: a number of tokens that is not positive; a factor less than 1.
    Example:
        >>> from posenc_lib import Rotary
        >>> from posenc_lib.lab import TinyTransformer
        >>> slowed(TinyTransformer(Rotary(8), vocabulary=3, dim=32), tokens=100, factor=2.0).schemes[0].inv_freq
        tensor([1.0000e+00, 1.0000e-01, 5.0000e-03, 5.0000e-04], dtype=torch.float64)
    """
    slowest = 2 * torch.pi / validate.real("tokens", tokens, above=0)
    if not factor >= 1:
        raise ValueError(f"factor must be at least 1, got {factor}")
    other = copy.deepcopy(model)
    for scheme in {id(one): one for one in other.schemes}.values():  # layers may share one
        if isinstance(theta := getattr(scheme, "inv_freq", None), Tensor):
            scheme.inv_freq = theta.where(theta >= slowest, theta / factor)
    return other


def narrowed(model: TinyTransformer, window: int) -> TinyTransformer:
    """A copy of the model all of whose layers see so many keys at most; nothing is trained again.

    Args:
        model: is not changed.
        window: its own key and those before it.
    Raises:
        ValueError: a window that is not positive.
    Example:
        >>> from posenc_lib import NoPosition
        >>> from posenc_lib.lab import TinyTransformer
        >>> narrowed(TinyTransformer(NoPosition(), vocabulary=3, windows=[8, None]), window=28).windows
        [8, 28]
    """
    validate.integer("window", window, at_least=1)
    other = copy.deepcopy(model)
    seen = cast(list[int | None], other.windows)
    seen[:] = [window if one is None else min(one, window) for one in model.windows]
    return other


def _layer_of(model: TinyTransformer, layer: int) -> Any:
    validate.integer("layer", layer, at_least=0)
    if layer >= len(model.blocks):
        raise ValueError(f"layer must be less than the {len(model.blocks)} of the model, got {layer}")
    return model.blocks[layer]
