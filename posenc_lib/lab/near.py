"""Why one scheme leads another, put to the test: a fall as ALiBi's or none, and numbers for the nearest distances.

    python -m posenc_lib.lab.contest notebooks/data/contest.jsonl --near notebooks/data/near.jsonl --jobs 2

makes what is missing in the second file, by the rules of the contest; of the first it needs nothing. The two tasks in
which a token sees both sides are left out: a number for a distance says nothing about the side.
"""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.lab.claims import TEXT, Statement
from posenc_lib.lab.contest import RATES, RATES_SEED, SEEDS, SMALL, Entry, best_rate, filled
from posenc_lib.lab.model import TinyTransformer
from posenc_lib.lab.remake import measured
from posenc_lib.lab.settings import setting
from posenc_lib.lab.statistics import MARGIN, Cell, cell_of
from posenc_lib.lab.training import one_thread
from posenc_lib.lab.trial import MET, TASKS, _look, _measure, _train
from posenc_lib.lab.version import version
from posenc_lib.scheme import DistanceBias
from posenc_lib.schemes.alibi import Alibi

COUNTS = (2, 4, 8, 32)  # of the nearest distances that have a number of their own
ASKED = tuple(task for task, contest in TASKS.items() if contest.causal and not contest.grid)


def _order(task: str, times: int, above: str, below: str, margin: float = MARGIN) -> Statement:
    """A claim that the mean of one lies above that of another; on text it needs more bits."""
    between = " needs more bits than " if task == TEXT else " above "
    return Statement(
        "near", f"{task}, {times} x: {above}{between}{below}", task, (above, times), (below, times), margin
    )


CLAIMS = (  # of notebook 25
    Statement("near", "copy back, 8 x: eight numbers and the fall above .98", "copy back", ("Alibi, 8 free", 8), 0.98),
    _order("induction", 2, "Alibi, 2 free", "Alibi"),
    *(_order("induction", 8, f"Alibi, {n} free", f"Alibi, {more} free") for n, more in ((2, 4), (4, 8), (8, 32))),
    _order("induction", 2, "Alibi, 8 free", "Alibi, 32 free"),
    _order("flip-flop", 8, "Alibi, 32 free", "Alibi"),
    *(_order(TEXT, 8, "Alibi", f"Alibi, {n} free") for n in (4, 8, 32)),
    *(_order(task, 8, "Alibi, 8 free", "NoPosition, 8 free") for task in ASKED if task not in (TEXT, "look-up")),
    _order(TEXT, 8, "NoPosition, 8 free", "Alibi, 8 free"),
    _order("flip-flop", 2, "Alibi, 8 free", "NoPosition, 8 free"),
)


class Near(DistanceBias):
    """For each head a learned number, which starts at 0, for each of the nearest distances; and ALiBi's fall, or none.

    Args:
        num_heads: H.
        count: n of the distances, 0 to n - 1.
        falls: whether ALiBi's penalty is subtracted at all distances. If not, all of them from n on are alike.
    Raises:
        ValueError: a number that is not positive.
    Example:
        >>> relative_position = torch.tensor([-2, -1, 0])
        >>> Near(4, count=2, falls=True).distance_bias(relative_position)[0].detach()
        tensor([-0.5000, -0.2500,  0.0000], dtype=torch.float64)
        >>> Near(4, count=2, falls=False).distance_bias(relative_position)[0].detach()
        tensor([0., 0., 0.], dtype=torch.float64)
    """

    name = "near"

    def __init__(self, num_heads: int, count: int, falls: bool):
        super().__init__()
        self.count = validate.integer("count", count, at_least=1)
        self.near = nn.Parameter(torch.zeros(count, validate.integer("num_heads", num_heads, at_least=1)))
        self.fall = Alibi(num_heads) if falls else None

    def distance_bias(self, relative_position: Tensor) -> Tensor:
        """(H, R) float64 bias for the relative positions (R,)."""
        distance = relative_position.abs()
        free = self.near[distance.clamp(max=self.count - 1)].T.double() * (distance < self.count)
        return free if self.fall is None else free + self.fall.distance_bias(relative_position)


@one_thread()
def near_model(
    count: int,
    falls: bool,
    task: str,
    seed: int,
    learning_rate: float,
    length: int,
    maximum: int,
    layers: int,
    width: int,
    heads: int,
) -> tuple[TinyTransformer, int]:
    """Train a model as a trial of the contest does; the free numbers learn at the rate of T5's.

    Args:
        count, falls: see :class:`Near`.
        task, seed, learning_rate, length, maximum, layers, width, heads: see :func:`posenc_lib.lab.trial.trial`.
    Returns:
        The model, and after how many updates.
    """
    contest = TASKS[validate.choice("task", task, ASKED)]
    scheme = Near(heads, count, falls)
    model = TinyTransformer(scheme, contest.vocabulary, dim=width, num_heads=heads, num_layers=layers, seed=seed)
    return model, _train(model, contest, length, maximum, learning_rate, seed, setting("T5Bias").rate)


@one_thread()
def near(count: int, falls: bool, task: str, seed: int, learning_rate: float, **sizes: int) -> dict[str, Any]:
    """Train a model and test it as a trial of the contest does.

    Args:
        count, falls, task, seed, learning_rate, sizes: see :func:`near_model`.
    Returns:
        met, updates, loss, measure: as the trial has them; learned: the numbers of each head, by distance; version: of
        the code that decides all this.
    """
    model, updates = near_model(count, falls, task, seed, learning_rate, **sizes)
    contest, scheme, length = TASKS[task], cast(Near, model.scheme), sizes["length"]
    loss, right = _look(model, contest, length)
    return {
        "met": math.isfinite(loss) if contest.bits else right >= MET,
        "updates": updates,
        "loss": round(loss, 4) if math.isfinite(loss) else None,
        "measure": measured(model, task=task, length=length),
        "learned": [[round(number, 2) for number in numbers] for numbers in scheme.near.T.tolist()],
        "version": near_version(task),
    }


def near_version(task: str) -> str:
    """Digest of the code and the settings that decide a result of :func:`near`.

    Example:
        >>> near_version("passkey") == near_version("look-up")
        False
    """
    contest = TASKS[task]
    roots: list[Any] = [Near, TinyTransformer, contest.task, _train, _measure]
    return version(roots, [setting("T5Bias").rate, *contest.decides()])


def wanted(count: int, falls: bool, task: str, seed: int, learning_rate: float) -> dict[str, Any]:
    """The arguments of one run.

    Example:
        >>> wanted(8, True, "look-up", 0, 0.001)["maximum"]
        2000
    """
    contest = TASKS[validate.choice("task", task, ASKED)]
    model = {"layers": SMALL.layers, "width": SMALL.width, "heads": SMALL.heads}
    sizes = {"length": contest.length, "maximum": contest.maximum} | model
    return {"count": count, "falls": falls, "task": task, "seed": seed, "learning_rate": learning_rate} | sizes


def outdated(found: Iterable[Entry]) -> list[Entry]:
    """The entries that other code has made than that which is here."""
    return [entry for entry in found if entry.result["version"] != near_version(entry.setting["task"])]


def make(found: Iterable[Entry], path: str | Path, jobs: int | None = None) -> list[Entry]:
    """Make what is missing in a file, first what the rates are chosen by, and return its entries.

    Args:
        found: of a contest, which is not needed: the rules are the same, the models are others.
        path: of the file.
        jobs: see :func:`posenc_lib.lab.sweep.sweep`.
    """
    models = [(count, falls, task) for task in ASKED for count in COUNTS for falls in (True, False)]
    tried = filled(near, [wanted(*one, RATES_SEED, rate) for one in models for rate in RATES], path, jobs)
    results = [entry.result for entry in tried]
    rates = {
        one: best_rate(one[-1], dict(zip(RATES, results[n * len(RATES) : (n + 1) * len(RATES)], strict=True)))
        for n, one in enumerate(models)
    }
    return tried + filled(near, [wanted(*one, seed, rates[one]) for seed in SEEDS for one in models], path, jobs)


def near_cells(found: Iterable[Entry]) -> dict[tuple[str, str], Cell]:
    """A cell for every number of free distances, by a name as of a scheme, and every task.

    Args:
        found: entries of the file that :func:`make` makes.
    Raises:
        ValueError: two runs with one seed, runs of several versions of the code in a cell.
    Example:
        >>> from posenc_lib.lab.contest import Entry
        >>> from posenc_lib.lab.near import wanted
        >>> made = {"met": True, "loss": 0.1, "measure": {"32": 0.9}, "version": "0"}
        >>> near_cells([Entry(wanted(8, True, "look-up", 0, 0.001), made)])["Alibi, 8 free", "look-up"].measures
        {32: (0.9,)}
    """
    runs: dict[tuple[str, str], list[Entry]] = {}
    for entry in sorted(found, key=lambda entry: entry.setting["seed"]):
        if entry.setting["seed"] != RATES_SEED:
            name = free(entry.setting["count"], entry.setting["falls"])
            runs.setdefault((name, entry.setting["task"]), []).append(entry)
    return {pair: cell_of(*pair, mine, [entry.result["measure"] for entry in mine]) for pair, mine in runs.items()}


def free(count: int, falls: bool) -> str:
    """The name of so many free distances with or without a fall, as of a scheme; with none it is that scheme's own.

    Example:
        >>> free(8, falls=True), free(0, falls=True), free(0, falls=False)
        ('Alibi, 8 free', 'Alibi', 'NoPosition')
    """
    return ("Alibi" if falls else "NoPosition") + f", {count} free" * (count > 0)
