"""The questions of notebook 18: right answers by other ways, wrong ones named and all different."""

import math

import pytest
import torch

from posenc_lib.configs import asked as module
from posenc_lib.configs import public_models, scheme_of
from posenc_lib.configs.asked import ABSENT, asked, keys_seen, with_lines

FILES = {row["model"]: row["config"] for row in public_models()}
# Model; length of the training and of the text; the five right answers, counted by hand from the file.
CASES = [
    ("meta-llama/Llama-2-7b-hf", 4096, 4096, (32, 32, 18, 128, 4096)),
    ("meta-llama/Meta-Llama-3.1-8B", 8192, 131_072, (32, 32, 29, 128, 65_536)),
    ("meta-llama/Meta-Llama-3.1-8B", 8192, 65_536, (32, 32, 29, 128, 65_536)),
    ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 8192, 262_144, (36, 12, 29, 128, math.inf)),
    ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 8192, 8192, (36, 48, 29, 128, math.inf)),
    ("HuggingFaceTB/SmolLM3-3B", 65_536, 65_536, (27, 36, 25, 128, 65_536)),
    ("google/gemma-3-27b-it", 32_768, 131_072, (62, 10, 24, 128, 262_144)),
    ("google/gemma-4-26B-A4B", 262_144, 262_144, (30, 5, 0, 128, math.inf)),
    ("openai/gpt-oss-20b", 4096, 131_072, (24, 12, 14, 64, 131_072)),
    ("openai/gpt-oss-20b", 4096, 262_144, (24, 12, 14, 64, 131_072)),
    ("google/gemma-3-27b-it", 32_768, 262_144, (62, 10, 24, 128, 262_144)),
    ("deepseek-ai/DeepSeek-V3", 4096, 163_840, (61, 61, 9, 64, 163_840)),
]


def file_of(model):
    return FILES[model].get("text_config", FILES[model])


@pytest.mark.parametrize(("model", "trained", "n", "right"), CASES, ids=[f"{m}-{n}" for m, _, n, _ in CASES])
def test_the_right_answers_are_those_counted_by_hand_and_the_wrong_ones_differ(model, trained, n, right):
    questions = asked(file_of(model), trained, n)
    assert tuple(one.right for one in questions) == right
    for one in questions:
        values = [answer.value for answer in one.answers]
        assert len(set(values)) == len(values) and min(values) >= 0
        assert 3 <= len(values) <= 4
        assert [answer.right for answer in one.answers].count(True) == 1
        assert all(answer.why for answer in one.answers)


@pytest.mark.parametrize(("base", "trained", "slow"), [(10_000.0, 2048, 23), (500_000.0, 8192, 29), (20.0, 512, 0)])
def test_slow_pairs_by_the_formula_of_the_notebook(base, trained, slow):
    config = {"model_type": "llama", "hidden_size": 512, "num_attention_heads": 4, "num_hidden_layers": 2}
    last = math.floor(64 * math.log((trained - 1) / (2 * math.pi), base))
    found = asked(config | {"rope_theta": base, "max_position_embeddings": trained}, trained, 4 * trained)
    assert found[2].right == max(63 - last, 0) == slow
    assert found[4].right == (trained if slow else math.inf)  # nothing slows them


@pytest.mark.parametrize("n", [1, 4, 5, 8, 9, 17])
@pytest.mark.parametrize("fields", [{"sliding_window": 5}, {"attention_chunk_size": 8}, {}])
def test_keys_are_counted_as_the_mask_has_them(n, fields):
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}
    pieces = "attention_chunk_size" in fields
    model = {"model_type": "llama4_text"} if pieces else {"model_type": "mistral", "sliding_window": None}
    config = sizes | model | fields
    reading, places = scheme_of(config, 0), torch.arange(n)
    assert keys_seen(reading, n) == int(reading.visible(places[-1:], places).sum())


def test_what_a_misreading_gives_is_named():
    def told(config, question, n=4096):
        return {answer.why: answer.value for answer in asked(config, 4096, n)[question].answers if not answer.right}

    sizes = {"hidden_size": 512, "num_attention_heads": 4, "num_hidden_layers": 8, "max_position_embeddings": 4096}
    smollm3 = sizes | {"model_type": "smollm3"}
    assert told(smollm3, 0)["no list says which: every fourth does not"] == 8
    assert told(smollm3 | {"no_rope_layers": [1, 0] * 4}, 0)["a 0 in the list means: does not rotate"] == 8
    mistral = sizes | {"model_type": "mistral", "sliding_window": 128, "rope_theta": 1e6}
    assert told(mistral, 1)["some layers have a window of 128 keys"] == 8
    llama = sizes | {"model_type": "llama", "rope_theta": 1e6}
    assert (
        told(llama, 2)["it comes of a base of 10,000; here it is 1,000,000"]
        == asked(llama | {"rope_theta": 10_000.0}, 4096, 4096)[2].right
    )
    assert (
        told(llama | {"head_dim": 64}, 3)["a line gives the width, 64: it is not hidden_size / num_attention_heads"]
        == 128
    )
    scaled = {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e6}
    assert told(llama | {"rope_scaling": scaled}, 4)["rope_scaling slows them 4 times: 4 x 4,096"] == 4096


@pytest.mark.parametrize(
    ("model", "trained", "why", "lines"),
    [
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 8192, "its pieces end at 8,192", {"attention_chunk_size"}),
        (
            "google/gemma-4-26B-A4B",
            262_144,
            "no pair of this layer",
            {"full_attention.partial_rotary_factor", "full_attention.rope_type"},
        ),
        ("meta-llama/Meta-Llama-3.1-8B", 8192, "rope_scaling slows them 8 times", {"rope_scaling", "factor"}),
        ("google/gemma-3-27b-it", 32_768, "rope_scaling slows them 8 times", {"rope_scaling", "factor"}),
        ("HuggingFaceTB/SmolLM3-3B", 65_536, "texts of the training had 65,536", {"max_position_embeddings"}),
    ],
)
def test_how_far_is_explained_by_what_decides(model, trained, why, lines):
    last = asked(file_of(model), trained, trained)[4]
    assert next(answer.why for answer in last.answers if answer.right).startswith(why)
    assert lines <= set(last.lines)
    assert ("attention_chunk_size" in last.lines) == ("attention_chunk_size" in lines)


@pytest.mark.parametrize("model", ["meta-llama/Llama-2-7b-hf", "meta-llama/Meta-Llama-3.1-8B", "openai/gpt-oss-20b"])
def test_angles_are_new_beyond_that_length_and_not_before(model):
    file = file_of(model)
    trained = next(trained for name, trained, _, _ in CASES if name == model)
    reach = int(asked(file, trained, trained)[4].right)
    layer = max(range(2), key=lambda layer: keys_seen(scheme_of(file, layer), trained))
    for n, some in ((reach, False), (reach + reach // 100, True)):
        slow, new = module.slow_and_new(*module.angles(file, layer, trained, n))
        assert slow.any() and new.any() == some


def test_the_line_that_is_said_to_decide_does():
    scout, gemma = (file_of(model) for model in ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "google/gemma-3-27b-it"))
    found = [asked(with_lines(scout, **fields), 8192, 8192)[4].right for fields in ({}, {"rope_scaling": ABSENT})]
    assert found == [math.inf, math.inf]  # its pieces are enough
    assert asked(scout | {"attention_chunk_size": 262_144}, 8192, 8192)[4].right == 16 * 8192
    assert asked(with_lines(gemma, rope_scaling=ABSENT), 32_768, 131_072)[4].right == 32_768
    window = {"model_type": "mistral", "hidden_size": 512, "num_attention_heads": 4, "num_hidden_layers": 2}
    window |= {"max_position_embeddings": 8192}
    (right,) = [one for one in asked(window | {"sliding_window": 64}, 4096, 8192)[4].answers if one.right]
    assert right.value == math.inf and right.why == "its window is 64 keys, in training and here"
    assert asked(window | {"sliding_window": None}, 4096, 8192)[4].right == 4096


def test_absent_lines_are_left_out():
    config = {"rope_theta": 1.0, "sliding_window": 3}
    assert with_lines(config, sliding_window=ABSENT, head_dim=2) == {"rope_theta": 1.0, "head_dim": 2}
    assert config == {"rope_theta": 1.0, "sliding_window": 3}


def test_files_without_rotation_and_wrong_lengths_are_refused():
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 2}
    with pytest.raises(ValueError, match="layers that rotate, got none"):
        asked(sizes | {"model_type": "bloom"}, 8, 8)
    llama = sizes | {"model_type": "llama"}
    for bad in ({"trained": 0, "n": 8}, {"trained": 8, "n": 0}):
        with pytest.raises(ValueError, match="at least 1"):
            asked(llama, **bad)
    with pytest.raises(ValueError, match="n must be an integer"):
        keys_seen(scheme_of(llama, 0), 2.5)


def test_an_answer_that_stays_as_it_is_would_be_noticed(monkeypatch):
    monkeypatch.setattr(module, "FULL_TURN", math.pi)
    assert tuple(one.right for one in asked(file_of(CASES[0][0]), 4096, 4096)) != CASES[0][3]


@pytest.mark.parametrize(
    ("model", "lines"),
    [
        ("meta-llama/Llama-2-7b-hf", ["model_type"] * 2 + ["model_type", "model_type", "max_position_embeddings"]),
        (
            "meta-llama/Meta-Llama-3.1-8B",
            ["model_type", "model_type", "rope_theta", "model_type", "original_max_position_embeddings"],
        ),
        (
            "meta-llama/Llama-4-Scout-17B-16E-Instruct",
            ["model_type", "attention_chunk_size", "rope_theta", "model_type", "attention_chunk_size"],
        ),
        (
            "deepseek-ai/DeepSeek-V3",
            ["model_type", "model_type", "rope_theta", "qk_nope_head_dim", "original_max_position_embeddings"],
        ),
    ],
)
def test_the_first_line_that_decides(model, lines):
    trained = next(trained for name, trained, _, _ in CASES if name == model)
    assert [one.lines[0] for one in asked(file_of(model), trained, trained)] == lines


def test_lines_that_decide_nothing_are_not_among_them():
    """Each line that is said to decide changes an answer if it is another; the length that a file allows does not."""
    file = file_of("meta-llama/Meta-Llama-3.1-8B")
    before = [one.right for one in asked(file, 8192, 131_072)]
    other = {"rope_theta": 10_000.0, "hidden_size": 8192, "num_attention_heads": 64, "num_hidden_layers": 16}
    for line, value in other.items():
        after = [one.right for one in asked(file | {line: value}, 8192, 131_072)]
        changed = {n for n, two in enumerate(zip(before, after, strict=True)) if two[0] != two[1]}
        told = {n for n, one in enumerate(asked(file, 8192, 131_072)) if line in one.lines}
        assert told <= changed
    longer = asked(file | {"max_position_embeddings": 10**6}, 8192, 131_072)
    assert [one.right for one in longer] == before
    assert not any("max_position_embeddings" in one.lines for one in longer)


def test_no_letter_is_always_right():
    places = [
        [answer.right for answer in one.answers].index(True)
        for model, trained, n, _ in CASES
        for one in asked(file_of(model), trained, n)
    ]
    assert max(places.count(place) for place in range(4)) < len(places) / 2
