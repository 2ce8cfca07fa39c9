"""The mean of 1 / rank over tasks, by which Kazemnejad et al. 2023 compare encodings, and what it hangs on.

Such a mean needs rules that no theory gives: what a failure counts, which tasks count, who takes part. Here they are
arguments, so that a ranking can be made by all of them (a multiverse, Steegen et al. 2016).
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from posenc_lib import validate
from posenc_lib.lab.contest import SEEDS
from posenc_lib.lab.report import HARDLY, Cells, above_guessing, length_at, of_task
from posenc_lib.lab.statistics import MARGIN, RESAMPLES, ROUNDING, Cell, resampled
from posenc_lib.lab.trial import TASKS

FIVE = "NoPosition", "T5Bias", "Alibi", "Rotary", "Sinusoidal"  # the schemes of Kazemnejad et al. 2023
FAILED = ("has no rank", "counts 0", "is ranked", "is left out for all")  # what a failure may count
REDRAWN = "seeds", "tasks", "seeds and tasks"  # what a resample draws anew
FEWEST = 1.8  # bits per character that no scheme of the contest reaches
OF_TASKS = 1000  # the side of these draws: no scheme has it


class Standing(NamedTuple):
    """Who leads.

    means: of 1 / rank over the tasks, (schemes,); nan for a scheme without any.
    first: the number of the scheme that leads alone, None if nobody does.
    share: of the resamples in which the scheme with the greatest mean leads alone, too.
    """

    means: NDArray[np.float64]
    first: int | None
    share: float


def fails(cell: Cell, times: int) -> bool:
    """Whether a scheme is not trained, or its mean at so many training lengths is hardly better than guessing.

    Args:
        cell: of any task.
        times: one of :data:`posenc_lib.lab.trial.TIMES`.
    Example:
        >>> from posenc_lib.lab.statistics import Cell
        >>> fails(Cell("Alibi", "passkey", tuple(range(5)), (True,) * 5, {256: (0.9, 0.9, 0.8, 0.9, 0.9)}), times=8)
        False
    """
    return bool(cell.seeds) and bool(_drawn(cell, times, np.arange(len(cell.seeds))[None])[2][0])


def guesses(cell: Cell, times: int) -> bool:
    """Whether the mean of a scheme, trained or not, is hardly better than guessing.

    Args:
        cell: of any task.
        times: one of :data:`posenc_lib.lab.trial.TIMES`.
    Example:
        >>> from posenc_lib.lab.statistics import Cell
        >>> guesses(Cell("Alibi", "passkey", (0, 1), (True, False), {256: (0.1, 0.02)}), times=8)
        True
    """
    return bool(cell.seeds) and bool(_drawn(cell, times, np.arange(len(cell.seeds))[None])[1][0])


def reciprocal_ranks(
    cells: Sequence[Cell | None], times: int, failed: str, resamples: int = RESAMPLES, margin: float = MARGIN
) -> NDArray[np.float64]:
    """1 / rank of some schemes on one task; a rank is one more than the number of those ahead by more than ``margin``.

    Args:
        cells: of one task; None for a scheme that takes no part.
        times: one of :data:`posenc_lib.lab.trial.TIMES`.
        failed: what a failure counts, one of ``FAILED``.
        resamples: of the seeds, others for each scheme and task; who fails is asked in each anew.
        margin: of accuracy, or of bits; who is ahead by no more does not count, so ranks may be 1, 1, 2.
    Returns:
        (1 + resamples, schemes): first of the seeds as they are; nan for who has no rank.
    Raises:
        ValueError: no cell, cells of several tasks, or another name for what a failure counts.
    Example:
        >>> from posenc_lib.lab.statistics import Cell
        >>> def cell(scheme, value):
        ...     return Cell(scheme, "passkey", tuple(range(5)), (True,) * 5, {256: (value,) * 5})
        >>> reciprocal_ranks([cell("A", 0.5), cell("B", 0.9), None], 8, "has no rank", resamples=2)[0]
        array([0.5, 1. , nan])
    """
    means, out, task = _in_resamples(cells, times, failed, resamples)
    values = means if TASKS[task].bits else -means  # less is better
    compared = values if failed == "is ranked" else np.where(out, np.nan, values)
    ranks = 1.0 + (compared[:, None] < compared[..., None] - margin - ROUNDING).sum(-1)
    return _with_failures(np.where(np.isnan(compared), np.nan, 1 / ranks), out, failed)


def ranked_in(cells: Cells, task: str, times: int) -> list[Cell]:
    """The cells of a task that have a rank: trained, and better than guessing.

    Args:
        cells: of a file, see :func:`posenc_lib.lab.statistics.table`; what is done to a trained RoPE is left out.
        task: one of :data:`posenc_lib.lab.trial.TASKS`.
        times: one of :data:`posenc_lib.lab.trial.TIMES`.
    Raises:
        ValueError: an unknown task.
    Example:
        >>> from posenc_lib.lab.statistics import Cell
        >>> found = [Cell(scheme, "passkey", tuple(range(5)), (True,) * 5, {256: (value,) * 5})
        ...          for scheme, value in (("Alibi", 0.9), ("Rotary", 0.01))]
        >>> [cell.scheme for cell in ranked_in({(cell.scheme, "passkey"): cell for cell in found}, "passkey", 8)]
        ['Alibi']
    """
    return [cell for cell in of_task(cells, task, extended=False) if not cell.untrained() and not guesses(cell, times)]


def on_one_scale(task: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Accuracies as they are; bits per character become 0 with ``guessing``, or more, and 1 with ``FEWEST``.

    Args:
        task: one of :data:`posenc_lib.lab.trial.TASKS`.
        values: of any shape.
    Example:
        >>> import numpy as np
        >>> on_one_scale("next character", np.array([4.48, 1.8]))
        array([0., 1.])
    """
    if not TASKS[validate.choice("task", task, tuple(TASKS))].bits:
        return values
    return np.maximum(above_guessing(task, values) / above_guessing(task, FEWEST), 0)


def _in_resamples(
    cells: Sequence[Cell | None], times: int, failed: str, resamples: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_], str]:
    """The means of the file and of each resample (1 + resamples, schemes), nan for no part; who fails; the task."""
    validate.choice("failed", failed, FAILED)
    tasks = sorted({cell.task for cell in cells if cell is not None})
    if len(tasks) != 1:
        raise ValueError(f"cells must be of one task, got {', '.join(tasks) or 'none'}")
    means = np.full((1 + resamples, len(cells)), np.nan)
    out = np.zeros_like(means, dtype=bool)
    for side, cell in enumerate(cells):
        if cell is None or not cell.seeds:
            continue
        n = len(cell.seeds)
        draws = np.vstack([np.arange(n), resampled(n, resamples, list(TASKS).index(tasks[0]), side)])
        means[:, side], _, out[:, side] = _drawn(cell, times, draws)
    return means, out, tasks[0]


def _with_failures(found: NDArray[np.float64], out: NDArray[np.bool_], failed: str) -> NDArray[np.float64]:
    if failed == "counts 0":
        found[out] = 0
    if failed == "is left out for all":
        found[out.any(1)] = np.nan
    return found


def standing(found: Sequence[NDArray[np.float64]], redrawn: str = "seeds") -> Standing:
    """Who leads by the mean over some tasks.

    Args:
        found: for each task what :func:`reciprocal_ranks` returns, with equally many resamples.
        redrawn: what a resample draws anew, one of ``REDRAWN``. Of n tasks n are drawn with replacement; one that is
            drawn twice counts twice. They are no less a sample than the seeds are; of one or two it says little. If
            tasks alone are drawn there are ``RESAMPLES``.
    Raises:
        ValueError: no task, or another name for what is drawn anew.
    Example:
        >>> import numpy as np
        >>> standing([np.array([[1.0, 0.5], [1.0, 1.0]]), np.array([[1.0, np.nan], [1.0, np.nan]])])
        Standing(means=array([1. , 0.5]), first=0, share=0.0)
    """
    validate.choice("redrawn", redrawn, REDRAWN)
    if not found:
        raise ValueError("found must have at least one task, got none")
    every = np.stack(found, axis=1)
    if redrawn == "tasks":  # the seeds as they are, and as many resamples as we like
        every = every[:1]
    counts = np.ones((1, every.shape[1]))  # how often each resample draws each task
    if redrawn != "seeds":
        counts = _counts(every.shape[1], RESAMPLES if redrawn == "tasks" else len(every) - 1)
    ranked = (counts[:, None] @ ~np.isnan(every))[:, 0]
    total = (counts[:, None] @ np.nan_to_num(every))[:, 0]
    means = np.where(ranked, total / np.maximum(ranked, 1), -1)
    best = int(means[0].argmax())
    alone = means[:, best] > np.delete(means, best, axis=1).max(1, initial=-1) + ROUNDING
    shown = np.where(means[0] < 0, np.nan, means[0])
    return Standing(shown, best if alone[0] else None, float(alone[1:].mean()))


@cache
def _counts(tasks: int, resamples: int) -> NDArray[np.float64]:
    """How often each task is drawn (1 + resamples, tasks); first each of them once."""
    drawn = resampled(tasks, resamples, side=OF_TASKS)
    return np.vstack([np.ones(tasks), (drawn[..., None] == np.arange(tasks)).sum(1)])


def _drawn(
    cell: Cell, times: int, draws: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """For each row of draws (R, n) of seeds the mean, whether it is hardly better than guessing, whether they fail."""
    means = np.asarray(cell.measures[length_at(cell.task, times)])[draws].mean(1)
    hardly = above_guessing(cell.task, means) < HARDLY
    trained = np.array(cell.met)[draws].all(1) & (len(cell.seeds) >= len(SEEDS))
    return means, hardly, ~trained | hardly
