"""The site: a page whose explorer has no kernel, opened from a folder, answers every control from its recording."""

import os
import re
import shutil
from pathlib import Path

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from build_site import build

pytestmark = pytest.mark.xdist_group("site")
WORDS = """# A course

The words.

```{toctree}
synthetic
```
"""


@pytest.fixture(scope="module")
def notebook(synthetic_in, tmp_path_factory):
    """A notebook with one explorer and a formula."""
    if shutil.which("npm") is None:
        (pytest.fail if os.environ.get("REQUIRE_BROWSER") == "1" else pytest.skip)(
            "no npm found: MathJax comes from it"
        )
    path = synthetic_in(tmp_path_factory.mktemp("site"))
    written = nbformat.read(path, as_version=4)
    written.cells.insert(0, nbformat.v4.new_markdown_cell("# Sliders\n\nWith $x_i^2$.", id="title"))
    nbformat.write(written, path)
    return path


def built(notebook) -> Path:
    """The folder of a site of that notebook, with an umlaut and a space in its path."""
    words, folder = notebook.parent / "words", notebook.parent / "Site Ü"
    words.mkdir(exist_ok=True)
    (words / "index.md").write_text(WORDS)
    assert build(folder, [notebook], words, 2, 5, 3) == 1
    return folder


@pytest.fixture(scope="module")
def site(notebook):
    return built(notebook)


class Page:
    """A page of the site in a window of its own, with what it complains of and asks for."""

    def __init__(self, browser, address: str, **window):
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 1000}} | window)
        self.page, self.troubles, self.asked = self.context.new_page(), [], []
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("console", lambda m: m.type == "error" and self.troubles.append(m.text))
        self.page.on("requestfailed", lambda request: self.troubles.append(request.url))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)
        self.box = self.page.locator(".posenc-explorer")
        self.words = self.box.locator("[role=status]")
        self.box.locator("output").first.wait_for()

    def state(self) -> tuple[str, str, str]:
        """Layer, background and words."""
        picture = self.box.locator("img")
        return picture.get_attribute("src"), picture.evaluate("i => i.style.backgroundImage"), self.words.inner_text()

    def control(self, label: str):
        """The control with this label."""
        return self.box.get_by_label(label, exact=True)


@pytest.fixture
def page(browser, site):
    opened = Page(browser, (site / "synthetic.html").as_uri())
    yield opened
    opened.context.close()


def test_it_opens_from_a_folder_and_asks_nobody(page, site):
    expect(page.page.locator("mjx-container")).to_have_count(1)
    page.page.wait_for_load_state("networkidle")
    assert page.troubles == []
    assert [url for url in page.asked if not url.startswith((site.as_uri(), "data:"))] == []


def test_every_control_answers_the_keyboard(page):
    for label, key in (("length n", "ArrowRight"), ("top", "ArrowLeft"), ("height", "End"), ("base", "Home")):
        before = page.state()
        page.control(label).press(key)
        expect(page.words).not_to_have_text(before[2])
        assert page.state()[0] != before[0]
    for act in (
        lambda: page.control("line").select_option("dashed"),
        lambda: page.control("dots").press("Space"),
        lambda: page.box.get_by_role("button", name="thick").press("Enter"),
    ):
        before = page.state()
        act()
        expect(page.words).not_to_have_text(before[2])
        assert page.state()[0] != before[0]
    assert page.troubles == []


def test_what_was_not_recorded_together_goes_back_and_the_page_says_so(page):
    page.control("dots").press("Space")
    expect(page.words).to_contain_text("dots=True")
    page.control("top").press("ArrowRight")
    expect(page.words).to_contain_text("Back at the start: dots.")
    expect(page.words).to_contain_text("dots=False")
    assert not page.control("dots").is_checked()


def test_two_that_belong_together_move_together(page):
    page.control("height").press("End")
    expect(page.words).to_contain_text("height=1.00 base=10 ")
    page.control("base").press("Home")
    expect(page.words).to_contain_text("height=1.00 base=1 ")
    assert "Back" not in page.words.inner_text()


def test_an_impossible_setting_is_said_in_words(page):
    page.control("length n").press("End")
    expect(page.words).to_contain_text("length n 40 is not possible here, so it is now 20.")
    assert page.box.locator("output").first.inner_text() == "20"


def test_play_and_pause(page):
    page.box.get_by_role("button", name="Play: length n").press("Enter")
    first = re.search(r"n=\d+", page.words.inner_text())[0]
    expect(page.words).not_to_contain_text(f"{first} ")
    page.box.get_by_role("button", name="Pause: length n").press("Enter")
    page.page.wait_for_timeout(300)
    state = page.state()
    page.page.wait_for_timeout(500)
    assert page.state() == state


def test_two_pixels_per_point(page):
    sizes = page.box.locator("img").evaluate("i => [i.naturalWidth, i.naturalHeight]")
    assert sizes == [1800, 720]


@pytest.mark.parametrize("window", [{}, {"viewport": {"width": 360, "height": 740}}, {"color_scheme": "dark"}])
def test_it_can_be_read_by_everybody(browser, site, window):
    page = Page(browser, (site / "synthetic.html").as_uri(), **window)
    assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    found = Axe().run(page.page).response["violations"]
    assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
    page.context.close()


def test_only_a_changed_notebook_is_recorded_again(site, notebook):
    recorded = site.with_name(f"{site.name}-work") / "recordings" / "synthetic" / "explorers.json"
    written, text = recorded.stat().st_mtime_ns, notebook.read_text()
    built(notebook)
    assert recorded.stat().st_mtime_ns == written
    notebook.write_text(text.replace("title=", "label='line', title="))
    built(notebook)
    assert recorded.stat().st_mtime_ns != written
    notebook.write_text(text)


def test_a_page_that_does_not_show_what_was_recorded_is_an_error(site, notebook):
    text = notebook.read_text()
    notebook.write_text(re.sub(r'"alt": "[^"]*"', '"alt": "Something else."', text))
    with pytest.raises(ValueError, match="does not show the explorer"):
        built(notebook)
    notebook.write_text(text)
