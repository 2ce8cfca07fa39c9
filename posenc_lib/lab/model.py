"""A transformer small enough to train on a laptop while you wait, with a place for every scheme."""

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.attention import attend
from posenc_lib.placed import Placed
from posenc_lib.scheme import PositionScheme


class TinyTransformer(nn.Module):
    """Pre-norm transformer that gives one answer per token.

    Args:
        scheme: tells every layer (and the input) where the tokens are.
        vocabulary: number of tokens; they are the integers below it.
        classes: number of answers; as many as tokens if None.
        causal: let a token see only itself and what is before it.
        dim: model width D.
        num_heads: H; must divide ``dim``.
        num_layers: number of blocks.
        seed: of the initial weights.
    Raises:
        ValueError: a number that is not positive, or heads that do not divide the width.
    Example:
        >>> from posenc_lib import Rotary
        >>> model = TinyTransformer(Rotary(16), vocabulary=8)
        >>> model(torch.tensor([[1, 7, 3]])).shape
        torch.Size([1, 3, 8])
    """

    def __init__(
        self,
        scheme: PositionScheme,
        vocabulary: int,
        classes: int | None = None,
        causal: bool = True,
        dim: int = 64,
        num_heads: int = 4,
        num_layers: int = 2,
        seed: int = 0,
    ):
        super().__init__()
        sizes = {"vocabulary": vocabulary, "dim": dim, "num_heads": num_heads, "num_layers": num_layers}
        for name, value in sizes.items():
            validate.integer(name, value, at_least=1)
        if dim % num_heads:
            raise ValueError(f"num_heads must divide dim = {dim}, got {num_heads}")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embedding = nn.Embedding(vocabulary, dim)
            self.blocks = nn.ModuleList(_Block(dim, num_heads, causal) for _ in range(num_layers))
            self.norm = nn.LayerNorm(dim)
            self.answer = nn.Linear(dim, vocabulary if classes is None else classes)
        self.scheme = scheme

    def forward(
        self, tokens: Tensor, positions: Tensor | None = None, key_padding_mask: Tensor | None = None
    ) -> Tensor:
        """Logits (B, L, classes) for tokens (B, L) at positions (L,) or (B, L), 0..L-1 if None.

        On a grid positions are (L, n) or (B, L, n). ``key_padding_mask`` (B, L) is True where a token is padding.
        """
        x = self.embedding(tokens)
        here = self.scheme.at(tokens.shape[1] if positions is None else positions, like=x)
        if "input" in self.scheme.places:
            x = self.scheme.embed(x, here.key_positions if positions is None else positions)
        for block in self.blocks:
            x = block(x, here, key_padding_mask)
        return self.answer(self.norm(x))


class _Block(nn.Module):
    def __init__(self, dim: int, num_heads: int, causal: bool):
        super().__init__()
        self.num_heads, self.causal = num_heads, causal
        self.norm_1, self.norm_2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x: Tensor, here: Placed, key_padding_mask: Tensor | None) -> Tensor:
        y = self.norm_1(x)
        q, k, v = self.qkv(y).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        o = attend(q, k, v, here, self.causal, key_padding_mask=key_padding_mask, x=y)
        x = x + self.out(o.transpose(1, 2).flatten(-2))
        return x + self.mlp(self.norm_2(x))
