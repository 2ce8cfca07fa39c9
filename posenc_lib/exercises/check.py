"""A check of a learner's function: run it on a few inputs, compare, and say what went wrong.

Likely mistakes are given as code: each is a wrong version of the function with a message. If the learner's results are
those of a wrong version, the message is what the learner reads.
"""

import reprlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

Function = Callable[..., Any]  # should return a tensor or numbers; a learner's may return anything


class Verdict(NamedTuple):
    """What a check says of a function.

    passed: whether it is right.
    message: what the learner reads.
    """

    passed: bool
    message: str


class Check:
    """Compares a function with a reference on given inputs; calling it prints one line and never raises.

    Args:
        name: of the function that the learner writes.
        reference: the right function, which returns a tensor or a number; or its results, one for each case.
        cases: the inputs, one tuple of arguments each.
        mistakes: pairs of a message and the wrong function that it describes, the likeliest first.
        tolerance: largest absolute difference allowed.
        dtype: that every answer must have, if it matters.
    """

    def __init__(
        self,
        name: str,
        reference: Function | Sequence,
        cases: Sequence[tuple],
        mistakes: Sequence[tuple[str, Function]] = (),
        tolerance: float = 1e-9,
        dtype: torch.dtype | None = None,
    ):
        self.name, self.reference, self.cases = name, reference, list(cases)
        self.mistakes, self.tolerance, self.dtype = list(mistakes), tolerance, dtype

    def __call__(self, candidate: Function) -> None:
        """Print the verdict on ``candidate``."""
        print(self.verdict(candidate).message)

    def verdict(self, candidate: Function) -> Verdict:
        """Done, not done yet, the name of a mistake, or where the results differ."""
        wrong = self._mistake(candidate)
        right = f"\N{CHECK MARK} {self.name}: all {len(self.cases)} cases agree"
        return Verdict(wrong is None, right if wrong is None else wrong)

    def _mistake(self, candidate: Function) -> str | None:
        """What is wrong with ``candidate``, None if nothing is."""
        if not callable(candidate):
            return f"{self.name} must be a function, got {type(candidate).__name__}"
        answers = []
        for number, case in enumerate(self.cases, start=1):
            try:
                answer = candidate(*_copies(case))
            except Exception as error:
                return f"{self.name} raised {type(error).__name__} in case {number}: {error}"
            if answer is None or answer is Ellipsis:
                return f"not done yet: {self.name} returned {answer}"
            try:
                answers.append(_tensor(answer).detach().cpu())
            except Exception:
                return f"{self.name} must return a tensor, a number or several of these, got {reprlib.repr(answer)}"
            if self.dtype not in (None, answers[-1].dtype):
                return f"{self.name} must return {self.dtype}, got {answers[-1].dtype}"
        expected = self._results(self.reference)
        if self._same(answers, expected):
            return None
        for message, wrong in self.mistakes:
            if self._same(answers, self._results(wrong)):
                return f"not yet: {message}"
        return self._difference(answers, expected)

    def _results(self, function: Function | Sequence) -> list[Tensor]:
        if not callable(function):
            return [_tensor(result) for result in function]
        return [_tensor(function(*_copies(case))) for case in self.cases]

    def _same(self, left: list[Tensor], right: list[Tensor]) -> bool:
        return all(a.shape == b.shape and _distance(a, b) <= self.tolerance for a, b in zip(left, right, strict=True))

    def _difference(self, answers: list[Tensor], expected: list[Tensor]) -> str:
        for number, (answer, right) in enumerate(zip(answers, expected, strict=True), start=1):
            where = f"{self.name}, case {number} of {len(self.cases)}"
            if answer.shape != right.shape:
                return f"{where}: shape {tuple(right.shape)} expected, got {tuple(answer.shape)}"
            distance = _distance(answer, right)
            if distance > self.tolerance:
                if distance < (1e-3 if answer.dtype in (torch.float32, torch.complex64) else 1e-6):
                    return f"{where}: right to the precision of float32; compute in float64"
                return f"{where}: the values differ, by {distance:.2g} where they differ most"
        raise AssertionError("called on results that agree")


class JudgeCheck(Check):
    """A check of a function that tells right from wrong; its message names what the function judges wrongly.

    Args:
        judged: for each case what is judged, and words that say under which circumstances, or none.
        arguments, options: as of :class:`Check`.
    """

    def __init__(self, *arguments: Any, judged: Sequence[tuple[str, str]], **options: Any):
        super().__init__(*arguments, **options)
        self.judged = judged

    def _difference(self, answers: list[Tensor], expected: list[Tensor]) -> str:
        for (what, where), answer, right in zip(self.judged, answers, expected, strict=True):
            if answer.shape == right.shape and bool(answer) != bool(right):
                return f"{self.name}{where}: you call {what!r} {'right' if answer else 'wrong'}"
        return super()._difference(answers, expected)


def _tensor(value: Any) -> Tensor:
    """A tensor as it is, numbers in float64 or as integers."""
    tensor = torch.as_tensor(value)
    plain = isinstance(value, (float, list, tuple)) and tensor.dtype == torch.float32
    return torch.as_tensor(value, dtype=torch.float64) if plain else tensor


def _copies(case: tuple) -> tuple:
    """Fresh inputs, so that a function that writes into them cannot spoil the next comparison."""
    return tuple(x.clone() if isinstance(x, Tensor) else x for x in case)


def _distance(a: Tensor, b: Tensor) -> float:
    """Largest absolute difference; infinite if either holds a value that is not a number, or only one an infinity."""
    wide = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
    gap = torch.where(a == b, 0.0, (a.to(wide) - b.to(wide)).abs())  # the difference of two infinities is no number
    return 0.0 if not gap.numel() else float(gap.nan_to_num(nan=torch.inf, posinf=torch.inf).max())
