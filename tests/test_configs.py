"""What is read from a configuration gives the attention of the model that transformers makes of it."""

import itertools
import json
import re
import time

import pytest
import torch
import transformers

from posenc_lib.configs import cached_numbers, public_models, scheme_of, shared_parameters, shipped
from posenc_lib.configs.__main__ import main
from posenc_lib.lab.catalog import scheme_classes
from posenc_lib.schemes.decoupled import decoupled_key
from posenc_lib.schemes.learned import positions_without_padding

transformers.utils.logging.set_verbosity_error()
SMALL = {
    "vocab_size": 50,
    "hidden_size": 64,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
HALF_WINDOW = {"sliding_window": 5}
SHORT_FIRST = ["sliding_attention", "sliding_attention", "full_attention", "full_attention"]
KINDS = HALF_WINDOW | {"layer_types": SHORT_FIRST}
EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 1,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
LONGROPE = {
    "type": "longrope",
    "short_factor": [1.0 + 0.1 * t for t in range(8)],
    "long_factor": [2.0 + t for t in range(8)],
}

# By name: the type, and what its file has beside SMALL.
CASES = {
    "gpt2": ("gpt2", {"n_positions": 64, "scale_attn_by_inverse_layer_idx": True}),
    "gpt_neo": (
        "gpt_neo",
        {"attention_types": [[["global", "local"], 2]], "window_size": 5, "num_layers": 4, "num_heads": 4},
    ),
    "opt": ("opt", {"ffn_dim": 48, "word_embed_proj_dim": 64}),
    "bert": ("bert", {}),
    "roberta": ("roberta", {"pad_token_id": 1}),
    "bloom": ("bloom", {"n_layer": 4, "n_head": 4}),
    "bloom, 6 heads": ("bloom", {"n_layer": 4, "n_head": 6, "hidden_size": 96}),
    "mpt": ("mpt", {"d_model": 64, "n_heads": 4, "n_layers": 4, "max_seq_len": 64}),
    "falcon": ("falcon", {"alibi": False}),
    "falcon, alibi": ("falcon", {"alibi": True}),
    "gptj": ("gptj", {"rotary_dim": 8, "n_positions": 64, "n_embd": 64, "n_layer": 4, "n_head": 4}),
    "gpt_neox": ("gpt_neox", {"rotary_pct": 0.5, "rotary_emb_base": 1000}),
    "llama": ("llama", {"rope_theta": 500.0}),
    "llama, wide heads": ("llama", {"head_dim": 24}),
    "llama, linear": ("llama", {"rope_scaling": {"type": "linear", "factor": 4.0}}),
    "llama, dynamic": ("llama", {"rope_scaling": {"type": "dynamic", "factor": 2.0}, "max_position_embeddings": 8}),
    "llama, yarn": ("llama", {"rope_scaling": YARN}),
    "llama, llama3": (
        "llama",
        {
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
            }
        },
    ),
    "llama, new names": ("llama", {"rope_parameters": YARN | {"rope_theta": 300.0, "beta_fast": 8}}),
    "olmo2": ("olmo2", {}),
    "phi": ("phi", {}),
    "stablelm": ("stablelm", {}),
    "mistral": ("mistral", HALF_WINDOW),
    "ministral": ("ministral", {"head_dim": 16} | HALF_WINDOW),
    "ministral, kinds": ("ministral", {"head_dim": 16} | KINDS),
    "mixtral": ("mixtral", HALF_WINDOW),
    "starcoder2": ("starcoder2", HALF_WINDOW),
    "ministral3": (
        "ministral3",
        {
            "head_dim": 16,
            "rope_parameters": YARN
            | {
                "original_max_position_embeddings": 4,
                "mscale": 1.0,
                "mscale_all_dim": 0.5,
                "llama_4_scaling_beta": 0.3,
                "rope_theta": 1000.0,
            },
        },
    ),
    "qwen2": ("qwen2", {"use_sliding_window": True, "max_window_layers": 2} | HALF_WINDOW),
    "qwen2, the window not used": ("qwen2", {"use_sliding_window": False, "max_window_layers": 2} | HALF_WINDOW),
    "qwen2, no number": ("qwen2", {"use_sliding_window": True, "max_window_layers": 2, "sliding_window": None}),
    "qwen2, kinds": ("qwen2", {"use_sliding_window": True, "max_window_layers": 2} | KINDS),
    "qwen2_moe": ("qwen2_moe", {"use_sliding_window": True, "max_window_layers": 3} | HALF_WINDOW | EXPERTS),
    "qwen2_moe, kinds": ("qwen2_moe", {"use_sliding_window": True} | KINDS | EXPERTS),
    "qwen2_moe, the window not used": ("qwen2_moe", {"use_sliding_window": False} | HALF_WINDOW | EXPERTS),
    "qwen3": ("qwen3", {"head_dim": 24}),
    "qwen3, kinds": ("qwen3", {"head_dim": 24, "use_sliding_window": True} | KINDS),
    "qwen3_moe": ("qwen3_moe", {"head_dim": 16, "use_sliding_window": True} | HALF_WINDOW | EXPERTS),
    "qwen3_moe, the window not used": (
        "qwen3_moe",
        {"head_dim": 16, "use_sliding_window": False} | HALF_WINDOW | EXPERTS,
    ),
    "qwen3_vl": (
        "qwen3_vl_text",
        {
            "head_dim": 16,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1000.0,
                "mrope_section": [4, 2, 2],
                "mrope_interleaved": True,
            },
        },
    ),
    "phi3": ("phi3", {"partial_rotary_factor": 0.5, "rope_theta": 500.0} | HALF_WINDOW),
    "phi3, short": (
        "phi3",
        {
            "original_max_position_embeddings": 32,
            "rope_scaling": LONGROPE,
        },
    ),
    "phi3, long": (
        "phi3",
        {
            "original_max_position_embeddings": 7,
            "rope_scaling": LONGROPE,
        },
    ),
    "gemma": ("gemma", {"head_dim": 16}),
    "gemma2": ("gemma2", {"head_dim": 16, "query_pre_attn_scalar": 8, "attn_logit_softcapping": 2.0} | HALF_WINDOW),
    "gemma3": (
        "gemma3_text",
        {
            "head_dim": 16,
            "sliding_window_pattern": 2,
            "rope_local_base_freq": 100.0,
            "rope_theta": 5000.0,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
            "query_pre_attn_scalar": 8,
        }
        | HALF_WINDOW,
    ),
    "gemma3, both sides": ("gemma3_text", {"head_dim": 16, "use_bidirectional_attention": True} | HALF_WINDOW),
    "gemma4": (
        "gemma4_text",
        {
            "head_dim": 16,
            "global_head_dim": 32,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "hidden_size_per_layer_input": 0,
        }
        | HALF_WINDOW,
    ),
    "cohere2": ("cohere2", HALF_WINDOW),
    "smollm3": ("smollm3", {"use_sliding_window": True} | HALF_WINDOW),
    "smollm3, the window not used": ("smollm3", {"use_sliding_window": False} | HALF_WINDOW),
    "smollm3, kinds": ("smollm3", {"use_sliding_window": True} | KINDS),
    "smollm3, kinds ask no flag": ("smollm3", {"use_sliding_window": False} | KINDS),
    "llama4": (
        "llama4_text",
        {
            "head_dim": 16,
            "attention_chunk_size": 6,
            "floor_scale": 4,
            "attn_scale": 0.3,
            "num_local_experts": 2,
            "intermediate_size_mlp": 48,
            "moe_layers": [],
        },
    ),
    "gpt_oss": (
        "gpt_oss",
        {
            "head_dim": 16,
            "num_local_experts": 2,
            "num_experts_per_tok": 1,
            "sliding_window": 5,
            "rope_scaling": YARN | {"truncate": False},
        },
    ),
    "deepseek_v3": (
        "deepseek_v3",
        {
            "num_key_value_heads": 4,
            "q_lora_rank": 12,
            "kv_lora_rank": 10,
            "qk_nope_head_dim": 10,
            "qk_rope_head_dim": 6,
            "v_head_dim": 8,
            "first_k_dense_replace": 4,
            "n_routed_experts": 4,
            "n_group": 2,
            "topk_group": 1,
            "num_experts_per_tok": 1,
            "rope_scaling": YARN | {"mscale": 1.0, "mscale_all_dim": 0.7, "type": "yarn"},
        },
    ),
}
CAUSAL = [name for name in CASES if name not in ("bert", "roberta", "gemma3, both sides")]
# In the eager attention of transformers 5.23 Falcon's ALiBi is added twice, with the mask and to the scores; in its
# default, which is compared below, once.
EAGER = [name for name in CASES if name != "falcon, alibi"]
L, FIRST = 13, 8
CLOSE = {"rtol": 0, "atol": 1e-5}


def model_of(name):
    """The type of a case, what is in its file, a small random model of it, and its modules of attention."""
    model_type, others = CASES[name]
    config = transformers.AutoConfig.for_model(model_type, **SMALL | others)
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(config).eval()
    for parameter in model.parameters():
        if parameter.dim() == 2:
            parameter.data.mul_(5)  # or all scores are close to 0
        if parameter.dim() == 1:
            parameter.data.add_(torch.randn_like(parameter) / 4)
    parts = {"q_proj", "query", "c_attn", "qkv_proj", "Wqkv", "query_key_value", "q_b_proj"}
    layers = [
        m for m in model.modules() if parts & {n for n, _ in m.named_children()} and "ttention" in type(m).__name__
    ]
    return {"model_type": model_type} | SMALL | others, model, layers


def watched(layers):
    """What the parts of attention say, in the order of their calls, by layer and name."""
    said = [{} for _ in layers]
    for layer, found in zip(layers, said, strict=True):
        for name, part in layer.named_children():
            part.register_forward_hook(lambda _, x, y, name=name, found=found: found.setdefault(name, []).append(y))
    return said


def projected(said, config, layer, length):
    """Queries (B, H, L, d) and keys of a layer before position is applied, keys of a group repeated."""
    heads = config.num_attention_heads
    head_dim = getattr(layer, "head_dim", None) or config.hidden_size // heads

    def cut(x):
        if x.dim() == 3:
            return x.unflatten(-1, (-1, head_dim)).transpose(1, 2)
        return x if x.shape[2] == length else x.transpose(1, 2)

    if "q_b_proj" in said:
        q = said["q_b_proj"].unflatten(-1, (heads, -1)).transpose(1, 2)
        own = (
            said["kv_b_proj"]
            .squeeze(1)
            .unflatten(-1, (heads, -1))
            .transpose(1, 2)[..., -length:, : config.qk_nope_head_dim]
        )
        shared = said["kv_a_proj_with_mqa"][..., -config.qk_rope_head_dim :]
        return q, decoupled_key(own, shared)
    if "query_key_value" in said and config.model_type == "falcon":
        x = cut(said["query_key_value"])
        q, k = x[:, :heads], x[:, heads : heads + 1]
    elif "query_key_value" in said:
        q, k, _ = said["query_key_value"].unflatten(-1, (heads, 3, head_dim)).permute(3, 0, 2, 1, 4)
    elif "qkv_proj" in said:
        x = cut(said["qkv_proj"])
        q, k = x[:, :heads], x[:, heads : (heads + x.shape[1]) // 2]
    elif "c_attn" in said or "Wqkv" in said:
        q, k, _ = said["c_attn" if "c_attn" in said else "Wqkv"].chunk(3, -1)
        q, k = cut(q), cut(k)
    elif "q_norm" in said:
        q, k = cut(said["q_norm"]), cut(said["k_norm"])
    else:
        q, k = (said["q_proj"], said["k_proj"]) if "q_proj" in said else (said["query"], said["key"])
        q, k = cut(q), cut(k)
    if "qk_norm" in dict(layer.named_children()):  # after the rotation, which keeps it
        q, k = (layer.qk_norm(x) for x in (q, k))
    return q, k.repeat_interleave(heads // k.shape[1], dim=1)


def ours(config, model, number, layer, calls, lengths, **others):
    """Our weights of the last call, from what the parts of attention said in all of them."""
    reading = scheme_of(config, number, sum(lengths))
    projections = [projected(call, model.config, layer, n) for call, n in zip(calls, lengths, strict=True)]
    q, k = projections[-1][0], torch.cat([k for _, k in projections], dim=2)
    if reading.scheme.num_axes:  # the same number on each axis
        n = reading.scheme.num_axes
        others |= {"key_positions": torch.arange(k.shape[2])[:, None].expand(-1, n)}
        others |= {"query_positions": others["key_positions"][-q.shape[2] :]}
    return reading.weights(q, k, sinks=layer.sinks if reading.sinks else None, **others)


def by_call(found):
    """What the parts of a layer said, one mapping for each call."""
    return [{name: said[n] for name, said in found.items()} for n in range(len(next(iter(found.values()))))]


@torch.no_grad()
@pytest.mark.parametrize("name", EAGER)
@pytest.mark.parametrize("saved", [False, True], ids=["file", "as saved again"])
def test_whole_text(name, saved):
    config, model, layers = model_of(name)
    said = watched(layers)
    expected = model(torch.randint(2, 50, (2, L)), output_attentions=True).attentions
    assert len(layers) == len(expected) == SMALL["num_hidden_layers"]
    config = model.config.to_dict() if saved else config
    for number, (layer, found) in enumerate(zip(layers, said, strict=True)):
        torch.testing.assert_close(ours(config, model, number, layer, by_call(found), [L]), expected[number], **CLOSE)


@torch.no_grad()
@pytest.mark.parametrize("name", [name for name in EAGER if name in CAUSAL and name != "llama, dynamic"])
def test_with_a_cache(name):
    """Not with dynamic NTK: there the keys of a cache keep the frequencies of a shorter text."""
    config, model, layers = model_of(name)
    text, said = torch.randint(2, 50, (2, L)), watched(layers)
    begun = model(text[:, :FIRST], use_cache=True)
    expected = model(text[:, FIRST:], past_key_values=begun.past_key_values, output_attentions=True).attentions
    for number, (layer, found) in enumerate(zip(layers, said, strict=True)):
        found = ours(config, model, number, layer, by_call(found), [FIRST, L - FIRST])
        kept = expected[number].shape[-1]  # a cache of a window forgets the keys before it
        torch.testing.assert_close(found[..., -kept:], expected[number], **CLOSE)
        torch.testing.assert_close(found[..., :-kept], torch.zeros_like(found[..., :-kept]), **CLOSE)


@torch.no_grad()
@pytest.mark.parametrize("name", EAGER)
def test_with_padding_on_the_left(name):
    config, model, layers = model_of(name)
    text, said, n = torch.randint(2, 50, (2, L)), watched(layers), 4
    padding = torch.arange(L) < torch.tensor([[n], [0]])
    text[padding] = model.config.pad_token_id
    expected = model(text, attention_mask=(~padding).long(), output_attentions=True).attentions
    places = torch.arange(L) - torch.tensor([[n], [0]])
    for number, (layer, found) in enumerate(zip(layers, said, strict=True)):
        chunked = {"places": places} if scheme_of(config, number).chunk else {}
        found = ours(config, model, number, layer, by_call(found), [L], key_padding_mask=padding, **chunked)
        for one, other, hidden in zip(found, expected[number], padding, strict=True):
            torch.testing.assert_close(one[:, ~hidden], other[:, ~hidden], **CLOSE)


@torch.no_grad()
@pytest.mark.parametrize("name", [*CAUSAL, "gemma4, fewer heads", "gemma4, shared"])
def test_numbers_in_a_cache(name, monkeypatch):
    fewer, gemma4 = {"attention_k_eq_v": True, "num_global_key_value_heads": 1}, CASES["gemma4"][1]
    shared = {"num_kv_shared_layers": 2, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 50}
    monkeypatch.setitem(CASES, "gemma4, fewer heads", ("gemma4_text", gemma4 | fewer))
    monkeypatch.setitem(CASES, "gemma4, shared", ("gemma4_text", gemma4 | shared))
    config, model, _ = model_of(name)
    text = torch.randint(2, 50, (1, 4))  # shorter than all windows; of a longer one transformers holds w - 1 tokens
    cache = model(text, use_cache=True).past_key_values
    held = sum(part.numel() for layer in cache.layers if layer.keys is not None for part in (layer.keys, layer.values))
    assert cached_numbers(config, 4) == cached_numbers(model.config.to_dict(), 4) == held


@pytest.mark.parametrize(
    ("model", "numbers"),  # by hand: layers x (keys and values) x heads x width x tokens kept
    [
        ("google/gemma-4-26B-A4B", 25 * 2 * 8 * 256 * 1024 + 5 * 2 * 2 * 512 * 10_000),
        ("google/gemma-3-27b-it", 52 * 2 * 16 * 128 * 1024 + 10 * 2 * 16 * 128 * 10_000),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 36 * 2 * 8 * 128 * 8192 + 12 * 2 * 8 * 128 * 10_000),
        ("tiiuae/falcon-40b", 60 * 2 * 8 * 64 * 10_000),
        ("openai-community/gpt2", 12 * 2 * 12 * 64 * 10_000),
        ("mosaicml/mpt-7b", 32 * 2 * 32 * 128 * 10_000),
        ("deepseek-ai/DeepSeek-V3", 61 * (512 + 64) * 10_000),
    ],
)
def test_numbers_in_the_cache_of_a_public_model(model, numbers):
    config = next(row["config"] for row in public_models() if row["model"] == model)
    assert cached_numbers(config, 10_000) == numbers


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"model_type": "bert"}, ValueError, "token by token"),
        ({"model_type": "mistral", "num_key_value_heads": None}, ValueError, "num_key_value_heads is missing"),
        ({"model_type": "mistral", "num_key_value_heads": -2}, ValueError, "num_key_value_heads must be at least 1"),
        ({"model_type": "mistral", "num_key_value_heads": "2"}, TypeError, "num_key_value_heads must be"),
        ({"model_type": "mistral", "num_kv_shared_layers": "1"}, TypeError, "num_kv_shared_layers must be"),
        ({"model_type": "mistral", "num_kv_shared_layers": -1}, ValueError, "num_kv_shared_layers must be at least 0"),
    ],
)
def test_a_cache_that_cannot_be_counted(fields, error, words):
    with pytest.raises(error, match=words):
        cached_numbers(SMALL | fields, 4)


@torch.no_grad()
def test_falcon_with_alibi():
    config, model, layers = model_of("falcon, alibi")
    model.config._attn_implementation = "sdpa"
    said, summed = watched(layers), []
    for layer in layers:
        layer.dense.register_forward_pre_hook(lambda _, x: summed.append(x[0]))
    model(torch.randint(2, 50, (2, L)))
    for number, (layer, found) in enumerate(zip(layers, said, strict=True)):
        v = found["query_key_value"][0].unflatten(-1, (-1, layer.head_dim)).transpose(1, 2)[:, -1:]
        o = ours(config, model, number, layer, by_call(found), [L]) @ v
        torch.testing.assert_close(o.transpose(1, 2).flatten(2), summed[number], **CLOSE)


@torch.no_grad()
@pytest.mark.parametrize("padded", [False, True])
def test_t5(padded):
    config = {"model_type": "t5", "d_model": 32, "d_kv": 6, "num_heads": 3, "num_layers": 2, "num_decoder_layers": 3}
    config |= {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 11, "vocab_size": 50, "d_ff": 16}
    model = transformers.T5Model(transformers.T5Config(**config, attn_implementation="eager")).eval()
    text, padding = torch.randint(2, 50, (2, L)), torch.arange(L) < torch.tensor([[4 * padded], [0]])
    found = watched([block.layer[0].SelfAttention for stack in (model.encoder, model.decoder) for block in stack.block])
    said = model(text, attention_mask=(~padding).long(), decoder_input_ids=text, output_attentions=True)
    every = (*said.encoder_attentions, *said.decoder_attentions)
    for number, (heard, weights) in enumerate(zip(found, every, strict=True)):
        reading, decoder = scheme_of(config, number), number >= 2
        first = (model.decoder if decoder else model.encoder).block[0].layer[0].SelfAttention
        reading.scheme.weight.copy_(first.relative_attention_bias.weight)
        q, k = (heard[name][0].unflatten(-1, (3, 6)).transpose(1, 2) for name in ("q", "k"))
        ours = reading.weights(q, k, key_padding_mask=None if decoder else padding)
        torch.testing.assert_close(ours, weights, **CLOSE)
    with pytest.raises(ValueError, match="layer must be less than the 5"):
        scheme_of(config, 5)


@torch.no_grad()
@pytest.mark.parametrize("others", [{"position_buckets": 6}, {"position_buckets": -1, "position_biased_input": True}])
def test_deberta(others):
    """Its table passes a norm, and the content's matrices make keys and queries of it."""
    others |= {
        "relative_attention": True,
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "pos_att_type": "p2c|c2p",
    }
    config = {"model_type": "deberta-v2", "max_relative_positions": 12} | SMALL | others
    model = transformers.DebertaV2Model(transformers.DebertaV2Config(**config)).eval()
    attentions = [layer.attention.self for layer in model.encoder.layer]
    said, text = watched(attentions), torch.randint(2, 50, (2, L))
    padding = torch.arange(L) < torch.tensor([[4], [0]])
    expected = model(text, attention_mask=(~padding).long(), output_attentions=True).attentions
    for number, (attention, found) in enumerate(zip(attentions, said, strict=True)):
        reading = scheme_of(config, number)
        assert (reading.input_scheme is not None) == others.get("position_biased_input", True)
        reading.scheme.to_empty(device="cpu")
        reading.scheme.table.copy_(model.encoder.get_rel_embedding())
        reading.scheme.key_proj.load_state_dict(attention.key_proj.state_dict())
        reading.scheme.query_proj.load_state_dict(attention.query_proj.state_dict())
        q, k = (found[name][0].unflatten(-1, (4, 16)).transpose(1, 2) for name in ("query_proj", "key_proj"))
        weights = reading.weights(q, k, key_padding_mask=padding)
        torch.testing.assert_close(weights[0][:, 4:], expected[number][0][:, 4:], **CLOSE)
        torch.testing.assert_close(weights[1], expected[number][1], **CLOSE)


@torch.no_grad()
def test_xlnet():
    config = {"model_type": "xlnet", "d_model": 24, "n_head": 3, "n_layer": 2, "d_inner": 8, "vocab_size": 50}
    model = transformers.XLNetModel(transformers.XLNetConfig(**config)).eval()
    inputs = []
    for layer in model.layer:
        layer.rel_attn.register_forward_pre_hook(lambda _, x: inputs.append(x[0]))
    expected = model(torch.randint(2, 50, (2, L)), output_attentions=True).attentions
    for number, (layer, x) in enumerate(zip(model.layer, inputs, strict=True)):
        reading, theirs = scheme_of(config, number), layer.rel_attn
        q, k = (torch.einsum("ibh,hnd->bnid", x, w) for w in (theirs.q, theirs.k))
        scheme, r = reading.scheme.to_empty(device="cpu"), theirs.r.flatten(1).T
        scheme.r_proj.weight[:, 0::2], scheme.r_proj.weight[:, 1::2] = r[:, :12], r[:, 12:]  # its sines come first
        scheme.u.copy_(theirs.r_w_bias)
        scheme.v.copy_(theirs.r_r_bias)
        torch.testing.assert_close(reading.weights(q, k), expected[number], **CLOSE)


@pytest.mark.parametrize(
    ("name", "table", "padding"),
    [
        ("gpt2", "wpe", 0),
        ("gpt_neo", "wpe", 0),
        ("opt", "decoder.embed_positions", 4),
        ("bert", "embeddings.position_embeddings", 0),
        ("roberta", "embeddings.position_embeddings", 4),
    ],
)
@torch.no_grad()
def test_what_is_added_to_the_input(name, table, padding):
    """Of models whose positions count from the first token that is no padding, too."""
    config, model, _ = model_of(name)
    part, said, text = model.get_submodule(table), [], torch.randint(2, 50, (2, L))
    part.register_forward_hook(lambda _, x, y: said.append(y))
    hidden = torch.arange(L) < torch.tensor([[padding], [0]])
    text[hidden] = model.config.pad_token_id
    model(text, attention_mask=(~hidden).long())
    reading = scheme_of(config, 0)
    scheme = reading.input_scheme.to_empty(device="cpu")
    scheme.table.copy_(part.weight[reading.first_row :])
    assert len(part.weight) == reading.first_row + scheme.max_length
    p = positions_without_padding(hidden) if padding else torch.arange(L)
    ours = scheme.embed(torch.zeros(2, L, 64), p)
    torch.testing.assert_close(ours[~hidden], said[0].expand(2, -1, -1)[~hidden], **CLOSE)


@pytest.mark.parametrize("name", CASES)
def test_every_field_that_concerns_position_is_used(name):
    config, model, _ = model_of(name)
    for described in (config, model.config.to_dict()):
        for layer in range(SMALL["num_hidden_layers"]):
            assert scheme_of(described, layer).unread == ()


def test_settings_of_tasks_do_not_concern_attention():
    config = SMALL | {"model_type": "llama", "task_specific_params": {"text-generation": {"temperature": 0.9}}}
    assert scheme_of(config, 0).unread == ()


def test_a_field_that_is_not_used_is_named():
    config = SMALL | {
        "model_type": "llama",
        "rope_swirl": 3,
        "rope_parameters": {"rope_theta": 1e4, "rope_mood": "calm"},
    }
    assert scheme_of(config, 0).unread == ("rope_swirl", "rope_parameters.rope_mood")


def test_a_llama_is_not_asked_which_share_rotates_and_a_phi_is():
    """As in transformers: the number of frequencies is that of its own embedding."""
    sizes = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1, "partial_rotary_factor": 0.5}
    for family, unread in (("llama", ("partial_rotary_factor",)), ("phi", ())):
        reading = scheme_of(sizes | {"model_type": family}, 0)
        config = transformers.AutoConfig.for_model(family, **sizes)
        embedding = getattr(transformers, f"{family.capitalize()}Model")(config).rotary_emb
        assert len(reading.scheme.inv_freq) == len(embedding.inv_freq)
        assert reading.unread == unread


# By type: fields with which transformers makes no model, or one that fails at the first text; and our words.
NO_NUMBER = "sliding_window must be a number of tokens"
KINDS_ALONE = {"layer_types": SHORT_FIRST, "sliding_window": None}
REFUSED = [
    ("smollm3", KINDS_ALONE, f"{NO_NUMBER} where layer_types names sliding_attention, got None"),
    ("smollm3", KINDS_ALONE | {"use_sliding_window": True}, NO_NUMBER),
    ("smollm3", {"layer_types": SHORT_FIRST[:3]}, "layer_types must have as many names as there are layers, 4, got 3"),
    ("smollm3", {"layer_types": SHORT_FIRST * 2}, "layer_types must have as many names as there are layers, 4, got 8"),
    ("smollm3", {"layer_types": ["chunked_attention"] * 4}, "layer_types must be full_attention or sliding_attention"),
    ("llama", {"layer_types": SHORT_FIRST[:3]}, "layer_types must have as many names"),
    ("qwen2", KINDS, "use_sliding_window must be true where layer_types names sliding_attention, got None"),
    ("qwen2", KINDS | {"use_sliding_window": False}, "use_sliding_window must be true .* got False"),
    ("qwen2", KINDS_ALONE | {"use_sliding_window": True}, NO_NUMBER),
    ("qwen3", KINDS | {"head_dim": 16}, "use_sliding_window must be true"),
    ("qwen2_moe", KINDS | EXPERTS, "use_sliding_window must be true"),
    ("qwen2_moe", {"use_sliding_window": True, "sliding_window": None} | EXPERTS, NO_NUMBER),
    ("qwen3_moe", KINDS | EXPERTS | {"head_dim": 16}, "use_sliding_window must be true"),
    ("ministral", {"sliding_window": None, "head_dim": 16}, NO_NUMBER),
    ("mistral", {"sliding_window": 0}, "sliding_window must be at least 1, got 0"),
    ("gemma2", KINDS_ALONE, NO_NUMBER),
    ("gemma2", {"sliding_window": None, "layer_types": ["full_attention"] * 4}, NO_NUMBER),
    ("gemma3_text", KINDS_ALONE | {"head_dim": 16}, NO_NUMBER),
    ("cohere2", KINDS_ALONE, NO_NUMBER),
    ("gpt_oss", {"sliding_window": None, "head_dim": 16}, NO_NUMBER),
    ("llama4_text", CASES["llama4"][1] | {"attention_chunk_size": None}, "attention_chunk_size must be a number"),
]


@torch.no_grad()
@pytest.mark.parametrize(("model_type", "fields", "words"), REFUSED)
def test_what_transformers_cannot_run_is_refused_in_words(model_type, fields, words, monkeypatch):
    with pytest.raises(ValueError, match=words):
        scheme_of(SMALL | {"model_type": model_type} | fields, 0)
    monkeypatch.setitem(CASES, "refused", (model_type, fields))
    with pytest.raises(Exception):  # noqa: B017 - each has its own
        model_of("refused")[1](torch.randint(2, 50, (1, L)))


@torch.no_grad()
def test_a_file_of_mistral_with_kinds_is_one_of_ministral(tmp_path):
    config = SMALL | KINDS | {"model_type": "mistral", "head_dim": 16}
    (tmp_path / "config.json").write_text(json.dumps(config))
    read = transformers.AutoConfig.from_pretrained(tmp_path)
    assert [scheme_of(config, n).window for n in range(4)] == [5, 5, None, None]
    for n in range(4):
        assert scheme_of(config, n).window == scheme_of(read.to_dict(), n).window


def edited_files():
    """The file of SmolLM3 with other values of six lines, its widths divided by 16; the base is absent alone."""
    file = next(row["config"] for row in public_models() if row["model"] == "HuggingFaceTB/SmolLM3-3B")
    menus = {
        "rope_theta": {"as written": file["rope_theta"], "absent": "absent"},
        "no_rope_layers": {"as written": file["no_rope_layers"], "absent": "absent", "all": [1] * 36},
        "no_rope_layer_interval": {"4": 4, "2": 2},
        "sliding_window": {"null": None, "4096": 4096},
        "use_sliding_window": {"false": False, "true": True},
        "layer_types": {
            "as written": file["layer_types"],
            "absent": "absent",
            "3 of 4 sliding": (["sliding_attention"] * 3 + ["full_attention"]) * 9,
        },
    }
    first = {line: next(iter(menu)) for line, menu in menus.items()}
    for chosen in itertools.product(*menus.values()):
        edit = dict(zip(menus, chosen, strict=True))
        if edit["rope_theta"] == first["rope_theta"] or edit | {"rope_theta": first["rope_theta"]} == first:
            lines = {line: menus[line][one] for line, one in edit.items()}
            new = {line: value for line, value in (file | lines).items() if value != "absent"}
            new |= {"hidden_size": file["hidden_size"] // 16, "vocab_size": 50, "torch_dtype": "float32"}
            new |= {"sliding_window": 5} if new.get("sliding_window") else {}
            yield pytest.param(new, id=", ".join(chosen))


@torch.no_grad()
@pytest.mark.parametrize("file", edited_files())
def test_edited_files(file, monkeypatch):
    """Each is read as transformers runs it, or refused where that fails."""
    fields = {name: value for name, value in file.items() if name != "model_type"}
    monkeypatch.setitem(CASES, "edited", (file["model_type"], fields))
    try:
        config, model, layers = model_of("edited")
        said, text = watched(layers), torch.randint(2, 50, (1, L))
        expected = model(text, output_attentions=True).attentions
    except Exception:
        with pytest.raises(ValueError, match="layer_types"):
            scheme_of(SMALL | file, 0)
        return
    assert len(expected) == file["num_hidden_layers"]
    for number, (layer, found) in enumerate(zip(layers, said, strict=True)):
        torch.testing.assert_close(ours(config, model, number, layer, by_call(found), [L]), expected[number], **CLOSE)


WRONG = [
    ([], TypeError, "config must be a mapping"),
    ({}, ValueError, "model_type"),
    ({"model_type": "mamba", "rope_theta": 3, "d_conv": 4}, ValueError, "What to look for in this file: rope_theta"),
    ({"model_type": ["llama"]}, ValueError, "model_type"),
    ({"model_type": "llama"}, ValueError, "num_hidden_layers or n_layer"),
    (SMALL | {"model_type": "llama", "hidden_size": -64}, ValueError, "hidden_size must be at least 1, got -64"),
    (SMALL | {"model_type": "llama", "hidden_size": "64"}, TypeError, "hidden_size"),
    (SMALL | {"model_type": "llama", "hidden_size": True}, TypeError, "hidden_size"),
    (
        SMALL | {"model_type": "llama", "num_hidden_layers": 10**9},
        ValueError,
        "num_hidden_layers must be at most 10000",
    ),
    (SMALL | {"model_type": "llama", "rope_theta": float("nan")}, ValueError, "base"),
    (SMALL | {"model_type": "llama", "rope_theta": "ten thousand"}, TypeError, "base"),
    (SMALL | {"model_type": "llama", "rope_scaling": [1]}, TypeError, "rope_scaling must be an object, got list"),
    (SMALL | {"model_type": "llama", "rope_scaling": {"rope_type": "spiral"}}, ValueError, "spiral"),
    (SMALL | {"model_type": "llama", "rope_scaling": {"rope_type": ["yarn"]}}, (ValueError, TypeError), "rope_type"),
    (SMALL | {"model_type": "llama", "rope_scaling": {"rope_type": "yarn", "factor": "4"}}, TypeError, "factor"),
    (SMALL | {"model_type": "llama", "rope_scaling": {"rope_type": "llama3"}}, (ValueError, TypeError), "factor"),
    (SMALL | {"model_type": "phi3", "rope_scaling": {"type": "longrope"}}, (ValueError, TypeError), "factor"),
    (SMALL | {"model_type": "gemma2", "layer_types": [3]}, ValueError, "layer_types"),
    (SMALL | {"model_type": "gemma2", "query_pre_attn_scalar": 0}, ValueError, "query_pre_attn_scalar"),
    (SMALL | {"model_type": "smollm3", "no_rope_layers": [7] * 4}, ValueError, "no_rope_layers"),
    (SMALL | {"model_type": "smollm3", "no_rope_layers": []}, ValueError, "no_rope_layers"),
    (SMALL | {"model_type": "gpt_neo", "attention_types": 3}, (ValueError, TypeError), "attention_types"),
    (SMALL | {"model_type": "gpt_neo", "attention_types": [[["global"], 10**12]]}, ValueError, "attention_types"),
    (SMALL | {"model_type": "bert", "max_position_embeddings": 10**8, "hidden_size": 10**6}, ValueError, "numbers"),
    (SMALL | {"model_type": "roberta", "max_position_embeddings": 1, "pad_token_id": 1}, ValueError, "max_length"),
    (
        SMALL | {"model_type": "deberta-v2", "relative_attention": True, "pos_att_type": ["c2p"]},
        ValueError,
        "pos_att_type",
    ),
    (
        SMALL | {"model_type": "deberta-v2", "relative_attention": True, "pos_att_type": 3},
        (ValueError, TypeError),
        "pos_att_type",
    ),
    (SMALL | {"model_type": "mpt", "attn_config": "alibi"}, TypeError, "attn_config must be an object, got str"),
    (SMALL | {"model_type": "qwen3_vl", "rope_scaling": {"mrope_section": "24"}}, TypeError, "sections"),
    ({"model_type": "llama", "text_config": 3}, TypeError, "text_config must be an object, got int"),
]


@pytest.mark.parametrize(("config", "error", "words"), WRONG)
def test_a_broken_configuration_is_refused_in_words_at_once(config, error, words, tmp_path, capsys):
    start = time.perf_counter()
    with pytest.raises(error, match=words):
        scheme_of(config, 0)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert main([str(path)]) == 1
    assert re.search(words, capsys.readouterr().err)
    assert time.perf_counter() - start < 2


@pytest.mark.parametrize("text", ["", "{", '{"model_type": "llama"', "[" * 100_000, "\x00", "NaN"])
def test_what_is_no_configuration_is_refused_in_words(text, tmp_path, capsys):
    path = tmp_path / "config.json"
    path.write_text(text)
    assert main([str(path)]) == 1
    found = capsys.readouterr()
    assert found.out == "" and str(path) in found.err and "Traceback" not in found.err


def test_a_folder_without_a_configuration(tmp_path, capsys):
    assert main([str(tmp_path)]) == 1
    assert "config.json" in capsys.readouterr().err


@pytest.mark.parametrize("name", CASES)
def test_the_command_says_something_of_every_layer(name, tmp_path, capsys):
    _, model, _ = model_of(name)
    model.config.save_pretrained(tmp_path)
    assert main([str(tmp_path)]) == 0
    words = capsys.readouterr().out
    assert f"{SMALL['num_hidden_layers']} layers" in words
    assert "Every field that concerns position was read." in words


def test_the_command_names_what_matters(tmp_path, capsys):
    config, *_ = model_of("ministral3")
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert main([str(tmp_path), "--length", "100"]) == 0
    words = capsys.readouterr().out
    for part in ("1 + 0.3 ln(1 + floor(i / 4))", "base 1,000", "yarn, factor 4.0", "14_context_extension"):
        assert part in words


MODELS = public_models()


def test_public_models_are_many_and_say_where_they_were_read():
    assert len(MODELS) >= 25 and len({model["config"]["model_type"] for model in MODELS}) >= 25
    assert len({model["model"] for model in MODELS}) == len(MODELS)
    assert all(re.fullmatch(r"https://\S+", model["address"]) for model in MODELS)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model["model"])
def test_the_command_reads_every_field_of_a_public_model(model, tmp_path, capsys):
    (tmp_path / "config.json").write_text(json.dumps(model["config"]))
    assert main([str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert said.err == "" and said.out.endswith("Every field that concerns position was read.\n")


def test_what_shipped_when_says_where_it_was_read():
    """An arXiv number holds the month."""
    rows = shipped()
    assert len({row["model"] for row in rows}) == len(rows) >= 20
    numbers = 0
    for row in rows:
        assert row["schemes"] and set(row["schemes"]) <= set(scheme_classes())
        assert re.fullmatch(r"https://\S+", row["address"]) and re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", row["month"])
        if number := re.fullmatch(r"https://arxiv\.org/abs/(\d\d)(\d\d)\.\d{5}", row["address"]):
            numbers += 1
            assert row["month"] == f"20{number[1]}-{number[2]}"
    assert numbers >= 15


def test_who_shares_what_is_learned_says_where_it_was_read():
    for scheme, row in shared_parameters().items():
        assert scheme in scheme_classes() and row["kept"].endswith(("per model", "per layer"))
        assert re.fullmatch(r"https://\S+", row["address"])
