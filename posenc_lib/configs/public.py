"""Configurations of public models, and what shipped when; each row with the address where it was read."""

import json
from pathlib import Path
from typing import Any


def public_models() -> list[dict[str, Any]]:
    """Rows with the name of a ``model``, its ``config`` (fields of size and position), and the ``address``.

    Example:
        >>> {row["model"]: row["config"]["model_type"] for row in public_models()}["google/gemma-2b"]
        'gemma'
    """
    return _rows("models.json")


def shipped() -> list[dict[str, str]]:
    """Rows with an ``idea``, a ``model`` that has it, the ``month`` of its first report, and the ``address`` of that.

    Example:
        >>> next(row["month"] for row in shipped() if row["model"] == "BLOOM")
        '2022-11'
    """
    return _rows("shipped.json")


def _rows(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    return rows
