"""What students, and teachers in Formgrader, see of a submission: cleaned, with pictures, formulas and scores.

Everything that a student wrote, or that a program of a student's printed, is hostile until ``clean`` has seen it.
"""

import base64
import binascii
import copy
import functools
import io
import re
from html import escape, unescape
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import nh3
from bs4 import BeautifulSoup
from jinja2 import pass_context
from latex2mathml.converter import convert_to_element
from nbconvert.filters import strip_ansi
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath, MathBlockParser, MathInlineParser
from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader.api import Gradebook
from nbgrader.preprocessors import ClearHiddenTests, GetGrades
from nbgrader.utils import is_locked
from PIL import Image
from pygments.formatters import HtmlFormatter

LONGEST_TEXT, LONGEST_FORMULA = 50_000, 2000  # characters that are converted; what is longer is shown as it is
LARGEST_PICTURE, MOST_PIXELS = 5 * 2**20, 40_000_000
PICTURES = ("PNG", "JPEG", "GIF", "WEBP")
DATA_URI = re.compile(r"data:image/\w+;base64,[A-Za-z0-9+/=]*")

TEACHERS_TAGS = {"a", *(f"h{level}" for level in range(2, 7))}
TAGS = {
    "abbr", "b", "blockquote", "br", "caption", "code", "dd", "del", "details", "div", "dl", "dt", "em", "hr",
    "i", "img", "ins", "kbd", "li", "mark", "ol", "p", "pre", "q", "s", "samp", "small", "span", "strong", "sub",
    "summary", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul", "var",
}  # fmt: skip
NUMBER = re.compile(r"\d{1,4}")
# Attributes that are kept, and what they may be; no class, id or style: they would reach into the page around the text.
ATTRIBUTES = {
    ("a", "href"): re.compile(r"(https?://|mailto:)\S+"),
    ("code", "class"): re.compile("formula( display)?"),
    ("details", "open"): re.compile(""),
    ("img", "src"): re.compile(""),  # those that were looked at
    ("img", "alt"): re.compile(".*", re.DOTALL),
    ("img", "width"): NUMBER,
    ("img", "height"): NUMBER,
    ("ol", "start"): NUMBER,
    ("td", "colspan"): re.compile(r"\d\d?"),
    ("td", "rowspan"): re.compile(r"\d\d?"),
    ("th", "colspan"): re.compile(r"\d\d?"),
    ("th", "rowspan"): re.compile(r"\d\d?"),
}
LINK = "noopener noreferrer nofollow"
FORMULA = re.compile('<code class="formula( display)?">([^<]*)</code>')
MATHML = {
    "math", "menclose", "mfrac", "mi", "mn", "mo", "mover", "mpadded", "mroot", "mrow", "mspace", "msqrt", "mstyle",
    "msub", "msubsup", "msup", "mtable", "mtd", "mtext", "mtr", "munder", "munderover",
}  # fmt: skip
WORD = re.compile(r"[a-z\d -]{1,20}")
SMALL_LENGTH = re.compile(r"[0-3]?(\.\d+)?em")  # not negative: the formula would move over other text
WORDS = [
    "accent", "columnalign", "display", "displaystyle", "fence", "form", "largeop", "mathvariant", "movablelimits",
    "notation", "scriptlevel", "separator", "stretchy",
]  # fmt: skip
LENGTHS = ["linethickness", "lspace", "maxsize", "minsize", "rspace", "width"]
MATHML_ATTRIBUTES = dict.fromkeys(WORDS, WORD) | dict.fromkeys(LENGTHS, SMALL_LENGTH)
# What latex2mathml does not know under the name that the notebooks use.
TEX_NAMES = [
    (re.compile(r"\\[bB]igg?[lrm]?(?=\\[a-zA-Z])"), ""),
    (re.compile(r"(?<=\\begin{)(align|aligned|split)(?=})"), "align*"),
    (re.compile(r"(?<=\\end{)(align|aligned|split)(?=})"), "align*"),
]
MARKS = dict.fromkeys([*range(9), 11, 12, *range(14, 32), *range(127, 160)])  # controls but tab, newline, return


def plain(text) -> str:
    """``text`` without what is no text: colour codes, control characters, halves of a surrogate pair."""
    return strip_ansi(str(text)).encode("utf-8", "replace").decode().translate(MARKS)


def picture(source: str, attachments: dict) -> str:
    """The data URI of the picture that ``source`` names.

    Raises:
        ValueError: if it cannot be shown, with the reason.
    """
    if source.startswith("attachment:"):
        name = unquote(source.removeprefix("attachment:"))
        if not isinstance(found := attachments.get(name), dict) or not found:
            raise ValueError("it was not handed in")
        text = next(iter(found.values()))
    elif source.startswith("data:"):
        text = source.partition(",")[2]
    elif "//" in source:
        raise ValueError("it lies on another computer")
    else:
        raise ValueError("it was not handed in")
    try:
        content = base64.b64decode("".join(str(text).split()), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("it cannot be read") from None
    if len(content) > LARGEST_PICTURE:
        raise ValueError(f"it has more than {LARGEST_PICTURE // 2**20} MB")
    try:
        with Image.open(io.BytesIO(content), formats=PICTURES) as image:
            kind, (width, height) = image.format.lower(), image.size
    except Exception:  # Pillow raises all sorts of errors on broken files
        raise ValueError("it is no PNG, JPEG, GIF or WebP") from None
    if width * height > MOST_PIXELS:
        raise ValueError(f"it has more than {MOST_PIXELS // 10**6} million pixels")
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


@functools.lru_cache(1000)
def formula(tex: str, display: bool) -> str:
    """``tex`` as MathML; as it is, in ``code``, where it cannot be converted."""
    source = f"<code>{escape(tex)}</code>"
    if len(tex) > LONGEST_FORMULA:
        return source
    for pattern, known in TEX_NAMES:
        tex = pattern.sub(known, tex)
    try:
        math = convert_to_element(tex, display="block" if display else "inline")
        for element in math.iter():
            words = element.text or ""
            if element.tag not in MATHML or words == "&" or re.match(r"\\[a-zA-Z]", words):
                return source  # an unknown command or environment
            element.text = plain(unescape(words))
            element.attrib = {
                name: value
                for name, value in element.attrib.items()
                if name in MATHML_ATTRIBUTES and MATHML_ATTRIBUTES[name].fullmatch(value)
            }
            if re.fullmatch("[a-zA-Z]{2,}", words) and element.tag in ("mi", "mo"):  # sin, softmax
                element.tag, element.attrib = "mo", element.attrib | {"lspace": "0em", "rspace": "0.167em"}
        html = ElementTree.tostring(math, encoding="unicode")
    except Exception:  # latex2mathml raises all sorts of errors on broken TeX
        return source
    return f'<span class="formula" tabindex="0">{html}</span>' if display else html


def clean(html: str, attachments: dict | None = None, own: bool = False) -> str:
    """``html`` without all that could act in the page, ask another computer for something or change the page's look.

    Pictures that were handed in are put in, others leave their name and the reason; formulas become MathML. Only in a
    teacher's ``own`` text headings are headings of the page, and links can be clicked: a link into nbgrader's own pages
    can make them run a script.
    """
    soup, shown_pictures = BeautifulSoup(html, "html.parser"), set()
    for image in soup("img"):
        source = str(image.get("src", ""))
        name = source.removeprefix("attachment:") if not source.startswith("data:") else "in the text"
        try:
            image["src"] = picture(source, attachments or {})
            if image["src"] in shown_pictures:
                raise ValueError("it stands above")  # a page of a thousand times 5 MB would not open
            shown_pictures.add(image["src"])
            image["alt"] = str(image.get("alt", "")).strip() or f"picture {unquote(name)}"
        except ValueError as reason:
            image.replace_with(f"[picture {unquote(name)[:500]} not shown: {reason}]")
    for link in soup("a"):
        words, address = link.get_text().strip(), str(link.get("href", ""))
        if not own and words != address:
            link.append(f" ({address})" if words else address)
    for details in soup("details"):
        details["open"] = ""  # who grades an answer sees all of it
    for head in soup("th"):
        if not head.get_text().strip() or head.find(class_="formula"):
            head.name = "td"  # a heading without words, for those who listen to the page

    def kept(tag, name, value):
        if name == "src":
            return value if value in shown_pictures else None
        return value if re.fullmatch(ATTRIBUTES.get((tag, name), LINK), value) else None

    harmless = nh3.clean(
        str(soup),
        tags=TAGS | TEACHERS_TAGS if own else TAGS,
        attributes={tag: {name for other, name in ATTRIBUTES if other == tag} for tag, _ in ATTRIBUTES},
        attribute_filter=kept,
        url_schemes={"http", "https", "mailto", "data"},
        link_rel=LINK,
    )
    return FORMULA.sub(lambda found: formula(unescape(found[2]), bool(found[1])), harmless)


class Inline(MathInlineParser):
    r"""Text in which \(...\) and \[...\] are formulas too, as they are in LaTeX."""

    SPECIFICATION = MathInlineParser.SPECIFICATION | {
        "block_math_latex": r"\\{1,2}\[(?P<math_block_latex>(?s:.*?))\\{1,2}\]",
        "inline_math_latex": r"\\{1,2}\((?P<math_inline_latex>(?s:.*?))\\{1,2}\)",
    }


class Block(MathBlockParser):
    r"""Paragraphs, where \[...\] is one."""

    SPECIFICATION = MathBlockParser.SPECIFICATION | {
        "multiline_math": MathBlockParser.MULTILINE_MATH.replace(r"\\\\\[.*?\\\\\]", r"\\{1,2}\[.*?\\{1,2}\]"),
    }


class Renderer(IPythonRenderer):
    """Markdown as HTML that ``clean`` understands."""

    def __init__(self, own: bool):
        super().__init__(escape=False, exclude_anchor_links=True)
        self.own = own

    def heading(self, text, level, **attributes):
        """One level further down, below the heading of the page; those of a student are no headings of the page."""
        tag = f"h{min(level + 1, 6)}"
        return f"<{tag}>{text}</{tag}>\n" if self.own else f"<p><strong>{text}</strong></p>\n"

    def image(self, text, url, title=None):
        """Left to ``clean``."""
        return f'<img src="{escape(url)}" alt="{escape(nh3.clean(text, tags=set()))}">'

    def block_code(self, code, info=None):
        """Without colours."""
        return f"<pre><code>{escape(code)}</code></pre>\n"

    def task_list_item(self, text, checked=False):
        """A box that is ticked or not."""
        return f"<li>{'☑' if checked else '☐'} {text}</li>\n"

    def block_math(self, body):
        """$$...$$"""
        return f'<code class="formula display">{escape(body)}</code>'

    def inline_math(self, body):
        """$...$"""
        return f'<code class="formula">{escape(body)}</code>'

    def latex_environment(self, name, body):
        """\\begin{...}...\\end{...}"""
        return self.block_math(f"\\begin{{{name}}}{body}\\end{{{name}}}")


def to_html(source: str, own: bool = False) -> str:
    """Markdown as HTML, which is not clean."""
    return MarkdownWithMath(Renderer(own), block=Block(), inline=Inline(hard_wrap=False)).render(source)


def or_as_it_is(convert):
    """``convert`` of a text, or, where that fails or the text is too long, the text itself."""

    @functools.wraps(convert)
    def converted(source, *arguments):
        source, reason = plain(source), "too long to be shown in any other way"
        if len(DATA_URI.sub("", source)) <= LONGEST_TEXT:
            try:
                return convert(source, *arguments)
            except Exception as error:
                reason = f"as it was handed in, because it could not be converted: {type(error).__name__}"
        return f"<p>[{reason}]</p><pre>{escape(source[:LONGEST_TEXT])}</pre>"

    return converted


@or_as_it_is
def from_markdown(source: str, attachments: dict, own: bool) -> str:
    """Markdown as clean HTML."""
    return clean(to_html(source, own), attachments, own)


@pass_context
def markdown2html(context, source: str) -> str:
    """nbconvert's filter of this name: the text of a cell, or a comment, as clean HTML."""
    cell = context.get("cell") or NotebookNode(metadata={})
    attachments = cell.get("attachments")
    return from_markdown(source, attachments if isinstance(attachments, dict) else {}, is_locked(cell))


@or_as_it_is
def clean_html(html: str) -> str:
    """nbconvert's filter of this name, for outputs that are HTML."""
    return clean(html)


class Harmless(Preprocessor):
    """Leaves of a notebook only what the pages here need; nothing that a template of nbconvert could act on."""

    enabled = True

    def preprocess(self, nb, resources):
        """What nbconvert calls."""
        nb = copy.deepcopy(nb)
        for number, cell in enumerate(nb.cells):
            label = cell.metadata.get("nbgrader")
            known = isinstance(label, dict) and re.fullmatch(r"[\w.-]+", str(label.get("grade_id")))
            cell.metadata = NotebookNode(nbgrader=label) if known else NotebookNode()
            cell.id, cell.source = f"cell-{number}", plain(cell.source)
            if cell.cell_type == "code":
                cell.source = cut(cell.source)
                cell.outputs = [shown(output) for output in cell.outputs]
            elif cell.cell_type != "markdown":
                cell.cell_type, cell.source = "markdown", f"<pre>{escape(cell.source)}</pre>"
        for name in ("student", "first_name", "last_name", "notebook_path"):  # Formgrader's template does not escape
            if resources.get(name):
                resources[name] = escape(plain(resources[name]))
        return nb, resources


def cut(text: str) -> str:
    """The first characters of a long text."""
    return text if len(text) <= 2 * LONGEST_TEXT else f"{text[: 2 * LONGEST_TEXT]}\n[... cut]"


def shown(output: NotebookNode) -> NotebookNode:
    """``output`` as plain text or as HTML, which the template cleans."""
    if output.output_type == "stream":
        name = "stderr" if output.name == "stderr" else "stdout"
        return new_output("stream", name=name, text=cut(plain(output.text)))
    if output.output_type == "error":
        lines = cut(plain("\n".join(map(str, output.traceback)))).split("\n")
        return new_output("error", ename=plain(output.ename), evalue=cut(plain(output.evalue)), traceback=lines)
    data, html = output.data, None
    drawn = next((kind for kind in ("image/png", "image/jpeg") if kind in data), None)
    if drawn:
        described = output.metadata.get(drawn)
        alt = described.get("alt") if isinstance(described, dict) else None
        content = "".join(str(data[drawn]).split())
        html = f'<img src="data:{drawn};base64,{content}" alt="{escape(str(alt or "output of the cell"))}">'
    elif "text/html" in data and (len(str(data["text/html"])) <= LONGEST_TEXT or "text/plain" not in data):
        html = str(data["text/html"])
    elif words := data.get("text/markdown") or data.get("text/latex"):
        html = or_as_it_is(to_html)(words)
    if html is not None:
        return new_output("display_data", data={"text/html": html})
    others = ", ".join(sorted(kind for kind in data if kind != "text/plain"))
    lines = [cut(plain(data["text/plain"]))] if "text/plain" in data else []
    lines += [f"[not shown: {plain(others)}]"] if others else []
    return new_output("display_data", data={"text/plain": "\n".join(lines)})


class ClearTeachersHiddenTests(ClearHiddenTests):
    """Takes hidden tests out of the teacher's cells; the markers in a student's text are text."""

    def preprocess_cell(self, cell, resources, cell_index):
        """What nbconvert calls for each cell."""
        return super().preprocess_cell(cell, resources, cell_index) if is_locked(cell) else (cell, resources)


class Scores(GetGrades):
    """Scores and comments from the gradebook, and the table with which the page starts."""

    def preprocess(self, nb, resources):
        """What nbconvert calls."""
        nb, resources = super().preprocess(nb, resources)
        names = resources["nbgrader"]
        with Gradebook(names["db_url"]) as gradebook:
            student = gradebook.find_student(names["student"])
            whole = " ".join(filter(None, (student.first_name, student.last_name)))
        names["name"] = plain(f"{whole} ({student.id})" if whole else student.id)
        names["rows"] = rows(nb)
        names["unread"] = sum(row["points"] for row in names["rows"] if row["unread"])
        resources["code_style"] = HtmlFormatter(style="xcode").get_style_defs(".highlight")
        return nb, resources

    def _get_score(self, cell, resources):
        super()._get_score(cell, resources)
        name = cell.metadata.nbgrader["grade_id"]
        grade = self.gradebook.find_grade(name, self.notebook_id, self.assignment_id, self.student_id)
        cell.metadata.nbgrader["unread"] = grade.needs_manual_grade


def rows(nb: NotebookNode) -> list[dict]:
    """A row for each graded cell: its question, points, score and what the test said; the cell gets its row."""
    found, question, place = [], "", None
    for cell in nb.cells:
        heading = re.match(r"#+ +(.+)", cell.source) if cell.cell_type == "markdown" and is_locked(cell) else None
        if heading:
            question, place = re.sub(r"\s*\([^()]*\b(points?|minutes)\b[^()]*\)\s*$", "", heading[1]), cell
        label = cell.metadata.get("nbgrader", {})
        if "points" in label and "score" in label:
            errors = [output for output in cell.get("outputs", []) if output.output_type == "error"]
            row = {key: label[key] for key in ("points", "score")} | {
                "question": question or label["grade_id"],
                "unread": label.get("unread", False),
                "message": "\n".join(error.evalue or error.ename for error in errors),
                "anchor": f"question-{len(found) + 1}",
            }
            if any(row["question"] == other["question"] for other in found):
                row["question"] += f" ({label['grade_id']})"
            cell.metadata["row"] = row
            (place or cell).metadata["anchor"], place = row["anchor"], None
            found.append(row)
    return found


def course_config(here: Path) -> str:
    """The text of ``nbgrader_config.py`` for a course in another folder, which uses the one in the folder ``here``.

    Where that cannot be loaded nbgrader stops; it would go on with its defaults, which clean nothing, on an exception.
    """
    path = ascii(str(Path(here).resolve() / "nbgrader_config.py"))
    return f'''"""How nbgrader treats this course: as the configuration named below says."""

import runpy
import sys
import traceback

CONFIGURATION = {path}

try:
    runpy.run_path(CONFIGURATION, {{"get_config": get_config}})  # noqa: F821
except Exception:
    traceback.print_exc()
    sys.exit(f"nbgrader stops: {{CONFIGURATION}} cannot be loaded. Is the course still there, and installed?")
'''
