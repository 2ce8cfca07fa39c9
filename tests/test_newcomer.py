"""A scheme that is new to the library: to be tested it only has to lie in the folder, and it breaks nothing."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from posenc_lib.lab.catalog import scheme_classes
from posenc_lib.lab.contest import SEEDS, run

ROOT = Path(__file__).parents[1]
MODULE = '''
from torch import Tensor, nn
import torch

from posenc_lib.scheme import DistanceBias, PositionScheme


class Walls(PositionScheme):
    """Absolute, and says nothing of itself: a learned number for every third position, added to keys and queries."""

    def __init__(self, head_dim: int):
        super().__init__()
        self.head_dim = head_dim
        self.table = nn.Parameter(torch.randn(3, head_dim))

    def transform(self, x: Tensor, token: Tensor) -> Tensor:
        return x + self.table[token % 3].to(x)


class Waves(DistanceBias):
    def __init__(self, num_heads: int, rate: float = 0.1):
        super().__init__()
        self.num_heads, self.rate = num_heads, rate

    def distance_bias(self, relative_position: Tensor) -> Tensor:
        return (self.rate * relative_position.double()).cos().expand(self.num_heads, -1)
'''


@pytest.fixture
def copy(tmp_path):
    """A copy of the library, its tests and what they read."""
    ignored = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints", "assignments", "browser", "images")
    for folder in ("posenc_lib", "tests", "notebooks"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "requirements.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def unit_tests(copy, *options):
    """How many of the copy's tests passed and failed, and what they said."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *options]
    environment = os.environ | {"PYTHONPATH": str(copy)}
    run = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error)", run.stdout.splitlines()[-1])}
    return counts, run.stdout


def test_a_new_scheme_meets_the_contract_and_breaks_no_other_test(copy):
    """Of the quick tests that go through the catalog or the folder those of no other scheme; the rest cannot see it."""
    (copy / "posenc_lib" / "schemes" / "newcomer.py").write_text(MODULE)
    counts, said = unit_tests(copy, "tests/schemes/test_contract.py", "-k", "(Walls or Waves) and not compile")
    assert set(counts) == {"passed"}, said
    assert counts["passed"] > 40
    others = (
        "tests/lab/test_catalog.py",
        "tests/lab/test_probes.py",
        "tests/lab/test_settings.py",
        "tests/test_import.py",
        "tests/test_docstrings.py",
    )
    of_others = " or ".join(f"[{name}" for name in scheme_classes())
    quick = f"not course and not mathematics and not example and not ({of_others})"
    counts, said = unit_tests(copy, *others, "-vv", "-k", quick)
    assert set(counts) == {"passed"}, said
    assert "[Walls" in said and "[Waves" in said


def test_the_contract_sees_what_a_new_scheme_does_wrong(copy):
    """It does not keep its arguments, so it cannot be printed, and its bias depends on the first of all distances."""
    wrong = MODULE.replace("self.num_heads, self.rate =", "self.num_heads, self.speed =")
    wrong = wrong.replace("(self.rate * relative_position", "(self.speed * relative_position[0] * relative_position")
    (copy / "posenc_lib" / "schemes" / "newcomer.py").write_text(wrong)
    _, said = unit_tests(copy, "tests/schemes/test_contract.py", "-k", "Waves and not compile")
    for test in ("test_repr_names_every_argument", "test_saved_and_copied", "test_batch_is_one_by_one"):
        assert re.search(rf"FAILED .*{test}", said), said


TABLE = """
import sys
from posenc_lib.lab.contest import entries
from posenc_lib.lab.statistics import ranking, table

cells = table(entries(sys.argv[1]), tasks=["induction"])
for cell in cells.values():
    print(cell.scheme, cell.untrained(), sep=": ")
print("ranked:", *(place.scheme for place in ranking(cells.values(), 64)))
"""


def test_a_new_scheme_is_not_trained_yet_until_the_contest_is_called_again(copy):
    """No list has to be edited; the command makes what is missing and leaves what is there."""
    (copy / "posenc_lib" / "schemes" / "newcomer.py").write_text(MODULE)
    environment = os.environ | {"PYTHONPATH": str(copy)}
    path = copy / "contest.jsonl"
    result = {"met": True, "loss": 0.1, "measure": {"32": 1.0, "64": 0.9}, "version": "1"}
    settings = [run("Alibi", "induction", seed, 1e-3) for seed in SEEDS]
    path.write_text("".join(json.dumps({"setting": setting, "result": result}) + "\n" for setting in settings))

    def python(*arguments):
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=True).stdout

    said = python("-c", TABLE, str(path)).splitlines()
    assert {"Alibi: None", "Waves: not trained yet", "Walls: not trained yet", "Rotary: not trained yet"} <= set(said)
    assert said[-1] == "ranked: Alibi"
    before = path.read_text()
    options = ["--schemes", "Waves", "Walls", "--tasks", "induction", "--seeds", "0", "1"]
    python("-m", "posenc_lib.lab.contest", str(path), *options, "--maximum=1", "--length=8", "--width=16", "--heads=2")
    assert path.read_text().startswith(before)
    made = [json.loads(line)["setting"] for line in path.read_text().removeprefix(before).splitlines()]
    assert [setting["scheme"] for setting in made] == ["Waves"] * 3 + ["Walls"] * 3 + ["Waves", "Walls"] * 2
