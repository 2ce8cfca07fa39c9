"""Other regimes of training: what they change, and nothing else; the file complete."""

import json
import sys
from pathlib import Path

import pytest
import torch

from posenc_lib.lab import contest as contest_module
from posenc_lib.lab import regimes as module
from posenc_lib.lab.claims import sure
from posenc_lib.lab.contest import Entry, entries
from posenc_lib.lab.regimes import (
    CLAIMS,
    LEARNED,
    MIXED,
    REGIMES,
    SCHEMES,
    TO_THE_END,
    cells_in,
    in_regime,
    make,
    mixed_lengths,
    regime,
    regime_version,
    trials,
)
from posenc_lib.lab.statistics import Cell, table
from posenc_lib.lab.sweep import as_key
from posenc_lib.lab.trial import TASKS, trial

DATA = Path(__file__).resolve().parents[2] / "notebooks" / "data"
SMALL = {"seed": 0, "learning_rate": 3e-3, "layers": 1, "width": 16, "heads": 2}


@pytest.fixture(scope="module")
def found():
    return entries(DATA / "regimes.jsonl")


def test_the_file_is_complete_and_made_by_this_code(contest_entries, found):
    assert sorted(as_key(e.setting) for e in found) == sorted(map(as_key, trials(contest_entries)))
    assert module.outdated(found) == []


def test_both_regimes_have_every_cell_of_the_five_but_text_of_one_length(contest_entries, found):
    contest = {pair for pair in table(contest_entries, SCHEMES) if "," not in pair[0]}
    assert cells_in(MIXED, found).keys() == contest
    assert cells_in(TO_THE_END, found).keys() == {pair for pair in contest if not TASKS[pair[1]].bits}
    slower = {regime: cells_in(regime, found, own_rate=1) for regime in REGIMES}
    assert slower[MIXED].keys() == {("T5Bias", task) for task in TASKS}
    assert slower[TO_THE_END].keys() == {("T5Bias", task) for task in TASKS if not TASKS[task].bits}
    every = [*slower.values(), *(cells_in(regime, found) for regime in REGIMES)]
    assert all(cell.seeds == (0, 1, 2, 3, 4) for cells in every for cell in cells.values())
    assert slower[MIXED]["T5Bias", "passkey"].measures != cells_in(MIXED, found)["T5Bias", "passkey"].measures


def test_what_went_to_the_maximum_in_the_contest_is_the_same_in_the_file(contest_entries, found):
    ended = {as_key(e.setting): e.result for e in contest_entries}
    same = 0
    for entry in found:
        before = ended[as_key({k: v for k, v in entry.setting.items() if k != "regime"})]
        if entry.setting["regime"] == TO_THE_END and before["updates"] == entry.setting["maximum"]:
            same += 1
            assert [entry.result[k] for k in ("met", "loss", "measure")] == [
                before[k] for k in ("met", "loss", "measure")
            ]
    assert same > 20


@pytest.mark.parametrize("task", ["flip-flop", "next character"])
def test_a_run_to_the_maximum_is_a_trial_that_has_no_time_to_stop(task):
    setting = {"scheme": "Alibi", "task": task, "length": 32, "maximum": 3, **SMALL}
    result, before = regime(TO_THE_END, **setting), trial(**setting)
    assert {k: result[k] for k in ("met", "loss", "measure")} == {k: before[k] for k in ("met", "loss", "measure")}
    assert result["version"] == regime_version(**setting) != before["version"]
    assert regime(MIXED, **setting)["loss"] != result["loss"]
    assert regime(MIXED, **setting) == regime(MIXED, **setting)


def test_no_regime_stops_where_the_contest_would():
    setting = {"scheme": "Rotary", "task": "copy back", "length": 16, "maximum": 500, **SMALL, "width": 32}
    stopped = trial(**setting)
    assert stopped["met"] and stopped["updates"] < 500
    assert regime(TO_THE_END, **setting)["loss"] < stopped["loss"]


@pytest.mark.parametrize(
    ("task", "length", "wanted"),
    [
        ("copy back", 32, range(12, 33)),
        ("reverse", 12, range(4, 13)),
        ("grid", 25, (9, 16, 25)),
        ("passkey", 32, range(12, 33)),
    ],
)
def test_mixed_lengths(task, length, wanted):
    contest, generator = TASKS[task], torch.Generator().manual_seed(0)
    draw = mixed_lengths(contest)
    drawn = [draw(2, length, generator, **contest.options)[0].shape for _ in range(300)]
    assert {shape[1] for shape in drawn} == set(wanted)
    assert {shape[0] for shape in drawn} == {2}


def test_only_training_changes():
    for name in REGIMES:
        changed = in_regime(TASKS["passkey"], name)
        assert changed.bits
        assert changed._replace(bits=False, task=TASKS["passkey"].task) == TASKS["passkey"]
    assert in_regime(TASKS["passkey"], TO_THE_END).task is TASKS["passkey"].task


def test_an_unknown_regime_is_refused():
    for refuse in (lambda: in_regime(TASKS["grid"], "short"), lambda: cells_in("short", [])):
        with pytest.raises(ValueError, match=r"regime must be one of .*'mixed lengths'.*got 'short'"):
            refuse()


def test_the_version_tells_code_and_numbers_apart(monkeypatch):
    before = regime_version("Rotary", "look-up", 32)
    monkeypatch.setattr(module, "SHORTEST", 0.5)
    assert regime_version("Rotary", "look-up", 32) != before


def test_an_entry_of_other_code_is_outdated(found):
    other = Entry(found[0].setting, found[0].result | {"version": "00000000"})
    assert module.outdated([found[0], other]) == [other]


def test_the_small_models_of_the_five_are_trained_learned_or_not(contest_entries):
    mine = trials(contest_entries)
    assert {s["scheme"] for s in mine} == set(SCHEMES)
    assert {s["task"] for s in mine} == set(TASKS)
    assert all((s["layers"], s["width"]) == (2, 64) and s["seed"] < 100 for s in mine)
    assert {(s["scheme"], s["own_rate"]) for s in mine if "own_rate" in s} == {("T5Bias", 1)}
    assert [s["seed"] for s in mine] == sorted(s["seed"] for s in mine)
    assert len(trials([Entry(e.setting, e.result | {"met": False}) for e in contest_entries])) == len(mine)


def test_the_command_makes_what_is_missing(monkeypatch, tmp_path):
    setting = contest_module.run("Alibi", "look-up", 0, 3e-3)
    made = {"met": True, "loss": 0.5, "measure": {"32": 0.5}, "version": "00000000"}
    monkeypatch.setattr(module, "regime", lambda **given: made)
    source, target = tmp_path / "contest.jsonl", tmp_path / "regimes.jsonl"
    source.write_text(json.dumps({"setting": setting, "result": {"met": False}}) + "\n")
    monkeypatch.setattr(sys, "argv", ["contest", str(source), "--regimes", str(target)])
    contest_module.main()
    written = target.read_text()
    contest_module.main()
    assert target.read_text() == written
    assert entries(target) == [Entry(setting | {"regime": one}, made) for one in REGIMES]
    assert make([], tmp_path / "none.jsonl") == []


def test_every_claim_is_sure_and_none_of_a_changed_file_is(contest_entries, found):
    contest = table(contest_entries, SCHEMES)
    for name, claim in CLAIMS:
        cells = contest if name == LEARNED else cells_in(name, found)
        assert sure(claim, cells) is True, claim
        flat = {pair: Cell(*pair, c.seeds, c.met, {n: (0.5,) * 5 for n in c.measures}) for pair, c in cells.items()}
        assert sure(claim, flat) is False, claim
