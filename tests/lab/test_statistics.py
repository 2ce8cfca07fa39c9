"""What is sure, what is not, and what was not trained: on results that are written down here."""

import itertools
import math

import numpy as np
import pytest

from posenc_lib.lab.catalog import scheme_classes
from posenc_lib.lab.contest import RATES_SEED, SEEDS, Entry, Size, pairs, run
from posenc_lib.lab.settings import Frame, extensions
from posenc_lib.lab.statistics import (
    Cell,
    Spread,
    claim,
    distinct_resamples,
    leading,
    of_size,
    ordered_by_chance,
    ranking,
    resampled,
    share_above,
    spread,
    table,
)
from posenc_lib.lab.trial import TASKS


def cell(scheme, values, task="induction", met=None, seeds=None):
    seeds = tuple(range(len(values))) if seeds is None else seeds
    return Cell(scheme, task, seeds, tuple(True for _ in seeds) if met is None else met, {64: tuple(values)})


def entry(scheme="Alibi", task="induction", seed=0, measure=0.5, size=None, rate=1e-3, **others):
    """A run whose measure is the same at every length."""
    size = Size() if size is None else size
    setting = run(scheme, task, seed, rate, size)
    measures = {str(n): measure for n in TASKS[task].lengths(setting["length"])}
    result = {"met": True, "updates": 100, "seconds": 1.0, "loss": 0.1, "measure": measures, "version": "11111111"}
    return Entry(setting, result | others)


def exactly_above(above, below, margin=0.0):
    """The share in all resamples of both, as often as each can be drawn."""
    means = [sorted(map(np.mean, itertools.product(values, repeat=len(values)))) for values in (above, below)]
    return np.searchsorted(means[1], np.array(means[0]) - margin - 1e-9).mean() / len(means[1])


# what a bootstrap is


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_distinct_resamples_are_counted(n):
    assert distinct_resamples(n) == len({tuple(sorted(draw)) for draw in itertools.product(range(n), repeat=n)})


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("margin", [0.0, 0.1])
def test_share_is_that_of_all_resamples(seed, margin):
    above, below = np.random.default_rng(seed).normal([[0.5], [0.0]], size=(2, 5))
    assert share_above(above, below, margin) == pytest.approx(exactly_above(above, below, margin), abs=0.02)


def test_paired_share_is_that_of_all_resamples_of_the_differences():
    above, below = [0.5, 0.9, 0.1, 0.7, 0.3], [0.4, 0.8, 0.1, 0.5, 0.35]
    differences = [a - b for a, b in zip(above, below, strict=True)]
    assert share_above(above, below, 0.02, paired=True) == pytest.approx(
        exactly_above(differences, [0] * 5, 0.02), abs=0.02
    )
    assert share_above(above, below, 0.02) < 0.7  # the seeds differ more than the schemes


def test_a_number_is_the_same_in_every_resample():
    values = [0.1, 0.2, 0.3, 0.4, 0.5]
    assert share_above(values, 0.25, margin=0) == pytest.approx(exactly_above(values, [0.25]), abs=0.02)
    assert share_above(0.25, values, margin=0) == pytest.approx(exactly_above([0.25], values), abs=0.02)
    assert share_above(0.25, 0.2, margin=0) == 1


def test_ties_are_above_on_neither_side():
    same = [0.7, 0.1, 0.2, 0.4, 0.3]
    assert share_above([0.7] * 5, [0.7] * 5, margin=0) == share_above([0.7] * 3, 0.7, margin=0) == 0
    assert share_above(same, same[::-1], margin=0, paired=False) < 0.6
    assert share_above(same, same, margin=0, paired=True) == 0


def test_without_spread_the_margin_decides():
    assert share_above([0.9999] * 5, [0.9998] * 5, margin=0) == 1
    assert share_above([0.9999] * 5, [0.9998] * 5) == 0
    assert share_above([0.96] * 5, [0.94] * 5) == 1
    assert share_above([1.0] * 5, [0.75] * 5, margin=0.25) == 0, "by more than the margin"


def test_endless_bits_are_above_all_that_end():
    assert share_above([math.inf, 2.0, math.inf, math.inf, 2.0], [1.0] * 5) == 1
    assert share_above([math.inf] * 5, [math.inf] * 5) == 0


def test_the_same_arguments_give_the_same_share_and_another_seed_another():
    above, below = [0.5, 0.9, 0.1, 0.7, 0.3], [0.4, 0.8, 0.1, 0.5, 0.35]
    first, again, other = (share_above(above, below, seed=seed) for seed in (0, 0, 1))
    assert first == again != other


def test_schemes_that_are_the_same_are_ordered_as_often_as_the_module_says():
    drawn = np.random.default_rng(0).normal(size=(400, 2, 5))
    ordered = [max(share_above(a, b, 0, resamples=500), share_above(b, a, 0, resamples=500)) for a, b in drawn]
    assert np.mean(np.array(ordered) >= 0.95) == pytest.approx(0.18, abs=0.06)
    assert np.mean(np.array(ordered) >= 0.99) == pytest.approx(0.07, abs=0.04)


def test_draws_are_places_and_the_two_sides_have_others():
    first, second = resampled(5, 1000), resampled(5, 1000, side=1)
    assert first.shape == (1000, 5) and set(np.unique(first)) == set(range(5))
    assert (first != second).any() and (first != resampled(5, 1000, seed=1)).any()
    assert (resampled(5, 10) == first[:10]).all()
    a, b = np.array([0.9, 0.8, 0.7, 0.9, 0.2]), np.array([0.71, 0.83, 0.82, 0.754, 0.7])
    share = (a[first].mean(1) > b[second].mean(1) + 0.0101).mean()
    assert share == share_above(a, b, 0.0101, resamples=1000)


def test_equal_schemes_are_ordered_by_chance_the_less_the_more_seeds():
    two, five, twenty = (ordered_by_chance(n, 0.05) for n in (2, 5, 20))
    assert two > 0.15 > five > 0.04 > twenty
    assert ordered_by_chance(5, 0.2) > five > ordered_by_chance(5, 0.05, margin=0.05)
    assert ordered_by_chance(5, 0.05, level=0.99) < five


def test_spread():
    assert spread([1.0, 0.2, 0.3]) == Spread(0.5, 0.2, 1.0)


@pytest.mark.parametrize(
    ("error", "said", "arguments"),
    [
        (TypeError, r"above must be numbers, got \['a', 'b'\]", (["a", "b"], 1.0)),
        (TypeError, "below must be numbers, got None", ([1.0, 2.0], None)),
        (ValueError, r"below must be a number, or at least two values.*\[1.0\]", ([1.0, 2.0], [1.0])),
        (ValueError, r"above must be a number, or at least two values", ([[1.0, 2.0]], 1.0)),
        (ValueError, r"above must have no value that is not a number.*nan", ([1.0, math.nan], 1.0)),
        (ValueError, "margin must not be negative, got -0.1", ([1.0, 2.0], 1.0, -0.1)),
        (TypeError, "margin must be a number, got 'wide'", ([1.0, 2.0], 1.0, "wide")),
        (ValueError, "paired needs as many values above as below, got 2 and 3", ([1, 2], [1, 2, 3], 0, True)),
        (ValueError, "resamples must be at least 1, got 0", ([1.0, 2.0], 1.0, 0, False, 0)),
        (ValueError, "seed must be at least 0, got -1", ([1.0, 2.0], 1.0, 0, False, 9, -1)),
    ],
)
def test_refusals_of_a_comparison(error, said, arguments):
    with pytest.raises(error, match=said):
        share_above(*arguments)


def test_refusals_of_the_others():
    for arguments in ({"n": 0}, {"n": 5, "resamples": 0}, {"n": 5, "seed": -1}, {"n": 5, "side": -1}):
        name = list(arguments)[-1]
        with pytest.raises(ValueError, match=f"{name} must be at least"):
            resampled(**arguments)
    with pytest.raises(ValueError, match="n must be at least 2, got 1"):
        ordered_by_chance(1, 0.1)
    with pytest.raises(ValueError, match="apart must not be negative, got -1"):
        ordered_by_chance(5, -1)
    with pytest.raises(ValueError, match="comparisons must be at least 1, got 0"):
        ordered_by_chance(5, 0.1, comparisons=0)
    with pytest.raises(ValueError, match="level must be greater than"):
        ordered_by_chance(5, 0.1, level=0.5)
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        distinct_resamples(0)
    for level in (0.75, 1.5):
        with pytest.raises(ValueError, match=f"level must be greater than 0.75 and at most 1, got {level}"):
            claim("", [1.0, 2.0], 0.0, level=level)
        with pytest.raises(ValueError, match=f"level must be greater than 0.75 and at most 1, got {level}"):
            ranking([], 64, level=level)
    with pytest.raises(TypeError, match="level must be a number"):
        ranking([], 64, level="high")
    with pytest.raises(ValueError, match="margin must not be negative"):
        ranking([], 64, margin=-1)


# claims


def test_a_claim_says_its_means_and_its_share(capsys):
    assert claim("A above B", [0.9, 0.8, 0.9, 1.0, 0.9], [0.2, 0.3, 0.2, 0.1, 0.2])
    assert not claim("A above C", [0.9, 0.8, 0.9, 1.0, 0.9], [0.9] * 5, margin=0.0)
    first, second = capsys.readouterr().out.splitlines()
    assert first == "A above B: 0.900 > 0.200 by more than 0.01 in 100 % of resamples, sure"
    assert second.startswith("A above C: 0.900 > 0.900 by more than 0 in ")
    assert second.endswith("of resamples, not sure")


def test_a_share_below_the_level_is_never_printed_as_the_level(capsys):
    assert 0.945 < share_above([1, 1, 1, 0], 0.4, resamples=100_000) < 0.95, "243 / 256 without the draws"
    assert not claim("almost", [1, 1, 1, 0], 0.4, resamples=100_000)
    assert capsys.readouterr().out == "almost: 0.750 > 0.400 by more than 0.01 in 94 % of resamples, not sure\n"


# tables


def test_a_table_has_every_scheme_and_task_and_says_that_none_is_trained():
    cells = table([])
    assert [pair for pair in cells if ", " not in pair[0]] == pairs(scheme_classes(), TASKS)
    assert {of.untrained() for of in cells.values()} == {"not trained yet"}
    assert {of.scheme for of in cells.values() if of.task == "induction"} >= {
        "Rotary, YaRN",
        "Rotary, query temperature",
    }
    assert ranking([of for of in cells.values() if of.task == "grid"], 25) == []


def test_a_cell_has_its_runs_by_seed():
    found = [entry(seed=seed, measure=seed / 10, rate=rate) for seed, rate in ((2, 1e-3), (0, 3e-3), (1, 1e-3))]
    of = table(found, ["Alibi"], ["induction"])["Alibi", "induction"]
    assert of.seeds == (0, 1, 2) and of.met == (True, True, True)
    assert of.measures == {n: (0.0, 0.1, 0.2) for n in (32, 64, 128, 256)}
    assert of.at(64, n_seeds=3).tolist() == [0.0, 0.1, 0.2]


def test_what_does_not_belong_to_the_table_is_left_out():
    large = Size(layers=4, width=256)
    others = [entry(seed=RATES_SEED), entry(scheme="Gone"), entry(task="grid"), entry(size=large)]
    others.append(Entry(entry().setting | {"task": "sorting"}, entry().result))
    assert table(others, ["Alibi"], ["induction"])["Alibi", "induction"].seeds == ()
    assert table(others, ["Alibi"], ["induction"], large)["Alibi", "induction"].seeds == (0,)
    assert of_size(others) == [*others[:3]] and of_size(others, large) == [others[3]]


@pytest.mark.parametrize(
    ("seeds", "failed", "said"),
    [
        (0, (), "not trained yet"),
        (3, (), "not trained yet: 3 of 5 seeds"),
        (5, (1, 4), "not trained: the criterion met in 3 of 5 seeds"),
        (3, (0,), "not trained: the criterion met in 2 of 3 seeds"),
        (6, (), None),
    ],
)
def test_not_trained_is_told_and_never_compared(seeds, failed, said):
    found = [entry(seed=seed, measure=1.0, met=seed not in failed) for seed in range(seeds)]
    found += [entry("Shaw", seed=seed, measure=0.2) for seed in range(5)]
    cells = table(found, ["Alibi", "Shaw"], ["induction"])
    of = cells["Alibi", "induction"]
    assert of.untrained() == said
    assert [place.scheme for place in ranking(cells.values(), 64)] == (["Shaw"] if said else ["Alibi", "Shaw"])
    if said:
        with pytest.raises(ValueError, match=f"Alibi on induction cannot be compared: {said}"):
            of.at(64)


def test_a_run_without_a_finite_loss_met_nothing():
    found = [entry(seed=seed, loss=None if seed == 2 else 0.1) for seed in range(5)]
    of = table(found, ["Alibi"], ["induction"])["Alibi", "induction"]
    assert of.untrained() == "not trained: the criterion met in 4 of 5 seeds"


def test_what_is_done_to_a_trained_rope_has_cells_of_its_own():
    methods = extensions(Frame(32, 256), 2.0)
    measured = {method: {str(n): n / 1000 for n in (64, 128, 256)} for method in methods}
    found = [entry("Rotary", seed=seed, measure=0.9, extended=measured) for seed in SEEDS]
    cells = table(found, ["Rotary"], ["induction", "grid"])
    assert [scheme for scheme, task in cells if task == "grid"] == ["Rotary"]
    assert [scheme for scheme, task in cells if task == "induction"] == ["Rotary", *(f"Rotary, {m}" for m in methods)]
    of = cells["Rotary, YaRN", "induction"]
    assert (of.scheme, of.seeds, of.untrained()) == ("Rotary, YaRN", SEEDS, None)
    assert {n: values[0] for n, values in of.measures.items()} == {32: 0.9, 64: 0.064, 128: 0.128, 256: 0.256}
    assert claim("RoPE above", cells["Rotary", "induction"].at(64), of.at(64))


def test_refusals_of_a_table():
    for name, arguments in (("schemes", (["Rope"],)), ("task", (["Alibi"], ["sorting"]))):
        with pytest.raises(ValueError, match=f"{name} must be one of"):
            table([], *arguments)
    with pytest.raises(ValueError, match=r"Alibi on induction must have one run for each seed, got \[0, 0\]"):
        table([entry(), entry(rate=1e-2)])
    with pytest.raises(ValueError, match=r"Alibi on induction was made by 2 versions of the code.*'11111111', '2'"):
        table([entry(), entry(seed=1, version="2")])
    texts = [entry(scheme, "next character", text=text) for scheme, text in (("Alibi", "a"), ("Shaw", "b"))]
    with pytest.raises(ValueError, match=r"next character was measured on 2 texts.*'a', 'b'"):
        table(texts)
    assert table(texts, ["Alibi"])["Alibi", "next character"].seeds == (0,)


def test_refusals_of_a_cell():
    of = cell("Alibi", [0.1, 0.2, math.nan, 0.3, 0.4])
    with pytest.raises(ValueError, match="Alibi on induction at length 64 has a measure that is not a number"):
        of.at(64)
    with pytest.raises(ValueError, match="length must be one of 64, got 32"):
        of.at(32)
    with pytest.raises(ValueError, match="n_seeds must be at least 2, got 1"):
        of.untrained(1)


# rankings


def places(found):
    return {place.scheme: (place.first, place.last, place.groups) for place in found}


def test_apart_is_ordered_and_overlapping_is_not():
    cells = [
        cell("low", [0.1, 0.12, 0.11, 0.1, 0.13]),
        cell("high", [0.9, 0.95, 0.92, 0.91, 0.94]),
        cell("same", [0.91, 0.94, 0.93, 0.9, 0.95]),
    ]
    found = ranking(cells, 64)
    assert places(found) == {"high": (1, 2, (1,)), "same": (1, 2, (1,)), "low": (3, 3, (2,))}
    assert [place.scheme for place in found][2] == "low"
    assert found[2].spread == spread([0.1, 0.12, 0.11, 0.1, 0.13])


def test_between_two_that_are_ordered_one_may_belong_to_both_groups():
    cells = [cell("a", [0.8, 0.82, 0.84, 0.86, 0.88]), cell("c", [0.7, 0.72, 0.74, 0.76, 0.78])]
    cells.append(cell("b", [0.65, 0.95, 0.7, 0.9, 0.8]))
    assert places(ranking(cells, 64)) == {"a": (1, 2, (1,)), "b": (1, 3, (1, 2)), "c": (2, 3, (2,))}


def test_a_wide_spread_may_be_apart_from_none_of_two_that_are_ordered_below_it():
    """Groups are no stretches of the list: the first has one with each of the two below, and these have none."""
    cells = [cell("wide", [0.0, 1.0, 1.0, 0.9, 0.9]), cell("b", [0.7] * 5), cell("c", [0.6] * 5)]
    assert places(ranking(cells, 64)) == {"wide": (1, 3, (1, 2)), "b": (1, 2, (1,)), "c": (2, 3, (2,))}


@pytest.mark.parametrize("paired", [False, True])
def test_two_are_ordered_if_and_only_if_they_have_no_group_in_common(paired):
    drawn = np.random.default_rng(3).normal(size=(12, 5)) / 4 + np.linspace(0, 1.5, 12)[:, None]
    cells = {f"s{n}": cell(f"s{n}", values) for n, values in enumerate(drawn)}
    found = ranking(cells.values(), 64, paired=paired)
    assert [p.spread.mean for p in found] == sorted((p.spread.mean for p in found), reverse=True)
    shares = {}
    for a, b in itertools.permutations(cells, 2):
        shares[a, b] = share_above(cells[a].at(64), cells[b].at(64), paired=paired) >= 0.95
    groups = {place.scheme: set(place.groups) for place in found}
    for a, b in shares:
        assert bool(groups[a] & groups[b]) == (not shares[a, b] and not shares[b, a])
    for place in found:
        assert place.first == 1 + sum(shares[other, place.scheme] for other in cells if other != place.scheme)
        assert place.last == 12 - sum(shares[place.scheme, other] for other in cells if other != place.scheme)
    members = [{s for s in cells if number in groups[s]} for number in range(1, 1 + max(map(max, groups.values())))]
    assert all(not one < other for one in members for other in members), "another could join"


def test_a_newcomer_changes_no_order_among_the_others():
    drawn = np.random.default_rng(5).normal(size=(8, 5)) / 3 + np.linspace(0, 1, 8)[:, None]
    cells = [cell(f"s{n}", values) for n, values in enumerate(drawn)]
    without, with_it = (places(ranking(some, 64)) for some in (cells, [cell("new", [-9.0] * 5), *cells]))
    assert all(with_it[name][:2] == without[name][:2] for name in without)


def test_fewer_bits_are_better():
    cells = [cell(name, values, "next character") for name, values in (("a", [2.5] * 5), ("b", [2.25] * 5))]
    found = ranking(cells, 64)
    assert [(place.scheme, place.first, place.spread.mean) for place in found] == [("b", 1, 2.25), ("a", 2, 2.5)]


def test_schemes_without_spread_share_a_group_within_the_margin():
    cells = [cell("a", [1.0] * 5), cell("b", [0.995] * 5), cell("c", [0.98] * 5)]
    assert places(ranking(cells, 64)) == {"a": (1, 2, (1,)), "b": (1, 2, (1,)), "c": (3, 3, (2,))}
    assert [place.groups for place in ranking(cells, 64, margin=0)] == [(1,), (2,), (3,)]
    assert [place.groups for place in ranking(cells, 64, margin=0.5)] == [(1,)] * 3


def test_equal_means_stand_by_name_and_share_a_group():
    cells = [cell("b", [1.0] * 5), cell("a", [1.0] * 5)]
    assert [(place.scheme, place.groups) for place in ranking(cells, 64)] == [("a", (1,)), ("b", (1,))]


def test_refusals_of_a_ranking():
    with pytest.raises(ValueError, match=r"cells must have one and the same task, got \['grid', 'induction'\]"):
        ranking([cell("a", [1.0] * 5), cell("b", [1.0] * 5, "grid")], 64)
    with pytest.raises(ValueError, match=r"cells must be of different schemes, got \['a', 'a'\]"):
        ranking([cell("a", [1.0] * 5), cell("a", [1.0] * 5)], 64)
    others = [cell("a", [1.0] * 5), cell("b", [1.0] * 5, seeds=(1, 2, 3, 4, 5))]
    assert len(ranking(others, 64)) == 2
    with pytest.raises(ValueError, match="cells must have one and the same seeds"):
        ranking(others, 64, paired=True)
    with pytest.raises(ValueError, match="length must be one of 64, got 128"):
        ranking([cell("a", [1.0] * 5)], 128)


def test_a_claim_fails_once_the_file_is_changed():
    found = [
        entry(scheme, seed=s, measure=m + s / 100) for scheme, m in (("Alibi", 0.8), ("Learned", 0.3)) for s in SEEDS
    ]

    def holds(entries):
        cells = table(entries, ["Alibi", "Learned"], ["induction"])
        return claim("ALiBi keeps more", *(cells[scheme, "induction"].at(256) for scheme in ("Alibi", "Learned")))

    assert holds(found)
    changed = [
        e._replace(result=e.result | {"measure": e.result["measure"] | {"256": 0.3}})
        if e.setting["scheme"] == "Alibi"
        else e
        for e in found
    ]
    assert not holds(changed)
    with pytest.raises(ValueError, match="Alibi on induction cannot be compared: not trained yet: 4 of 5 seeds"):
        holds(found[1:])


def test_a_lower_mean_does_not_share_the_first_place_by_its_scatter():
    values = {"a": [0.99] * 5, "b": [0.95] * 5, "c": [0.99, 0.99, 0.99, 0.99, 0.75], "d": [0.985] * 5}
    cells = [Cell(name, "induction", tuple(range(5)), (True,) * 5, {64: tuple(of)}) for name, of in values.items()]
    places = ranking(cells, 64)
    assert {place.scheme for place in places if place.first == 1} == {"a", "c", "d"}
    assert leading(places) == ["a", "d"] and leading([]) == []
