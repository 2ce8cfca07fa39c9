"""Learned profile: loops over the formula, transformers and x_transformers, what a curve can do, refusals."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.inkling.modeling_inkling import InklingRelativeLogits
from x_transformers.x_transformers import RelativeProjPositionalBias

from loops import (
    assert_formula_of_a_reader,
    assert_formula_of_a_reader_under_a_causal_mask,
    assert_refused,
    draw,
)
from posenc_lib.attention import scores
from posenc_lib.schemes.learned_profile import LearnedProfile, profile_bias
from posenc_lib.schemes.music_transformer import MusicTransformer
from posenc_lib.schemes.none import NoPosition

DIM, HEADS, N = 5, 2, 3
SIZES = HEADS, 4, DIM  # heads, width of a head, width of the hidden states
# Positions of queries and of keys; every query is one of its keys.
POSITIONS = {
    "from 0": (torch.arange(7), torch.arange(7)),
    "cache": (torch.arange(5, 7), torch.arange(7)),
    "shifted": (torch.arange(1000, 1003), torch.arange(997, 1004)),
    "scattered": (torch.tensor([41, -9, 2]), torch.tensor([0, 2, 41, 5, -9, 40, 1])),
    "of each text": (torch.tensor([[0, 4], [3, -2]]), torch.tensor([[4, 1, 2, 3, 0], [3, 0, -2, 7, -9]])),
}


def make(max_distance=4, dim=DIM, heads=HEADS, n=N):
    """A scheme with parameters of size 1."""
    scheme = LearnedProfile(dim, heads, n, max_distance).double()
    with torch.no_grad():
        for parameter in scheme.parameters():
            parameter.copy_(draw(*parameter.shape))
    return scheme


def loop_scores(q, k, x, query_positions, key_positions, scheme):
    """s_ij = q_i.k_j / sqrt(d) + r_i . P[:, i - j], one number at a time."""
    (batch, heads, n_q, width), n_k = q.shape, k.shape[2]
    queries, keys = query_positions.expand(batch, -1).tolist(), key_positions.expand(batch, -1).tolist()
    W = scheme.mix.weight.view(heads, scheme.num_profiles, -1)
    s = torch.zeros(batch, heads, n_q, n_k, dtype=torch.float64)
    for b, h, i, j in torch.cartesian_prod(*(torch.arange(n) for n in s.shape)).tolist():
        s[b, h, i, j] = q[b, h, i] @ k[b, h, j] / math.sqrt(width)
        distance = queries[b][i] - keys[b][j]
        if 0 <= distance < scheme.max_distance:
            own = x[b, keys[b].index(queries[b][i])]
            s[b, h, i, j] += sum(W[h, n] @ own * scheme.profiles[n, distance] for n in range(scheme.num_profiles))
    return s


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", POSITIONS)
def test_scores_and_outputs_are_those_of_the_formula(name, dtype):
    assert_formula_of_a_reader(make(), loop_scores, SIZES, POSITIONS[name], dtype)


@pytest.mark.parametrize("padded", [False, True])
def test_outputs_under_a_causal_mask(padded):
    assert_formula_of_a_reader_under_a_causal_mask(make(), loop_scores, SIZES, padded)


@pytest.mark.parametrize("name", list(POSITIONS)[:-1])
@pytest.mark.parametrize("max_distance", [1, 4, 50])
@torch.no_grad()
def test_bias_is_that_of_transformers(name, max_distance):
    (i, j), mix = POSITIONS[name], draw(2, HEADS, len(POSITIONS[name][0]), N)
    theirs = InklingRelativeLogits(N, max_distance).double()
    theirs.proj.copy_(draw(N, max_distance))
    expected = theirs(mix.transpose(1, 2), i, j)
    ours = profile_bias(mix, theirs.proj, j - i[:, None])
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("n_q", "n_k"), [(1, 1), (9, 9), (3, 9)])
@torch.no_grad()
def test_bias_is_that_of_x_transformers(n_q, n_k):
    """Theirs has a bias in the projection, which is set to 0, and is given the queries' hidden states only."""
    theirs = RelativeProjPositionalBias(7, 3, num_distance_basis=N, max_dist=4).double()
    theirs.to_distance_weights[0].bias.zero_()
    scheme, x, q = LearnedProfile(7, 3, N, 4).double(), draw(2, n_k, 7), draw(2, 3, n_k, 4)
    scheme.mix.weight.copy_(theirs.to_distance_weights[0].weight)
    scheme.profiles.copy_(theirs.distance_bank)
    last = q[:, :, n_k - n_q :]
    bias = scores(last, q, scheme, x=x) - scores(last, q, NoPosition())
    torch.testing.assert_close(bias, theirs(x[:, n_k - n_q :], n_k), rtol=0, atol=1e-12)


@torch.no_grad()
def test_with_queries_for_hidden_states_it_is_the_music_transformer():
    """One head, W such that r_i = q_i / sqrt(d), and as many curves as components; for keys not after the query."""
    music, scheme = MusicTransformer(4, max_length=6).double(), LearnedProfile(4, 1, 4, 6).double()
    q, k = draw(2, 2, 1, 6, 4)
    scheme.mix.weight.copy_(torch.eye(4) / 2)
    for n in range(4):  # the curve n is what the query e_n says of every distance
        unit = torch.zeros(1, 1, 6, 4, dtype=torch.float64)
        unit[..., n] = 2.0
        scheme.profiles[n] = scores(unit, 0 * unit, music)[0, 0, 5].flip(0)
    ours = scores(q, k, scheme, x=q[:, 0])
    torch.testing.assert_close(ours.tril(), scores(q, k, music).tril())


@torch.no_grad()
def test_every_token_draws_its_own_curve():
    """A curve of four steps; one token has it upright, one upside down, one not at all."""
    scheme, q = LearnedProfile(1, 1, num_profiles=1, max_distance=4), torch.zeros(1, 1, 6, 2)
    scheme.mix.weight.fill_(1.0)
    scheme.profiles.copy_(torch.tensor([[4.0, 3.0, 2.0, 1.0]]))
    x = torch.tensor([0.0, 0.0, 0.0, 1.0, -1.0, 0.0]).view(1, 6, 1)
    upright, upside_down, flat = scores(q, q, scheme, x=x)[0, 0, 3:]
    assert upright.tolist() == [1, 2, 3, 4, 0, 0]
    assert upside_down.tolist() == [0, -1, -2, -3, -4, 0]
    assert flat.tolist() == [0] * 6


@given(st.integers(1, 8), st.integers(0, 8))
def test_with_a_cache_the_queries_are_the_last_ones(n_q, before):
    scheme, (q, k), x = make(), draw(2, 1, HEADS, n_q + before, 4), draw(1, n_q + before, DIM)
    with torch.no_grad():
        whole = scores(q, k, scheme, x=x)[:, :, before:]
        torch.testing.assert_close(scores(q[:, :, before:], k, scheme, x=x), whole)
        x[:, :before] = 0  # the hidden states of those before are not needed
        torch.testing.assert_close(scores(q[:, :, before:], k, scheme, x=x), whole)


@torch.no_grad()
def test_of_several_keys_at_one_position_the_first_is_the_query():
    scheme, q, x = make(), draw(1, HEADS, 3, 4), draw(1, 3, DIM)
    p = torch.tensor([7, 7, 6])
    ours = scores(q, q, scheme, p, p, x=x)
    torch.testing.assert_close(ours, loop_scores(q, q, x, p, p, scheme))


def test_parameters_and_their_gradients():
    scheme, (q, k), x = make(max_distance=6), draw(2, 1, HEADS, 6, 4), draw(1, 6, DIM).requires_grad_()
    scores(q, k, scheme, x=x)[:, :, 4, 1].sum().backward()
    assert (x.grad[0].abs().sum(-1) > 0).tolist() == [False, False, False, False, True, False]
    assert (scheme.profiles.grad.abs().sum(0) > 0).tolist() == [False, False, False, True, False, False]
    assert sum(w.numel() for w in LearnedProfile(768, 12).parameters()) == 16 * (768 * 12 + 1024)


Q = torch.zeros(1, HEADS, 3, 4, dtype=torch.float64)
X, R, P = torch.zeros(1, 3, DIM, dtype=torch.float64), torch.zeros(1, HEADS, 3, N), torch.zeros(3, 3).long()
REFUSED = [
    (lambda: LearnedProfile(0, 2), ValueError, ("dim", "at least 1", "0")),
    (lambda: LearnedProfile(8, 2.5), ValueError, ("num_heads", "2.5")),
    (lambda: LearnedProfile(8, 2, 0), ValueError, ("num_profiles", "at least 1", "0")),
    (lambda: LearnedProfile(8, 2, max_distance=-3), ValueError, ("max_distance", "at least 1", "-3")),
    (lambda: LearnedProfile("8", 2), TypeError, ("dim", "'8'")),
    (lambda: scores(Q, Q, make()), ValueError, ("x must", "hidden states", "LearnedProfile", "None")),
    (lambda: scores(Q, Q, make(), x=X[..., :4]), ValueError, ("x must", "5", "4")),
    (lambda: scores(Q, Q, make(heads=3), x=X), ValueError, ("score_bias", "heads", "(1, 3, 3, 3)")),
    (
        lambda: scores(Q, Q, make(), torch.tensor([0, 3, 1]), torch.arange(3), x=X),
        ValueError,
        ("query_positions must be among key_positions", "got 3"),
    ),
    (lambda: profile_bias(R[0], torch.zeros(N, 4), P), ValueError, ("mix", "(B, H, Lq, n)", "(2, 3, 3)")),
    (lambda: profile_bias(R, torch.zeros(4, 4), P), ValueError, ("mix", "width 4", "3")),
    (lambda: profile_bias(R, torch.zeros(N), P), ValueError, ("profiles", "(n, E)", "(3,)")),
    (lambda: profile_bias(R, torch.zeros(N, 4), P[:2]), ValueError, ("relative_position", "3 queries", "(2, 3)")),
    (lambda: profile_bias(R, torch.zeros(N, 4).long(), P), TypeError, ("profiles", "int64")),
    (lambda: profile_bias(R, torch.zeros(N, 4), P.float()), TypeError, ("relative_position", "float32")),
]


@pytest.mark.parametrize(("call", "error", "words"), REFUSED)
def test_refusals_name_argument_and_value(call, error, words):
    assert_refused(call, error, words)
