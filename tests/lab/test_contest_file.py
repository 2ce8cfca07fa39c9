"""The file of the contest is what the contest of today's code makes, or a part of it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import posenc_lib
from posenc_lib.lab.catalog import scheme_classes
from posenc_lib.lab.contest import RATES, RATES_SEED, SEEDS, Entry, Size, best_rate, left_out, outdated, run
from posenc_lib.lab.settings import EXTENDED, extensions
from posenc_lib.lab.trial import TASKS, TIMES, code_version, frame

FILE = Path(posenc_lib.__file__).parents[1] / "notebooks" / "data" / "contest.jsonl"
LARGEST = 1_000_000  # bytes
CELL = ("scheme", "task", "layers", "width", "heads", "length", "maximum", "own_rate")


def size_of(setting: dict) -> Size:
    return Size(*(setting.get(name) for name in Size._fields))


def setting_wrong(setting: dict) -> bool:
    """Whether a setting is none that the contest makes."""
    if setting.get("scheme") not in scheme_classes() or setting.get("task") not in TASKS:
        return True
    if not set(Size._fields) - {"own_rate"} | {"seed", "learning_rate"} <= set(setting):
        return True
    if left_out(setting["scheme"], setting["task"], size_of(setting)) is not None:
        return True
    if setting["seed"] not in (*SEEDS, RATES_SEED) or setting["learning_rate"] not in RATES:
        return True
    return setting != run(*(setting[name] for name in ("scheme", "task", "seed", "learning_rate")), size_of(setting))


def result_wrong(setting: dict, result: dict) -> bool:
    """Whether a result says what none can be."""
    task, here = TASKS[setting["task"]], frame(*(setting[name] for name in ("task", "length", "width", "heads")))
    lengths = [str(n) for n in task.lengths(setting["length"])]
    measures = [result["measure"]]
    if list(result["measure"]) != lengths:
        return True
    extended = setting["scheme"] == EXTENDED and not task.grid
    if list(result.get("extended", ())) != (list(extensions(here, 2.0)) if extended else []):
        return True
    for measure in result.get("extended", {}).values():
        measures.append(measure)
        if list(measure) != lengths[1 - len(TIMES) :]:
            return True
    values = [value for measure in measures for value in measure.values()]
    if task.bits and result["loss"] is not None and not all(value > 0 for value in values):
        return True
    if not task.bits and not all(0 <= value <= 1 for value in values):
        return True
    if not 0 < result["updates"] <= setting["maximum"] or result["seconds"] < 0:
        return True
    return result["met"] and result["loss"] is None


def faults(text: str) -> list[str]:
    """What is wrong with a file, one line of it after the other."""
    found, said = [], []
    for number, line in enumerate(text.splitlines(), start=1):
        entry = json.loads(line)
        found.append(Entry(entry["setting"], entry["result"]))
        if setting_wrong(found[-1].setting):
            said.append(f"line {number} is no run of the contest")
        elif result_wrong(*found[-1]):
            said.append(f"line {number} has a result that cannot be")
    if said:
        return said
    if len(text.encode()) > LARGEST:
        said.append("the file is too large")
    if not text.endswith("\n"):
        said.append("the last line is cut short")
    settings = [json.dumps(entry.setting, sort_keys=True) for entry in found]
    said += [f"line {n + 1} is there twice" for n, one in enumerate(settings) if one in settings[:n]]
    said += [f"line {found.index(old) + 1} was made by other code" for old in outdated(found)]
    if len({entry.result.get("text") for entry in found if TASKS[entry.setting["task"]].bits}) > 1:
        said.append("texts differ")
    return said + rates_wrong(found)


def rates_wrong(found: list[Entry]) -> list[str]:
    """The runs whose learning rate was not the best on the seed for that."""
    tried: dict[tuple, dict[float, dict]] = {}
    for setting, result in found:
        if setting["seed"] == RATES_SEED:
            tried.setdefault(tuple(setting.get(name) for name in CELL), {})[setting["learning_rate"]] = result
    said = []
    for number, (setting, _) in enumerate(found, start=1):
        if setting["seed"] == RATES_SEED:
            continue
        results = tried.get(tuple(setting.get(name) for name in CELL), {})
        if set(results) != set(RATES):
            said.append(f"line {number} was made before all rates were tried")
        elif setting["learning_rate"] != best_rate(setting["task"], results, setting["maximum"]):
            said.append(f"line {number} has not the best rate")
    return said


def test_the_file_is_what_the_contest_makes():
    text = FILE.read_text(encoding="utf-8")
    assert faults(text) == []


def entry(scheme: str = "Alibi", task: str = "copy back", seed: int = 0, rate: float = 3e-3) -> dict:
    setting = run(scheme, task, seed, rate)
    result = {
        "met": rate >= 3e-3,
        "updates": 200,
        "seconds": 1.0,
        "loss": 0.1 if rate == 3e-3 else 0.2,
        "measure": {str(n): 0.5 for n in TASKS[task].lengths(setting["length"])},
        "version": code_version(**setting),
    }
    if scheme == EXTENDED:
        result["extended"] = {
            name: {str(n): 0.5 for n in TASKS[task].lengths(setting["length"])[1:]}
            for name in extensions(frame(task, setting["length"], 64, 4), 2.0)
        }
    return {"setting": setting, "result": result}


def good() -> list[dict]:
    """A small file in which nothing is wrong; the last entry is a seed of the contest."""
    cells = [("Alibi", "copy back"), ("Alibi", "next character"), ("Rotary", "copy back")]
    lines = [entry(*cell, RATES_SEED, rate) for cell in cells for rate in RATES]
    return [*lines, *(entry(*cell) for cell in reversed(cells))]


def said_of(lines: list[dict]) -> list[str]:
    return faults("".join(json.dumps(line) + "\n" for line in lines))


def test_nothing_is_said_of_a_good_file():
    assert said_of(good()) == []


def setting(**others: object) -> Callable[[list[dict]], object]:
    return lambda lines: lines[-1]["setting"].update(others)


def result(**others: object) -> Callable[[list[dict]], object]:
    return lambda lines: lines[-1]["result"].update(others)


NO_RUN, NO_RESULT = ["line 12 is no run of the contest"], ["line 12 has a result that cannot be"]
HIGH = {str(n): 1.5 for n in TASKS["copy back"].lengths(32)}


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (setting(scheme="Rope"), NO_RUN),
        (setting(scheme="XLNet"), NO_RUN),
        (setting(task="sorting"), NO_RUN),
        (setting(seed=7), NO_RUN),
        (setting(learning_rate=2e-3), NO_RUN),
        (setting(depth=3), NO_RUN),
        (lambda lines: lines[-1]["setting"].pop("width"), NO_RUN),
        (result(measure=HIGH), NO_RESULT),
        (result(measure=dict.fromkeys(HIGH, -0.1)), NO_RESULT),
        (result(measure=dict.fromkeys(HIGH, float("nan"))), NO_RESULT),
        (result(measure={"32": 0.5}), NO_RESULT),
        (lambda lines: lines[-2]["result"]["measure"].update({"64": -1.0}), ["line 11 has a result that cannot be"]),
        (lambda lines: lines[8]["result"].pop("extended"), ["line 9 has a result that cannot be"]),
        (
            lambda lines: lines[8]["result"]["extended"]["YaRN"].update({"64": 2.0}),
            ["line 9 has a result that cannot be"],
        ),
        (lambda lines: lines[8]["result"]["extended"]["YaRN"].pop("64"), ["line 9 has a result that cannot be"]),
        (
            lambda lines: lines[-2]["result"]["measure"].update({"64": float("nan")}),
            ["line 11 has a result that cannot be"],
        ),
        (result(seconds=-1), NO_RESULT),
        (result(updates=2001), NO_RESULT),
        (result(updates=0), NO_RESULT),
        (result(loss=None), NO_RESULT),
        (result(loss=None, met=False), []),
        (result(version="00000000"), ["line 12 was made by other code"]),
        (lambda lines: lines.append(entry()), ["line 13 is there twice"]),
        (lambda lines: lines[0]["result"].update(met=True), ["line 12 has not the best rate"]),
        (lambda lines: lines[3]["result"].update(loss=0.01), ["line 11 has not the best rate"]),
        (lambda lines: lines[1]["result"].update(updates=2000), ["line 12 has not the best rate"]),
        (lambda lines: lines[1]["result"].update(met=False), ["line 12 has not the best rate"]),
        (setting(learning_rate=1e-2), ["line 12 has not the best rate"]),
        (setting(width=32, heads=2), ["line 12 was made before all rates were tried"]),
        (lambda lines: lines.pop(0), ["line 11 was made before all rates were tried"]),
        (lambda lines: lines[-2]["result"].update(text="12345678"), ["texts differ"]),
        (lambda lines: lines[-1]["result"].update(comment="x" * LARGEST), ["the file is too large"]),
    ],
)
def test_what_is_wrong_is_said(break_it, said):
    lines = good()
    break_it(lines)
    assert said_of(lines) == said


def test_a_line_cut_short_is_said():
    assert faults("".join(json.dumps(line) + "\n" for line in good())[:-1]) == ["the last line is cut short"]
