"""How many numbers a cache of keys and values holds."""

from collections.abc import Mapping
from typing import Any

from posenc_lib import validate
from posenc_lib.configs.fields import Fields, layers_of, sizes
from posenc_lib.configs.layers import known
from posenc_lib.configs.reading import Reading
from posenc_lib.configs.words import groups
from posenc_lib.schemes.decoupled import DecoupledRotary

OWN_KEYS = ("gpt2", "openai-gpt", "gpt_neo", "opt", "bloom", "mpt", "gptj", "gpt_neox")  # each head has its own
OWN_IF_MISSING = ("llama", "olmo2", "phi", "phi3", "stablelm")


def cached_numbers(config: Mapping[str, Any], length: int) -> int:
    """Numbers in the cache of a text, of all layers: keys and values, or the vector that they are made from.

    Args:
        config: the fields, as for :func:`posenc_lib.configs.scheme_of`.
        length: tokens of the text. Layers with a window or pieces keep the last tokens only, as many as they may see.
    Raises:
        ValueError: a model that writes no text token by token, an encoder with a decoder, a missing field.
        TypeError: a field of another type.
    Example:
        >>> config = {"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 3, "n_positions": 16}
        >>> cached_numbers(config, length=10)  # 3 layers, keys and values of width 8
        480
    """
    fields, model_type = known(config)
    validate.integer("length", length, at_least=1)
    shared = validate.integer("num_kv_shared_layers", fields.given("num_kv_shared_layers", default=0), at_least=0)
    holding = layers_of(fields) - shared  # the last ones read the caches of others
    total = 0
    for layers, reading in groups(config):
        if not reading.causal or model_type in ("t5", "mt5"):
            raise ValueError(f"config must be of a decoder that writes token by token, got model_type {model_type!r}")
        kept = min(length, reading.window or length, reading.chunk or length)
        total += sum(layer < holding for layer in layers) * _per_token(fields, reading) * kept
    return total


def _per_token(fields: Fields, reading: Reading) -> int:
    """Numbers of one token in one layer."""
    kind = reading.model_type
    if isinstance(reading.scheme, DecoupledRotary):
        return sum(fields.number(name, most="width") for name in ("kv_lora_rank", "qk_rope_head_dim"))
    _, heads, width = sizes(fields)
    if kind == "falcon" and fields.given("new_decoder_architecture"):
        groups_of_heads = fields.number("num_kv_heads", most="heads", default=heads)
    elif kind == "falcon" and fields.given("multi_query", default=True):
        groups_of_heads = 1
    elif kind == "falcon" or kind in OWN_KEYS:
        groups_of_heads = heads
    else:
        default = heads if kind in OWN_IF_MISSING else None
        groups_of_heads = fields.number("num_key_value_heads", most="heads", default=default)
        if kind.startswith("gemma4") and reading.window is None:
            if fields.given("attention_k_eq_v"):
                groups_of_heads = fields.number("num_global_key_value_heads", most="heads", default=groups_of_heads)
            own = fields.part("per_layer_config").part(str(reading.layer))  # as it is saved again
            groups_of_heads = own.number("num_key_value_heads", most="heads", default=groups_of_heads)
    return 2 * groups_of_heads * getattr(reading.inner, "head_dim", width)
