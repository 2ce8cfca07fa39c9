"""Properties of a scheme, found by asking it and not by reading about it.

Every probe takes a scheme in float64 with random parameters, as ``drawn`` makes it, and asks through the hooks alone: a
new scheme is probed without a word added here. Probed with the sizes of the catalog: D = 64, H = 4, d = 16.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from posenc_lib.attention import scores
from posenc_lib.lab.catalog import SIZES, build
from posenc_lib.lab.measure import randn
from posenc_lib.scheme import PositionScheme
from posenc_lib.schemes.none import NoPosition

H, d, D = SIZES["num_heads"], SIZES["head_dim"], SIZES["dim"]
WITHIN = 1e-9  # differences of float64 scores of size 1


def drawn(
    scheme_class: type[PositionScheme], seed: int = 0, variant: str | None = None, **sizes: Any
) -> PositionScheme:
    """An instance in float64 whose every parameter is random, also those that a training starts from zeros or ones."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        scheme = build(scheme_class, variant, **sizes).double()
        for parameter in scheme.parameters():
            nn.init.normal_(parameter, std=0.3)
    return scheme.requires_grad_(False).eval()


def score_of(scheme: PositionScheme, x: Tensor, y: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """Scores (H, n, m) of words x (n, D) at positions i and words y (m, D) at positions j: hooks 1 to 3."""
    q, k = (
        (scheme.embed(words[None], where) @ W / D**0.5).unflatten(-1, (H, d)).transpose(1, 2)
        for words, where, W in zip((x, y), (i, j), randn(2, D, D, seed=1), strict=True)
    )
    return scores(q, k, scheme, i, j, x=y[None])[0]


def places(scheme: PositionScheme) -> list[str]:
    """Where position enters: some of "input", "query and key", "score", "value"."""
    x, q, p = randn(1, 9, D, seed=2), randn(1, H, 9, d, seed=3), torch.arange(9)
    here = scheme.at(p, like=q)
    turned = here.transform(q, q, x)
    dot = turned[0] @ turned[1].mT * scheme.scale(d)
    found = {
        "input": not torch.equal(scheme.embed(x, p), x),
        "query and key": not all(torch.equal(y, q) for y in turned),
        "score": not torch.equal(scores(q, q, here, x=x), dot),
        "value": here.value_bias(torch.full((1, H, 9, 9), 1 / 9).double(), d) is not None,
    }
    return [place for place, enters in found.items() if enters]


def shift_invariant(scheme: PositionScheme) -> bool:
    """Whether no score changes when all positions grow by the same number: relative, not absolute."""
    x, p = randn(12, D, seed=4), torch.arange(12)
    here, there = (score_of(scheme, x, x, p + m, p + m) for m in (3, 450))
    return bool((here - there).abs().max() < WITHIN)


def symmetric(scheme: PositionScheme) -> bool:
    """Whether the same word scores the same k places to the left and k places to the right."""
    x, y, k = randn(1, D, seed=5), randn(1, D, seed=6), torch.arange(12)
    here, words = torch.tensor([20]), torch.cat([x, y.expand(11, D)])  # a query is the first of its keys
    left, right = (score_of(scheme, x, words, here, here + side * k) for side in (-1, 1))
    return bool((left - right).abs().max() < WITHIN)


def longest(scheme: PositionScheme) -> int | None:
    """The largest power of ten at which a query still accepts a position and a distance, None if 10**8 is accepted."""
    x = randn(2, D, seed=7)
    for power in range(9):
        p = torch.tensor([0, 10**power])
        try:
            score_of(scheme, x, x, p, p)
        except ValueError:
            return 10 ** (power - 1)
    return None


def bounded(scheme: PositionScheme) -> bool:
    """Whether position changes the scores of a very long text at most 2.5 times as much as those of a short one.

    The lengths are 10**8, or as far as the scheme goes, and its fourth root (a logarithm grows by four), but at least
    20. Asked is the last query, about up to 200 keys of the older half: a longer text has more of them.
    """
    x, y = randn(1, D, seed=8), randn(200, D, seed=9)
    limit = longest(scheme)
    far = 10**8 if limit is None else limit
    plain = NoPosition()
    change = []
    for reach in (max(20, round(far**0.25)), far):
        here, old = torch.tensor([reach]), torch.linspace(0, reach // 2, 200).long().unique()
        keys, words = torch.cat([here, old]), torch.cat([x, y[: len(old)]])  # a query is the first of its keys
        with_position, without = (score_of(s, x, words, here, keys)[..., 1:] for s in (scheme, plain))
        change.append((with_position - without).abs().max())
    return bool(change[1] <= 2.5 * change[0])


def keeps_norms(scheme: PositionScheme) -> bool:
    """Whether words, queries and keys have the same length after hooks 1 and 2 as before."""
    x, q, p = randn(1, 30, D, seed=10), randn(1, H, 30, d, seed=11), torch.arange(30)
    turned_q, turned_k = scheme.at(p, like=q).transform(q, q, x)
    pairs = ((scheme.embed(x, p), x), (turned_q, q), (turned_k, q))
    return all(torch.allclose(y.norm(dim=-1), z.norm(dim=-1), rtol=1e-12) for y, z in pairs)


def nothing_at_zero(scheme: PositionScheme) -> bool:
    """Whether the score at i = j = 0 is the dot product alone."""
    x, zero, plain = randn(1, D, seed=12), torch.tensor([0]), NoPosition()
    dot = score_of(plain, x, x, zero, zero) / plain.scale(d) * scheme.scale(d)
    return bool((score_of(scheme, x, x, zero, zero) - dot).abs().max() < WITHIN)


def parameters(scheme: PositionScheme) -> int:
    """How many numbers are learned."""
    return sum(parameter.numel() for parameter in scheme.parameters())


PROBES: dict[str, Callable[[PositionScheme], object]] = {
    "place": lambda scheme: ", ".join(places(scheme)) or "nowhere",
    "relative": shift_invariant,
    "symmetric": symmetric,
    "bounded": bounded,
    "up to": longest,
    "keeps norms": keeps_norms,
    "nothing at 0": nothing_at_zero,
    "parameters": parameters,
}


def probe(scheme_class: type[PositionScheme]) -> dict[str, object]:
    """The answers of all probes by their names."""
    return {name: ask(drawn(scheme_class)) for name, ask in PROBES.items()}


def attention_by_distance(scheme: PositionScheme, equal: bool, length: int = 64, draws: int = 200) -> Tensor:
    """Mean attention (length,) of the last word to the key 0, 1, ... places back, over heads and draws of words.

    With ``equal`` all words are the same, so that position alone decides; otherwise they are independent.
    """
    x = randn(draws, 1 if equal else length, D, seed=13).expand(draws, length, D)
    p = torch.arange(length)
    weights = torch.stack([score_of(scheme, words[-1:], words, p[-1:], p)[:, 0].softmax(-1).mean(0) for words in x])
    return weights.mean(0).flip(0)
