"""A figure is shown with words; its digest notices what was drawn and nothing else."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from PIL import Image

from posenc_lib.view import figure, heatmap, show, use_style

X = np.arange(6.0)
Y = np.array([0.0, 2.0, -1.0, 4.0, 3.0, 1.0])


def digest_of(paint, **options):
    fig, ax = plt.subplots(**options)
    paint(ax)
    return figure.digest(fig)


def changed(y, index, by):
    return np.where(np.arange(y.size).reshape(y.shape) == index, y + by, y)


PAINTERS = {
    "line": lambda ax, y: ax.plot(X, y),
    "points": lambda ax, y: ax.scatter(X, y),
    "band": lambda ax, y: ax.fill_between(X, y, y + 1),
    "bars": lambda ax, y: ax.bar(X, y),
    "stems": lambda ax, y: ax.stem(X, y),
    "image": lambda ax, y: ax.imshow(y.reshape(2, 3)),
}
each_painter = pytest.mark.parametrize("paint", PAINTERS.values(), ids=PAINTERS)


@each_painter
@pytest.mark.parametrize("index", [0, 2, 5])
@pytest.mark.parametrize("by", [0.1, -3.0])
def test_digest_notices_one_number(paint, index, by):
    one_changed = changed(Y, index, by)
    assert digest_of(lambda ax: paint(ax, one_changed)) != digest_of(lambda ax: paint(ax, Y))


@pytest.mark.parametrize("paint", [paint for name, paint in PAINTERS.items() if name != "band"])
@pytest.mark.parametrize(
    "order", [[1, 0, 2, 3, 4, 5], [0, 1, 2, 3, 5, 4], [5, 4, 3, 2, 1, 0], [0, 2, 1, 3, 4, 5]], ids=str
)
def test_digest_notices_the_order(paint, order):
    assert digest_of(lambda ax: paint(ax, Y[order])) != digest_of(lambda ax: paint(ax, Y))


@pytest.mark.parametrize("setter", [Axes.set_title, Axes.set_xlabel, Axes.set_ylabel])
def test_digest_notices_a_label(setter):
    def labelled(text):
        def paint(ax):
            ax.plot(X, Y)
            setter(ax, text)

        return digest_of(paint)

    assert "distance" in labelled("distance")
    assert labelled("distance") != labelled("position") != labelled("")


def test_digest_notices_another_object_and_another_shape():
    alone = digest_of(lambda ax: ax.plot(X, Y))
    assert digest_of(lambda ax: (ax.plot(X, Y), ax.plot(X, Y))) != alone
    assert digest_of(lambda ax: ax.imshow(Y.reshape(2, 3))) != digest_of(lambda ax: ax.imshow(Y.reshape(3, 2)))


@pytest.mark.parametrize(
    "paint",
    [
        lambda ax, y: ax.scatter(X[:1], y[:1]),
        lambda ax, y: ax.scatter(X, X, c=y),
        lambda ax, y: ax.pcolormesh(y.reshape(2, 3)),
        lambda ax, y: ax.barh(y, X),
    ],
    ids=["one point", "colours", "mesh", "places of lying bars"],
)
def test_digest_notices_places_and_colours(paint):
    assert digest_of(lambda ax: paint(ax, changed(Y, 0, 5.0))) != digest_of(lambda ax: paint(ax, Y))


def test_digest_notices_the_order_in_a_band():
    swapped = Y[[0, 2, 1, 3, 4, 5]]
    assert digest_of(lambda ax: ax.fill_between(X, swapped, swapped + 1)) != digest_of(
        lambda ax: ax.fill_between(X, Y, Y + 1)
    )


@each_painter
def test_digest_holds_nothing_that_depends_on_pixels(paint):
    def colourful(ax):
        with plt.rc_context({"font.size": 30}):
            paint(ax, Y)

    plain = digest_of(lambda ax: paint(ax, Y), dpi=50)
    assert digest_of(lambda ax: paint(ax, Y), dpi=200, figsize=(12, 9)) == plain
    assert digest_of(colourful) == plain
    assert len(plain) < 300


def test_digest_in_full():
    fig, (left, right) = plt.subplots(1, 2)
    left.set(title="sine", xlabel="position", ylabel="value")
    left.plot([0.0, 1.0], [2.0, 4.0])
    fig.colorbar(right.imshow([[1.0, np.nan], [-3.0, -1e-9]]), ax=right)
    assert figure.digest(fig).splitlines() == [
        "axes 1: sine | position | value",
        "  line (2, 2) min 0.000 max 4.000 mean 1.750 weighted 2.044",
        "axes 2:  |  | ",
        "  image (2, 2) min -3.000 max 1.000 mean -0.667 weighted -0.782",
    ]


def test_digest_of_data_without_numbers():
    assert "(2, 2) empty" in digest_of(lambda ax: ax.imshow(np.full((2, 2), np.nan)))
    assert "line (0, 2) empty" in digest_of(lambda ax: ax.plot([], []))


@pytest.fixture
def displayed(monkeypatch):
    shown = []
    monkeypatch.setattr(figure, "display", lambda data, **options: shown.append((data, options)))
    return shown


def test_show_attaches_alt_text_and_caption_and_closes(displayed):
    fig, ax = plt.subplots(figsize=(3, 2), dpi=50)
    ax.plot(X, Y)
    show(fig, "Notice the **peak**.", "A line with a peak at 3.")
    assert plt.get_fignums() == []
    (bundle, options), (caption, _) = displayed
    assert options == {"metadata": {"image/png": {"alt": "A line with a peak at 3."}}, "raw": True}
    assert bundle.keys() == {"text/plain", "image/png"}
    assert bundle["text/plain"] == "A line with a peak at 3.\n" + digest_of(lambda ax: ax.plot(X, Y))
    assert bundle["image/png"].startswith(b"\x89PNG")
    assert "Notice the **peak**." in caption["text/markdown"]
    assert caption["text/plain"] == "Notice the **peak**."


@pytest.mark.parametrize("name", ["caption", "alt"])
@pytest.mark.parametrize("empty", ["", "  \n"])
def test_show_refuses_a_picture_without_words(displayed, name, empty):
    fig, _ = plt.subplots()
    words = {"caption": "Notice.", "alt": "A line."} | {name: empty}
    with pytest.raises(ValueError) as refusal:
        show(fig, **words)
    assert name in str(refusal.value)
    assert repr(empty) in str(refusal.value)
    assert displayed == []


def test_png_has_the_pixels_that_were_drawn(tmp_path):
    fig, ax = plt.subplots(figsize=(3, 2), dpi=50)
    ax.imshow([[0, 1], [2, 3]])
    fig.canvas.draw()
    (tmp_path / "a.png").write_bytes(figure.png(fig))
    with Image.open(tmp_path / "a.png") as picture:
        assert (picture.mode, picture.size) == ("RGB", (150, 100))
        assert np.array_equal(np.asarray(picture), np.asarray(fig.canvas.buffer_rgba())[..., :3])


@pytest.mark.parametrize(
    "values, limit", [([[1, 2], [3, 4]], 4), ([[-7, 2]], 7), ([[0, 0]], 1), ([[-0.5, 0.25]], 0.5)], ids=str
)
def test_signed_heatmap_is_centred_on_zero(values, limit):
    _, ax = plt.subplots()
    picture = heatmap(ax, values)
    assert picture.get_clim() == (-limit, limit)
    assert picture.norm(0) == 0.5
    assert picture.cmap.name == figure.SIGNED


def test_unsigned_heatmap_spans_its_values():
    _, ax = plt.subplots()
    picture = heatmap(ax, [[2, 3], [5, 4]], signed=False)
    assert picture.get_clim() == (2, 5)
    assert picture.cmap.name == figure.MAGNITUDE


@pytest.mark.parametrize("colorbar, axes", [(True, 2), (False, 1)])
def test_heatmap_brings_its_colorbar(colorbar, axes):
    fig, ax = plt.subplots()
    heatmap(ax, [[1, 2]], colorbar=colorbar)
    assert len(fig.axes) == axes
    assert figure.digest(fig).count("axes") == 1


def test_heatmap_options_win():
    _, ax = plt.subplots()
    assert heatmap(ax, [[1, 2]], vmin=-9, vmax=9, cmap="PuOr").get_clim() == (-9, 9)


@pytest.mark.parametrize("hole", [np.nan, -np.inf])
def test_signed_heatmap_with_a_hole_keeps_its_limits(hole):
    _, ax = plt.subplots()
    assert heatmap(ax, [[1, hole], [-3, 2]]).get_clim() == (-3, 3)


def test_style_is_large_and_safe_for_colour_blind_readers():
    use_style()
    assert plt.rcParams["font.size"] >= 12
    assert plt.rcParams["axes.prop_cycle"].by_key()["color"] == list(figure.COLORS)
    assert len(set(figure.COLORS)) == 7
    assert plt.rcParams["image.interpolation"] == "nearest"
