"""The base scheme changes nothing, and each hook can be overridden alone."""

import pytest
import torch
from torch import nn

from posenc_lib.scheme import PositionScheme

P, Q = torch.arange(5), torch.tensor([9, 2, 40])


def test_every_hook_does_nothing_by_default():
    scheme, x = PositionScheme(), torch.randn(2, 5, 6)
    q, k = torch.randn(2, 3, 3, 4), torch.randn(2, 3, 5, 4)
    assert scheme.embed(x, P) is x
    assert scheme.transform(k, P) is k
    assert scheme.transform_query(q, Q) is q
    assert scheme.transform_key(k, P) is k
    assert scheme.score_bias(q, k, Q, P) is None
    assert scheme.value_bias(torch.rand(2, 3, 3, 5), Q, P) is None


def test_queries_and_keys_are_transformed_alike_unless_a_scheme_says_otherwise():
    class Both(PositionScheme):
        def transform(self, x, positions):
            return x * positions[:, None]

    class Keys(Both):
        def transform_key(self, k, positions):
            return k + positions[:, None]

    q, k = torch.randn(2, 3, 3, 4), torch.randn(2, 3, 5, 4)
    assert torch.equal(Both().transform_query(q, Q), q * Q[:, None])
    assert torch.equal(Both().transform_key(k, P), k * P[:, None])
    assert torch.equal(Keys().transform_query(q, Q), q * Q[:, None])
    assert torch.equal(Keys().transform_key(k, P), k + P[:, None])


@pytest.mark.parametrize("head_dim, expected", [(1, 1.0), (4, 0.5), (64, 0.125)])
def test_scale_is_one_over_the_square_root_of_the_width(head_dim, expected):
    assert PositionScheme().scale(head_dim) == expected


def test_a_scheme_is_a_module_without_parameters():
    scheme = PositionScheme()
    assert isinstance(scheme, nn.Module)
    assert list(scheme.parameters()) == []
    assert scheme.state_dict() == {}
