"""Transformer-XL: its terms, its shift, a cached segment, and two implementations that share no code with ours."""

import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from transformers import Wav2Vec2BertConfig
from transformers.models.wav2vec2_bert import modeling_wav2vec2_bert as oracle

from posenc_lib.attention import attend, scores
from posenc_lib.schemes.sinusoidal import Sinusoidal
from posenc_lib.schemes.transformer_xl import TransformerXL, relative_shift, score_terms

SIZES = st.integers(1, 9)


def draw(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype)


def qkv(batch=2, heads=2, n_queries=5, n_keys=7, head_dim=6, dtype=torch.float64):
    return tuple(draw(batch, heads, n, head_dim, dtype=dtype) for n in (n_queries, n_keys, n_keys))


def sinusoid(m, width):
    """R_m, number by number."""
    angles = [m * 10_000 ** (-2 * t / width) for t in range(width // 2)]
    return torch.tensor([f(a) for a in angles for f in (math.sin, math.cos)], dtype=torch.float64)


def loop_scores(scheme, q, k, query_positions, key_positions):
    """Section 3.3 of the paper, pair by pair, in float64."""
    heads, d = scheme.u.shape
    W, u, v = scheme.r_proj.weight.double(), scheme.u.double(), scheme.v.double()
    s = torch.empty(*q.shape[:3], k.shape[2], dtype=torch.float64)
    for b in range(q.shape[0]):
        for h in range(heads):
            for row, i in enumerate(query_positions.tolist()):
                for column, j in enumerate(key_positions.tolist()):
                    r = (W @ sinusoid(i - j, heads * d))[h * d : (h + 1) * d]
                    x, y = q[b, h, row].double(), k[b, h, column].double()
                    s[b, h, row, column] = (x @ y + x @ r + u[h] @ y + v[h] @ r) / math.sqrt(d)
    return s


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "query_positions, key_positions",
    [
        (range(7), range(7)),
        (range(4, 7), range(7)),
        (range(100, 104), range(90, 101)),
        ((3, 50, -2), (9, 0, 1, 1000, 4)),
        ((0,), (0,)),
    ],
)
def test_scores_agree_with_a_loop_from_the_paper(dtype, query_positions, key_positions):
    i, j = torch.tensor(query_positions), torch.tensor(key_positions)
    scheme = TransformerXL(2, 5).to(dtype)
    q, k, _ = qkv(n_queries=len(i), n_keys=len(j), head_dim=5, dtype=dtype)
    s = scores(q, k, scheme, i, j)
    assert s.dtype == dtype
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(s.double(), loop_scores(scheme, q, k, i, j), rtol=0, atol=tolerance)


@pytest.mark.parametrize("causal, padded", [(False, False), (True, False), (False, True), (True, True)])
def test_attend_agrees_with_a_loop(causal, padded):
    scheme = TransformerXL(2, 6).double()
    q, k, v = qkv()
    i, j = torch.arange(2, 7), torch.arange(7)
    padding = torch.zeros(2, 7, dtype=torch.bool)
    padding[1, :2] = padded
    o = attend(q, k, v, scheme, causal, key_padding_mask=padding if padded else None)
    s = loop_scores(scheme, q, k, i, j).detach()
    for b in range(2):
        for h in range(2):
            for row in range(5):
                seen = [c for c in range(7) if not (causal and j[c] > i[row]) and not padding[b, c]]
                weights = [math.exp(s[b, h, row, c]) for c in seen]
                expected = sum(w * v[b, h, c] for w, c in zip(weights, seen, strict=True)) / sum(weights)
                torch.testing.assert_close(o[b, h, row], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-6), (torch.float64, 1e-12)])
@pytest.mark.parametrize("n_queries, n_keys", [(1, 1), (7, 7), (8, 8), (3, 8), (1, 6)])
def test_scores_agree_with_wav2vec2_bert(dtype, tolerance, n_queries, n_keys):
    """That code wants the distances Lk-1, ..., -(Lq-1) and scales the position half itself; otherwise it is ours."""
    heads, d = 2, 6
    scheme = TransformerXL(heads, d).to(dtype)
    q, k, _ = qkv(n_queries=n_queries, n_keys=n_keys, dtype=dtype)
    distances = torch.stack([sinusoid(m, heads * d) for m in range(n_keys - 1, -n_queries, -1)])
    module = SimpleNamespace(
        head_size=d, scaling=d**-0.5, linear_pos=scheme.r_proj, pos_bias_u=scheme.u, pos_bias_v=scheme.v
    )
    with torch.no_grad():
        query, bias = oracle._apply_relative_position_encoding(module, q, k, distances[None].to(dtype))
        theirs = query @ k.mT * d**-0.5 + bias
        ours = scores(q, k, scheme)
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=5 * tolerance)


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


@given(shift=st.integers(-(10**4), 10**4), n_queries=SIZES, n_keys=SIZES)
def test_only_the_distance_matters(shift, n_queries, n_keys):
    scheme = TransformerXL(2, 4).double()
    q, k, _ = qkv(1, 2, n_queries, n_keys, 4)
    i, j = torch.randint(-50, 50, (n_queries,)), torch.randint(-50, 50, (n_keys,))
    torch.testing.assert_close(
        scores(q, k, scheme, i, j), scores(q, k, scheme, i + shift, j + shift), rtol=0, atol=1e-12
    )


def test_the_four_terms_add_up_and_know_what_they_should():
    scheme = TransformerXL(2, 6).double()
    q, k, _ = qkv()
    i, j = torch.arange(2, 7), torch.arange(7)
    a, b, c, d = scheme.terms(q, k, i, j)
    torch.testing.assert_close((a + b + c + d) / math.sqrt(6), scores(q, k, scheme), rtol=0, atol=1e-12)
    assert [t.shape for t in (a, b, c, d)] == [(2, 2, 5, 7), (2, 2, 5, 7), (2, 2, 1, 7), (1, 2, 5, 7)]
    assert torch.equal(d[..., 1:, 1:], d[..., :-1, :-1])  # one number per distance
    other = scheme.terms(draw(*q.shape), draw(*k.shape), i, j)
    assert torch.equal(other[3], d)
    assert torch.equal(scheme.terms(q, draw(*k.shape), i, j)[1], b)
    assert torch.equal(scheme.terms(draw(*q.shape), k, i, j)[2], c)


@given(memory=st.integers(0, 7), length=SIZES)
def test_a_cached_segment_gives_the_output_of_one_long_sequence(memory, length):
    scheme = TransformerXL(2, 4).double()
    q, k, v = qkv(1, 2, memory + length, memory + length, 4)
    whole = attend(q, k, v, scheme, causal=True)
    segment = attend(q[:, :, memory:], k, v, scheme, causal=True)
    torch.testing.assert_close(segment, whole[:, :, memory:], rtol=0, atol=1e-12)


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
    q, k, _ = qkv()
    i, j = torch.arange(2, 7), torch.arange(7)
    torch.testing.assert_close(scores(q, k, scheme, i, j), scores(q, k, mirrored, -i, -j), rtol=0, atol=1e-12)
    assert (scores(q, k, scheme, i, j) - scores(q, k, scheme, -i, -j)).abs().max() > 0.1


def test_every_parameter_gets_the_right_gradient():
    scheme = TransformerXL(2, 3).double()
    q, k, v = (x.requires_grad_() for x in qkv(1, 2, 3, 4, 3))
    names = [name for name, _ in scheme.named_parameters()]
    assert names == ["u", "v", "r_proj.weight"]

    def output(q, k, v, *parameters):
        state = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(_Attend(scheme), {f"scheme.{n}": p for n, p in state.items()}, (q, k, v))

    assert torch.autograd.gradcheck(output, (q, k, v, *scheme.parameters()))


class _Attend(nn.Module):
    def __init__(self, scheme):
        super().__init__()
        self.scheme = scheme

    def forward(self, q, k, v):
        return attend(q, k, v, self.scheme, causal=True)


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


@pytest.mark.parametrize("scheme, heads, head_dim", [((1, 4), 4, 4), ((4, 4), 1, 4), ((2, 4), 3, 4), ((2, 4), 2, 6)])
def test_queries_of_another_shape_are_refused_and_not_stretched(scheme, heads, head_dim):
    q, k, _ = qkv(heads=heads, head_dim=head_dim)
    with pytest.raises(ValueError, match=rf"q must have H = {scheme[0]} and d = {scheme[1]}, got \(2, {heads}, 5"):
        scores(q, k, TransformerXL(*scheme).double())


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
