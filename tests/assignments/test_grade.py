"""Whole classes are graded: every submission gets the score that it earned, and none stops the others."""

import argparse
import csv
import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.api import Gradebook

import grade
from sandbox import RESTARTS
from submission import identity, names, put_into

OPTIONS = argparse.Namespace(seconds=20, memory=4096, limit=300)
ASSIGNMENTS = sorted(path.parent.name for path in Path(grade.HERE).glob("source/*/*.ipynb"))

SWALLOWS = """
import time
while True:
    try:
        time.sleep(1)
    except BaseException:
        pass
"""
THIEF = """
import glob, os, socket
found = [path for root in ("{root}", "{repository}") for path in glob.glob(root + "/**", recursive=True)]
print("FOUND", [path for path in found if "posenc_lib" not in path and ".venv" not in path and os.path.isfile(path)])
for path in ("{root}/gradebook.db", "{root}/grades.jsonl", "{root}/submitted/x", "{library}/stolen.py"):
    try:
        open(path, "w")
        print("WROTE", path)
    except OSError:
        pass
try:
    socket.create_connection(("127.0.0.1", {port}), 2)
    print("CONNECTED")
except OSError:
    pass
import inspect
def sum_factor(k, dim, base):
    print("FRAMES", [frame.code_context for frame in inspect.stack()])
    return None
"""
EIGHT_GIGABYTES = "block = torch.empty(8 * 2**30, dtype=torch.uint8)\n"
FLOODS = "for _ in range(100):\n    print('x' * 2**20)\n"
FORGER = """
import builtins, sys
import torch
import posenc_lib.exercises.graded, posenc_lib.exercises.check
posenc_lib.exercises.graded.require = lambda *anything: None
posenc_lib.exercises.check.Check.verdict = lambda *anything: "\\N{CHECK MARK}"
torch.allclose = torch.equal = lambda *anything, **named: True
sys.modules["posenc_wire"].call = lambda *anything: '{"value": true}'
def encode_halves(positions, dim, base):
    class Anything(torch.Tensor):
        def __eq__(self, other):
            return True
    return Anything()
"""


# student: a cell, and the answer in it
ANSWERS = {
    "wrong-sign": (
        "reader",
        "def reader(offset, weights, dim, base):\n"
        "    return weights.repeat_interleave(2)[:, None] * shift_matrix(offset, dim, base)",
    ),
    "wrong-convention": (
        "encode_halves",
        "def encode_halves(positions, dim, base):\n"
        "    theta = base ** (-2 * torch.arange(dim // 2, dtype=torch.float64) / dim)\n"
        "    angles = positions[:, None] * theta\n"
        "    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)",
    ),
    "syntax-error": ("encode_halves", "def encode_halves(positions, dim, base:\n    pass"),
    "endless-function": ("recover_base", "def recover_base(P):\n    while True:\n        pass"),
    "swallows-interrupt": ("first_negative", SWALLOWS),
    "exits": ("first_negative", "import os\nos._exit(0)"),
    "hard-coded": (
        "sum_factor",
        "def sum_factor(k, dim, base):\n"
        "    return torch.tensor([-0.8322937, -0.8322937, 1.9601332, 1.9601332], dtype=torch.float64)",
    ),
}


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_a_master_earns_every_automatic_point_and_a_released_version_none(confined, course, name):
    built = course(name)
    built.hand_in("master", built.master)
    built.hand_in("blank", built.released)
    table = built.grade(seconds=60, limit=400)
    assert [row["reason"] for row in table.values()] == ["", ""]
    by_hand = sum(built.points[cell] for cell in built.manual)
    assert float(table["master"]["score"]) == 100 - by_hand
    assert float(table["master"]["waiting"]) == by_hand
    assert float(table["blank"]["score"]) == float(table["blank"]["waiting"]) == 0
    assert float(table["blank"]["max_score"]) == 100
    cells = built.autograded("master").cells
    outputs = [output for cell in cells if cell.cell_type == "code" for output in cell.outputs]
    assert outputs and not [output for output in outputs if output.output_type == "error"]


def a_class(built, port):
    """Submissions of assignment 2, good and hostile, and the tests that each of them fails."""
    tests = [name for name in built.points if name not in built.manual]
    named = {identity(cell): cell.source for cell in built.master.cells}
    solutions = [identity(cell) for cell in built.released.cells if cell.metadata.get("nbgrader", {}).get("solution")]
    second_half = solutions[len(solutions) // 2 :]
    repository = Path(grade.HERE).parents[1]
    thief = THIEF.format(root=built.root, repository=repository, library=repository / "posenc_lib", port=port)

    tampered = built.answered("encode_halves")
    for cell in tampered.cells:
        if identity(cell) == "encode_halves-test":
            cell.source, cell.metadata.nbgrader["points"] = "100", 1000
    shortened = built.answered("encode_halves")
    shortened.cells = [cell for cell in shortened.cells if identity(cell) != "encode_halves-test"]

    handed_in = {
        "perfect": (built.answered(), []),
        "blank": (built.released, tests),
        "half": (built.answered(*second_half), [test for test in tests if test.removesuffix("-test") in second_half]),
        "tampers": (tampered, ["encode_halves-test"]),
        "deletes-test": (shortened, ["encode_halves-test"]),
        "floods": (built.answered(first_negative=FLOODS + named["first_negative"]), []),
        "eight-gigabytes": (
            built.answered(first_negative=EIGHT_GIGABYTES + named["first_negative"]),
            ["first_negative-test"],
        ),
        # What it put in place of the calls answers True to every test of a function.
        "forger": (
            built.answered(encode_halves=FORGER),
            [test for test in tests if test not in ("first_negative-test", "shift_linear-test")],
        ),
    }
    for student, (cell, code) in ANSWERS.items():
        fails = [f"{cell}-test"]
        handed_in[student] = built.answered(**{cell: code}), fails
    handed_in["thief"] = built.answered(sum_factor=thief), ["sum_factor-test"]
    return handed_in


def test_a_class_gets_the_scores_that_it_earned(confined, course):
    built = course("02_sinusoidal")
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        handed_in = a_class(built, server.getsockname()[1])
        for student, (notebook, _) in handed_in.items():
            built.hand_in(student, notebook)
        started = time.monotonic()
        table = built.grade(seconds=10)
        took = time.monotonic() - started
        print(f"{len(table)} submissions in {took:.0f} seconds")

    assert took < 300  # 80 on two quiet cores, of which 25 are two time-outs
    lost = {student: sum(built.points[test] for test in fails) for student, (_, fails) in handed_in.items()}
    automatic = sum(points for name, points in built.points.items() if name not in built.manual)
    assert {student: row["reason"] for student, row in table.items()} == dict.fromkeys(lost, "")
    assert {s: float(row["score"]) for s, row in table.items()} == {s: automatic - n for s, n in lost.items()}

    assert "your peak is on the other side" in built.feedback("wrong-sign")
    assert "sine and cosine of a pair stand side by side" in built.feedback("wrong-convention")
    assert "stopped after 10 seconds" in table["endless-function"]["notes"]
    assert "did not stop when interrupted" in table["swallows-interrupt"]["notes"]
    assert "the process ended" in table["exits"]["notes"]
    assert table["tampers"]["notes"].startswith("cell encode_halves-test was changed")
    assert table["deletes-test"]["notes"].startswith("cell encode_halves-test was deleted")
    assert "same student number as" in table["perfect"]["notes"]
    assert len(built.feedback("floods")) < 2**20
    stolen = built.graded("thief")["sum_factor"]
    assert "FOUND []" in stolen
    assert "WROTE" not in stolen and "CONNECTED" not in stolen
    for student in handed_in:
        assert "factor_reference" not in built.feedback(student)  # a name from a hidden test


def test_what_is_no_notebook_is_named_and_the_rest_is_graded(small):
    small.hand_in("fine", small.answered())
    small.hand_in("text", "not a notebook")
    small.hand_in("empty", "{}")
    small.hand_in("missing", small.answered()).unlink()
    os.truncate(small.hand_in("huge", small.answered()), grade.LARGEST_NOTEBOOK + 1)
    linked = small.hand_in("linked", small.answered())
    linked.unlink()
    linked.symlink_to(small.root / "source" / "small" / "small.ipynb")
    table = small.grade()
    assert table["fine"]["score"] == "100.0"
    reasons = {student: row["reason"] for student, row in table.items()}
    assert "not a notebook" in reasons.pop("text")
    assert "not a notebook" in reasons.pop("empty")
    assert reasons == {
        "fine": "",
        "missing": "there is no small.ipynb",
        "linked": "a link instead of a file",
        "huge": "the notebook has more than 50 MB",
    }
    assert all(row["score"] == "" for student, row in table.items() if student != "fine")


def test_a_fault_of_the_grader_is_told_and_written_down(small):
    small.hand_in("a", small.answered())
    (small.root / "gradebook.db").write_text("no gradebook")
    log = small.root / "grades.log"
    assert grade.grade(small.root, {"student": "a", "assignment": "small"}, OPTIONS, small.root)["reason"] == (
        "the grader failed, see grades.log"
    )
    assert "file is not a database" in log.read_text()
    assert log.read_text().count("a small\n") == 2  # it was tried once more


def test_a_whole_submission_has_a_limit(small):
    small.hand_in("slow", small.answered(answer="import time\ntime.sleep(60)"))
    assert small.grade(limit=8)["slow"]["reason"] == "grading took more than 8 seconds"


def started(course, *options):
    """The grader's command, running."""
    command = [sys.executable, str(Path(grade.HERE) / "grade.py"), str(course.root), "--jobs=1", *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_a_killed_run_goes_on_where_it_stopped(small):
    students = [f"s{number}" for number in range(3)]
    for student in students:
        small.hand_in(student, small.answered())
    log = small.root / "grades.jsonl"
    run, deadline = started(small), time.monotonic() + 120
    while not (log.exists() and log.read_text().strip()) and time.monotonic() < deadline:
        time.sleep(0.05)
    run.kill()
    run.wait()
    before = [json.loads(line)["student"] for line in log.read_text().splitlines()]
    assert 1 <= len(before) < 3

    assert started(small).wait() == 0
    graded = [json.loads(line)["student"] for line in log.read_text().splitlines() if line]
    assert sorted(graded) == students
    with open(small.root / "grades.csv", newline="") as file:
        assert {row["student"]: row["score"] for row in csv.DictReader(file)} == dict.fromkeys(students, "100.0")


def test_nothing_outlives_a_killed_grader(small):
    small.hand_in("endless", small.answered(double="while True:\n    pass"))
    run, deadline, below = started(small, "--seconds=60"), time.monotonic() + 120, []
    while not any("ipykernel_launcher" in process.cmdline() for process in below) and time.monotonic() < deadline:
        time.sleep(0.2)
        below = [p for p in psutil.Process(run.pid).children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE]
    assert below
    run.kill()
    run.wait()
    assert psutil.wait_procs(below, timeout=15)[1] == []


def test_a_changed_submission_is_graded_again_and_only_that(small):
    small.hand_in("a", small.answered())
    path = small.hand_in("b", small.answered(answer="answer = 41"))
    assert {s: row["score"] for s, row in small.grade().items()} == {"a": "100.0", "b": "50.0"}
    path.write_text(nbformat.writes(small.answered()))
    assert {s: row["score"] for s, row in small.grade().items()} == {"a": "100.0", "b": "100.0"}
    graded = [json.loads(line)["student"] for line in (small.root / "grades.jsonl").read_text().splitlines() if line]
    assert sorted(graded) == ["a", "b", "b"]


def test_points_given_by_hand_reach_the_table(small):
    small.hand_in("a", small.answered(answer="answer = 41"))
    assert small.grade()["a"]["score"] == "50.0"
    with Gradebook(f"sqlite:///{small.root / 'gradebook.db'}") as gradebook:
        gradebook.find_grade("answer-test", "small", "small", "a").manual_score = 30
        gradebook.db.commit()
    assert small.grade()["a"]["score"] == "80.0"


def test_where_the_visible_part_fails_the_hidden_part_names_the_mistake(small):
    small.hand_in("a", small.answered(double="def double(x):\n    return x + 2"))
    assert small.grade()["a"]["score"] == "50.0"
    assert small.graded("a")["double-test"] == "\nnot twice as much"


def test_after_a_crash_other_cells_are_still_graded(confined, small):
    crash = "import os\ndef double(x):\n    os._exit(1)"
    small.hand_in("late", small.answered(double=crash))
    row = small.grade()["late"]
    assert row["score"] == "50.0"
    assert row["notes"] == "cell double-test: the process ended: it left, crashed or ran out of memory"


@pytest.mark.parametrize(("crashes", "score"), [(RESTARTS, "100.0"), (RESTARTS + 2, "0.0")])
def test_a_submission_that_crashes_gets_so_many_new_processes(small, crashes, score):
    notebook = small.answered()
    notebook.cells[:0] = [new_code_cell("import os\nos._exit(1)") for _ in range(crashes)]
    small.hand_in("crashes", notebook)
    row = small.grade()["crashes"]
    assert row["score"] == score
    assert row["notes"] == (
        "cell of the student: the process ended: it left, crashed or ran out of memory "
        f"({min(crashes, RESTARTS + 1)} times)"
    )
    refused = f"the process had been replaced {RESTARTS} times" in small.feedback("crashes")
    assert refused == (score == "0.0")


@pytest.mark.parametrize("kind", ["text", "HTML", "Markdown", "SVG", "Latex", "Javascript"])
def test_no_script_of_a_submission_reaches_its_feedback(small, kind):
    notebook, script = small.answered(), "<script>document.title = 'taken'</script>"
    picture = f"<svg xmlns='http://www.w3.org/2000/svg'>{script}</svg>"
    shown = {"SVG": picture, "Javascript": "document.title = 'taken'"}.get(kind, script)
    cell = new_code_cell(f"import IPython.display\nIPython.display.{kind}({shown!r})")
    notebook.cells += [new_markdown_cell("If $a < b$:"), new_markdown_cell(script) if kind == "text" else cell]
    small.hand_in("intruder", notebook)
    assert small.grade()["intruder"]["reason"] == ""
    feedback = small.feedback("intruder")
    assert "<mi>a</mi><mo>&lt;</mo><mi>b</mi>" in feedback
    scripts = re.findall(r"<script.*?</script>", feedback, re.DOTALL)
    assert not [found for found in scripts if "taken" in found]


def test_names_that_a_test_asks_of_a_submission():
    source = """
import torch as t
from math import pi
g = 1
def reference(x, k=theta):
    inner = x + offset
    return [f(inner, y) for y in range(pi)]
check(lambda q: (q, own), shift, g)
for n in numbers:
    print(n)
"""
    asked, given = names(source)
    assert asked - given == {"theta", "offset", "f", "range", "check", "own", "shift", "numbers", "print"}
    assert given == {"t", "pi", "g", "reference", "n"}


def test_answers_go_into_the_released_notebook_whatever_was_handed_in(small):
    handed_in = small.answered()
    test = next(cell for cell in handed_in.cells if identity(cell) == "double-test")
    test.source = "True"
    forged = new_code_cell("100", metadata={"nbgrader": dict(test.metadata.nbgrader)})
    extra = new_code_cell("print(1)", metadata={"nbgrader": {"grade_id": "unknown", "locked": True, "grade": True}})
    handed_in.cells = [extra, *reversed(handed_in.cells), forged]
    result = put_into(small.released, handed_in)
    names = [identity(cell) for cell in result.cells]
    assert [name for name in names if name] == ["double", "double-test", "answer", "answer-test"]
    by_name = {identity(cell): cell for cell in result.cells if identity(cell)}
    assert "return 2 * x" in by_name["double"].source
    assert by_name["double-test"].source == "assert double(3) == 6"
    assert [cell.source for cell in result.cells if not identity(cell)].count("print(1)") == 1
    assert result.metadata["grading"]["notes"] == ["cell double-test was changed"]
