"""KERPLE: loops over the formula, ALiBi as a special case, what makes a kernel valid, what is learned, refusals."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from x_transformers.x_transformers import AlibiPositionalBias

from loops import POSITIONS, assert_formula, assert_formula_under_a_causal_mask, assert_refused, draw
from posenc_lib.attention import attend, scores
from posenc_lib.schemes.kerple import Kerple, log_bias, power_bias

each_kernel = pytest.mark.parametrize("kernel", ["log", "power"])


def doubles(values):
    return torch.tensor(values, dtype=torch.float64)


def make(heads=2, kernel="log", r1=None, r2=None):
    """A scheme with the given numbers, or those it draws."""
    scheme = Kerple(heads, kernel).double()
    with torch.no_grad():
        if r1 is not None:
            scheme.log_r1.copy_(torch.as_tensor(r1, dtype=torch.float64).log())
        if r2 is not None:
            r2 = torch.as_tensor(r2, dtype=torch.float64)
            scheme.raw_r2.copy_(r2.log() if kernel == "log" else (r2 / 2).logit())
    return scheme


def number(kernel, r1, r2, distance):
    """The formula for one pair of tokens."""
    return -r1 * math.log(1 + r2 * distance) if kernel == "log" else -r1 * float(distance) ** r2


def loop_scores(q, k, query_positions, key_positions, kernel, r1, r2):
    """s_ij = q_i.k_j / sqrt(d) minus the penalty, one number at a time, in float64."""
    (batch, heads, n_q, d), n_k = q.shape, k.shape[2]
    s = torch.empty(batch, heads, n_q, n_k, dtype=torch.float64)
    for b, h, i, j in torch.cartesian_prod(*(torch.arange(n) for n in s.shape)).tolist():
        dot = sum(float(q[b, h, i, c]) * float(k[b, h, j, c]) for c in range(d))
        distance = abs(int(query_positions[i]) - int(key_positions[j]))
        s[b, h, i, j] = dot / math.sqrt(d) + number(kernel, r1[h], r2[h], distance)
    return s


R1, R2 = [0.7, 0.02, 1.9], [0.3, 1.0, 1.8]


@each_kernel
@pytest.mark.parametrize("name", POSITIONS)
def test_scores_and_outputs_are_those_of_the_formula(name, kernel):
    scheme, loop = make(3, kernel, R1, R2), partial(loop_scores, kernel=kernel, r1=R1, r2=R2)
    assert_formula(scheme, loop, 3, 5, POSITIONS[name], relative=0.1)


@each_kernel
@pytest.mark.parametrize("padded", [False, True])
def test_outputs_under_a_causal_mask(padded, kernel):
    scheme, loop = make(3, kernel, R1, R2), partial(loop_scores, kernel=kernel, r1=R1, r2=R2)
    assert_formula_under_a_causal_mask(scheme, loop, 3, 6, padded)


@given(st.lists(st.integers(-5000, 5000), min_size=1, max_size=20), st.floats(0.01, 5), st.floats(0.01, 2))
def test_biases_are_those_of_the_formula(r, r1, r2):
    for kernel, bias in (("log", log_bias), ("power", power_bias)):
        ours = bias(torch.tensor(r), doubles([r1, 1.0]), doubles([r2, 1.0]))
        expected = [[number(kernel, *pair, abs(x)) for x in r] for pair in ((r1, r2), (1.0, 1.0))]
        torch.testing.assert_close(ours, doubles(expected), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("heads", [3, 8])
def test_power_1_is_alibi(heads):
    theirs = AlibiPositionalBias(heads)
    scheme = make(heads, "power", theirs.slopes.flatten(), torch.ones(heads))
    q, k = torch.zeros(1, heads, 5, 4).double(), torch.zeros(1, heads, 40, 4).double()
    torch.testing.assert_close(scores(q, k, scheme)[0], theirs(5, 40).double(), rtol=1e-6, atol=0)


def constrained_eigenvalues(K):
    """Of c^T K c over the c that add up to 0, in units of the largest."""
    n = len(K)
    P = torch.eye(n, dtype=torch.float64) - 1 / n
    values = torch.linalg.eigvalsh(P @ K @ P)
    return values / values.abs().max()


@given(st.floats(0.05, 5), st.floats(0.02, 3), st.lists(st.integers(-500, 500), min_size=2, max_size=30, unique=True))
def test_kernels_are_conditionally_positive_definite(r1, r2, positions):
    p = torch.tensor(positions)
    r = (p - p[:, None]).flatten()
    for bias, exponent in ((log_bias, r2), (power_bias, min(r2, 2.0))):
        K = bias(r, doubles([r1]), doubles([exponent])).view(len(p), len(p))
        assert constrained_eigenvalues(K).min() > -1e-11


def test_beyond_2_the_power_is_not():
    r = (torch.arange(12) - torch.arange(12)[:, None]).flatten()
    one = torch.ones(1, dtype=torch.float64)
    for r2, low in ((1.99, -1e-11), (2.0, -1e-11)):
        assert constrained_eigenvalues(power_bias(r, one, r2 * one).view(12, 12)).min() > low
    assert constrained_eigenvalues(power_bias(r, one, 2.1 * one).view(12, 12)).min() < -1e-3


@each_kernel
def test_a_constant_makes_an_inner_product_and_changes_no_output(kernel):
    bias = log_bias if kernel == "log" else power_bias
    p = torch.arange(15)
    K = bias((p - p[:, None]).flatten(), doubles([0.7]), doubles([0.9])).view(15, 15)
    assert torch.linalg.eigvalsh(K).min() < -0.1
    assert torch.linalg.eigvalsh(K + 1000).min() > 0
    torch.testing.assert_close((K + 1000).softmax(-1), K.softmax(-1))


@each_kernel
def test_numbers_start_as_in_the_authors_code_and_stay_in_bounds(kernel):
    scheme = Kerple(4000, kernel)
    upto_2, upto_1 = (scheme.r1, scheme.r2) if kernel == "log" else (scheme.r2, scheme.r1)
    for values, high in ((upto_2, 2.0), (upto_1, 1.0)):
        assert values.min() >= 0.0099
        assert values.max() <= high
        assert abs(values.mean() - high / 2) < 0.05 * high
        assert abs(values.std() - high / 12**0.5) < 0.05 * high
    with torch.no_grad():
        for step in (-50.0, 100.0):
            for weight in scheme.parameters():
                weight += step
            assert (scheme.r1 > 0).all()
            assert (scheme.r2 > 0).all()
            assert kernel == "log" or (scheme.r2 <= 2).all()


@each_kernel
def test_two_numbers_per_head_are_learned(kernel):
    scheme = Kerple(12, kernel)
    assert sum(w.numel() for w in scheme.parameters()) == 2 * 12
    q, k, v = draw(3, 1, 12, 9, 4, dtype=torch.float32)
    attend(q, k, v, scheme, causal=True).square().sum().backward()
    assert all((w.grad != 0).all() for w in scheme.parameters())


@each_kernel
def test_distance_0_teaches_nothing(kernel):
    scheme = make(2, kernel)
    scheme.distance_bias(torch.tensor([0])).sum().backward()
    assert all((w.grad == 0).all() for w in scheme.parameters())


@each_kernel
def test_reading_backwards_changes_nothing(kernel):
    scheme, q, k, i, j = make(2, kernel), draw(1, 2, 5, 4), draw(1, 2, 7, 4), torch.arange(5), torch.arange(7)
    torch.testing.assert_close(scores(q, k, scheme, -i, -j), scores(q, k, scheme, i, j), rtol=0, atol=1e-12)


@each_kernel
def test_attention_reads_one_number_per_distance(kernel):
    scheme, seen = make(2, kernel), []
    original = scheme.distance_bias

    def spy(relative_position):
        seen.append(len(relative_position))
        return original(relative_position)

    scheme.distance_bias = spy
    q, k, v = draw(1, 2, 30, 4), draw(1, 2, 50, 4), draw(1, 2, 50, 4)
    attend(q, k, v, scheme, causal=True)
    assert seen == [30 + 50 - 1]


@each_kernel
def test_distances_stay_exact_in_a_bfloat16_model(kernel):
    scheme = Kerple(2, kernel).bfloat16()
    r1, r2 = scheme.r1.tolist(), scheme.r2.tolist()
    bias = scheme.distance_bias(torch.tensor([0, -257, 258, 100_001]))
    expected = [[number(kernel, *pair, x) for x in (0, 257, 258, 100_001)] for pair in zip(r1, r2, strict=True)]
    torch.testing.assert_close(bias, doubles(expected), rtol=1e-12, atol=0)


R, ONE = torch.arange(3), torch.ones(2)
REFUSED = [
    (lambda: Kerple(0), ValueError, ("num_heads", "at least 1", "0")),
    (lambda: Kerple(1.5), ValueError, ("num_heads", "1.5")),
    (lambda: Kerple("2"), TypeError, ("num_heads", "'2'")),
    (lambda: Kerple(2, "gauss"), ValueError, ("kernel", "'log', 'power'", "'gauss'")),
    (lambda: scores(draw(1, 2, 3, 4), draw(1, 2, 3, 4), make(3)), ValueError, ("score_bias", "heads", "(3, 3, 3)")),
    *(
        refusal
        for bias in (log_bias, power_bias)
        for refusal in (
            (lambda bias=bias: bias(R.float(), ONE, ONE), TypeError, ("relative_position", "float32")),
            (lambda bias=bias: bias([1], ONE, ONE), TypeError, ("relative_position", "list")),
            (lambda bias=bias: bias(R[None], ONE, ONE), ValueError, ("relative_position", "(1, 3)")),
            (lambda bias=bias: bias(R, 1.0, ONE), TypeError, ("r1", "(H,)", "float")),
            (lambda bias=bias: bias(R, ONE, R[:2]), TypeError, ("r2", "int64")),
            (lambda bias=bias: bias(R, ONE[None], ONE), ValueError, ("r1", "(1, 2)")),
            (lambda bias=bias: bias(R, ONE, ONE[:1]), ValueError, ("r1 and r2", "2 and 1")),
        )
    ),
]


@pytest.mark.parametrize(("call", "error", "words"), REFUSED)
def test_refusals_name_argument_and_value(call, error, words):
    assert_refused(call, error, words)
