"""The arrows between the rooms run one way, and the schemes need no window to draw in."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import posenc_lib

ROOT = Path(posenc_lib.__file__).parent
MODULES = {".".join(("posenc_lib", *path.relative_to(ROOT).with_suffix("").parts)): path for path in ROOT.rglob("*.py")}
DRAWING = {"matplotlib", "ipywidgets", "anywidget", "IPython", "PIL"}

# What a room, or a module beside the rooms, may read besides itself.
MAY_READ = {
    "validate": set(),
    "relative": set(),
    "device": set(),
    "scheme": {"validate", "relative"},
    "attention": {"validate", "relative", "scheme"},
    "schemes": {"validate", "relative", "scheme"},
    "lab": {"validate", "relative", "scheme", "attention", "schemes", "device"},
    "view": {"validate", "relative", "scheme", "schemes"},
    "exercises": {"validate", "relative", "scheme", "attention", "schemes"},
}
SCHEMES_MAY_READ = {  # where the mathematics of one is a part of the other
    "rope": {"sinusoidal"},
    "nezha": {"shaw", "sinusoidal"},
    "transformer_xl": {"sinusoidal"},
    "xlnet": {"transformer_xl", "sinusoidal"},
    "tener": {"transformer_xl", "sinusoidal"},
    "context_extension": {"rope"},
    "xpos": {"rope"},
    "grid": {"rope"},
}


def imports(source: str) -> set[str]:
    """Dotted names that a module imports, at the top or inside a function."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written in full"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def forbidden(module: str, source: str) -> set[str]:
    """The imports of ``module`` that go against an arrow."""
    room, *inner = module.split(".")[1:]
    found = set()
    for name in imports(source):
        top, *rest = name.split(".")
        nobody_reads = top in {"notebooks", "tests"}
        draws = top in DRAWING and room in MAY_READ and room != "view"
        other_room = top == "posenc_lib" and rest and rest[0] != room and rest[0] not in MAY_READ.get(room, rest)
        same_room = top == "posenc_lib" and [room] == ["schemes"] == rest[:1] and len(rest) > 1 and inner[0] != rest[1]
        other_scheme = same_room and rest[1] not in SCHEMES_MAY_READ.get(inner[0], ())
        if nobody_reads or draws or other_room or other_scheme:
            found.add(name)
    return found


@pytest.mark.parametrize("module", MODULES)
def test_no_import_goes_against_an_arrow(module):
    if module != "posenc_lib.__init__":
        assert forbidden(module, MODULES[module].read_text(encoding="utf-8")) == set()


@pytest.mark.parametrize(
    "module, line",
    [
        ("posenc_lib.schemes.rope", "import matplotlib.pyplot as plt"),
        ("posenc_lib.schemes.rope", "from posenc_lib.attention import attend"),
        ("posenc_lib.schemes.rope", "from posenc_lib import view"),
        ("posenc_lib.schemes.rope", "def f():\n    from posenc_lib.lab import train"),
        ("posenc_lib.schemes.rope", "from posenc_lib.schemes.shaw import Shaw"),
        ("posenc_lib.schemes.shaw", "from posenc_lib.schemes import sinusoidal"),
        ("posenc_lib.attention", "from posenc_lib.schemes.rope import Rotary"),
        ("posenc_lib.scheme", "import posenc_lib.attention"),
        ("posenc_lib.view.figure", "from posenc_lib.lab import train"),
        ("posenc_lib.exercises.rope", "import matplotlib"),
        ("posenc_lib.lab.model", "from notebooks import x"),
    ],
)
def test_the_check_itself_sees_a_wrong_arrow(module, line):
    assert len(forbidden(module, line)) == 1


def test_every_room_is_known():
    rooms = {module.split(".")[1] for module in MODULES} - {"__init__"}
    assert rooms - {"check_setup"} == set(MAY_READ)


def test_library_and_schemes_load_nothing_that_draws():
    wanted = [name for name in MODULES if name.count(".") == 1 or name.startswith("posenc_lib.schemes.")]
    wanted = sorted(name.removesuffix(".__init__") for name in wanted if name != "posenc_lib.check_setup")
    assert "posenc_lib.attention" in wanted
    assert "posenc_lib.schemes.rope" in wanted
    program = f"import sys, {', '.join(wanted)}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert set(wanted) <= loaded
    assert not loaded & DRAWING
