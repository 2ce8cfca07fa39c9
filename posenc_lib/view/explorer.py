"""Explorers: a picture under a few controls, drawn once and then only updated.

The axes, labels and everything else that stays are drawn once and kept as a background. A move of a control changes
the data of the moving artists, paints these over the background, and sends the picture; the whole figure is drawn again
only when the update touched something that belongs to the background, such as the limits of an axis.

A page that was not run shows the first picture; a page that runs shows the live one.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace

import anywidget
import ipywidgets
import traitlets
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from posenc_lib.view import figure


def slider(label: str, low: float, high: float, start: float, step: float = 1) -> ipywidgets.Widget:
    """A slider from ``low`` to ``high``: whole numbers if all four numbers are whole, else fractions."""
    kind = ipywidgets.IntSlider if all(isinstance(x, int) for x in (low, high, start, step)) else ipywidgets.FloatSlider
    return kind(description=label, min=low, max=high, value=start, step=step, **_look())


def log_slider(label: str, low: float, high: float, start: float, step: float = 0.1) -> ipywidgets.Widget:
    """A slider on which equal steps multiply by equal factors; ``step`` is in powers of ten."""
    return ipywidgets.FloatLogSlider(
        description=label,
        min=math.log10(low),
        max=math.log10(high),
        value=start,
        step=step,
        readout_format=".4r",
        **_look(),
    )


def choice(label: str, options: Iterable[str], start: str) -> ipywidgets.Widget:
    """A menu of a few named options."""
    return ipywidgets.Dropdown(description=label, options=list(options), value=start, **_look())


def toggle(label: str, start: bool) -> ipywidgets.Widget:
    """A box to tick."""
    return ipywidgets.Checkbox(description=label, value=start, indent=False)


def _look() -> dict:
    return {"style": {"description_width": "initial"}, "layout": ipywidgets.Layout(width="340px")}


class _Screen(anywidget.AnyWidget):
    """The picture with its alt text, and below it a line of words that a screen reader announces."""

    _esm = Path(__file__).with_name("screen.js")
    picture = traitlets.Bytes().tag(sync=True)
    alt = traitlets.Unicode().tag(sync=True)
    words = traitlets.Unicode().tag(sync=True)


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
        size: width and height of the figure in inches, at 100 pixels an inch.
        controls: one for each argument of ``update``, made with ``slider``, ``log_slider``, ``choice`` or ``toggle``.
    Raises:
        ValueError: if ``alt`` is empty or there is no control.
    """

    def __init__(
        self,
        draw: Callable[[Figure], Mapping],
        update: Callable[..., str],
        alt: str,
        clamp: Callable[..., Mapping] = lambda **values: {},
        size: tuple[float, float] = (9, 3.6),
        **controls: ipywidgets.Widget,
    ):
        if not alt.strip():
            raise ValueError(f"alt must say what the picture shows, got {alt!r}")
        if not controls:
            raise ValueError("controls must hold at least one control, got none")
        self.controls, self.alt = controls, alt
        self._update, self._clamp = update, clamp
        self._figure = Figure(figsize=size, dpi=100)
        self._canvas = FigureCanvasAgg(self._figure)
        moving = {name: _several(item) for name, item in draw(self._figure).items()}
        self._artists = SimpleNamespace(**{name: a[0] if len(a) == 1 else a for name, a in moving.items()})
        self._moving = sorted((a for several in moving.values() for a in several), key=Artist.get_zorder)
        for artist in self._moving:
            artist.set_animated(True)
        self._background, self._settling = None, False
        self._screen = _Screen(alt=alt)
        self._answer()
        settings = ", ".join(f"{c.description} = {_text(c.value)}" for c in self.controls.values())
        self._first_text = f"{alt}\n{settings}\n{self.words}\n{figure.digest(self._figure)}"
        self._first_picture = figure.png(self._figure, compress_level=9)
        for control in self.controls.values():
            control.observe(self._on_move, names="value")
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
        """The picture as PNG."""
        return self._screen.picture

    def _on_move(self, change: object) -> None:
        if not self._settling:
            self._answer()

    def _answer(self) -> None:
        """Bring the picture and the words up to date with the controls; never raises into the page."""
        moved = self._settle()
        try:
            words = self._update(self._artists, **self.values)
        except ValueError as refusal:  # the library refuses in words that a learner can read
            words = f"Not possible: {refusal}."
            if self.picture:  # it stays as it was
                self._screen.words = words
                return
        self._paint()
        with self._screen.hold_sync():
            self._screen.picture = figure.png(self._figure)
            self._screen.words = " ".join((*moved, words))

    def _settle(self) -> list[str]:
        """Move the controls to values that are possible together; return a sentence for each that moved."""
        moved, possible = [], self._clamp(**self.values)
        self._settling = True
        for name, value in possible.items():
            control = self.controls[name]
            if control.value != value:
                before, control.value = control.value, value
                now = _text(control.value)
                moved.append(f"{control.description} {_text(before)} is not possible here, so it is now {now}.")
        self._settling = False
        return moved

    def _paint(self) -> None:
        """Draw the moving artists over the background, which is drawn again only if something in it changed."""
        if self._background is None or self._figure.stale:
            self._canvas.draw()
            self._figure.set_layout_engine("none")  # the axes keep their places from now on
            self._background = self._canvas.copy_from_bbox(self._figure.bbox)
        self._canvas.restore_region(self._background)
        for artist in self._moving:
            (artist.axes or self._figure).draw_artist(artist)

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


def _several(item: Artist | Iterable[Artist]) -> list[Artist]:
    return [item] if isinstance(item, Artist) else list(item)


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)
