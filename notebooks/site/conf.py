"""How Sphinx builds the pages that build_site.py prepares."""

import base64
import hashlib
import re
import sys
from pathlib import Path

import nbformat
from docutils import nodes
from pygments.formatters import HtmlFormatter
from pygments.token import Name, Punctuation, Text, Whitespace
from sphinx.highlighting import PygmentsBridge

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
README = (ROOT / "README.md").read_text(encoding="utf-8")

project = re.search(r"^# (.*)$", README, re.M)[1]
html_title = project
language = "en"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["**.ipynb_checkpoints"]

nb_execution_mode = "off"
nb_render_markdown_format = "myst"
nb_merge_streams = True
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"
nb_mime_priority_overrides = [("html", "text/html", 0)]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4
suppress_warnings = ["mystnb.unknown_mime_type"]

mathjax_path = "mathjax/tex-chtml.js"
html_theme = "furo"
html_static_path = [str(ROOT / "build" / "unused")]
html_css_files = ["site.css"]
html_js_files = ["posenc.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
templates_path = []
autodoc_typehints = "description"
pygments_style = "default"
pygments_dark_style = "monokai"


def bars(app, what, name, thing, options, lines: list[str]) -> None:
    """Let |i - j| in a docstring be an absolute value, and not the name of something to put there."""
    for n, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = line.split("``")
            lines[n] = "``".join(part if k % 2 else part.replace("|", r"\|") for k, part in enumerate(parts))


def say_what_pictures_show(app, doctree) -> None:
    """Give each picture of a notebook, whose file is named by its digest, its alt text; load it when it is near."""
    source = app.env.doc2path(app.env.current_document.docname)
    if source.suffix != ".ipynb":
        return
    outputs = [out for cell in nbformat.read(source, as_version=4).cells for out in cell.get("outputs", ())]
    alts = {
        hashlib.sha256(base64.b64decode(out.data["image/png"])).hexdigest(): out.metadata["image/png"]["alt"]
        for out in outputs
        if "image/png" in out.get("data", {})
    }
    for image in doctree.findall(nodes.image):
        image["alt"], image["loading"] = alts[Path(image["uri"]).stem], "lazy"


class LeanFormatter(HtmlFormatter):
    """Without the elements around what neither style gives a colour of its own: two fifths of a page of much code."""

    def format_unencoded(self, tokensource, outfile) -> None:
        """Write what pygments writes for the same tokens, where those without a colour are plain text."""
        plain = (Name, Punctuation, Whitespace)
        super().format_unencoded(((Text if kind in plain else kind, value) for kind, value in tokensource), outfile)


def setup(app) -> None:
    """What Sphinx calls."""
    PygmentsBridge.html_formatter = LeanFormatter
    app.connect("autodoc-process-docstring", bars)
    app.connect("doctree-read", say_what_pictures_show)
