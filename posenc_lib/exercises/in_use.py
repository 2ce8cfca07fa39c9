"""Checks of the exercises in notebook 18, and what its other cells read from files and from a toy."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from posenc_lib.attention import scores
from posenc_lib.configs import Projections, groups, public_models, scheme_of
from posenc_lib.exercises.check import Check, JudgeCheck
from posenc_lib.lab import TinyTransformer
from posenc_lib.lab.measure import randn
from posenc_lib.schemes.context_extension import RescaledFrequencies
from posenc_lib.schemes.rope import Rotary, rotate

SIZES = {"hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "num_hidden_layers": 12}
LLAMA = SIZES | {"model_type": "llama", "rope_theta": 500_000.0, "max_position_embeddings": 8192}
SMOLLM3 = SIZES | {"model_type": "smollm3", "rope_theta": 5_000_000.0, "no_rope_layers": [1, 1, 0, 1] * 3}
GEMMA3 = SIZES | {
    "model_type": "gemma3_text",
    "rope_theta": 1_000_000.0,
    "rope_local_base_freq": 10_000.0,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
}
NO_BASE = {line: value for line, value in LLAMA.items() if line != "rope_theta"}
NO_PATTERN = {line: value for line, value in GEMMA3.items() if line != "sliding_window_pattern"}
Config = Mapping[str, Any]


class _File(dict):
    """Lines of a file; who asks for one that is absent reads what to do."""

    def __missing__(self, line: str) -> Any:
        raise KeyError(f"this file has no {line}; take what is filled in")


def widths_in_file(config: Config) -> tuple[int, int, int]:
    """How wide the part of a head is that rotates, and two misreadings, from the names of the fields alone.

    Args:
        config: of a model that rotates.
    Returns:
        rho d; d, as if all of it rotated; rho times ``hidden_size`` over the number of heads, as if no file had a
        ``head_dim``.
    Example:
        >>> widths_in_file({"hidden_size": 64, "num_attention_heads": 4, "head_dim": 32, "partial_rotary_factor": 0.5})
        (16, 32, 8)
    """
    text = config.get("text_config", config)
    heads = text.get("num_attention_heads") or text["n_head"]
    divided = (text.get("hidden_size") or text["n_embd"]) // heads
    d = text.get("head_dim", divided)
    rho = text.get("partial_rotary_factor") or text.get("rotary_pct", 1)
    rho = text["rotary_dim"] / d if "rotary_dim" in text else rho  # GPT-J
    return round(rho * d), d, round(rho * divided)


def plain_rotations() -> Iterator[tuple[tuple[int, int, int], Rotary, int]]:
    """Of every kind of layer of the public models that rotates by the plain formula: widths, scheme, length of texts.

    Returns:
        The widths as :func:`widths_in_file` has them, what the library makes of the file, and the longest text that the
        file speaks of.
    Example:
        >>> widths, scheme, length = next(plain_rotations())
        >>> 2 * len(scheme.inv_freq) == widths[0]
        True
    """
    for row in public_models():
        for _, reading in groups(row["config"]):
            scheme = reading.scheme
            if isinstance(scheme, Rotary) and not scheme.rope_scaling and reading.trained:
                yield widths_in_file(row["config"]), scheme, reading.trained


def made_by(model: TinyTransformer, layer: int = 0) -> Projections:
    """What makes queries and keys in a layer of a toy that rotates, as it is read from the files of a model.

    The trained gain of the norm before the projections is taken into them: W (gain x + shift) + b.

    Raises:
        TypeError: if the layer has another scheme than RoPE.
    Example:
        >>> from posenc_lib import Rotary
        >>> from posenc_lib.lab import TinyTransformer
        >>> made_by(TinyTransformer(Rotary(16), vocabulary=3)).q.shape
        torch.Size([4, 16, 64])
    """
    block: Any = model.blocks[layer]
    scheme = model.schemes[layer]
    if not isinstance(scheme, Rotary):
        raise TypeError(f"model must have RoPE in layer {layer}, got {scheme.name}")
    parameters = block.qkv.weight, block.qkv.bias, block.norm_1.weight, block.norm_1.bias
    weight, bias, gain, shift = (x.detach().cpu() for x in parameters)
    parts = (3, block.num_heads, -1)
    q, k, _ = (weight * gain).unflatten(0, parts)
    q_bias, k_bias, _ = (bias + weight @ shift).unflatten(0, parts)
    return Projections(scheme, q, k, q_bias, k_bias)


def _read(config: Config, layer: int) -> tuple[float, int]:
    """As the library reads the file."""
    reading = scheme_of(config, layer)
    return getattr(reading.scheme, "base", 0), reading.window or 0


def _layer_kind(
    config: Config,
    layer: int,
    rotates: int = 1,
    first: int = 1,
    local: str = "rope_local_base_freq",
    window: bool = True,
    filled: tuple[float, int] = (10_000.0, 6),
) -> tuple[float, int]:
    base = config.get("rope_theta", filled[0])
    if config["model_type"] == "smollm3":
        return (base if config["no_rope_layers"][layer] == rotates else 0, 0)
    if config["model_type"] == "gemma3_text" and (layer + first) % config.get("sliding_window_pattern", filled[1]):
        return (config[local], config["sliding_window"] if window else 0)
    return (base, 0)


def _exchanged(config: Config, layer: int) -> tuple[float, int]:
    """Long layers taken for short ones."""
    if config["model_type"] == "gemma3_text":
        short = (layer + 1) % config.get("sliding_window_pattern", 6) == 0
        return (config["rope_local_base_freq"], config["sliding_window"]) if short else (config["rope_theta"], 0)
    return _layer_kind(config, layer)


check_layer_kind = Check(
    "layer_kind",
    _read,
    cases=[
        (_File(config), layer) for config in (LLAMA, SMOLLM3, GEMMA3, NO_BASE, NO_PATTERN) for layer in (0, 2, 5, 6, 11)
    ],
    mistakes=[
        (
            "a file of Llama without rope_theta rotates: 10,000 is filled in",
            lambda config, layer: _layer_kind(config, layer, filled=(0.0, 6)),
        ),
        (
            "a file of Gemma 3 without sliding_window_pattern has short layers: 6 is filled in",
            lambda config, layer: _layer_kind(config, layer, filled=(10_000.0, 1)),
        ),
        (
            "in no_rope_layers a 1 means that the layer rotates, whatever the name says",
            lambda config, layer: _layer_kind(config, layer, rotates=0),
        ),
        (
            "layers are counted from 0: with a pattern of 6 the first long one is layer 5",
            lambda config, layer: _layer_kind(config, layer, first=0),
        ),
        ("of Gemma 3 every sixth layer is the long one; you have it the other way round", _exchanged),
        (
            "the short layers of Gemma 3 rotate with rope_local_base_freq",
            lambda config, layer: _layer_kind(config, layer, local="rope_theta"),
        ),
        (
            "the short layers of Gemma 3 see no more than sliding_window keys",
            lambda config, layer: _layer_kind(config, layer, window=False),
        ),
        (
            "you read all files as those of Llama",
            lambda config, layer: (config.get("rope_theta", 10_000.0), 0),
        ),
    ],
)


def _windowed(window: int | None, **fields: Any) -> dict[str, Any]:
    return SIZES | {"model_type": "mistral", "sliding_window": window, "max_position_embeddings": 4096} | fields


def _reach(config: Config, before: int = 1, through: bool = True, stops: bool = True) -> float:
    total = 0.0
    for numbers, reading in groups(config):
        if reading.window is not None:
            total += (len(numbers) if through else 1) * (reading.window - before)
        elif stops:
            return math.inf
    return total


check_reach = Check(
    "reach",
    _reach,
    cases=[
        (LLAMA,),
        (_windowed(100),),
        (_windowed(1),),
        (_windowed(None),),
        (_windowed(512, num_hidden_layers=3),),
        (GEMMA3,),
    ],
    mistakes=[
        ("each layer adds w - 1: a token is in its own window", lambda config: _reach(config, before=0)),
        ("one layer reaches w - 1 tokens; how many layers are there?", lambda config: _reach(config, through=False)),
        ("one layer without a window sees everything before", lambda config: _reach(config, stops=False)),
        (
            "tokens before the last one are asked: do not count itself",
            lambda config: _reach(config) + 1,
        ),
    ],
)


Rotate = Callable[[Tensor, Tensor], Tensor]  # of x (1, 1, L, d) at positions (L,)
WHERE = torch.tensor([0, 1, 5, 40, 300, 2000, 15_000, 100_000])


def _by(scheme: Rotary, first: int = 0) -> Rotate:
    return lambda x, positions: scheme.transform_query(x, scheme.per_token(positions + first))


FULL = Rotary(16, 10_000.0, "half")
STILL = Rotary(16, 1e6, "half", rope_scaling={"rope_type": "proportional", "partial_rotary_factor": 0.5})
STOPPED = Rotary(16, rope_scaling=RescaledFrequencies(torch.cat([FULL.inv_freq[:-1], torch.zeros(1)])), layout="half")
JUDGED: dict[str, tuple[Rotate, Rotary]] = {
    "the scheme itself": (_by(FULL), FULL),
    "positions counted from 1": (_by(FULL, first=1), FULL),
    "p-RoPE itself": (_by(STILL), STILL),
    "another base": (_by(Rotary(16, 500_000.0, "half")), FULL),
    "the other layout": (_by(Rotary(16, 10_000.0, "interleaved")), FULL),
    "a rotation backwards": (lambda x, positions: rotate(x, -positions, FULL.inv_freq, "half"), FULL),
    "partial rotary for p-RoPE": (_by(Rotary(16, 1e6, "half", 0.5)), STILL),
    "a slowest pair that stands still": (_by(STOPPED), FULL),
    "a rotation that doubles the length": (lambda x, positions: 2 * _by(FULL)(x, positions), FULL),
    "no rotation": (lambda x, positions: x, FULL),
}


def _same_layer(rotate_like: Rotate, scheme: Rotary) -> bool:
    q, k = randn(2, 1, 1, len(WHERE), 16, seed=4)
    theirs = rotate_like(q, WHERE) @ rotate_like(k, WHERE).mT
    return torch.allclose(theirs, scores(q, k, scheme, WHERE, WHERE) * 4.0, atol=1e-6)


def _vectors_agree(rotate_like: Rotate, scheme: Rotary) -> bool:
    x = randn(1, 1, len(WHERE), 16, seed=4)
    return torch.allclose(rotate_like(x, WHERE), _by(scheme)(x, WHERE), atol=1e-6)


def _norms_agree(rotate_like: Rotate, scheme: Rotary) -> bool:
    x = randn(1, 1, len(WHERE), 16, seed=4)
    return torch.allclose(rotate_like(x, WHERE).norm(dim=-1), x.norm(dim=-1), atol=1e-6)


check_same_layer = JudgeCheck(
    "same_layer",
    _same_layer,
    cases=list(JUDGED.values()),
    judged=[(name, "") for name in JUDGED],
    mistakes=[
        ("you accept everything", lambda rotate_like, scheme: True),
        ("you refuse everything", lambda rotate_like, scheme: False),
        (
            "you compare the rotated vectors; positions counted from 1 on both sides give other vectors and the same "
            "scores",
            _vectors_agree,
        ),
        ("you compare norms, which every rotation keeps; compare scores", _norms_agree),
        ("yes and no are exchanged", lambda rotate_like, scheme: not _same_layer(rotate_like, scheme)),
    ],
)
