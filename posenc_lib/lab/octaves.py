"""Means over whole texts against means within octaves: what a longer text adds to a shorter one.

Under a causal mask, and where a longer text begins as a shorter one does, the first half of a text of 2 L tokens is
answered like a text of L. So the mean within the second half follows from two means over whole texts.
"""

import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np
import torch

from posenc_lib import validate
from posenc_lib.lab.places import LENGTHS, STRETCHES
from posenc_lib.lab.report import length_at
from posenc_lib.lab.statistics import Cell
from posenc_lib.lab.tasks import IGNORE
from posenc_lib.lab.trial import SEEDS, TASKS, TIMES

EDGES = (0, *TIMES)  # of the octaves, in training lengths


def questions(task: str, length: int, first: int | None = None) -> float:
    """How many questions stand in the first places of a text, mean over the texts of the contest's test.

    Args:
        task: one of ``TASKS``.
        length: of the texts.
        first: so many places; all of them if None.
    Raises:
        ValueError: an unknown task.
    Example:
        >>> questions("copy back", 32), questions("copy back", 256, 32), questions("induction", 256, 32)
        (27.0, 27.0, 0.0)
    """
    return _questions(validate.choice("task", task, tuple(TASKS)), length, first)


@cache
def _questions(task: str, length: int, first: int | None) -> float:
    contest = TASKS[task]
    batch, generator = max(64, math.ceil(8192 / length)), torch.Generator().manual_seed(SEEDS["test"])
    _, targets = contest.task(batch, length, generator, **contest.options, **contest.in_test)
    return (targets != IGNORE)[:, :first].sum(1).double().mean().item()


def unlike(task: str, length: int, longer: int, first: int, texts: int = 1000) -> float:
    """How differently texts of two lengths begin: the largest gap between two shares, over all of their first places.

    The shares are those of the texts that ask at a place, and of those that ask there for the token of some other place
    among the first. Of texts with one law they differ by chance only, by less than .1 here; texts with unlike laws may
    agree in all of them.

    Args:
        task: one of ``TASKS``.
        length, longer: of the texts.
        first: so many places, at most ``length``.
        texts: how many of each length.
    Raises:
        ValueError: an unknown task, more first places than there are.
    Example:
        >>> unlike("copy back", 32, 256, 32) < 0.1  # begin alike
        True
        >>> unlike("reverse", 12, 96, 12) > 0.8  # ask alike, for other tokens
        True
    """
    validate.choice("task", task, tuple(TASKS))
    if not 1 <= validate.integer("first", first) <= min(length, longer):
        raise ValueError(f"first must be from 1 to the length of the texts, got {first}")
    return _unlike(task, length, longer, first, texts)


@cache
def _unlike(task: str, length: int, longer: int, first: int, texts: int) -> float:
    shares, contest = [], TASKS[task]
    for number, n in enumerate((length, longer)):
        generator = torch.Generator().manual_seed(SEEDS["test"] + number)
        tokens, targets = contest.task(texts, n, generator, **contest.options, **contest.in_test)
        tokens, targets = tokens[:, :first], targets[:, :first]
        same = (tokens[:, None] == targets[:, :, None]).double().mean(0)  # IGNORE is no token
        shares.append(torch.cat([same, (targets != IGNORE).double().mean(0)[:, None]], dim=1))
    return (shares[0] - shares[1]).abs().max().item()


def by_octave(means: Sequence[float], asked: Sequence[float]) -> list[float]:
    """The mean over the shortest texts, and the means over what each longer text has more than the one before.

    Args:
        means: over whole texts, from the shortest texts to the longest.
        asked: the number of questions in a text of each length; they rise.
    Raises:
        ValueError: not as many means as numbers; numbers that do not rise from more than 0.
    Example:
        >>> by_octave([1.0, 0.75], [32, 64])
        [1.0, 0.5]
        >>> by_octave([1.0, 0.5], [10, 40])
        [1.0, 0.3333333333333333]
    """
    if len(means) != len(asked):
        raise ValueError(f"means and asked must be as many, got {len(means)} and {len(asked)}")
    more = np.diff([0.0, *asked])
    if not (more > 0).all():
        raise ValueError(f"asked must rise from more than 0, got {list(asked)}")
    rights = np.diff([0.0, *(mean * n for mean, n in zip(means, asked, strict=True))])
    return [float(right / n) for right, n in zip(rights, more, strict=True)]


def recovered(cell: Cell) -> list[float]:
    """The means of a scheme within the four octaves, from its means over whole texts.

    Args:
        cell: of a scheme that is trained.
    Raises:
        ValueError: a scheme that is not trained; a task whose longer texts ask no more questions.
    Example:
        >>> from posenc_lib.lab.statistics import Cell
        >>> right = {64: 1.0, 128: 0.5, 256: 0.25, 512: 0.125}
        >>> recovered(Cell("Alibi", "next character", (0,) * 5, (True,) * 5, {n: (y,) * 5 for n, y in right.items()}))
        [1.0, 0.0, 0.0, 0.0]
    """
    lengths = [length_at(cell.task, times) for times in TIMES]
    means = [float(cell.at(length).mean()) for length in lengths]
    return by_octave(means, [questions(cell.task, length) for length in lengths])


def within_octaves(seeds: Sequence[Sequence[float | None]]) -> list[float]:
    """The means within the same four octaves of what was measured by place; nan where nothing is asked.

    Args:
        seeds: for each seed the measure in each stretch, see :func:`posenc_lib.lab.places.curves`.
    Raises:
        ValueError: another number of stretches than there are.
    Example:
        >>> within_octaves([[None] * 4 + [1.0] * 4 + [0.5] * 24])
        [nan, 1.0, 0.5, 0.5]
    """
    values = np.array(seeds, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != STRETCHES:
        raise ValueError(f"seeds must have {STRETCHES} stretches each, got {values.shape}")
    each, found = STRETCHES // LENGTHS, []
    for first, last in pairwise(EDGES):
        part = values[:, each * first : each * last]
        known = part[~np.isnan(part)]
        found.append(float(known.mean()) if known.size else math.nan)
    return found
