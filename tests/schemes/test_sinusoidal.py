"""Identities, pinned values and refusals of the sinusoidal encoding."""

import math

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from loops import assert_refused
from posenc_lib.schemes.sinusoidal import Sinusoidal, encode, frequencies, shift_matrix

dims = st.integers(1, 40).map(lambda half: 2 * half)
bases = st.sampled_from([2.0, 100.0, 10_000.0, 500_000.0])
places = st.lists(st.integers(-3000, 3000), min_size=1, max_size=8).map(torch.tensor)
offsets = st.integers(-500, 500)
fractions = st.floats(-50, 50)


def close(left, right, atol=1e-11):  # angles near 3000 carry an error of 5e-13 each
    torch.testing.assert_close(left, right, rtol=0, atol=atol)


@given(dims, bases)
def test_frequencies_by_the_formula(dim, base):
    expected = [math.exp(-2 * t / dim * math.log(base)) for t in range(dim // 2)]
    close(frequencies(dim, base), torch.tensor(expected, dtype=torch.float64), 1e-14)


@given(places, dims, bases)
def test_encode_by_the_formula(positions, dim, base):
    pairs = [(t, f) for t in range(dim // 2) for f in (math.sin, math.cos)]
    rows = [[f(p * base ** (-2 * t / dim)) for t, f in pairs] for p in positions.tolist()]
    close(encode(positions, dim, base), torch.tensor(rows, dtype=torch.float64))


@given(places, offsets, dims, bases)
def test_shifting_is_linear(positions, k, dim, base):
    close(encode(positions, dim, base) @ shift_matrix(k, dim, base).T, encode(positions + k, dim, base))


@given(fractions, fractions, dims, bases)
def test_shifts_form_a_group(a, b, dim, base):
    M = {k: shift_matrix(k, dim, base) for k in (a, b, a + b, -a)}
    identity = torch.eye(dim, dtype=torch.float64)
    close(M[a] @ M[b], M[a + b], 1e-12)
    close(M[a].T, M[-a], 1e-15)
    close(M[a].T @ M[a], identity, 1e-14)
    close(shift_matrix(0, dim, base), identity, 0)


@pytest.mark.parametrize("dim", [2, 64])
def test_two_half_steps_are_one_step(dim):
    half = shift_matrix(0.5, dim)
    close(half @ half, shift_matrix(1, dim), 1e-15)
    p = torch.arange(-5, 6)
    close(encode(p, dim) @ half.T @ half.T, encode(p + 1, dim), 1e-14)


@given(places, offsets, dims, bases)
def test_dot_product_is_a_sum_of_cosines_of_the_distance(positions, k, dim, base):
    here, right, left = (encode(positions + step, dim, base) for step in (0, k, -k))
    cosines = (k * frequencies(dim, base)).cos().sum().expand(len(positions))
    close((here * right).sum(-1), cosines, 1e-10)
    close((here * right).sum(-1), (here * left).sum(-1), 1e-10)


@given(places, dims, bases)
def test_every_row_has_the_same_norm(positions, dim, base):
    norm = torch.full((len(positions),), math.sqrt(dim / 2), dtype=torch.float64)
    close(encode(positions, dim, base).norm(dim=-1), norm)


def test_pinned_values():
    P = encode(torch.arange(2000), 512)
    assert (P[0] @ P[0]).item() == 256
    assert P[0].norm().item() == 16
    assert (P[0] @ P[1]).item() == pytest.approx(249.1, abs=0.05)
    assert (P[0] @ P[10]).item() == pytest.approx(173.8, abs=0.05)
    assert (P[1:, :2] - P[:-1, :2]).norm(dim=-1).max().item() == pytest.approx(0.959, abs=5e-4)
    wavelengths = 2 * math.pi / frequencies(512)
    assert wavelengths[0].item() == 2 * math.pi
    assert wavelengths[-1].item() == pytest.approx(60_611, abs=0.5)
    assert wavelengths[-1].item() == pytest.approx(2 * math.pi * 10_000 ** (510 / 512))


def test_dot_product_does_not_fall_monotonically():
    dots = encode(torch.arange(100), 512) @ encode(torch.tensor([0]), 512)[0]
    assert (dots.diff() > 0).any()


def test_sines_alone_have_no_linear_shift():
    P = encode(torch.arange(200), 128)
    residual = {}
    for name, x in (("sine", P[:, ::2]), ("both", P)):
        M = torch.linalg.lstsq(x[:-3], x[3:], driver="gelsd").solution
        residual[name] = (x[:-3] @ M - x[3:]).abs().max().item()
    assert residual["both"] < 1e-11
    assert residual["sine"] > 1


@pytest.mark.parametrize("k", [-7, -3, 3, 7])
def test_a_shift_between_the_two_sides_moves_the_peak_to_one_side(k):
    P = encode(torch.arange(60), 128)
    i = 30
    assert (P @ P.T)[i].argmax() == i
    assert (P @ shift_matrix(k, 128) @ P.T)[i].argmax() == i - k


@pytest.mark.parametrize("position", [1, -1_000_000, 2**24 + 1])
@pytest.mark.parametrize("dim", [2, 512])
def test_angles_are_right_far_out(position, dim):
    with mpmath.workdps(50):
        exact = [position * mpmath.mpf(10_000) ** (-mpmath.mpf(2 * t) / dim) for t in range(dim // 2)]
        row = [float(f(angle)) for angle in exact for f in (mpmath.sin, mpmath.cos)]
    tolerance = 4 * abs(position) * 2.0**-53 + 1e-15  # the angle in float64 is rounded to that
    close(encode(torch.tensor([position]), dim)[0], torch.tensor(row, dtype=torch.float64), tolerance)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_encode_takes_any_integers_and_answers_in_float64(dtype, device):
    P = encode(torch.tensor([3, 100, 0], dtype=dtype, device=device), 6)
    assert (P.dtype, P.device.type) == (torch.float64, device.type)
    close(P.cpu(), encode(torch.arange(101), 6)[[3, 100, 0]], 1e-14)


def test_encode_of_positions_of_any_shape():
    P = encode(torch.tensor([[3, 1], [100, 0], [-7, 3]]), 6)
    assert P.shape == (3, 2, 6)
    for row, positions in zip(P, ([3, 1], [100, 0], [-7, 3]), strict=True):
        assert torch.equal(row, encode(torch.tensor(positions), 6))
    assert encode(torch.arange(0), 6).shape == (0, 6)


@pytest.mark.parametrize("dtype, near", [(torch.float64, 0), (torch.float32, 1e-6), (torch.bfloat16, 2e-2)], ids=str)
@pytest.mark.parametrize("positions", [[1_000_000, -4, 7], [[1_000_000, -4, 7], [0, 1, 2]]], ids=str)
def test_embed_adds_the_encoding_in_the_dtype_of_x(positions, dtype, near):
    x, p = torch.randn(2, 3, 8).to(dtype), torch.tensor(positions)
    original = x.clone()
    y = Sinusoidal(8, base=100.0).embed(x, p)
    assert y.dtype == x.dtype
    torch.testing.assert_close(y.double(), x.double() + encode(p, 8, 100.0), rtol=near, atol=near)
    assert torch.equal(x, original)


P3, X = torch.arange(3), torch.zeros(1, 3, 8)
REFUSED = [
    (lambda: frequencies(7), ValueError, ("dim", "7", "even")),
    (lambda: frequencies(0), ValueError, ("dim", "0")),
    (lambda: frequencies(-2), ValueError, ("dim", "-2")),
    (lambda: frequencies("8"), TypeError, ("dim", "'8'")),
    (lambda: frequencies(8, 0), ValueError, ("base", "got 0")),
    (lambda: frequencies(8, -1.0), ValueError, ("base", "-1.0")),
    (lambda: frequencies(8, math.nan), ValueError, ("base", "nan")),
    (lambda: frequencies(8, None), TypeError, ("base", "None")),
    (lambda: encode(P3, 5), ValueError, ("dim", "5")),
    (lambda: encode(P3, 8, -2), ValueError, ("base", "-2")),
    (lambda: encode(P3 / 2, 8), TypeError, ("positions", "float32")),
    (lambda: encode(P3[0], 8), ValueError, ("positions", "(..., L)", "single number")),
    (lambda: encode([0, 1], 8), TypeError, ("positions", "list")),
    (lambda: shift_matrix(math.inf, 8), ValueError, ("offset", "inf")),
    (lambda: shift_matrix("1", 8), TypeError, ("offset", "'1'")),
    (lambda: shift_matrix(1, 9), ValueError, ("dim", "9")),
    (lambda: shift_matrix(1, 8, 0), ValueError, ("base", "got 0")),
    (lambda: Sinusoidal(7), ValueError, ("dim", "7")),
    (lambda: Sinusoidal(8, 0), ValueError, ("base", "got 0")),
    (lambda: Sinusoidal(8).embed(X[0], P3), ValueError, ("x must", "(3, 8)")),
    (lambda: Sinusoidal(6).embed(X, P3), ValueError, ("x must", "6", "got 8")),
    (lambda: Sinusoidal(8).embed(X, torch.arange(4)), ValueError, ("positions", "(L,) = (3,)", "(1, 3)", "got (4,)")),
    (lambda: Sinusoidal(8).embed(X, P3.expand(2, 3)), ValueError, ("positions", "(B, L) = (1, 3)", "got (2, 3)")),
    (lambda: Sinusoidal(8).embed(X, P3[:, None]), ValueError, ("positions", "(B, L) = (1, 3)", "got (3, 1)")),
    (lambda: Sinusoidal(8).embed(X, P3.double()), TypeError, ("positions", "float64")),
    (lambda: Sinusoidal(8).embed(X.long(), P3), TypeError, ("x must", "int64")),
]


@pytest.mark.parametrize("call, error, words", REFUSED)
def test_refusals_name_argument_and_value(call, error, words):
    assert_refused(call, error, words)
