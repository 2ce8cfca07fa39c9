"""What an explorer promises, on a notebook with one control of each kind."""

import re
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

pytestmark = pytest.mark.xdist_group("synthetic")


@pytest.fixture(scope="module")
def notebook():
    return "synthetic.ipynb"


@pytest.fixture
def explorer(ran):
    (only,) = ran.explorers()
    return only


def said(explorer) -> dict:
    """What the kernel last computed with, from the words: the values of the controls by name."""
    _, words = explorer.settled()
    return dict(re.findall(r"(\w+)=([^\s]+?)\.?(?=\s|$)", words))


def test_controls_of_each_kind(explorer):
    assert (len(explorer.sliders), len(explorer.menus), len(explorer.boxes_to_tick)) == (4, 1, 1)


def test_alt_text(explorer):
    assert explorer.box.locator("img").get_attribute("alt") == "A line that rises from the left to the right."


@pytest.mark.parametrize("n", [3, 12, 0])  # the line ends low, high, and is a point
def test_the_page_shows_what_was_painted_in_its_place(explorer, unseen, n):
    slider = explorer.sliders[0]
    while int(slider.readout()) != n:
        slider.press("ArrowLeft" if int(slider.readout()) > n else "ArrowRight")
    assert said(explorer)["n"] == str(n)
    assert unseen.set(n=n)
    image = explorer.box.locator("img")
    image.scroll_into_view_if_needed()
    place = image.bounding_box()
    assert (place["width"], place["height"]) == pytest.approx((900, 360), abs=0.05)
    clip = {name: round(length) for name, length in place.items()}
    painted, seen = (
        np.asarray(Image.open(BytesIO(file)).convert("RGB")).astype(int)
        for file in (unseen.picture, explorer.visit.page.screenshot(clip=clip))
    )
    assert seen.shape == painted.shape
    assert (np.abs(seen - painted) > 8).mean() < 0.0005


def test_kernel_has_the_value_of_the_readout_after_a_fast_drag(explorer):
    _, top, height, base = explorer.sliders
    for slider, name in ((top, "top"), (height, "height"), (base, "base")):
        slider.drag(0.1, 0.9, 0.2, 0.95, 0.7)
        assert float(said(explorer)[name]) == float(slider.readout())


def test_impossible_setting_moves_the_slider_and_says_so(explorer):
    n, top, *_ = explorer.sliders
    top.drag(0.3)
    limit = said(explorer)["top"]
    n.drag(0.9)
    _, words = explorer.settled()
    assert re.match(rf"length n \d+ is not possible here, so it is now {limit}\.", words)
    assert said(explorer)["n"] == limit == n.readout()
    n.press("ArrowLeft")
    assert "not possible" not in explorer.words()


def test_menu_and_box_reach_the_kernel(explorer):
    explorer.menus[0].select_option("dashed")
    assert said(explorer)["kind"] == "dashed"
    explorer.boxes_to_tick[0].click()
    assert said(explorer)["dots"] == "True"


def test_a_row_of_buttons_reaches_the_kernel(explorer):
    whole, thick = (explorer.box.get_by_role("button", name=name, exact=True) for name in ("whole", "thick"))
    state = explorer.settled()
    assert explorer.answer_to(thick.click) != state
    assert said(explorer)["ends"] == "01"
    whole.press("Enter")
    assert said(explorer)["ends"] == "11"


def test_a_title_that_changes_comes_with_another_background(explorer):
    thick = explorer.box.get_by_role("button", name="thick", exact=True)
    image = explorer.box.locator("img")
    for _ in range(6):
        before = image.get_attribute("style")
        explorer.answer_to(thick.click)
        assert image.get_attribute("style") != before


def test_play_sweeps_the_main_control_until_it_is_paused(explorer):
    n, top, *_ = explorer.sliders
    top.drag(1.0)
    play = explorer.box.get_by_role("button", name="Play: length n")
    play.press("Enter")
    seen = {n.readout()}
    while len(seen) < 4:
        explorer.visit.page.wait_for_timeout(50)
        seen.add(n.readout())
    explorer.box.get_by_role("button", name="Pause: length n").press("Enter")
    explorer.visit.page.wait_for_timeout(500)
    words = explorer.settled()[1]
    assert said(explorer)["n"] == n.readout()
    explorer.visit.page.wait_for_timeout(500)
    assert explorer.settled()[1] == words
    expect(play).to_be_visible()
