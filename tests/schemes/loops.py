"""What the tests of several schemes share; nothing here is taken from the library that they judge."""

import pytest
import torch

# Positions of queries and of keys.
POSITIONS = {
    "from 0": (torch.arange(7), torch.arange(7)),
    "cache": (torch.arange(5, 7), torch.arange(7)),
    "shifted": (torch.arange(1000, 1003), torch.arange(997, 1004)),
    "more queries": (torch.arange(3, 9), torch.arange(2)),
    "scattered": (torch.tensor([3, -8, 40]), torch.tensor([0, 2, 41, 5, -9])),
}


def draw(*shape, dtype=torch.float64):
    """Standard normal numbers, drawn in float64 whatever the dtype."""
    return torch.randn(*shape, dtype=torch.float64).to(dtype)


def loop_outputs(s, v, visible):
    """What attention returns for scores s (B, H, Lq, Lk), one number at a time; visible(b, i, j) is the mask."""
    o = torch.zeros(*s.shape[:3], v.shape[-1], dtype=torch.float64)
    for b, h, i in torch.cartesian_prod(*(torch.arange(n) for n in s.shape[:3])).tolist():
        keys = [j for j in range(s.shape[3]) if visible(b, i, j)]
        total = sum(s[b, h, i, j].exp() for j in keys)
        for j in keys:
            o[b, h, i] += s[b, h, i, j].exp() / total * v[b, h, j].double()
    return o


def assert_refused(call, error, words):
    """The call raises just this error, and its message has these words."""
    with pytest.raises(error) as refusal:
        call()
    assert refusal.type is error
    for word in words:
        assert word in str(refusal.value)
