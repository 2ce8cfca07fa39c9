"""What a graded assignment needs beyond a check: a verdict that raises, answers that are values, own parameters."""

import hashlib
import itertools
import math
from collections.abc import Sequence
from types import SimpleNamespace

from torch import Tensor

from posenc_lib import validate
from posenc_lib.exercises.check import Check, Function


def require(check: Check, candidate: Function) -> None:
    """Print the verdict on ``candidate`` if it passes.

    Raises:
        AssertionError: with the verdict, if it does not.
    """
    verdict = check.verdict(candidate)
    if not verdict.passed:
        raise AssertionError(verdict.message)
    print(verdict.message)


def require_answer(
    name: str,
    answer: Tensor | float | str | None,
    expected: Tensor | float | str,
    mistakes: Sequence[tuple[str, Tensor | float | str]] = (),
    tolerance: float = 1e-9,
) -> None:
    """Print that ``answer`` is right.

    Args:
        name: of the variable that holds the answer.
        answer: what it holds.
        expected: a number or a tensor, compared within ``tolerance``, or a word, compared as it is.
        mistakes: pairs of a message and the wrong answer that it describes.
        tolerance: largest absolute difference allowed.
    Raises:
        AssertionError: if the answer is missing, of another kind, or wrong; with the message of a known mistake.
    """
    if answer is None or answer is Ellipsis:
        raise AssertionError(f"not done yet: {name} is {answer}")
    if isinstance(answer, str) and not isinstance(expected, str):
        raise AssertionError(f"{name} must be a tensor or a number, got {answer!r}")
    if not _agree(answer, expected, tolerance):
        known = (message for message, wrong in mistakes if _agree(answer, wrong, tolerance))
        raise AssertionError(f"not yet: {next(known, f'{name} is not right')}")
    print(f"\N{CHECK MARK} {name}")


def _agree(answer: object, value: Tensor | float | str, tolerance: float) -> bool:
    """Whether they are the same word, or numbers or tensors within ``tolerance``; whole numbers of any size."""
    if isinstance(answer, str) or isinstance(value, str):
        return isinstance(answer, str) and answer == value
    if isinstance(answer, int) and isinstance(value, int):
        return abs(answer - value) <= tolerance
    given, right = (float(x) if isinstance(x, int) and abs(x) >= 2**63 else x for x in (answer, value))
    return Check("answer", [right], [()], tolerance=tolerance).verdict(lambda: given).passed


def own(student: int | str, **choices: Sequence) -> SimpleNamespace:
    """Parameters that belong to a student number: for each name one of its choices, always the same one.

    With n combinations of all choices, n consecutive numbers have n different ones.

    Args:
        student: the student's number, positive; or a word that holds one, such as "s0042".
        choices: what each parameter may be.
    Returns:
        A namespace with the names of ``choices``.
    Raises:
        TypeError, ValueError: if the number is not a positive integer and holds none.
    """
    names = sorted(choices)
    count = math.prod(len(choices[name]) for name in names)
    # A step without a factor in common with the count visits every combination once before it repeats one.
    step = next(n for n in itertools.count(round(count * 0.618)) if math.gcd(n, count) == 1)
    place, picked = (step * student_number(student) + _digest(*names)) % count, {}
    for name in names:
        place, index = divmod(place, len(choices[name]))
        picked[name] = choices[name][index]
    return SimpleNamespace(**{name: picked[name] for name in choices})


def student_number(student: int | str) -> int:
    """The positive integer that stands for a student.

    Args:
        student: a positive integer, or a word of at most 40 characters with a digit in it: its digits, without leading
            zeros, moved by what its letters say.
    Raises:
        TypeError, ValueError: for anything else.
    """
    if isinstance(student, str):
        digits = "".join(letter for letter in student if letter.isdecimal())
        letters = "".join(letter for letter in student.casefold() if letter.isalpha())
        if not digits or len(student) > 40 or not int(digits):
            raise ValueError(f"student must be a positive number, or a word that holds one, got {student!r}")
        return int(digits) + (_digest(letters) if letters else 0)
    return validate.integer("student", student, at_least=1)


def _digest(*words: str) -> int:
    return int.from_bytes(hashlib.sha256(" ".join(words).encode()).digest()[:8], "big")
