"""Transformer-XL: loops from the paper, its terms, its shift, and an implementation that shares no code with ours."""

import math
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import Wav2Vec2BertConfig
from transformers.models.wav2vec2_bert import modeling_wav2vec2_bert as oracle

from loops import POSITIONS, assert_formula, assert_formula_under_a_causal_mask, assert_terms_of_each_text, draw
from posenc_lib.attention import attend, scores
from posenc_lib.schemes.sinusoidal import Sinusoidal
from posenc_lib.schemes.transformer_xl import TransformerXL, relative_shift, score_terms

SIZES = st.integers(1, 9)


def qk(batch=2, heads=2, n_queries=5, n_keys=7, head_dim=6):
    return tuple(draw(batch, heads, n, head_dim) for n in (n_queries, n_keys))


def sinusoid(m, width):
    """R_m, number by number."""
    angles = [m * 10_000 ** (-2 * t / width) for t in range(width // 2)]
    return torch.tensor([f(a) for a in angles for f in (math.sin, math.cos)], dtype=torch.float64)


def loop_scores(q, k, query_positions, key_positions, scheme):
    """Section 3.3 of the paper, pair by pair, in float64."""
    heads, d = scheme.u.shape
    W, u, v = scheme.r_proj.weight, scheme.u, scheme.v
    s = torch.empty(*q.shape[:3], k.shape[2], dtype=torch.float64)
    for h in range(heads):
        for row, i in enumerate(query_positions.tolist()):
            for column, j in enumerate(key_positions.tolist()):
                r = (W @ sinusoid(i - j, heads * d))[h * d : (h + 1) * d]
                for b in range(q.shape[0]):
                    x, y = q[b, h, row], k[b, h, column]
                    s[b, h, row, column] = (x @ y + x @ r + u[h] @ y + v[h] @ r) / math.sqrt(d)
    return s


@pytest.mark.parametrize("name", POSITIONS)
def test_scores_and_outputs_are_those_of_the_paper(name):
    scheme = TransformerXL(2, 5).double()
    assert_formula(scheme, partial(loop_scores, scheme=scheme), 2, 5, POSITIONS[name])


@pytest.mark.parametrize("padded", [False, True])
def test_outputs_under_a_causal_mask(padded):
    scheme = TransformerXL(2, 4).double()
    assert_formula_under_a_causal_mask(scheme, partial(loop_scores, scheme=scheme), 2, 6, padded)


@pytest.mark.parametrize("n_queries, n_keys", [(1, 1), (7, 7), (8, 8), (3, 8), (1, 6)])
def test_scores_agree_with_wav2vec2_bert(n_queries, n_keys):
    """That code wants the distances Lk-1, ..., -(Lq-1) and scales the position half itself; otherwise it is ours."""
    heads, d = 2, 6
    scheme = TransformerXL(heads, d).double()
    q, k = qk(n_queries=n_queries, n_keys=n_keys)
    distances = torch.stack([sinusoid(m, heads * d) for m in range(n_keys - 1, -n_queries, -1)])
    module = SimpleNamespace(
        head_size=d, scaling=d**-0.5, linear_pos=scheme.r_proj, pos_bias_u=scheme.u, pos_bias_v=scheme.v
    )
    with torch.no_grad():
        query, bias = oracle._apply_relative_position_encoding(module, q, k, distances[None])
        theirs = query @ k.mT * d**-0.5 + bias
        ours = scores(q, k, scheme)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("length", [1, 6, 9])
def test_attention_agrees_with_the_layer_of_wav2vec2_bert(length):
    config = Wav2Vec2BertConfig(hidden_size=12, num_attention_heads=3, position_embeddings_type="relative")
    config._attn_implementation = "eager"
    layer, x = oracle.Wav2Vec2BertSelfAttention(config).eval(), draw(2, length, 12, dtype=torch.float32)
    scheme = TransformerXL(3, 4)
    with torch.no_grad():
        layer.pos_bias_u.copy_(scheme.u)
        layer.pos_bias_v.copy_(scheme.v)
        layer.linear_pos.weight.copy_(scheme.r_proj.weight)
        theirs, _ = layer(x, relative_position_embeddings=oracle.Wav2Vec2BertRelPositionalEmbedding(config)(x))
        q, k, v = (f(x).unflatten(-1, (3, 4)).transpose(1, 2) for f in (layer.linear_q, layer.linear_k, layer.linear_v))
        ours = layer.linear_out(attend(q, k, v, scheme).transpose(1, 2).flatten(-2))
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@given(rows=SIZES, more=st.integers(0, 6))
def test_relative_shift_is_a_gather_up_to_the_query_and_nothing_beyond(rows, more):
    columns = rows + more
    logits = draw(2, rows, columns)
    shifted = relative_shift(logits)
    assert shifted.shape == logits.shape
    for i in range(rows):
        place = more + i  # of the query
        for j in range(columns):
            if j <= place:
                expected = logits[:, i, columns - 1 - (place - j)]
            elif j == place + 1:
                expected = torch.zeros(2, dtype=torch.float64)
            else:
                expected = logits[:, i + 1, j - place - 2]
            assert torch.equal(shifted[:, i, j], expected)


@given(n_queries=SIZES, more=st.integers(0, 6))
def test_relative_shift_leaves_no_rest_when_given_every_distance(n_queries, more):
    n_keys = n_queries + more
    distances = torch.arange(n_keys - 1, -n_queries, -1)
    shifted = relative_shift(distances.expand(n_queries, -1))[:, :n_keys]
    i, j = torch.arange(more, n_keys), torch.arange(n_keys)
    assert torch.equal(shifted, i[:, None] - j)


def test_the_four_terms_add_up_and_know_what_they_should():
    scheme = TransformerXL(2, 6).double()
    q, k = qk()
    i, j = torch.arange(2, 7), torch.arange(7)
    a, b, c, d = scheme.terms(q, k, i, j)
    torch.testing.assert_close((a + b + c + d) / math.sqrt(6), scores(q, k, scheme), rtol=0, atol=1e-12)
    assert [t.shape for t in (a, b, c, d)] == [(2, 2, 5, 7), (2, 2, 5, 7), (2, 2, 1, 7), (1, 2, 5, 7)]
    assert torch.equal(d[..., 1:, 1:], d[..., :-1, :-1])  # one number per distance
    other = scheme.terms(draw(*q.shape), draw(*k.shape), i, j)
    assert torch.equal(other[3], d)
    assert torch.equal(scheme.terms(q, draw(*k.shape), i, j)[1], b)
    assert torch.equal(scheme.terms(draw(*q.shape), k, i, j)[2], c)


def test_terms_at_positions_of_their_own_for_every_text():
    assert_terms_of_each_text(TransformerXL(2, 6).double(), *qk(n_queries=3, n_keys=4))


def test_absolute_positions_that_restart_break_the_cache():
    scheme, x = Sinusoidal(8), draw(1, 6, 8)
    whole = scheme.embed(x, torch.arange(6))
    restarted = torch.cat([scheme.embed(x[:, :3], torch.arange(3)), scheme.embed(x[:, 3:], torch.arange(3))], 1)
    o = [attend(y[:, None, 3:], y[:, None], y[:, None], scheme, causal=True) for y in (whole, restarted)]
    assert (o[0] - o[1]).abs().max() > 0.1


def test_the_sign_of_the_distance_is_absorbed_by_the_projection():
    scheme, mirrored = TransformerXL(2, 6).double(), TransformerXL(2, 6).double()
    mirrored.load_state_dict(scheme.state_dict())
    with torch.no_grad():
        mirrored.r_proj.weight[:, 0::2] *= -1  # the sines
    q, k = qk()
    i, j = torch.arange(2, 7), torch.arange(7)
    torch.testing.assert_close(scores(q, k, scheme, i, j), scores(q, k, mirrored, -i, -j), rtol=0, atol=1e-12)
    assert (scores(q, k, scheme, i, j) - scores(q, k, scheme, -i, -j)).abs().max() > 0.1


def test_parameters_are_counted_as_in_the_notebook():
    assert sum(p.numel() for p in TransformerXL(8, 64).parameters()) == 512 * 512 + 2 * 512


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        ((0, 4), ValueError, ["num_heads", "0"]),
        ((2, -1), ValueError, ["head_dim", "-1"]),
        ((2, 4.5), ValueError, ["head_dim", "4.5"]),
        ((3, 5), ValueError, ["num_heads", "head_dim", "15", "even"]),
        (("2", 4), TypeError, ["num_heads", "'2'"]),
        ((2, None), TypeError, ["head_dim", "None"]),
    ],
)
def test_a_scheme_that_makes_no_sense_is_refused(arguments, error, words):
    with pytest.raises(error) as refusal:
        TransformerXL(*arguments)
    assert all(word in str(refusal.value) for word in words)


@pytest.mark.parametrize(
    "logits, error, words",
    [
        ([[1.0]], TypeError, ["logits", "list"]),
        (torch.zeros(3), ValueError, ["logits", "(3,)"]),
        (torch.zeros(4, 3), ValueError, ["logits", "(4, 3)"]),
    ],
)
def test_logits_that_make_no_sense_are_refused(logits, error, words):
    with pytest.raises(error) as refusal:
        relative_shift(logits)
    assert all(word in str(refusal.value) for word in words)


@pytest.mark.parametrize(
    "scheme, heads, head_dim, words",
    [
        ((1, 4), 4, 4, "num_heads = 1 heads, got 4"),
        ((4, 4), 1, 4, "num_heads = 4 heads, got 1"),
        ((2, 4), 2, 6, "width head_dim = 4, got 6"),
    ],
)
def test_queries_of_another_shape_are_refused_and_not_stretched(scheme, heads, head_dim, words):
    q, k = qk(heads=heads, head_dim=head_dim)
    scheme, p = TransformerXL(*scheme).double(), torch.arange(7)
    with pytest.raises(ValueError, match=f"q must have {words}"):
        scores(q, k, scheme)
    with pytest.raises(ValueError, match=f"q must have {words}"):
        scheme.terms(q, k, p[2:], p)


@pytest.mark.parametrize(
    "name, value, error",
    [
        ("q", None, TypeError),
        ("k", torch.zeros(3, 4), ValueError),
        ("r", torch.zeros(1, 11, 4), ValueError),
        ("u", torch.zeros(4), ValueError),
        ("v", torch.zeros(2, 5), ValueError),
        ("index", torch.zeros(3, 4), TypeError),
        ("index", torch.zeros(4, 3, dtype=torch.int64), ValueError),
    ],
)
def test_terms_of_shapes_that_do_not_fit_are_refused(name, value, error):
    arguments = {
        "q": torch.zeros(1, 2, 3, 4),
        "k": torch.zeros(1, 2, 4, 4),
        "r": torch.zeros(2, 6, 4),
        "u": torch.zeros(2, 4),
        "v": torch.zeros(2, 4),
        "index": torch.zeros(3, 4, dtype=torch.int64),
    }
    with pytest.raises(error, match=f"{name} must"):
        score_terms(**arguments | {name: value})
