"""Disentangled attention: loops over the formula, both versions in transformers, index, buckets, refusals."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import DebertaConfig, DebertaV2Config
from transformers.models.deberta import modeling_deberta
from transformers.models.deberta_v2 import modeling_deberta_v2

from loops import POSITIONS, assert_formula, assert_formula_under_a_causal_mask, assert_refused, draw
from posenc_lib.attention import attend, scores
from posenc_lib.schemes.deberta import Deberta, bucket_index, log_bucket


def make(k, num_heads=2, d=6, dtype=torch.float64, position_buckets=None):
    scheme = Deberta(num_heads, d, k, position_buckets).to(dtype)
    with torch.no_grad():
        scheme.table.copy_(draw(*scheme.table.shape, dtype=dtype))  # the initial one is too small to show mistakes
    return scheme


def delta(i, j, k):
    """Equation 3."""
    return 0 if i - j <= -k else 2 * k - 1 if i - j >= k else i - j + k


def loop_scores(q, k, query_positions, key_positions, scheme, third=lambda i, j: (j, i)):
    """Equation 4, one pair at a time; ``third`` says the order of the arguments of delta in the third term."""
    d = q.shape[-1]
    rows = scheme.table.tolist()
    keys = torch.tensor(rows, dtype=q.dtype) @ scheme.key_proj.weight.T
    queries = torch.tensor(rows, dtype=q.dtype) @ scheme.query_proj.weight.T + scheme.query_proj.bias
    s = torch.empty(*q.shape[:3], k.shape[2], dtype=q.dtype)
    for b, h, x, y in torch.cartesian_prod(*(torch.arange(n) for n in s.shape)).tolist():
        i, j = int(query_positions[x]), int(key_positions[y])
        head = slice(h * d, (h + 1) * d)
        s[b, h, x, y] = (
            q[b, h, x] @ k[b, h, y]
            + q[b, h, x] @ keys[delta(i, j, scheme.k), head]
            + k[b, h, y] @ queries[delta(*third(i, j), scheme.k), head]
        ) / math.sqrt(3 * d)
    return s


@pytest.mark.parametrize("k", [1, 3, 50])
@pytest.mark.parametrize("name", POSITIONS)
def test_scores_and_outputs_are_those_of_the_formula(name, k):
    scheme = make(k)
    assert_formula(scheme, partial(loop_scores, scheme=scheme), 2, 6, POSITIONS[name])


@pytest.mark.parametrize("padded", [False, True])
def test_outputs_under_a_causal_mask(padded):
    scheme = make(2, 3, 4)
    assert_formula_under_a_causal_mask(scheme, partial(loop_scores, scheme=scheme), 3, 5, padded)


@pytest.mark.parametrize("position_buckets", [None, 4])
@torch.no_grad()
def test_terms_take_positions_of_each_text(position_buckets):
    scheme, q, k = make(9, position_buckets=position_buckets), draw(2, 2, 3, 6), draw(2, 2, 4, 6)
    i, j = torch.tensor([[0, 4, 2], [11, -3, 5]]), torch.tensor([[0, 1, 2, 3], [4, 4, -20, 10]])
    both = scheme.terms(q, k, i, j)
    for b in range(2):
        for ours, alone in zip(both, scheme.terms(q[[b]], k[[b]], i[b], j[b]), strict=True):
            torch.testing.assert_close(ours[[b]], alone)


def as_implemented(q, k, scheme, p):
    """Our scores with delta(i, j) in the third term: what ``terms`` gives when all positions are negated."""
    second, third = scheme.terms(q, k, p, p)[0], scheme.terms(q, k, -p, -p)[1]
    return (q @ k.mT + second + third) * scheme.scale(q.shape[-1])


@pytest.mark.parametrize("length", [1, 4, 5, 6, 13])
@torch.no_grad()
def test_attention_is_that_of_transformers_version_1(length):
    """Its third term is indexed with i - j. It slices the table to the length, which changes no row that is read."""
    config = DebertaConfig(
        hidden_size=12,
        num_attention_heads=2,
        relative_attention=True,
        max_relative_positions=5,
        pos_att_type=["c2p", "p2c"],
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    theirs = modeling_deberta.DisentangledSelfAttention(config).double().eval()
    theirs.q_bias.copy_(draw(12))
    theirs.v_bias.copy_(draw(12))
    scheme = make(5)
    theirs.pos_proj.weight.copy_(scheme.key_proj.weight)
    theirs.pos_q_proj.load_state_dict(scheme.query_proj.state_dict())

    x = draw(3, length, 12)
    q, k, v = theirs.in_proj(x).unflatten(-1, (2, 18)).transpose(1, 2).chunk(3, dim=-1)
    q = q + theirs.q_bias.view(2, 1, 6)
    v = v + theirs.v_bias.view(2, 1, 6)
    relative = modeling_deberta.build_relative_position(q, k)
    everything = torch.ones(3, 1, length, length, dtype=torch.bool)
    output, weights = theirs(x, everything, True, relative_pos=relative, rel_embeddings=scheme.table)

    s = as_implemented(q, k, scheme, torch.arange(length))
    torch.testing.assert_close(s.softmax(-1), weights, rtol=0, atol=1e-6)
    torch.testing.assert_close((s.softmax(-1) @ v).transpose(1, 2).flatten(-2), output, rtol=0, atol=5e-6)


@pytest.mark.parametrize("length", [1, 4, 13, 31])
@pytest.mark.parametrize(("farthest", "buckets"), [(6, None), (12, 6)])
@torch.no_grad()
def test_attention_is_that_of_transformers_version_2(farthest, buckets, length):
    """Again i - j in the third term; its matrix for keys of the table has a bias, which is set to 0 here."""
    config = DebertaV2Config(
        hidden_size=12,
        num_attention_heads=2,
        relative_attention=True,
        max_relative_positions=farthest,
        position_buckets=-1 if buckets is None else buckets,
        pos_att_type=["c2p", "p2c"],
        share_att_key=False,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    theirs = modeling_deberta_v2.DisentangledSelfAttention(config).double().eval()
    scheme = make(farthest, position_buckets=buckets)
    assert len(scheme.table) == 12
    theirs.pos_key_proj.weight.copy_(scheme.key_proj.weight)
    theirs.pos_key_proj.bias.zero_()
    theirs.pos_query_proj.load_state_dict(scheme.query_proj.state_dict())

    x = draw(3, length, 12)
    q, k, v = (
        f(x).unflatten(-1, (2, 6)).transpose(1, 2) for f in (theirs.query_proj, theirs.key_proj, theirs.value_proj)
    )
    everything = torch.ones(3, 1, length, length, dtype=torch.bool)
    output, weights = theirs(x, everything, True, rel_embeddings=scheme.table)

    s = as_implemented(q, k, scheme, torch.arange(length))
    torch.testing.assert_close(s.softmax(-1), weights, rtol=0, atol=1e-6)
    torch.testing.assert_close((s.softmax(-1) @ v).transpose(1, 2).flatten(-2), output, rtol=0, atol=5e-6)


@torch.no_grad()
def test_the_third_term_as_printed_is_not_that_of_transformers():
    scheme, p = make(3), torch.arange(6)
    q, k = draw(1, 2, 6, 6), draw(1, 2, 6, 6)
    assert not torch.allclose(as_implemented(q, k, scheme, p), scores(q, k, scheme))
    expected = loop_scores(q, k, p, p, scheme, third=lambda i, j: (i, j))
    torch.testing.assert_close(as_implemented(q, k, scheme, p), expected)


@given(st.integers(1, 20), st.integers(-(10**12), 10**12), st.integers(-(10**12), 10**12))
def test_index_is_that_of_the_paper(k, i, j):
    index = bucket_index(i, j, k)
    assert index.dtype == torch.int64
    assert int(index) == delta(i, j, k)
    assert int(index) + int(bucket_index(j, i, k)) == (2 * k if abs(i - j) < k else 2 * k - 1)


def test_rows_that_are_shared():
    m = torch.arange(-9, 10)
    rows = bucket_index(m, 0, 4)
    assert rows.unique().tolist() == list(range(8))
    assert m[rows == 7].tolist() == list(range(3, 10))
    assert m[rows == 0].tolist() == list(range(-9, -3))
    assert len(set(zip(rows.tolist(), bucket_index(0, m, 4).tolist(), strict=True))) == 9


def test_index_does_not_overflow_in_small_integers():
    i = torch.tensor([127, -128], dtype=torch.int8)
    assert bucket_index(i, i.flip(0), 300).tolist() == [555, 45]


@pytest.mark.parametrize(("buckets", "max_position"), [(2, 5), (4, 10), (8, 32), (16, 100), (32, 128), (256, 512)])
def test_log_bucket_is_that_of_transformers(buckets, max_position):
    relative = torch.arange(-1500, 1501)
    expected = modeling_deberta_v2.make_log_bucket_position(relative, buckets, max_position)
    assert torch.equal(log_bucket(relative, buckets, max_position), expected.long())


@given(st.integers(1, 40), st.integers(2, 400))
def test_log_bucket_is_odd_and_ascending_and_ends_at_the_last_bucket(half, more):
    buckets, max_position = 2 * half, half + more
    m = torch.arange(0, max_position + 50)
    b = log_bucket(m, buckets, max_position)
    assert torch.equal(log_bucket(-m, buckets, max_position), -b)
    assert (b.diff() >= 0).all()
    assert torch.equal(b[: half + 1], m[: half + 1])
    assert int(b[max_position - 1]) == buckets - 1


def test_log_bucket_takes_small_integers():
    relative = torch.tensor([-128, 127], dtype=torch.int8)
    assert log_bucket(relative, 8, 32).tolist() == log_bucket(relative.long(), 8, 32).tolist()


@torch.no_grad()
def test_the_query_chooses_in_the_second_term_and_the_key_in_the_third():
    scheme, p = make(3), torch.arange(6)
    q, k = draw(1, 2, 6, 6), draw(1, 2, 6, 6)
    second, third = scheme.terms(q, k + draw(1, 2, 6, 6), p, p)
    torch.testing.assert_close(second, scheme.terms(q, k, p, p)[0])
    torch.testing.assert_close(scheme.terms(draw(1, 2, 6, 6), k, p, p)[1], scheme.terms(q, k, p, p)[1])
    assert not torch.allclose(third, scheme.terms(q, k, p, p)[1])


def test_rows_that_are_not_read_get_no_gradient():
    scheme = make(8)
    scores(draw(1, 2, 4, 6), draw(1, 2, 4, 6), scheme).square().sum().backward()
    assert (scheme.table.grad.abs().sum(-1) > 0).nonzero().flatten().tolist() == list(range(5, 12))


def test_parameters_are_counted_as_in_the_notebook():
    scheme = Deberta(12, 64, 512)
    assert scheme.table.numel() == 786_432
    assert sum(p.numel() for p in scheme.parameters()) == 786_432 + 2 * 768**2 + 768
    assert Deberta(12, 64, 512, position_buckets=256).table.shape == (512, 768)


REFUSED = [
    (lambda: Deberta(0, 6, 4), ValueError, ("num_heads", "at least 1", "0")),
    (lambda: Deberta(2, 0, 4), ValueError, ("head_dim", "at least 1", "0")),
    (lambda: Deberta(2, 6, 0), ValueError, ("max_relative_positions", "at least 1", "0")),
    (lambda: Deberta(2, 6, 2.5), ValueError, ("max_relative_positions", "integer", "2.5")),
    (lambda: Deberta(2, 6, "4"), TypeError, ("max_relative_positions", "number", "'4'")),
    (lambda: Deberta(2, 6, 5, position_buckets=8), ValueError, ("max_relative_positions", "at least 6", "5")),
    (lambda: Deberta(2, 6, 50, position_buckets=7), ValueError, ("position_buckets", "even", "7")),
    (lambda: Deberta(2, 6, 50, position_buckets=-1), ValueError, ("position_buckets", "at least 2", "-1")),
    (lambda: Deberta(2, 6, 50, position_buckets="8"), TypeError, ("position_buckets", "number", "'8'")),
    (lambda: bucket_index(0, 0, -2), ValueError, ("k must", "at least 1", "-2")),
    (lambda: bucket_index(0.5, 0, 2), TypeError, ("i must", "integers", "float32")),
    (lambda: bucket_index(0, torch.ones(2), 2), TypeError, ("j must", "integers", "float32")),
    (lambda: log_bucket([1], 8, 32), TypeError, ("relative", "list")),
    (lambda: log_bucket(torch.ones(2), 8, 32), TypeError, ("relative", "float32")),
    (lambda: log_bucket(torch.arange(2), 0, 32), ValueError, ("buckets", "at least 2", "0")),
    (lambda: log_bucket(torch.arange(2), 8, 5), ValueError, ("max_position", "at least 6", "5")),
    (lambda: attend(*draw(3, 1, 2, 3, 8), make(2)), ValueError, ("q must", "head_dim = 6", "8")),
    (lambda: attend(*draw(3, 1, 3, 3, 6), make(2)), ValueError, ("q must", "num_heads = 2", "3")),
    (lambda: attend(*draw(3, 1, 1, 3, 6), make(2)), ValueError, ("q must", "num_heads = 2", "1")),
]


@pytest.mark.parametrize(("call", "error", "words"), REFUSED)
def test_refusals_name_argument_and_value(call, error, words):
    assert_refused(call, error, words)
