"""Signs that answers were copied: the same code but for names, comments and layout, and the same long sentences.

Two students may come to the same answer by themselves, and the shorter it is, the likelier. So nothing is said of an
answer that is short, that is the master's or the stub's, or that more than a few share, and of a pair only when
everything that the two have in common, over all answers, is long enough.
"""

import builtins
import io
import keyword
import re
import tokenize
from collections import defaultdict
from collections.abc import Mapping
from itertools import combinations

from nbformat import NotebookNode
from nbgrader.utils import is_solution

from roster import shown
from submission import identity

SHORT_CODE, SHORT_SENTENCE = 30, 12  # tokens, words: what has fewer is not compared
LONG_CODE, LONG_SENTENCE = 150, 30  # what has so many is told however many students share it
FEW = 3  # students that may share what is shorter
ENOUGH = 80  # tokens of code that two students must have in common; one long sentence is enough
LONGEST_ANSWER = 20_000  # characters; what stands behind is not compared
NAMED = 3  # students that are named to each

Piece = tuple[str, str | tuple[str, ...]]  # the name of a cell; its code in normal form, or one of its sentences


def hints(
    notebooks: Mapping[str, NotebookNode], released: NotebookNode, master: NotebookNode | None = None
) -> dict[str, list[str]]:
    """What each student's answers have in common with those of others, in words; only for students with such a hint.

    Args:
        notebooks: what was handed in, by student.
        released: the notebook that the students got.
        master: the notebook with the solutions.
    """
    answers = {identity(cell): cell.cell_type for cell in released.cells if is_solution(cell)}
    given = frozenset(dir(builtins)).union(*(_names(c.source) for c in released.cells if c.cell_type == "code"))
    known = {piece for notebook in (released, master) if notebook for _, piece in _pieces(notebook, answers, given)}
    known |= {sentence for cell in released.cells for sentence in _sentences(str(cell.source))}

    holders = defaultdict(set)
    for student, notebook in notebooks.items():
        for cell, piece in _pieces(notebook, answers, given):
            if piece not in known:
                holders[cell, piece].add(student)

    shared = defaultdict(list)
    for (cell, piece), students in holders.items():
        long = LONG_CODE if isinstance(piece, tuple) else LONG_SENTENCE
        if len(students) <= FEW or _length(piece) >= long:
            for pair in combinations(sorted(students), 2):
                shared[pair].append((cell, piece))

    found = defaultdict(list)
    for pair, pieces in shared.items():
        code = sum(len(piece) for _, piece in pieces if isinstance(piece, tuple))
        written = [piece for _, piece in pieces if isinstance(piece, str)]
        if code >= ENOUGH or written:
            for student in pair:
                found[student].append((-code, pair, _in_words(pair, pieces)))
    return {student: _first([words for *_, words in sorted(each)]) for student, each in found.items()}


def _pieces(notebook: NotebookNode, answers: Mapping[str, str], given: frozenset[str]) -> set[Piece]:
    """What can be compared of the answers in ``notebook``."""
    pieces, sources = set(), {}
    for cell in notebook.cells:
        sources.setdefault(identity(cell), str(cell.source)[:LONGEST_ANSWER])
    for name, kind in answers.items():
        source = sources.get(name, "")
        if kind != "code":
            pieces |= {(name, sentence) for sentence in _sentences(source)}
        elif len(code := normal_form(source, given)) >= SHORT_CODE:
            pieces.add((name, code))
    return pieces


def _length(piece: str | tuple[str, ...]) -> int:
    """Tokens of code, words of a sentence."""
    return len(piece) if isinstance(piece, tuple) else len(piece.split())


def normal_form(source: str, given: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """The tokens of ``source`` without comments, docstrings, layout, brackets and commas, names numbered as they come.

    Keywords, attributes and the names in ``given`` stay. No tree is built, so nothing can be nested too deep; of what
    is no Python the part before the error is used.
    """
    form, numbers, before = [], {}, None
    for token in _tokens(source):
        text, starts_line = token.string, before is None or before.type in (tokenize.NEWLINE, tokenize.INDENT)
        if token.type == tokenize.NAME and not (keyword.iskeyword(text) or text in given or _is(before, ".")):
            form.append(f"name {numbers.setdefault(text, len(numbers))}")
        elif token.type == tokenize.STRING and starts_line:
            continue  # a docstring; ``before`` stays, since another could follow
        elif token.type == tokenize.STRING:
            form.append("'" + text.lstrip("rRbBuUfF").strip("'\""))
        elif token.type == tokenize.NUMBER:
            form.append(text.lower().replace("_", "").removesuffix(".0").removesuffix("."))
        elif token.type in (tokenize.NAME, tokenize.OP) and text not in "()[]{},;":
            form.append(text)
        before = token
    return tuple(form)


def _is(token: tokenize.TokenInfo | None, text: str) -> bool:
    return token is not None and token.string == text


def _tokens(source: str) -> list[tokenize.TokenInfo]:
    """The tokens of ``source`` that count, as far as it can be read."""
    tokens, skipped = [], (tokenize.COMMENT, tokenize.NL, tokenize.DEDENT, tokenize.ENCODING)
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type not in skipped:
                tokens.append(token)
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass  # what was read until here is compared
    return tokens


def _names(source: str) -> set[str]:
    return {token.string for token in _tokens(source) if token.type == tokenize.NAME}


def _sentences(text: str) -> set[str]:
    """The long sentences of ``text``: their words, without case and signs."""
    sentences = (re.findall(r"\w+", part.casefold()) for part in re.split(r"[.!?]\s|\n\s*\n", text))
    return {" ".join(words) for words in sentences if len(words) >= SHORT_SENTENCE}


def _in_words(pair: tuple[str, str], pieces: list[tuple[str, str | tuple[str, ...]]]) -> str:
    """What ``pair`` has in common, for the teacher."""
    parts = []
    for kind, words in ((tuple, "the same code but for names and comments in"), (str, "the same sentences in")):
        if cells := sorted({cell for cell, piece in pieces if isinstance(piece, kind)}):
            parts.append(f"{words} {', '.join(cells)}")
    return f"{shown(pair[0])} and {shown(pair[1])} have {' and '.join(parts)} (a hint, not a verdict)"


def _first(words: list[str]) -> list[str]:
    """The first of ``words``, and how many more there are."""
    more = len(words) - NAMED
    return words[:NAMED] + ([f"and {more} more such hints"] if more > 0 else [])
