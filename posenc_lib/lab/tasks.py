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
    """The answer at place i is the token at place L-1-i; for a model that sees both ways."""
    tokens = _tokens(batch, length, vocabulary, generator)
    return tokens, tokens.flip(-1)


def copy_back(
    batch: int, length: int, generator: Generator, vocabulary: int = 16, back: int = 5
) -> tuple[Tensor, Tensor]:
    """The answer at place i is the token ``back`` places earlier; the first ``back`` places are not scored."""
    validate.integer("back", back, at_least=0)
    tokens = _tokens(batch, length, vocabulary, generator)
    targets = torch.full_like(tokens, IGNORE)
    targets[:, back:] = tokens[:, : max(length - back, 0)]
    return tokens, targets


def name_position(
    batch: int, length: int, generator: Generator, vocabulary: int = 16, bos: bool = True
) -> tuple[Tensor, Tensor]:
    """The answer at place i is i. With ``bos`` the first token is ``vocabulary``, a token found nowhere else."""
    tokens = _tokens(batch, length, vocabulary, generator)
    if bos:
        tokens[:, 0] = vocabulary
    return tokens, torch.arange(length).expand(batch, -1).clone()
