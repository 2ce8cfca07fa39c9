"""Where labels go that name points or the ends of curves: near them, and none upon another."""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

from posenc_lib import validate

ROUNDING = 1e-9  # in parts, of labels that fill their room


def apart(values: Sequence[float], step: float, low: float = -math.inf, high: float = math.inf) -> list[float]:
    """Heights for labels of rising values, in their order: a step apart at least, and as near to them as they can be.

    Of all such heights they have the least sum of squared distances to the values. Labels that have too little room
    where they belong stand a step apart, around the mean of their values.

    Args:
        values: from the least to the greatest; two may be the same.
        step: the least distance of two labels.
        low, high: between which they stand.
    Raises:
        TypeError: a value, a step or a limit that is no number.
        ValueError: one that is not finite, other than a low of -inf and a high of inf; values that fall, a negative
            step, too little room between the limits.
    Example:
        >>> apart([0.0, 4.0, 5.0], step=2.0)
        [0.0, 3.5, 5.5]
        >>> apart([0.0, 4.0, 5.0], step=2.0, high=5.0)
        [0.0, 3.0, 5.0]
    """
    _allowed(values, step, low, high)
    groups: list[list[float]] = []
    for value in values:
        groups.append([value])
        while len(groups) > 1 and _between(*groups[-2:]) < step * (len(groups[-2]) + len(groups[-1])) / 2:
            last = groups.pop()
            groups[-1] += last
    heights = [fmean(group) + step * (n - (len(group) - 1) / 2) for group in groups for n in range(len(group))]
    above = range(len(heights) - 1, -1, -1)  # how many labels stand above each
    heights = [min(height, high - step * n) for height, n in zip(heights, above, strict=True)]
    return [max(height, low + step * n) for n, height in enumerate(heights)]


def _between(below: Sequence[float], above: Sequence[float]) -> float:
    """The distance of the means of two groups."""
    return fmean(above) - fmean(below)


def _allowed(values: Sequence[float], step: float, low: float, high: float) -> None:
    for value in values:
        validate.real("values", value)
    for value, after in pairwise(values):
        if after < value:
            raise ValueError(f"values must not fall, got {after} after {value}")
    if validate.real("step", step) < 0:
        raise ValueError(f"step must not be negative, got {step}")
    for name, limit, free in (("low", low, -math.inf), ("high", high, math.inf)):
        if limit != free:
            validate.real(name, limit)
    room = step * max(len(values) - 1, 0)
    if low + room - high > ROUNDING * (room + abs(high)):
        raise ValueError(f"high must be at least {room:g} above low = {low}, room for all labels, got {high}")
