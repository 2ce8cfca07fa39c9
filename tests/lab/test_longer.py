"""Training on in longer texts: from the same models as the contest, the same ways of rescaling, the file complete."""

import json
import sys
from pathlib import Path

import pytest
import torch

from posenc_lib.lab import contest as contest_module
from posenc_lib.lab import longer as module
from posenc_lib.lab.claims import sure
from posenc_lib.lab.contest import Entry, entries
from posenc_lib.lab.longer import (
    ALREADY,
    ANEW,
    CLAIMS,
    NAMES,
    SCHEMES,
    SCRATCH,
    SLOWER,
    UPDATES,
    WAYS,
    cells_after,
    longer,
    longer_version,
    make,
    trials,
)
from posenc_lib.lab.regimes import ONE_RATE
from posenc_lib.lab.report import length_at, order_of
from posenc_lib.lab.settings import configured
from posenc_lib.lab.statistics import ranking, table
from posenc_lib.lab.sweep import as_key
from posenc_lib.lab.trial import frame, trial

DATA = Path(__file__).resolve().parents[2] / "notebooks" / "data"
SMALL = {"seed": 0, "learning_rate": 3e-3, "length": 32, "maximum": 2, "layers": 1, "width": 16, "heads": 2}


@pytest.fixture(scope="module")
def found():
    return entries(DATA / "longer.jsonl")


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(module, "UPDATES", (1, 2))


def test_the_file_is_complete_and_made_by_this_code(contest_entries, found):
    assert sorted(as_key(e.setting) for e in found) == sorted(map(as_key, trials(contest_entries)))
    assert {name for name, _ in cells_after(0, found)} == set(NAMES)
    assert module.outdated(found) == []


def test_it_starts_where_the_contest_ended(contest_entries, found):
    ended = {as_key(e.setting): e.result for e in contest_entries}
    for entry in found:
        before, measure = ended[as_key(entry.setting)], entry.result["measure"]
        apart = 0.04 if "own_rate" in entry.setting else 0  # those were made on another machine
        assert measure["as it is"]["0"] == pytest.approx(before["measure"], abs=apart, rel=0)
        last = list(before["measure"])[-1]
        for way in set(measure) & set(WAYS):  # of other lengths the contest has other factors
            assert measure[way]["0"][last] == before["extended"][way][last]


@pytest.mark.parametrize("scheme", ["Rotary", "T5Bias"])
def test_a_run(quick, scheme):
    setting = {"scheme": scheme, "task": "flip-flop", **SMALL}
    result = longer(**setting)
    assert set(result["measure"]) == {"as it is", *((*WAYS, SCRATCH) if scheme == "Rotary" else (ANEW,))}
    for measure in result["measure"].values():
        assert list(measure) == ["0", "1", "2"]
        assert all(list(by_length) == ["32", "64", "128", "256"] for by_length in measure.values())
    assert result["measure"]["as it is"]["0"] == trial(**setting)["measure"]
    assert result == longer(**setting)
    assert result["version"] == longer_version(**setting)


def test_a_scheme_that_is_set_anew_keeps_what_it_learned():
    here = frame("passkey", 32, 64, 4)
    trained = configured("T5Bias", here)
    anew = module._set_anew("T5Bias", here, trained)
    assert torch.equal(anew.weight, trained.weight)
    assert (trained.max_distance, anew.max_distance) == (24, 192)
    xpos = module._set_anew("XPos", here, configured("XPos", here))
    assert xpos.scale_base == 128
    follows = [name for name in SCHEMES if module._follows_length(name, here)]
    assert follows == ["T5Bias", "XPos"]


def test_updates_change_the_model(quick):
    measure = longer(scheme="Alibi", task="next character", **SMALL)["measure"]["as it is"]
    assert len({tuple(by_length.values()) for by_length in measure.values()}) == 3


def test_the_version_tells_code_and_numbers_apart(monkeypatch):
    before = longer_version("Rotary", "passkey", 32)
    monkeypatch.setattr(module, "UPDATES", (10, 50))
    assert longer_version("Rotary", "passkey", 32) != before


def test_an_entry_of_other_code_is_outdated(found):
    entry = found[0]
    other = Entry(entry.setting, entry.result | {"version": "00000000"})
    assert module.outdated([entry, other]) == [other]


def test_only_small_models_that_met_the_criterion_are_trained_on(contest_entries):
    mine = trials(contest_entries)
    assert {s["task"] for s in mine} == set(ALREADY)
    assert all((s["layers"], s["width"]) == (2, 64) for s in mine)
    slower = [s for s in mine if "own_rate" in s]  # in tasks that all five learn
    assert len(slower) == 5 * len({s["task"] for s in slower}) and {s["scheme"] for s in slower} == {"T5Bias"}
    for part in (slower, [s for s in mine if s not in slower]):
        assert [s["seed"] for s in part] == sorted(s["seed"] for s in part)
    met = {as_key(e.setting): e.result["met"] for e in contest_entries}
    assert all(met[as_key(s)] for s in mine)
    failed = [Entry(e.setting, e.result | {"met": False}) for e in contest_entries]
    assert trials(failed) == []


def test_cells_after_updates(found):
    cells = cells_after(UPDATES[-1], found)
    cell = cells["Rotary, NTK-aware", "induction"]
    assert cell.seeds == (0, 1, 2, 3, 4)
    assert list(cell.measures) == [32, 64, 128, 256]
    by_seed = {
        e.setting["seed"]: e.result["measure"]["NTK-aware"]["200"]["256"]
        for e in found
        if (e.setting["scheme"], e.setting["task"]) == ("Rotary", "induction")
    }
    assert cell.measures[256] == tuple(by_seed[seed] for seed in cell.seeds)
    assert cell.untrained() is None
    with pytest.raises(ValueError, match=r"updates must be one of.*11"):
        cells_after(11, found)


def test_every_claim_is_sure_and_none_of_a_changed_file_is(found):
    for updates, claim in CLAIMS:
        assert sure(claim, cells_after(updates, found)) is True, claim.words
        level = {n: {str(k): 0.5 for k in (32, 64, 128, 256, 512)} for n in map(str, (0, *UPDATES))}
        flat = [Entry(e.setting, e.result | {"measure": dict.fromkeys(e.result["measure"], level)}) for e in found]
        assert sure(claim, cells_after(updates, flat)) is False, claim.words


@pytest.mark.parametrize(("given", "faster"), [({}, 10), ({"own_rate": 1}, 1)])
def test_the_numbers_of_a_scheme_learn_at_the_rate_of_its_training(quick, monkeypatch, given, faster):
    found = set()
    monkeypatch.setattr(module, "_train_on", lambda *arguments: found.add(arguments[5]))
    longer(scheme="T5Bias", task="passkey", **SMALL, **given)
    assert found == {faster}


@pytest.mark.parametrize("task", ALREADY)
def test_in_the_end_no_way_of_rescaling_is_ahead(found, task):
    cells = cells_after(UPDATES[-1], found)
    mine = [cells[name, task] for name in NAMES if (name, task) in cells]
    places = ranking([cell for cell in mine if cell.untrained() is None], length_at(task, 8))
    for way in WAYS:
        assert order_of(places, f"Rotary, {way}", "Rotary") < 1


def test_the_command_computes_what_is_missing(tmp_path, monkeypatch, quick):
    setting = contest_module.run("Alibi", "flip-flop", 0, 3e-3)
    monkeypatch.setattr(module, "longer", lambda **given: {"measure": {}, "version": given["scheme"]})
    line = json.dumps({"setting": setting, "result": {"met": True}}) + "\n"
    (tmp_path / "contest.jsonl").write_text(line)
    command = ["contest", str(tmp_path / "contest.jsonl"), "--longer", str(tmp_path / "longer.jsonl")]
    monkeypatch.setattr(sys, "argv", command)
    contest_module.main()
    written = (tmp_path / "longer.jsonl").read_text()
    assert json.loads(written)["result"]["version"] == "Alibi"
    contest_module.main()
    assert (tmp_path / "longer.jsonl").read_text() == written
    assert (tmp_path / "contest.jsonl").read_text() == line
    assert make([], tmp_path / "none.jsonl") == []


def test_the_models_are_those_of_the_table(contest_entries, found):
    cells, slower = table(contest_entries), table(contest_entries, ["T5Bias"], size=ONE_RATE)
    for (scheme, task), cell in cells_after(0, found).items():
        name = scheme.removesuffix(f", {ANEW}").removesuffix(f", {SCRATCH}")
        mine = slower["T5Bias", task] if SLOWER in name else cells[name, task]
        if mine.untrained() is None:
            assert cell.seeds == mine.seeds
