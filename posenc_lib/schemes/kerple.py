"""KERPLE: a penalty that grows with the distance as a logarithm or a power, with two learned numbers per head.

Chi et al. 2022 (arXiv:2205.09921), its two variants:

    s_ij = q_i.k_j / sqrt(d) - r1 log(1 + r2 |i - j|)      r1, r2 > 0            log
    s_ij = q_i.k_j / sqrt(d) - r1 |i - j|**r2              r1 > 0, 0 < r2 <= 2   power

What is added is a conditionally positive definite kernel K: the sum of c_i c_j K(i, j) is never negative when the c_i
add up to 0. Among finitely many positions a constant then makes K an inner product of features of i and j (except at
r2 = 2, where some of these sums are 0), and softmax does not see a constant. Beyond r2 = 2 the power is no such kernel.
With r2 = 1 it is ALiBi with learned slopes.
"""

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.scheme import DistanceBias

KERNELS = ("log", "power")


def log_bias(relative_position: Tensor, r1: Tensor, r2: Tensor) -> Tensor:
    """-r1 log(1 + r2 |r|) for every head and relative position r.

    Args:
        relative_position: (R,) integers, key minus query.
        r1: (H,) height, positive.
        r2: (H,) how soon the logarithm bends, positive.
    Returns:
        (H, R) float64; differentiable in r1 and r2.
    Raises:
        ValueError: shapes that do not fit.
        TypeError: relative positions that are not integers, parameters that are no floating-point tensors.
    Source: Chi et al. 2022 (arXiv:2205.09921), the logarithmic variant.
    Example:
        >>> log_bias(torch.tensor([-3, 1]), r1=torch.tensor([1.0]), r2=torch.tensor([1.0]))
        tensor([[-1.3863, -0.6931]], dtype=torch.float64)
    """
    distance, r1, r2 = _columns(relative_position, r1, r2)
    return -r1 * torch.log1p(r2 * distance)


def power_bias(relative_position: Tensor, r1: Tensor, r2: Tensor) -> Tensor:
    """-r1 |r|**r2 for every head and relative position r.

    Args:
        relative_position: (R,) integers, key minus query.
        r1: (H,) slope, positive.
        r2: (H,) exponent in (0, 2]; 1 gives ALiBi.
    Returns:
        (H, R) float64; differentiable in r1 and r2.
    Raises:
        ValueError: shapes that do not fit.
        TypeError: relative positions that are not integers, parameters that are no floating-point tensors.
    Source: Chi et al. 2022 (arXiv:2205.09921), the power variant.
    Example:
        >>> power_bias(torch.tensor([-3, 1]), r1=torch.tensor([1.0]), r2=torch.tensor([2.0]))
        tensor([[-9., -1.]], dtype=torch.float64)
    """
    distance, r1, r2 = _columns(relative_position, r1, r2)
    return -r1 * distance**r2


def _columns(relative_position: Tensor, r1: Tensor, r2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Distances (R,), and the numbers of each head as columns (H, 1), in float64."""
    validate.vector("relative_position", relative_position)
    for name, value in (("r1", r1), ("r2", r2)):
        validate.floating(name, validate.tensor(name, value, shape="(H,)"))
    if r1.shape != r2.shape:
        raise ValueError(f"r1 and r2 must have one number per head, got {len(r1)} and {len(r2)}")
    return relative_position.double().abs(), r1.double()[:, None], r2.double()[:, None]


class Kerple(DistanceBias):
    """Subtracts a learned function of the distance from the scores; 2H parameters, any length.

    What is learned is the logarithm of r1, and of r2 the logarithm or, for the power, the logit of r2 / 2: any step of
    an optimizer leaves r1 positive and r2 within its bounds. (The authors' code clamps r1 and r2 themselves to .01 or
    more.) At first r1 and r2 are drawn as in that code.

    Args:
        num_heads: H.
        kernel: ``"log"`` or ``"power"``.
    Raises:
        ValueError: a number of heads that is not positive, an unknown kernel.
    Example:
        >>> scheme = Kerple(2)
        >>> scheme.distance_bias(torch.arange(-3, 1)).shape
        torch.Size([2, 4])
        >>> (scheme.r1 > 0).all()
        tensor(True)
    """

    name = "KERPLE"
    variants = {"power": {"kernel": "power"}}

    def __init__(self, num_heads: int, kernel: str = "log"):
        super().__init__()
        self.num_heads = validate.integer("num_heads", num_heads, at_least=1)
        self.kernel = validate.choice("kernel", kernel, KERNELS)
        upto_1, upto_2 = torch.rand(num_heads).clamp(min=0.01), torch.rand(num_heads).clamp(min=0.005, max=0.995)
        if kernel == "log":
            self.log_r1, self.raw_r2 = nn.Parameter((2 * upto_2).log()), nn.Parameter(upto_1.log())
        else:
            self.log_r1, self.raw_r2 = nn.Parameter(upto_1.log()), nn.Parameter(upto_2.logit())

    @property
    def r1(self) -> Tensor:
        """(H,), positive."""
        return self.log_r1.double().exp()

    @property
    def r2(self) -> Tensor:
        """(H,), positive, and for the power below 2."""
        raw = self.raw_r2.double()
        return raw.exp() if self.kernel == "log" else 2 * raw.sigmoid()

    def distance_bias(self, relative_position: Tensor) -> Tensor:
        """(H, R) float64 bias for the relative positions (R,)."""
        bias = log_bias if self.kernel == "log" else power_bias
        return bias(relative_position, self.r1, self.r2)
