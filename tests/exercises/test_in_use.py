"""What notebook 18 reads from files and from a toy, beside its exercises."""

import pytest
import torch

from posenc_lib.configs import groups, public_models
from posenc_lib.exercises.in_use import check_cache_gib, check_layer_kind, made_by, plain_rotations, widths_in_file
from posenc_lib.lab import TinyTransformer
from posenc_lib.lab.measure import randn
from posenc_lib.schemes.none import NoPosition
from posenc_lib.schemes.rope import Rotary


@pytest.mark.parametrize(
    ("fields", "widths"),
    [
        ({"hidden_size": 64, "num_attention_heads": 4}, (16, 16, 16)),
        ({"hidden_size": 64, "num_attention_heads": 4, "head_dim": 32}, (32, 32, 16)),
        ({"hidden_size": 64, "num_attention_heads": 4, "rotary_pct": 0.25}, (4, 16, 4)),
        ({"n_embd": 64, "n_head": 4, "rotary_dim": 8}, (8, 16, 8)),
        ({"text_config": {"hidden_size": 64, "num_attention_heads": 4, "head_dim": 8}}, (8, 8, 16)),
    ],
)
def test_widths_in_a_file(fields, widths):
    assert widths_in_file(fields) == widths


def test_plain_rotations_are_plain_and_many():
    found = list(plain_rotations())
    assert len(found) > 20
    for _, _, scheme, length in found:
        assert not scheme.rope_scaling and length > 0


def test_a_layer_of_a_toy_as_it_is_read_from_files():
    model = TinyTransformer(Rotary(16), vocabulary=3, dim=32, num_heads=2).double()
    block = model.blocks[1]
    with torch.no_grad():
        block.norm_1.weight.copy_(randn(32, seed=1))
        block.norm_1.bias.copy_(randn(32, seed=2))
    x = randn(2, 5, 32)
    q, k, _ = block.qkv(block.norm_1(x)).unflatten(-1, (3, 2, 16)).permute(2, 0, 3, 1, 4)
    made, normalised = made_by(model, 1), torch.nn.functional.layer_norm(x, (32,))
    torch.testing.assert_close(made.queries(normalised), q)
    torch.testing.assert_close(made.keys(normalised), k)
    assert made.scheme is model.schemes[1]


def test_a_layer_that_does_not_rotate_is_refused():
    with pytest.raises(TypeError, match="model must have RoPE in layer 0, got none"):
        made_by(TinyTransformer(NoPosition(), vocabulary=3))


@pytest.mark.parametrize(
    ("filled_in", "absent"), [({}, "rope_theta"), ({"rope_theta": 10_000.0}, "sliding_window_pattern")]
)
def test_who_asks_for_an_absent_line_reads_which_one(filled_in, absent):
    def layer_kind(config, layer):
        base = config.get("rope_theta", filled_in["rope_theta"]) if filled_in else config["rope_theta"]
        short = config["model_type"] == "gemma3_text" and (layer + 1) % config["sliding_window_pattern"]
        return (config["rope_local_base_freq"], config["sliding_window"]) if short else (base, 0)

    passed, message = check_layer_kind.verdict(layer_kind)
    assert not passed
    assert message.startswith("layer_kind raised KeyError in case ")
    assert f"this file has no {absent}; take what is filled in" in message


@pytest.mark.parametrize("model", ["google/gemma-3-1b-it", "google/gemma-3-27b-it", "deepseek-ai/DeepSeek-V3"])
@pytest.mark.parametrize("tokens", [100, 131_072])
def test_the_cache_of_an_exercise_is_that_of_public_models(model, tokens):
    config = next(row["config"] for row in public_models() if row["model"] == model)
    config = config.get("text_config", config)
    one = config["kv_lora_rank"] + config["qk_rope_head_dim"] if "kv_lora_rank" in config else None
    one = one or 2 * config["num_key_value_heads"] * config["head_dim"]
    kept = sum(len(layers) * min(tokens, reading.window or tokens) for layers, reading in groups(config))
    assert check_cache_gib.reference(config, tokens) == one * kept * 2 / 2**30


@pytest.mark.parametrize(
    ("absent", "base"),
    [({}, 10_000.0), ({"llama": 10_000.0, "smollm3": 2_000_000.0, "gemma3_text": 1_000_000.0}, None)],
)
def test_each_family_fills_in_its_own_base(absent, base):
    def layer_kind(config, layer):
        theta = config.get("rope_theta", absent.get(config["model_type"], base))
        if config["model_type"] == "smollm3":
            every = config.get("no_rope_layer_interval", 4)
            flags = config.get("no_rope_layers", [(n + 1) % every > 0 for n in range(config["num_hidden_layers"])])
            return (theta if flags[layer] else 0, 0)
        if config["model_type"] == "gemma3_text" and (layer + 1) % config.get("sliding_window_pattern", 6):
            return (config["rope_local_base_freq"], config["sliding_window"])
        return (theta, 0)

    passed, message = check_layer_kind.verdict(layer_kind)
    assert passed == (base is None)
    assert passed or message.startswith("not yet: 10,000 is what Llama fills in")
