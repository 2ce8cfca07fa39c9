"""The digest of the code changes with what decides a result, wherever that stands, and with nothing else."""

import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import posenc_lib
from posenc_lib.lab import version as module
from posenc_lib.lab.contest import Entry, outdated, run
from posenc_lib.lab.trial import TASKS, code_version
from posenc_lib.lab.version import version
from posenc_lib.schemes.alibi import Alibi
from posenc_lib.schemes.nezha import Nezha
from posenc_lib.schemes.shaw import Shaw

ALIBI, SHAW, NEZHA = (f"posenc_lib.schemes.{name}" for name in ("alibi", "shaw", "nezha"))


@pytest.fixture
def edited(monkeypatch):
    """A function that edits the source of a module, as the digest reads it, and returns whether a digest changes."""
    real = inspect.getsource

    def changes(make, name, *replacements):
        before, source = make(), real(importlib.import_module(name))
        for old, new in replacements:
            assert len(re.findall(old, source, re.MULTILINE)) >= 1, f"{old} is not in {name}"
            source = re.sub(old, new, source, flags=re.MULTILINE)
        compile(source, name, "exec")
        monkeypatch.setattr(inspect, "getsource", lambda one: source if one.__name__ == name else real(one))
        module._module.cache_clear()
        try:
            return make() != before
        finally:
            monkeypatch.undo()
            module._module.cache_clear()

    return changes


@pytest.mark.parametrize(
    "replacement",
    [
        (r"^(class Alibi.*)", r"# a comment\n\n\n\1  # and another"),
        (r'"""(?=[A-Z])', r'"""Other words. '),
        (r" -> Tensor:", ":"),
        (r"relative_position: Tensor", "relative_position: int"),
        (r"\Z", "\n\ndef unused(x):\n    return 2 * x\n"),
        (r"^import torch$", "import math\n\nimport torch"),
    ],
)
def test_what_decides_nothing_changes_nothing(edited, replacement):
    assert not edited(lambda: version([Alibi]), ALIBI, replacement)


def test_a_type_with_a_new_name_changes_it(edited):
    """What is named may be used: the digest would rather warn too often."""
    assert edited(lambda: version([Alibi]), ALIBI, (r"num_heads: int", "num_heads: Integer"))


@pytest.mark.parametrize(
    ("name", "replacement"),
    [
        (ALIBI, (r"2 \*\* \(-8", "2 ** (-7")),
        (ALIBI, (r" \+ ", " - ")),
        ("posenc_lib.scheme", (r"return pair$", "return 2 * pair")),
    ],
)
def test_an_operator_a_number_or_a_parent_changes_it(edited, name, replacement):
    assert edited(lambda: version([Alibi]), name, replacement)


def test_what_is_reached_in_another_module_changes_it_and_what_is_not_does_not(edited):
    """NEZHA is Shaw's scheme with a sinusoid: a change of Shaw's module is one of both, and of no third."""
    change = (r"\.clamp\(", ".clip(")
    assert edited(lambda: version([Shaw]), SHAW, change)
    assert edited(lambda: version([Nezha]), SHAW, change)
    assert not edited(lambda: version([Alibi]), SHAW, change)


def test_a_refusal_in_other_words_changes_nothing_and_another_refusal_does(edited):
    name = "posenc_lib.validate"
    assert not edited(lambda: version([Alibi]), name, (r"must be at least", "is to be at least"))
    assert edited(lambda: version([Alibi]), name, (r" < ", " <= "))


def test_values_change_it():
    versions = [version([Alibi], values) for values in (None, {"a": 1, "b": 2}, {"a": 2, "b": 1}, [1])]
    assert len(set(versions)) == 4
    assert version([Alibi], {"b": 2, "a": 1}) == versions[1]
    assert version([Alibi]) != version([Shaw])
    assert re.fullmatch("[0-9a-f]{8}", versions[0])


def test_the_order_of_roots_does_not():
    assert version([Alibi, Shaw]) == version([Shaw, Alibi]) != version([Shaw])


def test_the_version_of_a_trial_is_of_all_that_decides_it(edited):
    def of(scheme="Shaw", task="induction"):
        return lambda: code_version(scheme, task, 32)

    trial, tasks, model = (f"posenc_lib.lab.{name}" for name in ("trial", "tasks", "model"))
    assert edited(of(), trial, (r"^WARM_UP, LOOK, COOL_DOWN = 50", "WARM_UP, LOOK, COOL_DOWN = 51"))
    assert edited(of(), model, (r"nn\.LayerNorm\(dim\)", "nn.LayerNorm(dim, eps=1e-6)"))
    assert edited(of(), "posenc_lib.attention", (r"s\.softmax", "s.log_softmax"))
    in_passkey = (r"length - size \+ 1", "length - size")
    assert edited(of(task="passkey"), tasks, in_passkey)
    assert not edited(of(), tasks, in_passkey), "of the tasks only its own"
    extended = (r"^(    measures: dict.* = )\{\}", r"\1dict()")
    assert edited(of("Rotary"), trial, extended)
    assert not edited(of(), trial, extended), "of what is done to a trained RoPE nothing"


def test_the_version_of_a_trial_is_of_its_settings(monkeypatch):
    before = code_version("Shaw", "induction", 32)
    assert before != code_version("Shaw", "induction", 64), "the clip is another"
    assert before == code_version("Shaw", "induction", 32, seed=3, learning_rate=1.0, maximum=10, layers=7)
    monkeypatch.setitem(TASKS, "induction", TASKS["induction"]._replace(batch=17))
    assert before != code_version("Shaw", "induction", 32)
    monkeypatch.undo()
    monkeypatch.setitem(TASKS, "induction", TASKS["induction"]._replace(maximum=17))
    assert before == code_version("Shaw", "induction", 32), "it stands in the entry"


OUTDATED = """
import json, sys
from posenc_lib.lab.contest import Entry, outdated
found = [Entry(*both) for both in json.loads(sys.stdin.read())]
print(*(entry.setting["scheme"] for entry in outdated(found)))
"""


def test_entries_of_changed_code_are_found_in_a_copy_of_the_library(tmp_path):
    """Where the code is really another one and not only the text that the digest reads."""
    root = Path(posenc_lib.__file__).parent
    shutil.copytree(root, tmp_path / "posenc_lib", ignore=shutil.ignore_patterns("__pycache__"))
    settings = [run(scheme, "induction", 0, 1e-3) for scheme in ("Alibi", "Kerple", "Rotary", "XPos")]
    found = [Entry(setting, {"version": code_version(**setting)}) for setting in settings]
    assert outdated(found) == []
    assert outdated([found[0], Entry(found[1].setting, {"version": "00000000"})]) == [
        Entry(found[1].setting, {"version": "00000000"})
    ]

    def out_of_date():
        done = subprocess.run(
            [sys.executable, "-c", OUTDATED],
            input=json.dumps(found),
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split()

    rope = tmp_path / "posenc_lib" / "schemes" / "rope.py"
    rope.write_text("# of rotations\n" + rope.read_text(encoding="utf-8"), encoding="utf-8")
    assert out_of_date() == []
    source = rope.read_text(encoding="utf-8")
    rope.write_text(source.replace("angles.cos(), angles.sin()", "angles.sin(), angles.cos()"), encoding="utf-8")
    assert out_of_date() == ["Rotary", "XPos"]
