"""The list of a class, COURSE/roster.csv, and how names of students are compared and shown.

One line per student, columns in any order, others than these ignored:

    student    name of the folder below submitted/; required
    number     student number that the parameters of an assignment come from, as the student enters it
    name       full name, as in Moodle or Canvas
    email      as in Moodle
    canvas     user id in Canvas
    sis        "SIS User ID" in Canvas
    login      "SIS Login ID" in Canvas

There is no column for Moodle's participant numbers: Moodle gives the same student another one in every assignment.
"""

import csv
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from posenc_lib.exercises.graded import student_number

LONGEST_NAME = 255  # bytes, what file systems allow
# Where a formula could begin: there, behind what does not show, a sign that begins one (also in full width), or a tab.
FORMULA = re.compile(r"(^|[;\r\n])(?=[\s\0-\x1f\u200b-\u200f\ufeff\"]*[=+\-@＝＋－＠﹢﹣﹦﹫]|^[\t\r\n])")
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
# What reorders the text around it: embeddings, overrides and isolates. Marks and joiners stay, since scripts need them.
REORDERING = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True)
class Entry:
    """A student of the class."""

    student: str
    number: int | str | None = None
    name: str = ""
    email: str = ""
    canvas: str = ""
    sis: str = ""
    login: str = ""


def read(course: Path) -> dict[str, Entry]:
    """The students in ``course``/roster.csv, by the names of their folders as written there; empty without the file.

    Raises:
        ValueError: if the file is no table of students, names file, line and value.
    """
    path = Path(course) / "roster.csv"
    if not path.exists():
        return {}
    entries, holders = {}, {}
    for line, cells in table(path, "student"):
        entry = _entry(cells, f"{path}, line {line}")
        for column in ("student", "number", "canvas", "sis", "login"):
            value = getattr(entry, column)
            if value in ("", None):
                continue
            same = student_number(value) if column == "number" else key(value)
            other = holders.setdefault((column, same), line)
            if other != line:
                raise ValueError(f"{path}, line {line}: {column} {value!r} stands in line {other} already")
        entries[entry.student] = entry
    return entries


def _entry(cells: dict[str, str], place: str) -> Entry:
    """A line of the roster, checked."""
    values = {column: cells.get(column, "") for column in Entry.__dataclass_fields__}
    student, number = values["student"], values.pop("number")
    if why := no_folder(student):
        raise ValueError(f"{place}: student {student!r} {why}")
    if number:
        try:
            value = student_number(number)
        except ValueError as error:
            raise ValueError(f"{place}: number: {error}") from None
        number = value if number.isdecimal() else number
    if values["canvas"] and not re.fullmatch("[0-9]+", values["canvas"]):
        raise ValueError(f"{place}: canvas must be the user id, a whole number, got {values['canvas']!r}")
    for column in ("sis", "login"):  # go into the table for Canvas as they are, since Canvas finds students by them
        if safe_cell(values[column]) != values[column]:
            raise ValueError(f"{place}: {column} {values[column]!r} is a formula for a spreadsheet")
    return Entry(number=number or None, **values)


def table(path: Path, *required: str) -> Iterator[tuple[int, dict[str, str]]]:
    """The lines of a table with a heading, as a spreadsheet saves it: their numbers, and their cells by column.

    Columns are in lower case. Cells are stripped of white space around them; empty lines are left out.

    Raises:
        ValueError: if the file is not UTF-8, lacks a ``required`` column or has a line longer than the heading.
    """
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            heading = file.readline()
            file.seek(0)
            rows = csv.reader(file, delimiter=max(",;\t", key=heading.count))
            columns = [column.strip().casefold() for column in next(rows, [])]
            if missing := [column for column in required if column not in columns]:
                raise ValueError(f"{path}, line 1: there is no column {missing[0]}, only {columns}")
            for row in rows:
                cells = [cell.strip() for cell in row]
                if any(cells[len(columns) :]):
                    raise ValueError(f"{path}, line {rows.line_num}: more cells than the heading has: {cells[-1]!r}")
                if any(cells):
                    yield rows.line_num, dict.fromkeys(columns, "") | dict(zip(columns, cells, strict=False))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: {error}. Save it as 'CSV UTF-8'.") from None
    except csv.Error as error:
        raise ValueError(f"{path} is not a table: {error}") from None


def no_folder(name: str) -> str:
    """Why ``name`` cannot be the name of a student's folder; empty if it can."""
    if not name:
        return "is empty"
    if name.startswith(".") or re.search(r"[/\\\0]", name):
        return "cannot name a folder: it starts with a dot or holds a slash"
    if len(name.encode(errors="replace")) > LONGEST_NAME:
        return f"cannot name a folder: it is longer than {LONGEST_NAME} bytes"
    return ""


def key(name: str) -> str:
    """``name`` for comparisons: decoded, composed (Linux and macOS write an umlaut differently) and without case."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", _decoded(name)).casefold())


def same_name(a: str, b: str) -> bool:
    """Whether two names are the same but for case and the way in which their accents are written."""
    return key(a) == key(b)


def shown(name: str) -> str:
    """``name`` for a reader: what was not UTF-8 read as Latin-1, invisible characters that could mislead as <U+...>."""
    return "".join(f"<U+{ord(c):04X}>" if _misleads(c) else c for c in _decoded(name))


def _decoded(name: str) -> str:
    """The name of a file with its bytes that were not UTF-8 read as Latin-1."""
    return "".join(chr(ord(c) - 0xDC00) if "\udc80" <= c <= "\udcff" else c for c in name)


def _misleads(character: str) -> bool:
    return character in REORDERING or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")


def safe_cell(text: object) -> object:
    """``text`` for a cell of a spreadsheet: an apostrophe before what would be a formula; numbers as they are.

    Some spreadsheets expect semicolons instead of commas and begin a cell behind one, so that is looked at too.
    """
    if not isinstance(text, str) or NUMBER.fullmatch(text):
        return text
    return FORMULA.sub(r"\1'", text)
