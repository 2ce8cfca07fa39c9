"""The player of recordings: an explorer with one control of each kind, on a page without a kernel."""

import re

import pytest
from playwright.sync_api import expect

from static_page import StaticPage

pytestmark = pytest.mark.xdist_group("99_synthetic")


@pytest.fixture
def page(browser, site):
    opened = StaticPage(browser, site / "99_synthetic.html")
    yield opened
    opened.close()


@pytest.fixture
def explorer(page):
    (only,) = page.explorers
    return only


def test_every_control_answers_the_keyboard(page, explorer):
    for label, key in (("length n", "ArrowRight"), ("top", "ArrowLeft"), ("height", "End"), ("base", "Home")):
        before = explorer.state()
        explorer.control(label).press(key)
        expect(explorer.words).not_to_have_text(before[1])
        assert explorer.state(before, limit=2000)[0] != before[0]
    for act in (
        lambda: explorer.control("line").select_option("dashed"),
        lambda: explorer.control("dots").press("Space"),
        lambda: explorer.box.get_by_role("button", name="thick").press("Enter"),
    ):
        before = explorer.state()
        act()
        expect(explorer.words).not_to_have_text(before[1])
        assert explorer.state(before, limit=2000)[0] != before[0]
    assert page.troubles == []


def test_what_was_not_recorded_together_goes_back_and_the_page_says_so(explorer):
    explorer.control("dots").press("Space")
    expect(explorer.words).to_contain_text("dots=True")
    explorer.control("top").press("ArrowRight")
    expect(explorer.words).to_contain_text("Back at the start: dots.")
    expect(explorer.words).to_contain_text("dots=False")
    assert not explorer.control("dots").is_checked()


def test_two_that_belong_together_move_together(explorer):
    explorer.control("height").press("End")
    expect(explorer.words).to_contain_text("height=1.00 base=10 ")
    explorer.control("base").press("Home")
    expect(explorer.words).to_contain_text("height=1.00 base=1 ")
    assert "Back" not in explorer.words.inner_text()


def test_three_that_belong_together_move_together(explorer):
    explorer.control("dots").press("Space")
    explorer.control("line").select_option("dashed")
    explorer.box.get_by_role("button", name="thick").click()
    expect(explorer.words).to_contain_text("kind=dashed dots=True ends=01")
    assert "Back" not in explorer.words.inner_text()


def test_what_another_control_resets_goes_back_without_a_word(explorer):
    explorer.control("dots").press("Space")
    explorer.box.get_by_role("button", name="thick").click()
    expect(explorer.words).to_contain_text("kind=solid dots=True ends=01")
    explorer.control("line").select_option("dashed")
    expect(explorer.words).to_contain_text("kind=dashed dots=True ends=00")
    assert "Back" not in explorer.words.inner_text()


def test_a_key_leads_to_the_next_place_that_was_recorded(explorer):
    explorer.control("base").press("End")
    expect(explorer.words).to_contain_text("height=0.50 base=100 ")
    explorer.control("height").press("ArrowRight")
    expect(explorer.words).to_contain_text("height=1.00 base=100 ")
    explorer.control("height").press("ArrowLeft")
    expect(explorer.words).to_contain_text("height=0.50 base=100 ")


def test_it_says_what_a_running_notebook_has_more(explorer):
    expect(explorer.box).to_contain_text(
        "On this page height and base; line, dots and ends move together, the others one"
    )


def test_an_impossible_setting_is_said_in_words(explorer):
    explorer.control("length n").press("End")
    expect(explorer.words).to_contain_text("length n 40 is not possible here, so it is now 20.")
    assert explorer.box.locator("output").first.inner_text() == "20"


def test_play_and_pause(page, explorer):
    explorer.box.get_by_role("button", name="Play: length n").press("Enter")
    first = re.search(r"n=\d+", explorer.words.inner_text())[0]
    expect(explorer.words).not_to_contain_text(f"{first} ")
    explorer.box.get_by_role("button", name="Pause: length n").press("Enter")
    page.page.wait_for_timeout(300)
    state = explorer.state()
    page.page.wait_for_timeout(500)
    assert explorer.state() == state


def test_two_pixels_per_point(explorer):
    sizes = explorer.box.locator("img").evaluate("i => [i.naturalWidth, i.naturalHeight]")
    assert sizes == [1800, 720]


def test_it_opens_from_a_folder_and_asks_nobody(page, site):
    expect(page.page.locator("mjx-container")).to_have_count(1)
    assert page.troubles == []
    assert [url for url in page.asked if not url.startswith((site.as_uri(), "data:"))] == []


@pytest.mark.parametrize("window", [{}, {"viewport": {"width": 360, "height": 740}}, {"color_scheme": "dark"}])
def test_it_can_be_read_by_everybody(browser, site, window):
    page = StaticPage(browser, site / "99_synthetic.html", **window)
    assert page.too_wide(page.page.viewport_size["width"]) == []
    assert page.violations() == []
    page.close()
