"""What an explorer draws, as a file without loss: PNG, quickly written, or WebP that is smaller and slower.

Both take pixels (height, width, 4), RGBA, and keep 32 degrees of opacity: the edge of a line needs no more.
"""

import io
import struct
import zlib

import numpy as np
from PIL import Image

OPACITY = np.rint(np.rint(np.arange(256) * 31 / 255) * 255 / 31).astype("<u4") << 24
PALETTE = 256  # colours of a PNG with one byte per pixel


def png(pixels: np.ndarray) -> bytes:
    """A PNG in some milliseconds, with a palette if it holds all colours."""
    colours = pixels.reshape(-1, 4).view("<u4")[:, 0]
    starts = np.concatenate([[0], np.flatnonzero(colours[1:] != colours[:-1]) + 1])  # of runs of one colour
    palette, places = np.unique(_plainer(colours[starts]), return_inverse=True)
    if len(palette) > PALETTE:
        return _many_colours(_plainer(colours).view(np.uint8).reshape(len(pixels), -1))
    bytes_ = np.repeat(places.astype(np.uint8), np.diff(starts, append=len(colours)))
    picture, stream = Image.fromarray(bytes_.reshape(pixels.shape[:2])), io.BytesIO()
    picture.putpalette(palette.tobytes(), "RGBA")
    picture.save(stream, "png", compress_level=1, compress_type=zlib.Z_RLE)
    return stream.getvalue()


def _many_colours(rows: np.ndarray) -> bytes:
    """A PNG from the bytes of each row, four a pixel: of each the difference from the row above (filter 2)."""
    filtered = np.full((len(rows), rows.shape[1] + 1), 2, np.uint8)
    filtered[0, 1:], filtered[1:, 1:] = rows[0], rows[1:] - rows[:-1]
    packer = zlib.compressobj(1, strategy=zlib.Z_RLE)
    header = struct.pack(">IIBBBBB", rows.shape[1] // 4, len(rows), 8, 6, 0, 0, 0)  # 8 bits, RGBA
    parts = {b"IHDR": header, b"IDAT": packer.compress(filtered.data) + packer.flush(), b"IEND": b""}
    chunks = (struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in parts.items())
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


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
