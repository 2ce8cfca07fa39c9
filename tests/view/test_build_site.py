"""A page of the site shows what was recorded from its notebook, or is not made; what did not change is not recorded."""

import json

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from build_site import digests, page_of, record_all

RECORDED = {"alt": "A line.", "width": 900, "start": ["layer", "background", "Words."]}


@pytest.fixture
def notebook(tmp_path):
    """A notebook that shows one explorer."""
    shown = new_output("execute_result", {"image/png": ""}, metadata={"image/png": {"alt": "A line."}})
    cells = [new_markdown_cell("# Sliders"), new_code_cell("Explorer()", outputs=[shown])]
    nbformat.write(new_notebook(cells=cells), tmp_path / "13_rope.ipynb")
    return tmp_path / "13_rope.ipynb"


def test_a_page_shows_what_was_recorded(notebook):
    page = page_of(notebook, {"digest": "now", "explorers": [RECORDED]}, "now")
    assert 'data-states="_static/recordings/13_rope/0.js"' in page.cells[1].outputs[0].data["text/html"]


def test_a_page_of_another_notebook_is_an_error(notebook):
    with pytest.raises(ValueError, match=r"13_rope\.ipynb changed after its explorers were recorded"):
        page_of(notebook, {"digest": "before", "explorers": [RECORDED]}, "now")
    other = RECORDED | {"alt": "Something else."}
    with pytest.raises(ValueError, match="does not show the explorer with the alt text 'Something else"):
        page_of(notebook, {"digest": "now", "explorers": [other]}, "now")


def test_only_a_changed_notebook_is_recorded_again(notebook, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("build_site.multiprocessing.get_context", lambda kind: asked.append(kind) or 1 / 0)
    kept = tmp_path / "recordings" / "13_rope" / "explorers.json"
    kept.parent.mkdir(parents=True)
    kept.write_text(json.dumps({"digest": digests([notebook], 5, 3)[notebook], "explorers": []}))
    record_all(digests([notebook], 5, 3), tmp_path / "recordings", 1, 5, 3)
    assert asked == []
    notebook.write_text(notebook.read_text().replace("Explorer()", "Explorer( )"))
    with pytest.raises(ZeroDivisionError):
        record_all(digests([notebook], 5, 3), tmp_path / "recordings", 1, 5, 3)
    assert asked == ["forkserver"]


def test_a_notebook_is_run_up_to_its_last_explorer(tmp_path):
    line = """from posenc_lib.view import Explorer, slider
def draw(fig):
    return {"line": fig.subplots().plot([0, 1], [0, 1])}
def update(a, height):
    a.line.set_ydata([0, height])
    return f"A line up to {height:g}."
Explorer(draw, update, alt="A line.", height=slider("height", 0.0, 1.0, 0.5, 0.5))"""
    cells = [new_code_cell(source) for source in ("kept = []", line, "kept.append(1)\n" + line, "1 / 0")]
    nbformat.write(new_notebook(cells=cells), tmp_path / "a.ipynb")
    record_all(digests([tmp_path / "a.ipynb"], 3, 3), tmp_path / "recordings", 1, 3, 3)
    recorded = json.loads((tmp_path / "recordings" / "a" / "explorers.json").read_text())
    assert [explorer["alt"] for explorer in recorded["explorers"]] == ["A line.", "A line."]
    cells[0].source = "1 / 0"
    nbformat.write(new_notebook(cells=cells), tmp_path / "a.ipynb")
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        record_all(digests([tmp_path / "a.ipynb"], 3, 3), tmp_path / "recordings", 1, 3, 3)
