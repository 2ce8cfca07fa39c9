"""What a graded assignment needs beyond a check: a verdict that raises, answers that are values, own parameters."""

import hashlib
from collections.abc import Sequence
from types import SimpleNamespace

from torch import Tensor

from posenc_lib import validate
from posenc_lib.exercises.check import Check, Function

PASSED = "\N{CHECK MARK}"


def require(check: Check, candidate: Function) -> None:
    """Print the verdict on ``candidate`` if it passes.

    Raises:
        AssertionError: with the verdict, if it does not.
    """
    verdict = check.verdict(candidate)
    if not verdict.startswith(PASSED):
        raise AssertionError(verdict)
    print(verdict)


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
    if isinstance(expected, str):
        right, known = answer == expected, [message for message, wrong in mistakes if answer == wrong]
    else:
        if isinstance(answer, str):
            raise AssertionError(f"{name} must be a tensor or a number, got {answer!r}")

        def agrees(value: Tensor | float) -> bool:
            check = Check(name, [value], [()], tolerance=tolerance)
            return check.verdict(lambda: answer).startswith(PASSED)

        right, known = agrees(expected), [message for message, wrong in mistakes if agrees(wrong)]
    if not right:
        raise AssertionError(f"not yet: {known[0] if known else f'{name} is not right'}")
    print(f"{PASSED} {name}")


def own(student: int, **choices: Sequence) -> SimpleNamespace:
    """Parameters that belong to a student number: for each name one of its choices, always the same one.

    Args:
        student: the student's number, positive.
        choices: what each parameter may be.
    Returns:
        A namespace with the names of ``choices``.
    Raises:
        TypeError, ValueError: if the number is not a positive integer.
    """
    student = validate.integer("student", student, at_least=1)

    def pick(name: str, options: Sequence):
        digest = hashlib.sha256(f"{name} {student}".encode()).digest()
        return options[int.from_bytes(digest[:8], "big") % len(options)]

    return SimpleNamespace(**{name: pick(name, options) for name, options in choices.items()})
