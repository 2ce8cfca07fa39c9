"""Every notebook of the course as a learner meets it: opened, run, its controls moved by keyboard and by mouse."""

from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import expect

COURSE = sorted(path.name for path in (Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def alone(name):
    """All tests of one notebook go to one worker of pytest-xdist, which opens and runs it once."""
    return pytest.param(name, marks=pytest.mark.xdist_group(name))


@pytest.fixture(
    scope="module", params=map(alone, ["synthetic.ipynb", *COURSE] if COURSE else ["no notebook in notebooks/"])
)
def notebook(request):
    """Each notebook in turn; without one the first page does not open."""
    return request.param


def test_before_it_runs_a_page_shows_pictures(opened):
    for cell in opened.before:
        assert cell["widths"] and all(cell["widths"]), f"no picture where the explorer will be: {cell['text'][:200]}"
        assert "Error displaying widget" not in cell["text"] and "VBox(" not in cell["text"]
    assert opened.broken_before == []
    # JupyterLab draws a saved picture without its alt text, so the file is asked; other readers use it.
    assert len(opened.alt_before) == len(opened.before) and all(alt.strip() for alt in opened.alt_before)


def test_it_runs_without_error(ran):
    assert len(ran.explorers()) >= len(ran.explorer_cells)
    errors = ran.page.locator(".jp-OutputArea-output").evaluate_all(
        "outputs => outputs.filter(o => o.dataset.mimeType === 'application/vnd.jupyter.error'"
        " || /Error displaying widget|Traceback \\(most recent call last\\)/.test(o.textContent))"
        ".map(o => o.textContent.slice(0, 500))"
    )
    assert errors == []
    assert ran.troubles == []
    assert ran.broken_pictures() == []


def test_picture_has_alt_text_and_words_are_announced(ran):
    for explorer in ran.explorers():
        assert explorer.box.locator("img").get_attribute("alt").strip()
        words = explorer.box.locator("[role=status]")
        expect(words).to_have_count(1)
        expect(words).to_be_visible()
        expect(words).not_to_be_empty()


def test_every_slider_has_a_name_and_answers_the_arrow_keys(ran):
    for explorer in ran.explorers():
        picture, _ = explorer.settled()
        for slider in explorer.sliders:
            expect(slider.label()).to_be_visible()
            label = slider.label().inner_text().strip()
            assert label
            expect(slider.handle).to_have_attribute("aria-label", label)
            before, picture = picture, slider.press("ArrowRight")[0]
            if picture == before:  # it stands at its end
                picture = slider.press("ArrowLeft")[0]
            assert picture != before, f"{label}: no arrow key changes the picture"


def test_every_menu_and_box_answers(ran):
    for explorer in ran.explorers():
        state = explorer.settled()
        for menu in explorer.menus:
            states, first = {state}, menu.locator("option:checked").inner_text()
            options = menu.locator("option").all_inner_texts()
            for option in [*(option for option in options if option != first), first]:
                states.add(state := explorer.answer_to(partial(menu.select_option, option)))
            assert len(states) > 1, f"no option of {options} changes anything"
        for box in explorer.boxes_to_tick:
            assert explorer.answer_to(box.click) != state
            state = explorer.answer_to(box.click)


def test_a_fast_drag_ends_where_a_slow_one_does(ran):
    for explorer in ran.explorers():  # what all sliders share; their values are swept on the pages of the site
        for slider in explorer.sliders[:1]:
            slider.drag(0.9, 0.1, 0.6)
            picture, words = explorer.settled()
            value = slider.readout()
            assert slider.shows_its_value()
            slider.press("ArrowLeft")
            slow_picture, slow_words = slider.press("ArrowRight")
            if slider.readout() != value:  # the drag ended at the left end
                slow_picture, slow_words = slider.press("ArrowLeft")
            assert slider.readout() == value
            assert picture == slow_picture
            if "is not possible here" in words:  # said once, when the explorer moved the slider back
                assert words.endswith(slow_words)
            else:
                assert words == slow_words
