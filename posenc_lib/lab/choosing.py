"""Which should I use: a path of at most ten questions, each with the rows of tables that support its answer.

Where results decide, the answer is read from them: nobody has to change it when the file grows.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from posenc_lib.configs import shipped
from posenc_lib.lab.catalog import name_of
from posenc_lib.lab.practice import FUSED, Practice
from posenc_lib.lab.report import Cells, Others, first_group, length_at, of_task, rivals, said
from posenc_lib.lab.statistics import spread
from posenc_lib.lab.trial import TASKS

Rows = Mapping[str, Practice]
Told = Callable[[Cells, Rows, Others], list[str]]


class Question(NamedTuple):
    """One fork of the path: whoever says yes stops here.

    asks: the question.
    take: what to use after a yes, in lines.
    evidence: lines made of the results and the practitioner's table.
    """

    asks: str
    take: Told
    evidence: Told


def words(*lines: str) -> Told:
    """An answer that no result decides."""
    return lambda cells, rows, others: list(lines)


def best(times: int, *tasks: str, sides: tuple[str, ...] | None = None) -> Told:
    """The answer of the file: the schemes that are in the first group of all these tasks, at so many training lengths.

    Args:
        times: one of ``TIMES``.
        tasks: some of ``TASKS``.
        sides: only schemes that tell the two sides so, see :func:`posenc_lib.lab.practice.sides`.
    """

    def lines(cells: Cells, rows: Rows, others: Others) -> list[str]:
        groups = [first_group(cells, task, times) for task in tasks]
        could = dict.fromkeys(s for task in tasks for s in rivals(cells, others, task, times))
        fits = {s for s, row in rows.items() if sides is None or row.both in sides}
        fit = [s for s in groups[0] if s in fits and all(s in group for group in groups)]
        near = [s for s in could if s in fits and s not in fit]
        if fit:
            perhaps = f"; at other rates perhaps also {', '.join(map(name_of, near))}" if near else ""
            return [f"of those that are trained: {', '.join(map(name_of, fit))}{perhaps}"]
        return ["no scheme is first in all of these" if all(groups) else "not known yet: too few are trained"]

    return lines


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


RESCALED = ("Rotary", *(f"Rotary, {way}" for way in ("NTK-aware", "YaRN", "YaRN, fast from 4 turns")))
PATH = (
    Question(
        "Do you go on with a model that somebody has trained?",
        words("what it was trained with; if that is RoPE and texts grow, rescale (notebook 14), and test: it may cost"),
        all_of(*(measured(task, 4, *RESCALED, first=False) for task in ("induction", "flip-flop", "copy back"))),
    ),
    Question(
        "Do the tokens stand on a grid, or in pictures between texts?",
        best(8, "grid"),
        all_of(trained("grid"), measured("grid", 8, "AxialRotary", "MRope", "Rotary"), in_use("MRope")),
    ),
    Question(
        "Does a token see both sides, without a mask?",
        best(1, "reverse", sides=("both",)),
        all_of(
            told_sides("Rotary", "T5Bias", "Sinusoidal", "Alibi", "Kerple"),
            measured("reverse", 1, "Rotary", "T5Bias", "Alibi", "Kerple"),
            measured("reverse", 2, "Rotary", "T5Bias", "Learned", "Sinusoidal"),
        ),
    ),
    Question(
        "Is the cache of keys your limit?",
        words("decoupled RoPE, as DeepSeek has it (notebook 18)"),
        all_of(in_use("DecoupledRotary"), kernels("DecoupledRotary")),
    ),
    Question(
        "Longer texts than in training: must it find a word wherever it stands?",
        best(8, "passkey", "look-up"),
        all_of(*(measured(task, 8, "Alibi", "Kerple", "T5Bias", "Rotary") for task in ("passkey", "look-up"))),
    ),
    Question(
        "Longer texts: must it point so many places back?",
        best(8, "copy back"),
        all_of(measured("copy back", 8, "T5Bias", "Rotary", "Alibi"), kernels_of_first("copy back", 8)),
    ),
    Question(
        "Longer texts: must it keep a state that the text sets, among much that it should ignore?",
        best(8, "flip-flop"),
        measured("flip-flop", 8, "Shaw", "Kerple", "T5Bias", "Alibi", "Rotary"),
    ),
    Question(
        "Longer texts, and it is language, where most of the help is near?",
        best(8, "next character"),
        measured("next character", 8, "Shaw", "T5Bias", "Alibi", "Rotary", "Sinusoidal"),
    ),
    Question(
        "Must it run in a kernel that takes no bias?",
        words("RoPE or xPos, which add nothing to a score; or sinusoids or a table at the input"),
        all_of(
            kernels("Rotary", "XPos", "Sinusoidal"),
            measured("next character", 1, "Rotary", "XPos", "Sinusoidal", "Learned"),
            in_use("Rotary"),
            in_use("XPos"),
        ),
    ),
    Question(
        "None of these?",
        words("RoPE: most models have it, and what fails beyond the training length is known (notebook 14)"),
        all_of(in_use("Rotary"), at_home("Rotary")),
    ),
)


def path(cells: Cells, rows: Rows, others: Others) -> Iterator[str]:
    """The path in lines of text, each question with its answer and the evidence below."""
    for number, question in enumerate(PATH, start=1):
        yield f"{number:2d} {question.asks}"
        for line in question.take(cells, rows, others):
            yield f"   yes: {line}"
        for line in question.evidence(cells, rows, others):
            yield f"      {line}"
