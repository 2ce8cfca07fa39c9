"""Without positions attention is blind to order, unless a mask shows it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from loops import draw
from posenc_lib.attention import attend, scores
from posenc_lib.schemes.none import NoPosition


@given(Lq=st.integers(1, 9), Lk=st.integers(1, 9), d=st.integers(1, 9))
def test_scores_are_scaled_dot_products(Lq, Lk, d):
    q, k = draw(2, 3, Lq, d), draw(2, 3, Lk, d)
    s = scores(q, k, NoPosition(), query_positions=torch.arange(Lq))
    torch.testing.assert_close(s, torch.einsum("bhid,bhjd->bhij", q, k) / d**0.5, rtol=0, atol=1e-13)


@given(L=st.integers(1, 12), data=st.data())
def test_self_attention_is_permutation_equivariant(L, data):
    order = torch.tensor(data.draw(st.permutations(range(L))))
    q, k, v = draw(2, 2, L, 4), draw(2, 2, L, 4), draw(2, 2, L, 4)
    shuffled = attend(q[:, :, order], k[:, :, order], v[:, :, order], NoPosition())
    torch.testing.assert_close(shuffled, attend(q, k, v, NoPosition())[:, :, order], rtol=0, atol=2e-15)


@given(L=st.integers(1, 12), data=st.data())
def test_cross_attention_is_invariant_to_the_order_of_the_memory(L, data):
    order, p = torch.tensor(data.draw(st.permutations(range(L)))), torch.arange(3)
    q, k, v = draw(2, 2, 3, 4), draw(2, 2, L, 4), draw(2, 2, L, 4)
    shuffled = attend(q, k[:, :, order], v[:, :, order], NoPosition(), query_positions=p)
    torch.testing.assert_close(shuffled, attend(q, k, v, NoPosition(), query_positions=p), rtol=0, atol=2e-15)


def causal_layers(x, count):
    for _ in range(count):
        x = x + attend(x, x, x, NoPosition(), causal=True)
    return x


def test_a_causal_mask_is_neither_equivariant_nor_invariant():
    x, order = draw(1, 1, 8, 4), torch.arange(8).flip(0)
    y = causal_layers(x, 1)
    assert (causal_layers(x[:, :, order], 1) - y[:, :, order]).abs().max() > 0.1
    assert (causal_layers(x[:, :, order], 1) - y).abs().max() > 0.1


@pytest.mark.parametrize("layers, blind", [(1, True), (2, False)])
def test_one_causal_layer_ends_blind_to_the_order_of_the_prefix_and_two_do_not(layers, blind):
    x = draw(1, 1, 8, 4)
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4, 7])  # the last token stays
    moved = (causal_layers(x, layers) - causal_layers(x[:, :, order], layers))[:, :, -1].abs().max()
    assert moved < 1e-14 if blind else moved > 1e-2
