"""Tasks whose answer is known and needs position. Each draws a batch (tokens, targets), both (B, L) int64.

A target of ``IGNORE`` is not scored. All draws are made on the CPU from the given generator, so that every device sees
the same data.
"""

import math

import torch
from torch import Generator, Tensor

from posenc_lib import validate

IGNORE = -100  # what torch.nn.functional.cross_entropy leaves out


def _tokens(batch: int, length: int, vocabulary: int, generator: Generator) -> Tensor:
    for name, value in (("batch", batch), ("length", length), ("vocabulary", vocabulary)):
        validate.integer(name, value, at_least=1)
    return torch.randint(vocabulary, (batch, length), generator=generator)


def reverse(batch: int, length: int, generator: Generator, vocabulary: int = 16) -> tuple[Tensor, Tensor]:
    """The answer at place i is the token at place L-1-i; for a model that sees both ways.

    Example:
        >>> reverse(1, 4, torch.Generator().manual_seed(0))
        (tensor([[12, 15,  5,  0]]), tensor([[ 0,  5, 15, 12]]))
    """
    tokens = _tokens(batch, length, vocabulary, generator)
    return tokens, tokens.flip(-1)


def copy_back(
    batch: int, length: int, generator: Generator, vocabulary: int = 16, back: int = 5
) -> tuple[Tensor, Tensor]:
    """The answer at place i is the token ``back`` places earlier; the first ``back`` places are not scored.

    Example:
        >>> copy_back(1, 5, torch.Generator().manual_seed(0), back=2)
        (tensor([[12, 15,  5,  0,  3]]), tensor([[-100, -100,   12,   15,    5]]))
    """
    validate.integer("back", back, at_least=0)
    tokens = _tokens(batch, length, vocabulary, generator)
    targets = torch.full_like(tokens, IGNORE)
    targets[:, back:] = tokens[:, : max(length - back, 0)]
    return tokens, targets


def induction(
    batch: int, length: int, generator: Generator, vocabulary: int = 64, distinct: bool = False
) -> tuple[Tensor, Tensor]:
    """A random block is said again and again; the answer is the next token, scored from the second token of the repeat.

    The period is drawn for every text, from a quarter to half of the length, so that the answer stands no fixed number
    of places back: the model must find the last place with the present token and say what followed. With ``distinct``
    no token occurs twice in a block, so that there is one such place in it.

    Raises:
        ValueError: a vocabulary too small for distinct tokens, half of the length.
    Example:
        >>> induction(1, 8, torch.Generator().manual_seed(0))
        (tensor([[44, 47, 53, 44, 47, 53, 44, 47]]), tensor([[-100, -100, -100,   47,   53,   44,   47,   53]]))
    """
    blocks = _tokens(batch, length, vocabulary, generator)
    if distinct:
        validate.integer("vocabulary", vocabulary, at_least=max(length // 2, 1))
        blocks = torch.rand(batch, vocabulary, generator=generator).argsort(-1)
    period = torch.randint(max(length // 4, 1), max(length // 2, 1) + 1, (batch, 1), generator=generator)
    places = torch.arange(length + 1)
    text = blocks.gather(1, places % period)
    targets = text[:, 1:].masked_fill(places[:-1] < period, IGNORE)
    return text[:, :-1].contiguous(), targets


def associative_recall(batch: int, length: int, generator: Generator, vocabulary: int = 32) -> tuple[Tensor, Tensor]:
    """Keys, each followed by its value; the answer at a key that came before is its value.

    Keys are the tokens of the lower half of the vocabulary, values those of the upper half; which value belongs to a
    key is drawn anew for every text.

    Example:
        >>> associative_recall(1, 8, torch.Generator().manual_seed(0), vocabulary=4)
        (tensor([[1, 3, 0, 2, 1, 3, 1, 3]]), tensor([[-100, -100, -100, -100,    3, -100,    3, -100]]))
    """
    half = validate.integer("vocabulary", vocabulary, at_least=2) // 2
    value_of = half + _tokens(batch, half, half, generator)
    keys = _tokens(batch, length, half, generator)[:, : (length + 1) // 2]
    pairs = torch.stack([keys, value_of.gather(1, keys)], dim=-1).flatten(1)
    tokens, answers = pairs[:, :length], pairs[:, 1:]
    earlier = (keys[:, :, None] == keys[:, None, :]).tril(-1).any(-1)
    targets = torch.full_like(tokens, IGNORE)
    targets[:, ::2] = answers[:, ::2].masked_fill(~earlier, IGNORE)
    return tokens, targets


def name_position(
    batch: int, length: int, generator: Generator, vocabulary: int = 16, bos: bool = True
) -> tuple[Tensor, Tensor]:
    """The answer at place i is i. With ``bos`` the first token is ``vocabulary``, a token found nowhere else.

    Example:
        >>> name_position(1, 4, torch.Generator().manual_seed(0))
        (tensor([[16, 15,  5,  0]]), tensor([[0, 1, 2, 3]]))
    """
    tokens = _tokens(batch, length, vocabulary, generator)
    if bos:
        tokens[:, 0] = vocabulary
    return tokens, torch.arange(length).expand(batch, -1).clone()


def flip_flop(
    batch: int, length: int, generator: Generator, values: int = 8, writes: int = 4, reads: int = 4
) -> tuple[Tensor, Tensor]:
    """Orders, each followed by a value; the answer at an order to read is the value of the last order to write.

    Tokens below ``values`` are values, ``values`` means write, ``values + 1`` read, ``values + 2`` ignore. The first
    order is to write; of the others about ``writes`` are and about ``reads`` are to read, however long the text is, so
    that in a longer one the last write is farther away and has more to ignore behind it. What follows an order to read
    is the value that is asked for.

    Source: Liu et al. 2023 (arXiv:2306.00946), with more values than two.
    Example:
        >>> flip_flop(1, 6, torch.Generator().manual_seed(1), values=2, writes=1, reads=1)
        (tensor([[2, 1, 4, 1, 3, 1]]), tensor([[-100, -100, -100, -100,    1, -100]]))
    """
    for name, value in (("writes", writes), ("reads", reads)):
        validate.integer(name, value, at_least=1)
    said = _tokens(batch, length, values, generator)[:, : (length + 1) // 2]
    orders = torch.rand(said.shape, generator=generator) * max(said.shape[1], writes + reads)
    write, read = orders < writes, (orders >= writes) & (orders < writes + reads)
    write[:, 0], read[:, 0] = True, False
    places = torch.arange(said.shape[1])
    last_write = torch.where(write, places, 0).cummax(-1).values
    said = torch.where(read, said.gather(1, last_write), said)
    order = torch.where(write, values, torch.where(read, values + 1, values + 2))
    tokens = torch.stack([order, said], dim=-1).flatten(1)[:, :length]
    targets = torch.full_like(tokens, IGNORE)
    targets[:, ::2] = said.masked_fill(~read, IGNORE)
    return tokens, targets


def passkey(
    batch: int, length: int, generator: Generator, vocabulary: int = 32, size: int = 4
) -> tuple[Tensor, Tensor]:
    """A key of ``size`` tokens hidden among others; at the end its first token comes again, and the rest is asked for.

    Tokens of the upper half of the vocabulary are those of keys, each at most once in one key; all others are of the
    lower half. The key stands at a place drawn anew for every text, and the last ``size - 1`` places are the key once
    more without its last token; the answer at each is the token that follows it in the key.

    Raises:
        ValueError: a text too short for the key and the question, a key longer than half of the vocabulary.
    Example:
        >>> passkey(1, 8, torch.Generator().manual_seed(0), vocabulary=8, size=3)
        (tensor([[6, 7, 4, 0, 3, 3, 6, 7]]), tensor([[-100, -100, -100, -100, -100, -100,    7,    4]]))
    """
    half = validate.integer("vocabulary", vocabulary, at_least=4) // 2
    validate.integer("size", size, at_least=2)
    if size > half:
        raise ValueError(f"size must be at most half of vocabulary = {vocabulary}, got {size}")
    tokens = _tokens(batch, length, half, generator)
    if length < 2 * size - 1:
        raise ValueError(f"length must be at least 2 size - 1 = {2 * size - 1}, got {length}")
    key = half + torch.rand(batch, half, generator=generator).argsort(-1)[:, :size]
    start = torch.randint(length - 2 * size + 2, (batch, 1), generator=generator)
    tokens.scatter_(1, start + torch.arange(size), key)
    tokens[:, length - size + 1 :] = key[:, :-1]
    targets = torch.full_like(tokens, IGNORE)
    targets[:, length - size + 1 :] = key[:, 1:]
    return tokens, targets


def diagonal_neighbour(batch: int, length: int, generator: Generator, vocabulary: int = 8) -> tuple[Tensor, Tensor]:
    """Tokens on a square, read row by row; the answer is the token one row up and one column to the left.

    ``length`` is the number of all tokens, the square of the number of rows. The first row and the first column are
    not scored.

    Raises:
        ValueError: a length that is no square.
    Example:
        >>> diagonal_neighbour(1, 4, torch.Generator().manual_seed(0))
        (tensor([[4, 7, 5, 0]]), tensor([[-100, -100, -100,    4]]))
    """
    tokens = _tokens(batch, length, vocabulary, generator)
    side = math.isqrt(length)
    if side**2 != length:
        raise ValueError(f"length must be the square of a number of rows, got {length}")
    targets = torch.full((batch, side, side), IGNORE)
    targets[:, 1:, 1:] = tokens.view(batch, side, side)[:, :-1, :-1]
    return tokens, targets.flatten(1)
