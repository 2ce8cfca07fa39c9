"""The models of the contest on other texts: the same models, and nothing but the texts is new; the file complete."""

import json
import sys
from pathlib import Path

import pytest

from posenc_lib.lab import contest as contest_module
from posenc_lib.lab import retests as module
from posenc_lib.lab.contest import Entry, entries
from posenc_lib.lab.remake import measured, remake
from posenc_lib.lab.retests import SCHEMES, TESTS, make, retest, retest_version, trials, values_of
from posenc_lib.lab.sweep import as_key
from posenc_lib.lab.trial import TASKS, TIMES

DATA = Path(__file__).resolve().parents[2] / "notebooks" / "data"
SMALL = {"seed": 0, "learning_rate": 3e-3, "length": 32, "maximum": 2, "layers": 1, "width": 16, "heads": 2}


@pytest.fixture(scope="module")
def found():
    return entries(DATA / "retests.jsonl")


def test_the_file_is_complete_and_made_by_this_code(contest_entries, found):
    assert sorted(as_key(e.setting) for e in found) == sorted(map(as_key, trials(contest_entries)))
    assert len(found) == 5 * len(TASKS) * len(SCHEMES)
    assert module.outdated(found) == []


def test_every_model_that_was_made_again_has_the_measures_of_the_contest(contest_entries, found):
    before = {as_key(e.setting): e.result["measure"] for e in contest_entries}
    for entry in found:
        again = before[as_key(entry.setting)]
        assert entry.result["measure"] == {n: again[n] for n in entry.result["measure"]}


def test_every_model_has_all_other_tests(found):
    for entry in found:
        lengths = TASKS[entry.setting["task"]].lengths(entry.setting["length"])[1:]
        assert {int(n): len(values) for n, values in entry.result["retests"].items()} == dict.fromkeys(lengths, TESTS)
    assert len({tuple(e.result["retests"]["64"]) for e in found if e.setting["task"] == "flip-flop"}) > 20


@pytest.mark.parametrize("task", ["flip-flop", "next character"])
def test_only_the_texts_of_a_test_are_others(task):
    setting = {"scheme": "Alibi", "task": task, **SMALL}
    model, contest = remake(**setting), TASKS[task]
    of_contest = measured(model, **setting)
    lengths = contest.lengths(32)[1:]
    assert [module._on_test(model, contest, n, 0) for n in lengths] == [of_contest[str(n)] for n in lengths]
    result = retest(**setting)
    assert result["measure"] == of_contest
    values = result["retests"]["64"]
    assert len(values) == TESTS
    assert len(set(values)) > 1
    assert values[0] == module._on_test(model, contest, 64, 1)
    assert retest(**setting) == result


def test_the_version_tells_code_and_numbers_apart(monkeypatch):
    before = retest_version("Rotary", "look-up", 32)
    monkeypatch.setattr(module, "TESTS", 3)
    assert retest_version("Rotary", "look-up", 32) != before


def test_an_entry_of_other_code_is_outdated(found):
    other = Entry(found[0].setting, found[0].result | {"version": "00000000"})
    assert module.outdated([found[0], other]) == [other]


def test_values_by_seed(found):
    contest, first, last = (values_of(found, test)["T5Bias", "passkey"] for test in (0, 1, TESTS))
    assert list(contest) == [32 * times for times in TIMES[1:]]
    mine = [e for e in found if (e.setting["scheme"], e.setting["task"]) == ("T5Bias", "passkey")]
    mine.sort(key=lambda e: e.setting["seed"])
    assert contest[256] == tuple(e.result["measure"]["256"] for e in mine)
    assert first[256] == tuple(e.result["retests"]["256"][0] for e in mine)
    assert last[256] == tuple(e.result["retests"]["256"][-1] for e in mine)


def test_the_command_makes_what_is_missing(monkeypatch, tmp_path):
    setting = contest_module.run("Alibi", "look-up", 0, 3e-3)
    made = {"measure": {"64": 0.5}, "retests": {"64": [0.5] * TESTS}, "version": "00000000"}
    monkeypatch.setattr(module, "retest", lambda **given: made)
    source, target = tmp_path / "contest.jsonl", tmp_path / "retests.jsonl"
    source.write_text(json.dumps({"setting": setting, "result": {"met": False}}) + "\n")
    monkeypatch.setattr(sys, "argv", ["contest", str(source), "--retests", str(target)])
    contest_module.main()
    written = target.read_text()
    contest_module.main()
    assert target.read_text() == written
    assert entries(target) == [Entry(setting, made)]
    assert make([], tmp_path / "none.jsonl") == []
