"""The notebooks notice: one wrong character in an output or one wrong sign in the library makes nbval fail.

Each test makes the change on a copy of the repository and runs the notebook there against the copied library.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))

MUTATIONS = [  # notebook, module, right, wrong
    ("01_sinusoidal", "sinusoidal.py", "[c, s, -s, c]", "[c, -s, s, c]"),  # a sign in shift_matrix
    ("01_sinusoidal", "sinusoidal.py", "base ** (-2 * t / dim)", "base ** (-2 * t / (dim - 2))"),  # the exponent
    ("02_learned", "learned.py", "(positions >= len(self.table))", "(positions + 1 >= len(self.table))"),
    ("03_shaw", "shaw.py", "at_least=0), clip) + clip", "at_least=0), clip).neg() + clip"),
    (
        "04_music_transformer",
        "music_transformer.py",
        "nn.functional.pad(logits, (1, 0))",
        "nn.functional.pad(logits, (0, 1))",
    ),
    ("05_transformer_xl", "transformer_xl.py", "distinct(-relative_position(", "distinct(relative_position("),
    ("06_xlnet", "xlnet.py", "else step < step[:, None]", "else step <= step[:, None]"),
    ("07_nezha", "nezha.py", "torch.arange(-self.clip, self.clip + 1)", "torch.arange(self.clip, -self.clip - 1, -1)"),
    ("08_tener", "tener.py", "encode(relative, self.head_dim)", "encode(-relative, self.head_dim)"),
    ("09_huang", "huang.py", "relative + self.max_length - 1", "self.max_length - 1 - relative"),
    ("10_deberta", "deberta.py", "return (3 * head_dim) ** -0.5", "return (2 * head_dim) ** -0.5"),
    ("11_t5", "t5.py", "(r > 0).long() * num_buckets", "(r < 0).long() * num_buckets"),
    ("12_alibi", "alibi.py", "2 ** (-8 * (h - 0.5) / P)", "2 ** (-8 * (h + 0.5) / P)"),
    ("13_rope", "rope.py", "torch.complex(cos, sin)", "torch.complex(cos, -sin)"),  # a sign in rotate, interleaved
    ("13_rope", "rope.py", "addcmul_(second, sin, value=-1)", "addcmul_(second, sin, value=1)"),  # the same, half
    ("13_rope", "sinusoidal.py", "base ** (-2 * t / dim)", "base ** (-t / dim)"),  # the exponent
    ("15_cope", "cope.py", "x.flip(-1).cumsum(-1).flip(-1)", "x.cumsum(-1)"),  # counting from the wrong end
    ("16_grid", "grid.py", "inv_freq.repeat(n)", "inv_freq.repeat_interleave(n)"),  # the axes exchanged
    ("19_one_law", "xpos.py", "(cos, sin)) / factor", "(cos, sin)) * factor"),
]


@pytest.fixture
def copy(tmp_path):
    """A copy of what a notebook needs: the library, the notebooks and the rules under which they are compared."""
    for folder in ("posenc_lib", "notebooks", "tests/notebooks"):
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
        )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def nbval(copy, stem):
    """Exit status and output of nbval on one notebook of the copy; it stops at the first failure."""
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "--nbval-cell-timeout=120", "-x", "-q"]
    options = [
        "--nbval-sanitize-with=tests/notebooks/sanitize.cfg",
        "-p",
        "no:cacheprovider",
        f"notebooks/{stem}.ipynb",
    ]
    run = subprocess.run(
        command + options, cwd=copy, env=os.environ | {"PYTHONPATH": str(copy)}, capture_output=True, text=True
    )
    return run.returncode, run.stdout + run.stderr


@pytest.mark.parametrize("stem", NOTEBOOKS)
def test_one_changed_character_is_noticed(copy, stem):
    path = copy / "notebooks" / f"{stem}.ipynb"
    notebook = nbformat.read(path, 4)
    outputs = (
        output
        for cell in notebook.cells
        if cell.cell_type == "code" and "nbval-ignore-output" not in cell.metadata.get("tags", [])
        for output in cell.outputs
        if output.output_type == "stream" and any(c.isdigit() for c in output.text)
    )
    output = next(outputs)
    place = max(i for i, c in enumerate(output.text) if c.isdigit())
    output.text = output.text[:place] + str((int(output.text[place]) + 1) % 10) + output.text[place + 1 :]
    nbformat.write(notebook, path)

    status, text = nbval(copy, stem)
    assert status == 1, text
    assert "Cell outputs differ" in text


@pytest.mark.parametrize(("stem", "module", "right", "wrong"), MUTATIONS, ids=lambda x: x if x in NOTEBOOKS else "")
def test_one_changed_sign_is_noticed(copy, stem, module, right, wrong):
    path = copy / "posenc_lib" / "schemes" / module
    source = path.read_text()
    assert source.count(right) == 1
    path.write_text(source.replace(right, wrong))

    status, text = nbval(copy, stem)
    assert status == 1, text
    assert "Cell outputs differ" in text
