"""The list of a class is read as spreadsheets save it, and names are compared, shown and put into cells safely."""

import csv
import os
import unicodedata

import pytest

import roster
from roster import Entry, key, read, safe_cell, same_name, shown

HOSTILE = [
    "O'Brien",
    "Li, Wei",
    '=HYPERLINK("example.org","mark")',
    "Müller",
    unicodedata.normalize("NFD", "Jürgen"),
    "Zoë 🦊",
    "שרה כהן",
    'Anna "Nina" Roth',
    "x" * 200,
]


def test_without_a_roster_there_are_no_students(tmp_path):
    assert read(tmp_path) == {}


def test_names_are_kept_as_they_are_written(tmp_path):
    with open(tmp_path / "roster.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["number", "student"], *enumerate(HOSTILE, 1)])
    assert read(tmp_path) == {name: Entry(name, number) for number, name in enumerate(HOSTILE, 1)}


@pytest.mark.parametrize(
    "text",
    [
        b"student,number,name,canvas,sis,login\nmueller,4711,M\xc3\xbcller,12,s1,mu\n",
        b"\xef\xbb\xbfstudent,number,name,canvas,sis,login\r\nmueller,4711,M\xc3\xbcller,12,s1,mu\r\n",
        b"\xef\xbb\xbfStudent;Number;Name;Canvas;SIS;Login\r\nmueller;4711;M\xc3\xbcller;12;s1;mu\r\n;;;;;\r\n",
        b"Group\tlogin\tsis\tcanvas\tname\tnumber\t student\nA\tmu\ts1\t12\tM\xc3\xbcller\t 4711 \tmueller",
    ],
    ids=["UTF-8", "with a mark", "Excel with semicolons", "tabs, other order, another column"],
)
def test_a_roster_is_read_as_spreadsheets_save_it(tmp_path, text):
    (tmp_path / "roster.csv").write_bytes(text)
    assert read(tmp_path) == {"mueller": Entry("mueller", 4711, "Müller", "", "12", "s1", "mu")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,number\nA,1", "line 1: there is no column student, only ['name', 'number']"),
        ("", "line 1: there is no column student"),
        ("student,number\na,1\n,2", "line 3: student '' is empty"),
        ("student\nMüller\nMU\u0308LLER", "line 3: student 'MU\u0308LLER' stands in line 2 already"),
        ("student,number\na,7\nb,007", "line 3: number 7 stands in line 2 already"),
        ("student,canvas\na,7\nb,7", "line 3: canvas '7' stands in line 2 already"),
        ("student,number\na,x7\nb,X007", "line 3: number 'X007' stands in line 2 already"),
        ("student,number\na,none", "line 2: number: student must be a positive number"),
        ("student,number\na,0", "line 2: number: student must be a positive number"),
        ("student,canvas\na,x7", "line 2: canvas must be the user id, a whole number, got 'x7'"),
        ("student,login\na,=1+1", "line 2: login '=1+1' is a formula"),
        ("student\n../a", "line 2: student '../a' cannot name a folder"),
        ("student\na/b", "line 2: student 'a/b' cannot name a folder"),
        ("student\n" + "ü" * 128, "longer than 255 bytes"),
        ("student\na,b", "line 2: more cells than the heading has: 'b'"),
    ],
)
def test_a_mistake_in_a_roster_is_named_with_its_line(tmp_path, text, message):
    (tmp_path / "roster.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError) as caught:
        read(tmp_path)
    assert message in str(caught.value)
    assert str(tmp_path / "roster.csv") in str(caught.value)


def test_another_encoding_is_named(tmp_path):
    (tmp_path / "roster.csv").write_bytes("student\nMüller".encode("latin-1"))
    with pytest.raises(ValueError, match=r"roster\.csv is not UTF-8.*Save it as 'CSV UTF-8'"):
        read(tmp_path)


def test_names_are_the_same_however_accents_and_case_are_written():
    assert same_name("Müller", unicodedata.normalize("NFD", "MÜLLER"))
    assert same_name("Weiß", "WEISS")
    assert not same_name("Müller", "Muller")
    assert same_name(os.fsdecode(b"M\xfcller"), "Müller")
    assert key("\ud800") == "\ud800"


def test_a_name_is_shown_so_that_it_misleads_nobody():
    assert shown(os.fsdecode(b"M\xfcller")) == "Müller"
    assert shown("a\u202eb\x07c\u2028d\ud800") == "a<U+202E>b<U+0007>c<U+2028>d<U+D800>"
    for name in (*HOSTILE, "👩\u200d💻", "سارا\u200cها"):
        assert shown(name) == name
    shown(os.fsdecode(bytes(range(1, 256)))).encode()  # can be written anywhere


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "＝", " =", "\u00a0+", "\u200f@", '"=', "\x00-"])
def test_what_a_spreadsheet_would_take_for_a_formula_gets_an_apostrophe(start):
    assert safe_cell(f"{start}cmd") == f"'{start}cmd"
    assert safe_cell(f"Li;{start}cmd").startswith(("Li;'", "Li;\t", "Li;\r"))


@pytest.mark.parametrize("value", [7, -3.5, None, "-3.5", "+4", "1e5", "", "Li, -Wei", "x=1", "a; b - c", "O'Brien"])
def test_numbers_and_ordinary_text_stay_as_they_are(value):
    assert safe_cell(value) == value


def test_columns_are_those_of_the_docstring():
    named = {line.split()[0] for line in roster.__doc__.splitlines() if line.startswith("    ")}
    assert named == set(Entry.__dataclass_fields__)
