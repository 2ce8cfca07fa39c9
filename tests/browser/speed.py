"""How fast the explorers of the course answer a key, beside a bare ``ipywidgets.interact``; ``tests/bench.py`` asks."""

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from browser.conftest import NOTEBOOKS, SYNTHETIC, Visit, chromium, course_lab, lab_page, write_notebook

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


def milliseconds(handle, presses: int = 12) -> float:
    """Median time from a key press on the handle of a slider to the next picture."""
    times = handle.evaluate(TIME_KEY_PRESSES, presses)
    assert len(times) >= presses // 2, f"{len(times)} of {presses} key presses changed the picture"
    return statistics.median(times)


def ratios() -> Iterator[tuple[str, str, float]]:
    """A notebook, the label of a slider in it, and the slider's time to answer as a part of interact's, for each."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser, course_lab(Path(folder)) as lab:
        write_notebook(Path(folder) / "notebooks" / BARE_NAME, BARE)
        # A window of its own: in the notebooks' it would be in front, and Chromium slows down what cannot be seen.
        bare = Visit(lab_page(browser, lab), lab, BARE_NAME)
        bare.run_all()
        usual = bare.page.locator(".noUi-handle")
        usual.wait_for()
        page = lab_page(browser, lab)
        for name in (SYNTHETIC, *sorted(path.name for path in NOTEBOOKS.glob("*.ipynb"))):
            visit = Visit(page, lab, name)
            visit.run_all()
            for explorer in visit.explorers():
                for slider in explorer.sliders:
                    yield name, slider.label().inner_text(), milliseconds(slider.handle) / milliseconds(usual)
            visit.close()
