"""What attention refuses."""

import torch
from torch import Tensor

from posenc_lib import validate
from posenc_lib.placed import Placed
from posenc_lib.scheme import PositionScheme


def placed(
    q: Tensor,
    k: Tensor,
    scheme: PositionScheme | Placed,
    query_positions: Tensor | None,
    key_positions: Tensor | None,
    x: Tensor | None,
) -> Placed:
    """Refuse q, k and x that do not fit; return the scheme at its positions, with the defaults filled in."""
    if not isinstance(scheme, PositionScheme | Placed):
        raise TypeError(f"scheme must be a PositionScheme or what its method at returns, got {type(scheme).__name__}")
    for name, value in (("q", q), ("k", k)):
        validate.floating(name, validate.tensor(name, value, shape="(B, H, L, d)"))
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q and k must have the same width d, got {q.shape[-1]} and {k.shape[-1]}")
    if q.shape[:2] != k.shape[:2]:
        raise ValueError(f"q and k must have the same (B, H), got {tuple(q.shape[:2])} and {tuple(k.shape[:2])}")
    _kind("k", k, q)
    batch, n_queries, n_keys = len(q), q.shape[2], k.shape[2]
    if x is not None and validate.tensor("x", x, shape="(B, Lk, D)").shape[:2] != (batch, n_keys):
        raise ValueError(f"x must have shape (B, Lk, D) with (B, Lk) = {(batch, n_keys)}, got {tuple(x.shape)}")
    if isinstance(scheme, PositionScheme):
        keys = n_keys if key_positions is None else key_positions
        here = scheme.at(n_queries if query_positions is None else query_positions, keys, like=q)
    elif query_positions is None and key_positions is None:
        here = scheme
    else:
        raise ValueError(
            "query_positions and key_positions must be None with a scheme that is at its positions already"
        )
    if here.dtype != torch.promote_types(q.dtype, torch.float32) or here.device != q.device:
        raise ValueError(f"q must be like what the scheme was placed for, {here.dtype} on {here.device}, got {q.dtype}")
    for name, positions, n, length in (
        ("query_positions", here.query_positions, n_queries, here.n_queries),
        ("key_positions", here.key_positions, n_keys, here.n_keys),
    ):
        if length != n:
            raise ValueError(f"{name} must have {n} entries, one per token, got {length}")
        if positions.dim() > 2 and len(positions) != batch:
            raise ValueError(f"{name} must have B = {batch} rows, one per text, got {len(positions)}")
    return here


def values(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Refuse values that do not fit."""
    validate.floating("v", validate.tensor("v", v, shape="(B, H, L, d)"))
    if v.shape != k.shape:
        raise ValueError(f"v must have the shape of k, {tuple(k.shape)}, got {tuple(v.shape)}")
    _kind("v", v, q)


def sinks(q: Tensor, value: Tensor | None) -> None:
    """Refuse sinks that do not fit."""
    if value is None:
        return
    validate.floating("sinks", validate.tensor("sinks", value, shape="(H,)"))
    if value.shape != q.shape[1:2]:
        raise ValueError(f"sinks must have shape (H,) = ({q.shape[1]},), one per head, got {tuple(value.shape)}")
    _kind("sinks", value, q)


def masks(q: Tensor, k: Tensor, key_padding_mask: Tensor | None, mask: Tensor | None) -> list[Tensor]:
    """Refuse masks that do not fit; return those that are given as conditions broadcastable to (B, H, Lq, Lk)."""
    batch, n_queries, n_keys = len(q), q.shape[2], k.shape[2]
    conditions = []
    if key_padding_mask is not None:
        _mask("key_padding_mask", key_padding_mask, {"(B, Lk)": (batch, n_keys)})
        conditions.append(~key_padding_mask[:, None, None, :])
    if mask is not None:
        _mask("mask", mask, {"(Lq, Lk)": (n_queries, n_keys), "(B, Lq, Lk)": (batch, n_queries, n_keys)})
        conditions.append(mask[:, None] if mask.dim() == 3 else mask)
    return conditions


def _mask(name: str, value: Tensor, allowed: dict[str, tuple[int, ...]]) -> None:
    """Refuse a mask that is no bool or has none of the allowed shapes."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor {' or '.join(allowed)}, got {type(value).__name__}")
    if value.dtype != torch.bool:
        raise TypeError(f"{name} must be bool, got {value.dtype}")
    if tuple(value.shape) not in allowed.values():
        shapes = " or ".join(f"{names} = {shape}" for names, shape in allowed.items())
        raise ValueError(f"{name} must have shape {shapes}, got {tuple(value.shape)}")


def _kind(name: str, x: Tensor, q: Tensor) -> None:
    """Refuse a tensor whose dtype or device is not that of q."""
    if (x.dtype, x.device) != (q.dtype, q.device):
        raise ValueError(
            f"{name} must have the dtype and device of q, {q.dtype} on {q.device}, got {x.dtype} on {x.device}"
        )
