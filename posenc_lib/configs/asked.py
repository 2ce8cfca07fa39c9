"""Five questions in numbers to a file about position, each with its answer and those of likely misreadings."""

import math
from collections.abc import Mapping
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

    value: a number.
    mistake: what was read otherwise; empty if it is right.

    Example:
        >>> Answer(64, "these are pairs, each of two components").value
        64
    """

    value: int
    mistake: str


class Asked(NamedTuple):
    """A question to a file.

    text: the question.
    lines: names of the lines that answer it; of these a file has some, or none.
    answers: from the smallest to the largest; one is right.

    Example:
        >>> from posenc_lib.configs.asked import Answer
        >>> Asked("How many rotate?", ("no_rope_layers",), (Answer(2, "so many do not"), Answer(6, ""))).right
        6
    """

    text: str
    lines: tuple[str, ...]
    answers: tuple[Answer, ...]

    @property
    def right(self) -> int:
        """The value that is right."""
        return next(answer.value for answer in self.answers if not answer.mistake)


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

    Of decoupled RoPE without the components that tell content.

    Example:
        >>> from posenc_lib.configs import scheme_of
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}
        >>> reading = scheme_of(sizes | {"model_type": "mistral", "sliding_window": 4}, layer=0)
        >>> turned(reading, 10)
        tensor([3.0000, 0.0300], dtype=torch.float64)
    """
    theta = frequencies_of(reading)
    if isinstance(reading.inner, DecoupledRotary):
        theta = theta[theta > 0]
    return theta * (keys_seen(reading, n) - 1)


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
        _which_keys(list(layers.values()), len(rotating), n),
        *_of_turns(config, layers[far], far, trained, n),
    ]


def _question(text: str, lines: tuple[str, ...], right: int, wrong: list[tuple[int, str]]) -> Asked:
    """With the first of those wrong answers that differ."""
    offered = {right: ""}
    for value, mistake in wrong:
        if len(offered) < MOST_ANSWERS:
            offered.setdefault(value, mistake)
    return Asked(text, lines, tuple(Answer(*pair) for pair in sorted(offered.items())))


def _which_rotate(config: Config, layers: list[Reading], rotate: int) -> Asked:
    count, short = len(layers), sum(bool(one.window or one.chunk) for one in layers)
    if rotate < count:
        by_list = "a 0 in the list means: does not rotate", "a 1 in the list means: rotates"
        by_family = "no list says which: every fourth does not", "without a list three of four rotate"
        all_wrong, none_wrong = by_list if config.get("no_rope_layers") else by_family
        wrong = [(count, all_wrong), (count - rotate, "so many do not rotate"), (0, none_wrong)]
    else:
        wrong = [(short, "short layers rotate, and long ones, too")] * (0 < short < count)
        wrong += [
            (count - count // 4, "only in Llama 4 and SmolLM3 every fourth does not rotate where a list is absent"),
            (0, "no line need say that layers rotate: in this family all do"),
            (count // 2, "no line says that every second does not rotate"),
        ]
    lines = ("no_rope_layers", "no_rope_layer_interval")
    return _question(f"Of {count} layers, how many rotate?", lines, rotate, wrong)


def _which_keys(layers: list[Reading], rotate: int, n: int) -> Asked:
    count, right = len(layers), sum(keys_seen(one, n) == n for one in layers)
    short = next((one for one in layers if keys_seen(one, n) < n), None)
    if short:
        limit = f"pieces of {short.chunk:,}" if short.chunk else f"a window of {short.window:,} keys"
        wrong = [
            (count, f"some layers have {limit}"),
            (count - right, f"so many do not see it: they have {limit}"),
            (0, f"not every layer has {limit}"),
        ]
    else:
        wrong = [(count - rotate, "so many do not rotate; all layers see all keys")] * (rotate < count)
        wrong += [(0, "no line limits what a layer sees"), (count // 2, "no line makes every second layer short")]
        wrong += [(count - 1, "layer 0 sees the whole text, too")]
    lines = ("layer_types", "sliding_window", "sliding_window_pattern", "attention_chunk_size")
    return _question(f"In how many layers does the last of {n:,} tokens see the first?", lines, right, wrong)


def _of_turns(config: Config, reading: Reading, layer: int, trained: int, n: int) -> list[Asked]:
    """The last three."""
    known, now = angles(config, layer, trained, n)
    slow, new = slow_and_new(known, now)
    turning, slow_count = int((now > 0).sum()), int(slow.sum())
    rope = reading.inner
    assert isinstance(rope, Rotary)
    base, head_dim = rope.base, rope.head_dim
    by_line = f"a line gives the width, {head_dim}: it is not hidden_size / num_attention_heads"
    width = 2 * len(now)  # of the part that may rotate

    def by_formula(base: float, width: int, keys: int) -> int:
        """How many pairs make no full turn on the way to the farthest of so many keys."""
        return int((inverse_frequencies(width, base).double() * (keys - 1) < FULL_TURN).sum())

    first, later = keys_seen(reading, trained), keys_seen(reading, n)
    per_head = int(config["hidden_size"]) // int(config["num_attention_heads"])
    wrong = []
    if turning < len(now):
        wrong.append((by_formula(base, width, first), f"only {turning} of its {len(now)} pairs turn"))
    if "rope_local_base_freq" in config:
        wrong.append((by_formula(10_000.0, width, first), "it comes of the base of the short layers"))
    if base != 10_000:
        wrong.append((by_formula(10_000.0, width, first), f"it comes of a base of 10,000; here it is {base:,.0f}"))
    if width < head_dim:
        wrong.append((by_formula(base, head_dim, first), f"only {width} components rotate"))
    elif per_head != head_dim and per_head % 2 == 0:
        wrong.append((by_formula(base, per_head, first), by_line))
    if n != trained:
        longer = f"a text of the training has {trained:,} tokens, not {n:,}"
        wrong.append((by_formula(base, width, later), longer))
    wrong += [(turning - slow_count, "so many make a full turn"), (turning, "most of its pairs turn faster")]
    third = _question(
        f"In the rotating layer that sees most, how many pairs make no full turn in the {trained:,} tokens of training?",
        ("rope_theta", "rope_local_base_freq", "head_dim", "global_head_dim", "qk_rope_head_dim"),
        slow_count,
        wrong,
    )

    right = 2 * turning
    wrong = [(turning, "these are pairs, each of two components")]
    if right < head_dim:
        wrong += [(head_dim, "some components are still"), (head_dim - right, "so many components are still")]
    else:
        wrong += [(per_head, by_line), (head_dim // 4, "no line says that a part is still")]
        wrong.append((2 * (turning - slow_count), "slow pairs turn, too"))
    by_type = ("rope_type",) if "partial_rotary_factor" in str(config.get("rope_parameters")) else ()
    fourth = _question(
        "In the rotating layer that sees most, how many components of a head turn?",
        ("partial_rotary_factor", "qk_nope_head_dim", "qk_rope_head_dim", *by_type),
        right,
        wrong,
    )

    wrong = []
    if slow_count and not new.any():
        if config.get("rope_scaling"):
            wrong.append((slow_count, "rope_scaling slows these pairs enough"))
        else:
            wrong.append((slow_count, "no distance is longer than in training"))
    elif new.any():
        scaled = "rope_scaling does not slow them enough" if config.get("rope_scaling") else "no line slows them"
        wrong.append((0, f"slow pairs turn farther in a longer text, and {scaled}"))
    wrong += [
        (turning - slow_count, "a pair that made a full turn has shown all of its angles"),
        (turning, "a pair that made a full turn has shown all of its angles"),
        (len(now), "a still pair has no angle"),
        (len(now) // 2, "a pair that made a full turn has shown all of its angles"),
    ]
    fifth = _question(
        f"In the rotating layer that sees most, how many pairs meet new angles in {n:,} tokens?",
        (
            *("rope_scaling", "factor", "type", *(() if by_type else ("rope_type",))),
            *("original_max_position_embeddings", "max_position_embeddings"),
        ),
        int(new.sum()),
        wrong,
    )
    return [third, fourth, fifth]
