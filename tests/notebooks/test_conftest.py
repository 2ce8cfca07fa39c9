"""What ``pytest --nbval`` passes and fails with the rules of notebooks/conftest.py, on one notebook of small cells."""

import base64
import importlib.util
import inspect
import io
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import matplotlib
import nbformat
import numpy as np
import pytest
from matplotlib.figure import Figure
from nbformat.v4 import new_code_cell, new_notebook, new_output
from nbval.plugin import get_sanitize_patterns
from PIL import Image

CONFTEST = Path(__file__).resolve().parents[2] / "notebooks" / "conftest.py"
SANITIZE = Path(__file__).with_name("sanitize.cfg")
BARS = "import sys\nfrom tqdm import tqdm\nfor _ in tqdm(range(3), desc='training', leave={leave}):\n    pass"
THREADS = "import os\nprint(os.environ.get('OMP_NUM_THREADS'), os.environ.get('MKL_NUM_THREADS'))"

spec = importlib.util.spec_from_file_location("notebooks_conftest", CONFTEST)
rules = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rules)


def drawn(names="apple pear plum", y=0.5, colour="#0072B2", width=6, top=1.0, **style):
    """A map of names, a curve and a map of colours, as PNG."""
    with matplotlib.rc_context(style):
        fig, file = Figure(figsize=(width, 3), layout="constrained"), io.BytesIO()
        left, right = fig.subplots(1, 2)
        left.set(xlim=(-0.5, 3.5), ylim=(0, 1), title="A map of names", xlabel="relative position")
        left.plot([0, 1, 2, 3], [0.1, 0.2, 0.1, 0.15], color=colour)
        for x, name in enumerate(names.split()):
            left.plot([x], [y if x == 1 else 0.5], "o", color="black")
            left.text(x, 0.6, name)
        right.imshow(np.linspace(0, 1, 64).reshape(8, 8), vmin=0, vmax=top)
        fig.savefig(file, format="png")
        return file.getvalue()


IMPORTS = "import io\nimport matplotlib\nimport numpy as np\nfrom matplotlib.figure import Figure"


def showing(**now):
    """The source of a cell that shows a drawing."""
    return f"{IMPORTS}\n{inspect.getsource(drawn)}\ndisplay({{'image/png': drawn(**{now})}}, raw=True)"


def shown(**saved):
    """The saved output of such a cell."""
    return [new_output("display_data", data={"image/png": base64.b64encode(drawn(**saved)).decode() + "\n"})]


HINTING = {"text.hinting": "none"}

# name: source, saved stdout or outputs (None: never run), tags, what the failure says (None: passes)
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
    "pace of a bar": ("from tqdm import tqdm\nprint(tqdm([], leave=False).mininterval)", "10.0\n", [], None),
    "progress bar": (BARS.format(leave=True), "", [], None),
    "progress bar that goes": (BARS.format(leave=False), "", [], None),
    "device": ("print('device: cpu')", "device: cuda:0\n", [], None),
    "number of a device": ("print('device: 1')", "device: 2\n", [], "Cell outputs differ"),
    "same picture": (showing(), shown(), [], None),
    "picture with other hinting": (showing(), shown(**HINTING), [], None),
    "picture of a name less": (showing(), shown(names="apple pear"), [], "picture 1 is not the saved one"),
    "picture, ignored": (showing(), shown(names="apple pear"), ["nbval-ignore-output"], None),
    "second picture": (showing() + "\n" + showing(y=0.4), shown() * 2, [], "picture 2 is not"),
    "picture that is gone": ("8", shown(), [], "Cell outputs differ"),
    "line of a text": ("print('a\\nb\\nc')", "a\nB\nc\n", [], "saved (-) and now (+)\n  - B\n  + b\n"),
}


def notebook(cells):
    nb = new_notebook()
    for source, saved, tags, _ in cells:
        outputs = [new_output("stream", name="stdout", text=saved)] if isinstance(saved, str) and saved else saved or []
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


@pytest.mark.parametrize(
    "now",
    [
        {"names": "apple pear plum fig"},
        {"y": 0.45},
        {"colour": "#CC79A7"},
        {"top": 1.05},
        {"width": 6.05},
    ],
    ids=str,
)
def test_another_picture_is_found(now):
    assert rules.difference(drawn(), drawn(**now))
    assert rules.difference(drawn(**now), drawn())
    assert rules.difference(drawn(**HINTING), drawn(**now))


@pytest.mark.parametrize(
    "style",
    [HINTING, {"text.hinting": "force_autohint"}, {"text.antialiased": False}, {"lines.antialiased": False}],
    ids=str,
)
def test_fonts_and_edges_make_no_other_picture(style):
    assert drawn(**style) != drawn()
    assert rules.difference(drawn(), drawn(**style)) is None


@pytest.mark.parametrize(("pixels", "same"), [(6, True), (12, False)])
def test_a_layout_may_move_by_six_pixels(pixels, same):
    moved, file = Image.open(io.BytesIO(drawn())).convert("RGB"), io.BytesIO()
    moved.transform(moved.size, Image.Transform.AFFINE, (1, 0, 0, 0, 1, pixels), fillcolor="white").save(file, "png")
    assert (rules.difference(drawn(), file.getvalue()) is None) == same


def test_it_says_where_a_picture_differs_most():
    plain, changed = Image.new("RGB", (200, 100), "white"), Image.new("RGB", (200, 100), "white")
    changed.paste((0, 0, 0), (150, 40, 170, 60))
    files = []
    for image in (plain, changed, plain.resize((201, 99)), plain.resize((202, 100))):
        image.save(file := io.BytesIO(), "png")
        files.append(file.getvalue())
    said = rules.difference(files[0], files[1])
    value, x, y = map(
        int, re.match(r"by (\d+) of 255 at (\d+) pixels from the left and (\d+) from the top", said).groups()
    )
    assert value == 255 and 150 <= x < 170 and 40 <= y < 60
    assert "by 5.10 on average" in said
    assert rules.difference(files[0], files[2]) is None
    assert rules.difference(files[0], files[3]) == "200 x 100 pixels are saved, 202 x 100 are drawn"


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
