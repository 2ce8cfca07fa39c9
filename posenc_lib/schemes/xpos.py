"""xPos: rotary embedding whose scores decay with the distance, more in the fast pairs than in the slow ones.

Sun et al. 2022 (arXiv:2212.10554), with R_m the rotation of RoPE, zeta_t the same for both components of pair t and
gamma = .4:

    zeta_t = (2t/d + gamma) / (1 + gamma),        t = 0, ..., d/2 - 1
    q_i <- zeta**(i/512) R_i q_i,    k_j <- zeta**(-j/512) R_j k_j

The score gets zeta**((i-j)/512), below 1 for keys before the query and relative, like the rotation. It is meant for
causal models: keys after the query would be enlarged.

In pair 0, zeta = .2857, the two factors leave the range of float32 (and bfloat16) some 36,000 positions from 0, and of
float16 some 4,000; the scores are then 0, infinite or no numbers. Counting from the middle of the text (``center``)
changes no score and doubles the reach.
"""

import torch
from torch import Tensor

from posenc_lib import validate
from posenc_lib.schemes.rope import Rotary


def decay(head_dim: int, gamma: float = 0.4) -> Tensor:
    """zeta_t = (2t/d + gamma) / (1 + gamma), what the score of pair t is multiplied by every ``scale_base`` positions.

    Args:
        head_dim: d, even.
        gamma: positive; the larger, the less decay.
    Returns:
        (head_dim/2,) float64, ascending, below 1.
    Raises:
        ValueError: if ``head_dim`` is odd or not positive, or ``gamma`` is not positive.
    Source: Sun et al. 2022 (arXiv:2212.10554), algorithm 1.
    Example:
        >>> decay(4)
        tensor([0.2857, 0.6429], dtype=torch.float64)
    """
    t = torch.arange(validate.width("head_dim", head_dim) // 2, dtype=torch.float64)
    return (2 * t / head_dim + validate.real("gamma", gamma, above=0)) / (1 + gamma)


class XPos(Rotary):
    """Rotates queries and keys, shrinks queries and enlarges keys with the position; no parameters.

    Args:
        head_dim, base, layout: see :class:`Rotary`.
        scale_base: positions over which the score of pair t falls to zeta_t; positive.
        center: position at which both factors are 1; the same for queries and keys, or for a cache and its reader.
    Example:
        >>> from posenc_lib import Rotary, scores
        >>> q, i, j = torch.ones(1, 1, 1, 2), torch.tensor([512]), torch.tensor([0])
        >>> scores(q, q, XPos(2), i, j) / scores(q, q, Rotary(2), i, j)  # zeta_0
        tensor([[[[0.2857]]]])
    """

    name = "xPos"
    variants = {"half": {"layout": "half"}}

    def __init__(
        self,
        head_dim: int,
        base: float = 10_000.0,
        layout: str = "interleaved",
        scale_base: float = 512.0,
        center: int = 0,
    ):
        super().__init__(head_dim, base, layout)
        self.scale_base = validate.real("scale_base", scale_base, above=0)
        self.center = validate.integer("center", center)

    def per_token(self, positions: Tensor) -> tuple[Tensor, ...]:
        """Cosines and sines (..., L, d/2), and zeta**((m - center)/scale_base) of every component (..., L, d)."""
        power = (positions.to(torch.float64) - self.center) / self.scale_base
        factors = decay(self.head_dim).to(positions.device) ** power[..., None]
        both = (
            factors.repeat_interleave(2, dim=-1) if self.layout == "interleaved" else torch.cat([factors] * 2, dim=-1)
        )
        return *super().per_token(positions), both

    def transform_query(self, q: Tensor, token: tuple[Tensor, ...]) -> Tensor:
        """Queries q (B, H, L, d), rotated and multiplied by zeta**((i - center)/scale_base)."""
        cos, sin, factor = token
        return self.transform(q, (cos, sin)) * factor.to(q.dtype)

    def transform_key(self, k: Tensor, token: tuple[Tensor, ...]) -> Tensor:
        """Keys k (B, H, L, d), rotated and divided by zeta**((j - center)/scale_base)."""
        cos, sin, factor = token
        return self.transform(k, (cos, sin)) / factor.to(k.dtype)
