"""The notebooks of the second edition use the symbols that NOTATION.md reserves for what it says they mean.

A formula or a cell of code is told to be wrong only where that is certain: a rule is a pattern of a use that the table
forbids. The page itself is read by the same rules: what it says papers write breaks one, what it says is written here
breaks none.
"""

import ast
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest
from nbformat import NotebookNode

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
PAGE = (Path(__file__).parents[2] / "notebooks" / "NOTATION.md").read_text(encoding="utf-8")
BY_ITSELF = r"(?<![A-Za-z\\])"  # before a letter that is no part of a word or of a command
NOT_ALL_AT_ONCE = r"\A(?!.*(\\softmax|(?<![A-Za-z\\_^{])Q)).*?"  # a formula without the matrix of all queries
DISPLAY = re.compile(r"\$\$(.+?)\$\$|(?<![\\$])\$(?!\$)([^$]+?)(?<!\\)\$", re.DOTALL)
NO_PROSE = re.compile(r"```.*?```|(`+)(?!`).+?\1", re.DOTALL)


class Rule(NamedTuple):
    """A use of a symbol that the table forbids in formulas, with wrong formulas and right ones."""

    says: str
    pattern: str
    wrong: list[str]
    right: list[str]


RULES = [
    Rule(
        "the imaginary unit is no letter: write cis",
        rf"\\imaginary|{BY_ITSELF}e\^\{{\s*[-+]?\s*(\\pi)?\s*i\s*(?!A)(\\[a-z]|[a-zB-Z(])|\\pi\s*i(?![a-z])|\bi\^2\s*=",
        [
            r"e^{\mathrm{i}\theta}",
            r"e^{i\theta_t}",
            r"e^{-i p\theta}",
            r"q_0 + \mathrm i q_1",
            r"e^{2\pi i x}",
            "i^2 = -1",
        ],
        [r"e^{iA}", r"e^{-iA}", r"e^{(j-i)A}", r"e^{-m_h\,\lvert i-j\rvert}", r"e^{s_{ij}}", r"e^{i \, A}", r"2\pi r"],
    ),
    Rule(
        "e is Euler's number only",
        rf"{BY_ITSELF}e(_|\s*=)",
        ["e_r", "e_{ij}", "e = n/2"],
        [r"e^{pA}", r"\Re_t", r"\text{one} = 1", r"r \le_t 1"],
    ),
    Rule(
        "k is a key and no number of positions",
        rf"{BY_ITSELF}([pij]|pos)\s*[+-]\s*k(?![_A-Za-z])|{BY_ITSELF}[MRPGa]_(k|\{{\s*-?\s*k(?![_A-Za-z]))"
        r"|clip\s*\([^)]*,\s*k\s*\)|\\sum_\{?k(?![_A-Za-z])",
        [
            "P_{p+k}",
            "M_k P_p",
            "M_{-k}",
            "R_k",
            "a_k",
            r"\operatorname{clip}(r, -k, k)",
            "i - k",
            r"\sum_k",
            "2 + i - j + k",
        ],
        [
            "q_i^\top k_j",
            "P_{p+r}",
            r"W_K k_j",
            r"q_t + k_t",
            r"\sum_j k_j",
            r"p + k_j",
            r"M_r k",
            r"\operatorname{clip}(r, -c, c)",
        ],
    ),
    Rule(
        "K is a superscript, a subscript, or all keys at once",
        rf"{NOT_ALL_AT_ONCE}{BY_ITSELF}(?<![_^{{])K(?![A-Za-z])(?!\s*\^\s*\{{?\s*r)",
        ["K", "2K + 1", "[-K, K]", r"\min(K, r)", "r = K"],
        [
            "W_K",
            "a_r^K",
            "a^{K}_r",
            r"QK^\top",
            r"Q K^{\top}",
            r"\text{K and V}",
            r"b_{K}",
            "W_{QK}",
            r"\Pi Q, \Pi K",
            r"K^r_{c - r}",
        ],
    ),
    Rule(
        "V is a superscript, a subscript, or all values at once: a vocabulary is written in words",
        rf"{NOT_ALL_AT_ONCE}{BY_ITSELF}(?<![_^{{])V(?![A-Za-z])",
        ["V", r"\lvert V \rvert", "V = 64", r"D \times V", r"\ln V"],
        ["W_V", "a_r^V", r"\operatorname{softmax}(s)\,V", r"(QK^\top)V", r"\sum_j \alpha_{ij} v_j"],
    ),
    Rule(
        "A is a generator: a score is s_ij, a weight alpha_ij",
        rf"{BY_ITSELF}A_(i|\{{\s*i)|{BY_ITSELF}A\s*=\s*\\softmax",
        ["A_{ij}", "A_{i,j}", r"A = \operatorname{softmax}(s)"],
        ["e^{pA}", "A_1 A_2", r"A = 0 \oplus A_1", r"\alpha_{ij}"],
    ),
    Rule(
        "positions are i and j or p; m is a slope and n a number of buckets",
        rf"{BY_ITSELF}[qkvxRPMG]_(\{{\s*-?\s*)?[mn](?![A-Za-z_])|{BY_ITSELF}[mn]\s*-\s*[mn](?![A-Za-z_])"
        rf"|{BY_ITSELF}[mn]\s*\\theta|{BY_ITSELF}[RGP]\(\s*-?[mn]\b",
        ["R_m q", "k_n", "R_{n-m}", "m - n", r"\cos(m\theta)", r"n\,\theta_t", "R(m)", "P_{m+1}"],
        ["m_h", "R_p q", "n - 1", "0, \\dots, n - 1", r"p\,\theta_t", "R_i", r"\min_t", "L - n"],
    ),
    Rule(
        "a slope m_h has the index of its head",
        rf"{BY_ITSELF}(?<!_)m\s*(\\cdot)?\s*(\(\s*[ij]|\[|\||\\lvert)",
        [r"-m\,(i - j)", r"m\,|r|", r"m \cdot [-1, 0]", r"m\lvert r\rvert"],
        [r"-m_h\,\lvert r\rvert", r"m_h (j - i)", r"\max(m_1, m_2)", "m", "m(L - 1)", r"B_m [1]"],
    ),
    Rule(
        "a relative position is j - i, the key minus the query",
        rf"_\{{[^{{}}]*{BY_ITSELF}i\s*-\s*j|{BY_ITSELF}r\s*=\s*i\s*-\s*j|\(\s*i\s*-\s*j\s*\)\s*(\\theta|A\b)"
        r"|P_\{\s*i\s*(\\[lm]?vert|\|)|\\bucket\s*\(\s*i\s*-\s*j",
        [
            "R_{i-j}",
            "a_{i - j}",
            "r = i - j",
            r"\cos((i-j)\,\theta_t)",
            r"P_{i\vert j}",
            "e^{(i-j)A}",
            r"\text{bucket}(i - j)",
        ],
        ["r = j - i", "R_{j-i}", r"\lvert i - j\rvert", r"\psi(i - j)", r"P_{-r}", "a_{j-i}", "e^{(j-i)A}"],
    ),
    Rule(
        "what belongs to a relative position has the index r",
        rf"{BY_ITSELF}a(\^\{{?[KV]\}}?)?_\{{\s*i\s*,?\s*j|{BY_ITSELF}E\^r",
        ["a_{ij}", "a^K_{ij}", "a_{i,j}^V", "E^r"],
        ["a_r", "a_r^K", r"\alpha_{ij}", "b_{ij}"],
    ),
    Rule(
        "the base of the frequencies is a word",
        rf"{BY_ITSELF}[A-Za-z]\^\{{[^{{}}]*t\s*/\s*[dD]\s*\}}|{BY_ITSELF}b\^\{{\s*-?\s*2\s*[td]",
        ["b^{-2t/d}", "c^{-4t/d}", r"\theta_t = B^{-2t/D}", r"b^{-2d/\lvert D\rvert}"],
        [r"\text{base}^{-2t/d}", r"\text{base}^{2t / D}", "10000^{-2t/d}", "e^{-t}", "b_r", "b^2"],
    ),
    Rule(
        "t is the number of a pair",
        r"2\s*i\s*/\s*[dD]|\\theta_\{?\s*i(?![A-Za-z])|2\s*\(\s*i\s*-\s*1\s*\)\s*/|2\s*i\s*(\+\s*1\s*)?\)\s*\}",
        [r"10000^{2i/d}", r"\theta_i", r"10000^{-2(i-1)/d}", "PE_{(pos, 2i)}", r"PE_{(pos,2i+1)}"],
        [r"\theta_t", r"2t/d", r"i\,\theta_t", r"P_i", r"2(i + j)"],
    ),
    Rule(
        "the encoding of position p is P_p",
        r"(?<![A-Za-z])PE_|(?<![A-Za-z])pos(?![A-Za-z])",
        ["PE_{p}", r"PE_{pos}", r"\mathrm{pos}"],
        ["P_p", r"P_{p+r} = M_r P_p"],
    ),
    Rule(
        "the widths are D and d",
        r"(?<![A-Za-z\\])d_(\{\s*)?(k|v|m|h)\b|(?<![A-Za-z\\])d_(\{\s*)?(\\?model|\\?head)",
        [r"\sqrt{d_k}", r"d_{\text{model}}", r"d_{\mathrm{model}}", "d_{model}", "d_h"],
        [r"\sqrt d", r"d/2 - 1", r"\sqrt{3d}"],
    ),
    Rule(
        "projections are W_Q, W_K, W_V, W_R and W_R alone for relative positions",
        r"(?<![A-Za-z\\])W(\^\{?\s*[QKVR]\b|_\{?\s*[qkvr](?![A-Za-z]))",
        ["W^Q", "W_q", r"W_{k,R}", "W^{K}", r"W_{q}^\top"],
        ["W_Q", r"W_K^\top", "W_{Q}", "W^2"],
    ),
    Rule(
        "vectors are columns",
        rf"{BY_ITSELF}[xP]_(\{{\s*)?[ijp]\}}?\s*W|{BY_ITSELF}q_i\s*k_j\s*\^",
        ["x_i W_Q", r"P_p W", r"q_i k_j^\top", r"x_{i} W_K"],
        ["W_Q x_i", r"x_i^\top W_Q^\top W_K x_j", r"q_i^\top k_j", r"P_i^\top W P_j"],
    ),
    Rule(
        "a token is x_i; H is the number of heads",
        rf"{BY_ITSELF}H_(\{{\s*)?[ij](?![A-Za-z])",
        ["H_i", r"H_j^\top", "H_{i}"],
        ["x_i", "H", r"2H", "m_H"],
    ),
    Rule(
        "s is a score: the factor of an extension is f",
        rf"(/|\\ln|\\log)\s*s(?![A-Za-z_'])|{BY_ITSELF}s\s*\^(?!\{{[^{{}}]*\}}\s*_)|{BY_ITSELF}s\s*=\s*(\d|L|\\max)|{BY_ITSELF}s\s*L\b"
        rf"|{BY_ITSELF}s\s*(\\ge|>)",
        [r"\theta_t / s", r"0.1 \ln s + 1", "s^{d/(d-2)}", "s = 4", r"s = L'/L", r"s \ge 1", "sL"],
        [
            r"\theta_t / f",
            "s_{ij} = 0",
            r"\operatorname{softmax}(s)_{ij}",
            r"s_{ij} / \sqrt d",
            r"s'_{ij}",
            r"s^{\text{code}}_{ij}",
        ],
    ),
    Rule(
        "tau is a step of an order: a temperature has no letter",
        r"1\s*/\s*\\tau|/\s*\(?\s*\\tau|\\frac\{?1\}?\{?\\tau",
        [r"\sqrt{1/\tau}", r"s_{ij}/\tau", r"q \cdot k / (\tau\sqrt d)"],
        [r"\tau < \tau'", r"z_\tau", r"1, \dots, \tau - 1"],
    ),
    Rule(
        "the second vector of Transformer-XL is u'",
        rf"{BY_ITSELF}v(\^\{{?\s*(\\top|T)\}}?|\s*\\cdot)\s*W_R|{BY_ITSELF}q_i\s*\+\s*v(?![_A-Za-z])",
        [r"v^\top W_R", r"v \cdot W_R P_{-r}", r"(q_i + v)"],
        [r"u'^\top W_R", r"v_j^\top W_R", r"q_i + u'", r"(q_i + u)^\top k_j"],
    ),
]


def normal(formula: str) -> str:
    """A formula without what only sets it: spaces, sizes of brackets, words; a named function becomes a command."""
    formula = re.sub(r"\\(math)?rm\s*\{?\s*i\s*(\}|\b)", r"\\imaginary ", formula)
    formula = re.sub(r"\\text\{bucket\}", r"\\bucket ", formula)
    formula = re.sub(r"\\text\{base\}", r"\\base", formula)
    formula = re.sub(r"\\(operatorname\*?|mathrm)\{(\w+)\}", r"\\\2 ", formula)
    formula = re.sub(r"\\text(tt|bf|it|rm)?\{(model|pos|head)\}", r"\2", formula)
    formula = re.sub(r"\\(text|texttt|textbf|textit)\{[^{}]*\}", " ", formula)
    formula = re.sub(r"\\([bB]igg?[lrm]?|left|right|displaystyle|textstyle)(?![A-Za-z])", "", formula)
    return re.sub(r"\\[,;:! ]|\\quad|\\qquad|~", " ", formula)


def faults(formula: str) -> list[str]:
    """What the rules say against a formula."""
    return [rule.says for rule in RULES if re.search(rule.pattern, normal(formula), re.DOTALL)]


def formulas(markdown: str) -> Iterator[str]:
    """The formulas of a text, but for those directly after the word "paper's", or "papers'"."""
    text = NO_PROSE.sub(" ", markdown)
    for found in DISPLAY.finditer(text):
        if not re.search(r"\bpaper('s|’s|s'|s’)\s*\Z", text[: found.start()]):
            yield found[1] or found[2]


def trees(nb: NotebookNode) -> Iterator[tuple[int, ast.AST]]:
    """Every piece of code, with the number of its cell: code cells, and Python in the folds of a text."""
    for number, cell in enumerate(nb.cells):
        sources = (
            [cell.source] if cell.cell_type == "code" else re.findall(r"```python\n(.*?)```", cell.source, re.DOTALL)
        )
        for source in sources:
            yield number, ast.parse(source)


def written(tree: ast.AST) -> Iterator[str]:
    """The formulas in the texts of a piece of code, such as the labels of axes; a value in one is written 0."""
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(part.value if isinstance(part, ast.Constant) else "0" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            text = node.value
        else:
            continue
        yield from formulas(text)


def given(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Every name that gets a value, with the value: assignments, loops (with what they run over), arguments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                pairs = zip(target.elts, node.value.elts, strict=False) if several else [(target, node.value)]
                yield from ((name.id, value) for name, value in pairs if isinstance(name, ast.Name))
        elif isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.target, ast.Name):
            yield node.target.id, node.iter
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg, node.value
        elif isinstance(node, ast.arguments):
            positional = node.posonlyargs + node.args
            defaults = zip(positional[len(positional) - len(node.defaults) :], node.defaults, strict=True)
            with_default = itertools.chain(defaults, zip(node.kwonlyargs, node.kw_defaults, strict=True))
            yield from ((argument.arg, value) for argument, value in with_default if value is not None)


def whole(value: ast.expr) -> bool:
    """Whether a value is for certain a whole number, or runs over such."""
    if isinstance(value, (ast.Tuple, ast.List)):
        return bool(value.elts) and all(map(whole, value.elts))
    if isinstance(value, ast.Call):
        return ast.unparse(value.func) in ("range", "len", "slider", "torch.arange", "int")
    if isinstance(value, ast.UnaryOp):
        return whole(value.operand)
    return isinstance(value, ast.Constant) and type(value.value) is int


def backwards(value: ast.expr) -> bool:
    """Whether a value is a query's position minus a key's."""
    if not (isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub)):
        return False
    left, right = (re.match(r"\w*", ast.unparse(side).lstrip("("))[0] for side in (value.left, value.right))
    return (left, right) in {("i", "j"), ("query", "key"), ("query_positions", "key_positions")}


class CodeRule(NamedTuple):
    """Values that a name is not given."""

    says: str
    names: set[str]
    forbids: Callable[[ast.expr], bool]
    wrong: list[str]
    right: list[str]


def number(value: ast.expr) -> bool:
    """Whether a value is for certain a number."""
    return whole(value) or (isinstance(value, ast.Constant) and type(value.value) is float)


CODE_RULES = [
    CodeRule(
        "k is a key and no number",
        {"k"},
        whole,
        [
            "k = 3",
            "for k in range(4):\n    print(k)",
            "def f(p, k=1):\n    pass",
            "Explorer(k=slider(0, 9))",
            "[k for k in (1, 2)]",
        ],
        ["k = x @ W_K.T", "r = 3", "for q, k in pairs:\n    pass", "attend(q, k=k, v=v)", "def f(q, k):\n    pass"],
    ),
    CodeRule(
        "K is no number: a clip is named clip",
        {"K"},
        whole,
        ["K = 4", "for K in (1, 2, 4):\n    pass", "q, K = 1, 2", "f(K=3)"],
        ["clip = 4", "W_K = eye", "K = x @ W_K.T"],
    ),
    CodeRule(
        "V is no number: a vocabulary is named in words",
        {"V"},
        whole,
        ["V = 64", "V = len(words)"],
        ["vocabulary = 64", "V = x @ W_V.T"],
    ),
    CodeRule(
        "A is a generator and not attention's weights",
        {"A"},
        lambda value: "softmax" in ast.unparse(value),
        ["A = s.softmax(-1)", "A = torch.softmax(s, -1)"],
        ["weights = s.softmax(-1)", "A = torch.zeros(2, 2)"],
    ),
    CodeRule(
        "e is Euler's number only",
        {"e"},
        lambda value: ast.unparse(value) not in ("math.e", "torch.e", "np.e"),
        ["e = n // 2", "for e in (1, 2):\n    pass"],
        ["e = math.e", "half = n // 2", "try:\n    f()\nexcept ValueError as e:\n    print(e)"],
    ),
    CodeRule(
        "the base of the frequencies is named base",
        {"b", "B"},
        lambda value: number(value) and isinstance(value, ast.Constant) and value.value >= 100,
        ["b = 10_000", "f(b=10000.0)"],
        ["base = 10_000", "b = 3", "b = score_bias"],
    ),
    CodeRule(
        "s is a score and no number: the factor of an extension is named factor",
        {"s"},
        number,
        ["s = 4", "for s in (2, 4, 8):\n    pass", "s = 4.0"],
        ["s = scores(q, k)", "factor = 4", "for s in schemes:\n    pass"],
    ),
    CodeRule(
        "a relative position is the key's minus the query's",
        {"r", "relative_position", "relative"},
        backwards,
        ["r = i - j", "r = i[:, None] - j[None]", "f(relative_position=query_positions[:, None] - key_positions)"],
        ["r = j - i", "r = j[None] - i[:, None]", "distance = i - j", "r = key - query"],
    ),
    CodeRule(
        "n is a number of buckets and no relative position",
        {"n"},
        lambda value: bool(re.search(r"\brelative_position\b|\bj - i\b", ast.unparse(value))) and not whole(value),
        ["n = -relative_position", "n = j - i"],
        ["n = 32", "n = len(relative_position)", "n = num_buckets // 2"],
    ),
]


def code_faults(tree: ast.AST) -> list[str]:
    """What the rules say against a piece of code, its formulas included."""
    found = [
        rule.says for name, value in given(tree) for rule in CODE_RULES if name in rule.names and rule.forbids(value)
    ]
    return found + [fault for formula in written(tree) for fault in faults(formula)]


def of_second_edition(path: Path) -> NotebookNode:
    """The notebook; its test is skipped where it has not been rewritten."""
    nb = nbformat.read(path, as_version=4)
    if not any(cell.cell_type == "markdown" and "## The picture that moves" in cell.source for cell in nb.cells):
        pytest.skip("is of the first edition")
    return nb


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_formulas_use_symbols_as_the_page_says(path):
    nb = of_second_edition(path)
    texts = ((n, cell.source) for n, cell in enumerate(nb.cells) if cell.cell_type == "markdown")
    assert [(n, f, what) for n, text in texts for f in formulas(text) for what in faults(f)] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_code_uses_names_as_the_page_says(path):
    nb = of_second_edition(path)
    assert [(n, what) for n, tree in trees(nb) for what in code_faults(tree)] == []


@pytest.mark.parametrize(("rule", "formula"), [(rule, wrong) for rule in RULES for wrong in rule.wrong])
def test_a_wrong_formula_is_found(rule, formula):
    assert rule.says in faults(formula)


@pytest.mark.parametrize("formula", [right for rule in RULES for right in rule.right])
def test_a_right_formula_is_not(formula):
    assert faults(formula) == []


@pytest.mark.parametrize(("rule", "source"), [(rule, wrong) for rule in CODE_RULES for wrong in rule.wrong])
def test_wrong_code_is_found(rule, source):
    assert code_faults(ast.parse(source)) == [rule.says]


@pytest.mark.parametrize("source", [right for rule in CODE_RULES for right in rule.right])
def test_right_code_is_not(source):
    assert code_faults(ast.parse(source)) == []


def test_formulas_are_found_wherever_they_stand():
    text = "A $K$, `$K_1$`, \\$5, $$\nK_2\n$$ and\n```\n$K_3$\n```\n" + (
        "the paper's $K_4$, the papers' $K_5$, a paper's is $K_6$."
    )
    assert [formula.strip() for formula in formulas(text)] == ["K", "K_2", "K_6"]
    tree = ast.parse("ax.set_xlabel('$R_{i-j}$')\nax.set_title(f'at {p}: $P_{{p+k}}$, ${x}$')")
    assert sorted(written(tree)) == ["0", "P_{p+k}", "R_{i-j}"]
    assert len(code_faults(tree)) == 2


def test_both_kinds_of_cells_are_read():
    cells = [
        nbformat.v4.new_markdown_cell("## The picture that moves\n\n```python\nk = 3\n```"),
        nbformat.v4.new_code_cell("K = 4"),
    ]
    found = [(n, what) for n, tree in trees(nbformat.v4.new_notebook(cells=cells)) for what in code_faults(tree)]
    assert found == [(0, "k is a key and no number"), (1, "K is no number: a clip is named clip")]


def rows(heading: str) -> list[list[str]]:
    """The cells of the rows of the table below a heading."""
    text = re.search(rf"^#+ {heading}\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)[1]
    lines = [line.strip("|\n ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return lines[2:]


@pytest.mark.parametrize("formula", [f for theirs, _ in rows("What papers write") for f in formulas(theirs)])
def test_what_papers_write_is_found(formula):
    assert faults(formula)


def test_what_their_code_writes_is_found():
    sources = [source for theirs, _ in rows("What papers write") for source in re.findall(r"`(.*?)`", theirs)]
    assert sources and all(code_faults(ast.parse(source)) for source in sources)


def test_the_page_writes_what_it_says():
    own = PAGE.split("## What papers write")[0] + "\n".join(ours for _, ours in rows("What papers write"))
    assert len(rows("Notation")) > 20
    assert [(f, what) for f in formulas(own) for what in faults(f) if f not in ("K", "V")] == []
    assert len(list(formulas(own))) > 80
