"""What the entries of a contest say, and how surely: every number with its spread, no order where there is none.

A *bootstrap* over seeds: from the n values of a scheme, n are drawn with replacement, again and again, and a claim
about means is *sure* here if it holds in at least 95 % of these resamples. What that is worth with five seeds:

- It is coarse. Five values have 126 different resamples and no more, two schemes 126 times 126; the most extreme of
  them, five times the same value, has one chance in 3 125.
- It is bold. Five values vary less about their own mean than about that of all seeds. Of two schemes whose values come
  from one and the same normal distribution, one is found surely above the other in 18 of 100 comparisons, in 21 if they
  are paired; at a level of .99 in 7, and 13 if paired. What matters holds in all resamples.
- It sees no error where it sees no spread. If all seeds of two schemes agree, any difference holds in every resample,
  were it of the last digit. Hence the *margin*, by which means must differ at least to be called different.
- It says nothing of what was not drawn anew: the texts of the tests are the same in all runs, and the learning rate was
  chosen on one seed.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from posenc_lib import validate
from posenc_lib.lab.catalog import scheme_classes
from posenc_lib.lab.contest import RATES_SEED, SEEDS, SMALL, Entry, Size, at_size, pairs
from posenc_lib.lab.settings import EXTENDED, extensions
from posenc_lib.lab.trial import TASKS, frame

LEVEL = 0.95  # share of the resamples in which a sure claim holds
MARGIN = 0.01  # of accuracy, or of a bit per character
RESAMPLES = 10_000  # a share of .95 is met within .0044, two standard errors
CYCLE = 0.75  # claims about independent values that hold more often than that cannot go round in a circle
ROUNDING = 1e-9  # sums in another order differ by less, measures of four decimals by more

Values = NDArray[np.float64]


class Cell(NamedTuple):
    """The runs of one scheme on one task.

    scheme: name of the class, or what was done to a trained RoPE.
    task: one of ``TASKS``.
    seeds: of the runs, rising.
    met: for each seed whether the run met its criterion.
    measures: for each length of a test the accuracy, or the bits per character, by seed.

    Example:
        >>> cell = Cell("Alibi", "induction", (0, 1, 2), (True, True, False), {32: (0.99, 0.98, 0.41)})
        >>> cell.untrained()
        'not trained: the criterion met in 2 of 3 seeds'
    """

    scheme: str
    task: str
    seeds: tuple[int, ...]
    met: tuple[bool, ...]
    measures: dict[int, tuple[float, ...]]

    def untrained(self, n_seeds: int = len(SEEDS)) -> str | None:
        """Why the scheme is not trained, in words; None if all runs met the criterion and there are enough of them."""
        validate.integer("n_seeds", n_seeds, at_least=2)
        if not self.seeds:
            return "not trained yet"
        if not all(self.met):
            return f"not trained: the criterion met in {sum(self.met)} of {len(self.met)} seeds"
        if len(self.seeds) < n_seeds:
            return f"not trained yet: {len(self.seeds)} of {n_seeds} seeds"
        return None

    def at(self, length: int, n_seeds: int = len(SEEDS)) -> Values:
        """The measures (seeds,) at a length, of a scheme that is trained; ``measures`` has them of any.

        Raises:
            ValueError: a scheme that is not trained, a length without a test, a measure that is not a number.
        """
        if (reason := self.untrained(n_seeds)) is not None:
            raise ValueError(f"{self.scheme} on {self.task} cannot be compared: {reason}")
        values = np.array(self.measures[validate.choice("length", length, tuple(self.measures))])
        if np.isnan(values).any():
            raise ValueError(f"{self.scheme} on {self.task} at length {length} has a measure that is not a number")
        return values


class Spread(NamedTuple):
    """Of some values the mean, the least and the greatest."""

    mean: float
    least: float
    most: float


class Place(NamedTuple):
    """Where a scheme stands among others.

    scheme: its name.
    spread: of its measures.
    first: the best place it can have, one more than the number of schemes that are surely better.
    last: the worst place it can have, all places but those of the schemes that are surely worse.
    groups: the numbers of the groups to which it belongs.
    """

    scheme: str
    spread: Spread
    first: int
    last: int
    groups: tuple[int, ...]


def of_size(found: Iterable[Entry], size: Size = SMALL) -> list[Entry]:
    """The entries of one size of the model, those on which learning rates were chosen among them.

    Args:
        found: entries of a file, see :func:`posenc_lib.lab.contest.entries`.
        size: of the model and of its training.
    Example:
        >>> of_size([])
        []
    """
    return [entry for entry in found if entry.setting["task"] in TASKS and entry.setting == at_size(entry, size)]


def table(
    found: Iterable[Entry],
    schemes: Sequence[str] | None = None,
    tasks: Sequence[str] = tuple(TASKS),
    size: Size = SMALL,
) -> dict[tuple[str, str], Cell]:
    """A cell for every scheme and every task in which it takes part, trained or not; task by task.

    What is done to a trained RoPE has cells of its own, which at the training length are RoPE's. The runs on which
    learning rates were chosen, those of another size and those of schemes that are no longer there are left out.

    Args:
        found: entries of a file, see :func:`posenc_lib.lab.contest.entries`.
        schemes: names of classes; all of the library if None.
        tasks: some of ``TASKS``.
        size: of the model.
    Raises:
        ValueError: an unknown scheme or task; two runs with one seed, runs of several versions of the code in a cell;
            a task that was measured on several texts.
    Example:
        >>> [cell.untrained() for cell in table([], ["Rotary", "Alibi"], ["grid"]).values()]
        ['not trained yet', 'not trained yet']
    """
    known = tuple(scheme_classes())
    wanted = [validate.choice("schemes", scheme, known) for scheme in (known if schemes is None else schemes)]
    runs: dict[tuple[str, str], list[Entry]] = {}
    for entry in of_size(found, size):
        if entry.setting["seed"] != RATES_SEED:
            runs.setdefault((entry.setting["scheme"], entry.setting["task"]), []).append(entry)
    cells = {}
    for scheme, task in pairs(wanted, tasks, size):
        mine = sorted(runs.get((scheme, task), []), key=lambda entry: entry.setting["seed"])
        cells[scheme, task] = cell_of(scheme, task, mine, [entry.result["measure"] for entry in mine])
        if scheme == EXTENDED and not TASKS[task].grid:
            for method in _methods(task, size):
                name = f"{EXTENDED}, {method}"
                cells[name, task] = cell_of(name, task, mine, [with_method(method, entry.result) for entry in mine])
    for task in tasks:
        read = [entry.result.get("text") for pair in cells for entry in runs.get(pair, []) if pair[1] == task]
        _one(f"{task} was measured on", read, "texts")
    return cells


def _methods(task: str, size: Size) -> list[str]:
    return list(extensions(frame(task, size.length or TASKS[task].length, size.width, size.heads), factor=2.0))


def with_method(method: str, result: Mapping[str, Any]) -> dict[str, float]:
    """The measures by length of a trained RoPE to which this was done; at the training length nothing was.

    Example:
        >>> with_method("YaRN", {"measure": {"32": 1.0, "64": 0.2}, "extended": {"YaRN": {"64": 0.9}}})
        {'32': 1.0, '64': 0.9}
    """
    at_home = next(iter(result["measure"]))
    return {at_home: result["measure"][at_home]} | result["extended"][method]


def cell_of(scheme: str, task: str, mine: list[Entry], measures: list[dict[str, float]]) -> Cell:
    """One cell of runs that are sorted by seed; a loss that is not a number is no criterion met.

    Args:
        scheme, task: names of the cell.
        mine: its runs.
        measures: for each run, by length.
    Raises:
        ValueError: two runs with one seed, runs of several versions of the code.
    Example:
        >>> from posenc_lib.lab.contest import Entry
        >>> made = Entry({"seed": 0}, {"met": True, "loss": None, "version": "0"})
        >>> cell_of("Alibi", "passkey", [made], [{"32": 0.5}]).untrained()
        'not trained: the criterion met in 0 of 1 seeds'
    """
    seeds = tuple(entry.setting["seed"] for entry in mine)
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"{scheme} on {task} must have one run for each seed, got {list(seeds)}")
    _one(f"{scheme} on {task} was made by", [entry.result["version"] for entry in mine], "versions of the code")
    met = tuple(bool(entry.result["met"] and entry.result["loss"] is not None) for entry in mine)
    lengths = measures[0] if measures else ()
    return Cell(scheme, task, seeds, met, {int(n): tuple(measure[n] for measure in measures) for n in lengths})


def _one(what: str, values: Iterable[str | None], plural: str) -> None:
    if len(different := set(values)) > 1:
        raise ValueError(f"{what} {len(different)} {plural}, which must be one: {sorted(map(str, different))}")


def spread(values: Sequence[float] | Values) -> Spread:
    """Mean, least and greatest.

    Example:
        >>> spread([0.5, 1.0, 0.75])
        Spread(mean=0.75, least=0.5, most=1.0)
    """
    array = _values("values", values)
    return Spread(float(array.mean()), float(array.min()), float(array.max()))


def distinct_resamples(n: int) -> int:
    """How many different resamples n different values have: one for every way to share n draws among n values.

    Example:
        >>> [distinct_resamples(n) for n in (2, 3, 5, 10)]
        [3, 10, 126, 92378]
    """
    return math.comb(2 * validate.integer("n", n, at_least=1) - 1, n)


def resampled(n: int, resamples: int = RESAMPLES, seed: int = 0, side: int = 0) -> NDArray[np.int64]:
    """Which of n values each resample draws, as places (resamples, n); int64.

    Args:
        n: how many values there are, and are drawn.
        resamples: how many; the first of more are the same.
        seed: of the draws.
        side: 0 for the first of two that are compared, 1 for the second, whose draws are others.
    Raises:
        TypeError, ValueError: a number that is none, or is too small.
    Example:
        >>> resampled(5, resamples=3).shape
        (3, 5)
    """
    validate.integer("n", n, at_least=1)
    validate.integer("resamples", resamples, at_least=1)
    validate.integer("seed", seed, at_least=0)
    validate.integer("side", side, at_least=0)
    return np.random.default_rng([seed, side]).integers(n, size=(resamples, n))


def share_above(
    above: Sequence[float] | Values | float,
    below: Sequence[float] | Values | float,
    margin: float = MARGIN,
    paired: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> float:
    """The share of resamples in which the mean of ``above`` is greater than that of ``below`` by more than a margin.

    A tie is not above: of two schemes without spread and of the same mean neither is above the other in any resample.
    For bits per character, where less is better, the better scheme is ``below``.

    Args:
        above: the values of a scheme by seed, at least two; or one number, which is what it is in every resample.
        below: the same of another.
        margin: not negative.
        paired: draw the same seeds for both, if the seeds of both are the same: what a seed does to both then cancels.
        resamples: how many.
        seed: of the draws; the same arguments give the same share.
    Raises:
        TypeError: a value, a margin or a number that is none.
        ValueError: fewer than two values, a value that is not a number, a margin below 0, pairs of different numbers
            of values.
    Example:
        >>> share_above([0.9, 0.8, 0.9, 1.0, 0.9], [0.2, 0.3, 0.2, 0.1, 0.2])
        1.0
        >>> share_above([0.9, 0.9, 0.9, 0.9, 0.9], 0.9)
        0.0
    """
    more, less = _values("above", above), _values("below", below)
    if paired and more.size != less.size:
        raise ValueError(f"paired needs as many values above as below, got {more.size} and {less.size}")
    _draws_allowed(margin, resamples, seed)
    return _share(_means(more, resamples, seed, 0), _means(less, resamples, seed, 0 if paired else 1), margin)


def ordered_by_chance(
    n: int,
    apart: float,
    margin: float = MARGIN,
    level: float = LEVEL,
    comparisons: int = 400,
    resamples: int = 500,
    seed: int = 0,
) -> float:
    """How often one of two schemes that are equal is found surely above the other: a share of comparisons.

    The values of both come from one and the same normal distribution.

    Args:
        n: seeds of each scheme, at least two.
        apart: standard deviation of the values by seed.
        margin, level, resamples: see ``share_above`` and ``claim``.
        comparisons: how many.
        seed: of the values.
    Raises:
        TypeError, ValueError: a number that is none, or is too small; a level that is not above .75 and at most 1.
    Example:
        >>> ordered_by_chance(5, 0.001)  # seeds that hardly spread are never further apart than the margin
        0.0
    """
    validate.integer("n", n, at_least=2)
    validate.integer("comparisons", comparisons, at_least=1)
    if validate.real("apart", apart) < 0:
        raise ValueError(f"apart must not be negative, got {apart}")
    _level_allowed(level)
    values = np.random.default_rng(seed).normal(0, apart, (comparisons, 2, n))
    found = [
        max(share_above(a, b, margin, resamples=resamples), share_above(b, a, margin, resamples=resamples)) >= level
        for a, b in values
    ]
    return float(np.mean(found))


def claim(
    words: str,
    above: Sequence[float] | Values | float,
    below: Sequence[float] | Values | float,
    margin: float = MARGIN,
    paired: bool = False,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> bool:
    """Print in one line that a mean is above another, and in what share of resamples; return whether that is sure.

    The share is cut off to a whole per cent, never rounded up. The arguments are those of ``share_above``.

    Args:
        words: what is claimed.
        level: the share from which on it is sure.
    Raises:
        ValueError: a level that is not above .75 and at most 1.
    Example:
        >>> claim("ALiBi keeps half", [0.9, 0.8, 0.9, 1.0, 0.9], 0.5)
        ALiBi keeps half: 0.900 > 0.500 by more than 0.01 in 100 % of resamples, sure
        True
    """
    _level_allowed(level)
    share = share_above(above, below, margin, paired, resamples, seed)
    means = " > ".join(f"{_values(name, side).mean():z.3f}" for name, side in (("above", above), ("below", below)))
    sure = share >= level
    print(f"{words}: {means} by more than {margin:g} in {math.floor(100 * share)} % of resamples,", end=" ")
    print("sure" if sure else "not sure")
    return sure


def ranking(
    cells: Iterable[Cell],
    length: int,
    margin: float = MARGIN,
    paired: bool = False,
    level: float = LEVEL,
    n_seeds: int = len(SEEDS),
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[Place]:
    """The trained schemes of one task by their means, the best first, and which of them are ordered.

    Two schemes are *ordered* if ``share_above`` of the better is at least ``level``. A *group* is a set of schemes of
    which no two are ordered and which no other scheme can join; groups are numbered by their best members. So two
    schemes are ordered if and only if they have no group in common. A scheme may belong to several: if A is surely
    better than C, and B is between them and not surely apart from either, the groups are A, B and B, C. The order of
    schemes in the list that have a group in common means nothing.

    Args:
        cells: of one task; those that are not trained are left out.
        length: of the tests.
        margin, paired, level, resamples, seed: see ``share_above`` and ``claim``.
        n_seeds: how many a trained scheme must have at least.
    Raises:
        ValueError: cells of several tasks or two of one scheme, what ``share_above`` and ``claim`` refuse; if paired,
            cells with different seeds.
    Example:
        >>> from posenc_lib.lab.statistics import Cell
        >>> seeds, met = (0, 1, 2), (True, True, True)
        >>> a = Cell("Alibi", "induction", seeds, met, {64: (0.9, 0.95, 1.0)})
        >>> b = Cell("Kerple", "induction", seeds, met, {64: (0.8, 0.9, 1.0)})
        >>> c = Cell("Rotary", "induction", seeds, met, {64: (0.3, 0.2, 0.4)})
        >>> [(p.scheme, p.first, p.last, p.groups) for p in ranking([c, b, a], 64, n_seeds=3)]
        [('Alibi', 1, 2, (1,)), ('Kerple', 1, 2, (1,)), ('Rotary', 3, 3, (2,))]
    """
    _level_allowed(level)
    _draws_allowed(margin, resamples, seed)
    trained = [cell for cell in cells if cell.untrained(n_seeds) is None]
    _rankable(trained, paired)
    sign = -1 if trained and TASKS[trained[0].task].bits else 1  # fewer bits are better
    of_scheme = {cell.scheme: sign * cell.at(length, n_seeds) for cell in trained}
    names = sorted(of_scheme, key=lambda name: (-of_scheme[name].mean(), name))
    above = [_means(of_scheme[name], resamples, seed, 0) for name in names]
    below = [_means(of_scheme[name], resamples, seed, 0 if paired else 1) for name in names]
    better = np.zeros((len(names), len(names)), dtype=bool)
    for a, b in np.ndindex(better.shape):
        better[a, b] = _share(above[a], below[b], margin) >= level
    groups = _groups(~(better | better.T))
    return [
        Place(
            name,
            spread(sign * of_scheme[name]),
            1 + int(better[:, n].sum()),
            len(names) - int(better[n].sum()),
            tuple(number for number, group in enumerate(groups, start=1) if n in group),
        )
        for n, name in enumerate(names)
    ]


def leading(places: Iterable[Place]) -> list[str]:
    """The schemes that share the first place: nobody is surely ahead of them, nor of one whose mean is better.

    By the first condition alone a scheme with a lower mean could stay whose seeds scatter more.

    Args:
        places: as :func:`ranking` returns them, the best mean first.
    Example:
        >>> from posenc_lib.lab.statistics import Cell, ranking
        >>> values = {"A": (0.99,) * 5, "B": (0.95,) * 5, "C": (0.99, 0.99, 0.99, 0.99, 0.75)}
        >>> cells = [Cell(s, "induction", (0, 1, 2, 3, 4), (True,) * 5, {64: v}) for s, v in values.items()]
        >>> places = ranking(cells, 64)
        >>> [(place.scheme, place.first) for place in places], leading(places)
        ([('A', 1), ('B', 2), ('C', 1)], ['A'])
    """
    return [place.scheme for place in takewhile(lambda place: place.first == 1, places)]


def _rankable(cells: list[Cell], paired: bool) -> None:
    for what, values in (("task", {cell.task for cell in cells}), ("seeds", {cell.seeds for cell in cells})):
        if len(values) > 1 and (what == "task" or paired):
            raise ValueError(f"cells must have one and the same {what}, got {sorted(values)}")
    names = [cell.scheme for cell in cells]
    if len(set(names)) < len(names):
        raise ValueError(f"cells must be of different schemes, got {sorted(names)}")


def _groups(unordered: NDArray[np.bool_]) -> list[list[int]]:
    """The largest sets of numbers of which each two are unordered (Bron and Kerbosch 1973)."""
    near = [set(np.flatnonzero(row).tolist()) - {n} for n, row in enumerate(unordered)]
    found: list[list[int]] = []

    def grow(members: list[int], candidates: set[int], done: set[int]) -> None:
        if members and not candidates and not done:
            found.append(sorted(members))
        for n in sorted(candidates):
            grow([*members, n], candidates & near[n], done & near[n])
            candidates, done = candidates - {n}, done | {n}

    grow([], set(range(len(near))), set())
    return sorted(found)


def _means(values: Values, resamples: int, seed: int, side: int) -> Values:
    """The means (resamples,) of draws with replacement; the two sides of a comparison are drawn independently."""
    return values[resampled(values.size, resamples, seed, side)].mean(axis=1)


def _share(more: Values, less: Values, margin: float) -> float:
    return float((more > less + margin + ROUNDING).mean())


def _values(name: str, given: Sequence[float] | Values | float) -> Values:
    """The values (n,) of a scheme, or (1,) a number to compare it with."""
    array = np.asarray(given)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be numbers, got {given!r}")
    if array.ndim > 1 or (array.ndim == 1 and array.size < 2):
        raise ValueError(f"{name} must be a number, or at least two values, one for each seed, got {given!r}")
    if np.isnan(array).any():
        raise ValueError(f"{name} must have no value that is not a number, got {given!r}")
    return array.astype(np.float64).reshape(-1)


def _draws_allowed(margin: float, resamples: int, seed: int) -> None:
    if validate.real("margin", margin) < 0:
        raise ValueError(f"margin must not be negative, got {margin}")
    validate.integer("resamples", resamples, at_least=1)
    validate.integer("seed", seed, at_least=0)


def _level_allowed(level: float) -> None:
    if not CYCLE < validate.real("level", level) <= 1:
        raise ValueError(f"level must be greater than {CYCLE} and at most 1, got {level}")
