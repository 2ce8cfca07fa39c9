"""What a scheme does to a model: a tiny transformer, tasks with known answers, training in seconds."""

from posenc_lib.lab.measure import milliseconds, randn
from posenc_lib.lab.model import TinyTransformer
from posenc_lib.lab.tasks import (
    IGNORE,
    associative_recall,
    copy_back,
    diagonal_neighbour,
    flip_flop,
    induction,
    name_position,
    passkey,
    reverse,
)
from posenc_lib.lab.text import next_character
from posenc_lib.lab.training import accuracy, train

__all__ = [
    "IGNORE",
    "TinyTransformer",
    "accuracy",
    "associative_recall",
    "copy_back",
    "diagonal_neighbour",
    "flip_flop",
    "induction",
    "milliseconds",
    "name_position",
    "next_character",
    "passkey",
    "randn",
    "reverse",
    "train",
]
