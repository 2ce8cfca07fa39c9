"""XLNet: what each order lets a token see, through layers too; the score, the segments, and transformers."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import XLNetConfig
from transformers.models.xlnet import modeling_xlnet as oracle

from loops import draw
from posenc_lib.attention import attend, scores
from posenc_lib.schemes.transformer_xl import TransformerXL
from posenc_lib.schemes.xlnet import XLNet, permutation_mask

ORDERS = st.integers(1, 9).flatmap(lambda n: st.permutations(range(n)))


def qkv(batch=2, heads=2, n_queries=5, n_keys=7, head_dim=6, dtype=torch.float64):
    return tuple(draw(batch, heads, n, head_dim, dtype=dtype) for n in (n_queries, n_keys, n_keys))


@given(order=ORDERS)
def test_the_mask_is_what_the_order_says(order):
    query, content = (permutation_mask(torch.tensor(order), include_self) for include_self in (False, True))
    for step, i in enumerate(order):
        assert query[i].nonzero().flatten().tolist() == sorted(order[:step])
        assert content[i].nonzero().flatten().tolist() == sorted(order[: step + 1])


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_left_to_right_is_the_causal_mask(dtype):
    order, full = torch.arange(6, dtype=dtype), torch.ones(6, 6, dtype=torch.bool)
    assert torch.equal(permutation_mask(order, include_self=True), full.tril())
    assert torch.equal(permutation_mask(order), full.tril(-1))
    assert torch.equal(permutation_mask(order.flip(0)), full.triu(1))


def test_over_all_orders_a_token_is_predicted_from_every_set_of_others_equally_often_per_size():
    contexts = [tuple(permutation_mask(torch.tensor(o))[1].tolist()) for o in itertools.permutations(range(4))]
    assert len(set(contexts)) == 2**3
    sizes = [sum(c) for c in contexts]
    assert [sizes.count(n) for n in range(4)] == [6, 6, 6, 6]


def streams(x, order, scheme, weights):
    """Outputs of the content and the query stream after as many layers as there are weights."""
    h, g = x, x.new_ones(x.shape)
    see = [permutation_mask(order, include_self) for include_self in (True, False)]
    for W in weights:
        k, v = (h @ W[1])[:, None], (h @ W[2])[:, None]
        new = [s + attend((s @ W[0])[:, None], k, v, scheme, mask=m)[:, 0] for s, m in zip((h, g), see, strict=True)]
        h, g = new
    return h, g


@given(order=st.integers(2, 7).flatmap(lambda n: st.permutations(range(n))))
def test_each_token_notices_exactly_what_its_order_allows(order):
    order, weights = torch.tensor(order), draw(2, 3, 4, 4)
    scheme, x = XLNet(1, 4).double(), draw(1, len(order), 4)
    before = streams(x, order, scheme, weights)
    noticed = torch.zeros(2, len(order), len(order), dtype=torch.bool)
    for j in range(len(order)):
        changed = x.clone()
        changed[:, j] += 1
        after = streams(changed, order, scheme, weights)
        noticed[:, :, j] = torch.stack([(a - b).abs().amax(-1)[0] > 1e-12 for a, b in zip(after, before, strict=True)])
    assert torch.equal(noticed[0], permutation_mask(order, include_self=True))
    assert torch.equal(noticed[1], permutation_mask(order))


def test_without_segments_the_score_is_that_of_transformer_xl():
    scheme, older = XLNet(2, 6).double(), TransformerXL(2, 6).double()
    older.load_state_dict(scheme.state_dict(), strict=False)
    q, k, _ = qkv()
    assert torch.equal(scores(q, k, scheme), scores(q, k, older))


def loop_bias(scheme, q, query_segments, key_segments):
    d = scheme.segment_query.shape[1]
    bias = torch.empty(*q.shape[:3], len(key_segments), dtype=torch.float64)
    for b, h, i, j in itertools.product(*map(range, bias.shape)):
        e = scheme.segment_table[0 if query_segments[i] == key_segments[j] else 1, h].double()
        bias[b, h, i, j] = (q[b, h, i].double() + scheme.segment_query[h].double()) @ e / math.sqrt(d)
    return bias


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_segment_bias_agrees_with_a_loop_and_knows_no_names(dtype):
    scheme = XLNet(2, 6).to(dtype)
    q = draw(2, 2, 5, 6, dtype=dtype)
    mine, keys = torch.tensor([0, 0, 1, 1, 2]), torch.tensor([0, 0, 0, 1, 1, 2, 7])
    bias = scheme.segment_bias(q, mine, keys)
    assert bias.dtype == dtype
    tolerance = 1e-12 if dtype == torch.float64 else 1e-6
    torch.testing.assert_close(bias.double(), loop_bias(scheme, q, mine, keys), rtol=0, atol=tolerance)
    assert torch.equal(bias, scheme.segment_bias(q, 5 - mine, 5 - keys))


def their_attention(heads, d, dtype, scheme, attn_type="bi"):
    """transformers' layer with the parameters of ours; its sinusoid has all sines first, so W_R's columns move."""
    config = XLNetConfig(d_model=heads * d, n_head=heads, n_layer=1, d_inner=8, vocab_size=9, attn_type=attn_type)
    layer, model = oracle.XLNetRelativeAttention(config).to(dtype).eval(), oracle.XLNetModel(config).eval()
    W = scheme.r_proj.weight
    with torch.no_grad():
        for parameter in (layer.q, layer.k, layer.v, layer.o):
            parameter.copy_(draw(*parameter.shape, dtype=dtype) / heads / d)
        layer.r.copy_(torch.cat([W[:, 0::2], W[:, 1::2]], dim=1).T.unflatten(-1, (heads, d)))
        layer.r_w_bias.copy_(scheme.u)
        layer.r_r_bias.copy_(scheme.v)
        layer.r_s_bias.copy_(scheme.segment_query)
        layer.seg_embed.copy_(scheme.segment_table)
    return layer, model


@torch.no_grad()
@pytest.mark.parametrize("n_queries, n_keys", [(7, 7), (3, 8), (1, 5)])
@pytest.mark.parametrize("with_segments", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_agrees_with_rel_attn_core(n_queries, n_keys, with_segments, masked):
    scheme, dtype = XLNet(2, 6).double(), torch.float64
    q, k, v = qkv(n_queries=n_queries, n_keys=n_keys)
    layer, model = their_attention(2, 6, dtype, scheme)
    segments = torch.randint(2, (n_keys,))
    differs = segments != segments[n_keys - n_queries :, None]
    seg_mat = torch.nn.functional.one_hot(differs.long(), 2)[:, :, None].expand(-1, -1, 2, -1).to(dtype)
    visible = permutation_mask(torch.randperm(n_keys), include_self=True)[n_keys - n_queries :]
    r = model.relative_positional_encoding(n_queries, n_keys, bsz=2).to(dtype)
    theirs, probabilities = layer.rel_attn_core(
        *(x.permute(2, 0, 1, 3) for x in (q, k, v)),
        torch.einsum("ibh,hnd->ibnd", r, layer.r),
        seg_mat=seg_mat if with_segments else None,
        attn_mask=(~visible)[:, :, None, None].expand(-1, -1, 2, -1).to(dtype) if masked else None,
        output_attentions=True,
    )
    s = scores(q, k, scheme)
    if with_segments:
        s = s + scheme.segment_bias(q, segments[n_keys - n_queries :], segments)
    if masked:
        s = s.masked_fill(~visible, -torch.inf)
    # their sinusoid is computed in float32 whatever the dtype
    torch.testing.assert_close(s.softmax(-1), probabilities.permute(2, 3, 0, 1), rtol=0, atol=2e-6)
    torch.testing.assert_close(s.softmax(-1) @ v, theirs.permute(1, 2, 0, 3), rtol=0, atol=5e-6)
    if not with_segments:
        ours = attend(q, k, v, scheme, mask=visible if masked else None)
        torch.testing.assert_close(ours, theirs.permute(1, 2, 0, 3), rtol=0, atol=5e-6)


@torch.no_grad()
def test_two_streams_agree_with_the_layer_of_transformers():
    heads, d, length = 2, 6, 7
    scheme, order = XLNet(heads, d), torch.tensor([3, 0, 6, 1, 5, 2, 4])
    layer, model = their_attention(heads, d, torch.float32, scheme)
    h, g = draw(2, 2, length, heads * d, dtype=torch.float32)
    hidden = [(~permutation_mask(order, s)).float()[:, :, None, None].expand(-1, -1, 2, -1) for s in (True, False)]
    r = model.relative_positional_encoding(length, length, bsz=2)
    theirs = layer(h.transpose(0, 1), g.transpose(0, 1), *hidden, r, seg_mat=None)
    for x, include_self, their in zip((h, g), (True, False), theirs, strict=False):
        q, k, v = (torch.einsum("bih,hnd->bnid", y, w) for y, w in ((x, layer.q), (h, layer.k), (h, layer.v)))
        o = attend(q, k, v, scheme, mask=permutation_mask(order, include_self))
        ours = layer.post_attention(x.transpose(0, 1), o.permute(2, 0, 1, 3)).transpose(0, 1)
        rows = torch.arange(length) if include_self else order[1:]  # the first of the order: see the next test
        torch.testing.assert_close(ours[:, rows], their.transpose(0, 1)[:, rows], rtol=1e-5, atol=5e-6)


@torch.no_grad()
def test_a_token_that_sees_nothing_gets_zeros_here_and_the_mean_of_all_values_there():
    scheme, order = XLNet(2, 6), torch.tensor([2, 0, 1])
    q, k, v = qkv(n_queries=3, n_keys=3, dtype=torch.float32)
    layer, model = their_attention(2, 6, torch.float32, scheme)
    visible = permutation_mask(order)
    theirs = layer.rel_attn_core(
        *(x.permute(2, 0, 1, 3) for x in (q, k, v)),
        torch.einsum("ibh,hnd->ibnd", model.relative_positional_encoding(3, 3, bsz=2), layer.r),
        attn_mask=(~visible)[:, :, None, None].expand(-1, -1, 2, -1).float(),
    ).permute(1, 2, 0, 3)
    ours = attend(q, k, v, scheme, mask=visible)
    assert torch.equal(ours[:, :, 2], torch.zeros(2, 2, 6))
    torch.testing.assert_close(theirs[:, :, 2], v.mean(2))
    torch.testing.assert_close(ours[:, :, :2], theirs[:, :, :2], rtol=0, atol=5e-6)


@pytest.mark.parametrize("attn_type", ["bi", "uni"])
def test_their_distances_are_ours_in_another_order_of_columns(attn_type):
    _, model = their_attention(2, 6, torch.float32, XLNet(2, 6), attn_type)
    table = model.relative_positional_encoding(4, 9)[:, 0]
    distances = range(9, -4 if attn_type == "bi" else -1, -1)
    assert len(table) == len(distances)
    for row, m in zip(table, distances, strict=True):
        angles = [m * 10_000 ** (-2 * t / 12) for t in range(6)]
        expected = torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles])
        torch.testing.assert_close(row, expected, rtol=0, atol=2e-6)


def test_the_segment_parameters_get_gradients():
    """attend does not ask for segments, so that no other test sees these gradients."""
    scheme, q = XLNet(2, 3).double(), draw(1, 2, 4, 3)
    segments = torch.tensor([0, 0, 1, 1])

    def bias(q, b, table):
        scheme._parameters.update(segment_query=b, segment_table=table)
        return scheme.segment_bias(q, segments, segments)

    assert torch.autograd.gradcheck(bias, (q.requires_grad_(), scheme.segment_query, scheme.segment_table))


def test_parameters_are_counted_as_in_the_notebook():
    assert sum(p.numel() for p in XLNet(8, 64).parameters()) == 512 * 512 + 2 * 512 + 3 * 512


@pytest.mark.parametrize(
    "order, include_self, error, words",
    [
        ([1, 0], False, TypeError, ["order", "list"]),
        (torch.tensor([0.0, 1.0]), False, TypeError, ["order", "float32"]),
        (torch.tensor([[0, 1]]), False, ValueError, ["order", "(1, 2)"]),
        (torch.tensor([0, 2]), False, ValueError, ["order", "0..1", "[0, 2]"]),
        (torch.tensor([1, 1, 0]), False, ValueError, ["order", "[1, 1, 0]"]),
        (torch.tensor([-1, 0]), False, ValueError, ["order", "[-1, 0]"]),
        (torch.tensor([1, 0]), "yes", TypeError, ["include_self", "'yes'"]),
    ],
)
def test_an_order_that_makes_no_sense_is_refused(order, include_self, error, words):
    with pytest.raises(error) as refusal:
        permutation_mask(order, include_self)
    assert all(word in str(refusal.value) for word in words)


@pytest.mark.parametrize(
    "q, query_segments, key_segments, error, name",
    [
        (torch.zeros(1, 1, 3, 4), torch.arange(3), torch.arange(5), ValueError, "q"),
        (torch.zeros(1, 2, 3, 6), torch.arange(3), torch.arange(5), ValueError, "q"),
        (None, torch.arange(3), torch.arange(5), TypeError, "q"),
        (torch.zeros(1, 2, 3, 4), torch.arange(4), torch.arange(5), ValueError, "query_segments"),
        (torch.zeros(1, 2, 3, 4), [0, 0, 1], torch.arange(5), TypeError, "query_segments"),
        (torch.zeros(1, 2, 3, 4), torch.arange(3), torch.zeros(5), TypeError, "key_segments"),
        (torch.zeros(1, 2, 3, 4), torch.arange(3), torch.zeros(1, 5, dtype=torch.int64), ValueError, "key_segments"),
    ],
)
def test_segments_that_make_no_sense_are_refused(q, query_segments, key_segments, error, name):
    with pytest.raises(error, match=rf"^{name} must"):
        XLNet(2, 4).segment_bias(q, query_segments, key_segments)
