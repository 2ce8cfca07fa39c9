"""The models of a contest, made again: its file has what they did, and not their weights."""

from typing import Any

import torch

from posenc_lib.lab.model import TinyTransformer
from posenc_lib.lab.settings import configured, setting
from posenc_lib.lab.training import one_thread
from posenc_lib.lab.trial import SEEDS, TASKS, _measure, _train, frame


@one_thread()
def remake(
    scheme: str,
    task: str,
    seed: int,
    learning_rate: float,
    length: int,
    maximum: int,
    layers: int = 2,
    width: int = 64,
    heads: int = 4,
) -> TinyTransformer:
    """The model of a trial, trained again as :func:`posenc_lib.lab.trial.trial` does with the same arguments.

    Raises:
        ValueError: as ``trial``.
    """
    contest, here = TASKS[task], frame(task, length, width, heads)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEEDS["scheme"] + seed)
        positions = configured(scheme, here)
    model = TinyTransformer(
        positions, contest.vocabulary, causal=contest.causal, dim=width, num_heads=heads, num_layers=layers, seed=seed
    )
    _train(model, contest, length, maximum, learning_rate, seed, setting(scheme).rate)
    return model


@one_thread()
def measured(model: TinyTransformer, **trial: Any) -> dict[str, float]:
    """Its measure by length, as the file has it; ``trial`` are the arguments with which it was made."""
    contest = TASKS[trial["task"]]
    return {str(n): _measure(model, contest, n) for n in contest.lengths(trial["length"])}
