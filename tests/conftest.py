"""What all tests share: random numbers that repeat, one thread, and the devices to run on."""

import hypothesis
import pytest
import torch


class TorchRandom:
    """torch's generator, for hypothesis to seed before every example."""

    seed = staticmethod(torch.manual_seed)
    getstate = staticmethod(torch.get_rng_state)
    setstate = staticmethod(torch.set_rng_state)


TORCH_RANDOM = TorchRandom()  # hypothesis keeps a weak reference only
hypothesis.register_random(TORCH_RANDOM)
hypothesis.settings.register_profile("course", deadline=None, max_examples=25)
hypothesis.settings.load_profile("course")
torch.set_num_threads(1)  # the test runner already uses every core

NEEDS_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture(scope="session", params=["cpu", pytest.param("cuda", marks=NEEDS_CUDA)])
def device(request) -> torch.device:
    return torch.device(request.param)
