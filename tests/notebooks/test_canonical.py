"""The canonical writer: every rule on a notebook built in memory, the command line on one small notebook."""

import base64
import copy
import importlib.util
import io
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

SCRIPT = Path(__file__).with_name("canonical.py")
spec = importlib.util.spec_from_file_location("canonical", SCRIPT)
canonical = importlib.util.module_from_spec(spec)
spec.loader.exec_module(canonical)

BAR = "\rtraining:  40%|####      | 40/100 [00:01<00:02, 25.0it/s]"
WARNING = "cell.py:1: UserWarning: careful\n  warnings.warn('careful')\n"


def stream(text, name="stdout"):
    return new_output("stream", name=name, text=text)


def display(**data):
    return new_output("display_data", data={key.replace("_", "/", 1): value for key, value in data.items()})


def cell(*outputs, source="show()", tags=()):
    return new_code_cell(source, outputs=list(outputs), metadata={"tags": list(tags)} if tags else {})


def written(*outputs, before=None, **options):
    """The outputs of one cell in canonical form; ``before`` are the outputs in the file."""
    previous = None if before is None else new_notebook(cells=[cell(*before, **options)])
    return canonical.canonical(new_notebook(cells=[cell(*outputs, **options)]), previous).cells[0].outputs


def test_identifiers_counts_and_metadata():
    result = new_output("execute_result", data={"text/plain": "1"}, execution_count=17)
    timed = {"execution": {"shell.execute_reply": "12:00"}, "tags": ["x"]}
    nb = new_notebook(
        metadata={"widgets": {"state": {}}, "kernelspec": {"name": "mine", "display_name": "Mine"}, "authors": []},
        cells=[
            new_markdown_cell("# Title", metadata={"editable": True}),
            new_code_cell("1", execution_count=17, outputs=[result], metadata=timed),
            new_code_cell("  ", execution_count=18),
            new_code_cell("2", execution_count=3),
        ],
    )
    given = copy.deepcopy(nb)
    out = canonical.canonical(nb)
    assert nb == given
    assert out.metadata == canonical.METADATA
    assert [c.id for c in out.cells] == ["cell-00", "cell-01", "cell-02", "cell-03"]
    assert [c.get("execution_count") for c in out.cells] == [None, 1, None, 2]
    assert out.cells[1].outputs[0].execution_count == 1
    assert [c.metadata for c in out.cells] == [{}, {"tags": ["x"]}, {}, {}]
    assert (out.nbformat, out.nbformat_minor) == (4, 5)


def test_a_cell_with_hidden_input_is_folded_in_jupyterlab_and_no_other():
    folded = {"tags": ["hide-input"], "jupyter": {"source_hidden": True}}
    outputs_too = {"jupyter": {"source_hidden": True, "outputs_hidden": True}}
    nb = new_notebook(
        cells=[
            new_code_cell("1", metadata={"tags": ["hide-input"]}),
            new_code_cell("2", metadata=outputs_too | {"tags": ["hide-input"]}),
            new_code_cell("3", metadata=outputs_too),
            new_code_cell("4", metadata={"tags": ["hide-output"]}),
            new_markdown_cell("5", metadata={"tags": ["hide-input"]}),
        ],
    )
    once = canonical.canonical(nb)
    tags_only = [{}, {"tags": ["hide-output"]}, {"tags": ["hide-input"]}]
    assert [c.metadata for c in once.cells] == [folded, folded, *tags_only]
    assert canonical.text(canonical.canonical(once, once)) == canonical.text(once)


def test_consecutive_streams_are_joined_also_across_a_progress_bar():
    out = written(stream("a\n"), stream(BAR, "stderr"), stream("b\n"), display(text_plain="p"), stream("c\n"))
    assert [o.get("text") for o in out] == ["a\nb\n", None, "c\n"]


def test_widget_views_and_empty_outputs_are_dropped():
    view = {canonical.WIDGET_VIEW: {"model_id": "1", "version_major": 2, "version_minor": 0}}
    both = new_output("display_data", data={"text/plain": "a curve"} | view)
    assert [o.data for o in written(new_output("display_data", data=view), stream(""), both)] == [
        {"text/plain": "a curve"}
    ]


@pytest.mark.parametrize(
    "text",
    [
        BAR,
        BAR * 3 + "\r" + " " * 60 + "\r",
        "\r100%|██████████| 400/400 [00:03<00:00, 111.1it/s, loss=0.1]\n",
        "\r  0%|          | 0/7 [00:00<?, ?it/s]",
        "\r12it [00:01, 11.9it/s]\n",
        "\router:   0%|          | 0/2 [00:00<?, ?it/s]\n\rinner:   0%|          | 0/2 [00:00<?, ?it/s]\x1b[A",
        "\n",
    ],
)
def test_progress_bars_are_dropped(text):
    assert written(stream("a\n"), stream(text, "stderr")) == [stream("a\n")]
    assert written(stream("a\n"), display(text_plain=text)) == [stream("a\n")]


@pytest.mark.parametrize("text", [WARNING, BAR + "\n" + WARNING, BAR + "oh\n", "oh 40%| [x]\n", "12 it/s\n"])
def test_other_text_on_stderr_is_refused(text):
    with pytest.raises(ValueError, match="code cell 1 wrote to stderr"):
        written(stream(text, "stderr"))


def test_a_warning_in_pieces_is_refused():
    with pytest.raises(ValueError, match="careful"):
        written(*(stream(piece, "stderr") for piece in (BAR, "care", "ful\n")))


def test_unstable_output_is_kept():
    tags = ["nbval-ignore-output"]
    assert written(stream("2 ms"), before=[stream("1 ms")], tags=tags) == [stream("1 ms")]
    assert written(stream("2 ms"), before=[], tags=tags) == [stream("2 ms")]
    assert written(stream("2 ms"), before=[stream("1 ms")]) == [stream("2 ms")]
    broken = [new_output("error", ename="KeyboardInterrupt", evalue="", traceback=[])]
    assert written(stream("2 ms"), before=broken, tags=tags) == [stream("2 ms")]
    assert written(stream("2 ms"), before=[stream(WARNING, "stderr")], tags=tags) == [stream("2 ms")]


def test_unstable_output_is_renewed_with_its_source_and_follows_its_cell():
    old, new = (
        [cell(stream(f"{age} {name}"), source=name, tags=["nbval-ignore-output"]) for name in "ab"]
        for age in ("old", "new")
    )
    new[0].source = "c"
    nb = new_notebook(cells=[new_markdown_cell("inserted"), *new])
    out = canonical.canonical(nb, new_notebook(cells=old))
    assert [c.outputs[0].text for c in out.cells[1:]] == ["new a", "old b"]


def drawn(color, size=(60, 40), shade=255):
    """A square of one colour on a background that is nearly white, as base64."""
    picture, stream = Image.new("RGB", size, (shade,) * 3), io.BytesIO()
    picture.paste(color, (10, 10, 30, 30))
    picture.save(stream, "png")
    return base64.b64encode(stream.getvalue()).decode()


def test_a_picture_is_kept_while_it_says_and_shows_the_same():
    pictures = (drawn("red"), "d"), (drawn("red", shade=254), "d"), (drawn("red", shade=254), "e")
    old, redrawn, other = (display(image_png=p, text_plain=t) for p, t in pictures)
    for changed in (drawn("blue"), drawn("red", size=(60, 50))):
        renewed = display(image_png=changed, text_plain="d")
        assert written(renewed, before=[old]) == [renewed]
    assert written(redrawn, before=[old]) == [old]
    assert written(other, before=[old]) == [other]
    assert written(redrawn, stream("x"), before=[old]) == [old, stream("x")]
    nb, previous = (new_notebook(cells=[cell(o, source=s)]) for o, s in ((redrawn, "2"), (old, "1")))
    assert canonical.canonical(nb, previous).cells[0].outputs == [redrawn]


def test_canonical_form_is_a_fixed_point():
    nb = new_notebook(
        cells=[cell(stream("a"), stream(BAR, "stderr"), stream("b"), display(image_png="b2xk", text_plain="d"))]
    )
    once = canonical.canonical(nb)
    twice = canonical.canonical(nbformat.reads(canonical.text(once), as_version=4), once)
    assert canonical.text(twice) == canonical.text(once)
    assert canonical.text(once).startswith('{\n "cells"') and canonical.text(once).endswith("}\n")


def run(*arguments):
    return subprocess.run(
        [sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True, encoding="utf-8"
    )


def test_the_command_writes_once_and_then_finds_nothing_to_change(tmp_path):
    path = tmp_path / "a.ipynb"
    source = (
        "import os, sys, time\nprint('σ', os.getcwd() == sys.argv[-1] or os.path.exists('a.ipynb'))\nsys.executable"
    )
    timing = new_code_cell("time.perf_counter()", metadata={"tags": ["nbval-ignore-output"]})
    nbformat.write(new_notebook(cells=[new_code_cell(source), timing]), path)

    check = run(path, "--check")
    assert check.returncode == 1 and f"{path}: would change" in check.stdout
    assert "σ" not in path.read_text(encoding="utf-8").split('"source"')[0]

    first = run(path)
    assert first.returncode == 0 and f"{path}: written" in first.stdout
    content = path.read_text(encoding="utf-8")
    shown = nbformat.reads(content, as_version=4).cells[0].outputs
    assert shown[0].text == "σ True\n"
    assert shown[1].data["text/plain"] == repr(sys.executable)

    second = run(path, "--check")
    assert (second.returncode, second.stdout) == (0, "")
    assert path.read_text(encoding="utf-8") == content


@pytest.mark.parametrize(
    ("source", "message"),
    [("1 / 0", "ZeroDivisionError"), ("import warnings\nwarnings.warn('careful')", "UserWarning: careful")],
)
def test_the_command_leaves_a_failing_notebook_unwritten(tmp_path, source, message):
    path = tmp_path / "a.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell(source)]), path)
    content = path.read_bytes()
    result = run(path)
    assert result.returncode == 1
    assert f"{path}: failed, not written" in result.stderr and message in result.stderr
    assert path.read_bytes() == content


def test_the_command_refuses_a_path_that_is_no_file(tmp_path):
    result = run(tmp_path / "none.ipynb")
    assert result.returncode == 2 and "not a file" in result.stderr
