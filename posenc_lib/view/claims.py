"""Checks of identities that print one line of a fixed form, the same on every machine."""

import torch
from torch import Tensor


def holds(claim: str, left: Tensor, right: Tensor, tolerance: float = 1e-12) -> None:
    """Print ``claim holds: True`` if two float64 tensors agree everywhere, else ``claim holds: False``.

    Args:
        claim: the identity in words or symbols.
        left, right: the two sides, same shape, float64 or complex128.
        tolerance: largest absolute difference allowed in any entry.
    Raises:
        ValueError: if the shapes differ, there is nothing to compare, or the precision is below float64, in which a
            check proves little.
    """
    left, right = torch.as_tensor(left), torch.as_tensor(right)
    if left.shape != right.shape:
        raise ValueError(f"left and right must have the same shape, got {tuple(left.shape)} and {tuple(right.shape)}")
    if not left.numel():
        raise ValueError("left and right must hold something to compare, got no entries")
    for name, side in (("left", left), ("right", right)):
        if side.dtype not in (torch.float64, torch.complex128):
            raise ValueError(f"{name} must be float64 or complex128, got {side.dtype}")
    print(f"{claim} holds: {bool(((left - right).abs() <= tolerance).all())}")
