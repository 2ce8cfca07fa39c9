"""Of the exercises of notebook 20: other right ways to write them pass."""

import pytest

from posenc_lib.exercises.comparison import check_share_better

RIGHT = {
    "sum": lambda a, b, m, n, margin: (a[m].mean(1) > b[n].mean(1) + margin).double().mean(),
    "difference": lambda a, b, m, n, margin: (a[m].mean(1) - b[n].mean(1) > margin).double().mean(),
    "rounded": lambda a, b, m, n, margin: (a[m].mean(1) - b[n].mean(1) > margin + 1e-9).double().mean(),
    "sums": lambda a, b, m, n, margin: (a[m].sum(1) - b[n].sum(1) > margin * len(a)).double().mean(),
}


@pytest.mark.parametrize("way", RIGHT)
def test_no_resample_is_a_tie_that_rounding_decides(way):
    assert check_share_better.verdict(RIGHT[way])[0]
