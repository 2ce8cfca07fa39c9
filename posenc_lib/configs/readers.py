"""How the configuration of each type of model is read; transformers says what a field that is missing means."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.configs.fields import (
    FULL,
    MOST,
    SLIDING,
    Fields,
    Rope,
    flag,
    has_short_layers,
    layer_type,
    layers_of,
    mscale,
    needed,
    needed_window,
    rope_of,
    short,
    sizes,
    window_of,
)
from posenc_lib.configs.reading import Reading
from posenc_lib.scheme import PositionScheme
from posenc_lib.schemes.alibi import Alibi
from posenc_lib.schemes.deberta import Deberta
from posenc_lib.schemes.decoupled import DecoupledRotary
from posenc_lib.schemes.grid import MRope
from posenc_lib.schemes.learned import Learned
from posenc_lib.schemes.none import NoPosition
from posenc_lib.schemes.rope import Rotary
from posenc_lib.schemes.t5 import T5Bias
from posenc_lib.schemes.temperature import QueryTemperature
from posenc_lib.schemes.xlnet import XLNet

S = TypeVar("S", bound=PositionScheme)
Reader = Callable[[Fields, int, int | None], Reading]
READERS: dict[str, Reader] = {}


def reads(*model_types: str) -> Callable[[Reader], Reader]:
    """Enter a function into the table of readers."""

    def enter(reader: Reader) -> Reader:
        READERS.update(dict.fromkeys(model_types, reader))
        return reader

    return enter


def _without_numbers(scheme_class: type[S], *arguments: Any, numbers: int) -> S:
    """A scheme whose trained numbers take no memory; ``load_state_dict(..., assign=True)`` puts them in.

    Raises:
        ValueError: if they are more than any model has.
    """
    if numbers > MOST["numbers"]:
        raise ValueError(f"a table of {numbers} numbers is more than the {MOST['numbers']} that are taken for possible")
    with torch.device("meta"):
        return scheme_class(*arguments)


def _learned(fields: Fields, *names: str, extra: int = 0) -> Learned:
    """A learned table of so many positions."""
    width = fields.number("embedding_size", most="width", default=sizes(fields)[0])
    rows = fields.number(*names, most="positions") + extra
    return _without_numbers(Learned, width, rows, numbers=rows * width)


def _rotary(
    fields: Fields, rope: Rope, length: int | None, layout: str = "half", head_dim: int | None = None
) -> Rotary:
    """The scheme, from what is said of the rotation."""
    head_dim = sizes(fields)[2] if head_dim is None else head_dim
    longest = fields.number("max_position_embeddings", "n_positions", most="positions", default=2048)
    scaling = rope.scaling(head_dim, longest, length)
    fraction = 1.0 if scaling and scaling["rope_type"] == "proportional" else rope.fraction
    return Rotary(head_dim, rope.base, layout, fraction, scaling)


def _plain(scheme: PositionScheme, **others: Any) -> Reading:
    return Reading("", 0, scheme, **others)


def _added(table: Learned, **others: Any) -> Reading:
    """A table that is added to the input; attention itself is not told."""
    return _plain(NoPosition(), notebook="02_learned", input_scheme=table, **others)


CHUNKED = "chunked_attention"
ROPE, EXTENDED, NOTHING = "13_rope", "14_context_extension", "00_none"
IN_USE, NEAR_AND_FAR = "18_in_use", "21_near_and_far"


def _rotating(scheme: Rotary, **others: Any) -> Reading:
    method = scheme.rope_scaling["rope_type"] if isinstance(scheme.rope_scaling, dict) else None
    here = isinstance(scheme, DecoupledRotary) or method == "proportional"
    return _plain(scheme, notebook=IN_USE if here else EXTENDED if method else ROPE, **others)


@reads("gpt2", "openai-gpt")
def _gpt2(fields: Fields, layer: int, length: int | None) -> Reading:
    scale = sizes(fields)[2] ** -0.5 if fields.given("scale_attn_weights", default=True) else 1.0
    if fields.given("scale_attn_by_inverse_layer_idx"):
        scale /= layer + 1
    table = _learned(fields, "n_positions", "n_ctx")
    return _added(table, scale=scale)


@reads("gpt_neo")
def _gpt_neo(fields: Fields, layer: int, length: int | None) -> Reading:
    kinds = fields.given("attention_layers")
    groups = fields.given("attention_types", default=[[["global", "local"], MOST["layers"]]])
    if kinds is None:
        if not isinstance(groups, list | tuple) or not all(_is_group(group) for group in groups):
            raise ValueError(f"attention_types must be a list of [[kinds], times], got {short(groups)}")
        kinds = [kind for names, times in groups for kind in names * min(times, layer // len(names) + 1)]
    if not isinstance(kinds, list | tuple) or len(kinds) <= layer:
        raise ValueError(f"attention_types must name the kind of each layer, got {short(kinds)} for layer {layer}")
    window = fields.number("window_size", most="positions", default=256)
    table = _learned(fields, "max_position_embeddings")
    return _added(table, scale=1.0, window=window if kinds[layer] == "local" else None)


def _is_group(group: Any) -> bool:
    match group:
        case [[_, *_] as names, int(times)]:
            return all(isinstance(name, str) for name in names) and 0 < times <= MOST["layers"]
    return False


@reads("opt")
def _opt(fields: Fields, layer: int, length: int | None) -> Reading:
    table = _learned(fields, "max_position_embeddings")
    return _added(table, first_row=2)


@reads("bert", "electra", "distilbert")
def _bert(fields: Fields, layer: int, length: int | None) -> Reading:
    fields.given("position_embedding_type")
    return _added(_learned(fields, "max_position_embeddings"), causal=False)


@reads("roberta", "xlm-roberta", "camembert")
def _roberta(fields: Fields, layer: int, length: int | None) -> Reading:
    first = fields.number("pad_token_id", most="positions", default=1) + 1
    fields.given("position_embedding_type")
    table = _learned(fields, "max_position_embeddings", extra=-first)
    return _added(table, first_row=first, causal=False)


@reads("t5", "mt5")
def _t5(fields: Fields, layer: int, length: int | None) -> Reading:
    encoder = layer < fields.number("num_layers", most="layers")
    buckets = fields.number("relative_attention_num_buckets", most="heads", default=32)
    distance = fields.number("relative_attention_max_distance", most="positions", default=128)
    return _plain(T5Bias(sizes(fields)[1], encoder, buckets, distance), notebook="11_t5", causal=not encoder)


@reads("deberta-v2")
def _deberta(fields: Fields, layer: int, length: int | None) -> Reading:
    _, heads, head_dim = sizes(fields)
    longest = fields.number("max_position_embeddings", most="positions")
    if not fields.given("relative_attention", default=False):
        return _added(_learned(fields, "max_position_embeddings"), causal=False)
    kinds = fields.given("pos_att_type", default=[])
    kinds = kinds.split("|") if isinstance(kinds, str) else kinds
    if not isinstance(kinds, list | tuple) or {*map(str, kinds)} != {"c2p", "p2c"}:
        raise ValueError(f"pos_att_type must be c2p and p2c, got {short(kinds)}")
    farthest = fields.given("max_relative_positions", default=-1)
    farthest = longest if farthest < 1 else fields.number("max_relative_positions", most="positions")
    buckets = fields.given("position_buckets", default=-1)
    buckets = fields.number("position_buckets", most="positions") if buckets > 0 else None
    for name in ("share_att_key", "norm_rel_ebd", "position_biased_input"):
        fields.given(name)
    table = _learned(fields, "max_position_embeddings") if fields.given("position_biased_input", default=True) else None
    width = heads * head_dim
    numbers = width * (2 * width + 2 * (buckets or farthest))
    scheme = _without_numbers(PublishedDeberta, heads, head_dim, farthest, buckets, numbers=numbers)
    return _plain(scheme, notebook="10_deberta", input_scheme=table, causal=False)


class PublishedDeberta(Deberta):
    """Version 2 as its code has it: delta(i, j) chooses in the third term too, and keys of the table have a bias."""

    name = "DeBERTa"

    def __init__(self, num_heads: int, head_dim: int, max_relative_positions: int, position_buckets: int | None = None):
        super().__init__(num_heads, head_dim, max_relative_positions, position_buckets)
        self.key_proj = nn.Linear(num_heads * head_dim, num_heads * head_dim)

    def per_pair(self, query_positions: Tensor, key_positions: Tensor) -> tuple[Tensor, ...]:
        """As of the scheme, with delta(i, j) twice."""
        keys, queries, chosen, _ = super().per_pair(query_positions, key_positions)
        return keys, queries, chosen, chosen


@reads("xlnet")
def _xlnet(fields: Fields, layer: int, length: int | None) -> Reading:
    _, heads, head_dim = sizes(fields)
    if fields.given("clamp_len", default=-1) > 0:
        raise ValueError(f"clamp_len must be -1, got {fields['clamp_len']}: distances that are cut are not read")
    scheme = _without_numbers(XLNet, heads, head_dim, numbers=(heads * head_dim) ** 2)
    return _plain(scheme, notebook="06_xlnet", causal=False)


@reads("bloom")
def _bloom(fields: Fields, layer: int, length: int | None) -> Reading:
    return _plain(Alibi(sizes(fields)[1]), notebook="12_alibi")


@reads("mpt")
def _mpt(fields: Fields, layer: int, length: int | None) -> Reading:
    inner = fields.part("attn_config")
    scale = inner.given("softmax_scale")
    if not inner.given("alibi", default=True):
        return _added(_learned(fields, "max_seq_len"), scale=scale)
    if inner.given("alibi_bias_max", default=8) != 8:
        raise ValueError(f"attn_config.alibi_bias_max must be 8, got {inner['alibi_bias_max']}")
    return _plain(Alibi(sizes(fields)[1]), notebook="12_alibi", scale=scale)


@reads("falcon")
def _falcon(fields: Fields, layer: int, length: int | None) -> Reading:
    scheme = _rotary(fields, rope_of(fields), length)
    if fields.given("alibi", default=False):
        return _plain(ScaledAlibi(*sizes(fields)[1:]), notebook="12_alibi")
    return _rotating(scheme)


class ScaledAlibi(Alibi):
    """Falcon divides the penalty by the square root of d, as it does the dot product."""

    name = "ALiBi"

    def __init__(self, num_heads: int, head_dim: int):
        super().__init__(num_heads)
        self.head_dim = head_dim

    def distance_bias(self, relative_position: Tensor) -> Tensor:
        """(H, R) float64 bias -m_h |j - i| / sqrt(d)."""
        return super().distance_bias(relative_position) * self.head_dim**-0.5


@reads("gptj")
def _gptj(fields: Fields, layer: int, length: int | None) -> Reading:
    head_dim = sizes(fields)[2]
    fields.given("rotary")
    rotated = fields.number("rotary_dim", most="width", default=64)
    return _rotating(Rotary(head_dim, layout="interleaved", rotary_fraction=rotated / head_dim))


@reads("gpt_neox")
def _gpt_neox(fields: Fields, layer: int, length: int | None) -> Reading:
    return _rotating(_rotary(fields, rope_of(fields, fraction=0.25), length))


@reads("llama", "olmo2", "phi", "stablelm")
def _llama(fields: Fields, layer: int, length: int | None) -> Reading:
    fraction = {"phi": 0.5, "stablelm": 0.25}.get(fields.given("model_type"))
    return _rotating(_rotary(fields, rope_of(fields, fraction=fraction), length))


@reads("mistral", "ministral", "mixtral", "phi3", "starcoder2")
def _mistral(fields: Fields, layer: int, length: int | None) -> Reading:
    family = fields.given("model_type")
    base, fraction = 1_000_000.0 if family == "mixtral" else 10_000.0, 1.0 if family == "phi3" else None
    scheme = _rotary(fields, rope_of(fields, base=base, fraction=fraction), length)
    if family == "ministral" or (family == "mistral" and "layer_types" in fields):  # read as Ministral's file
        window, kind = needed_window(fields, 4096), layer_type(fields, layer, SLIDING)
        return _rotating(scheme, window=window if kind == SLIDING else None)
    return _rotating(scheme, window=window_of(fields, 4096 if family == "mistral" else None))


@reads("ministral3")
def _ministral3(fields: Fields, layer: int, length: int | None) -> Reading:
    rope = rope_of(fields, base=1_000_000.0)
    rope.fields.given("max_position_embeddings")
    beta, every = rope.fields.given("llama_4_scaling_beta"), rope.fields.given("original_max_position_embeddings")
    scheme: PositionScheme = _rotary(fields, rope, length)
    if beta is not None:
        scheme = QueryTemperature(every, beta, scheme=scheme)
    return _plain(scheme, notebook=EXTENDED, window=window_of(fields))


def _check_window(fields: Fields, window: int | None, used: bool = True) -> None:
    """See that there is a window where ``layer_types`` names layers that have one.

    Raises:
        ValueError: if there is none.
    """
    if window is None and has_short_layers(fields):
        name, allowed = ("sliding_window", "a number of tokens") if used else ("use_sliding_window", "true")
        raise ValueError(f"{name} must be {allowed} where layer_types names {SLIDING}, got {fields.given(name)}")


def _qwen_window(fields: Fields, layer: int) -> int | None:
    """Qwen's window, which ``use_sliding_window`` takes from all layers; without the list they have it by number."""
    used = bool(fields.given("use_sliding_window", default=False))
    family, first = fields.given("model_type"), fields.given("max_window_layers", default=28)
    fields.given("sliding_window")
    choose = needed_window if family == "qwen2_moe" else window_of
    window = choose(fields, 4096) if used else None
    _check_window(fields, window, used)
    if window is None or family == "qwen3_moe":  # there all layers have it
        return window
    short = layer % 2 == 0 and layer < first if family == "qwen2_moe" else layer >= first
    return window if layer_type(fields, layer, SLIDING if short else FULL) == SLIDING else None


@reads("qwen2", "qwen3", "qwen2_moe", "qwen3_moe")
def _qwen(fields: Fields, layer: int, length: int | None) -> Reading:
    window = _qwen_window(fields, layer)
    head_dim = 128 if fields.given("model_type") == "qwen3" and fields.given("head_dim") is None else None
    scheme = _rotary(fields, rope_of(fields), length, head_dim=head_dim)
    return _rotating(scheme, window=window)


@reads("qwen3_vl", "qwen2_vl", "qwen2_5_vl", "qwen3_vl_text", "qwen2_vl_text", "qwen2_5_vl_text")
def _qwen_vl(fields: Fields, layer: int, length: int | None) -> Reading:
    third = fields.given("model_type").startswith("qwen3")
    rope = rope_of(fields, base=500_000.0 if third else 1_000_000.0)
    rope.fields.given("rope_type", "type"), rope.fields.given("mrope_interleaved")
    sections = rope.fields.given("mrope_section", default=[24, 20, 20] if third else [16, 24, 24])
    head_dim = 128 if third and fields.given("head_dim") is None else sizes(fields)[2]
    scheme = MRope(head_dim, sections, rope.base, "half", third)
    if third:
        return _plain(scheme, notebook="16_grid")
    return _plain(scheme, notebook="16_grid", window=_qwen_window(fields, layer))


# Where layers differ, what all kinds need is read before one is chosen, so that a field of other layers is not unread.
@reads("gemma", "gemma2")
def _gemma2(fields: Fields, layer: int, length: int | None) -> Reading:
    scheme = _rotary(fields, rope_of(fields), length, head_dim=fields.number("head_dim", most="width", default=256))
    if fields.given("model_type") == "gemma":
        return _rotating(scheme)
    kind, window = layer_type(fields, layer, FULL if layer % 2 else SLIDING), needed_window(fields, 4096)
    return _rotating(scheme, window=window if kind == SLIDING else None, **_gemma_scores(fields))


def _gemma_scores(fields: Fields, softcap: float | None = 50.0) -> dict[str, float | None]:
    scale = validate.real("query_pre_attn_scalar", fields.given("query_pre_attn_scalar", default=256), above=0) ** -0.5
    return {"scale": scale, "softcap": fields.get("attn_logit_softcapping", softcap)}


def _every(fields: Fields, layer: int, default: int) -> str:
    """Of so many layers the last is a global one."""
    pattern = fields.number("sliding_window_pattern", "_sliding_window_pattern", most="layers", default=default)
    return layer_type(fields, layer, SLIDING if (layer + 1) % pattern else FULL)


@reads("gemma3", "gemma3_text")
def _gemma3(fields: Fields, layer: int, length: int | None) -> Reading:
    kind, window = _every(fields, layer, 6), needed_window(fields, 4096)
    causal = not fields.given("use_bidirectional_attention", default=False)
    window = window if causal else window // 2 + 1
    head_dim, scores = fields.number("head_dim", most="width", default=256), _gemma_scores(fields, None)
    local = fields.part("rope_parameters").part(SLIDING)
    base = local.given("rope_theta", default=fields.given("rope_local_base_freq", default=10_000.0))
    ropes = {
        FULL: rope_of(fields, FULL, 1_000_000.0),
        SLIDING: Rope(base, 1.0, local, None),
    }  # only the first is scaled
    schemes = {name: _rotary(fields, rope, length, head_dim=head_dim) for name, rope in ropes.items()}
    return _rotating(schemes[kind], causal=causal, window=window if kind == SLIDING else None, **scores)


@reads("gemma4", "gemma4_text")
def _gemma4(fields: Fields, layer: int, length: int | None) -> Reading:
    kind = _every(fields, layer, 6)
    kind = FULL if layer == layers_of(fields) - 1 else kind
    window, ropes = needed_window(fields, 512), {name: rope_of(fields, name, fraction=1.0) for name in (FULL, SLIDING)}
    if not len(ropes[FULL].fields):
        ropes[FULL] = Rope(1_000_000.0, 0.25, Fields({"rope_type": "proportional"}), None)
    own = fields.part("per_layer_config")
    others = {name: own.part(name).number("head_dim", most="width", default=256) for name in own}
    wide = fields.number("global_head_dim", most="width", default=others.get(str(layer), 512))
    widths = {FULL: wide, SLIDING: fields.number("head_dim", most="width", default=256)}
    schemes = {name: _rotary(fields, rope, length, head_dim=widths[name]) for name, rope in ropes.items()}
    causal = fields.given("use_bidirectional_attention") != "all"  # "vision": the parts of a picture see each other
    return _rotating(schemes[kind], causal=causal, scale=1.0, window=window if kind == SLIDING else None)


@reads("cohere2")
def _cohere2(fields: Fields, layer: int, length: int | None) -> Reading:
    kind, window = _every(fields, layer, 4), needed_window(fields, 4096)
    scheme = _rotary(fields, rope_of(fields), length, "interleaved")
    return _rotating(scheme, window=window) if kind == SLIDING else _plain(NoPosition(), notebook=NOTHING)


@reads("smollm3")
def _smollm3(fields: Fields, layer: int, length: int | None) -> Reading:
    every = fields.number("no_rope_layer_interval", most="layers", default=4)
    rotates = flag(fields, "no_rope_layers", layer, (layer + 1) % every != 0)
    fields.given("max_window_layers")  # no layer asks for it
    used = fields.given("use_sliding_window", default=False)  # asked by masks only where there is no list of kinds
    fields.given("sliding_window")
    window = window_of(fields) if used or has_short_layers(fields) else None
    _check_window(fields, window)
    window = window if layer_type(fields, layer, FULL if rotates else SLIDING) == SLIDING else None
    scheme = _rotary(fields, rope_of(fields, base=2_000_000.0), length)
    return _rotating(scheme, window=window) if rotates else _plain(NoPosition(), notebook=NOTHING, window=window)


@reads("llama4", "llama4_text")
def _llama4(fields: Fields, layer: int, length: int | None) -> Reading:
    every = fields.number("no_rope_layer_interval", most="layers", default=4)
    rotates = flag(fields, "no_rope_layers", layer, (layer + 1) % every != 0, empty=True)
    pieces = needed(fields, "attention_chunk_size", default=8192)
    chunk = pieces if layer_type(fields, layer, CHUNKED if rotates else FULL, CHUNKED) == CHUNKED else None
    beta, step = fields.given("attn_scale", default=0.1), fields.given("floor_scale", default=8192)
    tuned = fields.given("attn_temperature_tuning", default=True)
    scheme = _rotary(
        fields,
        rope_of(fields, base=500_000.0),
        length,
        "interleaved",
        fields.number("head_dim", most="width", default=128),
    )
    if rotates:
        return _rotating(scheme, chunk=chunk)
    if tuned:
        return _plain(QueryTemperature(step, beta, first=1), notebook=NEAR_AND_FAR, chunk=chunk)
    return _plain(NoPosition(), notebook=NOTHING, chunk=chunk)


@reads("gpt_oss")
def _gpt_oss(fields: Fields, layer: int, length: int | None) -> Reading:
    kind, window = layer_type(fields, layer, FULL if layer % 2 else SLIDING), needed_window(fields, 128)
    fields.given("initial_context_length")
    rope, head_dim = rope_of(fields, base=150_000.0), fields.number("head_dim", most="width", default=64)
    scheme = _rotary(fields, rope, length, head_dim=head_dim)
    return _rotating(scheme, window=window if kind == SLIDING else None, sinks=True)


@reads("deepseek_v3", "kimi_k2")
def _deepseek(fields: Fields, layer: int, length: int | None) -> Reading:
    content = fields.number("qk_nope_head_dim", most="width", default=128)
    rotated = fields.number("qk_rope_head_dim", most="width", default=64)
    longest = fields.number("max_position_embeddings", most="positions", default=4096)
    fields.given("qk_head_dim", "head_dim"), fields.given("v_head_dim")
    rope, width = rope_of(fields), content + rotated
    scaling = rope.scaling(rotated, longest, length)
    layout = "interleaved" if fields.given("rope_interleave", default=True) else "half"
    scale, weight = width**-0.5, rope.fields.given("mscale_all_dim", default=0)
    if scaling and weight:
        scale *= mscale(scaling["factor"], weight) ** 2
    scheme = DecoupledRotary(width, rotated / width, rope.base, layout, scaling)
    return _rotating(scheme, scale=scale)
