"""Graded assignments as a student meets them: they run; the teacher's cells can be neither changed nor deleted."""

import shutil
from pathlib import Path

import pytest

from release import release

SOURCE = Path(__file__).parents[2] / "notebooks" / "assignments" / "source"
NAMES = sorted(path.name for path in SOURCE.iterdir())


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in NAMES],
)
def notebook(request, root, lab, tmp_path_factory):
    """What a student gets, beside the notebooks of the course."""
    course = tmp_path_factory.mktemp("class")
    shutil.copytree(SOURCE / request.param, course / "source" / request.param)
    release(course)
    released = f"released_{request.param}.ipynb"
    shutil.copy(course / "release" / request.param / f"{request.param}.ipynb", root / "notebooks" / released)
    return released


def source(cell):
    return cell.locator(".cm-content").inner_text()


def typed_into(page, cell, text):
    """The source of a cell after somebody clicked into it and typed."""
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+Home")
    page.keyboard.type(text)
    page.keyboard.press("Escape")
    return source(cell)


def code_cell_with(opened, words):
    """The first code cell whose source has these words."""
    return opened.page.locator(".jp-Notebook .jp-CodeCell").filter(has_text=words).first


def test_students_write_in_their_cells_and_in_no_others(opened):
    own, test, setup = (
        code_cell_with(opened, words) for words in ("STUDENT: your student number", "require", "import torch")
    )
    text = source(test), source(setup)
    typed_into(opened.page, own, "# mine\n")
    for cell in (test, setup):
        typed_into(opened.page, cell, "# changed\n")
    assert source(own).startswith("# mine")
    assert (source(test), source(setup)) == text


def test_no_cell_of_the_teacher_can_be_deleted(opened):
    cells = opened.page.locator(".jp-Notebook .jp-Cell")
    count = cells.count()
    for words in ("STUDENT: your student number", "require", "import torch"):
        code_cell_with(opened, words).locator(".jp-InputPrompt").click()
        opened.page.keyboard.press("Escape")
        opened.page.keyboard.press("d")
        opened.page.keyboard.press("d")
    opened.page.wait_for_timeout(300)
    assert cells.count() == count


def test_it_runs_up_to_the_first_task(ran):
    outputs = ran.page.locator(".jp-OutputArea-output")
    errors = outputs.filter(has_text="Traceback (most recent call last)").all_inner_texts()
    assert errors
    assert "NotImplementedError" in errors[0]  # cells that reach the kernel after its answer are run all the same
    assert ran.troubles == []
