"""Models with numbers of their own for near distances, whose far keys are lowered in one layer: does a crowd harm them?

    python -m posenc_lib.lab.contest notebooks/data/contest.jsonl --crowd notebooks/data/crowd.jsonl --jobs 2

makes what is missing in the second file, of the models of "induction" with a fall that stand in ``near.jsonl`` beside
it. Nothing is trained that is not there, too.
"""

import copy
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from posenc_lib import validate
from posenc_lib.lab.contest import RATES_SEED, Entry, entries, filled
from posenc_lib.lab.mended import NEAR, FarKeys, changed_cells, changed_in
from posenc_lib.lab.near import Near, near_model, near_version
from posenc_lib.lab.remake import measured
from posenc_lib.lab.statistics import Cell
from posenc_lib.lab.training import one_thread
from posenc_lib.lab.trial import TASKS, _measure
from posenc_lib.lab.version import version

TASK = "induction"
NUMBERS = (4, 8, 32)  # of distances with a number of their own
LOWER = 2.0  # by how much far keys are lowered
LOWERED = ("first", "second")  # far keys lowered in that layer
FLAT = ("flat first", "flat second", "lowered, flat")  # numbers from NEAR on made equal there; or after a lowered first
CHANGES = LOWERED + FLAT
CLAIMS = (  # of notebook 25: how many times the training length, how many numbers, who is above, and below
    *((8, count, "first", "") for count in NUMBERS),
    *((8, count, "first", "second") for count in NUMBERS),
    (8, 32, "first", "flat first"),
    (2, 32, "flat second", ""),
    (2, 32, "", "flat first"),
    (2, 32, "lowered, flat", "first"),
    (2, 32, "lowered, flat", "flat second"),
)


def changed(scheme: Near, change: str, length: int, layers: int = 2) -> nn.ModuleList:
    """The scheme of each layer after one of ``CHANGES``.

    Args:
        scheme: of all layers as trained.
        change: one of ``CHANGES``; with "lowered, flat" all layers but the second are lowered. Far keys are those from
            ``NEAR`` on, or from the last number on if that is nearer.
        length: L of the texts.
        layers: how many there are.
    Raises:
        ValueError: an unknown change, or no number beyond ``NEAR`` to be made equal.
    Example:
        >>> from posenc_lib.lab.near import Near
        >>> first, second = changed(Near(2, count=4, falls=True), "first", length=8)
        >>> (second.distance_bias(torch.tensor([-3, -4])) - first.distance_bias(torch.tensor([-3, -4])))[0].tolist()
        [0.0, 2.0]
    """
    lowered = FarKeys(scheme, min(scheme.count, NEAR), length, lower=LOWER)
    if validate.choice("change", change, CHANGES) in LOWERED:
        return changed_in(change, scheme, lowered, layers)
    if scheme.count <= NEAR:
        raise ValueError(f"scheme must have more than {NEAR} numbers to be made flat, got {scheme.count}")
    level = copy.deepcopy(scheme)
    with torch.no_grad():
        level.near[NEAR:] = level.near[NEAR:].logsumexp(0) - math.log(scheme.count - NEAR)
    if change == "flat first":
        return changed_in("first", scheme, level, layers)
    return changed_in("second", lowered if change == "lowered, flat" else scheme, level, layers)


@one_thread()
def crowd(**run: Any) -> dict[str, Any]:
    """Train one of these models again, and test it as trained and after every change that it allows.

    Args:
        run: arguments of :func:`posenc_lib.lab.near.near`.
    Returns:
        measure: by length, that of ``near.jsonl``, made again; changed: for each change the measure by length; version:
        of the code that decides all this.
    """
    model, _ = near_model(**run)
    scheme, contest = cast(Near, model.scheme), TASKS[run["task"]]
    after: dict[str, dict[str, float]] = {}
    before = measured(model, task=run["task"], length=run["length"])
    for change in CHANGES:
        if change in FLAT and run["count"] <= NEAR:
            continue
        after[change] = {}
        for n in contest.lengths(run["length"]):
            model.scheme = changed(scheme, change, n, run["layers"])
            after[change][str(n)] = _measure(model, contest, n)
    return {"measure": before, "changed": after, "version": crowd_version()}


def crowd_version() -> str:
    """Digest of the code and the settings that decide a result of :func:`crowd`.

    Example:
        >>> from posenc_lib.lab.near import near_version
        >>> crowd_version() == near_version("induction")
        False
    """
    return version([changed], [near_version(TASK), NUMBERS, LOWER])


def trials(found: Iterable[Entry]) -> list[dict[str, Any]]:
    """The models that are changed, of the entries of ``near.jsonl``: those of the five seeds, at their chosen rates.

    Args:
        found: see :func:`posenc_lib.lab.contest.entries`.
    """
    settings = [entry.setting for entry in found]
    wanted = [s for s in settings if s["task"] == TASK and s["falls"] and s["count"] in NUMBERS]
    return [setting for setting in wanted if setting["seed"] != RATES_SEED]


def outdated(found: Iterable[Entry]) -> list[Entry]:
    """The entries that other code has made than that which is here."""
    return [entry for entry in found if entry.result["version"] != crowd_version()]


def make(found: Iterable[Entry], path: str | Path, jobs: int | None = None) -> list[Entry]:
    """Make what is missing in a file, and return its entries.

    Args:
        found: of a contest, which is not needed: the models are those of ``near.jsonl`` beside ``path``.
        path: of the file.
        jobs: see :func:`posenc_lib.lab.sweep.sweep`.
    """
    return filled(crowd, trials(entries(Path(path).with_name("near.jsonl"))), path, jobs)


def crowd_cells(found: Iterable[Entry]) -> dict[tuple[int, str], Cell]:
    """A cell for every number of distances as trained, "", and after every change.

    Args:
        found: entries of the file that :func:`make` makes.
    Raises:
        ValueError: two runs with one seed, runs of several versions of the code in a cell.
    Example:
        >>> from posenc_lib.lab.contest import Entry
        >>> made = {"measure": {"256": 0.5}, "changed": {"first": {"256": 0.9}}, "version": "0"}
        >>> crowd_cells([Entry({"task": "induction", "count": 4, "seed": 0}, made)])[4, "first"].measures
        {256: (0.9,)}
    """

    def told(entry: Entry) -> Iterable[tuple[tuple[int, str], dict[str, float]]]:
        for change, measure in {"": entry.result["measure"], **entry.result["changed"]}.items():
            yield (entry.setting["count"], change), measure

    return changed_cells(found, told, lambda key: (f"{key[0]} free", TASK))
