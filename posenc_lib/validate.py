"""Refusals at the door: each helper returns its argument or raises an error that names it.

``TypeError`` is for a value of the wrong kind (a string where a number belongs), ``ValueError`` for a value of the
right kind that makes no sense (an odd width, a negative clip).
"""

import math
from numbers import Integral, Real

import torch
from torch import Tensor

INTEGER_DTYPES = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


def real(name: str, value, *, above: float = -math.inf) -> float:
    """A finite real number, strictly greater than ``above``."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r} of type {type(value).__name__}")
    if not (math.isfinite(value) and value > above):
        allowed = "finite" if above == -math.inf else f"finite and greater than {above:g}"
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
    return value


def integer(name: str, value, *, at_least: int | None = None, even: bool = False) -> int:
    """A whole number, not below ``at_least``, even if asked for."""
    real(name, value)
    if not isinstance(value, Integral):
        raise ValueError(f"{name} must be an integer, got {value!r}")
    if at_least is not None and value < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {value}")
    if even and value % 2:
        raise ValueError(f"{name} must be even, because components come in pairs, got {value}")
    return int(value)


def width(name: str, value) -> int:
    """The width of an encoding or a head: a positive even integer."""
    return integer(name, value, at_least=1, even=True)


def choice(name: str, value, allowed: tuple) -> str:
    """One of the values in ``allowed``."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value


def tensor(name: str, value, *, shape: str) -> Tensor:
    """A tensor with as many axes as ``shape`` names, such as ``"(B, H, L, d)"``."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor {shape}, got {type(value).__name__}")
    if value.dim() != shape.count(",") + (not shape.endswith(",)")):
        raise ValueError(f"{name} must have shape {shape}, got {tuple(value.shape)}")
    return value


def floating(name: str, value: Tensor) -> Tensor:
    """A tensor of real floating-point numbers."""
    if not value.is_floating_point():
        raise TypeError(f"{name} must hold floating-point numbers, got {value.dtype}")
    return value


def vectors(name: str, value) -> Tensor:
    """A tensor (..., L, d) of real floating-point numbers, with any axes in front."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor (..., L, d), got {type(value).__name__}")
    if value.dim() < 2:
        raise ValueError(f"{name} must have shape (..., L, d), got {tuple(value.shape)}")
    return floating(name, value)


def last_axis(name: str, value: Tensor, width: int) -> Tensor:
    """A tensor whose last axis has the given width."""
    if value.shape[-1] != width:
        raise ValueError(f"{name} must have width {width}, got {value.shape[-1]}")
    return value


def integers(name: str, value) -> Tensor:
    """A tensor of integers, of any shape."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor of integers, got {type(value).__name__}")
    if value.dtype not in INTEGER_DTYPES:
        raise TypeError(f"{name} must hold integers, got {value.dtype}")
    return value


def positions(name: str, value, *, length: int | None = None) -> Tensor:
    """Integer positions (L,), with L equal to ``length`` if given."""
    integers(name, tensor(name, value, shape="(L,)"))
    if length is not None and len(value) != length:
        raise ValueError(f"{name} must have {length} entries, one per token, got {len(value)}")
    return value
