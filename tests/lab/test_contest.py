"""Which runs a contest makes, in which order, which rate it chooses, and what its command says of entries made anew."""

import json
import math
import os
import subprocess
import sys
from itertools import pairwise

import pytest

from posenc_lib.lab import contest as module
from posenc_lib.lab.catalog import scheme_classes
from posenc_lib.lab.contest import (
    RATES,
    RATES_SEED,
    SEEDS,
    Entry,
    Size,
    again,
    best_rate,
    contest,
    entries,
    left_out,
    main,
    outdated,
    pairs,
    run,
)
from posenc_lib.lab.settings import setting
from posenc_lib.lab.trial import TASKS, frame, trial

TINY = Size(layers=1, width=16, heads=2, length=8, maximum=2)
OPTIONS = [f"--{name}={value}" for name, value in TINY._asdict().items() if value is not None]
BEST = {("Alibi", "copy back"): 1e-3, ("Rotary", "copy back"): 1e-2, ("Alibi", "induction"): 1e-3}


@pytest.fixture
def calls(monkeypatch):
    """The runs that are made, by a function that trains nothing: of each scheme and task one rate is the best."""
    made = []

    def fake(**arguments):
        made.append(arguments)
        best = BEST.get((arguments["scheme"], arguments["task"]), 3e-3)
        loss = abs(math.log(arguments["learning_rate"] / best)) + arguments["seed"] / 1000
        met = arguments["learning_rate"] >= best
        return {"met": met, "updates": 1, "seconds": 1.0, "loss": loss, "measure": {"8": 0.5}, "version": "1"}

    monkeypatch.setattr(module, "trial", fake)
    return made


@pytest.fixture
def path(tmp_path):
    return tmp_path / "contest.jsonl"


def command(monkeypatch, path, *options):
    """What the command returns to the shell."""
    monkeypatch.setattr(sys, "argv", ["contest", str(path), *options])
    try:
        main()
    except SystemExit as end:
        return end.code
    return 0


# which runs


def test_every_scheme_has_every_task_that_does_not_leave_it_out():
    found = pairs(scheme_classes(), TASKS)
    assert len(set(found)) == len(found)
    assert [task for task in TASKS for scheme, other in found if other == task] == [task for _, task in found]
    for scheme in scheme_classes():
        for task, its in TASKS.items():
            reason = setting(scheme).left_out(frame(task, its.length, 64, 4))
            assert ((scheme, task) in found) == (reason is None)
            assert left_out(scheme, task) == reason
    assert len(found) > 150


def test_a_run_has_the_length_and_the_maximum_of_its_task_or_those_of_the_size():
    one = run("Alibi", "induction", 3, 1e-2)
    assert one == {
        "scheme": "Alibi", "task": "induction", "seed": 3, "learning_rate": 1e-2, "layers": 2, "width": 64, "heads": 4,
        "length": TASKS["induction"].length, "maximum": TASKS["induction"].maximum,
    }  # fmt: skip
    assert run("Alibi", "induction", 3, 1e-2, Size(own_rate=1)) == one | {"own_rate": 1}
    assert run("Alibi", "induction", 3, 1e-2, TINY) == one | {name: n for name, n in TINY._asdict().items() if n}
    assert trial(**run("Alibi", "induction", 3, 1e-2, TINY))["updates"] == 2, "they are the arguments of a trial"


def test_rates_of_all_come_first_and_then_seed_by_seed(path, calls):
    found = contest(path, ["Alibi", "Rotary", "Cope"], ["copy back", "reverse"], (4, 1), jobs=1)
    chosen = [("Alibi", "copy back"), ("Rotary", "copy back"), ("Cope", "copy back"), ("Alibi", "reverse")]
    chosen.append(("Rotary", "reverse"))  # Cope takes no part
    wanted = [(*pair, RATES_SEED, rate) for pair in chosen for rate in RATES]
    wanted += [(*pair, seed, BEST.get(pair, 3e-3)) for seed in (4, 1) for pair in chosen]
    made = [tuple(call[name] for name in ("scheme", "task", "seed", "learning_rate")) for call in calls]
    assert made == wanted
    assert [entry.setting for entry in found] == calls == [entry.setting for entry in entries(path)]
    assert found == entries(path)


def test_everything_is_asked_for_unless_a_part_is(path, calls):
    found = contest(path, jobs=1)
    all_pairs = pairs(scheme_classes(), TASKS)
    assert len(calls) == len(all_pairs) * (len(RATES) + len(SEEDS)) == len(found)
    assert {(call["scheme"], call["task"]) for call in calls} == set(all_pairs)
    assert RATES_SEED not in SEEDS and len(set(SEEDS)) == 5


def test_what_is_in_the_file_is_not_made_again(path, calls):
    first = contest(path, ["Alibi", "Rotary"], ["copy back"], (0,), jobs=1)
    assert contest(path, ["Alibi", "Rotary"], ["copy back"], (0,), jobs=1) == first
    assert len(calls) == 8
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2] + lines[4:]) + '{"setting": {"scheme"')
    before = path.read_bytes()
    assert entries(path) == first[:2] + first[4:]
    assert path.read_bytes() == before, "another process may be about to write the rest"
    assert contest(path, ["Rotary"], ["copy back"], (0, 1), jobs=1)[-1].setting == calls[-1]
    new = [(call["scheme"], call["seed"], call["learning_rate"]) for call in calls[8:]]
    assert new == [("Rotary", RATES_SEED, RATES[0]), ("Rotary", 1, 1e-2)]
    contest(path, ["Alibi"], ["copy back"], (0,), jobs=1)
    assert [call["learning_rate"] for call in calls[10:]] == [RATES[2]]
    assert len(entries(path)) == 9


def test_another_size_is_another_contest_in_the_same_file(path, calls):
    small = contest(path, ["Alibi"], ["copy back"], (0,), jobs=1)
    large = contest(path, ["Alibi"], ["copy back"], (0,), Size(layers=4, width=256), jobs=1)
    assert len(calls) == 8 and len(entries(path)) == 8
    assert [entry.setting["width"] for entry in small + large] == [64] * 4 + [256] * 4


def test_refusals(path, calls):
    with pytest.raises(ValueError, match=r"schemes must be one of .*, got 'Rope'"):
        contest(path, ["Rope"])
    with pytest.raises(ValueError, match=r"task must be one of .*, got 'sorting'"):
        contest(path, ["Alibi"], ["sorting"])
    with pytest.raises(ValueError, match=r"seeds must not have 100, .* got \[0, 100\]"):
        contest(path, seeds=(0, 100))
    assert calls == [] and not path.exists()


# which rate


def results(*both):
    """By rate, of whether the criterion was met, the loss, and the updates if not 100."""
    names = ("met", "loss", "updates")
    return {
        rate: {"updates": 100, **dict(zip(names, one, strict=False))} for rate, one in zip(RATES, both, strict=True)
    }


@pytest.mark.parametrize(
    ("task", "both", "best"),
    [
        ("induction", [(True, 0.3), (True, 0.1), (True, 0.2)], 1e-3),
        ("induction", [(False, 0.3), (True, 0.2), (True, 0.1)], 3e-3),
        ("induction", [(True, 0.1, 3000), (True, 0.2), (True, 0.3)], 3e-3),
        ("induction", [(True, 0.3, 3000), (True, 0.1, 3000), (True, 0.2, 3000)], 3e-3),
        ("induction", [(False, 0.1), (False, 0.3), (True, 0.9)], 1e-2),
        ("induction", [(False, 0.3), (False, 0.2), (False, 0.1)], 1e-2),
        ("induction", [(True, 0.1), (True, 0.1), (True, 0.1)], 1e-3),
        ("induction", [(False, None), (False, 5.0), (False, None)], 3e-3),
        ("induction", [(False, None), (False, None), (False, None)], 1e-3),
        ("next character", [(True, 2.0), (False, 1.5), (True, 1.6)], 3e-3),
        ("next character", [(False, None), (True, 1.5), (True, 1.4)], 1e-2),
    ],
)
def test_the_best_rate(task, both, best):
    """Met before the maximum, which is 3000 updates here."""
    assert best_rate(task, results(*both)) == best
    assert best_rate(task, dict(reversed(results(*both).items()))) == best


# is it still so?


def test_outdated_are_those_of_another_version(path):
    made = contest(path, ["Alibi"], ["copy back"], (0,), TINY, jobs=1)
    assert outdated(made) == []
    older = Entry(made[0].setting, made[0].result | {"version": "00000000"})
    assert outdated([older, *made[1:]]) == [older]
    others = contest(path, ["Shaw"], ["copy back"], (0,), TINY, jobs=1)
    others += contest(path, ["Shaw"], ["copy back"], (0,), TINY._replace(length=12), jobs=1)
    assert outdated(made + others) == []
    assert len({entry.result["version"] for entry in made + others}) == 3, "the clip is another"


@pytest.mark.parametrize("task", ["copy back", "next character"])
def test_an_entry_made_anew_is_the_same_or_different(capsys, task):
    """Also one that is not a number."""
    setting = run("Alibi", task, 0, 1e30, TINY._replace(maximum=30))
    entry = Entry(setting, json.loads(json.dumps(trial(**setting))))
    assert again(entry)
    assert not again(Entry(setting, entry.result | {"updates": 29}))
    first, *two, second, old, new = capsys.readouterr().out.splitlines()
    assert (first, second) == (f"Alibi, {task}, 0, the same", f"Alibi, {task}, 0, DIFFERENT")
    assert two[0].removeprefix("    file: ") == two[1].removeprefix("    anew: ") == new.removeprefix("    anew: ")
    assert '"updates": 29' in old and "seconds" not in old


def test_seconds_may_differ():
    setting = run("Alibi", "copy back", 0, 1e-3, TINY)
    assert again(Entry(setting, trial(**setting) | {"seconds": 77.0}))


def test_the_command_makes_a_file_and_computes_entries_anew(path, monkeypatch, capfd):
    part = ["--schemes", "Alibi", "--tasks", "copy back", "--seeds", "0", "1"]
    made = subprocess.run(
        [sys.executable, "-m", "posenc_lib.lab.contest", str(path), "--jobs=1", *part, *OPTIONS],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    found = entries(path)
    assert [entry.setting["seed"] for entry in found] == [RATES_SEED] * 3 + [0, 1]
    assert {name: found[0].setting.get(name) for name in TINY._fields} == TINY._asdict()
    assert outdated(found) == []
    before = path.read_bytes()

    assert command(monkeypatch, path, "--again", "Alibi", "copy back", "1") == 0
    assert capfd.readouterr().out.startswith("Alibi, copy back, 1, the same\n")
    assert command(monkeypatch, path, "--again", "Alibi", "copy back", "100") == 0
    assert capfd.readouterr().out.count("the same") == 3, "of each rate"
    assert command(monkeypatch, path, "--sample", "2") == 0
    assert capfd.readouterr().out.count("the same") == 2
    assert command(monkeypatch, path, "--sample", "100") == 0
    assert capfd.readouterr().out.count("the same") == len(found)

    path.write_bytes(before.replace(b'"updates": 2', b'"updates": 3', 1))
    assert command(monkeypatch, path, "--sample", "100") == 1
    assert command(monkeypatch, path, "--again", "Alibi", "copy back", "100") == 1
    out = capfd.readouterr().out
    assert (out.count("DIFFERENT"), out.count("the same")) == (2, len(found) + 1), "the first is no reason to stop"
    assert command(monkeypatch, path, "--again", "Alibi", "copy back", "0") == 0
    capfd.readouterr()
    assert command(monkeypatch, path, "--again", "Alibi", "induction", "0") == 2
    assert "has no such entry" in capfd.readouterr().err
    assert path.read_bytes() == before.replace(b'"updates": 2', b'"updates": 3', 1), "nothing is written"


def test_a_sample_is_drawn(path, monkeypatch, calls, capsys):
    contest(path, ["Alibi", "Rotary", "Kerple"], ["copy back"], jobs=1)
    drawn = []
    for _ in range(4):
        calls.clear()
        assert command(monkeypatch, path, "--sample", "5") == 0
        assert len({json.dumps(call) for call in calls}) == len(calls) == 5
        drawn.append(list(calls))
    assert any(one != other for one, other in pairwise(drawn))
    assert capsys.readouterr().out.count("the same") == 20


@pytest.mark.parametrize("options", [["--schemes", "Rope"], ["--tasks", "sorting"], ["--seeds", "one"]])
def test_the_command_refuses_what_is_unknown(path, monkeypatch, capsys, options):
    assert command(monkeypatch, path, *options) == 2
    assert options[1] in capsys.readouterr().err
    assert not path.exists()
