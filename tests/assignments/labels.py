"""Cells as nbgrader describes them, for the masters that tests make."""

from nbformat import NotebookNode


def labelled(kind, source: str, name: str, **label) -> NotebookNode:
    """A cell made by ``kind`` with nbgrader's description of it.

    Args:
        kind: new_code_cell or new_markdown_cell.
        source: its text.
        name: its ``grade_id``.
        label: what differs from an ordinary cell: grade, solution, locked, points.
    """
    label = {"schema_version": 3, "grade": False, "solution": False, "locked": False, "task": False} | label
    return kind(source, metadata={"nbgrader": label | {"grade_id": name}})
