"""Copied answers are noticed through changed names, comments and layout; equal answers that mean nothing are not."""

import copy
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import grade
from copying import FEW, NAMED, hints, normal_form

RELEASED = """
def walk(start, steps):
    # YOUR CODE HERE
    raise NotImplementedError
"""
WALK = """
def walk(start, steps):
    position, seen = start, [start]
    for step in range(steps):
        position = position * 3 + 1 if position % 2 else position // 2
        seen.append(position)
        if position in (1, 2, 4):
            break
    total = sum(value for value in seen if value > 7)
    highest = max(seen) - min(seen)
    return total + highest, len(seen) - seen.index(max(seen)), sorted(seen)[: len(seen) // 3]
"""
DISGUISED = '''
def walk(start, steps):
    """My own walk."""
    n, path = start, [start]   # where we are
    for _ in range(steps):

        n = (n * 3 + 1) if (n % 2) else (n // 2)
        path.append(
            n,
        )
        if n in (1, 2, 4): break
    s = sum(v for v in path if v > 7)
    h = max(path) - min(path)
    return (s + h, len(path) - path.index(max(path)), sorted(path)[:len(path) // 3])
'''
OTHER = """
def walk(start, steps):
    seen = [start]
    while len(seen) <= steps and seen[-1] not in {1, 2, 4}:
        last = seen[-1]
        seen += [last * 3 + 1] if last % 2 else [last // 2]
    top = seen.index(max(seen))
    third = len(seen) // 3
    return sum(v for v in seen if v > 7) + max(seen) - min(seen), len(seen) - top, sorted(seen)[:third]
"""
SHORT = "def walk(start, steps):\n    return start + steps"
QUESTION = "Explain in your own words why the score of two rotated vectors depends on n - m only."
ESSAY = "Yes. The two rotations meet in the score, and only the difference of their angles is left. So it works."
REWORDED = "Yes, and that is so since of the two angles nothing remains in the score but by how much they differ."


def answers(walk=RELEASED, explain=""):
    """A notebook with an answer in code and one in words."""

    def cell(kind, source, name):
        return kind(source, metadata={"nbgrader": {"grade_id": name, "solution": True, "grade": False}})

    question = new_markdown_cell(QUESTION)
    return new_notebook(
        cells=[question, cell(new_code_cell, walk, "walk"), cell(new_markdown_cell, explain, "explain")]
    )


def of(handed_in, master=None):
    return hints({student: answers(*each) for student, each in handed_in.items()}, answers(), master)


def test_the_same_code_under_other_names_is_told_to_both_sides():
    words = "Ada and Ben have the same code but for names and comments in walk (a hint, not a verdict)"
    assert of({"Ada": [WALK], "Ben": [DISGUISED], "Cem": [OTHER]}) == {"Ada": [words], "Ben": [words]}


def test_a_constant_an_operator_or_an_attribute_makes_a_difference():
    for change in (("> 7", "> 8"), ("3 + 1", "3 - 1"), (".append", ".remove")):
        assert not of({"Ada": [WALK], "Ben": [WALK.replace(*change)]})


def test_the_same_long_sentence_is_told():
    found = of({"Ada": [RELEASED, ESSAY], "Ben": [SHORT, "Indeed: " + REWORDED + "\n\n" + ESSAY.upper()]})
    assert found["Ben"] == ["Ada and Ben have the same sentences in explain (a hint, not a verdict)"]
    assert not of({"Ada": ["", ESSAY], "Ben": ["", REWORDED]})
    both = of({"Ada": [WALK, ESSAY], "Ben": [DISGUISED, ESSAY]})["Ada"]
    assert both == [
        "Ada and Ben have the same code but for names and comments in walk and the same sentences in explain "
        "(a hint, not a verdict)"
    ]


def test_a_sentence_of_the_question_is_no_sign():
    quoted = QUESTION + " Because they turn."
    assert not of({"Ada": ["", quoted], "Ben": ["", quoted]})


def test_short_answers_the_stub_and_the_masters_answer_are_no_sign():
    assert not of({"Ada": [SHORT, "Yes."], "Ben": [SHORT, "Yes."]})
    assert not of({"Ada": [], "Ben": []})
    assert not of({"Ada": [WALK, ESSAY], "Ben": [DISGUISED, ESSAY]}, master=answers(WALK, ESSAY))


def test_what_many_share_is_no_sign_unless_it_is_long():
    few = {f"s{number}": [WALK] for number in range(FEW)}
    assert len(of(few)) == FEW
    assert not of(few | {"one more": [WALK]})
    long = of({f"s{number}": [WALK * 3] for number in range(FEW + 3)})
    assert len(long) == FEW + 3
    assert all(len(words) == NAMED + 1 for words in long.values())
    assert long["s0"][-1] == "and 2 more such hints"


def several(*sources):
    """A notebook with an answer for each of ``sources``."""
    cells = [answers(source).cells[1] for source in sources]
    for number, cell in enumerate(cells):
        cell.metadata.nbgrader["grade_id"] = f"cell-{number}"
    return new_notebook(cells=cells)


def test_answers_in_common_add_up():
    one = "def part(x):\n    a = x * 2\n" + "    a = a + x // 3 - len(str(a))\n" * 3 + "    return a"
    two = one.replace("len(str(a))", "sum(range(a)) * 2")
    released = several("", "")
    assert not hints({"Ada": several(one, "x"), "Ben": several(one, "y")}, released)
    found = hints({"Ada": several(one, two), "Ben": several(one, two)}, released)
    assert "cell-0, cell-1" in found["Ada"][0]


def test_very_short_answers_do_not():
    notebook = several(*(f"answer = x * {n} + y // {n} - len(str(x % {n})) * 2" for n in range(1, 11)))
    assert not hints({"Ada": notebook, "Ben": notebook}, several(*[""] * 10))


HOSTILE = {
    "syntax error": "def walk(:\n  return 'open",
    "indentation": "  a\n b\n",
    "open bracket": "(" * 100_000,
    "deep": "-" * 100_000 + "1",
    "attributes": "a" + ".a" * 50_000,
    "nested blocks": "\n".join(" " * n + "if 1:" for n in range(500)),
    "open string": "'''" + "\n" * 100_000,
    "huge number": "9" * 1_000_000,
    "surrogate": "x = '\ud800'",
    "null": "a\0b",
    "magic": "%timeit !ls ?x $y",
    "long": "a = 1\n" * 100_000,
}


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE)
def test_whatever_is_handed_in_stops_nothing(source):
    handed_in = {"Ada": [source, source], "Ben": [WALK], "Cem": [DISGUISED], os_name(): [source]}
    assert {"Ben", "Cem"} <= set(of(handed_in))


def os_name():
    """A folder name that is no UTF-8."""
    return b"M\xfcller".decode("utf-8", "surrogateescape")


def test_names_that_are_no_text_are_shown_and_cells_may_be_missing_or_twice():
    notebook = answers(WALK)
    notebook.cells += [new_code_cell("x"), *copy.deepcopy(notebook.cells)]
    empty = new_notebook(cells=[new_code_cell("", metadata={"nbgrader": "nothing"})])
    found = hints({os_name(): notebook, "Ada": answers(DISGUISED), "Ben": empty}, answers())
    assert found["Ada"][0].startswith("Ada and Müller have")


def test_a_syntax_error_does_not_hide_what_stands_before_it():
    assert len(of({"Ada": [WALK + "\n'''open"], "Ben": [DISGUISED + "\n'''open"]})) == 2


def test_the_normal_form_keeps_what_the_code_does():
    assert normal_form("x = 1.0 # one") == normal_form("y=(1.)") == ("name 0", "=", "1")
    assert normal_form("f(a, b)", frozenset({"f"})) == ("f", "name 0", "name 1")
    assert normal_form("a.T @ a") == ("name 0", ".", "T", "@", "name 0")
    assert normal_form("def f():\n    '''Doc.'''\n    return \"a\"") == normal_form("def g(): return 'a'")


def test_a_class_of_200_with_two_copies_is_seen_through():
    name = "03_relative"
    master = nbformat.read(Path(grade.HERE) / "source" / name / f"{name}.ipynb", as_version=4)
    released = copy.deepcopy(master)
    for cell in released.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = "# YOUR CODE HERE\nraise NotImplementedError"
    handed_in = {}
    for number in range(200):
        notebook = copy.deepcopy(master)
        for cell in notebook.cells:
            if cell.metadata.get("nbgrader", {}).get("solution"):
                cell.source += f"\nresult = {number} + {number}" if number not in (50, 150) else "\nresult = -1"
        handed_in[f"s{number}"] = notebook
    assert set(hints(handed_in, released, master)) == {"s50", "s150"}
