"""One run of the contest: a scheme, a task and a seed, trained to a criterion and tested on longer texts."""

import hashlib
import math
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.lab.catalog import scheme_classes
from posenc_lib.lab.model import TinyTransformer
from posenc_lib.lab.settings import EXTENDED, Frame, arguments, configured, extensions, setting
from posenc_lib.lab.tasks import (
    IGNORE,
    associative_recall,
    copy_back,
    diagonal_neighbour,
    flip_flop,
    induction,
    passkey,
    reverse,
)
from posenc_lib.lab.text import CHARACTERS, characters, next_character
from posenc_lib.lab.training import one_thread
from posenc_lib.lab.version import version
from posenc_lib.schemes.grid import grid_coordinates
from posenc_lib.schemes.rope import Rotary

TIMES = (1, 2, 4, 8)  # lengths of the tests, in lengths of the training
WARM_UP, LOOK, COOL_DOWN = 50, 25, 75  # updates: the rate rises, between two looks, the rate falls
RIGHT, MET = 0.99, 0.98  # accuracy at which the cooling down starts, and that at the end which counts as trained
SEEDS = {"scheme": 1_000_000, "batches": 2_000_000, "looks": 3_000_000, "test": 4_000_000}


class Contest(NamedTuple):
    """A task on which all schemes are compared.

    task: draws a batch.
    vocabulary: number of tokens.
    options: further arguments of the task, in training and in the test.
    in_test: further arguments in the test only.
    length: of the texts in training.
    batch: texts per update.
    maximum: updates.
    causal: whether the model sees only what is before a token.
    grid: whether the tokens stand on a square.
    bits: the measure is bits per character, after the maximum of updates; not accuracy, trained until it is right.
    """

    task: Callable[..., tuple[Tensor, Tensor]]
    vocabulary: int
    options: Mapping[str, Any] = {}
    in_test: Mapping[str, Any] = {}
    length: int = 32
    batch: int = 16
    maximum: int = 1000
    causal: bool = True
    grid: bool = False
    bits: bool = False

    def decides(self) -> list[object]:
        """What of it decides a trial beside the trial's own arguments, as JSON keeps it."""
        return [self.vocabulary, dict(self.options), dict(self.in_test), self.batch, self.causal, self.grid, self.bits]

    def lengths(self, length: int) -> list[int]:
        """Those of the tests of a model that was trained on ``length`` tokens; on a grid the nearest squares."""
        if self.grid:
            return [round(math.sqrt(length * times)) ** 2 for times in TIMES]
        return [length * times for times in TIMES]


TASKS = {
    "copy back": Contest(copy_back, 16, maximum=2000),
    "induction": Contest(induction, 128, {"vocabulary": 128, "distinct": True}, maximum=3000),
    "look-up": Contest(associative_recall, 12, {"vocabulary": 12}, maximum=2000),
    "reverse": Contest(reverse, 8, {"vocabulary": 8}, length=12, maximum=3000, causal=False),
    "flip-flop": Contest(flip_flop, 11),
    "passkey": Contest(passkey, 16, {"vocabulary": 16, "size": 6}, maximum=3000),
    "next character": Contest(next_character, CHARACTERS, {}, {"part": "test"}, 64, 8, 2000, bits=True),
    "grid": Contest(diagonal_neighbour, 8, length=25, grid=True),
}


def frame(task: str, length: int, width: int, heads: int) -> Frame:
    """What a scheme is set for in a task."""
    contest = TASKS[task]
    return Frame(length, contest.lengths(length)[-1], contest.causal, contest.grid, width, heads)


@one_thread()
def trial(
    scheme: str,
    task: str,
    seed: int,
    learning_rate: float,
    length: int,
    maximum: int,
    layers: int = 2,
    width: int = 64,
    heads: int = 4,
    own_rate: float | None = None,
) -> dict[str, Any]:
    """Train and test, on one thread; the same arguments give the same numbers on the same machine.

    Args:
        scheme: name of the class.
        task: one of ``TASKS``.
        seed: of the weights and of the batches of the training; those of the tests are always the same.
        learning_rate: the highest.
        length: of the texts in training.
        maximum: updates.
        layers, width, heads: of the model.
        own_rate: of the scheme's parameters, in learning rates of the model; that of its setting if None.
    Returns:
        met: whether the criterion was, for text whether the loss is finite; updates and seconds (of one core) of the
        training; loss at the training length; measure by length, accuracy or bits per character; extended: the same for
        what ``extensions`` makes of a trained RoPE; version: of the code that decides all this; text: of the text,
        where one is read.
    Raises:
        ValueError: an unknown scheme or task, a scheme that the task leaves out.
    """
    contest = TASKS[validate.choice("task", task, tuple(TASKS))]
    here = frame(task, length, width, heads)
    if (reason := setting(scheme).left_out(here)) is not None:
        raise ValueError(f"{scheme} takes no part in {task}: {reason}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEEDS["scheme"] + seed)
        positions = configured(scheme, here)
    model = TinyTransformer(
        positions, contest.vocabulary, causal=contest.causal, dim=width, num_heads=heads, num_layers=layers, seed=seed
    )
    start = time.process_time()
    faster = setting(scheme).rate if own_rate is None else own_rate
    updates = _train(model, contest, length, maximum, learning_rate, seed, faster)
    seconds = time.process_time() - start
    loss, right = _look(model, contest, length)
    result: dict[str, Any] = {
        "met": math.isfinite(loss) if contest.bits else right >= MET,
        "updates": updates,
        "seconds": round(seconds, 1),
        "loss": round(loss, 4) if math.isfinite(loss) else None,
        "measure": {str(n): _measure(model, contest, n) for n in contest.lengths(length)},
    }
    if scheme == EXTENDED and not contest.grid:
        result["extended"] = _extended(model, contest, here)
    result["version"] = code_version(scheme, task, length, width, heads)
    if contest.bits:
        result["text"] = _text_digest()
    return result


def code_version(scheme: str, task: str, length: int, width: int = 64, heads: int = 4, **others: Any) -> str:
    """Digest of the code and the settings that decide a trial, whose arguments these are.

    Example:
        >>> code_version("Rotary", "induction", 32) == code_version("Rotary", "induction", 64)
        True
        >>> code_version("Shaw", "induction", 32) == code_version("Shaw", "induction", 64)  # the clip is another
        False
    """
    contest = TASKS[task]
    roots: list[Any] = [scheme_classes()[scheme], TinyTransformer, contest.task, _train, _measure]
    if scheme == EXTENDED:
        roots.append(_extended)
    chosen = [arguments(scheme, frame(task, length, width, heads)), setting(scheme).rate]
    return version(roots, [*chosen, *contest.decides()])


@cache
def _text_digest() -> str:
    text = torch.cat([characters(part) for part in ("train", "test")])
    return hashlib.sha256(bytes(text.tolist())).hexdigest()[:8]


def _train(
    model: TinyTransformer,
    contest: Contest,
    length: int,
    maximum: int,
    learning_rate: float,
    seed: int,
    faster: float,
) -> int:
    """Train until the criterion is met and then to cool down, or to the maximum; return the updates made."""
    own = set(model.scheme.parameters())
    groups = [
        {"params": [p for p in model.parameters() if p not in own], "times": learning_rate},
        {"params": [p for p in model.parameters() if p in own], "times": learning_rate * faster},
    ]
    optimizer = torch.optim.AdamW([group for group in groups if group["params"]], fused=True)
    generator = torch.Generator().manual_seed(SEEDS["batches"] + seed)
    last, made = maximum, 0
    while made < last:
        share = min(1.0, (made + 1) / WARM_UP, (last - made) / COOL_DOWN)
        for group in optimizer.param_groups:
            group["lr"] = group["times"] * share
        tokens, targets = contest.task(contest.batch, length, generator, **contest.options)
        loss = _loss(_logits(model, contest, tokens), targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        made += 1
        if made % LOOK == 0 and last == maximum and made + COOL_DOWN < maximum and not contest.bits:
            loss_now, right = _look(model, contest, length)
            if not math.isfinite(loss_now):
                break
            if right >= RIGHT:
                last = made + COOL_DOWN
    return made


def _logits(model: TinyTransformer, contest: Contest, tokens: Tensor) -> Tensor:
    """(B, L, classes); a scheme of grids is told rows and columns, any other the place in reading order."""
    if model.schemes[0].num_axes is None:
        return model(tokens)
    side = math.isqrt(tokens.shape[1])
    return model(tokens, grid_coordinates(side, side))


def _loss(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE)


@torch.no_grad()
def _score(model: TinyTransformer, contest: Contest, tokens: Tensor, targets: Tensor) -> tuple[float, float]:
    """Loss, and the share of the scored places at which the most likely answer is right."""
    logits = _logits(model, contest, tokens)
    right = (logits.argmax(-1) == targets).sum() / (targets != IGNORE).sum()
    return _loss(logits, targets).item(), right.item()


def _look(model: TinyTransformer, contest: Contest, length: int) -> tuple[float, float]:
    """The score on texts of the training length that are the same in every run; 4 096 tokens."""
    generator = torch.Generator().manual_seed(SEEDS["looks"])
    return _score(model, contest, *contest.task(math.ceil(4096 / length), length, generator, **contest.options))


def _measure(model: TinyTransformer, contest: Contest, length: int) -> float:
    """Accuracy or bits per character on texts that are the same in every run: 8 192 tokens, at least 64 texts."""
    generator = torch.Generator().manual_seed(SEEDS["test"])
    batch = max(64, math.ceil(8192 / length))
    loss, right = _score(model, contest, *contest.task(batch, length, generator, **contest.options, **contest.in_test))
    return round(loss / math.log(2) if contest.bits else right, 4)


def _extended(model: TinyTransformer, contest: Contest, here: Frame) -> dict[str, dict[str, float]]:
    """The measures by method and length of what is done to a trained RoPE; the model is left with the last of it."""
    measures: dict[str, dict[str, float]] = {}
    base = cast(Rotary, model.scheme).base
    for times, n in zip(TIMES[1:], contest.lengths(here.length)[1:], strict=True):
        for name, scheme in extensions(here, float(times), base).items():
            model.scheme = scheme
            measures.setdefault(name, {})[str(n)] = _measure(model, contest, n)
    return measures
