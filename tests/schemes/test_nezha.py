"""NEZHA: against a loop written from the paper, against Shaw with the same table, identities, refusals."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from loops import draw
from posenc_lib.attention import attend, scores
from posenc_lib.schemes.nezha import Nezha
from posenc_lib.schemes.shaw import Shaw
from posenc_lib.schemes.sinusoidal import encode, frequencies, shift_matrix


def a(r, d, clip):
    """The vector of one distance, component by component."""
    r = max(-clip, min(clip, r))
    vector = []
    for t in range(d // 2):
        vector += [math.sin(r / 10000 ** (2 * t / d)), math.cos(r / 10000 ** (2 * t / d))]
    return vector


def loop(q, k, v, query_positions, key_positions, clip, visible):
    """Scores and outputs of the paper, one number at a time, in Python's float64."""
    (batch, heads, n_q, d), n_k = q.shape, k.shape[2]
    s, o = torch.zeros(batch, heads, n_q, n_k).double(), torch.zeros(batch, heads, n_q, d).double()
    for b, h, i in torch.cartesian_prod(torch.arange(batch), torch.arange(heads), torch.arange(n_q)).tolist():
        vectors = [a(int(key_positions[j]) - int(query_positions[i]), d, clip) for j in range(n_k)]
        for j in range(n_k):
            products = (float(q[b, h, i, c]) * (float(k[b, h, j, c]) + vectors[j][c]) for c in range(d))
            s[b, h, i, j] = sum(products) / math.sqrt(d)
        keys = [j for j in range(n_k) if visible(b, i, j)]
        total = sum(math.exp(s[b, h, i, j]) for j in keys)
        for j in keys:
            for c in range(d):
                o[b, h, i, c] += math.exp(s[b, h, i, j]) / total * (float(v[b, h, j, c]) + vectors[j][c])
    return s, o


POSITIONS = {
    "from 0": (torch.arange(7), torch.arange(7)),
    "cache": (torch.arange(5, 7), torch.arange(7)),
    "shifted": (torch.arange(1000, 1003), torch.arange(997, 1004)),
    "scattered": (torch.tensor([3, -80, 400]), torch.tensor([0, 2, 410, 5, -90])),
}


@pytest.mark.parametrize("clip", [0, 3, 64])
@pytest.mark.parametrize("name", POSITIONS)
def test_scores_and_outputs_are_those_of_the_paper(name, clip):
    i, j = POSITIONS[name]
    q, k, v = (draw(2, 2, len(n), 6) for n in (i, j, j))
    s, o = loop(q, k, v, i, j, clip, lambda b, i, j: True)
    scheme = Nezha(6, clip)
    torch.testing.assert_close(scores(q, k, scheme, i, j), s, rtol=0, atol=1e-12)
    ours = attend(q, k, v, scheme, query_positions=i, key_positions=j)
    torch.testing.assert_close(ours, o, rtol=0, atol=1e-12)


def test_outputs_under_a_causal_mask_with_padding():
    p = torch.arange(5)
    q, k, v = (draw(2, 3, 5, 6) for _ in range(3))
    padding = torch.tensor([[True, False, False, False, False], [False, False, False, True, True]])
    _, o = loop(q, k, v, p, p, 2, lambda b, i, j: j <= i and not padding[b, j])
    torch.testing.assert_close(attend(q, k, v, Nezha(6, 2), causal=True, key_padding_mask=padding), o)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 8), st.integers(0, 20))
def test_is_shaw_with_a_sinusoidal_table(n_q, n_k, pairs, clip):
    d = 2 * pairs
    shaw = Shaw(d, clip).double()
    with torch.no_grad():
        for table in (shaw.key_table, shaw.value_table):
            table.copy_(encode(torch.arange(-clip, clip + 1), d))
    q, k, v = draw(1, 2, n_q, d), draw(1, 2, n_k, d), draw(1, 2, n_k, d)
    i, j = torch.arange(n_q), torch.arange(n_k)
    nezha = Nezha(d, clip)
    assert torch.equal(scores(q, k, nezha, i, j), scores(q, k, shaw, i, j))
    assert torch.equal(*(attend(q, k, v, s, True, i, j) for s in (nezha, shaw)))


def published_table(clip, d):
    """The table of the authors' code, whose first row is P_0."""
    return torch.tensor(
        [
            [f(row / 10000 ** (2 * t / d)) for t in range(d // 2) for f in (math.sin, math.cos)]
            for row in range(2 * clip + 1)
        ],
        dtype=torch.float64,
    )


def test_the_published_table_is_ours_up_to_a_rotation_of_all_projections():
    clip, d = 5, 8
    published = Shaw(d, clip).double()
    with torch.no_grad():
        for table in (published.key_table, published.value_table):
            table.copy_(published_table(clip, d))
    turn = shift_matrix(clip, d)
    q, k, v = (draw(2, 2, 9, d) for _ in range(3))
    theirs = attend(q @ turn.T, k @ turn.T, v @ turn.T, published)
    torch.testing.assert_close(theirs, attend(q, k, v, Nezha(d, clip)) @ turn.T, rtol=0, atol=1e-12)


@given(st.integers(-30, 30), st.integers(-30, 30), st.integers(1, 8))
def test_a_turned_query_sees_every_distance_moved(r, offset, pairs):
    d = 2 * pairs
    q, table = draw(d), Nezha(d, clip=60).key_table
    torch.testing.assert_close((shift_matrix(offset, d).T @ q) @ table[60 + r], q @ table[60 + r + offset])


@given(st.integers(1, 8), st.integers(-40, 40))
def test_term_is_a_sum_of_one_sinusoid_per_pair(pairs, r):
    d = 2 * pairs
    q = draw(d)
    amplitude, phase = q.view(-1, 2).norm(dim=-1), torch.atan2(q[0::2], q[1::2])
    expected = (amplitude * torch.cos(r * frequencies(d) - phase)).sum()
    torch.testing.assert_close(q @ Nezha(d, clip=40).key_table[40 + r], expected)


def test_direction_is_in_the_sines_only():
    table = Nezha(8, clip=9).key_table
    assert torch.equal(table.flip(0)[:, 0::2], -table[:, 0::2])
    assert torch.equal(table.flip(0)[:, 1::2], table[:, 1::2])


def test_no_parameters_and_one_table_that_is_not_saved():
    scheme = Nezha(16)
    assert list(scheme.parameters()) == []
    assert scheme.state_dict() == {}
    assert scheme.key_table.shape == (129, 16)
    assert scheme.value_table is scheme.key_table


@pytest.mark.parametrize(
    ("make_it", "error", "words"),
    [
        (lambda: Nezha(7), ValueError, "head_dim must be even, because components come in pairs, got 7"),
        (lambda: Nezha(0), ValueError, "head_dim must be at least 1, got 0"),
        (lambda: Nezha("8"), TypeError, "head_dim must be a number, got '8'"),
        (lambda: Nezha(8, -1), ValueError, "clip must be at least 0, got -1"),
        (lambda: Nezha(8, 1.5), ValueError, "clip must be an integer, got 1.5"),
        (lambda: attend(*[draw(1, 2, 3, 8)] * 3, Nezha(6)), ValueError, "q must have width head_dim = 6, got 8"),
    ],
)
def test_refusals_name_the_argument_and_the_value(make_it, error, words):
    with pytest.raises(error, match=words):
        make_it()
