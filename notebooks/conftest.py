"""Rules by which ``pytest --nbval`` checks these notebooks; nothing here is needed to read or to run them.

nbval runs every notebook again and compares what the cells print with what is saved. Three faults it passes over or
reports only by chance, and they fail here: a cell that was never run before it was saved, a cell that ends in a
semicolon (it hides the result from the reader, and nbval does not obey it), and a warning on stderr. What progress bars
write to stderr differs from run to run, so stderr itself is not compared.
"""

import os
import re

import pytest
from nbval.plugin import IPyNbCell

collect_ignore_glob = ["assignments/*"]  # their cells are for the student to fill in

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # small tensors: more threads only wait for one another
    os.environ.setdefault(variable, "1")

# description: 40%|####      | 40/100 [00:01<00:02, 25.0it/s]   or, without a total,   40it [00:01, 25.0it/s]
PROGRESS_BAR = re.compile(r"(.*: )?\s*(\d+%\|.*\| \S+/\S+|\d\S*) \[\d+:\d\d.*\]")


def stray_stderr(text: str) -> list[str]:
    """The lines of ``text``, written to stderr by one cell, that are neither blank nor a progress bar of tqdm."""
    lines = (line.strip() for line in re.split(r"[\r\n]|\x1b\[A", text))
    return [line for line in lines if line and not PROGRESS_BAR.fullmatch(line)]


def ends_in_semicolon(source: str) -> bool:
    """Whether the code of a cell ends in a semicolon, with or without a comment after it."""
    return re.search(r";\s*(#[^\n]*)?\s*\Z", source) is not None


def pytest_itemcollected(item):
    """Take stderr out of the comparison."""
    if isinstance(item, IPyNbCell) and "stderr" not in item.parent.skip_compare:
        item.parent.skip_compare += ("stderr",)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Fail a cell that nbval has passed if it has one of the three faults."""
    result = yield
    if isinstance(item, IPyNbCell):
        if item.cell.execution_count is None and item.cell.source.strip():
            item.raise_cell_error("The saved cell was never run")
        if ends_in_semicolon(item.cell.source):
            item.raise_cell_error("The cell ends in a semicolon")
        stderr = "".join(output.text for output in item.test_outputs if output.get("name") == "stderr")
        if stray := stray_stderr(stderr):
            item.raise_cell_error("The cell wrote to stderr", "\n".join(stray))
    return result
