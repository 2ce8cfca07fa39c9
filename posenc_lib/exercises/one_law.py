"""Checks of the exercises in notebook 19."""

import torch
from torch import Tensor

from posenc_lib.exercises.check import Check
from posenc_lib.lab.measure import randn

EXP = torch.linalg.matrix_exp


check_law_query = Check(
    "law_query",
    lambda q, i, A: EXP(-i * A).T @ q,
    cases=[(randn(d, seed=d), i, randn(d, d, seed=d + 1) / 4) for d, i in ((2, 1), (4, 3), (6, -2), (3, 0))],
    mistakes=[
        (
            "that is the transform of the key; with it the score is relative for skew-symmetric A only",
            lambda q, i, A: EXP(i * A) @ q,
        ),
        (
            "that is the inverse without the transpose; it is right for symmetric A only",
            lambda q, i, A: EXP(-i * A) @ q,
        ),
        (
            "that is the transpose without the inverse: the score then depends on the sum of the positions",
            lambda q, i, A: EXP(i * A).T @ q,
        ),
        ("you returned the query as it came", lambda q, i, A: q),
    ],
)


def _query(second: float, first: float, zeroth: float) -> Tensor:
    return torch.tensor([second, first, zeroth], dtype=torch.float64)


check_parabola_query = Check(
    "parabola_query",
    lambda center, slope: _query(-2 * slope, 2 * slope * center, -slope * center**2),
    cases=[(-5.0, 1.0), (-2.0, 0.5), (3.0, 2.0), (0.0, 0.25)],
    mistakes=[
        (
            "exp(rN) holds r^2/2, not r^2: the first component must be twice the coefficient of r^2",
            lambda center, slope: _query(-slope, 2 * slope * center, -slope * center**2),
        ),
        (
            "right up to the sign of the center: your parabola has its top at r = -center",
            lambda center, slope: _query(-2 * slope, -2 * slope * center, -slope * center**2),
        ),
        (
            "the components are in reverse order: the last column of exp(rN) begins with r^2/2",
            lambda center, slope: _query(-slope * center**2, 2 * slope * center, -2 * slope),
        ),
        (
            "your parabola opens upwards: the score must be largest at the center",
            lambda center, slope: _query(2 * slope, -2 * slope * center, slope * center**2),
        ),
        (
            "the constant is missing: your score at the center is not 0",
            lambda center, slope: _query(-2 * slope, 2 * slope * center, 0.0),
        ),
    ],
)


def _exp_2x2(A: Tensor, r: float, even: str = "cosh", trace: float = 0.5, divide: bool = True) -> Tensor:
    """exp(rA) in closed form, and its likely mistakes."""
    eye = torch.eye(2, dtype=torch.float64)
    a = A.trace() / 2
    B = A - a * eye
    square = -B.det()
    if even == "cos":
        square = -square.abs()
    elif even == "abs":
        square = square.abs()
    w = torch.sqrt(square.to(torch.complex128))
    odd = torch.tensor(float(r), dtype=torch.complex128)
    if abs(w) > 1e-12:
        odd = torch.sinh(w * r) / (w if divide else w / abs(w))
    return torch.exp(2 * trace * a * r) * (torch.cosh(w * r).real * eye + odd.real * B)


def _matrix(*entries: float) -> Tensor:
    return torch.tensor(entries, dtype=torch.float64).view(2, 2)


check_exp_2x2 = Check(
    "exp_2x2",
    _exp_2x2,
    cases=[
        (_matrix(0, -0.5, 0.5, 0), 3.0),
        (_matrix(0.1, -0.5, 0.7, 0.3), -2.0),
        (_matrix(0, 0.25, 0, 0), 7.0),
        (_matrix(0.2, 0.6, 0.4, -0.3), 2.5),
        (_matrix(-0.1, 0, 0, -0.1), 4.0),
        (randn(2, 2, seed=5) / 2, 1.0),
    ],
    mistakes=[
        ("the factor exp(ar) of the trace is missing", lambda A, r: _exp_2x2(A, r, trace=0.0)),
        ("a is half of the trace, not the trace", lambda A, r: _exp_2x2(A, r, trace=1.0)),
        (
            "you took cosine and sine for all: if -det B is positive, they are cosh and sinh",
            lambda A, r: _exp_2x2(A, r, "cos"),
        ),
        (
            "you took cosh and sinh for all: if det B is positive, they are cosine and sine",
            lambda A, r: _exp_2x2(A, r, "abs"),
        ),
        (
            "sinh(wr) must be divided by w: the series of exp(rB) has B, not B/w",
            lambda A, r: _exp_2x2(A, r, divide=False),
        ),
        (
            "that is the exponential of each entry; the exponential of a matrix is a series of its powers",
            lambda A, r: torch.exp(r * A),
        ),
    ],
)


def _coefficients(b: Tensor, n: int) -> Tensor:
    s = torch.arange(n)
    return torch.linalg.solve(b[s[:, None] + s], b[n:])


def _values(q: list[float], A: Tensor, k: list[float]) -> tuple[Tensor, int]:
    """Scores at the distances 0 .. 2n-1 of a query and a key of width n, and n."""
    left, right = torch.tensor(q, dtype=torch.float64), torch.tensor(k, dtype=torch.float64)
    return torch.stack([left @ EXP(r * A) @ right for r in range(2 * len(q))]), len(q)


_TURN = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
_CHAIN = torch.diag(torch.ones(2, dtype=torch.float64), 1)

check_continue_kernel = Check(
    "continue_kernel",
    lambda b, n: _coefficients(b, n) @ b[n:],
    cases=[
        _values([1.0, 0.3], 0.7 * _TURN - 0.1 * torch.eye(2), [0.5, 1.0]),
        _values([-2.0, 4.0, -2.0], _CHAIN, [0.0, 0.0, 1.0]),
        _values([1.0, 0.2, 0.4, 1.0], torch.block_diag(1.0 * _TURN, 0.4 * _TURN), [0.7, -0.3, 1.0, 0.5]),
        (torch.tensor([1.0, 1.0, 2.0, 3.0], dtype=torch.float64), 2),
    ],
    mistakes=[
        ("that is b(n), which you were given: use the recurrence with s = n", lambda b, n: _coefficients(b, n) @ b[:n]),
        (
            "the coefficients are in reverse order: c_0 belongs to the smallest distance",
            lambda b, n: _coefficients(b, n).flip(0) @ b[n:],
        ),
        ("you drew a straight line through the last two values", lambda b, n: 2 * b[-1] - b[-2]),
        ("you repeated the last value", lambda b, n: b[-1]),
    ],
    tolerance=1e-8,
)
