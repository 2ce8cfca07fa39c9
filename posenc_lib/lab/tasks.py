"""Tasks whose answer is known and needs position. Each draws a batch (tokens, targets), both (B, L) int64.

A target of ``IGNORE`` is not scored. All draws are made on the CPU from the given generator, so that every device sees
the same data.
"""

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


def induction(batch: int, length: int, generator: Generator, vocabulary: int = 64) -> tuple[Tensor, Tensor]:
    """A random block is said again and again; the answer is the next token, scored from the second token of the repeat.

    The period is drawn for every text, from a quarter to half of the length, so that the answer stands no fixed number
    of places back: the model must find the last place with the present token and say what followed.

    Example:
        >>> induction(1, 8, torch.Generator().manual_seed(0))
        (tensor([[44, 47, 53, 44, 47, 53, 44, 47]]), tensor([[-100, -100, -100,   47,   53,   44,   47,   53]]))
    """
    blocks = _tokens(batch, length, vocabulary, generator)
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
