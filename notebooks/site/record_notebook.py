"""Run a notebook without a page and record its explorers; build_site.py does it for each notebook that changed."""

import contextlib
import io
import json
import os
import traceback
from pathlib import Path

import matplotlib
import nbformat
import torch
from IPython.core.interactiveshell import InteractiveShell

import posenc_lib.lab  # noqa: F401  what notebooks import, read once for all of them
from posenc_lib.view import Explorer
from posenc_lib.view.recording import record


def up_to_last_explorer(cells: list) -> list:
    """The cells of a notebook that its explorers may need."""
    shown = (n for n, cell in enumerate(cells, start=1) if cell.cell_type == "code" and "Explorer(" in cell.source)
    return cells[: max(shown, default=0)]


def record_notebook(notebook: Path, folder: Path, digest: str, most: int, pair: int, before: str = "") -> None:
    """Record the explorers of a notebook, each where its cell shows it: later cells may change what it draws.

    A copy of the process records, so that the notebook goes on as if nobody had looked.

    Args:
        notebook: what to run in this process, up to its last cell with an explorer.
        folder: gets explorers.json, what the page has to know of each explorer; N.js, the states of the Nth; and the
            pictures, DIGEST.webp.
        digest: what the recordings depend on; kept with them.
        most: values of a control at most.
        pair: values of each of two controls together at most.
        before: code to run before the notebook.
    Raises:
        RuntimeError: if a cell fails, or an explorer cannot be recorded.
    """
    folder.mkdir(parents=True)
    torch.set_num_threads(1)  # and so the process may be copied
    matplotlib.use("agg")
    copies = []

    def keep(explorer: Explorer) -> None:
        number = len(copies)
        copies.append(os.fork())
        if copies[-1] == 0:
            try:
                keep_states(explorer, folder, number, f"{notebook.stem}-{number}", most, pair)
            except BaseException:
                (folder / f"{number}.error").write_text(traceback.format_exc())
            finally:
                os._exit(0)
        os.waitpid(copies[-1], 0)  # both read the same open files of fonts

    cells = nbformat.read(notebook, as_version=4).cells
    shell = InteractiveShell.instance()
    shell.display_formatter.ipython_display_formatter.for_type(Explorer, keep)
    os.chdir(notebook.parent)
    for source in (before, *(cell.source for cell in up_to_last_explorer(cells) if cell.cell_type == "code")):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            done = shell.run_cell(source)
        if not done.success:
            raise RuntimeError(f"{notebook}: a cell failed\n{source}\n{said.getvalue()}")
    for number in range(len(copies)):
        if not (folder / f"{number}.json").exists():
            error = folder / f"{number}.error"
            raise RuntimeError(
                f"{notebook}: explorer {number}\n{error.read_text() if error.exists() else 'was killed'}"
            )
    pages = [json.loads((folder / f"{number}.json").read_text()) for number in range(len(copies))]
    (folder / "explorers.json").write_text(json.dumps({"digest": digest, "explorers": pages}))


def keep_states(explorer: Explorer, folder: Path, number: int, key: str, most: int, pair: int) -> None:
    """Record one explorer into N.js and pictures, and into N.json what the page has to know."""
    page, pictures = record(explorer, most, pair)
    for name, data in pictures.items():
        (folder / f"{name}.webp").write_bytes(data)
    states, first = page.pop("states"), page["controls"][0]
    page["start"] = states[f"{first['name']}={first['start']}"][:3]
    (folder / f"{number}.js").write_text(f"posenc_states[{json.dumps(key)}] = {json.dumps(states)};\n")
    (folder / f"{number}.json").write_text(json.dumps(page))
