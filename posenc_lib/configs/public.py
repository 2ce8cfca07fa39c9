"""Configurations of public models, what shipped when, and who shares what is learned; each with its address."""

import json
from pathlib import Path
from typing import Any


def public_models() -> list[dict[str, Any]]:
    """Rows with the name of a ``model``, its ``config`` (fields of size and position), and the ``address``.

    Example:
        >>> {row["model"]: row["config"]["model_type"] for row in public_models()}["google/gemma-2b"]
        'gemma'
    """
    rows: list[dict[str, Any]] = _read("models.json")
    return rows


def shipped() -> list[dict[str, Any]]:
    """Rows with an ``idea``, a ``model`` that has it, the ``month`` of its first report, and the ``address`` of that.

    ``schemes`` are the classes of the library that the model uses, each in some of its layers or in all.

    Example:
        >>> next(row["month"] for row in shipped() if row["model"] == "BLOOM")
        '2022-11'
    """
    rows: list[dict[str, Any]] = _read("shipped.json")
    return rows


def shared_parameters() -> dict[str, dict[str, str]]:
    """By class of a scheme, whether what it learns is ``kept`` per layer or per model, and the ``address`` of that.

    Example:
        >>> shared_parameters()["T5Bias"]["kept"]
        'per model'
    """
    rows: dict[str, dict[str, str]] = _read("parameters.json")
    return rows


def _read(name: str) -> Any:
    return json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
