"""Right or wrong by place: an average over a long text hides where in it a model of the contest fails.

    python -m posenc_lib.lab.contest notebooks/data/contest.jsonl --places notebooks/data/places.jsonl --jobs 2

makes what is missing in the second file, for the models of the first: all schemes with one seed before the next.
"""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F

from posenc_lib.lab.contest import Entry, filled, learned
from posenc_lib.lab.contest import outdated as of_other_code
from posenc_lib.lab.model import TinyTransformer
from posenc_lib.lab.remake import remake
from posenc_lib.lab.settings import EXTENDED, extensions
from posenc_lib.lab.tasks import IGNORE
from posenc_lib.lab.training import one_thread
from posenc_lib.lab.trial import SEEDS, TASKS, TIMES, Contest, _logits, code_version, frame
from posenc_lib.lab.version import version
from posenc_lib.schemes.rope import Rotary

STRETCHES = 32  # of equally many places; the first four are as long as the texts of the training
WAYS = ("NTK-aware", "YaRN, fast from 4 turns")  # of rescaling RoPE, for this length
SCHEMES = (
    *("NoPosition", "Sinusoidal", "Learned", "Rotary", "XPos", "T5Bias", "Alibi", "Kerple", "Fire", "Fox"),
    *("Shaw", "Nezha"),
)
LENGTHS = TIMES[-1]  # of the training in a text
REPEATS = "induction"
IN_BLOCK = f"{REPEATS}, by place in the block"  # as a task of :func:`curves`
BEFORE = (0, 8, 16, 32, 64)  # random tokens in front of a block
FIRST = 8  # answers of a block: every block of the training has as many
ASKED = ("copy back", REPEATS, "look-up", "next character")  # tasks whose answers stand in all parts of a text


class Said(NamedTuple):
    """A claim on a part of a text: the mean there lies within bounds, with every seed.

    scheme, task: as :func:`curves` names them.
    start, stop: in training lengths.
    least, most: of accuracy or bits.
    """

    scheme: str
    task: str
    start: int
    stop: int
    least: float
    most: float


_TEXT, _NTK = "next character", f"{EXTENDED}, NTK-aware"
CLAIMS = (  # of notebook 22
    *(Said(scheme, "copy back", 0, 1, 0.98, 1.0) for scheme in ("Sinusoidal", "Learned")),
    *(Said(scheme, "copy back", 2, 8, 0.0, 0.15) for scheme in ("Sinusoidal", "Learned")),
    Said(EXTENDED, "copy back", 0, 4, 0.97, 1.0),
    Said(EXTENDED, _TEXT, 0, 1, 0.0, 2.3),
    Said(EXTENDED, _TEXT, 2, 8, 4.5, 6.0),
    Said(_NTK, _TEXT, 0, 3, 0.0, 2.5),
    Said(_NTK, _TEXT, 5, 8, 4.5, 6.0),
    *(Said(scheme, _TEXT, 4, 8, 0.0, 2.4) for scheme in ("XPos", "T5Bias", "Alibi")),
    Said("T5Bias", IN_BLOCK, 0, 1, 0.95, 1.0),
    Said("T5Bias", IN_BLOCK, 2, 8, 0.0, 0.05),
    *(Said(scheme, IN_BLOCK, 1, 8, 0.8, 1.0) for scheme in ("Alibi", "Kerple", "Fox")),
)


@one_thread()
def places(**trial: Any) -> dict[str, Any]:
    """Train a model of the contest again, and test it by place in texts eight times as long, the same as the contest's.

    Args:
        trial: arguments of :func:`posenc_lib.lab.trial.trial`.
    Returns:
        by_place: by way ("as it is", for RoPE also ``WAYS``) the accuracy or bits per character in each of
        ``STRETCHES``, None where nothing is asked; only of "induction": in_block, the same by the place of the question
        in its block, and behind_others, the accuracy of the first ``FIRST`` answers of a block behind so many
        (``BEFORE``) random tokens; version: of the code that decides all this.
    """
    model, contest = remake(**trial), TASKS[trial["task"]]
    here = frame(trial["task"], trial["length"], trial["width"], trial["heads"])
    schemes = {"as it is": model.scheme}
    if trial["scheme"] == EXTENDED:
        rescaled = extensions(here, float(TIMES[-1]), cast(Rotary, model.scheme).base)
        schemes |= {way: rescaled[way] for way in WAYS}
    found: dict[str, Any] = {}
    for way, scheme in schemes.items():
        model.scheme = scheme
        found.setdefault("by_place", {})[way] = _by_place(model, contest, here.longest)
        if trial["task"] == REPEATS:
            found.setdefault("in_block", {})[way] = _in_block(model, contest, here.longest)
            found.setdefault("behind_others", {})[way] = _behind_others(model, contest)
    return found | {"version": places_version(**trial)}


def places_version(scheme: str, task: str, length: int, width: int = 64, heads: int = 4, **others: Any) -> str:
    """Digest of the code and the settings that decide a result of :func:`places`.

    Example:
        >>> from posenc_lib.lab.trial import code_version
        >>> places_version("Alibi", "look-up", 32) == code_version("Alibi", "look-up", 32)
        False
    """
    measures = [_by_place, _in_block, _behind_others] if task == REPEATS else [_by_place]
    return version([*measures, extensions], [code_version(scheme, task, length, width, heads), STRETCHES])


@torch.no_grad()
def _by_place(model: TinyTransformer, contest: Contest, length: int) -> list[float | None]:
    """The measure of ``_measure`` on the same texts, in each stretch."""
    generator = torch.Generator().manual_seed(SEEDS["test"])
    batch = max(64, math.ceil(8192 / length))
    tokens, targets = contest.task(batch, length, generator, **contest.options, **contest.in_test)
    logits = _logits(model, contest, tokens)
    if contest.bits:
        nats = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE, reduction="none")
        values = nats.view(targets.shape) / math.log(2)
    else:
        values = (logits.argmax(-1) == targets).float()
    asked = targets != IGNORE
    sums, counts = ((of * asked).double().sum(0).view(STRETCHES, -1).sum(1) for of in (values, torch.ones_like(values)))
    return [round(float(s / n), 4) if n else None for s, n in zip(sums, counts, strict=True)]


@torch.no_grad()
def _in_block(model: TinyTransformer, contest: Contest, length: int) -> list[float | None]:
    """The accuracy on the same texts by the place of the question in its block, in stretches of equally many."""
    generator = torch.Generator().manual_seed(SEEDS["test"])
    batch = max(64, math.ceil(8192 / length))
    tokens, targets = contest.task(batch, length, generator, **contest.options, **contest.in_test)
    asked = targets != IGNORE
    period = (~asked).sum(1, keepdim=True)  # every token is asked again from the second of the repeat on
    place = (torch.arange(length) % period)[asked]
    right = (_logits(model, contest, tokens).argmax(-1) == targets)[asked]
    stretch = place * STRETCHES // (length // 2)
    sums, counts = (torch.bincount(stretch, of.double(), STRETCHES) for of in (right, torch.ones_like(right)))
    return [round(float(s / n), 4) if n else None for s, n in zip(sums, counts, strict=True)]


@torch.no_grad()
def _behind_others(model: TinyTransformer, contest: Contest) -> dict[str, float]:
    """The accuracy of the first ``FIRST`` answers of a block of 64, by the random tokens before the block."""
    found = {}
    for before in BEFORE:
        generator = torch.Generator().manual_seed(SEEDS["test"])
        tokens = torch.rand(64, contest.vocabulary, generator=generator).argsort(-1)[:, : before + 64]  # no token twice
        text = torch.cat([tokens, tokens[:, before : before + 1 + FIRST]], dim=1)
        said = _logits(model, contest, text[:, :-1]).argmax(-1)[:, -FIRST:]
        found[str(before)] = round(float((said == text[:, -FIRST:]).double().mean()), 4)
    return found


def trials(found: Iterable[Entry]) -> list[dict[str, Any]]:
    """Of the entries of a contest those that are tested by place: small models that met the criterion, seed by seed.

    Args:
        found: see :func:`posenc_lib.lab.contest.entries`.
    """
    return learned(found, SCHEMES, ASKED)


def outdated(found: Iterable[Entry]) -> list[Entry]:
    """The entries that other code has made than that which is here."""
    return of_other_code(found, places_version)


def make(found: Iterable[Entry], path: str | Path, jobs: int | None = None) -> list[Entry]:
    """Make what is missing in a file, and return its entries for these of a contest.

    Args:
        found: see :func:`posenc_lib.lab.contest.entries`.
        path: of the file.
        jobs: see :func:`posenc_lib.lab.sweep.sweep`.
    """
    return filled(places, trials(found), path, jobs)


def curves(found: Iterable[Entry]) -> Iterator[tuple[str, str, list[list[float | None]]]]:
    """Scheme (RoPE's ways of rescaling apart), task (or ``IN_BLOCK``), and for each seed the measure by stretch.

    Args:
        found: entries of the file that :func:`make` makes.
    Example:
        >>> from posenc_lib.lab.contest import Entry
        >>> entry = Entry({"scheme": "Rotary", "task": "look-up"}, {"by_place": {"NTK-aware": [None, 1.0]}})
        >>> list(curves([entry]))
        [('Rotary, NTK-aware', 'look-up', [[None, 1.0]])]
    """
    by_pair: dict[tuple[str, str], list[list[float | None]]] = {}
    for entry in found:
        for task, measure in ((entry.setting["task"], "by_place"), (IN_BLOCK, "in_block")):
            for way, values in entry.result.get(measure, {}).items():
                scheme = entry.setting["scheme"] + (f", {way}" if way in WAYS else "")
                by_pair.setdefault((scheme, task), []).append(values)
    for (scheme, task), seeds in by_pair.items():
        yield scheme, task, seeds


def untrue(found: Iterable[Entry], claims: Iterable[Said] = CLAIMS) -> list[Said]:
    """The claims that do not hold.

    Args:
        found: entries of the file that :func:`make` makes.
        claims: those of notebook 22.
    Raises:
        KeyError: a claim on a scheme and task without a result.
    Example:
        >>> from posenc_lib.lab.contest import Entry
        >>> from posenc_lib.lab.places import Said
        >>> entry = Entry({"scheme": "Alibi", "task": "look-up"}, {"by_place": {"as it is": [1.0] * 4 + [0.5] * 28}})
        >>> untrue([entry], [Said("Alibi", "look-up", 0, 1, 0.9, 1.0), Said("Alibi", "look-up", 1, 8, 0.9, 1.0)])
        [Said(scheme='Alibi', task='look-up', start=1, stop=8, least=0.9, most=1.0)]
    """
    every, each = {(scheme, task): seeds for scheme, task, seeds in curves(found)}, STRETCHES // LENGTHS
    failed = []
    for claim in claims:
        parts = [seed[each * claim.start : each * claim.stop] for seed in every[claim.scheme, claim.task]]
        means = [sum(known) / len(known) for part in parts if (known := [v for v in part if v is not None])]
        if not means or min(means) < claim.least or max(means) > claim.most:
            failed.append(claim)
    return failed
