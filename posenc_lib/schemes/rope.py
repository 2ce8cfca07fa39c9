"""Rotary position embedding: queries and keys are rotated by an angle proportional to their position.

Su et al. 2021 (arXiv:2104.09864), equations 14 to 16 and 34. Read each pair of components as one complex number:

    theta_t = base**(-2t/d),                         t = 0, ..., d/2 - 1
    (R_m x)_t = (x_2t + i x_2t+1) e^(i m theta_t)

The rotations form a one-parameter group, R_m R_n = R_{m+n} and R_m^T = R_{-m}, so that the score of a query at m and a
key at n depends on n - m only: <R_m q, R_n k> = q^T R_{n-m} k. Values are not rotated.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from posenc_lib import validate
from posenc_lib.scheme import PositionScheme
from posenc_lib.schemes.sinusoidal import frequencies

LAYOUTS = ("interleaved", "half")


def inverse_frequencies(head_dim: int, base: float = 10_000.0) -> Tensor:
    """Angle per position of each pair, theta_t = base**(-2t/head_dim): the frequencies of the sinusoid.

    Args:
        head_dim: number of components that are rotated, even.
        base: positive.
    Returns:
        (head_dim/2,) float64, radians per position.
    Raises:
        ValueError: if ``head_dim`` is odd or not positive, or ``base`` is not positive.
    Source: Su et al. 2021 (arXiv:2104.09864), equation 15.
    """
    return frequencies(validate.width("head_dim", head_dim), base)


def rotate(x: Tensor, positions: Tensor, inv_freq: Tensor, layout: str = "interleaved") -> Tensor:
    """Rotate pair t of every x[..., m, :] by the angle positions[m] * inv_freq[t].

    Args:
        x: (..., L, d) floating point.
        positions: (L,) integers, in any order.
        inv_freq: (d/2,) radians per position.
        layout: which components form pair t: ``"interleaved"`` takes 2t and 2t+1 (GPT-J), ``"half"`` takes t and
            t + d/2 (GPT-NeoX, Llama).
    Returns:
        (..., L, d), a new tensor in the dtype of x; norms are kept.
    Raises:
        ValueError: shapes that do not fit, an unknown layout.
        TypeError: x that is no floating-point tensor, positions that are not integers.
    Source: Su et al. 2021 (arXiv:2104.09864), equation 34.
    """
    validate.choice("layout", layout, LAYOUTS)
    validate.vectors("x", x)
    validate.positions("positions", positions, length=x.shape[-2])
    validate.floating("inv_freq", validate.tensor("inv_freq", inv_freq, shape="(d/2,)"))
    if x.shape[-1] != 2 * len(inv_freq):
        raise ValueError(f"x must have width 2 * len(inv_freq) = {2 * len(inv_freq)}, got {x.shape[-1]}")
    if x.dtype in (torch.float16, torch.bfloat16):  # there is no complex bfloat16
        return rotate(x.float(), positions, inv_freq, layout).to(x.dtype)

    if layout == "interleaved":
        phases = _turns(x, positions, inv_freq, layout)
        pairs = torch.view_as_complex(x.contiguous().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * phases).flatten(-2)
    cos, sin = _turns(x, positions, inv_freq, layout)
    return x.roll(len(inv_freq), dims=-1).mul_(sin).addcmul_(x, cos)


def rotation_matrix(position: float, inv_freq: Tensor) -> Tensor:
    """Matrix R_m with ``rotate(x, m, inv_freq) == R_m x`` in the interleaved layout.

    Args:
        position: m; negative turns back, a fraction turns by part of a step.
        inv_freq: (d/2,) radians per position.
    Returns:
        (d, d) float64, block-diagonal, with one 2 x 2 rotation [[cos, -sin], [sin, cos]] per pair.
    Raises:
        ValueError: if ``position`` is not finite or ``inv_freq`` is not one-dimensional.
    Source: Su et al. 2021 (arXiv:2104.09864), equation 15.
    """
    validate.floating("inv_freq", validate.tensor("inv_freq", inv_freq, shape="(d/2,)"))
    angles = validate.real("position", position) * inv_freq.to(torch.float64)
    c, s = angles.cos(), angles.sin()
    return torch.block_diag(*torch.stack([c, -s, s, c], dim=-1).unflatten(-1, (2, 2)))


def layout_permutation(head_dim: int) -> Tensor:
    """Order of components that turns the interleaved layout into the half layout: 0, 2, ..., 1, 3, ...

    With ``order = layout_permutation(d)``,
    ``rotate(x, ..., "interleaved")[..., order] == rotate(x[..., order], ..., "half")``; ``order.argsort()`` goes back.

    Args:
        head_dim: even.
    Returns:
        (head_dim,) int64, a permutation of 0..head_dim-1.
    Raises:
        ValueError: if ``head_dim`` is odd or not positive.
    """
    return torch.arange(validate.width("head_dim", head_dim)).view(-1, 2).T.flatten()


class RescaledFrequencies(NamedTuple):
    """Frequencies for a longer context than a model was trained on; see :mod:`posenc_lib.schemes.context_extension`.

    inv_freq: (d/2,) float64, radians per position.
    attention_factor: what rotated queries and keys are multiplied by; the scores are, by its square.
    """

    inv_freq: Tensor
    attention_factor: float = 1.0


class Rotary(PositionScheme):
    """Rotates queries and keys; no parameters, any length.

    Args:
        head_dim: width d of a head, even.
        base: see :func:`inverse_frequencies`.
        layout: see :func:`rotate`.
        rotary_fraction: share of the components that is rotated, in (0, 1]; the first ones are, the others pass
            through (GPT-NeoX rotates a quarter). It must leave an even number of them.
        rescaled: frequencies to use in place of those of ``base``, which must then be left out, and a factor for the
            components that are rotated.
    """

    def __init__(
        self,
        head_dim: int,
        base: float = 10_000.0,
        layout: str = "interleaved",
        rotary_fraction: float = 1.0,
        rescaled: RescaledFrequencies | None = None,
    ):
        super().__init__()
        self.head_dim = validate.width("head_dim", head_dim)
        self.layout = validate.choice("layout", layout, LAYOUTS)
        if validate.real("rotary_fraction", rotary_fraction, above=0) > 1:
            raise ValueError(f"rotary_fraction must be at most 1, got {rotary_fraction}")
        rotated = int(head_dim * rotary_fraction)
        if rotated == 0 or rotated % 2:
            raise ValueError(
                f"rotary_fraction must leave an even, positive number of the {head_dim} components, "
                f"got {rotary_fraction}, which leaves {rotated}"
            )
        self.rotary_fraction = rotary_fraction
        if rescaled is None:
            self.base, inv_freq, self.attention_factor = base, inverse_frequencies(rotated, base), 1.0
        elif base != 10_000:
            raise ValueError(f"base must be left out with rescaled, whose frequencies have their own, got {base}")
        else:
            self.base, (inv_freq, self.attention_factor) = None, _check_rescaled(rescaled, rotated)
        self.register_buffer("inv_freq", inv_freq.to(torch.float64), persistent=False)

    def _apply(self, fn, recurse: bool = True) -> "Rotary":
        """Move to a device, but stay in float64: in bfloat16 the frequencies themselves would be wrong."""
        exact = self.inv_freq
        super()._apply(fn, recurse)
        self.inv_freq = exact.to(self.inv_freq.device)
        return self

    def transform(self, x: Tensor, positions: Tensor) -> Tensor:
        """Queries or keys x (B, H, L, d), rotated by their positions (L,)."""
        validate.tensor("x", x, shape="(B, H, L, d)")
        if x.shape[-1] != self.head_dim:
            raise ValueError(f"x must have width head_dim = {self.head_dim}, got {x.shape[-1]}")
        rotated = 2 * len(self.inv_freq)
        if rotated == self.head_dim:
            return self._rotate(x, positions)
        first, rest = x.split([rotated, self.head_dim - rotated], dim=-1)
        return torch.cat([self._rotate(first, positions), rest], dim=-1)

    def _rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        y = rotate(x, positions, self.inv_freq, self.layout)
        return y if self.attention_factor == 1 else y * self.attention_factor

    def extra_repr(self) -> str:
        """What ``print(model)`` shows between the parentheses."""
        frequencies = f"attention_factor={self.attention_factor:g}" if self.base is None else f"base={self.base:g}"
        return f"{self.head_dim}, {frequencies}, layout={self.layout!r}, rotary_fraction={self.rotary_fraction:g}"


def _check_rescaled(rescaled: RescaledFrequencies, rotated: int) -> RescaledFrequencies:
    """Refuse frequencies that are not those of as many components as are rotated."""
    if not isinstance(rescaled, RescaledFrequencies):
        raise TypeError(f"rescaled must be RescaledFrequencies, got {type(rescaled).__name__}")
    inv_freq = validate.tensor("rescaled.inv_freq", rescaled.inv_freq, shape="(d/2,)")
    validate.floating("rescaled.inv_freq", inv_freq)
    if 2 * len(inv_freq) != rotated:
        raise ValueError(
            f"rescaled.inv_freq must have one entry per pair of the {rotated} rotated components, got {len(inv_freq)}"
        )
    validate.real("rescaled.attention_factor", rescaled.attention_factor, above=0)
    return rescaled


def _turns(x: Tensor, positions: Tensor, inv_freq: Tensor, layout: str) -> Tensor:
    """The factors of ``rotate`` in the precision and on the device of x, from angles in float64.

    Computing them costs more than the rotation itself, and every layer asks for the same ones. On the CPU the last few
    are therefore remembered, by the values of positions and frequencies.
    """
    if x.device.type != "cpu" or inv_freq.requires_grad or not len(positions) or torch.compiler.is_compiling():
        return _compute_turns(positions.to(x.device), inv_freq.to(x.device), x.dtype, layout)
    return _remembered_turns(
        positions.to("cpu", torch.int64).numpy().tobytes(), inv_freq.double().cpu().numpy().tobytes(), x.dtype, layout
    )


@lru_cache(maxsize=8)
def _remembered_turns(positions: bytes, inv_freq: bytes, dtype: torch.dtype, layout: str) -> Tensor:
    with torch.inference_mode(False):  # a table made in inference mode could not be used in training later
        return _compute_turns(
            torch.frombuffer(bytearray(positions), dtype=torch.int64),
            torch.frombuffer(bytearray(inv_freq), dtype=torch.float64),
            dtype,
            layout,
        )


def _compute_turns(positions: Tensor, inv_freq: Tensor, dtype: torch.dtype, layout: str) -> Tensor:
    """Interleaved: (L, d/2) complex e^(i m theta_t). Half: (2, L, d) real, cos and signed sin of each component."""
    angles = positions.to(torch.float64)[:, None] * inv_freq.to(torch.float64)
    c, s = angles.cos().to(dtype), angles.sin().to(dtype)
    if layout == "interleaved":
        return torch.complex(c, s)
    return torch.stack([torch.cat([c, c], dim=-1), torch.cat([-s, s], dim=-1)])
