"""Tests by place: the same models and texts as the contest's, in as many stretches as are said, the file complete."""

import json
import sys
from pathlib import Path

import pytest
import torch

from posenc_lib.lab import contest as contest_module
from posenc_lib.lab import places as module
from posenc_lib.lab.contest import Entry, entries
from posenc_lib.lab.places import (
    ASKED,
    BEFORE,
    CLAIMS,
    IN_BLOCK,
    SCHEMES,
    STRETCHES,
    WAYS,
    curves,
    make,
    places,
    places_version,
    trials,
    untrue,
)
from posenc_lib.lab.sweep import as_key
from posenc_lib.lab.tasks import IGNORE
from posenc_lib.lab.trial import SEEDS, TASKS, trial

DATA = Path(__file__).resolve().parents[2] / "notebooks" / "data"
SMALL = {"seed": 0, "learning_rate": 3e-3, "length": 32, "maximum": 2, "layers": 1, "width": 16, "heads": 2}


@pytest.fixture(scope="module")
def found():
    return entries(DATA / "places.jsonl")


def counts(task):
    """How many answers the test asks for in each stretch."""
    contest = TASKS[task]
    length = contest.lengths(contest.length)[-1]
    generator = torch.Generator().manual_seed(SEEDS["test"])
    _, targets = contest.task(64, length, generator, **contest.options, **contest.in_test)
    return (targets != IGNORE).sum(0).view(STRETCHES, -1).sum(1).double()


def counts_in_blocks(length):
    """How many questions the test of "induction" asks in each stretch of a block, one by one."""
    contest = TASKS["induction"]
    generator = torch.Generator().manual_seed(SEEDS["test"])
    tokens, targets = contest.task(64, length, generator, **contest.options, **contest.in_test)
    found = torch.zeros(STRETCHES, dtype=torch.float64)
    for text, answers in zip(tokens.tolist(), targets.tolist(), strict=True):
        for token, answer in zip(text, answers, strict=True):
            if answer != IGNORE:
                found[text.index(token) // (length // 2 // STRETCHES)] += 1  # no token occurs twice in a block
    return found


def overall(values, of):
    return float((torch.tensor([value or 0.0 for value in values], dtype=torch.float64) * of).sum() / of.sum())


def test_the_file_is_complete_and_made_by_this_code(contest_entries, found):
    assert sorted(as_key(e.setting) for e in found) == sorted(map(as_key, trials(contest_entries)))
    assert module.outdated(found) == []


def test_the_mean_over_all_places_is_that_of_the_contest(contest_entries, found):
    ended, asked = {as_key(e.setting): e.result for e in contest_entries}, {task: counts(task) for task in ASKED}
    for entry in found:
        before, of = ended[as_key(entry.setting)], asked[entry.setting["task"]]
        last = list(before["measure"])[-1]
        wanted = {"as it is": before["measure"][last]}
        wanted |= {way: before["extended"][way][last] for way in WAYS if entry.setting["scheme"] == "Rotary"}
        assert entry.result["by_place"].keys() == wanted.keys()
        for way, values in entry.result["by_place"].items():
            assert len(values) == STRETCHES
            assert [value is None for value in values] == (of == 0).tolist()
            assert overall(values, of) == pytest.approx(wanted[way], abs=2e-4)


def test_so_is_the_mean_over_all_places_in_blocks(found):
    in_blocks, by_place = counts_in_blocks(256), counts("induction")
    repeats = [entry for entry in found if entry.setting["task"] == "induction"]
    assert len(repeats) == 55
    assert not any(
        "in_block" in entry.result or "behind_others" in entry.result for entry in found if entry not in repeats
    )
    for entry in repeats:
        assert (
            entry.result["in_block"].keys() == entry.result["behind_others"].keys() == entry.result["by_place"].keys()
        )
        for way, values in entry.result["in_block"].items():
            assert [value is None for value in values] == (in_blocks == 0).tolist()
            assert overall(values, in_blocks) == pytest.approx(
                overall(entry.result["by_place"][way], by_place), abs=2e-4
            )
            assert list(entry.result["behind_others"][way]) == [str(before) for before in BEFORE]


class Finds(torch.nn.Module):
    """Says what followed the present token before; nothing right if that stood behind the first ``reach`` places."""

    num_axes = None

    def __init__(self, reach):
        super().__init__()
        self.reach, self.schemes = reach, [self]

    def forward(self, tokens):
        said = torch.zeros(*tokens.shape, 128)
        for row, text in enumerate(tokens.tolist()):
            for place, token in enumerate(text):
                first = text.index(token)
                if first < min(place, self.reach):
                    said[row, place, text[first + 1]] = 1
                else:
                    said[row, place, token] = 1  # never what follows
        return said


def test_places_in_a_block_and_tokens_before_it_tell_what_a_model_can_reach():
    contest = TASKS["induction"]
    in_block = module._in_block(Finds(reach=36), contest, 256)
    assert in_block[:9] == [1.0] * 9 and set(in_block[9:]) == {0.0}
    assert module._behind_others(Finds(reach=36), contest) == {"0": 1, "8": 1, "16": 1, "32": 0.5, "64": 0}


@pytest.mark.parametrize("task", ["induction", "next character"])
def test_a_run(task):
    setting = {"scheme": "Rotary", "task": task, **SMALL}
    result = places(**setting)
    assert list(result["by_place"]) == ["as it is", *WAYS]
    assert ("in_block" in result) == ("behind_others" in result) == (task == "induction")
    assert result == places(**setting)
    assert result["version"] == places_version(**setting)
    measured = trial(**setting)
    contest = TASKS[task]
    generator = torch.Generator().manual_seed(SEEDS["test"])
    _, targets = contest.task(64, 256, generator, **contest.options, **contest.in_test)
    of = (targets != IGNORE).sum(0).view(STRETCHES, -1).sum(1).double()
    assert overall(result["by_place"]["as it is"], of) == pytest.approx(measured["measure"]["256"], abs=2e-4)
    assert overall(result["by_place"]["NTK-aware"], of) == pytest.approx(
        measured["extended"]["NTK-aware"]["256"], abs=2e-4
    )


def test_the_version_tells_code_and_numbers_apart(monkeypatch):
    before = places_version("Rotary", "look-up", 32)
    monkeypatch.setattr(module, "STRETCHES", 16)
    assert places_version("Rotary", "look-up", 32) != before


def test_an_entry_of_other_code_is_outdated(found):
    other = Entry(found[0].setting, found[0].result | {"version": "00000000"})
    assert module.outdated([found[0], other]) == [other]


def test_only_small_models_that_met_the_criterion_are_tested(contest_entries):
    mine = trials(contest_entries)
    assert {s["task"] for s in mine} == set(ASKED)
    assert {s["scheme"] for s in mine} == set(SCHEMES)
    assert all((s["layers"], s["width"]) == (2, 64) and "own_rate" not in s for s in mine)
    assert [s["seed"] for s in mine] == sorted(s["seed"] for s in mine)
    assert trials([Entry(e.setting, e.result | {"met": False}) for e in contest_entries]) == []


def test_the_command_makes_what_is_missing(monkeypatch, tmp_path):
    setting = contest_module.run("Alibi", "look-up", 0, 3e-3)
    made = {"by_place": {"as it is": [0.5]}, "version": "00000000"}
    monkeypatch.setattr(module, "places", lambda **given: made)
    source, target = tmp_path / "contest.jsonl", tmp_path / "places.jsonl"
    source.write_text(json.dumps({"setting": setting, "result": {"met": True}}) + "\n")
    monkeypatch.setattr(sys, "argv", ["contest", str(source), "--places", str(target)])
    contest_module.main()
    written = target.read_text()
    contest_module.main()
    assert target.read_text() == written
    assert entries(target) == [Entry(setting, made)]
    assert list(curves(entries(target))) == [("Alibi", "look-up", [[0.5]])]
    assert make([], tmp_path / "none.jsonl") == []


def test_the_claims_hold_and_a_changed_file_is_noticed(found):
    assert untrue(found) == []
    for number, claim in enumerate(CLAIMS):
        start, stop = (STRETCHES * of // 8 for of in (claim.start, claim.stop))
        bad = [0.5 * (claim.least + claim.most)] * STRETCHES
        bad[start:stop] = [claim.most + 1.0] * (stop - start)
        way = claim.scheme.partition(", ")[2] or "as it is"
        scheme = claim.scheme.partition(",")[0]
        task, measure = ("induction", "in_block") if claim.task == IN_BLOCK else (claim.task, "by_place")
        of_seed = [e for e in found if (e.setting["scheme"], e.setting["task"]) == (scheme, task)]
        changed = Entry(of_seed[0].setting, {measure: of_seed[0].result[measure] | {way: bad}})
        assert claim in untrue([changed if e is of_seed[0] else e for e in found]), number


def test_a_claim_on_places_where_nothing_is_asked_does_not_hold():
    entry = Entry({"scheme": "Alibi", "task": "induction"}, {"by_place": {"as it is": [None] * 8 + [1.0] * 24}})
    asked, unasked = (module.Said("Alibi", "induction", start, start + 2, 0.0, 1.0) for start in (1, 0))
    assert untrue([entry], [asked, unasked]) == [unasked]
