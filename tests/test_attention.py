"""The one attention against a plain loop over the formula, against torch's own, and its refusals."""

import itertools
import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward

from posenc_lib.attention import attend, scores, weights
from posenc_lib.lab.model import TinyTransformer
from posenc_lib.scheme import DistanceBias, PositionScheme
from posenc_lib.schemes.alibi import Alibi
from posenc_lib.schemes.none import NoPosition
from posenc_lib.schemes.rope import Rotary
from posenc_lib.schemes.shaw import Shaw

SCALE = 0.3


class Everything(PositionScheme):
    """A made-up scheme with something at all four places and a scale of its own; v_j + sin(j - i) (1, 2, ..., d)."""

    def embed(self, x, positions):
        return x + positions.to(x)[:, None] / 50

    def transform(self, x, token):
        return x * token.to(x).cos()[..., None]

    def score_bias(self, q, k, pair):
        return q[..., 0, None] * k[..., None, :, 1] * pair.to(q).sin()

    def value_bias(self, weights, pair):
        return (weights * pair.to(weights).sin()).sum(-1, keepdim=True) * torch.arange(1, 5).to(weights)

    def scale(self, head_dim):
        return SCALE


class Fused(PositionScheme):
    """The same without the last place, and says so."""

    places = ("input", "query and key", "score")
    embed, transform, score_bias, scale = (
        Everything.embed,
        Everything.transform,
        Everything.score_bias,
        Everything.scale,
    )


class EmptyValueBias(Fused):
    """The same formula as ``Fused``, but by the path that keeps the weights."""

    places = ("input", "query and key", "score", "value")

    def value_bias(self, weights, pair):
        return None


class Distance(DistanceBias):
    """Place 3 with a number that depends on the head and on j - i only."""

    places = ("input", "query and key", "score")
    embed, transform, scale = Everything.embed, Everything.transform, Everything.scale

    def distance_bias(self, relative_position):
        r = relative_position.double()
        return torch.stack([r.sin(), r / 10])


class DistanceByPairs(Distance):
    """The same formula as ``Distance``, but with one number per pair of tokens."""

    by_distance = False


def bias_of_content(head, q_i, k_j, r):
    return q_i[0] * k_j[1] * math.sin(r)


def bias_of_distance(head, q_i, k_j, r):
    return (math.sin(r), r / 10)[head]


def loop(q, k, v, query_positions, key_positions, hidden, bias=bias_of_content, place_4=False):
    """The formula at the top of scheme.py, one number at a time; returns scores and outputs.

    Query number a of batch b does not see key number e if ``hidden(b, a, e)``.
    """
    (B, H, Lq, d), Lk = q.shape, k.shape[2]
    s_all, o_all = torch.zeros(B, H, Lq, Lk, dtype=torch.float64), torch.zeros(B, H, Lq, d, dtype=torch.float64)
    q, k, v = q.tolist(), k.tolist(), v.tolist()
    for b, h, a in itertools.product(range(B), range(H), range(Lq)):
        i, seen = query_positions[a], []
        q_i = [math.cos(i) * c for c in q[b][h][a]]
        for e, j in enumerate(key_positions):
            k_j = [math.cos(j) * c for c in k[b][h][e]]
            s = SCALE * sum(x * y for x, y in zip(q_i, k_j, strict=True)) + bias(h, q_i, k_j, j - i)
            s_all[b, h, a, e] = s
            if not hidden(b, a, e):
                seen.append((e, j, s))
        total = sum(math.exp(s) for _, _, s in seen)
        for e, j, s in seen:
            for c in range(d):
                moved = math.sin(j - i) * (c + 1) if place_4 else 0.0
                o_all[b, h, a, c] += math.exp(s) / total * (v[b][h][e][c] + moved)
    return s_all, o_all


POSITIONS = {  # query and key positions; None is the default
    "default": (None, None, 5, 5),
    "cache": (None, None, 2, 5),
    "shifted keys": (None, [100, 101, 102, 103, 104], 3, 5),
    "scattered": ([7, 0, 31], [3, 31, 0, 12, -4], 3, 5),
    "more queries than keys": ([0, 1, 2, 3], [1, 2], 4, 2),
}
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 0.05}
MASKS = list(itertools.product([False, True], repeat=3))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("causal, padded, masked", MASKS, ids=lambda on: "yes" if on else "no")
@pytest.mark.parametrize("place", POSITIONS)
def test_agrees_with_the_formula_in_a_loop(place, causal, padded, masked, dtype, device):
    query_positions, key_positions, Lq, Lk = POSITIONS[place]
    q, k, v = (torch.randn(2, 2, n, 4, dtype=torch.float64).to(device, dtype) for n in (Lq, Lk, Lk))
    padding = torch.tensor([[True, False, False, True, False], [False, False, True, False, True]])[:, :Lk].to(device)
    mask = (torch.arange(Lq)[:, None] + torch.arange(Lk)).remainder(3).bool().to(device)
    chosen = {
        "query_positions": None if query_positions is None else torch.tensor(query_positions),
        "key_positions": None if key_positions is None else torch.tensor(key_positions),
    }
    masks = {"causal": causal, "key_padding_mask": padding if padded else None, "mask": mask if masked else None}
    key_list = key_positions or list(range(Lk))
    query_list = query_positions or key_list[Lk - Lq :]
    near = {"atol": TOLERANCE[dtype], "rtol": TOLERANCE[dtype], "check_dtype": False, "check_device": False}

    def hidden(b, a, e):
        future = key_list[e] > query_list[a]
        return (causal and future) or (padded and padding[b, e].item()) or (masked and not mask[a, e].item())

    for schemes, bias, place_4 in (
        ([Everything()], bias_of_content, True),
        ([Fused(), EmptyValueBias()], bias_of_content, False),
        ([Distance(), DistanceByPairs()], bias_of_distance, False),
    ):
        s, o = loop(q, k, v, query_list, key_list, hidden, bias, place_4)
        for scheme in schemes:
            result = attend(q, k, v, scheme, **chosen, **masks)
            assert (result.dtype, result.device) == (q.dtype, q.device)
            torch.testing.assert_close(result, o, **near)
            torch.testing.assert_close(scores(q, k, scheme, **chosen), s, **near)


def test_all_four_places_in_one_layer():
    x, p, scheme = torch.randn(1, 4, 4, dtype=torch.float64), [5, 9, 2, 30], Everything()
    y = scheme.embed(x, torch.tensor(p))[:, None]
    rows = [[c + i / 50 for c in row] for row, i in zip(x[0].tolist(), p, strict=True)]
    by_hand = torch.tensor([[rows]], dtype=torch.float64)
    _, expected = loop(by_hand, by_hand, by_hand, p, p, hidden=lambda b, a, e: False, place_4=True)
    result = attend(y, y, y, scheme, query_positions=torch.tensor(p), key_positions=torch.tensor(p))
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)


class OnlyDistance(DistanceBias):
    places = ("query and key", "score")
    distance_bias = Distance.distance_bias


class OnlyValues(PositionScheme):
    value_bias = Everything.value_bias


class Sided:
    """Place 2 with something else for queries than for keys, to be put before another scheme."""

    def transform_query(self, q, token):
        return q * token.to(q).cos()[..., None]

    def transform_key(self, k, token):
        return k + token.to(k)[..., None] / 10


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("place", POSITIONS)
@pytest.mark.parametrize("beside", [PositionScheme, OnlyDistance, OnlyValues])
def test_queries_and_keys_may_be_transformed_differently(beside, place, causal):
    """On every path of ``attend``: with nothing else, with a bias that is read through a view, with a value bias."""

    class Scheme(Sided, beside):
        places = beside.places

    query_positions, key_positions, Lq, Lk = POSITIONS[place]
    key_positions = torch.tensor(key_positions or range(Lk))
    query_positions = key_positions[Lk - Lq :] if query_positions is None else torch.tensor(query_positions)
    q, k, v = (torch.randn(2, 2, n, 4, dtype=torch.float64) for n in (Lq, Lk, Lk))
    moved_q, moved_k = q * query_positions.double().cos()[:, None], k + key_positions.double()[:, None] / 10
    places = query_positions, key_positions
    torch.testing.assert_close(scores(q, k, Scheme(), *places), scores(moved_q, moved_k, beside(), *places))
    o, expected = attend(q, k, v, Scheme(), causal, *places), attend(moved_q, moved_k, v, beside(), causal, *places)
    torch.testing.assert_close(o, expected)


@pytest.fixture
def kernel_masks(monkeypatch):
    """The masks that torch's fused kernel is given, one per call."""
    masks, kernel = [], F.scaled_dot_product_attention

    def spy(*args, attn_mask=None, **options):
        masks.append(attn_mask)
        return kernel(*args, attn_mask=attn_mask, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    return masks


def test_only_a_value_bias_leaves_the_fused_kernel(kernel_masks):
    q = torch.randn(1, 2, 3, 4)
    for scheme, expected in (
        (NoPosition(), 1),
        (Fused(), 1),
        (Distance(), 1),
        (EmptyValueBias(), 0),
        (Everything(), 0),
    ):
        kernel_masks.clear()
        attend(q, q, q, scheme)
        assert len(kernel_masks) == expected, type(scheme).__name__


@pytest.mark.parametrize("causal", [False, True])
def test_a_bias_of_distance_is_stored_once_per_distance(kernel_masks, causal):
    q, k = torch.randn(1, 2, 30, 4), torch.randn(1, 2, 50, 4)
    attend(q, k, k, Distance(), causal=causal)
    assert kernel_masks[0].untyped_storage().nbytes() == 4 * 2 * (30 + 50 - 1)
    attend(q, k, k, DistanceByPairs(), causal=causal)
    assert kernel_masks[1].untyped_storage().nbytes() == 4 * 2 * 30 * 50


def test_the_lab_takes_every_fast_route(kernel_masks):
    """Torch's causal mask where nothing is added, a view where a distance decides, a mask where texts are padded."""
    tokens = torch.zeros(2, 30, dtype=torch.int64)
    for scheme in (NoPosition(), Rotary(16)):
        TinyTransformer(scheme, vocabulary=2)(tokens)
    assert kernel_masks == [None] * 4
    kernel_masks.clear()
    model = TinyTransformer(Alibi(4), vocabulary=2)
    model(tokens)
    assert [mask.untyped_storage().nbytes() for mask in kernel_masks] == [4 * 4 * 59] * 2
    kernel_masks.clear()
    model(tokens, key_padding_mask=tokens.bool())
    assert [mask.shape for mask in kernel_masks] == [(2, 4, 30, 30)] * 2


def test_gradient_of_a_bias_of_distance():
    q, k = torch.randn(1, 2, 3, 4, dtype=torch.float64), torch.randn(1, 2, 5, 4, dtype=torch.float64)
    scheme = Distance()

    def output(slope):
        scheme.distance_bias = lambda relative_position: slope[:, None] * relative_position
        return attend(q, k, k, scheme, causal=True)

    assert torch.autograd.gradcheck(output, torch.randn(2, dtype=torch.float64, requires_grad=True))


@pytest.mark.parametrize("shape", [(), (5,), (3, 1), (2, 1, 1), (2, 3, 5), (2, 1, 3, 5), (1, 1, 1, 1)], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_a_bias_may_have_any_shape_that_broadcasts(shape, causal):
    bias = torch.randn(shape, dtype=torch.float64)
    scheme = PositionScheme()
    scheme.score_bias = lambda *args: bias
    q, k, v = (torch.randn(2, 2, n, 4, dtype=torch.float64) for n in (3, 5, 5))
    s = q @ k.mT / 2 + bias
    if causal:
        s[..., torch.ones(3, 5, dtype=torch.bool).triu(3)] = -torch.inf
    torch.testing.assert_close(attend(q, k, v, scheme, causal=causal), s.softmax(-1) @ v, rtol=0, atol=1e-13)


sizes = st.integers(1, 9)


@given(B=st.integers(1, 3), H=st.integers(1, 3), Lq=sizes, Lk=sizes, d=st.integers(1, 8))
def test_no_position_is_scaled_dot_product_attention(B, H, Lq, Lk, d):
    q, k, v = (torch.randn(B, H, n, d, dtype=torch.float64) for n in (Lq, Lk, Lk))
    p = torch.arange(Lq)
    result = attend(q, k, v, NoPosition(), query_positions=p)
    torch.testing.assert_close(result, F.scaled_dot_product_attention(q, k, v), rtol=0, atol=1e-13)
    by_formula = (q @ k.mT / math.sqrt(d)).softmax(-1) @ v
    torch.testing.assert_close(result, by_formula, rtol=0, atol=1e-13)


def split(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def self_attention(x, module, scheme, **masks):
    """A torch.nn.MultiheadAttention whose attention itself is ``attend``."""
    q, k, v = F.linear(x, module.in_proj_weight, module.in_proj_bias).chunk(3, dim=-1)
    o = attend(*(split(y, module.num_heads) for y in (q, k, v)), scheme, **masks)
    return module.out_proj(o.transpose(1, 2).flatten(-2))


PADDING = torch.tensor([[False] * 7, [False] * 5 + [True] * 2])


@pytest.mark.parametrize("padding", [None, PADDING], ids=["whole", "padded"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype, near", [(torch.float64, 1e-12), (torch.float32, 2e-6)], ids=str)
def test_no_position_is_torch_multihead_attention(dtype, near, causal, padding, device):
    module = nn.MultiheadAttention(12, 3, batch_first=True, dtype=dtype, device=device)
    nn.init.normal_(module.in_proj_bias)
    x = torch.randn(2, 7, 12, dtype=dtype, device=device)
    hidden = torch.ones(7, 7, dtype=torch.bool, device=device).triu(1) if causal else None
    padding = None if padding is None else padding.to(device)
    expected, _ = module(x, x, x, attn_mask=hidden, key_padding_mask=padding, need_weights=False)
    result = self_attention(x, module, NoPosition(), causal=causal, key_padding_mask=padding)
    torch.testing.assert_close(result, expected, rtol=0, atol=near)


@pytest.mark.parametrize("causal", [False, True])
def test_no_position_is_torch_transformer_layer(causal):
    layer = nn.TransformerEncoderLayer(12, 3, 20, dropout=0.0, batch_first=True, norm_first=True, dtype=torch.float64)
    x = torch.randn(2, 7, 12, dtype=torch.float64)
    hidden = torch.ones(7, 7, dtype=torch.bool).triu(1) if causal else None
    y = x + self_attention(layer.norm1(x), layer.self_attn, NoPosition(), causal=causal)
    y = y + layer.linear2(layer.linear1(layer.norm2(y)).relu())
    torch.testing.assert_close(y, layer(x, src_mask=hidden), rtol=0, atol=1e-12)


SCHEMES = [NoPosition(), Rotary(4), Fused(), Distance(), EmptyValueBias(), Everything()]
each_scheme = pytest.mark.parametrize("scheme", SCHEMES, ids=lambda s: type(s).__name__)


@each_scheme
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_a_query_that_sees_no_key_gets_zeros(scheme, dtype, device):
    q = torch.randn(2, 2, 4, 4, device=device).to(dtype).requires_grad_()
    padding = torch.tensor([[True, True, False, False], [False] * 4], device=device)
    o = attend(q, q, q, scheme, causal=True, key_padding_mask=padding)
    assert (o[0, :, :2] == 0).all()
    assert o.isfinite().all()
    assert (o[1] != 0).any(dim=-1).all()
    o.sum().backward()
    assert q.grad.isfinite().all()


@each_scheme
def test_no_keys_at_all_give_zeros(scheme):
    q, empty = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 0, 4)
    assert torch.equal(attend(q, empty, empty, scheme, query_positions=torch.arange(3)), torch.zeros(1, 2, 3, 4))
    assert attend(empty, q, q, scheme).shape == (1, 2, 0, 4)


@each_scheme
@pytest.mark.parametrize("padded", [False, True])
def test_gradients(scheme, padded):
    q, k, v = (torch.randn(1, 2, n, 4, dtype=torch.float64, requires_grad=True) for n in (3, 4, 4))
    padding = torch.tensor([[True, True, False, False]]) if padded else None  # the first query sees no key

    def output(q, k, v):
        return attend(q, k, v, scheme, causal=True, key_padding_mask=padding)

    assert torch.autograd.gradcheck(output, (q, k, v))


@each_scheme
@given(L=sizes, data=st.data())
def test_the_last_queries_of_a_cache_see_what_they_saw_in_the_whole(scheme, L, data):
    last = data.draw(st.integers(1, L))
    q, k, v = (torch.randn(2, 2, L, 4, dtype=torch.float64) for _ in range(3))
    whole = attend(q, k, v, scheme, causal=True)
    cached = attend(q[:, :, -last:], k, v, scheme, causal=True)
    torch.testing.assert_close(cached, whole[:, :, -last:], rtol=0, atol=1e-13)


@each_scheme
@given(L=sizes, causal=st.booleans(), data=st.data())
def test_tokens_may_come_in_any_order_if_their_positions_do(scheme, L, causal, data):
    order = torch.tensor(data.draw(st.permutations(range(L))))
    q, k, v = (torch.randn(2, 2, L, 4, dtype=torch.float64) for _ in range(3))
    expected = attend(q, k, v, scheme, causal=causal)[:, :, order]
    q, k, v = (x[:, :, order] for x in (q, k, v))
    shuffled = attend(q, k, v, scheme, causal=causal, query_positions=order, key_positions=order)
    torch.testing.assert_close(shuffled, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32], ids=str)
def test_small_integer_positions_do_not_wrap_around(dtype):
    q = torch.randn(1, 1, 3, 4, dtype=torch.float64)
    p = torch.tensor([torch.iinfo(dtype).max, 3, torch.iinfo(dtype).min])
    for scheme in (Everything(), Rotary(4)):
        small = attend(q, q, q, scheme, True, p.to(dtype), p.to(dtype))
        torch.testing.assert_close(small, attend(q, q, q, scheme, True, p, p), rtol=0, atol=0)


def test_inputs_are_not_modified():
    q, k, v = (torch.randn(1, 2, 4, 4) for _ in range(3))
    copies = [x.clone() for x in (q, k, v)]
    for scheme in SCHEMES:
        attend(q, k, v, scheme, causal=True)
        scores(q, k, scheme)
    assert all(torch.equal(x, copy) for x, copy in zip((q, k, v), copies, strict=True))


X = torch.randn(2, 3, 5, 4)
REFUSED = [
    ({"q": X[..., :2]}, ValueError, ("q and k", "width", "2 and 4")),
    ({"q": X[:1]}, ValueError, ("q and k", "(1, 3) and (2, 3)")),
    ({"q": X[:, :2]}, ValueError, ("q and k", "(2, 2) and (2, 3)")),
    ({"q": X[0]}, ValueError, ("q must", "(3, 5, 4)")),
    ({"q": X.long()}, TypeError, ("q must", "int64")),
    ({"q": X.tolist()}, TypeError, ("q must", "list")),
    ({"k": X[0]}, ValueError, ("k must", "(3, 5, 4)")),
    ({"k": X.double()}, ValueError, ("k must", "dtype", "float32", "float64")),
    ({"k": X[:, :, :3], "v": X[:, :, :3]}, ValueError, ("query_positions", "more queries than keys", "5 and 3")),
    ({"scheme": nn.Identity()}, TypeError, ("scheme", "PositionScheme", "Identity")),
    ({"scheme": NoPosition}, TypeError, ("scheme", "PositionScheme", "type")),
    ({"query_positions": torch.arange(4)}, ValueError, ("query_positions", "5", "got 4")),
    ({"query_positions": torch.arange(5.0)}, TypeError, ("query_positions", "float32")),
    ({"query_positions": torch.arange(5)[None]}, ValueError, ("query_positions", "B = 2", "got 1")),
    ({"query_positions": torch.zeros(2, 1, 5).long()}, ValueError, ("query_positions", "(B, L)", "(2, 1, 5)")),
    ({"x": X[0]}, ValueError, ("x must", "(2, 5)", "(3, 5, 4)")),
    ({"x": X}, ValueError, ("x must", "(B, Lk, D)", "(2, 3, 5, 4)")),
    ({"scheme": NoPosition().at(4)}, ValueError, ("query_positions", "5", "got 4")),
    ({"scheme": NoPosition().at(5, like=X.double())}, ValueError, ("q must be like", "float64", "float32")),
    ({"scheme": NoPosition().at(5), "key_positions": torch.arange(5)}, ValueError, ("must be None", "already")),
    ({"query_positions": range(5)}, TypeError, ("query_positions", "range")),
    ({"key_positions": torch.arange(6)}, ValueError, ("key_positions", "5", "got 6")),
    ({"key_positions": torch.arange(5).bool()}, TypeError, ("key_positions", "bool")),
]
REFUSED_BY_ATTEND = [
    ({"v": X[..., :2]}, ValueError, ("v must", "(2, 3, 5, 4)", "(2, 3, 5, 2)")),
    ({"v": X[:, :, :4]}, ValueError, ("v must", "(2, 3, 5, 4)", "(2, 3, 4, 4)")),
    ({"v": X[0]}, ValueError, ("v must", "(3, 5, 4)")),
    ({"v": X.half()}, ValueError, ("v must", "float32", "float16")),
    ({"v": X.int()}, TypeError, ("v must", "int32")),
    ({"v": None}, TypeError, ("v must", "NoneType")),
    ({"key_padding_mask": torch.zeros(2, 5)}, TypeError, ("key_padding_mask", "bool", "float32")),
    ({"key_padding_mask": torch.zeros(2, 4).bool()}, ValueError, ("key_padding_mask", "(2, 5)", "(2, 4)")),
    ({"key_padding_mask": torch.zeros(1, 5).bool()}, ValueError, ("key_padding_mask", "(2, 5)", "(1, 5)")),
    ({"key_padding_mask": torch.zeros(5).bool()}, ValueError, ("key_padding_mask", "(5,)")),
    ({"mask": torch.ones(5, 5)}, TypeError, ("mask", "bool", "float32")),
    ({"mask": torch.ones(5, 4).bool()}, ValueError, ("mask", "(5, 5)", "(5, 4)")),
    ({"mask": torch.ones(1, 5).bool()}, ValueError, ("mask", "(5, 5)", "(1, 5)")),
    ({"mask": torch.ones(1, 5, 5).bool()}, ValueError, ("mask", "(2, 5, 5)", "(1, 5, 5)")),
    ({"mask": [[True]]}, TypeError, ("mask", "(Lq, Lk)", "list")),
    ({"mask": torch.ones(2, 1, 5, 5).bool()}, ValueError, ("mask", "(Lq, Lk)", "(2, 1, 5, 5)")),
]


@pytest.mark.parametrize(
    "call, changed, error, words",
    [(attend, *row) for row in REFUSED + REFUSED_BY_ATTEND] + [(scores, *row) for row in REFUSED],
)
def test_refusals_name_argument_and_value(call, changed, error, words):
    good = {"q": X, "k": X, "v": X, "scheme": NoPosition()}
    arguments = good | changed
    if call is scores:
        del arguments["v"]
    with pytest.raises(error) as refusal:
        call(**arguments)
    assert refusal.type is error
    for word in words:
        assert word in str(refusal.value)


@pytest.mark.parametrize("scheme", [Distance(), DistanceByPairs()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("heads", [1, 3])
def test_a_scheme_for_other_heads_is_refused_rather_than_stretched(scheme, heads):
    q = torch.randn(1, heads, 5, 4)
    with pytest.raises(ValueError, match=r"(score|distance)_bias must fit .*, got \(2, "):
        attend(q, q, q, scheme)
    with pytest.raises(ValueError, match=r"score_bias must fit .*, got \(2, 5, 5\)"):
        scores(q, q, scheme)


def test_weights_are_the_softmax_over_what_is_seen():
    q, k = torch.randn(2, 2, 3, 4, dtype=torch.float64), torch.randn(2, 2, 5, 4, dtype=torch.float64)
    padding = torch.tensor([[True] * 5, [False, True, False, False, False]])
    w = weights(q, k, Everything(), causal=True, key_padding_mask=padding)
    assert (w[0] == 0).all()
    seen = (torch.arange(5) <= torch.arange(2, 5)[:, None]) & ~padding[1]
    assert torch.equal(w[1] > 0, seen.expand(2, 3, 5))
    expected = scores(q, k, Everything())[1].exp() * seen
    torch.testing.assert_close(w[1], expected / expected.sum(-1, keepdim=True), rtol=0, atol=1e-13)


def test_a_value_bias_for_other_heads_is_refused_rather_than_stretched():
    scheme, q = EmptyValueBias(), torch.randn(1, 1, 5, 4)
    scheme.value_bias = lambda *args: torch.zeros(1, 2, 5, 4)
    with pytest.raises(ValueError, match=r"value_bias must fit \(1, 1, 5, 4\), got \(1, 2, 5, 4\)"):
        attend(q, q, q, scheme)


@pytest.mark.parametrize("scheme", [Rotary(4), Shaw(4, 3)], ids=["no value term", "value term"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_sink_is_a_key_that_nobody_reads(scheme, dtype):
    """Against one more logit by hand: it takes its part of the softmax, and what is left is not scaled up."""
    scheme = scheme.to(dtype).requires_grad_(False)
    q, k, v = (torch.randn(2, 3, n, 4, dtype=dtype) for n in (5, 7, 7))
    sinks = torch.tensor([-1.0, 0.0, 3.0], dtype=dtype)
    padding = torch.zeros(2, 7, dtype=torch.bool)
    padding[1, :2] = True
    w = weights(q, k, scheme, causal=True, key_padding_mask=padding, sinks=sinks)
    seen = (torch.arange(7) <= torch.arange(2, 7)[:, None]) & ~padding[:, None, None]
    e = scores(q, k, scheme).double().exp() * seen
    by_hand = e / (e.sum(-1, keepdim=True) + sinks.double().exp()[:, None, None])
    torch.testing.assert_close(w.double(), by_hand, rtol=0, atol=1e-6 if dtype == torch.float32 else 1e-12)
    o = attend(q, k, v, scheme, causal=True, key_padding_mask=padding, sinks=sinks)
    bias = scheme.at(5, 7, like=q).value_bias(w, 4) if "value" in scheme.places else None
    torch.testing.assert_close(o, w @ v if bias is None else w @ v + bias, rtol=0, atol=1e-5)
    assert o.dtype == dtype and (w.sum(-1) < 1).all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype, near", [(torch.float64, 1e-12), (torch.float32, 2e-6)], ids=str)
def test_sinks_are_those_of_gpt_oss(dtype, near, causal):
    class Layer:  # what the attention of transformers asks of it
        num_key_value_groups, training = 1, False
        sinks = torch.tensor([-1.0, 0.0, 3.0], dtype=dtype)

    q, k, v = (torch.randn(2, 3, n, 4, dtype=dtype) for n in (4, 7, 7))
    hidden = torch.ones(4, 7, dtype=torch.bool).triu(4 if causal else 7)
    added = torch.zeros(4, 7, dtype=dtype).masked_fill(hidden, -torch.inf)
    o, w = eager_attention_forward(Layer(), q, k, v, added, scaling=0.5)
    sinks = {"causal": causal, "sinks": Layer.sinks}
    torch.testing.assert_close(weights(q, k, NoPosition(), **sinks), w, rtol=0, atol=near)
    torch.testing.assert_close(attend(q, k, v, NoPosition(), **sinks), o.transpose(1, 2), rtol=0, atol=near)


def test_sinks_that_do_not_fit_are_refused():
    q = torch.ones(1, 2, 3, 4)
    for call in (weights, partial(attend, v=q)):
        with pytest.raises(ValueError, match=r"sinks must have shape \(H,\) = \(2,\), one per head, got \(3,\)"):
            call(q, q, scheme=NoPosition(), sinks=torch.zeros(3))
        with pytest.raises(TypeError, match="sinks must hold floating-point numbers"):
            call(q, q, scheme=NoPosition(), sinks=torch.zeros(2, dtype=torch.int64))
        with pytest.raises(ValueError, match="sinks must have the dtype"):
            call(q, q, scheme=NoPosition(), sinks=torch.zeros(2).double())
