"""FIRE: loops over the formula, what its network reads, the schemes it contains, refusals."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from x_transformers.x_transformers import AlibiPositionalBias, RelativePositionBias

from loops import POSITIONS, assert_formula, assert_formula_under_a_causal_mask, assert_refused, draw
from posenc_lib.attention import scores
from posenc_lib.schemes.fire import Fire, relative_progress


def doubles(values):
    return torch.tensor(values, dtype=torch.float64)


def make(heads=2, hidden=5, c=0.3, threshold=6.5):
    scheme = Fire(heads, hidden, c, threshold).double()
    with torch.no_grad():  # again, now that they are more exact than in float32
        scheme.log_c.fill_(math.log(c))
        scheme.log_threshold.fill_(math.log(threshold))
    return scheme


def loop_progress(i, j, c, threshold):
    return math.log(1 + c * abs(i - j)) / math.log(1 + c * max(threshold, i))


def loop_scores(q, k, query_positions, key_positions, scheme):
    """s_ij = q_i.k_j / sqrt(d) + f(progress), one number at a time, in float64."""
    (batch, heads, n_q, d), n_k = q.shape, k.shape[2]
    c, threshold = math.exp(scheme.log_c.item()), math.exp(scheme.log_threshold.item())
    first, last = scheme.f[0], scheme.f[2]
    hidden = list(zip(first.weight[:, 0].tolist(), first.bias.tolist(), strict=True))
    s = torch.empty(batch, heads, n_q, n_k, dtype=torch.float64)
    for b, h, i, j in torch.cartesian_prod(*(torch.arange(n) for n in s.shape)).tolist():
        x = loop_progress(int(query_positions[i]), int(key_positions[j]), c, threshold)
        units = [max(0.0, w * x + shift) for w, shift in hidden]
        f = sum(w * unit for w, unit in zip(last.weight[h].tolist(), units, strict=True)) + last.bias[h].item()
        dot = sum(float(q[b, h, i, e]) * float(k[b, h, j, e]) for e in range(d))
        s[b, h, i, j] = dot / math.sqrt(d) + f
    return s


POSITIONS = POSITIONS | {  # long enough to pass the threshold
    "from 0": (torch.arange(9), torch.arange(9)),
    "cache": (torch.arange(7, 9), torch.arange(9)),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_scores_and_outputs_are_those_of_the_formula(name):
    scheme = make()
    assert_formula(scheme, partial(loop_scores, scheme=scheme), 2, 3, POSITIONS[name])


@pytest.mark.parametrize("padded", [False, True])
def test_outputs_under_a_causal_mask(padded):
    scheme = make()
    assert_formula_under_a_causal_mask(scheme, partial(loop_scores, scheme=scheme), 2, 9, padded)


positions = st.lists(st.integers(-100, 5000), min_size=1, max_size=12)


@given(positions, positions, st.floats(1e-3, 20), st.floats(0.5, 2000))
def test_progress_by_the_formula(i, j, c, threshold):
    ours = relative_progress(torch.tensor(i), torch.tensor(j), doubles(c), doubles(threshold))
    expected = doubles([[loop_progress(a, b, c, threshold) for b in j] for a in i])
    torch.testing.assert_close(ours, expected, rtol=1e-11, atol=0)


@pytest.mark.parametrize("length", [64, 640])
def test_what_f_reads_stays_in_0_1_at_ten_times_the_length(length):
    p, threshold = torch.arange(length), doubles(64.0)
    x = relative_progress(p, p, doubles(0.1), threshold)
    seen = x.tril()
    assert seen.min() == 0
    assert seen.max() <= 1
    assert (x.diagonal() == 0).all()
    assert (x[64:, 0] == 1).all()
    assert (seen[:, :-1].diff(dim=1).tril(-1) <= 0).all()
    penalty = 0.1 * (p[:, None] - p)
    assert penalty.max() > 0.09 * length  # what a linear bias reads grows with the length


def test_keys_far_after_the_query_are_beyond_1():
    x = relative_progress(torch.tensor([0, 100]), torch.arange(400), doubles(0.1), doubles(64.0))
    assert ((x > 1) == (torch.arange(400) - torch.tensor([[0], [100]]) > torch.tensor([[64], [100]]))).all()


def test_moving_a_text_changes_nothing_up_to_the_threshold_and_interpolates_beyond():
    scheme, (q, k) = make(threshold=2000.0), draw(2, 1, 2, 20, 4)
    i = torch.arange(20)
    s = scores(q, k, scheme, i, i)
    torch.testing.assert_close(scores(q, k, scheme, i + 1000, i + 1000), s, rtol=0, atol=0)
    with pytest.raises(AssertionError, match="not equal"):
        torch.testing.assert_close(scores(q, k, scheme, i + 2000, i + 2000), s, rtol=0, atol=0)
    near, far = (
        relative_progress(p, torch.arange(p.item() + 1), doubles(0.3), doubles(100.0))[0].flip(0)
        for p in (torch.tensor([500]), torch.tensor([5000]))
    )
    assert (far[1:501] < near[1:]).all()


def explicit(scheme, slope, shift, weight, bias):
    """The scheme with f(x) = sum over units of weight relu(slope x + shift), plus bias."""
    with torch.no_grad():
        for w, value in zip(scheme.f.parameters(), (slope[:, None], shift, weight, bias), strict=True):
            w.copy_(value)
    return scheme


def psi(x, c):
    return torch.log1p(c * torch.as_tensor(x, dtype=torch.float64))


def bias_of(scheme, heads, length):
    q = torch.zeros(1, heads, length, 4, dtype=torch.float64)
    return scores(q, q, scheme)[0]


def test_contains_kerple():
    """One unit, f(x) = -r1 psi(L) x, gives -r1 log(1 + c |i - j|) up to position L."""
    r1, c, L = doubles([0.7, 1.3]), 0.4, 40.0
    scheme = explicit(make(2, 1, c, L), doubles([1.0]), doubles([0.0]), -r1[:, None] * psi(L, c), doubles([0.0, 0.0]))
    i = torch.arange(41)
    expected = -r1[:, None, None] * torch.log(1 + c * (i - i[:, None]).abs().double())
    torch.testing.assert_close(bias_of(scheme, 2, 41), expected, rtol=0, atol=1e-12)


def test_contains_alibi():
    """The same with a tiny c, where psi is a straight line."""
    theirs, c, L = AlibiPositionalBias(8), 1e-9, 40.0
    m = theirs.slopes.flatten().double()
    scheme = explicit(make(8, 1, c, L), doubles([1.0]), doubles([0.0]), -m[:, None] * L, torch.zeros(8).double())
    torch.testing.assert_close(bias_of(scheme, 8, 41), theirs(41, 41).double(), rtol=0, atol=1e-6)


def test_contains_t5():
    """Two units make a ramp between neighbouring distances, the only place where a bucket can end."""
    theirs = RelativePositionBias(1, causal=True, num_buckets=16, max_distance=40, heads=3).double()
    expected = theirs(61, 61).detach()
    table = expected[:, 60].flip(-1)  # of the last query, by distance 0..60
    c, L = 0.2, 60.0
    before, after = psi(range(60), c) / psi(L, c), psi(range(1, 61), c) / psi(L, c)
    slope = 1 / (after - before)
    steps = table.diff(dim=-1)
    scheme = explicit(
        make(3, 120, c, L),
        torch.cat([slope, slope]),
        torch.cat([-slope * before, -slope * after]),
        torch.cat([steps, -steps], dim=-1),
        table[:, 0],
    )
    torch.testing.assert_close(bias_of(scheme, 3, 61).tril(), expected.tril(), rtol=0, atol=1e-9)


def test_texts_of_a_batch_are_measured_at_their_own_positions():
    scheme, q, k = make(), draw(2, 2, 3, 4), draw(2, 2, 4, 4)
    i, j = torch.tensor([[3, 9, 4], [40, -8, 7]]), torch.tensor([[0, 1, 2, 3], [41, 0, 5, -9]])
    with torch.no_grad():
        expected = torch.cat([loop_scores(q[[b]], k[[b]], i[b], j[b], scheme) for b in range(2)])
        torch.testing.assert_close(scores(q, k, scheme, i, j), expected)


def test_numbers_of_the_network_and_the_first_c_and_threshold():
    scheme = Fire(8, 32)
    assert sum(w.numel() for w in scheme.parameters()) == 2 * 32 + (32 + 1) * 8 + 2
    torch.testing.assert_close(
        doubles([scheme.c.item(), scheme.threshold.item()]), doubles([0.1, 512.0]), rtol=1e-6, atol=0
    )


def test_c_and_threshold_stay_positive():
    scheme = make()
    with torch.no_grad():
        for step in (-50.0, 100.0):
            scheme.log_c += step
            scheme.log_threshold += step
            assert scheme.c > 0
            assert scheme.threshold > 0


def test_positions_stay_exact_in_a_bfloat16_model():
    scheme = make(threshold=10.0).bfloat16()
    c, threshold = scheme.c.item(), scheme.threshold.item()
    x = relative_progress(torch.tensor([100_001]), torch.tensor([0, 1, 99_743]), scheme.c, scheme.threshold)
    expected = doubles([[loop_progress(100_001, j, c, threshold) for j in (0, 1, 99_743)]])
    torch.testing.assert_close(x, expected, rtol=1e-12, atol=0)


def test_progress_is_computed_in_float64():
    i, j = torch.tensor([16_777_217]), torch.tensor([0, 2])
    ours = relative_progress(i, j, torch.tensor(0.5), torch.tensor(8.0))
    expected = doubles([[loop_progress(16_777_217, n, 0.5, 8.0) for n in (0, 2)]])
    torch.testing.assert_close(ours, expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32], ids=str)
def test_takes_every_integer_type(dtype):
    i, j = torch.tensor([100, 3]), torch.tensor([0, 120, 4])
    ours = relative_progress(i.to(dtype), j.to(dtype), doubles(0.3), doubles(5.0))
    assert torch.equal(ours, relative_progress(i, j, doubles(0.3), doubles(5.0)))


P, ONE = torch.arange(3), torch.tensor(1.0)
REFUSED = [
    (lambda: Fire(0), ValueError, ("num_heads", "at least 1", "0")),
    (lambda: Fire("2"), TypeError, ("num_heads", "'2'")),
    (lambda: Fire(2, hidden=0), ValueError, ("hidden", "at least 1", "0")),
    (lambda: Fire(2, hidden=3.5), ValueError, ("hidden", "3.5")),
    (lambda: Fire(2, c=0), ValueError, ("c must", "greater than 0", "0")),
    (lambda: Fire(2, c=None), TypeError, ("c must", "None")),
    (lambda: Fire(2, threshold=-1.0), ValueError, ("threshold", "-1.0")),
    (lambda: Fire(2, threshold=math.inf), ValueError, ("threshold", "inf")),
    (lambda: relative_progress(P.float(), P, ONE, ONE), TypeError, ("query_positions", "float32")),
    (lambda: relative_progress(P, [1], ONE, ONE), TypeError, ("key_positions", "list")),
    (lambda: relative_progress(P, P[0], ONE, ONE), ValueError, ("key_positions", "(..., L)")),
    (lambda: relative_progress(P, P, 1.0, ONE), TypeError, ("c must", "1.0")),
    (lambda: relative_progress(P, P, ONE, P[0]), TypeError, ("threshold", "tensor(0)")),
    (lambda: relative_progress(P, P, ONE, torch.ones(2)), ValueError, ("threshold", "single", "(2,)")),
    (lambda: scores(draw(1, 2, 3, 4), draw(1, 2, 3, 4), make(3)), ValueError, ("score_bias", "heads", "(3, 3, 3)")),
]


@pytest.mark.parametrize(("call", "error", "words"), REFUSED)
def test_refusals_name_argument_and_value(call, error, words):
    assert_refused(call, error, words)
