"""Answers by distance: what is counted where, what is added to a text, and that a cap changes distances only."""

from pathlib import Path

import pytest
import torch

from posenc_lib.lab import TinyTransformer
from posenc_lib.lab.contest import entries
from posenc_lib.lab.distances import (
    BINS,
    IGNORED,
    READ,
    WHERE,
    WRITE,
    answered,
    by_distance,
    capped,
    ending_in_a_read,
    layers_apart,
    to_last_write,
    told_to_pairs,
    wanted,
    with_gap,
    with_ignored,
)
from posenc_lib.lab.inside import narrowed
from posenc_lib.lab.remake import remake
from posenc_lib.lab.statistics import of_size
from posenc_lib.lab.tasks import IGNORE
from posenc_lib.lab.trial import SEEDS, TASKS
from posenc_lib.schemes.alibi import Alibi
from posenc_lib.schemes.context_extension import RescaledFrequencies
from posenc_lib.schemes.rope import Rotary
from posenc_lib.schemes.sinusoidal import Sinusoidal
from posenc_lib.schemes.t5 import T5Bias
from posenc_lib.schemes.xpos import XPos


def text(length=60):
    return torch.randint(7, (2, length), generator=torch.Generator().manual_seed(0))


def test_distances_by_loops():
    tokens, _ = TASKS["flip-flop"].task(5, 40, torch.Generator().manual_seed(0))
    found = to_last_write(tokens)
    for row, back in zip(tokens.tolist(), found.tolist(), strict=True):
        last = 0
        for p in range(40):
            last = p if p % 2 == 0 and row[p] == WRITE else last
            assert back[p] == p - last - 1


def reader(reach):
    """Says the value of the last write if it stands at most so far back, and what no text asks for elsewhere."""

    def answer(tokens):
        back = to_last_write(tokens)
        at = torch.arange(tokens.shape[1])
        value = tokens.gather(1, (at - back).clamp(0, tokens.shape[1] - 1))
        return torch.nn.functional.one_hot(torch.where(back <= reach, value, 10), 11)

    return answer


@pytest.mark.parametrize("length", [32, 256])
def test_who_reads_so_far_is_right_so_far(length):
    right, asked = by_distance(reader(31), length)
    near = torch.tensor([last <= 32 for last in BINS[1:]])
    assert torch.equal(right, asked * near)
    _, targets = TASKS["flip-flop"].task(256, length, torch.Generator().manual_seed(SEEDS["test"]))
    assert asked.sum() == (targets != IGNORE).sum()


def test_a_text_beyond_the_bins_is_refused():
    with pytest.raises(ValueError, match="from 1 to 256"):
        by_distance(reader(31), 257)


@pytest.mark.parametrize("scheme", [Rotary(16), Alibi(4), T5Bias(4, bidirectional=False)], ids=lambda s: s.name)
def test_a_cap_beyond_the_text_changes_nothing(scheme):
    model = TinyTransformer(scheme, 7).double()
    torch.testing.assert_close(capped(model, text(), 59), model(text()), rtol=0, atol=1e-12)
    assert (capped(model, text(), 9) - model(text())).abs().max() > 1e-4


def test_a_cap_leaves_the_first_places_as_they_are():
    model = TinyTransformer(Rotary(16), 7).double()
    unlike = (capped(model, text(), 9) - model(text())).abs().amax((0, 2)) > 1e-12
    assert not unlike[:10].any() and unlike[10:].all()


def test_a_cap_hides_no_key():
    """All keys but the first are alike: far ones count still, where a window leaves them out."""
    model = TinyTransformer(Rotary(16), 7, num_layers=1).double()
    tokens = torch.ones(1, 40, dtype=torch.int64)
    tokens[0, 0] = 2
    other = tokens.clone()
    other[0, 0] = 3
    assert (capped(model, tokens, 5) - capped(model, other, 5))[0, 30].abs().max() > 1e-6
    assert torch.equal(narrowed(model, 6)(tokens)[0, 30], narrowed(model, 6)(other)[0, 30])


def test_a_cap_is_told_to_every_layer():
    """With all distances capped at 0 no order is left among the keys of a query: it says what it says of any order."""
    model = TinyTransformer(Rotary(16), 7).double()
    turned = text(20)
    turned[:, :19] = text(20)[:, :19].flip(1)
    one = TinyTransformer(Rotary(16), 7, num_layers=1).double()
    torch.testing.assert_close(capped(one, text(20), 0)[:, -1], capped(one, turned, 0)[:, -1], rtol=0, atol=1e-12)
    assert (model(text(20))[:, -1] - model(turned)[:, -1]).abs().max() > 1e-4


@pytest.mark.parametrize(
    ("model", "most", "said"),
    [
        (TinyTransformer(Rotary(16), 7), -1, "most"),
        (TinyTransformer(Rotary(16), 7, windows=[4, None]), 3, "windows"),
        (TinyTransformer(Rotary(16), 7, sinks=True), 3, "sinks"),
        (TinyTransformer(Sinusoidal(64), 7), 3, "distances only"),
    ],
)
def test_models_that_cannot_be_capped_are_refused(model, most, said):
    with pytest.raises(ValueError, match=said):
        capped(model, text(), most)


def last_write(row):
    return max(p for p in range(0, len(row) - 1, 2) if row[p] == WRITE)


@pytest.mark.parametrize(("nearest", "farthest", "length"), [(9, 15, 32), (3, 3, 16), (24, 31, 64)])
def test_texts_end_in_a_read_of_a_write_so_far_back_and_have_older_values(nearest, farthest, length):
    tokens = ending_in_a_read(200, nearest, farthest, length)
    assert tokens.shape == (200, length - 1)
    found = set()
    for row, answer in zip(tokens.tolist(), wanted(tokens).tolist(), strict=True):
        write = last_write(row)
        found.add(length - 2 - (write + 1))
        assert row[-1] == READ and answer == row[write + 1]
        assert {row[p] for p in range(0, length, 2)} <= {WRITE, READ, IGNORED}
        assert any(row[p] != IGNORED for p in range(0, write, 2))
        assert all(row[p + 1] == answer for p in range(write, length - 2, 2) if row[p] == READ)
    assert found == set(range(nearest + (nearest % 2 == 0), farthest + 1, 2))


def test_texts_with_a_question_are_of_the_law_of_the_task():
    """Those of the task that have the same question, of other draws: as many orders of each kind, within the noise."""
    task, _ = TASKS["flip-flop"].task(40_000, 32, torch.Generator().manual_seed(5))
    task = task[:, :-1]
    back = to_last_write(task)[:, -1]
    older = (task[:, ::2] != IGNORED) & (2 * torch.arange(16) < 29 - back[:, None])
    task = task[(task[:, -1] == READ) & (back >= 9) & (back <= 15) & older.any(1)]
    tokens = ending_in_a_read(1000)
    for order in (WRITE, READ, IGNORED):
        gap = (tokens[:, ::2] == order).double().mean() - (task[:, ::2] == order).double().mean()
        assert abs(gap) < 0.015


@pytest.mark.parametrize("where", WHERE)
def test_ignored_orders_stand_at_their_place_and_nothing_else_is_changed(where):
    tokens = ending_in_a_read(50)
    longer, same = with_ignored(tokens, 6, where), []
    assert longer.shape == (50, 31 + 12)
    for row, old in zip(longer.tolist(), tokens.tolist(), strict=True):
        first = {WHERE[0]: 0, WHERE[1]: last_write(old), WHERE[2]: 30}[where]
        assert row[:first] == old[:first] and row[first + 12 :] == old[first:]
        added = row[first : first + 12]
        assert added[::2] == [IGNORED] * 6 and all(0 <= value < WRITE for value in added[1::2])
        same.append(added)
    assert torch.equal(wanted(longer), wanted(tokens))
    added = with_ignored(tokens, 6, WHERE[0])[:, :12]
    assert same == added.tolist()  # the same ones at every place
    assert len({tuple(row) for row in same}) > 40
    assert torch.equal(with_ignored(tokens, 0, where), tokens)


def distances(tokens, positions):
    """Of each text how far the right value and those before it stand from the last token."""
    right, older = [], []
    for row, at in zip(tokens.tolist(), positions.tolist(), strict=True):
        write = last_write(row)
        right.append(at[-1] - at[write + 1])
        older.append([at[-1] - at[p + 1] for p in range(0, write, 2) if row[p] != IGNORED])
    return right, older


@pytest.mark.parametrize(
    ("where", "right_more", "older_more"), [(WHERE[0], 0, 0), (WHERE[1], 0, 20), (WHERE[2], 20, 20)]
)
def test_what_stands_farther_is_the_same_with_orders_and_with_a_gap(where, right_more, older_more):
    tokens = ending_in_a_read(50)
    right, older = distances(tokens, torch.arange(31).expand(50, -1))
    expected = [r + right_more for r in right], [[back + older_more for back in row] for row in older]
    longer = with_ignored(tokens, 10, where)
    assert distances(longer, torch.arange(51).expand(50, -1)) == expected
    positions = with_gap(tokens, 20, where)
    assert distances(tokens, positions) == expected
    assert (positions[:, -1] == 50).all() and (positions.diff(dim=1) >= 1).all()
    assert torch.equal(with_gap(tokens, 0, where), torch.arange(31).expand(50, -1))


@pytest.mark.parametrize("scheme", [Rotary(16), Alibi(4), T5Bias(4, bidirectional=False)], ids=lambda s: s.name)
def test_a_gap_before_everything_changes_nothing_for_who_knows_distances_only(scheme):
    model, tokens = TinyTransformer(scheme, 11).double(), ending_in_a_read(5)
    moved = [model(tokens, with_gap(tokens, 9, where))[:, -1] for where in WHERE]
    torch.testing.assert_close(moved[0], model(tokens)[:, -1], rtol=0, atol=1e-9)
    assert all((other - moved[0]).abs().max() > 1e-4 for other in moved[1:])


def test_a_gap_is_told_to_some_pairs_only():
    """By the frequencies: a pair that stands still hears of no gap, however it is told."""
    tokens = ending_in_a_read(5)
    at = with_gap(tokens, 30, WHERE[2])
    still = Rotary(16).inv_freq.clone()
    still[[0, 1, 3, 4, 5, 6, 7]] = 0
    only_third = TinyTransformer(Rotary(16, rope_scaling=RescaledFrequencies(still)), 11).double()
    torch.testing.assert_close(told_to_pairs(only_third, {2})(tokens, at), only_third(tokens, at), rtol=0, atol=1e-9)
    others = told_to_pairs(only_third, {0, 1, 3, 4, 5, 6, 7})
    torch.testing.assert_close(others(tokens, at), only_third(tokens), rtol=0, atol=1e-9)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_told_pairs_turn_with_the_positions_and_the_others_with_the_place(layout):
    scheme = Rotary(16, base=500.0, layout=layout)
    model, at = TinyTransformer(scheme, 11), torch.tensor([[0, 1, 7, 30], [0, 5, 6, 7]])
    given = told_to_pairs(model, [2, 5]).schemes
    assert len(given) == 2
    for one in given:
        found = one.angles(at) / scheme.inv_freq
        assert one.layout == layout
        for t in range(8):
            expected = at.double() if t in (2, 5) else torch.arange(4).double().expand(2, 4)
            torch.testing.assert_close(found[..., t], expected)
    assert model.schemes == [scheme, scheme]


def test_all_pairs_are_the_model_and_none_is_a_text_without_a_gap():
    model, tokens = TinyTransformer(Rotary(16, rotary_fraction=0.5), 11).double(), ending_in_a_read(5)
    for where in WHERE[1:]:
        at = with_gap(tokens, 30, where)
        every, none = (told_to_pairs(model, pairs)(tokens, at) for pairs in (range(4), ()))
        assert torch.equal(every, model(tokens, at)) and torch.equal(none, model(tokens))
        assert (every - none).abs().max() > 1e-4


def test_the_first_layer_alone_meets_the_first_text():
    model, tokens = TinyTransformer(Rotary(16), 11).double(), ending_in_a_read(5)
    for where in WHERE:
        whole = model(with_ignored(tokens, 7, where))[:, -1]
        torch.testing.assert_close(layers_apart(model, tokens, 7, where, where), whole, rtol=0, atol=1e-9)
    here, there = WHERE[:2]
    made = model.hidden(with_ignored(tokens, 7, here), layers=1)
    moved = []
    for row, text in zip(made, tokens.tolist(), strict=True):
        first = last_write(text)  # of the old tokens, those behind what is added
        moved.append(torch.cat([row[14 : 14 + first], row[:14], row[14 + first :]]))
    x = torch.stack(moved)
    x = model.blocks[1](x, model.schemes[1].at(x.shape[1], like=x), None)
    expected = model.answer(model.norm(x))[:, -1]
    torch.testing.assert_close(layers_apart(model, tokens, 7, here, there), expected, rtol=0, atol=1e-9)
    both = [
        layers_apart(model, tokens, 7, *two) for two in ((here, there), (there, here), (here, here), (there, there))
    ]
    assert all((a - b).abs().max() > 1e-5 for n, a in enumerate(both) for b in both[:n])
    one = TinyTransformer(Rotary(16), 11, num_layers=1).double()  # no layer is left for the second
    assert torch.equal(layers_apart(one, tokens, 7, here, there), layers_apart(one, tokens, 7, here, here))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ending_in_a_read(0), "texts"),
        (lambda: ending_in_a_read(1, length=31), "length"),
        (lambda: ending_in_a_read(1, nearest=0), "nearest"),
        (lambda: ending_in_a_read(1, nearest=17), "farthest must leave an odd distance from 17 to 27, got 15"),
        (lambda: ending_in_a_read(1, nearest=8, farthest=8), "farthest"),
        (lambda: ending_in_a_read(1, farthest=29), "farthest"),
        (lambda: with_ignored(ending_in_a_read(1), -1, WHERE[0]), "orders"),
        (lambda: with_ignored(ending_in_a_read(1), 1, "behind"), "where must be one of 'before everything'"),
        (lambda: with_ignored(ending_in_a_read(1)[:, :-1], 1, WHERE[0]), "end in an order to read"),
        (lambda: with_ignored(torch.tensor([[IGNORED, 3, READ]]), 1, WHERE[0]), "write before it"),
        (lambda: with_gap(ending_in_a_read(1), -1, WHERE[0]), "places"),
        (lambda: with_gap(torch.tensor([[WRITE, 3, WRITE]]), 1, WHERE[1]), "end in an order to read"),
        (lambda: told_to_pairs(TinyTransformer(Rotary(16), 11), {7, 8}), r"pairs must be from 0 to 7, got \[8\]"),
        (lambda: told_to_pairs(TinyTransformer(Rotary(16), 11), [-1]), "pairs must be from 0 to 7"),
        (lambda: told_to_pairs(TinyTransformer(Alibi(4), 11), [0]), "RoPE in every layer, got ALiBi"),
        (lambda: told_to_pairs(TinyTransformer([Rotary(16), XPos(16)], 11), [0]), "RoPE in every layer, got xPos"),
        (lambda: layers_apart(TinyTransformer(Sinusoidal(64), 11), text(), 3, *WHERE[:2]), "distances only"),
        (lambda: layers_apart(TinyTransformer(Rotary(16), 11, sinks=True), text(), 3, *WHERE[:2]), "sinks"),
    ],
)
def test_texts_and_places_that_make_no_sense_are_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()


FILE = Path(__file__).parents[2] / "notebooks" / "data" / "contest.jsonl"


@pytest.mark.parametrize(
    ("scheme", "seed"), [("T5Bias", 3), ("T5Bias", 4), ("Rotary", 1), ("Rotary", 2), ("Alibi", 1), ("Alibi", 2)]
)
def test_what_notebook_22_says_holds_with_seeds_that_it_does_not_train(scheme, seed):
    wished = {"scheme": scheme, "task": "flip-flop", "seed": seed}
    model = remake(**next(e.setting for e in of_size(entries(FILE)) if wished.items() <= e.setting.items()))
    tokens = ending_in_a_read(128)

    def lost(logits):
        now, then = ((x[:, -1].argmax(-1) == wanted(tokens)).double().mean() for x in (logits, model(tokens)))
        return float(then - now)

    orders = {where: lost(model(with_ignored(tokens, 112, where))) for where in WHERE}
    gaps = {where: {n: lost(model(tokens, with_gap(tokens, n, where))) for n in (56, 112, 224)} for where in WHERE}
    first, second, last = WHERE
    assert all(abs(cost) < 0.01 for cost in gaps[first].values())
    if scheme == "Alibi":
        assert orders[first] < 0.03 and abs(orders[second]) < 0.03 and abs(gaps[second][224]) < 0.03
        assert orders[last] > 0.7 and gaps[last][224] > 0.7
        far = ending_in_a_read(256, nearest=25, farthest=31, length=64)
        right = [
            (model(x)[:, -1].argmax(-1) == wanted(far)).double().mean()
            for x in (far, with_ignored(far, 96, first), with_ignored(far, 96, second))
        ]
        assert abs(right[0] - right[1]) < 0.03 and right[2] < right[0] - 0.01
    if scheme == "T5Bias":
        assert orders[first] > 0.2 and orders[second] > orders[first] + 0.1 and gaps[second][224] < 0.1
        for nearest, distance_costs_more in ((1, True), (17, False)):  # by how far back the right key stood
            near = ending_in_a_read(128, nearest, nearest + 6)
            before = answered(model, near)
            gap = before - answered(model, near, with_gap(near, 224, last))
            crowd = before - answered(model, with_ignored(near, 112, first))
            assert (gap > 0.4 and crowd < 0.1) if distance_costs_more else (gap < 0.1 and crowd > 0.25)
            assert before - answered(model, near, with_gap(near, 224, second)) < 0.1
        mixed = [layers_apart(model, tokens, 112, *two)[:, None] for two in ((first, second), (second, first))]
        assert abs(lost(mixed[0]) - orders[first]) < 0.06 and abs(lost(mixed[1]) - orders[second]) < 0.06
    if scheme == "Rotary":
        assert orders[first] > 0.8 and lost(capped(model, with_ignored(tokens, 112, first), 31)) < 0.35
        assert gaps[second][224] > 0.3 and gaps[last][224] > 0.6
        assert gaps[last][56] < 0.05 and gaps[last][112] < 0.05
        third, others = told_to_pairs(model, [2]), told_to_pairs(model, [0, 1, 3, 4, 5, 6, 7])
        for n, falls in ((28, True), (56, False), (88, True), (112, False), (144, True), (224, True)):
            cost, rest = (lost(one(tokens, with_gap(tokens, n, last))) for one in (third, others))
            assert (cost > 0.7) == falls and cost < (1 if falls else 0.3) and rest < 0.13
