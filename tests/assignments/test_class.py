"""What a teacher does with a class: late, repaired, resubmitted, renamed, by hand, and in any folder."""

import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_markdown_cell

import course
import grade
import release
from submission import identity, put_into, with_pictures

FEEDBACK_BY_HAND = [sys.executable, "-m", "nbgrader", "generate_feedback", "small"]
PIXEL = bytes.fromhex("89504e470d0a1a0a")


def graded_files(small) -> list[str]:
    return [record["student"] for record in grade.history(small.root)]


def test_a_repaired_master_is_released_again_and_every_submission_graded_again(small):
    small.hand_in("right", small.answered(answer="answer = 43"))
    assert small.grade()["right"]["score"] == "50.0"
    for cell in small.master.cells:
        if identity(cell) == "answer-test":
            cell.source = cell.source.replace("42", "43")
            cell.metadata.nbgrader["points"] = 60
    nbformat.write(small.master, small.root / "source" / "small" / "small.ipynb")
    release.release(small.root)
    row = small.grade()["right"]
    assert (row["score"], row["max_score"]) == ("110.0", "110.0")


def test_only_the_students_that_are_named_are_graded(small):
    for student in ("Anna", "Bert", "Mu\u0308ller"):
        small.hand_in(student, small.answered())
    table = small.grade(student=["anna", "M\N{LATIN SMALL LETTER U WITH DIAERESIS}ller"])
    assert sorted(graded_files(small)) == ["Anna", "Mu\u0308ller"]
    assert table["Bert"]["reason"] == "not graded yet"


def test_a_broken_resubmission_leaves_the_score_of_the_last_good_file(small):
    path = small.hand_in("a", small.answered(answer="answer = 41"))
    small.grade()
    for broken, reason in ("not a notebook", "the file is not a notebook"), (None, "there is no small.ipynb"):
        path.write_text(broken) if broken else path.unlink()
        row = small.grade()["a"]
        assert (row["score"], row["reason"]) == ("50.0", "")
        assert row["notes"].startswith(f"the score is of an earlier file; the last one: {reason}")
        assert small.feedback("a")


def test_a_student_who_withdrew_has_no_line(small):
    small.hand_in("stays", small.answered())
    gone = small.hand_in("goes", small.answered())
    assert set(small.grade(student=["goes"])) == {"stays", "goes"}
    shutil.rmtree(gone.parent.parent)
    assert set(small.grade(student=["goes"])) == {"stays"}


def test_a_roster_adds_those_who_handed_in_nothing_and_checks_numbers(small):
    (small.root / "roster.csv").write_text("student;number\nANNA;1\nBert;7\nCarla;3\n", encoding="utf-8")
    for student in ("Anna", "Bert", "Doris"):
        small.hand_in(student, small.answered(double="STUDENT = '007'\ndef double(x):\n    return 2 * x"))
    for cell in small.master.cells:
        if identity(cell) == "double-test":
            cell.source = "from posenc_lib.exercises.graded import own\nown(STUDENT, a=(1,))\n" + cell.source
    nbformat.write(small.master, small.root / "source" / "small" / "small.ipynb")
    release.release(small.root)
    table = small.grade()
    assert table["Carla"]["reason"] == "nothing was handed in"
    assert table["Carla"]["score"] == ""
    assert "the roster has another number: 1" in table["Anna"]["notes"]
    assert "roster" not in table["Bert"]["notes"]
    assert "not in the roster" in table["Doris"]["notes"]
    assert "same student number as 2 more: Anna, Doris" in table["Bert"]["notes"]
    assert {table[student]["number"] for student in ("Anna", "Bert", "Doris")} == {"007"}


def test_a_roster_that_is_none_stops_the_grader_in_words(small, monkeypatch):
    (small.root / "roster.csv").write_text("name\nAnna\n")
    (small.root / "submitted").mkdir()
    monkeypatch.setattr(sys, "argv", ["grade.py", str(small.root)])
    with pytest.raises(SystemExit, match=r"roster\.csv, line 1: there is no column student, only \['name'\]$"):
        grade.main()


def test_a_written_answer_waits_until_it_was_read_and_again_when_it_changed(small_written):
    path = small_written.hand_in("a", small_written.answered())
    assert small_written.grade()["a"]["waiting"] == "20.0"
    with course.gradebook(small_written.root) as book:
        found = book.find_grade("words", "small", "small", "a")
        found.manual_score, found.needs_manual_grade = 15, False
        book.db.commit()
    row = small_written.grade(again=True)["a"]
    assert (row["score"], row["waiting"]) == ("115.0", "0")
    path.write_text(nbformat.writes(small_written.answered(words="Another answer.")))
    row = small_written.grade()["a"]
    assert (row["score"], row["waiting"]) == ("115.0", "20.0")


def test_how_late_it_was_is_told_and_nbgraders_penalty_taken_off(small, monkeypatch):
    with course.gradebook(small.root) as book:
        book.update_or_create_assignment("small", duedate=datetime(2026, 1, 1, 12, tzinfo=UTC).replace(tzinfo=None))
    for student, time in (("punctual", "11:59:00"), ("late", "14:30:00"), ("garbled", "noon")):
        path = small.hand_in(student, small.answered())
        path.with_name("timestamp.txt").write_text(f"2026-01-01 {time} UTC" if ":" in time else time)
    table = small.grade()
    assert {student: row["late"] for student, row in table.items()} == {"punctual": "", "late": "2.5 h", "garbled": ""}
    assert table["garbled"]["notes"] == "timestamp.txt holds no time"
    assert table["late"]["score"] == "100.0"

    own = small.root / "nbgrader_config.py"
    own.write_text(own.read_text() + "c = get_config()\nc.LateSubmissionPlugin.penalty_method = 'zero'\n")
    table = small.grade(again=True, student=["late", "punctual"])
    assert (table["late"]["score"], table["punctual"]["score"]) == ("0.0", "100.0")
    assert small.grade()["late"]["score"] == "0.0"


def test_a_file_that_cannot_be_read_is_named_and_the_rest_is_graded(small, monkeypatch):
    small.hand_in("fine", small.answered())
    locked = small.hand_in("locked", small.answered())
    read = Path.read_bytes

    def refusing(path):
        if path == locked:
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refusing)
    table = small.grade()
    assert table["locked"]["reason"] == "the file cannot be read: Permission denied"
    assert table["fine"]["score"] == "100.0"


def test_nothing_is_read_through_a_link(small, monkeypatch):
    secret = small.root / "secret.ipynb"
    secret.write_text(nbformat.writes(small.answered()))
    for student in ("file", "folder", "both"):
        path = small.hand_in(student, small.answered())
        path.unlink()
        if student == "file":
            path.symlink_to(secret)
        else:
            other = small.root / f"other-{student}"
            other.mkdir()
            (other / "small.ipynb").write_text(secret.read_text())
            path.parent.rmdir()
            path.parent.symlink_to(other)
    linked = small.root / "submitted" / "student"
    linked.symlink_to(small.root / "submitted" / "file")
    opened, read = [], Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: opened.append(path) or read(path))
    assert {row["reason"] for row in small.grade().values()} == {"a link instead of a file"}
    assert opened == []


def test_two_graders_do_not_work_in_one_folder(small):
    with grade.alone(small.root), pytest.raises(RuntimeError, match="another grader is at work in"):
        grade.grade_class(small.root, None)


def test_what_a_killed_grader_left_behind_is_removed_and_nothing_else(small, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    left, other = tmp_path / "temporary" / "grading-x", tmp_path / "grading-y"
    for folder in (left / "deep", other):
        folder.mkdir(parents=True)
    for recorded in (left, other):
        (small.root / ".grading").write_text(f"{recorded}\n{recorded}")
        with grade.alone(small.root) as folder:
            assert folder.parent == left.parent
    assert not left.exists() and other.exists()
    assert list(left.parent.iterdir()) == []


@pytest.mark.parametrize("name", ["a space [1-9] what?", "100% a#b M\xfcller's \""])
def test_a_class_in_a_folder_of_any_name(small, tmp_path, name):
    small.root = small.root.rename(tmp_path / name)
    small.hand_in("a", small.answered())
    assert release.release(small.root) == ["small"]
    assert small.grade()["a"]["score"] == "100.0"
    assert small.feedback("a")


def test_a_course_folder_gets_the_configuration_and_keeps_additions(small):
    written = small.root / "nbgrader_config.py"
    text = written.read_text()
    assert str(course.HERE) in text
    written.write_text("c = get_config()\n" + text)
    course.prepare(small.root)
    assert written.read_text() == "c = get_config()\n" + text
    written.write_text("c = get_config()\n")
    with pytest.raises(ValueError, match="must begin with these lines, or nbgrader shows hidden tests"):
        course.prepare(small.root)
    written.write_text(text.replace(str(course.HERE), "/an/older/place"))
    course.prepare(small.root)
    assert written.read_text() == text


@pytest.mark.parametrize(
    ("student", "known"),
    [
        ("anna", "anna"),
        ("O'Brien", "O'Brien"),
        ("Li, Wei", "Li, Wei"),
        ("Mu\u0308ller", "Mu\u0308ller"),
        ("\N{DEVANAGARI LETTER KA}\N{DEVANAGARI VOWEL SIGN I}", "\N{DEVANAGARI LETTER KA}\N{DEVANAGARI VOWEL SIGN I}"),
        ("a b ", None),
        ("[ab]*", None),
        ("=1+1", None),
        ("<b>", None),
        ("a\nb", None),
        (os.fsdecode(b"M\xfcller"), None),
    ],
)
def test_names_that_mean_nothing_to_nbgrader_are_kept(student, known):
    assert course.identifier(student) == known or (known is None and course.identifier(student).startswith("student-"))
    assert course.identifier(course.called(student).strip()) == course.called(student).strip()


def test_an_answer_beside_its_cell_is_put_into_it(small_written):
    handed_in = small_written.answered("words")
    place = [identity(cell) for cell in handed_in.cells].index("words")
    handed_in.cells.insert(place + 1, new_markdown_cell("Below."))
    handed_in.cells.insert(place, new_markdown_cell("Above.", attachments={"p.png": {"image/png": "AAAA"}}))
    handed_in.cells.insert(place, new_markdown_cell("  "))
    result = put_into(small_written.released, handed_in)
    (answer,) = [cell for cell in result.cells if identity(cell) == "words"]
    assert answer.source == "Above.\n\nBelow."
    assert answer.attachments == {"p.png": {"image/png": "AAAA"}}
    assert [cell.source for cell in result.cells].count("Below.") == 0
    assert result.metadata["grading"]["notes"] == [
        "the answer of words stood in another cell and was put where it belongs"
    ]

    handed_in = small_written.answered(words="In its place.")
    handed_in.cells.append(new_markdown_cell("A remark."))
    result = put_into(small_written.released, handed_in)
    assert [cell.source for cell in result.cells][-1] == "A remark."
    assert result.metadata["grading"]["notes"] == []


def test_line_ends_of_another_system_change_no_cell(small):
    handed_in = small.answered()
    for cell in handed_in.cells:
        cell.source = cell.source.replace("\n", "\r\n") + "\r\n"
    assert put_into(small.released, handed_in).metadata["grading"]["notes"] == []


def test_pictures_that_lie_beside_the_notebook_become_attachments_and_nothing_else_does(small, tmp_path):
    folder = tmp_path / "handed in"
    (folder / "deeper").mkdir(parents=True)
    for name in ("a plot.png", "script.svg", "deeper/p.png", "../outside.png"):
        (folder / name).write_bytes(PIXEL)
    (folder / "link.png").symlink_to(tmp_path / "outside.png")
    links = [
        "a%20plot.png",
        "script.svg",
        "deeper/p.png",
        "../outside.png",
        "link.png",
        "/etc/x.png",
        "missing.png",
        "\0.png",
    ]
    notebook = small.answered()
    notebook.cells = [new_markdown_cell(f"![picture]({link})") for link in links]
    sources = [cell.source for cell in with_pictures(notebook, folder).cells]
    assert sources == ["![picture](attachment:a plot.png)", *(f"![picture]({link})" for link in links[1:])]
    assert list(notebook.cells[0].attachments["a plot.png"]) == ["image/png"]
    assert not any("attachments" in cell for cell in notebook.cells[1:])


def test_feedback_made_by_hand_in_a_folder_elsewhere_shows_no_hidden_test(small):
    small.hand_in("a", small.answered(double="def double(x):\n    return x + 3"))
    small.grade()
    shutil.rmtree(small.root / "feedback")
    subprocess.run(FEEDBACK_BY_HAND, cwd=small.root, check=True, capture_output=True)
    shown = re.sub("<[^>]*>", "", small.feedback("a"))
    assert "assert double(3) == 6" in shown
    assert "== 100" not in shown
