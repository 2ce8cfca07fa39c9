"""The exercises of notebook 18 agree with the library on public files."""

import math

import pytest

from posenc_lib.configs import groups, public_models, scheme_of
from posenc_lib.exercises.in_use import GEMMA_3_1B, READING, check_cache_gib, check_knows_distance, mark_reading
from posenc_lib.schemes.rope import Rotary


@pytest.mark.parametrize("model", ["google/gemma-3-1b-it", "google/gemma-3-27b-it", "deepseek-ai/DeepSeek-V3"])
@pytest.mark.parametrize("tokens", [100, 131_072])
def test_the_cache_of_an_exercise_is_that_of_public_models(model, tokens):
    config = next(row["config"] for row in public_models() if row["model"] == model)
    config = config.get("text_config", config)
    one = config["kv_lora_rank"] + config["qk_rope_head_dim"] if "kv_lora_rank" in config else None
    one = one or 2 * config["num_key_value_heads"] * config["head_dim"]
    kept = sum(len(layers) * min(tokens, reading.window or tokens) for layers, reading in groups(config))
    assert check_cache_gib.reference(config, tokens) == one * kept * 2 / 2**30


@pytest.mark.parametrize("tokens", [100, 8192, 8193, 131_072])
@pytest.mark.parametrize("name", ["meta-llama/Llama-4", "HuggingFaceTB/SmolLM3"])
def test_layers_that_know_a_distance_are_those_of_the_library(name, tokens):
    config = next(row["config"] for row in public_models() if row["model"].startswith(name))
    config = config.get("text_config", config)
    known = []
    for numbers, reading in groups(config):
        if isinstance(reading.inner, Rotary) and tokens <= (reading.chunk or tokens):
            known += numbers
    assert check_knows_distance.reference(config, tokens) == sorted(known)
    assert bool(known) == (tokens <= 8192 or "SmolLM3" in name)


@pytest.mark.parametrize("fields", [{}, {"no_rope_layer_interval": 5}, {"no_rope_layers": [1, 0, 0] * 4}])
@pytest.mark.parametrize("model_type", ["smollm3", "llama4_text"])
def test_files_of_the_check_are_read_alike_by_the_library(model_type, fields):
    for config, tokens in check_knows_distance.cases:
        if config["model_type"] == model_type:
            file = config | fields | {"max_position_embeddings": 4096}
            readings = [scheme_of(file, n) for n in range(12)]
            rotating = [n for n, reading in enumerate(readings) if isinstance(reading.inner, Rotary)]
            known = [n for n in rotating if tokens <= (readings[n].chunk or tokens)]
            assert check_knows_distance.reference(file, tokens) == known


def test_a_wrong_reading_is_named():
    passed, told = check_knows_distance.verdict(lambda config, n: list(range(config["num_hidden_layers"])))
    assert not passed and "shape" in told
    passed, told = check_knows_distance.verdict(lambda config, n: set(check_knows_distance.reference(config, n)))
    assert not passed and "must return" in told


def test_answers_of_the_first_exercise_are_those_of_the_library():
    config = next(row["config"] for row in public_models() if row["model"] == "google/gemma-3-1b-it")
    assert {line: config[line] for line in GEMMA_3_1B} == GEMMA_3_1B
    readings = [scheme_of(config, n) for n in range(26)]
    short, long = ([one for one in readings if bool(one.window) == there] for there in (True, False))
    slow = [
        int((of[0].inner.inv_freq * seen < 2 * math.pi).sum()) for of, seen in ((short, short[0].window), (long, 32768))
    ]
    rotating = sum(isinstance(one.inner, Rotary) for one in readings)
    answers = [right for right, _ in READING.values()]
    assert answers[:5] == [rotating, len(short), short[0].window - 1, *slow]
    assert answers[5] == (22 * 512 + 4 * 32768) * 2 * 256 * 2 / 2**30


@pytest.mark.parametrize("question", READING)
def test_an_answer_is_marked(question, capsys):
    right, mistakes = READING[question]
    for answer in (right, *mistakes, right + 1e6, None):
        mark_reading({question: answer})
    assert capsys.readouterr().out.splitlines() == [
        f"\N{CHECK MARK} {question}",
        *(f"not yet, {question}: {told}" for told in mistakes.values()),
        f"not yet, {question}: ask the file again",
        f"not done yet: {question}",
    ]


def test_an_answer_may_be_rounded_a_count_may_not(capsys):
    mark_reading({"GiB of 32,768 tokens": 0.14, "farthest distance in a short layer": 510})
    assert [line[0] for line in capsys.readouterr().out.splitlines()] == ["\N{CHECK MARK}", "n"]


@pytest.mark.parametrize(
    ("answers", "error", "message"),
    [
        ({"layers": 3}, ValueError, "question must be one of 'layers that rotate'"),
        ({"short layers": "22"}, TypeError, "answer to 'short layers' must be a number, got '22'"),
    ],
)
def test_what_is_no_answer_is_named(answers, error, message):
    with pytest.raises(error, match=message):
        mark_reading(answers)
