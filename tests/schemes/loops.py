"""What the tests of several schemes share. The loops take nothing from the library that they judge."""

import pytest
import torch

from posenc_lib.attention import attend, scores

# Positions of queries and of keys.
POSITIONS = {
    "from 0": (torch.arange(7), torch.arange(7)),
    "cache": (torch.arange(5, 7), torch.arange(7)),
    "shifted": (torch.arange(1000, 1003), torch.arange(997, 1004)),
    "more queries": (torch.arange(3, 9), torch.arange(2)),
    "scattered": (torch.tensor([3, -8, 40]), torch.tensor([0, 2, 41, 5, -9])),
}


def draw(*shape, dtype=torch.float64):
    """Standard normal numbers, drawn in float64 whatever the dtype."""
    return torch.randn(*shape, dtype=torch.float64).to(dtype)


def loop_outputs(s, v, visible):
    """What attention returns for scores s (B, H, Lq, Lk), one number at a time; visible(b, i, j) is the mask."""
    o = torch.zeros(*s.shape[:3], v.shape[-1], dtype=torch.float64)
    for b, h, i in torch.cartesian_prod(*(torch.arange(n) for n in s.shape[:3])).tolist():
        keys = [j for j in range(s.shape[3]) if visible(b, i, j)]
        total = sum(s[b, h, i, j].exp() for j in keys)
        for j in keys:
            o[b, h, i] += s[b, h, i, j].exp() / total * v[b, h, j].double()
    return o


NEAR = {torch.float64: 1e-12}


@torch.no_grad()
def assert_formula(scheme, loop_scores, heads, d, places, dtype=torch.float64, tolerance=NEAR, relative=0.0):
    """Scores and outputs without a mask are those of ``loop_scores(q, k, query_positions, key_positions)``.

    ``places`` are the positions of queries and of keys, ``tolerance`` maps a dtype to the largest absolute error;
    ``relative`` is the part of it that is also allowed for each unit of a number, for scores that are large.
    """
    query_positions, key_positions = places
    q, k, v = (draw(2, heads, len(n), d, dtype=dtype) for n in (query_positions, key_positions, key_positions))
    near = {"rtol": relative * tolerance[dtype], "atol": tolerance[dtype]}
    expected = loop_scores(q, k, query_positions, key_positions)
    _assert_scores_and_outputs(scheme, expected, (q, k, v), places, near)


def _assert_scores_and_outputs(scheme, expected, qkv, places, near, x=None):
    (q, k, v), (i, j) = qkv, places
    s = scores(q, k, scheme, i, j, x=x)
    assert s.dtype == q.dtype
    torch.testing.assert_close(s.double(), expected.double(), **near)
    o = attend(q, k, v, scheme, query_positions=i, key_positions=j, x=x)
    assert o.dtype == q.dtype
    torch.testing.assert_close(o.double(), loop_outputs(expected, v, lambda b, i, j: True), **near)


@torch.no_grad()
def assert_formula_of_a_reader(scheme, loop_scores, sizes, places, dtype=torch.float64):
    """Scores and outputs of a scheme that reads hidden states are those of ``loop_scores(q, k, x, i, j, scheme)``.

    ``sizes`` are the number of heads, the width of a head and that of the hidden states; ``places`` the positions of
    queries and of keys, each shared, (L,), or of two texts, (2, L). The loops compute in float64.
    """
    (heads, d, width), (i, j) = sizes, places
    q, k, v = (draw(2, heads, n.shape[-1], d) for n in (i, j, j))
    x = draw(2, j.shape[-1], width)
    expected = loop_scores(q, k, x, i, j, scheme)
    q, k, v, x = (value.to(dtype) for value in (q, k, v, x))
    near = {"rtol": 0, "atol": {torch.float64: 1e-12, torch.float32: 1e-5}[dtype]}
    _assert_scores_and_outputs(scheme.to(dtype), expected, (q, k, v), places, near, x)


@torch.no_grad()
def assert_formula_under_a_causal_mask(scheme, loop_scores, heads, length, padded):
    """Outputs in float64 are those of ``loop_scores`` under a causal mask and, if ``padded``, a mask of padding."""
    _assert_causal(scheme, lambda q, k, x, p: loop_scores(q, k, p, p), (heads, 4, None), length, padded)


@torch.no_grad()
def assert_formula_of_a_reader_under_a_causal_mask(scheme, loop_scores, sizes, padded):
    """The same of a scheme that reads hidden states, with ``sizes`` as in ``assert_formula_of_a_reader``."""
    _assert_causal(scheme, lambda q, k, x, p: loop_scores(q, k, x, p, p, scheme), sizes, 6, padded)


def _assert_causal(scheme, expected_scores, sizes, length, padded):
    heads, d, width = sizes
    p, (q, k, v) = torch.arange(length), draw(3, 2, heads, length, d)
    x = None if width is None else draw(2, length, width)
    padding = torch.zeros(2, length, dtype=torch.bool)
    padding[0, 0] = padding[1, 4:] = padded
    expected = loop_outputs(expected_scores(q, k, x, p), v, lambda b, i, j: j <= i and not padding[b, j])
    o = attend(q, k, v, scheme, causal=True, key_padding_mask=padding if padded else None, x=x)
    torch.testing.assert_close(o, expected)


@torch.no_grad()
def assert_reader_places_every_text(scheme, loop_scores, sizes):
    """Scores of texts at their own positions, and with queries or keys at shared ones, are those of ``loop_scores``."""
    heads, d, width = sizes
    q, k, x = draw(2, heads, 3, d), draw(2, heads, 5, d), draw(2, 5, width)
    i, j = torch.tensor([[0, 4, 9], [3, -2, 40]]), torch.tensor([[4, 1, 2, 3, 0], [3, 0, 41, 7, -9]])
    for query_positions, key_positions in ((i, j), (i[1], j), (i, j[1])):
        ours = scores(q, k, scheme, query_positions, key_positions, x=x)
        torch.testing.assert_close(ours, loop_scores(q, k, x, query_positions, key_positions, scheme))


@torch.no_grad()
def assert_reader_with_a_cache(scheme, sizes, n_q, before):
    """Scores of the last queries, given all keys and hidden states, are those rows of the whole text."""
    heads, d, width = sizes
    (q, k), x = draw(2, 1, heads, n_q + before, d), draw(1, n_q + before, width)
    whole = scores(q, k, scheme, x=x)[:, :, before:]
    torch.testing.assert_close(scores(q[:, :, before:], k, scheme, x=x), whole)


def assert_terms_of_each_text(scheme, q, k):
    """The four terms for q (2, 2, 3, d) and k (2, 2, 4, d), texts at their own positions, are those of each alone."""
    i, j = torch.tensor([[3, 9, 40], [7, 7, 0]]), torch.tensor([[0, 8, 3, 41], [1, 0, 6, 2]])
    terms = scheme.terms(q, k, i, j)
    assert [t.shape for t in terms] == [(2, 2, 3, 4), (2, 2, 3, 4), (2, 2, 1, 4), (2, 2, 3, 4)]
    for b in range(2):
        alone = scheme.terms(q[b : b + 1], k[b : b + 1], i[b], j[b])
        for ours, expected in zip(terms, alone, strict=True):
            torch.testing.assert_close(ours[b : b + 1], expected, rtol=0, atol=1e-12)


def assert_refused(call, error, words):
    """The call raises just this error, and its message has these words."""
    with pytest.raises(error) as refusal:
        call()
    assert refusal.type is error
    for word in words:
        assert word in str(refusal.value)
