"""What a measurement in a notebook needs: inputs that are the same on every machine, and how long a call takes."""

import time
from collections.abc import Callable

import torch
from torch import Tensor


def randn(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal float64 numbers on the CPU, the same for the same ``shape`` and ``seed`` on every device.

    Example:
        >>> torch.equal(randn(2, 3, seed=1), randn(2, 3, seed=1))
        True
    """
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def milliseconds(run: Callable[[], object], times: int = 5) -> float:
    """The shortest of ``times`` calls of ``run``, in milliseconds: what the machine can do when nothing disturbs it.

    Example:
        >>> milliseconds(lambda: sum(range(10))) < 1000
        True
    """
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - start)
    return 1000 * min(taken)
