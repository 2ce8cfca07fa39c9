"""One way to show a figure: with a caption, with alt text, and with a digest that a test can compare.

Pictures are never compared byte by byte, since fonts and rasterizers differ between machines. What is compared is the
digest: per axes its title and labels, per line, image or collection the shape and four numbers of the data, and every
text with its place.
"""

import io
from collections.abc import Iterable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from cycler import cycler
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.category import StrCategoryFormatter
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.legend import Legend
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation, Text
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter
from numpy.typing import ArrayLike
from PIL import Image

SIGNED = "RdBu_r"  # diverging, centred on 0
MAGNITUDE = "viridis"  # sequential, perceptually uniform
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito


def use_style() -> None:
    """Set matplotlib to the style of the course: large type, colour-blind-safe cycle, no clutter."""
    plt.rcParams.update(
        {
            "figure.figsize": (9, 3.6),
            "figure.dpi": 100,
            "figure.constrained_layout.use": True,
            "font.size": 12,
            "axes.titlesize": 12,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": cycler(color=COLORS),
            "image.cmap": MAGNITUDE,
            "image.interpolation": "nearest",
            "image.aspect": "auto",
            "legend.frameon": False,
            "legend.fontsize": 11,
            "lines.linewidth": 2,
        }
    )


def heatmap(ax: Axes, values: ArrayLike, *, signed: bool = True, colorbar: bool = True, **options: Any) -> AxesImage:
    """Draw a matrix (rows, columns): signed values on a map centred on 0, magnitudes on a sequential one."""
    values = np.asarray(values)
    if signed:
        limit = np.abs(values[np.isfinite(values)]).max(initial=0) or 1.0
        options = {"cmap": SIGNED, "vmin": -limit, "vmax": limit} | options
    picture = ax.imshow(values, **options)
    if colorbar:
        ax.figure.colorbar(picture, ax=ax)
    return picture


def show(fig: Figure, caption: str, alt: str, *, palette: bool = False) -> None:
    """Display ``fig`` as a picture with alt text, its caption below, and close it.

    Args:
        fig: a figure with its axes labelled.
        caption: Markdown, what to notice.
        alt: one sentence that says what the picture shows to somebody who cannot see it.
        palette: store 256 colours at most: a third of the size where many thin lines cross.
    Raises:
        ValueError: if ``caption`` or ``alt`` is empty.
    """
    for name, text in (("caption", caption), ("alt", alt)):
        if not text.strip():
            raise ValueError(f"{name} must say something, got {text!r}")
    FigureCanvasAgg(fig).draw()
    bundle = {"text/plain": f"{alt}\n{digest(fig)}", "image/png": png(fig, compress_level=9, palette=palette)}
    display(bundle, metadata={"image/png": {"alt": alt}}, raw=True)
    display({"text/plain": caption, "text/markdown": f"*{caption}*"}, raw=True)
    plt.close(fig)


def png(fig: Figure, compress_level: int = 1, palette: bool = False) -> bytes:
    """The canvas of ``fig`` as last drawn, as PNG without an alpha channel, with 256 colours at most if asked."""
    canvas, stream = fig.canvas, io.BytesIO()
    assert isinstance(canvas, FigureCanvasAgg)
    picture = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba()).convert("RGB")
    picture = picture.quantize(256) if palette else picture
    picture.save(stream, "png", compress_level=compress_level)
    return stream.getvalue()


def digest(fig: Figure) -> str:
    """What is drawn in ``fig``, in lines that are the same on every machine.

    One line per axes with its title and labels; below it one line per drawn object with the shape of its data, minimum,
    maximum, mean, and the mean weighted by position in the data, which notices a change of order. Then come its words:
    a line for each text with where it stands and what it points at, one for the labels of the ticks of an axis that
    were set by hand, and one for a legend. A change of one word is a change of one line.
    """
    lines = []
    for number, ax in enumerate((a for a in fig.axes if a.get_label() != "<colorbar>"), start=1):
        labels = " | ".join((ax.get_title(), ax.get_xlabel(), ax.get_ylabel()))
        lines.append(f"axes {number}: {labels}")
        for image in ax.images:
            lines.append(f"  image {_summary(image.get_array())}")
        for line in ax.lines:
            lines.append(f"  line {_summary(line.get_xydata())}")
        for collection in ax.collections:
            points = isinstance(collection, PathCollection)
            corners = [np.asarray(path.vertices) for path in collection.get_paths()] or [np.empty(0)]
            places = collection.get_offsets() if points else np.concatenate(corners)
            lines.append(f"  collection {_summary(places)}")
            if (colours := collection.get_array()) is not None:
                lines.append(f"  colours {_summary(colours)}")
        bars = [(*p.get_xy(), p.get_width(), p.get_height()) for p in ax.patches if isinstance(p, Rectangle)]
        if bars:
            lines.append(f"  bars {_summary(np.array(bars))}")
        lines += [f"  {words}" for words in _words(ax)]
    for ax in fig.axes:
        if ax.get_label() == "<colorbar>":
            labels = " | ".join(filter(None, (ax.get_title(), ax.get_xlabel(), ax.get_ylabel())))
            lines += [f"colorbar: {_one_line(labels)}"] if labels else []
            lines += [f"  {words}" for words in _words(ax)]
    titles = [_one_line(text.get_text()) for text in fig.texts]  # the layout puts them where there is room
    return "\n".join([*lines, *(f"text: {title}" for title in titles), *_legends(fig.legends)])


def _words(ax: Axes) -> list[str]:
    """The texts drawn in an axes, its legend, and those labels of its ticks that were set by hand."""
    legends = [artist for artist in ax.get_children() if isinstance(artist, Legend)]
    ticks = [(f"ticks {name}", _tick_labels(axis)) for name, axis in (("x", ax.xaxis), ("y", ax.yaxis))]
    by_hand = [f"{name}: {' | '.join(labels)}" for name, labels in ticks if any(labels)]
    return [*_written(ax.texts), *by_hand, *_legends(legends)]


def _written(texts: Iterable[Text]) -> list[str]:
    """A line per visible text: where it stands, where an annotation points, what it says."""
    lines = []
    for text in texts:
        if text.get_visible() and text.get_text().strip():
            places = [text.get_unitless_position()]
            if isinstance(text, Annotation) and text.xyann != text.xy:
                places.append((text.convert_xunits(text.xy[0]), text.convert_yunits(text.xy[1])))
            where = " to ".join(f"{x:z.3f} {y:z.3f}" for x, y in places)
            lines.append(f"text at {where}: {_one_line(text.get_text())}")
    return lines


def _legends(legends: Iterable[Legend]) -> list[str]:
    """A line per legend with its labels."""
    labels = ([text.get_text() for text in (legend.get_title(), *legend.get_texts())] for legend in legends)
    return [f"legend: {_one_line(' | '.join(filter(str.strip, several)))}" for several in labels]


def _tick_labels(axis: Axis) -> list[str]:
    """The labels of an axis if they were set by hand; others depend on the size of the figure."""
    formatter, locator = axis.get_major_formatter(), axis.get_major_locator()
    if isinstance(formatter, FixedFormatter):
        labels = list(formatter.seq)
    elif isinstance(formatter, StrCategoryFormatter) or (
        isinstance(formatter, FuncFormatter) and isinstance(locator, FixedLocator)
    ):
        labels = formatter.format_ticks(list(locator()))
    else:
        labels = []
    return [_one_line(str(label)) for label in labels]  # a label may be a number


def _one_line(text: str) -> str:
    return text.replace("\n", "\\n")


def _summary(values: ArrayLike | None) -> str:
    data: np.ndarray = np.ma.filled(np.ma.asarray(values, dtype=float), np.nan)
    flat = data.ravel()
    flat = flat[np.isfinite(flat)]
    if not flat.size:
        return f"{data.shape} empty"
    weights = np.sqrt(np.arange(1, flat.size + 1))  # a root, so that no exchange of values cancels
    numbers = flat.min(), flat.max(), flat.mean(), (weights * flat).sum() / weights.sum()
    return f"{data.shape} " + " ".join(
        f"{name} {x:z.3f}" for name, x in zip(("min", "max", "mean", "weighted"), numbers, strict=True)
    )
