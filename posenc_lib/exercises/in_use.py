"""Checks of the exercises in notebook 18, and what its other cells read from files."""

from collections.abc import Iterator, Mapping
from typing import Any

from posenc_lib.configs import cached_numbers, groups, public_models, scheme_of
from posenc_lib.exercises.check import Check
from posenc_lib.schemes.rope import Rotary

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
NO_BASE, NO_BASE_SMOLLM3, NO_BASE_GEMMA3 = (
    {line: value for line, value in file.items() if line != "rope_theta"} for file in (LLAMA, SMOLLM3, GEMMA3)
)
MADE_LIST, NO_LIST = (  # every third or fourth layer does not rotate; no line says which
    {line: value for line, value in SMOLLM3.items() if line != "no_rope_layers"} | interval
    for interval in ({"no_rope_layer_interval": 3}, {})
)
NULL_LIST = SMOLLM3 | {"no_rope_layers": None}  # read as if it were absent
EVERY_FOURTH = GEMMA3 | {"sliding_window_pattern": 4}
NO_PATTERN = {line: value for line, value in GEMMA3.items() if line != "sliding_window_pattern"}
FILLED_IN = {"llama": 10_000.0, "smollm3": 2_000_000.0, "gemma3_text": 1_000_000.0}  # for rope_theta
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


def plain_rotations() -> Iterator[tuple[str, tuple[int, int, int], Rotary, int]]:
    """Of every kind of layer of the public models that rotates by the plain formula: model, widths, scheme, length.

    Returns:
        The name of the model, the widths as :func:`widths_in_file` has them, what the library makes of the file, and
        the longest text that the file speaks of.
    Example:
        >>> model, widths, scheme, length = next(plain_rotations())
        >>> 2 * len(scheme.inv_freq) == widths[0]
        True
    """
    for row in public_models():
        for _, reading in groups(row["config"]):
            scheme = reading.scheme
            if isinstance(scheme, Rotary) and not scheme.rope_scaling and reading.trained:
                yield row["model"], widths_in_file(row["config"]), scheme, reading.trained


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
    filled: Mapping[str, float] = FILLED_IN,
    pattern: int = 6,
    interval: int = 4,
    counted: int = 1,
    made: bool = True,
    listed: bool = True,
    short: bool = True,
) -> tuple[float, int]:
    base = config.get("rope_theta", filled[config["model_type"]])
    if config["model_type"] == "smollm3":
        every = config.get("no_rope_layer_interval", interval)
        flags = [int(not made or (n + counted) % every > 0) for n in range(config["num_hidden_layers"])]
        flags = config.get("no_rope_layers") or flags if listed else flags
        return (base if flags[layer] == rotates else 0, 0)
    if config["model_type"] == "gemma3_text" and (layer + first) % config.get("sliding_window_pattern", pattern):
        return (config.get(local, base), config["sliding_window"] if window else 0)
    return (base, 0 if short else config.get("sliding_window", 0))


def _exchanged(config: Config, layer: int) -> tuple[float, int]:
    """Long layers taken for short ones."""
    if config["model_type"] == "gemma3_text":
        short = (layer + 1) % config.get("sliding_window_pattern", 6) == 0
        long = config.get("rope_theta", FILLED_IN["gemma3_text"])
        return (config["rope_local_base_freq"], config["sliding_window"]) if short else (long, 0)
    return _layer_kind(config, layer)


check_layer_kind = Check(
    "layer_kind",
    _read,
    cases=[
        (_File(config), layer)
        for config in (
            *(LLAMA, SMOLLM3, GEMMA3, NO_BASE, NO_BASE_SMOLLM3, NO_BASE_GEMMA3, NO_PATTERN),
            *(MADE_LIST, NO_LIST, NULL_LIST, EVERY_FOURTH),
        )
        for layer in (0, 2, 5, 6, 11)
    ],
    mistakes=[
        (
            "a file without rope_theta rotates: each family has a base to fill in",
            lambda config, layer: _layer_kind(config, layer, filled=dict.fromkeys(FILLED_IN, 0.0)),
        ),
        (
            "10,000 is what Llama fills in for rope_theta; the other two families have bases of their own",
            lambda config, layer: _layer_kind(config, layer, filled=dict.fromkeys(FILLED_IN, 10_000.0)),
        ),
        *(
            (
                f"{name} fills in {FILLED_IN[kind]:,.0f} for rope_theta",
                lambda config, layer, kind=kind: _layer_kind(config, layer, filled=FILLED_IN | {kind: 10_000.0}),
            )
            for kind, name in (("smollm3", "SmolLM3"), ("gemma3_text", "Gemma 3"))
        ),
        (
            "a file of Gemma 3 without sliding_window_pattern has short layers: 6 is filled in",
            lambda config, layer: _layer_kind(config, layer, pattern=1),
        ),
        (
            "a file of SmolLM3 without no_rope_layers has layers that do not rotate: the interval makes the list",
            lambda config, layer: _layer_kind(config, layer, made=False),
        ),
        (
            "where no_rope_layer_interval is absent, too, 4 is filled in",
            lambda config, layer: _layer_kind(config, layer, interval=10**9),
        ),
        (
            "no_rope_layers is read before no_rope_layer_interval: where the list stands, the interval is not asked",
            lambda config, layer: _layer_kind(config, layer, listed=False),
        ),
        (
            "the long layers of Gemma 3 see all keys, whatever sliding_window says",
            lambda config, layer: _layer_kind(config, layer, short=False),
        ),
        (
            "sliding_window_pattern need not be 6: read it",
            lambda config, layer: _layer_kind(
                {line: value for line, value in config.items() if line != "sliding_window_pattern"}, layer
            ),
        ),
        (
            "layers are counted from 0: the first of every n is layer n - 1",
            lambda config, layer: _layer_kind(config, layer, first=0, counted=0),
        ),
        (
            "layers are counted from 0: with an interval of 3 the first that does not rotate is layer 2",
            lambda config, layer: _layer_kind(config, layer, counted=0),
        ),
        (
            "in no_rope_layers a 1 means that the layer rotates, whatever the name says",
            lambda config, layer: _layer_kind(config, layer, rotates=0),
        ),
        (
            "in no_rope_layers a 1 means that the layer rotates, whatever the name says",
            lambda config, layer: _layer_kind(config, layer, rotates=int(not config.get("no_rope_layers"))),
        ),
        (
            "layers are counted from 0: with a pattern of 6 the first long one is layer 5",
            lambda config, layer: _layer_kind(config, layer, first=0),
        ),
        ("of Gemma 3 every sixth layer is the long one; you have it the other way round", _exchanged),
        ("the base comes first, then the window", lambda config, layer: _layer_kind(config, layer)[::-1]),
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


GROUPED = LLAMA | {"num_key_value_heads": 2}
LATENT = SIZES | {
    "model_type": "deepseek_v3",
    "num_key_value_heads": 4,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
}


def _cache_gib(config: Config, tokens: int) -> float:
    """As the library counts."""
    return cached_numbers(config, tokens) * 2 / 2**30


def _counted(
    config: Config,
    tokens: int,
    heads: str = "num_key_value_heads",
    both: int = 2,
    latents: int = 1,
    beside: bool = True,
    windows: str = "of short layers",
    latent: str = "kv_lora_rank",
    unit: float = 2 / 2**30,
) -> float:
    numbers = 0
    for layers, reading in groups(config):
        window = reading.window or tokens
        kept = {
            "of short layers": min(tokens, window),
            "always full": window,
            "everywhere": min(tokens, config.get("sliding_window", tokens)),
            "none": tokens,
        }[windows]
        if latent in config:
            one = latents * (config["kv_lora_rank"] + beside * config["qk_rope_head_dim"])
        else:
            one = both * config[heads] * config["head_dim"]
        numbers += len(layers) * one * kept
    return numbers * unit


check_cache_gib = Check(
    "cache_gib",
    _cache_gib,
    cases=[
        (_File(GROUPED), 131_072),
        (_File(_windowed(4096, num_key_value_heads=1)), 131_072),
        (_File(_windowed(4096, num_key_value_heads=1)), 2048),
        (_File(GEMMA3 | {"num_key_value_heads": 2}), 131_072),
        (_File(LATENT), 131_072),
    ],
    mistakes=[
        (
            "heads of queries are not kept: count num_key_value_heads",
            lambda config, tokens: _counted(config, tokens, heads="num_attention_heads"),
        ),
        (
            "a factor of 2 is missing: a layer keeps keys and values",
            lambda config, tokens: _counted(config, tokens, both=1),
        ),
        (
            "half of it: a number takes two bytes",
            lambda config, tokens: _counted(config, tokens, unit=1 / 2**30),
        ),
        (
            "a layer with a window keeps no more than its last w tokens",
            lambda config, tokens: _counted(config, tokens, windows="none"),
        ),
        (
            "a text shorter than the window fills only a part of it",
            lambda config, tokens: _counted(config, tokens, windows="always full"),
        ),
        (
            "the long layers of Gemma 3 keep all tokens, whatever sliding_window says",
            lambda config, tokens: _counted(config, tokens, windows="everywhere"),
        ),
        (
            "the row of kv_lora_rank and qk_rope_head_dim is kept once for all heads, not for each",
            lambda config, tokens: _counted(config, tokens, latents=config["num_attention_heads"]),
        ),
        (
            "keys and values are made of the same z: with kv_lora_rank there is no factor of 2",
            lambda config, tokens: _counted(config, tokens, latents=2),
        ),
        (
            "beside z the rotated part is kept: qk_rope_head_dim more numbers",
            lambda config, tokens: _counted(config, tokens, beside=False),
        ),
        (
            "a file with kv_lora_rank keeps no keys and values but the row that they are made of",
            lambda config, tokens: _counted(config, tokens, latent="no line"),
        ),
        (
            "a GiB is 2**30 bytes, not 10**9",
            lambda config, tokens: _counted(config, tokens, unit=2 / 10**9),
        ),
    ],
)
