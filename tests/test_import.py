"""The arrows between the rooms run one way, and models and schemes need torch and nothing else."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

import posenc_lib
import posenc_lib.lab

ROOT = Path(posenc_lib.__file__).parent
MODULES = {".".join(("posenc_lib", *path.relative_to(ROOT).with_suffix("").parts)): path for path in ROOT.rglob("*.py")}

# What a room, or a module beside the rooms, may read besides itself.
MAY_READ = {
    "validate": set(),
    "relative": set(),
    "device": set(),
    "placed": {"validate"},
    "scheme": {"placed", "relative"},
    "_checks": {"validate", "placed", "scheme"},
    "_fused": {"placed", "relative"},
    "attention": {"_checks", "_fused", "placed", "scheme"},
    "schemes": {"validate", "relative", "scheme"},
    "configs": {"validate", "relative", "scheme", "attention", "schemes"},
    "lab": {"validate", "relative", "placed", "scheme", "attention", "schemes", "device", "configs"},
    "view": {"validate", "relative", "scheme", "schemes"},
    "exercises": {"validate", "relative", "scheme", "attention", "schemes", "configs", "lab"},
}
# Where the mathematics of one scheme is a part of the other; a module that does not stand here may read any.
SCHEMES_MAY_READ: dict[str, set[str]] = {
    **{name: set() for name in ("none", "sinusoidal", "learned", "shaw", "music_transformer", "huang", "deberta")},
    **{name: set() for name in ("t5", "alibi", "kerple", "fire", "fox", "cope", "learned_profile", "path")},
    "context_extension": {"sinusoidal"},
    "rope": {"context_extension"},
    "nezha": {"shaw", "sinusoidal"},
    "transformer_xl": {"sinusoidal"},
    "xlnet": {"transformer_xl"},
    "tener": {"transformer_xl", "sinusoidal"},
    "xpos": {"rope"},
    "decoupled": {"rope", "context_extension"},
    "selective": {"fox", "rope"},  # a product over the tokens passed: of rotations, not of gates
    "temperature": {"none"},
    "grid": {"rope"},
}
# What a room may read of what is installed; the others may read torch.
PACKAGES = {
    "configs": {"torch", "safetensors", "huggingface_hub"},
    "lab": {"torch", "numpy", "joblib", "tqdm"},
    "view": {
        *("torch", "numpy", "matplotlib", "cycler", "ipywidgets", "traitlets", "anywidget", "IPython", "PIL"),
        "jupyter_server",
    },
}
README = (ROOT.parent / "README.md").read_text(encoding="utf-8")
OPTIONAL = {"safetensors", "huggingface_hub"}  # whoever reads trained numbers is told to install them
COURSE = set().union(*PACKAGES.values()) - {"torch", "numpy"} - OPTIONAL


def imports(source: str) -> set[str]:
    """Dotted names that a module imports, at the top or inside a function; not those that only its types need."""
    names = set()
    tree = ast.parse(source)
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in node.body
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
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
        if top != "posenc_lib":
            wrong = top not in sys.stdlib_module_names | PACKAGES.get(room, {"torch"})
        elif not rest or rest[0] == room:
            other_scheme = room == "schemes" and len(rest) > 1 and inner[0] != rest[1]
            wrong = other_scheme and rest[1] not in SCHEMES_MAY_READ.get(inner[0], (rest[1],))
        else:
            wrong = rest[0] not in MAY_READ.get(room, ())
        if wrong:
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
        ("posenc_lib.schemes.rope", "import numpy as np"),
        ("posenc_lib.attention", "import einops"),
        ("posenc_lib.placed", "from posenc_lib.scheme import PositionScheme"),
        ("posenc_lib.lab.probes", "from posenc_lib.view import show"),
        ("posenc_lib.check_setup", "from posenc_lib.device import pick_device"),
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


def test_an_import_for_types_is_no_arrow():
    line = "if TYPE_CHECKING:\n    from posenc_lib.scheme import PositionScheme"
    assert forbidden("posenc_lib.placed", line) == set()


def test_every_room_is_known():
    rooms = {module.split(".")[1] for module in MODULES} - {"__init__"}
    assert rooms - {"check_setup"} == set(MAY_READ)


def test_every_package_of_the_course_is_asked_for():
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {line.split(">=")[0] for line in project["dependencies"]} == {"torch", "numpy"}
    asked = {line.split(">=")[0] for line in project["optional-dependencies"]["course"]}
    renamed = {"ipython": "IPython", "pillow": "PIL"}
    brought = {"cycler", "traitlets", "jupyter_server"}  # by matplotlib, ipywidgets and JupyterLab
    notebooks = {"jupyterlab", "jsonschema", "ipykernel"}  # and what JupyterLab brings in a version that starts sooner
    assert {renamed.get(name, name) for name in asked} == (COURSE - brought) | notebooks


def run(program: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


# importing one raises ImportError
WITHOUT_COURSE = f"import sys; sys.modules |= dict.fromkeys({sorted(COURSE | OPTIONAL)}); "


def test_all_but_training_and_pictures_works_without_the_course():
    results = (
        "report",
        "choosing",
        "longer",
        "places",
        "regimes",
        "retests",
        "near",
        "mended",
        "crowd",
        "ranks",
        "looks",
        "octaves",
    )
    lab = ("sweep", "contest", "statistics", "claims", *results)
    need_it = ("posenc_lib.view", *(f"posenc_lib.lab.{name}" for name in lab))
    wanted = sorted(name.removesuffix(".__init__") for name in MODULES if not name.startswith(need_it))
    assert {"posenc_lib", "posenc_lib.attention", "posenc_lib.schemes.rope", "posenc_lib.lab.probes"} <= set(wanted)
    done = run(f"{WITHOUT_COURSE} import {', '.join(wanted)}; posenc_lib.lab.catalog.scheme_classes(); print('done')")
    assert done.stdout == "done\n", done.stderr


@pytest.mark.parametrize("name", ["posenc_lib.view", "posenc_lib.lab.sweep"])
def test_what_needs_the_course_says_so(name):
    assert "ModuleNotFoundError: import of" in run(f"{WITHOUT_COURSE} import {name}").stderr


def test_training_needs_the_course(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ModuleNotFoundError, match="tqdm"):
        posenc_lib.lab.train(torch.nn.Linear(1, 1), None, 1, 1)


def test_public_names_are_found_where_they_live():
    for name, home in posenc_lib.HOMES.items():
        assert getattr(posenc_lib, name).__module__ == f"posenc_lib.{home}"
    assert set(dir(posenc_lib)) == {"__version__", *posenc_lib.HOMES}
    with pytest.raises(AttributeError, match="no attribute 'Rotation'"):
        posenc_lib.Rotation  # noqa: B018


def test_type_checkers_see_the_same_names():
    tree = ast.parse(MODULES["posenc_lib.__init__"].read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    assert {node.names[0].asname: node.module for node in block.body} == {
        name: f"posenc_lib.{home}" for name, home in posenc_lib.HOMES.items()
    }
    assert (ROOT / "py.typed").is_file()


def test_the_package_alone_does_not_load_torch():
    assert run("import sys, posenc_lib; print('torch' in sys.modules)").stdout == "False\n"


def test_readme_shows_lines_and_a_model_that_run():
    lines, program = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict = {}
    exec(lines, names)
    q, k, v, o = (names[name] for name in ("q", "k", "v", "o"))
    assert o.shape == (8, 4, 100, 16)
    plain = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.allclose(o[:, :, 0], plain[:, :, 0], atol=1e-5)
    assert not torch.allclose(o[:, :, 1:], plain[:, :, 1:], atol=1e-2), "position must matter"
    names = {}
    exec(program, names)
    x, layers, scheme = (names[name] for name in ("x", "layers", "scheme"))
    assert x.shape == (8, 100, 64)
    text = torch.randn(1, 4, 64)
    here = scheme.at(4, like=text)
    output, swapped = (layers[0](t, here) for t in (text, text[:, [1, 0, 2, 3]]))
    assert not torch.allclose(output[:, -1], swapped[:, -1], atol=1e-4), "position must matter"
    assert torch.allclose(output[:, :2], layers[0](text[:, :2], scheme.at(2, like=text)), atol=1e-5), "it is causal"


def test_readme_names_the_version():
    assert f"Version\n> {posenc_lib.__version__}, " in README


def test_every_room_and_every_file_is_installed():
    """What ``pip install .`` takes along is all that lies in the library."""
    setuptools = tomllib.loads((ROOT.parent / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    rooms = {".".join(("posenc_lib", *path.parent.relative_to(ROOT).parts)) for path in ROOT.rglob("__init__.py")}
    assert sorted(setuptools["packages"]) == sorted(rooms)
    data = {
        path
        for room, names in setuptools["package-data"].items()
        for name in names
        for path in (ROOT.parent / room.replace(".", "/")).glob(name)
    }
    others = {path for path in ROOT.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert others == data
