"""The check of the set-up names what is missing and never fails itself."""

import os
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from posenc_lib import check_setup

ROOT = Path(check_setup.__file__).parents[1]
PACKAGES = check_setup.LIBRARY + check_setup.COURSE
LIBRARY_IS_COMPLETE = "The library is complete"


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """An environment in which everything is as it should be; a test takes something away from it."""
    versions = {name: check_setup._bounds(name)[0] for name in PACKAGES}

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
    assert "✗" not in printed and "Run" not in printed
    assert printed.endswith("\nEverything that the course needs is here.\n")
    for name in ("Python", "device", "sliders", *PACKAGES):
        assert f"✓ {name} " in printed


def test_missing_package(installed, capsys):
    installed["anywidget"] = None
    assert check_setup.main() == 1
    printed = capsys.readouterr().out
    assert "✗ anywidget    not installed" in printed
    assert printed.count("Run") == 1 and "-m pip install -r requirements.txt" in printed
    assert LIBRARY_IS_COMPLETE in printed


def test_library_alone(installed, capsys, tmp_path):
    for name in check_setup.COURSE:
        installed[name] = None
    for extension in check_setup.EXTENSIONS:
        (tmp_path / "share/jupyter/labextensions" / extension).rmdir()
    assert check_setup.main() == 1
    printed = capsys.readouterr().out
    assert all(f"✓ {name} " in printed for name in ("Python", "device", *check_setup.LIBRARY))
    assert all(f"✗ {name} " in printed for name in ("sliders", *check_setup.COURSE))
    assert LIBRARY_IS_COMPLETE in printed


@pytest.mark.parametrize("name", check_setup.LIBRARY)
def test_without_what_the_library_needs_it_is_not_called_complete(installed, capsys, name):
    installed[name] = installed["tqdm"] = None
    assert check_setup.main() == 1
    printed = capsys.readouterr().out
    assert f"✗ {name:<12} not installed" in printed
    assert LIBRARY_IS_COMPLETE not in printed
    assert "Something that the library itself needs is missing" in printed


@pytest.mark.parametrize(
    "version, advice", [("1.26.4", "2 or newer is needed"), ("3.0.0rc1", "A version before 3 is needed")]
)
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
    printed = capsys.readouterr().out
    assert "✗ device       torch does not load" in printed
    assert LIBRARY_IS_COMPLETE not in printed


def test_terminal_without_check_marks(installed, capsys, monkeypatch):
    monkeypatch.setattr(check_setup, "_marks", lambda: ("+", "-"))
    assert check_setup.main() == 0
    assert "+ torch " in capsys.readouterr().out


def test_bounds_are_those_of_the_requirements():
    lines = check_setup.REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    required = {line.split("=")[0].rstrip("<>") for line in lines if line and not line.startswith(("#", "-e"))}
    assert set(PACKAGES) == required
    assert all(check_setup._bounds(name)[0] for name in PACKAGES)
    assert check_setup._bounds("no-such-package") == ("", "")


def test_bounds_without_requirements_are_those_of_the_package(monkeypatch, tmp_path):
    monkeypatch.setattr(check_setup, "REQUIREMENTS", tmp_path / "requirements.txt")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(f'{x}; extra == "course"' for x in project["optional-dependencies"]["course"])]
    monkeypatch.setattr(metadata, "requires", {"posenc-lib": lines}.get)
    assert check_setup._bounds("torch") == ("2.9", "")
    assert all(check_setup._bounds(name)[0] for name in PACKAGES)


def test_bounds_of_a_library_that_was_not_installed(monkeypatch, tmp_path):
    def requires(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(check_setup, "REQUIREMENTS", tmp_path / "requirements.txt")
    monkeypatch.setattr(metadata, "requires", requires)
    assert check_setup._bounds("torch") == ("", "")


def test_as_a_program():
    command = [sys.executable, "-m", "posenc_lib.check_setup"]
    run = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert run.returncode == 0, run.stdout + run.stderr
    assert "+ torch " in run.stdout


def test_as_a_program_with_a_broken_torch(tmp_path):
    (tmp_path / "torch.py").write_text("raise OSError('libtorch.so: cannot open\\nmore')")
    command = [sys.executable, "-m", "posenc_lib.check_setup"]
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONPATH": path}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "- device       torch does not load (libtorch.so: cannot open)\n" in run.stdout
    assert not run.stderr
