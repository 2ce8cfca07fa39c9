"""Labels stand apart, in the order of what they name and as near to it as they can."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_lib.view import apart

NUMBER = st.floats(-10, 10)
VALUES = st.lists(NUMBER, max_size=12).map(sorted)
STEP = st.floats(0, 3)
LIMIT = st.floats(0, 5)  # room beyond what is needed


def nearest(values, step, low, high):
    """The least sum of squares: the greatest of the least means over windows, of values less their steps."""
    bare = np.array(values) - step * np.arange(len(values))
    found = [
        max(min(bare[a : b + 1].mean() for b in range(n, len(bare))) for a in range(n + 1)) for n in range(len(bare))
    ]
    return np.clip(found, low, high - step * (len(bare) - 1)) + step * np.arange(len(bare))


@st.composite
def asked(draw):
    """Values, a step and limits with enough room, each of which may be missing."""
    values, step, low = draw(VALUES), draw(STEP), draw(NUMBER)
    high = low + step * max(len(values) - 1, 0) + draw(LIMIT)
    return values, step, draw(st.sampled_from((low, -math.inf))), draw(st.sampled_from((high, math.inf)))


@given(asked())
def test_labels_stand_a_step_apart_in_order_and_within_limits(given_):
    values, step, low, high = given_
    heights = apart(*given_)
    assert len(heights) == len(values)
    assert all(below + step <= above + 1e-9 and below <= above + 1e-9 for below, above in pairwise(heights))
    assert all(low - 1e-9 <= height <= high + 1e-9 for height in heights)


@given(asked())
def test_no_other_heights_are_nearer(given_):
    assert apart(*given_) == pytest.approx(nearest(*given_), abs=1e-9)


@given(NUMBER, st.lists(st.floats(1, 3), max_size=11), st.floats(0, 0.99))
def test_labels_that_are_apart_stay_where_they_are(first, gaps, step):
    values = [first]
    for gap in gaps:
        values.append(values[-1] + gap)
    assert apart(values, step) == values
    assert apart(values, step, values[0], values[-1]) == values


def test_labels_by_hand():
    assert apart([], 1.0) == []
    assert apart([3], 1) == [3.0]
    assert apart([2.0, 2.0, 2.0], 1.0) == [1.0, 2.0, 3.0]
    assert apart([2.0, 2.0, 2.0], 0) == [2.0, 2.0, 2.0]
    assert apart([0.0, 3.0, 3.0, 4.5], 2.0) == [-0.375, 1.625, 3.625, 5.625]
    assert apart([5.0, 5.0], 1.0, 0.0, 2.0) == [1.0, 2.0]
    assert apart([-5.0, 1.0], 1.0, low=0.5) == [0.5, 1.5]
    assert apart(np.array([0.0, 4.0, 5.0]), 2.0) == [0.0, 3.5, 5.5]


def test_labels_may_fill_the_room():
    assert apart([0.5] * 4, 0.1, 0.0, 0.3) == pytest.approx([0.0, 0.1, 0.2, 0.3])  # though 3 * 0.1 > 0.3
    assert apart([0.5] * 4, 0.1, -0.3, 0.0) == pytest.approx([-0.3, -0.2, -0.1, 0.0], abs=1e-12)
    assert apart([7.0], 1.0, 2.0, 2.0) == [2.0]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (([0.0, 2.0, 1.0], 0.5), r"values must not fall, got 1\.0 after 2\.0"),
        (([0.0, math.nan], 0.5), "values must be finite, got nan"),
        (([0.0, 1.0], -0.5), r"step must not be negative, got -0\.5"),
        (([0.0, 1.0], math.inf), "step must be finite, got inf"),
        (([0.0, 1.0], 0.5, math.nan), "low must be finite, got nan"),
        (([0.0, 1.0], 0.5, 0.0, math.nan), "high must be finite, got nan"),
        (([0.0, 1.0, 2.0], 0.5, 0.0, 0.9), r"high must be at least 1 above low = 0\.0, room for all labels, got 0\.9"),
        (([0.0], 0.5, 1.0, 0.0), r"high must be at least 0 above low = 1\.0, room for all labels, got 0\.0"),
        (([0.0], 0.5, math.inf), "low must be finite, got inf"),
        (([0.0], 0.5, -math.inf, -math.inf), "high must be finite, got -inf"),
    ],
)
def test_what_cannot_be_placed_is_refused(arguments, named):
    with pytest.raises(ValueError, match=named):
        apart(*arguments)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [((["a"], 1.0), "values"), (([0.0], "a"), "step"), (([0.0], 1.0, "a"), "low"), (([0.0], 1.0, 0.0, None), "high")],
)
def test_what_is_no_number_is_refused(arguments, named):
    with pytest.raises(TypeError, match=f"{named} must be a number"):
        apart(*arguments)
