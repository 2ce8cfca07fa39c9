"""Execute notebooks and write them in the one form in which they are committed.

    python tests/notebooks/canonical.py [PATH ...] [--check]

Running it twice changes nothing. Two kinds of output would differ from run to run or from machine to machine, and are
kept as they were for as long as the source of their cell is the same: everything below a cell tagged
``nbval-ignore-output``, and the bytes of a picture whose digest is the same and that differs by no more than fonts and
edges do. To renew them, clear the outputs first.

Of the metadata of a cell its tags are kept. A code cell tagged ``hide-input`` is folded, which the static pages read
from the tag and JupyterLab from ``jupyter.source_hidden``.
"""

import argparse
import copy
import importlib.util
import os
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import zip_longest
from pathlib import Path

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode
from tqdm import tqdm

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
SECONDS_PER_CELL = 180
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}

_spec = importlib.util.spec_from_file_location("notebooks_conftest", NOTEBOOKS / "conftest.py")
rules = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(rules)


class ThisEnvironment(AsyncKernelManager):
    """Starts the Python that runs this script, whatever kernels are installed elsewhere under the same name."""

    def __init__(self, **options):
        super().__init__(kernel_spec_manager=KernelSpecManager(kernel_dirs=[]), **options)


def execute(path: Path) -> NotebookNode:
    """The notebook at ``path`` with the outputs of a run from a fresh kernel in its own folder.

    Raises:
        nbclient.exceptions.CellExecutionError: if a cell raises.
        nbclient.exceptions.CellTimeoutError: if a cell takes longer than ``SECONDS_PER_CELL``.
    """
    nb = nbformat.read(path, as_version=4)
    client = NotebookClient(
        nb,
        kernel_manager_class=ThisEnvironment,
        kernel_name="python3",
        timeout=SECONDS_PER_CELL,
        resources={"metadata": {"path": str(path.resolve().parent)}},
        store_widget_state=False,
        record_timing=False,
        skip_cells_with_tag="",
    )
    return client.execute(stderr=subprocess.DEVNULL)


def canonical(nb: NotebookNode, previous: NotebookNode | None = None) -> NotebookNode:
    """An executed notebook in canonical form.

    Args:
        nb: the notebook, not changed.
        previous: the same notebook as it was, whose unstable outputs are kept where the source of a cell is the same.
    Raises:
        ValueError: if a cell wrote anything but progress bars to stderr.
    """
    nb = copy.deepcopy(nb)
    nb.nbformat, nb.nbformat_minor, nb.metadata = 4, 5, nbformat.from_dict(METADATA)
    outputs_before = defaultdict(list)
    for cell in previous.cells if previous else []:
        if cell.cell_type == "code":
            outputs_before[cell.source].append(cell.outputs)
    count = 0
    for index, cell in enumerate(nb.cells):
        tags = cell.metadata.get("tags", [])
        cell.id, cell.metadata = f"cell-{index:02d}", nbformat.from_dict({"tags": tags} if tags else {})
        if cell.cell_type != "code":
            continue
        if "hide-input" in tags:
            cell.metadata["jupyter"] = nbformat.from_dict({"source_hidden": True})
        if not cell.source.strip():
            cell.execution_count, cell.outputs = None, []
            continue
        count += 1
        cell.execution_count, cell.outputs = count, _tidy(cell.outputs, count)
        if stray := rules.stray_stderr(_stderr(cell.outputs)):
            raise ValueError(f"code cell {count} wrote to stderr: " + "\n".join(stray))
        if outputs_before[cell.source]:
            before = _tidy(outputs_before[cell.source].pop(0), count)
            cell.outputs = _keep(before, cell.outputs, everything="nbval-ignore-output" in tags)
    nbformat.validate(nb)
    return nb


def text(nb: NotebookNode) -> str:
    """The file for a notebook in canonical form."""
    return nbformat.writes(nb, ensure_ascii=False) + "\n"


def _stderr(outputs: list) -> str:
    return "".join(output.text for output in outputs if output.get("name") == "stderr")


def _tidy(outputs: list, count: int) -> list:
    """Outputs without progress bars, widget views and empty ones, with consecutive pieces of one stream joined."""
    only_bars = not rules.stray_stderr(_stderr(outputs))
    tidy = []
    for output in copy.deepcopy(outputs):
        if output.output_type == "stream":
            if not output.text or (output.name == "stderr" and only_bars):
                continue
            if tidy and tidy[-1].get("name") == output.name:
                tidy[-1].text += output.text
                continue
        elif "data" in output:
            output.data.pop(WIDGET_VIEW, None)
            if set(output.data) <= {"text/plain"} and not rules.stray_stderr(output.data.get("text/plain", "")):
                continue  # nothing, or what is left of a progress bar that was a widget
            if output.output_type == "execute_result":
                output.execution_count = count
        tidy.append(output)
    return tidy


def _keep(before: list, now: list, everything: bool) -> list:
    """Of the tidy outputs ``before`` and ``now``, those to write: see the head of this module."""
    if everything and before and not any(o.output_type == "error" or o.get("name") == "stderr" for o in before):
        return before
    pairs = zip_longest(before[: len(now)], now)
    return [old if old and _says_the_same(old, new) else new for old, new in pairs]


def _says_the_same(old: NotebookNode, new: NotebookNode) -> bool:
    if _without_picture(old) != _without_picture(new):
        return False
    both = zip(rules.pictures([old]), rules.pictures([new]), strict=True)
    return all(rules.difference(*pair) is None for pair in both)


def _without_picture(output: NotebookNode) -> dict:
    if "image/png" not in output.get("data", {}):
        return dict(output)
    return dict(output) | {"data": dict(output.data) | {"image/png": ""}}


def _renew(path: Path, check: bool) -> bool:
    """Execute the notebook at ``path`` and write it unless ``check``; whether its file changes."""
    before = path.read_text(encoding="utf-8")
    try:
        after = text(canonical(execute(path), nbformat.reads(before, as_version=4)))
    except Exception as error:  # errors of nbclient do not survive the way back from another process
        raise RuntimeError(str(error)) from None
    if after != before and not check:
        path.write_text(after, encoding="utf-8", newline="\n")
    return after != before


def main() -> int:
    """Run the command line; 1 if a notebook failed or, with ``--check``, would change."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="notebooks; by default all of the course")
    parser.add_argument("--check", action="store_true", help="write nothing, name the files that would change")
    options = parser.parse_args()
    paths = options.paths or sorted(NOTEBOOKS.glob("*.ipynb"))
    if not paths:
        parser.error("there are no notebooks")
    if missing := [str(path) for path in paths if not path.is_file()]:
        parser.error(f"not a file: {', '.join(missing)}")
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    failed = False
    with ProcessPoolExecutor(max_workers=2) as pool:
        jobs = {pool.submit(_renew, path, options.check): path for path in paths}
        for job in tqdm(as_completed(jobs), total=len(jobs), unit="notebook"):
            if error := job.exception():
                tqdm.write(f"{jobs[job]}: failed, not written\n{error}", file=sys.stderr)
            elif job.result():
                tqdm.write(f"{jobs[job]}: {'would change' if options.check else 'written'}")
            failed |= bool(error) or (options.check and job.result())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
