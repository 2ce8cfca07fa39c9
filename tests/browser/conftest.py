"""A real JupyterLab over a copy of the notebooks, a real Chromium in front of it, and a page object for a notebook.

Without a Chromium the tests are skipped; with REQUIRE_BROWSER=1 they fail.
"""

import contextlib
import json
import math
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from playwright.sync_api import expect, sync_playwright

from release import release

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
RUN_LIMIT = 300  # seconds for Run All Cells: far more than it takes, so that a busy machine does not matter
VIEWPORT = {"width": 1280, "height": 1100}
SETTLE_LIMIT = 20  # seconds for an explorer to come to rest after a move

# What JupyterLab itself writes to the console as an error, none of it about widgets.
UNRELATED = (
    "favicon",  # no icon in a folder that is being closed
    "/api/kernels/",  # a connection that closes with its page
    "lsp",  # no language server is installed
)

# A notebook with one control of each kind, so that an explorer is tested whatever the course shows.
EXPLORER = """
from posenc_lib.view import Explorer, choice, log_slider, slider, toggle, use_style

use_style()


def draw(fig):
    ax = fig.subplots()
    ax.set(title="A line", xlabel="$x$", ylabel="$y$", xlim=(0, 40), ylim=(0, 41))
    return {"line": ax.plot([], [])}


def update(moving, n, top, height, base, kind, dots):
    moving.line.set_data(range(n + 1), [height * (i / max(n, 1)) ** (base / 10) * top for i in range(n + 1)])
    moving.line.set_linestyle({"solid": "-", "dashed": "--"}[kind])
    moving.line.set_marker("o" if dots else "")
    return f"n={n} top={top} height={height:.2f} base={base:.4g} kind={kind} dots={dots}."


Explorer(
    draw,
    update,
    n=slider("length n", 0, 40, 8),
    top=slider("top", 1, 40, 20),
    height=slider("height", 0.0, 1.0, 0.5, 0.05),
    base=log_slider("base", 1, 100, 10),
    kind=choice("line", ["solid", "dashed"], "solid"),
    dots=toggle("dots", False),
    alt="A line that rises from the left to the right.",
    clamp=lambda n, top, **others: {"n": min(n, top)},
)
"""
SYNTHETIC = "synthetic.ipynb"

# What the explorers are measured against: the same kind of picture, drawn anew at every move.
BARE = """
import ipywidgets
import matplotlib.pyplot as plt
import numpy as np


@ipywidgets.interact(log_base=(0.5, 5.0, 0.1))
def show(log_base=4.0):
    angles = np.arange(128)[:, None] * 10 ** (-log_base * np.arange(64) / 64)
    P = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    fig.colorbar(left.imshow(P, cmap="RdBu", aspect="auto"), ax=left)
    right.plot(P[0] @ P.T)
    plt.show()
"""
BARE_NAME = "bare.ipynb"

# What a kernel runs before a notebook of the course: ten updates instead of a whole training, except where explorers
# show what was trained. nbval runs the trainings whole; here the controls are tested.
STARTUP = """
import functools, math, os, re

name = os.path.basename(os.environ["JPY_SESSION_NAME"])
if re.match(r"\\d\\d_", name) and name not in ("02_learned.ipynb", "14_context_extension.ipynb"):
    import posenc_lib.lab

    posenc_lib.lab.train = functools.partial(posenc_lib.lab.train, stop_below=math.inf)
"""

# The picture and the words of an explorer at rest: an idle kernel, and no change of them or of the sliders for a while.
# Once the picture is another than before (a new picture has a new address), one key press has had its answer and the
# while is short. Null if it takes longer than the limit in milliseconds.
SETTLE = """async (box, [before, limit]) => {
    const picture = box.querySelector('img'), words = box.querySelector('[role=status]');
    const idle = () => document.querySelector('.jp-Notebook-ExecutionIndicator[data-status=idle]');
    const numbers = () => [...box.querySelectorAll('.widget-readout')].map(readout => readout.textContent);
    const pause = ms => new Promise(done => setTimeout(done, ms));
    const start = performance.now();
    let last, since = start;
    while (performance.now() - start < limit) {
        const state = [picture.src, words.textContent, ...numbers()].join();
        const long_enough = before && before !== picture.src ? 100 : 300;
        if (state !== last || !idle()) {
            [last, since] = [state, performance.now()];
        } else if (performance.now() - since > long_enough) {
            const bytes = await fetch(picture.src).then(answer => answer.arrayBuffer(), () => null);
            if (!bytes) continue;  // replaced at this moment
            const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
            return [digest.join(), words.textContent];
        }
        await pause(20);
    }
    return null;
}"""

# Press an arrow key on a handle some times, to and fro; the milliseconds until the next picture is on the page, each.
TIME_KEY_PRESSES = """async (handle, presses) => {
    const cell = handle.closest('.jp-Cell');
    const images = () => [...cell.querySelectorAll('.jp-OutputArea img')];
    const sources = () => images().map(img => img.src).join();
    const pause = ms => new Promise(done => setTimeout(done, ms));
    const times = [];
    handle.focus();
    for (let n = 0; n < presses; n++) {
        const before = sources();
        let arrived;
        const arrival = new Promise(done => arrived = done);
        const watch = new MutationObserver(async () => {
            if (!sources() || sources() === before) return;
            await Promise.all(images().map(img => img.decode().catch(() => null)));
            arrived(true);
        });
        watch.observe(cell, {subtree: true, childList: true, attributes: true, attributeFilter: ['src']});
        const key = n % 2 ? 'ArrowLeft' : 'ArrowRight';
        const start = performance.now();
        handle.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
        if (await Promise.race([arrival, pause(3000)])) {
            await new Promise(requestAnimationFrame);
            times.push(performance.now() - start);
        }
        watch.disconnect();
        await pause(50);
    }
    return times;
}"""


@pytest.fixture(scope="session")
def browser():
    """Chromium, which nobody sees."""
    names = ("chromium", "chromium-browser", "google-chrome")
    executable = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if executable is None:
        reason = f"no Chromium found: set CHROMIUM or install one of {', '.join(names)}"
        (pytest.fail if os.environ.get("REQUIRE_BROWSER") == "1" else pytest.skip)(reason)
    quiet = ("background-networking", "component-update", "sync")
    arguments = ["--no-sandbox", "--disable-gpu", "--no-first-run", *(f"--disable-{name}" for name in quiet)]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def window(browser):
    """Where the notebooks are opened; its pages share what they fetch."""
    return browser.new_context(viewport=VIEWPORT)


@pytest.fixture(scope="session")
def lab(browser, tmp_path_factory):
    """The address of a JupyterLab over a copy of the course and the synthetic notebook."""
    root = tmp_path_factory.mktemp("lab")
    shutil.copytree(NOTEBOOKS, root / "notebooks", ignore=shutil.ignore_patterns(".ipynb_checkpoints", "assignments"))
    write_synthetic(root / "notebooks" / SYNTHETIC)
    write_assignments(root / "class", root / "notebooks")
    kernel = {"name": "python3", "display_name": "Python 3"}  # JupyterLab asks for one where none is named
    bare = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(BARE)], metadata={"kernelspec": kernel})
    nbformat.write(bare, root / "notebooks" / BARE_NAME)
    settings = {
        "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},  # keep every cell in the page
        "@jupyterlab/docmanager-extension:plugin": {"autosave": False},  # the next test opens the file as it was
        "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    }
    (root / "settings").mkdir()
    (root / "settings" / "overrides.json").write_text(json.dumps(settings))
    startup = root / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "short_trainings.py").write_text(STARTUP)
    environment = os.environ | {"IPYTHONDIR": str(root / "ipython")}
    environment["OMP_NUM_THREADS"] = "1"  # threads of a kernel that wait for each other starve Chromium
    options = ["--ServerApp.disable_check_xsrf=True", f"--LabApp.app_settings_dir={root / 'settings'}"]
    with running_lab(root / "notebooks", root, *options, environment=environment) as address:
        yield address


@contextlib.contextmanager
def running_lab(folder: Path, beside: Path, *options: str, environment: dict | None = None):
    """The address of a JupyterLab that was started in ``folder`` and keeps its own files in ``beside``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyterlab", "--allow-root", "--no-browser", "--ip=127.0.0.1", f"--port={port}"]
    command += ["--IdentityProvider.token=", f"--LabApp.workspaces_dir={beside / 'workspaces'}", *options]
    log = beside / "lab.log"
    with open(log, "w") as file:
        server = subprocess.Popen(command, cwd=folder, stdout=file, stderr=subprocess.STDOUT, env=environment)
    try:
        deadline = time.monotonic() + 90
        while not answers(port):
            if server.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"JupyterLab did not start:\n{log.read_text()}")
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()


@pytest.fixture(scope="session")
def start_lab():
    """For the tests that need a JupyterLab in a folder of their own."""
    return running_lab


def answers(port: int) -> bool:
    """Whether something listens on ``port``."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def write_synthetic(path: Path) -> None:
    """Write EXPLORER as a notebook that was run and saved as the course's are: the picture, but no widget."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(EXPLORER)])
    NotebookClient(notebook, kernel_name="python3", store_widget_state=False).execute()
    for output in notebook.cells[0].outputs:
        output.data.pop("application/vnd.jupyter.widget-view+json", None)
    nbformat.write(notebook, path)


def write_assignments(course: Path, notebooks: Path) -> None:
    """Release the assignments of the course and put what students get beside its notebooks."""
    shutil.copytree(NOTEBOOKS / "assignments" / "source", course / "source")
    for name in release(course):
        shutil.copy(course / "release" / name / f"{name}.ipynb", notebooks / f"released_{name}.ipynb")


@pytest.fixture(scope="module")
def opened(window, lab, notebook):
    """The page of a notebook, and what it showed before anything ran."""
    visit = Visit(window, lab, notebook)
    yield visit
    visit.close()


@pytest.fixture(scope="module")
def ran(opened):
    """The same page after Run All Cells."""
    opened.run_all()
    return opened


@pytest.fixture(scope="session")
def bare(browser, lab):
    """The slider of a bare ``ipywidgets.interact``, on a page of its own that stays open."""
    # A window of its own: in the notebooks' it would be in front, and Chromium slows down what cannot be seen.
    visit = Visit(browser.new_context(viewport=VIEWPORT), lab, BARE_NAME)
    visit.run_all()
    handle = visit.page.locator(".noUi-handle")
    handle.wait_for()
    yield Slider(None, handle)
    visit.close()


class Visit:
    """A notebook in the browser."""

    def __init__(self, window, lab: str, name: str):
        self.lab, self.name = lab, name
        self.troubles = []
        self.page = window.new_page()
        self.page.set_default_timeout(90_000)
        self.page.on("pageerror", lambda error: self.note(str(error)))
        self.page.on("console", lambda message: message.type == "error" and self.note(message.text))
        self.page.goto(f"{lab}/doc/tree/{name}")
        cells = self.page.request.get(f"{lab}/api/contents/{name}").json()["content"]["cells"]
        expect(self.page.locator(".jp-Notebook .jp-Cell")).to_have_count(len(cells), timeout=90_000)
        # The status bar; JupyterLab drops what it is asked to run before it has a kernel.
        self.page.get_by_text(re.compile(r"\| Idle$")).first.wait_for()
        self.broken_before = self.broken_pictures()
        self.explorer_cells = [i for i, cell in enumerate(cells) if "Explorer(" in cell["source"]]
        self.before = [self.look(self.cell(i)) for i in self.explorer_cells]
        self.alt_before = [
            output["metadata"].get("image/png", {}).get("alt", "")
            for i in self.explorer_cells
            for output in cells[i]["outputs"]
            if "image/png" in output.get("data", {})
        ]

    def note(self, trouble: str) -> None:
        """Keep an error of the page unless it is known to have nothing to do with widgets."""
        if not any(word in trouble for word in UNRELATED):
            self.troubles.append(trouble)

    def cell(self, number: int):
        """A cell, counted as in the file."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(number)

    @staticmethod
    def look(cell) -> dict:
        """The text in the output of a cell and the widths of its pictures, 0 for one that does not load."""
        return cell.locator(".jp-Cell-outputArea").evaluate(
            "area => ({text: area.innerText, widths: [...area.querySelectorAll('img')].map(img => img.naturalWidth)})"
        )

    def broken_pictures(self) -> list[str]:
        """The sources of pictures anywhere in the notebook that did not load."""
        self.page.wait_for_function("[...document.querySelectorAll('.jp-Notebook img')].every(img => img.complete)")
        return self.page.evaluate(
            "[...document.querySelectorAll('.jp-Notebook img')].filter(img => !img.naturalWidth).map(img => img.src)"
        )

    def wait_for_kernel(self) -> None:
        """Wait until the kernel has nothing to do."""
        self.page.wait_for_selector(
            ".jp-Notebook-ExecutionIndicator[data-status=idle]", state="attached", timeout=RUN_LIMIT * 1000
        )

    def run_all(self) -> None:
        """Choose Run All Cells in the menu and wait until every cell is done."""
        # Every prompt gets the star that JupyterLab gives it a moment later, so that no fast cell is missed.
        self.page.evaluate(
            "document.querySelectorAll('.jp-CodeCell .jp-InputPrompt').forEach(p => p.textContent = '*')"
        )
        self.page.get_by_role("menuitem", name="Run", exact=True).first.click()
        self.page.get_by_text("Run All Cells", exact=True).first.click()
        self.page.wait_for_function(
            "![...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].some(p => p.textContent.includes('*'))",
            timeout=RUN_LIMIT * 1000,
            polling=200,
        )
        self.wait_for_kernel()
        self.page.wait_for_timeout(1000)  # the last outputs are drawn after the last cell is done

    def explorers(self) -> list["Live"]:
        """The live explorers of the page, from the top, once each cell that makes one has brought it to life."""
        for number in self.explorer_cells:
            expect(self.cell(number).locator("[role=status]").first).to_be_attached(timeout=60_000)
        boxes = self.page.locator(".jp-Notebook .jp-Cell-outputArea .widget-vbox:has([role=status])")
        return [Live(self, box) for box in boxes.all()]

    def close(self) -> None:
        """End the kernel, which would keep its memory, and close the page; nobody waits until the kernel is gone."""
        for session in self.page.request.get(f"{self.lab}/api/sessions").json():
            if session["path"] == self.name:
                address = f"{self.lab}/api/sessions/{session['id']}"
                self.page.evaluate("address => void fetch(address, {method: 'DELETE', keepalive: true})", address)
        self.page.close()


class Live:
    """An explorer that runs in a page."""

    def __init__(self, visit: Visit, box):
        self.visit, self.box = visit, box
        self.sliders = [Slider(self, handle) for handle in box.locator(".noUi-handle").all()]
        self.menus = box.locator("select").all()
        self.boxes_to_tick = box.locator("input[type=checkbox]").all()

    def words(self) -> str:
        """The sentence below the picture."""
        return self.box.locator("[role=status]").inner_text()

    def answer_to(self, change) -> tuple[str, str]:
        """The settled state after ``change()``, which changes one control once."""
        before = self.box.locator("img").get_attribute("src")
        change()
        return self.settled(before)

    def settled(self, before: str | None = None) -> tuple[str, str]:
        """A digest of the bytes of the picture, and the words, at rest; ``before`` is the picture's last address."""
        state = self.box.evaluate(SETTLE, [before, SETTLE_LIMIT * 1000])
        if state is None:
            pytest.fail(f"the explorer did not come to rest within {SETTLE_LIMIT} seconds")
        return tuple(state)


class Slider:
    """A slider of a live explorer."""

    def __init__(self, explorer: Live, handle):
        self.explorer, self.handle = explorer, handle
        self.row = handle.locator("xpath=ancestor::*[contains(@class, 'widget-slider')]")

    def label(self):
        """The visible label."""
        return self.row.locator(".widget-label")

    def readout(self) -> str:
        """The number beside the slider."""
        return self.row.locator(".widget-readout").inner_text()

    def shows_its_value(self) -> bool:
        """Whether the readout is where the handle stands, on a straight or a logarithmic scale."""
        place = float(self.handle.get_attribute("aria-valuenow"))
        number = float(self.readout().replace("\N{MINUS SIGN}", "-"))
        values = [place, *([10**place] if abs(place) < 100 else [])]
        return any(math.isclose(number, value, rel_tol=0.01, abs_tol=0.01) for value in values)

    def press(self, key: str) -> tuple[str, str]:
        """Press an arrow key on the handle; return the settled state."""
        return self.explorer.answer_to(lambda: self.handle.press(key))

    def milliseconds(self, presses: int) -> float:
        """Median time from a key press to the next picture."""
        times = self.handle.evaluate(TIME_KEY_PRESSES, presses)
        assert len(times) >= presses // 2, f"{len(times)} of {presses} key presses changed the picture"
        return statistics.median(times)

    def drag(self, *fractions: float) -> None:
        """Take the handle with the mouse and move it quickly to these places along the track, one after the other."""
        self.handle.scroll_into_view_if_needed()
        mouse, start = self.explorer.visit.page.mouse, self.handle.bounding_box()
        track = self.row.locator(".noUi-base").bounding_box()
        mouse.move(start["x"] + start["width"] / 2, start["y"] + start["height"] / 2)
        mouse.down()
        for fraction in fractions:
            mouse.move(track["x"] + fraction * track["width"], track["y"] + track["height"] / 2, steps=2)
        mouse.up()
