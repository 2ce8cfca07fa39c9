"""Notebooks 20, 22 and 23 take a scheme that is new to the library: no cell breaks, its row says "not trained yet"."""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pytest

from posenc_lib import schemes
from posenc_lib.lab.trial import TASKS
from posenc_lib.view import Explorer

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
NEW = """
from posenc_lib.schemes.rope import Rotary

class Loud(Rotary):
    places = ("query and key", "score")

    def score_bias(self, q, k, pair):
        return 0.01 * pair
"""
OF_MODELS = ("remake(", "AGAIN", "MODELS")  # cells that train


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """A function that runs a notebook beside the new scheme: its names, its figures and what it writes."""
    (tmp_path / "loud.py").write_text(NEW)
    monkeypatch.setattr(schemes, "__path__", [*schemes.__path__, str(tmp_path)])
    monkeypatch.setattr(plt, "show", plt.close)
    monkeypatch.chdir(NOTEBOOKS)

    def run(notebook):
        cells = [cell.source for cell in nbformat.read(f"{notebook}.ipynb", 4).cells if cell.cell_type == "code"]
        explorers, figures, written, names = [], [], [], {}
        for number, source in enumerate(cells):
            if not any(word in source for word in OF_MODELS):
                exec(source, names)
            if number == 0:
                names["Explorer"] = lambda *a, **k: explorers.append(Explorer(*a, **k))
                names["show"] = lambda fig, *words, **how: figures.append(fig)
                names["write"] = lambda *texts: written.extend(texts)
        return names, figures + [explorer._figure for explorer in explorers], written

    yield run
    sys.modules.pop("posenc_lib.schemes.loud", None)
    plt.close("all")


@pytest.mark.parametrize(
    ("notebook", "below", "rows"),
    [
        ("20_comparison", 2, 0),  # below the heat map and the lines
        ("22_how_far", 1, 0),  # below the costs
        ("23_choice", 0, 2),  # in what a practitioner asks
    ],
)
def test_a_scheme_without_results_breaks_no_cell_and_says_so(ran, notebook, below, rows):
    names, figures, written = ran(notebook)
    for task in TASKS:
        assert names["CELLS"]["Loud", task].untrained() == "not trained yet"
    told = [fig.get_supxlabel().replace("\n", " ") for fig in figures]
    assert sum("Loud" in words.partition("not trained yet: ")[2] for words in told) == below
    assert sum(line.startswith("| Loud |") for text in written for line in text.splitlines()) == rows
    if notebook == "22_how_far":
        assert all("Loud" in spots for spots in names["SPOTS"].values())  # the map
        assert any("not yet: no runs" in words for words in told)
        answers = next(fig for fig in figures if "same in every text" in str(fig.axes[0].get_xticklabels()))
        assert "Loud" in [label.get_text() for label in answers.axes[0].get_yticklabels()]  # what 00 asks
