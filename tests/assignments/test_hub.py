"""The course on a hub: learners work at the same time; an assignment goes through the exchange and comes back graded.

Without JupyterHub or its proxy the tests are skipped; with REQUIRE_HUB=1 npm installs the proxy, and they fail if
something is missing.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest
import requests
import yaml
from nbformat.v4 import new_code_cell, new_notebook
from traitlets.config import PyFileConfigLoader

from grade import HERE

pytestmark = pytest.mark.xdist_group("hub")  # one hub

MISSING = [name for name in ("jupyterhub", "psutil", "requests", "websocket") if find_spec(name) is None]
if not MISSING:
    from hub import try_hub

NOTEBOOKS = {
    "good": ["x = 6", "assert x * 7 == 42"],
    "failing": ["x = 6", "assert x == 7, 'six is not seven'", "x"],
    "deadly": ["import os", "if os.environ['JUPYTERHUB_USER'] == 'learner02':\n    os._exit(1)", "1"],
    "endless": ["while True:\n    pass"],
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A hub with three small notebooks in place of the course."""
    required, reason = os.environ.get("REQUIRE_HUB") == "1", f"not installed: {', '.join(MISSING)}"
    if not MISSING:
        reason = f"{try_hub.PROXY} is not installed: hub/try_hub.py does it, or REQUIRE_HUB=1"
    if not MISSING and required:
        try_hub.install_proxy()
    if MISSING or not try_hub.PROXY_PROGRAM.exists():
        (pytest.fail if required else pytest.skip)(reason)
    notebooks = tmp_path_factory.mktemp("notebooks")
    for name, sources in NOTEBOOKS.items():
        nbformat.write(new_notebook(cells=list(map(new_code_cell, sources))), notebooks / f"{name}.ipynb")
    with try_hub.Hub(tmp_path_factory.mktemp("hub"), notebooks) as hub:
        yield hub


def test_learners_run_a_notebook_at_once_and_none_is_lost(hub, capsys):
    assert try_hub.run_at_once(hub, 2, "good.ipynb", 120)
    shown = capsys.readouterr().out
    assert "finished without an error   2" in shown
    assert "lost                        0" in shown
    for word in ("idle afterwards", "megabytes of the hub"):
        assert word in shown
    homes = {path.name for path in (hub.folder / "homes").iterdir()}
    assert {"learner01", "learner02"} <= homes


def test_a_failed_cell_is_named_and_the_rest_still_runs(hub, capsys):
    assert not try_hub.run_at_once(hub, 1, "failing.ipynb", 120)
    shown = capsys.readouterr().out
    assert "finished with a failed cell 1" in shown
    assert "learner01: AssertionError: six is not seven" in shown


def test_a_learner_whose_kernel_dies_is_lost_and_the_others_are_not(hub, capsys):
    assert not try_hub.run_at_once(hub, 2, "deadly.ipynb", 120)
    shown = capsys.readouterr().out
    assert "finished without an error   1" in shown
    assert "lost                        1" in shown
    assert "learner02: RuntimeError: the kernel died" in shown


def test_a_learner_who_does_not_come_to_the_end_is_lost(hub, capsys):
    assert not try_hub.run_at_once(hub, 1, "endless.ipynb", 5)
    assert "learner01: TimeoutError: not done after 5 seconds" in capsys.readouterr().out


def test_an_assignment_goes_through_the_exchange_and_comes_back_graded(hub, small_course):
    row = try_hub.send_around(hub, small_course / "source" / "small")
    assert (row["student"], float(row["score"]), float(row["max_score"]), row["reason"]) == ("student", 100, 100, "")
    assert try_hub.full_marks(row)
    collected = hub.folder / "homes" / "grading" / "submitted" / "student" / "small"
    assert (collected / "timestamp.txt").read_text().endswith("UTC")
    formgrader, teacher = f"{hub.url}/user/grading/formgrader", try_hub.Learner(hub, "teacher", "grading")
    (found,) = teacher.ask("GET", f"{formgrader}/api/submitted_notebooks/small/small")
    page = teacher.http.get(f"{formgrader}/submissions/{found['id']}/", timeout=60).text
    assert "double-test" in page and "cdnjs" not in page  # with the templates of the course
    assert "BEGIN HIDDEN TESTS" not in (hub.folder / "homes" / "student" / "small" / "small.ipynb").read_text()


def test_no_learner_gets_at_the_account_with_the_class_or_at_another_learner(hub):
    for other in ("grading", "student"):
        with pytest.raises(requests.HTTPError, match=r"40[34]"):
            try_hub.Learner(hub, "learner01", other).start()


def test_no_process_is_left(hub, tmp_path):
    with try_hub.Hub(tmp_path, hub.notebooks) as other:
        learner = try_hub.Learner(other, "learner01")
        learner.start()
        try_hub.Kernel(learner, "course/good.ipynb", 120)
        processes = [other.process, *other.process.children(recursive=True)]
        assert any("ipykernel" in " ".join(process.cmdline()) for process in processes)
    assert not any(process.is_running() for process in processes)


@pytest.mark.parametrize(("option", "value"), [("--notebook", "99.ipynb"), ("--assignment", "99"), ("--learners", "0")])
def test_a_wrong_option_is_named(hub, option, value):
    command = [sys.executable, str(Path(HERE) / "hub" / "try_hub.py"), option, value]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert option in done.stderr and value in done.stderr


@pytest.mark.parametrize("account", ["learner01", "grading"])
def test_the_configuration_for_a_cluster_knows_the_course_and_who_submits(tmp_path, monkeypatch, account):
    values = yaml.safe_load((Path(HERE) / "hub" / "values.yaml").read_text())
    path = tmp_path / "nbgrader_config.py"
    text = values["singleuser"]["extraFiles"]["nbgrader"]["stringData"]
    path.write_text(text.replace("/opt/course", str(Path(HERE).parents[1])))
    monkeypatch.setenv("JUPYTERHUB_USER", account)
    there, here = (PyFileConfigLoader(str(one)).load_config() for one in (path, Path(HERE) / "nbgrader_config.py"))
    assert there.CourseDirectory.course_id == here.CourseDirectory.course_id
    assert there.CourseDirectory.get("student_id", "grading") == account
    assert ("HTMLExporter" in there) == (account == "grading")
