"""PaTH: the product of matrices by loops, the blockwise form of the authors, reflections and deletions, refusals."""

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
from posenc_lib.attention import scores
from posenc_lib.schemes.none import NoPosition
from posenc_lib.schemes.path import PaTH, path_products

DIM, HEADS, WIDTH = 5, 2, 3
SIZES = HEADS, WIDTH, DIM  # heads, width of a head, width of the hidden states


def make(dim=DIM, heads=HEADS, head_dim=WIDTH):
    """A scheme with parameters of size 1."""
    scheme = PaTH(dim, heads, head_dim).double()
    with torch.no_grad():
        for parameter in scheme.parameters():
            parameter.copy_(draw(*parameter.shape))
    return scheme


def loop_factors(x, scheme):
    """H_t = I - beta_t w_t w_t^T, (B, H, L, d, d), one matrix at a time."""
    (batch, length), heads, width = x.shape[:2], scheme.num_heads, scheme.head_dim
    W, u = scheme.direction.weight.view(heads, width, -1), scheme.strength.weight
    factors = torch.zeros(batch, heads, length, width, width, dtype=torch.float64)
    for b, h, t in torch.cartesian_prod(*(torch.arange(n) for n in (batch, heads, length))).tolist():
        w = W[h] @ x[b, t]
        beta = 2 / (1 + math.exp(-float(u[h] @ x[b, t] + scheme.strength.bias[h])))
        factors[b, h, t] = torch.eye(width) - beta * torch.outer(w, w) / (w @ w)
    return factors


def loop_products(q, k, factors, query_positions, key_positions):
    """k_j^T H_{j+1} ... H_i q_i, one pair after the other."""
    (batch, heads, n_q, width), n_k = q.shape, k.shape[2]
    queries, keys = query_positions.expand(batch, -1).tolist(), key_positions.expand(batch, -1).tolist()
    s = torch.zeros(batch, heads, n_q, n_k, dtype=torch.float64)
    for b, h, i, j in torch.cartesian_prod(*(torch.arange(n) for n in s.shape)).tolist():
        between = sorted((keys[b][t], t) for t in range(n_k) if keys[b][j] < keys[b][t] <= queries[b][i])
        product = torch.eye(width, dtype=torch.float64)
        for _, t in between:
            product = product @ factors[b, h, t]
        s[b, h, i, j] = k[b, h, j] @ product @ q[b, h, i]
    return s


def loop_scores(q, k, x, query_positions, key_positions, scheme):
    return loop_products(q, k, loop_factors(x, scheme), query_positions, key_positions) / math.sqrt(q.shape[-1])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", POSITIONS)
def test_scores_and_outputs_are_those_of_the_formula(name, dtype):
    assert_formula_of_a_reader(make(), loop_scores, SIZES, POSITIONS[name], dtype)


@pytest.mark.parametrize("padded", [False, True])
def test_outputs_under_a_causal_mask(padded):
    assert_formula_of_a_reader_under_a_causal_mask(make(), loop_scores, SIZES, padded)


def test_every_text_has_its_own_positions():
    assert_reader_places_every_text(make(), loop_scores, SIZES)


@pytest.mark.parametrize("length", [1, 2, 9])
@torch.no_grad()
def test_scores_of_a_causal_text_by_the_inverse_of_a_triangular_matrix(length):
    """The compact form of the product that the authors' algorithm uses, for the whole text as one block.

    With the strictly lower triangle of B = diag(beta) W W^T, T = (I + B)^-1 diag(beta): the scores of the pairs j <= i
    are Q K^T - tril(Q W^T) T stril(W K^T).
    """
    q, k, w = draw(3, 2, HEADS, length, WIDTH)
    w, beta = w / w.norm(dim=-1, keepdim=True), 2 * torch.rand(2, HEADS, length).double()
    B = (beta[..., None] * (w @ w.mT)).tril(-1)
    T = torch.linalg.inv(torch.eye(length) + B) * beta[..., None, :]
    expected = (q @ k.mT - (q @ w.mT).tril() @ T @ (w @ k.mT).tril(-1)).tril()
    p = torch.arange(length)
    torch.testing.assert_close(path_products(q, k, w, beta, p, p).tril(), expected)


@torch.no_grad()
def test_two_reflections_are_a_rotation_and_in_the_other_order_the_one_back():
    """By twice the angle between their directions; keys at 0, which reflect nothing, and queries at 2 read it."""
    e, slanted = torch.eye(2).double(), torch.tensor([0.6, 0.8]).double()
    k = torch.stack([*e, 0 * slanted, 0 * slanted])[None, None]
    w = torch.stack([*e, e[0], slanted])[None, None]
    beta, queries = torch.tensor([[[0.0, 0.0, 2.0, 2.0]]]).double(), torch.tensor([2, 2])
    there, back = (
        path_products(e[None, None], k, w, beta, queries, torch.tensor(keys))[0, 0, :, :2].T
        for keys in ([0, 0, 1, 2], [0, 0, 2, 1])
    )
    torch.testing.assert_close(there, torch.tensor([[-0.28, 0.96], [-0.96, -0.28]]).double())
    torch.testing.assert_close(back, there.T)
    twice = path_products(e[None, None], k, e[0].expand(1, 1, 4, 2), beta, queries, torch.tensor([0, 0, 1, 2]))
    torch.testing.assert_close(twice[0, 0, :, :2], e)


@torch.no_grad()
def test_a_strength_of_one_deletes_a_direction_and_of_zero_nothing():
    q, k = draw(2, 1, 1, 5, 3)
    w = torch.eye(3, dtype=torch.float64)[0].expand(1, 1, 5, 3)
    beta, p = torch.tensor([[[0.0, 0.0, 1.0, 0.0, 0.0]]]).double(), torch.arange(5)
    s = path_products(q, k, w, beta, p, p)
    rest = q[..., 1:] @ k[..., 1:].mT
    torch.testing.assert_close(s[..., 2:, :2], rest[..., 2:, :2])  # token 2 was passed
    torch.testing.assert_close(s[..., :2, :], (q @ k.mT)[..., :2, :])
    torch.testing.assert_close(s[..., 2:], (q @ k.mT)[..., 2:])


@torch.no_grad()
def test_keys_after_the_query_and_the_query_itself_keep_the_plain_product():
    scheme, q, x = make(), draw(1, HEADS, 6, WIDTH), draw(1, 6, DIM)
    ours, plain = scores(q, q, scheme, x=x), scores(q, q, NoPosition())
    torch.testing.assert_close(ours.triu(), plain.triu())
    assert (ours - plain).tril(-1).abs().max() > 0.1


@given(st.integers(1, 8), st.integers(0, 8))
def test_with_a_cache_the_queries_are_the_last_ones(n_q, before):
    assert_reader_with_a_cache(make(), SIZES, n_q, before)


def test_the_text_learns_what_is_passed():
    """Gradients to the hidden states of the tokens between, and to every parameter."""
    scheme, (q, k), x = make(), draw(2, 1, HEADS, 6, WIDTH), draw(1, 6, DIM).requires_grad_()
    scores(q, k, scheme, x=x)[:, :, 4, 1].sum().backward()  # the query at 4 and the key at 1
    assert (x.grad[0].abs().sum(-1) > 1e-9).tolist() == [False, False, True, True, True, False]
    assert all((w.grad != 0).all() for w in scheme.parameters())
    assert sum(w.numel() for w in PaTH(768, 12, 64).parameters()) == 768 * 12 * 64 + 768 * 12 + 12


Q = torch.zeros(1, HEADS, 3, WIDTH, dtype=torch.float64)
X, BETA, P = torch.zeros(1, 3, DIM, dtype=torch.float64), torch.zeros(1, HEADS, 3), torch.arange(3)
REFUSED = [
    (lambda: PaTH(0, 2, 4), ValueError, ("dim", "at least 1", "0")),
    (lambda: PaTH(8, 2.5, 4), ValueError, ("num_heads", "2.5")),
    (lambda: PaTH(8, 2, -1), ValueError, ("head_dim", "at least 1", "-1")),
    (lambda: PaTH("8", 2, 4), TypeError, ("dim", "'8'")),
    (lambda: scores(Q, Q, make()), ValueError, ("x must", "hidden states", "PaTH", "None")),
    (lambda: scores(Q, Q, make(), x=X[..., :4]), ValueError, ("x must", "5", "4")),
    (lambda: scores(Q, Q, make(heads=3), x=X), ValueError, ("q must", "num_heads = 3", "2")),
    (lambda: scores(Q, Q, make(head_dim=4), x=X), ValueError, ("q must", "head_dim = 4", "3")),
    (lambda: path_products(Q[0], Q, Q, BETA, P, P), ValueError, ("q must", "(B, H, Lq, d)", "(2, 3, 3)")),
    (lambda: path_products(Q, Q[..., :2], Q, BETA, P, P), ValueError, ("k must", "3", "2")),
    (lambda: path_products(Q, Q, Q[..., :2], BETA, P, P), ValueError, ("w and beta", "(1, 2, 3, 3)", "(1, 2, 3, 2)")),
    (lambda: path_products(Q, Q, Q, BETA[..., :2], P, P), ValueError, ("w and beta", "(1, 2, 2)")),
    (lambda: path_products(Q, Q, Q, BETA.long(), P, P), TypeError, ("beta", "int64")),
    (lambda: path_products(Q, Q, Q, BETA, P, P[:2]), ValueError, ("key_positions", "3", "2")),
    (lambda: path_products(Q, Q, Q, BETA, P.float(), P), TypeError, ("query_positions", "float32")),
]


@pytest.mark.parametrize(("call", "error", "words"), REFUSED)
def test_refusals_name_argument_and_value(call, error, words):
    assert_refused(call, error, words)
