"""ALiBi: slopes and attention of three other implementations, loops, identities, what it costs, refusals."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import MptConfig
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.mpt.modeling_mpt import MptAttention, build_mpt_alibi_tensor
from x_transformers.x_transformers import AlibiPositionalBias

from loops import POSITIONS, assert_formula, assert_formula_under_a_causal_mask, assert_refused, draw
from posenc_lib.attention import attend, scores
from posenc_lib.relative import toeplitz_rows_reversed
from posenc_lib.scheme import PositionScheme
from posenc_lib.schemes.alibi import Alibi, slopes
from posenc_lib.schemes.none import NoPosition

HEADS = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 31, 100]


def slopes_by_hand(heads):
    """Exponents of 2, by doubling the number of heads."""
    power = 1
    while 2 * power <= heads:
        power *= 2
    exponents = [-8 * h / power for h in range(1, power + 1)]
    exponents += [-8 * h / (2 * power) for h in range(1, 2 * power + 1)][::2][: heads - power]
    return [math.pow(2, e) for e in exponents]


def loop_scores(q, k, query_positions, key_positions):
    """s_ij = q_i.k_j / sqrt(d) - m |i - j|, one number at a time, in float64."""
    (batch, heads, n_q, d), n_k = q.shape, k.shape[2]
    m, s = slopes_by_hand(heads), torch.empty(batch, heads, n_q, n_k, dtype=torch.float64)
    for b, h, i, j in torch.cartesian_prod(*(torch.arange(n) for n in s.shape)).tolist():
        dot = sum(float(q[b, h, i, c]) * float(k[b, h, j, c]) for c in range(d))
        s[b, h, i, j] = dot / math.sqrt(d) - m[h] * abs(int(query_positions[i]) - int(key_positions[j]))
    return s


@pytest.mark.parametrize("heads", HEADS)
def test_slopes_are_those_of_bloom_mpt_and_x_transformers(heads):
    m = slopes(heads)
    assert (m.dtype, m.shape) == (torch.float64, (heads,))
    bloom = build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)[:, 0, 1]
    mpt = -build_mpt_alibi_tensor(heads, 2)[:, 0, 0]
    for theirs, near in ((bloom, 1e-6), (mpt, 1e-6), (AlibiPositionalBias._get_slopes(heads), 1e-14)):
        torch.testing.assert_close(m, torch.as_tensor(theirs, dtype=torch.float64), rtol=near, atol=0)


def test_slopes_of_the_paper():
    assert slopes(8).tolist() == [2.0**-n for n in range(1, 9)]
    torch.testing.assert_close(slopes(16).log2(), -torch.arange(1, 17) / 2.0, check_dtype=False)
    expected = torch.tensor([-1, -2, -3, -4, -5, -6, -7, -8, -0.5, -1.5, -2.5, -3.5], dtype=torch.float64)
    torch.testing.assert_close(slopes(12).log2(), expected)


@given(st.integers(1, 300))
def test_slopes_by_doubling(heads):
    expected = torch.tensor(slopes_by_hand(heads), dtype=torch.float64)
    torch.testing.assert_close(slopes(heads), expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("heads", [3, 4])
@pytest.mark.parametrize("name", POSITIONS)
def test_scores_and_outputs_are_those_of_the_formula(name, heads):
    assert_formula(Alibi(heads), loop_scores, heads, 5, POSITIONS[name])


@pytest.mark.parametrize("padded", [False, True])
def test_outputs_under_a_causal_mask(padded):
    assert_formula_under_a_causal_mask(Alibi(3), loop_scores, 3, 6, padded)


@pytest.mark.parametrize("heads", [3, 8])
@pytest.mark.parametrize(("n_q", "n_k"), [(9, 9), (3, 11), (1, 40)])
def test_bias_is_that_of_x_transformers(heads, n_q, n_k):
    """Its queries are the last of the keys, as ours, and its distances have no sign either."""
    q, k = torch.zeros(1, heads, n_q, 4), torch.zeros(1, heads, n_k, 4)
    ours = scores(q, k, Alibi(heads))[0]
    torch.testing.assert_close(ours, AlibiPositionalBias(heads)(n_q, n_k), rtol=1e-6, atol=0)


def test_scattered_bias_is_that_of_x_transformers():
    i, j = torch.tensor([3, -8, 40]), torch.tensor([0, 2, 41, 5, -9])
    q, k = torch.zeros(1, 5, 3, 4), torch.zeros(1, 5, 5, 4)
    expected = AlibiPositionalBias(5).forward_custom_pos(i, j)
    torch.testing.assert_close(scores(q, k, Alibi(5), i, j)[0], expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("heads", [2, 6])
def test_causal_attention_is_that_of_mpt(heads):
    """MPT adds -m (L - 1 - j), the same for every query: it differs from ours by a constant in each row."""
    config = MptConfig(d_model=8 * heads, n_heads=heads, max_seq_len=64)
    theirs, x, length = MptAttention(config).double().eval(), draw(2, 13, 8 * heads), 13
    future = torch.ones(length, length, dtype=torch.bool).triu(1)[None, None]
    q, k, v = (y.unflatten(-1, (heads, 8)).transpose(1, 2) for y in theirs.Wqkv(x).chunk(3, dim=-1))
    ours = theirs.out_proj(attend(q, k, v, Alibi(heads), causal=True).transpose(1, 2).flatten(-2))
    bias = build_mpt_alibi_tensor(heads, length)
    torch.testing.assert_close(ours, theirs(x, position_bias=bias, attention_mask=future)[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("heads", [2, 6])
def test_softmax_does_not_see_a_constant_in_each_row(heads):
    """BLOOM adds m j, and no i at all."""
    q, k, v = draw(3, 2, heads, 13, 8)
    bias = build_alibi_tensor(torch.ones(1, 13), heads, torch.float64).expand(heads, 13, 13)
    hidden = torch.ones(13, 13, dtype=torch.bool).triu(1)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.masked_fill(hidden, -torch.inf)[None])
    torch.testing.assert_close(attend(q, k, v, Alibi(heads), causal=True), expected, rtol=0, atol=1e-6)


def test_a_nilpotent_generator_gives_the_paper_bias():
    """Lift q to (q, 1, 0) and k to (k, 0, 1): with G(t) = exp(tA), q^T G(j - i) k is q.k - m (i - j)."""
    d, m = 6, slopes(3)[1].item()
    A = torch.zeros(d + 2, d + 2, dtype=torch.float64)
    A[d, d + 1] = m
    assert torch.equal(A @ A, torch.zeros_like(A))
    q, k, p = draw(9, d), draw(9, d), torch.arange(9)
    lifted_q = torch.cat([q, torch.tensor([[1.0, 0.0]]).double().expand(9, 2)], dim=-1)
    lifted_k = torch.cat([k, torch.tensor([[0.0, 1.0]]).double().expand(9, 2)], dim=-1)
    for i in range(9):
        for j in range(i + 1):
            score = lifted_q[i] @ torch.matrix_exp((j - i) * A) @ lifted_k[j]
            back = torch.linalg.inv(torch.matrix_exp(i * A)) @ torch.matrix_exp(j * A)
            torch.testing.assert_close(lifted_q[i] @ back @ lifted_k[j], score, rtol=0, atol=1e-12)
            ours = q[i] @ k[j] + Alibi(3).distance_bias(p[[j]] - i)[1, 0]
            torch.testing.assert_close(ours, score, rtol=0, atol=1e-12)


def test_reading_backwards_changes_nothing():
    q, k, i, j = draw(1, 3, 5, 4), draw(1, 3, 7, 4), torch.arange(5), torch.arange(7)
    assert torch.equal(scores(q, k, Alibi(3), -i, -j), scores(q, k, Alibi(3), i, j))


class Dense(PositionScheme):
    """The same bias with one number per pair: attention cannot use the view."""

    places = ("score",)

    def __init__(self, num_heads):
        super().__init__()
        self.num_heads = num_heads

    def score_bias(self, q, k, pair):
        return torch.tensor(slopes_by_hand(self.num_heads), dtype=torch.float64)[:, None, None] * -pair.abs()


@pytest.mark.parametrize(("n_q", "n_k"), [(37, 37), (5, 60), (60, 5), (1, 9)])
@pytest.mark.parametrize("causal", [True, False])
def test_the_view_gives_outputs_and_gradients_of_the_dense_bias(causal, n_q, n_k):
    q, k, v = (draw(2, 3, n, 4).requires_grad_() for n in (n_q, n_k, n_k))
    weights, results = draw(2, 3, n_q, 4), []
    i, j = torch.arange(n_q) + max(0, n_k - n_q), torch.arange(n_k)
    for scheme in (Alibi(3), Dense(3)):
        o = attend(q, k, v, scheme, causal, i, j)
        results.append((o, *torch.autograd.grad((o * weights).sum(), (q, k, v))))
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)


class Allocated(TorchDispatchMode):
    """Counts the bytes of all tensors that operations make, views left out."""

    total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        storages = [
            {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in tree_leaves(y) if torch.is_tensor(x)}
            for y in ((args, kwargs), out)
        ]
        self.total += sum(n for pointer, n in storages[1].items() if pointer not in storages[0])
        return out


@torch.no_grad()
def cost(scheme, length, causal):
    """Bytes that ``attend`` makes beyond those without positions, at 8 heads in float32."""
    q, k, v = draw(3, 1, 8, length, 4, dtype=torch.float32)
    made = []
    for s in (scheme, NoPosition()):
        with Allocated() as allocated:
            attend(q, k, v, s, causal=causal)
        made.append(allocated.total)
    return made[0] - made[1]


@pytest.mark.parametrize("causal", [True, False])
def test_the_bias_of_2048_tokens_and_8_heads_takes_less_than_2_MiB(causal):
    reversed_q_and_o = 2 * 8 * 2048 * 4 * 4
    assert cost(Alibi(8), 2048, causal) - reversed_q_and_o < 2 * 2**20
    assert cost(Dense(8), 512, causal) > 8 * 512 * 512 * 4
    view = toeplitz_rows_reversed(Alibi(8).distance_bias(torch.arange(-2047, 2048)), 2048)
    assert view.untyped_storage().nbytes() == 8 * 8 * 4095


def test_slopes_and_distances_survive_a_cast_of_the_model():
    expected = -torch.tensor(slopes_by_hand(12), dtype=torch.float64)[:, None] * torch.tensor([0, 257, 258, 100_001])
    bias = Alibi(12).to(torch.bfloat16).distance_bias(torch.tensor([0, 257, -258, 100_001]))
    torch.testing.assert_close(bias, expected, rtol=1e-15, atol=0)
    small = Alibi(12).distance_bias(torch.tensor([-128], dtype=torch.int8))
    assert torch.equal(small.sign(), -torch.ones(12, 1).double())


REFUSED = [
    (lambda: slopes(0), ValueError, ("num_heads", "at least 1", "0")),
    (lambda: slopes(-4), ValueError, ("num_heads", "-4")),
    (lambda: slopes(2.5), ValueError, ("num_heads", "2.5")),
    (lambda: slopes("8"), TypeError, ("num_heads", "'8'")),
    (lambda: Alibi(0), ValueError, ("num_heads", "0")),
    (lambda: Alibi(None), TypeError, ("num_heads", "None")),
    (lambda: Alibi(2).distance_bias(torch.ones(3)), TypeError, ("relative_position", "float32")),
    (lambda: Alibi(2).distance_bias([1]), TypeError, ("relative_position", "list")),
    (lambda: Alibi(2).distance_bias(torch.ones(1, 3).long()), ValueError, ("relative_position", "(1, 3)")),
    (lambda: scores(draw(1, 2, 3, 4), draw(1, 2, 3, 4), Alibi(3)), ValueError, ("score_bias", "heads", "(3, 3, 3)")),
    (lambda: attend(*draw(3, 1, 2, 3, 4), Alibi(3)), ValueError, ("distance_bias", "heads", "(3, 5)")),
]


@pytest.mark.parametrize(("call", "error", "words"), REFUSED)
def test_refusals_name_argument_and_value(call, error, words):
    assert_refused(call, error, words)
