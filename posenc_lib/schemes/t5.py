"""T5's bias: one learned number per bucket of distances and head, added to an unscaled score.

Raffel et al. 2019 (arXiv:1910.10683), section 2.1 and the published implementation:

    s_ij = q_i.k_j + b[bucket(j - i), head]

With n buckets for one direction and e = n/2, the bucket of a distance x is

    x                                                       for x < e              exact
    e + floor((n - e) log(x/e) / log(max_distance/e))       for x < max_distance   logarithmic
    n - 1                                                   from there on          saturated

The numbers are shared by all layers and differ between heads. There is no 1 / sqrt(d).
"""

import math

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.scheme import DistanceBias


def relative_position_bucket(
    relative_position: Tensor, bidirectional: bool = True, num_buckets: int = 32, max_distance: int = 128
) -> Tensor:
    """Bucket of a relative position.

    Args:
        relative_position: integers of any shape, key minus query.
        bidirectional: give each direction half of the buckets, keys after the query the upper half; if not, all of
            them share bucket 0 with the query's own position.
        num_buckets: how many there are; even, at least 4 if bidirectional, else at least 2.
        max_distance: from here on everything shares the last bucket; more than the number of exact buckets.
    Returns:
        int64 in 0..num_buckets-1, same shape.
    Raises:
        ValueError: numbers of buckets or distances that leave no room for one another.
        TypeError: if ``relative_position`` holds no integers.
    Source: Raffel et al. 2019 (arXiv:1910.10683), section 2.1; the formula is in the published implementation only.
    Example:
        >>> relative_position_bucket(torch.tensor([0, -1, -7, -8, -128, -999, 1, 999]))
        tensor([ 0,  1,  7,  8, 15, 15, 17, 31])
    """
    validate.integers("relative_position", relative_position)
    validate.integer("num_buckets", num_buckets, at_least=4 if bidirectional else 2, even=True)
    r = relative_position.long()
    first = torch.zeros_like(r)
    if bidirectional:
        num_buckets //= 2
        first = (r > 0).long() * num_buckets
        distance = r.abs()
    else:
        distance = (-r).clamp(min=0)
    exact = num_buckets // 2
    validate.integer("max_distance", max_distance, at_least=exact + 1)
    growth = (distance.clamp(min=exact).to(torch.float64) / exact).log() / math.log(max_distance / exact)
    # where a bucket starts the product is a whole number, and must not be rounded to just below it
    far = (exact + (growth * (num_buckets - exact) + 1e-9).long()).clamp(max=num_buckets - 1)
    return first + torch.where(distance < exact, distance, far)


class T5Bias(DistanceBias):
    """Adds a learned number per bucket and head to unscaled scores; share one instance between all layers.

    Args:
        num_heads: H.
        bidirectional, num_buckets, max_distance: see :func:`relative_position_bucket`.
    Example:
        >>> scheme = T5Bias(2)
        >>> scheme.weight.shape
        torch.Size([32, 2])
        >>> scheme.scale(64)
        1.0
    """

    name = "T5"
    variants = {"causal": {"bidirectional": False}}

    def __init__(self, num_heads: int, bidirectional: bool = True, num_buckets: int = 32, max_distance: int = 128):
        super().__init__()
        self.num_heads = validate.integer("num_heads", num_heads, at_least=1)
        self.bidirectional, self.num_buckets, self.max_distance = bidirectional, num_buckets, max_distance
        relative_position_bucket(torch.zeros(1, dtype=torch.int64), bidirectional, num_buckets, max_distance)
        self.weight = nn.Parameter(torch.randn(num_buckets, num_heads))

    def scale(self, head_dim: int) -> float:
        """1: T5 folds the square root of d into the initial weights."""
        return 1.0

    def distance_bias(self, relative_position: Tensor) -> Tensor:
        """(H, R) bias for the relative positions (R,)."""
        bucket = relative_position_bucket(relative_position, self.bidirectional, self.num_buckets, self.max_distance)
        return self.weight[bucket].T
