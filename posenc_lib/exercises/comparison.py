"""Checks of the exercises of notebook 20."""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations

from posenc_lib.exercises.check import Check

Bias = Callable[[int, int], float]


def _beyond(results: dict[int, float], trained: int) -> float:
    longer = [accuracy for length, accuracy in results.items() if length > trained]
    return sum(longer) / len(longer)


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)


check_beyond = Check(
    "beyond",
    _beyond,
    [({16: 1.0, 32: 0.9, 64: 0.7, 128: 0.5}, 32), ({64: 0.75, 128: 0.5, 256: 0.125}, 64), ({8: 1, 16: 0.5}, 8)],
    [
        ("the length of training itself is not beyond it", lambda r, n: _mean(a for m, a in r.items() if m >= n)),
        ("this is the mean over all lengths", lambda r, n: _mean(r.values())),
        ("this is the accuracy at the longest text; take the mean of all longer ones", lambda r, n: r[max(r)]),
        ("the sum is not divided by how many there are", lambda r, n: sum(a for m, a in r.items() if m > n)),
    ],
)


def _pairs(values: Sequence[float]) -> list[tuple[int, int]]:
    return list(combinations(range(len(values)), 2))


def _disagreements(a: Sequence[float], b: Sequence[float]) -> float:
    return _mean((a[m] - a[n]) * (b[m] - b[n]) < 0 for m, n in _pairs(a))


check_disagreements = Check(
    "disagreements",
    _disagreements,
    [
        ([0.9, 0.5, 0.7, 0.2], [0.8, 0.1, 0.6, 0.3]),
        ([0.1, 0.2, 0.3], [0.3, 0.2, 0.1]),
        ([0.4, 0.4, 0.9, 0.6], [0.1, 0.2, 0.3, 0.3]),
    ],
    [
        (
            "a pair that is level in one task is not ordered in opposite ways",
            lambda a, b: _mean((a[m] - a[n]) * (b[m] - b[n]) <= 0 for m, n in _pairs(a)),
        ),
        (
            "this is the number of pairs, not their share",
            lambda a, b: sum((a[m] - a[n]) * (b[m] - b[n]) < 0 for m, n in _pairs(a)),
        ),
        (
            "this is the share of pairs ordered the same way",
            lambda a, b: _mean((a[m] - a[n]) * (b[m] - b[n]) > 0 for m, n in _pairs(a)),
        ),
        (
            "each pair is to be counted once: divide by n(n - 1)/2",
            lambda a, b: sum((a[m] - a[n]) * (b[m] - b[n]) < 0 for m, n in _pairs(a)) / len(a) ** 2,
        ),
    ],
)


def _blind(bias: Bias, reach: int) -> bool:
    places = range(reach + 1)
    return all(abs(bias(i, j) - bias(abs(i - j), 0)) < 1e-9 for i in places for j in places)


def _symmetric_only(bias: Bias, reach: int) -> bool:
    return all(
        abs(bias(i, i + k) - bias(i, i - k)) < 1e-9 for i in range(reach + 1) for k in range(min(i, reach - i) + 1)
    )


def _relative_only(bias: Bias, reach: int) -> bool:
    return all(abs(bias(i, j) - bias(i + 1, j + 1)) < 1e-9 for i in range(reach) for j in range(reach))


check_blind_to_side = Check(
    "blind_to_side",
    _blind,
    [
        (lambda i, j: -0.5 * abs(i - j), 6),
        (lambda i, j: -0.5 * (i - j), 6),
        (lambda i, j: -abs(i - j) / max(4, i), 9),
        (lambda i, j: -abs(i - j) / max(4, i), 4),
        (lambda i, j: 1.0 if abs(i - j) < 3 else 0.1 + 0.2, 5),
        (lambda i, j: 0.1 * (i + j), 5),
        (lambda i, j: 0.0 if j <= i + 7 else 1.0, 7),
    ],
    [
        ("symmetric is not enough: the bias may also depend on where the query stands", _symmetric_only),
        ("relative is not enough: the bias may still differ between left and right", _relative_only),
        (
            "a bias can be relative or symmetric without being both",
            lambda bias, reach: _relative_only(bias, reach) or _symmetric_only(bias, reach),
        ),
    ],
)
