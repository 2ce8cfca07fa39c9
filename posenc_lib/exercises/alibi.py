"""Checks of the exercises in notebook 12."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from posenc_lib.exercises.check import Check
from posenc_lib.schemes.alibi import slopes


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    m: Tensor,
    sign: float = 1.0,
    inside: bool = False,
    scaled: bool = True,
    causal: bool = True,
    absolute: bool = False,
    axis: int = -1,
    hidden: float = -torch.inf,
) -> Tensor:
    """Causal attention with the bias m (j - i), or one of its wrong versions."""
    L, d = q.shape[-2:]
    r = torch.arange(L) - torch.arange(L)[:, None]
    bias = sign * m[:, None, None] * (-r.abs() if absolute else r)
    factor = d**-0.5 if scaled else 1.0
    s = (q @ k.mT + bias) * factor if inside else q @ k.mT * factor + bias
    if causal:
        s = s.masked_fill(r > 0, hidden)
    return s.softmax(axis) @ v


def _inputs(B: int, H: int, L: int, d: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(L)
    q, k, v = torch.randn(3, B, H, L, d, generator=generator, dtype=torch.float64)
    return q, k, v, slopes(H)


check_alibi_attend = Check(
    "alibi_attend",
    _attend,
    cases=[_inputs(1, 8, 6, 16), _inputs(2, 12, 9, 4)],
    mistakes=[
        (
            "the sign is reversed: your far keys are rewarded for their distance",
            lambda q, k, v, m: _attend(q, k, v, m, sign=-1.0),
        ),
        (
            "the bias stands outside the division by sqrt(d); yours was divided too",
            lambda q, k, v, m: _attend(q, k, v, m, inside=True),
        ),
        ("q.k is not divided by sqrt(d)", lambda q, k, v, m: _attend(q, k, v, m, scaled=False)),
        (
            "your mask writes 0 into the hidden scores, and a key with score 0 is still heard; hidden keys need "
            "-infinity",
            lambda q, k, v, m: _attend(q, k, v, m, hidden=0.0),
        ),
        ("keys after the query are visible", lambda q, k, v, m: _attend(q, k, v, m, causal=False)),
        (
            "keys after the query are visible; they pay -m |i - j|, but a causal model must not see them",
            lambda q, k, v, m: _attend(q, k, v, m, causal=False, absolute=True),
        ),
        (
            "the weights of a query must add up to 1: softmax over the keys, the last axis",
            lambda q, k, v, m: _attend(q, k, v, m, axis=-2),
        ),
        ("the bias is missing", lambda q, k, v, m: _attend(q, k, v, 0 * m)),
        ("the heads have the slopes in reversed order", lambda q, k, v, m: _attend(q, k, v, m.flip(0))),
    ],
)


def _two_parts(heads: int, shift: float = 0.0, start: int = 0, step: int = 2) -> Tensor:
    """Slopes of ``power`` heads and some of those of twice as many; the exponents are moved by ``shift`` places."""
    power = 2 ** int(math.log2(heads))
    exponents = -8 * (torch.arange(1, 2 * power + 1, dtype=torch.float64) + shift)
    return torch.cat([2 ** (exponents[:power] / power), 2 ** (exponents / (2 * power))[start::step][: heads - power]])


def _geometric(heads: int) -> Tensor:
    return 2 ** (-8 * torch.arange(1, heads + 1, dtype=torch.float64) / heads)


def _from_the_flat_end(heads: int) -> Tensor:
    power = 2 ** int(math.log2(heads))
    return torch.cat([_geometric(power), _geometric(2 * power)[::2].flip(0)[: heads - power]])


def _of_the_next_power(heads: int) -> Tensor:
    return _geometric(2 ** math.ceil(math.log2(heads)))[:heads]


check_slopes_for = Check(
    "slopes_for",
    slopes,
    cases=[(8,), (1,), (12,), (6,), (25,)],
    mistakes=[
        ("that is the rule for powers of two; for other numbers of heads the authors' code has two parts", _geometric),
        (
            "you took the first slopes of the next larger power of two; for 12 heads the authors take those of 8, and "
            "then every second one of 16",
            _of_the_next_power,
        ),
        ("the first exponent is -8 / H0, not 0: count the heads from 1", lambda heads: _two_parts(heads, shift=-1.0)),
        (
            "the second part takes the 1st, 3rd, 5th, ... slope of 2 H0 heads; you took the 2nd, 4th, ..., which the "
            "first part has already",
            lambda heads: _two_parts(heads, start=1),
        ),
        (
            "the second part takes every second slope of 2 H0; you took all",
            lambda heads: _two_parts(heads, step=1),
        ),
        ("the second part starts at the steep end, with the largest of the new slopes", _from_the_flat_end),
        (
            "the right slopes, but sorted; the authors' code appends the second part to the first",
            lambda heads: slopes(heads).sort(descending=True).values,
        ),
        ("the slopes are positive; the minus sign belongs to the score", lambda heads: -slopes(heads)),
        ("you returned the exponents; the slopes are powers of 2", lambda heads: slopes(heads).log2()),
    ],
)

ScoresOf = Callable[[Tensor, Tensor], Tensor]


def _scores_with(
    bias: Callable[[Tensor, Tensor, Tensor], Tensor], inside: bool = False, scale: Callable[[int], float] | None = None
) -> ScoresOf:
    """An implementation to be tested: q.k / sqrt(d) + bias(m, i, j), with m (H, 1, 1), i (L, 1), j (L,)."""

    def scores_of(q: Tensor, k: Tensor) -> Tensor:
        H, L, d = q.shape
        place = torch.arange(L, dtype=torch.float64)
        added, factor = bias(slopes(H)[:, None, None], place[:, None], place), (scale or (lambda d: d**-0.5))(d)
        return (q @ k.mT + added) * factor if inside else q @ k.mT * factor + added

    return scores_of


IMPLEMENTATIONS = [  # the first four give ALiBi's attention, the others do not
    _scores_with(lambda m, i, j: -m * (i - j).abs()),
    _scores_with(lambda m, i, j: m * (j - i)),
    _scores_with(lambda m, i, j: m * j),
    _scores_with(lambda m, i, j: m * (j - 1000)),
    _scores_with(lambda m, i, j: m * (i - j)),
    _scores_with(lambda m, i, j: -m.flip(0) * (i - j)),
    _scores_with(lambda m, i, j: m * (j - i), inside=True),
    _scores_with(lambda m, i, j: -m * (i - j).clamp(max=32)),
    _scores_with(lambda m, i, j: m * (j - i), scale=lambda d: 1.0),
    _scores_with(lambda m, i, j: -2 * m * (i - j)),
    _scores_with(lambda m, i, j: -m * (i - j) * (i >= 8)),
]
_VISIBLE = torch.ones(64, 64, dtype=torch.bool).tril()


def _compare(
    scores_of: ScoresOf, heads: int = 8, length: int = 64, empty: bool = False, raw: bool = False, start: int = 0
) -> bool:
    """Whether the weights (or raw scores) of an implementation are those of ALiBi."""
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 8, length, 16, generator=generator, dtype=torch.float64) * (0.0 if empty else 1.0)
    right = IMPLEMENTATIONS[0]
    visible = _VISIBLE[:length, :length]
    mine, theirs = (s(q, k)[:heads].masked_fill(~visible, 0.0 if raw else -torch.inf) for s in (scores_of, right))
    if not raw:
        mine, theirs = mine.softmax(-1), theirs.softmax(-1)
    return torch.allclose(mine[:, start:], theirs[:, start:])


def _without_a_mask(scores_of: ScoresOf) -> bool:
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 8, 64, 16, generator=generator, dtype=torch.float64)
    right = IMPLEMENTATIONS[0]
    return torch.allclose(scores_of(q, k).softmax(-1), right(q, k).softmax(-1))


check_is_alibi = Check(
    "is_alibi",
    _compare,
    cases=[(scores_of,) for scores_of in IMPLEMENTATIONS],
    mistakes=[
        (
            "you refuse m j: its scores differ from ALiBi's by a constant per row, which softmax does not see; compare "
            "weights, or differences within a row",
            lambda scores_of: _compare(scores_of, raw=True),
        ),
        (
            "you refuse some that differ only to the right of the query, where the mask hides the keys",
            _without_a_mask,
        ),
        (
            "with q = k = 0 you see the bias alone, and accept one that does not scale q.k as it must",
            lambda scores_of: _compare(scores_of, empty=True),
        ),
        (
            "your text is too short: a penalty that stops growing at 32 places passes",
            lambda scores_of: _compare(scores_of, length=16),
        ),
        (
            "you look at the last query only, and accept one whose first queries pay nothing",
            lambda scores_of: _compare(scores_of, start=-1),
        ),
        ("you accept everything", lambda scores_of: True),
        ("you refuse everything", lambda scores_of: False),
        ("yes and no are exchanged", lambda scores_of: not _compare(scores_of)),
    ],
)


def _farthest(
    delta: float,
    heads: int,
    share: float = 0.5,
    together: str = "any",
    exchange: bool = False,
    shift: int = 0,
    others: bool = True,
) -> int:
    rho = (-slopes(heads))[:, None].exp()
    x = torch.arange(2001, dtype=torch.float64)
    w = (1 - rho) * rho**x
    heard = math.exp(delta) * w >= ((1 - w) * share / (1 - share) if others else share)
    if exchange:
        heard = delta >= slopes(heads)[:, None] * x
    heard = heard.any(0) if together == "any" else heard.all(0)
    return int(heard.nonzero().max()) + shift if heard.any() else 0


check_farthest = Check(
    "farthest",
    _farthest,
    cases=[(3.0, 8), (6.0, 8), (6.0, 32), (0.0, 4), (4.5, 12)],
    mistakes=[
        (
            "you asked where the raised key stands above the query's own place; half of the attention also needs the "
            "crowd of all other keys to be outvoted",
            lambda delta, heads: min(_farthest(delta, heads, exchange=True), 2000),
        ),
        ("one head is enough; you asked for all of them", lambda delta, heads: _farthest(delta, heads, together="all")),
        (
            "one too many: the distance is asked for, not the number of keys",
            lambda delta, heads: _farthest(delta, heads, shift=1),
        ),
        (
            "e^delta w is no share: divide it by the sum of all, 1 - w + e^delta w",
            lambda delta, heads: _farthest(delta, heads, others=False),
        ),
        (
            "you left out the factor e^delta: the key is not raised",
            lambda delta, heads: _farthest(0.0, heads),
        ),
    ],
)
