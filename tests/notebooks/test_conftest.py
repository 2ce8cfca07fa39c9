"""What ``pytest --nbval`` passes and fails with the rules of notebooks/conftest.py, on one notebook of small cells."""

import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from nbval.plugin import get_sanitize_patterns

CONFTEST = Path(__file__).resolve().parents[2] / "notebooks" / "conftest.py"
SANITIZE = Path(__file__).with_name("sanitize.cfg")
BARS = "import sys\nfrom tqdm import tqdm\nfor _ in tqdm(range(3), desc='training', leave={leave}):\n    pass"
THREADS = "import os\nprint(os.environ.get('OMP_NUM_THREADS'), os.environ.get('MKL_NUM_THREADS'))"

# name: source, saved stdout (None: never run), tags, what the failure says (None: passes)
CELLS = {
    "same value": ("print(1)", "1\n", [], None),
    "changed value": ("print(2)", "1\n", [], "Cell outputs differ"),
    "missing output": ("print(3)", "", [], "Cell outputs differ"),
    "never run": ("x = 4", None, [], "never run"),
    "never run, ignored": ("x = 5", None, ["nbval-ignore-output"], "never run"),
    "empty": ("", None, [], None),
    "semicolon": ("x = 6;", "", [], "semicolon"),
    "semicolon and comment": ("x = 7;  # quiet", "", [], "semicolon"),
    "warning": ("import warnings\nwarnings.warn('careful')", "", [], "careful"),
    "warning, ignored": ("import warnings\nwarnings.warn('again')", "", ["nbval-ignore-output"], "again"),
    "words after a bar": (BARS.format(leave=True) + "\n    print('oh', file=sys.stderr)", "", [], "oh"),
    "progress bar": (BARS.format(leave=True), "", [], None),
    "progress bar that goes": (BARS.format(leave=False), "", [], None),
    "device": ("print('device: cpu')", "device: cuda:0\n", [], None),
    "number of a device": ("print('device: 1')", "device: 2\n", [], "Cell outputs differ"),
}


def notebook(cells):
    nb = new_notebook()
    for source, saved, tags, _ in cells:
        outputs = [new_output("stream", name="stdout", text=saved)] if saved else []
        count = None if saved is None else 1
        nb.cells.append(new_code_cell(source, execution_count=count, outputs=outputs, metadata={"tags": tags}))
    return nb


def check(folder, *options):
    """What fails below ``folder``: a mapping from (notebook, cell) to the message, None for a cell that passes."""
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", f"--nbval-sanitize-with={SANITIZE}"]
    command += ["-p", "no:cacheprovider", "--import-mode=importlib", f"--junitxml={report}", *options, "."]
    shown = subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout
    assert report.exists(), shown
    return {
        (case.get("classname"), case.get("name")): next((f.text for f in case if f.tag in ("failure", "error")), None)
        for case in ElementTree.parse(report).iter("testcase")
    }


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebooks")
    shutil.copy(CONFTEST, folder)
    nbformat.write(notebook(CELLS.values()), folder / "a.ipynb")
    (folder / "assignments" / "source").mkdir(parents=True)
    for place in ("assignments", "assignments/source"):
        nbformat.write(notebook([("1 / 0", "", [], None)]), folder / place / "b.ipynb")
    found = check(folder)
    assert len(found) == len(CELLS), f"nbval collected {list(found)}"
    return dict(zip(CELLS, found.values(), strict=True))


@pytest.mark.parametrize("name", CELLS)
def test_cell(outcomes, name):
    expected = CELLS[name][3]
    if expected is None:
        assert outcomes[name] is None
    else:
        assert outcomes[name] is not None and expected in outcomes[name]


def test_under_xdist_each_kernel_has_one_thread(tmp_path, monkeypatch):
    for variable in ("OMP_NUM_THREADS", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "3")
    shutil.copy(CONFTEST, tmp_path)
    nbformat.write(notebook([(THREADS, "1 3\n", [], None)]), tmp_path / "a.ipynb")
    assert list(check(tmp_path, "-n1").values()) == [None]


@pytest.mark.parametrize(
    ("text", "sanitized"),
    [
        ("device: cpu", "device: DEVICE"),
        ("seed 0\ndevice: cuda:1\n", "seed 0\ndevice: DEVICE\n"),
        ("device: cuda", "device: DEVICE"),
        ("saved in /tmp/tmpab12/table.pt", "saved in TEMPORARY_PATH"),
        ("saved in '/private/var/folders/x/T/table.pt'", "saved in 'TEMPORARY_PATH'"),
        (r"saved in C:\Users\me\AppData\Local\Temp\table.pt", "saved in TEMPORARY_PATH"),
        ("the cpu has 2 cores, 1e-4, 0.25", "the cpu has 2 cores, 1e-4, 0.25"),
        ("device: cpu 0.25", "device: cpu 0.25"),
    ],
)
def test_sanitizer_knows_devices_and_temporary_paths_only(text, sanitized):
    patterns = get_sanitize_patterns(SANITIZE.read_text())
    assert len(patterns) == 3
    for pattern, replacement in patterns:
        text = re.sub(pattern, replacement, text)
    assert text == sanitized
