"""The file of the contest, which several tests read."""

from pathlib import Path

import pytest

from posenc_lib.lab.contest import entries


@pytest.fixture(scope="session")
def contest_entries():
    return entries(Path(__file__).resolve().parents[2] / "notebooks" / "data" / "contest.jsonl")
