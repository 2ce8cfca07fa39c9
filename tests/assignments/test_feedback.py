"""The pages of students and of Formgrader: nothing in them acts, pictures and formulas arrive, the scores are right."""

import base64
import copy
import io
import re
import shutil
import subprocess
import sys
from collections import Counter
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from nbconvert.exporters import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, new_raw_cell
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from nbgrader.server_extensions.formgrader.formgrader import FormgradeExtension
from PIL import Image
from traitlets.config import Config, PyFileConfigLoader

import feedback
from feedback import clean_html, course_config, from_markdown, plain, shown
from labels import labelled
from release import release, secrets

pytestmark = pytest.mark.xdist_group("feedback")  # one classroom

VECTORS = (Path(__file__).parent / "vectors.txt").read_text().split("\n---\n")
PICTURE = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+")


class Dangers(HTMLParser):
    """What of a page could act, load something, lead astray or change the look of what is around it."""

    TAGS = (
        "audio", "base", "body", "button", "embed", "form", "html", "iframe", "input", "link", "maction", "meta",
        "noscript", "object", "script", "style", "svg", "template", "textarea", "video",
    )  # fmt: skip
    SAFE = (
        "alt", "colspan", "height", "open", "rel", "rowspan", "start", "tabindex", "width",
        "columnalign", "display", "fence", "form", "lspace", "mathvariant", "maxsize", "minsize", "rspace", "stretchy",
    )  # fmt: skip

    def __init__(self, html: str):
        super().__init__()
        self.found = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        if tag in self.TAGS:
            self.found.append(tag)
        for name, value in attributes:
            link = name == "href" and re.match("https?://|mailto:", value or "")
            drawn = name == "src" and PICTURE.fullmatch(value or "")
            if not (name in self.SAFE or link or drawn or (name, value) == ("class", "formula")):
                self.found.append(f"{tag} {name}={value}")

    handle_startendtag = handle_starttag

    def handle_comment(self, data):
        self.found.append("comment")

    handle_decl = unknown_decl = handle_comment


def dangers(html: str) -> list[str]:
    return Dangers(html).found


def as_text(source: str, **attachments) -> str:
    """A written answer as it is shown."""
    return from_markdown(source, attachments, False)


def as_output(**data) -> str:
    """What a cell displays, as it is shown."""
    data = {name.replace("_", "/"): value for name, value in data.items()}
    output = shown(new_output("display_data", data=data))
    return clean_html(output.data["text/html"]) if "text/html" in output.data else escape(output.data["text/plain"])


def pictures(html: str) -> list[dict[str, str]]:
    """The pictures of a page."""
    return [dict(re.findall(r' (\w+)="([^"]*)"', tag)) for tag in re.findall("<img[^>]*>", html)]


def drawn(kind: str, size=(3, 2)) -> str:
    """The content of a picture."""
    file = io.BytesIO()
    Image.new("RGB", size, "red").save(file, kind)
    return base64.b64encode(file.getvalue()).decode()


@pytest.mark.parametrize("vector", VECTORS)
def test_the_check_sees_what_each_vector_could_do(vector):
    assert dangers(vector)


@pytest.mark.parametrize("vector", VECTORS)
def test_no_vector_reaches_the_page(vector):
    for html in (
        as_text(vector),
        as_text(f"text {vector} text"),
        as_text(f"- {vector}\n\n> {vector}"),
        as_text(f"$$ {vector} $$"),
        as_text(f"[{vector}](https://x.example)"),
        as_text(f"![{vector}](https://x.example)"),
        as_text(f'![x](attachment:x "{vector}")', x={"image/png": vector}),
        as_output(text_html=vector),
        as_output(text_markdown=vector),
        as_output(text_latex=f"${vector}$"),
        as_output(text_plain=vector),
        as_output(image_png=vector),
    ):
        assert dangers(html) == []


@pytest.mark.parametrize(
    "kind",
    ["image/svg+xml", "application/javascript", "text/vnd.mermaid", "application/pdf", "application/vnd.dataresource"],
)
def test_an_output_of_another_kind_is_named_and_not_shown(kind):
    output = shown(new_output("display_data", data={kind: VECTORS[0]}))
    assert output.data == {"text/plain": f"[not shown: {kind}]"}


def test_a_link_of_a_student_is_text_with_its_address():
    """Formgrader runs what stands behind /formgrader/manage_students/ in an address as a script."""
    for source in ("[text](https://a.example)", '<a href="https://a.example">text</a>'):
        assert as_text(source).strip() == "<p>text (https://a.example)</p>"
    for source in ("<https://a.example>", "[](https://a.example)", "https://a.example"):
        assert as_text(source).strip() == "<p>https://a.example</p>"


def test_a_link_of_a_teacher_leads_to_the_web_or_nowhere():
    rel = 'rel="noopener noreferrer nofollow"'
    html = from_markdown("[text](https://a.example/?b=c)", {}, True)
    assert html.strip() == f'<p><a href="https://a.example/?b=c" {rel}>text</a></p>'
    for address in (
        "javascript:alert(1)",
        "data:text/html,x",
        "JAVASCRIPT:alert(1)",
        "/hub/logout",
        "file:///etc/passwd",
    ):
        assert "href" not in from_markdown(f'[text]({address}) <a href="{address}">text</a>', {}, True)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("H<sub>2</sub>O, x<sup>2</sup>", "<p>H<sub>2</sub>O, x<sup>2</sup></p>"),
        ("<kbd>Ctrl</kbd>", "<p><kbd>Ctrl</kbd></p>"),
        (
            "<details><summary>a</summary>\n\n*b*\n\n</details>",
            '<details open=""><summary>a</summary>\n<p><em>b</em></p>',
        ),
        ("- a\n- b", "<ul>\n<li>a</li>\n<li>b</li>\n</ul>"),
        ("3. a", '<ol start="3">\n<li>a</li>'),
        ("- [x] a", "<li>☑ a</li>"),
        ("| a |\n|---|\n| 1 |", "<th>a</th>"),
        ("`a < b`", "<code>a &lt; b</code>"),
        ("```python\na < b\n```", "<pre><code>a &lt; b\n</code></pre>"),
        ("~~a~~ *b*", "<del>a</del> <em>b</em>"),
        ("a < b & c", "a &lt; b &amp; c"),
        ("# My answer", "<p><strong>My answer</strong></p>"),
    ],
)
def test_what_is_harmless_arrives(source, expected):
    assert expected in as_text(source)


def test_teachers_headings_are_headings_below_that_of_the_page():
    assert from_markdown("## 1. Question", {}, True).strip() == "<h3>1. Question</h3>"


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_a_picture_arrives_from_wherever_it_can_be(kind):
    content = drawn(kind)
    arrived = {"src": f"data:image/{kind.lower()};base64,{content}", "alt": "alt"}
    attached = {"my p.x": {f"image/{kind.lower()}": content}}
    for source in (
        "![alt](attachment:my%20p.x)",
        "![alt](<attachment:my p.x>)",
        '<img src="attachment:my p.x" alt=alt>',
    ):
        assert pictures(from_markdown(source, attached, False)) == [arrived]
    assert pictures(as_text(f"![alt]({arrived['src']})")) == [arrived]
    sized = f'<img src="{arrived["src"]}" alt=alt width=30 class=x>'
    assert pictures(as_text(sized)) == pictures(as_output(text_html=sized)) == [arrived | {"width": "30"}]


@pytest.mark.parametrize("kind", ["png", "jpeg"])
def test_a_picture_that_a_cell_displays_arrives(kind):
    content = drawn(kind.upper(), (2000, 2000))
    html = as_output(**{f"image_{kind}": "\n".join(content), "text_plain": "<Figure>"})
    assert pictures(html) == [{"src": f"data:image/{kind};base64,{content}", "alt": "output of the cell"}]


def test_a_table_too_long_to_be_converted_is_shown_as_its_text():
    assert as_output(text_html="<table>" * 10_000, text_plain="a < b").startswith("a &lt; b")


def test_the_bytes_say_what_a_picture_is():
    assert "data:image/jpeg;" in as_text("![](attachment:a.png)", **{"a.png": {"text/html": drawn("JPEG")}})


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("![](p.png)", "[picture p.png not shown: it was not handed in]"),
        ("![](attachment:other)", "[picture other not shown: it was not handed in]"),
        ("![](attachment:none)", "[picture none not shown: it was not handed in]"),
        ("![](attachment:list)", "[picture list not shown: it was not handed in]"),
        ("![](https://a.example/p.png)", "[picture https://a.example/p.png not shown: it lies on another computer]"),
        ("![](//a.example/p.png)", "[picture //a.example/p.png not shown: it lies on another computer]"),
        ("![](attachment:text)", "[picture text not shown: it is no PNG, JPEG, GIF or WebP]"),
        ("![](attachment:svg)", "[picture svg not shown: it is no PNG, JPEG, GIF or WebP]"),
        ("![](attachment:bmp)", "[picture bmp not shown: it is no PNG, JPEG, GIF or WebP]"),
        ("![](attachment:broken)", "[picture broken not shown: it cannot be read]"),
        ("![](attachment:number)", "[picture number not shown: it cannot be read]"),
        ("![](data:image/png;base64,!)", "[picture in the text not shown: it cannot be read]"),
        ("<img>", "[picture  not shown: it was not handed in]"),
        ("![](attachment:fine) ![](attachment:fine)", "[picture fine not shown: it stands above]"),
        ("![](attachment:large)", "[picture large not shown: it has more than 5 MB]"),
        ("![](attachment:wide)", "[picture wide not shown: it has more than 40 million pixels]"),
    ],
)
def test_a_picture_that_cannot_be_shown_leaves_its_name_and_the_reason(source, reason):
    text = base64.b64encode(b"text").decode()
    svg = base64.b64encode(b"<svg xmlns='http://www.w3.org/2000/svg'/>").decode()
    large = base64.b64encode(base64.b64decode(drawn("PNG")) + b" " * feedback.LARGEST_PICTURE).decode()
    contents = {"text": text, "svg": svg, "bmp": drawn("BMP"), "broken": "%", "number": 7, "large": large}
    contents |= {"wide": drawn("PNG", (20_000, 2_001)), "fine": drawn("PNG")}
    attachments = {name: {"image/png": content} for name, content in contents.items()} | {"none": {}, "list": ["a"]}
    html = from_markdown(source, attachments, False)
    assert reason in html
    assert html.count("<img") == ("fine" in source)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (r"$\theta_t$", "<msub><mi>θ</mi><mi>t</mi></msub>"),
        (r"$\text{base}^{-2t/d}$", "<msup><mtext>base</mtext><mrow><mo>−</mo><mn>2</mn>"),
        (r"$$\begin{pmatrix} a & b \\ c & d \end{pmatrix}$$", "<mtr><mtd><mi>c</mi></mtd><mtd><mi>d</mi></mtd></mtr>"),
        (r"$f = \begin{cases} 1 & x > 0 \\ 0 \end{cases}$", "<mi>x</mi><mo>&gt;</mo><mn>0</mn>"),
        (r"$\lVert x \rVert$", "<mo>‖</mo><mi>x</mi><mo>‖</mo>"),
        (r"$x \in \mathbb{R}^d$", "<mi>ℝ</mi>"),
        (r"$\big\langle q, k \big\rangle$", "<mi>⟨</mi>"),
        ("\\begin{align}\na &= b \\\\\nc &= d\n\\end{align}", "<mtr><mtd columnalign=\"right\"><mi>c</mi>"),
        (r"$$\begin{aligned} a &= b \end{aligned}$$", '<mtd columnalign="right"><mi>a</mi></mtd>'),
        (r"\(x\) and \[y\]", "<mi>x</mi>"),
        (r"\(x\) and \[y\]", "<mi>y</mi>"),
        (r"\\(x\\) and \\[y\\]", "<mi>y</mi>"),
        ("$$\nx\n\n+ y\n$$", "<mi>y</mi>"),
        ("$a < b$", "<mi>a</mi><mo>&lt;</mo><mi>b</mi>"),
        (r"$\sin p$", '<mo lspace="0em" rspace="0.167em">sin</mo>'),
        ("costs $5 today", "<p>costs $5 today</p>"),
        ("`$x$`", "<code>$x$</code>"),
    ],
)  # fmt: skip
def test_formulas_become_mathml(source, expected):
    assert expected in as_text(source)


@pytest.mark.parametrize(
    "tex",
    [
        r"{{{", r"\left( x", r"\undefined x", r"\htmlClass{a}{b}", r"\phantom{x}", r"\def\a{\a\a}\a",
        r"\begin{unknown} a & b \end{unknown}", "x^{" * 600 + "}" * 600, "x" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_formula_stays_as_it_is(tex):
    html = as_text(f"${tex}$")
    assert escape(tex)[:1000] in html and "<m" not in html


@pytest.mark.parametrize(
    "tex",
    [
        r"\href{javascript:alert(1)}{x}", r"\style{position: fixed}{x}", r"\class{btn}{x}", r"\color{white}{x}",
        r"\text{</mtext><script>alert(1)</script>}", r"\text{<img src=x onerror=alert(1)>}",
        r"\hspace{1000em} x", r"\hspace{-3em} x", r"\cssId{scores}{x}", r"\mathrm{<script>alert(1)</script>}",
    ],
)  # fmt: skip
def test_a_formula_does_nothing_but_stand_there(tex):
    html = as_text(f"${tex}$")
    assert set(re.findall(r' ([\w:]+)="', html)) <= {"display", "mathvariant", "stretchy"}
    assert set(re.findall(r"<(\w+)", html)) <= {
        "p",
        "math",
        "mrow",
        "mi",
        "mo",
        "mn",
        "mspace",
        "mstyle",
        "mtext",
        "code",
    }


def test_a_text_that_cannot_be_converted_is_shown_as_it_is():
    long = "<b>x</b> " * 10_000
    assert as_text(long).startswith("<p>[too long to be shown in any other way]</p><pre>&lt;b&gt;x")
    assert "<b>" not in as_text(long)
    assert as_text("![](data:image/png;base64," + drawn("PNG", (900, 900)) + " )" + "x" * 40_000).count("x") > 40_000


DEEP = [
    "<div>" * 8000,
    "<b>" * 16_000,
    "> " * 20_000 + "x",
    "[" * 40_000,
    "*a " * 15_000,
    "`" * 40_000,
    "$x$ " * 2000,
]


@pytest.mark.parametrize("source", [*DEEP, "${}$".format("{" * 900 + "}" * 900)], ids=range(8))
def test_deep_nesting_is_no_reason_to_fail(classroom, source):
    assert dangers(as_text(source)) == []
    path = classroom.hand_in(f"deep{abs(hash(source))}", new_markdown_cell(source))
    assert "</main>" in classroom.page(path.parts[-3])


def test_text_loses_what_is_no_text():
    assert plain("\x1b[31mred\x1b[0m \ud800 \x07 ä\t\n") == "red ?  ä\t\n"


NAME, MARKER = "small", "### BEGIN HIDDEN TESTS"
TEST = f"assert {{0}}(3) == 6\n{MARKER}\nassert {{0}}(50) == 100, 'not as it should be'\n### END HIDDEN TESTS"
CODE = "def {0}(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION"
QUESTIONS = {
    "double": "1. Twice as much (20 points)",
    "predict": "3a. Predict (10 points, 5 minutes)",
    "measure": "3b. Measure",
}


def write_master(path: Path) -> None:
    """An assignment with three tests, of which two belong to one question, and a question in words."""
    cells = [
        labelled(new_markdown_cell, "# An assignment\n\nAbout $x_t$.", "about", locked=True),
        labelled(new_code_cell, "import math", "setup", locked=True),
    ]
    for (name, question), points in zip(QUESTIONS.items(), (20, 10, 40), strict=True):
        cells.append(labelled(new_markdown_cell, f"## {question}\n\nWrite it.", f"text-{name}", locked=True))
        cells.append(labelled(new_code_cell, CODE.format(name), name, solution=True))
        test = labelled(new_code_cell, TEST.format(name), f"{name}-test", grade=True, locked=True, points=points)
        cells.append(test)
    cells.append(labelled(new_markdown_cell, "## 4. Explain (30 points)", "text-4", locked=True))
    cells.append(labelled(new_markdown_cell, "Because it is doubled.", "explain", grade=True, solution=True, points=30))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path.parent.mkdir(parents=True)
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)


class Classroom:
    """A course in a folder of a teacher's own, with submissions that look as if they had been graded."""

    def __init__(self, root: Path):
        self.root = root
        write_master(root / "source" / NAME / f"{NAME}.ipynb")
        release(root)
        (root / "nbgrader_config.py").write_text(course_config(Path(feedback.__file__).parent))
        self.master = nbformat.read(root / "source" / NAME / f"{NAME}.ipynb", as_version=4)
        self.config = PyFileConfigLoader("nbgrader_config.py", str(root)).load_config()
        self.config.CourseDirectory.root = str(root)

    def hand_in(self, student: str, *more, **answers: str) -> Path:
        """The master with some cells replaced and ``more`` at its end; each test is passed but the last."""
        notebook = copy.deepcopy(self.master)
        for cell in notebook.cells:
            name = cell.metadata.get("nbgrader", {}).get("grade_id", "").replace("-", "_")
            cell.source = answers.get(name, cell.source)
            if name == "measure_test":
                cell.outputs = [new_output("error", ename="AssertionError", evalue="first row: 1 < 2", traceback=["x"])]
        notebook.cells += more
        path = self.root / "autograded" / student / NAME / f"{NAME}.ipynb"
        path.parent.mkdir(parents=True)
        nbformat.write(notebook, path)
        with self.gradebook() as gradebook:
            gradebook.update_or_create_student(student)
            for grade in gradebook.add_submission(NAME, student).notebooks[0].grades:
                failed = grade.name == "measure-test"
                grade.needs_manual_grade = grade.name == "explain"
                grade.auto_score = None if grade.needs_manual_grade else 0 if failed else grade.max_score
            gradebook.db.commit()
        return path

    def gradebook(self) -> Gradebook:
        return Gradebook(f"sqlite:///{self.root / 'gradebook.db'}")

    def page(self, student: str) -> str:
        """What ``nbgrader generate_feedback`` makes."""
        done = NbGraderAPI(config=Config(self.config)).generate_feedback(NAME, student, force=True)
        assert done["success"], done
        return (self.root / "feedback" / student / NAME / f"{NAME}.html").read_text()

    def formgrader(self, student: str, **names: str) -> str:
        """What the teacher sees in Formgrader, made with the settings that its extension reads in this folder."""
        app = FormgradeExtension()
        app.initialize([], root=str(self.root))
        resources = {"assignment_id": NAME, "notebook_id": NAME, "submission_id": "1", "index": 0, "total": 1}
        resources |= {"base_url": "", "student": student, "notebook_path": "x", "first_name": None, "last_name": None}
        path = self.root / "autograded" / student / NAME / f"{NAME}.ipynb"
        return HTMLExporter(config=app.config).from_filename(str(path), resources=resources | names)[0]


@pytest.fixture(scope="module")
def classroom(tmp_path_factory):
    return Classroom(tmp_path_factory.mktemp("Ä 'class\" of $HOME"))


def as_words(html: str) -> str:
    """The text of a page, with single spaces."""
    return " ".join(unescape(re.sub("<style>.*?</style>|<[^>]*>", " ", html, flags=re.DOTALL)).split())


def everywhere(vector: str) -> list:
    """Cells with a vector wherever a submission could put one."""
    kinds = ["text/html", "text/markdown", "text/latex", "text/plain", "image/svg+xml", "image/png", "text/javascript"]
    data = dict.fromkeys(kinds, vector)
    outputs = [new_output("display_data", data={kind: vector}, metadata={kind: {"alt": vector}}) for kind in data]
    outputs += [new_output("execute_result", data=data), new_output("stream", name="stderr", text=vector)]
    outputs.append(new_output("error", ename=vector, evalue=vector, traceback=[vector, f"\x1b[31m{vector}"]))
    metadata = {
        "tags": [vector.replace(",", "")],
        "nbgrader": {"grade_id": vector, "grade": True, "comment": vector},
        "title": vector,
    }
    cells = [new_code_cell(f"# {vector}", outputs=outputs), new_markdown_cell(vector), new_raw_cell(vector)]
    for cell in cells:
        cell.metadata.update(copy.deepcopy(metadata))
    return [*cells, new_markdown_cell(f"![{vector}](attachment:x)", attachments={"x": {vector: vector}})]


def added(page) -> set[str]:
    """What could act in the page of ``hostile`` and not in that of ``innocent``, but for the boxes around cells."""
    boxes = (
        r"(div|pre|span) class=(?!navbar)[\w -]*|div (role=group|aria-label=Output|id=cell-id=cell-\d+)|a data-link=.*"
    )
    more = Counter(dangers(page("hostile"))) - Counter(dangers(page("innocent")))
    return {found for found in more if not re.fullmatch(boxes, found)}


def test_vectors_add_nothing_to_any_page(classroom):
    """What the pages have of their own is the same without them."""
    cells = [cell for vector in VECTORS for cell in everywhere(vector)]
    for number, cell in enumerate(cells):
        cell.id = f"added-{number}"
    path = classroom.hand_in("hostile", *cells, explain="\n\n".join(VECTORS))
    classroom.hand_in("innocent")
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata.update(title=VECTORS[0], widgets={"application/vnd.jupyter.widget-state+json": {"state": {}}})
    nbformat.write(notebook, path)
    with classroom.gradebook() as gradebook:
        gradebook.update_or_create_student("hostile", first_name=VECTORS[0], last_name=VECTORS[2])
    names = {"hostile": dict.fromkeys(("first_name", "last_name", "notebook_path"), f'">{VECTORS[2]}'), "innocent": {}}
    assert added(classroom.page) == set()
    assert added(lambda student: classroom.formgrader(student, **names[student])) == set()


def test_formgrader_asks_no_other_computer(classroom):
    classroom.hand_in("local", explain="$x$ and ![p](https://a.example/p.png)")
    html = classroom.formgrader("local")
    assert "<mi>x</mi>" in html
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', html)


def test_the_page_starts_with_a_table_that_says_what_is_so(classroom):
    classroom.hand_in("anna")
    html = classroom.page("anna")
    assert '<html lang="en">' in html
    assert "<title>Feedback: small, anna</title>" in html
    words = as_words(html.partition("</table>")[0])
    assert "For anna . 30 of 100 points so far, 30 points not graded yet." in words
    rows = "1. Twice as much 20 20 3a. Predict 10 10 3b. Measure first row: 1 < 2 40 0 4. Explain 30 not graded yet"
    assert words.endswith(f"Question Points Score {rows} So far 100 30")
    links = re.findall(r'<a href="#([\w-]+)">(.*?)</a>', html.partition("</table>")[0])
    assert len(links) == 4
    for anchor, question in links:
        section = html.partition(f'<section id="{anchor}">')[2]
        assert question in as_words(section.partition("</section>")[0])


def test_points_and_comments_given_by_hand_and_a_penalty_follow(classroom):
    classroom.hand_in("ben")
    with classroom.gradebook() as gradebook:
        for grade in gradebook.find_submission_notebook(NAME, NAME, "ben").grades:
            if grade.needs_manual_grade:
                grade.manual_score, grade.needs_manual_grade = 7.5, False
        gradebook.find_comment("explain", NAME, NAME, "ben").manual_comment = "well **said**: $x_t$"
        gradebook.find_submission_notebook(NAME, NAME, "ben").late_submission_penalty = 5
        gradebook.update_or_create_student("ben", first_name="Ben", last_name="Öz")
        gradebook.db.commit()
    html = classroom.page("ben")
    words = as_words(html)
    assert "For Ben Öz (ben) . 32.5 of 100 points." in words
    assert "not graded yet" not in words
    assert "Handed in late −5 Total 100 32.5" in words
    assert "4. Explain: 7.5 of 30 points" in words
    assert "<p>well <strong>said</strong>: <math" in html


def test_setup_and_long_outputs_are_folded(classroom):
    long = new_code_cell("x", outputs=[new_output("stream", text="line\n" * 40), new_output("stream", text="short")])
    classroom.hand_in("dora", long)
    html = classroom.page("dora")
    assert "<summary>Output, 40 lines</summary>" in html
    assert re.search(r"</section>\s*<section[^>]*>\s*<details><summary>Code of the assignment</summary>", html)
    assert '</details>\n<pre class="output">short</pre>' in html


def test_hidden_tests_are_cleared_and_a_students_text_is_not(classroom):
    text = f"# {MARKER} is where it starts\nstudent = 1"
    classroom.hand_in("eve", new_code_cell(text), double=text, explain=f"{MARKER}\n\nmine")
    html = classroom.page("eve")
    assert html.count(f"# {MARKER} is where it starts") == 2
    assert "mine" in html
    solutions, hidden = secrets(classroom.master)
    hidden -= solutions  # which were handed in
    text = unescape(re.sub("<[^>]*>", "", html))
    assert hidden
    assert [line for line in hidden if line in text] == []


def test_attachments_reach_the_page_of_the_student_and_formgrader(classroom):
    content = drawn("PNG")
    path = classroom.hand_in("fay", explain="![p](attachment:p.png) ![q](attachment:q.png)")
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if "attachment:" in cell.source:
            cell.attachments = {"p.png": {"image/png": content}}
    nbformat.write(notebook, path)
    for html in (classroom.page("fay"), classroom.formgrader("fay")):
        assert f"data:image/png;base64,{content}" in html
        assert "[picture q.png not shown: it was not handed in]" in html


def test_the_command_of_nbgrader_gives_the_same_page(classroom):
    classroom.hand_in("gus")
    command = [sys.executable, "-m", "nbgrader", "generate_feedback", NAME, "--student", "gus"]
    subprocess.run(command, cwd=classroom.root, check=True, capture_output=True)
    by_command = (classroom.root / "feedback" / "gus" / NAME / f"{NAME}.html").read_text()
    assert by_command == classroom.page("gus")


@pytest.mark.parametrize("fault", ["missing", "broken"])
def test_nbgrader_stops_where_the_configuration_cannot_be_loaded(classroom, tmp_path, fault):
    shutil.copytree(classroom.root, tmp_path / "class", ignore=shutil.ignore_patterns("feedback"))
    if fault == "broken":
        (tmp_path / "nbgrader_config.py").write_text("import a_module_that_is_not_there")
    (tmp_path / "class" / "nbgrader_config.py").write_text(course_config(tmp_path))
    command = [sys.executable, "-m", "nbgrader", "generate_feedback", NAME, "--force"]
    done = subprocess.run(command, cwd=tmp_path / "class", capture_output=True, text=True)
    assert done.returncode != 0
    assert "nbgrader stops" in done.stderr
    assert not list((tmp_path / "class").glob("feedback/*/*/*.html"))


def test_a_comment_with_the_marker_of_hidden_tests_is_graded(small):
    small.hand_in("marks", small.answered(double=f"# {MARKER}\ndef double(x):\n    return 2 * x"))
    row = small.grade()["marks"]
    assert (row["score"], row["reason"]) == ("100.0", "")
    assert f"# {MARKER}" in small.feedback("marks")
