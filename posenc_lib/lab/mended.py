"""A trained T5, mended by hand: its numbers for far distances are replaced by a fall, and nothing is trained again.

    python -m posenc_lib.lab.contest notebooks/data/contest.jsonl --mended notebooks/data/mended.jsonl --jobs 2

makes what is missing in the second file, for T5's models of the first: all tasks with one seed before the next.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from posenc_lib import validate
from posenc_lib.lab.contest import Entry, filled, learned
from posenc_lib.lab.contest import outdated as of_other_code
from posenc_lib.lab.near import ASKED
from posenc_lib.lab.remake import measured, remake
from posenc_lib.lab.statistics import Cell, cell_of
from posenc_lib.lab.training import one_thread
from posenc_lib.lab.trial import code_version
from posenc_lib.lab.version import version
from posenc_lib.scheme import DistanceBias

SCHEME = "T5Bias"
KEPT = (16, 8, 4, 2)  # of the nearest distances, whose numbers stay as they were learned
SLOPES = (0.0, 0.02, 0.05, 0.1)  # per token, of all heads
SHOWN = 64  # distances whose bias is told: all of the training on text
CLAIMS = (  # of notebook 20: task, times the training length, kept, slope, and the scheme that T5 is surely above then
    ("induction", 2, 8, 0.0, "T5Bias"),
    ("induction", 8, 8, 0.0, "T5Bias"),
    ("induction", 8, 8, 0.02, "T5Bias"),
    ("copy back", 8, 8, 0.02, "T5Bias"),
    ("flip-flop", 8, 8, 0.02, "T5Bias"),
    ("flip-flop", 8, 8, 0.02, "Kerple"),
)


class FarFall(DistanceBias):
    """The bias of another scheme at near distances; from ``kept`` on its mean over those of the training, and a fall.

    Args:
        scheme: whose bias it is.
        kept: n of the nearest distances that are left as they are, 0 to n - 1.
        length: L of the texts in training, which have distances up to L - 1.
        slope: of the fall, per token.
    Raises:
        ValueError: ``kept`` that is not positive or leaves no distance of the training, a slope that is not finite.
    Example:
        >>> from posenc_lib import Alibi
        >>> scheme = FarFall(Alibi(4), kept=2, length=4, slope=0.1)
        >>> scheme.distance_bias(-torch.arange(5))[0]
        tensor([-0.0000, -0.2500, -0.6250, -0.7250, -0.8250], dtype=torch.float64)
    """

    name = "T5 with a fall"

    def __init__(self, scheme: DistanceBias, kept: int, length: int, slope: float):
        super().__init__()
        self.scheme, self.kept = scheme, validate.integer("kept", kept, at_least=1)
        self.length = validate.integer("length", length, at_least=kept + 1)
        self.slope = validate.real("slope", slope)

    def scale(self, head_dim: int) -> float:
        """That of the other scheme."""
        return self.scheme.scale(head_dim)

    def distance_bias(self, relative_position: Tensor) -> Tensor:
        """(H, R) bias for the relative positions (R,)."""
        distance = relative_position.abs()
        far = -torch.arange(self.kept, self.length, device=distance.device)
        level = self.scheme.distance_bias(far).mean(1, keepdim=True)
        fall = level - self.slope * (distance - self.kept)
        return torch.where(distance < self.kept, self.scheme.distance_bias(relative_position), fall)


@one_thread()
def mended(**trial: Any) -> dict[str, Any]:
    """Train a T5 of the contest again, and test it with each of ``KEPT`` and ``SLOPES``.

    Args:
        trial: arguments of :func:`posenc_lib.lab.trial.trial`.
    Returns:
        measure: by length, that of the contest, made again. learned: the bias of each head, by distance. mended: by
        kept distances, by slope, by length, the measure then. version: of the code that decides all this.
    """
    model = remake(**trial)
    scheme = cast(DistanceBias, model.scheme)
    with torch.no_grad():
        bias = scheme.distance_bias(-torch.arange(SHOWN))
    before = measured(model, **trial)
    after: dict[str, dict[str, dict[str, float]]] = {}
    for kept in KEPT:
        for slope in SLOPES:
            model.scheme = FarFall(scheme, kept, trial["length"], slope)
            after.setdefault(str(kept), {})[str(slope)] = measured(model, **trial)
    return {
        "measure": before,
        "learned": [[round(number, 2) for number in numbers] for numbers in bias.tolist()],
        "mended": after,
        "version": mended_version(**trial),
    }


def mended_version(scheme: str, task: str, length: int, width: int = 64, heads: int = 4, **_: Any) -> str:
    """Digest of the code and the settings that decide a result of :func:`mended`.

    Example:
        >>> from posenc_lib.lab.trial import code_version
        >>> mended_version("T5Bias", "passkey", 32) == code_version("T5Bias", "passkey", 32)
        False
    """
    return version([FarFall], [code_version(scheme, task, length, width, heads), KEPT, SLOPES, SHOWN])


def trials(found: Iterable[Entry]) -> list[dict[str, Any]]:
    """Of the entries of a contest those that are mended, seed by seed.

    Args:
        found: see :func:`posenc_lib.lab.contest.entries`.
    """
    return learned(found, (SCHEME,), ASKED)


def outdated(found: Iterable[Entry]) -> list[Entry]:
    """The entries that other code has made than that which is here."""
    return of_other_code(found, mended_version)


def make(found: Iterable[Entry], path: str | Path, jobs: int | None = None) -> list[Entry]:
    """Make what is missing in a file, and return its entries for these of a contest.

    Args:
        found: see :func:`posenc_lib.lab.contest.entries`.
        path: of the file.
        jobs: see :func:`posenc_lib.lab.sweep.sweep`.
    """
    return filled(mended, trials(found), path, jobs)


def mended_cells(found: Iterable[Entry]) -> dict[tuple[int, float, str], Cell]:
    """A cell for every number of kept distances, slope and task.

    Args:
        found: entries of the file that :func:`make` makes.
    Raises:
        ValueError: two runs with one seed, runs of several versions of the code in a cell.
    Example:
        >>> from posenc_lib.lab.contest import Entry
        >>> made = {"mended": {"8": {"0.02": {"32": 0.9}}}, "version": "0"}
        >>> mended_cells([Entry({"task": "passkey", "seed": 0}, made)])[8, 0.02, "passkey"].measures
        {32: (0.9,)}
    """
    runs: dict[tuple[int, float, str], list[Entry]] = {}
    for setting, result in sorted(found, key=lambda entry: entry.setting["seed"]):
        entry = Entry(setting, result | {"met": True, "loss": 0.0})  # only models that learned are mended
        for kept, by_slope in result["mended"].items():
            for slope in by_slope:
                runs.setdefault((int(kept), float(slope), setting["task"]), []).append(entry)
    return {
        key: cell_of(SCHEME, key[-1], mine, [e.result["mended"][str(key[0])][str(key[1])] for e in mine])
        for key, mine in runs.items()
    }
