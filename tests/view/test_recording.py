"""A recording holds what the live explorer shows for the same values, and the same bytes every time."""

import json
from io import BytesIO

import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

from posenc_lib.view import Explorer, choice, log_slider, slider, toggle, toggles
from posenc_lib.view.pixels import webp
from posenc_lib.view.recording import RATIO, record


def pixels(file):
    """The pixels of a picture; where nothing is, there is no colour either."""
    seen = np.asarray(Image.open(BytesIO(file)).convert("RGBA"))
    return np.where(seen[..., 3:] > 0, seen, 0)


def draw(fig):
    ax = fig.subplots()
    ax.set(xlim=(0, 20), ylim=(0, 20), title="A line")
    return {"line": ax.plot([], [], "o-")}


def update(artists, n, top, base, kind, dots, words):
    if n == 7:
        raise ValueError("n must not be 7, got 7")
    artists.line.set_data(range(n + 1), [top * (i / 20) ** (base / 10) for i in range(n + 1)])
    artists.line.set_linestyle({"solid": "-", "dashed": "--"}[kind])
    artists.line.set_marker("o" if dots else "")
    if words[1]:
        artists.line.axes.set_title("Another title")
    else:
        artists.line.axes.set_title("A line")
    return f"{n} {top} {base:g} {kind} {dots} {words}."


def explorer():
    return Explorer(
        draw,
        update,
        alt="A line.",
        size=(4, 2),
        clamp=lambda n, top, **others: {"n": min(n, top)},
        play="n",
        together=[("n", "base")],
        n=slider("length", 0, 20, 8),
        top=slider("top", 1, 20, 10),
        base=log_slider("base", 1, 100, 10, 1),
        kind=choice("line", ["solid", "dashed"], "solid"),
        dots=toggle("dots", False),
        words=toggles("words", ("a", "b"), (False, False)),
    )


@pytest.fixture(scope="module")
def recorded():
    with plt.rc_context():  # it is made before the style of the first test is
        plt.rcdefaults()
        return record(explorer(), most=5, pair=3)


def test_it_says_what_the_page_has_to_know(recorded):
    page, _ = recorded
    assert json.loads(json.dumps(page)).keys() == {"alt", "width", "play", "together", "resets", "controls", "states"}
    assert (page["alt"], page["width"], page["play"], page["resets"]) == ("A line.", 400, "n", {})
    kinds = {control["name"]: (control["kind"], control["label"]) for control in page["controls"]}
    assert kinds == {
        "n": ("slider", "length"),
        "top": ("slider", "top"),
        "base": ("slider", "base"),
        "kind": ("menu", "line"),
        "dots": ("box", "dots"),
        "words": ("row", "words"),
    }
    (n,) = (control for control in page["controls"] if control["name"] == "n")
    assert len(n["texts"]) == 5 and (n["texts"][0], n["texts"][n["start"]], n["texts"][-1]) == ("0", "8", "20")
    (words,) = (control for control in page["controls"] if control["name"] == "words")
    assert words["names"] == ("a", "b") and words["values"][words["start"]] == (False, False)


def test_every_control_is_swept_and_pairs_are_combined(recorded):
    page, pictures = recorded
    singles = {f"{control['name']}={n}" for control in page["controls"] for n in range(len(control["texts"]))}
    ((names, places),) = ((pair["names"], pair["places"]) for pair in page["together"])
    pairs = {f"n={a},base={b}" for a in places[0] for b in places[1]}
    assert names == ("n", "base") and len(pairs) == 9
    assert page["states"].keys() == singles | pairs
    assert {name for state in page["states"].values() for name in state[:2] if name} == pictures.keys()


def test_a_state_is_what_a_live_explorer_shows(recorded):
    page, pictures = recorded
    texts = {control["name"]: control["texts"] for control in page["controls"]}
    live = explorer()
    live.ratio = RATIO
    changes = {"n=1": {"n": int(texts["n"][1])}, "dots=1": {"dots": True}, "words=1": {"words": (False, True)}}
    for name, values in changes.items():
        live.set(**explorer().values | values)
        layer, background, words, moved = page["states"][name]
        assert (words, moved) == (live.words, {})
        above, below = (round(margin * RATIO * live.width) for margin in live.margins)
        whole = np.pad(pixels(live.layers[1]), ((above, below), (0, 0), (0, 0)))
        assert np.array_equal(pixels(pictures[layer]), whole)
        assert np.array_equal(pixels(pictures[background]), pixels(live.layers[0]))


def test_impossible_settings_are_moved_and_refusals_leave_the_picture():
    page, _ = record(explorer(), most=21, pair=3)
    layer, background, words, moved = page["states"]["n=7"]
    assert (layer, background, moved) == (None, None, {}) and words == "Not possible: n must not be 7, got 7."
    _, _, words, moved = page["states"]["n=15"]
    assert moved == {"n": "10"} and words.startswith("length 15 is not possible here, so it is now 10.")


def test_the_same_bytes_from_the_same_code(recorded):
    assert record(explorer(), most=5, pair=3) == recorded
    one = explorer()
    start = one.values
    assert record(one, most=5, pair=3) == recorded
    assert one.values == start


def test_an_explorer_that_remembers_is_refused():
    count = iter(range(1000))

    def update_and_count(artists, **values):
        artists.line.set_data([0, 20], [0, next(count)])
        return "One more."

    remembers = Explorer(draw, update_and_count, alt="A line.", n=slider("length", 0, 20, 8))
    with pytest.raises(RuntimeError, match=r"'A line\.' at n=.* depends on what it showed before"):
        record(remembers, most=5)


def test_what_is_recorded_other_than_it_is_shown_is_refused(monkeypatch):
    monkeypatch.setattr("posenc_lib.view.recording.webp", lambda pixels: webp(np.roll(pixels, 1, axis=1)))
    with pytest.raises(RuntimeError, match=r"'A line\.' at .* is recorded other than it is shown"):
        record(explorer(), most=5, pair=3)


def test_a_slider_with_heavy_pictures_has_fewer_values(recorded, monkeypatch):
    whole, pictures = recorded
    shown = {name for key, state in whole["states"].items() if key.startswith("top=") for name in state[:2]}
    monkeypatch.setattr("posenc_lib.view.recording.HEAVIEST", 0.9 * sum(len(pictures[name]) for name in shown))
    page, fewer = record(explorer(), most=5, pair=3)
    (before,), (now,) = ([c for c in p["controls"] if c["name"] == "top"] for p in (whole, page))
    assert 3 <= len(now["texts"]) < len(before["texts"]) and set(now["texts"]) < set(before["texts"])
    assert (now["texts"][0], now["texts"][now["start"]], now["texts"][-1]) == ("1", "10", "20")
    for place, said in enumerate(now["texts"]):
        assert page["states"][f"top={place}"] == whole["states"][f"top={before['texts'].index(said)}"]
    assert set(fewer) == {name for state in page["states"].values() for name in state[:2] if name}
    assert [c["texts"] for c in page["controls"] if c["kind"] != "slider"] == [
        c["texts"] for c in whole["controls"] if c["kind"] != "slider"
    ]
