"""Verdicts of graded assignments raise, and a student number always chooses the same parameters."""

import math

import pytest
import torch

from posenc_lib.exercises.check import Check
from posenc_lib.exercises.graded import own, require, require_answer, student_number

double = Check(
    "double",
    [torch.tensor([2.0]), 4.0],
    cases=[(torch.tensor([1.0]),), (2.0,)],
    mistakes=[("half", [torch.tensor([0.5]), 1.0])],
)


def test_results_may_stand_in_for_the_reference(capsys):
    require(double, lambda x: x + x)
    assert capsys.readouterr().out == "\N{CHECK MARK} double: all 2 cases agree\n"


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (lambda x: x / 2, "not yet: half"),
        (lambda x: x, "double, case 1 of 2: the values differ, by 1 where they differ most"),
        (lambda x: None, "not done yet: double returned None"),
        (lambda x: 1 / 0, "double raised ZeroDivisionError in case 1: division by zero"),
    ],
)
def test_what_is_not_right_raises_the_verdict(candidate, words):
    with pytest.raises(AssertionError) as error:
        require(double, candidate)
    assert str(error.value) == words


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (3, 3),
        (3.0, 3),
        (0.1 + 0.2, 0.3),
        (True, True),
        ("rope", "rope"),
        (torch.tensor([1, 2]), torch.tensor([1.0, 2.0])),
        (10**30, 10**30),
    ],
)
def test_right_answers(answer, expected, capsys):
    require_answer("answer", answer, expected, [("wrong", 17)] if not isinstance(expected, str) else [("wrong", "t5")])
    assert capsys.readouterr().out == "\N{CHECK MARK} answer\n"


@pytest.mark.parametrize(
    ("answer", "expected", "words"),
    [
        (None, 3, "not done yet: answer is None"),
        (..., 3, "not done yet: answer is Ellipsis"),
        (-3, 3, "not yet: right up to the sign"),
        (4, 3, "not yet: answer is not right"),
        ("3", 3, "answer must be a tensor or a number, got '3'"),
        ("alibi", "rope", "not yet: answer is not right"),
        (3, "rope", "not yet: answer is not right"),
        (torch.tensor([3, 3]), 3, "not yet: answer is not right"),
        (float("nan"), 3, "not yet: answer is not right"),
        (10**30, 10**30 + 1, "not yet: answer is not right"),
        (2.0, 10**30, "not yet: answer is not right"),
    ],
)
def test_wrong_answers(answer, expected, words):
    with pytest.raises(AssertionError) as error:
        require_answer("answer", answer, expected, [("right up to the sign", -3)] if expected == 3 else [])
    assert str(error.value) == words


def test_a_mistake_is_looked_at_only_when_the_answer_is_wrong():
    def mistakes():
        yield "never asked for", 1 / 0

    require_answer("answer", 3, 3, mistakes())
    with pytest.raises(ZeroDivisionError):
        require_answer("answer", 4, 3, mistakes())


def test_a_mistake_beyond_every_integer_of_torch_is_compared_too():
    require_answer("orders", 5040, 5040, [("all orders", math.factorial(21))])
    for answer in (math.factorial(21), float(math.factorial(21))):
        with pytest.raises(AssertionError, match="not yet: all orders"):
            require_answer("orders", answer, 5040, [("all orders", math.factorial(21))])


def test_words_have_known_mistakes_too():
    with pytest.raises(AssertionError, match="the other way round"):
        require_answer("order", "ba", "ab", [("the other way round", "ba")])


def test_a_number_chooses_the_same_every_time_and_numbers_differ():
    chosen = [own(student, offset=range(2, 9), base=(100.0, 1000.0)) for student in range(1, 200)]
    again = [own(student, base=(100.0, 1000.0), offset=range(2, 9)) for student in range(1, 200)]
    assert chosen == again
    assert {mine.offset for mine in chosen} == set(range(2, 9))
    assert len({(mine.offset, mine.base) for mine in chosen}) == 14
    released = own(4711, offset=range(2, 9), base=(100.0, 1000.0))
    assert (released.offset, released.base) == (5, 100.0)  # for good: assignments were handed out with it


@pytest.mark.parametrize("first", [1, 4711, 10**9, "s0042"])
def test_as_many_consecutive_numbers_as_there_are_combinations_all_differ(first):
    start = student_number(first)
    chosen = [tuple(vars(own(n, a=range(6), b=range(4), c=range(10))).values()) for n in range(start, start + 240)]
    assert len(set(chosen)) == 240


def test_numbers_with_letters_and_leading_zeros():
    assert [student_number(s) for s in (42, "42", "0042", " 42 ")] == [42] * 4
    assert student_number("s0042") == student_number("S42") != student_number("t42")
    assert student_number("s43") - student_number("s42") == 1


@pytest.mark.parametrize(
    ("student", "error"),
    [
        (0, ValueError),
        (-3, ValueError),
        (1.5, ValueError),
        ("seven", ValueError),
        ("000", ValueError),
        ("7" * 41, ValueError),
        (None, TypeError),
    ],
)
def test_what_is_no_student_number_is_refused(student, error):
    with pytest.raises(error, match="student must be"):
        own(student, offset=range(3))
