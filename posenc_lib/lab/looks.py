"""How notebooks show the contest: a colour for each place where position enters, bars of bits, who has no runs yet."""

import textwrap
from collections.abc import Iterable
from functools import cache

from posenc_lib import validate
from posenc_lib.lab.catalog import name_of, scheme_classes
from posenc_lib.lab.probes import PROBES, drawn
from posenc_lib.lab.ranks import FIVE
from posenc_lib.lab.report import Cells
from posenc_lib.lab.trial import TASKS

PLACES = {"nowhere": "0.45", "input": "C0", "query and key": "C1", "score": "C2", "score, value": "C3"}
ELSEWHERE = "C4"  # a place that is new
BITS = 5.0, 1.8  # the worst and the best end of an axis: fewer bits are better
WIDE = 125  # characters of a line below a figure
TOLD = {  # what a task asks
    "copy back": "say the token five places back",
    "induction": "go on with a block that comes again",
    "look-up": "say the value of a key that came before",
    "reverse": "say the text backwards, seeing all of it",
    "flip-flop": "say the value that was written last",
    "passkey": "say a key that was hidden in the text",
    "next character": "of Python's own library",
    "grid": "say the token one row up, one column to the left",
}


def place_of(scheme: str) -> str:
    """The place where position enters in a scheme, as the probe finds it.

    Args:
        scheme: name of the class, or what was done to a trained RoPE (``"Rotary, NTK-aware"``).
    Raises:
        KeyError: an unknown scheme.
    Example:
        >>> place_of("Alibi"), place_of("Rotary, NTK-aware")
        ('score', 'query and key')
    """
    return _place_of(scheme.split(",")[0])


@cache
def _place_of(name: str) -> str:
    return str(PROBES["place"](drawn(scheme_classes()[name])))


def colour_of(scheme: str) -> str:
    """The colour of the place where position enters in a scheme.

    Args:
        scheme: see :func:`place_of`.
    Example:
        >>> colour_of("Alibi"), colour_of("T5Bias"), colour_of("Shaw")
        ('C2', 'C2', 'C3')
    """
    return PLACES.get(place_of(scheme), ELSEWHERE)


def colours(schemes: Iterable[str]) -> dict[str, str]:
    """The colours of all places, for a legend; a place that is new with some of these schemes stands last.

    Args:
        schemes: see :func:`place_of`.
    Example:
        >>> list(colours(["Alibi"]))
        ['nowhere', 'input', 'query and key', 'score', 'score, value']
    """
    return PLACES | {place_of(scheme): colour_of(scheme) for scheme in schemes}


def colours_of_five() -> dict[str, str]:
    """A colour for each scheme of :data:`posenc_lib.lab.ranks.FIVE`: that of its place, but ALiBi has one of its own.

    Example:
        >>> colours_of_five()["T5Bias"], colours_of_five()["Alibi"]
        ('C2', 'C5')
    """
    return {name: "C5" if name == "Alibi" else colour_of(name) for name in FIVE}


def not_trained_yet(cells: Cells) -> str:
    """The schemes without a run, in words that stand below a figure; nothing if there is none.

    Args:
        cells: of a file, see :func:`posenc_lib.lab.statistics.table`.
    Example:
        >>> from posenc_lib.lab.statistics import table
        >>> not_trained_yet(table([], ["Alibi", "Fire"], ["grid"]))
        'not trained yet: ALiBi, FIRE'
    """
    run = {cell.scheme for cell in cells.values() if cell.seeds}
    new = [name for name in scheme_classes() if name not in run and any(name == scheme for scheme, _ in cells)]
    return textwrap.fill(f"not trained yet: {', '.join(map(name_of, new))}", WIDE) * bool(new)


def axis_of(task: str) -> tuple[float, float]:
    """The worst and the best end of the axis of a task.

    Raises:
        ValueError: an unknown task.
    Example:
        >>> axis_of("grid"), axis_of("next character")
        ((0.0, 1.0), (5.0, 1.8))
    """
    return BITS if TASKS[validate.choice("task", task, tuple(TASKS))].bits else (0.0, 1.0)


def reached(task: str, value: float) -> float:
    """How far a measure is from the worst end of its axis to the best, from 0 to 1.

    Args:
        task: one of ``TASKS``.
        value: an accuracy, or bits per character.
    Example:
        >>> reached("grid", 0.25), reached("next character", 5.5), round(reached("next character", 3.4), 3)
        (0.25, 0.0, 0.5)
    """
    worst, best = axis_of(task)
    return min(max((value - worst) / (best - worst), 0.0), 1.0)
