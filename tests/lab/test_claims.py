"""What the notebooks say about trained models: in the committed results, and of one model that is trained here."""

import json
from pathlib import Path

import pytest
import torch

from posenc_lib.lab import TinyTransformer, accuracy, induction, train
from posenc_lib.lab.comparison import train_and_test
from posenc_lib.lab.sweep import read
from posenc_lib.schemes.context_extension import yarn
from posenc_lib.schemes.rope import Rotary

FILE = Path(__file__).parents[2] / "notebooks" / "data" / "comparison.jsonl"
RESULTS = [(json.loads(key), result) for key, result in read(FILE).items()]


def results(scheme, task):
    """Accuracy by length, for every seed."""
    found = [result for setting, result in RESULTS if (setting["scheme"], setting["task"]) == (scheme, task)]
    assert found
    return found


@pytest.mark.parametrize("scheme", ["Sinusoidal", "Learned"])
def test_absolute_positions_do_not_copy_beyond_the_training_length(scheme):
    for copied in results(scheme, "copy the token 5 back"):
        assert list(copied) == ["32", "64", "128", "256"]
        assert copied["64"] < 0.7


def test_rotary_copies_at_twice_the_training_length():
    for copied in results("Rotary", "copy the token 5 back"):
        assert copied["32"] > 0.95 and copied["64"] > 0.95


def test_alibi_keeps_its_induction_at_four_times_the_training_length():
    for induced in results("Alibi", "induction"):
        assert induced["256"] > 0.9


def test_a_committed_result_comes_out_again():
    """Within what the order of sums in float32 can do."""
    setting = {"scheme": "NoPosition", "task": "copy the token 5 back", "seed": 0}
    committed = next(result for key, result in RESULTS if key == setting)
    again = train_and_test(**setting)
    assert again == pytest.approx(committed, abs=0.03)


def test_rotary_loses_its_induction_beyond_the_training_length_and_by_parts_brings_it_back():
    torch.manual_seed(0)
    model = TinyTransformer(Rotary(16), vocabulary=64)
    train(model, induction, length=64, steps=600, learning_rate=4e-3)
    assert accuracy(model, induction, 64, batch=32) > 0.95
    assert accuracy(model, induction, 256, batch=24) < 0.4
    untouched = accuracy(model, induction, 128, batch=32)
    model.scheme = Rotary(16, rope_scaling=yarn(16, 1e4, 2, 64, beta_fast=4)._replace(attention_factor=1.0))
    assert accuracy(model, induction, 128, batch=32) > untouched + 0.3
