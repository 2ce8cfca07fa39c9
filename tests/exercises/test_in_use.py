"""What notebook 18 reads from files, beside its exercises."""

import pytest

from posenc_lib.configs import groups, public_models
from posenc_lib.exercises.in_use import check_cache_gib, check_layer_kind, plain_rotations, widths_in_file


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
            made = [(n + 1) % every > 0 for n in range(config["num_hidden_layers"])]
            flags = config.get("no_rope_layers") or made
            return (theta if flags[layer] else 0, 0)
        if config["model_type"] == "gemma3_text" and (layer + 1) % config.get("sliding_window_pattern", 6):
            return (config["rope_local_base_freq"], config["sliding_window"])
        return (theta, 0)

    passed, message = check_layer_kind.verdict(layer_kind)
    assert passed == (base is None)
    assert passed or message.startswith("not yet: 10,000 is what Llama fills in")
