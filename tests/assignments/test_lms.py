"""Submissions come in from Moodle and Canvas whatever they are called; scores go out so that both find the students."""

import csv
import io
import json
import os
import re
import subprocess
import sys
import unicodedata
import zipfile
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import nbformat
import pytest
from nbgrader.coursedir import CourseDirectory

import lms
from lms import MOODLE, export, import_zip
from roster import key, safe_cell, shown

BERLIN = ZoneInfo("Europe/Berlin")
CLASS = [
    "Ann O'Brien",
    "Li, Wei",
    '=HYPERLINK("example.org","mark")',
    "Jörg Müller",
    unicodedata.normalize("NFD", "Jürgen Groß"),
    "François Lévy",
    "Zoë 🦊",
    "שרה כהן",
    'Anna "Nina" Roth',
    "Maximilian " + "von " * 46 + "Au",
    "-2+3 Ng",
    "Robert'); DROP TABLE student;--",
]


def in_moodle(name):
    """A full name as Moodle writes it into the names of files: without signs that some systems do not allow."""
    return re.sub(r"[\x00-\x1f\x7f&<>\"`|':\\/]", "", name.replace("_", " "))


def in_canvas(name):
    """A full name as Canvas writes it there: the last word first, letters and digits only, in lower case."""
    *first, last = name.split()
    return "".join(c for c in "".join([last, *first]).lower() if unicodedata.category(c)[0] in "LMN" or c == "_")


class Entry(zipfile.ZipInfo):
    """A file in a zip with a name in any encoding, and whatever else is asked for."""

    def __init__(self, name, **attributes):
        super().__init__("x", (2024, 1, 5, 16, 26, 0))
        self.name, self.utf8 = (name, 0) if isinstance(name, bytes) else (name.encode(), 0x800)
        self.late = attributes  # set when everything is written, so that only the directory says so

    def _encodeFilenameFlags(self):
        return self.name, self.flag_bits | self.utf8


def zipped(path, files):
    """A zip at ``path`` of pairs of a name, or an ``Entry``, and a notebook, or text."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            entry = name if isinstance(name, Entry) else Entry(name)
            entry.filename = entry.name.decode("latin-1")
            archive.writestr(entry, content if isinstance(content, str | bytes) else nbformat.writes(content))
            for attribute, value in entry.late.items():
                setattr(entry, attribute, value)
    return path


def handed_in(course):
    """The sources of the first cell of what lies in submitted/, by student."""
    return {
        path.parent.parent.name: nbformat.read(path, as_version=4).cells[0].source
        for path in course.root.glob("submitted/*/small/small.ipynb")
    }


def notebook(course, text):
    """A submission that can be told from others."""
    result = course.answered()
    result.cells[0].source += f"\n# {text}"
    return result


def texts(course):
    """The text of each submission, by student."""
    return {student: source.rpartition("# ")[2] for student, source in handed_in(course).items()}


def about(lines, start):
    """The line of a summary that begins so."""
    return next(line for line in lines if line.startswith(start))


LAYOUTS = {
    "Moodle": "{moodle}_{n}_assignsubmission_file/small.ipynb",
    "Moodle until 4.0": "{moodle}_{n}_assignsubmission_file_/small.ipynb",
    "Moodle, folders of the student's": "{moodle}_{n}_assignsubmission_file_/Bob_2_assignsubmission_file_/small.ipynb",
    "Moodle, no folders": "{moodle}_{n}_assignsubmission_file_small.ipynb",
    "Moodle, packed anew": "course-small-77/{moodle}_{n}_assignsubmission_file_/small.ipynb",
    "Canvas": "{canvas}_{n}_9{n}_small.ipynb",
    "Canvas, late": "{canvas}_LATE_{n}_9{n}_small.ipynb",
    "Canvas, misleading file": "{canvas}_{n}_9{n}_bob_2_92_small.ipynb",
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_each_layout_is_understood(small, tmp_path, layout):
    students = ["Ann O'Brien", "Li Wei"]
    (small.root / "roster.csv").write_text("student,name\nann,Ann O'Brien\nli,Li Wei")
    files = [
        (layout.format(moodle=in_moodle(name), canvas=in_canvas(name), n=number), notebook(small, name))
        for number, name in enumerate(students, 41)
    ]
    lines = import_zip(zipped(tmp_path / "all.zip", files), "small", small.root)
    assert texts(small) == {"ann": "Ann O'Brien", "li": "Li Wei"}
    assert len(lines) == 2
    assert all("; marked as late by Canvas" in line for line in lines) == ("LATE" in layout)


@pytest.mark.parametrize("system", ["moodle", "canvas"])
def test_a_class_with_hostile_names_goes_round(small, tmp_path, system):
    with open(small.root / "roster.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["student", "name"], *([f"s{n}", name] for n, name in enumerate(CLASS))])
    files = packed(small, system)
    lines = import_zip(zipped(tmp_path / "all.zip", files), "small", small.root)
    assert len(lines) == 12
    assert texts(small) == {f"s{n}": str(n) for n in range(12)}
    round_trip(small, system, [f"s{n}" for n in range(12)])


@pytest.mark.parametrize("system", ["moodle", "canvas"])
def test_without_a_roster_names_come_from_the_zip(small, tmp_path, system):
    import_zip(zipped(tmp_path / "all.zip", packed(small, system)), "small", small.root)
    write = in_moodle if system == "moodle" else in_canvas
    named = [write(name) if write(name).strip() else f"{500 + n}" for n, name in enumerate(CLASS)]
    assert sorted(texts(small).values(), key=int) == [str(n) for n in range(12)]
    assert {text: student for student, text in texts(small).items()} == {str(n): name for n, name in enumerate(named)}
    round_trip(small, system, named)


def packed(small, system):
    """What ``CLASS`` handed in, as the system names it; one name as an old packer on Windows writes it."""
    for number, name in enumerate(CLASS):
        if system == "moodle":
            path = f"{in_moodle(name)}_{500 + number}_assignsubmission_file_/small.ipynb"
        else:
            path = f"{in_canvas(name)}_{500 + number}_{900 + number}_small.ipynb"
        raw = Entry(path.encode("latin-1")) if name.startswith("François") else path
        yield raw, notebook(small, str(number))


def round_trip(small, system, students):
    """What is exported for graded ``students`` finds them again in the system."""
    rows = [[safe_cell(shown(student)), "small", str(50 + n), "100", "0"] for n, student in enumerate(students)]
    grades(small, rows)
    for student in students:
        page = small.root / "feedback" / lms.identifier(student) / "small" / "small.html"
        page.parent.mkdir(parents=True)
        page.write_text(student)
    export("small", small.root)
    table = exported(small, system)
    if system == "moodle":
        assert [row["Identifier"] for row in table] == [f"Participant {500 + n}" for n in range(12)]
        assert [row["Grade"] for row in table] == [str(50 + n) for n in range(12)]
        with zipfile.ZipFile(small.root / "export" / "moodle-small-feedback.zip") as archive:
            pages = {MOODLE.fullmatch(str(Path(n).parent))["id"]: archive.read(n).decode() for n in archive.namelist()}
        assert pages == {str(500 + n): student for n, student in enumerate(students)}
    else:
        assert table[0]["Student"].strip() == "Points Possible" and table[0]["small"] == "100"
        assert [row["ID"] for row in table[1:]] == [str(500 + n) for n in range(12)]
        assert [row["small"] for row in table[1:]] == [str(50 + n) for n in range(12)]
    for row in table:
        assert all(cell == safe_cell(cell) for cell in row.values())


def grades(small, rows, columns=("student", "assignment", "score", "max_score", "waiting", "reason", "notes")):
    """A table of grades."""
    with open(small.root / "grades.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *rows])


def exported(small, system):
    """The lines of the table for a system."""
    with open(small.root / "export" / f"{system}-small.csv", newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def test_a_class_with_hostile_names_is_imported_graded_and_exported(small, tmp_path):
    with open(small.root / "roster.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["student", "name"], *([name, name] for name in CLASS)])
    import_zip(zipped(tmp_path / "moodle.zip", packed(small, "moodle")), "small", small.root)
    assert [row["score"] for row in small.grade().values()] == ["100.0"] * 12
    assert "12 scores" in export("small", small.root)[0]
    with zipfile.ZipFile(small.root / "export" / "moodle-small-feedback.zip") as archive:
        assert len(archive.namelist()) == 12

    lines = import_zip(zipped(tmp_path / "canvas.zip", packed(small, "canvas")), "small", small.root)
    assert ["unchanged, from small.ipynb" in line for line in lines] == [True] * 12
    assert "12 scores" in export("small", small.root)[0]
    for system, column, grade in (("moodle", "Identifier", "Grade"), ("canvas", "ID", "small")):
        rows = exported(small, system)[-12:]
        assert {row[column].removeprefix("Participant ") for row in rows} == {str(500 + n) for n in range(12)}
        assert {row[grade] for row in rows} == {"100.0"}


CHOICES = {
    "any name": (["whatever.ipynb"], "whatever.ipynb"),
    "a copy of a browser's": (["small (1).ipynb"], "small (1).ipynb"),
    "a copy of JupyterLab's": (["other.ipynb", "small-Copy1.ipynb"], "small-Copy1.ipynb"),
    "the assignment's name before a newer one": (["Small.ipynb", "zz.ipynb"], "Small.ipynb"),
    "the newest version": (["small.ipynb", "small-2.ipynb", "small-1.ipynb"], "small-2.ipynb"),
    "no checkpoint": ([".ipynb_checkpoints/small-checkpoint.ipynb", "my.ipynb"], "my.ipynb"),
    "letters large and small": (["essay.IPYNB", "data.csv"], "essay.IPYNB"),
}


@pytest.mark.parametrize(("names", "taken"), CHOICES.values(), ids=CHOICES)
def test_of_several_notebooks_the_assignments_then_the_newest_is_taken(small, tmp_path, names, taken):
    files = [(f"Ann_1_assignsubmission_file_/{name}", notebook(small, name)) for name in names]
    lines = import_zip(zipped(tmp_path / "all.zip", files), "small", small.root)
    assert texts(small) == {"Ann": taken}
    others = [name for name in names if name.lower().endswith(".ipynb") and name != taken and "/" not in name]
    assert lines == [f"Ann: new, from {taken}" + (f", not from {', '.join(others)}" if others else "")]


def test_in_canvas_the_largest_id_of_a_file_is_the_newest(small, tmp_path):
    files = [(f"ann_1_{upload}_{name}", notebook(small, name)) for upload, name in ((93, "b.ipynb"), (92, "c.ipynb"))]
    import_zip(zipped(tmp_path / "all.zip", files), "small", small.root)
    assert texts(small) == {"ann": "b.ipynb"}


def test_a_submission_without_a_notebook_is_told(small, tmp_path):
    files = [
        ("Ann_1_assignsubmission_onlinetext_/onlinetext.html", "text"),
        ("Bob_2_assignsubmission_onlinetext_onlinetext.html", "text"),
        ("Cem_3_assignsubmission_file_/small.py", "text"),
        ("Dan_4_assignsubmission_onlinetext_/onlinetext.html", "text"),
        ("Dan_4_assignsubmission_file_/small.ipynb", notebook(small, "d")),
        ("readme.txt", "text"),
    ]
    assert import_zip(zipped(tmp_path / "all.zip", files), "small", small.root) == [
        "readme.txt: left, neither Moodle nor Canvas names a submission like this",
        "Ann: no notebook, only onlinetext.html",
        "Bob: no notebook, only onlinetext.html",
        "Cem: no notebook, only small.py",
        "Dan: new, from small.ipynb",
    ]
    assert texts(small) == {"Dan": "d"}


LINK, DEVICE = 0o120777 << 16, 0o020666 << 16
HOSTILE = {
    "absolute": ("/tmp/Eve_9_assignsubmission_file_/small.ipynb", {}, "its path leads elsewhere"),
    "above": ("Eve_9_assignsubmission_file_/../../../../small.ipynb", {}, "its path leads elsewhere"),
    "above, Windows": ("Eve_9_assignsubmission_file_/..\\..\\small.ipynb", {}, "its path leads elsewhere"),
    "drive": ("C:/Eve_9_assignsubmission_file_/small.ipynb", {}, "its path leads elsewhere"),
    "null": ("Eve_9_assignsubmission_file_/small.ipynb\0.txt", {}, "its path leads elsewhere"),
    "link": ("Eve_9_assignsubmission_file_/small.ipynb", {"external_attr": LINK}, "a link or a device"),
    "device": ("Eve_9_assignsubmission_file_/small.ipynb", {"external_attr": DEVICE}, "a link or a device"),
    "long": ("Eve_9_assignsubmission_file_/" + "x" * 5000 + ".ipynb", {}, "its name has 5035 characters"),
    "encrypted": ("Eve_9_assignsubmission_file_/small.ipynb", {"flag_bits": 1}, "it is encrypted"),
    "unusual": ("Eve_9_assignsubmission_file_/small.ipynb", {"compress_type": 14}, "compressed in an unusual way"),
    "large": ("Eve_9_assignsubmission_file_/small.ipynb", {"file_size": 2**40}, "it has more than 50 MB"),
    "not what it says": ("Eve_9_assignsubmission_file_/small.ipynb", {"CRC": 1}, "cannot be taken: Bad CRC-32"),
    "elsewhere in the file": ("Eve_9_assignsubmission_file_/small.ipynb", {"header_offset": 7}, "cannot be taken"),
}


@pytest.mark.parametrize(("name", "attributes", "reason"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_refused_and_the_others_are_taken(small, tmp_path, name, attributes, reason):
    files = [
        ("Ann_1_assignsubmission_file_/small.ipynb", notebook(small, "a")),
        (Entry(name, **attributes), notebook(small, "e")),
        ("Bob_2_assignsubmission_file_/small.ipynb", notebook(small, "b")),
    ]
    path, before = zipped(tmp_path / "all.zip", files), tree(tmp_path)
    lines = import_zip(path, "small", small.root)
    assert [line for line in lines if reason in line]
    assert texts(small) == {"Ann": "a", "Bob": "b"}
    new = tree(tmp_path) - before
    assert {path for path in new if not path.startswith("course/submitted")} == {"course/lms.json"}
    assert all(len(line) < 300 for line in lines)


def tree(root):
    """All that lies below ``root``."""
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def test_a_zip_bomb_is_not_unpacked_whole(small, tmp_path, monkeypatch):
    monkeypatch.setattr(lms, "LARGEST_NOTEBOOK", 2**20)
    bomb = b"0" * 2**22
    files = [
        ("Eve_1_assignsubmission_file_/small.ipynb", bomb),  # says so
        (Entry("Eva_2_assignsubmission_file_/small.ipynb", file_size=100), bomb),  # does not
        ("Bob_3_assignsubmission_file_/small.ipynb", notebook(small, "b")),
    ]
    lines = import_zip(zipped(tmp_path / "all.zip", files), "small", small.root)
    assert about(lines, "Eve") == "Eve: small.ipynb cannot be taken: it has more than 1 MB"
    assert "cannot be taken" in about(lines, "Eva")
    assert texts(small) == {"Bob": "b"}


def test_all_notebooks_together_have_a_limit(small, tmp_path, monkeypatch):
    files = [(f"S{n}_{n}_assignsubmission_file_/small.ipynb", notebook(small, str(n))) for n in range(3)]
    path = zipped(tmp_path / "all.zip", files)
    monkeypatch.setattr(lms, "LARGEST_IMPORT", 2 * len(nbformat.writes(notebook(small, "0"))) + 10)
    assert len([line for line in import_zip(path, "small", small.root) if "cannot be taken" in line]) == 1
    monkeypatch.setattr(lms, "MOST_FILES", 2)
    with pytest.raises(ValueError, match="holds 3 files; at most 2 are allowed"):
        import_zip(path, "small", small.root)


def test_a_link_in_the_folder_of_the_class_leads_nowhere(small, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (small.root / "submitted").mkdir()
    (small.root / "submitted" / "Ann").symlink_to(outside)
    (small.root / "submitted" / "Bob" / "small").mkdir(parents=True)
    (small.root / "submitted" / "Bob" / "small" / "small.ipynb").symlink_to(outside / "stolen")
    files = [(f"{s}_{n}_assignsubmission_file_/small.ipynb", notebook(small, s)) for n, s in enumerate(("Ann", "Bob"))]
    lines = import_zip(zipped(tmp_path / "all.zip", files), "small", small.root)
    assert all("there is a link" in line for line in lines)
    assert not list(outside.iterdir())


@pytest.mark.parametrize("name", ["..", ".", ".hidden", "a\\b", "a\tb", "x" * 900, "🦊" * 200, " "])
def test_a_name_that_cannot_be_a_folder_becomes_one(small, tmp_path, name):
    files = [(f"{name}_7_assignsubmission_file_small.ipynb", notebook(small, "e"))]
    before = tree(small.root)
    import_zip(zipped(tmp_path / "all.zip", files), "small", small.root)
    if name != "a\\b":  # which is refused or not, but never a path
        assert list(texts(small).values()) == ["e"]
    new = [path.split("/") for path in tree(small.root) - before]
    assert {path[0] for path in new} == {"submitted", "lms.json"}
    assert not any(path[1].startswith(".") for path in new if len(path) > 1)


def test_names_of_files_are_read_in_the_encoding_that_they_are_in(small, tmp_path):
    written = {
        "Jörg": "utf-8",  # without saying so, as macOS does
        "Käthe": "cp437",  # as Windows did
        "Günther": "latin-1",
    }
    end = "_assignsubmission_file_/small.ipynb"
    files = [
        (Entry(f"{name}_{n}{end}".encode(encoding)), notebook(small, name))
        for n, (name, encoding) in enumerate(written.items(), 1)
    ]
    files += [("Flagged Ä_9" + end, notebook(small, "Flagged Ä")), ("__MACOSX/._Jörg_1" + end, "x"), (".DS_Store", "x")]
    lines = import_zip(zipped(tmp_path / "all.zip", files), "small", small.root)
    assert texts(small) == {name: name for name in (*written, "Flagged Ä")}
    assert len(lines) == 4


def test_accents_written_otherwise_find_the_same_folder(small, tmp_path):
    (small.root / "submitted" / os.fsdecode(b"M\xfcller")).mkdir(parents=True)
    (small.root / "submitted" / unicodedata.normalize("NFD", "Jörg")).mkdir(parents=True)
    end = "_assignsubmission_file_/small.ipynb"
    files = [(name + end, notebook(small, name[:-2])) for name in ("Jörg_1", "Müller_2")]
    import_zip(zipped(tmp_path / "all.zip", files), "small", small.root)
    assert {key(student): text for student, text in texts(small).items()} == {"jörg": "Jörg", "müller": "Müller"}
    assert len(list((small.root / "submitted").iterdir())) == 2


def test_students_of_the_same_name_are_kept_apart(small, tmp_path):
    files = [(f"Ann_{n}_assignsubmission_file_/small.ipynb", notebook(small, str(n))) for n in (1, 2)]
    import_zip(zipped(tmp_path / "all.zip", files), "small", small.root)
    assert texts(small) == {"Ann (1)": "1", "Ann (2)": "2"}


def test_a_name_taken_by_somebody_else_replaces_nothing(small, tmp_path):
    for number in (1, 2):
        files = [(f"Ann_{number}_assignsubmission_file_/small.ipynb", notebook(small, str(number)))]
        lines = import_zip(zipped(tmp_path / "all.zip", files), "small", small.root)
    assert texts(small) == {"Ann": "1", "Ann (2)": "2"}
    assert lines == ["Ann (2): new, from small.ipynb; somebody else than Ann with id 1"]


def test_somebody_called_like_a_folder_of_the_roster_does_not_get_it(small, tmp_path):
    (small.root / "roster.csv").write_text("student,name\nann,Ann Lee\n")
    end = "_assignsubmission_file_/small.ipynb"
    files = [("Ann Lee_1" + end, notebook(small, "1")), ("Ann_2" + end, notebook(small, "2"))]
    lines = import_zip(zipped(tmp_path / "all.zip", files), "small", small.root)
    assert texts(small) == {"Ann Lee": "1", "Ann (2)": "2"}
    assert all(line.endswith("not found in roster.csv") for line in lines)


def test_blind_marking_is_told_apart_by_numbers(small, tmp_path):
    moodle = [("Participant_7_assignsubmission_file_/small.ipynb", notebook(small, "p"))]
    canvas = [(f"{name}_small.ipynb", notebook(small, name[-2:])) for name in ("anon_x3fB2_77", "LATE_anon_a1_78")]
    import_zip(zipped(tmp_path / "moodle.zip", moodle), "small", small.root)
    lines = import_zip(zipped(tmp_path / "canvas.zip", canvas), "small", small.root)
    assert texts(small) == {"Participant (7)": "p", "anon_x3fB2": "77", "anon_a1": "78"}
    assert about(lines, "anon_a1").endswith("marked as late by Canvas")


def test_the_roster_finds_students_by_the_surest_sign(small, tmp_path):
    (small.root / "roster.csv").write_text(
        "student,name,email,canvas\nann,Ann Lee,ann@x.org,51\nann2,Ann Lee,lee@x.org,52\nbob,Bob Ray,b@x.org,53\n"
    )
    canvas = [
        ("leeann_51_1_small.ipynb", notebook(small, "51")),
        ("leeann_52_2_small.ipynb", notebook(small, "52")),
        ("raybob_99_3_small.ipynb", notebook(small, "99")),  # calls himself Bob Ray
    ]
    lines = import_zip(zipped(tmp_path / "canvas.zip", canvas), "small", small.root)
    assert texts(small) == {"ann": "51", "ann2": "52", "raybob": "99"}
    assert about(lines, "raybob").endswith("not found in roster.csv")

    moodle = [(f"Ann Lee_{n}_assignsubmission_file_/small.ipynb", notebook(small, str(n))) for n in (7, 8)]
    sheet = worksheet(tmp_path, (7, "Ann Lee", "LEE@x.org", "-"), (8, "Ann Lee", "ann@x.org", "-"))
    (small.root / "lms.json").unlink()
    import_zip(zipped(tmp_path / "moodle.zip", moodle), "small", small.root, sheet)
    assert texts(small) == {"ann": "8", "ann2": "7", "raybob": "99"}


def test_the_same_name_twice_in_a_roster_is_not_guessed_at(small, tmp_path):
    (small.root / "roster.csv").write_text("student,name\nann,Ann Lee\nann2,Ann Lee\n")
    files = [("Ann Lee_7_assignsubmission_file_/small.ipynb", notebook(small, "7"))]
    lines = import_zip(zipped(tmp_path / "moodle.zip", files), "small", small.root)
    assert lines == ["Ann Lee: new, from small.ipynb; not found in roster.csv"]


def test_a_student_who_is_called_otherwise_now_is_told(small, tmp_path):
    path = zipped(tmp_path / "1.zip", [("Ann Lee_7_assignsubmission_file_/small.ipynb", notebook(small, "7"))])
    import_zip(path, "small", small.root)
    (small.root / "roster.csv").write_text("student,name\nann,Ann Lee\n")
    lines = import_zip(path, "small", small.root)
    assert lines == ["ann: new, from small.ipynb; was imported as Ann Lee before: delete that folder"]


def worksheet(folder, *rows):
    """Moodle's grading worksheet."""
    heading = "Identifier,Full name,Email address,Status,Grade,Maximum Grade,Grade can be changed,"
    path = folder / "sheet.csv"
    with open(path, "w", newline="", encoding="utf-8-sig") as file:
        file.write(heading + "Last modified (submission),Last modified (grade),Feedback comments\n")
        for number, name, email, time in rows:
            row = [f"Participant {number}", name, email, "Submitted for grading", "", "100", "Yes", time, "-", ""]
            csv.writer(file).writerow(row)
    return path


def stamp(course, student):
    """The time that nbgrader reads."""
    return CourseDirectory().get_existing_timestamp(str(course.root / "submitted" / student / "small"))


def test_times_come_from_the_worksheet_or_from_the_zip_if_asked(small, tmp_path):
    files = [("Ann_1_assignsubmission_file_/small.ipynb", notebook(small, "a"))]
    path = zipped(tmp_path / "all.zip", files)
    import_zip(path, "small", small.root, zone=BERLIN)
    assert stamp(small, "Ann") is None  # both systems date files with the moment of the download
    import_zip(path, "small", small.root, zip_times=True, zone=BERLIN)
    assert stamp(small, "Ann") == datetime(2024, 1, 5, 15, 26)
    sheet = worksheet(tmp_path, (1, "Ann", "a@x.org", "Wednesday, 3 July 2024, 11:59 PM"))
    assert import_zip(path, "small", small.root, sheet, True, BERLIN) == ["Ann: unchanged, from small.ipynb"]
    assert stamp(small, "Ann") == datetime(2024, 7, 3, 21, 59)


def test_without_a_zone_times_are_those_of_this_computer(small, tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    command = [sys.executable, Path(lms.__file__), "import", "all.zip", "small", small.root, "--zip-times"]
    zipped(tmp_path / "all.zip", [("Ann_1_assignsubmission_file_/small.ipynb", notebook(small, "a"))])
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "Ann: new, from small.ipynb\n"
    assert stamp(small, "Ann") == datetime(2024, 1, 5, 7, 26)


def test_an_import_again_replaces_what_is_newer_or_different(small, tmp_path):
    def again(text, time):
        files = [("Ann_1_assignsubmission_file_/small.ipynb", notebook(small, text))]
        sheet = worksheet(tmp_path, (1, "Ann", "", time)) if time else None
        (line,) = import_zip(zipped(tmp_path / "all.zip", files), "small", small.root, sheet, False, BERLIN)
        return line.removeprefix("Ann: ").partition(",")[0], texts(small)["Ann"], stamp(small, "Ann") is not None

    assert again("first", "3 July 2024, 10:00 PM") == ("new", "first", True)
    assert again("first", "") == ("unchanged", "first", True)
    assert again("older", "3 July 2024, 9:00 PM") == ("older than what is there", "first", True)
    assert again("newer", "3 July 2024, 11:00 PM") == ("replaced", "newer", True)
    assert again("no time", "") == ("replaced", "no time", False)
    assert not [path for path in small.root.rglob("*.part")]


MISTAKES = {
    "assignment": (["nothing", "all.zip"], "there is no assignment 'nothing'"),
    "path": (["../small", "all.zip"], "there is no assignment '../small'"),
    "file": (["small", "none.zip"], "none.zip cannot be read as a zip"),
    "no zip": (["small", "text.zip"], "text.zip cannot be read as a zip"),
    "worksheet": (["small", "all.zip", "--worksheet=times.csv"], "line 2: 'gestern' is no time in English"),
    "columns": (["small", "all.zip", "--worksheet=german.csv"], "there is no column identifier"),
    "zone": (["small", "all.zip", "--timezone=Mars/Olympus"], "there is no time zone 'Mars/Olympus'"),
}


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_without_a_traceback(small, tmp_path, arguments, message, monkeypatch, capsys):
    zipped(tmp_path / "all.zip", [("Ann_1_assignsubmission_file_/small.ipynb", notebook(small, "a"))])
    (tmp_path / "text.zip").write_text("text")
    worksheet(tmp_path, (1, "Ann", "", "gestern")).rename(tmp_path / "times.csv")
    (tmp_path / "german.csv").write_text("ID,Vollständiger Name,Zuletzt geändert (Abgabe)\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assignment, path, *options = arguments
    monkeypatch.setattr(sys, "argv", ["lms.py", "import", path, assignment, str(small.root), *options])
    with pytest.raises(SystemExit) as caught:
        lms.main()
    assert message in str(caught.value)
    assert not (small.root / "submitted").exists()


def test_who_has_no_score_yet_is_left_out_and_told(small, tmp_path):
    files = [(f"S{n}_{n}_assignsubmission_file_/small.ipynb", notebook(small, str(n))) for n in range(4)]
    import_zip(zipped(tmp_path / "all.zip", files), "small", small.root)
    grades(
        small,
        [
            ["S0", "small", "80.5", "100", "0", "", "same student number as 1 more: S1"],
            ["S1", "small", "", "", "", "not a notebook", ""],
            ["S2", "small", "70.0", "100", "20", "", ""],
            ["S3", "other", "70.0", "100", "0", "", ""],
            ["S9", "small", "70.0", "100", "0", "", ""],
        ],
    )
    lines = export("small", small.root)
    assert lines[:3] == [
        "S1: left out, no score: not a notebook",
        "S2: left out, 20 points wait for a reader",
        "S9: left out, no id is known from an import or from roster.csv",
    ]
    assert lines[4].startswith("S0: no feedback, there is no ")
    (row,) = exported(small, "moodle")
    assert row == {
        "Identifier": "Participant 0",
        "Full name": "S0",
        "Email address": "",
        "Grade": "80.5",
        "Maximum Grade": "100",
        "Last modified (grade)": "",
    }
    assert not (small.root / "export" / "canvas-small.csv").exists()
    assert "student number" not in (small.root / "export" / "moodle-small.csv").read_text()


def test_canvas_gets_the_ids_of_the_roster_without_an_import(small):
    (small.root / "roster.csv").write_text("student,name,canvas,sis,login\nann,=Ann,51,s-1,ann@x.org\nbob,Bob,,s-2,\n")
    grades(small, [["ann", "small", "80", "100", "0", "", ""], ["bob", "small", "9", "100", "0", "", ""]])
    lines = export("small", small.root, title="Homework 1 (1234)")
    assert lines == [f"2 scores for Canvas: {small.root / 'export' / 'canvas-small.csv'}"]
    text = (small.root / "export" / "canvas-small.csv").read_text(encoding="utf-8-sig")
    assert list(csv.reader(io.StringIO(text))) == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Homework 1 (1234)"],
        ["    Points Possible", "", "", "", "", "100"],
        ["'=Ann", "51", "s-1", "ann@x.org", "", "80"],
        ["Bob", "", "s-2", "", "", "9"],
    ]


def test_students_who_were_anonymous_in_canvas_are_left_out(small, tmp_path):
    import_zip(zipped(tmp_path / "all.zip", [("anon_x3_77_small.ipynb", notebook(small, "x"))]), "small", small.root)
    grades(small, [["anon_x3", "small", "80", "100", "0", "", ""]])
    with pytest.raises(ValueError, match="nothing to export of 'small'\nanon_x3: left out, no id is known"):
        export("small", small.root)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (None, r"there is no .*grades\.csv: grade the class first"),
        ([], "there is nothing to export of 'small'"),
        ([["a", "small", "many", "100", "0"]], r"grades\.csv, line 2: score must be a number, got 'many'"),
    ],
)
def test_what_cannot_be_exported_is_told(small, rows, message):
    if rows is not None:
        grades(small, rows)
    with pytest.raises(ValueError, match=message):
        export("small", small.root)


def test_a_broken_list_of_ids_is_named(small, tmp_path):
    (small.root / "lms.json").write_text("{")
    grades(small, [])
    with pytest.raises(ValueError, match=r"lms\.json is not what import wrote"):
        export("small", small.root)


def test_ids_are_kept_for_each_assignment(small, tmp_path):
    files = [("Ann_1_assignsubmission_file_/small.ipynb", notebook(small, "a"))]
    (small.root / "lms.json").write_text(json.dumps({"other": {"Ann": {"id": "99"}}}))
    import_zip(zipped(tmp_path / "all.zip", files), "small", small.root)
    kept = json.loads((small.root / "lms.json").read_text())
    assert kept == {
        "other": {"Ann": {"id": "99"}},
        "small": {"Ann": {"system": "moodle", "id": "1", "name": "Ann", "email": ""}},
    }
