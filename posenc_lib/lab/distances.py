"""Right or wrong by how far back the answer stands: in flip-flop, by the distance from a read to the last write."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from posenc_lib import validate
from posenc_lib.attention import scores
from posenc_lib.lab.inside import entering
from posenc_lib.lab.model import TinyTransformer
from posenc_lib.lab.tasks import IGNORE
from posenc_lib.lab.trial import SEEDS, TASKS

WRITE = 8  # the order, in the contest's flip-flop
BINS = (0, 8, 16, 24, 32, 48, 64, 96, 256)  # edges of the distances that are counted together
TOGETHER = 64  # texts that are answered at once


def to_last_write(tokens: Tensor) -> Tensor:
    """How far back the value of the last write stands, for every place.

    Args:
        tokens: (B, L), texts of flip-flop: orders at even places, their values behind them.
    Returns:
        (B, L) integers; where an order to write stands, the distance to its own value, -1.
    Example:
        >>> to_last_write(torch.tensor([[8, 3, 10, 1, 9, 3]]))  # write 3, ignore 1, read
        tensor([[-1,  0,  1,  2,  3,  4]])
    """
    at = torch.arange(tokens.shape[1])
    writes = torch.where((tokens == WRITE) & (at % 2 == 0), at, -1)
    return at - 1 - writes.cummax(1).values


@torch.no_grad()
def by_distance(answer: Callable[[Tensor], Tensor], length: int, texts: int = 256) -> tuple[Tensor, Tensor]:
    """How many questions of flip-flop are answered right, and how many there are, by the distance to the last write.

    Args:
        answer: from tokens (B, L) to logits (B, L, classes), for instance a model.
        length: of the texts.
        texts: how many; the same in every call.
    Returns:
        Two tensors with one number for each pair of neighbours in ``BINS``.
    Raises:
        ValueError: texts longer than the last of the bins.
    Example:
        >>> always = torch.eye(11)[0]  # says 0, of eight values
        >>> right, asked = by_distance(lambda tokens: always.expand(*tokens.shape, 11), 32)
        >>> asked.int()
        tensor([728, 186,  35,   3,   0,   0,   0,   0], dtype=torch.int32)
        >>> 0.1 < right.sum() / asked.sum() < 0.15
        tensor(True)
    """
    if not 1 <= validate.integer("length", length) <= BINS[-1]:
        raise ValueError(f"length must be from 1 to {BINS[-1]}, got {length}")
    generator = torch.Generator().manual_seed(SEEDS["test"])
    tokens, targets = TASKS["flip-flop"].task(texts, length, generator)
    asked = targets != IGNORE
    said = torch.cat([answer(some).argmax(-1) for some in tokens.split(TOGETHER)])
    right = (said == targets)[asked].double()
    back = to_last_write(tokens)[asked]
    inside = torch.stack([(back >= first) & (back < last) for first, last in pairwise(BINS)]).double()
    return inside @ right, inside.sum(1)


@torch.no_grad()
def capped(model: TinyTransformer, tokens: Tensor, most: int) -> Tensor:
    """What a model says if it is told of every farther key that it stands ``most`` places back; nothing is trained.

    No key is hidden: as many compete as before, and none stands at a distance greater than ``most``.

    Args:
        model: a causal one without windows or sinks, whose scheme knows distances only.
        tokens: (B, L).
        most: the greatest distance.
    Returns:
        (B, L, classes).
    Raises:
        ValueError: a negative distance; a model with windows or sinks, or with a scheme of places.
    Example:
        >>> from posenc_lib import Alibi
        >>> from posenc_lib.lab import TinyTransformer
        >>> model = TinyTransformer(Alibi(4), vocabulary=3)
        >>> tokens = torch.randint(3, (1, 40), generator=torch.Generator().manual_seed(0))
        >>> same = (capped(model, tokens, 9) - model(tokens)).abs() < 1e-5
        >>> same[0, :10].all(), same[0, 10:].any()
        (tensor(True), tensor(False))
    """
    validate.integer("most", most, at_least=0)
    if any(window is not None for window in model.windows) or any(block.sinks is not None for block in model.blocks):
        raise ValueError("model must be one without windows and sinks")
    if not all(scheme.relative for scheme in model.schemes):
        raise ValueError("model must have schemes that know distances only")
    at = torch.arange(tokens.shape[1], device=tokens.device)
    back = at[:, None] - at
    x = entering(model, 0, tokens)
    blocks: list[Any] = list(model.blocks)
    for block, scheme in zip(blocks, model.schemes, strict=True):
        q, k, v = block.qkv(block.norm_1(x)).unflatten(-1, (3, block.num_heads, -1)).permute(2, 0, 3, 1, 4)
        far = scores(q, k, scheme, torch.full_like(at, most), torch.zeros_like(at))
        s = torch.where(back > most, far, scores(q, k, scheme, at, at))
        o = s.masked_fill(back < 0, -torch.inf).softmax(-1) @ v
        x = x + block.out(o.transpose(1, 2).flatten(-2))
        x = x + block.mlp(block.norm_2(x))
    return model.answer(model.norm(x))
