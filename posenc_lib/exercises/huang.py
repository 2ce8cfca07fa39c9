"""Checks of what is written in notebook 09."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from posenc_lib.exercises.check import Check, Function, Verdict
from posenc_lib.lab.measure import randn

Score = Callable[[Tensor, Tensor, int], float]  # of one query with one key
Scores = Callable[[Tensor, Tensor, Tensor], Tensor]  # of queries (L, d) with keys (L, d), from a table (2L - 1, d)


def _rows(length: int, sign: int = 1) -> Tensor:
    p = torch.arange(length)
    return sign * (p - p[:, None]) + length - 1


def _method_4(
    q: Tensor,
    k: Tensor,
    table: Tensor,
    sign: int = 1,
    key_sign: int | None = None,
    scaled: bool = True,
    key: float = 1.0,
    square: bool = False,
) -> Tensor:
    a = table[_rows(len(q), sign)]
    for_key = table[_rows(len(q), sign if key_sign is None else key_sign)]
    s = q @ k.T + (q[:, None] * a).sum(-1) + key * (k * for_key).sum(-1)
    if square:
        s = s + a.square().sum(-1)
    return s / q.shape[1] ** 0.5 if scaled else s


def _key_read_as_query(q: Tensor, k: Tensor, table: Tensor) -> Tensor:
    index = _rows(len(q))
    return (q @ k.T + (q @ table.T).gather(1, index) + (k @ table.T).gather(1, index)) / q.shape[1] ** 0.5


def _by_rows(q: Tensor, k: Tensor, table: Tensor) -> Tensor:
    index = _rows(len(q))
    picked = (q @ table.T).gather(1, index) + (k @ table.T).gather(1, index.T).T
    return (q @ k.T + picked) / q.shape[1] ** 0.5


class _MostAxes(TorchFunctionMode):
    """Remembers the largest number of axes among the tensors that torch returned."""

    seen = 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for x in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(x, Tensor):
                self.seen = max(self.seen, x.dim())
        return result


class _WithoutPairVectors(Check):
    """A check that wants the right scores without a tensor with three axes."""

    def verdict(self, candidate: Function) -> Verdict:
        verdict = super().verdict(candidate)
        if not verdict.passed:
            return verdict
        with _MostAxes() as axes:
            candidate(*(x.clone() for x in self.cases[0]))
        if axes.seen <= 2:
            return verdict
        return Verdict(False, f"not yet: {_PAIR_VECTORS}")


_PAIR_VECTORS = "the scores are right, but there is a tensor with three axes: gather from q @ table.T and k @ table.T"

check_method_4 = _WithoutPairVectors(
    "method_4",
    _by_rows,
    cases=[(randn(L, d, seed=1), randn(L, d, seed=2), randn(2 * L - 1, d, seed=3)) for L, d in ((5, 4), (8, 6))],
    mistakes=[
        (_PAIR_VECTORS, _method_4),
        (
            "right up to the sign of the distance: row r + L - 1 belongs to r = j - i",
            lambda q, k, table: _method_4(q, k, table, sign=-1),
        ),
        (
            "the key's term stands at the wrong pair: (i, j) needs entry r + L - 1 of row j of k @ table.T",
            _key_read_as_query,
        ),
        (
            "the key's term has the wrong sign of the distance: both terms read the same row, that of r = j - i",
            lambda q, k, table: _method_4(q, k, table, key_sign=-1),
        ),
        ("the key's term is missing: that is Shaw's score", lambda q, k, table: _method_4(q, k, table, key=0)),
        ("that is (q + a) . (k + a): subtract a . a", lambda q, k, table: _method_4(q, k, table, square=True)),
        ("right up to the scale: divide by sqrt(d)", lambda q, k, table: _method_4(q, k, table, scaled=False)),
        (
            "divide the whole sum by sqrt(d), not q . k alone",
            lambda q, k, table: _method_4(q, k, table, scaled=False) - q @ k.T * (1 - q.shape[1] ** -0.5),
        ),
    ],
)


# What the learner's test is asked about. Both orders of the rows are in print, and both are right.
_IMPLEMENTATIONS: list[Scores] = [
    _method_4,
    _by_rows,
    lambda q, k, table: _method_4(q, k, table, sign=-1),
    lambda q, k, table: _method_4(q, k, table, key=0),
    _key_read_as_query,
    lambda q, k, table: _method_4(q, k, table, square=True),
    lambda q, k, table: _method_4(q, k, table, key=-1),
    lambda q, k, table: _method_4(q, k, table, key_sign=-1),
    lambda q, k, table: q @ k.T / q.shape[1] ** 0.5,
    lambda q, k, table: torch.zeros(len(q), len(q), dtype=q.dtype),
]


def _exchange(scores: Scores, turned: bool = True) -> bool:
    q, k, table = randn(5, 4, seed=60), randn(5, 4, seed=61), randn(9, 4, seed=62)
    other = scores(k, q, table.flip(0) if turned else table)
    return bool((scores(q, k, table) - other.T).abs().max() < 1e-9)


def _silent(scores: Scores) -> bool:
    nobody = torch.zeros(5, 4, dtype=torch.float64)
    return bool((scores(nobody, nobody, randn(9, 4, seed=63)) == 0).all())


def _heard(scores: Scores) -> bool:
    q, k = torch.zeros(5, 4, dtype=torch.float64), randn(5, 4, seed=61)
    return bool((scores(q, k, randn(9, 4, seed=63)) != 0).any())


check_is_method_4 = Check(
    "is_method_4",
    lambda scores: _silent(scores) and _heard(scores) and _exchange(scores),
    cases=[(scores,) for scores in _IMPLEMENTATIONS],
    mistakes=[
        (
            "one bug gets through: what must the scores be where all words are zero?",
            lambda scores: _heard(scores) and _exchange(scores),
        ),
        (
            "bugs of the key's term get through: what happens to the scores when q and k change places?",
            lambda scores: _silent(scores) and _heard(scores),
        ),
        (
            "scores without any position get through: what must a key get from a query that is zero?",
            lambda scores: _silent(scores) and _exchange(scores),
        ),
        ("one question of three: ask also what happens where words are zero", _exchange),
        ("one question of three: ask also what happens when q and k change places", _silent),
        ("you trust every implementation", lambda scores: True),
        (
            "you trust no implementation: with q and k exchanged, entry (i, j) stands at (j, i)",
            lambda scores: False,
        ),
        (
            "you refuse right ones: seen from the key the query stands at -r, so the table must be turned round",
            lambda scores: _silent(scores) and _heard(scores) and _exchange(scores, turned=False),
        ),
    ],
)


def _black_box(method: int, seed: int) -> Score:
    scalars, vectors = randn(11, seed=seed), randn(11, 4, seed=seed + 1)

    def score(q: Tensor, k: Tensor, r: int) -> float:
        scalar, vector = scalars[abs(r) if method == 1 else r], vectors[r]  # negative rows count from the end
        if method <= 2:
            return float(q @ k * scalar) / 2
        return float((q * k * vector).sum() if method == 3 else q @ k + q @ vector + k @ vector) / 2

    return score


def _which(score: Score) -> int:
    q, k = randn(4, seed=1), randn(4, seed=2)
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
