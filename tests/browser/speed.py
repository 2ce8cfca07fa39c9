"""How fast explorers answer a key, beside a bare ``ipywidgets.interact`` and on the site; ``tests/bench.py`` asks."""

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
from browser.conftest import Visit, chromium, course_lab, lab_page

from record_notebook import up_to_last_explorer
from static_page import StaticPage

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

# Press an arrow key on a handle some times, first towards the far end; the milliseconds until each picture is there.
TIME_KEY_PRESSES = """async (handle, presses) => {
    const cell = handle.closest('.jp-Cell');
    const images = () => [...cell.querySelectorAll('.jp-OutputArea img')];
    const sources = () => images().map(img => img.src).join();
    const loaded = img => img.complete || new Promise(done => img.addEventListener('load', done, {once: true}));
    const pause = ms => new Promise(done => setTimeout(done, ms));
    const times = [];
    const place = () => ['min', 'now', 'max'].map(name => Number(handle.getAttribute(`aria-value${name}`)));
    const [low, start, high] = place();
    let key = start - low > high - start ? 'ArrowLeft' : 'ArrowRight';
    handle.focus();
    for (let n = 0; n < presses; n++) {
        const before = sources(), [low, here, high] = place();
        if (here === (key === 'ArrowLeft' ? low : high)) key = key === 'ArrowLeft' ? 'ArrowRight' : 'ArrowLeft';
        let arrived;
        const arrival = new Promise(done => arrived = done);
        const watch = new MutationObserver(async () => {
            if (!sources() || sources() === before) return;
            await Promise.all(images().map(loaded));  // it is painted with the next frame, an explorer's decoded too
            arrived(true);
        });
        watch.observe(cell, {subtree: true, childList: true, attributes: true, attributeFilter: ['src']});
        const pressed = performance.now();
        handle.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
        if (await Promise.race([arrival, pause(3000)])) {
            await new Promise(requestAnimationFrame);
            times.push(performance.now() - pressed);
        }
        watch.disconnect();
        await pause(50);
    }
    return times;
}"""


def milliseconds(handle, presses: int = 12) -> float:
    """Median time from a key press on the handle of a slider to the next picture."""
    times = handle.evaluate(TIME_KEY_PRESSES, presses)
    assert len(times) >= presses // 2, f"{len(times)} of {presses} key presses changed the picture"
    return statistics.median(times)


def ratios(pixels: int) -> Iterator[tuple[str, str, float]]:
    """A notebook, the label of a slider in it, and its time to answer as a part of interact's in the same page.

    Args:
        pixels: of the screen, per point.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        chromium() as browser,
        course_lab(Path(folder), windowing="contentVisibility") as lab,
    ):
        page = lab_page(browser, lab, pixels)
        for path in sorted((Path(folder) / "notebooks").glob("[0-9]*.ipynb")):
            notebook = nbformat.read(path, as_version=4)
            notebook.cells = [*up_to_last_explorer(notebook.cells), nbformat.v4.new_code_cell(BARE, id="bare")]
            nbformat.write(notebook, path)
            visit = Visit(page, lab, path.name)
            visit.run_all()
            usual = visit.cell(len(notebook.cells) - 1).locator(".noUi-handle")
            for explorer in visit.explorers():
                usual.scroll_into_view_if_needed()
                least = milliseconds(usual)
                for slider in explorer.sliders:
                    slider.handle.scroll_into_view_if_needed()
                    yield path.stem, slider.label().text_content(), milliseconds(slider.handle) / least
            visit.close()


# From the next key presses on, keep the milliseconds from each to its picture in ``answers``.
WATCH_KEYS = """box => {
    window.answers = [];
    const image = box.querySelector('img');
    let start;
    box.addEventListener('keydown', () => (start = performance.now()), true);
    new MutationObserver(async () => {
        const asked = start;
        if (!image.complete) await new Promise(done => image.addEventListener('load', done, {once: true}));
        await new Promise(requestAnimationFrame);
        answers.push(performance.now() - asked);
    }).observe(image, {attributes: true, attributeFilter: ['src']});
}"""


def recorded(site: Path) -> Iterator[tuple[str, str, float]]:
    """A page of a site, the label of a slider in it, and its median time to answer once its pictures are there."""
    with chromium() as browser:
        for path in sorted(site.glob("[0-9]*.html")):
            opened = StaticPage(browser, path)
            for explorer in opened.explorers:
                explorer.element.evaluate(WATCH_KEYS)
                for slider in explorer.box.locator("input[type=range]").all():
                    slider.press("ArrowRight")
                    opened.page.wait_for_load_state("networkidle")
                    opened.page.evaluate("answers.length = 0")
                    for n in range(10):
                        slider.press("ArrowRight" if n % 2 else "ArrowLeft")
                        opened.page.wait_for_timeout(70)
                    answers = opened.page.evaluate("answers")
                    assert len(answers) >= 5, f"{len(answers)} of 10 key presses changed the picture"
                    yield path.stem, slider.get_attribute("aria-label"), statistics.median(answers)
            opened.close()
