"""Selective RoPE: the product of rotations by loops, equal steps are RoPE, what tokens can count, refusals."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from loops import (
    POSITIONS,
    assert_formula_of_a_reader,
    assert_formula_of_a_reader_under_a_causal_mask,
    assert_reader_places_every_text,
    assert_reader_with_a_cache,
    assert_refused,
    draw,
)
from posenc_lib.attention import attend, scores
from posenc_lib.schemes.none import NoPosition
from posenc_lib.schemes.rope import Rotary
from posenc_lib.schemes.selective import SelectiveRotary, running_angles
from posenc_lib.schemes.temperature import QueryTemperature

DIM, HEADS, WIDTH = 5, 2, 6
SIZES = HEADS, WIDTH, DIM  # heads, width of a head, width of the hidden states


def make(dim=DIM, heads=HEADS, head_dim=WIDTH, **options):
    """A scheme with steps of size 1."""
    scheme = SelectiveRotary(dim, heads, head_dim, **options).double()
    with torch.no_grad():
        scheme.steps.weight.copy_(draw(*scheme.steps.weight.shape))
        scheme.steps.bias.copy_(draw(*scheme.steps.bias.shape))
    return scheme


def rotation(angle):
    """The 2 x 2 rotation by an angle."""
    return torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]], dtype=torch.float64)


def loop_scores(q, k, x, query_positions, key_positions, scheme):
    """k_j^T R_{j+1} ... R_i q_i / sqrt(d), one rotation of one pair by one token after the other."""
    (batch, heads, n_q, width), n_k = q.shape, k.shape[2]
    queries, keys = query_positions.expand(batch, -1).tolist(), key_positions.expand(batch, -1).tolist()
    W, bias = scheme.steps.weight.view(heads, width // 2, -1), scheme.steps.bias.view(heads, -1)
    s = torch.zeros(batch, heads, n_q, n_k, dtype=torch.float64)
    for b, h, i, j in torch.cartesian_prod(*(torch.arange(n) for n in s.shape)).tolist():
        low, high = sorted((queries[b][i], keys[b][j]))
        between = [t for t in range(n_k) if low < keys[b][t] <= high]
        for c in range(width // 2):
            pair = [c, c + width // 2] if scheme.layout == "half" else [2 * c, 2 * c + 1]
            R = torch.eye(2, dtype=torch.float64)
            for t in between:
                R = R @ rotation(scheme.base ** (-2 * c / width) * float(W[h, c] @ x[b, t] + bias[h, c]))
            if keys[b][j] > queries[b][i]:
                R = R.T
            s[b, h, i, j] += k[b, h, j, pair] @ R @ q[b, h, i, pair] / math.sqrt(width)
    return s


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("name", POSITIONS)
def test_scores_and_outputs_are_those_of_the_formula(name, layout, dtype):
    assert_formula_of_a_reader(make(layout=layout, base=20.0), loop_scores, SIZES, POSITIONS[name], dtype)


@pytest.mark.parametrize("padded", [False, True])
def test_outputs_under_a_causal_mask(padded):
    assert_formula_of_a_reader_under_a_causal_mask(make(), loop_scores, SIZES, padded)


def test_every_text_turns_at_its_own_positions():
    assert_reader_places_every_text(make(), loop_scores, SIZES)


@pytest.mark.parametrize("options", [{}, {"base": 100.0, "layout": "half"}], ids=str)
@torch.no_grad()
def test_equal_steps_of_one_are_rope(options):
    """As a new scheme nearly has them; also for a cache, not where keys are missing, because these turn nothing."""
    scheme, rope = SelectiveRotary(DIM, HEADS, WIDTH, **options).double(), Rotary(WIDTH, **options)
    assert (scheme.steps.bias == 1).all()
    scheme.steps.weight.zero_()
    q, k, x = draw(2, HEADS, 4, WIDTH), draw(2, HEADS, 9, WIDTH), draw(2, 9, DIM)
    torch.testing.assert_close(scores(q, k, scheme, x=x), scores(q, k, rope))
    i, j = torch.tensor([0, 7, 3, 8]), torch.arange(9)
    torch.testing.assert_close(scores(q, k, scheme, i, j, x=x), scores(q, k, rope, i, j))
    assert (scores(q, k, scheme, i, 2 * j, x=x) - scores(q, k, rope, i, 2 * j)).abs().max() > 0.1


@torch.no_grad()
def test_tokens_that_turn_by_half_a_circle_count_themselves_modulo_two():
    """Parity, which no fixed angle can tell: the score of equal words is 1 or -1."""
    scheme, same = SelectiveRotary(1, 1, 2).double(), torch.zeros(1, 1, 6, 2, dtype=torch.float64)
    same[..., 0] = 2**0.25
    scheme.steps.weight.fill_(math.pi)
    scheme.steps.bias.zero_()
    x = torch.tensor([1.0, 1.0, 0.0, 1.0, 0.0, 0.0], dtype=torch.float64).view(1, 6, 1)
    parity = torch.tensor([-1.0, 1.0, 1.0, -1.0, -1.0, -1.0], dtype=torch.float64)  # of the ones so far
    torch.testing.assert_close(scores(same, same, scheme, x=x)[0, 0], parity[:, None] * parity)


@given(st.integers(1, 8), st.integers(0, 8))
def test_with_a_cache_the_queries_are_the_last_ones(n_q, before):
    assert_reader_with_a_cache(make(), SIZES, n_q, before)


def test_the_text_learns_how_far_it_turns():
    """Gradients to the hidden states of the tokens between, and to the two numbers of each pair."""
    scheme, (q, k), x = make(), draw(2, 1, HEADS, 6, WIDTH), draw(1, 6, DIM).requires_grad_()
    scores(q, k, scheme, x=x)[:, :, 4, 1].sum().backward()  # the query at 4 and the key at 1
    assert (x.grad[0].abs().sum(-1) > 1e-9).tolist() == [False, False, True, True, True, False]
    assert all((w.grad != 0).all() for w in scheme.parameters())
    assert sum(w.numel() for w in SelectiveRotary(768, 12, 64).parameters()) == 769 * 12 * 32


@torch.no_grad()
def test_angles_keep_their_digits_in_a_long_text():
    """Summed in float32, a million steps of 1 would be off by far more than the cosine can bear."""
    scheme, x = SelectiveRotary(1, 1, 2), torch.zeros(1, 1_000_001, 1)
    scheme.steps.weight.zero_()
    scheme.steps.bias.fill_(0.1)
    p = torch.arange(1_000_001)
    (cos, _), _ = scheme.read_tokens(x, p[-1:], p)
    exact = math.cos(1_000_001 * float(torch.tensor(0.1)))
    assert abs(float(cos) - exact) < 1e-6


@torch.no_grad()
def test_within_another_scheme():
    """Query temperature hands the hidden states on."""
    scheme, (q, k), x = make(), draw(2, 1, HEADS, 5, WIDTH), draw(1, 5, DIM)
    warm = QueryTemperature(every=2, beta=1.0, scheme=scheme)
    factors = 1 + torch.tensor([0, 0, 1, 1, 2], dtype=torch.float64).log1p()
    torch.testing.assert_close(scores(q, k, warm, x=x), factors[:, None] * scores(q, k, scheme, x=x))
    assert (scores(q, k, scheme, x=x) - scores(q, k, NoPosition())).abs().max() > 0.1


Q = torch.zeros(1, HEADS, 3, WIDTH, dtype=torch.float64)
X, G, P = torch.zeros(1, 3, DIM, dtype=torch.float64), torch.zeros(1, 2, 3, 4), torch.arange(3)
REFUSED = [
    (lambda: SelectiveRotary(0, 2, 4), ValueError, ("dim", "at least 1", "0")),
    (lambda: SelectiveRotary(8, 2.5, 4), ValueError, ("num_heads", "2.5")),
    (lambda: SelectiveRotary(8, 2, 5), ValueError, ("head_dim", "even", "5")),
    (lambda: SelectiveRotary(8, 2, 4, base=0), ValueError, ("base", "greater than 0", "0")),
    (lambda: SelectiveRotary(8, 2, 4, layout="pairs"), ValueError, ("layout", "'half'", "'pairs'")),
    (lambda: SelectiveRotary("8", 2, 4), TypeError, ("dim", "'8'")),
    (lambda: scores(Q, Q, make()), ValueError, ("x must", "hidden states", "SelectiveRotary", "None")),
    (lambda: attend(Q, Q, Q, make(), causal=True), ValueError, ("x must", "hidden states", "None")),
    (lambda: scores(Q, Q, make(), x=X[..., :4]), ValueError, ("x must", "5", "4")),
    (lambda: scores(Q, Q, make(heads=3), x=X), ValueError, ("x must", "num_heads = 3", "2")),
    (lambda: scores(Q, Q, make(head_dim=4), x=X), ValueError, ("x must", "head_dim = 4", "6")),
    (lambda: running_angles(G[0], P, P), ValueError, ("omega", "(B, H, Lk, d/2)", "(2, 3, 4)")),
    (lambda: running_angles(G.long(), P, P), TypeError, ("omega", "int64")),
    (lambda: running_angles(G, P, P[:2]), ValueError, ("key_positions", "3", "2")),
    (lambda: running_angles(G, P.float(), P), TypeError, ("query_positions", "float32")),
]


@pytest.mark.parametrize(("call", "error", "words"), REFUSED)
def test_refusals_name_argument_and_value(call, error, words):
    assert_refused(call, error, words)
