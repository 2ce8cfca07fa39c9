"""A real JupyterLab over a copy of the notebooks, a real Chromium in front of it, and a page object for a notebook.

Without a Chromium the tests are skipped; with REQUIRE_BROWSER=1 they fail.
"""

import base64
import contextlib
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from filelock import FileLock
from playwright.sync_api import expect, sync_playwright

from build_site import HERE as SITE_SOURCES
from build_site import build
from posenc_lib.view.controls import SWEEP
from posenc_lib.view.recording import PAIR

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
FORKED_KERNELS = Path(__file__).parents[1] / "notebooks" / "forked_kernels.py"
RUN_LIMIT = 300  # seconds for Run All Cells: far more than it takes, so that a busy machine does not matter
VIEWPORT = {"width": 1280, "height": 1100}
SETTLE_LIMIT = 60  # seconds for the kernel to answer a move, and for whatever a page should show
expect.set_options(timeout=1000 * SETTLE_LIMIT)

# What JupyterLab itself writes to the console as an error, none of it about widgets.
UNRELATED = (
    "favicon",  # no icon in a folder that is being closed
    "/api/kernels/",  # a connection that closes with its page
    "lsp",  # no language server is installed
)

# A notebook with one control of each kind, so that an explorer is tested whatever the course shows.
EXPLORER = """
from posenc_lib.view import Explorer, choice, log_slider, slider, toggle, toggles, use_style

use_style()


def draw(fig):
    ax = fig.subplots()
    ax.set(title="A line", xlabel="$x$", ylabel="$y$", xlim=(0, 40), ylim=(0, 41))
    return {"line": ax.plot([], [])}


def update(moving, n, top, height, base, kind, dots, ends):
    moving.line.set_data(range(n + 1), [height * (i / max(n, 1)) ** (base / 10) * top for i in range(n + 1)])
    moving.line.set_linestyle({"solid": "-", "dashed": "--"}[kind])
    moving.line.set_marker("o" if dots else "")
    moving.line.set_clip_on(not ends[0])
    moving.line.set_linewidth(4 if ends[1] else 2)
    moving.line.axes.set_title("A thick line" if ends[1] else "A line")
    return f"n={n} top={top} height={height:.2f} base={base:.4g} kind={kind} dots={dots} ends={ends[0]:d}{ends[1]:d}."


explorer = Explorer(
    draw,
    update,
    n=slider("length n", 0, 40, 8),
    top=slider("top", 1, 40, 20),
    height=slider("height", 0.0, 1.0, 0.5, 0.05),
    base=log_slider("base", 1, 100, 10),
    kind=choice("line", ["solid", "dashed"], "solid"),
    dots=toggle("dots", False),
    ends=toggles("ends", ("whole", "thick"), (False, False)),
    play="n",
    together=[("height", "base"), ("kind", "dots", "ends")],
    resets={"kind": ("ends",)},
    alt="A line that rises from the left to the right.",
    clamp=lambda n, top, **others: {"n": min(n, top)},
)
"""
SYNTHETIC = "synthetic.ipynb"

# What runs before a notebook of the course: two updates instead of a whole training, smaller tests of a model, one call
# for each time that is measured. nbval runs all of it; here the controls are tested.
SHORT = """
import functools
import posenc_lib.lab
from posenc_lib.lab import remake

def two_updates(model, task, length, steps, *others, **options):
    return real_train(model, task, length, 2, *others, **options)

def two_of_a_trial(model, contest, length, maximum, *others):
    return real_trial(model, contest, length, 2, *others)

def of_four(*arguments, **options):
    return real_accuracy(*arguments[:3], **options | {"batch": 4})

real_train, real_accuracy = posenc_lib.lab.train, posenc_lib.lab.accuracy
real_trial, remake._train = remake._train, two_of_a_trial
posenc_lib.lab.train = functools.wraps(real_train)(two_updates)
posenc_lib.lab.accuracy = of_four
posenc_lib.lab.milliseconds = functools.partial(posenc_lib.lab.milliseconds, times=1)
"""
STARTUP = f"""
import os, re

if re.match(r"\\d\\d_", os.path.basename(os.environ["JPY_SESSION_NAME"])):
    exec({SHORT!r})
"""

# Open a notebook in the page and keep in ``unanswered`` which messages its kernel has not answered yet. A message from
# the kernel counts once JupyterLab has handled it.
OPEN = """async path => {
    const {commands, serviceManager, shell} = jupyterapp;
    shell.mode = 'single-document';
    shell.collapseLeft();
    const {context, sessionContext} = await commands.execute('docmanager:open', {path});
    await context.ready;
    await sessionContext.ready;
    const kernel = sessionContext.session.kernel;
    await kernel.info;
    const unanswered = window.unanswered = new Set();
    kernel.anyMessage.connect((_, {msg, direction}) => {
        if (direction === 'send' && msg.channel === 'shell') unanswered.add(msg.header.msg_id);
    });
    kernel.iopubMessage.connect((_, msg) => {
        if (msg.content.execution_state === 'idle') unanswered.delete(msg.parent_header.msg_id);
    });
}"""

# Close the notebook and end its kernel, which would keep its memory; nobody waits until the kernel is gone.
CLOSE = """() => {
    for (const widget of [...jupyterapp.shell.widgets('main')]) {
        void widget.sessionContext?.shutdown();
        widget.dispose();
    }
}"""

# The picture and the words of an explorer once the kernel has answered everything and it is shown. Null if that takes
# longer than the limit in milliseconds.
SETTLE = """async (box, limit) => {
    const start = performance.now();
    while (unanswered.size || box.querySelector('[aria-busy=true]')) {
        if (performance.now() - start > limit) return null;
        await new Promise(done => setTimeout(done, 5));
    }
    const img = box.querySelector('img');
    const background = img.style.backgroundImage.slice(5, -2);
    const digests = [img.src, background].map(async url => {
        const bytes = await fetch(url).then(answer => answer.arrayBuffer());
        return new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)).join();
    });
    return [(await Promise.all(digests)).join(), box.querySelector('[role=status]').textContent];
}"""


@contextlib.contextmanager
def chromium():
    """Chromium, which nobody sees; None if there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    executable = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if executable is None:
        yield None
        return
    quiet = ("background-networking", "component-update", "sync")
    arguments = ["--no-sandbox", "--disable-gpu", "--no-first-run", *(f"--disable-{name}" for name in quiet)]
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=executable, args=arguments)
        yield started
        started.close()


@pytest.fixture(scope="session")
def browser():
    """The browser of all tests."""
    with chromium() as started:
        if started is None:
            reason = "no Chromium found: set CHROMIUM or install chromium, chromium-browser or google-chrome"
            (pytest.fail if os.environ.get("REQUIRE_BROWSER") == "1" else pytest.skip)(reason)
        yield started


@pytest.fixture(scope="session")
def page(browser, lab):
    """The page in which the notebooks are opened, one after the other."""
    return lab_page(browser, lab)


def lab_page(browser, lab: str, pixels: int = 1):
    """A page with the JupyterLab at the address ``lab``, on a screen with so many pixels per point."""
    page = browser.new_context(viewport=VIEWPORT, device_scale_factor=pixels).new_page()
    page.set_default_timeout(90_000)
    page.goto(f"{lab}/lab")
    page.wait_for_function("window.jupyterapp?.shell.isAttached")
    page.evaluate("jupyterapp.restored")
    page.evaluate(CLOSE)  # the launcher
    return page


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    """The folder of the course's JupyterLab."""
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="session")
def lab(browser, root):
    """The address of a JupyterLab over a copy of the course and the synthetic notebook."""
    with course_lab(root) as address:
        yield address


@contextlib.contextmanager
def course_lab(root: Path, windowing: str = "none"):
    """The address of a JupyterLab over what is put into ``root``: a copy of the course and the synthetic notebook.

    With ``windowing`` as JupyterLab calls it, which usually draws no cell that cannot be seen.
    """
    shutil.copytree(NOTEBOOKS, root / "notebooks", ignore=shutil.ignore_patterns(".ipynb_checkpoints", "assignments"))
    write_synthetic(root / "notebooks" / SYNTHETIC)
    settings = {
        "@jupyterlab/notebook-extension:tracker": {"windowingMode": windowing},
        "@jupyterlab/docmanager-extension:plugin": {"autosave": False},  # the next test opens the file as it was
        "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    }
    (root / "settings").mkdir()
    (root / "settings" / "overrides.json").write_text(json.dumps(settings))
    startup = root / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "short_trainings.py").write_text(STARTUP)
    environment = os.environ | {"IPYTHONDIR": str(root / "ipython")}
    options = ["--ServerApp.disable_check_xsrf=True", f"--LabApp.app_settings_dir={root / 'settings'}"]
    options += ["--LabApp.expose_app_in_browser=True"]
    options += ["--ServerApp.kernel_websocket_connection_class=posenc_lib.view.prompt.PromptConnection"]  # as make lab
    with running_lab(root / "notebooks", root, *options, environment=environment, fork=True) as address:
        yield address


@contextlib.contextmanager
def running_lab(folder: Path, beside: Path, *options: str, environment: dict | None = None, fork: bool = False):
    """The address of a JupyterLab that was started in ``folder`` and keeps its own files in ``beside``.

    With ``fork`` its kernels start at once.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, FORKED_KERNELS] if fork else []
    command += [sys.executable, "-m", "jupyterlab", "--allow-root", "--no-browser", "--ip=127.0.0.1", f"--port={port}"]
    command += ["--IdentityProvider.token=", f"--LabApp.workspaces_dir={beside / 'workspaces'}", *options]
    log = beside / "lab.log"
    with open(log, "w") as file:
        streams = {"stdout": file, "stderr": subprocess.STDOUT}
        server = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True, **streams)
    try:
        deadline = time.monotonic() + 90
        while not answers(port):
            if server.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"JupyterLab did not start:\n{log.read_text()}")
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)  # asked to end, it waits for its kernels; they end without it
        server.wait()


@pytest.fixture(scope="session")
def start_lab():
    """For the tests that need a JupyterLab in a folder of their own."""
    return running_lab


def answers(port: int) -> bool:
    """Whether something listens on ``port``."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def unseen():
    """The explorer of EXPLORER, which no page shows."""
    namespace = {}
    exec(EXPLORER, namespace)
    return namespace["explorer"]


def write_synthetic(path: Path, *words: str) -> None:
    """Write EXPLORER as a notebook that was run and saved as the course's are: the picture, but no widget.

    Words stand above it.
    """
    namespace = {}
    exec(EXPLORER, namespace)
    data, metadata = namespace["explorer"]._repr_mimebundle_()
    data.pop("application/vnd.jupyter.widget-view+json")
    data["image/png"] = base64.b64encode(data["image/png"]).decode()
    output = nbformat.v4.new_output("execute_result", data, metadata=metadata, execution_count=1)
    write_notebook(path, EXPLORER + "explorer", output)
    written = nbformat.read(path, as_version=4)
    written.cells[:0] = [nbformat.v4.new_markdown_cell(text, id=f"words-{n}") for n, text in enumerate(words)]
    nbformat.write(written, path)


@pytest.fixture(scope="session")
def recording_options() -> tuple:
    """How the explorers of the site are recorded."""
    return (SWEEP, PAIR) if "SITE" in os.environ else (5, 3, SHORT)


@pytest.fixture(scope="session")
def site(tmp_path_factory, recording_options) -> Path:
    """The folder that the variable SITE names; without it a site with five values of each control and 99_synthetic."""
    if "SITE" in os.environ:
        return Path(os.environ["SITE"]).resolve()
    if shutil.which("npm") is None:
        required = os.environ.get("REQUIRE_BROWSER") == "1"
        (pytest.fail if required else pytest.skip)("no npm found: MathJax comes from it")
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    folder, synthetic = root / "Site Ü", root / "99_synthetic.ipynb"
    with FileLock(root / "site.lock"):
        if not (root / "site is built").exists():
            write_synthetic(synthetic, "# Sliders\n\nWith $x_i^2$.")
            notebooks = [*sorted(NOTEBOOKS.glob("*.ipynb")), synthetic]
            repository = "https://github.com/some/body"
            build(folder, notebooks, SITE_SOURCES / "pages", 2, *recording_options, repository=repository)
            (root / "site is built").touch()
    return folder


def write_notebook(path: Path, source: str, *outputs) -> None:
    """Write a notebook of one cell."""
    cell = nbformat.v4.new_code_cell(source, outputs=list(outputs), execution_count=1)
    kernel = {"name": "python3", "display_name": "Python 3"}  # JupyterLab asks for one where none is named
    nbformat.write(
        nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": kernel, "language_info": {"name": "python"}}),
        path,
    )


@pytest.fixture(scope="module")
def opened(page, lab, notebook):
    """The page of a notebook, and what it showed before anything ran."""
    visit = Visit(page, lab, notebook)
    yield visit
    visit.close()


@pytest.fixture(scope="module")
def ran(opened):
    """The same page after Run All Cells."""
    opened.run_all()
    return opened


class Visit:
    """A notebook in the browser."""

    def __init__(self, page, lab: str, name: str):
        self.page, self.troubles = page, []
        self.page.on("pageerror", self.on_error)
        self.page.on("console", self.on_console)
        self.page.evaluate(OPEN, name)
        cells = self.page.request.get(f"{lab}/api/contents/{name}").json()["content"]["cells"]
        expect(self.page.locator(".jp-Notebook .jp-Cell")).to_have_count(len(cells))
        self.broken_before = self.broken_pictures()
        self.explorer_cells = [i for i, cell in enumerate(cells) if "Explorer(" in cell["source"]]
        self.before = [self.look(self.cell(i)) for i in self.explorer_cells]
        pictures = [
            [output for output in cells[i]["outputs"] if "image/png" in output.get("data", {})]
            for i in self.explorer_cells
        ]  # a cell may draw something above its explorer
        self.alt_before = [of[-1]["metadata"].get("image/png", {}).get("alt", "") for of in pictures if of]

    def on_error(self, error) -> None:
        """Keep an error that nothing in the page caught."""
        self.troubles.append(str(error))

    def on_console(self, message) -> None:
        """Keep an error in the console unless it is known to have nothing to do with widgets."""
        if message.type == "error" and not any(word in message.text for word in UNRELATED):
            self.troubles.append(message.text)

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

    def run_all(self) -> None:
        """Choose Run All Cells in the menu and wait until every cell is done."""
        # Every prompt gets the star that JupyterLab gives it a moment later, so that no fast cell is missed. A folded
        # cell has another one beside it, which JupyterLab never writes to.
        prompts = "[...document.querySelectorAll('.jp-CodeCell .jp-InputArea .jp-InputPrompt')]"
        self.page.evaluate(f"{prompts}.forEach(p => p.textContent = '*')")
        self.page.get_by_role("menuitem", name="Run", exact=True).first.click()
        self.page.get_by_text("Run All Cells", exact=True).first.click()
        self.page.wait_for_function(
            f"!{prompts}.some(p => p.textContent.includes('*'))",
            timeout=RUN_LIMIT * 1000,
            polling=200,
        )
        self.page.wait_for_function("!unanswered.size", timeout=RUN_LIMIT * 1000)

    def explorers(self) -> list["Live"]:
        """The live explorers of the page, from the top, once each cell that makes one has brought it to life."""
        for number in self.explorer_cells:
            expect(self.cell(number).locator("[role=status]").first).to_be_attached()
        boxes = self.page.locator(".jp-Notebook .jp-Cell-outputArea .widget-vbox:has([role=status])")
        return [Live(self, box) for box in boxes.all()]

    def close(self) -> None:
        """Close the notebook; the page stays open."""
        self.page.remove_listener("pageerror", self.on_error)
        self.page.remove_listener("console", self.on_console)
        self.page.evaluate(CLOSE)


class Live:
    """An explorer that runs in a page."""

    def __init__(self, visit: Visit, box):
        self.visit, self.box = visit, box
        self.element = box.element_handle()  # answers ten times sooner than a locator, which looks for it every time
        self.sliders = [Slider(self, handle) for handle in box.locator(".noUi-handle").all()]
        self.menus = box.locator("select").all()
        self.boxes_to_tick = box.locator("input[type=checkbox]").all()

    def words(self) -> str:
        """The sentence below the picture."""
        return self.box.locator("[role=status]").inner_text()

    def answer_to(self, change) -> tuple[str, str]:
        """The settled state after ``change()``, which changes one control once."""
        change()
        return self.settled()

    def settled(self) -> tuple[str, str]:
        """A digest of the bytes of the picture, and the words, once the kernel has nothing more to say."""
        state = self.element.evaluate(SETTLE, SETTLE_LIMIT * 1000)
        if state is None:
            pytest.fail(f"the explorer did not come to rest within {SETTLE_LIMIT} seconds")
        return tuple(state)


class Slider:
    """A slider of a live explorer."""

    def __init__(self, explorer: Live, handle):
        self.explorer, self.handle = explorer, handle
        self.row = handle.locator("xpath=ancestor::*[contains(@class, 'widget-slider')]")
        self.element, self.number = handle.element_handle(), self.row.locator(".widget-readout").element_handle()
        self.track = self.row.locator(".noUi-base").element_handle()

    def label(self):
        """The visible label."""
        return self.row.locator(".widget-label")

    def readout(self) -> str:
        """The number beside the slider."""
        return self.number.inner_text()

    def shows_its_value(self) -> bool:
        """Whether the readout is where the handle stands, on a straight or a logarithmic scale."""
        place = float(self.element.get_attribute("aria-valuenow"))
        number = float(self.readout().replace("\N{MINUS SIGN}", "-"))
        straight = math.isclose(number, place, rel_tol=0.01, abs_tol=0.051)  # aria-valuenow has one decimal
        return straight or (number > 0 and math.isclose(math.log10(number), place, abs_tol=0.051))

    def press(self, key: str) -> tuple[str, str]:
        """Press an arrow key on the handle; return the settled state."""
        return self.explorer.answer_to(lambda: self.element.press(key))

    def drag(self, *fractions: float) -> None:
        """Take the handle with the mouse and move it quickly to these places along the track, one after the other."""
        self.element.scroll_into_view_if_needed()
        mouse, start, track = self.explorer.visit.page.mouse, self.element.bounding_box(), self.track.bounding_box()
        mouse.move(start["x"] + start["width"] / 2, start["y"] + start["height"] / 2)
        mouse.down()
        for fraction in fractions:
            mouse.move(track["x"] + fraction * track["width"], track["y"] + track["height"] / 2)
        mouse.up()
