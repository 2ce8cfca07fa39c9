"""A transformer small enough to train on a laptop while you wait, with a place for every scheme."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.attention import attend
from posenc_lib.placed import Placed
from posenc_lib.relative import relative_position
from posenc_lib.scheme import PositionScheme


class TinyTransformer(nn.Module):
    """Pre-norm transformer that gives one answer per token.

    Args:
        scheme: tells every layer (and the input) where the tokens are; or a list with one for each layer, the first of
            which tells the input.
        vocabulary: number of tokens; they are the integers below it.
        classes: number of answers; as many as tokens if None.
        causal: let a token see only itself and what is before it.
        dim: model width D.
        num_heads: H; must divide ``dim``.
        num_layers: number of blocks.
        seed: of the initial weights.
        windows: for each layer how many keys a query sees, its own and those before it (and after it, if not causal),
            or None for all; None for no windows.
        sinks: whether each head learns one more number for the denominator of its softmax, see
            :func:`posenc_lib.attention.attend`.
    Raises:
        ValueError: a number that is not positive, heads that do not divide the width, lists of another length than
            ``num_layers``.
        TypeError: a scheme that is none.
    Example:
        >>> from posenc_lib import Rotary
        >>> model = TinyTransformer(Rotary(16), vocabulary=8)
        >>> model(torch.tensor([[1, 7, 3]])).shape
        torch.Size([1, 3, 8])
    """

    def __init__(
        self,
        scheme: PositionScheme | Sequence[PositionScheme],
        vocabulary: int,
        classes: int | None = None,
        causal: bool = True,
        dim: int = 64,
        num_heads: int = 4,
        num_layers: int = 2,
        seed: int = 0,
        windows: Sequence[int | None] | None = None,
        sinks: bool = False,
    ):
        super().__init__()
        sizes = {"vocabulary": vocabulary, "dim": dim, "num_heads": num_heads, "num_layers": num_layers}
        for name, value in sizes.items():
            validate.integer(name, value, at_least=1)
        if dim % num_heads:
            raise ValueError(f"num_heads must divide dim = {dim}, got {num_heads}")
        schemes = [scheme] * num_layers if isinstance(scheme, PositionScheme) else list(scheme)
        self.windows = [None] * num_layers if windows is None else list(windows)
        for name, values in (("scheme", schemes), ("windows", self.windows)):
            if len(values) != num_layers:
                raise ValueError(f"{name} must have one entry for each of {num_layers} layers, got {len(values)}")
        for one in schemes:
            if not isinstance(one, PositionScheme):
                raise TypeError(f"scheme must be a PositionScheme or a list of them, got {type(one).__name__}")
        for window in self.windows:
            if window is not None:
                validate.integer("windows", window, at_least=1)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embedding = nn.Embedding(vocabulary, dim)
            self.blocks = nn.ModuleList(_Block(dim, num_heads, causal, sinks) for _ in range(num_layers))
            self.norm = nn.LayerNorm(dim)
            self.answer = nn.Linear(dim, vocabulary if classes is None else classes)
        self.scheme = scheme if isinstance(scheme, PositionScheme) else nn.ModuleList(schemes)

    @property
    def schemes(self) -> list[PositionScheme]:
        """The scheme of each layer."""
        of_layers = self.scheme if isinstance(self.scheme, nn.ModuleList) else [self.scheme] * len(self.blocks)
        return cast(list[PositionScheme], list(of_layers))

    def forward(
        self, tokens: Tensor, positions: Tensor | None = None, key_padding_mask: Tensor | None = None
    ) -> Tensor:
        """Logits (B, L, classes) for tokens (B, L) at positions (L,) or (B, L), 0..L-1 if None.

        On a grid positions are (L, n) or (B, L, n). ``key_padding_mask`` (B, L) is True where a token is padding.
        """
        return self.answer(self.norm(self.hidden(tokens, positions, key_padding_mask)))

    def hidden(
        self,
        tokens: Tensor,
        positions: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        layers: int | None = None,
    ) -> Tensor:
        """What the first ``layers`` blocks make of tokens, (B, L, D); all blocks if None, with 0 their input."""
        x = self.embedding(tokens)
        given = tokens.shape[1] if positions is None else positions
        schemes = self.schemes
        here = {scheme: scheme.at(given, like=x) for scheme in set(schemes)}  # once, however many layers share it
        near = {window: self._within(window, tokens) for window in set(self.windows)}
        if "input" in schemes[0].places:
            x = schemes[0].embed(x, here[schemes[0]].key_positions if positions is None else positions)
        for block, scheme, window in list(zip(self.blocks, schemes, self.windows, strict=True))[:layers]:
            x = block(x, here[scheme], key_padding_mask, near[window])
        return x

    @staticmethod
    def _within(window: int | None, tokens: Tensor) -> Tensor | None:
        """(L, L) bool, True where a key is less than ``window`` tokens away; None for all keys."""
        if window is None:
            return None
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return relative_position(places, places).abs() < window


class _Block(nn.Module):
    def __init__(self, dim: int, num_heads: int, causal: bool, sinks: bool):
        super().__init__()
        self.num_heads, self.causal = num_heads, causal
        self.norm_1, self.norm_2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.sinks = nn.Parameter(torch.zeros(num_heads)) if sinks else None
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x: Tensor, here: Placed, key_padding_mask: Tensor | None, mask: Tensor | None = None) -> Tensor:
        y = self.norm_1(x)
        q, k, v = self.qkv(y).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        o = attend(q, k, v, here, self.causal, key_padding_mask=key_padding_mask, mask=mask, x=y, sinks=self.sinks)
        x = x + self.out(o.transpose(1, 2).flatten(-2))
        return x + self.mlp(self.norm_2(x))
