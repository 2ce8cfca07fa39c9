"""Matrices as matplotlib draws them; pictures of explorers as PNG and WebP with the same pixels, and those drawn."""

import zlib
from io import BytesIO

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from posenc_lib.view.pixels import draw_cells, png, webp


def layer(colours, height=40, width=61, seed=0):
    """Runs of pixels of so many colours, with nothing between them."""
    rng = np.random.default_rng(seed)
    palette = rng.integers(0, 256, (colours, 4), dtype=np.uint8)
    palette[::3, 3] = 255
    palette[0] = 0
    places = np.repeat(rng.integers(0, colours, height * width), rng.integers(1, 9, height * width))
    return palette[places[: height * width]].reshape(height, width, 4)


def read(file):
    return np.asarray(Image.open(BytesIO(file)).convert("RGBA"))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shape", [(40, 61), (1, 7), (7, 1), (1, 1)])
def test_both_hold_the_same_pixels(shape, seed):
    drawn = layer(100, *shape, seed=seed)
    before = drawn.copy()
    seen = [read(write(drawn)) for write in (png, webp)]
    assert np.array_equal(drawn, before)
    there = [pixels[pixels[..., 3] > 0] for pixels in seen]  # where nothing is, it has no colour
    assert np.array_equal(seen[0][..., 3], seen[1][..., 3]) and np.array_equal(*there)


@pytest.mark.parametrize("write", [png, webp])
def test_what_is_opaque_is_kept_and_what_is_not_is_close(write):
    drawn = layer(100)
    seen, opaque = read(write(drawn)), drawn[..., 3] == 255
    assert opaque.any() and np.array_equal(seen[opaque], drawn[opaque])
    assert np.abs(seen[..., 3].astype(int) - drawn[..., 3]).max() <= 5
    assert np.abs(seen.astype(int) - drawn)[seen[..., 3] > 0].max() <= 7
    assert len(np.unique(seen[..., 3])) <= 32


@pytest.mark.parametrize("shape", [(40, 61), (1, 2440), (2440, 1)])
def test_more_colours_than_a_palette_holds(shape):
    few, many = png(layer(200, *shape)), png(layer(2000, *shape))
    opened = [Image.open(BytesIO(file)) for file in (few, many)]
    assert [(picture.format, picture.mode) for picture in opened] == [("PNG", "P"), ("PNG", "RGBA")]
    opened[1].verify()  # the sums that a reader may check
    seen, other = read(many), read(webp(layer(2000, *shape)))
    there = seen[..., 3] > 0
    assert np.array_equal(seen[..., 3], other[..., 3]) and np.array_equal(seen[there], other[there])


def idat(file):
    """The rows of a PNG with the number of the filter before each; an error if a sum is wrong."""
    start = file.index(b"IDAT")
    return zlib.decompress(file[start + 4 : start + 4 + int.from_bytes(file[start - 4 : start], "big")])


@pytest.mark.parametrize("colours", [100, 2000])
@pytest.mark.parametrize("shape", [(40, 61), (41, 60), (2, 3), (1, 7), (7, 1), (1, 1)])
def test_its_parts_make_one_stream(colours, shape):
    for seed in range(9):
        assert len(idat(png(layer(colours, *shape, seed=seed)))) % shape[0] == 0


@pytest.mark.parametrize("colours", [60, 2000])
def test_a_matrix_of_cells_is_small(colours):
    cells = np.random.default_rng(0).integers(0, colours, (20, 30)) * 0x10305 | 0xFF << 24
    drawn = np.ascontiguousarray(cells.astype("<u4").repeat(16, axis=0).repeat(20, axis=1))
    file = png(drawn.view(np.uint8).reshape(320, 600, 4))
    pixel = 1 if colours == 60 else 4
    filters = idat(file)[:: 600 * pixel + 1]
    assert len(filters) == 320 and set(filters[1:]) == {1, 2}
    assert filters[1:].count(1) >= 18 and len(file) < 5 * cells.size * pixel


def matrix(shape=(7, 5), channels=(), size=(3.01, 2.03), dpi=100, limits=None, **options):
    """A figure with a matrix in it that has a hole, its image, and the renderer."""
    values = np.random.default_rng(0).uniform(size=(*shape, *channels))
    if not channels:
        values.flat[7] = np.nan
    figure = Figure(size, dpi=dpi)
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0.113, 0.137, 0.771, 0.713))
    image = axes.imshow(values, interpolation="nearest", aspect="auto", animated=True, **options)
    axes.set(**(limits or {}))
    canvas.draw()
    return image, canvas


CASES = {
    "a few cells": {},
    "two pixels per point": {"dpi": 200},
    "from below": {"origin": "lower"},
    "in other units": {"extent": (0, 1, 256, 0), "cmap": "RdBu_r", "vmin": -1, "vmax": 1},
    "a part of it": {"limits": {"xlim": (1.3, 3.2), "ylim": (5.1, 2.4)}},
    "a part, from below": {"origin": "lower", "limits": {"xlim": (1.3, 3.2), "ylim": (2.4, 5.1)}},
    "smaller than its axes": {"limits": {"xlim": (-4, 9.1), "ylim": (11, -3.3)}},
    "turned round": {"limits": {"xlim": (4.5, -0.5), "ylim": (-0.5, 6.5)}},
    "colours": {"channels": (3,)},
    "colours and opacity": {"channels": (4,)},
    "one row": {"shape": (1, 321)},
    "many cells": {"shape": (83, 97)},
    "outside": {"limits": {"xlim": (20, 30)}},
}


@pytest.mark.parametrize("case", CASES)
def test_cells_are_drawn_as_matplotlib_draws_them(case):
    image, canvas = matrix(**CASES[case])
    seen = []
    for draw in (lambda: image.axes.draw_artist(image), lambda: draw_cells(image, canvas.get_renderer())):
        canvas.get_renderer().clear()
        draw()
        seen.append(np.asarray(canvas.buffer_rgba()).copy())
    assert np.abs(seen[0].astype(int) - seen[1]).max() <= (1 if "opacity" in case else 0)
    assert (seen[0][..., 3] > 0).any() == (case != "outside")
