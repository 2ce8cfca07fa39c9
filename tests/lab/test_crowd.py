"""Models with free near distances whose far keys are lowered: what is changed, and that the file is complete."""

import json
import sys
from pathlib import Path

import pytest
import torch

from posenc_lib.lab import contest as contest_module
from posenc_lib.lab import crowd as module
from posenc_lib.lab.contest import Entry, entries
from posenc_lib.lab.crowd import CHANGES, CLAIMS, LOWER, LOWERED, NUMBERS, changed, crowd, crowd_cells, trials
from posenc_lib.lab.mended import NEAR
from posenc_lib.lab.near import Near, near_model, wanted
from posenc_lib.lab.remake import measured
from posenc_lib.lab.statistics import share_above
from posenc_lib.lab.sweep import as_key

DATA = Path(__file__).resolve().parents[2] / "notebooks" / "data"
SMALL = {"length": 32, "maximum": 2, "layers": 2, "width": 16, "heads": 2}


@pytest.fixture(scope="module")
def found():
    return entries(DATA / "crowd.jsonl")


@pytest.fixture(scope="module")
def near_entries():
    return entries(DATA / "near.jsonl")


def biases(schemes):
    return [scheme.distance_bias(-torch.arange(40)).detach() for scheme in schemes]


@pytest.mark.parametrize(("count", "near"), [(4, 4), (8, NEAR), (32, NEAR)])
def test_far_keys_of_one_layer_are_lowered(count, near):
    scheme = Near(4, count, falls=True)
    with torch.no_grad():
        scheme.near.normal_()
    (own,) = biases([scheme])
    for change, layer in (("first", 0), ("second", 1)):
        both = biases(changed(scheme, change, 64))
        assert torch.equal(both[1 - layer], own)
        assert torch.equal(both[layer][:, :near], own[:, :near])
        torch.testing.assert_close(both[layer][:, near:], own[:, near:] - LOWER)


def test_flat_takes_the_order_of_the_numbers_and_not_their_weight():
    scheme = Near(4, 32, falls=True)
    with torch.no_grad():
        scheme.near.normal_()
    before = scheme.near.detach().clone()
    level, second = changed(scheme, "flat first", 64)
    assert second is scheme
    assert torch.equal(scheme.near.detach(), before)
    assert torch.equal(level.near[:NEAR], before[:NEAR])
    assert (level.near[NEAR:] == level.near[NEAR]).all()
    torch.testing.assert_close(level.near[NEAR:].exp().sum(0), before[NEAR:].exp().sum(0))
    first, also_level = changed(scheme, "flat second", 64)
    assert first is scheme
    assert torch.equal(also_level.near, level.near)
    both = biases(changed(scheme, "lowered, flat", 64))
    assert torch.equal(both[0], biases(changed(scheme, "first", 64))[0])
    assert torch.equal(both[1], biases([level])[0])


@pytest.mark.parametrize(
    ("change", "count", "message"), [("third", 32, "change"), ("flat first", 8, "more than 8 numbers .* got 8")]
)
def test_what_cannot_be_changed_is_refused(change, count, message):
    with pytest.raises(ValueError, match=message):
        changed(Near(2, count, True), change, 64)


def test_nothing_is_trained_but_the_model_of_the_other_file():
    run = {"count": 32, "falls": True, "task": "induction", "seed": 0, "learning_rate": 3e-3, **SMALL}
    result, (model, _) = crowd(**run), near_model(**run)
    assert result["measure"] == measured(model, task="induction", length=32)
    assert list(result["changed"]) == list(CHANGES)
    scheme = model.scheme
    for change in CHANGES:
        for n in (32, 256):
            model.scheme = changed(scheme, change, n)
            assert result["changed"][change][str(n)] == measured(model, task="induction", length=32)[str(n)]
    assert list(crowd(**run | {"count": 4})["changed"]) == list(LOWERED)


def test_the_file_is_complete_and_has_the_measures_of_the_other(near_entries, found):
    assert sorted(as_key(e.setting) for e in found) == sorted(map(as_key, trials(near_entries)))
    assert len(found) == 5 * len(NUMBERS)
    assert module.outdated(found) == []
    other = Entry(found[0].setting, found[0].result | {"version": "00000000"})
    assert module.outdated([found[0], other]) == [other]
    before = {as_key(e.setting): e.result["measure"] for e in near_entries}
    assert all(entry.result["measure"] == before[as_key(entry.setting)] for entry in found)


def test_every_claim_is_sure_and_none_of_a_changed_file_is(found):
    cells = crowd_cells(found)
    for times, count, above, below in CLAIMS:
        one, other, n = cells[count, above], cells[count, below], 32 * times
        assert share_above(one.at(n), other.at(n)) >= 0.95, (times, count, above, below)
        same = one._replace(measures=other.measures)
        assert share_above(same.at(n), other.at(n)) < 0.95, (times, count, above, below)


def test_the_command_makes_what_is_missing(monkeypatch, tmp_path):
    setting = wanted(4, True, "induction", 0, 1e-3)
    others = [wanted(2, True, "induction", 0, 1e-3), wanted(4, False, "induction", 0, 1e-3)]
    others += [wanted(4, True, "induction", 100, 1e-3), wanted(4, True, "look-up", 0, 1e-3)]
    made = {"measure": {"256": 0.5}, "changed": {}, "version": "00000000"}
    monkeypatch.setattr(module, "crowd", lambda **given: made)
    lines = [json.dumps({"setting": one, "result": {}}) + "\n" for one in (setting, *others)]
    (tmp_path / "near.jsonl").write_text("".join(lines))
    source, target = tmp_path / "contest.jsonl", tmp_path / "crowd.jsonl"
    source.write_text("")
    monkeypatch.setattr(sys, "argv", ["contest", str(source), "--crowd", str(target)])
    contest_module.main()
    assert entries(target) == [Entry(setting, made)]
