"""The models of a contest, made again: its file has what they did, and not their weights."""

from typing import Any

import torch

from posenc_lib import validate
from posenc_lib.lab.model import TinyTransformer
from posenc_lib.lab.settings import configured, setting
from posenc_lib.lab.training import one_thread
from posenc_lib.lab.trial import SEEDS, TASKS, Contest, _measure, _train, frame


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
    own_rate: float | None = None,
    instead: Contest | None = None,
) -> TinyTransformer:
    """The model of a trial, trained again as :func:`posenc_lib.lab.trial.trial` does with the same arguments.

    Args:
        own_rate: of the scheme's parameters, in learning rates of the model; that of its setting if None.
        instead: of the task, what the training draws its texts from and whether it looks at what is learned so far.
    Raises:
        ValueError: an unknown scheme or task.
    Example:
        >>> remake("Rotary", "copy back", seed=0, learning_rate=3e-3, length=8, maximum=2).scheme.name
        'RoPE'
    """
    contest = TASKS[validate.choice("task", task, tuple(TASKS))]
    here = frame(task, length, width, heads)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEEDS["scheme"] + seed)
        positions = configured(scheme, here)
    model = TinyTransformer(
        positions, contest.vocabulary, causal=contest.causal, dim=width, num_heads=heads, num_layers=layers, seed=seed
    )
    faster = setting(scheme).rate if own_rate is None else own_rate
    _train(model, instead or contest, length, maximum, learning_rate, seed, faster)
    return model


@one_thread()
def measured(model: TinyTransformer, **trial: Any) -> dict[str, float]:
    """Its measure by length, as the file has it; ``trial`` are the arguments with which it was made.

    Example:
        >>> from posenc_lib.lab.remake import remake
        >>> made = {"scheme": "Rotary", "task": "copy back", "seed": 0, "learning_rate": 0.1, "length": 8, "maximum": 2}
        >>> list(measured(remake(**made), **made))
        ['8', '16', '32', '64']
    """
    contest = TASKS[trial["task"]]
    return {str(n): _measure(model, contest, n) for n in contest.lengths(trial["length"])}
