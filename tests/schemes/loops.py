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
    s = scores(q, k, scheme, query_positions, key_positions)
    assert s.dtype == dtype
    torch.testing.assert_close(s.double(), expected.double(), **near)
    o = attend(q, k, v, scheme, query_positions=query_positions, key_positions=key_positions)
    assert o.dtype == dtype
    torch.testing.assert_close(o.double(), loop_outputs(expected, v, lambda b, i, j: True), **near)


@torch.no_grad()
def assert_formula_under_a_causal_mask(scheme, loop_scores, heads, length, padded):
    """Outputs in float64 are those of ``loop_scores`` under a causal mask and, if ``padded``, a mask of padding."""
    p, (q, k, v) = torch.arange(length), draw(3, 2, heads, length, 4)
    padding = torch.zeros(2, length, dtype=torch.bool)
    padding[0, 0] = padding[1, 4:] = padded
    expected = loop_outputs(loop_scores(q, k, p, p), v, lambda b, i, j: j <= i and not padding[b, j])
    o = attend(q, k, v, scheme, causal=True, key_padding_mask=padding if padded else None)
    torch.testing.assert_close(o, expected)


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
