"""Five questions in numbers to a file about position, each with its answer and those of likely misreadings."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc_lib import validate
from posenc_lib.configs.layers import scheme_of
from posenc_lib.configs.reading import Reading
from posenc_lib.configs.words import groups
from posenc_lib.schemes.context_extension import inverse_frequencies
from posenc_lib.schemes.decoupled import DecoupledRotary
from posenc_lib.schemes.rope import Rotary

ABSENT = "absent"
FULL_TURN = 2 * math.pi
PAST = 1.001  # an angle is new if it is larger than those of training by more than rounding
MOST_ANSWERS = 4
ROTATES, IN_PART, NOTHING = "rotates", "rotates in part", "rotates nothing"
Config = Mapping[str, Any]


class Answer(NamedTuple):
    """One of those offered.

    value: a number; infinity for no limit.
    right: whether it is the answer.
    why: what makes it right, or what was read otherwise.

    Example:
        >>> Answer(64, False, "these are pairs, each of two components").right
        False
    """

    value: float
    right: bool
    why: str


class Asked(NamedTuple):
    """A question to a file.

    text: the question.
    lines: names of the lines that decide it, with that of the line above and a dot if they must stand below it. Where
        a line is absent, ``model_type`` decides: the code of the family fills it in.
    answers: in the order of their size, from some on and then from the smallest; one is right.

    Example:
        >>> from posenc_lib.configs.asked import Answer
        >>> answers = Answer(2, False, "so many do not rotate"), Answer(6, True, "so many numbers are 1")
        >>> Asked("How many rotate?", ("no_rope_layers",), answers).right
        6
    """

    text: str
    lines: tuple[str, ...]
    answers: tuple[Answer, ...]

    @property
    def right(self) -> float:
        """The value that is right."""
        return next(answer.value for answer in self.answers if answer.right)


def with_lines(config: Config, **lines: Any) -> dict[str, Any]:
    """The file with other values of these lines, without those whose value is ``ABSENT``.

    Example:
        >>> from posenc_lib.configs.asked import ABSENT
        >>> with_lines({"sliding_window": 8, "head_dim": 4}, sliding_window=ABSENT, rope_theta=1e4)
        {'head_dim': 4, 'rope_theta': 10000.0}
    """
    return {line: value for line, value in {**config, **lines}.items() if value != ABSENT}


def keys_seen(reading: Reading, n: int) -> int:
    """How many keys the last of n tokens sees in a causal layer.

    Raises:
        ValueError: n below 1.
    Example:
        >>> from posenc_lib.configs import scheme_of
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}
        >>> reading = scheme_of(sizes | {"model_type": "mistral", "sliding_window": 4}, layer=0)
        >>> keys_seen(reading, 3), keys_seen(reading, 10)
        (3, 4)
    """
    validate.integer("n", n, at_least=1)
    if reading.chunk:
        return (n - 1) % reading.chunk + 1
    return min(n, reading.window or n)


def frequencies_of(reading: Reading) -> Tensor:
    """(pairs,) float64, radians per token of each pair of a head, 0 if it is still; nothing where nothing rotates.

    Example:
        >>> from posenc_lib.configs import scheme_of
        >>> sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}
        >>> config = sizes | {"model_type": "gpt_neox", "rotary_pct": 0.5, "max_position_embeddings": 64}
        >>> frequencies_of(scheme_of(config, layer=0))
        tensor([1.0000, 0.0100, 0.0000, 0.0000], dtype=torch.float64)
    """
    rope = reading.inner
    if not isinstance(rope, Rotary):
        return torch.zeros(0, dtype=torch.float64)
    theta = rope.inv_freq.double()
    return torch.cat([theta, theta.new_zeros(rope.head_dim // 2 - len(theta))])


def kind(reading: Reading) -> str:
    """``"rotates"``, ``"rotates in part"`` if some pairs are still, or ``"rotates nothing"``.

    Example:
        >>> from posenc_lib.configs import scheme_of
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 4}
        >>> [kind(scheme_of(sizes | {"model_type": "smollm3"}, layer)) for layer in (2, 3)]
        ['rotates', 'rotates nothing']
    """
    theta = frequencies_of(reading)
    if len(theta):
        return ROTATES if theta.all() else IN_PART
    return NOTHING


def turned(reading: Reading, n: int) -> Tensor:
    """(pairs,) float64, radians of each pair between the last of n tokens and the farthest key that it sees.

    Example:
        >>> from posenc_lib.configs import scheme_of
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}
        >>> reading = scheme_of(sizes | {"model_type": "mistral", "sliding_window": 4}, layer=0)
        >>> turned(reading, 10)
        tensor([3.0000, 0.0300], dtype=torch.float64)
    """
    return frequencies_of(reading) * (keys_seen(reading, n) - 1)


def angles(config: Config, layer: int, trained: int, n: int) -> tuple[Tensor, Tensor]:
    """Radians of each pair to the farthest key: in texts of the training, before ``rope_scaling``; in n tokens.

    Args:
        config, layer: as for :func:`posenc_lib.configs.scheme_of`.
        trained: tokens of a text in training.
        n: tokens of the text.
    Returns:
        Two of shape (pairs,), float64.
    Example:
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}
        >>> scaled = {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}
        >>> angles(sizes | {"model_type": "llama", "rope_theta": 10_000.0} | scaled, 0, trained=11, n=21)
        (tensor([10.0000,  0.1000], dtype=torch.float64), tensor([10.0000,  0.1000], dtype=torch.float64))
    """
    plain = with_lines(config, rope_scaling=ABSENT)
    return turned(scheme_of(plain, layer), trained), turned(scheme_of(config, layer, n), n)


def slow_and_new(known: Tensor, now: Tensor) -> tuple[Tensor, Tensor]:
    """Which pairs made no full turn in training, and which of these meet new angles now; see :func:`angles`.

    Example:
        >>> slow, new = slow_and_new(torch.tensor([9.0, 3.0, 0.2]), torch.tensor([18.0, 6.0, 0.2]))
        >>> slow.tolist(), new.tolist()
        ([False, True, True], [False, True, False])
    """
    slow = (now > 0) & (known < FULL_TURN)
    return slow, slow & (now > PAST * known)


def asked(config: Config, trained: int, n: int) -> list[Asked]:
    """The five questions to a file whose model is causal and has layers that rotate.

    The last three concern the rotating layer that sees most of the n tokens.

    Args:
        config: the fields, as for :func:`posenc_lib.configs.scheme_of`.
        trained: tokens of a text in training, before ``rope_scaling``.
        n: tokens of a text that the model reads.
    Raises:
        ValueError: no layer rotates; lengths below 1.
    Example:
        >>> config = {"model_type": "smollm3", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 8}
        >>> first = asked(config, trained=2048, n=4096)[0]
        >>> first.text, [answer.value for answer in first.answers], first.right
        ('Of 8 layers, how many rotate?', [0, 2, 6, 8], 6)
    """
    validate.integer("trained", trained, at_least=1)
    validate.integer("n", n, at_least=1)
    layers = {layer: reading for numbers, reading in groups(config) for layer in numbers}
    rotating = [layer for layer in sorted(layers) if kind(layers[layer]) != NOTHING]
    if not rotating:
        raise ValueError("config must have layers that rotate, got none")
    far = max(rotating, key=lambda layer: keys_seen(layers[layer], n))
    return [
        _which_rotate(config, list(layers.values()), len(rotating)),
        _which_keys(config, list(layers.values()), len(rotating), n),
        *_of_turns(config, layers[far], far, trained, n),
    ]


def _question(text: str, lines: tuple[str, ...], right: float, why: str, wrong: Sequence[tuple[float, str]]) -> Asked:
    """With the first of those wrong answers that differ; no place is always that of the right one."""
    offered = {right: Answer(right, True, why)}
    for value, mistake in wrong:
        if len(offered) < MOST_ANSWERS:
            offered.setdefault(value, Answer(value, False, mistake))
    first = sum(int(value) for value in offered if value < math.inf) % len(offered)
    ordered = sorted(offered.values())
    return Asked(text, lines, (*ordered[first:], *ordered[:first]))


def _which_rotate(config: Config, layers: list[Reading], rotate: int) -> Asked:
    count, short = len(layers), sum(bool(one.window or one.chunk) for one in layers)
    if rotate < count:
        by_list = (
            "a 0 in the list means: does not rotate",
            "a 1 in the list means: rotates",
            "so many are 1 in the list",
        )
        by_family = (
            "no list says which: every fourth does not",
            "without a list three of four rotate",
            "no list says which: all rotate but every fourth",
        )
        all_wrong, none_wrong, why = by_list if config.get("no_rope_layers") else by_family
        wrong = [(count, all_wrong), (count - rotate, "so many do not rotate"), (0, none_wrong)]
    else:
        why = "in this family all layers rotate"
        wrong = [(short, "short layers rotate, and long ones, too")] * (0 < short < count)
        wrong += [
            (count - count // 4, "no rule of this family stops every fourth layer"),
            (0, "no line need say that layers rotate: in this family all do"),
            (count // 2, "no line says that every second does not rotate"),
        ]
    lines = _there(config, "no_rope_layers" if config.get("no_rope_layers") else "no_rope_layer_interval")
    return _question(f"Of {count} layers, how many rotate?", lines, rotate, why, wrong)


def _which_keys(config: Config, layers: list[Reading], rotate: int, n: int) -> Asked:
    count, right = len(layers), sum(keys_seen(one, n) == n for one in layers)
    short = next((one for one in layers if keys_seen(one, n) < n), None)
    if short:
        limit = f"pieces of {short.chunk:,}" if short.chunk else f"a window of {short.window:,} keys"
        why = f"the others have {limit}"
        wrong = [
            (count, f"some layers have {limit}"),
            (count - right, f"so many do not see it: they have {limit}"),
            (0, f"not every layer has {limit}"),
        ]
    else:
        why = "no line limits what a layer sees"
        wrong = [(count - rotate, "so many do not rotate; all layers see all keys")] * (rotate < count)
        wrong += [(0, why), (count // 2, "no line makes every second layer short")]
        wrong += [(count - 1, "layer 0 sees the whole text, too")]
    lines = _there(config, "layer_types", "sliding_window", "sliding_window_pattern", "attention_chunk_size")
    return _question(f"In how many layers does the last of {n:,} tokens see the first?", lines, right, why, wrong)


def _of_turns(config: Config, reading: Reading, layer: int, trained: int, n: int) -> list[Asked]:
    """The last three."""
    slow, _ = slow_and_new(*angles(config, layer, trained, n))
    turns = turned(reading, 2) > 0
    turning, slow_count = int(turns.sum()), int(slow.sum())
    return [
        _how_fast(config, reading, layer, trained, n, turns, slow_count),
        _which_pairs(config, reading, layer, turning, slow_count),
        _how_far(config, reading, layer, trained),
    ]


def _of_layer(config: Config, layer: int, *names: str) -> tuple[str, ...]:
    """Names of lines about rotation: below the kind of the layer where a file has them by kind."""
    kinds, parameters = config.get("layer_types"), config.get("rope_parameters") or {}
    below = f"{kinds[layer]}." if kinds and kinds[layer] in parameters else ""
    return tuple(below + name for name in names)


def _there(config: Config, *names: str) -> tuple[str, ...]:
    """Those names whose lines a file has; the family decides where there is none."""
    return tuple(name for name in names if name in config) or ("model_type",)


def _of_width(config: Config, reading: Reading) -> tuple[str, ...]:
    """The lines that give the width of what rotates."""
    names = "qk_rope_head_dim", *(() if reading.window else ("global_head_dim",)), "head_dim"
    return next(((name,) for name in names if name in config), ("hidden_size", "num_attention_heads"))


def _per_head(config: Config) -> int:
    return int(config["hidden_size"]) // int(config["num_attention_heads"])


def _by_line(head_dim: int) -> str:
    return f"a line gives the width, {head_dim}: it is not hidden_size / num_attention_heads"


def _how_fast(config: Config, reading: Reading, layer: int, trained: int, n: int, turns: Tensor, slow: int) -> Asked:
    rope, turning = reading.inner, int(turns.sum())
    assert isinstance(rope, Rotary)
    width = 2 * turning if isinstance(rope, DecoupledRotary) else 2 * len(turns)

    def by_formula(base: float, width: int, keys: int) -> int:
        """How many pairs make no full turn on the way to the farthest of so many keys."""
        return int((inverse_frequencies(width, base).double() * (keys - 1) < FULL_TURN).sum())

    first, later = keys_seen(reading, trained), keys_seen(reading, n)
    lines = _of_layer(config, layer, "rope_theta")
    if lines == ("rope_theta",):
        lines = _there(config, "rope_local_base_freq" if reading.window else "rope_theta")
    lines += _of_width(config, reading)
    last = width // 2 - by_formula(rope.base, width, first) - 1
    why = f"with base {rope.base:,.0f} and d = {width} pairs up to t = {last} make a full turn"
    why += " (no line says d: it is hidden_size / num_attention_heads)" * ("hidden_size" in lines)
    wrong = []
    if 2 * turning < width:
        lines += _of_layer(config, layer, "partial_rotary_factor", "rope_type")
        why += "; here no slower ones turn" if not slow else "; here some are still"
        wrong.append((by_formula(rope.base, width, first), "some pairs of this layer are still"))
    if "rope_local_base_freq" in config:
        wrong.append((by_formula(10_000.0, width, first), "it comes of the base of the short layers"))
    if rope.base != 10_000:
        wrong.append((by_formula(10_000.0, width, first), f"it comes of a base of 10,000; here it is {rope.base:,.0f}"))
    if width < rope.head_dim:
        wrong.append((by_formula(rope.base, rope.head_dim, first), f"only {width} components rotate"))
    elif _per_head(config) != rope.head_dim and _per_head(config) % 2 == 0:
        wrong.append((by_formula(rope.base, _per_head(config), first), _by_line(rope.head_dim)))
    if n != trained:
        longer = f"a text of the training has {trained:,} tokens, not {n:,}"
        wrong.append((by_formula(rope.base, width, later), longer))
    wrong += [(turning - slow, "so many make a full turn"), (turning, "most of its pairs turn faster")]
    tokens = f"the {trained:,} tokens of training"
    return _question(
        f"In the rotating layer that sees most, how many pairs make no full turn in {tokens}?",
        lines,
        slow,
        why,
        wrong,
    )


def _which_pairs(config: Config, reading: Reading, layer: int, turning: int, slow: int) -> Asked:
    rope, right = reading.inner, 2 * turning
    assert isinstance(rope, Rotary)
    head_dim = rope.head_dim
    wrong = [(turning, "these are pairs, each of two components")]
    if right < head_dim:
        why = f"of {head_dim} components the others are still"
        wrong += [(head_dim, "some components are still"), (head_dim - right, "so many components are still")]
    else:
        why = "no line says that a part is still"
        wrong += [(_per_head(config), _by_line(head_dim)), (head_dim // 4, why)]
        wrong.append((2 * (turning - slow), "slow pairs turn, too"))
    lines = _of_layer(config, layer, "partial_rotary_factor", "rope_type")
    if "rope_parameters" not in config:
        lines = _there(config, "partial_rotary_factor", "qk_nope_head_dim", "qk_rope_head_dim")
        lines += _of_width(config, reading) if right == head_dim else ()
    text = "In the rotating layer that sees most, how many components of a head turn?"
    return _question(text, lines, right, why, wrong)


def _how_far(config: Config, reading: Reading, layer: int, trained: int) -> Asked:
    known, now = angles(config, layer, trained, trained)
    slow, _ = slow_and_new(known, now)
    allowed, scaling = int(config.get("max_position_embeddings", trained)), config.get("rope_scaling") or {}
    slowest = round(FULL_TURN / frequencies_of(reading)[now > 0].min().item())
    shown = "its slowest pair makes a first full turn there; its angles are new before"
    first = "original_max_position_embeddings"
    before = (first,) * (first in {**config, **scaling})  # else the file tells that length only if nothing is scaled
    reach = round(trained * (known[slow] / now[slow]).min().item()) if slow.any() else trained
    right: float = reach
    if not slow.any():
        right, why = math.inf, "no pair of this layer is slow"
        lines = _of_layer(config, layer, "partial_rotary_factor", "rope_type")
    elif reading.chunk and reading.chunk <= trained:
        right, why = math.inf, f"its pieces end at {reading.chunk:,} tokens, in training and here"
        lines = ("attention_chunk_size",)
    elif reading.window and reading.window <= trained:
        right, why = math.inf, f"its window is {reading.window:,} keys, in training and here"
        lines = ("sliding_window",)
    elif reach == trained:
        why = f"texts of the training had {trained:,} tokens, and no line slows the pairs"
        lines = before or ("max_position_embeddings",)
    else:
        why = f"rope_scaling slows them {reach / trained:g} times: {reach / trained:g} x {trained:,}"
        lines = (*before, "rope_scaling", "factor", "rope_type", "type")
    wrong: list[tuple[float, str]] = [] if right == trained else [(trained, why)]
    if right < math.inf:
        wrong.append((math.inf, "slow pairs turn ever farther, and sooner or later beyond what training showed"))
    elif scaling:
        wrong.append((reach, f"so far rope_scaling would reach; but {why}"))
    wrong.append((allowed, f"the file allows so many; {why}"))
    wrong += [(slowest, shown)] if slow.any() else []
    wrong.append((2 * trained, why))
    text = f"In the rotating layer that sees most, up to how many tokens is no angle new after {trained:,} in training?"
    return _question(text, lines, right, why, wrong)
