"""Notebook 20 takes a scheme that is new to the library: no cell breaks, and its row says "not trained yet"."""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat

from posenc_lib import schemes
from posenc_lib.lab.trial import TASKS
from posenc_lib.view import Explorer

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "20_comparison.ipynb"
NEW = """
from posenc_lib.schemes.rope import Rotary

class Loud(Rotary):
    places = ("query and key", "score")

    def score_bias(self, q, k, pair):
        return 0.01 * pair
"""
OF_MODELS = ("remake(", "AGAIN", "MODELS")  # cells that train


def test_a_scheme_without_results_breaks_no_cell_and_says_so(tmp_path, monkeypatch):
    (tmp_path / "loud.py").write_text(NEW)
    monkeypatch.setattr(schemes, "__path__", [*schemes.__path__, str(tmp_path)])
    monkeypatch.setattr(plt, "show", plt.close)
    monkeypatch.chdir(NOTEBOOK.parent)
    cells = [cell.source for cell in nbformat.read(NOTEBOOK, 4).cells if cell.cell_type == "code"]
    explorers, figures, written, names = [], [], [], {}
    try:
        for number, source in enumerate(cells):
            if not any(word in source for word in OF_MODELS):
                exec(source, names)
            if number == 0:
                names["Explorer"] = lambda *a, **k: explorers.append(Explorer(*a, **k))
                names["show"] = lambda fig, *words, **how: figures.append(fig)
                names["write"] = lambda *texts: written.extend(texts)
    finally:
        sys.modules.pop("posenc_lib.schemes.loud", None)
        plt.close("all")
    for task in TASKS:
        assert names["CELLS"]["Loud", task].untrained() == "not trained yet"
    figures += [explorer._figure for explorer in explorers]
    told = [fig.get_supxlabel().replace("\n", " ") for fig in figures]
    said = ["Loud" in words.partition("not trained yet: ")[2] for words in told]
    assert said.count(True) == 4, "costs, lines, heat map, who remains"
    rows = [line for text in written for line in text.splitlines() if line.startswith("| Loud |")]
    assert len(rows) == 2  # what a practitioner asks
    assert all("Loud" in spots for spots in names["SPOTS"].values())  # the map
    answers = next(fig for fig in figures if "same in every text" in str(fig.axes[0].get_xticklabels()))
    assert "Loud" in [label.get_text() for label in answers.axes[0].get_yticklabels()]  # what 00 asks
