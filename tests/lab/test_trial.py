"""One run: the same twice, trained until the criterion is met or the maximum is reached, and said as it is."""

import json
import math

import pytest
import torch

from posenc_lib.lab import IGNORE, TinyTransformer
from posenc_lib.lab import trial as module
from posenc_lib.lab.settings import EXTENDED, extensions
from posenc_lib.lab.tasks import copy_back
from posenc_lib.lab.text import next_character
from posenc_lib.lab.trial import (
    COOL_DOWN,
    LOOK,
    TASKS,
    TIMES,
    WARM_UP,
    Contest,
    code_version,
    frame,
    trial,
)
from posenc_lib.schemes.grid import grid_coordinates

TINY = {"seed": 0, "learning_rate": 1e-2, "length": 8, "maximum": 10, "layers": 1, "width": 16, "heads": 2}
EASY = Contest(copy_back, 4, {"vocabulary": 4, "back": 0})  # the answer is the token itself


def tried(scheme="Alibi", task="copy back", **others):
    return trial(scheme, task, **(TINY | others))


def without_seconds(result):
    return {name: value for name, value in result.items() if name != "seconds"}


@pytest.fixture
def easy(monkeypatch):
    monkeypatch.setitem(TASKS, "easy", EASY)


@pytest.fixture
def looks(monkeypatch):
    """A function that sets what the looks say one after the other, the last one for ever; it returns their number."""

    def says(*scores):
        made = []

        def look(model, contest, length):
            made.append(length)
            return scores[min(len(made), len(scores)) - 1]

        monkeypatch.setattr(module, "_look", look)
        return made

    return says


@pytest.fixture
def rates(monkeypatch):
    """The learning rates of every update, of the model's own parameters and of the scheme's."""
    made = []

    class Noted(torch.optim.AdamW):
        def step(self, *args):
            made.append(tuple(group["lr"] for group in self.param_groups))
            return super().step(*args)

    monkeypatch.setattr(torch.optim, "AdamW", Noted)
    return made


# the same twice


@pytest.mark.parametrize("scheme", ["Learned", "Rotary", "T5Bias"])
def test_the_same_arguments_give_the_same_numbers(monkeypatch, scheme):
    first = tried(scheme, length=32)
    torch.manual_seed(17)
    state, threads, used = torch.get_rng_state(), torch.get_num_threads(), set()
    real = TinyTransformer.forward
    monkeypatch.setattr(TinyTransformer, "forward", lambda *args: used.add(torch.get_num_threads()) or real(*args))
    torch.set_num_threads(2)
    try:
        again = tried(scheme, length=32)
        assert torch.get_num_threads() == 2 and used == {1}
    finally:
        torch.set_num_threads(threads)
    assert without_seconds(again) == without_seconds(first)
    assert torch.equal(torch.get_rng_state(), state), "the generator of others is left alone"


@pytest.mark.parametrize(
    "others", [{"seed": 1}, {"learning_rate": 1e-3}, {"maximum": 11}, {"layers": 2}, {"width": 32}, {"heads": 1}]
)
def test_every_argument_counts(others):
    assert tried(**others)["loss"] != tried()["loss"]


def test_a_seed_is_of_weights_and_batches_and_not_of_the_tests(monkeypatch):
    drawn = {}

    def noted(batch, length, generator, **options):
        drawn.setdefault(generator.initial_seed(), []).append((batch, length))
        return copy_back(batch, length, generator, **options)

    monkeypatch.setitem(TASKS, "copy back", TASKS["copy back"]._replace(task=noted))
    tried(seed=3)
    seeds = module.SEEDS
    assert drawn == {
        seeds["batches"] + 3: [(16, 8)] * 10,
        seeds["looks"]: [(512, 8)],
        seeds["test"]: [(1024, 8), (512, 16), (256, 32), (128, 64)],
    }
    assert len({value + seed for value in seeds.values() for seed in range(101)} | set(range(101))) == 5 * 101


# what it says


def test_what_a_result_has():
    result = tried()
    assert list(result) == ["met", "updates", "seconds", "loss", "measure", "version"]
    assert list(result["measure"]) == [str(8 * times) for times in TIMES]
    assert all(0 <= share <= 1 for share in result["measure"].values())
    assert result["version"] == code_version("Alibi", "copy back", 8, 16, 2)
    assert json.loads(json.dumps(result)) == result


def test_measures_are_those_of_the_model_that_was_trained(monkeypatch):
    """Counted once more, text by text and place by place."""
    kept = []
    real = module._train
    monkeypatch.setattr(module, "_train", lambda model, *rest: kept.append(model) or real(model, *rest))
    result = tried(maximum=40)
    for length in (8, 64):
        generator = torch.Generator().manual_seed(module.SEEDS["test"])
        tokens, targets = copy_back(8192 // length, length, generator)
        answers = kept[0](tokens).argmax(-1)
        scored = [
            (said, target)
            for row, truth in zip(answers.tolist(), targets.tolist(), strict=True)
            for said, target in zip(row, truth, strict=True)
            if target != IGNORE
        ]
        share = sum(said == target for said, target in scored) / len(scored)
        assert result["measure"][str(length)] == pytest.approx(share, abs=1e-4)


def test_of_text_it_says_bits_and_which_text():
    result = tried(task="next character", maximum=2)
    assert list(result)[-1] == "text" and len(result["text"]) == 8
    assert result["measure"]["8"] == pytest.approx(result["loss"] / math.log(2), rel=0.2)
    assert all(5 < bits < 8 for bits in result["measure"].values()), "about log2 of the characters there are"


def test_text_is_tested_in_a_part_that_is_not_trained_on(monkeypatch):
    parts = []

    def noted(batch, length, generator, part="train"):
        parts.append((part, generator.initial_seed() - module.SEEDS["test"]))
        return next_character(batch, length, generator, part)

    monkeypatch.setitem(TASKS, "next character", TASKS["next character"]._replace(task=noted))
    tried(task="next character", maximum=2)
    assert [part for part, _ in parts] == ["train"] * 3 + ["test"] * 4
    assert [seed for _, seed in parts[-4:]] == [0] * 4


def test_only_what_extends_a_trained_rope_is_tested_too():
    extended = tried(EXTENDED)["extended"]
    assert list(extended) == list(extensions(frame("copy back", 8, 16, 2), 2.0))
    assert all(list(measures) == ["16", "32", "64"] for measures in extended.values())
    for scheme, task, length in (("Alibi", "copy back", 8), ("XPos", "copy back", 8), (EXTENDED, "grid", 9)):
        assert "extended" not in tried(scheme, task, length=length, maximum=1)


# on a grid


@pytest.mark.parametrize(("scheme", "two"), [("AxialRotary", True), ("MRope", True), ("Alibi", False)])
def test_a_scheme_of_grids_is_told_rows_and_columns_and_any_other_the_place(monkeypatch, scheme, two):
    told, real = {}, TinyTransformer.forward

    def noted(self, tokens, positions=None):
        told[tokens.shape[1]] = positions
        return real(self, tokens, positions)

    monkeypatch.setattr(TinyTransformer, "forward", noted)
    assert list(tried(scheme, "grid", length=9, maximum=2)["measure"]) == ["9", "16", "36", "64"]
    assert set(told) == {9, 16, 36, 64}
    for length, positions in told.items():
        side = math.isqrt(length)
        if not two:
            assert positions is None
            continue
        assert positions.shape == (length, 2)
        assert torch.equal(positions, grid_coordinates(side, side))
        assert positions.tolist() == [[row, column] for row in range(side) for column in range(side)]


@pytest.mark.parametrize("length", [4, 9, 25, 30])
def test_tests_on_a_grid_are_the_nearest_squares(length):
    for times, n in zip(TIMES, TASKS["grid"].lengths(length), strict=True):
        side = math.isqrt(n)
        assert side**2 == n
        assert all(
            abs(side - math.sqrt(times * length)) <= abs(other - math.sqrt(times * length)) for other in range(20)
        )


# until it is right


def test_a_task_that_is_learned_is_trained_no_longer(easy):
    result = tried("NoPosition", "easy", maximum=2000)
    assert result["met"] and result["measure"]["8"] > 0.98
    assert result["updates"] < 500
    assert (result["updates"] - COOL_DOWN) % LOOK == 0


def test_a_task_that_cannot_be_learned_is_given_up_at_the_maximum():
    """Without positions nobody knows which token stood five places back."""
    result = tried("NoPosition", maximum=160)
    assert not result["met"] and result["updates"] == 160
    assert result["measure"]["8"] < 0.5


@pytest.mark.parametrize("maximum", [1, 24, 99, 100, 101, 126])
def test_no_more_updates_than_the_maximum_and_no_cooling_down_beyond_it(looks, maximum):
    looks((1.0, 1.0))
    assert tried(maximum=maximum)["updates"] == (100 if maximum > LOOK + COOL_DOWN else maximum)


def test_training_ends_a_cooling_down_after_the_first_look_that_is_right(looks):
    made = looks((1.0, 0.5), (1.0, 0.989), (1.0, 0.99), (1.0, 0.2))
    assert tried(maximum=500)["updates"] == 3 * LOOK + COOL_DOWN
    assert len(made) == 4, "none while it cools down, and one at the end"


@pytest.mark.parametrize(("right", "met"), [(0.98, True), (0.9799, False)])
def test_what_counts_is_the_look_at_the_end(looks, right, met):
    """Whether or not the training was ended before the maximum."""
    looks((1.0, 1.0), (1.0, right))
    assert tried(maximum=500)["met"] is met
    looks((1.0, right))
    assert tried(maximum=20)["met"] is met


def test_the_rate_rises_stays_and_falls(looks, rates):
    looks((1.0, 0.5), (1.0, 0.5), (1.0, 0.5), (1.0, 0.5), (1.0, 1.0))
    assert tried(maximum=500)["updates"] == len(rates) == 200
    own = [rate / 1e-2 for (rate,) in rates]
    assert own[:WARM_UP] == pytest.approx([n / WARM_UP for n in range(1, WARM_UP + 1)])
    assert own[WARM_UP:-COOL_DOWN] == [1.0] * (200 - WARM_UP - COOL_DOWN)
    assert own[-COOL_DOWN:] == pytest.approx([n / COOL_DOWN for n in range(COOL_DOWN, 0, -1)])


@pytest.mark.parametrize(
    ("scheme", "own", "times"),
    [("T5Bias", None, 10.0), ("Learned", None, 1.0), ("T5Bias", 1, 1.0), ("Learned", 3, 3.0)],
)
def test_what_a_scheme_learns_is_learned_as_fast_as_it_is_told_or_its_setting_says(rates, scheme, own, times):
    tried(scheme, length=32, own_rate=own)
    assert len(rates) == TINY["maximum"]
    assert all(own == pytest.approx(times * model) for model, own in rates)


# for as long as all others


def test_text_is_trained_to_the_maximum_however_often_it_is_right(looks):
    made = looks((2.0, 0.0), (2.0, 1.0))
    result = tried(task="next character", maximum=300)
    assert result["met"] and result["updates"] == 300
    assert len(made) == 1, "at the end"


# what goes wrong


def test_a_loss_that_is_not_a_number_ends_the_training():
    result = tried(learning_rate=1e30, maximum=500)
    assert result["met"] is False and result["loss"] is None
    assert result["updates"] == LOOK
    assert 0 <= result["measure"]["8"] < 0.5


def test_text_without_a_number_is_not_trained():
    result = tried(task="next character", learning_rate=1e30, maximum=20)
    assert result["met"] is False and result["loss"] is None
    assert math.isnan(result["measure"]["8"])


def test_refusals():
    with pytest.raises(ValueError, match=r"task must be one of 'copy back', .*, got 'sorting'"):
        tried(task="sorting")
    with pytest.raises(ValueError, match=r"scheme must be one of .*, got 'Rope'"):
        tried("Rope")


@pytest.mark.parametrize("scheme", ["AxialRotary", "Cope", "QueryTemperature", "XLNet"])
def test_a_scheme_that_takes_no_part_is_not_trained(scheme):
    with pytest.raises(ValueError, match=f"{scheme} takes no part in reverse: "):
        tried(scheme, "reverse")
