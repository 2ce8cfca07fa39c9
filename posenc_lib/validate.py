"""Refusals at the door: each helper returns its argument or raises an error that names it.

``TypeError`` is for a value of the wrong kind (a string where a number belongs), ``ValueError`` for a value of the
right kind that makes no sense (an odd width, a negative clip).
"""

import math
from numbers import Integral, Real
from typing import Any, TypeGuard, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")
INTEGER_DTYPES = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


def real(name: str, value: object, *, above: float = -math.inf) -> float:
    """A finite real number, strictly greater than ``above``."""
    if not _is_real(value):
        raise TypeError(f"{name} must be a number, got {value!r} of type {type(value).__name__}")
    if not (math.isfinite(value) and value > above):
        allowed = "finite" if above == -math.inf else f"finite and greater than {above:g}"
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
    return value


def _is_real(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool)


def integer(name: str, value: object, *, at_least: int | None = None, even: bool = False) -> int:
    """A whole number, not below ``at_least``, even if asked for."""
    real(name, value)
    if not isinstance(value, Integral):
        raise ValueError(f"{name} must be an integer, got {value!r}")
    if at_least is not None and value < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {value}")
    if even and value % 2:
        raise ValueError(f"{name} must be even, because components come in pairs, got {value}")
    return int(value)


def width(name: str, value: object) -> int:
    """The width of an encoding or a head: a positive even integer."""
    return integer(name, value, at_least=1, even=True)


def choice(name: str, value: Any, allowed: tuple[T, ...]) -> T:
    """One of the values in ``allowed``."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value


def tensor(name: str, value: object, *, shape: str) -> Tensor:
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


def vectors(name: str, value: object) -> Tensor:
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


def integers(name: str, value: object) -> Tensor:
    """A tensor of integers, of any shape."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor of integers, got {type(value).__name__}")
    if value.dtype not in INTEGER_DTYPES:
        raise TypeError(f"{name} must hold integers, got {value.dtype}")
    return value


def vector(name: str, value: object, *, length: int | None = None) -> Tensor:
    """Integers (L,), with L equal to ``length`` if given."""
    return positions(name, tensor(name, value, shape="(L,)"), length=length)


def positions(name: str, value: Tensor, *, length: int | None = None) -> Tensor:
    """Integer positions (..., L), with L equal to ``length`` if given."""
    if not integers(name, value).dim():
        raise ValueError(f"{name} must have shape (..., L), got a single number")
    if length is not None and value.shape[-1] != length:
        raise ValueError(f"{name} must have {length} entries, one per token, got {value.shape[-1]}")
    return value


def coordinates(name: str, value: object) -> Tensor:
    """A tensor of integers or real numbers, of any shape."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor of numbers, got {type(value).__name__}")
    if value.dtype == torch.bool or value.is_complex():
        raise TypeError(f"{name} must hold integers or real numbers, got {value.dtype}")
    return value


def heads(name: str, value: Tensor, num_heads: int | None, head_dim: int) -> Tensor:
    """Queries or keys (B, H, L, d) with H = ``num_heads``, if that is given, and d = ``head_dim``."""
    tensor(name, value, shape="(B, H, L, d)")
    if value.shape[-1] != head_dim:
        raise ValueError(f"{name} must have width head_dim = {head_dim}, got {value.shape[-1]}")
    if num_heads is not None and value.shape[1] != num_heads:
        raise ValueError(f"{name} must have num_heads = {num_heads} heads, got {value.shape[1]}")
    return value


def hidden(x: Tensor | None, dim: int, reader: object) -> Tensor:
    """Hidden states x (B, Lk, ``dim``), which the scheme ``reader`` needs."""
    if x is None:
        name = type(reader).__name__
        raise ValueError(f"x must be the hidden states (B, Lk, D) of the keys, because {name} reads them, got None")
    return last_axis("x", x, dim)


def embedded(x: Tensor, positions: Tensor, dim: int) -> None:
    """Input x (B, L, ``dim``) of real numbers, and integer positions (L,) or (B, L) for it."""
    floating("x", tensor("x", x, shape="(B, L, D)"))
    last_axis("x", x, dim)
    integers("positions", positions)
    if tuple(positions.shape) not in (tuple(x.shape[1:2]), tuple(x.shape[:2])):
        raise ValueError(
            f"positions must have shape (L,) = {tuple(x.shape[1:2])} or (B, L) = {tuple(x.shape[:2])}, one entry per "
            f"token, got {tuple(positions.shape)}"
        )
