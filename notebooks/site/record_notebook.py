"""Run a notebook without a page and record its explorers; build_site.py does it for each notebook that changed."""

import contextlib
import io
import json
import os
from pathlib import Path

import matplotlib
import nbformat
import torch
from IPython.core.interactiveshell import InteractiveShell

import posenc_lib.lab  # noqa: F401  what notebooks import, read once for all of them
from posenc_lib.view import Explorer
from posenc_lib.view.recording import record


def record_notebook(notebook: Path, folder: Path, digest: str, most: int, pair: int, before: str = "") -> None:
    """Record the explorers of a notebook, each where its cell shows it: later cells may change what it draws.

    Args:
        notebook: what to run, all of it, in this process.
        folder: gets explorers.json, what the page has to know of each explorer; N.js, the states of the Nth; and the
            pictures, DIGEST.webp.
        digest: what the recordings depend on; kept with them.
        most: values of a control at most.
        pair: values of each of two controls together at most.
        before: code to run before the notebook.
    Raises:
        RuntimeError: if a cell fails.
    """
    folder.mkdir(parents=True)
    torch.set_num_threads(1)
    matplotlib.use("agg")
    pages = []

    def keep(explorer: Explorer) -> None:
        page, pictures = record(explorer, most, pair)
        for name, data in pictures.items():
            (folder / f"{name}.webp").write_bytes(data)
        states, number = page.pop("states"), len(pages)
        first = page["controls"][0]
        page["start"] = states[f"{first['name']}={first['start']}"][:3]
        key = json.dumps(f"{notebook.stem}-{number}")
        (folder / f"{number}.js").write_text(f"posenc_states[{key}] = {json.dumps(states)};\n")
        pages.append(page)

    cells = nbformat.read(notebook, as_version=4).cells
    shell = InteractiveShell.instance()
    shell.display_formatter.ipython_display_formatter.for_type(Explorer, keep)
    os.chdir(notebook.parent)
    for source in (before, *(cell.source for cell in cells if cell.cell_type == "code")):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            done = shell.run_cell(source)
        if not done.success:
            raise RuntimeError(f"{notebook}: a cell failed\n{source}\n{said.getvalue()}")
    (folder / "explorers.json").write_text(json.dumps({"digest": digest, "explorers": pages}))
