"""What notebooks say of experiments that they do not run."""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def sources(notebook):
    cells = json.loads((NOTEBOOKS / f"{notebook}.ipynb").read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@pytest.fixture(scope="module")
def toys():
    """The toys of notebook 18, as their cell defines them, but never stopped before the 350 updates."""
    setup, cell = (next(one for one in sources("18_in_use") if of in one) for of in ("import json", "def two_tasks("))
    stop = '"stop_below": 0.005'
    assert stop in cell
    found = {}
    exec(setup[: setup.index("pictogram(")], found)
    exec(cell[: cell.index("models, updates, found =")].replace(stop, '"stop_below": 0.0'), found)
    plt.close("all")
    return found


@pytest.mark.parametrize("rule", ["ALL", "SMOL", "GEMMA", "HYBRID"])
def test_with_equal_updates_the_same_rule_alone_keeps_both_tasks(toys, rule):
    kept = []
    for seed in (0, 1, 2):
        model, updates = toys["fitted"](toys[rule], seed)
        assert updates == 350
        assert min(toys["kept"](model, 32)) > 0.8
        kept.append(min(toys["kept"](model, 1024)) > 0.75)
    assert (sum(kept) > 1) == (rule == "HYBRID"), kept
