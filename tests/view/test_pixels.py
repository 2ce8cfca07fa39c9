"""Pictures of explorers as files: PNG and WebP hold the same pixels, and those that were drawn."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from posenc_lib.view.pixels import png, webp


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
