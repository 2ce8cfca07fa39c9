"""Checks of the exercises in notebook 02."""

import torch
from torch import Tensor

from posenc_lib.exercises.check import Check
from posenc_lib.lab.measure import randn
from posenc_lib.schemes.learned import positions_without_padding


def _accuracy(tested: int, trained: int, vocabulary: float, back: int, scored: int | None = None) -> float:
    inside, beyond = min(tested, trained) - back, max(0, tested - trained)
    return (inside + beyond / vocabulary) / (tested - back if scored is None else scored)


check_expected_accuracy = Check(
    "expected_accuracy",
    _accuracy,
    cases=[(64, 32, 16, 5), (128, 32, 16, 5), (20, 32, 16, 5), (32, 32, 10, 0), (100, 8, 4, 3)],
    mistakes=[
        (
            "you divided by the length of the text; its first places are not scored",
            lambda tested, trained, vocabulary, back: _accuracy(tested, trained, vocabulary, back, scored=tested),
        ),
        (
            "you counted the first places as right; they are not scored",
            lambda tested, trained, vocabulary, back: _accuracy(tested, trained, vocabulary, 0, scored=tested - back),
        ),
        (
            "you gave no credit for guessing: one guess in `vocabulary` is right",
            lambda tested, trained, vocabulary, back: _accuracy(tested, trained, torch.inf, back),
        ),
        (
            "right for texts longer than the training texts; on shorter ones there is nothing beyond",
            lambda tested, trained, vocabulary, back: (
                (trained - back + (tested - trained) / vocabulary) / (tested - back)
            ),
        ),
        (
            "you ignored `back`: the first places are not scored",
            lambda tested, trained, v, back: _accuracy(tested, trained, v, 0),
        ),
    ],
)


def _rows(tokens: Tensor, padding: int) -> Tensor:
    return positions_without_padding(tokens == padding) + 2


check_opt_rows = Check(
    "opt_rows",
    _rows,
    cases=[
        (torch.tensor([[5, 6, 7, 8, 9], [5, 6, 7, 1, 1], [1, 1, 5, 6, 7]]), 1),
        (torch.tensor([[0, 4, 0, 0, 1, 9]]), 0),
        (torch.tensor([[3, 3], [3, 2]]), 3),
        (torch.tensor([[7, 8, 9]]), 1),
    ],
    mistakes=[
        (
            "you counted slots; padding on the left must not move the real tokens",
            lambda tokens, padding: torch.arange(tokens.shape[1]).expand(tokens.shape) + 2,
        ),
        (
            "right for the real tokens; padding has row 1",
            lambda tokens, padding: (tokens != padding).cumsum(-1) + 1,
        ),
        (
            "padding has row 1; you gave it the row of position 0",
            lambda tokens, padding: _rows(tokens, padding).clamp(min=2),
        ),
        (
            "the first real token has row 2; you start at 3, because the running sum starts at 1",
            lambda tokens, padding: torch.where(tokens == padding, 1, _rows(tokens, padding) + 1),
        ),
        (
            "you returned positions; the table has two rows before the first of them",
            lambda tokens, padding: (_rows(tokens, padding) - 2).clamp(min=0),
        ),
        (
            "you returned positions; the table has two rows before the first of them",
            lambda tokens, padding: positions_without_padding(tokens == padding),
        ),
        (
            "padding has row 1; you gave it row 0",
            lambda tokens, padding: _rows(tokens, padding) * (tokens != padding),
        ),
        (
            "you took 1 for padding in every batch; use the argument",
            lambda tokens, padding: _rows(tokens, 1),
        ),
    ],
)


def _stretch(
    table: Tensor, n: int, old_end: int | None = None, new_end: int | None = None, nearest: bool = False
) -> Tensor:
    last = len(table) - 1
    scale = (last if old_end is None else old_end) / (n - 1 if new_end is None else new_end)
    place = torch.arange(n, dtype=torch.float64) * scale
    if nearest:
        place = place.round()
    below = place.floor().long().clamp(max=last)
    above = (below + 1).clamp(max=last)
    f = (place - below)[:, None]
    return (1 - f) * table[below] + f * table[above]


def _exchanged(table: Tensor, n: int) -> Tensor:
    last = len(table) - 1
    place = torch.arange(n, dtype=torch.float64) * last / (n - 1)
    below = place.floor().long()
    f = (place - below)[:, None]
    return f * table[below] + (1 - f) * table[(below + 1).clamp(max=last)]


def _table(rows: int, dim: int) -> Tensor:
    return randn(rows, dim, seed=rows)


check_stretch = Check(
    "stretch",
    _stretch,
    cases=[(_table(4, 3), 7), (_table(5, 2), 5), (_table(6, 2), 3), (_table(3, 4), 8), (_table(32, 2), 64)],
    mistakes=[
        ("you wrapped around: row n is row n modulo L", lambda table, n: table[torch.arange(n) % len(table)]),
        (
            "you repeated the nearest row; what lies between two rows is a mixture",
            lambda table, n: _stretch(table, n, nearest=True),
        ),
        (
            "last does not fall on last: there are n - 1 steps between n rows",
            lambda table, n: _stretch(table, n, old_end=len(table), new_end=n),
        ),
        (
            "last does not fall on last: the old rows have L - 1 steps between them, not L",
            lambda table, n: _stretch(table, n, old_end=len(table)),
        ),
        ("the two weights are exchanged: f belongs to the row above", _exchanged),
    ],
)
