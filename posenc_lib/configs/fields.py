"""The fields of a configuration: which of them were read, what they must be, and what they say of a rotation."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from posenc_lib import validate

MOST = {"layers": 10_000, "heads": 10_000, "width": 1_000_000, "positions": 100_000_000, "numbers": 1_000_000_000}
POSITION = re.compile(
    r"rope|rotary|position|alibi|window|relative|layer_types|chunk|temperature|floor_scale|attn_scale|bucket|theta"
    r"|distance|clamp|bidirectional|yarn|softmax_scale|query_pre_attn|sliding|mscale|head_dim"
)
NOT_OF_ATTENTION = (
    "_name_or_path",
    "task_specific_params",
    "chunk_size_feed_forward",
    "architectures",
    "vision_config",
    "audio_config",
    "transformers_version",
)


FULL, SLIDING = "full_attention", "sliding_attention"


class Fields(Mapping[str, Any]):
    """The fields of a configuration, which know by their names which of them were read."""

    def __init__(self, values: Mapping[str, Any], path: str = "", read: set[str] | None = None):
        self._values, self._path = values, path
        self._read: set[str] = set() if read is None else read

    def __getitem__(self, name: str) -> Any:
        self._read.add(self._path + name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def given(self, *names: str, default: Any = None) -> Any:
        """The first of the fields that is there and not null."""
        found = [self[name] for name in names if name in self]
        return next((value for value in found if value is not None), default)

    def peek(self, name: str) -> Any:
        """A field, or None if it is missing, which does not count as read."""
        return self._values.get(name)

    def number(self, *names: str, most: str, default: int | None = None) -> int:
        """A whole number from 1 on, which may have several names.

        Raises:
            ValueError: if it is missing or out of its range.
            TypeError: if it is no whole number.
        """
        value = self.given(*names, default=default)
        if value is None:
            raise ValueError(f"{' or '.join(self._path + name for name in names)} is missing in the configuration")
        if validate.integer(names[0], value, at_least=1) > MOST[most]:
            raise ValueError(f"{names[0]} must be at most {MOST[most]}, got {value}")
        return value

    def part(self, name: str) -> "Fields":
        """The fields of an object within; none if it is missing or null.

        Raises:
            TypeError: if it is something else.
        """
        value = self.given(name)
        if value is not None and not isinstance(value, Mapping):
            raise TypeError(f"{self._path}{name} must be an object, got {type(value).__name__}")
        return Fields(value or {}, f"{self._path}{name}.", self._read)

    def unread(self) -> tuple[str, ...]:
        """Names of the fields that seem to concern position, have a value and were not read."""
        return tuple(name for name in self._names() if POSITION.search(name) and name not in self._read)

    def _names(self) -> Iterator[str]:
        for name, value in self._values.items():
            if not isinstance(name, str) or name in NOT_OF_ATTENTION or value is None or value is False:
                continue
            if isinstance(value, Mapping):
                yield from Fields(value, f"{self._path}{name}.")._names()
            else:
                yield self._path + name


def text_fields(config: Mapping[str, Any]) -> Fields:
    """The fields that describe the layers for text."""
    fields = Fields(config)
    inner = fields.part("text_config")
    if not len(inner):
        return fields
    return Fields({"model_type": fields.given("model_type"), **inner})


def layers_of(fields: Fields) -> int:
    """How many layers there are, those of an encoder and of a decoder together."""
    count = fields.number("num_hidden_layers", "n_layer", "n_layers", "num_layers", most="layers")
    if fields.given("is_encoder_decoder") or fields.given("model_type") == "t5":
        return count + fields.number("num_decoder_layers", most="layers", default=count)
    return count


def sizes(fields: Fields) -> tuple[int, int, int]:
    """Width of the model, heads, width of a head."""
    width = fields.number("hidden_size", "n_embd", "d_model", "dim", most="width")
    heads = fields.number("num_attention_heads", "n_head", "n_heads", "num_heads", most="heads")
    head_dim = fields.number("head_dim", "d_kv", "d_head", "attention_head_size", most="width", default=width // heads)
    return width, heads, head_dim


def check_layer_types(fields: Fields, count: int) -> None:
    """See that ``layer_types``, where it is given, names the kind of each of so many layers; it does not count as read.

    Raises:
        ValueError: if it is no list of names, or of another length.
    """
    kinds = fields.peek("layer_types")
    if kinds is None:
        return
    if not isinstance(kinds, list | tuple) or not all(isinstance(kind, str) for kind in kinds):
        raise ValueError(f"layer_types must be a list with a name for each layer, got {short(kinds)}")
    if len(kinds) != count:
        raise ValueError(f"layer_types must have as many names as there are layers, {count}, got {len(kinds)}")


def layer_type(fields: Fields, layer: int, default: str, short_layers: str = SLIDING) -> str:
    """What ``layer_types`` says of a layer, or else the default.

    Raises:
        ValueError: a name that layers of this family do not have.
    """
    kinds = fields.given("layer_types")
    if kinds is None:
        return default
    kind = {"attention": FULL}.get(kinds[layer], kinds[layer])  # its name of old
    if kind not in (FULL, short_layers):
        raise ValueError(f"layer_types must be {FULL} or {short_layers}, got {short(kind)} for layer {layer}")
    return kind


def flag(fields: Fields, name: str, layer: int, default: bool, empty: bool = False) -> bool:
    """What a list of 0 and 1 says of a layer, or else the default; ``empty``: an empty list is as if absent."""
    flags = fields.given(name)
    if flags is None or (empty and flags == []):
        return default
    if not isinstance(flags, list | tuple) or len(flags) <= layer or flags[layer] not in (0, 1):
        raise ValueError(f"{name} must be a list of 0 and 1 for each layer, got {short(flags)}")
    return bool(flags[layer])


def short(value: object) -> str:
    """A value in an error, cut where it is long."""
    text = repr(value)
    return text if len(text) < 80 else f"{text[:77]}..."


def window_of(fields: Fields, default: int | None = None) -> int | None:
    """``sliding_window``: the default where the field is missing, None where it is null."""
    names = [name for name in ("sliding_window", "sliding_window_size") if name in fields]
    given = [fields[name] for name in names]
    if not names:
        return default
    return None if given[0] is None else fields.number(names[0], most="positions")


def needed(fields: Fields, *names: str, default: int) -> int:
    """A number of keys that the layers of a family cannot do without; the field may have several names.

    Raises:
        ValueError: if it is null.
    """
    found = {name: fields[name] for name in names if name in fields}  # all are read, the first decides
    name = next(iter(found), names[0])
    if found.get(name, default) is None:
        raise ValueError(f"{name} must be a number of tokens in this family, got None")
    return fields.number(name, most="positions", default=default)


def needed_window(fields: Fields, default: int) -> int:
    """``sliding_window`` of a family whose layers cannot do without."""
    return needed(fields, "sliding_window", "sliding_window_size", default=default)


def has_short_layers(fields: Fields) -> bool:
    """Whether ``layer_types`` is given and names a layer with a window."""
    return SLIDING in (fields.given("layer_types") or ())


@dataclass(frozen=True)
class Rope:
    """What a configuration says of the rotation: base, share of the components, and method."""

    base: float
    fraction: float
    fields: Fields  # of the method
    original: int | None

    def scaling(self, head_dim: int, longest: int, length: int | None) -> Mapping[str, Any] | None:
        """The method as ``Rotary`` takes it."""
        method = self.fields.given("rope_type", "type", default="default")
        if not isinstance(method, str):
            raise TypeError(f"rope_type must be a name, got {short(method)}")
        if method in ("default", "mrope", "axial"):
            return None
        original = self.fields.given("original_max_position_embeddings", default=self.original or longest)
        factor = self.fields.given("factor")
        own = self.fields.given("attention_factor")
        made: dict[str, Any] = {"rope_type": {"su": "longrope"}.get(method, method)}
        match made["rope_type"]:
            case "linear":
                made["factor"] = factor
            case "dynamic":
                made |= {"factor": factor, "length": max(length or 0, longest)}
                made["original_max_position_embeddings"] = longest
            case "llama3":
                made |= {name: self.fields.given(name) for name in ("low_freq_factor", "high_freq_factor")}
                made |= {"factor": factor, "original_max_position_embeddings": original}
            case "yarn":
                factor = longest / original if factor is None else factor
                made |= {"factor": factor, "original_max_position_embeddings": original}
                made["beta_fast"] = self.fields.given("beta_fast") or 32
                made["beta_slow"] = self.fields.given("beta_slow") or 1
                made["truncate"] = bool(self.fields.given("truncate", default=True))
                several = [self.fields.given(name) for name in ("mscale", "mscale_all_dim")]
                if own is None and all(several):
                    own = mscale(factor, several[0]) / mscale(factor, several[1])
            case "longrope":
                lists = {name: self.fields.given(name) for name in ("short_factor", "long_factor")}
                made["long_factor"] = lists["long_factor" if (length or longest) > original else "short_factor"]
                factor = longest / original if factor is None else factor
                made |= {"factor": max(factor, 1.0), "original_max_position_embeddings": original}
            case "proportional":
                made |= {"partial_rotary_factor": self.fraction, "factor": 1.0 if factor is None else factor}
        if own is not None:
            made["attention_factor"] = own
        return made


def mscale(factor: float, weight: float) -> float:
    """YaRN's factor of queries and keys with a weight: 1 + .1 weight ln s; 1 for s up to 1."""
    return 0.1 * validate.real("mscale", weight) * math.log(factor) + 1.0 if factor > 1 else 1.0


def rope_of(fields: Fields, kind: str = "", base: float = 10_000.0, fraction: float | None = None) -> Rope:
    """The rotation of the layers of a kind; of files with one field for each thing and of those with one for all.

    Args:
        fields: of the file.
        kind: of the layers, where a file has a rotation for each.
        base: where the file has none.
        fraction: of the components that rotate, where the file has none; None where transformers does not ask for it,
            and all do.
    """
    parameters = fields.part("rope_parameters")
    if kind and kind in parameters:
        parameters = parameters.part(kind)
    if not len(parameters):
        parameters = fields.part("rope_scaling")
    return Rope(
        base=parameters.given("rope_theta", default=fields.given("rope_theta", "rotary_emb_base", default=base)),
        fraction=1.0
        if fraction is None
        else parameters.given(
            "partial_rotary_factor", default=fields.given("partial_rotary_factor", "rotary_pct", default=fraction)
        ),
        fields=parameters,
        original=fields.given("original_max_position_embeddings"),
    )
