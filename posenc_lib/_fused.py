"""Attention through torch's fused kernel, which does not keep the weights; for schemes that add nothing to the values.

Which route is taken depends on what a scheme declares and on the positions, and changes the speed only.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc_lib.placed import Placed, fitting
from posenc_lib.relative import toeplitz_rows_reversed


def attend(
    q: Tensor, k: Tensor, v: Tensor, here: Placed, causal: bool, masks: list[Tensor], x: Tensor | None
) -> Tensor:
    """What :func:`posenc_lib.attention.attend` returns for a scheme without the place "value"."""
    scale = here.scheme.scale(q.shape[-1])
    if here.scheme.by_distance and not masks and here.offset is not None:
        return _by_distance(q, k, v, here, causal, scale, x)
    q, k = here.transform(q, k, x)
    bias = here.score_bias(q, k, x)
    if causal and bias is None and not masks and here.offset == 0 and q.shape == k.shape:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)  # torch masks this case itself
    visible = here.visible(causal, masks)
    if bias is None or visible is None:
        attn_mask = visible if bias is None else bias
    else:
        attn_mask = bias.masked_fill(~visible, -torch.inf)
    if attn_mask is not None:
        attn_mask = torch.atleast_2d(attn_mask)  # the kernel wants two axes
    return F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, scale=scale)


def _by_distance(q: Tensor, k: Tensor, v: Tensor, here: Placed, causal: bool, scale: float, x: Tensor | None) -> Tensor:
    """Attention with one bias per distance, the causal mask among them, read through a view of L numbers, not L x L.

    The view has its rows in reverse order, so the queries are reversed too, and the outputs back.
    """
    bias = fitting("distance_bias", here.distance_bias, (q.shape[1], len(here.distances))).to(q.dtype)
    if causal:
        bias = bias.masked_fill(here.distances > 0, -torch.inf)
    attn_mask = toeplitz_rows_reversed(bias, q.shape[2])[None]
    q, k = here.transform(q, k, x)
    return F.scaled_dot_product_attention(q.flip(2), k, v, attn_mask=attn_mask, scale=scale).flip(2)
