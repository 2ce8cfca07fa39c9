"""FoX: loops over the formula, x_transformers, what equal, open and shut gates give, what is forgotten, refusals."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from x_transformers.x_transformers import DataDependentAlibi

from loops import (
    POSITIONS,
    assert_formula_of_a_reader,
    assert_formula_of_a_reader_under_a_causal_mask,
    assert_reader_places_every_text,
    assert_reader_with_a_cache,
    assert_refused,
    draw,
)
from posenc_lib.attention import attend, scores, weights
from posenc_lib.schemes.alibi import Alibi, slopes
from posenc_lib.schemes.fox import Fox, forgetting
from posenc_lib.schemes.none import NoPosition

DIM, HEADS = 5, 2
SIZES = HEADS, 4, DIM  # heads, width of a head, width of the hidden states


def make(bias=0.0, dim=DIM, heads=HEADS):
    """A scheme whose gates are neither open nor shut."""
    scheme = Fox(dim, heads).double()
    with torch.no_grad():
        scheme.gate.weight.copy_(draw(heads, dim))
        scheme.gate.bias.fill_(bias)
    return scheme


def loop_forgetting(log_gates, query_positions, key_positions):
    """Sum of the gates between, one number at a time; positions (L,) of all texts or (B, L), in any order."""
    (batch, heads, n_k), n_q = log_gates.shape, query_positions.shape[-1]
    queries, keys = query_positions.expand(batch, -1).tolist(), key_positions.expand(batch, -1).tolist()
    out = torch.zeros(batch, heads, n_q, n_k, dtype=torch.float64)
    for b, h, i, j in torch.cartesian_prod(*(torch.arange(n) for n in out.shape)).tolist():
        low, high = sorted((queries[b][i], keys[b][j]))
        out[b, h, i, j] = sum(float(log_gates[b, h, t]) for t in range(n_k) if low < keys[b][t] <= high)
    return out


def loop_scores(q, k, x, query_positions, key_positions, scheme):
    """s_ij = q_i.k_j / sqrt(d) + what is forgotten, with f_t = sigmoid(w . x_t + b)."""
    f = 1 / (1 + (-(x @ scheme.gate.weight.T + scheme.gate.bias)).exp())  # (B, Lk, H)
    return q @ k.mT / math.sqrt(q.shape[-1]) + loop_forgetting(f.log().mT, query_positions, key_positions)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", POSITIONS)
def test_scores_and_outputs_are_those_of_the_formula(name, dtype):
    assert_formula_of_a_reader(make(), loop_scores, SIZES, POSITIONS[name], dtype)


@pytest.mark.parametrize("padded", [False, True])
def test_outputs_under_a_causal_mask(padded):
    assert_formula_of_a_reader_under_a_causal_mask(make(), loop_scores, SIZES, padded)


def test_every_text_forgets_at_its_own_positions():
    assert_reader_places_every_text(make(), loop_scores, SIZES)


positions = st.lists(st.integers(-9, 9), min_size=1, max_size=9)


@given(positions, positions)
def test_forgetting_by_the_formula(i, j):
    """Also with several keys at one position, which are forgotten together."""
    i, j, log_gates = torch.tensor(i), torch.tensor(j), -draw(2, 3, len(j)).abs()
    torch.testing.assert_close(forgetting(log_gates, i, j), loop_forgetting(log_gates, i, j))


@pytest.mark.parametrize(("heads", "length"), [(1, 1), (3, 17)])
@torch.no_grad()
def test_bias_is_that_of_x_transformers(heads, length):
    """Theirs is for causal models: only what is not after the query is compared."""
    theirs = DataDependentAlibi(7, heads, causal=True).double()
    theirs.to_forget_gates[0].weight.copy_(draw(heads, 7))
    scheme, x = Fox(7, heads).double(), draw(2, length, 7)
    assert torch.equal(scheme.gate.bias, theirs.to_forget_gates[0].bias)  # both start nearly open
    scheme.gate.load_state_dict(theirs.to_forget_gates[0].state_dict())
    q = torch.zeros(2, heads, length, 4, dtype=torch.float64)
    torch.testing.assert_close(scores(q, q, scheme, x=x).tril(), theirs(x).tril())


@torch.no_grad()
def test_attention_is_that_of_x_transformers():
    theirs, (q, k, v), x = DataDependentAlibi(DIM, HEADS).double(), draw(3, 2, HEADS, 9, 4), draw(2, 9, DIM)
    theirs.to_forget_gates[0].weight.copy_(3 * draw(HEADS, DIM))
    scheme = make()
    scheme.gate.load_state_dict(theirs.to_forget_gates[0].state_dict())
    future = torch.ones(9, 9, dtype=torch.bool).triu(1)
    bias = theirs(x).masked_fill(future, -torch.inf)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    torch.testing.assert_close(attend(q, k, v, scheme, causal=True, x=x), expected)


@pytest.mark.parametrize("heads", [2, 3])
@torch.no_grad()
def test_equal_gates_are_alibi_with_slope_minus_log_f(heads):
    """Also for keys after the query, and for a cache; not where keys are missing, because these close no gate."""
    scheme, q, k, x = Fox(DIM, heads).double(), draw(2, heads, 4, 4), draw(2, heads, 9, 4), draw(2, 9, DIM)
    f = (-slopes(heads)).exp()
    scheme.gate.weight.zero_()
    scheme.gate.bias.copy_((f / (1 - f)).log())
    torch.testing.assert_close(scores(q, k, scheme, x=x), scores(q, k, Alibi(heads)))
    i, j = torch.tensor([0, 7, 3, 8]), torch.arange(9)
    torch.testing.assert_close(scores(q, k, scheme, i, j, x=x), scores(q, k, Alibi(heads), i, j))
    dropped = scores(q, k, scheme, i, 2 * j, x=x) - scores(q, k, Alibi(heads), i, 2 * j)
    assert dropped.abs().max() > 0.1


@torch.no_grad()
def test_open_gates_tell_nothing_and_a_shut_one_hides_what_stands_before_it():
    scheme, (q, k, v) = make(), draw(3, 1, HEADS, 7, 4)
    open_x, shut_x = torch.zeros(1, 7, DIM).double(), torch.zeros(1, 7, DIM).double()
    scheme.gate.weight.copy_(torch.eye(HEADS, DIM))
    open_x[..., :HEADS] = shut_x[..., :HEADS] = 1e3
    torch.testing.assert_close(attend(q, k, v, scheme, x=open_x), attend(q, k, v, NoPosition()))
    shut_x[:, 3, 0] = -1e3  # for the first head
    first, second = weights(q, k, scheme, causal=True, x=shut_x)[0]
    plain = weights(q, k, NoPosition(), causal=True)[0]
    assert (first[3:, :3] == 0).all()
    torch.testing.assert_close(first[:3], plain[0, :3])
    torch.testing.assert_close(first[3:, 3:], plain[0, 3:, 3:] / plain[0, 3:, 3:].sum(-1, keepdim=True))
    torch.testing.assert_close(second, plain[1])


@given(st.integers(1, 8), st.integers(0, 8))
def test_with_a_cache_the_queries_are_the_last_ones(n_q, before):
    assert_reader_with_a_cache(make(), SIZES, n_q, before)


@torch.no_grad()
def test_a_place_without_a_key_closes_no_gate():
    scheme, q, k, x = make(), draw(1, HEADS, 1, 4), draw(1, HEADS, 5, 4), draw(1, 5, DIM)
    i, kept = torch.tensor([4]), torch.tensor([0, 1, 3, 4])  # the key at 2 left the cache
    whole = scores(q, k, scheme, i, torch.arange(5), x=x)[..., kept]
    dropped = scores(q, k[:, :, kept], scheme, i, kept, x=x[:, kept])
    gate = F.logsigmoid(scheme.gate(x))[:, 2].view(1, HEADS, 1, 1)
    before = torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    torch.testing.assert_close(dropped, whole - gate * before)


def test_the_text_learns_what_is_forgotten():
    """Gradients to the hidden states of the tokens between, and to the two numbers of each gate."""
    scheme, (q, k), x = make(), draw(2, 1, HEADS, 6, 4), draw(1, 6, DIM).requires_grad_()
    scores(q, k, scheme, x=x)[:, :, 4, 1].sum().backward()  # the query at 4 and the key at 1
    assert (x.grad[0].abs().sum(-1) > 0).tolist() == [False, False, True, True, True, False]
    assert all((w.grad != 0).all() for w in scheme.parameters())
    assert sum(w.numel() for w in Fox(768, 12).parameters()) == 768 * 12 + 12


@torch.no_grad()
def test_sums_are_in_float32_in_a_bfloat16_model():
    """In bfloat16 itself the sum of many gates would be rounded: it has no 257."""
    scheme = Fox(2, 1).bfloat16()
    scheme.gate.weight.zero_()
    scheme.gate.bias.fill_(-100.0)  # log f is -100
    x = torch.zeros(1, 300, 2, dtype=torch.bfloat16)
    bias = scheme.read(x, (torch.tensor([299]), torch.arange(300)))
    assert bias[0, 0, 0].tolist() == [-100.0 * (299 - j) for j in range(300)]


G, P = -torch.ones(1, 2, 3), torch.arange(3)
Q = torch.zeros(1, HEADS, 3, 4, dtype=torch.float64)
X = torch.zeros(1, 3, DIM, dtype=torch.float64)
REFUSED = [
    (lambda: Fox(0, 2), ValueError, ("dim", "at least 1", "0")),
    (lambda: Fox(8, 2.5), ValueError, ("num_heads", "2.5")),
    (lambda: Fox("8", 2), TypeError, ("dim", "'8'")),
    (lambda: scores(Q, Q, make()), ValueError, ("x must", "hidden states", "None")),
    (lambda: attend(Q, Q, Q, make()), ValueError, ("x must", "hidden states", "None")),
    (lambda: attend(Q, Q, Q, make(), causal=True), ValueError, ("x must", "hidden states", "None")),
    (lambda: scores(Q, Q, make(), x=X[..., :4]), ValueError, ("x must", "5", "4")),
    (lambda: scores(Q, Q, make(), x=X[:, :2]), ValueError, ("x must", "(1, 3)", "(1, 2, 5)")),
    (lambda: scores(Q, Q, make(), x=X[0]), ValueError, ("x must", "(B, Lk, D)", "(3, 5)")),
    (lambda: scores(Q, Q, make(), x=X.tolist()), TypeError, ("x must", "list")),
    (lambda: scores(Q, Q, make(heads=3), x=X), ValueError, ("score_bias", "heads", "(1, 3, 3, 3)")),
    (lambda: forgetting(G[0], P, P), ValueError, ("log_gates", "(B, H, Lk)", "(2, 3)")),
    (lambda: forgetting(G.long(), P, P), TypeError, ("log_gates", "int64")),
    (lambda: forgetting(G, P, P[:2]), ValueError, ("key_positions", "3", "2")),
    (lambda: forgetting(G, P.float(), P), TypeError, ("query_positions", "float32")),
    (lambda: forgetting(G, P, [0, 1, 2]), TypeError, ("key_positions", "list")),
]


@pytest.mark.parametrize(("call", "error", "words"), REFUSED)
def test_refusals_name_argument_and_value(call, error, words):
    assert_refused(call, error, words)
