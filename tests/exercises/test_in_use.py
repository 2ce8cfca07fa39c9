"""What notebook 18 reads from files, beside its exercises."""

from functools import partial

import pytest
import torch

from posenc_lib.configs import groups, public_models
from posenc_lib.exercises.in_use import check_cache_gib, check_capped_scores, plain_rotations, widths_in_file
from posenc_lib.schemes.rope import rotate


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


@pytest.mark.parametrize("model", ["google/gemma-3-1b-it", "google/gemma-3-27b-it", "deepseek-ai/DeepSeek-V3"])
@pytest.mark.parametrize("tokens", [100, 131_072])
def test_the_cache_of_an_exercise_is_that_of_public_models(model, tokens):
    config = next(row["config"] for row in public_models() if row["model"] == model)
    config = config.get("text_config", config)
    one = config["kv_lora_rank"] + config["qk_rope_head_dim"] if "kv_lora_rank" in config else None
    one = one or 2 * config["num_key_value_heads"] * config["head_dim"]
    kept = sum(len(layers) * min(tokens, reading.window or tokens) for layers, reading in groups(config))
    assert check_cache_gib.reference(config, tokens) == one * kept * 2 / 2**30


def near_and_far(q, k, inv_freq, clip, far_turn=1, before=1, closed=True, far_keys=0, backward=1):
    "With ordinary scores, two for each pair."
    i = torch.arange(len(q))
    near = rotate(q, before * i, inv_freq) @ rotate(k, before * i, inv_freq).T
    far = rotate(q, far_turn * torch.full_like(i, clip), inv_freq) @ rotate(k, far_keys * i, inv_freq).T
    away = backward * (i[:, None] - i)
    return near.where(away <= clip if closed else away < clip, far)


def test_two_ordinary_scores_are_enough_to_cut_distances():
    assert check_capped_scores.verdict(near_and_far).passed
    assert check_capped_scores.verdict(partial(near_and_far, closed=False)).passed  # at clip they are the same


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"far_turn": -1}, "from the other side"),
        ({"far_turn": 0}, "distance 0"),
        ({"far_turn": -1, "before": -1}, "rotated forward"),
        ({"far_keys": 1}, "clip is the whole angle"),
        ({"backward": -1}, "before the query, i - j > clip"),
    ],
)
def test_a_wrong_turn_is_named(options, message):
    passed, told = check_capped_scores.verdict(partial(near_and_far, **options))
    assert not passed and message in told


def test_keys_that_are_hidden_are_not_keys_that_are_cut():
    passed, told = check_capped_scores.verdict(
        lambda q, k, inv_freq, clip: near_and_far(q, k, inv_freq, clip).tril(clip)
    )
    assert not passed and "differ" in told
