"""Rules by which ``pytest --nbval`` checks these notebooks; nothing here is needed to read or to run them.

nbval runs every notebook again and compares what the cells print with what is saved. Four faults it passes over or
reports only by chance, and they fail here: a cell that was never run before it was saved, a cell that ends in a
semicolon (it hides the result from the reader, and nbval does not obey it), a warning on stderr, and a saved picture
that is not the picture of the code. What progress bars write to stderr differs from run to run, so stderr itself is not
compared.

Pictures differ by a little wherever fonts are drawn otherwise: letters have other edges, and as they are wider or
narrower the layout moves the axes by a few pixels. So a pixel counts as different by what it is brighter or darker than
all pixels near it in the other picture.
"""

import base64
import difflib
import io
import os
import re
from collections.abc import Callable

import numpy as np
import pytest
from nbval.plugin import IPyNbCell
from PIL import Image

collect_ignore_glob = ["assignments/*"]  # their cells are for the student to fill in

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # small tensors: more threads only wait for one another
    os.environ.setdefault(variable, "1")
# nbval reads what a cell sends once the cell has ended, and of more than some 2,000 messages the last are lost, among
# them that it has ended. A progress bar sends three each time it moves, which is ten times a second if nothing is said.
os.environ.setdefault("TQDM_MININTERVAL", "10")

# How different two pictures may be, of 255: at most, averaged over 6 x 6 pixels, and on average. Those of eight
# notebooks by matplotlib 3.10.0 with FreeType 2.6 and by 3.11.2 with FreeType 2.14, the latter also with other hinting,
# differ by at most 51 and .52. Of 396 words wiped out of them 392 make 58 or more; a point moved by 8 pixels makes 67,
# another colour of a line 78, and a map of colours whose scale changes by a twentieth 3.4 on average.
MOST_DIFFERENT = 55
MOST_DIFFERENT_ON_AVERAGE = 1.5

# description: 40%|####      | 40/100 [00:01<00:02, 25.0it/s]   or, without a total,   40it [00:01, 25.0it/s]
PROGRESS_BAR = re.compile(r"(.*: )?\s*(\d+%\|.*\| \S+/\S+|\d\S*) \[\d+:\d\d.*\]")


def stray_stderr(text: str) -> list[str]:
    """The lines of ``text``, written to stderr by one cell, that are neither blank nor a progress bar of tqdm."""
    lines = (line.strip() for line in re.split(r"[\r\n]|\x1b\[A", text))
    return [line for line in lines if line and not PROGRESS_BAR.fullmatch(line)]


def ends_in_semicolon(source: str) -> bool:
    """Whether the code of a cell ends in a semicolon, with or without a comment after it."""
    return re.search(r";\s*(#[^\n]*)?\s*\Z", source) is not None


def pictures(outputs: list) -> list[bytes]:
    """The PNG files that a cell shows, in their order."""
    shown = (output.get("data", {}).get("image/png") for output in outputs)
    return [base64.b64decode(picture) for picture in shown if picture]


def difference(saved: bytes, now: bytes) -> str | None:
    """How two PNG files differ by more than fonts and edges do, in words; None if they do not."""
    if saved == now:
        return None
    images = [Image.open(io.BytesIO(file)).convert("RGB") for file in (saved, now)]
    width, height = (min(sizes) for sizes in zip(*(image.size for image in images), strict=True))
    if any(image.width - width > 1 or image.height - height > 1 for image in images):
        return "{} x {} pixels are saved, {} x {} are drawn".format(*images[0].size, *images[1].size)
    one, other = (np.asarray(image.crop((0, 0, width, height)).reduce(2)) for image in images)
    pixels = np.maximum(_beyond(one, other), _beyond(other, one)).max(axis=-1)
    around = np.pad(pixels, 1).astype(np.float32)
    rows, columns = pixels.shape
    smooth = sum(around[i : i + rows, j : j + columns] for i in range(3) for j in range(3)) / 9
    if smooth.max() <= MOST_DIFFERENT and pixels.mean() <= MOST_DIFFERENT_ON_AVERAGE:
        return None
    row, column = np.unravel_index(smooth.argmax(), smooth.shape)
    return (
        f"by {smooth.max():.0f} of 255 at {2 * column} pixels from the left and {2 * row} from the top, and by "
        f"{pixels.mean():.2f} on average; fonts make at most {MOST_DIFFERENT} and {MOST_DIFFERENT_ON_AVERAGE}"
    )


def _beyond(image: np.ndarray, other: np.ndarray) -> np.ndarray:
    """How far each value is outside of the range of the values at most three pixels away in ``other``."""
    low, high = _around(other, np.minimum), _around(other, np.maximum)
    return np.maximum(image, high) - high + low - np.minimum(image, low)


def _around(image: np.ndarray, choose: Callable) -> np.ndarray:
    """Of each 7 x 7 square the value that ``choose`` takes of two: of 3 in a row, of 3 such triples, and across."""
    for _ in ("down", "across"):
        for step in (1, 2):
            wide = np.pad(image, [(step, step), (0, 0), (0, 0)], mode="edge")
            image = choose(choose(wide[: len(image)], wide[step:-step]), wide[2 * step :])
        image = image.swapaxes(0, 1)
    return image


def pytest_assertrepr_compare(op, left, right):
    """Of two texts the lines in which they differ, whole."""
    if op == "==" and isinstance(left, str) and isinstance(right, str):
        lines = difflib.ndiff(left.splitlines(), right.splitlines())
        return ["saved (-) and now (+)", *(line for line in lines if line[0] in "-+")]


def pytest_itemcollected(item):
    """Take stderr out of the comparison, and wait longer than 5 seconds for what a cell that has ended still sends."""
    if isinstance(item, IPyNbCell):
        item.output_timeout = 60  # a busy machine
        if "stderr" not in item.parent.skip_compare:
            item.parent.skip_compare += ("stderr",)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Fail a cell that nbval has passed if it has one of the four faults."""
    result = yield
    if isinstance(item, IPyNbCell):
        if item.cell.execution_count is None and item.cell.source.strip():
            item.raise_cell_error("The saved cell was never run")
        if ends_in_semicolon(item.cell.source):
            item.raise_cell_error("The cell ends in a semicolon")
        stderr = "".join(output.text for output in item.test_outputs if output.get("name") == "stderr")
        if stray := stray_stderr(stderr):
            item.raise_cell_error("The cell wrote to stderr", "\n".join(stray))
        if item.options["check"]:
            saved, now = pictures(item.cell.outputs), pictures(item.test_outputs)
            if len(saved) != len(now):
                item.raise_cell_error(f"Cell outputs differ: {len(saved)} pictures are saved, {len(now)} are drawn")
            for number, files in enumerate(zip(saved, now, strict=True), start=1):
                if found := difference(*files):
                    item.raise_cell_error(f"Cell outputs differ: picture {number} is not the saved one", found)
    return result
