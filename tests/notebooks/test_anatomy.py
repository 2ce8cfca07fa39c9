"""The rooms of every notebook and what its cells may hold, as rules that return faults; and that each rule can fail.

A notebook with the room "The picture that moves" is of the second edition: it has other rooms, and more rules.
"""

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
SECOND_ROOMS = (
    "Setup",
    "The question",
    "The picture that moves",
    "The derivation",
    "Write it yourself",
    "Break it",
    "What it costs",
    "What it does to a model",
    "In the wild",
    "Exercises",
    "For the mathematician",
    "Summary",
    "References",
)
OPTIONAL = "For the mathematician"
MOST_CELLS = 60
MOST_BYTES = 1_500_000
LEAST_COMPARED = 0.8
# Of the second edition.
FIRST_EXPLORER = 6  # number of its cell, counted from 1
MOST_WORDS_ABOVE_IT = 350
MOST_CELLS_NOW = 42
MOST_WORDS = 3_800
MOST_OPEN_PLOTTING = 12
WIDEST_CODE = 92
LONG_LINE = 30
PLOTTING = re.compile(r"\b(plt|fig|axes?)\.|\.plot\(|\b(imshow|heatmap|subplots|Explorer|show)\(")


class Section(NamedTuple):
    """What stands between one heading and the next of its level or above."""

    level: int
    title: str
    text: str
    code: list[str]


def sections(nb: NotebookNode) -> Iterator[Section]:
    """The sections of a notebook in the order of their headings; a heading in a fenced block is none."""
    lines = []  # (heading level or None, text); a code cell is one line of level 0
    for cell in nb.cells:
        if cell.cell_type == "code":
            lines.append((0, cell.source))
        elif cell.cell_type == "markdown":
            fenced = False
            for line in cell.source.splitlines():
                fenced ^= line.lstrip().startswith("```")
                heading = None if fenced else re.match(r"(#+) ", line)
                lines.append((len(heading[1]) if heading else None, line))
    for start, (level, line) in enumerate(lines):
        if level:
            end = next((n for n in range(start + 1, len(lines)) if (lines[n][0] or 7) <= level), len(lines))
            body = lines[start + 1 : end]
            text = "\n".join(text for kind, text in body if kind != 0)
            yield Section(level, line[level:].strip(), text, [source for kind, source in body if kind == 0])


def is_second_edition(nb: NotebookNode) -> bool:
    """Whether the notebook has been rewritten."""
    return any(s.level == 2 and s.title.startswith("The picture that moves") for s in sections(nb))


def words(cells: list[NotebookNode]) -> int:
    """The words of Markdown."""
    return sum(len(cell.source.split()) for cell in cells if cell.cell_type == "markdown")


def first_explorer(nb: NotebookNode) -> int:
    """The number of its cell, from 0; the number of all cells if there is none."""
    drawn = (n for n, cell in enumerate(nb.cells) if cell.cell_type == "code" and "Explorer(" in cell.source)
    return next(drawn, len(nb.cells))


def fenced(text: str) -> list[str]:
    """The Python code in a Markdown text."""
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


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
    expected = SECOND_ROOMS if is_second_edition(nb) else ROOMS
    found = [room for title in titles for room in expected if re.match(rf"{room}(?!\w)", title)]
    expected = [room for room in expected if room in found or room != OPTIONAL]
    faults = [f"room {room!r} is there {found.count(room)} times" for room in expected if found.count(room) != 1]
    if not faults and found != expected:
        faults.append(f"the rooms are not in order: {found}")
    return faults


def on_paper(exercise: Section) -> bool:
    """Whether an exercise says in its heading that it needs no computer."""
    return "pen and paper" in exercise.title.lower()


def exercises(nb):
    found = [s for s in sections(nb) if s.level == 3 and s.title.startswith("Exercise")]
    most = 4 if is_second_edition(nb) else len(found)
    faults = [] if 2 <= len(found) <= most else [f"{len(found)} exercises, expected two to four"]
    for exercise in found:
        for word in ("Hint", "Solution"):
            if not any(summary.strip().startswith(word) for summary in folded(exercise.text)):
                faults.append(f"{exercise.title!r} has no folded {word.lower()}")
        if not exercise.code and not (is_second_edition(nb) and on_paper(exercise)):
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


def moves_early(nb):
    number = first_explorer(nb)
    above = words(nb.cells[:number])
    faults = (
        [] if number < FIRST_EXPLORER else [f"the first explorer is in cell {number + 1}, at most {FIRST_EXPLORER}"]
    )
    if above > MOST_WORDS_ABOVE_IT:
        faults.append(f"{above} words above the first explorer, at most {MOST_WORDS_ABOVE_IT}")
    return faults


def short(nb):
    counts = (("cells", len(nb.cells), MOST_CELLS_NOW), ("words", words(nb.cells), MOST_WORDS))
    return [f"{n} {what}, at most {most}" for what, n, most in counts if n > most]


def plots(cell: NotebookNode) -> bool:
    """Whether a cell draws: its source says so, or a picture stands below it that is not the pictogram's."""
    pictures = any("image/png" in output.get("data", {}) for output in cell.outputs)
    drawn = pictures and not re.search(r"^pictogram\(", cell.source, re.MULTILINE)
    return bool(drawn or PLOTTING.search(cell.source))


def plotting_is_folded(nb):
    faults = []
    for number, cell in enumerate(nb.cells):
        if cell.cell_type == "code" and "hide-input" not in cell.metadata.get("tags", []):
            lines = sum(bool(line.strip()) for line in cell.source.splitlines())
            if lines > MOST_OPEN_PLOTTING and plots(cell):
                faults.append(f"cell {number} draws in {lines} open lines, at most {MOST_OPEN_PLOTTING}")
    return faults


def narrow_code(nb):
    faults = []
    for number, cell in enumerate(nb.cells):
        code_of_cell = [cell.source] if cell.cell_type == "code" else fenced(cell.source)
        widest = max((len(line) for text in code_of_cell for line in text.splitlines()), default=0)
        if widest > WIDEST_CODE:
            faults.append(f"a line of code in cell {number} has {widest} columns, at most {WIDEST_CODE}")
    return faults


def pen_and_paper(nb):
    found = [s for s in sections(nb) if s.level == 3 and s.title.startswith("Exercise")]
    return [] if any(map(on_paper, found)) else ["no exercise is for pen and paper"]


def write_it_yourself(nb):
    room = next((s for s in sections(nb) if s.level == 2 and s.title.startswith("Write it yourself")), None)
    if room is None:
        return ["there is nothing to write"]
    summaries = [summary.strip() for summary in folded(room.text)]
    faults = [
        f"'Write it yourself' has no folded {word.lower()}" for word in ("Hint", "Solution") if word not in summaries
    ]
    stub = r"^def .*?^ +\.\.\.$.*?^check_\w+\(\w+\)"
    if not any(re.search(stub, source, re.DOTALL | re.MULTILINE) for source in room.code):
        faults.append("'Write it yourself' has no stub with a check below it")
    return faults


def shows_its_places(nb):
    setup = next((s for s in sections(nb) if s.level == 2 and s.title.startswith("Setup")), None)
    drawn = setup and any(re.search(r"^pictogram\(", source, re.MULTILINE) for source in setup.code)
    return [] if drawn else ["the setup draws no pictogram"]


def no_answer_above(nb):
    faults, above = [], set()
    for number, cell in enumerate(nb.cells):
        if cell.cell_type == "code":
            above |= {" ".join(line.split()) for line in cell.source.splitlines()}
            continue
        solutions = re.findall(r"<details>\s*<summary>\s*Solution.*?</details>", cell.source, re.DOTALL)
        for line in "".join(text for solution in solutions for text in fenced(solution)).splitlines():
            line = " ".join(line.split())
            if len(line) > LONG_LINE and line in above:
                faults.append(f"a code cell above the solution in cell {number} has its line {line!r}")
    return faults


def says_what_symbols_mean(nb):
    return [] if "](NOTATION.md" in nb.cells[0].source else ["the first cell has no link to NOTATION.md"]


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
SECOND_RULES = (
    moves_early,
    short,
    plotting_is_folded,
    narrow_code,
    pen_and_paper,
    write_it_yourself,
    shows_its_places,
    no_answer_above,
    says_what_symbols_mean,
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


@pytest.mark.parametrize("rule", SECOND_RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_of_the_second_edition(path, rule):
    if not is_second_edition(read(path)):
        pytest.skip("is of the first edition")
    assert rule(read(path)) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_written_in_canonical_form(path):
    assert path.read_text(encoding="utf-8") == canonical.text(canonical.canonical(read(path), read(path)))


def fold(summary):
    return f"<details><summary>{summary}</summary>\n\n```python\n# no heading!\n```\n</details>"


def runner():
    """A function that makes code cells, which count as if they were run in turn."""
    number = count(1)

    def run(source, *shown, tags=()):
        return new_code_cell(
            source, execution_count=next(number), outputs=list(shown), metadata={"tags": list(tags)} if tags else {}
        )

    return run


def printed(text):
    return new_output("stream", name="stdout", text=text)


def drawing():
    return new_output(
        "display_data",
        data={"image/png": "b2xk", "text/plain": "a curve"},
        metadata={"image/png": {"alt": "A curve."}},
    )


def good_notebook():
    """A small notebook of the first edition without a fault: every room, two exercises, one explorer."""
    run, picture = runner(), drawing()
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


def good_second_notebook():
    """The same of the second edition, with one exercise for pen and paper."""
    run, picture = runner(), drawing()
    answer = fold("Solution").replace("# no heading!", "return sum(x * theta for x in range(n))")
    stub = "def my_sum(n, theta):\n    ...\n\ncheck_my_sum(my_sum)"
    cells = [
        new_markdown_cell(
            "# 01 Title\n\n**Time:** 5 minutes. **Read before:** nothing. **Sources:** a paper. "
            "[Notation](NOTATION.md)\n\n## Setup"
        ),
        run("import math\nfrom posenc_lib.view import pictogram\n\npictogram(Scheme(4))", picture),
        new_markdown_cell("## The question: why?\n\n## The picture that moves\n\n*Predict:* what moves?"),
        run("def draw(ax):\n" + "    ax.plot()\n" * 12 + "Explorer(draw)", picture, tags=["hide-input"]),
        new_markdown_cell(fold("What you should have seen") + "\n\n## The derivation\n\n### 1. One"),
        run("fig, ax = subplots()\n\n" + "ax.plot([1, 2])\n" * 10 + "show(fig)", picture),
        new_markdown_cell(f"## Write it yourself\n\n{fold('Hint')}\n{answer}"),
        run(stub, printed("not done yet\n")),
        run("def solved(n, theta):\n    return sum(x * theta for x in range(n))", printed("True\n")),
        new_markdown_cell("## Break it"),
        run("x = 1\n" * 14 + "print(x)", printed("1\n")),
        new_markdown_cell("## What it costs\n\n## What it does to a model\n\n## In the wild"),
        new_markdown_cell(f"## Exercises\n\n### Exercise 1 (3 minutes, pen and paper)\n\n{fold('Hint')}\n"),
        new_markdown_cell(
            f"<details><summary>Solution</summary>\n\nIt is $2$.\n</details>\n\n### Exercise 2\n{fold('Hint')}"
        ),
        new_markdown_cell(fold("Solution").replace("# no heading!", "return 2")),
        run("def f(x):\n    return 2\n\ncheck_f(f)", printed("...\n")),
        new_markdown_cell("## Summary\n\n## References"),
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


ON_PAPER = f"### Exercise (pen and paper)\n{fold('Hint')}\n{fold('Solution')}\n"
LONG_ANSWER = "return sum(x * theta for x in range(n))"
SECOND_BREAKS = [
    *((rooms, replace(f"## {room}", f"### {room}")) for room in SECOND_ROOMS if room != OPTIONAL),
    (
        rooms,
        replace("## What it costs\n\n## What it does to a model", "## What it does to a model\n\n## What it costs"),
    ),
    (rooms, replace("## Summary", "## Summary\n\n## For the mathematician")),
    (rooms, replace("## Summary", "## For the mathematician\n\n## For the mathematician\n\n## Summary")),
    (rooms, replace("## Break it", "## Break it\n\n## The question again")),
    (exercises, replace("### Exercise 1 (3 minutes, pen and paper)", "### Exercise 1")),
    (exercises, replace("### Exercise 2", "### A task")),
    (exercises, replace("### Exercise 2", "### Exercise 2 (pen and paper)\n### Exercise 3")),
    (exercises, replace("## Summary", ON_PAPER * 3 + "## Summary")),
    (explorers, replace("Predict", "See")),
    (explorers, replace("What you should have seen", "Answer")),
    (moves_early, lambda nb: [nb.cells.insert(1, new_markdown_cell("So.")) for _ in range(3)]),
    (moves_early, replace("why?", "why " * MOST_WORDS_ABOVE_IT)),
    (moves_early, replace("Explorer(draw)", "draw()")),
    (short, lambda nb: nb.cells.extend([new_markdown_cell("More.")] * (MOST_CELLS_NOW + 1 - len(nb.cells)))),
    (short, replace("## References", "more " * MOST_WORDS)),
    (plotting_is_folded, lambda nb: nb.cells[3].metadata.update(tags=["nbval-ignore-output"])),
    (plotting_is_folded, replace("show(fig)", "ax.set()\nshow(fig)")),
    (plotting_is_folded, replace("print(x)", "plt.show()")),
    (plotting_is_folded, lambda nb: nb.cells[10].outputs.append(drawing())),
    (narrow_code, replace("print(x)", f"print({'x' * 86})")),
    (narrow_code, replace("return 2", f"return {'x' * 86}")),
    (pen_and_paper, replace("pen and paper", "on the screen")),
    (write_it_yourself, replace("## Write it yourself", "## Read")),
    (
        write_it_yourself,
        replace("## Write it yourself\n\n<details><summary>Hint", "## Write it yourself\n\n<details><summary>Help"),
    ),
    (write_it_yourself, replace("<summary>Solution", "<summary>Answer")),
    (write_it_yourself, replace("    ...", "    return 2")),
    (write_it_yourself, replace("check_my_sum(my_sum)", "my_sum(2, 3)")),
    (write_it_yourself, replace("\n\ncheck_my_sum(my_sum)", "")),
    (shows_its_places, replace("pictogram(Scheme(4))", "")),
    (shows_its_places, replace("pictogram(Scheme(4))", "# pictogram(Scheme(4))")),
    (no_answer_above, replace("import math", f"def f(n, theta):\n        {LONG_ANSWER}")),
    (no_answer_above, replace("return 2", LONG_ANSWER)),
    (says_what_symbols_mean, replace("NOTATION.md", "START.md")),
]
ALL_BREAKS = [(rule, b, good_notebook) for rule, b in BREAKS] + [(r, b, good_second_notebook) for r, b in SECOND_BREAKS]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_good_notebook_has_no_fault_and_each_rule_can_fail(rule):
    assert rule(good_notebook()) == []
    assert rule(good_second_notebook()) == []
    assert rule in {rule for rule, _ in BREAKS}


@pytest.mark.parametrize("rule", SECOND_RULES, ids=lambda rule: rule.__name__)
def test_the_second_edition_has_rules_that_can_fail(rule):
    assert rule(good_second_notebook()) == []
    assert rule in {rule for rule, _ in SECOND_BREAKS}


def test_editions_are_told_apart():
    assert is_second_edition(good_second_notebook())
    assert not is_second_edition(good_notebook())


def test_a_room_for_the_mathematician_is_allowed_after_the_exercises():
    nb = good_second_notebook()
    replace("## Summary", "## For the mathematician\n\n## Summary")(nb)
    assert rooms(nb) == []


@pytest.mark.parametrize(
    ("rule", "break_it", "good"), ALL_BREAKS, ids=[f"{rule.__name__}-{n}" for n, (rule, *_) in enumerate(ALL_BREAKS)]
)
def test_a_broken_notebook_is_reported(rule, break_it, good):
    good = good()
    broken = copy.deepcopy(good)
    break_it(broken)
    assert broken != good
    assert rule(broken)
