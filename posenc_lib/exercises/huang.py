"""Checks of the exercises in notebook 09."""

from collections.abc import Callable

import torch
from torch import Tensor

from posenc_lib.exercises.check import Check
from posenc_lib.lab.measure import randn

Score = Callable[[Tensor, Tensor, int], float]


def _rows(length: int, sign: int = 1) -> Tensor:
    p = torch.arange(length)
    return sign * (p - p[:, None]) + length - 1


def _method_4(
    q: Tensor, k: Tensor, table: Tensor, sign: int = 1, scaled: bool = True, key: bool = True, square: bool = False
) -> Tensor:
    a = table[_rows(len(q), sign)]
    s = q @ k.T + (q[:, None] * a).sum(-1)
    if key:
        s = s + (k * a).sum(-1)
    if square:
        s = s + a.square().sum(-1)
    return s / q.shape[1] ** 0.5 if scaled else s


def _key_read_as_query(q: Tensor, k: Tensor, table: Tensor) -> Tensor:
    index = _rows(len(q))
    return (q @ k.T + (q @ table.T).gather(1, index) + (k @ table.T).gather(1, index)) / q.shape[1] ** 0.5


check_method_4 = Check(
    "method_4",
    _method_4,
    cases=[(randn(L, d, seed=1), randn(L, d, seed=2), randn(2 * L - 1, d, seed=3)) for L, d in ((5, 4), (8, 6))],
    mistakes=[
        (
            "right up to the sign of the distance: row r + L - 1 belongs to r = j - i",
            lambda q, k, table: _method_4(q, k, table, sign=-1),
        ),
        (
            "the key's term is picked by the wrong row: (i, j) needs entry r + L - 1 of row j of k @ table.T",
            _key_read_as_query,
        ),
        ("the key's term is missing: that is Shaw's score", lambda q, k, table: _method_4(q, k, table, key=False)),
        (
            "that is (q + a) . (k + a): subtract a . a",
            lambda q, k, table: _method_4(q, k, table, square=True),
        ),
        ("right up to the scale: divide by sqrt(d)", lambda q, k, table: _method_4(q, k, table, scaled=False)),
    ],
)


def _factors(content: Tensor, s: Tensor, sign: int = 1) -> Tensor:
    ratio, index = s / content, _rows(len(content), sign)
    return torch.stack([ratio[index == n].mean() for n in range(2 * len(content) - 1)])


def _method_2(length: int, seed: int) -> tuple[Tensor, Tensor]:
    content = randn(length, 3, seed=seed) @ randn(3, length, seed=seed + 1)
    return content, content * randn(2 * length - 1, seed=seed + 2)[_rows(length)]


check_factors = Check(
    "factors",
    _factors,
    cases=[_method_2(6, seed=10), _method_2(3, seed=20), _method_2(9, seed=30)],
    mistakes=[
        (
            "right, but in reverse order: the first factor belongs to r = -(L - 1), the lower left corner",
            lambda content, s: _factors(content, s, sign=-1),
        ),
        ("you divided the wrong way round: s = content * a", lambda content, s: _factors(s, content)),
        (
            "you subtracted; method 2 multiplies",
            lambda content, s: torch.stack([(s - content)[_rows(len(s)) == n].mean() for n in range(2 * len(s) - 1)]),
        ),
        ("these are the factors of r >= 0 only", lambda content, s: _factors(content, s)[len(s) - 1 :]),
    ],
    tolerance=1e-7,
)


def _black_box(method: int, seed: int) -> Score:
    scalars, vectors = randn(11, seed=seed), randn(11, 4, seed=seed + 1)

    def score(q: Tensor, k: Tensor, r: int) -> float:
        scalar, vector = scalars[abs(r) if method == 1 else r], vectors[r]  # negative rows count from the end
        if method <= 2:
            return float(q @ k * scalar) / 2
        return float((q * k * vector).sum() if method == 3 else q @ k + q @ vector + k @ vector) / 2

    return score


def _which(score: Score, probe: tuple[Tensor, Tensor] | None = None) -> int:
    q, k = (randn(4, seed=1), randn(4, seed=2)) if probe is None else probe
    if score(0 * q, k, 1) != 0:
        return 4
    first, second = torch.eye(4, dtype=torch.float64)[:2]
    if abs(score(first, first, 1) - score(second, second, 1)) > 1e-12:
        return 3
    return 2 if abs(score(q, k, 1) - score(q, k, -1)) > 1e-12 else 1


check_which_method = Check(
    "which_method",
    _which,
    cases=[(_black_box(method, seed),) for seed in (40, 50) for method in (1, 2, 3, 4)],
    mistakes=[
        (
            "you take 1 for 2 (or the reverse): does the score change when r changes its sign?",
            lambda score: {1: 2, 2: 2}.get(_which(score), _which(score)),
        ),
        (
            "you take 1 for 2 (or the reverse): does the score change when r changes its sign?",
            lambda score: {1: 1, 2: 1}.get(_which(score), _which(score)),
        ),
        (
            "methods 3 and 4 both look at components; only one of them answers a query that is zero",
            lambda score: {3: 4}.get(_which(score), _which(score)),
        ),
        (
            "3 is not told from 2: try vectors with a single component, one after the other",
            lambda score: {3: 2}.get(_which(score), _which(score)),
        ),
    ],
)
