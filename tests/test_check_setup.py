"""The check of the set-up names what is missing and never fails itself."""

import os
import subprocess
import sys
from importlib import metadata

import pytest

from posenc_lib import check_setup


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """An environment in which everything is as it should be; a test takes something away from it."""
    versions = {name: check_setup._bounds(name)[0] for name in check_setup.PACKAGES}

    def version(name):
        if versions.get(name) is None:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    for extension in check_setup.EXTENSIONS:
        (tmp_path / "share/jupyter/labextensions" / extension).mkdir(parents=True)
    return versions


def test_all_good(installed, capsys):
    assert check_setup.main() == 0
    printed = capsys.readouterr().out
    assert "✗" not in printed and "Run:" not in printed
    for name in ("Python", "device", "sliders", *check_setup.PACKAGES):
        assert f"✓ {name} " in printed


def test_missing_package(installed, capsys):
    installed["anywidget"] = None
    assert check_setup.main() == 1
    printed = capsys.readouterr().out
    assert "✗ anywidget    not installed" in printed
    assert printed.count("Run:") == 1 and "-m pip install -r requirements.txt" in printed


@pytest.mark.parametrize("version, advice", [("1.26.4", "needs 2 or newer"), ("3.0.0rc1", "needs a version before 3")])
def test_version_out_of_range(installed, capsys, version, advice):
    installed["numpy"] = version
    assert check_setup.main() == 1
    printed = capsys.readouterr().out
    assert f"✗ numpy        {version}" in printed
    assert advice in printed


def test_build_for_a_device_is_the_same_version(installed, capsys):
    installed["torch"] += "+cpu"
    assert check_setup.main() == 0


@pytest.mark.parametrize("extension", check_setup.EXTENSIONS)
def test_missing_widget_extension(installed, capsys, tmp_path, extension):
    (tmp_path / "share/jupyter/labextensions" / extension).rmdir()
    assert check_setup.main() == 1
    assert f"no JupyterLab extension of {check_setup.EXTENSIONS[extension]}" in capsys.readouterr().out


def test_python_out_of_range(installed, capsys, monkeypatch):
    monkeypatch.setattr(check_setup, "PYTHON", ((3, 98), (3, 99)))
    assert check_setup.main() == 1
    assert "Install a Python from 3.98 to 3.99." in capsys.readouterr().out


def test_torch_that_does_not_load(installed, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # import torch raises ImportError
    assert check_setup.main() == 1
    assert "✗ device       torch does not load" in capsys.readouterr().out


def test_terminal_without_check_marks(installed, capsys, monkeypatch):
    monkeypatch.setattr(check_setup, "_marks", lambda: ("+", "-"))
    assert check_setup.main() == 0
    assert "+ torch " in capsys.readouterr().out


def test_bounds_are_those_of_the_requirements():
    assert all(check_setup._bounds(name)[0] for name in check_setup.PACKAGES)
    assert check_setup._bounds("no-such-package") == ("", "")


def test_as_a_program():
    command = [sys.executable, "-m", "posenc_lib.check_setup"]
    run = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert run.returncode == 0, run.stdout + run.stderr
    assert "+ torch " in run.stdout
