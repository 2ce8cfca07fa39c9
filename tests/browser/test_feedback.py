"""The page that a student gets back, opened as a file: nothing in it acts, it asks nobody, everybody can read it."""

import base64
import io
import shutil
from pathlib import Path

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from PIL import Image
from traitlets.config import Config, PyFileConfigLoader

import feedback
from release import release

pytestmark = pytest.mark.xdist_group("feedback")
ASSIGNMENTS, NAME = Path(feedback.__file__).parent, "02_sinusoidal"
VECTORS = (Path(__file__).parents[1] / "assignments" / "vectors.txt").read_text().split("\n---\n")
ANSWER = r"""
# My answer

Yes, with $\theta_t = \text{base}^{-2t/d}$, because
$$\begin{pmatrix} \cos\theta & -\sin\theta \\ \sin\theta & \cos\theta \end{pmatrix}^\top = R(-\theta).$$

\begin{align} a &= b \\ c &= \begin{cases} 1 & x > 0 \\ 0 & \text{else} \end{cases} \end{align}

![my sketch](attachment:p.png) ![](https://a.example/p.png) ![](p.png) H<sub>2</sub>O <kbd>Ctrl</kbd>

| $t$ | value |
|-----|-------|
| 1   | $\lVert x \rVert$ |

<details><summary>More</summary>

- [x] done, see <https://a.example>
- too wide: $$a + b + c + d + e + f + g + h + i + j + k + l + m + n + o + p + q + r + s + t + u + v + w$$

</details>
"""
TABLE = f"<table><tr><th></th>{'<th>column</th>' * 30}</tr><tr><th>0</th>{'<td>1</td>' * 30}</tr></table>"


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """Assignment 2, released."""
    root = tmp_path_factory.mktemp("class")
    shutil.copytree(ASSIGNMENTS / "source" / NAME, root / "source" / NAME)
    release(root)
    return root


def write_page(root: Path, student: str, written: str, *more) -> Path:
    """The page of a student who gave ``written`` for each answer in words and has ``more`` cells."""
    notebook = nbformat.read(root / "source" / NAME / f"{NAME}.ipynb", as_version=4)
    picture = io.BytesIO()
    Image.new("RGB", (900, 300), "red").save(picture, "PNG")
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        if name.startswith("explain"):
            cell.source = written
            cell.attachments = {"p.png": {"image/png": base64.b64encode(picture.getvalue()).decode()}}
        if name.endswith("-test"):
            cell.outputs = [
                new_output("error", ename="AssertionError", evalue="not yet: " + "x" * 500, traceback=["x"])
            ]
    notebook.cells += more
    path = root / "autograded" / student / NAME / f"{NAME}.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(notebook, path)
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}") as gradebook:
        gradebook.update_or_create_student(student, first_name="Zoë", last_name="Müller")
        found = gradebook.add_submission(NAME, student).notebooks[0]
        found.late_submission_penalty = 5
        for grade in found.grades:
            grade.auto_score, grade.needs_manual_grade = 0, grade.name.startswith("explain")
        found.comments[0].manual_comment = "See **notebook 01**."
        gradebook.db.commit()
    config = PyFileConfigLoader("nbgrader_config.py", str(ASSIGNMENTS)).load_config()
    config.CourseDirectory.root = str(root)
    done = NbGraderAPI(config=Config(config)).generate_feedback(NAME, student)
    assert done["success"], done
    return root / "feedback" / student / NAME / f"{NAME}.html"


class Opened:
    """A page, and what it did: dialogs, requests but for itself, errors."""

    def __init__(self, browser, path: Path, **options):
        address = path.as_uri()
        self.did = []
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.on("dialog", lambda dialog: (self.did.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: request.url != address and self.did.append(request.url[:100]))
        self.page.on("console", lambda message: self.did.append(message.text))
        self.page.on("pageerror", lambda error: self.did.append(str(error)))
        self.page.on("popup", lambda popup: self.did.append(popup.url))
        self.page.goto(address)


@pytest.fixture(scope="module")
def full(course):
    """The page of a student who used everything that may be used."""
    figure = io.BytesIO()
    Image.new("RGB", (40, 30), "blue").save(figure, "PNG")
    data = {"image/png": base64.b64encode(figure.getvalue()).decode(), "text/plain": "<Figure>"}
    outputs = [
        new_output("display_data", data=data),
        new_output("display_data", data={"text/html": TABLE}),
        new_output("display_data", data={"text/latex": "$x^2$"}),
        new_output("stream", text="line\n" * 100),
        new_output("error", ename="ValueError", evalue="no", traceback=["\x1b[31mValueError\x1b[0m: no"]),
    ]
    return write_page(
        course, "full", ANSWER, new_code_cell("print('line')", outputs=outputs), new_markdown_cell("# Mine")
    )


def test_no_vector_acts_in_the_page(browser, course):
    """Also where the browser does not obey the page's own policy, which would stop scripts and requests."""
    cells = [new_markdown_cell(vector) for vector in VECTORS]
    cells += [new_code_cell("x", outputs=[new_output("display_data", data={"text/html": v})]) for v in VECTORS]
    opened = Opened(browser, write_page(course, "hostile", "\n\n".join(VECTORS), *cells), bypass_csp=True)
    page = opened.page
    for summary in page.locator("summary").all():
        summary.click()
    page.mouse.move(200, 200)
    assert page.locator("a:not([href^='#question-']):not([href='#scores'])").count() == 0
    page.wait_for_timeout(500)
    assert opened.did == []
    assert page.locator("#scores").count() == 1
    assert page.locator("body > *").count() == 1  # nothing left the part of the page in which it stands
    assert page.locator("main > section").count() == page.locator("section").count()


def test_the_pages_own_policy_stops_what_would_get_through(browser, full, tmp_path):
    html = full.read_text()
    html = html.replace("</main>", "<script>alert(1)</script><img src='https://a.example/p.png'></main>")
    (tmp_path / "page.html").write_text(html)
    opened = Opened(browser, tmp_path / "page.html")
    opened.page.wait_for_timeout(500)
    stopped = " ".join(text for text in opened.did if "Content Security Policy" in text)
    assert "inline script" in stopped
    assert "the image 'https://a.example/p.png'" in stopped


def test_the_page_loads_nothing_and_shows_pictures_and_formulas(browser, full):
    opened = Opened(browser, full)
    assert opened.did == []
    page = opened.page
    assert page.title() == "Feedback: 02_sinusoidal, Zoë Müller (full)"
    widths = page.evaluate("[...document.images].map(image => image.naturalWidth)")
    assert widths == [900] * (len(widths) - 1) + [40]
    assert len(widths) > 1
    sizes = page.evaluate("[...document.querySelectorAll('math')].map(math => math.getBoundingClientRect().height)")
    assert len(sizes) > 50
    first, second = (row.bounding_box() for row in page.locator("math:has(mtable)").first.locator("mtr").all())
    assert second["y"] >= first["y"] + 0.9 * first["height"] > first["y"]  # one row stands below the other
    assert "$" not in page.locator("main div.answer").first.inner_text()


@pytest.mark.parametrize("width", [360, 1280])
def test_axe_finds_nothing(browser, full, width):
    page = Opened(browser, full, viewport={"width": width, "height": 800}).page
    page.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
    found = Axe().run(page).response["violations"]
    assert [(violation["id"], [node["html"] for node in violation["nodes"]]) for violation in found] == []


def test_the_page_fits_a_telephone(browser, full):
    page = Opened(browser, full, viewport={"width": 360, "height": 800}).page
    page.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    table = page.locator("#scores")
    assert table.bounding_box()["width"] <= 360
    assert "not graded yet" in table.inner_text()


def test_links_of_the_table_lead_to_their_questions(browser, full):
    page = Opened(browser, full, viewport={"width": 1280, "height": 800}).page
    link = page.locator("#scores a").nth(6)
    link.click()
    assert page.get_by_role("heading", name=link.inner_text()).bounding_box()["y"] < 200
    page.get_by_role("link", name="Back to the table of scores").nth(6).click()
    assert page.locator("#scores").bounding_box()["y"] < 200


def test_the_page_can_be_printed(browser, full):
    page = Opened(browser, full).page
    page.emulate_media(media="print")
    assert page.locator("#scores").is_visible()
    assert not page.get_by_role("link", name="Back to the table of scores").first.is_visible()
    assert len(page.pdf()) > 10_000
