"""The four methods: loops over the formulas, BERT's index, what each can and cannot express, refusals."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from loops import POSITIONS, assert_formula, assert_formula_under_a_causal_mask, draw
from posenc_lib.attention import attend, scores
from posenc_lib.schemes.huang import METHODS, Huang, method_scores
from posenc_lib.schemes.none import NoPosition

REACH = 60


def make(method, d=6, max_length=REACH):
    scheme = Huang(d, max_length, method).double()
    with torch.no_grad():
        scheme.table.copy_(draw(*scheme.table.shape))  # the multiplying tables start at 1
    return scheme


def loop_scores(q, k, query_positions, key_positions, table, method, max_length=REACH):
    """The formulas, one number at a time; row of j - i, or of |j - i| for method 1."""
    d = q.shape[-1]
    s = torch.empty(*q.shape[:3], k.shape[2], dtype=q.dtype)
    for b, h, x, y in torch.cartesian_prod(*(torch.arange(n) for n in s.shape)).tolist():
        r = int(key_positions[y]) - int(query_positions[x])
        a = table[abs(r)] if method == 1 else table[r + max_length - 1]
        u, v = q[b, h, x], k[b, h, y]
        if method <= 2:
            total = sum(u[c] * v[c] for c in range(d)) * a
        elif method == 3:
            total = sum(u[c] * v[c] * a[c] for c in range(d))
        else:
            total = sum(u[c] * v[c] + u[c] * a[c] + v[c] * a[c] for c in range(d))
        s[b, h, x, y] = total / math.sqrt(d)
    return s


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", POSITIONS)
def test_scores_and_outputs_are_those_of_the_formulas(name, method):
    scheme = make(method, 4)
    assert_formula(scheme, partial(loop_scores, table=scheme.table, method=method), 2, 4, POSITIONS[name])


@pytest.mark.parametrize("method", METHODS)
@torch.no_grad()
def test_method_scores_take_a_table_of_pairs_shared_by_the_texts_or_for_each(method):
    q, k, i, j = draw(2, 2, 3, 5), draw(2, 2, 4, 5), torch.tensor([0, 7, 2]), torch.tensor([3, -2, 9, 0])
    scheme = make(method, 5)
    table, moved = scheme.table, torch.stack([j, j + 5])
    index = moved[:, None] - i[:, None]
    a = table[index.abs() if method == 1 else index + REACH - 1]
    expected = torch.cat([loop_scores(q[[b]], k[[b]], i, moved[b], table, method) for b in range(2)])
    torch.testing.assert_close(method_scores(q, k, a, method), expected)
    torch.testing.assert_close(scores(q, k, scheme, i.expand(2, 3), moved), expected)
    torch.testing.assert_close(method_scores(q[:1], k[:1], a[0], method), expected[:1])


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_outputs_under_a_causal_mask(method, padded):
    scheme = make(method, 4)
    assert_formula_under_a_causal_mask(scheme, partial(loop_scores, table=scheme.table, method=method), 2, 5, padded)


@pytest.mark.parametrize("length", [1, 4, 7])
@torch.no_grad()
def test_method_4_is_relative_key_query_of_bert_with_the_table_turned_round(length):
    """As in BERT up to transformers 4.57: the row of a pair is i - j + max_position_embeddings - 1."""
    scheme = make(4, max_length=9)
    embedding = scheme.table.flip(0)
    q, k = draw(2, 2, length, 6), draw(2, 2, length, 6)
    expected = torch.zeros(2, 2, length, length, dtype=torch.float64)
    for b, h, i, j in torch.cartesian_prod(*(torch.arange(n) for n in expected.shape)).tolist():
        row = embedding[i - j + 9 - 1]
        for c in range(6):
            expected[b, h, i, j] += q[b, h, i, c] * k[b, h, j, c] + q[b, h, i, c] * row[c] + k[b, h, j, c] * row[c]
    torch.testing.assert_close(scores(q, k, scheme), expected / math.sqrt(6), rtol=0, atol=1e-12)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 8))
def test_method_4_is_a_product_of_sums_without_the_square(n_q, n_k, d):
    q, k, a = draw(1, 2, n_q, d), draw(1, 2, n_k, d), draw(n_q, n_k, d)
    both = ((q[:, :, :, None] + a) * (k[:, :, None] + a)).sum(-1) - a.square().sum(-1)
    torch.testing.assert_close(method_scores(q, k, a, 4), both / math.sqrt(d))


@given(st.integers(1, 6), st.integers(1, 8), st.floats(-3, 3))
def test_each_multiplying_method_contains_the_one_before(length, d, factor):
    q, k = draw(1, 2, length, d), draw(1, 2, length, d)
    p = torch.arange(length)
    even, signed = draw(length), draw(2 * length - 1)
    one = method_scores(q, k, even[(p - p[:, None]).abs()], 1)
    two = method_scores(q, k, torch.cat([even.flip(0), even[1:]])[p - p[:, None] + length - 1], 2)
    torch.testing.assert_close(one, two)
    a = signed[p - p[:, None] + length - 1]
    torch.testing.assert_close(
        method_scores(q, k, a, 2), method_scores(q, k, a[..., None].expand(length, length, d), 3)
    )


@torch.no_grad()
@pytest.mark.parametrize("method", METHODS)
def test_only_method_1_commutes_with_reading_backwards(method):
    scheme = make(method)
    q, k, v = (draw(2, 2, 7, 6) for _ in range(3))
    backwards = attend(q.flip(2), k.flip(2), v.flip(2), scheme).flip(2)
    assert torch.allclose(backwards, attend(q, k, v, scheme)) == (method == 1)


@torch.no_grad()
@pytest.mark.parametrize("method", METHODS)
def test_only_method_4_does_anything_to_a_query_that_is_zero(method):
    scheme, k = make(method), draw(1, 2, 7, 6)
    assert bool((scores(torch.zeros_like(k), k, scheme) == 0).all()) == (method != 4)


@torch.no_grad()
@pytest.mark.parametrize("method", METHODS)
def test_what_happens_to_vectors_that_are_orthogonal(method):
    """Without a common component M3 stays at zero too; with common components that cancel it does not."""
    scheme = make(method)
    q = torch.tensor([1.0, 0, 2, 0, 0, 0], dtype=torch.float64).expand(1, 1, 5, 6)
    apart = torch.tensor([0.0, 3, 0, 1, 0, 0], dtype=torch.float64).expand(1, 1, 5, 6)
    cancel = torch.tensor([2.0, 0, -1, 0, 0, 0], dtype=torch.float64).expand(1, 1, 5, 6)
    assert bool((scores(q, apart, scheme) == 0).all()) == (method <= 3)
    assert bool((scores(q, cancel, scheme) == 0).all()) == (method <= 2)


@torch.no_grad()
@pytest.mark.parametrize("method", METHODS)
def test_only_the_multiplying_methods_let_query_key_and_distance_interact_as_three(method):
    scheme = make(method)
    signs = torch.tensor([1.0, -1.0], dtype=torch.float64)
    q, k = draw(1, 1, 2, 6), draw(1, 1, 2, 6)
    total = 0.0
    for distance, sign in ((1, 1), (3, -1)):
        for i in range(2):
            s = scores(q[:, :, i : i + 1], k, scheme, torch.tensor([0]), torch.full((2,), distance))[0, 0, 0]
            total += sign * signs[i] * (s * signs).sum()
    assert bool(total.abs() < 1e-12) == (method == 4)


@torch.no_grad()
@pytest.mark.parametrize("method", (1, 2, 3))
def test_the_multiplying_methods_start_without_any_position(method):
    q, k = draw(1, 2, 7, 6), draw(1, 2, 7, 6)
    torch.testing.assert_close(scores(q, k, Huang(6, 9, method).double()), scores(q, k, NoPosition()))


@pytest.mark.parametrize("method", METHODS)
def test_rows_of_distances_that_do_not_occur_get_no_gradient(method):
    scheme = make(method, max_length=9)
    scores(draw(1, 2, 4, 6), draw(1, 2, 4, 6), scheme).square().sum().backward()
    changed = scheme.table.grad.reshape(len(scheme.table), -1).abs().sum(-1) > 0
    assert changed.nonzero().flatten().tolist() == (list(range(4)) if method == 1 else list(range(5, 12)))


def test_parameters_are_counted_as_in_the_notebook():
    count = {method: sum(p.numel() for p in Huang(64, 512, method).parameters()) for method in METHODS}
    assert count == {1: 512, 2: 1023, 3: 1023 * 64, 4: 1023 * 64}


q = torch.zeros(1, 2, 3, 6)


@pytest.mark.parametrize(
    ("make_it", "error", "words"),
    [
        (lambda: Huang(0, 9), ValueError, "head_dim must be at least 1, got 0"),
        (lambda: Huang(6, 0), ValueError, "max_length must be at least 1, got 0"),
        (lambda: Huang(6, 2.5), ValueError, "max_length must be an integer, got 2.5"),
        (lambda: Huang(6, "9"), TypeError, "max_length must be a number, got '9'"),
        (lambda: Huang(6, 9, 5), ValueError, "method must be one of 1, 2, 3, 4, got 5"),
        (lambda: Huang(6, 9, "M4"), ValueError, "method must be one of 1, 2, 3, 4, got 'M4'"),
        (lambda: scores(q, q, Huang(6, 2)), ValueError, "less than max_length = 2 from the query, got 2"),
        (lambda: scores(q, q, Huang(8, 9)), ValueError, "q must have width head_dim = 8, got 6"),
        (lambda: method_scores(q, q, torch.zeros(3, 3), 0), ValueError, "method must be one of 1, 2, 3, 4, got 0"),
        (lambda: method_scores(q, q, torch.zeros(3, 3), 4), ValueError, "a must have shape .*, got"),
        (lambda: method_scores(q, q, torch.zeros(3, 2, 6), 4), ValueError, "a must have shape .*, got"),
        (lambda: method_scores(q, q, torch.zeros(3, 3, 6), 2), ValueError, "a must have shape .*, got"),
        (lambda: method_scores(q, q[..., :4], torch.zeros(3, 3), 2), ValueError, "k must have width 6, got 4"),
        (lambda: method_scores([1], q, torch.zeros(3, 3), 2), TypeError, "q must be a tensor"),
        (lambda: method_scores(q, q, torch.zeros(3, 3).long(), 2), TypeError, "a must hold floating-point numbers"),
    ],
)
def test_refusals_name_the_argument_and_the_value(make_it, error, words):
    with pytest.raises(error, match=words):
        make_it()
