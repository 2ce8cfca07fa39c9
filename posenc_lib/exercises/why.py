"""Checks of the exercises of notebook 25."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from posenc_lib.exercises.check import Check


def _far(bias: Tensor, near: int, flat: str) -> Tensor:
    """What keys from ``near`` on have, replaced by one number of each head if it is to be flat."""
    far = bias[:, near:]
    one = {
        "": lambda: far,
        "right": lambda: far.exp().mean(1, keepdim=True).log(),
        "numbers": lambda: far.mean(1, keepdim=True),
        "sum": lambda: far.exp().sum(1, keepdim=True).log(),
        "all distances": lambda: bias.exp().mean(1, keepdim=True).log(),
        "all heads": lambda: far.exp().mean().log(),
        "no logarithm": lambda: far.exp().mean(1, keepdim=True),
    }[flat]()
    return one.expand_as(far)


def _change(
    bias: Tensor,
    flat: bool,
    lower: float,
    slope: float,
    near: int = 8,
    *,
    how: str = "right",
    start: int = 0,
    lower_near: bool = False,
) -> Tensor:
    """The right function, and those that have one thing else."""
    far = _far(bias, near, how if flat else "")
    beyond = torch.arange(far.shape[1], dtype=torch.float64) + start
    kept = bias[:, :near] - lower if lower_near else bias[:, :near]
    return torch.cat([kept, far - lower - slope * beyond], dim=1)


def _flat_last(bias: Tensor, flat: bool, lower: float, slope: float, near: int = 8) -> Tensor:
    return _change(_change(bias, False, lower, slope, near), flat, 0, 0, near)


def _fall_for_all(bias: Tensor, flat: bool, lower: float, slope: float, near: int = 8) -> Tensor:
    return _change(bias, flat, lower, 0, near) - slope * torch.arange(bias.shape[1])


def _flat_everywhere(bias: Tensor, flat: bool, lower: float, slope: float, near: int = 8) -> Tensor:
    changed = _change(bias, flat, lower, slope, near, how="all distances")
    if flat:
        changed[:, :near] = bias.exp().mean(1, keepdim=True).log()
    return changed


def _biases() -> Tensor:
    """(heads, L) bias of two heads, in which no wrong mean is the right one."""
    return torch.randn(2, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 1.5


check_change_far = Check(
    "change_far",
    _change,
    cases=[
        (_biases(), False, 0.7, 0.0),
        (_biases(), False, 0.0, 0.05),
        (_biases(), True, 0.0, 0.0),
        (_biases(), True, 0.4, 0.03),
        (_biases(), True, 0.4, 0.03, 5),
    ],
    mistakes=[
        (
            "flat is not the mean of the numbers: keys weigh by exponentials, so take the logarithm of their mean",
            lambda *case: _change(*case, how="numbers"),
        ),
        (
            "every far key gets one number: the mean of the exponentials, not their sum",
            lambda *c: _change(*c, how="sum"),
        ),
        ("take the logarithm of the mean: a bias is added to a score", lambda *c: _change(*c, how="no logarithm")),
        ("flat: the mean is that of the far keys, without the near ones", lambda *c: _change(*c, how="all distances")),
        ("flat: each head has a number of its own", lambda *c: _change(*c, how="all heads")),
        ("near keys stay as they are when flat is set", _flat_everywhere),
        ("near keys stay as they are: lower the far ones only", lambda *case: _change(*case, lower_near=True)),
        ("near keys stay as they are: the fall starts behind them", _fall_for_all),
        (
            "the fall counts from the first far key, which loses nothing by it; you count from 0",
            lambda *case: _change(*case, start=case[4] if len(case) > 4 else 8),
        ),
        ("the first far key loses nothing by the fall: count from 0 there", lambda *case: _change(*case, start=1)),
        ("lower is subtracted", lambda bias, flat, lower, *rest: _change(bias, flat, -lower, *rest)),
        ("the fall is subtracted: farther keys get less", lambda b, f, lo, slope, *n: _change(b, f, lo, -slope, *n)),
        ("lower is not used", lambda bias, flat, lower, *rest: _change(bias, flat, 0, *rest)),
        ("the slope is not used", lambda bias, flat, lower, slope, *near: _change(bias, flat, lower, 0, *near)),
        ("flat is not used", lambda bias, flat, *rest: _change(bias, False, *rest)),
        ("flat comes first: a fall that is flattened is gone", _flat_last),
        ("near is not used: which keys are far is an argument", lambda *case: _change(*case[:4])),
    ],
    tolerance=1e-6,  # that of a slope times whole numbers in float32
)


def _lowering(bias: Tensor, short: int, long: int, near: int = 8, first: int | None = None) -> Tensor:
    """By how much more far keys weigh together in the longer text, as a logarithm; of each head."""
    weights = bias[:, near if first is None else first :].exp()
    start = near if first is None else first
    return (weights[:, : long - start].sum(1) / weights[:, : short - start].sum(1)).log()


def _tables() -> Tensor:
    """(heads, 64) bias by distance, the same in each head from distance 24 on, as the last bucket of T5 is."""
    bias = torch.randn(3, 64, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 1.5
    bias[:, 24:] = bias[:, 24:25]
    return bias


def _by_means(bias: Tensor, short: int, long: int, near: int = 8) -> Tensor:
    far = bias[:, near:].exp()
    return (far[:, : long - near].mean(1) / far[:, : short - near].mean(1)).log()


def _off_by_near(bias: Tensor, short: int, long: int, near: int = 8) -> Tensor:
    far = bias[:, near:].exp()
    return (far[:, :long].sum(1) / far[:, :short].sum(1)).log()


def _by_numbers(bias: Tensor, short: int, long: int, near: int = 8) -> Tensor:
    far = bias[:, near:]
    return far[:, : long - near].sum(1) - far[:, : short - near].sum(1)


check_lowering = Check(
    "lowering",
    _lowering,
    cases=[(_tables(), 16, 64), (_tables(), 32, 64), (_tables(), 32, 48, 5)],
    mistakes=[
        (
            "far keys are not alike: weigh each by the exponential of its number",
            lambda bias, short, long, near=8: torch.full(
                (len(bias),), math.log((long - near) / (short - near))
            ).double(),
        ),
        (
            "that counts the near keys with the crowd",
            lambda bias, short, long, near=8: _lowering(bias, short, long, first=0),
        ),
        ("add up the weights: a larger crowd weighs more even if its mean is the same", _by_means),
        ("add up exponentials, not the numbers themselves", _by_numbers),
        ("a text of 32 tokens has 32 - near far keys, not 32", _off_by_near),
        ("take the logarithm: what is subtracted from a score divides a weight", lambda *case: _lowering(*case).exp()),
        ("far keys must come down: is your quotient upside down?", lambda *case: -_lowering(*case)),
        ("every head has an amount of its own", lambda *case: _lowering(*case).mean()),
        ("every head has an amount of its own", lambda *case: _lowering(*case).mean().expand(len(case[0]))),
        ("near is not used: which keys are far is an argument", lambda *case: _lowering(*case[:3])),
    ],
    tolerance=1e-9,
)


Pair = tuple[float, float]  # by how much far keys are lowered in the first layer, and in the second


Accuracy = tuple[float, float]  # in texts of the training's length, and in longer ones


def _best_within(
    found: Mapping[Pair, Accuracy],
    loss: float,
    start: Pair | None = (0, 0),
    judged: int = 1,
    least: int = 1,
) -> Pair:
    """Of the pairs that lose little in short texts the best in long ones; of two such that which changes less."""
    whole = max(short for short, _ in found.values()) if start is None else found[start][0]
    good = [pair for pair in found if found[pair][0] >= whole - loss - 1e-12]
    return max(good, key=lambda pair: (found[pair][judged], -least * sum(pair)))


FOUND: list[dict[Pair, Accuracy]] = [
    {
        (0, 0): (0.99, 0.33),
        (1, 0): (0.992, 0.5),
        (2, 2): (0.985, 0.74),
        (4, 4): (0.95, 0.91),
        (0, 4): (0.983, 0.33),
        (6, 3): (0.949, 0.91),
        (4, 0): (0.968, 0.935),
    },
    {(0, 0): (0.9, 0.7), (3, 1): (0.88, 0.8), (1, 0): (0.87, 0.8), (0, 1): (0.91, 0.72), (2, 2): (0.85, 0.79)},
    {(0, 0): (0.9, 0.9), (2, 0): (0.7, 0.95), (0, 2): (0.95, 0.8)},
]

check_best_within = Check(
    "best_within",
    _best_within,
    cases=[
        (FOUND[0], 0.001),
        (FOUND[0], 0.006),
        (FOUND[0], 0.025),
        (FOUND[0], 0.5),
        (FOUND[1], 0.04),
        (FOUND[2], 0.03),
    ],
    mistakes=[
        ("only pairs that lose at most so much at 1 x are to be looked at", lambda f, loss: _best_within(f, 9)),
        ("a pair may lose as much as loss; yours must lose nothing", lambda f, loss: _best_within(f, 0)),
        (
            "what is lost is lost against the pair (0, 0), not against the best at 1 x",
            lambda f, loss: _best_within(f, loss, start=None),
        ),
        ("of the good pairs take the best at 8 x, not at 1 x", lambda f, loss: _best_within(f, loss, judged=0)),
        ("of two that are equally good take the smaller sum", lambda f, loss: _best_within(f, loss, least=-1)),
        ("of two that are equally good take the smaller sum", lambda f, loss: _best_within(f, loss, least=0)),
        ("return the pair, not its accuracy", lambda f, loss: f[_best_within(f, loss)]),
        ("return the pair, not its accuracy", lambda f, loss: f[_best_within(f, loss)][1]),
        ("a pair is the first layer's amount, then the second's", lambda f, loss: _best_within(f, loss)[::-1]),
    ],
)
