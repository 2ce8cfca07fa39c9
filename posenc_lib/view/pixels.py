"""What an explorer draws: its matrices pixel by pixel, and all of it as a file without loss.

The file is a PNG, quickly written, or a WebP that is smaller and slower. Both take pixels (height, width, 4), RGBA, and
keep 32 degrees of opacity: the edge of a line needs no more.
"""

import io
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.image import AxesImage
from PIL import Image

OPACITY = np.rint(np.rint(np.arange(256) * 31 / 255) * 255 / 31).astype("<u4") << 24
PALETTE = 256  # colours of a PNG with one byte per pixel
ZLIB_HEADER = b"\x78\x01"


def draw_cells(image: AxesImage, renderer: RendererAgg) -> None:
    """Draw a matrix whose cells are not smoothed as matplotlib does, in a fifth of its time.

    The colours are looked up for the cells and then copied to the pixels; matplotlib looks them up for the pixels.
    """
    left, right, bottom, top = image.get_extent()
    corners = image.get_transform().transform([(left, bottom), (right, top)])
    frame = np.reshape(image.axes.bbox.extents, (2, 2))
    first = np.floor(np.maximum(corners.min(axis=0), frame[0]) + 0.5)
    last = np.ceil(np.minimum(corners.max(axis=0), frame[1]) - 0.5)
    cells = image.to_rgba(np.ma.asarray(image.get_array()), bytes=True).view("<u4")[..., 0]
    if image.origin == "upper":
        cells = cells[::-1]
    (columns, rows) = (
        (count * (np.arange(*ends) + 0.5 - start) / (end - start)).astype(int).clip(0, count - 1)
        for count, start, end, *ends in zip(cells.shape[::-1], *corners, first, last, strict=True)
    )
    if len(columns) and len(rows):
        picture = cells[:, columns][rows]
        gc = renderer.new_gc()
        gc.set_clip_rectangle(image.axes.bbox)
        renderer.draw_image(gc, first[0], first[1], picture.view(np.uint8).reshape(*picture.shape, 4))
        gc.restore()


def png(pixels: np.ndarray) -> bytes:
    """A PNG in some milliseconds, with a palette if it holds all colours."""
    height, width = pixels.shape[:2]
    colours = pixels.reshape(-1, 4).view("<u4")[:, 0]
    starts = np.concatenate([[0], np.flatnonzero(colours[1:] != colours[:-1]) + 1])  # of runs of one colour
    lengths, plain = np.diff(starts, append=len(colours)), _plainer(colours[starts])
    palette, places = np.unique(plain, return_inverse=True)
    if len(palette) > PALETTE:
        rows = np.repeat(plain, lengths).reshape(height, width)
        return _png(rows, struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0), {})  # RGBA
    rows = np.repeat(places.astype(np.uint8), lengths).reshape(height, width)
    table = palette.astype("<u4").view(np.uint8).reshape(-1, 4)
    colour, opacity = table[:, :3].tobytes(), table[:, 3].tobytes()
    return _png(rows, struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0), {b"PLTE": colour, b"tRNS": opacity})


def _png(rows: np.ndarray, header: bytes, palette: dict[bytes, bytes]) -> bytes:
    """A PNG from rows of pixels, of one or four bytes each, packed in two threads."""
    half = (len(rows) + 1) // 2
    halves = [(rows[:half], np.zeros_like(rows[0]), False), (rows[half:], rows[half - 1], True)]
    with ThreadPoolExecutor(2) as threads:
        (upper, sums, _), (lower, more, size) = threads.map(_packed, *zip(*halves, strict=True))
    data = ZLIB_HEADER + upper + lower + struct.pack(">I", _adler32(sums, more, size))
    chunks = {b"IHDR": header, **palette, b"IDAT": data, b"IEND": b""}
    parts = (
        struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(d, zlib.crc32(k))) for k, d in chunks.items()
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _packed(rows: np.ndarray, above: np.ndarray, last: bool) -> tuple[bytes, int, int]:
    """Raw deflate of the differences within rows of pixels, their Adler-32 and their bytes.

    A row is given as differences from that above it (filter 2), or of each pixel from that before it (filter 1) where
    fewer pixels are different from that. Another part may follow if it is not the last.
    """
    size, plain = rows.itemsize, rows.view(np.uint8)
    filtered = np.full((len(rows), plain.shape[1] + 1), 2, np.uint8)
    filtered[:1, 1:] = plain[:1] - above.view(np.uint8)
    np.subtract(plain[1:], plain[:-1], out=filtered[1:, 1:])
    other = np.count_nonzero(rows[1:] != rows[:-1], axis=1)
    changed = 1 + np.flatnonzero(other)
    runs = np.count_nonzero(rows[changed, 1:] != rows[changed, :-1], axis=1)
    flat = changed[runs < other[changed - 1]]
    filtered[flat, 0] = 1
    filtered[flat, 1 : 1 + size] = plain[flat, :size]
    filtered[flat, 1 + size :] = plain[flat, size:] - plain[flat, :-size]
    packer = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS, strategy=zlib.Z_RLE)
    data = packer.compress(filtered.data) + packer.flush(zlib.Z_FINISH if last else zlib.Z_FULL_FLUSH)
    return data, zlib.adler32(filtered.data), filtered.size


def _adler32(before: int, after: int, size: int) -> int:
    """Adler-32 of two parts in a row, from that of each and the bytes of the second."""
    prime = 65521
    low = ((before & 0xFFFF) + (after & 0xFFFF) - 1) % prime
    high = ((before >> 16) + (after >> 16) + size * ((before & 0xFFFF) - 1)) % prime
    return high << 16 | low


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
