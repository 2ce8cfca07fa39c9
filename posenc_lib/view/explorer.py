"""Explorers: a picture under a few controls, drawn once and then only updated.

The axes, labels and everything else that stays are the background. A move of a control changes the data of the moving
artists and paints these, over nothing, as a layer. Only the layer is sent; the background is drawn and sent again when
the update touched something that belongs to it, such as the limits of an axis. Of the layer the empty rows above and
below what moves are left out. ``screen.js`` lays the two upon each other, in a notebook that runs and on a page that
has them recorded.

The last pictures are kept, and while the hand rests the next one of a steady movement is painted: a key that is pressed
again finds it ready.

A page that was not run shows the first picture; a page that runs shows the live one.
"""

import asyncio
import io
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import anywidget
import ipywidgets
import numpy as np
import traitlets
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from PIL import Image
from traitlets.utils.bunch import Bunch

from posenc_lib.view import figure
from posenc_lib.view.controls import following, sweep, text
from posenc_lib.view.pixels import draw_cells, png

DPI = 100  # on a screen with one pixel per point
KEPT = 8  # pictures
CALM = 0.02  # seconds without a move until the next picture is painted
STRIPS = 16  # of a picture, of which a layer has those from the first that is not empty to the last

Picture = tuple[bytes, bytes, tuple[float, float]]  # background, layer, and the margins of this


class _Screen(anywidget.AnyWidget):
    """Background, layer, alt text, and below them a line of words that a screen reader announces."""

    _esm = Path(__file__).with_name("screen.js")
    background = traitlets.Bytes().tag(sync=True)
    layer = traitlets.Bytes().tag(sync=True)
    margins = traitlets.Tuple((0.0, 0.0)).tag(sync=True)  # above and below the layer, in widths of the picture
    width = traitlets.Int().tag(sync=True)  # of the picture, in points
    alt = traitlets.Unicode().tag(sync=True)
    words = traitlets.Unicode().tag(sync=True)
    main = traitlets.Unicode().tag(sync=True)  # the label of the control that the play button moves; empty without one
    ratio = traitlets.Int(1).tag(sync=True)  # pixels per point, told by the page
    step = traitlets.Int(0).tag(sync=True)  # counted by the play button


class Explorer:
    """A picture that follows its controls.

    Args:
        draw: ``draw(fig)`` lays out the axes of an empty figure and returns the artists that will move, as a mapping
            from names to artists or lists of artists; a list of one, as ``ax.plot`` returns it, stands for the one.
        update: ``update(artists, **values)`` gives the artists (``artists.name``) the data for these values of the
            controls and returns one sentence that says what can be read off.
        alt: one sentence that says what the picture shows.
        clamp: ``clamp(**values)`` returns those values that must change to be possible together, as a mapping; the
            controls move there and the page says so.
        size: width and height of the figure in inches, at 100 points an inch.
        play: the name of the control that a play button sweeps; without one there is no button.
        together: groups of names of controls whose every combination is recorded for pages without a kernel. Of the
            others the values of one at a time are, with the rest at the start.
        resets: by the name of a control those that go back to the start when it moves, as an answer does when the
            question is another.
        controls: one for each argument of ``update``, made with ``slider``, ``log_slider``, ``choice``, ``toggle`` or
            ``toggles``.
    Raises:
        ValueError: if ``alt`` is empty, there is no control, or ``play``, ``together`` or ``resets`` name one that is
            not there.
    """

    def __init__(
        self,
        draw: Callable[[Figure], Mapping],
        update: Callable[..., str],
        alt: str,
        clamp: Callable[..., Mapping] = lambda **values: {},
        size: tuple[float, float] = (9, 3.6),
        play: str | None = None,
        together: Iterable[tuple[str, ...]] = (),
        resets: Mapping[str, tuple[str, ...]] | None = None,
        **controls: ipywidgets.Widget,
    ):
        if not alt.strip():
            raise ValueError(f"alt must say what the picture shows, got {alt!r}")
        if not controls:
            raise ValueError("controls must hold at least one control, got none")
        self.controls, self.alt, self.width = controls, alt, round(DPI * size[0])
        self.play, self.together = play, [tuple(group) for group in together]
        self.resets = {name: tuple(others) for name, others in (resets or {}).items()}
        resetting = (*self.resets, *sum(self.resets.values(), ()))
        named = (("play", [play] if play else []), ("together", sum(self.together, ())), ("resets", resetting))
        for argument, names in named:
            if unknown := [name for name in names if name not in controls]:
                raise ValueError(f"{argument} must name controls of {list(controls)}, got {unknown[0]!r}")
        self._update, self._clamp = update, clamp
        self._encode: Callable[[np.ndarray], bytes] = png
        self._figure = Figure(figsize=size, dpi=DPI)
        self._canvas = FigureCanvasAgg(self._figure)
        moving = {name: _several(item) for name, item in draw(self._figure).items()}
        self._artists = SimpleNamespace(**{name: a[0] if len(a) == 1 else a for name, a in moving.items()})
        self._moving = sorted((a for several in moving.values() for a in several), key=Artist.get_zorder)
        for artist in self._moving:
            artist.set_animated(True)
        self._background = b""
        self._ready: dict[tuple, tuple[Picture, str]] = {}  # pictures by the values of the controls
        self._soon: asyncio.TimerHandle | None = None
        self._settling, self._sweep = False, sweep(controls[play]) if play else []
        self._start = self.values
        self._screen = _Screen(alt=alt, width=self.width, main=controls[play].description if play else "")
        self._answer()
        settings = ", ".join(f"{c.description} = {text(c, c.value)}" for c in self.controls.values())
        self._first_text = f"{alt}\n{settings}\n{self.words}\n{figure.digest(self._figure)}"
        self._first_picture = self.picture
        for control in self.controls.values():
            control.observe(self._on_move, names="value")
        self._screen.observe(self._on_ratio, names="ratio")
        self._screen.observe(self._on_step, names="step")
        row = ipywidgets.HBox(list(self.controls.values()), layout=ipywidgets.Layout(flex_flow="row wrap"))
        self._box = ipywidgets.VBox([row, self._screen])

    @property
    def values(self) -> dict:
        """What the controls are set to."""
        return {name: control.value for name, control in self.controls.items()}

    @property
    def words(self) -> str:
        """The sentence below the picture."""
        return self._screen.words

    @property
    def picture(self) -> bytes:
        """Background and layer upon each other, as PNG."""
        stream = io.BytesIO()
        composed(*self.layers, self.margins).save(stream, "png", compress_level=9)
        return stream.getvalue()

    @property
    def ratio(self) -> int:
        """Pixels per point, as the page asked for."""
        return self._screen.ratio

    @ratio.setter
    def ratio(self, ratio: int) -> None:
        self._screen.ratio = ratio

    @property
    def encode(self) -> Callable[[np.ndarray], bytes]:
        """What makes a file of pixels (height, width, 4)."""
        return self._encode

    @encode.setter
    def encode(self, encode: Callable[[np.ndarray], bytes]) -> None:
        self._encode, self._background = encode, b""
        self._answer()

    @property
    def layers(self) -> tuple[bytes, bytes]:
        """Background and layer, as files; as PNG the layer is without what is empty above and below."""
        return self._screen.background, self._screen.layer

    @property
    def margins(self) -> tuple[float, float]:
        """What was left out above and below the layer, in widths of the picture."""
        return self._screen.margins

    def set(self, **values: object) -> bool:
        """Set several controls at once, the others stay where they are; whether the picture could follow."""
        self._settling = True
        for name, value in values.items():
            self.controls[name].value = value
        self._settling = False
        return self._answer()

    def _on_move(self, change: Bunch) -> None:
        if not self._settling:
            self._settling = True
            for other in self.resets.get(self._name(change.owner), ()):
                self.controls[other].value = self._start[other]
            self._settling = False
            self._answer(kept=True)
            self._look_ahead(change)

    def _name(self, moved: ipywidgets.Widget) -> str:
        return next(name for name, control in self.controls.items() if control is moved)

    def _look_ahead(self, change: Bunch) -> None:
        """Paint what comes next if the hand goes on like this, as soon as it rests."""
        if self._soon:
            self._soon.cancel()
        name = self._name(change.owner)
        value = following(change.owner, change.old, change.new)
        with suppress(RuntimeError):  # without a running loop nobody moves a control again
            if value is not None:
                loop = asyncio.get_running_loop()
                self._soon = loop.call_later(CALM, self._prepare, self.values | {name: value})

    def _prepare(self, values: dict) -> None:
        if {**values, **self._clamp(**values)} == values:
            with suppress(ValueError):  # it is said when the control is there
                self._shown(values)

    def _on_ratio(self, change: Bunch) -> None:
        self._figure.set_dpi(DPI * self._screen.ratio)
        self._answer()

    def _on_step(self, change: Bunch) -> None:
        assert self.play
        control = self.controls[self.play]
        values, now = self._sweep, control.value
        place = values.index(now if now in values else min(values, key=lambda value: abs(value - now)))
        control.value = values[(place + 1) % len(values)]
        if control.value == now:  # what comes next is not possible here
            control.value = values[0]

    def _answer(self, kept: bool = False) -> bool:
        """Bring the picture and the words up to date with the controls; whether the picture could follow."""
        moved = self._settle()
        if not kept:
            self._ready.clear()
        try:
            picture, words = self._shown(self.values)
        except ValueError as refusal:  # the library refuses in words that a learner can read
            words = f"Not possible: {refusal}."
            if self._screen.layer:  # it stays as it was
                self._screen.words = words
                return False
            picture = self._paint()
        with self._screen.hold_sync():
            self._screen.background, self._screen.layer, self._screen.margins = picture
            self._screen.words = " ".join((*moved, words))
        return True

    def _shown(self, values: dict) -> tuple[Picture, str]:
        """Picture and words for these values of the controls."""
        key = tuple(f"{value:.12g}" if isinstance(value, float) else value for value in values.values())
        if key not in self._ready:
            words = self._update(self._artists, **values)
            self._ready[key] = self._paint(), words
            if len(self._ready) > KEPT:
                del self._ready[next(iter(self._ready))]
        return self._ready[key]

    def _settle(self) -> list[str]:
        """Move the controls to values that are possible together; return a sentence for each that moved."""
        moved, possible = [], self._clamp(**self.values)
        self._settling = True
        for name, value in possible.items():
            control = self.controls[name]
            if control.value != value:
                before, control.value = text(control, control.value), value
                now = text(control, value)
                moved.append(f"{control.description} {before} is not possible here, so it is now {now}.")
        self._settling = False
        return moved

    def _paint(self) -> Picture:
        """Paint the moving artists over nothing; draw the background again only if something in it changed."""
        if not self._background or self._figure.stale:
            self._canvas.draw()
            self._figure.set_layout_engine("none")  # the axes keep their places from now on
            self._background = self._encode(np.asarray(self._canvas.buffer_rgba()))
        self._canvas.get_renderer().clear()
        for artist in self._moving:
            if isinstance(artist, AxesImage) and _plain(artist):
                draw_cells(artist, self._canvas.get_renderer())
            else:
                (artist.axes or self._figure).draw_artist(artist)
        pixels = np.asarray(self._canvas.buffer_rgba())
        first, last = _occupied(pixels) if self._encode is png else (0, len(pixels))
        margins = first / pixels.shape[1], (len(pixels) - last) / pixels.shape[1]
        return self._background, self._encode(pixels[first:last]), margins

    def _repr_mimebundle_(self, **kwargs: object) -> tuple[dict, dict]:
        data = {
            "text/plain": self._first_text,
            "image/png": self._first_picture,
            "application/vnd.jupyter.widget-view+json": {
                "version_major": 2,
                "version_minor": 0,
                "model_id": self._box.model_id,
            },
        }
        return data, {"image/png": {"alt": self.alt}}


def composed(background: bytes, layer: bytes, margins: tuple[float, float] = (0.0, 0.0)) -> Image.Image:
    """A layer upon its background, from their files, with this left out above and below the layer."""
    both = [Image.open(io.BytesIO(data)).convert("RGBA") for data in (background, layer)]
    both[0].alpha_composite(both[1], (0, round(margins[0] * both[0].width)))
    return both[0].convert("RGB")


def _several(item: Artist | Iterable[Artist]) -> list[Artist]:
    return [item] if isinstance(item, Artist) else list(item)


def _occupied(pixels: np.ndarray) -> tuple[int, int]:
    """The rows from the first strip in which something is painted to the last; the first strip if nothing is."""
    ends = np.linspace(0, len(pixels), STRIPS + 1).astype(int)
    opaque = pixels.view("<u4")[..., 0].max(axis=1) >> 24  # the highest byte; the others may have the colour of nothing
    painted = np.flatnonzero(np.maximum.reduceat(opaque, ends[:-1]))
    first, last = (painted[0], painted[-1]) if painted.size else (0, 0)
    return int(ends[first]), int(ends[last + 1])


def _plain(image: AxesImage) -> bool:
    """Whether ``draw_cells`` can draw it."""
    unmixed = image.get_interpolation() == "nearest" and image.get_alpha() is None
    return unmixed and image.get_visible() and image.get_transform().is_affine
