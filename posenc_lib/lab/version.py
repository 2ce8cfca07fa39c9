"""A digest of the code that decides a result: it changes with that code.

It does not change with what decides nothing: comments, docstrings, the version of Python, and types and the words of an
error, unless a name comes or goes with them.
"""

import ast
import hashlib
import importlib
import inspect
import json
from collections.abc import Iterable
from functools import cache
from types import ModuleType
from typing import Any

PACKAGE = "posenc_lib"
IDLE = ("annotation", "returns", "kind", "ctx", "type_params", "type_comment")  # parts of a tree that decide nothing


def version(roots: Iterable[type | Any], values: object = None) -> str:
    """Eight characters that stand for the definitions which ``roots`` reach in this package, and for ``values``.

    A definition reaches the names that occur in it: functions, classes and constants of its own module, and what that
    module imports from this package.

    Args:
        roots: functions and classes.
        values: what JSON can hold, settings for example.
    Example:
        >>> from posenc_lib.schemes.alibi import Alibi
        >>> version([Alibi]) == version([Alibi], None) != version([Alibi], {"num_heads": 4})
        True
    """
    found: dict[str, str] = {}
    waiting = [(root.__module__, root.__qualname__) for root in roots]
    while waiting:
        module, name = waiting.pop()
        key = f"{module}.{name}"
        if key in found or not module.startswith(PACKAGE):
            continue
        definitions, imported = _module(module)
        if name in imported:
            waiting.append(imported[name])
            continue
        found[key] = ""
        for node in definitions.get(name, ()):
            found[key] += _canonical(node)
            waiting += _reached(node, module, imported)
    text = json.dumps([sorted(found.items()), values], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _canonical(node: object) -> str:
    """A tree in words, without what is empty, types, and what is raised."""
    if isinstance(node, list):
        return " ".join(map(_canonical, node))
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Raise):
        return "raise"
    kept = [(name, value) for name, value in ast.iter_fields(node) if name not in IDLE and value not in (None, [])]
    return f"{type(node).__name__}({', '.join(f'{name}={_canonical(value)}' for name, value in kept)})"


def _reached(node: ast.AST, module: str, imported: dict[str, tuple[str, str]]) -> list[tuple[str, str]]:
    """What a definition may use: every name in it, and every attribute of a module that it names."""
    reached = []
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            reached.append((module, part.id))
        elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id in imported:
            package, name = imported[part.value.id]
            if isinstance(getattr(importlib.import_module(package), name), ModuleType):
                reached.append((f"{package}.{name}", part.attr))
    return reached


@cache
def _module(name: str) -> tuple[dict[str, list[ast.stmt]], dict[str, tuple[str, str]]]:
    """The definitions of a module by name, without docstrings, and what it imports from this package."""
    definitions: dict[str, list[ast.stmt]] = {}
    imported: dict[str, tuple[str, str]] = {}
    module = importlib.import_module(name)
    for node in _without_docstrings(ast.parse(inspect.getsource(module))).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            imported |= {alias.asname or alias.name: (str(node.module), alias.name) for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            definitions.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for part in ast.walk(target):
                    if isinstance(part, ast.Name):
                        definitions.setdefault(part.id, []).append(node)
    return definitions, imported


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return tree
