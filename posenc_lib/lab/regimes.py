"""Other regimes of training: the contest stops when a task is learned, in texts of one length. What if it does not?

    python -m posenc_lib.lab.contest notebooks/data/contest.jsonl --regimes notebooks/data/regimes.jsonl --jobs 2

makes what is missing in the second file, for some schemes of the first: all of them with one seed before the next.
"""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

from posenc_lib import validate
from posenc_lib.lab.catalog import name_of
from posenc_lib.lab.claims import Statement
from posenc_lib.lab.contest import RATES_SEED, SMALL, Entry, Size, filled
from posenc_lib.lab.contest import outdated as of_other_code
from posenc_lib.lab.remake import remake
from posenc_lib.lab.statistics import Cell, cell_of, of_size
from posenc_lib.lab.training import one_thread
from posenc_lib.lab.trial import MET, TASKS, Contest, _look, _measure, code_version
from posenc_lib.lab.version import version

LEARNED = "until learned"  # the contest's
TO_THE_END, MIXED = "to the maximum", "mixed lengths"  # the second to the maximum, too
REGIMES = (TO_THE_END, MIXED)
SHORTEST = 3 / 8  # of the training length, in mixed lengths
SCHEMES = ("NoPosition", "T5Bias", "Alibi", "Rotary", "Sinusoidal")
ONE_RATE = Size(own_rate=1)  # for T5's numbers, too, that have another by its setting


def _order(regime: str, task: str, times: int, above: str, below: str) -> tuple[str, Statement]:
    """A claim that the mean of one scheme lies above that of another."""
    words = f"{task}, {times} x: {name_of(above)} above {name_of(below)}"
    return regime, Statement(regime, words, task, (above, times), (below, times))


CLAIMS = (  # of notebook 20, with the regime in which they are said
    _order(LEARNED, "passkey", 4, "T5Bias", "NoPosition"),
    _order(TO_THE_END, "passkey", 4, "T5Bias", "NoPosition"),
    _order(MIXED, "passkey", 4, "NoPosition", "T5Bias"),
    *(_order(regime, "passkey", 8, "Alibi", "T5Bias") for regime in (TO_THE_END, MIXED)),
)


@one_thread()
def regime(regime: str, **trial: Any) -> dict[str, Any]:
    """Train as a trial of the contest does, but for the regime, and test as it does.

    Args:
        regime: one of ``REGIMES``. Both make the maximum of updates; with mixed lengths every batch has a length of its
            own, from ``SHORTEST`` of the training length to all of it.
        trial: arguments of :func:`posenc_lib.lab.trial.trial`.
    Returns:
        met, loss, measure: as the trial has them. version: of the code that decides all this.
    Raises:
        ValueError: an unknown regime.
    """
    contest = TASKS[trial["task"]]
    model = remake(**trial, instead=in_regime(contest, regime))
    loss, right = _look(model, contest, trial["length"])
    return {
        "met": math.isfinite(loss) if contest.bits else right >= MET,
        "loss": round(loss, 4) if math.isfinite(loss) else None,
        "measure": {str(n): _measure(model, contest, n) for n in contest.lengths(trial["length"])},
        "version": regime_version(**trial),
    }


def in_regime(contest: Contest, regime: str) -> Contest:
    """A task as the training of a regime has it: without a look at what is learned so far.

    Example:
        >>> from posenc_lib.lab.trial import TASKS
        >>> in_regime(TASKS["passkey"], "to the maximum").task is TASKS["passkey"].task
        True
    """
    mixed = validate.choice("regime", regime, REGIMES) == MIXED
    return contest._replace(bits=True, task=mixed_lengths(contest) if mixed else contest.task)


def mixed_lengths(contest: Contest) -> Callable[..., tuple[Tensor, Tensor]]:
    """Its task, in texts of a length that every batch draws, on a grid of a number of rows.

    Example:
        >>> from posenc_lib.lab.trial import TASKS
        >>> draw, generator = mixed_lengths(TASKS["look-up"]), torch.Generator().manual_seed(0)
        >>> [draw(1, 32, generator)[0].shape[1] for batch in range(5)]
        [23, 23, 29, 13, 23]
    """

    def draw(batch: int, length: int, generator: Generator, **options: Any) -> tuple[Tensor, Tensor]:
        power = 2 if contest.grid else 1
        least, most = (round(part ** (1 / power)) for part in (SHORTEST * length, length))
        drawn = int(torch.randint(least, most + 1, (), generator=generator)) ** power
        return contest.task(batch, drawn, generator, **options)

    return draw


def regime_version(scheme: str, task: str, length: int, width: int = 64, heads: int = 4, **others: Any) -> str:
    """Digest of the code and the settings that decide a result of :func:`regime`.

    Example:
        >>> from posenc_lib.lab.trial import code_version
        >>> regime_version("Alibi", "passkey", 32) == code_version("Alibi", "passkey", 32)
        False
    """
    return version([in_regime, mixed_lengths], [code_version(scheme, task, length, width, heads), SHORTEST])


def trials(found: Iterable[Entry]) -> list[dict[str, Any]]:
    """Of the entries of a contest those that are trained again, seed by seed, learned or not; both regimes of each.

    A model of text is always trained to the maximum, and only its lengths are mixed. T5 is trained at one rate, too.

    Args:
        found: see :func:`posenc_lib.lab.contest.entries`.
    """
    found = list(found)
    small = [entry.setting for size in (SMALL, ONE_RATE) for entry in of_size(found, size)]
    mine = [s for s in small if s["scheme"] in SCHEMES and s["seed"] != RATES_SEED]
    mine.sort(key=lambda s: (s["seed"], SCHEMES.index(s["scheme"]), list(TASKS).index(s["task"]), "own_rate" in s))
    wanted = [setting | {"regime": regime} for setting in mine for regime in REGIMES]
    return [one for one in wanted if one["regime"] == MIXED or not TASKS[one["task"]].bits]


def outdated(found: Iterable[Entry]) -> list[Entry]:
    """The entries that other code has made than that which is here."""
    return of_other_code(found, regime_version)


def make(found: Iterable[Entry], path: str | Path, jobs: int | None = None) -> list[Entry]:
    """Make what is missing in a file, and return its entries for these of a contest.

    Args:
        found: see :func:`posenc_lib.lab.contest.entries`.
        path: of the file.
        jobs: see :func:`posenc_lib.lab.sweep.sweep`.
    """
    return filled(regime, trials(found), path, jobs)


def cells_in(regime: str, found: Iterable[Entry], own_rate: int | None = None) -> dict[tuple[str, str], Cell]:
    """A cell for every scheme and task of a regime.

    Args:
        regime: one of ``REGIMES``.
        found: entries of the file that :func:`make` makes.
        own_rate: at which the scheme's numbers learn, in learning rates of the model; that of its setting if None.
    Raises:
        ValueError: an unknown regime; two runs with one seed, runs of several versions of the code in a cell.
    Example:
        >>> from posenc_lib.lab.contest import Entry
        >>> setting = {"scheme": "Alibi", "task": "passkey", "seed": 0, "regime": "mixed lengths"}
        >>> made = Entry(setting, {"met": True, "loss": 0.1, "measure": {"32": 0.9}, "version": "0"})
        >>> cells_in("mixed lengths", [made])["Alibi", "passkey"].measures
        {32: (0.9,)}
    """
    validate.choice("regime", regime, REGIMES)
    runs: dict[tuple[str, str], list[Entry]] = {}
    for entry in sorted(found, key=lambda entry: entry.setting["seed"]):
        if entry.setting["regime"] == regime and entry.setting.get("own_rate") == own_rate:
            runs.setdefault((entry.setting["scheme"], entry.setting["task"]), []).append(entry)
    return {pair: cell_of(*pair, mine, [entry.result["measure"] for entry in mine]) for pair, mine in runs.items()}
