"""Which should I use: who remains for given needs, and a path of at most ten questions with evidence for each answer.

Where results decide, the answer is read from them: nobody has to change it when the file grows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from posenc_lib import validate
from posenc_lib.configs import shipped
from posenc_lib.lab.catalog import name_of
from posenc_lib.lab.practice import FUSED, Fused, Practice
from posenc_lib.lab.report import (
    Cells,
    Others,
    at_rates,
    first_group,
    length_at,
    of_task,
    rivals,
    said,
    survives,
)
from posenc_lib.lab.statistics import Cell, Spread, leading, ranking, spread
from posenc_lib.lab.trial import TASKS, TIMES

Rows = Mapping[str, Practice]
Told = Callable[[Cells, Rows, Others], list[str]]
After = Mapping[int, Cells]  # by the number of updates in longer texts

KERNELS: dict[str, Callable[[Fused], bool]] = {
    "any kernel": lambda fused: True,
    "Flash, slopes at most": lambda fused: fused.flash != "no",
    "Flex, with a score_mod": lambda fused: fused.flex != "no",
    "SDPA, one mask for all texts": lambda fused: fused.sdpa == "yes",
}
MASKS = {"causal": ("both", "alike", "before only"), "both, without a mask": ("both",)}  # the sides that will do
UNSAID = {"alike": "left and right look alike", "before only": "says nothing of later keys"}
SHOWN = 3  # of those that fit, in an answer; of more also how many they are
NAMED = 3  # of those that another rate may bring; of more the one that it brings farthest, and the number of the others
KEPT = 0.95  # an accuracy below is none that keeps a task
_TEXT = "next character"


class Needs(NamedTuple):
    """What somebody who must choose needs.

    task: one of ``TASKS``, what must be kept.
    times: one of ``TIMES``, how far; at 1 no text is longer than in training.
    kernel: one of ``KERNELS``.
    mask: one of ``MASKS``, the sides that a token sees.
    """

    task: str
    times: int = 1
    kernel: str = "any kernel"
    mask: str = "causal"

    def checked(self) -> "Needs":
        """The same.

        Raises:
            ValueError: if one of them is not among those that are allowed.
        """
        validate.choice("task", self.task, tuple(TASKS))
        validate.choice("times", self.times, TIMES)
        validate.choice("kernel", self.kernel, tuple(KERNELS))
        validate.choice("mask", self.mask, tuple(MASKS))
        return self


class Standing(NamedTuple):
    """One scheme, given some needs.

    scheme: name of the class.
    fault: what excludes it, "task", "kernel", "mask", "length" or "training"; empty if it remains.
    reason: the same in words.
    spread: of its measures if it is trained, though it may be excluded.
    first: whether it shares the first place of those that remain.
    perhaps: whether at another learning rate it might.
    """

    scheme: str
    fault: str
    reason: str
    spread: Spread | None
    first: bool
    perhaps: bool


def excluded(cell: Cell | None, row: Practice, needs: Needs) -> tuple[str, str]:
    """What excludes a scheme and the reason in words, both empty if it remains; without a result no need is asked.

    Args:
        cell: of the scheme and the task; None if it takes no part.
        row: of the practitioner's table.
        needs: of somebody who must choose.
    Raises:
        ValueError: needs that are not among those that are allowed.
    Example:
        >>> from posenc_lib.lab.choosing import Needs
        >>> from posenc_lib.lab.practice import practice
        >>> from posenc_lib.lab.statistics import Cell
        >>> row, needs = practice("T5Bias"), Needs("induction", kernel="Flash, slopes at most")
        >>> excluded(Cell("T5Bias", "induction", (0, 1), (True, False), {}), row, needs)
        ('training', 'not trained: met in 1 of 2 seeds')
        >>> excluded(Cell("T5Bias", "induction", (0, 1, 2, 3, 4), (True,) * 5, {}), row, needs)
        ('kernel', 'needs a bias')
    """
    needs.checked()
    if cell is None:
        return "task", "takes no part"
    if reason := cell.untrained():
        return "training", reason.replace("the criterion ", "")
    fused = FUSED[row.kernel]
    if not KERNELS[needs.kernel](fused):
        return "kernel", fused.needs
    if row.both not in MASKS[needs.mask]:
        return "mask", UNSAID[row.both]
    if needs.times == 1 and ", " in cell.scheme:  # what is done to a trained RoPE in longer texts
        return "length", "is RoPE at this length"
    return "", ""


def who_remains(cells: Cells, rows: Rows, others: Others, needs: Needs) -> list[Standing]:
    """All schemes that take part in some task, in an order in which each stays where it is when other needs change.

    Only another task sorts them anew: by their means at eight times the training length, the best first; then those
    that are not trained, by reasons.

    Args:
        cells: see :func:`posenc_lib.lab.statistics.table`; what is done to a trained RoPE takes no part.
        rows: the practitioner's table, by the names of the classes.
        others: see :func:`posenc_lib.lab.report.other_rates`.
        needs: of somebody who must choose.
    Raises:
        ValueError: needs that are not among those that are allowed.
    Example:
        >>> from posenc_lib.lab.choosing import Needs
        >>> from posenc_lib.lab.practice import practice
        >>> from posenc_lib.lab.statistics import Cell
        >>> seeds, met = (0, 1, 2, 3, 4), (True,) * 5
        >>> a, b = (Cell(s, "induction", seeds, met, {256: (v,) * 5}) for s, v in (("T5Bias", 0.9), ("Rotary", 0.5)))
        >>> cells, rows = {(c.scheme, c.task): c for c in (a, b)}, {s: practice(s) for s in ("T5Bias", "Rotary")}
        >>> for one in who_remains(cells, rows, {}, Needs("induction", 8, "Flash, slopes at most")):
        ...     print(one.scheme, one.first, one.reason or "remains")
        T5Bias False needs a bias
        Rotary True remains
    """
    task, n, far = needs.checked().task, length_at(needs.task, needs.times), length_at(needs.task, TIMES[-1])
    trained = {cell.scheme: cell for cell in of_task(cells, task) if cell.untrained() is None}
    part = {scheme for scheme, _ in cells}
    rows = {s: row for s, row in rows.items() if s in part}
    faults = {s: excluded(cells.get((s, task)), row, needs) for s, row in rows.items()}
    remain = [trained[s] for s, (fault, _) in faults.items() if not fault]
    first = leading(ranking(remain, n))

    def perhaps(s: str) -> bool:
        behind = not faults[s][0] and s not in first
        return behind and not all(survives(cells, others, task, needs.times, f, s) for f in first)

    def order(s: str) -> tuple[str, float, str]:
        mean = spread(trained[s].at(far)).mean if s in trained else 0.0
        fault, reason = faults[s]
        return reason if fault in ("task", "training") else "", mean if TASKS[task].bits else -mean, s

    return [
        Standing(s, *faults[s], spread(trained[s].at(n)) if s in trained else None, s in first, perhaps(s))
        for s in sorted(faults, key=order)
    ]


class Question(NamedTuple):
    """One fork of the path: whoever says yes stops here.

    asks: the question.
    take: what to use after a yes, in lines.
    flash: the same in FlashAttention-2, which adds nothing to scores but slopes.
    rests: what the answer rests on, in words: the contest, or another source.
    evidence: lines made of the results and the practitioner's table.
    later: lines made of the results of training on.
    """

    asks: str
    take: Told
    flash: Told
    rests: str
    evidence: Told
    later: Callable[[After], list[str]] = lambda after: []


def words(*lines: str) -> Told:
    """An answer that no result decides."""
    return lambda cells, rows, others: list(lines)


def best(times: int, *tasks: str, sides: tuple[str, ...] | None = None) -> Told:
    """The answer of the file: the schemes that are in the first group of all these tasks, at so many training lengths.

    Of more than ``SHOWN`` those that most models ship, and of these those that keep the fewest numbers, each with its
    mean in the first of the tasks and the least and the greatest of its seeds; a star says that another rate may bring
    others. At the training length accuracies stop at the criterion: there the answer says only who learns the task.

    Args:
        times: one of ``TIMES``.
        tasks: some of ``TASKS``.
        sides: only schemes that tell the two sides so, see :func:`posenc_lib.lab.practice.sides`.
    """

    def lines(cells: Cells, rows: Rows, others: Others) -> list[str]:
        if fit := _fit(cells, rows, times, tasks, sides):
            if times == 1 and not TASKS[tasks[0]].bits:
                return [f"one that learns it: {_shown(fit, rows)}"]
            star = " *" if perhaps(times, *tasks, sides=sides)(cells, rows, others) else ""
            return [_shown(fit, rows, cells, tasks[0], times) + star]
        known = all(first_group(cells, task, times) for task in tasks)
        return ["no scheme is first in all of these" if known else "not known yet: too few are trained"]

    return lines


def unless(scheme: str, task: str) -> Told:
    """The answer where no need speaks against a scheme: it, and what another has before it at the training length.

    Named is, of those in the first group, the one that most models ship.

    Args:
        scheme: name of its class.
        task: one of ``TASKS`` that is asked in bits.
    """

    def lines(cells: Cells, rows: Rows, others: Others) -> list[str]:
        first = _by_use(_fit(cells, rows, 1, (task,), None), rows)
        if scheme in first or not first or cells[scheme, task].untrained():
            return [name_of(scheme)]
        n = length_at(task, 1)
        ahead, behind = (spread(cells[s, task].at(n)).mean for s in (first[0], scheme))
        anyway = "" if survives(cells, others, task, 1, first[0], scheme) else ", not at every rate"
        return [f"{name_of(scheme)}; {name_of(first[0])} needs {behind - ahead:.2f} bits less{anyway}"]

    return lines


def unless_in_flash(scheme: str, task: str) -> Told:
    """The same in FlashAttention: the scheme if nobody there is surely ahead of it, else who is first there.

    Args:
        scheme, task: see :func:`unless`.
    """

    def lines(cells: Cells, rows: Rows, others: Others) -> list[str]:
        remain = who_remains(cells, rows, others, Needs(task, 1, "Flash, slopes at most"))
        if any(one.first and one.scheme == scheme for one in remain):
            return [name_of(scheme)]
        return in_flash(1, task)(cells, rows, others)

    return lines


def everybody(times: int, *tasks: str, sides: tuple[str, ...] | None = None) -> Told:
    """Evidence: all who fit, of whom :func:`best` names some, in the same order; no line if nobody does.

    Args:
        times, tasks, sides: as there.
    """

    def lines(cells: Cells, rows: Rows, others: Others) -> list[str]:
        fit = _fit(cells, rows, times, tasks, sides)
        return [f"all that share the first place: {', '.join(map(name_of, _by_use(fit, rows)))}"] if fit else []

    return lines


def perhaps(times: int, *tasks: str, sides: tuple[str, ...] | None = None) -> Told:
    """Evidence: who might fit at another learning rate, beside those of :func:`best`; no line if nobody does.

    Args:
        times, tasks, sides: as there.
    """

    def lines(cells: Cells, rows: Rows, others: Others) -> list[str]:
        def farthest(s: str) -> float:
            found = at_rates(cells, others, s, tasks[0], times)
            return -min(found) if TASKS[tasks[0]].bits else max(found)

        fit = _fit(cells, rows, times, tasks, sides)
        could = dict.fromkeys(s for task in tasks for s in rivals(cells, others, task, times))
        near = [s for s in could if s in rows and _tells(rows[s], sides) and s not in fit]
        if not fit or not near:
            return []
        more = ", ".join(map(name_of, near))
        if len(near) > NAMED:
            more = f"{name_of(max(near, key=farthest))} and {len(near) - 1} others"
        return [f"at other rates perhaps also {more}"]

    return lines


def _fit(cells: Cells, rows: Rows, times: int, tasks: Sequence[str], sides: tuple[str, ...] | None) -> list[str]:
    """The schemes that are in the first group of all these tasks and tell the two sides so."""
    groups = [first_group(cells, task, times) for task in tasks]
    return [s for s, row in rows.items() if _tells(row, sides) and all(s in group for group in groups)]


def _tells(row: Practice, sides: tuple[str, ...] | None) -> bool:
    return sides is None or row.both in sides


def _by_use(schemes: Sequence[str], rows: Rows) -> list[str]:
    """Those that most models ship first, then those that keep the fewest numbers, then by name."""
    return sorted(schemes, key=lambda s: (-len(rows[s].models), rows[s].kept or 0.0, name_of(s).lower()))


def _shown(schemes: Sequence[str], rows: Rows, cells: Cells | None = None, task: str = _TEXT, times: int = 1) -> str:
    """The first few of these in words, how many more they are; with cells their numbers, and whether none keeps it."""
    order = _by_use(schemes, rows)
    names, lost = [name_of(s) for s in order], ""
    if cells is not None:
        names = [f"{name_of(s)} {said(cells, s, task, times)}" for s in order]
        most = max((spread(cells[s, task].at(length_at(task, times))).mean for s in order), default=KEPT)
        lost = "" if TASKS[task].bits or most >= KEPT else "none keeps it at these rates; "
    more = len(names) - SHOWN
    rest = "" if more <= 0 else " or one more" if more == 1 else f" or one of {more} more"
    return lost + ", ".join(names[:SHOWN]) + rest


def trained(task: str) -> Told:
    """Evidence: how many schemes are trained on a task, and the best that one of them does in longer texts."""

    def lines(cells: Cells, rows: Rows, others: Others) -> list[str]:
        mine = [cell for cell in of_task(cells, task) if cell.untrained() is None]
        if not mine:
            return [f"{task}: no scheme is trained yet"]
        best_mean = max(spread(cell.at(length_at(task, 2))).mean for cell in mine)
        return [f"{task}: trained {len(mine)}; the best of them at 2 x: {best_mean:.2f}"]

    return lines


def measured(task: str, times: int, *schemes: str, first: bool = True) -> Told:
    """Evidence: what schemes reach on a task at so many training lengths; if asked, those in the first place before."""

    def lines(cells: Cells, rows: Rows, others: Others) -> list[str]:
        unit = ", bits" if TASKS[task].bits else ""
        leaders = [s for s in first_group(cells, task, times) if s in rows] if first and times > 1 else []
        named = dict.fromkeys((*leaders, *schemes))
        each = "; ".join(f"{name_of(s)} {said(cells, s, task, times)}" for s in named)
        return [f"{task} at {times} x{unit}: {each}"]

    return lines


def at_home(scheme: str) -> Told:
    """Evidence: on how many tasks a scheme is trained, and why not on the others."""

    def lines(cells: Cells, rows: Rows, others: Others) -> list[str]:
        mine = {task: cell.untrained() for (name, task), cell in cells.items() if name == scheme}
        not_yet = "".join(f"; {task}: {reason}" for task, reason in mine.items() if reason)
        return [f"{name_of(scheme)}: trained on {list(mine.values()).count(None)} of {len(mine)} tasks{not_yet}"]

    return lines


def kernels(*schemes: str) -> Told:
    """Evidence: what of fused attention schemes work with."""
    return lambda cells, rows, others: [f"{name_of(s)}: {FUSED[rows[s].kernel].words}" for s in schemes]


def kernels_of_first(task: str, times: int) -> Told:
    """Evidence: what of fused attention those work with that share the first place in a task."""

    def lines(cells: Cells, rows: Rows, others: Others) -> list[str]:
        return kernels(*(s for s in first_group(cells, task, times) if s in rows))(cells, rows, others)

    return lines


def told_sides(*schemes: str) -> Told:
    """Evidence: what schemes tell of the keys on the two sides."""
    return lambda cells, rows, others: ["sides told: " + "; ".join(f"{name_of(s)} {rows[s].both}" for s in schemes)]


def in_use(scheme: str) -> Told:
    """Evidence: the models of the course's list that ship a scheme."""

    def lines(cells: Cells, rows: Rows, others: Others) -> list[str]:
        models = rows[scheme].models
        first = f", since {models[0]['month']} ({models[0]['model']})" if models else ""
        return [f"{name_of(scheme)}: in {len(models)} of {len(shipped())} models of the course's list{first}"]

    return lines


def all_of(*several: Told) -> Told:
    """One after the other."""
    return lambda cells, rows, others: [line for one in several for line in one(cells, rows, others)]


def in_flash(times: int, *tasks: str, mask: str = "causal") -> Told:
    """The answer in FlashAttention: of those that add slopes at most, who is first in all of these tasks.

    Of many those that :func:`best` would name, with the same star.

    Args:
        times: one of ``TIMES``.
        tasks: some of ``TASKS``.
        mask: one of ``MASKS``.
    """

    def lines(cells: Cells, rows: Rows, others: Others) -> list[str]:
        needs = [Needs(task, times, "Flash, slopes at most", mask) for task in tasks]
        remain = [who_remains(cells, rows, others, one) for one in needs]
        first = [[s.scheme for s in group if s.first] for group in remain]
        fit = [s for s in first[0] if all(s in group for group in first)]
        if fit or not all(first):
            if not fit or (times == 1 and not TASKS[tasks[0]].bits):
                return [_shown(fit, rows) or "not known yet"]
            star = " *" if any(s.perhaps for group in remain for s in group) else ""
            return [_shown(fit, rows, cells, tasks[0], times) + star]
        named = (f"{task} {_shown(group, rows)}" for task, group in zip(tasks, first, strict=True))
        return [f"nobody in all of these; first in {'; in '.join(named)}"]

    return lines


def trained_on(task: str, times: int, *schemes: str) -> Callable[[After], list[str]]:
    """Evidence: the means of schemes on a task at so many training lengths, after each number of updates."""

    def lines(after: After) -> list[str]:
        n, unit = length_at(task, times), ", bits" if TASKS[task].bits else ""
        means = {s: [spread(cells[s, task].at(n)).mean for cells in after.values()] for s in schemes}
        each = "; ".join(f"{name_of(s)} {', '.join(f'{mean:.2f}' for mean in found)}" for s, found in means.items())
        return [f"{task} at {times} x{unit}, after {', '.join(map(str, after))} more updates: {each}"]

    return lines


RESCALED = ("Rotary", *(f"Rotary, {way}" for way in ("NTK-aware", "YaRN", "YaRN, fast from 4 turns")))
PATH = (
    Question(
        "Do you go on with a model that somebody has trained?",
        words("what it was trained with; if that is RoPE and texts grow, rescale (notebook 14), and test: it may cost"),
        words("the same"),
        "contest: RoPE, rescaled, at 8 x and 4 x; notebook 14",
        all_of(
            *(measured("passkey", times, *RESCALED, first=False) for times in (8, 4)),
            *(measured(task, 4, *RESCALED, first=False) for task in ("induction", "flip-flop", "copy back")),
        ),
    ),
    Question(
        "Do the tokens stand on a grid, or in pictures between texts?",
        best(8, "grid"),
        in_flash(8, "grid"),
        "contest: grid, 8 x",
        all_of(
            everybody(8, "grid"),
            perhaps(8, "grid"),
            trained("grid"),
            measured("grid", 8, "AxialRotary", "MRope", "Rotary"),
            in_use("MRope"),
        ),
    ),
    Question(
        "Does a token see both sides, without a mask?",
        best(1, "reverse", sides=("both",)),
        in_flash(1, "reverse", mask="both, without a mask"),
        "contest: reverse, 1 x",
        all_of(
            everybody(1, "reverse", sides=("both",)),
            perhaps(1, "reverse", sides=("both",)),
            told_sides("Rotary", "T5Bias", "Sinusoidal", "Alibi", "Kerple"),
            measured("reverse", 1, "Rotary", "T5Bias", "Alibi", "Kerple"),
            measured("reverse", 2, "Rotary", "Rotary, position interpolation", "T5Bias", "Learned", "Sinusoidal"),
        ),
    ),
    Question(
        "Is the cache of keys your limit?",
        words("fewer heads of keys, windows, or one vector for all heads; the last needs decoupled RoPE (notebook 18)"),
        words("the same"),
        "configs of models (notebook 18); not asked here",
        all_of(in_use("DecoupledRotary"), kernels("DecoupledRotary")),
    ),
    Question(
        "Do texts grow, and do you train on in longer ones?",
        words("RoPE, rescaled before (notebook 14), and test the old length; T5 where its bias costs nothing"),
        words("RoPE, rescaled before (notebook 14), and test the old length"),
        "contest, after more updates (first table); kernels",
        kernels("Rotary"),
        lambda after: [
            line
            for task, times in (("induction", 8), ("copy back", 8), (_TEXT, 8), ("passkey", 8), ("passkey", 1))
            for line in trained_on(task, times, RESCALED[0], RESCALED[1], RESCALED[3], "T5Bias")(after)
        ],
    ),
    Question(
        "Longer texts, as it is: must it find a word wherever it stands?",
        best(8, "passkey", "look-up"),
        in_flash(8, "passkey", "look-up"),
        "contest: passkey and look-up, 8 x",
        all_of(
            everybody(8, "passkey", "look-up"),
            perhaps(8, "passkey", "look-up"),
            *(measured(task, 8, "Alibi", "Kerple", "T5Bias", "Rotary") for task in ("passkey", "look-up")),
        ),
    ),
    Question(
        "Longer texts, as it is: must it point so many places back?",
        best(8, "copy back"),
        in_flash(8, "copy back"),
        "contest: copy back, 8 x",
        all_of(
            everybody(8, "copy back"),
            perhaps(8, "copy back"),
            measured("copy back", 8, "T5Bias", "Rotary", "Alibi"),
            kernels_of_first("copy back", 8),
        ),
    ),
    Question(
        "Longer texts, as it is: must it keep a state that the text sets, among much to ignore?",
        best(8, "flip-flop"),
        in_flash(8, "flip-flop"),
        "contest: flip-flop, 8 x",
        all_of(
            everybody(8, "flip-flop"),
            perhaps(8, "flip-flop"),
            measured("flip-flop", 8, "Shaw", "Kerple", "T5Bias", "Alibi", "Rotary"),
        ),
    ),
    Question(
        "Longer texts of language, as it is: where most of the help is near?",
        best(8, "next character"),
        in_flash(8, "next character"),
        "contest: next character, 8 x",
        all_of(
            everybody(8, "next character"),
            perhaps(8, "next character"),
            measured("next character", 8, "Shaw", "T5Bias", "Alibi", "Rotary", "Sinusoidal"),
        ),
    ),
    Question(
        "None of these: language, in texts no longer than in training?",
        unless("Rotary", _TEXT),
        unless_in_flash("Rotary", _TEXT),
        "kernels; contest: next character, 1 x",
        all_of(
            everybody(1, _TEXT),
            perhaps(1, _TEXT),
            kernels("Rotary", "XPos", "DecoupledRotary"),
            measured(_TEXT, 1, "Rotary", "XPos", "Sinusoidal", "Learned"),
            in_use("Rotary"),
            in_use("XPos"),
            at_home("Rotary"),
        ),
    ),
)


def questions(cells: Cells, rows: Rows, others: Others) -> list[tuple[int, str, str, str, str]]:
    """The path in rows: number, question, the answer to whoever says yes, that in FlashAttention, what both rest on."""
    given = cells, rows, others
    answers = [(" ".join(q.take(*given)), " ".join(q.flash(*given))) for q in PATH]
    return [(n, q.asks, *answer, q.rests) for n, (q, answer) in enumerate(zip(PATH, answers, strict=True), start=1)]


def evidence(cells: Cells, rows: Rows, others: Others, after: After | None = None) -> Iterator[str]:
    """The evidence of the path in lines of Markdown, question by question.

    Args:
        cells: of the contest.
        rows: the practitioner's table.
        others: what another rate would have said.
        after: cells by the number of updates in longer texts, see :func:`posenc_lib.lab.longer.cells_after`.
    """
    for number, question in enumerate(PATH, start=1):
        yield f"{number}. {question.asks}"
        for line in question.evidence(cells, rows, others) + (question.later(after) if after else []):
            yield f"   - {line}"
