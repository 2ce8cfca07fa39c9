"""The answers of the tasks are what their names say, and every draw can be repeated."""

import pytest
import torch

from posenc_lib.lab import (
    IGNORE,
    associative_recall,
    copy_back,
    diagonal_neighbour,
    flip_flop,
    induction,
    name_position,
    next_character,
    passkey,
    reverse,
)
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
def test_induction_of_distinct_tokens_has_one_answer(length):
    """The token that followed the present one, wherever it was before, as a loop over the text finds it."""
    tokens, targets = induction(100, length, seeded(), vocabulary=length, distinct=True)
    for text, answers in zip(tokens.tolist(), targets.tolist(), strict=True):
        followed, known = {}, []
        for i, token in enumerate(text):
            known.append(followed.get(token))
            if i + 1 < length:
                assert followed.setdefault(token, text[i + 1]) == text[i + 1]
        assert [IGNORE if answer is None else answer for answer in known[:-1]] == answers[:-1]
        period = next((i for i in range(1, length) if text[i] == text[0]), length)
        assert len(set(text[:period])) == period
        assert all(answer == IGNORE for answer in answers[:period]) and IGNORE not in answers[period:]
    assert len({text[0] for text in tokens.tolist()}) > min(length, 10) // 2
    with pytest.raises(ValueError, match="vocabulary must be at least 4, got 3"):
        induction(1, 8, seeded(), vocabulary=3, distinct=True)


@pytest.mark.parametrize(
    ("length", "values", "writes", "reads"), [(1, 2, 4, 4), (9, 2, 1, 1), (32, 8, 4, 4), (80, 3, 2, 9)]
)
def test_flip_flop(length, values, writes, reads):
    tokens, targets = flip_flop(200, length, seeded(), values, writes, reads)
    assert tokens.shape == targets.shape == (200, length)
    write, read, ignore = values, values + 1, values + 2
    counts = {write: 0, read: 0, ignore: 0}
    for text, answers in zip(tokens.tolist(), targets.tolist(), strict=True):
        assert text[0] == write
        stored = None
        for i, token in enumerate(text):
            if i % 2:
                assert token < values and answers[i] == IGNORE
                if text[i - 1] == write:
                    stored = token
                if text[i - 1] == read:
                    assert token == stored, "a text may be learned from whole"
                continue
            counts[token] += 1
            assert answers[i] == (stored if token == read else IGNORE)
    orders = (length + 1) // 2
    if orders > writes + reads:
        share = (orders - 1) / orders  # the first is to write
        assert counts[write] / 200 == pytest.approx(1 + share * writes, rel=0.15)
        assert counts[read] / 200 == pytest.approx(share * reads, rel=0.15)


@pytest.mark.parametrize(("length", "vocabulary", "size"), [(3, 4, 2), (8, 8, 3), (9, 12, 5), (40, 16, 6)])
def test_passkey(length, vocabulary, size):
    tokens, targets = passkey(300, length, seeded(), vocabulary, size)
    assert tokens.shape == targets.shape == (300, length)
    starts = set()
    for text, answers in zip(tokens.tolist(), targets.tolist(), strict=True):
        start = next(i for i, token in enumerate(text) if token >= vocabulary // 2)
        starts.add(start)
        key, end = text[start : start + size], length - size + 1
        assert len(set(key)) == size and min(key) >= vocabulary // 2
        assert text[end:] == key[:-1]
        assert answers == [IGNORE] * end + key[1:]
        assert all(token < vocabulary // 2 for token in text[:start] + text[start + size : end])
    assert starts == set(range(length - 2 * size + 2)), "anywhere before the question"


def test_refusals_of_passkey():
    for error, arguments in (
        ("size must be at most half of vocabulary = 8, got 5", {"vocabulary": 8, "size": 5}),
        ("size must be at least 2, got 1", {"size": 1}),
        ("vocabulary must be at least 4, got 3", {"vocabulary": 3}),
        ("length must be at least 2 size - 1 = 7, got 6", {"length": 6}),
    ):
        with pytest.raises(ValueError, match=error):
            passkey(**{"batch": 2, "length": 9, "generator": seeded()} | arguments)


@pytest.mark.parametrize("side", [1, 2, 5])
def test_diagonal_neighbour(side):
    tokens, targets = diagonal_neighbour(10, side**2, seeded(), vocabulary=100)
    for text, answers in zip(tokens.tolist(), targets.tolist(), strict=True):
        for row in range(side):
            for column in range(side):
                known = row and column
                answer = text[(row - 1) * side + column - 1] if known else IGNORE
                assert answers[row * side + column] == answer
    with pytest.raises(ValueError, match="length must be the square of a number of rows, got 8"):
        diagonal_neighbour(1, 8, seeded())


@pytest.mark.parametrize("name", ["writes", "reads", "values", "batch", "length"])
def test_refusals_of_flip_flop(name):
    with pytest.raises(ValueError, match=("vocabulary" if name == "values" else name) + " must be at least 1, got 0"):
        flip_flop(**{"batch": 2, "length": 8, "generator": seeded()} | {name: 0})


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


@pytest.mark.parametrize("task", [*TASKS, flip_flop, passkey, diagonal_neighbour, next_character])
def test_draws_depend_on_the_seed_only(task):
    first, again, other = (task(4, 9, seeded(seed))[0] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("argument", "value"), [("batch", 0), ("length", -1), ("vocabulary", 0), ("length", 2.5)])
def test_refusals(task, argument, value):
    with pytest.raises(ValueError, match=f"{argument} must be .*{value}"):
        task(**{"batch": 2, "length": 4, "generator": seeded(), "vocabulary": 3} | {argument: value})
