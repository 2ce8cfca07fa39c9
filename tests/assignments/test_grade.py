"""Whole classes are graded: every submission gets the score that it earned, and none stops the others."""

import argparse
import contextlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.api import Gradebook

import grade
from course import identifier
from sandbox import RESTARTS
from submission import identity, names, put_into

OPTIONS = argparse.Namespace(seconds=20, memory=4096, limit=300)
SHORTER = {"06_experiment": {"(16, 32, 64), 200": "(16, 32, 64), 20"}}  # updates of each training
ASSIGNMENTS = sorted(path.parent.name for path in Path(grade.HERE).glob("source/*/*.ipynb"))


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_a_master_earns_every_automatic_point_and_a_released_version_none(confined, course, name):
    built = course(name, **SHORTER.get(name, {}))
    number = random.Random(name).randint(1, 10_000)  # test_masters.py looks at all of them; this one is graded
    built.hand_in("master", built.answered(student=f"STUDENT = {number}"))
    built.hand_in("blank", built.released)
    table = built.grade(seconds=60, limit=400)
    master, blank = table["master"], table["blank"]
    by_hand = sum(built.points[cell] for cell in built.manual)
    assert (master["number"], master["reason"], master["notes"]) == (str(number), "", "")
    assert float(master["score"]) == 100 - by_hand
    assert float(master["waiting"]) == by_hand
    assert float(blank["score"]) == float(blank["waiting"]) == 0
    assert (float(blank["max_score"]), blank["reason"]) == (100, "")
    cells = built.autograded("master").cells
    outputs = [output for cell in cells if cell.cell_type == "code" for output in cell.outputs]
    assert outputs and not [output for output in outputs if output.output_type == "error"]


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
    command = [sys.executable, str(Path(grade.HERE) / "grade.py"), str(course.root), *options]
    with open(course.root / "said", "w") as said:
        return subprocess.Popen(command, stdout=said, stderr=said)


def lives(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def a_kernel_runs(processes: list[psutil.Process]) -> bool:
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            found += process.cmdline()
    return "ipykernel_launcher" in found


def killed(run: subprocess.Popen, course, records: int) -> list[psutil.Process]:
    """Kill a grader while it runs a submission and has kept so many records; what ran below it."""
    below, deadline = [], time.monotonic() + 300
    while not (a_kernel_runs(below) and len(grade.history(course.root)) >= records) and time.monotonic() < deadline:
        time.sleep(0.05)
        assert run.poll() is None, (course.root / "said").read_text()
        below = psutil.Process(run.pid).children(recursive=True)
    run.kill()
    run.wait()
    return below


@pytest.fixture
def temporary(monkeypatch):
    """A temporary folder for the grader alone; its path is short, because the address of a socket has to be."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


def test_killed_at_three_moments_nothing_outlives_it_and_run_again_it_grades_everything_once(small, temporary):
    answers = {"wrong": "answer = 41", "exits": "import os\nos._exit(0)"}
    unusual = {"'=1+1": "=1+1", "Müller": os.fsdecode(b"M\xfcller")}  # as the table shows them
    answers |= dict.fromkeys(("right", *unusual.values()), "answer = 42")
    for student, code in answers.items():
        small.hand_in(student, small.answered(answer=code))
    small.hand_in("text", "not a notebook")
    small.hand_in("missing", "").unlink()
    for records in (1, 2, 3):
        below, deadline = killed(started(small), small, records), time.monotonic() + 30
        while any(map(lives, below)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert below and not [process for process in below if lives(process)]
    assert 3 <= len(grade.history(small.root)) < 7
    assert started(small).wait() == 0
    assert sorted(one["student"] for one in grade.history(small.root)) == sorted([*answers, "text", "missing"])
    assert list(temporary.iterdir()) == []
    rows = {student: (row["score"], row["reason"], row["notes"]) for student, row in small.rows().items()}
    assert rows == {
        "right": ("100.0", "", ""),
        "wrong": ("50.0", "", ""),
        "exits": ("50.0", "", "cell answer: the process ended: it left, crashed or ran out of memory"),
        "text": ("", "the file is not a notebook: NotJSONError", ""),
        "missing": ("", "there is no small.ipynb", ""),
    } | {
        student: ("100.0", "", f"called {identifier(name)} in Formgrader and in feedback/")
        for student, name in unusual.items()
    }


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


def test_no_script_of_a_submission_reaches_its_feedback(small):
    notebook, script = small.answered(), "<script>document.title = 'taken'</script>"
    picture = f"<svg xmlns='http://www.w3.org/2000/svg'>{script}</svg>"
    notebook.cells += [new_markdown_cell("If $a < b$:"), new_markdown_cell(script)]
    for kind in ("HTML", "Markdown", "SVG", "Latex", "Javascript"):
        shown = {"SVG": picture, "Javascript": "document.title = 'taken'"}.get(kind, script)
        notebook.cells.append(new_code_cell(f"import IPython.display\nIPython.display.{kind}({shown!r})"))
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
