"""An explorer follows its controls, and what it blits is what a full drawing would show."""

import asyncio
from io import BytesIO

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from posenc_lib.view import Explorer, choice, figure, heatmap, slider, use_style
from posenc_lib.view.explorer import CALM, KEPT, STRIPS

X = np.linspace(0, 6, 50)


def draw(fig):
    left, right = fig.subplots(1, 2)
    left.set(ylim=(-20, 20), title="wave")
    left.axhline(0, color="grey")
    return {
        "wave": left.plot(X, 0 * X),
        "map": heatmap(right, np.zeros((4, 4)), vmin=-20, vmax=20),
        "marks": [left.axvline(0), left.axvline(0)],
        "note": right.text(0, 0, ""),
    }


def update(artists, k):
    if k == 7:
        raise ValueError("k must not be 7, got 7")
    artists.wave.set_ydata(k * np.sin(X))
    artists.map.set_data(np.arange(16).reshape(4, 4) - k)
    for step, mark in enumerate(artists.marks, start=1):
        mark.set_xdata([step * k / 8] * 2)
    artists.note.set_text(f"k = {k}")
    return f"The peak is at {k}."


def update_limits(artists, k):
    artists.wave.axes.set_ylim(-k, k)
    return update(artists, k)


def update_title(artists, k):
    artists.wave.axes.set_title(f"wave of height {k}")
    return update(artists, k)


def explorer(k=3, update=update, **options):
    return Explorer(draw, update, alt="A wave and a map.", k=slider("height", 1, 20, k), **options)


@pytest.fixture
def drawings(monkeypatch):
    """One entry for every time a whole figure is drawn."""
    calls, original = [], FigureCanvasAgg.draw
    monkeypatch.setattr(FigureCanvasAgg, "draw", lambda canvas: (calls.append(canvas), original(canvas)))
    return calls


def test_first_state_is_drawn():
    e = explorer()
    assert e.picture.startswith(b"\x89PNG")
    assert e.words == "The peak is at 3."
    assert e.values == {"k": 3}
    assert e.picture != explorer(4).picture


@pytest.mark.parametrize("update", [update, update_limits, update_title])
@pytest.mark.parametrize("style", [False, True])
def test_moved_picture_is_the_picture_of_a_fresh_explorer(update, style):
    if style and update is not update_limits:  # there the axes keep the place that the first labels gave them
        use_style()
    moved = explorer(3, update)
    before = moved.picture
    for k in (20, 1, 12):
        moved.controls["k"].value = k
        fresh = explorer(k, update)
        assert moved.picture == fresh.picture
        assert moved.words == fresh.words == f"The peak is at {k}."
    moved.controls["k"].value = 3
    assert moved.picture == before != fresh.picture


@pytest.mark.parametrize("update, expected", [(update, 0), (update_limits, 1), (update_title, 1)])
def test_whole_figure_is_drawn_only_if_the_background_changed(drawings, update, expected):
    e = explorer(3, update)
    assert len(drawings) == 1
    e.controls["k"].value = 12
    assert len(drawings) == 1 + expected


def test_axes_keep_their_places():
    use_style()
    e = explorer(3, update_limits)
    places = [ax.get_position().bounds for ax in e._figure.axes]
    e.controls["k"].value = 20
    assert [ax.get_position().bounds for ax in e._figure.axes] == places


def test_a_refusal_is_shown_in_words_and_the_picture_stays():
    e = explorer(6)
    picture = e.picture
    e.controls["k"].value = 7
    assert e.words == "Not possible: k must not be 7, got 7."
    assert e.picture == picture
    e.controls["k"].value = 8
    assert e.words == "The peak is at 8."
    assert e.picture == explorer(8).picture


def test_a_refusal_at_the_start_is_shown_in_words():
    assert explorer(7).words == "Not possible: k must not be 7, got 7."


def test_other_errors_are_not_swallowed():
    def broken(artists, k):
        raise KeyError("wrong name")

    with pytest.raises(KeyError):
        explorer(3, broken)


def pair(clamp):
    def update_pair(artists, low, high):
        artists.wave.set_ydata(low * np.sin(X) + high)
        return f"From {low} to {high}."

    controls = {"low": slider("lowest", 0, 10, 2), "high": slider("highest", 0, 10, 5)}
    return Explorer(draw, update_pair, "A wave.", clamp, **controls)


def test_clamp_moves_the_control_and_says_so():
    e = pair(lambda low, high: {"high": max(low, high)})
    assert e.words == "From 2 to 5."
    e.controls["low"].value = 8
    assert e.values == {"low": 8, "high": 8}
    assert e.words == "highest 5 is not possible here, so it is now 8. From 8 to 8."
    e.controls["low"].value = 4
    assert e.words == "From 4 to 8."


def test_clamp_answers_once(drawings):
    calls = []
    e = pair(lambda low, high: calls.append((low, high)) or {"high": max(low, high)})
    calls.clear()
    e.controls["low"].value = 8
    assert calls == [(8, 5)]


def test_clamp_moves_a_menu_too():
    def update_menu(artists, k, layout):
        return f"{layout} {k}."

    controls = {"k": slider("height", 0, 10, 2), "layout": choice("layout", ["half", "interleaved"], "half")}
    e = Explorer(draw, update_menu, "A.", lambda k, layout: {"layout": "interleaved"} if k > 5 else {}, **controls)
    e.controls["k"].value = 6
    assert e.words.endswith("interleaved 6.")


@pytest.mark.parametrize("alt", ["", " \n"])
def test_refuses_a_picture_without_alt_text(alt):
    with pytest.raises(ValueError, match="alt") as refusal:
        Explorer(draw, update, alt=alt, k=slider("height", 1, 20, 3))
    assert repr(alt) in str(refusal.value)


def test_refuses_to_have_no_controls():
    with pytest.raises(ValueError, match=r"controls .* got none"):
        Explorer(draw, update, alt="A wave.")


def test_what_a_page_keeps():
    e = explorer(3)
    data, metadata = e._repr_mimebundle_()
    assert metadata == {"image/png": {"alt": "A wave and a map."}}
    assert data.keys() == {"text/plain", "image/png", "application/vnd.jupyter.widget-view+json"}
    assert data["image/png"].startswith(b"\x89PNG")
    lines = data["text/plain"].splitlines()
    assert lines[:3] == ["A wave and a map.", "height = 3", "The peak is at 3."]
    assert lines[3:] == figure.digest(e._figure).splitlines()
    assert data["text/plain"] == explorer(3)._repr_mimebundle_()[0]["text/plain"]
    assert data["text/plain"] != explorer(4)._repr_mimebundle_()[0]["text/plain"]
    view = data["application/vnd.jupyter.widget-view+json"]
    assert (view["version_major"], view["model_id"]) == (2, e._box.model_id)
    assert list(e._box.children[0].children) == [e.controls["k"]]


def test_kept_picture_has_the_pixels_of_the_first_state():
    e = explorer(3)
    first = e.picture
    e.controls["k"].value = 12
    kept = e._repr_mimebundle_()[0]["image/png"]
    with Image.open(BytesIO(kept)) as a, Image.open(BytesIO(first)) as b:
        assert (a.mode, a.size) == ("RGB", (900, 360))
        assert a.tobytes() == b.tobytes()


def test_kept_text_does_not_follow_the_controls():
    e = explorer(3)
    before = e._repr_mimebundle_()[0]["text/plain"]
    e.controls["k"].value = 12
    assert e._repr_mimebundle_()[0]["text/plain"] == before


def test_screen_follows_and_keeps_its_alt_text():
    e = explorer(3)
    screen = e._box.children[1]
    assert screen.alt == "A wave and a map."
    e.controls["k"].value = 12
    assert ((screen.background, screen.layer), screen.words) == (e.layers, "The peak is at 12.")


@pytest.mark.parametrize("ratio", [1, 2])
def test_the_layer_upon_the_background_is_what_matplotlib_paints_there(ratio):
    e = explorer(12)
    e.ratio = ratio
    e._canvas.draw()
    for artist in e._moving:
        artist.axes.draw_artist(artist)
    whole = np.asarray(e._canvas.buffer_rgba())[..., :3].astype(int)
    assert whole.shape[1] == ratio * e.width
    with Image.open(BytesIO(e.picture)) as picture:
        shown = np.asarray(picture).astype(int)
    assert shown.shape == whole.shape
    assert np.abs(shown - whole).max() <= 12  # 32 degrees of opacity, red, green and blue at the edges
    assert (np.abs(shown - whole) > 5).mean() < 0.001
    e.ratio = 1
    with Image.open(BytesIO(e.picture)) as small:
        blurred = np.asarray(small.resize(whole.shape[1::-1], Image.Resampling.BICUBIC)).astype(int)
    sharper = (np.abs(blurred - whole) > 40).mean() - (np.abs(shown - whole) > 40).mean()
    assert sharper > 0.01 if ratio == 2 else sharper == 0


def test_only_the_layer_changes_while_the_background_stays():
    e = explorer(3)
    before = e.layers
    e.controls["k"].value = 12
    assert e.layers[0] == before[0]
    assert e.layers[1] != before[1]
    e = explorer(3, update_title)
    before = e.layers
    e.controls["k"].value = 12
    assert e.layers[0] != before[0]


def draw_dot(fig):
    ax = fig.add_axes((0, 0, 1, 1), xlim=(0, 1), ylim=(0, 1))
    return {"dot": ax.plot([], [], "o", ms=4)}


def update_dot(artists, k):
    artists.dot.set_data([0.5], [(2 * k - 1) / 40])
    return f"At {k}."


@pytest.mark.parametrize("ratio", [1, 2])
@pytest.mark.parametrize("k", [1, 2, 11, 20])
def test_empty_rows_above_and_below_the_layer_are_left_out(k, ratio):
    e = Explorer(draw_dot, update_dot, alt="A dot.", k=slider("height", 1, 20, k), size=(3.01, 2.03))
    e.ratio = ratio
    with Image.open(BytesIO(e.layers[1])) as layer:
        width, height = layer.size
    above, below = (margin * width for margin in e.margins)
    assert height <= ratio * (2 * 203 / STRIPS + 2)
    assert above + height + below == pytest.approx(ratio * 203)
    middle = ratio * 203 * (1 - (2 * k - 1) / 40)
    assert above <= middle <= above + height
    with Image.open(BytesIO(e.picture)) as picture:
        blue = np.asarray(picture).astype(int) @ (-1, 0, 1) > 100
    assert blue.any() and abs(np.flatnonzero(blue.any(axis=1)).mean() - middle) <= ratio


def test_a_layer_with_nothing_in_it():
    e = Explorer(draw_dot, lambda artists, k: "Nothing.", alt="Nothing.", k=slider("height", 1, 20, 1), size=(3, 1.6))
    with Image.open(BytesIO(e.layers[1])) as layer:
        assert layer.size == (300, 10) and not np.asarray(layer.convert("RGBA"))[..., 3].any()
    assert e.margins == (0, 0.5)


def test_twice_the_pixels():
    e = explorer(3)
    sizes = []
    for ratio in (1, 2, 1):
        e.ratio = ratio
        sizes.append([Image.open(BytesIO(data)).size for data in e.layers])
    assert [background for background, _ in sizes] == [(900, 360), (1800, 720), (900, 360)]
    assert sizes[1][1] == tuple(2 * pixels for pixels in sizes[0][1]) and sizes[2] == sizes[0]
    assert e.picture == explorer(3).picture


def test_play_goes_through_a_sweep_and_begins_anew():
    e = explorer(3, play="k")
    assert e._screen.main == "height"
    seen = []
    for step in range(1, 20 + 1):
        e._screen.step = step
        seen.append(e.values["k"])
    assert seen == [4, 5, 6, *range(7, 21), 1, 2, 3]
    assert explorer(3)._screen.main == ""


def test_play_begins_anew_where_the_rest_is_not_possible():
    def update_pair(artists, low, high):
        return f"From {low} to {high}."

    controls = {"low": slider("lowest", 0, 10, 2), "high": slider("highest", 0, 10, 4)}
    clamp = lambda low, high: {"low": min(low, high)}  # noqa: E731
    e, seen = Explorer(draw, update_pair, "A wave.", clamp, play="low", **controls), []
    for step in range(1, 6):
        e._screen.step = step
        seen.append(e.values["low"])
    assert seen == [3, 4, 0, 1, 2]
    assert e.words == "From 2 to 4."


def test_play_of_a_menu():
    def update_menu(artists, layout):
        return f"{layout}."

    e = Explorer(draw, update_menu, "A.", play="layout", layout=choice("layout", ["half", "interleaved"], "half"))
    words = []
    for step in (1, 2):
        e._screen.step = step
        words.append(e.words)
    assert words == ["interleaved.", "half."]


def test_a_control_takes_others_back_to_the_start():
    def update_all(artists, k, question, answer):
        return f"{question} {answer} {k}."

    controls = {"question": choice("question", ["1", "2"], "1"), "answer": choice("answer", ["?", "a"], "?")}
    e = Explorer(draw, update_all, "A.", resets={"question": ("answer",)}, k=slider("n", 0, 9, 3), **controls)
    e.controls["answer"].value, e.controls["k"].value = "a", 5
    assert e.words == "1 a 5."
    e.controls["question"].value = "2"
    assert e.words == "2 ? 5."
    e.set(question="1", answer="a")  # all at once: nothing is taken back
    assert e.words == "1 a 5."


@pytest.mark.parametrize(
    "option", [{"play": "m"}, {"together": [("k", "m")]}, {"resets": {"k": ("m",)}}, {"resets": {"m": ("k",)}}]
)
def test_refuses_names_of_controls_that_are_not_there(option):
    with pytest.raises(ValueError, match=next(iter(option))) as refusal:
        explorer(3, **option)
    assert "'m'" in str(refusal.value) and "'k'" in str(refusal.value)


def test_several_controls_are_set_at_once(drawings):
    answers = []
    e = pair(lambda low, high: answers.append((low, high)) or {})
    answers.clear()
    assert e.set(low=1, high=9)
    assert answers == [(1, 9)] and e.words == "From 1 to 9."
    assert not explorer(3).set(k=7)


def moved(*values, update=update, pause=0.0):
    """The explorer after a hand has moved its slider in a loop, and the values that were painted."""
    painted = []

    def noted(artists, k):
        painted.append(k)
        return update(artists, k)

    async def move():
        asked = explorer(update=noted)
        for value in values:
            asked.controls["k"].value = value
            await asyncio.sleep(pause)
        return asked

    return asyncio.run(move()), painted


def test_the_next_picture_of_a_steady_movement_is_ready():
    assert moved(4, 5, 6, pause=10 * CALM)[1] == [3, 4, 5, 6, 7]
    assert moved(8, 13, pause=10 * CALM)[1] == [3, 8, 13, 18]


def test_nothing_is_painted_ahead_of_a_hand_that_does_not_rest():
    assert moved(4, 5, 6)[1] == [3, 4, 5, 6]


def test_nothing_is_painted_beyond_the_end():
    assert moved(20, pause=10 * CALM)[1] == [3, 20]


def test_the_way_back_is_not_painted_again():
    assert moved(4, 3, 4, 3)[1] == [3, 4]


def test_only_the_last_pictures_are_kept():
    way = range(8, 8 + KEPT)
    assert moved(*way, 3)[1] == [3, *way, 3]


@pytest.mark.parametrize("change", [update, update_limits, update_title])
@pytest.mark.parametrize("way", [(4, 5), (4, 5, 4), (5, 6, 2), (6, 5, 5, 6)])
def test_a_picture_painted_ahead_is_the_picture_of_a_fresh_explorer(change, way):
    asked, _ = moved(*way, update=change, pause=3 * CALM)
    fresh = explorer(k=way[-1], update=change)
    assert asked.picture == fresh.picture and asked.words == fresh.words


def test_a_move_to_what_was_refused_ahead_says_why():
    assert moved(5, 6, 7, pause=3 * CALM)[0].words == "Not possible: k must not be 7, got 7."


def test_set_paints_anew():
    asked, painted = moved(4)
    asked.set(k=4)
    assert painted == [3, 4, 4]
