"""Every page of the site, opened from a folder: what it shows, asks for and weighs, and how its explorers answer.

``make site`` runs this on what it built anew, ``make test`` on a site with five values of each control.
"""

import json
import os
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest

from build_site import digests, ways_to_run
from static_page import StaticPage

NOTEBOOKS = {path.stem: path for path in sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))}
WORDS = ("index", "NOTATION", "teachers", "api", "lab", "search", "genindex")
MEGABYTE = 1e6
CHANGED = os.environ["PAGES"].split() if "PAGES" in os.environ else [*WORDS, *NOTEBOOKS]  # the pages to look at
COLOURED = ("index", "02_learned")  # colours are looked at in the light and in the dark; all pages have the same


def alone(name: str):
    """All tests of a page go to one worker of pytest-xdist, which opens it once."""
    return pytest.param(name, marks=pytest.mark.xdist_group(name))


@pytest.fixture(scope="module", params=[alone(name) for name in (*WORDS, *NOTEBOOKS) if name in CHANGED])
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def page(browser, site, name):
    opened = StaticPage(browser, site / f"{name}.html")
    yield opened
    opened.close()


class Links(HTMLParser):
    """What a page links to, and where it can be linked to."""

    def __init__(self, path: Path):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list) -> None:
        """Keep what the start of an element says."""
        given = dict(attrs)
        self.ids.add(given.get("id"))
        self.links += [given[name] for name in ("href", "src") if given.get(name)]


def shown_in(notebook: Path) -> list[str]:
    """The alt texts of the explorers that a notebook shows."""
    cells = nbformat.read(notebook, as_version=4).cells
    shown = [cell.get("outputs", ()) for cell in cells if "Explorer(" in cell.source]
    pictures = [
        [o.metadata["image/png"]["alt"] for o in outputs if "image/png" in o.get("data", {})] for outputs in shown
    ]
    return [alts[-1] for alts in pictures if alts]  # a cell may draw something above its explorer


def weight(files: set[Path]) -> float:
    """In megabytes."""
    return sum(path.stat().st_size for path in files) / MEGABYTE


def test_it_opens_without_an_error_and_asks_nobody_else(page, site):
    assert page.troubles == []
    assert [url for url in page.asked if not url.startswith((site.as_uri(), "data:"))] == []
    assert page.page.locator("mjx-merror").count() == 0
    assert page.page.evaluate("[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)") == []


def test_it_weighs_little(page, site, name):
    first = {path for path in page.files() if path.is_relative_to(site)}
    shared = {path for path in first if path.relative_to(site).parts[0] == "_static" and "recordings" not in path.parts}
    assert weight(first) <= 2.5
    assert weight(first - shared) <= 1.0


def test_it_can_be_read_by_everybody(page, browser, site, name):
    said = page.page.evaluate("[...document.images].map(i => i.alt)")
    assert [alt for alt in said if " " not in alt] == []
    assert page.violations(contrast=name in COLOURED) == []
    if name in COLOURED:
        dark = StaticPage(browser, site / f"{name}.html", viewport={"width": 360, "height": 740}, color_scheme="dark")
        assert dark.violations() == []
        dark.close()


def test_it_fits_a_phone_and_a_screen(page):
    assert page.too_wide(360, 1280) == []


def test_every_control_of_every_explorer_changes_the_picture_and_the_words(page, site, name):
    if name not in NOTEBOOKS:
        pytest.skip("not the page of a notebook")
    alts = [explorer.box.locator("img").get_attribute("alt") for explorer in page.explorers]
    assert alts == shown_in(NOTEBOOKS[name])
    for explorer, recorded in zip(page.explorers, recordings(site, name)["explorers"], strict=True):
        swept = dict(explorer.sweeps())
        assert list(swept) == [control["label"] for control in recorded["controls"]]
        for label, states in swept.items():
            assert len({picture for picture, _ in states}) > 1, f"{label} does not change the picture"
            assert len({words for _, words in states}) > 1, f"{label} does not change the words"
    assert page.troubles == []


@pytest.mark.parametrize("stem", NOTEBOOKS)
def test_it_was_recorded_from_this_notebook(site, recording_options, stem):
    (digest,) = digests([NOTEBOOKS[stem]], *recording_options).values()
    assert recordings(site, stem)["digest"] == digest


@pytest.mark.parametrize("stem", NOTEBOOKS)
def test_a_control_asks_for_little_when_it_is_touched(site, stem):
    folder = site / "_static" / "recordings" / stem
    for number, explorer in enumerate(recordings(site, stem)["explorers"]):
        script = folder / f"{number}.js"
        states = json.loads(script.read_text().partition(" = ")[2].rstrip(";\n"))
        for control in explorer["controls"]:
            sweep = [states[f"{control['name']}={place}"] for place in range(len(control["texts"]))]
            pictures = {
                folder / f"{name}.webp" for layer, background, *_ in sweep for name in (layer, background) if name
            }
            assert weight({script} | pictures) <= 1.5, control["label"]


@pytest.mark.parametrize(("words", "of"), [("lab", "lab.inside.seen_scores"), ("api", "attention.scores")])
def test_docstrings_have_a_place(site, words, of):
    assert f"posenc_lib.{of}" in (site / f"{words}.html").read_text(encoding="utf-8")


def test_the_whole_site_weighs_little(site):
    assert weight({path for path in site.rglob("*") if path.is_file()}) <= 150


def test_links_lead_somewhere(site):
    pages = {path: Links(path) for path in site.glob("*.html")}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            found = target.is_file() and target.is_relative_to(site)
            if found and address.fragment and target in pages:
                found = unquote(address.fragment) in pages[target].ids
            if not found:
                broken.append(f"{path.name}: {link}")
    assert broken == []
    assert sum(len(page.links) for page in pages.values()) > 1000


def test_each_notebook_can_be_found_downloaded_and_left(page, site, name):
    if name not in NOTEBOOKS:
        pytest.skip("not the page of a notebook")
    for selector in (
        f'.sidebar-tree a[href$="{name}.html"], .sidebar-tree .current-page a',
        f'a[download][href="_static/notebooks/{name}.ipynb"]',
        ".related-pages .next-page",
        ".related-pages .prev-page",
    ):
        assert page.page.locator(selector).count() == 1, selector
    assert (site / "_static" / "notebooks" / f"{name}.ipynb").read_bytes() == NOTEBOOKS[name].read_bytes()


def test_ways_to_run_a_notebook():
    links = r'href="([^"]+)"'
    assert re.findall(links, ways_to_run("13_rope.ipynb", "")) == ["_static/notebooks/13_rope.ipynb"]
    assert re.findall(links, ways_to_run("13_rope.ipynb", "https://github.com/some/body.git"))[1:] == [
        "https://mybinder.org/v2/gh/some/body/HEAD?urlpath=lab/tree/notebooks/13_rope.ipynb",
        "https://colab.research.google.com/github/some/body/blob/HEAD/notebooks/13_rope.ipynb",
    ]


def test_no_solution_of_an_assignment_is_on_a_page(site):
    masters = (NOTEBOOKS["00_none"].parent / "assignments" / "source").rglob("*.ipynb")
    solutions = [
        block
        for master in masters
        for cell in nbformat.read(master, as_version=4).cells
        for block in re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", cell.source, re.S)
    ]
    lines = {line.strip() for block in solutions for line in block.splitlines() if len(line.strip()) > 30}
    assert len(lines) > 50
    for name in WORDS:
        text = unescape((site / f"{name}.html").read_text(encoding="utf-8"))
        assert [line for line in lines if line in text] == []


def recordings(site: Path, name: str) -> dict:
    """What is recorded of a notebook, but for the states."""
    return json.loads((site / "_static" / "recordings" / name / "explorers.json").read_text())
