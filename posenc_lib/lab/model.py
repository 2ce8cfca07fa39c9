"""A transformer small enough to train on a laptop while you wait, with a place for every scheme."""

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.attention import attend
from posenc_lib.scheme import PositionScheme


class TinyTransformer(nn.Module):
    """Pre-norm transformer that gives one answer per token.

    Args:
        scheme: tells every layer (and the input) where the tokens are.
        vocabulary: number of tokens; they are the integers below it.
        classes: number of answers; as many as tokens if None.
        causal: let a token see only itself and what is before it.
        dim: model width D.
        heads: number of heads H; must divide ``dim``.
        layers: number of blocks.
        seed: of the initial weights.
    Raises:
        ValueError: a number that is not positive, or heads that do not divide the width.
    """

    def __init__(
        self,
        scheme: PositionScheme,
        vocabulary: int,
        classes: int | None = None,
        causal: bool = True,
        dim: int = 64,
        heads: int = 4,
        layers: int = 2,
        seed: int = 0,
    ):
        super().__init__()
        for name, value in (("vocabulary", vocabulary), ("dim", dim), ("heads", heads), ("layers", layers)):
            validate.integer(name, value, at_least=1)
        if dim % heads:
            raise ValueError(f"heads must divide dim = {dim}, got {heads}")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embedding = nn.Embedding(vocabulary, dim)
            self.blocks = nn.ModuleList(_Block(dim, heads, causal) for _ in range(layers))
            self.norm = nn.LayerNorm(dim)
            self.answer = nn.Linear(dim, vocabulary if classes is None else classes)
        self.scheme = scheme

    def forward(self, tokens: Tensor, positions: Tensor | None = None) -> Tensor:
        """Logits (B, L, classes) for tokens (B, L) at positions (L,), 0..L-1 if None."""
        if positions is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.scheme.embed(self.embedding(tokens), positions)
        for block in self.blocks:
            x = block(x, self.scheme, positions)
        return self.answer(self.norm(x))


class _Block(nn.Module):
    def __init__(self, dim: int, heads: int, causal: bool):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm_1, self.norm_2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x: Tensor, scheme: PositionScheme, positions: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm_1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        o = attend(q, k, v, scheme, self.causal, query_positions=positions, key_positions=positions)
        x = x + self.out(o.transpose(1, 2).flatten(-2))
        return x + self.mlp(self.norm_2(x))
