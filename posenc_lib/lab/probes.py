"""Properties of a scheme, found by asking it and not by reading about it.

Every probe takes a scheme in float64 with random parameters, as ``drawn`` makes it, and asks through the hooks alone: a
new scheme is probed without a word added here. Probed with the sizes of the catalog: D = 64, H = 4, d = 16.

A question with the answer yes or no gets a :class:`Verdict`. A no carries the numbers that prove it; a yes says what
was asked, and is known for that only. Scores that are no finite numbers answer no question: they are refused.
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from posenc_lib.attention import scores
from posenc_lib.lab.catalog import SIZES, build, scheme_classes
from posenc_lib.lab.measure import randn
from posenc_lib.scheme import PositionScheme
from posenc_lib.schemes.none import NoPosition

H, d, D = SIZES["num_heads"], SIZES["head_dim"], SIZES["dim"]
WITHIN = 1e-9  # differences of float64 scores of size 1
FARTHEST = 10**8  # the last place of the longest text that is asked about
LOUDER = 1.35  # bounded: what position may do in a long text, as a multiple of what it does in a short one
THINNER = 0.9  # summable: what a range of distances may weigh, as a share of the range before it


@dataclass(frozen=True)
class Verdict:
    """The answer to a question about a scheme, with what shows it; in a condition it is true if it holds.

    Attributes:
        holds: yes or no.
        domain: what was asked, in words.
        counter_example: of a no, the numbers that prove it, by their names.
    Raises:
        ValueError: a no without a counter-example, a yes with one.
    Example:
        >>> print(Verdict(True, "all pairs of 12 places"))
        yes: all pairs of 12 places
        >>> print(Verdict(False, "all pairs of 12 places", {"i": 7, "j": 3, "score": 0.5, "becomes": 1 / 3}))
        no: i = 7, j = 3, score = 0.5000, becomes = 0.3333
    """

    holds: bool
    domain: str
    counter_example: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.holds == bool(self.counter_example):
            raise ValueError(f"counter_example must be given exactly with a no, got {self.counter_example!r}")

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        if self.holds:
            return f"yes: {self.domain}"
        return "no: " + ", ".join(f"{name} = {_shown(value)}" for name, value in self.counter_example.items())


def _shown(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:z.4f}" if 1e-3 < abs(value) < 1e4 or not value else f"{value:.2e}"


def drawn(
    scheme_class: type[PositionScheme], seed: int = 0, variant: str | None = None, **sizes: Any
) -> PositionScheme:
    """An instance in float64 with a random number added to every parameter, so that none is 0 or like another.

    What a parameter is set to stays near: FIRE keeps a threshold of some hundred tokens.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        scheme = build(scheme_class, variant, **sizes).double().requires_grad_(False)
        for parameter in scheme.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return scheme.eval()


def score_of(scheme: PositionScheme, x: Tensor, y: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """Scores (H, n, m) of words x (n, D) at positions i and words y (m, D) at positions j: hooks 1 to 3.

    Raises:
        FloatingPointError: a score that is infinite or no number; it names the scheme, the head and the positions.
    """
    return _batch_of_scores(scheme, x[None], y[None], i, j)[0]


def _batch_of_scores(scheme: PositionScheme, x: Tensor, y: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """(B, H, n, m), for words (B, n, D) and (B, m, D)."""
    q, k = (
        (scheme.embed(words, where) @ W / D**0.5).unflatten(-1, (H, d)).transpose(1, 2)
        for words, where, W in zip((x, y), (i, j), randn(2, D, D, seed=1), strict=True)
    )
    axes = {"text": range(len(x)), "head": range(H), "i": i.tolist(), "j": j.tolist()}
    return _finite(scheme, "score", scores(q, k, scheme, i, j, x=y), axes)


def _finite(scheme: PositionScheme, what: str, value: Tensor, axes: Mapping[str, Sequence[object]]) -> Tensor:
    """``value``, refused if an entry is no finite number; an axis is named and has a label for each of its entries."""
    bad = (~value.isfinite()).nonzero()
    if len(bad):
        where = ", ".join(f"{name} = {label}" for name, label in _labels(axes, bad[0]).items())
        raise FloatingPointError(f"{scheme.name}: {what} is {value[tuple(bad[0])].item()} at {where}")
    return value


def _labels(axes: Mapping[str, Sequence[object]], entry: Tensor) -> dict[str, object]:
    return {name: labels[n] for (name, labels), n in zip(axes.items(), entry.tolist(), strict=True)}


def _agree(
    domain: str,
    left: Tensor,
    right: Tensor,
    axes: Mapping[str, Sequence[object]],
    names: tuple[str, str] = ("score", "becomes"),
    more: Mapping[str, object] | None = None,
) -> Verdict:
    """Whether two tensors are the same; the counter-example is the first entry that is not, in both."""
    differ = ((left - right).abs() > WITHIN).nonzero()
    if not len(differ):
        return Verdict(True, domain)
    at = tuple(differ[0])
    numbers = dict(zip(names, (left[at].item(), right[at].item()), strict=True))
    return Verdict(False, domain, {**(more or {}), **_labels(axes, differ[0]), **numbers})


def _pairs(p: Tensor) -> dict[str, Sequence[object]]:
    """Labels of the scores (H, n, n) of places p."""
    return {"head": range(H), "i": p.tolist(), "j": p.tolist()}


def places(scheme: PositionScheme) -> list[str]:
    """Where position enters: some of "input", "query and key", "score", "value"."""
    x, q, p = randn(1, 9, D, seed=2), randn(1, H, 9, d, seed=3), torch.arange(9)
    here = scheme.at(p, like=q)
    turned = here.transform(q, q, x)
    dot = turned[0] @ turned[1].mT * scheme.scale(d)
    s = _finite(scheme, "score", scores(q, q, here, x=x)[0], _pairs(p))
    found = {
        "input": not torch.equal(scheme.embed(x, p), x),
        "query and key": not all(torch.equal(y, q) for y in turned),
        "score": not torch.equal(s, dot[0]),
        "value": here.value_bias(torch.full((1, H, 9, 9), 1 / 9).double(), d) is not None,
    }
    return [place for place, enters in found.items() if enters]


def source(scheme: PositionScheme) -> str:
    """Where the numbers come from: "formula", "formula, tuned" if it has learned numbers, or "learned rows".

    A row is a parameter that matters at some distances and neither at all nearer ones nor at all farther ones: what is
    learned at one distance says nothing of others. Asked is the last of 64 equal words about those before it, by the
    gradients of its scores.
    """
    if not parameters(scheme):
        return "formula"
    learner = copy.deepcopy(scheme).requires_grad_()
    n = min(64, longest(scheme) + 1)
    word, p = randn(1, D, seed=14), torch.arange(n)
    by_distance = score_of(learner, word, word.expand(n, D), p[-1:], p).sum((0, 1)).flip(0)[1:]
    if not by_distance.requires_grad:
        return "formula, tuned"  # of values alone
    weights = list(learner.parameters())
    silent = []
    for score in by_distance:
        slopes = torch.autograd.grad(score, weights, retain_graph=True, allow_unused=True, materialize_grads=True)
        silent.append(torch.cat([slope.flatten() == 0 for slope in slopes]))
    silent_at = torch.stack(silent).int()
    nearer, farther = silent_at.cummax(0).values, silent_at.flip(0).cummax(0).values.flip(0)
    return "learned rows" if ((silent_at == 0) & (nearer == 1) & (farther == 1)).any() else "formula, tuned"


def shift_invariant(scheme: PositionScheme) -> Verdict:
    """Whether no score changes when all positions grow by the same number: relative, not absolute."""
    x, p = randn(12, D, seed=4), torch.arange(12)
    here = score_of(scheme, x, x, p, p)
    steps = [2**e for e in range(17) if 2**e <= longest(scheme) - 11]
    domain = f"all pairs of 12 places, moved by 1, 2, 4, ..., {max(steps, default=0)}"
    for m in steps:
        verdict = _agree(domain, here, score_of(scheme, x, x, p + m, p + m), _pairs(p), more={"moved by": m})
        if not verdict:
            return verdict
    return Verdict(True, domain)


def symmetric(scheme: PositionScheme) -> Verdict:
    """Whether a word scores the same k places to the left and k places to the right, between the same other words."""
    n = min(65, longest(scheme) + 1)
    words, domain = randn(n, D, seed=5), f"every query of {n} places, the same words to either side"
    for i in range(n):
        k = min(i, n - 1 - i)
        p = torch.arange(i - k, i + k + 1)
        s = score_of(scheme, words[:1], words[(p - i).abs()], torch.tensor([i]), p)
        verdict = _agree(domain, s, s.flip(-1), {"head": range(H), "i": [i], "j": p.tolist()})
        if not verdict:
            return verdict
    return Verdict(True, domain)


def same_in_every_text(scheme: PositionScheme) -> Verdict:
    """Whether the score of two words at their places does not change with the other words or the length of the text."""
    n = min(12, longest(scheme) // 2 + 1)
    long, other, p = randn(2 * n, D, seed=6), randn(n, D, seed=7), torch.arange(2 * n)[: longest(scheme) + 1]
    words, here = long[:n], p[:n]
    s = score_of(scheme, words, words, here, here)
    whole = score_of(scheme, long[: len(p)], long[: len(p)], p, p)[:, :n, :n]
    domain = f"all pairs of {n} places, each other word exchanged, the text twice as long"
    verdict = _agree(domain, s, whole, _pairs(here), more={"tokens": len(p)})
    for t in range(n):
        if not verdict:
            return verdict
        exchanged = words.clone()
        exchanged[t] = other[t]
        changed = score_of(scheme, exchanged, exchanged, here, here)
        changed[:, t], changed[:, :, t] = s[:, t], s[:, :, t]  # its own scores may
        verdict = _agree(domain, s, changed, _pairs(here), more={"other word at": t})
    return verdict


def told_apart(scheme: PositionScheme) -> Verdict:
    """Whether the last of equal words scores no two of the words before it alike, in all heads."""
    last = longest(scheme)
    near = torch.arange(min(2000, last) + 1)
    far = torch.tensor([2**e for e in range(11, 27) if 2**e <= last], dtype=torch.int64)
    back = torch.cat([near, far])
    word = randn(1, D, seed=8)
    s = score_of(scheme, word, word.expand(len(back), D), back[-1:], back[-1] - back)[:, 0]
    alike = (torch.cdist(s.T, s.T, p=torch.inf) <= WITHIN).triu(1).nonzero()
    domain = f"0 to {near[-1]} places back" + (f", then 2048, 4096, ..., {far[-1]}" if len(far) else "")
    if not len(alike):
        return Verdict(True, domain)
    one, other = alike[0]
    both = {"places back": int(back[one]), "and": int(back[other])}
    return Verdict(False, domain, {**both, "score of both": s[0, one].item()})


def distance_read_off(scheme: PositionScheme) -> Verdict:
    """Whether the score of two words says something of their distance, and of nothing else about their places."""
    for verdict in (shift_invariant(scheme), same_in_every_text(scheme)):
        if not verdict:
            return verdict
    word, p = randn(1, D, seed=9), torch.arange(12)
    s = score_of(scheme, word, word.expand(12, D), p[-1:], p)[:, 0]
    if (s - s[:, :1]).abs().max() > WITHIN:
        return Verdict(True, "all pairs of 12 places, moved, among other words")
    return Verdict(False, "12 places", {"score at every distance": s[0, 0].item()})


def longest(scheme: PositionScheme) -> int:
    """The last place of the longest text, from place 0 on, that the scheme has finite scores for, at most 10**8.

    A place that is refused is found exactly, scores that leave the range of float64 to the power of ten before.

    Raises:
        ValueError, FloatingPointError: of the scheme, if it answers again in a longer text, or not at all.
    """
    return _end(scheme)[0]


def any_length(scheme: PositionScheme) -> Verdict:
    """Whether a text may be of any length: the scheme refuses no place, and its scores stay finite in float64."""
    domain = f"places up to {FARTHEST}"
    last, error = _end(scheme)
    return (
        Verdict(True, domain) if error is None else Verdict(False, domain, {"last place": last, "beyond": str(error)})
    )


def _end(scheme: PositionScheme) -> tuple[int, ValueError | FloatingPointError | None]:
    """The last place, and what the scheme says beyond."""
    ends = [_refusal(scheme, 10**power) for power in range(9)]
    first = next((power for power, end in enumerate(ends) if end), None)
    if first is None:
        return FARTHEST, None
    error = ends[first]
    if error is not None and (first == 0 or None in ends[first:]):
        raise error  # no end, but a hole
    low, high = 10 ** (first - 1), 10**first
    while high - low > 1 and isinstance(error, ValueError):
        middle = (low + high) // 2
        refusal = _refusal(scheme, middle)
        low, high, error = (low, middle, refusal) if refusal else (middle, high, error)
    return low, error


def _refusal(scheme: PositionScheme, place: int) -> ValueError | FloatingPointError | None:
    """What a scheme says against a text that reaches this place."""
    x, p = randn(2, D, seed=7), torch.tensor([0, place])
    try:
        score_of(scheme, x, x, p, p)
    except (ValueError, FloatingPointError) as error:
        return error
    return None


def bounded(scheme: PositionScheme, side: int = -1) -> Verdict:
    """Whether position changes scores by no more than some number, however long the text.

    Asked are a text of 10**8 tokens and one of 10**5, where a logarithm is 1.6 times as small. It is bounded if the
    largest change in the long one is at most 1.35 times that in the short one. All words are equal; queries are the
    first, the last and three between, keys stand in steps that grow by a twentieth. A scheme that refuses a longer text
    is bounded; where its scores leave the range of float64, the texts are as much shorter.

    Args:
        side: -1 for keys before the query, 1 for keys after it.
    """
    long, error = _end(scheme)
    if isinstance(error, ValueError):
        return Verdict(True, f"no text goes beyond place {long}")
    short = round(long**0.625)
    change = [_largest_change(scheme, last, side) for last in (short, long)]
    domain = f"keys {'before' if side < 0 else 'after'} the query, up to place {short} and {long}"
    if change[1] <= LOUDER * change[0] + WITHIN:
        return Verdict(True, domain)
    return Verdict(False, domain, {f"change up to place {short}": change[0], f"up to {long}": change[1]})


def _largest_change(scheme: PositionScheme, last: int, side: int) -> float:
    """What position does at most to a score in a text up to place ``last``; the keys stand in growing steps."""
    queries = torch.tensor([0, last // 5, last // 3, last // 2, last])
    away = 1.05 ** torch.arange(math.log(last, 1.05) + 1, dtype=torch.float64)
    p = torch.cat([queries, *(queries + step for step in torch.cat([-away, away]).round().long())])
    p = p[(p >= 0) & (p <= last)].unique()
    words = randn(8, 1, D, seed=11)
    q, k = words.expand(-1, len(queries), -1), words.expand(-1, len(p), -1)
    with_position, without = (_batch_of_scores(s, q, k, queries, p) for s in (scheme, NoPosition()))
    asked = (p - queries[:, None]) * side > 0
    return float((with_position - without)[..., asked].abs().max())


def summable(scheme: PositionScheme) -> Verdict:
    """Whether the weights of all keys before a query have a finite sum, so that attention keeps its window.

    Of the ranges of distances that double, up to 4096 to 8191 or as far as there are places, each of the last two must
    weigh at most .9 of the range before it, in every head. All words are equal. Slow powers of the distance, 1/r**a
    with a between 1 and 1.15, have a finite sum and get a no.
    """
    ranges = min(13, (longest(scheme) + 1).bit_length() - 1)
    n = 2**ranges
    word, p = randn(1, D, seed=10), torch.arange(n)
    share = score_of(scheme, word, word.expand(n, D), p[-1:], p)[:, 0].softmax(-1).flip(-1)
    weight = torch.stack([share[:, 2**e : 2 ** (e + 1)].sum(-1) for e in range(ranges)], dim=-1)
    domain = f"ranges of distances that double, up to {n // 2} to {n - 1}"
    for e in range(max(1, ranges - 2), ranges):
        thick = (weight[:, e] > THINNER * weight[:, e - 1]).nonzero()
        if len(thick):
            head = int(thick[0])
            shares = {f"{2**f} to {2 ** (f + 1) - 1} back": float(weight[head, f]) for f in (e - 1, e)}
            return Verdict(False, domain, {"head": head, **shares})
    return Verdict(ranges > 1, domain, {} if ranges > 1 else {"places": n})


def keeps_norms(scheme: PositionScheme) -> Verdict:
    """Whether words, queries and keys have the same length after hooks 1 and 2 as before."""
    n = min(30, longest(scheme) + 1)
    x, q, p = randn(1, n, D, seed=12), randn(1, H, n, d, seed=13), torch.arange(n)
    turned_q, turned_k = scheme.at(p, like=q).transform(q, q, x)
    one, each = {"place": p.tolist()}, {"head": range(H), "place": p.tolist()}
    pairs = (("word", scheme.embed(x, p), x, one), ("query", turned_q, q, each), ("key", turned_k, q, each))
    for what, after, before, axes in pairs:
        lengths = _finite(scheme, f"length of a {what}", after[0].norm(dim=-1), axes)
        domain, names = f"words, queries and keys at {n} places", (f"length of {what}", "becomes")
        verdict = _agree(domain, before[0].norm(dim=-1), lengths, axes, names)
        if not verdict:
            return verdict
    return verdict


def nothing_at_zero(scheme: PositionScheme) -> Verdict:
    """Whether the score at i = j = 0 is the dot product alone."""
    x, zero, plain = randn(1, D, seed=12), torch.tensor([0]), NoPosition()
    dot = score_of(plain, x, x, zero, zero) / plain.scale(d) * scheme.scale(d)
    return _agree("i = j = 0", dot, score_of(scheme, x, x, zero, zero), _pairs(zero), ("dot product", "score"))


def parameters(scheme: PositionScheme) -> int:
    """How many numbers are learned."""
    return sum(parameter.numel() for parameter in scheme.parameters())


PROBES: dict[str, Callable[[PositionScheme], object]] = {
    "place": lambda scheme: ", ".join(places(scheme)) or "nowhere",
    "source": source,
    "relative": shift_invariant,
    "symmetric": symmetric,
    "bounded": bounded,
    "bounded ahead": partial(bounded, side=1),
    "summable": summable,
    "keeps norms": keeps_norms,
    "nothing at 0": nothing_at_zero,
    "parameters": parameters,
}

# What notebook 00 asks of an encoding, in its order.
REQUIREMENTS: dict[str, Callable[[PositionScheme], Verdict]] = {
    "same in every text": same_in_every_text,
    "bounded": bounded,
    "told apart": told_apart,
    "any length": any_length,
    "distance": distance_read_off,
}


def probe(scheme_class: type[PositionScheme]) -> dict[str, object]:
    """The answers of all probes by their names."""
    scheme = drawn(scheme_class)
    return {name: ask(scheme) for name, ask in PROBES.items()}


def requirements(classes: Sequence[type[PositionScheme]] | None = None) -> dict[str, dict[str, Verdict]]:
    """What each scheme answers to what notebook 00 asks of an encoding.

    Args:
        classes: the rows of the table; all schemes of the library if None.
    Returns:
        Verdicts by the scheme's name, as its authors write it, and by the requirement.
    Example:
        >>> from posenc_lib import NoPosition
        >>> for name, verdict in requirements([NoPosition])["none"].items():
        ...     print(f"{name}: {bool(verdict)}")
        same in every text: True
        bounded: True
        told apart: False
        any length: True
        distance: False
    """
    asked = [drawn(cls) for cls in (scheme_classes().values() if classes is None else classes)]
    return {scheme.name: {name: ask(scheme) for name, ask in REQUIREMENTS.items()} for scheme in asked}


def attention_by_distance(scheme: PositionScheme, equal: bool, length: int = 64, draws: int = 200) -> Tensor:
    """Mean attention (length,) of the last word to the key 0, 1, ... places back, over heads and draws of words.

    With ``equal`` all words are the same, so that position alone decides; otherwise they are independent.
    """
    x = randn(draws, 1 if equal else length, D, seed=13).expand(draws, length, D)
    p = torch.arange(length)
    weights = torch.stack([score_of(scheme, words[-1:], words, p[-1:], p)[:, 0].softmax(-1).mean(0) for words in x])
    return weights.mean(0).flip(0)
