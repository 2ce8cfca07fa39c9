"""The contest: every scheme in the setting of its authors, every task, a rate of its own, five seeds.

    python -m posenc_lib.lab.contest notebooks/data/contest.jsonl --jobs 2

makes what is missing in the file that notebook 20 reads: first three learning rates for each scheme and task on a seed
of their own, then the seeds, all schemes with one before the next. An interrupted file is a smaller contest.

    --schemes Rotary --tasks "copy back" --seeds 0 1    a part of it
    --layers 4 --width 256 --maximum 4000               a larger model, in the same file or another
    --schemes T5Bias --own-rate 1                       its own parameters learn no faster than the model
    --again Rotary "copy back" 0                        one entry computed anew, beside that of the file
    --sample 10                                         the same for ten entries that are drawn
    --longer notebooks/data/longer.jsonl                no more of the contest: its models trained on in longer texts
    --places notebooks/data/places.jsonl                ... tested by place
    --regimes notebooks/data/regimes.jsonl              ... trained without stopping, in one length and in many
    --retests notebooks/data/retests.jsonl              ... tested on other texts
    --mended notebooks/data/mended.jsonl                ... T5's, with other numbers for far keys
    --near notebooks/data/near.jsonl                    no more of it: its rules for free near distances
    --crowd notebooks/data/crowd.jsonl                  ... and their far keys lowered in one layer
"""

import argparse
import json
import math
import random
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, cast

from posenc_lib import validate
from posenc_lib.lab.catalog import scheme_classes
from posenc_lib.lab.settings import setting
from posenc_lib.lab.sweep import read, sweep
from posenc_lib.lab.trial import TASKS, code_version, frame, trial

RATES = (1e-3, 3e-3, 1e-2)
RATES_SEED = 100  # on which the learning rate is chosen, and nothing else
SEEDS = (0, 1, 2, 3, 4)


class Size(NamedTuple):
    """Of the model and of its training.

    A length or a maximum of None is that of the task; an own rate of None, in rates of the model, at which the
    parameters of the scheme learn, is that of its setting.
    """

    layers: int = 2
    width: int = 64
    heads: int = 4
    length: int | None = None
    maximum: int | None = None
    own_rate: int | None = None


SMALL = Size()


class Entry(NamedTuple):
    """One line of the file: the arguments of ``trial`` and what it returned."""

    setting: dict[str, Any]
    result: dict[str, Any]


def left_out(scheme: str, task: str, size: Size = SMALL) -> str | None:
    """Why a scheme takes no part in a task; None if it does.

    Example:
        >>> left_out("Cope", "reverse")
        'it tells a query nothing about the keys after it'
    """
    contest = TASKS[validate.choice("task", task, tuple(TASKS))]
    return setting(scheme).left_out(frame(task, size.length or contest.length, size.width, size.heads))


def pairs(schemes: Iterable[str], tasks: Iterable[str], size: Size = SMALL) -> list[tuple[str, str]]:
    """Every scheme with every task that it takes part in, task by task."""
    schemes = list(schemes)
    return [(scheme, task) for task in tasks for scheme in schemes if left_out(scheme, task, size) is None]


def run(scheme: str, task: str, seed: int, rate: float, size: Size = SMALL) -> dict[str, Any]:
    """The arguments of one trial."""
    contest = TASKS[task]
    return {
        "scheme": scheme,
        "task": task,
        "seed": seed,
        "learning_rate": rate,
        "length": size.length or contest.length,
        "maximum": size.maximum or contest.maximum,
        "layers": size.layers,
        "width": size.width,
        "heads": size.heads,
    } | ({} if size.own_rate is None else {"own_rate": size.own_rate})


def best_rate(task: str, results: dict[float, dict[str, Any]], maximum: int | None = None) -> float:
    """The least rate that met the criterion before the maximum of updates; where none did, that with the smallest loss.

    A greater rate may have the smaller loss on one seed and fail on another. Of text it is the loss alone, after the
    same updates at every rate. Ties go to the least.

    Args:
        task: one of ``TASKS``.
        results: what ``trial`` returned, by rate.
        maximum: of updates; that of the task if None.
    Example:
        >>> early, late = {"met": True, "loss": 0.02, "updates": 300}, {"met": True, "loss": 0.01, "updates": 2000}
        >>> best_rate("copy back", {1e-3: late, 3e-3: early, 1e-2: early})
        0.003
    """
    last = maximum or TASKS[task].maximum
    early = [rate for rate, result in results.items() if result["met"] and result["updates"] < last]
    if early and not TASKS[task].bits:
        return min(early)

    def merit(rate: float) -> tuple[float, float]:
        loss = results[rate]["loss"]
        return -math.inf if loss is None else -loss, -rate

    return max(results, key=merit)


def contest(
    path: str | Path,
    schemes: Sequence[str] | None = None,
    tasks: Sequence[str] = tuple(TASKS),
    seeds: Sequence[int] = SEEDS,
    size: Size = SMALL,
    jobs: int | None = None,
) -> list[Entry]:
    """Make what is missing, and return the entries of these schemes, tasks and seeds; those for the rates come first.

    Args:
        path: of the file.
        schemes: names of classes; all of the library if None.
        tasks: some of ``TASKS``.
        seeds: integers other than ``RATES_SEED``.
        size: of the model.
        jobs: see :func:`posenc_lib.lab.sweep.sweep`.
    Raises:
        ValueError: an unknown scheme or task, the seed on which rates are chosen.
    """
    known = tuple(scheme_classes())
    chosen = pairs([validate.choice("schemes", s, known) for s in (known if schemes is None else schemes)], tasks, size)
    if RATES_SEED in seeds:
        raise ValueError(f"seeds must not have {RATES_SEED}, on which learning rates are chosen, got {list(seeds)}")
    trials = [run(*pair, RATES_SEED, rate, size) for pair in chosen for rate in RATES]
    results = sweep(trial, trials, path, jobs)
    rates = {
        pair: best_rate(
            pair[1], dict(zip(RATES, results[n * len(RATES) : (n + 1) * len(RATES)], strict=True)), size.maximum
        )
        for n, pair in enumerate(chosen)
    }
    final = [run(*pair, seed, rates[pair], size) for seed in seeds for pair in chosen]
    results += sweep(trial, final, path, jobs)
    return [Entry(*both) for both in zip(trials + final, results, strict=True)]


def entries(path: str | Path) -> list[Entry]:
    """Those of a file, in its order."""
    return [Entry(json.loads(setting), cast(dict[str, Any], result)) for setting, result in read(path).items()]


def filled(
    function: Callable[..., object], wanted: Sequence[dict[str, Any]], path: str | Path, jobs: int | None = None
) -> list[Entry]:
    """Make what is missing in a file, and return the wanted entries; see :func:`posenc_lib.lab.sweep.sweep`."""
    return [Entry(*both) for both in zip(wanted, sweep(function, wanted, path, jobs), strict=True)]


def outdated(found: Iterable[Entry], version_of: Callable[..., str] = code_version) -> list[Entry]:
    """The entries that other code has made than that which is here, whose digest ``version_of`` tells."""
    now = cache(version_of)
    decide = ("scheme", "task", "length", "width", "heads")  # the same for all seeds and rates
    return [entry for entry in found if entry.result["version"] != now(*map(entry.setting.__getitem__, decide))]


def at_size(entry: Entry, size: Size) -> dict[str, Any]:
    """The arguments of the same run of a model of this size."""
    scheme, task, seed, rate = (entry.setting[name] for name in ("scheme", "task", "seed", "learning_rate"))
    return run(scheme, task, seed, rate, size)


def learned(
    found: Iterable[Entry], schemes: Sequence[str], tasks: Sequence[str], size: Size = SMALL
) -> list[dict[str, Any]]:
    """The settings of the models of these schemes that met the criterion in these tasks, seed by seed.

    Args:
        found: entries of a contest, see :func:`entries`.
        schemes, tasks: in the order of which those of one seed come.
        size: of the models and of their training.
    Example:
        >>> from posenc_lib.lab.contest import Entry, run
        >>> made = [Entry(run("Alibi", "passkey", seed, 0.003), {"met": seed < 2}) for seed in (100, 2, 1, 0)]
        >>> [setting["seed"] for setting in learned(made, ["Alibi"], ["passkey"])]
        [0, 1]
    """
    mine = [
        entry.setting
        for entry in found
        if entry.setting["scheme"] in schemes
        and entry.setting["task"] in tasks
        and entry.setting["seed"] != RATES_SEED
        and entry.result["met"]
        and entry.setting == at_size(entry, size)
    ]
    return sorted(mine, key=lambda s: (s["seed"], schemes.index(s["scheme"]), tasks.index(s["task"])))


def again(entry: Entry) -> bool:
    """Compute an entry anew, print it beside the old one, and say whether all but the seconds is the same."""
    old, anew = _without_seconds(entry.result), _without_seconds(trial(**entry.setting))
    same = old == anew
    print(*(entry.setting[name] for name in ("scheme", "task", "seed")), "the same" if same else "DIFFERENT", sep=", ")
    print(f"    file: {old}")
    print(f"    anew: {anew}")
    return same


def _without_seconds(result: dict[str, Any]) -> str:
    """As the file has it, in which one measure that is not a number is like another."""
    return json.dumps({name: value for name, value in result.items() if name != "seconds"})


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--jobs", type=int, default=1, help="processes; -1 for one on every core")
    parser.add_argument(
        "--schemes", nargs="+", choices=list(scheme_classes()), metavar="SCHEME", help="names of classes"
    )
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS), metavar="TASK")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    for name, default in SMALL._asdict().items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    parser.add_argument("--again", nargs=3, metavar=("SCHEME", "TASK", "SEED"))
    parser.add_argument("--sample", type=int, metavar="N")
    parser.add_argument("--longer", metavar="FILE")
    parser.add_argument("--places", metavar="FILE")
    parser.add_argument("--regimes", metavar="FILE")
    parser.add_argument("--retests", metavar="FILE")
    parser.add_argument("--mended", metavar="FILE")
    parser.add_argument("--near", metavar="FILE")
    parser.add_argument("--crowd", metavar="FILE")
    options = parser.parse_args()
    files = "longer", "places", "regimes", "retests", "mended", "near", "crowd"
    others = {name: path for name in files if (path := getattr(options, name)) is not None}
    for name, path in others.items():  # modules that build on this one
        import_module(f"posenc_lib.lab.{name}").make(entries(options.file), path, options.jobs)
    if others:
        return
    size = Size(*(getattr(options, name) for name in Size._fields))
    if options.again is None and options.sample is None:
        contest(options.file, options.schemes, options.tasks, options.seeds, size, options.jobs)
        return
    found = entries(options.file)
    if options.again is not None:
        cell = tuple(options.again)
        found = [e for e in found if (e.setting["scheme"], e.setting["task"], str(e.setting["seed"])) == cell]
    else:
        found = random.sample(found, min(options.sample, len(found)))
    if not found:
        parser.error(f"{options.file} has no such entry")
    raise SystemExit(0 if all([again(entry) for entry in found]) else 1)


if __name__ == "__main__":
    main()
