"""ALiBi: a penalty that grows linearly with the distance, with one fixed slope per head.

Press et al. 2021 (arXiv:2108.12409), section 3:

    s_ij = q_i.k_j / sqrt(d) - m_h |i - j|,    m_h = 2**(-8h/H),    h = 1, ..., H

The paper writes -m_h (i - j), for a causal model, where no key comes after its query and the two are the same. Without
the mask (i - j) would reward keys for being far to the right; |i - j| treats both sides alike, as bidirectional models
that use ALiBi do. Nothing is learned.
"""

import torch
from torch import Tensor

from posenc_lib import validate
from posenc_lib.scheme import DistanceBias


def slopes(num_heads: int) -> Tensor:
    """Slope of each head, m_h = 2**(-8h/H): from 2**(-8/H) down to 1/256.

    If H is no power of two, with P the largest power of two below it, the first P slopes are those of P heads, and the
    others every second one of 2P heads: the 1st, the 3rd, ...

    Args:
        num_heads: H.
    Returns:
        (H,) float64, positive.
    Raises:
        ValueError: if ``num_heads`` is not a positive integer.
    Source: Press et al. 2021 (arXiv:2108.12409), section 3; other numbers of heads: the authors' code only.
    Example:
        >>> slopes(4)
        tensor([0.2500, 0.0625, 0.0156, 0.0039], dtype=torch.float64)
    """
    H = validate.integer("num_heads", num_heads, at_least=1)
    P = 2 ** (H.bit_length() - 1)
    h = torch.arange(1, P + 1, dtype=torch.float64)
    first, between = 2 ** (-8 * h / P), 2 ** (-8 * (h - 0.5) / P)
    return torch.cat([first, between[: H - P]])


class Alibi(DistanceBias):
    """Subtracts slope times distance from the scores; no parameters, any length.

    Args:
        num_heads: H.
    Example:
        >>> Alibi(2).distance_bias(torch.tensor([-2, -1, 1]))
        tensor([[-0.1250, -0.0625, -0.0625],
                [-0.0078, -0.0039, -0.0039]], dtype=torch.float64)
    """

    name = "ALiBi"

    def __init__(self, num_heads: int):
        super().__init__()
        self.num_heads = validate.integer("num_heads", num_heads, at_least=1)

    def distance_bias(self, relative_position: Tensor) -> Tensor:
        """(H, R) float64 bias -m_h |j - i| for the relative positions (R,)."""
        validate.vector("relative_position", relative_position)
        return -slopes(self.num_heads).to(relative_position.device)[:, None] * relative_position.double().abs()
