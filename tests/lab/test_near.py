"""Free numbers for the nearest distances: what the scheme adds, what of it is ALiBi, the file complete."""

import sys
from pathlib import Path

import pytest
import torch

from posenc_lib import NoPosition, scores
from posenc_lib.lab import contest as contest_module
from posenc_lib.lab import near as module
from posenc_lib.lab.claims import sure
from posenc_lib.lab.contest import RATES, RATES_SEED, SEEDS, Entry, best_rate, entries
from posenc_lib.lab.near import (
    ASKED,
    CLAIMS,
    COUNTS,
    Near,
    free,
    make,
    near,
    near_cells,
    near_model,
    near_version,
    wanted,
)
from posenc_lib.lab.statistics import Cell, table
from posenc_lib.lab.sweep import as_key
from posenc_lib.lab.trial import TASKS, trial
from posenc_lib.schemes.alibi import Alibi

DATA = Path(__file__).resolve().parents[2] / "notebooks" / "data"
TINY = {"length": 16, "maximum": 30, "layers": 1, "width": 16, "heads": 2}


@pytest.fixture(scope="module")
def found():
    return entries(DATA / "near.jsonl")


@pytest.mark.parametrize("falls", [True, False])
@pytest.mark.parametrize("count", [1, 5, 9])
def test_near_distances_have_their_number_and_others_the_fall_alone(count, falls):
    relative = torch.tensor([-30, -9, -5, -4, -1, 0, 3, 8])
    scheme = Near(4, count, falls)
    with torch.no_grad():
        scheme.near.normal_()
    fall = Alibi(4).distance_bias(relative) if falls else torch.zeros(4, len(relative))
    expected = fall.clone().double()
    for column, r in enumerate(relative.tolist()):
        if abs(r) < count:
            expected[:, column] += scheme.near[abs(r)].detach()
    torch.testing.assert_close(scheme.distance_bias(relative).detach(), expected)
    assert scheme.distance_bias(relative).dtype == torch.float64


@pytest.mark.parametrize(("count", "falls", "scheme"), [(8, True, "Alibi"), (8, False, "NoPosition")])
def test_with_numbers_that_stay_0_it_is_the_scheme_of_the_contest(monkeypatch, count, falls, scheme):
    monkeypatch.setattr(module, "setting", lambda name: type("Still", (), {"rate": 0.0}))
    sizes = {"length": 32, "maximum": 5, "layers": 2, "width": 16, "heads": 2}
    here = near(count, falls, "flip-flop", seed=0, learning_rate=3e-3, **sizes)
    there = trial(scheme, "flip-flop", 0, 3e-3, **sizes)
    assert {name: here[name] for name in ("met", "updates", "loss", "measure")} == {
        name: there[name] for name in ("met", "updates", "loss", "measure")
    }
    assert here["learned"] == [[0.0] * count] * 2


def test_what_is_learned_is_told_head_by_head():
    result = near(3, True, "copy back", 0, 3e-3, **TINY)
    assert [len(numbers) for numbers in result["learned"]] == [3, 3]
    assert any(number for numbers in result["learned"] for number in numbers)
    assert near(3, True, "copy back", 0, 3e-3, **TINY) == result


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((4, 0, True), "count"), ((0, 3, True), "num_heads"), ((0, 3, False), "num_heads")],
)
def test_bad_numbers_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Near(*arguments)


def test_tasks_that_see_both_sides_are_refused():
    assert set(TASKS) - set(ASKED) == {"reverse", "grid"}
    with pytest.raises(ValueError, match="task"):
        near(3, True, "reverse", 0, 3e-3, **TINY)


def test_the_file_is_complete_and_made_by_this_code_and_the_rules_of_the_contest(found):
    results = {as_key(entry.setting): entry.result for entry in found}
    expected = set()
    for task in ASKED:
        for count in COUNTS:
            for falls in (True, False):
                tried = {rate: wanted(count, falls, task, RATES_SEED, rate) for rate in RATES}
                expected |= {as_key(one) for one in tried.values()}
                rate = best_rate(task, {rate: results[as_key(one)] for rate, one in tried.items()})
                expected |= {as_key(wanted(count, falls, task, seed, rate)) for seed in SEEDS}
    assert set(results) == expected
    assert len(found) == len(expected)
    assert module.outdated(found) == []


def test_an_entry_of_other_code_is_outdated(found, monkeypatch):
    other = Entry(found[0].setting, found[0].result | {"version": "00000000"})
    assert module.outdated([found[0], other]) == [other]
    before = near_version("look-up")
    monkeypatch.setattr(module, "setting", lambda name: type("Slower", (), {"rate": 1.0}))
    assert near_version("look-up") != before


def test_cells_leave_out_the_seed_of_the_rates(found):
    cells = near_cells(found)
    assert set(cells) == {(free(count, falls), task) for count in COUNTS for falls in (True, False) for task in ASKED}
    assert {cell.seeds for cell in cells.values()} == {SEEDS}


def test_every_claim_is_sure_and_none_of_a_changed_file_is(found, contest_entries):
    cells = table(contest_entries, ["Alibi", "NoPosition", "T5Bias"]) | near_cells(found)
    for claim in CLAIMS:
        assert sure(claim, cells) is True, claim
        flat = {pair: Cell(*pair, c.seeds, c.met, {n: (0.5,) * 5 for n in c.measures}) for pair, c in cells.items()}
        assert sure(claim, flat) is False, claim


def test_the_command_makes_what_is_missing(monkeypatch, tmp_path):
    calls = []

    def made(**given):
        calls.append(given)
        early = given["learning_rate"] != RATES[0]
        return {"met": early, "updates": 100, "loss": 1.0, "measure": {"32": 0.5}, "learned": [], "version": "0"}

    monkeypatch.setattr(module, "near", made)
    monkeypatch.setattr(module, "COUNTS", (5,))
    monkeypatch.setattr(module, "ASKED", ("look-up",))
    source, target = tmp_path / "contest.jsonl", tmp_path / "near.jsonl"
    source.touch()
    monkeypatch.setattr(sys, "argv", ["contest", str(source), "--near", str(target)])
    contest_module.main()
    written = target.read_text()
    contest_module.main()
    assert target.read_text() == written
    assert len(calls) == 2 * (len(RATES) + len(SEEDS))
    assert {one["learning_rate"] for one in calls if one["seed"] != RATES_SEED} == {RATES[1]}
    assert make([], target) == entries(target)


def test_without_numbers_and_fall_nothing_is_added():
    q = torch.randn(1, 2, 5, 8)
    torch.testing.assert_close(scores(q, q, Near(2, 4, False)), scores(q, q, NoPosition()))


def test_a_model_is_made_again_with_its_scheme_and_its_seed():
    run = wanted(4, True, "induction", seed=0, learning_rate=1e-3) | {"maximum": 1}
    (one, updates), (again, _) = near_model(**run), near_model(**run)
    assert isinstance(one.scheme, Near)
    assert (one.scheme.count, updates) == (4, 1)
    assert one.scheme.fall is not None
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), again.parameters(), strict=True))
