"""CoPE: loops over the formula, x_transformers, what open and shut gates give, what is counted, refusals."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from x_transformers.x_transformers import CoPE as XCoPE

from loops import POSITIONS, assert_formula, assert_formula_under_a_causal_mask, assert_refused, draw
from posenc_lib.attention import attend, scores, weights
from posenc_lib.lab import TinyTransformer
from posenc_lib.schemes.cope import Cope, contextual_positions, count_gates, interpolate
from posenc_lib.schemes.none import NoPosition
from posenc_lib.schemes.shaw import Shaw

PLAIN = NoPosition()


def make(d=5, max_position=4, dtype=torch.float64):
    """A scheme whose table is random, unlike at the start of a training."""
    scheme = Cope(d, max_position).to(dtype)
    with torch.no_grad():
        scheme.table.copy_(draw(max_position + 1, d))
    return scheme


def loop_position(q, k, i, j, query_positions, key_positions):
    """p for one query and one key: a sum over all keys, in float64."""
    d, p = q.shape[-1], 0.0
    for s in range(len(key_positions)):
        if int(key_positions[j]) <= int(key_positions[s]) <= int(query_positions[i]):
            dot = sum(float(q[i, c]) * float(k[s, c]) for c in range(d))
            p += 1 / (1 + math.exp(-dot / math.sqrt(d)))
    return p


def loop_scores(q, k, query_positions, key_positions, table):
    """s_ij = q_i . (k_j + e[p_ij]) / sqrt(d), one number at a time, in float64."""
    (batch, heads, n_q, d), n_k, largest = q.shape, k.shape[2], len(table) - 1
    s = torch.empty(batch, heads, n_q, n_k, dtype=torch.float64)
    for b, h, i, j in torch.cartesian_prod(*(torch.arange(n) for n in s.shape)).tolist():
        p = min(largest, loop_position(q[b, h], k[b, h], i, j, query_positions, key_positions))
        low, high = math.floor(p), math.ceil(p)
        e = [float(table[low, c]) * (1 - p + low) + float(table[high, c]) * (p - low) for c in range(d)]
        s[b, h, i, j] = sum(float(q[b, h, i, c]) * (float(k[b, h, j, c]) + e[c]) for c in range(d)) / math.sqrt(d)
    return s


@pytest.mark.parametrize("max_position", [1, 3, 30])
@pytest.mark.parametrize("name", POSITIONS)
def test_scores_and_outputs_are_those_of_the_formula(name, max_position):
    scheme = make(3, max_position)
    assert_formula(scheme, partial(loop_scores, table=scheme.table), 2, 3, POSITIONS[name])


@pytest.mark.parametrize("padded", [False, True])
def test_outputs_under_a_causal_mask(padded):
    scheme = make(4)
    assert_formula_under_a_causal_mask(scheme, partial(loop_scores, table=scheme.table), 3, 6, padded)


def test_keys_hidden_by_a_mask_are_counted():
    scheme, (q, k) = make(4, 8), draw(2, 1, 1, 5, 4)
    hidden = torch.ones(5, 5, dtype=torch.bool).tril()
    hidden[:, 2] = False
    with torch.no_grad():
        s = loop_scores(q, k, torch.arange(5), torch.arange(5), scheme.table)
        expected = s.masked_fill(~hidden, -math.inf).softmax(-1)
        torch.testing.assert_close(weights(q, k, scheme, mask=hidden), expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize(
    ("n_q", "n_k", "d", "heads", "largest"), [(1, 1, 1, 1, 1), (7, 7, 5, 3, 3), (3, 11, 6, 1, 40), (13, 29, 2, 2, 5)]
)
def test_agrees_with_x_transformers(n_q, n_k, d, heads, largest, dtype):
    """Theirs: gates from masked, scaled logits, position logits without the scale, queries at the end of the keys.

    Without a causal mask, theirs counts the keys after the query too; it knows no positions, so that shifted or
    scattered keys cannot be compared.
    """
    scheme, theirs = make(d, largest, dtype), XCoPE(d, heads, largest + 1).to(dtype)
    theirs.pos_emb.data.copy_(scheme.table)
    q, k = draw(2, heads, n_q, d, dtype=dtype), draw(2, heads, n_k, d, dtype=dtype)
    i, j = torch.arange(n_k - n_q, n_k), torch.arange(n_k)
    later = j > i[:, None]
    near = {"rtol": 0, "atol": {torch.float64: 1e-12, torch.float32: 2e-5}[dtype]}
    with torch.no_grad():
        logits = (q @ k.mT / d**0.5).masked_fill(later, -torch.finfo(dtype).max)
        bias = scheme.score_bias(q, k, scheme.per_pair(i, j)) * d**0.5
        torch.testing.assert_close(bias, theirs(q, logits), **near)
        if n_q < n_k or n_q > 1:  # theirs without a mask
            unmasked = theirs(q, q @ k.mT / d**0.5)
            assert torch.allclose(unmasked[..., -1, :], bias[..., -1, :], **near)
            assert n_q == 1 or not torch.allclose(unmasked, bias, **near)


def test_gates_are_sigmoids_up_to_the_query():
    logits = draw(2, 1, 3, 4)
    gates = count_gates(logits, torch.tensor([0, 2, -5]), torch.tensor([3, 1, 0, 2]))
    seen = torch.tensor([[False, False, True, False], [False, True, True, True], [False] * 4])
    torch.testing.assert_close(gates, torch.where(seen, 1 / (1 + (-logits).exp()), 0.0))


@given(st.integers(1, 12), st.integers(1, 12), st.integers(-50, 50))
def test_open_gates_give_a_relative_position(n_q, n_k, start):
    i, j = torch.arange(start, start + n_q), torch.arange(start, start + n_k)
    gates = count_gates(torch.full((1, 1, n_q, n_k), 1e9).double(), i, j)
    expected = (i[:, None] - j + 1).clamp(min=0).double()
    within = (i[:, None] < start + n_k).expand(n_q, n_k)  # beyond the last key there is nothing to count
    p = contextual_positions(gates, j)[0, 0]
    torch.testing.assert_close(p[within], expected[within], rtol=0, atol=0)
    torch.testing.assert_close(p[~within], (n_k - torch.arange(n_k)).double().expand(n_q, n_k)[~within])


def test_texts_of_a_batch_are_counted_at_their_own_positions():
    q, k, table = draw(2, 2, 3, 4), draw(2, 2, 5, 4), draw(4, 4)
    i, j = torch.tensor([[0, 4, 9], [3, -2, 40]]), torch.tensor([[0, 1, 2, 3, 4], [3, 0, 41, 3, -9]])
    scheme = make(4, 3)
    with torch.no_grad():
        scheme.table.copy_(table)
        expected = torch.cat([loop_scores(q[[b]], k[[b]], i[b], j[b], table) for b in range(2)])
        torch.testing.assert_close(scores(q, k, scheme, i, j), expected)


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=12))
def test_positions_are_sums_over_the_keys_in_any_order(key_positions):
    j, gates = torch.tensor(key_positions), draw(1, 2, 3, len(key_positions)).sigmoid()
    from_here_on = (j[:, None] >= j).double()  # [s, j]
    torch.testing.assert_close(contextual_positions(gates, j), gates @ from_here_on)


def test_open_gates_give_shaws_keys():
    """With q_i . k_s large for all pairs, CoPE is Shaw's key term: row p = i - j + 1 for the distance j - i."""
    clip, d = 4, 6
    scheme, shaw = make(d, clip + 1), Shaw(d, clip).double()
    q, k = draw(2, 1, 2, 9, d)
    q[..., 0], k[..., 0] = 100.0, 100.0
    with torch.no_grad():
        shaw.key_table.copy_(scheme.table[1:].flip(0).repeat(2, 1)[: 2 * clip + 1])
        left, right = scores(q, k, scheme), scores(q, k, shaw)
    causal = torch.ones(9, 9, dtype=torch.bool).tril()
    torch.testing.assert_close(left[..., causal], right[..., causal], rtol=1e-12, atol=0)


def test_shut_gates_and_a_new_table_change_nothing():
    scheme, (q, k, v) = make(4), draw(3, 1, 2, 7, 4)
    shut_q, shut_k = q.clone(), k.clone()
    shut_q[..., 0], shut_k[..., 0] = 1000.0, -1000.0
    with torch.no_grad():
        o = attend(shut_q, shut_k, v, scheme, causal=True)
        torch.testing.assert_close(o, attend(shut_q, shut_k, v, PLAIN, causal=True))
        fresh = Cope(4).double()
        torch.testing.assert_close(attend(q, k, v, fresh, causal=True), attend(q, k, v, PLAIN, causal=True))


def test_interpolation_meets_the_rows_and_is_straight_between_them():
    logits = draw(1, 1, 1, 4)
    rows = interpolate(logits, torch.arange(4).double().view(1, 1, 1, 4))
    torch.testing.assert_close(rows, logits, rtol=0, atol=1e-15)
    p = torch.linspace(0, 3, 31, dtype=torch.float64).view(1, 1, 1, 31)
    z = interpolate(logits, p)[0, 0, 0].view(-1)
    for n in range(3):
        pieces = z[10 * n : 10 * n + 11].diff()
        torch.testing.assert_close(pieces, pieces.mean().expand(10))
    assert torch.equal(interpolate(logits, p + 3)[..., :], logits[..., 3:].expand(p.shape))
    assert interpolate(logits.float(), p).dtype == torch.float32


def test_interpolating_products_is_interpolating_vectors():
    table, q, p = draw(6, 5), draw(1, 2, 3, 5), draw(1, 2, 3, 7).abs()
    low = p.floor().long()
    e = table[low] * (1 - p + low)[..., None] + table[low + 1] * (p - low)[..., None]
    torch.testing.assert_close(interpolate(q @ table.mT, p), (e @ q[..., None])[..., 0])


def test_derivative_by_the_position():
    logits = torch.tensor([1.0, 4.0, 2.0, 7.0], dtype=torch.float64).view(1, 1, 1, 4)
    p = torch.tensor([0.0, 0.5, 1.0, 2.9, 3.0, 3.5], dtype=torch.float64).view(1, 1, 1, 6).requires_grad_()
    interpolate(logits, p).sum().backward()
    assert p.grad.flatten().tolist() == [3.0, 3.0, -2.0, 5.0, 5.0, 0.0]


def test_the_bias_reads_the_keys_through_the_gates_alone():
    scheme, (q, k) = make(3, 2), draw(2, 1, 2, 5, 3)
    k.requires_grad_()
    bias = scheme.score_bias(q, k, scheme.per_pair(torch.arange(5), torch.arange(5)))
    (by_k,) = torch.autograd.grad(bias.sum(), k)
    assert (by_k != 0).any()


def test_a_new_table_learns_from_the_first_step_on():
    scheme = Cope(16)
    q, k, v = draw(3, 1, 2, 9, 16, dtype=torch.float32)
    attend(q, k, v, scheme, causal=True).square().sum().backward()
    assert (scheme.table.grad[:4].abs().sum(-1) > 0).all()


def test_keys_are_counted_not_distances():
    scheme, q, k = make(4, 6), draw(1, 1, 2, 4), draw(1, 1, 4, 4)
    near, far = torch.tensor([0, 1, 2, 3]), torch.tensor([0, 10, 200, 3000])
    with torch.no_grad():
        here, there = (scores(q, k, scheme, p[2:], p) for p in (near, far))
        torch.testing.assert_close(here, there, rtol=0, atol=0)
        dropped = scores(q[:, :, 1:], k[:, :, [0, 2, 3]], scheme, near[3:], near[[0, 2, 3]])  # key 1 left the cache
    whole = here[:, :, 1:]
    torch.testing.assert_close(dropped[..., 1:], whole[..., 2:])  # what lies between is still there
    assert (dropped[..., 0] - whole[..., 0]).abs() > 1e-3


def test_all_keys_after_the_query_share_row_0():
    scheme, (q, k) = make(4), draw(2, 1, 2, 6, 4)
    with torch.no_grad():
        bias = scheme.score_bias(q, k, scheme.per_pair(torch.arange(6), torch.arange(6)))
        row_0 = (q @ scheme.table[0] / 2)[..., None].expand(1, 2, 6, 6)
    later = torch.ones(6, 6, dtype=torch.bool).triu(1)
    torch.testing.assert_close(bias[..., later], row_0[..., later])


def test_counts_stay_exact_in_a_bfloat16_model():
    """In bfloat16 itself the sums would be rounded: it has no 257."""
    scheme = Cope(2, 400).bfloat16()
    q, k = (torch.full((1, 1, 300, 2), 30.0, dtype=torch.bfloat16) for _ in range(2))
    p = scheme.positions(q, k, torch.arange(300), torch.arange(300))
    assert p[0, 0, -1].tolist() == list(range(300, 0, -1))
    assert torch.ones(300, dtype=torch.bfloat16).cumsum(0).unique().numel() < 300


def test_in_a_model_trained_on_64_and_asked_about_256():
    model = TinyTransformer(Cope(16), vocabulary=8)
    tokens = torch.randint(8, (2, 256))
    assert model(tokens[:, :64]).shape == (2, 64, 8)
    with torch.no_grad():
        assert model(tokens).isfinite().all()
        torch.testing.assert_close(model(tokens)[:, :64], model(tokens[:, :64]), rtol=1e-4, atol=1e-5)


X, P = torch.zeros(1, 2, 3, 4), torch.arange(4)
REFUSED = [
    (lambda: Cope(0), ValueError, ("head_dim", "at least 1", "0")),
    (lambda: Cope("4"), TypeError, ("head_dim", "'4'")),
    (lambda: Cope(4, 0), ValueError, ("max_position", "at least 1", "0")),
    (lambda: Cope(4, 2.5), ValueError, ("max_position", "2.5")),
    (lambda: scores(draw(1, 2, 3, 4), draw(1, 2, 3, 4), make(6)), ValueError, ("q", "head_dim = 6", "4")),
    (lambda: count_gates(X, P[:2], P), ValueError, ("query_positions", "3", "2")),
    (lambda: count_gates(X, P[:3], P[:3]), ValueError, ("key_positions", "4", "3")),
    (lambda: count_gates(X, P[:3].float(), P), TypeError, ("query_positions", "float32")),
    (lambda: count_gates(X.long(), P[:3], P), TypeError, ("logits", "int64")),
    (lambda: count_gates(X[0], P[:3], P), ValueError, ("logits", "(2, 3, 4)")),
    (lambda: contextual_positions(X, P[:3]), ValueError, ("key_positions", "4", "3")),
    (lambda: contextual_positions([1.0], P), TypeError, ("gates", "list")),
    (lambda: contextual_positions(X.bool(), P), TypeError, ("gates", "bool")),
    (lambda: interpolate(X[..., :1], X), ValueError, ("logits", "at least two", "1")),
    (lambda: interpolate(X, X[:, :1]), ValueError, ("logits and p", "(1, 2, 3)", "(1, 1, 3)")),
    (lambda: interpolate(X, X.long()), TypeError, ("p", "int64")),
    (lambda: interpolate(X, X[0]), ValueError, ("p", "(2, 3, 4)")),
]


@pytest.mark.parametrize(("call", "error", "words"), REFUSED)
def test_refusals_name_argument_and_value(call, error, words):
    assert_refused(call, error, words)
