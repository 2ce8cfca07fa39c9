"""Right or wrong by how far back the answer stands: in flip-flop, by the distance from a read to the last write.

A longer text has farther writes, farther older values and more orders to ignore, all at once. Texts that end in a read
take these apart: ignored orders, or a gap in the numbering, are put at one of three places of the same text.
"""

import copy
from collections.abc import Callable, Collection
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.attention import scores
from posenc_lib.lab.inside import entering
from posenc_lib.lab.model import TinyTransformer
from posenc_lib.lab.tasks import IGNORE
from posenc_lib.lab.training import one_thread
from posenc_lib.lab.trial import SEEDS, TASKS
from posenc_lib.scheme import PositionScheme
from posenc_lib.schemes.context_extension import RescaledFrequencies
from posenc_lib.schemes.rope import Rotary

WRITE, READ, IGNORED = 8, 9, 10  # the orders, in the contest's flip-flop
WHERE = ("before everything", "behind the older values", "before the read")  # stands what is added to a text
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


def last_write(tokens: Tensor) -> Tensor:
    """The place of the last order to write before the last token: (B,) for texts (B, L); below 0 if there is none.

    Example:
        >>> last_write(torch.tensor([[8, 3, 10, 1, 9], [10, 3, 8, 5, 9]]))
        tensor([0, 2])
    """
    return tokens.shape[1] - 2 - to_last_write(tokens)[:, -1]


@torch.no_grad()
@one_thread()
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


def ending_in_a_read(texts: int, nearest: int = 9, farthest: int = 15, length: int = 32) -> Tensor:
    """Usual texts of flip-flop, up to their last order: kept are those where it reads a write so far back.

    Before the last write stands one order at least that is not to ignore, so that there are older values.

    Args:
        texts: how many; the same in every call.
        nearest, farthest: distances from the last token to the value of the last write, which are odd.
        length: of the usual texts, even.
    Returns:
        (texts, length - 1), the last token an order to read.
    Raises:
        ValueError: an odd length; distances that no such text has.
    Example:
        >>> ending_in_a_read(1, nearest=7, farthest=7, length=16)
        tensor([[8, 1, 9, 1, 9, 1, 8, 4, 9, 4, 9, 4, 9, 4, 9]])
    """
    validate.integer("texts", texts, at_least=1)
    validate.integer("length", length, at_least=6, even=True)
    validate.integer("nearest", nearest, at_least=1)
    if not nearest + (nearest % 2 == 0) <= validate.integer("farthest", farthest) <= length - 5:
        raise ValueError(f"farthest must leave an odd distance from {nearest} to {length - 5}, got {farthest}")
    generator, found = torch.Generator().manual_seed(SEEDS["test"]), torch.empty(0, length - 1, dtype=torch.int64)
    while len(found) < texts:
        tokens = TASKS["flip-flop"].task(8192, length, generator)[0][:, :-1]
        back, orders = to_last_write(tokens)[:, -1], tokens[:, ::2]
        older = (orders != IGNORED) & (2 * torch.arange(length // 2) < last_write(tokens)[:, None])
        kept = (orders[:, -1] == READ) & (back >= nearest) & (back <= farthest) & older.any(1)
        found = torch.cat([found, tokens[kept]])
    return found[:texts]


def wanted(tokens: Tensor) -> Tensor:
    """The value that the last token, an order to read, asks for: (B,) for texts (B, L).

    Example:
        >>> wanted(torch.tensor([[8, 3, 10, 1, 9]]))
        tensor([3])
    """
    return tokens.gather(1, last_write(tokens)[:, None] + 1)[:, 0]


def with_ignored(tokens: Tensor, orders: int, where: str) -> Tensor:
    """The same texts with more orders to ignore, and random values behind these, at one place.

    Args:
        tokens: (B, L), texts that end in an order to read.
        orders: how many more; the same ones at every place.
        where: one of ``WHERE``; behind the older values means before the last order to write.
    Returns:
        (B, L + 2 orders).
    Raises:
        ValueError: a negative number; another place; a text that does not end in an order to read, or has no write.
    Example:
        >>> with_ignored(torch.tensor([[8, 3, 8, 5, 9]]), 1, "behind the older values")
        tensor([[ 8,  3, 10,  3,  8,  5,  9]])
    """
    validate.integer("orders", orders, at_least=0)
    values = torch.randint(WRITE, (len(tokens), orders), generator=torch.Generator().manual_seed(SEEDS["test"]))
    added = torch.stack([torch.full_like(values, IGNORED), values], -1).flatten(1)
    return torch.cat([tokens, added], 1).gather(1, _sequence(tokens, 2 * orders, where))


def with_gap(tokens: Tensor, places: int, where: str) -> Tensor:
    """Positions (B, L) of the same texts with a gap: all tokens behind it stand so many places later, and none is more.

    Args:
        tokens, where: as in :func:`with_ignored`.
        places: of the gap.
    Raises:
        ValueError: a negative number, and as in :func:`with_ignored`.
    Example:
        >>> with_gap(torch.tensor([[8, 3, 8, 5, 9]]), 20, "behind the older values")
        tensor([[ 0,  1, 22, 23, 24]])
    """
    validate.integer("places", places, at_least=0)
    at = torch.arange(tokens.shape[1])
    return at + places * (at >= _first_behind(tokens, where)[:, None])


def told_to_pairs(model: TinyTransformer, pairs: Collection[int]) -> TinyTransformer:
    """A copy of a model with RoPE, in which positions are told to some pairs only; nothing is trained again.

    The other pairs count the tokens, 0 to L - 1: for them a text with a gap has none.

    Args:
        model: is not changed; of whole texts.
        pairs: the t of their frequencies, from 0.
    Raises:
        ValueError: a pair that is not there; a model with another scheme than RoPE.
    Example:
        >>> from posenc_lib import Rotary
        >>> from posenc_lib.lab import TinyTransformer
        >>> from posenc_lib.lab.distances import with_gap
        >>> model = TinyTransformer(Rotary(16), vocabulary=11)
        >>> tokens = torch.tensor([[8, 3, 8, 5, 9]])
        >>> at = with_gap(tokens, 20, "before the read")
        >>> said = [told_to_pairs(model, pairs)(tokens, at)[0, -1] for pairs in (range(8), (2,), ())]
        >>> torch.equal(said[0], model(tokens, at)[0, -1]), torch.equal(said[2], model(tokens)[0, -1])
        (True, True)
        >>> bool((said[1] - said[0]).abs().max() > 1e-3), bool((said[1] - said[2]).abs().max() > 1e-3)
        (True, True)
    """
    other, told = copy.deepcopy(model), [_ToSomePairs(scheme, pairs) for scheme in model.schemes]
    other.scheme = nn.ModuleList(told)
    return other


class _ToSomePairs(Rotary):
    """RoPE some of whose pairs are told the positions, while the others count the tokens."""

    name = Rotary.name

    def __init__(self, scheme: PositionScheme, pairs: Collection[int]):
        if type(scheme) is not Rotary:
            raise ValueError(f"model must have RoPE in every layer, got {scheme.name}")
        rescaled = RescaledFrequencies(scheme.inv_freq, scheme.attention_factor)
        super().__init__(scheme.head_dim, scheme.base, scheme.layout, scheme.rotary_fraction, rescaled)
        every = range(len(scheme.inv_freq))
        if not set(pairs) <= set(every):
            raise ValueError(f"pairs must be from 0 to {every[-1]}, got {sorted(set(pairs) - set(every))}")
        self.told = torch.tensor([t in pairs for t in every])

    def angles(self, positions: Tensor) -> Tensor:
        counted = super().angles(torch.arange(positions.shape[-1], device=positions.device))
        return torch.where(self.told.to(positions.device), super().angles(positions), counted)


@torch.no_grad()
@one_thread()
def answered(model: TinyTransformer, tokens: Tensor, positions: Tensor | None = None) -> float:
    """The share of texts whose last token, an order to read, is answered right.

    Args:
        tokens: (B, L), texts that end in an order to read.
        positions: (L,) or (B, L), as :func:`with_gap` gives them; 0 to L - 1 if None.
    Example:
        >>> from posenc_lib import Alibi
        >>> from posenc_lib.lab import TinyTransformer
        >>> from posenc_lib.lab.distances import ending_in_a_read
        >>> 0 <= answered(TinyTransformer(Alibi(4), vocabulary=11), ending_in_a_read(128)) < 0.5
        True
    """
    return right_at_last(model(tokens, positions)[:, -1], tokens)


def right_at_last(logits: Tensor, tokens: Tensor) -> float:
    """The share of texts (B, L) for which the logits (B, classes) of their last token are those of what it asks for.

    Example:
        >>> right_at_last(torch.eye(11)[[3, 4]], torch.tensor([[8, 3, 9], [8, 5, 9]]))
        0.5
    """
    return (logits.argmax(-1) == wanted(tokens)).double().mean().item()


@torch.no_grad()
@one_thread()
def layers_apart(model: TinyTransformer, tokens: Tensor, orders: int, first: str, others: str) -> Tensor:
    """What is said at the last token if the first layer and the others meet the ignored orders at different places.

    What the first layer made of every token is carried to the token's place in the other text.

    Args:
        model: a causal one without windows and sinks, whose scheme knows distances only.
        tokens, orders: as in :func:`with_ignored`.
        first, others: of ``WHERE``.
    Returns:
        (B, classes).
    Raises:
        ValueError: as in :func:`with_ignored`; a model with windows or sinks, or with a scheme of places.
    Example:
        >>> from posenc_lib import Alibi
        >>> from posenc_lib.lab import TinyTransformer
        >>> from posenc_lib.lab.distances import WHERE, ending_in_a_read, with_ignored
        >>> model, tokens = TinyTransformer(Alibi(4), vocabulary=11), ending_in_a_read(2)
        >>> here, there = WHERE[:2]
        >>> same = model(with_ignored(tokens, 5, here))[:, -1] - layers_apart(model, tokens, 5, here, here)
        >>> bool(same.abs().max() < 1e-5)
        True
    """
    _knows_distances_only(model)
    made = model.hidden(with_ignored(tokens, orders, first), layers=1)
    here, there = (_sequence(tokens, 2 * orders, where) for where in (first, others))
    moved = here.argsort(1).gather(1, there)  # where each token of the second text stands in the first
    x = made.gather(1, moved[..., None].expand_as(made))
    later: list[Any] = list(model.blocks)[1:]
    for block, scheme in zip(later, model.schemes[1:], strict=True):
        x = block(x, scheme.at(x.shape[1], like=x), None)
    return model.answer(model.norm(x))[:, -1]


@torch.no_grad()
@one_thread()
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
    _knows_distances_only(model)
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


def _knows_distances_only(model: TinyTransformer) -> None:
    if any(window is not None for window in model.windows) or any(block.sinks is not None for block in model.blocks):
        raise ValueError("model must be one without windows and sinks")
    if not all(scheme.relative for scheme in model.schemes):
        raise ValueError("model must have schemes that know distances only")


def _first_behind(tokens: Tensor, where: str) -> Tensor:
    """The place of the first token that stands behind what is added."""
    last, write = tokens.shape[1] - 1, last_write(tokens)
    if last % 2 or not (tokens[:, -1] == READ).all() or not (write >= 0).all():
        raise ValueError(f"tokens must be texts that end in an order to read, {READ}, and write before it")
    places = (torch.zeros_like(write), write, torch.full_like(write, last))
    return places[WHERE.index(validate.choice("where", where, WHERE))]


def _sequence(tokens: Tensor, more: int, where: str) -> Tensor:
    """(B, L + more): which tokens follow one another if so many are added; those are numbered from L on."""
    at = torch.arange(tokens.shape[1]).expand(tokens.shape)
    added = (_first_behind(tokens, where) - 0.5)[:, None].expand(-1, more)
    return torch.cat([at, added], 1).argsort(dim=1, stable=True)
