"""Notebook 20 takes a scheme that is new to the library: no cell breaks, and its row says "not trained yet"."""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat

from posenc_lib import schemes
from posenc_lib.view import Explorer

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "20_comparison.ipynb"
NAMED = ("NoPosition", "Sinusoidal", "Shaw", "Huang", "T5Bias", "Alibi", "Kerple", "Rotary")  # in the cells
NEW = """
from posenc_lib.schemes.rope import Rotary

class Loud(Rotary):
    places = ("query and key", "score")

    def score_bias(self, q, k, pair):
        return 0.01 * pair
"""


def test_a_scheme_without_results_breaks_no_cell_and_says_so(tmp_path, monkeypatch, capsys):
    (tmp_path / "loud.py").write_text(NEW)
    monkeypatch.setattr(schemes, "__path__", [*schemes.__path__, str(tmp_path)])
    monkeypatch.setattr(plt, "show", plt.close)
    monkeypatch.chdir(NOTEBOOK.parent)
    cells = [cell.source for cell in nbformat.read(NOTEBOOK, 4).cells if cell.cell_type == "code"]
    last = max(n for n, source in enumerate(cells) if "TRAINED" in source)
    explorers, names = [], {}
    try:
        exec(cells[0], names)
        names["CLASSES"] = {name: names["CLASSES"][name] for name in (*NAMED, "Loud")}
        names["Explorer"] = lambda *a, **k: explorers.append(Explorer(*a, **k))
        for source in cells[1 : last + 1]:
            exec(source, names)
    finally:
        sys.modules.pop("posenc_lib.schemes.loud", None)
        plt.close("all")
    table = capsys.readouterr().out.splitlines()
    assert "Loud" not in names["TRAINED"]
    assert [line.split(maxsplit=1) for line in table].count(["Loud", "not trained yet"]) == 1
    explorers[0].controls["first"].value = "Loud"
    assert "Loud" in explorers[0].words and "not trained yet" in explorers[0].words
