"""What a configuration says about position, in words."""

import math
from collections.abc import Mapping
from typing import Any

import torch

from posenc_lib.configs.fields import layers_of
from posenc_lib.configs.layers import known, scheme_of
from posenc_lib.configs.reading import Reading
from posenc_lib.schemes.decoupled import DecoupledRotary
from posenc_lib.schemes.rope import Rotary
from posenc_lib.schemes.temperature import QueryTemperature


def groups(config: Mapping[str, Any], length: int | None = None) -> list[tuple[list[int], Reading]]:
    """The layers of a model, those together that are read alike.

    Args:
        config, length: see :func:`posenc_lib.configs.scheme_of`.
    Returns:
        The numbers of the layers of each kind, and the reading of the first of them.
    Raises:
        ValueError, TypeError: as :func:`posenc_lib.configs.scheme_of`.
    Example:
        >>> config = {"model_type": "smollm3", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 8}
        >>> [(layers, reading.scheme.name) for layers, reading in groups(config)]
        [([0, 1, 2, 4, 5, 6], 'RoPE'), ([3, 7], 'none')]
    """
    found: dict[str, tuple[list[int], Reading]] = {}
    for layer in range(layers_of(known(config)[0])):
        reading = scheme_of(config, layer, length)
        others = (reading.causal, reading.window, reading.chunk, reading.scale, reading.softcap, reading.sinks)
        frequencies = getattr(reading.inner, "inv_freq", torch.zeros(0)).tolist()
        key = f"{reading.scheme}{frequencies}{reading.input_scheme}{others}"
        found.setdefault(key, ([], reading))[0].append(layer)
    return list(found.values())


def described(config: Mapping[str, Any], length: int | None = None) -> list[str]:
    """Lines for a person: where position enters, and what that means at the length of training.

    Args:
        config, length: see :func:`posenc_lib.configs.scheme_of`.
    Raises:
        ValueError, TypeError: as :func:`posenc_lib.configs.scheme_of`.
    Example:
        >>> config = {"model_type": "bloom", "hidden_size": 64, "n_head": 4, "n_layer": 2}
        >>> print("\\n".join(described(config)))
        bloom: 2 layers
        <BLANKLINE>
        All layers: ALiBi (notebook 12_alibi)
          a cache holds keys
        <BLANKLINE>
        Every field that concerns position was read.
    """
    alike = groups(config, length)
    first = alike[0][1]
    count = sum(len(layers) for layers, _ in alike)
    trained = "" if first.trained is None else f", texts of up to {first.trained:,} tokens"
    lines = [f"{first.model_type}: {count} layers{trained}"]
    if first.input_scheme is not None:
        row = f", position 0 in row {first.first_row}" if first.first_row else ""
        lines.append(f"Added to the input: {first.input_scheme.name}, {first.input_scheme.extra_repr()}{row}.")
    for layers, reading in alike:
        lines += ["", f"{_named(layers, count)}: {reading.scheme.name} (notebook {reading.notebook})"]
        lines += [f"  {line}" for line in _attention(reading)]
    unread = [name for name in first.unread if all(name in reading.unread for _, reading in alike)]
    lines += ["", f"Not read: {', '.join(unread)}." if unread else "Every field that concerns position was read."]
    return lines


def _named(layers: list[int], count: int) -> str:
    if len(layers) == count:
        return "All layers"
    shown = ", ".join(map(str, layers[:8])) + (", ..." if len(layers) > 8 else "")
    return f"{'Layer' if len(layers) == 1 else f'{len(layers)} layers,'} {shown}"


def _attention(reading: Reading) -> list[str]:
    """What one kind of layer does."""
    lines, warm, scheme = [], reading.scheme, reading.inner
    if isinstance(warm, QueryTemperature):
        lines.append(f"queries times 1 + {warm.beta:g} ln(1 + floor({_counted(warm.first)} / {warm.every:,}))")
    if isinstance(scheme, Rotary):
        limits = [limit for limit in (reading.trained, reading.window, reading.chunk) if limit is not None]
        lines += _rotation(scheme, min(limits, default=None))
    if reading.window is not None:
        lines.append(f"a query sees {reading.window:,} keys, its own and those before it")
    if reading.chunk is not None:
        lines.append(f"the text is cut into pieces of {reading.chunk:,} tokens that do not see one another")
    if not reading.causal:
        lines.append("a query sees the keys on both sides")
    if reading.scale is not None:
        lines.append(f"the dot product is multiplied by {reading.scale:.4g}")
    if reading.softcap is not None:
        lines.append(f"scores are kept below {reading.softcap:g} by a hyperbolic tangent")
    if reading.sinks:
        lines.append("each head has a number beside the keys in the softmax, without a position")
    return [*lines, f"a cache holds {_cache(reading)}"]


def _counted(first: int) -> str:
    return f"(i + {first})" if first else "i"


def _rotation(scheme: Rotary, seen: int | None) -> list[str]:
    """What the pairs do among the most keys that a query sees in a text of the length of training."""
    turning = scheme.inv_freq[scheme.inv_freq > 0]
    still = len(scheme.inv_freq) - len(turning)
    rotated, width = 2 * len(scheme.inv_freq), scheme.head_dim
    lines = [f"base {scheme.base:,.0f}, {rotated} of {width} components in pairs ({scheme.layout})"]
    if len(turning):
        shortest, longest = (2 * math.pi / x for x in (turning.max().item(), turning.min().item()))
        lines.append(f"wavelengths from {shortest:,.1f} to {longest:,.0f} tokens")
    if still:
        lines.append(f"{still} pairs do not turn at all and carry content only")
    if seen is not None and len(turning):
        less = int((turning * seen < 2 * math.pi).sum())
        lines.append(f"{less} of {len(turning)} pairs turn less than once in {seen:,} tokens")
    if scheme.rope_scaling:
        lines.append(f"frequencies are changed: {_settings(scheme.rope_scaling)}")
    if scheme.attention_factor != 1:
        lines.append(f"rotated queries and keys are multiplied by {scheme.attention_factor:.4g}")
    return lines


def _settings(scaling: Any) -> str:
    """The method of a context extension and its settings."""
    rest = {name: value for name, value in scaling.items() if name not in ("rope_type", "long_factor")}
    said = [str(scaling["rope_type"]), *(f"{name} {value}" for name, value in rest.items())]
    return ", ".join([*said, "each pair by its own divisor"] if "long_factor" in scaling else said)


def _cache(reading: Reading) -> str:
    """What has to be kept of the keys."""
    scheme = reading.inner
    if isinstance(scheme, DecoupledRotary):
        return f"a short vector for the keys and values of all heads, and {2 * len(scheme.inv_freq)} rotated components"
    scaling = scheme.rope_scaling if isinstance(scheme, Rotary) else None
    if isinstance(scaling, dict) and scaling["rope_type"] in ("dynamic", "longrope"):
        return "keys before rotation, whose frequencies change with the length of the text"
    kept = "keys as they are rotated" if isinstance(scheme, Rotary) else "keys"
    if reading.window is not None:
        return f"{kept}, of the last {reading.window:,} tokens"
    return f"{kept}, of the present piece" if reading.chunk is not None else kept
