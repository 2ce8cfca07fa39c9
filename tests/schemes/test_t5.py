"""T5's bias: against loops in exact integers, against transformers and x-transformers, identities, refusals."""

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import T5Config, T5EncoderModel
from transformers.models.t5.modeling_t5 import T5Attention
from x_transformers.x_transformers import RelativePositionBias

from loops import POSITIONS, assert_formula, assert_formula_under_a_causal_mask, assert_refused, draw
from posenc_lib.attention import attend, scores
from posenc_lib.lab import TinyTransformer
from posenc_lib.relative import toeplitz_rows_reversed
from posenc_lib.scheme import PositionScheme
from posenc_lib.schemes.t5 import T5Bias, relative_position_bucket

DISTANCES = torch.arange(-600, 601)


def exact_bucket(r, bidirectional, num_buckets, max_distance):
    """The formula in whole numbers: far buckets count the s with (x/e)^n >= (max_distance/e)^s."""
    first = 0
    if bidirectional:
        num_buckets //= 2
        first = num_buckets if r > 0 else 0
    elif r > 0:
        r = 0
    x, e = abs(r), num_buckets // 2
    n = num_buckets - e
    if x < e:
        return first + x
    passed = sum(x**n * e**s >= max_distance**s * e**n for s in range(1, n))
    return first + e + passed


@st.composite
def settings(draw_):
    bidirectional = draw_(st.booleans())
    num_buckets = 2 * draw_(st.integers(2, 32))
    exact = num_buckets // (4 if bidirectional else 2)
    return bidirectional, num_buckets, draw_(st.integers(exact + 1, 600))


@given(settings(), st.lists(st.integers(-2000, 2000), min_size=1, max_size=30))
def test_bucket_is_that_of_the_exact_formula(setting, r):
    expected = [exact_bucket(x, *setting) for x in r]
    assert relative_position_bucket(torch.tensor(r), *setting).tolist() == expected


@pytest.mark.parametrize(("num_buckets", "max_distance", "start"), [(36, 32, 24), (36, 392, 84), (48, 81, 54)])
def test_bucket_starts_that_rounding_misses(num_buckets, max_distance, start):
    """Float64 without care gets the first wrong, float32 the other two."""
    expected = [exact_bucket(-x, False, num_buckets, max_distance) for x in (start - 1, start)]
    r = torch.tensor([1 - start, -start])
    assert relative_position_bucket(r, False, num_buckets, max_distance).tolist() == expected
    assert expected[1] > expected[0]


@pytest.mark.parametrize("max_distance", [20, 128, 513])
@pytest.mark.parametrize("num_buckets", [4, 6, 32])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets_are_those_of_transformers_and_x_transformers(bidirectional, num_buckets, max_distance):
    if max_distance <= num_buckets // (4 if bidirectional else 2):
        pytest.fail("the grid must hold settings that are possible")
    ours = relative_position_bucket(DISTANCES, bidirectional, num_buckets, max_distance)
    theirs = T5Attention._relative_position_bucket(DISTANCES, bidirectional, num_buckets, max_distance)
    others = RelativePositionBias._relative_position_bucket(DISTANCES, not bidirectional, num_buckets, max_distance)
    assert torch.equal(ours, theirs)
    assert torch.equal(ours, others)


def test_bucket_starts_of_t5():
    def starts(buckets):
        return [int((buckets == n).nonzero()[0]) for n in buckets.unique()]

    x = torch.arange(200)
    both = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]
    assert starts(relative_position_bucket(-x)) == both
    assert starts(relative_position_bucket(x)) == both
    tail = [19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]
    assert starts(relative_position_bucket(-x, bidirectional=False)) == [*range(17), *tail]
    far = torch.tensor([-(10**12), -(10**6), -128, 128, 10**6])
    assert relative_position_bucket(far).tolist() == [15, 15, 15, 31, 31]
    assert relative_position_bucket(far, bidirectional=False).tolist() == [31, 31, 31, 0, 0]


@given(settings())
def test_monotone_saturated_and_the_first_bucket_to_the_right_is_never_used(setting):
    bidirectional, num_buckets, max_distance = setting
    r = torch.arange(-2 * max_distance, 2 * max_distance + 1)
    bucket = relative_position_bucket(r, *setting)
    left = bucket[r <= 0].flip(0)
    assert left[0] == 0
    assert (left.diff() >= 0).all()
    last = num_buckets // 2 - 1 if bidirectional else num_buckets - 1
    assert (left[max_distance:] == last).all()
    if bidirectional:
        assert not (bucket == num_buckets // 2).any()
        assert torch.equal(bucket[r > 0], left[1:] + num_buckets // 2)
    else:
        assert (bucket[r > 0] == 0).all()


def test_keeps_shape_and_takes_every_integer_type():
    r = torch.tensor([[-128, 5], [127, 0]])
    expected = relative_position_bucket(r)
    assert expected.shape == (2, 2)
    for dtype in (torch.int8, torch.int16, torch.int32):
        assert torch.equal(relative_position_bucket(r.to(dtype)), expected)


def make(num_heads=2, **options):
    return T5Bias(num_heads, **options).double()


def loop_scores(q, k, query_positions, key_positions, scheme):
    """s_ij = q_i.k_j + b, one number at a time, in float64, nothing divided."""
    (batch, heads, n_q, d), n_k = q.shape, k.shape[2]
    s = torch.empty(batch, heads, n_q, n_k, dtype=torch.float64)
    for b, h, i, j in torch.cartesian_prod(*(torch.arange(n) for n in s.shape)).tolist():
        r = int(key_positions[j]) - int(query_positions[i])
        bucket = exact_bucket(r, scheme.bidirectional, scheme.num_buckets, scheme.max_distance)
        dot = sum(float(q[b, h, i, c]) * float(k[b, h, j, c]) for c in range(d))
        s[b, h, i, j] = dot + float(scheme.weight[bucket, h])
    return s


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("name", POSITIONS)
def test_scores_and_outputs_are_those_of_the_formula(name, bidirectional):
    scheme = make(bidirectional=bidirectional, num_buckets=8, max_distance=10)
    assert_formula(scheme, partial(loop_scores, scheme=scheme), 2, 3, POSITIONS[name])


@pytest.mark.parametrize("padded", [False, True])
def test_outputs_under_a_causal_mask(padded):
    scheme = make(3, bidirectional=False, num_buckets=4, max_distance=5)
    assert_formula_under_a_causal_mask(scheme, partial(loop_scores, scheme=scheme), 3, 6, padded)


def transformers_attention(scheme, width=12, decoder=False):
    """transformers' T5 attention with the numbers of ``scheme``."""
    buckets, heads = scheme.weight.shape
    config = T5Config(
        d_model=width,
        d_kv=5,
        num_heads=heads,
        relative_attention_num_buckets=buckets,
        relative_attention_max_distance=scheme.max_distance,
        dropout_rate=0.0,
        is_decoder=decoder,
        attn_implementation="eager",
    )
    theirs = T5Attention(config, has_relative_attention_bias=True).double().eval()
    theirs.relative_attention_bias.weight.data.copy_(scheme.weight.data)
    return theirs


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("n_q", "n_k", "past"), [(1, 1, 0), (31, 201, 170), (3, 7, 0), (5, 2, 0)])
def test_bias_is_that_of_transformers(n_q, n_k, past, bidirectional):
    scheme = make(3, bidirectional=bidirectional)
    theirs = transformers_attention(scheme, decoder=not bidirectional)
    expected = theirs.compute_bias(n_q, n_k, past_seen_tokens=past)[0]
    q, k = torch.zeros(1, 3, n_q, 4).double(), torch.zeros(1, 3, n_k, 4).double()
    ours = scores(q, k, scheme, torch.arange(n_q) + past, torch.arange(n_k))[0]
    torch.testing.assert_close(ours, expected, rtol=0, atol=0)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_bias_is_that_of_x_transformers(bidirectional):
    """Which multiplies the bias by a scale of its own, here 1; its queries are the last of the keys, as ours."""
    scheme = make(3, bidirectional=bidirectional, max_distance=20)
    theirs = RelativePositionBias(1, not bidirectional, 32, 20, heads=3).double()
    theirs.relative_attention_bias.weight.data.copy_(scheme.weight.data)
    q, k = torch.zeros(1, 3, 7, 4).double(), torch.zeros(1, 3, 45, 4).double()
    torch.testing.assert_close(scores(q, k, scheme)[0], theirs(7, 45), rtol=0, atol=0)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_self_attention_is_that_of_transformers(bidirectional):
    """No division by sqrt(d) either there or here."""
    scheme, length = make(3, bidirectional=bidirectional, max_distance=20), 33
    theirs = transformers_attention(scheme, decoder=not bidirectional)
    x = draw(2, length, 12)
    hidden = torch.zeros(length, length).double()
    if not bidirectional:
        hidden.masked_fill_(torch.ones(length, length).triu(1).bool(), -torch.inf)
    with torch.no_grad():
        expected = theirs(x, mask=hidden[None, None])[0]
        q, k, v = (w(x).unflatten(-1, (3, 5)).transpose(1, 2) for w in (theirs.q, theirs.k, theirs.v))
        ours = theirs.o(attend(q, k, v, scheme, causal=not bidirectional).transpose(1, 2).flatten(-2))
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-11)


def test_one_table_for_all_layers_one_column_per_head():
    config = T5Config(vocab_size=7, d_model=8, d_kv=2, num_heads=4, d_ff=8, num_layers=3)
    theirs = [p for name, p in T5EncoderModel(config).named_parameters() if "relative_attention_bias" in name]
    ours = [
        p for name, p in TinyTransformer(T5Bias(4), 7, num_layers=3).named_parameters() if name.startswith("scheme")
    ]
    assert [tuple(p.shape) for p in theirs] == [tuple(p.shape) for p in ours] == [(32, 4)]


class Dense(T5Bias):
    """The same bias, asked for pair by pair: attention does not use the view."""

    by_distance = False

    def per_pair(self, query_positions, key_positions):
        r = key_positions - query_positions[:, None]
        return self.weight[relative_position_bucket(r, self.bidirectional, 32, self.max_distance)].permute(2, 0, 1)


@pytest.mark.parametrize(("n_q", "n_k"), [(37, 37), (5, 60), (60, 5), (1, 9)])
@pytest.mark.parametrize("causal", [True, False])
def test_the_view_gives_outputs_and_gradients_of_the_dense_bias(causal, n_q, n_k):
    view, dense = make(max_distance=20, bidirectional=not causal), make(max_distance=20, bidirectional=not causal)
    dense.__class__ = Dense
    dense.load_state_dict(view.state_dict())
    q, k, v = (draw(2, 2, n, 4).requires_grad_() for n in (n_q, n_k, n_k))
    weights, results = draw(2, 2, n_q, 4), []
    i, j = torch.arange(n_q) + max(0, n_k - n_q), torch.arange(n_k)
    for scheme in (view, dense):
        o = attend(q, k, v, scheme, causal, i, j)
        results.append((o, *torch.autograd.grad((o * weights).sum(), (q, k, v, scheme.weight))))
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)


def test_the_view_reads_one_number_per_distance():
    bias = make(8).distance_bias(torch.arange(-99, 100))
    view = toeplitz_rows_reversed(bias, 100)
    assert view.shape == (8, 100, 100)
    assert view.untyped_storage().nbytes() == 8 * 199 * 8
    assert torch.equal(view.flip(1)[:, 3, 50], bias[:, 99 + 47])


def test_numbers_are_counted():
    assert sum(w.numel() for w in T5Bias(12).parameters()) == 32 * 12


def test_row_16_gets_no_gradient_and_all_others_do():
    scheme, (q, k, v) = make(), draw(3, 1, 2, 200, 4)
    attend(q, k, v, scheme).square().sum().backward()
    assert (scheme.weight.grad == 0).all(-1).nonzero().flatten().tolist() == [16]


class Divided(T5Bias):
    """The same bias on scores that are divided by sqrt(d)."""

    scale = PositionScheme.scale


def test_dividing_by_sqrt_d_can_be_folded_into_the_queries():
    scheme, divided, (q, k) = make(), Divided(2).double(), draw(2, 1, 2, 6, 16)
    divided.load_state_dict(scheme.state_dict())
    torch.testing.assert_close(scores(q / 4, k, scheme), scores(q, k, divided), rtol=0, atol=1e-12)
    assert scheme.scale(16) == 1
    assert (scores(q, k, scheme) - scores(q, k, divided)).abs().max() > 1


R = torch.arange(3)
REFUSED = [
    (lambda: relative_position_bucket([1]), TypeError, ("relative_position", "list")),
    (lambda: relative_position_bucket(R / 2), TypeError, ("relative_position", "float32")),
    (lambda: relative_position_bucket(R, num_buckets=7), ValueError, ("num_buckets", "even", "7")),
    (lambda: relative_position_bucket(R, num_buckets=2), ValueError, ("num_buckets", "at least 4", "2")),
    (lambda: relative_position_bucket(R, False, 0), ValueError, ("num_buckets", "at least 2", "0")),
    (lambda: relative_position_bucket(R, num_buckets=8.5), ValueError, ("num_buckets", "8.5")),
    (lambda: relative_position_bucket(R, num_buckets="8"), TypeError, ("num_buckets", "'8'")),
    (lambda: relative_position_bucket(R, True, 32, 8), ValueError, ("max_distance", "at least 9", "8")),
    (lambda: relative_position_bucket(R, False, 32, 16), ValueError, ("max_distance", "at least 17", "16")),
    (lambda: relative_position_bucket(R, True, 32, 99.5), ValueError, ("max_distance", "99.5")),
    (lambda: T5Bias(0), ValueError, ("num_heads", "0")),
    (lambda: T5Bias("8"), TypeError, ("num_heads", "'8'")),
    (lambda: T5Bias(8, num_buckets=31), ValueError, ("num_buckets", "31")),
    (lambda: T5Bias(8, max_distance=8), ValueError, ("max_distance", "8")),
    (lambda: scores(*draw(2, 1, 2, 3, 4), make(3)), ValueError, ("score_bias", "heads", "(3, 3, 3)")),
    (lambda: attend(*draw(3, 1, 2, 3, 4), make(3)), ValueError, ("distance_bias", "heads", "(3, 5)")),
]


@pytest.mark.parametrize(("call", "error", "words"), REFUSED)
def test_refusals_name_argument_and_value(call, error, words):
    assert_refused(call, error, words)
