"""A trained T5, mended by hand: what its scores have for far keys is changed, and nothing is trained again.

    python -m posenc_lib.lab.contest notebooks/data/contest.jsonl --mended notebooks/data/mended.jsonl --jobs 2

makes what is missing in the second file, for T5's models of the first: all tasks with one seed before the next.
"""

import math
from collections.abc import Callable, Hashable, Iterable
from itertools import product
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.lab.contest import Entry, filled, learned
from posenc_lib.lab.contest import outdated as of_other_code
from posenc_lib.lab.near import ASKED
from posenc_lib.lab.remake import measured, remake
from posenc_lib.lab.statistics import Cell, cell_of
from posenc_lib.lab.training import one_thread
from posenc_lib.lab.trial import TASKS, _measure, code_version
from posenc_lib.lab.version import version
from posenc_lib.scheme import DistanceBias, PositionScheme

Key = TypeVar("Key", bound=Hashable)  # of a change
SCHEME = "T5Bias"
NEAR = 8  # distances whose numbers stay as they were learned
FLAT = (False, True)  # whether the others are replaced by one number that weighs as much
LOWER = (0.0, 1.0, 2.0, 3.0, 4.0)  # by how much they are lowered
SLOPES = (0.0, 0.02)  # by how much, per token, in all heads
WHERE = ("all", "first", "second")  # layers in which they are changed
SHOWN = 64  # distances whose bias is told: all of the training on text
CLAIMS = (  # of notebook 25: task, times the training length, then flat, lower, slope, layers of who is above, of whom
    ("induction", 2, (False, 2.0, 0.0, "all"), (False, 0.0, 0.0, "all")),
    ("induction", 8, (False, 2.0, 0.0, "all"), (False, 0.0, 0.0, "all")),
    ("induction", 8, (False, 4.0, 0.0, "all"), (False, 0.0, 0.0, "all")),
    ("induction", 1, (False, 0.0, 0.0, "all"), (False, 4.0, 0.0, "all")),
    ("induction", 8, (False, 4.0, 0.0, "all"), (False, 4.0, 0.02, "all")),
    ("induction", 8, (False, 3.0, 0.0, "all"), (False, 3.0, 0.02, "all")),
    ("induction", 8, (False, 4.0, 0.0, "first"), (False, 4.0, 0.0, "all")),
    ("induction", 8, (False, 4.0, 0.02, "first"), (False, 4.0, 0.02, "all")),
    ("induction", 8, (False, 4.0, 0.0, "all"), (False, 4.0, 0.0, "second")),
    ("induction", 2, (True, 0.0, 0.0, "second"), (False, 0.0, 0.0, "all")),
    ("induction", 2, (False, 0.0, 0.0, "all"), (True, 0.0, 0.0, "first")),
    ("induction", 2, (False, 0.0, 0.0, "all"), (True, 0.0, 0.0, "all")),
    ("induction", 2, (False, 2.0, 0.0, "first"), (False, 0.0, 0.0, "all")),
    ("induction", 2, (False, 2.0, 0.0, "first"), (False, 2.0, 0.0, "second")),
    ("induction", 8, (False, 4.0, 0.0, "first"), (False, 4.0, 0.0, "second")),
    ("induction", 8, (False, 1.0, 0.02, "all"), (False, 1.0, 0.0, "all")),
    ("induction", 8, (False, 1.0, 0.02, "all"), (False, 0.0, 0.02, "all")),
    ("induction", 8, (False, 4.0, 0.02, "all"), (False, 0.0, 0.0, "all")),
    ("induction", 2, (True, 2.0, 0.0, "all"), (False, 2.0, 0.0, "all")),
    ("induction", 2, (True, 4.0, 0.0, "all"), (False, 4.0, 0.0, "all")),
    ("copy back", 8, (False, 2.0, 0.0, "all"), (False, 0.0, 0.0, "all")),
    ("flip-flop", 8, (False, 0.0, 0.02, "all"), (False, 0.0, 0.0, "all")),
    ("flip-flop", 8, (False, 0.0, 0.02, "all"), (False, 2.0, 0.02, "all")),
    ("flip-flop", 8, (False, 2.0, 0.0, "all"), (False, 0.0, 0.0, "all")),
    ("flip-flop", 8, (False, 0.0, 0.0, "all"), (False, 4.0, 0.0, "all")),
    ("flip-flop", 8, (False, 0.0, 0.02, "first"), (False, 0.0, 0.0, "all")),
    ("flip-flop", 8, (False, 0.0, 0.02, "second"), (False, 0.0, 0.0, "all")),
    ("flip-flop", 8, (False, 0.0, 0.02, "all"), (False, 0.0, 0.02, "second")),
    ("flip-flop", 8, (False, 0.0, 0.02, "all"), (False, 0.0, 0.02, "first")),
    ("flip-flop", 8, (False, 0.0, 0.0, "all"), (False, 4.0, 0.02, "all")),
    ("flip-flop", 8, (False, 4.0, 0.0, "first"), (False, 0.0, 0.0, "all")),
    ("flip-flop", 8, (False, 0.0, 0.0, "all"), (False, 4.0, 0.0, "second")),
)


class FarKeys(DistanceBias):
    """The bias of another scheme, changed for all distances from ``near`` on.

    Args:
        scheme: whose bias it is.
        near: n of the nearest distances that are left as they are, 0 to n - 1.
        length: L of the texts, which have distances up to L - 1.
        flat: whether the others are replaced, in each head, by one number: the logarithm of the mean of their
            exponentials over the distances of such a text, so that keys of equal content keep their weight together.
        lower: what is subtracted from all of them.
        slope: what is subtracted beside for every token beyond n.
    Raises:
        ValueError: ``near`` that is not positive or leaves no distance, a number that is not finite.
    Example:
        >>> from posenc_lib import Alibi
        >>> scheme = FarKeys(Alibi(4), near=2, length=4, flat=True, lower=1.0, slope=0.1)
        >>> scheme.distance_bias(-torch.arange(1, 5))[0]
        tensor([-0.2500, -1.6172, -1.7172, -1.8172], dtype=torch.float64)
    """

    name = "T5, mended"

    def __init__(
        self, scheme: DistanceBias, near: int, length: int, flat: bool = False, lower: float = 0.0, slope: float = 0.0
    ):
        super().__init__()
        self.scheme, self.near, self.flat = scheme, validate.integer("near", near, at_least=1), flat
        self.length = validate.integer("length", length, at_least=near + 1)
        self.lower, self.slope = validate.real("lower", lower), validate.real("slope", slope)

    def scale(self, head_dim: int) -> float:
        """That of the other scheme."""
        return self.scheme.scale(head_dim)

    def distance_bias(self, relative_position: Tensor) -> Tensor:
        """(H, R) bias for the relative positions (R,)."""
        bias, distance = self.scheme.distance_bias(relative_position), relative_position.abs()
        far = bias
        if self.flat:
            others = -torch.arange(self.near, self.length, device=distance.device)
            far = self.scheme.distance_bias(others).logsumexp(1, keepdim=True) - math.log(len(others))
        return torch.where(distance < self.near, bias, far - self.lower - self.slope * (distance - self.near))


def changed_in(where: str, scheme: PositionScheme, other: PositionScheme, layers: int) -> nn.ModuleList:
    """The schemes of a model's layers, with another one in all, in the first or in the second.

    Args:
        where: one of ``WHERE``.
        scheme: of the other layers.
        other: of those named.
        layers: how many there are.
    Raises:
        ValueError: an unknown name.
    Example:
        >>> from posenc_lib import Alibi, NoPosition
        >>> [one.name for one in changed_in("second", NoPosition(), Alibi(4), 3)]
        ['none', 'ALiBi', 'none']
    """
    number = {"first": 0, "second": 1}.get(validate.choice("where", where, WHERE))
    return nn.ModuleList(other if number in (None, layer) else scheme for layer in range(layers))


@one_thread()
def mended(**trial: Any) -> dict[str, Any]:
    """Train a T5 of the contest again, and test it with every choice of ``FLAT``, ``LOWER``, ``SLOPES`` and ``WHERE``.

    Args:
        trial: arguments of :func:`posenc_lib.lab.trial.trial`.
    Returns:
        measure: by length, that of the contest, made again. learned: the bias of each head, by distance. mended: for
        each choice its flat, lower, slope and layers, and the measure by length, flat in texts of each length anew.
        version: of the code that decides all this.
    """
    model = remake(**trial)
    scheme = cast(DistanceBias, model.scheme)
    with torch.no_grad():
        bias = scheme.distance_bias(-torch.arange(SHOWN))
    before, after = measured(model, **trial), []
    for flat, lower, slope, where in product(FLAT, LOWER, SLOPES, WHERE):
        measure = {}
        for n in TASKS[trial["task"]].lengths(trial["length"]):
            model.scheme = changed_in(where, scheme, FarKeys(scheme, NEAR, n, flat, lower, slope), len(model.blocks))
            measure[str(n)] = _measure(model, TASKS[trial["task"]], n)
        after.append({"flat": flat, "lower": lower, "slope": slope, "layers": where, "measure": measure})
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
    return version(
        [FarKeys, changed_in],
        [code_version(scheme, task, length, width, heads), NEAR, FLAT, LOWER, SLOPES, WHERE, SHOWN],
    )


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


def mended_cells(found: Iterable[Entry]) -> dict[tuple[bool, float, float, str, str], Cell]:
    """A cell for every choice of flat, lower, slope and layers, and every task.

    Args:
        found: entries of the file that :func:`make` makes.
    Raises:
        ValueError: two runs with one seed, runs of several versions of the code in a cell.
    Example:
        >>> from posenc_lib.lab.contest import Entry
        >>> one = {"flat": True, "lower": 2.0, "slope": 0.0, "layers": "all", "measure": {"32": 0.9}}
        >>> found = [Entry({"task": "passkey", "seed": 0}, {"mended": [one], "version": "0"})]
        >>> mended_cells(found)[True, 2.0, 0.0, "all", "passkey"].measures
        {32: (0.9,)}
    """

    def told(entry: Entry) -> Iterable[tuple[tuple[bool, float, float, str, str], dict[str, float]]]:
        for one in entry.result["mended"]:
            yield (one["flat"], one["lower"], one["slope"], one["layers"], entry.setting["task"]), one["measure"]

    return changed_cells(found, told, lambda key: (SCHEME, key[-1]))


def changed_cells(
    found: Iterable[Entry],
    told: Callable[[Entry], Iterable[tuple[Key, dict[str, float]]]],
    named: Callable[[Key], tuple[str, str]],
) -> dict[Key, Cell]:
    """A cell for every change of trained models, all of which learned their task.

    Args:
        found: entries, each with the measures after several changes.
        told: of an entry the key of each change, and the measure by length then.
        named: of a key the scheme and the task of its cell.
    Raises:
        ValueError: two runs with one seed, runs of several versions of the code in a cell.
    Example:
        >>> from posenc_lib.lab.contest import Entry
        >>> found = [Entry({"task": "passkey", "seed": 0}, {"version": "0"})]
        >>> changed_cells(found, lambda _: [("lower", {"32": 0.9})], lambda _: ("T5Bias", "passkey"))["lower"].measures
        {32: (0.9,)}
    """
    runs: dict[Key, list[tuple[Entry, dict[str, float]]]] = {}
    for setting, result in sorted(found, key=lambda entry: entry.setting["seed"]):
        entry = Entry(setting, result | {"met": True, "loss": 0.0})
        for key, measure in told(entry):
            runs.setdefault(key, []).append((entry, measure))
    return {
        key: cell_of(*named(key), [entry for entry, _ in mine], [measure for _, measure in mine])
        for key, mine in runs.items()
    }
