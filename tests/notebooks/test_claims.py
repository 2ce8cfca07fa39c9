"""What notebooks say of experiments that they do not run."""

import contextlib
import copy
import functools
import json
import math
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import torch

from posenc_lib.lab import IGNORE, TinyTransformer, cards, train
from posenc_lib.lab.contest import entries
from posenc_lib.lab.text import CHARACTERS, characters
from posenc_lib.lab.trial import SEEDS, TASKS, _text_digest
from posenc_lib.schemes.rope import Rotary

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def sources(notebook):
    cells = json.loads((NOTEBOOKS / f"{notebook}.ipynb").read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@pytest.fixture(scope="module")
def toys():
    """The rules of notebook 21 and how it trains a model of one."""
    cells = sources("21_near_and_far")
    setup = next(one for one in cells if "use_style()" in one)
    rules = next(one for one in cells if "RULES = {" in one)
    found = {"cards": cards, "TinyTransformer": TinyTransformer, "train": train}
    exec(setup[: setup.index("pictogram(")], found)
    exec(rules[: rules.index("models, updates")], found)
    plt.close("all")
    once = functools.cache(found["fitted"])
    found["trained"] = lambda rule, seed: copy.deepcopy(once(found[rule], seed)[0])
    return found


@pytest.mark.parametrize("rule", ["GEMMA", "HYBRID"])
def test_with_equal_updates_the_rule_that_rotates_less_keeps_both_tasks(toys, rule, monkeypatch):
    monkeypatch.setitem(toys, "train", lambda *given, **settings: train(*given, **settings | {"stop_below": 0.0}))
    both = []
    for seed in (0, 1, 2):
        model, updates = toys["fitted"](toys[rule], seed)
        assert updates == 350
        assert min(cards.answered(model, 32)) > 0.8
        both.append(min(cards.answered(model, 1024)) > 0.75)
    assert (sum(both) > 1) == (rule == "HYBRID"), both


def explained(watched, frequencies):
    """The share of the variance of the scores with 900 keys of 1,024 that sums of some waves explain."""
    found, places = watched.read(1024), torch.arange(900)
    scores = (found.s - found.crowd[:, None])[:, 100:1000].mean(0)
    angles = places[:, None] * frequencies
    waves = torch.cat([angles.cos(), angles.sin(), torch.ones(900, 1).double()], dim=1)
    rest = scores - waves @ torch.linalg.lstsq(waves, scores[:, None]).solution[:, 0]
    return 1 - (rest.var() / scores.var()).item()


def test_fast_angles_come_round(toys):
    """Where the long layer of PARTLY copies, it loses the lead to keys that its two pairs take for the right one."""
    layers = set()
    for seed in range(5):
        watched = cards.Watched(toys["trained"]("PARTLY", seed), "copy")
        layers.add(layer := watched.layers[0].item())
        short, long = (watched.read(length).m.mean().item() for length in (32, 1024))
        if layer == 0:
            assert abs(long - short) < 2
        else:
            assert short > 8 and long < 5
            assert explained(watched, Rotary(16).inv_freq[:2]) > 0.85
    assert layers == {0, 1}


@pytest.mark.parametrize("rule", ["ALL", "NONE", "SMOL", "GEMMA", "PARTLY", "HYBRID"])
def test_what_each_cure_brings_back(toys, rule):
    """T the cards of NONE, stopped pairs those where slow pairs turned, few keys all copies; none both in 512 tokens.

    Interpolated pairs bring back the cards where slow pairs turned, and most copies in 256 tokens.
    """
    both = []
    for seed in range(3):
        model = toys["trained"](rule, seed)
        m, before, half = cards.Watched(model).m, cards.answered(model, 512), cards.answered(model, 256)
        times_t, stopped, pressed, near = (
            cards.answered(cards.cured(model, cure, m, 512), 512) for cure in cards.CURES[1:]
        )
        assert (times_t.card > before.card + 0.1) == (rule == "NONE")
        assert (stopped.card > 0.8) == (rule != "NONE")
        assert max(abs(cure.copy - before.copy) for cure in (times_t, stopped)) < 0.2
        assert near.card < 0.25
        assert (near.copy > 0.95) == (rule != "NONE")
        both.append([min(answers) > 0.75 for answers in (before, times_t, stopped, near)])
        if rule in ("ALL", "SMOL"):
            assert pressed.card > 0.85 and stopped.copy + 0.2 < pressed.copy < 0.75
            again = cards.answered(cards.cured(model, "slow pairs interpolated", m, 256), 256)
            assert again.card > 0.9 and again.copy > max(0.65, half.copy + 0.25)
    kept = [sum(of_models) > 1 for of_models in zip(*both, strict=True)]
    assert kept == [rule in ("PARTLY", "HYBRID")] * 2 + [rule in ("GEMMA", "PARTLY", "HYBRID"), False]


def test_a_window_in_the_layer_that_copies_is_enough(toys):
    """SMOL finds the card, too, in its first layer; one with a window finds it in the second."""
    for seed in range(3):
        model = toys["trained"]("SMOL", seed)
        assert cards.weight_on("card", model, 0) > 0.5 > 0.2 > cards.weight_on("card", model, 1)
        model.windows = [32, None]
        short, long = (cards.answered(model, n) for n in (32, 512))
        assert min(short) > 0.95 and long.copy > 0.95 and long.card < 0.25
        short = toys["trained"]("GEMMA", seed)
        assert cards.weight_on("card", short, 0) < 0.1 < 0.8 < cards.weight_on("card", short, 1)


def test_a_longer_text_takes_a_card_in_two_ways(toys):
    """Where none rotates m stays, ln N outgrows it, and T helps; where all rotate m falls, and T does not."""
    turns = Rotary(16).inv_freq  # one in 6, 20, 63, 199, 628 tokens
    fast, slow = [], []
    for seed in (0, 1, 2):
        none, every, alone = (cards.Watched(toys["trained"](rule, seed)) for rule in ("NONE", "ALL", "ALONE"))

        def m(watched, length, cure="none"):
            return watched.read(length, cure).m[watched.typical(1024)].item()

        ln_n = [none.read(length).ln_n for length in (32, 1024)]
        assert abs(m(none, 1024) - m(none, 32)) < 1
        assert ln_n[0] < m(none, 32) and m(none, 1024) < ln_n[1] < m(none, 1024, "queries times T")
        assert m(every, 1024) < ln_n[0] < m(every, 32) - 3
        fast.append(explained(every, turns[:2]))
        slow.append(explained(every, turns[2:5]))
        assert alone.m > 10 > none.m
        assert cards.answered(alone.model, 1024).card > 0.75
        for watched, kept in ((none, True), (every, False)):
            assert (watched.read(1024, "queries times T").right.double().mean() > 0.75) == kept
    assert sum(slow) / 3 > 0.6 > 0.3 > sum(fast) / 3  # single models differ, and by machine


@pytest.mark.parametrize("rule", ["GEMMA", "PARTLY", "HYBRID"])
def test_a_copy_is_kept_where_the_layer_with_a_window_makes_it(toys, rule):
    """A long layer that turns nothing makes none."""
    made = []
    for seed in range(5):
        model = toys["trained"](rule, seed)
        short, long = (cards.weight_on("copy", model, layer) for layer in (0, 1))
        made.append(short > 0.95)
        copied = cards.answered(model, 1024).copy
        kept = 0.8 if rule == "GEMMA" else 0.9  # where its long layer rotates fully, it disturbs a little
        assert copied > kept or not made[-1]
        assert copied < 0.9 or short > 0.8
        assert rule != "HYBRID" or (made[-1] and long < 0.2)
    assert any(made)


def later_card(batch, length, generator):
    """Two cards in equal digits, 8 to 16 places apart and 8 or more from either end; the answer is the later one."""
    text = torch.zeros(batch, length, dtype=torch.int64)
    answer = torch.full_like(text, IGNORE)
    first = torch.randint(8, 11, (batch, 1), generator=generator)
    apart = torch.randint(8, 13, (batch, 1), generator=generator)
    later = torch.randint(16, (batch, 1), generator=generator)
    other = (later + torch.randint(1, 16, (batch, 1), generator=generator)) % 16
    text.scatter_(1, first, 16 + other).scatter_(1, first + apart, 16 + later)
    text[:, -1:], answer[:, -1:] = 32, later
    return text, answer


@pytest.mark.parametrize(("rule", "windows"), [("HYBRID", [8, None]), ("NONE", [None] * 2), ("HYBRID", [8, None] * 2)])
def test_one_long_layer_without_position_cannot_tell_the_order_of_far_cards_and_two_can(toys, rule, windows):
    """Exercise 3 of notebook 21."""
    size = {"vocabulary": 33, "classes": 16, "dim": 32, "num_heads": 2, "num_layers": len(windows)}
    model = TinyTransformer(toys["RULES"][toys[rule]][0] * (len(windows) // 2), windows=windows, seed=0, **size)
    settings = {"steps": 220 * len(windows) // 2, "batch": 32, "learning_rate": 2e-2 / len(windows), "seed": 0}
    train(model, later_card, 32, stop_below=0.01, **settings)
    text, answer = later_card(400, 32, torch.Generator().manual_seed(3))
    right = (model(text)[:, -1].argmax(-1) == answer[:, -1]).double().mean().item()
    if windows == [8, None]:
        assert 0.4 < right < 0.6
    else:
        assert right > 0.9


@pytest.fixture(scope="module")
def weights():
    """Notebook 22 up to its picture of attention; its cell there, to be run with the models of other seeds."""
    cells = sources("22_how_far")
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
        """At 256 tokens, of the best head in 32: on the right value, older ones, the rest, the query, elsewhere."""
        head = found["SEEN"][scheme, 32, 1][1][0].argmax()
        return found["SEEN"][scheme, 256, 1][1][:, head].tolist()

    right, old, rest, own, _ = best_head("Rotary")
    every = max(found["SEEN"]["Rotary", 256, layer][1][0].max() for layer in (0, 1))
    assert every < 0.065 and old == max(right, old, rest + own)
    _, old, rest, own, _ = best_head("Alibi")
    assert old < 0.15 and rest + own > 0.65 and 0.35 < own / (rest + own) < 0.65
    right, old, *_ = best_head("T5Bias")
    assert old > 0.45 and right < 0.42
    of_distances(found)


def of_distances(found):
    """What notebook 22 says of accuracy by distance in 256 tokens, and of hidden keys and capped distances."""

    def accuracy(name, first, last, keys="all", length=256):
        model = found["MODELS"][name]
        cap = functools.partial(found["capped"], model, most=31)
        ways = {"all": model, "near": found["narrowed"](model, 32), "capped": cap}
        right, asked = found["by_distance"](ways[keys], length)
        return (right[first:last].sum() / asked[first:last].sum()).item()

    assert found["BINS"][:5] == (0, 8, 16, 24, 32) and found["BINS"][6] == 64
    for length in (64, 128, 256):
        assert accuracy("Alibi", 0, 2, length=length) > 0.99
    assert accuracy("Alibi", 4, 8) < 0.35
    assert accuracy("Alibi", 0, 4, "near") > accuracy("Alibi", 0, 4) - 0.03
    assert accuracy("Alibi", 5, 8, "capped") > accuracy("Alibi", 5, 8) + 0.1
    assert accuracy("T5Bias", 1, 4, length=64) > accuracy("T5Bias", 1, 4, length=128) > accuracy("T5Bias", 1, 4) + 0.1
    assert accuracy("T5Bias", 1, 4, "near") > 0.9 and 0.6 < accuracy("T5Bias", 6, 8) < 0.8
    assert accuracy("T5Bias", 0, 8, "capped") == accuracy("T5Bias", 0, 8)
    assert 0.4 < accuracy("Rotary", 0, 1) < 0.55
    assert accuracy("Rotary", 0, 1, "near") > 0.99 and accuracy("Rotary", 0, 1, "capped") > 0.95
    assert accuracy("Rotary", 1, 4) < accuracy("Rotary", 1, 4, "capped") < accuracy("Rotary", 1, 4, "near") - 0.05


def test_the_first_halves_of_wikitext():
    """Of notebook 22: the loss of the first half is twice that of the whole less that of the second half."""
    assert math.exp(2 * math.log(19.44) - math.log(16.44)) == pytest.approx(23, abs=0.05)


def test_pieces_of_128_characters_are_harder_than_the_same_places_of_longer_ones():
    """Of notebook 22: for a table of pairs of characters, which knows no place, as for all schemes."""
    entry = next(e for e in entries(NOTEBOOKS / "data" / "contest.jsonl") if e.setting["task"] == "next character")
    if entry.result["text"] != _text_digest():
        pytest.skip("another version of Python has another text")
    known = characters("train")
    pairs = torch.full((CHARACTERS, CHARACTERS), 0.1, dtype=torch.float64)
    pairs.index_put_((known[:-1], known[1:]), torch.ones(1, dtype=torch.float64), accumulate=True)
    share = pairs / pairs.sum(1, keepdim=True)

    def bits(length):
        generator = torch.Generator().manual_seed(SEEDS["test"])
        batch = max(64, math.ceil(8192 / length))
        text, following = TASKS["next character"].task(batch, length, generator, part="test")
        return -share[text, following].log2().mean(0)

    recovered = 2 * bits(128).mean() - bits(64).mean()
    assert recovered > bits(512)[64:128].mean() + 0.1
