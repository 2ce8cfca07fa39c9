"""What happens inside one layer of a tiny transformer: how far the right keys lead the crowd of the others.

    alpha = 1 / (1 + n e^(-m)),  m = ln(sum of e^s over the right keys) - ln(mean of e^s over the n others)

alpha is the weight of the right keys together and m their lead (notebook 18).
"""

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.attention import scores, weights
from posenc_lib.lab.model import TinyTransformer
from posenc_lib.relative import relative_position
from posenc_lib.scheme import PositionScheme
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


class Crowd(NamedTuple):
    """The right keys of some queries and the crowd of the others, as :func:`crowd` measures them, each (B, H, n).

    right: ln of the sum of e^s over the right keys.
    others: ln of the mean of e^s over the other keys.
    weight: of the right keys together.
    """

    right: Tensor
    others: Tensor
    weight: Tensor

    @property
    def lead(self) -> Tensor:
        """By how much the right keys lie above the one score of all others that would make the same denominator."""
        return self.right - self.others


@torch.no_grad()
def crowd(
    model: TinyTransformer,
    layer: int,
    x: Tensor,
    queries: Tensor,
    right: Tensor,
    scheme: PositionScheme | None = None,
) -> Crowd:
    """How far the right keys of a causal layer lead the others, and the weight that they have.

    Args:
        model: a causal one.
        layer: from 0.
        x: (B, L, D) what enters the layer, see :func:`entering`.
        queries: (n,) integers, places of the text.
        right: (B, L) bool, the right keys of each text; each query must see one of them, and another key.
        scheme: in the place of that of the layer.
    Raises:
        ValueError: a layer that the model does not have, shapes that do not fit.
        TypeError: places that are not integers.
    Example:
        >>> from posenc_lib import NoPosition
        >>> from posenc_lib.lab import TinyTransformer
        >>> model = TinyTransformer(NoPosition(), vocabulary=3)
        >>> x = torch.zeros(1, 5, 64)  # all scores are alike: nothing leads
        >>> found = crowd(model, 0, x, torch.tensor([4]), torch.tensor([[True, False, False, False, False]]))
        >>> found.weight[0, 0]
        tensor([0.2000])
    """
    block = _layer_of(model, layer)
    validate.positions("queries", queries)
    if right.shape != x.shape[:2]:
        raise ValueError(f"right must have shape {(*x.shape[:2],)} as x has, got {(*right.shape,)}")
    q, k, _ = block.qkv(block.norm_1(x)).unflatten(-1, (3, block.num_heads, -1)).permute(2, 0, 3, 1, 4)
    places = torch.arange(x.shape[1], device=x.device)
    s = scores(q[:, :, queries], k, model.schemes[layer] if scheme is None else scheme, queries, places)
    r, window = relative_position(queries, places), model.windows[layer]
    seen = (r <= 0) & (r > -(x.shape[1] if window is None else window))
    good, others = seen & right[:, None, None], seen & ~right[:, None, None]  # (B, 1, n, L)
    best, bad = _summed(s, good), _summed(s, others)
    return Crowd(best, bad - others.sum(-1).to(s).log(), (best - bad).sigmoid())


def tempered(model: TinyTransformer, every: int, beta: float) -> TinyTransformer:
    """A copy of the model whose queries are made longer with their position; nothing is trained again.

    Args:
        model: is not changed.
        every, beta: see :func:`posenc_lib.schemes.temperature.temperature`.
    Raises:
        ValueError: as :class:`posenc_lib.schemes.temperature.QueryTemperature`.
    Example:
        >>> from posenc_lib import NoPosition
        >>> from posenc_lib.lab import TinyTransformer
        >>> tempered(TinyTransformer(NoPosition(), vocabulary=3), every=32, beta=0.2).schemes[0].name
        'query temperature'
    """
    other = copy.deepcopy(model)
    other.scheme = nn.ModuleList(QueryTemperature(every, beta, scheme=inner) for inner in other.schemes)
    return other


def _summed(s: Tensor, which: Tensor) -> Tensor:
    """ln of the sum of e^s over some keys."""
    return s.masked_fill(~which, -torch.inf).logsumexp(-1)


def _layer_of(model: TinyTransformer, layer: int) -> Any:
    validate.integer("layer", layer, at_least=0)
    if layer >= len(model.blocks):
        raise ValueError(f"layer must be less than the {len(model.blocks)} of the model, got {layer}")
    return model.blocks[layer]
