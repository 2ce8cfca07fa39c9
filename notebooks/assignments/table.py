"""The table of a class, COURSE/grades.csv: a line for each submission, and for each student who handed in nothing."""

import csv
import os
from collections import Counter, defaultdict
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook, MissingEntry

import roster
from copying import hints
from course import gradebook, identifier
from posenc_lib.exercises.graded import student_number

COLUMNS = ["student", "assignment", "score", "max_score", "waiting", "late", "number", "reason", "notes"]
NAMED = 3  # students who are named in a note


def write_table(course: Path, records: list[dict], present: list[tuple[str, str]]) -> Path:
    """The class in one table, with the scores as they stand in the gradebook, points given by hand included.

    Args:
        course: the folder of the class.
        records: what the grader noted, the oldest first.
        present: the submissions that are there now: student, assignment.
    """
    entries = {roster.key(name): entry for name, entry in roster.read(course).items()}
    last = {(record["student"], record["assignment"]): record for record in records}
    valid = {(record["student"], record["assignment"]): record for record in records if not record["reason"]}
    notes = class_notes(course, {place: valid[place] for place in present if place in valid}, entries)
    with gradebook(course) as book:
        rows = [line(book, place, last.get(place), valid.get(place), notes[place]) for place in present]
    handed_in = {(roster.key(student), assignment) for student, assignment in present}
    for assignment in sorted({assignment for _, assignment in present}):
        for key, entry in sorted(entries.items()):
            if (key, assignment) not in handed_in:
                rows.append(named(entry.student, assignment) | {"reason": "nothing was handed in"})
    path = course / "grades.csv"
    with open(part := path.with_suffix(".part"), "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        for row in sorted(rows, key=lambda row: (row["student"], row["assignment"])):
            table.writerow({column: roster.safe_cell(value) for column, value in row.items()})
    os.replace(part, path)
    return path


def line(book: Gradebook, place: tuple[str, str], last: dict | None, valid: dict | None, notes: list[str]) -> dict:
    """One submission: its points if a file of it was ever graded, else the reason why not.

    Args:
        book: where the points stand.
        place: student, assignment.
        last: what the grader noted last.
        valid: what it noted last of a file that could be graded.
        notes: what is noticed when all submissions are looked at.
    """
    row, reason = named(*place), last["reason"] if last else "not graded yet"
    if not valid:
        return row | {"reason": reason}
    try:
        row |= standing(book, *place)
    except MissingEntry:
        return row | {"reason": "not in the gradebook"}
    old = [f"the score is of an earlier file; the last one: {reason}"] if reason else []
    return row | {"number": valid["number"], "notes": "; ".join(old + valid["notes"] + notes)}


def named(student: str, assignment: str) -> dict:
    """The cells that say whose line it is."""
    return {"student": roster.shown(student), "assignment": roster.shown(assignment)}


def standing(book: Gradebook, student: str, assignment: str) -> dict:
    """Points as they stand in the gradebook, those that wait for a reader, and how late the submission came.

    Raises:
        MissingEntry: if the gradebook does not have it.
    """
    found = book.find_submission(assignment, identifier(student))
    waiting = sum(grade.max_score for n in found.notebooks for grade in n.grades if grade.needs_manual_grade)
    penalty = sum(n.late_submission_penalty or 0 for n in found.notebooks)
    late = f"{found.total_seconds_late / 3600:.1f} h" if found.total_seconds_late > 0 else ""
    return {"score": found.score - penalty, "max_score": found.max_score, "waiting": waiting, "late": late}


def class_notes(course: Path, valid: dict, entries: dict) -> dict[tuple, list[str]]:
    """What is noticed about a submission when the others, and the roster, are looked at."""
    notes, holders, spellings = defaultdict(list), defaultdict(list), Counter()
    for (student, assignment), record in valid.items():
        spellings[roster.key(student), assignment] += 1
        if record["number"] is not None:
            holders[assignment, student_number(record["number"])].append(student)
    for (student, assignment), record in valid.items():
        said, entry = notes[student, assignment], entries.get(roster.key(student))
        number = None if record["number"] is None else student_number(record["number"])
        others = sorted(roster.shown(s) for s in holders[assignment, number] if s != student)
        if others:
            said.append(f"same student number as {len(others)} more: {', '.join(others[:NAMED])}")
        if spellings[roster.key(student), assignment] > 1:
            said.append("another folder has the same name, written differently")
        if entries and entry is None:
            said.append("not in the roster")
        if entry and entry.number is not None and number is not None and number != student_number(entry.number):
            said.append(f"the roster has another number: {entry.number}")
    for assignment in sorted({assignment for _, assignment in valid}):
        graded = {student: course / "autograded" / identifier(student) for student, name in valid if name == assignment}
        for student, said in signs_of_copying(course, assignment, graded).items():
            notes[student, assignment] += said
    return notes


def signs_of_copying(course: Path, assignment: str, folders: dict[str, Path]) -> dict[str, list[str]]:
    """Hints for a class, from the grader's copies of what was handed in."""

    def read(folder: Path):
        path = folder / assignment / f"{assignment}.ipynb"
        return nbformat.read(path, as_version=4) if path.is_file() else None

    released = read(course / "release")
    notebooks = {student: notebook for student, folder in folders.items() if (notebook := read(folder))}
    return hints(notebooks, released, read(course / "source")) if released and len(notebooks) > 1 else {}
