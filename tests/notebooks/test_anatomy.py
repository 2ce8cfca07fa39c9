"""The rooms of every notebook and what its cells may hold, as rules that return faults; and that each rule can fail."""

import copy
import functools
import importlib.util
import json
import re
import symtable
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

spec = importlib.util.spec_from_file_location("canonical", Path(__file__).with_name("canonical.py"))
canonical = importlib.util.module_from_spec(spec)
spec.loader.exec_module(canonical)

NOTEBOOKS = sorted(canonical.NOTEBOOKS.glob("*.ipynb"))
ROOMS = (
    "Setup",
    "The question",
    "The picture",
    "The derivation",
    "From scratch",
    "Explore",
    "Break it",
    "What it costs",
    "What it does to a model",
    "Exercises",
    "Summary",
    "References",
)
MOST_CELLS = 60
MOST_BYTES = 1_500_000
LEAST_COMPARED = 0.8


class Section(NamedTuple):
    """What stands between one heading and the next of its level or above."""

    level: int
    title: str
    text: str
    code_cells: int


def sections(nb: NotebookNode) -> Iterator[Section]:
    """The sections of a notebook in the order of their headings; a heading in a fenced block is none."""
    lines = []  # (heading level or None, text); a code cell is the line None, None
    for cell in nb.cells:
        if cell.cell_type == "code":
            lines.append((None, None))
        elif cell.cell_type == "markdown":
            fenced = False
            for line in cell.source.splitlines():
                fenced ^= line.lstrip().startswith("```")
                heading = None if fenced else re.match(r"(#+) ", line)
                lines.append((len(heading[1]) if heading else None, line))
    for start, (level, line) in enumerate(lines):
        if level:
            end = next((n for n in range(start + 1, len(lines)) if (lines[n][0] or 7) <= level), len(lines))
            body = [text for _, text in lines[start + 1 : end]]
            text = "\n".join(text for text in body if text is not None)
            yield Section(level, line[level:].strip(), text, body.count(None))


def code(nb: NotebookNode) -> list[NotebookNode]:
    """The code cells that hold code."""
    return [cell for cell in nb.cells if cell.cell_type == "code" and cell.source.strip()]


def outputs(nb: NotebookNode) -> Iterator[tuple[int, NotebookNode]]:
    """Every output with the number of its cell."""
    for number, cell in enumerate(nb.cells):
        for output in cell.get("outputs", []):
            yield number, output


def folded(text: str) -> list[str]:
    """The summaries of the ``<details>`` blocks in a text."""
    return re.findall(r"<details>\s*<summary>(.*?)</summary>.*?</details>", text, re.DOTALL)


def valid(nb):
    identifiers = [cell.get("id") for cell in nb.cells]
    if len(set(identifiers)) < len(identifiers):
        return ["two cells have the same id"]
    try:
        nbformat.validate(copy.deepcopy(nb))  # a copy, since it repairs some of the faults it finds
    except nbformat.ValidationError as error:
        return [f"not a valid notebook: {error.message}"]
    return []


def title_and_promise(nb):
    first = nb.cells[0].source if nb.cells and nb.cells[0].cell_type == "markdown" else ""
    titles = [section.title for section in sections(nb) if section.level == 1]
    faults = [
        f"the first cell does not state: {word}" for word in ("minutes", "Read before", "Sources") if word not in first
    ]
    if len(titles) != 1 or not first.startswith("# "):
        faults.append(f"one level-1 heading must open the first cell, found {titles}")
    return faults


def rooms(nb):
    titles = [section.title for section in sections(nb) if section.level == 2]
    found = [room for title in titles for room in ROOMS if re.match(rf"{room}(?!\w)", title)]
    faults = [f"room {room!r} is there {found.count(room)} times" for room in ROOMS if found.count(room) != 1]
    if not faults and found != list(ROOMS):
        faults.append(f"the rooms are not in order: {found}")
    return faults


def exercises(nb):
    found = [s for s in sections(nb) if s.level == 3 and s.title.startswith("Exercise")]
    faults = [] if len(found) >= 2 else [f"{len(found)} exercises, expected two to four"]
    for exercise in found:
        for word in ("Hint", "Solution"):
            if not any(summary.strip().startswith(word) for summary in folded(exercise.text)):
                faults.append(f"{exercise.title!r} has no folded {word.lower()}")
        if not exercise.code_cells:
            faults.append(f"{exercise.title!r} has no code cell")
    return faults


def explorers(nb):
    found = [n for n, cell in enumerate(nb.cells) if cell.cell_type == "code" and "Explorer(" in cell.source]
    faults = [] if found else ["there is no explorer"]
    for number in found:
        texts = [(n, cell.source) for n, cell in enumerate(nb.cells) if cell.cell_type == "markdown"]
        before = next((text for n, text in reversed(texts) if n < number), "")
        after = next((text for n, text in texts if n > number), "")
        if "Predict" not in before:
            faults.append(f"the explorer in cell {number} asks for no prediction before it")
        if not any("What you should have seen" in summary for summary in folded(after)):
            faults.append(f"the explorer in cell {number} has no folded 'What you should have seen' after it")
    return faults


def assigned(source: str) -> set[str]:
    """Names that a cell gives a value outside its functions."""
    table = symtable.symtable(source, "cell", "exec")
    return {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}


def read_by_functions(source: str) -> dict[str, set[str]]:
    """For every function of a cell, by name, what it and the functions inside it read from the notebook."""
    found = {}

    def visit(table, owner):
        for inner in table.get_children():
            name = owner or inner.get_name()
            read = {s.get_name() for s in inner.get_symbols() if s.is_referenced() and s.is_global()}
            found[name] = found.get(name, set()) | read
            visit(inner, name)

    visit(symtable.symtable(source, "cell", "exec"), None)
    return found


def explorers_keep_their_names(nb):
    cells = [(n, cell.source) for n, cell in enumerate(nb.cells) if cell.cell_type == "code"]
    reads = {name: names for _, source in cells for name, names in read_by_functions(source).items()}
    faults = []
    for number, source in cells:
        if "Explorer(" in source:
            named = {s.get_name() for s in symtable.symtable(source, "cell", "exec").get_symbols() if s.is_referenced()}
            needed, waiting = set(), set().union(named & set(reads), *read_by_functions(source).values())
            while waiting:
                needed.add(name := waiting.pop())
                waiting |= reads.get(name, set()) - needed
            for later, changed in ((n, needed & assigned(text)) for n, text in cells if n > number):
                faults += [f"the explorer in cell {number} reads {name}, changed in cell {later}" for name in changed]
    return faults


def calm_prose(nb):
    cited_title = r"\*[^*]+\*(?=[ ,(]*\[)"  # in italics, followed by its link
    not_prose = rf"```.*?```|(`+).+?\1|\$\$.*?\$\$|(?<!\\)\$.+?(?<!\\)\$|<!--.*?-->|!\[|{cited_title}"
    faults = []
    for number, cell in enumerate(nb.cells):
        if cell.cell_type == "markdown":
            prose = re.sub(not_prose, " ", cell.source, flags=re.DOTALL)
            faults += [f"exclamation mark in cell {number}: {line!r}" for line in prose.splitlines() if "!" in line]
    return faults


def metadata(nb):
    return [] if nb.metadata == canonical.METADATA else [f"metadata is not that of canonical.py: {dict(nb.metadata)}"]


def no_widget_state(nb):
    faults = ["metadata.widgets is there"] if "widgets" in nb.metadata else []
    shown = [n for n, output in outputs(nb) if canonical.WIDGET_VIEW in output.get("data", {})]
    return faults + [f"widget view in the output of cell {n}" for n in shown]


def small(nb):
    size = len(json.dumps(nb, indent=1, ensure_ascii=False).encode())
    faults = [f"{size} bytes, at most {MOST_BYTES}"] if size >= MOST_BYTES else []
    return faults + ([f"{len(nb.cells)} cells, at most {MOST_CELLS}"] if len(nb.cells) > MOST_CELLS else [])


def alt_text(nb):
    return [
        f"picture without alt text in the output of cell {number}"
        for number, output in outputs(nb)
        for kind in output.get("data", {})
        if kind.startswith("image/") and not (output.metadata.get(kind) or {}).get("alt", "").strip()
    ]


def stable_text(nb):
    faults = []
    for number, output in outputs(nb):
        text = output.get("text", "") + "".join(v for k, v in output.get("data", {}).items() if k.startswith("text/"))
        found = [word for word in (" at 0x", "VBox(", "tensor([") if word in text]
        faults += [f"{word!r} in the output of cell {number}" for word in found]
    return faults


def no_semicolon(nb):
    bad = [n for n, c in enumerate(nb.cells) if c.cell_type == "code" and canonical.rules.ends_in_semicolon(c.source)]
    return [f"cell {n} ends in a semicolon" for n in bad]


def run_in_order(nb):
    counts = [cell.execution_count for cell in code(nb)]
    faults = [] if counts == list(range(1, len(counts) + 1)) else [f"execution counts are {counts}"]
    return faults + [f"cell {n} holds an error" for n, output in outputs(nb) if output.output_type == "error"]


def compared(nb):
    showing = [cell for cell in code(nb) if cell.outputs]
    skipped = [
        cell
        for cell in showing
        if {"nbval-ignore-output", "nbval-skip"} & set(cell.metadata.get("tags", [])) or "NBVAL_" in cell.source
    ]
    number = len(showing) - len(skipped)
    return [] if showing and number / len(showing) >= LEAST_COMPARED else [f"{number} of {len(showing)} are compared"]


def no_surgery(nb):
    words = ("sys.path", "!pip", "%pip")
    return [f"{word!r} in cell {n}" for n, cell in enumerate(nb.cells) for word in words if word in cell.source]


RULES = (
    valid,
    title_and_promise,
    rooms,
    exercises,
    explorers,
    explorers_keep_their_names,
    calm_prose,
    metadata,
    no_widget_state,
    small,
    alt_text,
    stable_text,
    no_semicolon,
    run_in_order,
    compared,
    no_surgery,
)


@functools.cache
def read(path):
    return nbformat.read(path, as_version=nbformat.NO_CONVERT)


def test_there_are_notebooks():
    assert NOTEBOOKS
    assert [path.name for path in NOTEBOOKS if not re.fullmatch(r"\d\d_[a-z0-9_]+\.ipynb", path.name)] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, rule):
    assert rule(read(path)) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_written_in_canonical_form(path):
    assert path.read_text(encoding="utf-8") == canonical.text(canonical.canonical(read(path), read(path)))


def fold(summary):
    return f"<details><summary>{summary}</summary>\n\n```python\n# no heading!\n```\n</details>"


def good_notebook():
    """A small notebook without a fault: every room, two exercises, one explorer."""
    number = count(1)

    def run(source, *shown, tags=()):
        return new_code_cell(
            source, execution_count=next(number), outputs=list(shown), metadata={"tags": list(tags)} if tags else {}
        )

    def printed(text):
        return new_output("stream", name="stdout", text=text)

    picture = new_output(
        "display_data",
        data={"image/png": "b2xk", "text/plain": "a curve"},
        metadata={"image/png": {"alt": "A curve."}},
    )
    cells = [
        new_markdown_cell("# 01 Title\n\n**Time:** 5 minutes. **Read before:** nothing. **Sources:** a paper."),
        new_markdown_cell("## Setup"),
        run("import math\nn = 2\ndef draw():\n    return [n * k for k in range(3)]"),
        new_markdown_cell("## The question: why?\n\nIs $n! \\ne 2$, `a != b`, ![a curve](a.png)?<!-- yes! -->"),
        new_markdown_cell("## The picture\n\n```\n## Setup!\n```"),
        run("show()", picture),
        new_markdown_cell("## The derivation\n\n### 1. One\n\n$$3! = 6$$"),
        run("print(6)", printed("6\n")),
        new_markdown_cell("## From scratch\n\n## Explore: the base\n\n*Predict:* what moves?"),
        run("Explorer(draw)", picture),
        new_markdown_cell(fold("What you should have seen") + "\n\n## Break it"),
        run("print(1)", printed("1\n")),
        new_markdown_cell("## What it costs"),
        run("print(time)", printed("1 ms\n"), tags=["nbval-ignore-output"]),
        new_markdown_cell("## What it does to a model"),
        run("print(True)", printed("True\n")),
        new_markdown_cell(f"## Exercises\n\n### Exercise 1\n\n{fold('Hint')}\n{fold('Solution')}"),
        run("check(f)", printed("...\n")),
        new_markdown_cell("### Exercise 2"),
        run("check(g)", printed("...\n")),
        new_markdown_cell(f"{fold('Hint')}\n{fold('Solution')}"),
        new_markdown_cell(
            "## Summary\n\n## References\n\n- A. Author 2024, *Here we go!*, [arXiv:1](https://arxiv.org)"
        ),
    ]
    return canonical.canonical(new_notebook(cells=cells))


def replace(old, new):
    """A break: in the first cell whose source has ``old``, put ``new`` in its place."""

    def break_it(nb):
        cell = next(cell for cell in nb.cells if old in cell.source)
        cell.source = cell.source.replace(old, new, 1)

    return break_it


def change(change_cell, number):
    """A break: change cell ``number``."""
    return lambda nb: change_cell(nb.cells[number])


def shown(**fields):
    """A break: give the first printed output, that of cell 7, these fields."""
    return change(lambda cell: cell.outputs[0].update(nbformat.from_dict(fields)), 7)


def error(cell):
    cell.outputs = [new_output("error", ename="E", evalue="", traceback=[])]


BREAKS = [
    (valid, change(lambda cell: cell.pop("source"), 1)),
    (valid, change(lambda cell: cell.update(id="cell-00"), 1)),
    (title_and_promise, replace("minutes", "hours")),
    (title_and_promise, replace("Read before", "Done")),
    (title_and_promise, replace("Sources", "By")),
    (title_and_promise, replace("# 01 Title", "01 Title")),
    (title_and_promise, replace("### 1. One", "# 1. One")),
    (title_and_promise, lambda nb: nb.cells.insert(0, new_markdown_cell("Hello"))),
    *((rooms, replace(f"## {room}", f"### {room}")) for room in ROOMS),
    (rooms, replace("## From scratch\n\n## Explore", "## Explore\n\n## From scratch")),
    (rooms, replace("## Explore", "## Exploring")),
    (rooms, replace("### 1. One", "## Setup again")),
    (exercises, replace("### Exercise 2", "### A task")),
    (exercises, replace("Hint", "Help")),
    (exercises, replace("Solution", "Answer")),
    (exercises, lambda nb: nb.cells.pop(19)),
    (exercises, lambda nb: nb.cells.pop(20)),
    (exercises, replace("### Exercise 2", "### Exercise 2\n\n### Notes")),
    (explorers, replace("Predict", "See")),
    (explorers, replace("What you should have seen", "Answer")),
    (explorers, replace("Explorer(draw)", "draw()")),
    (explorers, lambda nb: nb.cells.insert(10, new_markdown_cell("So."))),
    (explorers_keep_their_names, replace("print(1)", "n = 3\nprint(1)")),
    (explorers_keep_their_names, replace("print(1)", "def draw():\n    return 1\nprint(1)")),
    (calm_prose, replace("why?", "why!")),
    (calm_prose, replace("$$3! = 6$$", "$3$! $= 6$")),
    (calm_prose, replace("*Here we go!*, ", "*Here we go!* and ")),
    (metadata, lambda nb: nb.metadata.kernelspec.update(name="mine")),
    (metadata, lambda nb: nb.metadata.language_info.update(version="3.11")),
    (no_widget_state, lambda nb: nb.metadata.update(widgets={})),
    (no_widget_state, change(lambda cell: cell.outputs[0].data.update({canonical.WIDGET_VIEW: {}}), 9)),
    (small, shown(text="0" * MOST_BYTES)),
    (small, lambda nb: nb.cells.extend([new_markdown_cell("More.")] * 40)),
    (alt_text, change(lambda cell: cell.outputs[0].update(metadata={}), 5)),
    (alt_text, change(lambda cell: cell.outputs[0].metadata["image/png"].update(alt=" "), 5)),
    (stable_text, shown(text="<object at 0x7f>")),
    (stable_text, shown(text="tensor([1])")),
    (stable_text, change(lambda cell: cell.outputs[0].data.update({"text/plain": "VBox(children)"}), 9)),
    (no_semicolon, replace("print(6)", "print(6);")),
    (no_semicolon, replace("print(6)", "print(6);  # six")),
    (run_in_order, change(lambda cell: cell.update(execution_count=None), 7)),
    (run_in_order, change(lambda cell: cell.update(execution_count=9), 7)),
    (run_in_order, change(error, 7)),
    (compared, change(lambda cell: cell.metadata.update(tags=["nbval-skip"]), 7)),
    (compared, replace("print(6)", "# NBVAL_IGNORE_OUTPUT\nprint(6)")),
    (compared, lambda nb: [cell.update(outputs=[]) for cell in code(nb)]),
    (no_surgery, replace("import math", "import sys\nsys.path.append('..')")),
    (no_surgery, replace("import math", "!pip install posenc")),
    (no_surgery, replace("import math", "%pip install posenc")),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_good_notebook_has_no_fault_and_each_rule_can_fail(rule):
    assert rule(good_notebook()) == []
    assert rule in {rule for rule, _ in BREAKS}


@pytest.mark.parametrize(
    ("rule", "break_it"), BREAKS, ids=[f"{rule.__name__}-{n}" for n, (rule, _) in enumerate(BREAKS)]
)
def test_a_broken_notebook_is_reported(rule, break_it):
    good = good_notebook()
    broken = copy.deepcopy(good)
    break_it(broken)
    assert broken != good
    assert rule(broken)
