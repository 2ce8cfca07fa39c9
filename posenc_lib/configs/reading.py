"""What is read from a configuration about one layer."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from posenc_lib import attention
from posenc_lib.relative import relative_position
from posenc_lib.scheme import PositionScheme
from posenc_lib.schemes.temperature import QueryTemperature


@dataclass(frozen=True)
class Reading:
    """Where position enters one layer of a model, and what else its attention does with the scores.

    Attributes:
        model_type: as the file has it.
        layer: from 0; the layers of a decoder follow those of its encoder.
        scheme: of attention. Its trained numbers, where it has some, are not in the file: those of T5 are drawn, others
            take no memory until ``load_state_dict(..., assign=True)`` puts them in.
        input_scheme: what is added to the input before the first layer, or None.
        first_row: the row of a learned table in which position 0 is.
        causal: whether a query sees no later key.
        window: how many keys a query sees, its own and those before it (and after it, if not causal), or None for all.
        chunk: the length of the pieces of a text whose tokens see only one another, or None.
        scale: what the dot product is multiplied by, or None for what the scheme says.
        softcap: scores s become softcap tanh(s / softcap); None for no limit.
        sinks: whether each head has a number that stands in the denominator of the softmax beside the keys. It has no
            position.
        notebook: the one that explains the scheme.
        trained: the longest text that the file speaks of, in tokens.
        unread: names of the fields that seem to concern position and were not used.
    Example:
        >>> from posenc_lib.configs import scheme_of
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}
        >>> reading = scheme_of(sizes | {"model_type": "mistral", "sliding_window": 2}, layer=0)
        >>> reading.visible(torch.arange(3), torch.arange(3))
        tensor([[ True, False, False],
                [ True,  True, False],
                [False,  True,  True]])
    """

    model_type: str
    layer: int
    scheme: PositionScheme
    notebook: str
    input_scheme: PositionScheme | None = None
    first_row: int = 0
    causal: bool = True
    window: int | None = None
    chunk: int | None = None
    scale: float | None = None
    softcap: float | None = None
    sinks: bool = False
    trained: int | None = None
    unread: tuple[str, ...] = field(default=(), compare=False)

    @property
    def inner(self) -> PositionScheme:
        """The scheme, or the one whose queries a query temperature multiplies."""
        return self.scheme.scheme if isinstance(self.scheme, QueryTemperature) else self.scheme

    def visible(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """(..., Lq, Lk) bool, True where a key may be seen; positions (L,) or (B, L) count the tokens of the text."""
        r = relative_position(query_positions, key_positions)
        seen = r <= 0 if self.causal else torch.ones_like(r, dtype=torch.bool)
        if self.window is not None:
            seen = seen & (r.abs() < self.window)
        if self.chunk is not None:
            of_query, of_key = (p.div(self.chunk, rounding_mode="floor") for p in (query_positions, key_positions))
            seen = seen & (of_query[..., :, None] == of_key[..., None, :])
        return seen

    def weights(
        self,
        q: Tensor,
        k: Tensor,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        places: Tensor | None = None,
        sinks: Tensor | None = None,
    ) -> Tensor:
        """The weights of attention, from queries and keys to which no position was applied.

        Args:
            q: (B, H, Lq, d) queries.
            k: (B, H, Lk, d) keys, those of a group repeated for each of its heads.
            query_positions, key_positions: as in :func:`posenc_lib.attention.scores`.
            key_padding_mask: (B, Lk) bool, True where a key is padding.
            places: (Lk,) or (B, Lk) integers, the places of the keys that causal masks, windows and chunks count;
                0..Lk-1 if None. The queries are the last Lq of them.
            sinks: (H,) the number of each head, where the layer has some.
        Returns:
            (B, H, Lq, Lk), in the dtype of q.
        Raises:
            ValueError: shapes that do not fit, sinks that are missing or too many.
        """
        if self.sinks != (sinks is not None):
            raise ValueError(f"sinks must {'' if self.sinks else 'not '}be given for a layer of {self.model_type}")
        factor = 1.0 if self.scale is None else self.scale / self.scheme.scale(q.shape[-1])
        s = attention.scores(q * factor if factor != 1.0 else q, k, self.scheme, query_positions, key_positions)
        if self.softcap is not None:
            s = self.softcap * (s / self.softcap).tanh()
        where = torch.arange(k.shape[2], device=q.device) if places is None else places
        seen = self.visible(where[..., k.shape[2] - q.shape[2] :], where)
        seen = seen[:, None] if seen.dim() == 3 else seen
        if key_padding_mask is not None:
            seen = seen & ~key_padding_mask[:, None, None, :]
        return attention.softmax(s, seen, sinks)
