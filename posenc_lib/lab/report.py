"""The cells of a contest in words: a number with its spread, or why there is none; what another rate says."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from posenc_lib import validate
from posenc_lib.lab.catalog import name_of
from posenc_lib.lab.contest import RATES, RATES_SEED, SEEDS, SMALL, Entry, Size, best_rate, run
from posenc_lib.lab.statistics import MARGIN, Cell, Place, leading, of_size, ranking, spread, with_method
from posenc_lib.lab.tasks import IGNORE
from posenc_lib.lab.trial import TASKS, TIMES

Cells = Mapping[tuple[str, str], Cell]
Others = Mapping[tuple[str, str], Mapping[float, Mapping[int, float]]]  # measures of rates that were not chosen
Mean = TypeVar("Mean", float, NDArray[np.float64])
LETTERS = 4.48  # bits per character of the test text by the letter frequencies of the training text
HARDLY = 0.05  # of accuracy or bits: who is less than this better than guessing fails


def length_at(task: str, times: int) -> int:
    """The length of a test at so many training lengths, as near as there is one.

    Raises:
        ValueError: an unknown task, another number than those of ``TIMES``.
    Example:
        >>> length_at("induction", 8), length_at("grid", 2)
        (256, 49)
    """
    contest = TASKS[validate.choice("task", task, tuple(TASKS))]
    return contest.lengths(contest.length)[TIMES.index(validate.choice("times", times, TIMES))]


def said(cells: Cells, scheme: str, task: str, times: int, n_seeds: int = len(SEEDS)) -> str:
    """Mean and, in brackets, least and greatest; of what is not trained the reason, and the range if there is one.

    Example:
        >>> from posenc_lib.lab.statistics import table
        >>> said(table([], ["Rotary"], ["grid"]), "Rotary", "grid", 1)
        'not trained yet'
    """
    cell = cells.get((scheme, task))
    if cell is None:
        return "takes no part"
    if cell.seeds and not all(cell.met):
        values = cell.measures[length_at(task, times)]
        return f"not trained (met in {sum(cell.met)} of {len(cell.met)}; {min(values):.2f} to {max(values):.2f})"
    if (reason := cell.untrained(n_seeds)) is not None:
        return reason
    mean, least, most = spread(cell.at(length_at(task, times), n_seeds))
    return f"{mean:.2f} [{least:.2f}, {most:.2f}]"


def in_groups(places: Iterable[Place]) -> str:
    """A ranking in one line: by their means, ``=`` between neighbours without an order and ``>`` between others.

    Example:
        >>> from posenc_lib.lab.statistics import Place, Spread
        >>> level = Spread(0.9, 0.9, 0.9)
        >>> in_groups([Place("Alibi", level, 1, 1, (1,)), Place("Kerple", level, 2, 2, (2,))])
        'ALiBi > KERPLE'
        >>> in_groups([Place("Alibi", level, 1, 2, (1,)), Place("Kerple", level, 1, 2, (1,))])
        'ALiBi = KERPLE'
    """
    words, before = "", None
    for place in places:
        if before is not None:
            words += " = " if set(before.groups) & set(place.groups) else " > "
        words, before = words + name_of(place.scheme), place
    return words


def order_of(places: Sequence[Place], a: str, b: str) -> int:
    """1 if the scheme a is surely ahead of b in a ranking, -1 if b is ahead of a, 0 if they have no order.

    Example:
        >>> from posenc_lib.lab.statistics import Place, Spread
        >>> level = Spread(0.9, 0.9, 0.9)
        >>> places = [Place("Alibi", level, 1, 1, (1,)), Place("Kerple", level, 2, 2, (2,))]
        >>> order_of(places, "Kerple", "Alibi"), order_of(places, "Alibi", "Alibi")
        (-1, 0)
    """
    number = {place.scheme: n for n, place in enumerate(places)}
    if set(places[number[a]].groups) & set(places[number[b]].groups):
        return 0
    return 1 if number[a] < number[b] else -1


def other_rates(
    found: Iterable[Entry], size: Size = SMALL, unmet: bool = False
) -> dict[tuple[str, str], dict[float, dict[int, float]]]:
    """What another learning rate would have said: of each scheme and task the runs on the seed of the rates.

    What is done to a trained RoPE is there under names of its own, as in :func:`posenc_lib.lab.statistics.table`.

    Args:
        found: entries of a file.
        size: of the model.
        unmet: also of rates that did not meet the criterion.
    Returns:
        By scheme and task, by rate, by length the measure; of rates that met the criterion and were not chosen.
    Example:
        >>> other_rates([])
        {}
    """
    others = {}
    for (scheme, task), results in _tried(found, size).items():
        chosen = best_rate(task, results, size.maximum)
        rest = {rate: result for rate, result in results.items() if rate != chosen and (unmet or result["met"])}
        others[scheme, task] = {rate: _by_length(result["measure"]) for rate, result in rest.items()}
        for method in results[chosen].get("extended", ()):
            name = f"{scheme}, {method}"
            others[name, task] = {rate: _by_length(with_method(method, result)) for rate, result in rest.items()}
    return others


def chosen_rates(found: Iterable[Entry], size: Size = SMALL) -> dict[tuple[str, str], float]:
    """The learning rate that was chosen for each scheme and task: that of its runs on the seeds of the contest.

    Args:
        found, size: see :func:`other_rates`.
    Returns:
        By scheme and task the rate; of those that have a run on another seed than that of the rates.
    Raises:
        ValueError: runs at several rates on these seeds.
    Example:
        >>> from posenc_lib.lab.contest import Entry, run
        >>> chosen_rates([Entry(run("Alibi", "grid", seed, rate), {}) for seed, rate in ((100, 0.01), (0, 0.003))])
        {('Alibi', 'grid'): 0.003}
    """
    rates: dict[tuple[str, str], float] = {}
    for setting, _ in of_size(found, size):
        scheme, task, seed, rate = (setting[name] for name in ("scheme", "task", "seed", "learning_rate"))
        if seed != RATES_SEED and (other := rates.setdefault((scheme, task), rate)) != rate:
            raise ValueError(f"{scheme} on {task} must have one learning rate on all seeds, got {other} and {rate}")
    return rates


def _tried(found: Iterable[Entry], size: Size) -> dict[tuple[str, str], dict[float, dict[str, Any]]]:
    """The results on the seed of the rates by scheme and task, by rate; where all rates were tried."""
    tried: dict[tuple[str, str], dict[float, dict[str, Any]]] = {}
    for setting, result in found:
        scheme, task, rate = (setting[name] for name in ("scheme", "task", "learning_rate"))
        if task in TASKS and rate in RATES and setting == run(scheme, task, RATES_SEED, rate, size):
            tried.setdefault((scheme, task), {})[rate] = result
    return {pair: results for pair, results in tried.items() if len(results) == len(RATES)}


def _by_length(measure: Mapping[str, float]) -> dict[int, float]:
    return {int(n): value for n, value in measure.items()}


def at_rates(cells: Cells, others: Others, scheme: str, task: str, times: int) -> list[float]:
    """The mean at the rate that was chosen, and what each other rate would have said.

    Example:
        >>> from posenc_lib.lab.statistics import Cell
        >>> cell = Cell("A", "grid", (0, 1), (True, True), dict.fromkeys((25, 49, 100, 196), (0.5, 0.75)))
        >>> at_rates({("A", "grid"): cell}, {("A", "grid"): {0.01: {196: 0.25}}}, "A", "grid", 8)
        [0.625, 0.25]
    """
    n = length_at(task, times)
    rates = others.get((scheme, task), {}).values()
    return [spread(cells[scheme, task].measures[n]).mean, *(measure[n] for measure in rates)]


def survives(cells: Cells, others: Others, task: str, times: int, better: str, worse: str) -> bool:
    """Whether one trained scheme stays ahead of another whatever rate is taken: its worst against the other's best.

    Args:
        cells: means at the rates that were chosen.
        others: see :func:`other_rates`.
    Example:
        >>> from posenc_lib.lab.statistics import Cell
        >>> seeds, met, lengths = (0, 1, 2, 3, 4), (True,) * 5, (25, 49, 100, 196)
        >>> a, b = (Cell(s, "grid", seeds, met, dict.fromkeys(lengths, (v,) * 5)) for s, v in (("A", 0.9), ("B", 0.5)))
        >>> survives({("A", "grid"): a, ("B", "grid"): b}, {("B", "grid"): {0.01: {196: 0.95}}}, "grid", 8, "A", "B")
        False
    """
    above, below = (worse, better) if TASKS[task].bits else (better, worse)  # fewer bits are better
    high, low = (at_rates(cells, others, scheme, task, times) for scheme in (above, below))
    return min(high) > max(low) + MARGIN


def rivals(cells: Cells, others: Others, task: str, times: int) -> list[str]:
    """The trained schemes that share no first place and that not all who do stay ahead of at other rates, by means."""
    places = ranking(of_task(cells, task), length_at(task, times))
    first = leading(places)
    mine = [place.scheme for place in places if place.scheme not in first]
    return [s for s in mine if not all(survives(cells, others, task, times, f, s) for f in first)]


def guessing(task: str) -> float:
    """What one reaches who does not read the text.

    That is the accuracy of always giving the commonest answer, or the bits per character (``LETTERS``) of who knows
    the letter frequencies of the training text.

    Example:
        >>> guessing("reverse") < 0.14, guessing("next character")
        (True, 4.48)
    """
    return _guessing(validate.choice("task", task, tuple(TASKS)))


@cache
def _guessing(task: str) -> float:
    contest = TASKS[task]
    if contest.bits:
        return LETTERS
    _, targets = contest.task(256, contest.length, torch.Generator().manual_seed(0), **contest.options)
    answers = targets[targets != IGNORE]
    return answers.bincount().max().item() / len(answers)


def above_guessing(task: str, means: Mean) -> Mean:
    """By how much means, accuracies or bits, are better than guessing: who has less than ``HARDLY`` fails.

    Example:
        >>> above_guessing("reverse", 0.15) > 0, above_guessing("next character", 4.9) > 0
        (True, False)
    """
    return guessing(task) - means if TASKS[task].bits else means - guessing(task)


def first_group(cells: Cells, task: str, times: int, n_seeds: int = len(SEEDS)) -> list[str]:
    """The trained schemes of a task that share the first place, the highest mean first.

    Example:
        >>> from posenc_lib.lab.statistics import table
        >>> first_group(table([]), "copy back", 8)
        []
    """
    return leading(ranking(of_task(cells, task), length_at(task, times), n_seeds=n_seeds))


def of_task(cells: Cells, task: str, extended: bool = True) -> list[Cell]:
    """The cells of a task, with or without those of what is done to a trained RoPE.

    Raises:
        ValueError: an unknown task.
    Example:
        >>> from posenc_lib.lab.statistics import table
        >>> [cell.scheme for cell in of_task(table([], ["Alibi", "Rotary"]), "induction", extended=False)]
        ['Alibi', 'Rotary']
    """
    validate.choice("task", task, tuple(TASKS))
    return [cell for (scheme, other), cell in cells.items() if other == task and (extended or "," not in scheme)]


def explained(values: Sequence[float], groups: Sequence[object]) -> float:
    """The share of the variance of some values that lies between the means of their groups, from 0 to 1.

    It grows with the number of groups even where these mean nothing: k groups of n values explain (k - 1) / (n - 1) on
    average then.

    Args:
        values: at least two, not all the same.
        groups: of each value, the name of its group.
    Raises:
        ValueError: fewer than two values, another number of groups, values that do not vary.
    Example:
        >>> explained([0.0, 0.0, 1.0, 1.0], ["a", "a", "b", "b"]), explained([0.0, 1.0, 0.0, 1.0], ["a", "a", "b", "b"])
        (1.0, 0.0)
    """
    if len(values) < 2 or len(groups) != len(values):
        raise ValueError(f"groups must name one for each of at least two values, got {len(groups)} and {len(values)}")
    if np.ptp(values) == 0:
        raise ValueError(f"values must vary, got {values[0]} throughout")
    return float(_between(np.asarray([values], dtype=np.float64), groups)[0])


def shuffled(values: Sequence[float], groups: Sequence[object], shuffles: int = 1000) -> tuple[float, float]:
    """What groups explain, see :func:`explained`, when their names are dealt out anew by chance.

    Args:
        values, groups: as there.
        shuffles: at least one.
    Returns:
        The mean of what is explained, and the share of shuffles that explain as much as the names where they stand.
    Raises:
        ValueError: as there; fewer than one shuffle.
    Example:
        >>> chance, as_much = shuffled([0.0, 0.1, 0.2, 0.8, 0.9, 1.0], "aaabbb")
        >>> round(chance, 1), as_much < 0.15
        (0.2, True)
    """
    validate.integer("shuffles", shuffles, at_least=1)
    stands = explained(values, groups)
    drawn = np.random.default_rng(0).permuted(np.tile(np.asarray(values, dtype=np.float64), (shuffles, 1)), axis=1)
    shares = _between(drawn, groups)
    return float(shares.mean()), float((shares >= stands - 1e-9).mean())


def _between(rows: np.ndarray, groups: Sequence[object]) -> np.ndarray:
    """Of each row (R, n) the share of its variance between the means of groups, (R,)."""
    member = np.asarray([[group == name for name in dict.fromkeys(groups)] for group in groups], dtype=np.float64)
    rows = rows - rows.mean(1, keepdims=True)
    return ((rows @ member) ** 2 / member.sum(0)).sum(1) / (rows**2).sum(1)
