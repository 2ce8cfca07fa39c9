"""Results in words: a number has its spread, and what is not trained has its reason and no number."""

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from posenc_lib.lab.contest import RATES, RATES_SEED, Entry, Size, entries, run
from posenc_lib.lab.report import (
    chosen_rates,
    explained,
    guessing,
    in_groups,
    length_at,
    of_task,
    order_of,
    other_rates,
    rivals,
    said,
    shuffled,
    survives,
)
from posenc_lib.lab.statistics import Cell, ranking, table
from posenc_lib.lab.text import characters
from posenc_lib.lab.trial import TASKS, TIMES

SEEDS = (0, 1, 2, 3, 4)
FILE = Path(__file__).parents[2] / "notebooks" / "data" / "contest.jsonl"


def cell(scheme, *values, met=True, task="induction"):
    return Cell(scheme, task, SEEDS[: len(values)], (met,) * len(values), dict.fromkeys((32, 64, 128, 256), values))


def test_a_number_has_its_spread():
    cells = {("Alibi", "induction"): cell("Alibi", 0.5, 0.6, 0.7, 0.8, 0.9)}
    assert said(cells, "Alibi", "induction", 8) == "0.70 [0.50, 0.90]"


def test_what_is_not_trained_says_so():
    few, none = cell("Alibi", 0.9, 0.9), cell("Fire", 0.8, *[0.9] * 4, met=False)
    cells = table([], ["Rotary"], ["induction"]) | {("Alibi", "induction"): few, ("Fire", "induction"): none}
    assert said(cells, "Alibi", "induction", 1) == "not trained yet: 2 of 5 seeds"
    assert said(cells, "Fire", "induction", 1) == "not trained (met in 0 of 5; 0.80 to 0.90)"
    assert said(cells, "Rotary", "induction", 1) == "not trained yet"
    assert said(cells, "MRope", "induction", 1) == "takes no part"


def test_lengths():
    assert [length_at("reverse", times) for times in TIMES] == [12, 24, 48, 96]
    assert all(length_at(task, 1) == TASKS[task].length for task in TASKS)


def test_schemes_without_an_order_share_a_letter_and_an_equals_sign():
    near = [
        cell("Alibi", 0.9, 0.8, 0.85, 0.9, 0.8),
        cell("Kerple", 0.85, 0.8, 0.9, 0.8, 0.85),
        cell("Fire", *[0.1] * 5),
    ]
    places = ranking(near, 256)
    assert in_groups(places) == "ALiBi = KERPLE > FIRE"
    assert in_groups([]) == ""


@pytest.mark.parametrize("task", ["sort", "Copy back"])
def test_unknown_tasks_are_refused(task):
    for ask in (lambda: length_at(task, 1), lambda: of_task({}, task)):
        with pytest.raises(ValueError, match=f"task must be .*{task}"):
            ask()
    with pytest.raises(ValueError, match=r"times must be .*3"):
        length_at("grid", 3)


def test_groups_explain_the_variance_between_their_means():
    assert explained([1.0, 3.0, 5.0, 7.0], "aabb") == pytest.approx(0.8)
    assert explained([1.0, 3.0, 5.0, 7.0], "abba") == pytest.approx(0.0)
    assert explained([1.0, 3.0, 5.0, 7.0], "abcd") == 1.0
    values = np.random.default_rng(0).normal(size=(2000, 12))
    assert np.mean([explained(v, "aaabbbcccddd") for v in values]) == pytest.approx(3 / 11, abs=0.02)
    with pytest.raises(ValueError, match="groups must name one for each of at least two values, got 1 and 2"):
        explained([1.0, 2.0], "a")
    with pytest.raises(ValueError, match=r"groups must name .*got 1 and 1"):
        explained([1.0], "a")
    with pytest.raises(ValueError, match=r"values must vary, got 2\.0 throughout"):
        explained([2.0, 2.0], "ab")


def test_the_order_of_two_in_a_ranking():
    near, far = cell("Alibi", 0.9, 0.91, 0.9, 0.92, 0.9), cell("Fire", *[0.5] * 5)
    level = cell("Kerple", 0.9, 0.9, 0.92, 0.9, 0.91)
    places = ranking([near, far, level], 64)
    assert [order_of(places, *pair) for pair in (("Alibi", "Fire"), ("Fire", "Alibi"))] == [1, -1]
    assert order_of(places, "Alibi", "Kerple") == order_of(places, "Fire", "Fire") == 0


def tried(rate, met, loss, updates=100, seed=RATES_SEED, size=None):
    """One run of ALiBi on induction, whose measure at each length is its rate."""
    setting = run("Alibi", "induction", seed, rate, *([size] if size else []))
    measure = {str(n): rate for n in TASKS["induction"].lengths(setting["length"])}
    return Entry(setting, {"met": met, "loss": loss, "updates": updates, "measure": measure})


def test_other_rates_are_those_that_met_the_criterion_and_were_not_chosen():
    low, middle, high = RATES
    runs = [tried(low, True, 0.3), tried(middle, True, 0.2), tried(high, False, 0.1), tried(low, True, 0.1, seed=0)]
    assert other_rates(runs) == {("Alibi", "induction"): {middle: dict.fromkeys((32, 64, 128, 256), middle)}}
    assert list(other_rates(runs, unmet=True)["Alibi", "induction"]) == [middle, high]
    last = TASKS["induction"].maximum  # met at the last look: not chosen, but met
    late = [tried(low, True, 0.3, last), tried(middle, True, 0.2), tried(high, True, 0.1)]
    assert list(other_rates(late)["Alibi", "induction"]) == [low, high]
    assert other_rates(runs[:2]) == {}, "before all rates were tried none is chosen"
    small = Size(layers=1, width=16, heads=2)
    assert other_rates([tried(rate, True, 0.1, size=small) for rate in RATES]) == {}
    assert other_rates([tried(rate, True, 0.1, size=small) for rate in RATES], small).keys() == {("Alibi", "induction")}


def test_other_rates_of_what_is_done_to_a_trained_rope():
    _, middle, high = sorted(RATES)
    runs = []
    for rate in RATES:
        setting = tried(rate, True, 0.1).setting | {"scheme": "Rotary"}
        result = {"met": rate != high, "loss": 0.1, "updates": 100, "measure": {"32": rate, "256": 0.1}}
        runs.append(Entry(setting, result | {"extended": {"YaRN": {"256": 2 * rate}}}))
    assert other_rates(runs)["Rotary, YaRN", "induction"] == {middle: {32: middle, 256: 2 * middle}}
    assert list(other_rates(runs, unmet=True)["Rotary, YaRN", "induction"]) == [middle, high]


def test_the_chosen_rate_is_that_of_the_seeds_of_the_contest():
    low, middle, high = RATES
    first = [tried(rate, True, 0.1) for rate in RATES]  # whatever the seed of the rates would choose
    runs = [tried(middle, seed < 2, 0.1, seed=seed) for seed in SEEDS]
    small = Size(layers=1, width=16, heads=2)
    others = [tried(high, True, 0.1, seed=0, size=size) for size in (small, Size(own_rate=1))]
    assert chosen_rates(first) == {}, "before there is a run on another seed"
    assert chosen_rates(iter([*first, *runs, *others])) == {("Alibi", "induction"): middle}
    assert chosen_rates([*first, *runs, *others], small) == {("Alibi", "induction"): high}
    assert chosen_rates([*first, *runs[3:]]) == {("Alibi", "induction"): middle}
    with pytest.raises(ValueError, match=f"Alibi on induction must have one learning rate .*{middle} and {low}"):
        chosen_rates([*runs, tried(low, True, 0.1, seed=5)])


@pytest.mark.parametrize(
    ("size", "pairs"),
    [
        (Size(), [("Rotary", "copy back"), ("Shaw", "grid"), ("Alibi", "next character")]),
        (Size(layers=4, width=128), [("Rotary", "copy back"), ("T5Bias", "flip-flop")]),
        (Size(own_rate=1), [("T5Bias", "passkey")]),
    ],
)
def test_the_chosen_rates_of_the_file_are_those_of_its_lines(size, pairs):
    found = entries(FILE)
    chosen, model = chosen_rates(found, size), (size.layers, size.width, size.own_rate)
    for pair in pairs:
        rates = {seed: set() for seed in (*SEEDS, RATES_SEED)}
        for line, _ in found:
            one = line["layers"], line["width"], line.get("own_rate")
            if (line["scheme"], line["task"]) == pair and one == model:
                rates[line["seed"]].add(line["learning_rate"])
        assert rates.pop(RATES_SEED) == set(RATES)
        assert list(rates.values()) == [{chosen[pair]}] * len(SEEDS)


@pytest.mark.parametrize("task", TASKS)
def test_guessing_is_a_little_above_chance(task):
    chance = {"copy back": 16, "induction": 128, "look-up": 6, "reverse": 8, "flip-flop": 8, "passkey": 10, "grid": 8}
    if task == "next character":
        counts = Counter(characters("train").tolist())
        answers = characters("test").tolist()
        bits = -sum(math.log2(counts[answer] / counts.total()) for answer in answers) / len(answers)
        assert guessing(task) == pytest.approx(bits, abs=0.02)  # versions of Python differ by less
    else:
        assert 1 / chance[task] <= guessing(task) < 1.6 / chance[task]


def test_an_order_survives_if_the_worst_rate_of_one_is_above_the_best_of_the_other():
    cells = {(name, "induction"): cell(name, *[value] * 5) for name, value in (("Alibi", 0.9), ("Fire", 0.5))}
    lower, higher = {("Alibi", "induction"): {0.01: {256: 0.4}}}, {("Fire", "induction"): {0.01: {256: 0.95}}}
    assert [survives(cells, o, "induction", 8, "Alibi", "Fire") for o in ({}, lower, higher)] == [True, False, False]
    assert [rivals(cells, o, "induction", 8) for o in ({}, lower, higher)] == [[], ["Fire"], ["Fire"]]
    third = cells | {("Kerple", "induction"): cell("Kerple", *[0.6] * 5)}
    assert rivals(third, lower, "induction", 8) == ["Kerple", "Fire"], "by their means, in every run"
    bits = {(n, "next character"): cell(n, *[v] * 5, task="next character") for n, v in (("Alibi", 2.0), ("Fire", 3.0))}
    bits = {
        pair: one._replace(measures=dict.fromkeys((64, 128, 256, 512), one.measures[32])) for pair, one in bits.items()
    }
    assert survives(bits, {}, "next character", 8, "Alibi", "Fire")
    assert not survives(bits, {}, "next character", 8, "Fire", "Alibi")


def test_shuffled_names_explain_what_chance_explains():
    values, groups = np.random.default_rng(0).normal(size=12), "aaabbbcccddd"
    chance, as_much = shuffled(values, groups)
    assert chance == pytest.approx(3 / 11, abs=0.02)
    assert 0.02 < as_much < 0.98
    shares = [explained(np.random.default_rng(n).permutation(values), groups) for n in range(400)]
    assert chance == pytest.approx(np.mean(shares), abs=0.03)
    assert as_much == pytest.approx(np.mean(np.array(shares) >= explained(values, groups)), abs=0.08)


def test_groups_that_stand_apart_are_beaten_by_no_shuffle():
    assert shuffled([0.0, 0.1, 0.2, 0.3, 5.0, 5.1, 5.2, 5.3], "aaaabbbb")[1] < 0.06
    assert shuffled([1.0, 2.0, 3.0], "abc") == (1.0, 1.0)
    with pytest.raises(ValueError, match="shuffles must be at least 1"):
        shuffled([1.0, 2.0], "ab", shuffles=0)
