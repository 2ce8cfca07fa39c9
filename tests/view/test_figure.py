"""A figure is shown with words; its digest notices what was drawn and nothing else."""

import io

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


TEXTS = {
    "text": lambda ax, word: ax.text(2, 3, word),
    "annotation": lambda ax, word: ax.annotate(word, (1, 2), (3, 4), arrowprops={"arrowstyle": "->"}),
    "labels of ticks": lambda ax, word: ax.set_xticks([0, 1], ["one", word]),
    "labels of ticks where there were some": lambda ax, word: ax.set_yticklabels([word] * len(ax.get_yticks())),
    "categories": lambda ax, word: ax.bar([word, "other"], [1, 2]),
    "legend": lambda ax, word: (ax.plot(X, Y, label=word), ax.legend()),
    "title of a legend": lambda ax, word: (ax.plot(X, Y, label="one"), ax.legend(title=word)),
    "a second legend": lambda ax, word: ax.add_artist(ax.legend([ax.plot(X, Y)[0]], [word])),
    "title of all": lambda ax, word: ax.figure.suptitle(word),
    "legend of all": lambda ax, word: ax.figure.legend([ax.plot(X, Y)[0]], [word]),
    "label of a colour bar": lambda ax, word: ax.figure.colorbar(ax.imshow([[1, 2]]), label=word),
    "ticks of a colour bar": lambda ax, word: ax.figure.colorbar(ax.imshow([[1, 2]]), ticks=[1, 2]).set_ticklabels(
        ["one", word]
    ),
}


@pytest.mark.filterwarnings("ignore:set_ticklabels")
@pytest.mark.parametrize("write", TEXTS.values(), ids=TEXTS)
def test_digest_notices_a_word_and_changes_in_one_line(write):
    before, after = (digest_of(lambda ax, word=word: write(ax, word)).splitlines() for word in ("apple", "pear\ntree"))
    (changed,) = set(after) - set(before)
    (was,) = set(before) - set(after)
    assert len(before) == len(after)
    assert "pear\\ntree" in changed and was == changed.replace("pear\\ntree", "apple")


@pytest.mark.parametrize(
    "write",
    [
        lambda ax, x: ax.text(x, 3, "apple"),
        lambda ax, x: ax.annotate("apple", (x, 2), (3, 4)),
        lambda ax, x: ax.annotate("apple", (3, 4), (x, 2), textcoords="offset points"),
    ],
    ids=["text", "what it points at", "annotation"],
)
def test_digest_notices_where_a_word_stands(write):
    assert digest_of(lambda ax: write(ax, 1.0)) != digest_of(lambda ax: write(ax, 1.01))


def test_digest_notices_that_two_words_changed_places():
    def names(*words):
        return digest_of(lambda ax: [ax.text(x, 0, word) for x, word in enumerate(words)])

    assert names("apple", "pear") != names("pear", "apple")


def test_digest_names_no_word_that_is_not_drawn():
    empty = digest_of(lambda ax: None)
    assert digest_of(lambda ax: (ax.text(0, 0, " "), ax.text(0, 0, "apple", visible=False))) == empty
    assert digest_of(lambda ax: ax.annotate("", (0, 0), (1, 1), arrowprops={})) == empty
    assert digest_of(lambda ax: ax.set_xticks([0, 0.5, 1])) == empty


def test_digest_names_no_label_whose_number_depends_on_the_size():
    def hours(ax):
        ax.plot([0, 10], [0, 1])
        ax.xaxis.set_major_formatter(lambda x, _: f"{x} h")

    assert digest_of(hours, figsize=(2, 2)) == digest_of(hours, figsize=(20, 2))


@pytest.mark.parametrize("label", [lambda ax: ax.set_xticks([0, 1], [1, 20]), lambda ax: ax.set_yticklabels([20] * 6)])
@pytest.mark.filterwarnings("ignore:set_ticklabels")
def test_labels_of_ticks_may_be_numbers(label):
    assert "20" in digest_of(label)


def test_digest_of_words_in_full():
    fig, ax = plt.subplots()
    fig.suptitle("fruit")
    ax.text(0.5, -1e-9, "apple")
    ax.annotate("here", (1, 2), (3, 4))
    ax.set_xticks([0, 1], ["no", "yes"])
    ax.plot([], [], label="one")
    ax.legend(title="lines")
    assert figure.digest(fig).splitlines() == [
        "axes 1:  |  | ",
        "  line (0, 2) empty",
        "  text at 0.500 0.000: apple",
        "  text at 3.000 4.000 to 1.000 2.000: here",
        "  ticks x: no | yes",
        "  legend: lines | one",
        "text: fruit",
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


def test_a_palette_makes_a_picture_of_thin_lines_smaller_and_hardly_another():
    fig, ax = plt.subplots()
    for n in range(60):
        ax.plot([0, 1], [n, 60 - n], color=plt.get_cmap("viridis")(n / 60), lw=1)
    fig.canvas.draw()
    whole, small = figure.png(fig, compress_level=9), figure.png(fig, compress_level=9, palette=True)
    plt.close(fig)
    assert len(small) < 0.6 * len(whole)
    pictures = [Image.open(io.BytesIO(data)) for data in (whole, small)]
    assert pictures[1].mode == "P" and len(pictures[1].getcolors()) <= 256
    one, other = (np.asarray(picture.convert("RGB"), dtype=float) for picture in pictures)
    assert np.abs(one - other).mean() < 3
