"""What an explorer draws, as a file without loss: PNG of a few colours at once, or WebP that is smaller and slower.

Both take pixels (height, width, 4), RGBA, and keep 32 degrees of opacity: the edge of a line needs no more.
"""

import io
import zlib

import numpy as np
from PIL import Image

OPACITY = np.rint(np.rint(np.arange(256) * 31 / 255) * 255 / 31).astype("<u4") << 24
PALETTE = 256  # colours of a PNG with one byte per pixel


def png(pixels: np.ndarray) -> bytes:
    """A PNG with a palette in some milliseconds; of more colours than a palette holds, a WebP."""
    colours = pixels.reshape(-1, 4).view("<u4")[:, 0]
    starts = np.concatenate([[0], np.flatnonzero(colours[1:] != colours[:-1]) + 1])  # of runs of one colour
    palette, places = np.unique(_plainer(colours[starts]), return_inverse=True)
    if len(palette) > PALETTE:
        return webp(pixels)
    bytes_ = np.repeat(places.astype(np.uint8), np.diff(starts, append=len(colours)))
    picture, stream = Image.fromarray(bytes_.reshape(pixels.shape[:2])), io.BytesIO()
    picture.putpalette(palette.tobytes(), "RGBA")
    picture.save(stream, "png", compress_level=1, compress_type=zlib.Z_RLE)
    return stream.getvalue()


def webp(pixels: np.ndarray) -> bytes:
    """A WebP, for pages that have many of them."""
    colours, stream = pixels.reshape(-1, 4).view("<u4")[:, 0], io.BytesIO()
    picture = _plainer(colours).view(np.uint8).reshape(pixels.shape)
    Image.fromarray(picture).save(stream, "webp", lossless=True, method=1, quality=0)
    return stream.getvalue()


def _plainer(colours: np.ndarray) -> np.ndarray:
    """Colours, opacity in the highest byte, with 32 degrees of it, and of red, green and blue where not opaque."""
    plain = colours.copy()
    edges = np.flatnonzero(colours - (1 << 24) < 254 << 24)  # opacity 1 to 254
    partial = colours[edges]
    plain[edges] = OPACITY[partial >> 24] | partial & 0xF8F8F8 | partial >> 5 & 0x070707
    return plain
