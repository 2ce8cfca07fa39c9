"""The start page says where each scheme enters attention, as the library does, and leads to every notebook."""

import re
from pathlib import Path

import nbformat
import pytest

from posenc_lib.lab.catalog import scheme_classes

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
README = (NOTEBOOKS.parent / "README.md").read_text(encoding="utf-8")
ROWS = {
    "nowhere": (),
    "the input": ("input",),
    "queries and keys": ("query and key",),
    "the score": ("score",),
    "the score and the value": ("score", "value"),
}
CLASSES = scheme_classes()
NUMBERS = {path.stem.split("_", 1)[1]: path.name for path in NOTEBOOKS.glob("*.ipynb")}


def rows() -> dict[str, str]:
    """The map: the schemes of each place."""
    lines = re.findall(r"^\| ([^|:]+?)(?::[^|]*)? \| (.*) \|$", (NOTEBOOKS / "START.md").read_text(), re.M)
    return dict(lines)


@pytest.mark.parametrize("name", CLASSES)
def test_a_scheme_stands_at_its_places(name):
    module = CLASSES[name].__module__.rpartition(".")[2]
    if module not in NUMBERS:
        pytest.skip("has no notebook of its own")
    places = {row for row, places in ROWS.items() if set(places) == set(CLASSES[name].places)}
    (row,) = places
    assert f"]({NUMBERS[module]})" in rows()[row]


def test_it_leads_to_every_notebook_and_to_nothing_else():
    linked = set(re.findall(r"\]\(([^)]+)\)", (NOTEBOOKS / "START.md").read_text()))
    assert linked == {path.name for path in NOTEBOOKS.glob("*.ipynb")} | {"NOTATION.md"}
    in_the_map = set(re.findall(r"\]\(([^)]+)\)", " ".join(rows().values())))
    assert in_the_map == linked - {"NOTATION.md"}


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_the_readme_says_how_long_a_notebook_takes(path):
    (row,) = re.findall(rf"^\|.*\]\(notebooks/{path.name}\).*$", README, re.M)
    promised = re.search(r"Time:\**\s*(\d+) minutes", nbformat.read(path, 4).cells[0].source)
    assert row.split("|")[4].strip() == promised[1]
