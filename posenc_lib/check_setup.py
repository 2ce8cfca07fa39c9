"""``python -m posenc_lib.check_setup``: is everything here that the course needs, and if not, what to do.

Whoever installed the library alone needs torch and numpy only, and is told so; it runs without them, too.
"""

import platform
import re
import sys
from importlib import metadata
from pathlib import Path

REQUIREMENTS = Path(__file__).parents[1] / "requirements.txt"
PYTHON = (3, 11), (3, 13)  # oldest and newest
LIBRARY = ("torch", "numpy")
COURSE = ("matplotlib", "jupyterlab", "ipykernel", "ipywidgets", "anywidget", "jsonschema", "tqdm", "joblib")
EXTENSIONS = {
    "@jupyter-widgets/jupyterlab-manager": "jupyterlab_widgets",
    "anywidget": "anywidget",
}  # and their packages
INSTALL = f"{sys.executable} -m pip install"
INSTALL_ALL = f"Run, in the folder of the course: {INSTALL} -r requirements.txt"


def main() -> int:
    """Print one row for each thing needed and one sentence for each thing to do.

    Returns:
        0 if nothing is missing, else 1: the exit status. It is 1, too, where the library alone is complete.
    """
    library = [_python(), *(_package(name) for name in LIBRARY), _device()]
    course = [*(_package(name) for name in COURSE), _widgets()]
    good, bad = _marks()
    for name, found, advice in library + course:
        print(f"{bad if advice else good} {name:<12} {found}")
    for advice in dict.fromkeys(advice for *_, advice in library + course if advice):
        names = ", ".join(name for name, _, same in library + course if same == advice)
        print(f"\n{names}: {advice}", end="")
    broken, missing = (any(advice for *_, advice in rows) for rows in (library, course))
    if broken:
        print("\n\nSomething that the library itself needs is missing or does not fit.")
    elif missing:
        print("\n\nThe library is complete: a model can use it. What is missing is needed by the course.")
    else:
        print("\nEverything that the course needs is here.")
    return int(broken or missing)


def _python() -> tuple[str, str, str]:
    oldest, newest = (".".join(map(str, version)) for version in PYTHON)
    fits = PYTHON[0] <= sys.version_info[:2] <= PYTHON[1]
    return "Python", platform.python_version(), "" if fits else f"Install a Python from {oldest} to {newest}."


def _package(name: str) -> tuple[str, str, str]:
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return name, "not installed", INSTALL_ALL
    oldest, newest_but = _bounds(name)
    if oldest and _number(found) < _number(oldest):
        return name, found, f"{oldest} or newer is needed. {INSTALL_ALL}"
    if newest_but and _number(found) >= _number(newest_but):
        return name, found, f"A version before {newest_but} is needed. {INSTALL_ALL}"
    return name, found, ""


def _bounds(name: str) -> tuple[str, str]:
    """The oldest version that is allowed and the first that is too new; empty where there is none."""
    line = re.search(rf"^{name}(?:==|>=)([\d.]+)(?:,<([\d.]+))?", _requirements(), re.MULTILINE)
    return (line[1], line[2] or "") if line else ("", "")


def _requirements() -> str:
    """The lines of requirements.txt; where the library was installed without it, what the package asks for."""
    if REQUIREMENTS.exists():
        return REQUIREMENTS.read_text(encoding="utf-8")
    try:
        return "\n".join(metadata.requires("posenc-lib") or [])
    except metadata.PackageNotFoundError:
        return ""


def _number(version: str) -> tuple[int, ...]:
    release = re.split(r"[^\d.]", version)[0]
    return tuple(int(part) for part in release.split(".") if part)


def _device() -> tuple[str, str, str]:
    try:
        import torch

        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    except Exception as error:  # a broken torch can fail in any way
        reason = str(error).strip().split("\n")[0]
        again = INSTALL_ALL.replace("install -r", "install --force-reinstall -r")
        return "device", f"torch does not load ({reason})", again
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
