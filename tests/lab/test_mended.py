"""A trained T5 with other numbers for far keys: what is changed, nothing else new, the file complete."""

import json
import sys
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import nn

from posenc_lib import Alibi, T5Bias
from posenc_lib.lab import contest as contest_module
from posenc_lib.lab import mended as module
from posenc_lib.lab.contest import Entry, entries
from posenc_lib.lab.mended import (
    CLAIMS,
    FLAT,
    LOWER,
    NEAR,
    SHOWN,
    SLOPES,
    WHERE,
    FarKeys,
    changed_in,
    make,
    mended,
    mended_cells,
    mended_version,
    trials,
)
from posenc_lib.lab.near import ASKED
from posenc_lib.lab.remake import measured, remake
from posenc_lib.lab.statistics import share_above
from posenc_lib.lab.sweep import as_key
from posenc_lib.lab.trial import TIMES

DATA = Path(__file__).resolve().parents[2] / "notebooks" / "data"
SMALL = {"seed": 0, "learning_rate": 3e-3, "length": 32, "maximum": 2, "layers": 2, "width": 16, "heads": 2}


@pytest.fixture(scope="module")
def found():
    return entries(DATA / "mended.jsonl")


@pytest.mark.parametrize("near", [1, 5, 15])
@pytest.mark.parametrize(("lower", "slope"), [(0.0, 0.0), (2.0, 0.0), (0.0, 0.25), (1.0, 0.1)])
def test_near_distances_stay_and_far_ones_are_changed_one_by_one(near, lower, slope):
    t5 = T5Bias(4, bidirectional=False, max_distance=24)
    learned = t5.distance_bias(-torch.arange(40)).detach()
    beyond = lower + slope * torch.arange(40 - near)
    kept = FarKeys(t5, near, 16, False, lower, slope).distance_bias(-torch.arange(40)).detach()
    flat = FarKeys(t5, near, 16, True, lower, slope).distance_bias(-torch.arange(40)).detach()
    assert torch.equal(kept[:, :near], learned[:, :near])
    assert torch.equal(flat[:, :near], learned[:, :near])
    torch.testing.assert_close(kept[:, near:], learned[:, near:] - beyond)
    level = learned[:, near:16].exp().mean(1, keepdim=True).log()  # keys of equal content weigh as much together
    torch.testing.assert_close(flat[:, near:], level - beyond)


def test_scale_and_a_distance_on_either_side_are_those_of_the_scheme():
    t5 = T5Bias(4)
    assert FarKeys(t5, 2, 8).scale(16) == t5.scale(16) == 1
    assert FarKeys(Alibi(4), 2, 8).scale(16) == Alibi(4).scale(16)
    relative = torch.tensor([5, -5, 1, -1])
    one = FarKeys(t5, 2, 8, True, 1.0).distance_bias(relative).detach()
    assert torch.equal(one[:, 2:], t5.distance_bias(relative).detach()[:, 2:])
    assert torch.equal(one[:, 0], one[:, 1])


@pytest.mark.parametrize(
    ("near", "length", "lower", "slope", "message"),
    [
        (0, 8, 0.0, 0.1, "near"),
        (8, 8, 0.0, 0.1, "length"),
        (2, 8, float("inf"), 0.1, "lower"),
        (2, 8, 0.0, float("nan"), "slope"),
    ],
)
def test_bad_numbers_are_refused(near, length, lower, slope, message):
    with pytest.raises(ValueError, match=message):
        FarKeys(Alibi(4), near, length, False, lower, slope)


def test_one_layer_or_all_are_changed():
    t5, other = T5Bias(2), Alibi(2)
    assert list(changed_in("all", t5, other, 3)) == [other] * 3
    assert list(changed_in("first", t5, other, 3)) == [other, t5, t5]
    assert list(changed_in("second", t5, other, 3)) == [t5, other, t5]
    with pytest.raises(ValueError, match="where"):
        changed_in("third", t5, other, 3)


def test_nothing_is_trained_again():
    setting = {"scheme": "T5Bias", "task": "flip-flop", **SMALL}
    result, model = mended(**setting), remake(**setting)
    assert result["measure"] == measured(model, **setting)
    choices = [(one["flat"], one["lower"], one["slope"], one["layers"]) for one in result["mended"]]
    assert choices == list(product(FLAT, LOWER, SLOPES, WHERE))
    for where, one in zip(WHERE, result["mended"], strict=False):
        assert (one["layers"], one["measure"]) == (where, result["measure"])  # nothing is changed
    scheme = model.scheme
    for n in (32, 256):
        other = FarKeys(scheme, NEAR, n, *choices[-1][:3])
        for where, one in zip(WHERE, result["mended"][-3:], strict=True):
            first, second = {"all": (other, other), "first": (other, scheme), "second": (scheme, other)}[where]
            model.scheme = nn.ModuleList([first, second])
            assert one["measure"][str(n)] == measured(model, **setting)[str(n)]
    assert [len(numbers) for numbers in result["learned"]] == [SHOWN] * 2


def test_the_file_is_complete_and_made_by_this_code(contest_entries, found):
    assert sorted(as_key(e.setting) for e in found) == sorted(map(as_key, trials(contest_entries)))
    assert len(found) == 5 * len(ASKED)
    assert module.outdated(found) == []
    other = Entry(found[0].setting, found[0].result | {"version": "00000000"})
    assert module.outdated([found[0], other]) == [other]


def test_every_model_that_was_made_again_has_the_measures_of_the_contest(contest_entries, found):
    before = {as_key(e.setting): e.result["measure"] for e in contest_entries}
    for entry in found:
        assert entry.result["measure"] == before[as_key(entry.setting)]
        assert len(entry.result["mended"]) == len(FLAT) * len(LOWER) * len(SLOPES) * len(WHERE)
        assert entry.result["mended"][0]["measure"] == entry.result["measure"]


def test_the_version_tells_numbers_apart(monkeypatch):
    before = mended_version("T5Bias", "look-up", 32)
    monkeypatch.setattr(module, "SLOPES", (0.0,))
    assert mended_version("T5Bias", "look-up", 32) != before


def test_every_claim_is_sure_and_none_of_a_changed_file_is(found):
    cells = mended_cells(found)
    for task, times, above, below in CLAIMS:
        one, other = cells[*above, task], cells[*below, task]
        n = list(one.measures)[TIMES.index(times)]
        assert share_above(one.at(n), other.at(n)) >= 0.95, (task, times, above, below)
        assert share_above(other.at(n), one.at(n)) < 0.95, (task, times, above, below)
        changed = one._replace(measures=other.measures)
        assert share_above(changed.at(n), other.at(n)) < 0.95, (task, times, above, below)


def test_the_command_makes_what_is_missing(monkeypatch, tmp_path):
    setting = contest_module.run("T5Bias", "look-up", 0, 3e-3)
    made = {"measure": {"64": 0.5}, "learned": [], "mended": [], "version": "00000000"}
    monkeypatch.setattr(module, "mended", lambda **given: made)
    source, target = tmp_path / "contest.jsonl", tmp_path / "mended.jsonl"
    source.write_text(json.dumps({"setting": setting, "result": {"met": True}}) + "\n")
    monkeypatch.setattr(sys, "argv", ["contest", str(source), "--mended", str(target)])
    contest_module.main()
    written = target.read_text()
    contest_module.main()
    assert target.read_text() == written
    assert entries(target) == [Entry(setting, made)]
    assert make([], tmp_path / "none.jsonl") == []
