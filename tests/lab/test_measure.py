import time

import torch

from posenc_lib.lab import milliseconds, randn


def test_randn_is_fixed_by_its_seed_and_leaves_the_global_generator_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    x = randn(2, 3, seed=7)
    assert torch.equal(torch.rand(3), expected)
    assert x.dtype == torch.float64 and x.device.type == "cpu" and x.shape == (2, 3)
    assert torch.equal(x, randn(2, 3, seed=7))
    assert not torch.equal(x, randn(2, 3, seed=8))
    assert not torch.equal(randn(4), randn(4, seed=1))
    assert abs(randn(10_000).mean()) < 0.05 and abs(randn(10_000).std() - 1) < 0.05


def test_milliseconds_is_the_shortest_of_several_calls():
    pauses = iter([0.03, 0.01, 0.03])
    assert 10 <= milliseconds(lambda: time.sleep(next(pauses)), times=3) < 30
    assert next(pauses, None) is None
