"""Sinusoidal positional encoding, added to the input.

Vaswani et al. 2017 (arXiv:1706.03762), section 3.5:

    theta_t = base**(-2t/dim),        t = 0, ..., dim/2 - 1
    P[p, 2t] = sin(p theta_t),        P[p, 2t+1] = cos(p theta_t)

Moving by k positions is a linear map, the same for every p: P[p + k] = M_k P[p], where M_k turns pair t by the angle
k theta_t. The matrices M_k form a one-parameter group: M_k M_l = M_{k+l} and M_k^T = M_{-k}.
"""

import torch
from torch import Tensor

from posenc_lib import validate
from posenc_lib.scheme import PositionScheme


def frequencies(dim: int, base: float = 10_000.0) -> Tensor:
    """Angle per position of each pair, theta_t = base**(-2t/dim).

    Args:
        dim: width of the encoding, even.
        base: ratio that theta_t would reach at t = dim/2; positive.
    Returns:
        (dim/2,) float64, radians per position, from 1 downwards (for base > 1).
    Raises:
        ValueError: if ``dim`` is odd or not positive, or ``base`` is not positive.
    Source: Vaswani et al. 2017 (arXiv:1706.03762), section 3.5.
    Example:
        >>> frequencies(4, base=100.0)
        tensor([1.0000, 0.1000], dtype=torch.float64)
    """
    validate.width("dim", dim)
    validate.real("base", base, above=0)
    t = torch.arange(dim // 2, dtype=torch.float64)
    return base ** (-2 * t / dim)


def encode(positions: Tensor, dim: int, base: float = 10_000.0) -> Tensor:
    """Encodings P of the given positions, sine and cosine interleaved.

    Args:
        positions: (..., L) integers, in any order; negative positions are allowed.
        dim: width of the encoding, even.
        base: see :func:`frequencies`.
    Returns:
        (..., L, dim) float64 on the device of ``positions``; every row has norm sqrt(dim/2).
    Raises:
        ValueError: if ``dim`` or ``base`` is refused by :func:`frequencies`, or ``positions`` is a single number.
        TypeError: if ``positions`` does not hold integers.
    Source: Vaswani et al. 2017 (arXiv:1706.03762), section 3.5.
    Example:
        >>> encode(torch.arange(2), 2)
        tensor([[0.0000, 1.0000],
                [0.8415, 0.5403]], dtype=torch.float64)
    """
    validate.positions("positions", positions)
    theta = frequencies(dim, base).to(positions.device)
    angles = positions.to(torch.float64)[..., None] * theta
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


def shift_matrix(offset: float, dim: int, base: float = 10_000.0) -> Tensor:
    """Matrix M with ``encode(p + offset) == M @ encode(p)`` for every position p.

    Args:
        offset: number of positions to move by; negative moves left, a fraction moves by part of a step.
        dim: width of the encoding, even.
        base: see :func:`frequencies`.
    Returns:
        (dim, dim) float64, block-diagonal, with one 2 x 2 rotation [[cos, sin], [-sin, cos]] per pair.
    Raises:
        ValueError: if ``offset`` is not finite, or ``dim`` or ``base`` is refused by :func:`frequencies`.
    Source: Vaswani et al. 2017 (arXiv:1706.03762), section 3.5; proof in notebook 01.
    Example:
        >>> shift_matrix(1, 2)
        tensor([[ 0.5403,  0.8415],
                [-0.8415,  0.5403]], dtype=torch.float64)
    """
    angles = validate.real("offset", offset) * frequencies(dim, base)
    c, s = angles.cos(), angles.sin()
    return torch.block_diag(*torch.stack([c, s, -s, c], dim=-1).unflatten(-1, (2, 2)))


class Sinusoidal(PositionScheme):
    """Adds P[p] to the input of the first layer; no parameters, any length.

    Args:
        dim: width D of the input, even.
        base: see :func:`frequencies`.
    Example:
        >>> Sinusoidal(2).embed(torch.zeros(1, 2, 2), torch.arange(2))
        tensor([[[0.0000, 1.0000],
                 [0.8415, 0.5403]]])
    """

    name = "sinusoidal"
    places = ("input",)

    def __init__(self, dim: int, base: float = 10_000.0):
        super().__init__()
        self.dim = validate.width("dim", dim)
        self.base = validate.real("base", base, above=0)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """x (B, L, D) plus the encoding of ``positions`` (L,) or (B, L), in the dtype and on the device of x."""
        validate.embedded(x, positions, self.dim)
        return x + encode(positions, self.dim, self.base).to(x)
