"""Shaw's relative vectors: against loops from the paper, against transformers, identities, refusals."""

import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import Wav2Vec2BertConfig
from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import (
    Wav2Vec2BertSelfAttention,
    _apply_relative_key_position_encoding,
)

from loops import POSITIONS, draw
from posenc_lib.attention import attend, scores
from posenc_lib.schemes.none import NoPosition
from posenc_lib.schemes.shaw import Shaw, clipped_index


def make(clip, d=6, num_heads=None):
    return Shaw(d, clip, num_heads).double()


def loop_scores(q, k, query_positions, key_positions, a_k, clip):
    """Equation 4, one number at a time; a_k is (2 clip + 1, d) or one such table per head."""
    (batch, heads, n_q, d), n_k = q.shape, k.shape[2]
    s = torch.empty(batch, heads, n_q, n_k, dtype=q.dtype)
    for b in range(batch):
        for h in range(heads):
            table = a_k if a_k.dim() == 2 else a_k[h]
            for i in range(n_q):
                for j in range(n_k):
                    w = max(-clip, min(clip, int(key_positions[j]) - int(query_positions[i])))
                    s[b, h, i, j] = sum(q[b, h, i, c] * (k[b, h, j, c] + table[w + clip, c]) for c in range(d))
    return s / math.sqrt(d)


def loop_outputs(s, v, query_positions, key_positions, a_v, clip, visible):
    """Equation 3: softmax over the visible keys, then the sum of v_j + a^V."""
    o = torch.zeros(*s.shape[:3], v.shape[-1], dtype=v.dtype)
    for b, h, i in torch.cartesian_prod(*(torch.arange(n) for n in s.shape[:3])).tolist():
        table = a_v if a_v.dim() == 2 else a_v[h]
        keys = [j for j in range(s.shape[3]) if visible(b, i, j)]
        total = sum(s[b, h, i, j].exp() for j in keys)
        for j in keys:
            w = max(-clip, min(clip, int(key_positions[j]) - int(query_positions[i])))
            o[b, h, i] += s[b, h, i, j].exp() / total * (v[b, h, j] + table[w + clip])
    return o


@torch.no_grad()
@pytest.mark.parametrize(("num_heads", "clip"), [(None, 0), (None, 3), (2, 3), (2, 50)])
@pytest.mark.parametrize("name", POSITIONS)
def test_scores_and_outputs_are_those_of_the_paper(name, num_heads, clip):
    i, j = POSITIONS[name]
    scheme = make(clip, num_heads=num_heads)
    q, k, v = (draw(2, 2, len(n), 6) for n in (i, j, j))
    expected = loop_scores(q, k, i, j, scheme.key_table, clip)
    torch.testing.assert_close(scores(q, k, scheme, i, j), expected, rtol=0, atol=1e-12)
    o = attend(q, k, v, scheme, query_positions=i, key_positions=j)
    everything = loop_outputs(expected, v, i, j, scheme.value_table, clip, lambda b, i, j: True)
    torch.testing.assert_close(o, everything, rtol=0, atol=1e-12)


@torch.no_grad()
def test_outputs_under_a_causal_mask_with_padding():
    scheme, p = make(2), torch.arange(5)
    q, k, v = (draw(2, 3, 5, 6) for _ in range(3))
    padding = torch.tensor([[True, False, False, False, False], [False, False, False, True, True]])
    s = loop_scores(q, k, p, p, scheme.key_table, 2)
    expected = loop_outputs(s, v, p, p, scheme.value_table, 2, lambda b, i, j: j <= i and not padding[b, j])
    torch.testing.assert_close(attend(q, k, v, scheme, causal=True, key_padding_mask=padding), expected)
    assert (attend(q, k, v, scheme, causal=True, key_padding_mask=padding)[0, :, 0] == 0).all()


@pytest.mark.parametrize(("n_q", "n_k"), [(1, 1), (9, 9), (3, 11), (11, 4)])
def test_bias_is_that_of_transformers(n_q, n_k):
    """Its sign of the distance is j - i, as ours; it counts queries and keys from 0; it divides by sqrt(d) already."""
    scheme = make(3, d=8)
    embedding = torch.nn.Embedding(7, 8, dtype=torch.float64, _weight=scheme.key_table.detach())
    theirs = SimpleNamespace(
        left_max_position_embeddings=3, right_max_position_embeddings=3, distance_embedding=embedding, scaling=8**-0.5
    )
    q, k = draw(2, 4, n_q, 8), draw(2, 4, n_k, 8)
    _, expected = _apply_relative_key_position_encoding(theirs, q, k)
    ours = scheme.score_bias(q, k, scheme.per_pair(torch.arange(n_q), torch.arange(n_k)))
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)


def test_self_attention_is_that_of_transformers_without_the_value_term():
    config = Wav2Vec2BertConfig(
        hidden_size=24,
        num_attention_heads=3,
        position_embeddings_type="relative_key",
        left_max_position_embeddings=4,
        right_max_position_embeddings=4,
        attention_dropout=0.0,
        attn_implementation="eager",
    )
    theirs = Wav2Vec2BertSelfAttention(config).double().eval()
    scheme = make(4, d=8)
    with torch.no_grad():
        scheme.key_table.copy_(theirs.distance_embedding.weight)
        scheme.value_table.zero_()
        x = draw(2, 11, 24)
        q, k, v = (
            linear(x).unflatten(-1, (3, 8)).transpose(1, 2)
            for linear in (theirs.linear_q, theirs.linear_k, theirs.linear_v)
        )
        ours = theirs.linear_out(attend(q, k, v, scheme).transpose(1, 2).flatten(-2))
        expected, weights = theirs(x)
    torch.testing.assert_close(scores(q, k, scheme).softmax(-1), weights, rtol=0, atol=1e-12)
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)


@given(st.integers(0, 20), st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=20))
def test_index_is_clipped_on_both_sides(clip, distances):
    index = clipped_index(torch.tensor(distances), clip)
    assert index.dtype == torch.int64
    assert index.tolist() == [clip + max(-clip, min(clip, r)) for r in distances]


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32])
def test_index_does_not_overflow_in_small_integers(dtype):
    assert clipped_index(torch.tensor([-128, 0, 127], dtype=dtype), 200).tolist() == [72, 200, 327]


def test_index_of_unsigned_distances():
    assert clipped_index(torch.tensor([0, 200], dtype=torch.uint8), 100).tolist() == [100, 200]


def test_clip_4_gives_9_rows_and_both_tables_are_counted():
    assert clipped_index(torch.arange(-30, 31), 4).unique().numel() == 9
    assert sum(p.numel() for p in Shaw(64, 4).parameters()) == 2 * 9 * 64
    assert sum(p.numel() for p in Shaw(64, 16, num_heads=8).parameters()) == 2 * 8 * 33 * 64


def test_direction_is_seen():
    scheme = make(2)
    p, q = torch.arange(3), draw(1, 1, 3, 6)
    bias = scheme.score_bias(q, q, scheme.per_pair(p, p))
    assert (bias[0, 0, 1, 0] - bias[0, 0, 1, 2]).abs() > 1e-3


def test_clip_0_moves_every_score_of_a_query_alike_and_every_output_by_one_vector():
    scheme = make(0)
    q, k, v = (draw(2, 2, 7, 6) for _ in range(3))
    moved = scores(q, k, scheme) - scores(q, k, NoPosition())
    torch.testing.assert_close(moved, moved[..., :1].expand_as(moved))
    torch.testing.assert_close(attend(q, k, v, scheme), attend(q, k, v, NoPosition()) + scheme.value_table[0])


def test_a_clip_beyond_the_length_changes_nothing():
    short, long = make(6), make(40)
    with torch.no_grad():
        long.key_table[34:47] = short.key_table
        long.value_table[34:47] = short.value_table
    q, k, v = (draw(2, 2, 7, 6) for _ in range(3))
    torch.testing.assert_close(attend(q, k, v, short), attend(q, k, v, long))


def test_rows_of_distances_that_do_not_occur_get_no_gradient():
    scheme = make(8)
    q, k, v = (draw(1, 2, 5, 6) for _ in range(3))
    attend(q, k, v, scheme, causal=True).square().sum().backward()
    for table in (scheme.key_table, scheme.value_table):
        assert (table.grad.abs().sum(-1) > 0).nonzero().flatten().tolist() == [4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    ("make_it", "error", "words"),
    [
        (lambda: Shaw(0, 4), ValueError, "head_dim must be at least 1, got 0"),
        (lambda: Shaw(8, -1), ValueError, "clip must be at least 0, got -1"),
        (lambda: Shaw(8, 2.5), ValueError, "clip must be an integer, got 2.5"),
        (lambda: Shaw(8, "4"), TypeError, "clip must be a number, got '4'"),
        (lambda: Shaw(8, 4, num_heads=0), ValueError, "num_heads must be at least 1, got 0"),
        (lambda: clipped_index(torch.arange(3), -2), ValueError, "clip must be at least 0, got -2"),
        (lambda: clipped_index(torch.ones(3), 2), TypeError, "relative_position must hold integers, got torch.float32"),
        (lambda: clipped_index([1], 2), TypeError, "relative_position must be a tensor of integers, got list"),
        (lambda: attend(*[draw(1, 2, 3, 8)] * 3, make(2)), ValueError, "q must have width head_dim = 6, got 8"),
        (lambda: attend(*[draw(1, 3, 3, 6)] * 3, make(2, num_heads=2)), ValueError, "num_heads = 2 heads, got 3"),
        (lambda: attend(*[draw(1, 1, 3, 6)] * 3, make(2, num_heads=2)), ValueError, "num_heads = 2 heads, got 1"),
    ],
)
def test_refusals_name_the_argument_and_the_value(make_it, error, words):
    with pytest.raises(error, match=words):
        make_it()
