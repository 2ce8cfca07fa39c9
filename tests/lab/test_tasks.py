"""The answers of the tasks are what their names say, and every draw can be repeated."""

import pytest
import torch

from posenc_lib.lab import IGNORE, associative_recall, copy_back, induction, name_position, next_character, reverse
from posenc_lib.lab.text import CHARACTERS, MODULES, characters

TASKS = (reverse, copy_back, induction, associative_recall, name_position)


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


@pytest.mark.parametrize("length", [8, 13, 64])
def test_induction(length):
    tokens, targets = induction(200, length, seeded(), vocabulary=1000)
    periods = set()
    for text, answers in zip(tokens.tolist(), targets.tolist(), strict=True):
        period = next(i for i, answer in enumerate(answers) if answer != IGNORE)
        periods.add(period)
        assert answers[:period] == [IGNORE] * period
        assert all(text[i] == text[i - period] for i in range(period, length))
        assert answers[period:-1] == text[period + 1 :]
        assert answers[-1] == text[length - period]
    assert periods == set(range(length // 4, length // 2 + 1))


@pytest.mark.parametrize("length", [1, 2, 9, 40])
def test_associative_recall(length):
    tokens, targets = associative_recall(20, length, seeded(), vocabulary=8)
    assert tokens.shape == targets.shape == (20, length)
    assert (tokens[:, ::2] < 4).all() and (tokens[:, 1::2] >= 4).all()
    for text, answers in zip(tokens.tolist(), targets.tolist(), strict=True):
        values = {}
        for i in range(length):
            if i % 2:
                assert answers[i] == IGNORE
                assert values.setdefault(text[i - 1], text[i]) == text[i]
            else:
                assert answers[i] == values.get(text[i], IGNORE)


@pytest.mark.parametrize("part", MODULES)
def test_next_character(part):
    tokens, targets = next_character(4, 50, seeded(), part=part)
    assert torch.equal(tokens[:, 1:], targets[:, :-1])
    assert tokens.min() >= 0 and tokens.max() < CHARACTERS
    whole = bytes(characters(part).tolist()).decode("ascii")
    assert all(bytes(row.tolist()).decode("ascii") in whole for row in torch.cat([tokens, targets[:, -1:]], 1))


def test_text_is_long_and_its_parts_differ():
    train, test = characters("train"), characters("test")
    assert len(train) > 500_000 and len(test) > 100_000
    assert not set(MODULES["train"]) & set(MODULES["test"])
    with pytest.raises(ValueError, match=r"part must be .*dev"):
        characters("dev")


@pytest.mark.parametrize("task", [*TASKS, lambda *args: next_character(*args)])
def test_draws_depend_on_the_seed_only(task):
    first, again, other = (task(4, 8, seeded(seed))[0] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("argument", "value"), [("batch", 0), ("length", -1), ("vocabulary", 0), ("length", 2.5)])
def test_refusals(task, argument, value):
    with pytest.raises(ValueError, match=f"{argument} must be .*{value}"):
        task(**{"batch": 2, "length": 4, "generator": seeded(), "vocabulary": 3} | {argument: value})
