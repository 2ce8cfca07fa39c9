"""What notebooks say of experiments that they do not run."""

import contextlib
import functools
import json
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def sources(notebook):
    cells = json.loads((NOTEBOOKS / f"{notebook}.ipynb").read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@pytest.fixture(scope="module")
def toys():
    """The toys of notebook 18, as their cell defines them, but never stopped before the 350 updates."""
    setup, cell = (next(one for one in sources("18_in_use") if of in one) for of in ("import json", "def two_tasks("))
    stop = '"stop_below": 0.005'
    assert stop in cell
    found = {}
    exec(setup[: setup.index("pictogram(")], found)
    exec(cell[: cell.index("models, updates =")].replace(stop, '"stop_below": 0.0'), found)
    plt.close("all")
    return found


def kept(toys, model, length):
    """Accuracy of the card at the last question, and of the copy."""
    cards, copies = toys["answered"](model, length)
    return cards.double().mean().item(), copies


@pytest.mark.parametrize("rule", ["ALL", "SMOL", "GEMMA", "PARTLY", "NARROW", "HYBRID"])
def test_with_equal_updates_the_same_rules_alone_keep_both_tasks(toys, rule):
    both = []
    for seed in (0, 1, 2):
        model, updates = toys["fitted"](toys[rule], seed)
        assert updates == 350
        assert min(kept(toys, model, 32)) > 0.8
        both.append(min(kept(toys, model, 1024)) > 0.75)
    assert (sum(both) > 1) == (rule in ("PARTLY", "NARROW", "HYBRID")), both


@pytest.fixture(scope="module")
def lengthened():
    """Notebook 18 up to its first explorer of the lead, with the models of two rules."""
    setup, cell = (next(one for one in sources("18_in_use") if of in one) for of in ("import json", "def two_tasks("))
    found = {"functools": functools}
    exec(setup[: setup.index("pictogram(")], found)
    exec(cell[: cell.index("NEAREST, LOWEST =")], found)
    plt.close("all")
    return found


def test_a_longer_text_takes_a_card_in_two_ways(lengthened):
    """Where none rotates the lead stays and the crowd outgrows it; where all rotate it falls, until no angle is new."""
    found = lengthened

    def lead(rule, seed, *cure):
        return found["looked_at"](found[rule], seed, *cure)[2]

    for seed in (0, 1, 2):
        short, long = (found["looked_at"](found["NONE"], seed, n)[3] for n in (32, 1024))  # ln N
        assert abs(lead("NONE", seed, 1024) - lead("NONE", seed, 32)) < 1
        assert short < lead("NONE", seed, 32) < lead("NONE", seed, 1024, None, True)
        assert lead("NONE", seed, 1024) < long < lead("NONE", seed, 1024, None, True)
        assert lead("ALL", seed, 1024, None, True) < lead("ALL", seed, 1024) < 0
        assert lead("ALL", seed, 1024, 180) < long < lead("ALL", seed, 1024, 45)


@pytest.mark.parametrize("rule", ["GEMMA", "PARTLY", "NARROW", "HYBRID"])
def test_the_copy_is_kept_where_the_short_layer_does_it(lengthened, rule):
    """And no long layer can do it that turns nothing."""
    found, most = lengthened, []
    for seed in (0, 1, 2, 3, 4):
        of = found[rule], seed
        found["models"][of] = found["fitted"](*of)[0]
        short, long = found["weights_on"](*of, 32)[0]
        copied = found["answered"](found["models"][of], 1024)[1]
        assert copied > 0.9 if short > 0.95 else copied < 0.9, (seed, short, copied)
        assert rule != "HYBRID" or long < 0.15
        most.append(short > 0.95)
    assert all(most) if rule == "HYBRID" else sum(most) > 1


@pytest.mark.parametrize("seed", [1, 2])
def test_the_rule_stacked_twice_tells_the_order_of_far_keys(toys, seed):
    cell = next(one for one in sources("18_in_use") if "def later_card(" in one)
    found = dict(toys)
    exec(cell[cell.index("def later_card(") : cell.index("fig, ax = plt.subplots(figsize=(9, 3.4))")], found)
    once, twice = (
        found["by_distance"](found["trained_anew"](rule, seed), texts=600) for rule in (found["HYBRID"], found["TWICE"])
    )
    assert min(once[:7]) > 0.8 and max(once[7:]) < 0.6 and min(twice) > 0.9


@pytest.fixture(scope="module")
def weights():
    """Notebook 20 up to its picture of attention; its cell there, to be run with the models of other seeds."""
    cells = sources("20_comparison")
    setup, models, seen = (
        next(one for one in cells if of in one) for of in ("use_style()", "MODELS, AGAIN", "def texts(n, batch")
    )
    found = {}
    with contextlib.chdir(NOTEBOOKS):
        exec(setup[: setup.index("pictogram(")], found)
        exec(models[: models.index("MODELS, AGAIN")], found)
    return found, seen[: seen.index("def draw_attention")]


@pytest.mark.parametrize("seed", [1, 2])
def test_what_hangs_on_the_seed_where_attention_fails(weights, seed):
    found, cell = weights
    settings = [e.setting for e in found["FILE"] if (e.setting["task"], e.setting["seed"]) == ("flip-flop", seed)]
    found["MODELS"] = {s["scheme"]: found["remake"](**s) for s in settings if s["scheme"] in found["SHOWN"]}
    assert len(found["MODELS"]) == 3
    exec(cell, found)

    def best_head(scheme):
        """At 256 tokens, of the best head in 32: on the right value, older ones, the rest after it, elsewhere."""
        head = found["SEEN"][scheme, 32, 1][1][0].argmax()
        return found["SEEN"][scheme, 256, 1][1][:, head].tolist()

    right, old, rest, _ = best_head("Rotary")
    every = max(found["SEEN"]["Rotary", 256, layer][1][0].max() for layer in (0, 1))
    assert every < 0.065 and old == max(right, old, rest)
    assert best_head("Alibi")[2] > 0.65
    right, old, _, _ = best_head("T5Bias")
    assert old > 0.45 and right < 0.42
