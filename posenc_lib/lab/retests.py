"""Tested again, on other texts: the contest has one test for all, and what it finds hangs on its texts, too.

    python -m posenc_lib.lab.contest notebooks/data/contest.jsonl --retests notebooks/data/retests.jsonl --jobs 2

makes what is missing in the second file, for five schemes of the first: all of them with one seed before the next.
"""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from posenc_lib.lab.contest import RATES_SEED, SMALL, Entry, filled
from posenc_lib.lab.contest import outdated as of_other_code
from posenc_lib.lab.model import TinyTransformer
from posenc_lib.lab.remake import measured, remake
from posenc_lib.lab.statistics import of_size
from posenc_lib.lab.training import one_thread
from posenc_lib.lab.trial import SEEDS, TASKS, Contest, _score, code_version
from posenc_lib.lab.version import version

SCHEMES = ("NoPosition", "T5Bias", "Alibi", "Rotary", "Sinusoidal")
TESTS = 10  # each of as many texts as that of the contest


@one_thread()
def retest(**trial: Any) -> dict[str, Any]:
    """Train a model of the contest again, and test it on other texts than the contest does.

    Args:
        trial: arguments of :func:`posenc_lib.lab.trial.trial`.
    Returns:
        measure: by length, that of the contest, made again.
        retests: by length, from twice that of the training on, those of ``TESTS`` other tests.
        version: of the code that decides all this.
    """
    model, contest = remake(**trial), TASKS[trial["task"]]
    lengths = contest.lengths(trial["length"])[1:]
    return {
        "measure": measured(model, **trial),
        "retests": {str(n): [_on_test(model, contest, n, test) for test in range(1, TESTS + 1)] for n in lengths},
        "version": retest_version(**trial),
    }


def retest_version(scheme: str, task: str, length: int, width: int = 64, heads: int = 4, **_: Any) -> str:
    """Digest of the code and the settings that decide a result of :func:`retest`.

    Example:
        >>> from posenc_lib.lab.trial import code_version
        >>> retest_version("Alibi", "passkey", 32) == code_version("Alibi", "passkey", 32)
        False
    """
    return version([_on_test], [code_version(scheme, task, length, width, heads), TESTS])


def _on_test(model: TinyTransformer, contest: Contest, length: int, test: int) -> float:
    """What the contest measures, on texts that are the same for every model; test 0 is the contest's."""
    generator = torch.Generator().manual_seed(SEEDS["test"] + test)
    batch = max(64, math.ceil(8192 / length))
    loss, right = _score(model, contest, *contest.task(batch, length, generator, **contest.options, **contest.in_test))
    return round(loss / math.log(2) if contest.bits else right, 4)


def trials(found: Iterable[Entry]) -> list[dict[str, Any]]:
    """Of the entries of a contest those that are tested again, seed by seed, learned or not.

    Args:
        found: see :func:`posenc_lib.lab.contest.entries`.
    """
    mine = [entry.setting for entry in of_size(list(found), SMALL)]
    mine = [setting for setting in mine if setting["scheme"] in SCHEMES and setting["seed"] != RATES_SEED]
    tasks = list(TASKS)
    return sorted(mine, key=lambda s: (s["seed"], SCHEMES.index(s["scheme"]), tasks.index(s["task"])))


def outdated(found: Iterable[Entry]) -> list[Entry]:
    """The entries that other code has made than that which is here."""
    return of_other_code(found, retest_version)


def make(found: Iterable[Entry], path: str | Path, jobs: int | None = None) -> list[Entry]:
    """Make what is missing in a file, and return its entries for these of a contest.

    Args:
        found: see :func:`posenc_lib.lab.contest.entries`.
        path: of the file.
        jobs: see :func:`posenc_lib.lab.sweep.sweep`.
    """
    return filled(retest, trials(found), path, jobs)


def values_of(found: Iterable[Entry], test: int) -> dict[tuple[str, str], dict[int, tuple[float, ...]]]:
    """By scheme and task, by length: what the seeds have on a test.

    Args:
        found: entries of the file that :func:`make` makes.
        test: from 0, the contest's, to ``TESTS``.
    Example:
        >>> from posenc_lib.lab.contest import Entry
        >>> setting = {"scheme": "Alibi", "task": "passkey", "seed": 0}
        >>> made = Entry(setting, {"measure": {"32": 1.0, "64": 0.9}, "retests": {"64": [0.8, 0.7]}, "version": "0"})
        >>> values_of([made], 2)
        {('Alibi', 'passkey'): {64: (0.7,)}}
    """
    values: dict[tuple[str, str], dict[int, tuple[float, ...]]] = {}
    for entry in sorted(found, key=lambda entry: entry.setting["seed"]):
        cell = values.setdefault((entry.setting["scheme"], entry.setting["task"]), {})
        for n, others in entry.result["retests"].items():
            one = others[test - 1] if test else entry.result["measure"][n]
            cell[int(n)] = (*cell.get(int(n), ()), one)
    return values
