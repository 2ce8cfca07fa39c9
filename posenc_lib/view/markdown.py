"""Tables and folded text below a cell, which the tests compare as they compare what is printed."""

from collections.abc import Iterable, Sequence

from IPython.display import Markdown, display


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as Markdown.

    Args:
        heads: of the columns, at least one.
        rows: with one entry for each column.
    Raises:
        ValueError: no column, a row with more or fewer entries than there are columns.
    Example:
        >>> print(markdown_table(["scheme", "place"], [["RoPE", 1]]))
        | scheme | place |
        |---|---|
        | RoPE | 1 |
    """
    if not heads:
        raise ValueError(f"heads must name at least one column, got {heads!r}")
    lines = [_line(heads), "|" + "---|" * len(heads)]
    for row in rows:
        if len(row) != len(heads):
            raise ValueError(f"rows must have {len(heads)} entries each, as there are heads, got {row!r}")
        lines.append(_line(row))
    return "\n".join(lines)


def folded(summary: str, text: str) -> str:
    """Markdown of which only the summary is seen until it is clicked.

    Raises:
        ValueError: an empty summary or text.
    Example:
        >>> folded("The rows", "| a |")
        '<details><summary>The rows</summary>\\n\\n| a |\\n\\n</details>'
    """
    for name, given in (("summary", summary), ("text", text)):
        if not given.strip():
            raise ValueError(f"{name} must say something, got {given!r}")
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


def write(*texts: str) -> None:
    """Show Markdown below the cell, one paragraph for each text."""
    display(Markdown("\n\n".join(texts)))


def _line(entries: Sequence[object]) -> str:
    return "| " + " | ".join(str(entry).replace("|", "\\|").replace("\n", " ") for entry in entries) + " |"
