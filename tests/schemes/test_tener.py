"""TENER: against a loop from the paper, its place among its relatives, what it knows of left and right, refusals."""

import math
from functools import partial

import pytest
import torch

from loops import assert_formula_under_a_causal_mask, assert_terms_of_each_text, draw
from posenc_lib.attention import scores
from posenc_lib.schemes.nezha import Nezha
from posenc_lib.schemes.tener import Tener
from posenc_lib.schemes.transformer_xl import TransformerXL


def qk(heads=2, n_queries=5, n_keys=7, d=6, batch=2, dtype=torch.float64):
    return draw(batch, heads, n_queries, d, dtype=dtype), draw(batch, heads, n_keys, d, dtype=dtype)


def sinusoid(r, width):
    """R_r, number by number."""
    angles = [r * 10_000 ** (-2 * t / width) for t in range(width // 2)]
    return [f(angle) for angle in angles for f in (math.sin, math.cos)]


def loop_scores(q, k, query_positions, key_positions, u, v):
    """Equation 18 with r = j - i, in float64, number by number."""
    (batch, heads, n_queries, d), n_keys = q.shape, k.shape[2]
    q, k, u, v = (x.tolist() for x in (q.double(), k.double(), u.double(), v.double()))
    s = torch.empty(batch, heads, n_queries, n_keys, dtype=torch.float64)
    for b, h, i, j in torch.cartesian_prod(*(torch.arange(n) for n in s.shape)).tolist():
        R = sinusoid(int(key_positions[j]) - int(query_positions[i]), d)
        query, key = q[b][h][i], k[b][h][j]
        content = sum((query[c] + u[h][c]) * key[c] for c in range(d))
        s[b, h, i, j] = content + sum((query[c] + v[h][c]) * R[c] for c in range(d))
    return s


POSITIONS = {
    "from 0": (torch.arange(7), torch.arange(7)),
    "one token": (torch.tensor([4]), torch.tensor([4])),
    "cache": (torch.arange(5, 7), torch.arange(7)),
    "shifted": (torch.arange(1000, 1003), torch.arange(997, 1004)),
    "scattered": (torch.tensor([3, -8, 40]), torch.tensor([0, 2, 41, 5, -9])),
    "far apart": (torch.tensor([0, 9_000]), torch.tensor([5, 20_000, -70])),
    "small integers": (torch.tensor([0, 250], dtype=torch.uint8), torch.tensor([3, 7, 255], dtype=torch.uint8)),
}


@pytest.mark.parametrize("heads, d", [(1, 2), (3, 4)])
@pytest.mark.parametrize("name", POSITIONS)
def test_scores_are_those_of_the_paper(name, heads, d):
    i, j = POSITIONS[name]
    scheme = Tener(heads, d).double()
    q, k = qk(heads, len(i), len(j), d)
    expected = loop_scores(q, k, i, j, scheme.u, scheme.v)
    torch.testing.assert_close(scores(q, k, scheme, i, j), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("n_queries, n_keys", [(7, 7), (3, 8)])
def test_without_positions_the_queries_are_the_last_keys(n_queries, n_keys):
    scheme, (q, k) = Tener(2, 6).double(), qk(2, n_queries, n_keys)
    i, j = range(n_keys - n_queries, n_keys), range(n_keys)
    torch.testing.assert_close(scores(q, k, scheme), loop_scores(q, k, i, j, scheme.u, scheme.v), rtol=0, atol=1e-12)


@pytest.mark.parametrize("padded", [False, True])
def test_outputs_under_a_causal_mask(padded):
    scheme = Tener(3, 4).double()
    assert_formula_under_a_causal_mask(scheme, partial(loop_scores, u=scheme.u, v=scheme.v), 3, 6, padded)


def test_the_four_terms_add_up_and_know_what_they_should():
    scheme, (q, k) = Tener(2, 6).double(), qk()
    i, j = torch.arange(2, 7), torch.arange(7)
    a, b, c, d = scheme.terms(q, k, i, j)
    torch.testing.assert_close(a + b + c + d, scores(q, k, scheme), rtol=0, atol=1e-12)
    torch.testing.assert_close(b + c + d, scheme.score_bias(q, k, scheme.per_pair(i, j)), rtol=0, atol=1e-12)
    assert [t.shape for t in (a, b, c, d)] == [(2, 2, 5, 7), (2, 2, 5, 7), (2, 2, 1, 7), (1, 2, 5, 7)]
    torch.testing.assert_close(a, torch.einsum("bhic,bhjc->bhij", q, k))
    torch.testing.assert_close(c[:, :, 0], torch.einsum("hc,bhjc->bhj", scheme.u, k))
    assert torch.equal(d[..., 1:, 1:], d[..., :-1, :-1])  # one number per distance
    assert torch.equal(scheme.terms(draw(*q.shape), draw(*k.shape), i, j)[3], d)
    assert torch.equal(scheme.terms(q, draw(*k.shape), i, j)[1], b)
    assert torch.equal(scheme.terms(draw(*q.shape), k, i, j)[2], c)


def test_terms_at_positions_of_their_own_for_every_text():
    assert_terms_of_each_text(Tener(2, 6).double(), *qk(n_queries=3, n_keys=4))


def test_distances_of_a_million_are_right_in_float32():
    scheme, (q, k) = Tener(1, 6), qk(1, 1, 2, dtype=torch.float32)
    i, j = torch.tensor([0]), torch.tensor([1_000_000, -999_999])
    expected = loop_scores(q, k, i, j, scheme.u, scheme.v)
    torch.testing.assert_close(scores(q, k, scheme, i, j).double(), expected, rtol=0, atol=2e-5)


def test_the_sines_tell_left_from_right_and_the_cosines_do_not():
    scheme, (q, k) = Tener(1, 6).double(), qk(1, 5, 5)
    p = torch.arange(5)
    assert (scores(q, k, scheme, p, p) - scores(q, k, scheme, -p, -p)).abs().max() > 0.1
    q[..., 0::2] = 0
    with torch.no_grad():
        scheme.v[:, 0::2] = 0
    torch.testing.assert_close(scores(q, k, scheme, p, p), scores(q, k, scheme, -p, -p), rtol=0, atol=1e-12)


def test_negative_relative_positions_are_to_the_left():
    """v on the sine of the slowest pair falls from left to right, so its negative wants the left."""
    scheme = Tener(1, 4).double()
    with torch.no_grad():
        scheme.u.zero_()
        scheme.v.copy_(torch.tensor([[0.0, 0.0, -1.0, 0.0]]))
    nothing = torch.zeros(1, 1, 9, 4, dtype=torch.float64)
    s = scores(nothing, nothing, scheme)[0, 0]
    assert (s.diff(dim=-1) < 0).all()
    assert (s.diagonal(-1) > 0).all() and (s.diagonal(1) < 0).all()


def test_the_sign_of_the_distance_moves_to_queries_keys_u_and_v():
    scheme, mirrored, (q, k) = Tener(2, 6).double(), Tener(2, 6).double(), qk()
    S = torch.tensor([-1.0, 1.0], dtype=torch.float64).repeat(3)
    with torch.no_grad():
        mirrored.u.copy_(S * scheme.u)
        mirrored.v.copy_(S * scheme.v)
    i, j = torch.arange(2, 7), torch.arange(7)
    theirs = scores(S * q, S * k, mirrored, -i, -j)
    torch.testing.assert_close(scores(q, k, scheme, i, j), theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("heads, d", [(1, 6), (2, 6), (3, 4)])
def test_it_is_transformer_xl_with_one_projection_and_no_division(heads, d):
    """W_R picks every H-th pair of the wide sinusoid for every head and turns the sines, since there r = i - j."""
    scheme, other = Tener(heads, d).double(), TransformerXL(heads, d).double()
    with torch.no_grad():
        other.u.copy_(scheme.u)
        other.v.copy_(scheme.v)
        other.r_proj.weight.zero_()
        for h in range(heads):
            for t in range(d // 2):
                other.r_proj.weight[h * d + 2 * t, 2 * heads * t] = -1
                other.r_proj.weight[h * d + 2 * t + 1, 2 * heads * t + 1] = 1
    q, k = qk(heads, d=d)
    torch.testing.assert_close(scores(q, k, scheme), math.sqrt(d) * scores(q, k, other), rtol=0, atol=1e-12)


def test_without_u_and_v_it_is_nezha_without_clip_and_division():
    scheme, (q, k) = Tener(2, 6).double(), qk()
    with torch.no_grad():
        scheme.u.zero_()
        scheme.v.zero_()
    theirs = math.sqrt(6) * scores(q, k, Nezha(6, clip=20))
    torch.testing.assert_close(scores(q, k, scheme), theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("heads, d", [(1, 2), (8, 64)])
def test_two_vectors_per_head_are_all_there_is_to_learn(heads, d):
    scheme = Tener(heads, d)
    assert sum(p.numel() for p in scheme.parameters()) == 2 * heads * d
    assert list(scheme.buffers()) == []
    assert scheme.scale(d) == 1


@pytest.mark.parametrize(
    ("make_it", "error", "words"),
    [
        (lambda: Tener(0, 4), ValueError, "num_heads must be at least 1, got 0"),
        (lambda: Tener(2.5, 4), ValueError, "num_heads must be an integer, got 2.5"),
        (lambda: Tener("2", 4), TypeError, "num_heads must be a number, got '2'"),
        (lambda: Tener(2, 5), ValueError, "head_dim must be even, because components come in pairs, got 5"),
        (lambda: Tener(2, 0), ValueError, "head_dim must be at least 1, got 0"),
        (lambda: Tener(2, None), TypeError, "head_dim must be a number, got None"),
        (lambda: scores(*qk(2, d=8), Tener(2, 6)), ValueError, "q must have width head_dim = 6, got 8"),
        (lambda: scores(*qk(3), Tener(2, 6)), ValueError, "q must have num_heads = 2 heads, got 3"),
        (lambda: scores(*qk(1), Tener(2, 6)), ValueError, "q must have num_heads = 2 heads, got 1"),
        (lambda: scores(*qk(2), Tener(1, 6)), ValueError, "q must have num_heads = 1 heads, got 2"),
        (lambda: Tener(2, 6).terms(None, *[torch.arange(3)] * 3), TypeError, r"q must be a tensor \(B, H, L, d\)"),
    ],
)
def test_refusals_name_the_argument_and_the_value(make_it, error, words):
    with pytest.raises(error, match=words):
        make_it()
