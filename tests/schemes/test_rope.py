"""Identities, precision, memory of angles, and refusals of the rotary embedding."""

import math
from copy import deepcopy

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from loops import assert_refused
from posenc_lib.attention import attend, scores
from posenc_lib.schemes import rope
from posenc_lib.schemes.rope import (
    RescaledFrequencies,
    Rotary,
    inverse_frequencies,
    layout_permutation,
    rotate,
    rotation_matrix,
)
from posenc_lib.schemes.sinusoidal import encode, frequencies, shift_matrix

LAYOUTS = ("interleaved", "half")
each_layout = pytest.mark.parametrize("layout", LAYOUTS)
layouts = st.sampled_from(LAYOUTS)
dims = st.integers(1, 32).map(lambda half: 2 * half)
bases = st.sampled_from([2.0, 100.0, 10_000.0, 500_000.0])
places = st.lists(st.integers(-2000, 2000), min_size=1, max_size=8).map(torch.tensor)
fractions = st.floats(-50, 50)


def close(left, right, atol=1e-12):
    torch.testing.assert_close(left, right, rtol=0, atol=atol)


def random(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype)


def by_hand(x, positions, inv_freq, layout):
    """The rotation of every pair, one number at a time."""
    rows = []
    d = 2 * len(inv_freq)
    for row, m in zip(x.tolist(), positions.tolist(), strict=True):
        rotated = [0.0] * d
        for t, theta in enumerate(inv_freq.tolist()):
            first, second = (2 * t, 2 * t + 1) if layout == "interleaved" else (t, t + d // 2)
            c, s = math.cos(m * theta), math.sin(m * theta)
            rotated[first] = row[first] * c - row[second] * s
            rotated[second] = row[first] * s + row[second] * c
        rows.append(rotated)
    return torch.tensor(rows, dtype=torch.float64)


@given(places, dims, bases, layouts)
def test_rotate_by_the_formula(positions, d, base, layout):
    f = torch.tensor([base ** (-2 * t / d) for t in range(d // 2)], dtype=torch.float64)
    close(inverse_frequencies(d, base), f, 1e-15)
    x = random(len(positions), d)
    close(rotate(x, positions, f, layout), by_hand(x, positions, f, layout))


@given(fractions, fractions, dims, bases)
def test_rotations_form_a_group(m, n, d, base):
    f = inverse_frequencies(d, base)
    R = {a: rotation_matrix(a, f) for a in (m, n, m + n, m - n)}
    identity = torch.eye(d, dtype=torch.float64)
    close(R[m] @ R[m].T, identity, 1e-14)
    close(R[m] @ R[n], R[m + n])
    close(R[m] @ R[n].T, R[m - n])
    assert torch.equal(rotation_matrix(0, f), identity)


@given(places, dims)
def test_matrix_and_rotate_agree(positions, d):
    f, x = inverse_frequencies(d), random(len(positions), d)
    rows = [rotation_matrix(m, f) @ row for m, row in zip(positions.tolist(), x, strict=True)]
    close(rotate(x, positions, f), torch.stack(rows), 1e-13)


@given(st.floats(-20, 20), dims)
def test_matrix_is_the_exponential_of_its_generator(m, d):
    f = inverse_frequencies(d)
    quarter_turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    generator = torch.block_diag(*(theta * quarter_turn for theta in f))
    close(torch.matrix_exp(m * generator), rotation_matrix(m, f), 1e-9)  # torch's series stops at about 1e-10


@given(places, dims, bases)
def test_layouts_differ_by_a_permutation_exactly(positions, d, base):
    f, x, order = inverse_frequencies(d, base), random(2, len(positions), d), layout_permutation(d)
    interleaved, half = rotate(x, positions, f), rotate(x[..., order], positions, f, "half")
    close(interleaved[..., order], half, 2e-15)  # the two multiply in another order
    close(half[..., order.argsort()], interleaved, 2e-15)


@pytest.mark.parametrize("d, expected", [(2, [0, 1]), (4, [0, 2, 1, 3]), (8, [0, 2, 4, 6, 1, 3, 5, 7])])
def test_layout_permutation(d, expected):
    assert layout_permutation(d).tolist() == expected


@given(places, dims, layouts)
def test_norms_are_kept(positions, d, layout):
    x = random(3, len(positions), d)
    close(rotate(x, positions, inverse_frequencies(d), layout).norm(dim=-1), x.norm(dim=-1), 1e-13)


@pytest.mark.parametrize(
    "shift, near", [(1_000, 1e-11), (1_000_000, 1e-8), (-77, 1e-11)]
)  # near: the angle times 2^-53
@each_layout
def test_scores_depend_on_the_distance_only(layout, shift, near):
    scheme, q, k = Rotary(16, layout=layout), random(2, 3, 5, 16), random(2, 3, 7, 16)
    i, j = torch.tensor([6, 2, 40, 0, 3]), torch.tensor([9, 0, 1, 2, 31, 5, 6])
    close(scores(q, k, scheme, i + shift, j + shift), scores(q, k, scheme, i, j), near)


@each_layout
def test_scores_of_equal_vectors_are_toeplitz_and_mixed_layouts_are_not(layout):
    f, p = inverse_frequencies(128), torch.arange(40)
    q, k = random(1, 128).expand(40, 128), random(1, 128).expand(40, 128)

    def spread(s):
        return max((s.diagonal(r).max() - s.diagonal(r).min()).item() for r in range(-39, 40))

    other = LAYOUTS[1 - LAYOUTS.index(layout)]
    assert spread(rotate(q, p, f, layout) @ rotate(k, p, f, layout).T) < 1e-12
    assert spread(rotate(q, p, f, layout) @ rotate(k, p, f, other).T) > 5


def test_sinusoidal_encoding_is_the_orbit_of_one_vector():
    p, start = torch.arange(-9, 10), encode(torch.tensor([0]), 16)
    swapped = rotate(start.unflatten(-1, (-1, 2)).flip(-1).flatten(-2).expand(19, 16), p, inverse_frequencies(16))
    close(swapped.unflatten(-1, (-1, 2)).flip(-1).flatten(-2), encode(p, 16), 1e-14)
    close(shift_matrix(3, 16), rotation_matrix(-3, inverse_frequencies(16)), 0)
    assert torch.equal(inverse_frequencies(16, 7.0), frequencies(16, 7.0))


def test_values_are_not_rotated():
    q, k, v = random(1, 2, 6, 8), random(1, 2, 6, 8), random(1, 2, 6, 8)
    weights = scores(q, k, Rotary(8)).softmax(-1)
    close(attend(q, k, v, Rotary(8)), weights @ v, 1e-14)


def test_pinned_bound_of_the_paper():
    """Mean over t of |sum of the first t phases|, Su et al. 2021, section 3.4.3, at d = 128."""
    phases = torch.polar(torch.ones(251, 64).double(), torch.arange(251)[:, None] * inverse_frequencies(128))
    bound = phases.cumsum(-1).abs().mean(-1)
    expected = {0: 32.5, 1: 31.5, 10: 18.0, 50: 12.6, 100: 10.2, 250: 6.5}
    assert {r: round(bound[r].item(), 1) for r in expected} == expected
    assert (bound.diff() > 0).sum() == 113


def test_equal_vectors_decay_with_distance_and_independent_ones_are_zero_on_average():
    f, p = inverse_frequencies(64), torch.arange(200)
    q, k = random(2000, 1, 64), random(2000, 1, 64)

    def mean_score(a, b):
        return (rotate(a, torch.tensor([0]), f) @ rotate(b.expand(-1, 200, 64), p, f).mT).mean(0)[0] / 64

    noise = 5 / math.sqrt(64 * 2000)  # five standard errors
    assert mean_score(q, k).abs().max() < noise
    same = mean_score(q, q)
    assert same[0] > 0.95
    assert same[100:].max() < 0.6


@pytest.mark.parametrize("dtype, near", [(torch.float64, 1e-9), (torch.float32, 1e-6)], ids=str)
@pytest.mark.parametrize("position", [1_000_000, -1_000_000, 16_777_217])
@each_layout
def test_angles_are_right_far_out(layout, position, dtype, near, device):
    d = 32
    with mpmath.workdps(50):
        angles = [position * mpmath.mpf(10_000) ** (-mpmath.mpf(2 * t) / d) for t in range(d // 2)]
        c, s = ([float(f(a)) for a in angles] for f in (mpmath.cos, mpmath.sin))
    ones = torch.zeros(1, d)
    ones[:, layout_permutation(d)[: d // 2] if layout == "interleaved" else slice(d // 2)] = 1
    row = torch.tensor([c + s], dtype=torch.float64)
    if layout == "interleaved":
        row = row[:, layout_permutation(d).argsort()]
    f = inverse_frequencies(d)
    y = rotate(ones.to(device, dtype), torch.tensor([position]), f, layout)
    assert (y.dtype, y.device.type) == (dtype, device.type)
    close(y.double().cpu(), row, near * max(1, abs(position) / 1e6) if dtype == torch.float64 else near)


@pytest.mark.parametrize("dtype, near", [(torch.float32, 1e-6), (torch.bfloat16, 8e-3), (torch.float16, 1e-3)], ids=str)
@each_layout
def test_lower_precision_keeps_its_dtype_and_exact_angles(layout, dtype, near, device):
    x, p, f = random(2, 5, 8).to(dtype), torch.tensor([0, 257, 4097, 100_001, -3]), inverse_frequencies(8)
    y = rotate(x.to(device), p, f, layout)
    assert (y.dtype, y.device.type) == (dtype, device.type)
    exact = torch.stack([by_hand(rows, p, f, layout) for rows in x.double()])
    torch.testing.assert_close(y.double().cpu(), exact, rtol=near, atol=near)


@each_layout
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32], ids=str)
def test_any_integers_in_any_order_are_positions(layout, dtype):
    x, f = random(2, 3, 4, 8), inverse_frequencies(8)
    p = torch.tensor([3, 100, 0, 3])
    y = rotate(x, p.to(dtype), f, layout)
    assert torch.equal(y, rotate(x, p, f, layout))
    for index, m in enumerate(p.tolist()):
        assert torch.equal(y[:, :, index], rotate(x[:, :, [index]], torch.tensor([m]), f, layout)[:, :, 0])


@each_layout
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_memory_layout_does_not_matter_and_the_input_stays(layout, dtype):
    base, p, f = random(2, 6, 3, 16).to(dtype), torch.arange(6), inverse_frequencies(8)
    for x in (
        base.transpose(1, 2)[..., :8],
        base.transpose(1, 2)[..., ::2],
        base[:1, :, :1, 1:9].mT.mT.expand(2, 6, 6, 8),
    ):
        original = x.clone()
        y = rotate(x, p, f, layout)
        assert torch.equal(y, rotate(x.contiguous(), p, f, layout))
        assert torch.equal(x, original)
        assert y.data_ptr() != x.data_ptr()


@each_layout
@pytest.mark.parametrize("shape", [(1, 2, 0, 8), (0, 2, 3, 8), (0, 8)], ids=str)
def test_nothing_to_rotate(layout, shape):
    assert rotate(torch.zeros(shape), torch.arange(shape[-2]), inverse_frequencies(8), layout).shape == shape


@each_layout
def test_gradients(layout):
    p, f = torch.tensor([5, -2, 70]), inverse_frequencies(6)
    x = random(2, 3, 6).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: rotate(x, p, f, layout), x)
    assert torch.autograd.gradcheck(lambda f: rotate(x, p, f, layout), f.clone().requires_grad_())
    for dtype in (torch.float32, torch.bfloat16):
        y = x.detach().to(dtype).requires_grad_()
        rotate(y, p, f, layout).sum().backward()
        back = rotate(torch.ones(2, 3, 6, dtype=torch.float64), -p, f, layout)
        torch.testing.assert_close(y.grad.double(), back, rtol=0, atol=1e-2)


@each_layout
def test_training_after_inference_at_the_same_positions(layout):
    x, p, f = random(2, 7, 8), torch.tensor([901, 17, 5, 2, 3, 88, 4]), inverse_frequencies(8, 321.0)
    rope._remembered_turns.cache_clear()
    with torch.inference_mode():
        first = rotate(x, p, f, layout)
    assert rope._remembered_turns.cache_info().currsize == 1
    x.requires_grad_()
    second = rotate(x, p, f, layout)
    assert rope._remembered_turns.cache_info().hits == 1
    assert torch.equal(first, second)
    second.sum().backward()
    close(x.grad, rotate(torch.ones_like(x), -p, f, layout), 1e-14)


def test_memory_of_angles_confuses_nothing():
    """Calls that differ in one respect only, repeated in another order, in a memory that others have used."""
    p, f = torch.tensor([3, 1, 2]), inverse_frequencies(8)
    calls = [
        (p, f, torch.float64, "interleaved"),
        (p + 1, f, torch.float64, "interleaved"),
        (p.flip(0), f, torch.float64, "interleaved"),
        (p, inverse_frequencies(8, 500.0), torch.float64, "interleaved"),
        (p, f, torch.float32, "interleaved"),
        (p, f, torch.bfloat16, "interleaved"),
        (p, f, torch.float64, "half"),
        (p, f, torch.float32, "half"),
        (p, inverse_frequencies(8, 500.0), torch.float64, "half"),
        (p.int(), f.float(), torch.float64, "half"),
    ]
    x = random(3, 8)

    def answer(positions, inv_freq, dtype, layout):
        y = rotate(x.to(dtype), positions, inv_freq, layout)
        assert y.dtype == dtype
        return y

    for order in (calls, calls[::-1], calls + calls):
        for call in order:
            remembered = answer(*call)
            rope._remembered_turns.cache_clear()
            assert torch.equal(remembered, answer(*call))
            for other in order[:3]:
                answer(*other)
    expected = [by_hand(x, positions, inv_freq.double(), layout) for positions, inv_freq, _, layout in calls]
    for call, exact in zip(calls, expected, strict=True):
        torch.testing.assert_close(
            answer(*call).double(), exact, rtol=0, atol=0.05 if call[2] == torch.bfloat16 else 1e-5
        )


def test_memory_is_not_fooled_by_positions_changed_in_place():
    x, p, f = random(3, 8), torch.tensor([3, 1, 2]), inverse_frequencies(8)
    rotate(x, p, f)
    p += 40
    close(rotate(x, p, f), by_hand(x, p, f, "interleaved"), 1e-13)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_frequencies_survive_a_cast_of_the_model(dtype):
    model = nn.Sequential(nn.Linear(8, 8), Rotary(8)).to(dtype)
    scheme = model[1]
    assert model[0].weight.dtype == dtype
    assert scheme.inv_freq.dtype == torch.float64
    assert torch.equal(scheme.inv_freq, inverse_frequencies(8))
    x, p = random(1, 1, 2, 8).to(dtype), torch.tensor([4097, 100_001])
    y = scheme.transform(x, p)
    assert y.dtype == dtype
    torch.testing.assert_close(
        y[0, 0].double(), by_hand(x[0, 0].double(), p, scheme.inv_freq, "interleaved"), rtol=1e-2, atol=1e-2
    )


def test_scheme_moves_copies_and_saves_nothing(device):
    scheme = deepcopy(Rotary(8)).to(device)
    assert scheme.inv_freq.device.type == device.type
    assert scheme.state_dict() == {}
    assert list(scheme.parameters()) == []
    assert repr(scheme) == "Rotary(8, base=10000, layout='interleaved', rotary_fraction=1)"


@each_layout
@pytest.mark.parametrize("fraction, rotated", [(0.25, 4), (0.5, 8), (0.75, 12), (1.0, 16), (1, 16)])
def test_partial_rotary_rotates_the_first_components(layout, fraction, rotated):
    scheme, x, p = Rotary(16, layout=layout, rotary_fraction=fraction), random(1, 2, 3, 16), torch.tensor([7, 1, 400])
    y = scheme.transform(x, p)
    assert torch.equal(y[..., rotated:], x[..., rotated:])
    f = inverse_frequencies(rotated)
    for head in range(2):
        close(y[0, head, :, :rotated], by_hand(x[0, head, :, :rotated], p, f, layout), 1e-13)


def test_scheme_passes_base_and_layout_on():
    x, p = random(1, 1, 3, 8), torch.tensor([7, 1, 400])
    y = Rotary(8, 500.0, "half").transform(x, p)
    close(y[0, 0], by_hand(x[0, 0], p, inverse_frequencies(8, 500.0), "half"), 1e-13)


@each_layout
@pytest.mark.parametrize("fraction", [1.0, 0.5])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_rescaled_frequencies_and_factor(layout, fraction, dtype):
    """The factor is for what is rotated; without one, and with its own frequencies, nothing changes in any bit."""
    rotated = int(16 * fraction)
    x, p = random(1, 2, 3, 16).to(dtype), torch.tensor([7, 1, 400])
    plain = Rotary(16, layout=layout, rotary_fraction=fraction).transform(x, p)
    same = RescaledFrequencies(inverse_frequencies(rotated))
    assert torch.equal(Rotary(16, layout=layout, rotary_fraction=fraction, rescaled=same).transform(x, p), plain)
    assert torch.equal(plain[..., :rotated], rotate(x[..., :rotated], p, inverse_frequencies(rotated), layout))

    f = torch.rand(rotated // 2, dtype=torch.float64)
    scheme = Rotary(16, layout=layout, rotary_fraction=fraction, rescaled=RescaledFrequencies(f, 1.25)).to(dtype)
    y, near = scheme.transform(x, p), {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 2e-2}[dtype]
    assert y.dtype == dtype
    assert torch.equal(y[..., rotated:], x[..., rotated:])
    for head in range(2):
        expected = 1.25 * by_hand(x[0, head, :, :rotated].double(), p, f, layout)
        torch.testing.assert_close(y[0, head, :, :rotated].double(), expected, rtol=near, atol=near)


@each_layout
def test_scores_get_the_square_of_the_factor(layout):
    q, k, f = random(1, 2, 3, 8), random(1, 2, 5, 8), inverse_frequencies(8) / 3
    plain = scores(q, k, Rotary(8, layout=layout, rescaled=RescaledFrequencies(f)))
    close(scores(q, k, Rotary(8, layout=layout, rescaled=RescaledFrequencies(f, 1.5))), 2.25 * plain, 1e-14)


def test_gradients_through_rescaled_frequencies():
    scheme, x = Rotary(8, rotary_fraction=0.5, rescaled=RescaledFrequencies(random(2), 1.5)), random(1, 2, 3, 8)
    assert torch.autograd.gradcheck(lambda x: scheme.transform(x, torch.tensor([5, -2, 70])), x.requires_grad_())


def test_rescaled_scheme_moves_copies_and_saves_nothing(device):
    f = inverse_frequencies(8) / 3
    scheme = deepcopy(Rotary(8, rescaled=RescaledFrequencies(f, 1.25))).to(device, torch.bfloat16)
    assert scheme.inv_freq.device.type == device.type
    assert torch.equal(scheme.inv_freq.cpu(), f)
    assert scheme.state_dict() == {}
    assert repr(scheme) == "Rotary(8, attention_factor=1.25, layout='interleaved', rotary_fraction=1)"


X, P3, F4 = torch.zeros(1, 1, 3, 8), torch.arange(3), inverse_frequencies(8)
REFUSED = [
    (lambda: inverse_frequencies(7), ValueError, ("head_dim", "7", "even")),
    (lambda: inverse_frequencies(0), ValueError, ("head_dim", "0")),
    (lambda: inverse_frequencies(8, -1), ValueError, ("base", "-1")),
    (lambda: rotate(X, P3, F4, "split"), ValueError, ("layout", "'split'", "'interleaved', 'half'")),
    (lambda: rotate(X.tolist(), P3, F4), TypeError, ("x must", "list")),
    (lambda: rotate(X.long(), P3, F4), TypeError, ("x must", "int64")),
    (lambda: rotate(X.cfloat(), P3, F4), TypeError, ("x must", "complex64")),
    (lambda: rotate(X[0, 0, 0], P3, F4), ValueError, ("x must", "(8,)")),
    (lambda: rotate(X[..., :6], P3, F4), ValueError, ("x must", "8", "got 6")),
    (lambda: rotate(X, torch.arange(4), F4), ValueError, ("positions", "3", "got 4")),
    (lambda: rotate(X, torch.arange(1), F4), ValueError, ("positions", "3", "got 1")),
    (lambda: rotate(X, P3.float(), F4), TypeError, ("positions", "float32")),
    (lambda: rotate(X, [0, 1, 2], F4), TypeError, ("positions", "list")),
    (lambda: rotate(X, P3[None], F4), ValueError, ("positions", "(1, 3)")),
    (lambda: rotate(X, P3, F4[None]), ValueError, ("inv_freq", "(1, 4)")),
    (lambda: rotate(X, P3, F4.long()), TypeError, ("inv_freq", "int64")),
    (lambda: rotate(X, P3, 1e-4), TypeError, ("inv_freq", "float")),
    (lambda: rotation_matrix(math.nan, F4), ValueError, ("position", "nan")),
    (lambda: rotation_matrix(P3, F4), TypeError, ("position", "Tensor")),
    (lambda: rotation_matrix(1, X), ValueError, ("inv_freq", "(1, 1, 3, 8)")),
    (lambda: layout_permutation(5), ValueError, ("head_dim", "5")),
    (lambda: Rotary(9), ValueError, ("head_dim", "9")),
    (lambda: Rotary(8, 0), ValueError, ("base", "got 0")),
    (lambda: Rotary(8, "10000"), TypeError, ("base", "'10000'")),
    (lambda: Rotary(8, layout="neox"), ValueError, ("layout", "'neox'")),
    (lambda: Rotary(8, rotary_fraction=0), ValueError, ("rotary_fraction", "got 0")),
    (lambda: Rotary(8, rotary_fraction=1.25), ValueError, ("rotary_fraction", "at most 1", "1.25")),
    (lambda: Rotary(8, rotary_fraction=0.4), ValueError, ("rotary_fraction", "0.4", "leaves 3")),
    (lambda: Rotary(8, rotary_fraction=0.01), ValueError, ("rotary_fraction", "0.01", "leaves 0")),
    (lambda: Rotary(8, rescaled=(F4, 1.0)), TypeError, ("rescaled", "RescaledFrequencies", "tuple")),
    (lambda: Rotary(8, 500.0, rescaled=RescaledFrequencies(F4)), ValueError, ("base", "rescaled", "500.0")),
    (lambda: Rotary(8, rescaled=RescaledFrequencies(F4[:3])), ValueError, ("rescaled.inv_freq", "8", "got 3")),
    (
        lambda: Rotary(8, rotary_fraction=0.5, rescaled=RescaledFrequencies(F4)),
        ValueError,
        ("rescaled.inv_freq", "4 rotated", "got 4"),
    ),
    (lambda: Rotary(8, rescaled=RescaledFrequencies(F4[None])), ValueError, ("rescaled.inv_freq", "(1, 4)")),
    (lambda: Rotary(8, rescaled=RescaledFrequencies(P3)), TypeError, ("rescaled.inv_freq", "int64")),
    (lambda: Rotary(8, rescaled=RescaledFrequencies([1.0])), TypeError, ("rescaled.inv_freq", "list")),
    (lambda: Rotary(8, rescaled=RescaledFrequencies(F4, 0.0)), ValueError, ("attention_factor", "0.0")),
    (lambda: Rotary(8, rescaled=RescaledFrequencies(F4, None)), TypeError, ("attention_factor", "None")),
    (lambda: Rotary(8).transform(X[0], P3), ValueError, ("x must", "(1, 3, 8)")),
    (lambda: Rotary(16, rotary_fraction=0.5).transform(X, P3), ValueError, ("x must", "16", "got 8")),
]


@pytest.mark.parametrize("call, error, words", REFUSED)
def test_refusals_name_argument_and_value(call, error, words):
    assert_refused(call, error, words)
