"""Checks of the exercises in notebook 22."""

import torch
from torch import Tensor

from posenc_lib.exercises.check import Check


def _numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _by_octave(means: Tensor, asked: Tensor) -> Tensor:
    zero = torch.zeros_like(means[:1])
    return torch.diff(means * asked, prepend=zero) / torch.diff(asked, prepend=zero)


def _as_if_all_places_asked(means: Tensor, asked: Tensor) -> Tensor:
    return torch.cat([means[:1], 2 * means[1:] - means[:-1]])


check_by_octave = Check(
    "by_octave",
    _by_octave,
    cases=[
        (_numbers(1.0, 0.9, 0.5, 0.3), _numbers(27, 59, 123, 251)),
        (_numbers(0.75, 0.7, 0.72, 0.1), _numbers(32, 64, 128, 256)),
        (_numbers(0.9, 0.8, 0.4), _numbers(10, 26, 100)),
    ],
    mistakes=[
        ("2 Y(2L) - Y(L) holds if every place asks: use how many are asked", _as_if_all_places_asked),
        ("these are the means over whole texts, still", lambda means, asked: means),
        (
            "divide by the questions that are new, not by all of the text",
            lambda means, asked: _by_octave(means, asked) * torch.diff(asked, prepend=0 * asked[:1]) / asked,
        ),
        (
            "these are how many more are right: divide by how many more are asked",
            lambda means, asked: torch.diff(means * asked, prepend=0 * asked[:1]),
        ),
        ("means of different texts cannot be subtracted: sums can", lambda means, asked: torch.diff(means)),
        ("the first mean is missing: the shortest texts have one, too", lambda m, asked: _by_octave(m, asked)[1:]),
    ],
)


def _cliff(mean: Tensor, asked: Tensor, guess: float) -> Tensor:
    return asked * (mean - guess) / (1 - guess)


check_cliff = Check(
    "cliff",
    _cliff,
    cases=[
        (_numbers(1.0, 0.5, 0.25), _numbers(27, 54, 108), 0.0),
        (_numbers(0.6, 0.3), _numbers(59, 251), 0.0625),
        (_numbers(0.95), _numbers(40), 0.125),
    ],
    mistakes=[
        ("who guesses is right now and then, too: guess is not used", lambda mean, asked, guess: asked * mean),
        ("this is a share of the text: return a number of questions", lambda m, asked, g: (m - g) / (1 - g)),
        ("guesses count beyond the cliff only: divide by 1 - guess", lambda m, asked, g: asked * (m - g)),
    ],
)


def _between(before: float, after: float, asked: Tensor, limits: str = "both") -> Tensor:
    """The least and the greatest mean at the length in the middle; limits: from which neighbours."""
    first, here, last = asked
    rest, more = last - here, here - first
    least, most = (torch.zeros_like(here), here.clone())
    if limits in ("both", "before"):
        least, most = torch.maximum(least, first * before), torch.minimum(most, first * before + more)
    if limits in ("both", "after"):
        least, most = torch.maximum(least, last * after - rest), torch.minimum(most, last * after)
    return torch.stack([least, most]) / here


check_between = Check(
    "between",
    _between,
    cases=[
        (1.0, 0.656, _numbers(123, 187, 251)),
        (0.5, 0.75, _numbers(32, 48, 64)),
        (0.9, 0.5, _numbers(10, 12, 30)),
        (0.3, 0.35, _numbers(10, 25, 30)),
    ],
    mistakes=[
        ("the longer text tells something, too", lambda y, z, asked: _between(y, z, asked, limits="before")),
        ("the shorter text tells something, too", lambda y, z, asked: _between(y, z, asked, limits="after")),
        ("these are right answers: divide by how many are asked", lambda y, z, n: _between(y, z, n) * n[1]),
        ("first the least, then the greatest", lambda y, z, asked: _between(y, z, asked).flip(0)),
        (
            "a curve may rise and fall: the mean need not lie between its neighbours",
            lambda y, z, asked: torch.tensor([min(y, z), max(y, z)], dtype=torch.float64),
        ),
    ],
)
