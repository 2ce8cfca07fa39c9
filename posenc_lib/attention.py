"""The one attention of the course, with a place for every scheme.

Vaswani et al. 2017 (arXiv:1706.03762), equation 1, with the four places of :mod:`posenc_lib.scheme`:

    s_ij = <transform(q_i), transform(k_j)> * scale + score_bias_ij       scores
    w_ij = exp(s_ij) / sum of exp(s_ij') over the visible keys j'         weights
    o_i  = sum_j w_ij (v_j + value_bias_ij)                               attend
"""

import torch
from torch import Tensor

from posenc_lib import _checks, _fused
from posenc_lib.placed import Placed
from posenc_lib.scheme import PositionScheme


def scores(
    q: Tensor,
    k: Tensor,
    scheme: PositionScheme | Placed,
    query_positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    x: Tensor | None = None,
) -> Tensor:
    """Scores s_ij = <q_i, k_j> * scale + score_bias before mask and softmax.

    Args:
        q: (B, H, Lq, d) queries, not yet transformed.
        k: (B, H, Lk, d) keys, not yet transformed.
        scheme: where the tokens are and how attention is told; what ``scheme.at(...)`` returns holds the positions too.
        query_positions: (Lq,) or (B, Lq) integers, (Lq, n) or (B, Lq, n) coordinates for a scheme of grids; the last
            Lq key positions if None (a cache).
        key_positions: the same for the keys; 0..Lk-1 if None.
        x: (B, Lk, D) hidden states of the keys, for a scheme that reads them.
    Returns:
        (B, H, Lq, Lk), in the dtype of q.
    Raises:
        ValueError: shapes that do not fit, dtypes or devices that differ, more queries than keys without positions.
        TypeError: an argument that is no tensor or no scheme, positions that are not integers.
    Example:
        >>> from posenc_lib import Rotary
        >>> q = torch.ones(1, 1, 3, 2)
        >>> scores(q, q, Rotary(2))  # sqrt(2) cos(j - i)
        tensor([[[[ 1.4142,  0.7641, -0.5885],
                  [ 0.7641,  1.4142,  0.7641],
                  [-0.5885,  0.7641,  1.4142]]]])
    """
    here = _checks.placed(q, k, scheme, query_positions, key_positions, x)
    return _scores(q, k, here, x)


def weights(
    q: Tensor,
    k: Tensor,
    scheme: PositionScheme | Placed,
    causal: bool = False,
    query_positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    mask: Tensor | None = None,
    x: Tensor | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """Weights w_ij, the softmax of the scores over the keys that a query may see.

    Args:
        q, k, scheme, query_positions, key_positions, x: as in :func:`scores`.
        causal, key_padding_mask, mask, sinks: as in :func:`attend`.
    Returns:
        (B, H, Lq, Lk), in the dtype of q; every row adds up to 1, or to 0 if the query sees no key; with sinks to less
        than 1.
    Raises:
        ValueError, TypeError: as in :func:`attend`.
    Example:
        >>> from posenc_lib import NoPosition
        >>> same = torch.ones(1, 1, 3, 4)
        >>> weights(same, same, NoPosition(), causal=True)
        tensor([[[[1.0000, 0.0000, 0.0000],
                  [0.5000, 0.5000, 0.0000],
                  [0.3333, 0.3333, 0.3333]]]])
    """
    here = _checks.placed(q, k, scheme, query_positions, key_positions, x)
    _checks.sinks(q, sinks)
    return _weights(q, k, here, causal, _checks.masks(q, k, key_padding_mask, mask), x, sinks)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scheme: PositionScheme | Placed,
    causal: bool = False,
    query_positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    mask: Tensor | None = None,
    x: Tensor | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """Attention output o_i = sum_j w_ij (v_j + value_bias_ij).

    Args:
        q, k, scheme, query_positions, key_positions, x: as in :func:`scores`.
        v: (B, H, Lk, d) values.
        causal: let a query see the keys whose position is not after its own; on a grid, the keys up to its own place
            in the text.
        key_padding_mask: (B, Lk) bool, True where a key is padding and must not be seen (as in
            ``torch.nn.MultiheadAttention``).
        mask: (Lq, Lk) or (B, Lq, Lk) bool, True where the key may be seen; all may if None. It comes on top of the
            other two.
        sinks: (H,) one number per head that stands in the denominator of the softmax beside the scores. It belongs to
            no key and has no position: what goes to it is not read (gpt-oss).
    Returns:
        (B, H, Lq, d), in the dtype of q. A query that sees no key gets zeros.
    Raises:
        ValueError, TypeError: as in :func:`scores`; also when v or a mask does not fit.
    Example:
        >>> from posenc_lib import Rotary
        >>> q, k, v = torch.randn(3, 1, 2, 5, 4)
        >>> here = Rotary(4).at(5, like=q)  # once for all layers
        >>> attend(q, k, v, here, causal=True).shape
        torch.Size([1, 2, 5, 4])
    """
    here = _checks.placed(q, k, scheme, query_positions, key_positions, x)
    _checks.values(q, k, v)
    _checks.sinks(q, sinks)
    masks = _checks.masks(q, k, key_padding_mask, mask)
    if "value" not in here.scheme.places and sinks is None:
        return _fused.attend(q, k, v, here, causal, masks, x)  # the same without the weights in memory
    w = _weights(q, k, here, causal, masks, x, sinks)
    o = w @ v
    bias = here.value_bias(w, o.shape[-1])  # place 4
    return o if bias is None else o + bias


def softmax(s: Tensor, visible: Tensor | None = None, sinks: Tensor | None = None) -> Tensor:
    """Weights w_ij of scores s_ij over the keys that a query may see.

    Args:
        s: (B, H, Lq, Lk) scores.
        visible: bool, broadcastable to the shape of s, True where the key may be seen; all may if None.
        sinks: (H,) as in :func:`attend`.
    Returns:
        (B, H, Lq, Lk), in the dtype of s; zeros for a query that sees no key.
    Example:
        >>> softmax(torch.zeros(1, 1, 1, 3), torch.tensor([True, True, False]))
        tensor([[[[0.5000, 0.5000, 0.0000]]]])
    """
    keys = s.shape[-1]
    if visible is not None:
        s = s.masked_fill(~visible, -torch.inf)
    if sinks is not None:
        s = torch.cat([s, sinks.to(s)[:, None, None].expand(*s.shape[:3], 1)], dim=-1)
    w = s.softmax(-1)[..., :keys]
    return w if visible is None else w.masked_fill(~visible, 0.0)  # 0 for a query without a key


def _scores(q: Tensor, k: Tensor, here: Placed, x: Tensor | None) -> Tensor:
    q, k = here.transform(q, k, x)  # place 2
    s = q @ k.mT * here.scheme.scale(q.shape[-1])
    bias = here.score_bias(q, k, x)  # place 3
    return s if bias is None else s + bias


def _weights(
    q: Tensor, k: Tensor, here: Placed, causal: bool, masks: list[Tensor], x: Tensor | None, sinks: Tensor | None
) -> Tensor:
    return softmax(_scores(q, k, here, x), here.visible(causal, masks), sinks)
