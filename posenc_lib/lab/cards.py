"""Texts with one card: two tasks, one of order and one of content, and what the last question of a text finds.

Tokens are 33: the digits 0 to 15, the cards 16 to 31, and the question. A model answers one of 16 things.
"""

import math
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from posenc_lib import validate
from posenc_lib.lab.inside import narrowed, seen_scores, slowed, tempered
from posenc_lib.lab.model import TinyTransformer
from posenc_lib.lab.tasks import IGNORE

TRAINED = 32  # tokens of a text in training
KINDS = 16  # of cards, and of digits
ASK = 2 * KINDS  # the question
SIZE = {"vocabulary": ASK + 1, "classes": KINDS, "dim": 32, "num_heads": 2}  # of a model
FIT = {"steps": 350, "batch": 16, "learning_rate": 1e-2, "stop_below": 0.005}  # its training
TEXTS = 16  # that are watched, one with each card


def copy_and_card(batch: int, length: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Digits with one card in the first quarter and questions after it; tokens and answers, both (B, L) int64.

    The answer at a question is the card, elsewhere the digit three places back.

    Raises:
        ValueError: a batch that is not positive, fewer than 8 tokens.
    Example:
        >>> text, answer = copy_and_card(1, 12, torch.Generator().manual_seed(0))
        >>> text
        tensor([[20, 15,  5,  0,  3, 11, 32,  7,  9,  3,  5,  2]])
        >>> answer
        tensor([[-100, -100, -100, -100,   15,    5,    4,    3,   11, -100,    7,    9]])
    """
    validate.integer("batch", batch, at_least=1)
    validate.integer("length", length, at_least=8)
    text = torch.randint(KINDS, (batch, length), generator=generator)
    card = torch.randint(KINDS, (batch,), generator=generator)
    where = torch.randint(length // 4, (batch,), generator=generator)
    return _asked(text, card, where, length // 4 + 3)


def _asked(text: Tensor, card: Tensor, where: Tensor, first: int) -> tuple[Tensor, Tensor]:
    """Digits (B, L), into which a card is put for each text and questions from a place on; and the answers."""
    answer = torch.full_like(text, IGNORE)
    answer[:, 3:] = text[:, :-3]
    asked = torch.arange(first, text.shape[1], 8)
    text[:, asked] = ASK
    text[torch.arange(len(text)), where] = KINDS + card
    answer[text.roll(3, 1) >= KINDS] = IGNORE  # only digits are copied
    answer[:, asked] = card[:, None]
    return text, answer


def card_only(batch: int, length: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """The texts of :func:`copy_and_card`, of whose answers only those to questions count.

    Example:
        >>> card_only(1, 12, torch.Generator().manual_seed(0))[1]
        tensor([[-100, -100, -100, -100, -100, -100,    4, -100, -100, -100, -100, -100]])
    """
    text, answer = copy_and_card(batch, length, generator)
    return text, answer.where(text == ASK, IGNORE)


def unseen(count: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Texts that no training saw, with cards of all kinds by turns.

    Returns:
        text and answer (count, L) int64; where the card is (count, L) bool.
    Example:
        >>> text, answer, card = unseen(3, 12)
        >>> text[card]
        tensor([16, 17, 18])
    """
    text, answer = copy_and_card(count, length, torch.Generator().manual_seed(7))
    card, kinds = (text >= KINDS) & (text < ASK), torch.arange(count) % KINDS
    text[card] = KINDS + kinds
    return text, answer.where(text != ASK, kinds[:, None]), card


def growing(length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sixteen texts, one with each card, among the first eight tokens; a longer one begins with the shorter.

    Returns:
        as :func:`unseen`.
    Raises:
        ValueError: fewer than 32 tokens.
    Example:
        >>> short, long = growing(32), growing(64)
        >>> torch.equal(short[0], long[0][:, :32])
        True
    """
    validate.integer("length", length, at_least=TRAINED)
    generator = torch.Generator().manual_seed(7)
    where = torch.randint(TRAINED // 4, (TEXTS,), generator=generator)
    digits = torch.randint(KINDS, (length, TEXTS), generator=generator).T.contiguous()
    text, answer = _asked(digits, torch.arange(TEXTS), where, TRAINED // 4 + 3)
    return text, answer, (text >= KINDS) & (text < ASK)


@torch.no_grad()
def _said(model: TinyTransformer, text: Tensor) -> Tensor:
    """What a model answers at each place of texts (B, L), a few of them at a time; (B, L) int64 on the CPU."""
    device = next(model.parameters()).device
    parts = text.split(max(1, 1024 // text.shape[1]))
    return torch.cat([model(part.to(device)).argmax(-1).cpu() for part in parts])


class _Shares(NamedTuple):
    """The shares of right answers, from 0 to 1.

    card: at the last question of each text.
    copy: of the digits three places back.
    """

    card: float
    copy: float


def answered(model: TinyTransformer, length: int, last: int | None = None) -> _Shares:
    """How often a model is right in texts of so many tokens, 32 of them or more: ``card``, ``copy``, shares of answers.

    Args:
        last: copies count among so many tokens at the end of a text only; all of them by default.
    Raises:
        ValueError: ``last`` is not positive.
    Example:
        >>> from posenc_lib import NoPosition
        >>> from posenc_lib.lab import TinyTransformer, cards
        >>> answered(TinyTransformer(NoPosition(), **cards.SIZE), 32).card < 0.5
        True
    """
    if last is not None:
        validate.integer("last", last, at_least=1)
    text, answer, _ = unseen(_count(length), length)
    right, asked = _said(model, text) == answer, text == ASK
    copied = (answer != IGNORE) & ~asked & (torch.arange(length) >= length - (last or length))
    return _Shares(right[:, _last(text)].double().mean().item(), right[copied].double().mean().item())


def _count(length: int) -> int:
    """How many texts are read: the fewer the longer."""
    return max(2 * TEXTS, 4096 // length)


def lead(s: Tensor, right: Tensor) -> Tensor:
    """How far the score of the right key lies above those of all others that are seen.

    Several right keys count as one of the score ln of their sum of e^s, the others each as one of the score ln of their
    mean of e^s. So the weight of the right ones is e^m / (e^m + N).

    Args:
        s: (..., n) scores, -inf where a key is not seen.
        right: (..., n) bool, of the same shape or one that is broadcast to it.
    Returns:
        m, (...).
    Example:
        >>> s = torch.tensor([3.0, 1.0, 1.0])
        >>> lead(s, torch.tensor([True, False, False]))
        tensor(2.)
    """
    others = s.masked_fill(right, -torch.inf)
    n = others.isfinite().sum(-1).to(s)
    return s.masked_fill(~right, -torch.inf).logsumexp(-1) - (others.logsumexp(-1) - n.log())


class _Found(NamedTuple):
    """What one query of each of 16 texts finds, of each in one head.

    s: (16, L) scores, -inf where a key is not seen.
    crowd: (16,) ln of the mean e^s of the keys that carry nothing.
    carries: (16, L) bool, keys that carry what is looked for: the card, and behind a window those that saw it; or the
        token three places back.
    m: (16,) leads, -inf where the query sees nothing that carries it.
    right: (16,) bool, whether the answer is.
    says: (16,) the answers; wanted: (16,) the right ones.
    ln_n: ln N, N the keys that carry nothing.
    """

    s: Tensor
    crowd: Tensor
    carries: Tensor
    m: Tensor
    right: Tensor
    says: Tensor
    wanted: Tensor
    ln_n: float


SLOW = 30  # tokens: pairs that turn less than once in so many are slow
CURES = "none", "queries times T", "slow pairs stopped", "slow pairs interpolated", "32 keys seen"  # of a trained model


def cured(model: TinyTransformer, cure: str, m: float, length: int) -> TinyTransformer:
    """A copy of a trained model with one of ``CURES``, the model itself with "none"; nothing is trained again.

    Args:
        model: is not changed.
        cure: T grows from 32 tokens on, and keeps the weight of a lead m over equal scores; pairs with less than one
            turn in 30 tokens are stopped, or interpolated, that is turn more slowly by what the text is longer than 32
            tokens; with the last no layer sees more than 32 keys.
        m: a lead, not 0.
        length: tokens of the text.
    Raises:
        ValueError: another cure.
    Example:
        >>> from posenc_lib import NoPosition
        >>> from posenc_lib.lab import TinyTransformer, cards
        >>> cured(TinyTransformer(NoPosition(), **cards.SIZE), "32 keys seen", m=6.0, length=64).windows
        [32, 32]
    """
    validate.choice("cure", cure, CURES)
    if cure == "queries times T":
        return tempered(model, TRAINED, 1 / m)
    if cure == "slow pairs stopped":
        return slowed(model, SLOW, math.inf)
    if cure == "slow pairs interpolated":
        return slowed(model, SLOW, max(length / TRAINED, 1.0))
    return narrowed(model, TRAINED) if cure == "32 keys seen" else model


WATCHED = "card", "copy"  # the last question of a text; its last token, whose answer stands three places back


@torch.no_grad()
def weight_on(task: str, model: TinyTransformer, layer: int) -> float:
    """The mean weight that the best head of a layer puts on the right key, in texts as long as those of the training.

    For the card, what the last question of a text puts on it, or behind a window on the tokens that saw it; for the
    copy, what is put on the token three places back, wherever it must be copied.

    Raises:
        ValueError: another task; a layer that the model does not have.
    Example:
        >>> from posenc_lib import NoPosition
        >>> from posenc_lib.lab import TinyTransformer, cards
        >>> weight_on("copy", TinyTransformer(NoPosition(), **cards.SIZE), layer=0) < 0.5
        True
    """
    validate.choice("task", task, WATCHED)
    text, answer, card = unseen(64, TRAINED)
    places = torch.arange(TRAINED)
    if task == "card":
        asked = text == ASK
        asked &= places == _last(text)
        carries = (_carriers(card, model) if layer else card)[:, None].expand(-1, TRAINED, -1)
    else:
        asked = (answer != IGNORE) & (text != ASK)
        carries = (places == places[:, None] - 3).expand(len(text), -1, -1)
    device = next(model.parameters()).device
    w = seen_scores(model, layer, text.to(device), places.to(device)).softmax(-1).cpu()
    on = (w * carries[:, None]).sum(-1)  # (texts, heads, places)
    return (on * asked[:, None]).sum((0, 2)).max().item() / asked.sum().item()


class Watched:
    """A trained model of two layers, and the head that finds what is looked for: the one whose lead is greatest.

    For the card each text has its own head, in a layer without a window; for the copy all texts have one, in any layer.
    It is chosen in texts of the length of the training and kept in longer ones, which begin as the short ones do.

    Args:
        model: for the card, one with at least one layer without a window.
        task: one of ``WATCHED``.
    Attributes:
        layers: (16,) for each text the layer of its head.
        m: the mean lead in the length of the training.
    Raises:
        ValueError: another task; for the card, a model all of whose layers have a window.
    Example:
        >>> from posenc_lib import NoPosition
        >>> from posenc_lib.lab import TinyTransformer, cards
        >>> watched = Watched(TinyTransformer(NoPosition(), **cards.SIZE))
        >>> watched.read(64).m.shape
        torch.Size([16])
    """

    def __init__(self, model: TinyTransformer, task: str = "card"):
        if task not in WATCHED:
            raise ValueError(f"task must be one of {WATCHED}, got {task!r}")
        self.model, self.task = model, task
        among = _long(model) if task == "card" else list(range(len(model.windows)))
        self._among = among
        s, carries = self._scores(model, TRAINED)
        leads = lead(s, carries[:, None])  # (texts, heads)
        if task == "copy":
            leads = leads.mean(0).expand_as(leads)
        self._heads = leads.argmax(dim=1)
        self.m = lead(s[torch.arange(TEXTS), self._heads], carries).mean().item()
        self.layers = torch.tensor(among)[self._heads // (s.shape[1] // len(among))]
        self._found: dict[tuple[int, str], _Found] = {}

    def read(self, length: int, cure: str = "none") -> _Found:
        """What the model finds in texts of so many tokens with a cure, see :func:`cured`; T is for its mean lead.

        Of each text ``s``, ``carries`` (16, L); ``crowd``, ``m``, ``right``, ``says``, ``wanted`` (16,).
        """
        if (length, cure) not in self._found:
            model = cured(self.model, cure, self.m, length)
            s, carries = self._scores(model, length)
            s = s[torch.arange(TEXTS), self._heads]
            crowd = s.masked_fill(carries, -torch.inf)
            ln_n = math.log(crowd[0].isfinite().sum().item())
            text, answer, _ = growing(length)
            query = self._query(text)
            says, wanted = _said(model, text)[:, query], answer[:, query]
            mean, m, right = crowd.logsumexp(-1) - ln_n, lead(s, carries), says == wanted
            self._found[length, cure] = _Found(s, mean, carries, m, right, says, wanted, ln_n)
        return self._found[length, cure]

    def typical(self, length: int) -> int:
        """Of the texts that fare as most do in so many tokens that of middle lead in 32, if possible found there."""
        long, short = self.read(length), self.read(TRAINED)
        fare = long.right == (long.right.double().mean() > 0.5)
        found = fare & (short.m > short.ln_n)
        among = (found if found.any() else fare).nonzero()[:, 0]
        return int(among[short.m[among].argsort()[(len(among) - 1) // 2]])

    def _query(self, text: Tensor) -> Tensor:
        """The place of the query, the same in all texts."""
        return _last(text) if self.task == "card" else torch.tensor(text.shape[1] - 1)

    def _scores(self, model: TinyTransformer, length: int) -> tuple[Tensor, Tensor]:
        """Of the query in every head of the layers that are watched, (16, heads, L); which keys carry, (16, L)."""
        text, _, card = growing(length)
        query = self._query(text)
        if self.task == "copy":
            carries = (torch.arange(length) == query - 3).expand(TEXTS, length)
        else:  # behind a window those, too, that saw the card in the first layer
            carries = _carriers(card, self.model)
        device = next(model.parameters()).device
        there, asked = text.to(device), query[None].to(device)
        s = [seen_scores(model, layer, there, asked)[:, :, 0] for layer in self._among]
        return torch.cat(s, dim=1).double().cpu(), carries


def _carriers(card: Tensor, model: TinyTransformer) -> Tensor:
    """The card (B, L) bool, and the tokens that saw it through the window of the first layer."""
    return torch.stack([card.roll(after, 1) for after in range(model.windows[0] or 1)]).any(0)


def _long(model: TinyTransformer) -> list[int]:
    """The layers without a window, at least one of which there must be."""
    if None not in model.windows:
        raise ValueError(f"model must have a layer without a window, got windows {model.windows}")
    return [layer for layer, window in enumerate(model.windows) if window is None]


def _last(text: Tensor) -> Tensor:
    """The place of the last question, the same in all texts."""
    return (text[0] == ASK).nonzero()[-1, 0]
