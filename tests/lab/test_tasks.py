"""The answers of the tasks are what their names say, and every draw can be repeated."""

import pytest
import torch

from posenc_lib.lab import IGNORE, copy_back, name_position, reverse

TASKS = (reverse, copy_back, name_position)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_reverse():
    tokens, targets = reverse(3, 7, seeded())
    assert tokens.shape == targets.shape == (3, 7)
    assert all(targets[b, i] == tokens[b, 6 - i] for b in range(3) for i in range(7))


@pytest.mark.parametrize(("length", "back"), [(9, 2), (9, 0), (4, 4), (3, 5)])
def test_copy_back(length, back):
    tokens, targets = copy_back(2, length, seeded(), back=back)
    for b in range(2):
        for i in range(length):
            assert targets[b, i] == (tokens[b, i - back] if i >= back else IGNORE)


@pytest.mark.parametrize("bos", [True, False])
def test_name_position(bos):
    tokens, targets = name_position(50, 6, seeded(), vocabulary=4, bos=bos)
    assert targets.tolist() == [[0, 1, 2, 3, 4, 5]] * 50
    assert (tokens == 4).any() == bos
    assert not (tokens[:, 1:] == 4).any()


@pytest.mark.parametrize("task", TASKS)
def test_draws_depend_on_the_seed_only(task):
    first, again, other = (task(4, 8, seeded(seed))[0] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("argument", "value"), [("batch", 0), ("length", -1), ("vocabulary", 0), ("length", 2.5)])
def test_refusals(task, argument, value):
    with pytest.raises(ValueError, match=f"{argument} must be .*{value}"):
        task(**{"batch": 2, "length": 4, "generator": seeded(), "vocabulary": 3} | {argument: value})
