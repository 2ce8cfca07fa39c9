"""Tables and folded text below a cell."""

import re

import pytest
from IPython.display import Markdown

from posenc_lib.view import markdown
from posenc_lib.view.markdown import folded, markdown_table, write


def test_a_table_has_a_line_for_its_heads_one_below_them_and_one_for_each_row():
    assert markdown_table(["a", "b"], [[1, "x"], [2, "y"]]) == "| a | b |\n|---|---|\n| 1 | x |\n| 2 | y |"


def test_what_would_end_an_entry_or_a_row_is_written_so_that_it_does_not():
    assert markdown_table(["a"], [["x|y\nz"]]).splitlines()[-1] == r"| x\|y z |"


def test_a_table_refuses_rows_that_do_not_fit():
    for row in ([1], [1, 2, 3]):
        with pytest.raises(ValueError, match=f"rows must have 2 entries each.*{re.escape(str(row))}"):
            markdown_table(["a", "b"], [[1, 2], row])
    with pytest.raises(ValueError, match="heads must name at least one column"):
        markdown_table([], [])


def test_folded_text_stands_apart_from_its_summary():
    assert folded("More", "| a |").split("\n\n") == ["<details><summary>More</summary>", "| a |", "</details>"]


@pytest.mark.parametrize(("summary", "text", "named"), [(" ", "x", "summary"), ("x", "\n", "text")])
def test_nothing_is_not_folded(summary, text, named):
    with pytest.raises(ValueError, match=f"{named} must say something"):
        folded(summary, text)


def test_texts_are_written_as_paragraphs(monkeypatch):
    shown = []
    monkeypatch.setattr(markdown, "display", shown.append)
    write("one", "two")
    assert isinstance(shown[0], Markdown) and shown[0].data == "one\n\ntwo"
