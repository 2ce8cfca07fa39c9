"""What all tests share: random numbers that repeat, one thread, the devices to run on, and a table at the end."""

import re
from collections import defaultdict

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


def pytest_terminal_summary(terminalreporter):
    """The types of configuration whose attention was reproduced in this run, and how."""
    ways = {"whole_text": "whole", "with_a_cache": "cache", "with_padding_on_the_left": "padding"}
    agreed = defaultdict(set)
    for report in terminalreporter.getreports("passed"):
        found = re.search(r"test_configs\.py::test_(\w+?)(?:\[(?:file-|as saved again-)?(.*)\])?$", report.nodeid)
        if report.when == "call" and found and found[1] in (*ways, "t5", "deberta", "xlnet", "falcon_with_alibi"):
            agreed[found[2] if found[1] in ways else found[1]].add(ways.get(found[1], "whole"))
    if agreed:
        terminalreporter.section("attention of transformers, from configurations")
        for name, how in sorted(agreed.items()):
            terminalreporter.write_line(
                f"{name:<24} {' '.join(f'{way:<8}' if way in how else ' ' * 8 for way in ways.values())}"
            )
