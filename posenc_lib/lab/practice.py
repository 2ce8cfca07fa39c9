"""What somebody who must choose asks of a scheme; computed by asking it, or read in a file of sources; and its tables.

Asked at the sizes of the catalog, on the CPU, in float64, as :mod:`posenc_lib.lab.probes` does.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from posenc_lib import validate
from posenc_lib.attention import attend
from posenc_lib.configs import shared_parameters, shipped
from posenc_lib.lab.catalog import SIZES, build, name_of, scheme_classes
from posenc_lib.lab.measure import randn
from posenc_lib.lab.probes import WITHIN, any_length, drawn, parameters, places, score_of, symmetric
from posenc_lib.scheme import PositionScheme

H, d, D = SIZES["num_heads"], SIZES["head_dim"], SIZES["dim"]
LENGTH = 12  # of the texts that are asked about


class Practice(NamedTuple):
    """One row of the practitioner's table.

    scheme: name of the class.
    place: where position enters.
    kernel: what of fused attention it works with, see :func:`kernel`.
    keys_final: whether a cached key never changes.
    parameters: how many numbers are learned, at the sizes of the catalog.
    shared: "per model", "per layer", or "" if nothing is learned or nobody says.
    kept: numbers kept for the backward pass per head and pair of tokens, see :func:`kept_per_pair`.
    both: which sides it tells apart, see :func:`sides`.
    values: whether something is added to the values.
    last: the last place that it accepts; None if there is none up to 10**8.
    beyond: what it says to a longer text; empty if it says nothing.
    models: those of the course's list that ship it, the oldest first, with month and address.
    """

    scheme: str
    place: str
    kernel: str
    keys_final: bool
    parameters: int
    shared: str
    kept: float
    both: str
    values: bool
    last: int | None
    beyond: str
    models: list[dict[str, Any]]


class Fused(NamedTuple):
    """Which fused attention a scheme works with.

    flash: FlashAttention: "yes", "slopes" if it takes them, or "no".
    flex: FlexAttention with a score_mod: "yes", from a "table" or "sums" made for each text, or "no".
    sdpa: ``scaled_dot_product_attention`` with an additive mask: "yes", one made for "each text", or "no".
    needs: what it needs of a kernel, in a few words.
    words: the same in a sentence.
    """

    flash: str
    flex: str
    sdpa: str
    needs: str
    words: str


FUSED = {
    "any": Fused("yes", "yes", "yes", "needs nothing", "plain attention follows, in every kernel"),
    "slope": Fused(
        "slopes",
        "yes",
        "yes",
        "needs slopes",
        "a slope for each head: FlashAttention takes them; a mask or a score_mod",
    ),
    "place": Fused(
        "no", "yes", "yes", "needs a bias", "a bias of places alone: a mask for SDPA, a score_mod for FlexAttention"
    ),
    "gather": Fused(
        *("no", "table", "each text", "needs a bias of each text"),
        "a bias of one word and a place, from a table made for each text",
    ),
    "sum": Fused(
        *("no", "sums", "each text", "needs a bias of each text"),
        "a difference of two sums over the text, made for each text",
    ),
    "mask": Fused(
        *("no", "no", "each text", "needs a mask for each text"),
        "a bias of all words between: a mask for each text, or a kernel of its own",
    ),
    "none": Fused("no", "no", "no", "needs the weights", "it needs the weights for its values: no fused kernel"),
}


def kernel(scheme: PositionScheme) -> str:
    """The name of one of ``FUSED``, found by asking what the scheme adds to scores.

    Example:
        >>> from posenc_lib.lab.probes import drawn
        >>> from posenc_lib import Alibi, Cope, Rotary, Shaw
        >>> [kernel(drawn(scheme)) for scheme in (Rotary, Alibi, Cope, Shaw)]
        ['any', 'slope', 'mask', 'none']
    """
    if "value" in places(scheme):
        return "none"
    words, other = randn(LENGTH, D, seed=20), randn(LENGTH, D, seed=21)
    bias = _bias(scheme, words)
    if bias.abs().max() <= WITHIN:
        return "any"
    if (bias - _bias(scheme, other)).abs().max() <= WITHIN:
        steps = bias.diff(dim=2)[:, -1]  # of the last query
        return "slope" if (steps - steps[:, :1]).abs().max() <= WITHIN else "place"
    between = words.clone()
    between[4:8] = other[4:8]
    apart = torch.ones(LENGTH, dtype=torch.bool)
    apart[4:8] = False
    if (bias - _bias(scheme, between))[:, apart][:, :, apart].abs().max() <= WITHIN:
        return "gather"
    from_last = bias[:, -1:] - bias  # of differences c_i - c_j only c_last - c_i is left
    seen = torch.ones(LENGTH, LENGTH).tril(-1).bool()
    first = from_last[:, :, :1].expand_as(from_last)
    return "sum" if (from_last - first)[:, seen].abs().max() <= WITHIN else "mask"


def _bias(scheme: PositionScheme, words: Tensor) -> Tensor:
    """What is added to the scores (H, L, L) of a text whose words are (L, D), above the diagonal 0."""
    W = randn(2, D, D, seed=1) / D**0.5
    p = torch.arange(len(words))
    x = scheme.embed(words[None], p)
    q, k = ((x @ w).unflatten(-1, (H, d)).transpose(1, 2) for w in W)
    here = scheme.at(p, like=q)
    q, k = here.transform(q, k, x)
    bias = here.score_bias(q, k, x)
    none = torch.zeros(H, len(p), len(p), dtype=torch.float64)
    return none if bias is None else (none + bias).reshape(H, len(p), len(p)).tril()


def keys_final(scheme: PositionScheme) -> bool:
    """Whether the keys of a text stay what they are after hooks 1 and 2 when the text grows.

    Example:
        >>> from posenc_lib.lab.probes import drawn
        >>> from posenc_lib import Rotary
        >>> keys_final(drawn(Rotary))
        True
    """
    text = randn(1, LENGTH, D, seed=22)
    short, long = (_keys(scheme, text[:, :n]) for n in (LENGTH - 1, LENGTH))
    return bool((long[:, :, :-1] - short).abs().max() <= WITHIN)


def _keys(scheme: PositionScheme, text: Tensor) -> Tensor:
    p = torch.arange(text.shape[1])
    x = scheme.embed(text, p)
    k = (x @ randn(D, D, seed=1)).unflatten(-1, (H, d)).transpose(1, 2)
    return scheme.at(p, like=k).transform(k, k, x)[1]


def kept_per_pair(scheme: PositionScheme, length: int = 64) -> float:
    """Numbers that the backward pass needs per head and pair of tokens, beyond those of attention without position.

    On a CPU the latter runs on a fused kernel, which keeps none. A scheme that is not taken by it keeps the weights, 1.

    Counted by autograd itself in attention over L and 2 L tokens: of a count a L + b L**2 the second difference leaves
    b. Every buffer counts once, however often it is used.

    Example:
        >>> from posenc_lib.lab.catalog import build
        >>> from posenc_lib import Rotary
        >>> kept_per_pair(build(Rotary))
        0.0
    """
    short, long = (_kept(scheme, n) - _kept(build(scheme_classes()["NoPosition"]), n) for n in (length, 2 * length))
    return max(0.0, round((long - 2 * short) / (2 * H * length**2), 1))


def _kept(scheme: PositionScheme, length: int) -> int:
    """Numbers in the buffers that autograd keeps of one attention."""
    q, k, v = (randn(1, H, length, d, seed=s).float().requires_grad_() for s in (1, 2, 3))
    x = randn(1, length, D, seed=4).float().requires_grad_()
    buffers: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        buffers[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        attend(q, k, v, scheme.at(length, like=q), causal=True, x=x)
    return sum(tensor.untyped_storage().nbytes() // 4 for tensor in buffers.values())


def sides(scheme: PositionScheme) -> str:
    """What a model without a mask is told of the keys after the query.

    Returns:
        "both" if they are told from each other and from those before, "alike" if keys at the same distance score the
        same to the left and to the right, "before only" if all after the query score the same.
    Example:
        >>> from posenc_lib.lab.probes import drawn
        >>> from posenc_lib import Alibi, Cope, Rotary
        >>> [sides(drawn(scheme)) for scheme in (Rotary, Alibi, Cope)]
        ['both', 'alike', 'before only']
    """
    word, p = randn(1, D, seed=23), torch.arange(LENGTH)
    after = score_of(scheme, word, word.expand(LENGTH, D), p[:1], p)[:, 0, 1:]
    if (after - after[:, :1]).abs().max() <= WITHIN and not symmetric(scheme):
        return "before only"
    return "alike" if symmetric(scheme) else "both"


def practice(scheme: str) -> Practice:
    """The row of the class with this name.

    Example:
        >>> row = practice("T5Bias")
        >>> row.kernel, row.parameters, row.shared, row.models[0]["model"]
        ('place', 128, 'per model', 'T5')
    """
    cls = scheme_classes()[validate.choice("scheme", scheme, tuple(scheme_classes()))]
    asked = drawn(cls)
    length, found, learned = any_length(asked), places(asked), parameters(asked)
    return Practice(
        scheme,
        ", ".join(found) or "nowhere",
        kernel(asked),
        keys_final(asked),
        learned,
        _shared(scheme, found) if learned else "",
        kept_per_pair(build(cls)),
        sides(asked),
        "value" in found,
        None if length else cast(int, length.counter_example["last place"]),
        str(length.counter_example.get("beyond", "")),
        sorted((row for row in shipped() if scheme in row["schemes"]), key=lambda row: row["month"]),
    )


def _shared(scheme: str, found: list[str]) -> str:
    if found == ["input"]:
        return "per model"
    return shared_parameters().get(scheme, {"kept": ""})["kept"]


def deciding(rows: Mapping[str, Practice]) -> tuple[list[str], list[list[str]]]:
    """What decides most choices: the heads of the columns, and a row of texts for every scheme.

    Args:
        rows: of the practitioner's table, by the names of the classes.
    Example:
        >>> from posenc_lib.lab.practice import practice
        >>> deciding({"Alibi": practice("Alibi")})[1]
        [['ALiBi', 'score', 'slopes', 'yes', 'yes', 'alike', '0.0', 'BLOOM 2022-11, 2 in all']]
    """
    heads = ["scheme", "enters at", "Flash", "Flex", "SDPA", "sides", "per pair", "ships in"]
    found = []
    for name, row in rows.items():
        fused = FUSED[row.kernel]
        models = [f"{model['model']} {model['month']}" for model in row.models]
        ships = models[0] + f", {len(models)} in all" * (len(models) > 1) if models else "-"
        per_pair = f"{row.kept:.1f}"
        found.append([name_of(name), row.place, fused.flash, fused.flex, fused.sdpa, row.both, per_pair, ships])
    return heads, found


def further(rows: Mapping[str, Practice]) -> tuple[list[str], list[list[str]]]:
    """What is learned, and how far a scheme goes: the heads of the columns, and a row of texts for every scheme.

    Example:
        >>> from posenc_lib.lab.practice import practice
        >>> further({"T5Bias": practice("T5Bias")})[1]
        [['T5', '128', 'per model', 'any', '']]
    """
    heads = ["scheme", "parameters", "one set", "last place", "what it says of a later one"]
    found = []
    for name, row in rows.items():
        last = "any" if row.last is None else str(row.last)
        found.append([name_of(name), str(row.parameters), row.shared or "-", last, row.beyond])
    return heads, found
