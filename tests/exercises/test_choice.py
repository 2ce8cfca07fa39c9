"""Of the exercises of notebook 23: other right ways to write them pass, and the cost is the published one."""

import pytest
import torch

from posenc_lib.exercises.choice import check_not_beaten, check_training_cost


def by_loops(values, margin):
    def beats(one, other):
        gaps = [(a - b).item() for a, b in zip(one, other, strict=True)]
        return any(gap > margin for gap in gaps) and not any(-gap > margin for gap in gaps)

    return torch.tensor([not any(beats(one, row) for one in values) for row in values])


def by_differences(values, margin):
    gaps = values[None] - values[:, None]  # of the second over the first
    beaten = (gaps > margin).any(-1) & (gaps >= -margin).all(-1)
    return ~beaten.any(1)


@pytest.mark.parametrize("way", [by_loops, by_differences, lambda *given: by_loops(*given).tolist()])
def test_other_ways_to_find_who_is_not_beaten_pass(way):
    assert check_not_beaten.verdict(way)[0]


def test_four_published_trainings_come_out():
    """Xiong et al. 2023: 7 billion parameters, 100 000 updates of 2^22 tokens; a share of them in texts of 4 096."""
    for share, published in ((0, 37.83), (0.2, 34.05), (0.4, 30.26), (0.8, 22.70)):
        parts = [(share * 2**22 * 1e5, 4096), ((1 - share) * 2**22 * 1e5, 32768)]
        assert check_training_cost.reference(4096, 32, parts) == pytest.approx(published, abs=0.005)
