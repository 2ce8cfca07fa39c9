"""``python -m posenc_lib.check_setup``: is everything here that the course needs, and if not, what to do."""

import platform
import re
import sys
from importlib import metadata
from pathlib import Path

REQUIREMENTS = Path(__file__).parents[1] / "requirements.txt"
PYTHON = (3, 11), (3, 13)  # oldest and newest
PACKAGES = ("torch", "numpy", "matplotlib", "jupyterlab", "ipywidgets", "anywidget")
EXTENSIONS = {
    "@jupyter-widgets/jupyterlab-manager": "jupyterlab_widgets",
    "anywidget": "anywidget",
}  # and their packages
INSTALL = f"{sys.executable} -m pip install"


def main() -> int:
    """Print one row for each thing needed and one sentence for each that is missing.

    Returns:
        0 if nothing is missing, else 1: the exit status.
    """
    rows = [_python(), *(_package(name) for name in PACKAGES), _device(), _widgets()]
    good, bad = _marks()
    for name, found, advice in rows:
        print(f"{bad if advice else good} {name:<12} {found}")
    for name, _, advice in rows:
        if advice:
            print(f"\n{name}: {advice}", end="")
    missing = any(advice for *_, advice in rows)
    print("" if missing else "\nEverything that the course needs is here.")
    return int(missing)


def _python() -> tuple[str, str, str]:
    oldest, newest = (".".join(map(str, version)) for version in PYTHON)
    fits = PYTHON[0] <= sys.version_info[:2] <= PYTHON[1]
    return "Python", platform.python_version(), "" if fits else f"Install a Python from {oldest} to {newest}."


def _package(name: str) -> tuple[str, str, str]:
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return name, "not installed", f"Run: {INSTALL} -r requirements.txt"
    oldest, newest_but = _bounds(name)
    if oldest and _number(found) < _number(oldest):
        return name, found, f"The course needs {oldest} or newer. Run: {INSTALL} -r requirements.txt"
    if newest_but and _number(found) >= _number(newest_but):
        return name, found, f"The course needs a version before {newest_but}. Run: {INSTALL} -r requirements.txt"
    return name, found, ""


def _bounds(name: str) -> tuple[str, str]:
    """The oldest version that requirements.txt allows and the first that is too new; empty where there is none."""
    text = REQUIREMENTS.read_text() if REQUIREMENTS.exists() else ""
    line = re.search(rf"^{name}(?:==|>=)([\d.]+)(?:,<([\d.]+))?", text, re.MULTILINE)
    return (line[1], line[2] or "") if line else ("", "")


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.match(r"[\d.]*\d", version)[0].split("."))


def _device() -> tuple[str, str, str]:
    try:
        import torch

        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    except Exception as error:  # a broken torch can fail in any way
        reason = str(error).strip().split("\n")[0]
        return "device", f"torch does not load ({reason})", f"Run: {INSTALL} --force-reinstall -r requirements.txt"
    return "device", f"GPU: {gpu}" if gpu else "CPU, which is enough", ""


def _widgets() -> tuple[str, str, str]:
    folder = Path(sys.prefix, "share", "jupyter", "labextensions")
    missing = " ".join(package for name, package in EXTENSIONS.items() if not (folder / name).is_dir())
    if missing:
        return "sliders", f"no JupyterLab extension of {missing}", f"Run: {INSTALL} --force-reinstall {missing}"
    return "sliders", "JupyterLab extensions of ipywidgets and anywidget", ""


def _marks() -> tuple[str, str]:
    try:
        "✓✗".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return "+", "-"
    return "✓", "✗"


if __name__ == "__main__":
    sys.exit(main())
