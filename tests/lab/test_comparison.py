"""The comparison trains what it says, and the committed file of results has no scheme in part."""

import json
import sys
from pathlib import Path

import pytest

from posenc_lib.lab import comparison
from posenc_lib.lab.catalog import scheme_classes
from posenc_lib.lab.comparison import TASKS, settings, train_and_test
from posenc_lib.lab.sweep import read

FILE = Path(__file__).parents[2] / "notebooks" / "data" / "comparison.jsonl"


@pytest.fixture
def short(monkeypatch):
    """The same tasks with three updates each."""
    monkeypatch.setattr(comparison, "TASKS", {name: task._replace(steps=3) for name, task in TASKS.items()})


@pytest.mark.parametrize("task", TASKS)
def test_accuracies_by_length_are_repeatable(short, task):
    first, again, other = (train_and_test("Rotary", task, seed) for seed in (0, 0, 1))
    assert first == again != other
    assert list(first) == [str(n) for n in TASKS[task].lengths]
    assert all(0 <= accuracy <= 1 for accuracy in first.values())


@pytest.mark.parametrize(("argument", "value"), [("scheme", "Rope"), ("task", "sort")])
def test_refusals(argument, value):
    with pytest.raises(ValueError, match=f"{argument} must be .*{value}"):
        train_and_test(**{"scheme": "Rotary", "task": "induction", "seed": 0} | {argument: value})


def triple(key):
    """Scheme, task and seed of a line of results."""
    setting = json.loads(key)
    return setting["scheme"], setting["task"], setting["seed"]


def test_a_scheme_with_committed_results_has_them_for_every_task_and_seed():
    found = {triple(key) for key in read(FILE)}
    schemes, _, seeds = (set(column) for column in zip(*found, strict=True))
    assert schemes <= set(scheme_classes())
    assert found == {tuple(setting.values()) for setting in settings(list(schemes), list(seeds))}


def test_command_line(short, monkeypatch, tmp_path):
    monkeypatch.setattr(comparison, "scheme_classes", lambda: {"NoPosition": scheme_classes()["NoPosition"]})
    monkeypatch.setattr(sys, "argv", ["comparison", str(tmp_path / "results"), "--seeds", "3"])
    comparison.main()
    assert {triple(key) for key in read(tmp_path / "results")} == {("NoPosition", task, 3) for task in TASKS}
