"""Trained on in longer texts: what a few more updates buy a model of the contest, rescaled before or not.

    python -m posenc_lib.lab.contest notebooks/data/contest.jsonl --longer notebooks/data/longer.jsonl --jobs 2

makes what is missing in the second file, for the models of the first: all schemes with one seed before the next.
"""

import copy
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from posenc_lib import validate
from posenc_lib.lab.catalog import name_of
from posenc_lib.lab.claims import Statement
from posenc_lib.lab.contest import Entry, filled, learned
from posenc_lib.lab.contest import outdated as of_other_code
from posenc_lib.lab.model import TinyTransformer
from posenc_lib.lab.regimes import ONE_RATE
from posenc_lib.lab.remake import measured, remake
from posenc_lib.lab.settings import EXTENDED, Frame, arguments, configured, extensions, setting
from posenc_lib.lab.statistics import Cell
from posenc_lib.lab.training import one_thread
from posenc_lib.lab.trial import TASKS, TIMES, Contest, _logits, _loss, code_version, frame
from posenc_lib.lab.version import version
from posenc_lib.scheme import PositionScheme
from posenc_lib.schemes.rope import Rotary

UPDATES = (10, 50, 200)  # each with a rate that rises and falls of its own
RISE, FALL = 0.2, 0.5  # shares of the updates
BATCHES = 5_000_000  # seed of their batches, beside that of the trial
WAYS = ("position interpolation", "NTK-aware", "YaRN, fast from 4 turns")  # of rescaling RoPE before
SCRATCH = "from scratch"  # RoPE with weights that have learned nothing: what the updates teach without the training
ANEW = "set for longer texts"  # a scheme whose setting follows the length of the training
SLOWER = "at the model's rate"  # T5, whose numbers learn at a rate of their own elsewhere
LEARNED_SLOWER = ("copy back", "induction", "look-up", "next character")  # by all five seeds
SCHEMES = (EXTENDED, "T5Bias", "Alibi", "NoPosition", "XPos")
NAMES = (
    EXTENDED,
    *(f"{EXTENDED}, {way}" for way in (*WAYS, SCRATCH)),
    *SCHEMES[1:],
    *(f"{name}, {ANEW}" for name in ("T5Bias", "XPos")),
    f"T5Bias, {SLOWER}",
    f"T5Bias, {SLOWER}, {ANEW}",
)
ALREADY = ("copy back", "induction", "look-up", "flip-flop", "passkey", "next character")  # tasks of longer texts

TEXT = "next character"  # the one task whose measure is bits, of which fewer are better
_NTK, _FAST, _SLOW = (
    f"{EXTENDED}, {way}" for way in ("NTK-aware", "YaRN, fast from 4 turns", "position interpolation")
)


def _orders(
    updates: int, task: str, above: str | float, *below: str | float, times: int = TIMES[-1]
) -> Iterator[tuple[int, Statement]]:
    """Claims that the first mean lies above the others, at so many times the length."""
    for other in below:
        one, two = ((side, times) if isinstance(side, str) else side for side in (above, other))
        named = (name_of(side) if isinstance(side, str) else str(side) for side in (above, other))
        more = " needs more bits than " if task == TEXT else " above "
        yield updates, Statement("training on", f"{task} at {times} x: {more.join(named)}", task, one, two)


CLAIMS = (  # of notebook 23, with the number of updates after which they are said
    *_orders(10, "induction", _NTK, EXTENDED),
    *_orders(10, "induction", _FAST, EXTENDED),
    *_orders(10, "flip-flop", _FAST, EXTENDED),
    *_orders(10, "passkey", _FAST, EXTENDED),
    *_orders(10, TEXT, EXTENDED, _NTK, _FAST),
    *(one for task in ALREADY if task != TEXT for one in _orders(200, task, EXTENDED, 0.9)),
    *(one for task in ALREADY[1:-1] for one in _orders(200, task, EXTENDED, f"{EXTENDED}, {SCRATCH}")),
    *_orders(200, TEXT, f"{EXTENDED}, {SCRATCH}", EXTENDED),
    *_orders(200, "copy back", f"{EXTENDED}, {SCRATCH}", 0.9),
    *_orders(200, TEXT, "Alibi", EXTENDED),
    *_orders(200, TEXT, EXTENDED, "T5Bias"),
    *_orders(200, TEXT, EXTENDED, f"T5Bias, {SLOWER}, {ANEW}"),
    *_orders(200, "induction", EXTENDED, f"T5Bias, {SLOWER}, {ANEW}"),
    *_orders(50, TEXT, "Alibi", _FAST),
    *(one for n in (0, 10, 50) for one in _orders(n, "induction", _FAST, "T5Bias")),
    *(one for n in (50, 200) for one in _orders(n, "flip-flop", _FAST, "T5Bias")),
    *(one for n in (0, 10, 50, 200) for one in _orders(n, "induction", _FAST, "XPos")),
    *(one for n in (0, 10, 50) for one in _orders(n, TEXT, _FAST, "XPos")),
    *(one for n in (0, *UPDATES) for one in _orders(n, TEXT, _FAST, "T5Bias")),
    *(one for n in UPDATES for one in _orders(n, "copy back", EXTENDED, _SLOW)),
    *_orders(50, "induction", EXTENDED, _SLOW),
    *_orders(200, "induction", EXTENDED, _SLOW),
    *_orders(10, TEXT, EXTENDED, _SLOW),
    *(one for n in (50, 200) for one in _orders(n, TEXT, _SLOW, EXTENDED)),
    *(one for name in ("T5Bias", "Alibi") for one in _orders(200, "passkey", name, EXTENDED, times=1)),
    *(one for times in (1, 8) for one in _orders(200, "induction", EXTENDED, "XPos", times=times)),
)


@one_thread()
def longer(**trial: Any) -> dict[str, Any]:
    """Train a model of the contest again, and then on, in texts eight times as long as those of its training.

    Every number of ``UPDATES`` starts from the same model, with the learning rate, the batches' size and the rate of
    the scheme's own parameters of its training.

    Args:
        trial: arguments of :func:`posenc_lib.lab.trial.trial`.
    Returns:
        measure: by way ("as it is", ``ANEW``, of RoPE ``WAYS`` and ``SCRATCH``), by updates (0 first), by length.
        version: of the code that decides all this.
    """
    model, contest = remake(**trial), TASKS[trial["task"]]
    faster = trial.get("own_rate", setting(trial["scheme"]).rate)
    here = frame(trial["task"], trial["length"], trial["width"], trial["heads"])
    models = {"as it is": model}
    if trial["scheme"] == EXTENDED:
        rescaled = extensions(here, float(TIMES[-1]), cast(Rotary, model.scheme).base)
        models |= {way: _with(model, rescaled[way]) for way in WAYS}
        models[SCRATCH] = _untrained(**trial)
    if _follows_length(trial["scheme"], here):
        models[ANEW] = _with(model, _set_anew(trial["scheme"], here, cast(PositionScheme, model.scheme)))
    measure: dict[str, dict[str, dict[str, float]]] = {}
    for way, start in models.items():
        for updates in (0, *UPDATES):
            mine = copy.deepcopy(start)
            _train_on(mine, contest, here.longest, updates, trial["learning_rate"], faster, trial["seed"])
            measure.setdefault(way, {})[str(updates)] = measured(mine, **trial)
    return {"measure": measure, "version": longer_version(**trial)}


def longer_version(scheme: str, task: str, length: int, width: int = 64, heads: int = 4, **_: Any) -> str:
    """Digest of the code and the settings that decide a result of :func:`longer`.

    Example:
        >>> from posenc_lib.lab.trial import code_version
        >>> longer_version("Alibi", "passkey", 32) == code_version("Alibi", "passkey", 32)
        False
    """
    others: list[Any] = [_set_anew] if _follows_length(scheme, frame(task, length, width, heads)) else []
    others += [_untrained] if scheme == EXTENDED else []
    return version([_train_on, extensions, *others], [code_version(scheme, task, length, width, heads), UPDATES])


def _with(model: TinyTransformer, scheme: PositionScheme) -> TinyTransformer:
    """A copy of the model with another scheme."""
    mine = copy.deepcopy(model)
    mine.scheme = scheme
    return mine


def _untrained(**trial: Any) -> TinyTransformer:
    """The model of a trial before its training."""
    return remake(**trial | {"maximum": 0})


def _follows_length(scheme: str, here: Frame) -> bool:
    """Whether its authors would set the scheme otherwise for texts as long as the longest of the test."""
    return arguments(scheme, here) != arguments(scheme, here._replace(length=here.longest))


def _set_anew(scheme: str, here: Frame, trained: PositionScheme) -> PositionScheme:
    """The scheme as it would be set for texts as long as the longest of the test, with what it has learned."""
    anew = configured(scheme, here._replace(length=here.longest))
    anew.load_state_dict(trained.state_dict())
    return anew


def _train_on(
    model: TinyTransformer, contest: Contest, length: int, updates: int, learning_rate: float, faster: float, seed: int
) -> None:
    """So many updates on texts of ``length`` tokens; the rate rises and falls."""
    own = set(model.scheme.parameters())
    groups = [
        {"params": [p for p in model.parameters() if p not in own], "times": learning_rate},
        {"params": [p for p in model.parameters() if p in own], "times": learning_rate * faster},
    ]
    optimizer = torch.optim.AdamW([group for group in groups if group["params"]], fused=True)
    generator = torch.Generator().manual_seed(BATCHES + seed)
    for made in range(updates):
        share = min(1.0, (made + 1) / (RISE * updates), (updates - made) / (FALL * updates))
        for group in optimizer.param_groups:
            group["lr"] = group["times"] * share
        tokens, targets = contest.task(contest.batch, length, generator, **contest.options)
        loss = _loss(_logits(model, contest, tokens), targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def trials(found: Iterable[Entry]) -> list[dict[str, Any]]:
    """Of the entries of a contest those that are trained on: small models that met the criterion, seed by seed.

    Those of T5 whose numbers learn at the model's rate come last.

    Args:
        found: see :func:`posenc_lib.lab.contest.entries`.
    """
    found = list(found)
    return learned(found, SCHEMES, ALREADY) + learned(found, ("T5Bias",), LEARNED_SLOWER, ONE_RATE)


def outdated(found: Iterable[Entry]) -> list[Entry]:
    """The entries that other code has made than that which is here."""
    return of_other_code(found, longer_version)


def make(found: Iterable[Entry], path: str | Path, jobs: int | None = None) -> list[Entry]:
    """Make what is missing in a file, and return its entries for these of a contest.

    Args:
        found: see :func:`posenc_lib.lab.contest.entries`.
        path: of the file.
        jobs: see :func:`posenc_lib.lab.sweep.sweep`.
    """
    return filled(longer, trials(found), path, jobs)


def cells_after(updates: int, found: Iterable[Entry]) -> dict[tuple[str, str], Cell]:
    """A cell for every scheme and task that was trained on, what was changed before apart, as it is named there.

    Args:
        updates: 0 or one of ``UPDATES``.
        found: entries of the file that :func:`make` makes; only models that met the criterion are in it.
    Raises:
        ValueError: a number of updates that was not made.
    Example:
        >>> from posenc_lib.lab.contest import Entry
        >>> measure = {"NTK-aware": {"0": {"32": 0.9}, "10": {"32": 1.0}}}
        >>> entry = Entry({"scheme": "Rotary", "task": "passkey", "seed": 0}, {"measure": measure})
        >>> cells_after(10, [entry])["Rotary, NTK-aware", "passkey"].measures
        {32: (1.0,)}
    """
    validate.choice("updates", updates, (0, *UPDATES))
    runs: dict[tuple[str, str], dict[int, dict[str, float]]] = {}
    for entry in found:
        for way, measure in entry.result["measure"].items():
            slower = f", {SLOWER}" * ("own_rate" in entry.setting)
            scheme = entry.setting["scheme"] + slower + f", {way}" * (way != "as it is")
            runs.setdefault((scheme, entry.setting["task"]), {})[entry.setting["seed"]] = measure[str(updates)]
    cells = {}
    for pair, by_seed in runs.items():
        seeds = tuple(sorted(by_seed))
        measures = {int(n): tuple(by_seed[seed][n] for seed in seeds) for n in by_seed[seeds[0]]}
        cells[pair] = Cell(*pair, seeds, (True,) * len(seeds), measures)
    return cells
