"""The GPU is taken when torch sees one, and only then."""

import pytest
import torch

from posenc_lib.device import pick_device


@pytest.mark.parametrize("present, expected", [(True, "cuda"), (False, "cpu")])
def test_pick_device(monkeypatch, present, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: present)
    assert pick_device() == torch.device(expected)
