"""Checks of the exercises in notebook 18."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from posenc_lib import validate
from posenc_lib.configs import cached_numbers, groups
from posenc_lib.exercises.check import Check
from posenc_lib.schemes.context_extension import inverse_frequencies

SIZES = {"hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "num_hidden_layers": 12}
LLAMA = SIZES | {"model_type": "llama", "rope_theta": 500_000.0, "max_position_embeddings": 8192}
GEMMA3 = SIZES | {
    "model_type": "gemma3_text",
    "rope_theta": 1_000_000.0,
    "rope_local_base_freq": 10_000.0,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
}
Config = Mapping[str, Any]


class _File(dict):
    """Lines of a file; who asks for one that is absent reads what to do."""

    def __missing__(self, line: str) -> Any:
        raise KeyError(f"this file has no {line}; take what is filled in")


def _knows_distance(
    config: Config,
    n: int,
    rotates: Callable[[int], bool] = bool,
    counted_from: int = 1,
    listed: bool = True,
    every: int | None = None,
    pieces: bool = True,
    longest: int = 0,
    filled_in: str = "llama4",
) -> list[int]:
    """Layers that rotate and in which the last of n tokens sees the first; the options are likely mistakes."""
    layers = range(config["num_hidden_layers"])
    interval = every or config.get("no_rope_layer_interval", 4)
    flags = [int((layer + counted_from) % interval != 0) for layer in layers]
    flags = (config.get("no_rope_layers") if listed else None) or flags
    piece = config.get("attention_chunk_size", 8192 if filled_in in config["model_type"] else n)
    if pieces and n > piece + longest:
        return []
    return [layer for layer in layers if rotates(flags[layer])]


def _of_smollm3(**fields: Any) -> dict[str, Any]:
    return SIZES | {"model_type": "smollm3"} | fields


def _of_llama4(**fields: Any) -> dict[str, Any]:
    return SIZES | {"model_type": "llama4_text", "attention_chunk_size": 64} | fields


check_knows_distance = Check(
    "knows_distance",
    _knows_distance,
    cases=[
        (_of_smollm3(), 100),
        (_of_smollm3(no_rope_layer_interval=3), 100),
        (_of_smollm3(no_rope_layers=[0, 0, 1, 1, 1, 1] * 2, no_rope_layer_interval=3), 100),
        (_of_llama4(no_rope_layers=[]), 10),
        (_of_llama4(), 64),
        (_of_llama4(), 65),
        (_of_llama4(no_rope_layer_interval=6), 128),
        (SIZES | {"model_type": "llama4_text"}, 8193),
        (_of_smollm3(), 8193),
    ],
    mistakes=[
        (
            "in no_rope_layers 1 means: rotates",
            lambda config, n: _knows_distance(config, n, rotates=lambda flag: not flag),
        ),
        (
            "of every four layers the last does not rotate: 3, 7, 11, not 0, 4, 8",
            lambda config, n: _knows_distance(config, n, counted_from=0),
        ),
        (
            "a list in no_rope_layers overrules the interval",
            lambda config, n: _knows_distance(config, n, listed=False),
        ),
        (
            "the interval stands in the file: no_rope_layer_interval",
            lambda config, n: _knows_distance(config, n, every=4),
        ),
        (
            "layers that do not rotate see the first token, but their scores do not depend on its distance",
            lambda config, n: _knows_distance(config, n, rotates=lambda flag: True),
        ),
        (
            "in pieces of attention_chunk_size the last token sees the first only in the first piece",
            lambda config, n: _knows_distance(config, n, pieces=False),
        ),
        (
            "a text of exactly attention_chunk_size tokens is one piece",
            lambda config, n: _knows_distance(config, n, longest=-1),
        ),
        (
            "one token more than attention_chunk_size begins a second piece",
            lambda config, n: _knows_distance(config, n, longest=1),
        ),
        (
            "without attention_chunk_size Llama 4 has pieces of 8,192",
            lambda config, n: _knows_distance(config, n, filled_in="none"),
        ),
        (
            "SmolLM3 has no pieces, however long the text",
            lambda config, n: _knows_distance(config, n, filled_in=""),
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


GEMMA_3_1B = {  # what its file says of position and the cache
    "model_type": "gemma3_text",
    "num_hidden_layers": 26,
    "hidden_size": 1152,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 256,
    "max_position_embeddings": 32768,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
    "rope_theta": 1_000_000,
    "rope_local_base_freq": 10_000,
    "rope_scaling": None,
}


def _slow(base: float, length: int, width: int = 256) -> int:
    """How many pairs of a head turn less than once in so many tokens."""
    return int((inverse_frequencies(width, base) * length < 2 * math.pi).sum())


_GIB = _cache_gib(GEMMA_3_1B, 32768)
_LONG = _cache_gib(GEMMA_3_1B | {"sliding_window_pattern": 1}, 32768)
READING: dict[str, tuple[float, dict[float, str]]] = {  # by question: the answer, and wrong ones with what is wrong
    "layers that rotate": (26, {4: "short layers rotate, too", 22: "long layers rotate, too"}),
    "short layers": (
        22,
        {4: "these are the long ones", 21: "of six layers five are short, and of 26 - 24 = 2 both"},
    ),
    "farthest distance in a short layer": (
        511,
        {512: "among 512 keys is the token itself", 32767: "a short layer sees its last 512 keys"},
    ),
    "slow pairs of a short layer": (
        _slow(1e4, 512),
        {
            _slow(1e6, 512): "short layers have a base of their own, rope_local_base_freq",
            _slow(1e4, 32768): "a short layer sees 512 keys, not the whole text",
            _slow(1e4, 512, 288): "head_dim stands in the file: 256, not 1152 / 4",
            128 - _slow(1e4, 512): "these are the pairs that do turn once",
            127 - _slow(1e4, 512): "this is the last pair that does turn once; asked is how many do not",
        },
    ),
    "slow pairs of a long layer": (
        _slow(1e6, 32768),
        {
            _slow(1e4, 32768): "long layers have the base rope_theta",
            _slow(1e6, 512): "a long layer sees the whole text",
            _slow(1e6, 32768, 288): "head_dim stands in the file: 256, not 1152 / 4",
            128 - _slow(1e6, 32768): "these are the pairs that do turn once",
            127 - _slow(1e6, 32768): "this is the last pair that does turn once; asked is how many do not",
        },
    ),
    "GiB of 32,768 tokens": (
        _GIB,
        {
            _LONG: "this is the cache if all layers were long",
            _GIB / 2: "keys and values are kept: a factor of 2 is missing",
            4 * _GIB: "heads of queries are not kept: count num_key_value_heads",
            _GIB * 2**30 / 10**9: "a GiB is 2**30 bytes, not 10**9",
        },
    ),
}


def mark_reading(answers: Mapping[str, float | None]) -> None:
    """Print of each answer to exercise 1 whether it is right, and of likely mistakes what they are.

    Args:
        answers: by question, those of ``READING``; None for one that is open.
    Raises:
        TypeError, ValueError: another question, an answer that is no number.
    Example:
        >>> mark_reading({"layers that rotate": 26, "short layers": 4, "slow pairs of a long layer": None})
        \N{CHECK MARK} layers that rotate
        not yet, short layers: these are the long ones
        not done yet: slow pairs of a long layer
    """
    for question, answer in answers.items():
        right, mistakes = READING[validate.choice("question", question, tuple(READING))]
        near = 0.05 if right < 1 else 0  # counts are exact
        if answer is None:
            print(f"not done yet: {question}")
        elif math.isclose(validate.real(f"answer to {question!r}", answer), right, rel_tol=near):
            print(f"\N{CHECK MARK} {question}")
        else:
            named = (told for wrong, told in mistakes.items() if math.isclose(answer, wrong, rel_tol=near))
            print(f"not yet, {question}: {next(named, 'ask the file again')}")
