"""From a configuration and a layer to what is read about it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from posenc_lib import validate
from posenc_lib.configs.fields import Fields, check_layer_types, layers_of, text_fields
from posenc_lib.configs.readers import READERS
from posenc_lib.configs.reading import Reading
from posenc_lib.schemes.learned import Learned


def scheme_of(config: Mapping[str, Any], layer: int, length: int | None = None) -> Reading:
    """Where position enters a layer, from what is in the ``config.json`` of its model.

    Args:
        config: the fields, as ``json.load`` returns them. Of a model of several kinds of input, the part of its text.
        layer: from 0; in a model with encoder and decoder the decoder's layers come after the encoder's.
        length: tokens of the text, for the methods that change with it (dynamic, longrope); what the model was trained
            for if None.
    Returns:
        The reading, with the names of the fields that were not understood.
    Raises:
        ValueError: a type that is not known, with what to look for in the file; a field that is missing or out of its
            range; a layer that the model does not have.
        TypeError: a field of another type.
    Example:
        >>> config = {"model_type": "gpt_neox", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
        >>> scheme_of(config, layer=0).scheme
        Rotary(head_dim=16, base=10000, layout='half', rotary_fraction=0.25, rope_scaling=None)
    """
    fields, model_type = known(config)
    validate.integer("layer", layer, at_least=0)
    if length is not None:
        validate.integer("length", length, at_least=1)
    if layer >= (count := layers_of(fields)):
        raise ValueError(f"layer must be less than the {count} of the model, got {layer}")
    check_layer_types(fields, count)
    reading = READERS[model_type](fields, layer, length)
    names = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")
    trained = fields.number(*names, most="positions") if any(fields.given(name) for name in names) else None
    if isinstance(reading.input_scheme, Learned):
        trained = reading.input_scheme.max_length  # some rows hold no place of a token
    return replace(reading, model_type=model_type, layer=layer, trained=trained, unread=fields.unread())


def known(config: Mapping[str, Any]) -> tuple[Fields, str]:
    """The fields for text and the type of the model.

    Raises:
        ValueError: if there is no reader for the type.
        TypeError: if ``config`` is no mapping.
    """
    if not isinstance(config, Mapping):
        raise TypeError(f"config must be a mapping, got {type(config).__name__}")
    fields = text_fields(config)
    model_type = fields.given("model_type")
    if not isinstance(model_type, str) or model_type not in READERS:
        seen = ", ".join(fields.unread()) or "no field whose name speaks of position"
        raise ValueError(
            f"config['model_type'] must be one of {', '.join(sorted(READERS))}, got {model_type!r}. "
            f"What to look for in this file: {seen}"
        )
    return fields, model_type
