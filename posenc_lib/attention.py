"""The one attention of the course, with a place for every scheme.

Vaswani et al. 2017 (arXiv:1706.03762), equation 1, with the four hooks of :mod:`posenc_lib.scheme`.
"""

from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc_lib import validate
from posenc_lib.relative import toeplitz_rows_reversed
from posenc_lib.scheme import PositionScheme


def scores(
    q: Tensor,
    k: Tensor,
    scheme: PositionScheme,
    query_positions: Tensor | None = None,
    key_positions: Tensor | None = None,
) -> Tensor:
    """Scores s_ij = <q_i, k_j> * scale + score_bias before mask and softmax.

    Args:
        q: (B, H, Lq, d) queries, not yet transformed.
        k: (B, H, Lk, d) keys, not yet transformed.
        scheme: where the tokens are and how attention is told.
        query_positions: (Lq,) integers; the last Lq key positions if None (a cache).
        key_positions: (Lk,) integers; 0..Lk-1 if None.
    Returns:
        (B, H, Lq, Lk), in the dtype of q.
    Raises:
        ValueError: shapes that do not fit, dtypes or devices that differ, more queries than keys without positions.
        TypeError: an argument that is no tensor or no scheme, positions that are not integers.
    """
    query_positions, key_positions = _check(q, k, scheme, query_positions, key_positions)
    q, k, bias = _located(q, k, scheme, query_positions, key_positions)
    s = q @ k.mT * scheme.scale(q.shape[-1])
    return s if bias is None else s + bias


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scheme: PositionScheme,
    causal: bool = False,
    query_positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Attention output o_i = sum_j softmax(s)_ij (v_j + value_bias(i, j)).

    Args:
        q, k, v: (B, H, Lq, d), (B, H, Lk, d), (B, H, Lk, d), not yet transformed.
        scheme: where the tokens are and how attention is told.
        causal: let a query see the keys whose position is not after its own.
        query_positions: (Lq,) integers; the last Lq key positions if None (a cache).
        key_positions: (Lk,) integers; 0..Lk-1 if None.
        key_padding_mask: (B, Lk) bool, True where a key is padding and must not be seen (as in
            ``torch.nn.MultiheadAttention``).
        mask: (Lq, Lk) bool, True where the key may be seen; all may if None. It comes on top of the other two.
    Returns:
        (B, H, Lq, d), in the dtype of q. A query that sees no key gets zeros.
    Raises:
        ValueError, TypeError: as in :func:`scores`; also when v or a mask does not fit.
    """
    default_positions = query_positions is None and key_positions is None
    query_positions, key_positions = _check(q, k, scheme, query_positions, key_positions)
    _check_values(q, k, v, key_padding_mask, mask)
    scale = scheme.scale(q.shape[-1])
    fused = type(scheme).value_bias is PositionScheme.value_bias
    unmasked = key_padding_mask is None and mask is None
    by_distance = _bias_of_distance_only(scheme) and _contiguous(query_positions) and _contiguous(key_positions)

    if fused and unmasked and by_distance:
        return _attend_by_distance(q, k, v, scheme, causal, query_positions, key_positions)
    q, k, bias = _located(q, k, scheme, query_positions, key_positions)
    if fused and bias is None and causal and unmasked and default_positions and q.shape == k.shape:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)  # torch masks this case itself
    visible = _visible(causal, query_positions, key_positions, key_padding_mask, mask)
    if fused:
        if bias is None or visible is None:
            attn_mask = visible if bias is None else bias
        else:
            attn_mask = bias.masked_fill(~visible, -torch.inf)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, scale=scale)

    s = q @ k.mT * scale
    if bias is not None:
        s = s + bias
    weights = s.softmax(-1) if visible is None else _masked_softmax(s, visible)
    o = weights @ v
    extra = scheme.value_bias(weights, query_positions, key_positions)
    return o if extra is None else o + _fits("value_bias", extra, o.shape).to(o.dtype)


def _bias_of_distance_only(scheme: PositionScheme) -> bool:
    """Whether all that the scheme adds to a score depends on j - i only."""
    return (
        type(scheme).distance_bias is not PositionScheme.distance_bias
        and type(scheme).score_bias is PositionScheme.score_bias
    )


def _contiguous(positions: Tensor) -> bool:
    return len(positions) > 0 and bool((positions.diff() == 1).all())


def _attend_by_distance(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scheme: PositionScheme,
    causal: bool,
    query_positions: Tensor,
    key_positions: Tensor,
) -> Tensor:
    """Attention with one bias per distance, the causal mask among them, read through a view of L numbers, not L x L.

    The view has its rows in reverse order, so the queries are reversed too, and the outputs back.
    """
    first, last = key_positions[0] - query_positions[-1], key_positions[-1] - query_positions[0]
    relative = torch.arange(int(first), int(last) + 1, device=q.device)
    bias = _fits("distance_bias", scheme.distance_bias(relative), (q.shape[1], len(relative))).to(q.dtype)
    if causal:
        bias = bias.masked_fill(relative > 0, -torch.inf)
    q, k = scheme.transform_query(q, query_positions), scheme.transform_key(k, key_positions)
    attn_mask = toeplitz_rows_reversed(bias, len(query_positions))[None]
    reverse = F.scaled_dot_product_attention(q.flip(2), k, v, attn_mask=attn_mask, scale=scheme.scale(q.shape[-1]))
    return reverse.flip(2)


def _located(
    q: Tensor, k: Tensor, scheme: PositionScheme, query_positions: Tensor, key_positions: Tensor
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Hooks 2 and 3: transformed q and k, and the score bias in their dtype."""
    q, k = scheme.transform_query(q, query_positions), scheme.transform_key(k, key_positions)
    bias = scheme.score_bias(q, k, query_positions, key_positions)
    if bias is None:
        return q, k, None
    _fits("score_bias", bias, (*q.shape[:3], k.shape[2]))
    return q, k, torch.atleast_2d(bias.to(q.dtype))  # the fused kernel wants two axes


def _fits(hook: str, bias: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Refuse a bias that would stretch what it is added to, such as one for four heads added to a single head."""
    if bias.dim() > len(shape) or any(n not in (1, m) for n, m in zip(bias.shape[::-1], shape[::-1], strict=False)):
        raise ValueError(f"{hook} must fit {tuple(shape)}, got {tuple(bias.shape)}: has the scheme as many heads as q?")
    return bias


def _visible(
    causal: bool,
    query_positions: Tensor,
    key_positions: Tensor,
    key_padding_mask: Tensor | None,
    mask: Tensor | None,
) -> Tensor | None:
    """Which keys a query may see, broadcastable to (B, H, Lq, Lk), or None for all."""
    conditions = []
    if causal:
        conditions.append(key_positions <= query_positions[:, None])
    if key_padding_mask is not None:
        conditions.append(~key_padding_mask[:, None, None, :])
    if mask is not None:
        conditions.append(mask)
    return reduce(torch.logical_and, conditions) if conditions else None


def _masked_softmax(s: Tensor, visible: Tensor) -> Tensor:
    """Softmax over the visible keys; a row with none gives zeros, as in the fused kernel."""
    return s.masked_fill(~visible, -torch.inf).softmax(-1).masked_fill(~visible, 0.0)


def _check(
    q: Tensor, k: Tensor, scheme: PositionScheme, query_positions: Tensor | None, key_positions: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Refuse q and k that do not fit; return both position vectors with the defaults filled in."""
    if not isinstance(scheme, PositionScheme):
        raise TypeError(f"scheme must be a PositionScheme, got {type(scheme).__name__}")
    for name, x in (("q", q), ("k", k)):
        validate.floating(name, validate.tensor(name, x, shape="(B, H, L, d)"))
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q and k must have the same width d, got {q.shape[-1]} and {k.shape[-1]}")
    if q.shape[:2] != k.shape[:2]:
        raise ValueError(f"q and k must have the same (B, H), got {tuple(q.shape[:2])} and {tuple(k.shape[:2])}")
    _check_kind("k", k, q)
    n_queries, n_keys = q.shape[2], k.shape[2]
    if key_positions is None:
        key_positions = torch.arange(n_keys, device=k.device)
    key_positions = validate.positions("key_positions", key_positions, length=n_keys)
    if query_positions is None:
        if n_queries > n_keys:
            raise ValueError(
                f"query_positions must be given when there are more queries than keys, got {n_queries} and {n_keys}"
            )
        query_positions = key_positions[n_keys - n_queries :]
    query_positions = validate.positions("query_positions", query_positions, length=n_queries)
    # in int64, because the difference of two positions may not fit in uint8 or int8
    return query_positions.to(q.device, torch.int64), key_positions.to(k.device, torch.int64)


def _check_values(q: Tensor, k: Tensor, v: Tensor, key_padding_mask: Tensor | None, mask: Tensor | None) -> None:
    """Refuse a v or a mask that does not fit."""
    validate.floating("v", validate.tensor("v", v, shape="(B, H, L, d)"))
    if v.shape != k.shape:
        raise ValueError(f"v must have the shape of k, {tuple(k.shape)}, got {tuple(v.shape)}")
    _check_kind("v", v, q)
    batch, _, n_keys, _ = k.shape
    for name, value, shape, expected in (
        ("key_padding_mask", key_padding_mask, "(B, Lk)", (batch, n_keys)),
        ("mask", mask, "(Lq, Lk)", (q.shape[2], n_keys)),
    ):
        if value is None:
            continue
        validate.tensor(name, value, shape=shape)
        if value.dtype != torch.bool:
            raise TypeError(f"{name} must be bool, got {value.dtype}")
        if value.shape != expected:
            raise ValueError(f"{name} must have shape {shape} = {expected}, got {tuple(value.shape)}")


def _check_kind(name: str, x: Tensor, q: Tensor) -> None:
    """Refuse a tensor whose dtype or device is not that of q."""
    if (x.dtype, x.device) != (q.dtype, q.device):
        raise ValueError(
            f"{name} must have the dtype and device of q, {q.dtype} on {q.device}, got {x.dtype} on {x.device}"
        )
