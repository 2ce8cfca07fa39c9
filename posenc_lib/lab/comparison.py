"""Train every scheme of the library on the same tasks, and ask each model about longer texts than it was trained on.

    python -m posenc_lib.lab.comparison notebooks/data/comparison.jsonl --jobs 2

makes the file that notebook 20 reads. What is in the file is not computed again.
"""

import argparse
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from posenc_lib import validate
from posenc_lib.lab.catalog import build, scheme_classes
from posenc_lib.lab.model import TinyTransformer
from posenc_lib.lab.sweep import sweep
from posenc_lib.lab.tasks import copy_back, induction
from posenc_lib.lab.text import CHARACTERS, next_character
from posenc_lib.lab.training import Task, accuracy, train

LONGEST = 256  # of a test: the rows of tables that end somewhere


def _unseen_character(batch: int, length: int, generator: Generator) -> tuple[Tensor, Tensor]:
    return next_character(batch, length, generator, part="test")


class Contest(NamedTuple):
    """A task on which all schemes are compared.

    training, test: the task as ``train`` and ``accuracy`` call it; the test may draw from other texts.
    vocabulary: number of tokens.
    length: of the texts in training.
    lengths: of the texts in the tests.
    steps: updates.
    """

    training: Task
    test: Task
    vocabulary: int
    length: int
    lengths: tuple[int, ...]
    steps: int


TASKS = {
    "copy the token 5 back": Contest(copy_back, copy_back, 16, 32, (32, 64, 128, 256), 400),
    "induction": Contest(induction, induction, 64, 64, (64, 128, 256), 600),
    "next character": Contest(next_character, _unseen_character, CHARACTERS, 64, (64, 128, 256), 300),
}


def train_and_test(scheme: str, task: str, seed: int, batch: int = 32) -> dict[str, float]:
    """Accuracy by test length, as JSON keeps it, of a causal model of two layers, width 64, four heads.

    Args:
        scheme: name of the class.
        task: one of ``TASKS``.
        seed: of the weights and of the data.
        batch: sequences per update.
    Raises:
        ValueError: an unknown scheme or task.
    """
    classes = scheme_classes()
    contest = TASKS[validate.choice("task", task, tuple(TASKS))]
    scheme_class = classes[validate.choice("scheme", scheme, tuple(classes))]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        positions = build(scheme_class, max_length=LONGEST)
    model = TinyTransformer(positions, contest.vocabulary, seed=seed)
    train(model, contest.training, contest.length, contest.steps, batch=batch, learning_rate=3e-3, seed=seed)
    return {str(n): round(accuracy(model, contest.test, n, batch=64), 4) for n in contest.lengths}


def settings(schemes: Sequence[str], seeds: Sequence[int]) -> list[dict]:
    """The arguments of ``train_and_test`` for every scheme, task and seed."""
    return [{"scheme": s, "task": task, "seed": seed} for seed in seeds for s in schemes for task in TASKS]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--jobs", type=int, default=1, help="processes; -1 for one on every core")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    options = parser.parse_args()
    sweep(train_and_test, settings(list(scheme_classes()), options.seeds), options.file, jobs=options.jobs)


if __name__ == "__main__":
    main()
