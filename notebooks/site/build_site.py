"""Build the course as a site whose explorers need no kernel: make site, or

    python build_site.py [--folder build/site] [--jobs 2] [--repository https://github.com/OWNER/NAME] [--open]

Explorers are recorded where the notebook, the library or the recorder changed since the last time; the pages are the
committed notebooks with their outputs. Nothing of the site comes from elsewhere when it is read. With the address of a
repository each page has links that run its notebook. The pages that changed are checked in a browser, as in make test.
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
import webbrowser
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
CHECKS = ROOT / "tests" / "browser" / "test_pages.py"
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


def record_all(wanted: dict[Path, str], recordings: Path, jobs: int, *options: object) -> None:
    """Record the explorers of those notebooks whose recordings have another digest, each in a new process.

    Raises:
        RuntimeError: if a cell of a notebook fails.
    """
    changed = [n for n, digest in wanted.items() if recorded_of(n, recordings).get("digest") != digest]
    if not changed:
        return
    context = multiprocessing.get_context("forkserver")  # has read the libraries once
    context.set_forkserver_preload(["record_notebook"])
    with context.Pool(jobs, maxtasksperchild=1) as pool:
        waiting = []
        for notebook in sorted(changed, key=lambda path: -path.stat().st_size):  # the long ones first
            folder = recordings / notebook.stem
            shutil.rmtree(folder, ignore_errors=True)
            waiting.append(pool.apply_async(record_notebook, (notebook, folder, wanted[notebook], *options)))
        for job in tqdm(waiting, desc="explorers", unit="notebook"):
            job.get()


def recorded_of(notebook: Path, recordings: Path) -> dict:
    """What is recorded of a notebook: ``explorers`` and the ``digest`` of what they were recorded from."""
    path = recordings / notebook.stem / "explorers.json"
    return json.loads(path.read_text()) if path.exists() else {}


def page_of(notebook: Path, recorded: dict, digest: str, repository: str = "") -> NotebookNode:
    """The notebook as its page shows it: explorers from their recordings, code that only draws folded.

    Raises:
        ValueError: if the notebook is not the one that was recorded, or does not show the explorers that were.
    """
    if recorded["digest"] != digest:
        raise ValueError(f"{notebook.name} changed after its explorers were recorded")
    page, left = nbformat.read(notebook, as_version=4), list(enumerate(recorded["explorers"]))
    page.cells[0].source += f"\n\n{ways_to_run(notebook.name, repository)}"
    for cell in page.cells:
        cell.source = cell.source.replace("](START.md)", "](index.md)")  # whose content stands there
        if cell.cell_type != "code":
            continue
        for n, output in enumerate(cell.outputs):
            alt = output.get("metadata", {}).get("image/png", {}).get("alt")
            if output.output_type == "execute_result" and left and alt == left[0][1]["alt"]:
                shown = {"text/html": explorer_html(notebook.stem, *left.pop(0))}
                cell.outputs[n] = new_output("display_data", shown)
        lines = cell.source.count("\n") + 1
        if "Explorer(" in cell.source or (lines > LONGEST_OPEN and "plt.subplots(" in cell.source):
            cell.metadata["tags"] = sorted({*cell.metadata.get("tags", []), "hide-input"})
    if left:
        raise ValueError(f"{notebook.name} does not show the explorer with the alt text {left[0][1]['alt']!r}")
    return page


def ways_to_run(name: str, repository: str) -> str:
    """A line with links: the notebook itself, and where it can be run if it is known where the course lies."""
    links = [f'<a href="_static/notebooks/{name}" download>Download this notebook</a>']
    if repository:
        course = repository.rstrip("/").removesuffix(".git")
        place = course.removeprefix("https://github.com/")
        binder = f"https://mybinder.org/v2/gh/{place}/HEAD?urlpath=lab/tree/notebooks/{name}"
        colab = f"https://colab.research.google.com/github/{place}/blob/HEAD/notebooks/{name}"
        links.append(f'<a href="{binder}">run it on Binder</a>')
        links.append(f'<a href="{colab}">open it in Colab</a> (first: <code>%pip install git+{course}</code>)')
    return f'<p class="posenc-run">{" · ".join(links)}</p>'


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
    if (folder / "input").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    packed = subprocess.run(
        ["npm", "pack", MATHJAX, "--silent"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.split()[-1]
    with tarfile.open(folder / packed) as archive:
        for member in archive.getmembers():
            inner = member.name.removeprefix("package/es5/")
            if inner.startswith(("tex-chtml.js", "input/tex/extensions/", "output/chtml/fonts/")):
                member.name = inner
                archive.extract(member, folder, filter="data")
    (folder / packed).unlink()


def build(folder: Path, notebooks: list[Path], words: Path, jobs: int, *options: object, repository: str = "") -> int:
    """Build a site; the number of explorers in it.

    Args:
        folder: of the site; what is kept for the next time lies beside it.
        notebooks: each gets a page.
        words: the folder of the other pages.
        jobs: processes at the same time.
        options: of ``record_notebook``.
        repository: address of the course on GitHub; without one, pages have no links that run them.
    """
    work = folder.parent / f"{folder.name}-work"
    recordings, pages, static = work / "recordings", work / "pages", work / "static"
    wanted = digests(notebooks, *options)
    record_all(wanted, recordings, jobs, *options)
    texts, explorers = {}, {}
    for notebook in notebooks:
        recorded = recorded_of(notebook, recordings)
        explorers[notebook.stem] = recorded["explorers"]
        texts[notebook.name] = nbformat.writes(page_of(notebook, recorded, wanted[notebook], repository))
    for path in words.glob("*.md"):
        texts[path.name] = filled(path.read_text(encoding="utf-8"), explorers)
    put(texts, pages)

    for path in (static, folder / "_static" / "recordings"):  # Sphinx leaves what was there before
        shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(HERE / "static", static)
    (static / "notebooks").mkdir()
    for notebook in notebooks:
        shutil.copy(notebook, static / "notebooks")
    (static / "posenc.js").write_text(player())
    mathjax(work / "mathjax")
    for name in ("recordings", "mathjax"):
        (static / name).symlink_to(work / name)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", str(jobs), "-c", str(HERE)]
    command += ["-D", f"html_static_path={static}"]
    subprocess.run([*command, "-d", str(work / "doctrees"), str(pages), str(folder)], check=True)
    return sum(map(len, explorers.values()))


def put(texts: dict[str, str], folder: Path) -> None:
    """Bring the files of a folder up to date; those that stay the same are not read again by Sphinx."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def filled(text: str, explorers: dict[str, list[dict]]) -> str:
    """A page of words with what it names.

    ``{explorer NOTEBOOK NUMBER}`` is one that plays, ``{part FILE HEADING}`` a part of a Markdown file and
    ``{part FILE}`` all that is below its title, ``{modules PACKAGE}`` what the docstrings of a package's modules say.
    """

    def place(found: re.Match) -> str:
        name, number = found[1], int(found[2])
        return explorer_html(name, number, explorers[name][number], " data-play")

    def part(found: re.Match) -> str:
        words = (ROOT / found[1]).read_text(encoding="utf-8")
        heading = rf"## {found[2]}\n(.*?)(?=\n## |\Z)" if found[2] else r"# [^\n]*\n(.*)\Z"
        words = re.search(rf"^{heading}", words, re.M | re.S)[1].strip()
        words = words.replace("](notebooks/", "](")
        pages = r"(?:\d\d_\w+\.ipynb|NOTATION\.md|https?:)"
        return re.sub(rf"\[([^\]]+)\]\((?!{pages})[^)]*\)", r"\1", words)  # files that have no page

    def modules(found: re.Match) -> str:
        paths = sorted((ROOT / found[1].replace(".", "/")).glob("[!_]*.py"))
        return "\n".join(f".. automodule:: {found[1]}.{path.stem}\n   :members:\n" for path in paths)

    for pattern, fill in (
        (r"\{part (\S+?)(?: ([^}]+))?\}", part),
        (r"\{modules ([\w.]+)\}", modules),
        (r"\{explorer (\S+) (\d+)\}", place),
    ):
        text = re.sub(pattern, fill, text)
    return text


def contents(folder: Path) -> dict[str, bytes]:
    """The pages of a site by name, with what they are recorded from."""
    pages = {path.stem: path.read_bytes() for path in folder.glob("*.html")}
    for path in folder.glob("_static/recordings/*/explorers.json"):
        pages[path.parent.name] = pages.get(path.parent.name, b"") + path.read_bytes()
    return pages


def check(folder: Path, before: dict[str, bytes]) -> None:
    """Look at the pages of a site that are others than before, in a browser; at all, if the last look found a fault.

    Raises:
        CalledProcessError: if there is a fault.
    """
    passed, now = folder.parent / f"{folder.name}-work" / "passed", contents(folder)
    others = [name for name in now if not passed.exists() or before.get(name) != now[name]]
    passed.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-n2", "--dist", "loadgroup", "--confcutdir", str(CHECKS.parent)]
    environment = os.environ | {"SITE": str(folder), "PAGES": " ".join(others)}
    subprocess.run([*command, str(CHECKS)], cwd=ROOT, env=environment, check=True)
    passed.touch()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "site")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--repository", default="", help="address of the course on GitHub")
    parser.add_argument("--open", action="store_true", help="open the site in a browser, where there is a screen")
    options = parser.parse_args()
    folder, notebooks = options.folder.resolve(), sorted(NOTEBOOKS.glob("*.ipynb"))
    before = contents(folder)
    count = build(folder, notebooks, HERE / "pages", options.jobs, SWEEP, PAIR, repository=options.repository)
    check(folder, before)
    print(f"{count} explorers: {folder / 'index.html'}")
    if options.open and (sys.platform in ("darwin", "win32") or {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()):
        webbrowser.open((folder / "index.html").as_uri())


if __name__ == "__main__":
    main()
