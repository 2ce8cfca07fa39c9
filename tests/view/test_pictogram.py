"""The pictogram lights the places that a scheme uses, in the picture and in words."""

import io

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import FancyBboxPatch
from PIL import Image

from posenc_lib.lab.catalog import build, scheme_classes
from posenc_lib.scheme import PLACES, PositionScheme
from posenc_lib.view import figure, pictogram, use_style
from posenc_lib.view.pictogram import draw, used_places

CLASSES = scheme_classes()


@pytest.fixture
def shown(monkeypatch):
    """Text, alt text and picture of each pictogram that is displayed."""
    found = []

    def display(data, metadata=None, raw=False):
        if "image/png" in data:
            picture = np.asarray(Image.open(io.BytesIO(data["image/png"])))
            found.append((data["text/plain"], metadata["image/png"]["alt"], picture))

    monkeypatch.setattr(figure, "display", display)
    return found


def lit(fig):
    """The names in bold of a drawing, each in a box that is filled, and that the others are neither."""
    (ax,) = fig.axes
    boxes = [patch for patch in ax.patches if isinstance(patch, FancyBboxPatch)]
    names = [text for text in ax.texts if text.get_text().lower() in PLACES]
    assert len(boxes) == len(names) == len(PLACES)
    for box, name in zip(boxes, names, strict=True):
        x, y = name.get_position()
        assert box.get_x() < x < box.get_x() + box.get_width() and box.get_y() < y < box.get_y() + box.get_height()
        assert (name.get_weight() == "bold") == (box.get_facecolor() != (1.0, 1.0, 1.0, 1.0))
    return tuple(name.get_text().lower() for name in names if name.get_weight() == "bold")


@pytest.mark.parametrize("name", CLASSES)
def test_the_places_of_a_scheme_are_lit_and_named(name, shown):
    scheme = build(CLASSES[name])
    assert used_places(scheme) == tuple(place for place in PLACES if place in scheme.places)
    pictogram(scheme)
    ((text, alt, picture),) = shown
    expected = draw(set(scheme.places))
    assert lit(expected) == used_places(scheme)
    figure.FigureCanvasAgg(expected).draw()
    assert np.array_equal(picture, np.asarray(expected.canvas.buffer_rgba())[..., :3])
    assert alt.endswith(f" {scheme.name}: {', '.join(scheme.places) or 'nowhere'}")
    assert text.startswith(f"{alt}\n")


class SaysNothing(PositionScheme):
    def transform_key(self, k, token):
        return -k


class Empty(PositionScheme):
    places = ("score",)


def test_a_scheme_that_declares_nothing_is_asked_for_its_hooks(shown):
    assert SaysNothing.places == PLACES
    assert used_places(SaysNothing()) == ("query and key",)
    assert used_places(Empty()) == used_places(PositionScheme()) == ()


def test_several_schemes_share_a_picture_and_each_is_named(shown):
    pictogram(build(CLASSES["Shaw"]), build(CLASSES["Learned"]))
    pictogram(build(CLASSES["Shaw"]))
    (text, alt, picture), (_, alone, one) = shown
    assert "Shaw: score, value; learned: input" in alt and alt in text
    assert "learned" not in alone
    assert not np.array_equal(picture, one)


def test_it_looks_the_same_in_every_notebook(shown):
    scheme = build(CLASSES["Rotary"])
    pictogram(scheme)
    use_style()
    plt.rcParams.update({"figure.dpi": 50, "font.size": 30, "text.color": "red", "lines.linewidth": 9})
    pictogram(scheme)
    assert np.array_equal(shown[0][2], shown[1][2])
    assert plt.get_fignums() == []


def test_nothing_is_cut_off_and_no_word_touches_another():
    fig = draw(set(PLACES))
    figure.FigureCanvasAgg(fig).draw()
    (ax,) = fig.axes
    boxes = [text.get_window_extent() for text in ax.texts if text.get_text()]
    assert all(fig.bbox.x0 < b.x0 and b.x1 < fig.bbox.x1 and fig.bbox.y0 < b.y0 and b.y1 < fig.bbox.y1 for b in boxes)
    assert not any(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[:n])
