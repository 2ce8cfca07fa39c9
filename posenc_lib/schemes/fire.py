"""FIRE: a small network reads the distance as a share of how far the query could look back.

Li et al. 2023 (arXiv:2310.04418), with a positive scalar c and a positive threshold L, both learned:

    s_ij = q_i.k_j / sqrt(d) + f(psi(i - j) / psi(max(L, i))),    psi(x) = log(1 + c x)

A key before its query, 0 <= j <= i, is at most i away, so what f reads stays in [0, 1] at any length, where it was
trained. Up to i = L the bias depends on i - j only; from there on the distances are interpolated, more and more. The
logarithm spreads short distances out. f: one number in, a hidden layer, one number per head out.

Keys after the query (a bidirectional model) are given |i - j|, as in the code of the paper; from j - i > max(L, i) on,
f then reads numbers above 1.
"""

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.relative import heads_first, relative_position
from posenc_lib.scheme import PositionScheme


def relative_progress(query_positions: Tensor, key_positions: Tensor, c: Tensor, threshold: Tensor) -> Tensor:
    """psi(|i - j|) / psi(max(L, i)): the distance as a share of the longest one, on a logarithmic scale.

    Args:
        query_positions: (..., Lq) integers i, counted from the start of the text.
        key_positions: (..., Lk) integers j.
        c: () how soon the logarithm bends, positive.
        threshold: () L, positive: queries before it are measured by L.
    Returns:
        (..., Lq, Lk) float64, in [0, 1] where 0 <= j <= i; differentiable in c and L.
    Raises:
        ValueError: shapes that do not fit.
        TypeError: positions that are not integers, parameters that are no floating-point tensors.
    Source: Li et al. 2023 (arXiv:2310.04418), the argument of f.
    Example:
        >>> one = torch.tensor(1.0)
        >>> relative_progress(torch.tensor([3]), torch.arange(4), c=one, threshold=one)
        tensor([[1.0000, 0.7925, 0.5000, 0.0000]], dtype=torch.float64)
    """
    i = validate.positions("query_positions", query_positions)
    j = validate.positions("key_positions", key_positions)
    for name, value in (("c", c), ("threshold", threshold)):
        if not isinstance(value, Tensor) or not value.is_floating_point():
            raise TypeError(f"{name} must be a floating-point tensor (), got {value!r}")
        if value.dim():
            raise ValueError(f"{name} must be a single number, got shape {tuple(value.shape)}")
    c, threshold = c.double(), threshold.double()
    distance = relative_position(i.long(), j.long()).abs()
    longest = torch.maximum(i.double(), threshold)[..., None]
    return torch.log1p(c * distance) / torch.log1p(c * longest)


class Fire(PositionScheme):
    """Adds a learned function of the relative progress to the scores; any length, causal or not.

    What is learned of c and L is their logarithm, so that both stay positive. The bias of Lq queries and Lk keys takes
    Lq Lk ``hidden`` numbers on the way, because it does not depend on j - i only.

    Args:
        num_heads: H.
        hidden: width of the hidden layer of f; with it f has 2 hidden + (hidden + 1) H numbers.
        c: initial c, positive.
        threshold: initial L, positive.
    Raises:
        ValueError: a number that is not positive.
    Example:
        >>> Fire(2).per_pair(torch.arange(3), torch.arange(5)).shape
        torch.Size([2, 3, 5])
    """

    name = "FIRE"
    places = ("score",)

    def __init__(self, num_heads: int, hidden: int = 32, c: float = 0.1, threshold: float = 512.0):
        super().__init__()
        self.num_heads = validate.integer("num_heads", num_heads, at_least=1)
        self.hidden = validate.integer("hidden", hidden, at_least=1)
        self.f = nn.Sequential(nn.Linear(1, hidden), nn.ReLU(), nn.Linear(hidden, num_heads))
        self.log_c = nn.Parameter(torch.tensor(float(validate.real("c", c, above=0))).log())
        self.log_threshold = nn.Parameter(torch.tensor(float(validate.real("threshold", threshold, above=0))).log())

    @property
    def c(self) -> Tensor:
        """(), positive."""
        return self.log_c.double().exp()

    @property
    def threshold(self) -> Tensor:
        """L (), positive."""
        return self.log_threshold.double().exp()

    def per_pair(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """f of the relative progress, shape (H, Lq, Lk) or (B, H, Lq, Lk)."""
        progress = relative_progress(query_positions, key_positions, self.c, self.threshold)
        return heads_first(self.f(progress[..., None].to(self.log_c)))

    def score_bias(self, q: Tensor, k: Tensor, pair: Tensor) -> Tensor:
        """What ``per_pair`` says."""
        return pair
