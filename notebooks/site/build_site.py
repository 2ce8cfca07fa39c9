"""Build the course as a site whose explorers need no kernel: make site, or

    python build_site.py [--folder build/site] [--jobs 2] [--thin]

Explorers are recorded where the notebook, the library or the recorder changed since the last time; the pages are the
committed notebooks with their outputs. Nothing of the site comes from elsewhere when it is read.
"""

import argparse
import hashlib
import html
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_output
from tqdm import tqdm

import posenc_lib
from posenc_lib.view.controls import SWEEP
from posenc_lib.view.recording import PAIR
from record_notebook import record_notebook

HERE = Path(__file__).resolve().parent
NOTEBOOKS, ROOT = HERE.parent, HERE.parents[1]
LIBRARY = Path(posenc_lib.__file__).parent
MATHJAX = "mathjax@3.2.2"
LONGEST_OPEN = 12  # lines of a cell that draws; a longer one is folded


def digests(notebooks: list[Path], *options: object) -> dict[Path, str]:
    """What recordings depend on: the cells of a notebook, the library, the recorder and its options."""
    code = [path.read_text() for path in sorted(LIBRARY.rglob("*.py"))] + [(HERE / "record_notebook.py").read_text()]
    found = {}
    for notebook in notebooks:
        cells = [cell.source for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code"]
        found[notebook] = hashlib.sha256("\0".join([*cells, *code, *map(str, options)]).encode()).hexdigest()
    return found


def record_all(notebooks: list[Path], recordings: Path, jobs: int, *options: object) -> None:
    """Record the explorers of those notebooks whose recordings are not of the same code, each in a new process.

    Raises:
        RuntimeError: if a cell of a notebook fails.
    """
    wanted = digests(notebooks, *options)
    stamps = {notebook: recordings / notebook.stem / "digest" for notebook in notebooks}
    changed = [n for n, stamp in stamps.items() if not stamp.exists() or stamp.read_text() != wanted[n]]
    if not changed:
        return
    context = multiprocessing.get_context("forkserver")  # has read the libraries once
    context.set_forkserver_preload(["record_notebook"])
    with context.Pool(jobs, maxtasksperchild=1) as pool:
        waiting = {}
        for notebook in changed:
            folder = recordings / notebook.stem
            shutil.rmtree(folder, ignore_errors=True)
            waiting[notebook] = pool.apply_async(record_notebook, (notebook, folder, *options))
        for notebook, job in tqdm(waiting.items(), desc="explorers", unit="notebook"):
            job.get()
            stamps[notebook].write_text(wanted[notebook])


def page_of(notebook: Path, explorers: list[dict]) -> NotebookNode:
    """The notebook as its page shows it: explorers from their recordings, code that only draws folded.

    Raises:
        ValueError: if the notebook does not show the explorers that were recorded.
    """
    page, left = nbformat.read(notebook, as_version=4), list(enumerate(explorers))
    for cell in page.cells:
        if cell.cell_type != "code":
            continue
        for n, output in enumerate(cell.outputs):
            alt = output.get("metadata", {}).get("image/png", {}).get("alt")
            if output.output_type == "execute_result" and left and alt == left[0][1]["alt"]:
                shown = {"text/html": explorer_html(notebook.stem, *left.pop(0))}
                cell.outputs[n] = new_output("display_data", shown)
        lines = cell.source.count("\n") + 1
        if "Explorer(" in cell.source or (lines > LONGEST_OPEN and "plt.subplots(" in cell.source):
            cell.metadata["tags"] = [*cell.metadata.get("tags", []), "hide-input"]
    if left:
        raise ValueError(f"{notebook.name} does not show the explorer with the alt text {left[0][1]['alt']!r}")
    return page


def explorer_html(name: str, number: int, explorer: dict, more: str = "") -> str:
    """The place of an explorer in a page: what is shown at the start, and what can be moved."""
    layer, background, words = explorer["start"]
    folder = f"_static/recordings/{name}"
    image = f'<img src="{folder}/{layer}.webp" alt="{html.escape(explorer["alt"])}" width="{explorer["width"]}"'
    image += f' style="max-width: 100%; background: url({folder}/{background}.webp) 0 0 / 100% 100%">'
    described = json.dumps(explorer).replace("<", "\\u003c")
    return (
        f'<div class="posenc-explorer" id="{name}-{number}" data-pictures="{folder}"'
        f' data-states="{folder}/{number}.js"{more}>{image}<p>{html.escape(words)}</p>'
        f'<script type="application/json">{described}</script></div>'
    )


def player() -> str:
    """``screen.js`` as a script that runs in pages opened from a folder too, which modules do not."""
    code = (LIBRARY / "view" / "screen.js").read_text().replace("export default { render, replay };\n", "")
    return f"const posenc_states = {{}};\n(() => {{\n{code}\n{(HERE / 'start.js').read_text()}}})();\n"


def mathjax(folder: Path) -> None:
    """Put MathJax into ``folder``, from npm."""
    if (folder / "tex-chtml.js").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    packed = subprocess.run(
        ["npm", "pack", MATHJAX, "--silent"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.split()[-1]
    with tarfile.open(folder / packed) as archive:
        for member in archive.getmembers():
            inner = member.name.removeprefix("package/es5/")
            if inner == "tex-chtml.js" or inner.startswith("output/chtml/fonts/"):
                member.name = inner
                archive.extract(member, folder, filter="data")
    (folder / packed).unlink()


def build(folder: Path, notebooks: list[Path], words: Path, jobs: int, *options: object) -> int:
    """Build a site; the number of explorers in it.

    Args:
        folder: of the site; what is kept for the next time lies beside it.
        notebooks: each gets a page.
        words: the folder of the other pages.
        jobs: processes at the same time.
        options: of ``record_notebook``.
    """
    work = folder.parent / f"{folder.name}-work"
    recordings, pages, static = work / "recordings", work / "pages", work / "static"

    record_all(notebooks, recordings, jobs, *options)
    for path in (pages, static, folder / "_static" / "recordings"):  # Sphinx leaves what was there before
        shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(words, pages)
    explorers = {}
    for notebook in notebooks:
        found = explorers[notebook.stem] = json.loads((recordings / notebook.stem / "explorers.json").read_text())
        nbformat.write(page_of(notebook, found), pages / notebook.name)
    for path in pages.glob("*.md"):
        path.write_text(filled(path.read_text(), explorers))
    if (NOTEBOOKS / "images").exists():
        shutil.copytree(NOTEBOOKS / "images", pages / "images")
    shutil.copytree(HERE / "static", static)
    (static / "posenc.js").write_text(player())
    mathjax(work / "mathjax")
    for name in ("recordings", "mathjax"):
        (static / name).symlink_to(work / name)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", str(jobs), "-c", str(HERE)]
    command += ["-D", f"html_static_path={static}"]
    subprocess.run([*command, "-d", str(work / "doctrees"), str(pages), str(folder)], check=True)
    return sum(map(len, explorers.values()))


def filled(text: str, explorers: dict[str, list[dict]]) -> str:
    """A page of words with what it names.

    ``{explorer NOTEBOOK NUMBER}`` is one that plays, ``{readme HEADING}`` a part of README.md, ``{modules PACKAGE}``
    what the docstrings of a package's modules say.
    """

    def place(found: re.Match) -> str:
        name, number = found[1], int(found[2])
        return explorer_html(name, number, explorers[name][number], " data-play")

    def part(found: re.Match) -> str:
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        words = re.search(rf"^## {found[1]}\n(.*?)(?=^## )", readme, re.M | re.S)[1]
        words = re.sub(r"\[([^\]]+)\]\((?!notebooks/\d\d_|https:)[^)]*\)", r"\1", words)  # files that have no page
        return words.replace("](notebooks/", "](")

    def modules(found: re.Match) -> str:
        paths = sorted((ROOT / found[1].replace(".", "/")).glob("[!_]*.py"))
        return "\n".join(f".. automodule:: {found[1]}.{path.stem}\n   :members:\n" for path in paths)

    for pattern, fill in (
        (r"\{readme ([^}]+)\}", part),
        (r"\{modules ([\w.]+)\}", modules),
        (r"\{explorer (\S+) (\d+)\}", place),
    ):
        text = re.sub(pattern, fill, text)
    return text


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "site")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--thin", action="store_true", help="three values of each control, to try the pages")
    options = parser.parse_args()
    few = (3, 3) if options.thin else (SWEEP, PAIR)
    notebooks = sorted(NOTEBOOKS.glob("*.ipynb"))
    count = build(options.folder.resolve(), notebooks, HERE / "pages", options.jobs, *few)
    print(f"{count} explorers; open {options.folder.resolve() / 'index.html'}")


if __name__ == "__main__":
    main()
