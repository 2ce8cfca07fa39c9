"""A class in a folder of its own, as a teacher works there: release, grade, read answers in Formgrader, give feedback.

The pages that come of it are opened with a recorder: nothing that a student wrote runs, and no hidden test is shown.
"""

import csv
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from playwright.sync_api import expect

from labels import labelled

ASSIGNMENTS = Path(__file__).parents[2] / "notebooks" / "assignments"
NAME, HIDDEN, COMMENT = "waves", "assert triple(1000) == 3000", "Ä good reason"
pytestmark = pytest.mark.xdist_group("formgrader")

# Each tries to run a script or to tell another host that it was looked at.
ELSEWHERE = "http://elsewhere.invalid"
HOSTILE = f"""
<img src=x onerror="alert('image')"> <svg onload="alert('svg')"></svg> <script>alert('script')</script>
<iframe srcdoc="<script>alert('frame')</script>"></iframe> <img src="{ELSEWHERE}/picture.png">
<link rel="stylesheet" href="{ELSEWHERE}/style.css"> <details open ontoggle="alert('toggle')">x</details>
<style>body {{ background: url({ELSEWHERE}/background.png) }}</style> <input autofocus onfocus="alert('focus')">

[a link](javascript:alert('link')) ![remote]({ELSEWHERE}/markdown.png)
"""
SHOWS = f"""
from IPython.display import HTML, SVG, Javascript, Latex, Markdown, display

hostile = {HOSTILE!r}
display(HTML(hostile), Markdown(hostile), Latex(hostile), Javascript("alert('javascript')"))
display(SVG('<svg xmlns="http://www.w3.org/2000/svg"><script>alert("in a picture")</script></svg>'))
print(hostile)
raise ValueError(hostile)
"""


def master():
    """An assignment with a function, its test, and an answer that is read by hand."""
    code = "def triple(x):\n    ### BEGIN SOLUTION\n    return 3 * x\n    ### END SOLUTION"
    test = f"assert triple(2) == 6\n### BEGIN HIDDEN TESTS\n{HIDDEN}\n### END HIDDEN TESTS"
    cells = [
        labelled(new_code_cell, code, "triple", solution=True),
        labelled(new_code_cell, test, "triple-test", grade=True, locked=True, points=10),
        labelled(new_markdown_cell, "Because.", "explain", grade=True, solution=True, points=10),
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})


class Class:
    """The folder of a class, and the commands that a teacher calls there."""

    def __init__(self, root: Path):
        self.root = root

    def call(self, *words) -> None:
        """Run a Python program or module in the folder."""
        done = subprocess.run([sys.executable, *map(str, words)], cwd=self.root, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def grade(self, *options: str) -> dict[str, dict]:
        """Grade what is new; the rows of the table, by student."""
        self.call(ASSIGNMENTS / "grade.py", self.root, *options)
        with open(self.root / "grades.csv", newline="", encoding="utf-8-sig") as file:
            return {row["student"]: row for row in csv.DictReader(file)}

    def hand_in(self, student: str, **answers: str) -> None:
        """Hand in the released notebook with these answers."""
        notebook = nbformat.read(self.root / "release" / NAME / f"{NAME}.ipynb", as_version=4)
        for cell in notebook.cells:
            cell.source = answers.get(cell.metadata.nbgrader.grade_id, cell.source)
        path = self.root / "submitted" / student / NAME / f"{NAME}.ipynb"
        path.parent.mkdir(parents=True)
        nbformat.write(notebook, path)

    def page(self, student: str) -> Path:
        """The feedback of a student."""
        return self.root / "feedback" / student / NAME / f"{NAME}.html"


@pytest.fixture(scope="module")
def group(browser, tmp_path_factory):
    """A graded class of two, one of them hostile; the folder's path has a space and an umlaut."""
    group = Class(tmp_path_factory.mktemp("teaching") / "Kurs Ü 1")
    (group.root / "source" / NAME).mkdir(parents=True)
    nbformat.write(master(), group.root / "source" / NAME / f"{NAME}.ipynb")
    group.call(ASSIGNMENTS / "release.py", group.root)
    group.hand_in("zoe", triple="def triple(x):\n    return 3 * x", explain="It is **three** times.")
    group.hand_in("mallory", triple=f"def triple(x):\n    return 0\n{SHOWS}", explain=HOSTILE)
    group.rows = group.grade()
    assert {student: row["reason"] for student, row in group.rows.items()} == {"zoe": "", "mallory": ""}
    shutil.copytree(group.root / "feedback", group.root.parent / "grade.py")  # nbgrader will write over it
    return group


@pytest.fixture(scope="module")
def lab(group, start_lab):
    """The address of a JupyterLab that was started in the folder of the class."""
    with start_lab(group.root, group.root.parent) as address:
        yield address


class Recorder:
    """Notes each dialog, and each request to another host, of the pages of a window; such requests are not sent."""

    def __init__(self, window):
        self.seen = []
        window.on("dialog", self.dialog)
        window.route(lambda url: urlsplit(url).scheme in ("http", "https"), self.request)

    def dialog(self, dialog) -> None:
        self.seen.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def request(self, route) -> None:
        if urlsplit(route.request.url).hostname == "127.0.0.1":
            route.continue_()
        else:
            self.seen.append(route.request.url)
            route.abort()


@pytest.fixture
def window(browser):
    """A window of its own."""
    window = browser.new_context(viewport={"width": 1280, "height": 1100})
    window.set_default_timeout(90_000)
    yield window
    window.close()


@pytest.fixture
def recorder(window):
    return Recorder(window)


def opened(window, address: str):
    """The page at ``address``, after everything in it had the time to run."""
    page = window.new_page()
    page.goto(address, wait_until="load")
    page.wait_for_timeout(1000)
    return page


def submission(window, lab: str, student: str):
    """Formgrader's page for a student's notebook."""
    page = window.new_page()
    page.goto(f"{lab}/formgrader/gradebook/{NAME}/{NAME}")
    found = page.request.get(f"{lab}/formgrader/api/submitted_notebooks/{NAME}/{NAME}").json()
    (number,) = (one["id"] for one in found if one["student"] == student)
    page.goto(f"{lab}/formgrader/submissions/{number}/", wait_until="load")
    page.locator("#explain-comment").wait_for()
    page.wait_for_timeout(1000)
    return page


def scripts_behind_links(page) -> list[str]:
    """Links of a page that would run something when they are followed."""
    addresses = [link.get_attribute("href").strip() for link in page.locator("a[href]").all()]
    return [address for address in addresses if address.lower().startswith(("javascript:", "data:"))]


def test_the_menu_opens_formgrader_with_the_class(lab, window):
    page = window.new_page()
    page.goto(f"{lab}/lab")
    page.get_by_role("menuitem", name="Nbgrader", exact=True).click()
    page.get_by_text("Formgrader", exact=True).first.click()
    formgrader = page.frame_locator("iframe[src*=formgrader]")
    expect(formgrader.get_by_role("link", name=NAME, exact=True)).to_be_visible()


def test_points_and_a_comment_by_hand_reach_the_table_and_the_feedback(group, lab, window, recorder):
    assert float(group.rows["zoe"]["waiting"]) == 10
    page = submission(window, lab, "zoe")
    page.locator("input#explain.score").fill("7")
    page.locator("#explain-comment").fill(COMMENT)
    with page.expect_response(lambda answer: "/api/comment/" in answer.url and answer.request.method == "PUT"):
        page.locator("#explain-comment").press("Tab")
    page.wait_for_timeout(500)
    after = group.grade()["zoe"]
    assert (float(after["score"]), float(after["waiting"])) == (17, 0)
    group.call("-m", "nbgrader", "generate_feedback", "--force", NAME)
    shown = opened(window, group.page("zoe").as_uri()).locator("body").inner_text()
    assert COMMENT in shown
    assert "17" in shown and "7 " in shown
    assert "It is three times." in shown
    assert recorder.seen == []


def test_the_recorder_sees_what_is_hostile(window, recorder):
    page = opened(window, "about:blank")
    page.set_content(HOSTILE)
    page.wait_for_timeout(1000)
    assert {"dialog image", "dialog script", f"{ELSEWHERE}/picture.png"} <= set(recorder.seen)


@pytest.mark.parametrize("student", ["mallory", "zoe"])
def test_nothing_of_a_student_runs_in_formgrader_or_loads_from_elsewhere(lab, window, recorder, student):
    page = submission(window, lab, student)
    assert recorder.seen == []
    assert scripts_behind_links(page) == []


@pytest.mark.parametrize("by", ["grade.py", "nbgrader"])
def test_no_feedback_page_shows_a_hidden_test_or_runs_a_script(group, window, recorder, by):
    folder = group.root.parent / "grade.py"
    if by == "nbgrader":
        folder = group.root / "feedback"
        shutil.rmtree(folder)
        group.call("-m", "nbgrader", "generate_feedback", "--force", NAME)
    pages = {student: folder / student / NAME / f"{NAME}.html" for student in ("mallory", "zoe")}
    assert sorted(folder.rglob("*.html")) == sorted(pages.values())
    for path in pages.values():
        source = path.read_text()
        assert HIDDEN not in source and "HIDDEN TESTS" not in source
        page = opened(window, path.as_uri())
        assert page.locator("script, iframe, object, embed, link, base, [onerror], [onload], [ontoggle]").count() == 0
        assert scripts_behind_links(page) == []
    assert recorder.seen == []
