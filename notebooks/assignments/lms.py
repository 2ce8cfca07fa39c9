"""Take in what Moodle and Canvas give out, and give out what they take in: make import, make export, or

    python lms.py import ZIP ASSIGNMENT [COURSE] [--worksheet CSV] [--zip-times] [--timezone Europe/Berlin]
    python lms.py export ASSIGNMENT [COURSE] [--title "Homework 1 (1234)"]

``import`` reads the zip of "Download all submissions" and writes COURSE/submitted/STUDENT/ASSIGNMENT/ASSIGNMENT.ipynb,
STUDENT from COURSE/roster.csv where email, user id or name agree, otherwise from the zip. COURSE/lms.json keeps who is
who for ``export``, which reads COURSE/grades.csv and writes to COURSE/export/:

    moodle-ASSIGNMENT.csv             for "Upload grading worksheet"
    moodle-ASSIGNMENT-feedback.zip    for "Upload multiple feedback files in a zip"
    canvas-ASSIGNMENT.csv             for "Import" in the gradebook

The layouts are those that the two systems' own programs write and read (public at github.com):

    moodle/moodle           mod/assign/classes/downloader.php, mod/assign/gradingtable.php (the worksheet),
                            mod/assign/feedback/offline/importgradeslib.php, mod/assign/feedback/file/importziplib.php
    instructure/canvas-lms  lib/content_zipper.rb, lib/gradebook_exporter.rb, lib/gradebook_importer.rb

In Moodle: "Full Name_12345_assignsubmission_file_/any/file.ipynb", without the last "_" since 4.1, or, not in folders,
"Full Name_12345_assignsubmission_file_file.ipynb". The number is the student's in this one assignment (in an assignment
for groups the group's, which cannot be exported).
In Canvas: "lastnamefirstname_LATE_12345_67890_file.ipynb", with the ids of the user and of the file, where newer files
have larger ids; "anon_x3fB2" takes the place of the user when grading is anonymous.

**Times.** Both systems date the files in the zip with the moment of the download (Moodle until 3.9: of the submission).
So a time of submission is taken from Moodle's grading worksheet (``--worksheet``, downloaded while Moodle speaks
English), or from the zip if ``--zip-times`` says that its times are such. Both are local times without a zone:
``--timezone`` names it, by default this computer's. Without a time there is no timestamp.txt and nothing is late.
"""

import argparse
import csv
import json
import os
import re
import stat
import struct
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from dateutil import parser as dates

from course import HERE, LARGEST_NOTEBOOK, identifier
from roster import LONGEST_NAME, Entry, key, read, safe_cell, shown, table

LARGEST_IMPORT = 4 * 2**30  # bytes of all notebooks together
LONGEST_PATH = 1000  # characters
MOST_FILES = 20_000
MOODLE = re.compile(
    r"(?P<name>[^_]+)_(?P<id>[0-9]{1,18})_assignsubmission_(?P<plugin>[a-z]+)(_(?P<file>.*))?", re.DOTALL
)
CANVAS = re.compile(
    r"((?!(LATE_)?anon_)(?P<name>.*?)_)?(?P<late>LATE_)?(?P<id>[0-9]{1,18}|anon_[0-9A-Za-z]{1,18})"
    r"_(?P<upload>[0-9]{1,18})_(?P<file>.+)",
    re.DOTALL,
)
# What browsers, systems and Canvas append to a name that is taken.
COPY = re.compile(r"( ?\((?P<a>[0-9]{1,9})\)|[ _-]+copy(?P<b>[0-9]{0,9})|-(?P<c>[0-9]{1,9}))+$", re.IGNORECASE)


class File(NamedTuple):
    """A file of a submission."""

    name: str
    info: zipfile.ZipInfo
    order: tuple  # larger for newer


@dataclass
class Person:
    """Somebody who handed in, as the system knows them."""

    system: str
    id: str
    name: str
    late: bool = False
    email: str = ""
    time: datetime | None = None
    files: list[File] = field(default_factory=list)


def import_zip(
    path: Path,
    assignment: str,
    course: Path,
    worksheet: Path | None = None,
    zip_times: bool = False,
    zone: ZoneInfo | None = None,
) -> list[str]:
    """Put the submissions in the zip at ``path`` where the grader looks for them; what happened, a line for each.

    Args:
        path: what "Download all submissions" gave.
        assignment: its name here.
        course: the folder of the class.
        worksheet: Moodle's grading worksheet, for times and email addresses.
        zip_times: whether the times in the zip are those of the submissions.
        zone: of these times; by default this computer's.
    Raises:
        ValueError: if the assignment is not there, the zip is none, or a table has a mistake.
    """
    if not any((course / step / assignment / f"{assignment}.ipynb").is_file() for step in ("source", "release")):
        raise ValueError(f"there is no assignment {assignment!r} in {course}")
    entries, ids, lines, room = read(course), _ids(course), [], LARGEST_IMPORT
    known = ids.setdefault(assignment, {})
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile, struct.error) as error:
        raise ValueError(f"{path} cannot be read as a zip: {error}") from None
    with archive:
        persons = _persons(archive, lines)
        if worksheet:
            _add_worksheet(worksheet, persons, zone)
        for person, student, why in _students(persons, entries, known, course / "submitted"):
            taken, words = _choose(person, assignment)
            if taken:
                if zip_times and person.time is None:
                    person.time = _zip_time(taken.info, zone)
                try:
                    content = _content(archive, taken.info, min(LARGEST_NOTEBOOK, room))
                    room -= len(content)
                    happened = _hand_in(content, person.time, course / "submitted" / student / assignment)
                    words = f"{happened}, {words}"
                    known[student] = {name: getattr(person, name) for name in ("system", "id", "name", "email")}
                except Exception as error:  # whatever is wrong with one file, the others are taken
                    words = f"{_short(taken.name)} cannot be taken: {shown(str(error))}"
            late = ["marked as late by Canvas"] if person.late else []
            lines.append(f"{_short(student)}: {'; '.join([words, *why, *late])}")
    _write(course / "lms.json", json.dumps(ids, indent=1).encode())
    return lines


def _persons(archive: zipfile.ZipFile, lines: list[str]) -> list[Person]:
    """Who has files in ``archive``; what is wrong with a file goes into ``lines``."""
    if len(archive.infolist()) > MOST_FILES:
        raise ValueError(f"{archive.filename} holds {len(archive.infolist())} files; at most {MOST_FILES} are allowed")
    files = []
    for number, info in enumerate(archive.infolist()):
        name = file_name(info)
        parts = name.split("/")
        if info.is_dir() or "__MACOSX" in parts or parts[-1] == ".DS_Store":
            continue
        if why := _refusal(info, name):
            lines.append(f"{_short(name)}: refused, {why}")
        else:
            files.append((number, info, parts))

    in_moodle = any(MOODLE.fullmatch(part) for *_, parts in files for part in parts)
    system, layout = ("moodle", MOODLE) if in_moodle else ("canvas", CANVAS)
    persons = {}
    for number, info, parts in files:
        # The first part that fits: what follows in the path is the student's choice.
        depth = next((depth for depth, part in enumerate(parts) if layout.fullmatch(part)), None)
        if depth is None:
            lines.append(f"{_short('/'.join(parts))}: left, neither Moodle nor Canvas names a submission like this")
            continue
        named = layout.fullmatch(parts[depth]).groupdict()
        person = persons.setdefault(named["id"], Person(system, named["id"], named["name"] or named["id"]))
        person.late |= bool(named.get("late"))
        inside = [part for part in (named["file"], *parts[depth + 1 :]) if part]
        if inside and not any(part.startswith(".") for part in inside):
            order = int(named.get("upload") or 0), info.date_time, _revision(inside[-1]), number
            person.files.append(File(inside[-1], info, order))
    return list(persons.values())


def file_name(info: zipfile.ZipInfo) -> str:
    """The path of a file in a zip, in whichever encoding it is: UTF-8, flagged or not, code page 437, or Latin-1."""
    name = info.orig_filename
    if info.flag_bits & 0x800:
        return name
    raw = name.encode("cp437")  # what zipfile had decoded
    try:
        return raw.decode()
    except UnicodeDecodeError:
        letters = raw.decode("latin-1")
        return name if re.search(r"[\x80-\x9f]", letters) else letters


def _refusal(info: zipfile.ZipInfo, name: str) -> str:
    """Why a file of a zip is not looked at; empty if it is."""
    if len(name) > LONGEST_PATH:
        return f"its name has {len(name)} characters"
    if name.startswith(("/", "\\")) or re.match("[A-Za-z]:", name) or ".." in re.split(r"[/\\]", name) or "\0" in name:
        return "its path leads elsewhere"
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
        return "a link or a device, not a file"
    if info.flag_bits & 1:
        return "it is encrypted"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "it is compressed in an unusual way"
    return ""


def _revision(name: str) -> int:
    """The number that was appended to ``name`` because the name was taken."""
    found = COPY.search(name.rpartition(".")[0])
    return int(next((n for n in found.group("a", "b", "c") if n), 0)) if found else 0


def _add_worksheet(path: Path, persons: Iterable[Person], zone: ZoneInfo | None) -> None:
    """Add email addresses and times of submission from Moodle's grading worksheet."""
    times = "last modified (submission)"
    rows = {
        cells["identifier"].removeprefix("Participant").strip(): (line, cells)
        for line, cells in table(path, "identifier", times)
    }
    for person in persons:
        line, cells = rows.get(person.id, (0, {}))
        person.email = cells.get("email address", "")
        if cells.get(times, "-") not in ("", "-"):
            try:
                person.time = _utc(dates.parse(cells[times]), zone)
            except (ValueError, OverflowError):
                raise ValueError(f"{path}, line {line}: {cells[times]!r} is no time in English") from None


def _utc(time: datetime, zone: ZoneInfo | None) -> datetime:
    """A local time of ``zone``, by default of this computer, as universal time."""
    return time.replace(tzinfo=zone).astimezone(UTC)


def _zip_time(info: zipfile.ZipInfo, zone: ZoneInfo | None) -> datetime | None:
    try:
        return _utc(datetime(*info.date_time), zone)
    except (ValueError, OverflowError):
        return None


def _students(
    persons: list[Person], entries: Mapping[str, Entry], known: Mapping[str, Mapping], submitted: Path
) -> Iterator[tuple[Person, str, list[str]]]:
    """Each person, the name of their folder, and what is to be said about it."""
    folders = {key(path.name): path.name for path in submitted.glob("*")}
    before = {(ids["system"], ids["id"]): student for student, ids in known.items()}
    owners = {key(student): (ids["system"], ids["id"]) for student, ids in known.items()}
    listed = {person.id: _listed(person, entries.values()) for person in persons}
    claims = Counter(listed.values())
    surest = {student: min(sure for sure, other in claims if other == student) for _, student in claims}
    names, reserved = Counter(key(person.name) for person in persons), set(map(key, entries))
    for person in persons:
        me, why = (person.system, person.id), []
        sure, student = listed[person.id]
        if not student or sure > surest[student] or claims[sure, student] > 1:
            student = before.get(me) or folder_name(person.name)
            if entries:
                why.append("not found in roster.csv")
            if me not in before and (names[key(person.name)] > 1 or key(student) in {"participant", *reserved}):
                student = folder_name(person.name, person.id)
        student = folders.get(key(student), student)
        owner = owners.setdefault(key(student), me)
        if owner[0] == me[0] and owner != me:
            student = folder_name(person.name, person.id)
            why.append(f"somebody else than {shown(person.name)} with id {owner[1]}")
        if me in before and key(before[me]) != key(student):
            why.append(f"was imported as {shown(before[me])} before: delete that folder")
        yield person, student, why


def _listed(person: Person, entries: Iterable[Entry]) -> tuple[int, str]:
    """How ``person`` was found in the roster, 0 for the surest way, and which student it is: "" if not clear."""
    in_canvas, letters = person.system == "canvas", _letters(person.name)
    others = [entry for entry in entries if not (in_canvas and entry.canvas not in ("", person.id))]
    signs = (
        lambda entry: in_canvas and entry.canvas == person.id,
        lambda entry: person.email and key(entry.email) == key(person.email),
        lambda entry: key(person.name) in (key(entry.name), key(entry.student)),
        # Both systems leave out signs; Canvas puts the last name first and leaves out spaces.
        lambda entry: letters and letters in {*_turned(entry.name), *_turned(entry.student)},
    )
    for sure, agrees in enumerate(signs):
        if found := [entry.student for entry in others if agrees(entry)]:
            return sure, found[0] if len(found) == 1 else ""
    return len(signs), ""


def _letters(name: str) -> str:
    """The letters and digits of ``name``."""
    return "".join(c for c in key(name) if c.isalnum())


def _turned(name: str) -> set[str]:
    """The letters of ``name`` beginning with any of its words."""
    words = name.split()
    return {_letters("".join(words[n:] + words[:n])) for n in range(len(words))}


def folder_name(name: str, number: str = "") -> str:
    """A folder for somebody called ``name``, as the name is written if it can be; with ``number`` behind it."""
    name = re.sub(r"[\x00-\x1f\x7f/\\]", "_", name).strip().lstrip(".") or "student"
    behind = f" ({number})" if number else ""
    while len((name + behind).encode()) > LONGEST_NAME:
        name = name[:-1]
    return name + behind


def _choose(person: Person, assignment: str) -> tuple[File | None, str]:
    """The notebook that ``person`` handed in, the one with the assignment's name or else the newest; in words too."""
    notebooks = [file for file in person.files if file.name.lower().endswith(".ipynb")]
    if not notebooks:
        others = ", ".join(_short(file.name) for file in person.files[:3])
        return None, f"no notebook{', only ' + others if others else ''}"
    taken = max(notebooks, key=lambda file: (_is_named(file.name, assignment), file.order))
    left = [_short(file.name) for file in notebooks if file is not taken]
    others = f", not from {', '.join(left[:3])}{' ...' if left[3:] else ''}" if left else ""
    return taken, f"from {_short(taken.name)}{others}"


def _is_named(name: str, assignment: str) -> bool:
    """Whether a notebook called ``name`` has the name of the assignment, perhaps as a copy."""
    stem = name.rpartition(".")[0]
    return key(assignment) in (key(stem), key(COPY.sub("", stem)))


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo, limit: int) -> bytes:
    """The content of a file in a zip.

    Raises:
        ValueError: if the size that it states or the real one is over ``limit``.
    """
    if info.file_size <= limit:
        with archive.open(info) as file:
            content = file.read(limit + 1)
        if len(content) <= limit:
            return content
    raise ValueError(f"it has more than {limit // 2**20} MB")


def _hand_in(content: bytes, time: datetime | None, folder: Path) -> str:
    """Write a notebook to where the grader looks for it, unless it is there or a newer one; what happened.

    Raises:
        ValueError: if there is a link, which could lead elsewhere.
    """
    path, stamp = folder / f"{folder.name}.ipynb", folder / "timestamp.txt"
    if any(part.is_symlink() for part in (folder.parent, folder, path, stamp)):
        raise ValueError("there is a link instead of a folder or a file")
    old = _time_in(stamp)
    if path.is_file() and time and old and time < old:
        return "older than what is there, not written"
    happened = ("unchanged" if path.read_bytes() == content else "replaced") if path.is_file() else "new"
    if happened != "unchanged":
        folder.mkdir(parents=True, exist_ok=True)
        stamp.unlink(missing_ok=True)  # it was the time of the notebook before
        _write(path, content)
    if time:
        _write(stamp, time.strftime("%Y-%m-%d %H:%M:%S UTC").encode())  # as nbgrader.utils.parse_utc reads it
    return happened


def _time_in(path: Path) -> datetime | None:
    """The time in a timestamp.txt."""
    try:
        return datetime.strptime(path.read_text().strip(), "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
    except (OSError, ValueError):
        return None


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    part = path.with_name(f".{os.getpid()}.part")
    part.write_bytes(content)
    part.replace(path)


def _ids(course: Path) -> dict[str, dict[str, dict[str, str]]]:
    """Who handed in what: by assignment and student, the ids that the system gave them."""
    path = course / "lms.json"
    try:
        return json.loads(path.read_text()) if path.exists() else {}
    except ValueError as error:
        raise ValueError(f"{path} is not what import wrote: {error}") from None


def _short(name: str) -> str:
    """``name`` for a line on the screen."""
    name = shown(name)
    return name if len(name) <= 100 else f"{name[:90]}... ({len(name)} characters)"


def export(assignment: str, course: Path, title: str | None = None) -> list[str]:
    """Write the scores of ``assignment`` for Moodle and Canvas; what was written, and who is left out and why.

    A student without a score, or with points that wait for a reader, has no line: in Canvas an empty cell takes away
    the grade that is there. Notes and reasons are for the teacher and are not exported.

    Args:
        assignment: its name here.
        course: the folder of the class.
        title: the column's name in Canvas, "Name (id)" for an assignment that is there; by default ``assignment``.
    Raises:
        ValueError: if there is no table of grades, or nothing in it that can be exported.
    """
    path = course / "grades.csv"
    if not path.exists():
        raise ValueError(f"there is no {path}: grade the class first")
    entries = {key(_cell(entry.student)): entry for entry in read(course).values()}
    imported = {key(_cell(student)): (student, ids) for student, ids in _ids(course).get(assignment, {}).items()}
    moodle, canvas, highest, lines = [], [], 0.0, []
    for line, row in table(path, "student", "assignment", "score", "max_score", "waiting"):
        if row["assignment"] != _cell(assignment):
            continue
        name, reason = row["student"], row.get("reason", "")
        score, waiting, most = (_number(row[cell], cell, path, line) for cell in ("score", "waiting", "max_score"))
        if score is None or waiting:
            why = f"{waiting:g} points wait for a reader" if waiting else f"no score{': ' * bool(reason)}{reason}"
            lines.append(f"{name}: left out, {why}")
            continue
        highest = max(highest, most or 0)
        entry = entries.get(key(name), Entry(name))
        student, ids = imported.get(key(name), (name, dict.fromkeys(("system", "id", "name", "email"), "")))
        user = entry.canvas or (ids["id"] if ids["system"] == "canvas" and ids["id"].isdecimal() else "")
        if ids["system"] == "moodle":
            moodle.append((student, ids, row))
        if user or entry.sis or entry.login:
            full_name = _cell(entry.name or ids["name"] or student)
            canvas.append([full_name, user, entry.sis, entry.login, "", row["score"]])
        elif ids["system"] != "moodle":
            lines.append(f"{name}: left out, no id is known from an import or from roster.csv")
    if not moodle and not canvas:
        raise ValueError("\n".join([f"there is nothing to export of {assignment!r}", *lines]))
    (course / "export").mkdir(exist_ok=True)
    if moodle:
        lines += _export_moodle(moodle, course, assignment)
    if canvas:
        # Canvas finds students by ID, else by SIS or login id, else by name. The ids are plain, as roster.read sees to,
        # and written as they are; so names can be protected.
        heading = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", title or assignment]
        points = ["    Points Possible", "", "", "", "", f"{highest:g}"]
        path = course / "export" / f"canvas-{assignment}.csv"
        _write_table(path, [heading, points, *canvas])
        lines.append(f"{len(canvas)} scores for Canvas: {path}")
    return lines


def _number(cell: str, column: str, path: Path, line: int) -> float | None:
    """The number in a cell, None if it is empty."""
    try:
        return float(cell) if cell else None
    except ValueError:
        raise ValueError(f"{path}, line {line}: {column} must be a number, got {cell!r}") from None


def _export_moodle(rows: list[tuple[str, dict, dict]], course: Path, assignment: str) -> list[str]:
    """Write the worksheet and the feedback for Moodle.

    Moodle finds students by the number in "Identifier" only, so names and addresses can be protected. It wants the
    column "Last modified (grade)"; empty, it keeps Moodle from replacing a grade that is there unless the teacher ticks
    so. There is no column for comments: an empty one would delete those written in Moodle.
    """
    sheet, pages = (course / "export" / f"moodle-{assignment}{end}" for end in (".csv", "-feedback.zip"))
    heading = ["Identifier", "Full name", "Email address", "Grade", "Maximum Grade", "Last modified (grade)"]
    cells = [
        [f"Participant {ids['id']}", _cell(ids["name"]), _cell(ids["email"]), row["score"], row["max_score"], ""]
        for _, ids, row in rows
    ]
    _write_table(sheet, [heading, *cells])
    lines = [f"{len(rows)} scores for Moodle: {sheet}"]
    with zipfile.ZipFile(pages, "w", zipfile.ZIP_DEFLATED) as archive:
        for student, ids, row in rows:
            page = course / "feedback" / identifier(student) / assignment / f"{assignment}.html"
            if page.is_file():
                archive.write(page, f"{shown(ids['name'])}_{ids['id']}_assignsubmission_file_/{page.name}")
            else:
                lines.append(f"{row['student']}: no feedback, there is no {shown(str(page))}")
    return [*lines, f"feedback for Moodle: {pages}"]


def _cell(text: str) -> str:
    """``text`` as it stands in a table of ours."""
    return safe_cell(shown(text)).strip()


def _write_table(path: Path, rows: list[list[str]]) -> None:
    """Write a table that both systems and spreadsheets read: UTF-8 with a mark, commas."""
    with open(path, "w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file).writerows(rows)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError):
        raise ValueError(f"there is no time zone {name!r}; one is Europe/Berlin") from None


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    taking = commands.add_parser("import", help="take in a zip of submissions")
    taking.add_argument("zip", type=Path, help='what "Download all submissions" gave')
    giving = commands.add_parser("export", help="write scores and feedback for upload")
    for each in (taking, giving):
        each.add_argument("assignment", help="name of the assignment here")
        each.add_argument("course", nargs="?", type=Path, default=HERE, help="folder of the class; by default this one")
    taking.add_argument("--worksheet", type=Path, help="Moodle's grading worksheet, for times and email addresses")
    taking.add_argument("--zip-times", action="store_true", help="the times in the zip are those of the submissions")
    taking.add_argument("--timezone", help="zone of the times, as Europe/Berlin; by default this computer's")
    giving.add_argument("--title", help='column in Canvas, "Name (id)" as its own export has it')
    options = parser.parse_args()
    course = options.course.resolve()
    try:
        if options.command == "import":
            zone = _zone(options.timezone) if options.timezone else None
            lines = import_zip(options.zip, options.assignment, course, options.worksheet, options.zip_times, zone)
        else:
            lines = export(options.assignment, course, options.title)
    except ValueError as error:
        sys.exit(str(error))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
