"""Who remains for given needs, and the path to a choice; other results give other answers."""

import re

import pytest

from posenc_lib.lab.catalog import name_of, scheme_classes
from posenc_lib.lab.choosing import (
    KERNELS,
    MASKS,
    PATH,
    RESCALED,
    SHOWN,
    UNSAID,
    Needs,
    at_home,
    best,
    everybody,
    evidence,
    excluded,
    in_flash,
    perhaps,
    questions,
    trained,
    unless,
    unless_in_flash,
    who_remains,
)
from posenc_lib.lab.practice import FUSED, practice
from posenc_lib.lab.statistics import Cell, table
from posenc_lib.lab.trial import TASKS


@pytest.fixture(scope="module")
def rows():
    return {name: practice(name) for name in scheme_classes()}


def cells(task="copy back", lengths=(32, 64, 128, 256), **values):
    seeds = (0, 1, 2, 3, 4)
    return {
        (name, task): Cell(name, task, seeds, (True,) * 5, dict.fromkeys(lengths, (value,) * 5))
        for name, value in values.items()
    }


def named(lines):
    """Without the numbers."""
    return [re.sub(r" -?\d\.\d\d( \[.*?\])?", "", line) for line in lines]


def test_ten_questions_with_an_answer_and_evidence_each(rows):
    answers, lines = questions(table([]), rows, {}), list(evidence(table([]), rows, {}))
    assert len(PATH) <= 10
    for number, question in enumerate(PATH, start=1):
        proofs = question.evidence(table([]), rows, {})
        said = [" ".join(told(table([]), rows, {})) for told in (question.take, question.flash)]
        assert all(said) and answers[number - 1] == (number, question.asks, *said, question.rests)
        assert question.rests
        assert proofs
        start = lines.index(f"{number}. {question.asks}")
        assert lines[start + 1 : start + 1 + len(proofs)] == [f"   - {line}" for line in proofs]
    assert len(lines) == len(PATH) + sum(line.startswith("   - ") for line in lines)


def test_who_trains_on_gets_the_numbers_of_that(rows):
    def level(value):
        measures = dict.fromkeys((32, 64, 256, 512), (value,) * 5)
        pairs = [(name, task) for name in (*RESCALED, "T5Bias") for task in TASKS]
        return {pair: Cell(*pair, (0, 1, 2, 3, 4), (True,) * 5, measures) for pair in pairs}

    after = {10: level(0.25), 200: level(0.75)}
    more = [line for line in evidence(table([]), rows, {}, after) if line not in evidence(table([]), rows, {})]
    assert len(more) == 5
    assert any("passkey at 1 x, after 10, 200 more updates: RoPE 0.25, 0.75; RoPE, NTK-aware 0.25" in m for m in more)


def test_the_results_decide(rows):
    take = best(8, "copy back")
    assert take(table([]), rows, {}) == ["not known yet: too few are trained"]
    assert named(take(cells(Rotary=0.5, Alibi=0.96), rows, {})) == ["ALiBi"]
    assert named(take(cells(Rotary=0.96, Alibi=0.5), rows, {})) == ["RoPE"]
    assert named(take(cells(Alibi=0.96, Rotary=0.96), rows, {})) == ["RoPE, ALiBi"]


def test_an_answer_has_means_with_the_ends_of_the_seeds_and_says_where_none_keeps_the_task(rows):
    found = cells(Rotary=0.94, Alibi=0.94, T5Bias=0.5)
    said = "none keeps it at these rates; RoPE 0.94 [0.94, 0.94], ALiBi 0.94 [0.94, 0.94]"
    assert best(8, "copy back")(found, rows, {}) == in_flash(8, "copy back")(found, rows, {}) == [said]
    others = {("T5Bias", "copy back"): {0.01: dict.fromkeys((32, 64, 128, 256), 0.94)}}
    assert best(8, "copy back")(found, rows, others) == [f"{said} *"]
    assert best(8, "copy back")(cells(Rotary=0.95, T5Bias=0.5), rows, {}) == ["RoPE 0.95 [0.95, 0.95]"]
    seeds = cells(Rotary=0.95)["Rotary", "copy back"]
    seeds = seeds._replace(measures=seeds.measures | {256: (0.95, 0.96, 0.97, 0.98, 0.99)})
    assert best(8, "copy back")({("Rotary", "copy back"): seeds}, rows, {}) == ["RoPE 0.97 [0.95, 0.99]"]
    text = cells("next character", TASKS["next character"].lengths(64), Rotary=2.5, T5Bias=2.25)
    assert best(8, "next character")(text, rows, {}) == ["T5 2.25 [2.25, 2.25]"]


def test_in_flash_a_star_says_that_another_rate_may_bring_others(rows):
    found, longer = cells(Rotary=0.96, Alibi=0.5, T5Bias=0.5), dict.fromkeys((32, 64, 128, 256), 0.97)
    take = in_flash(8, "copy back")
    assert take(found, rows, {("Alibi", "copy back"): {0.01: longer}}) == ["RoPE 0.96 [0.96, 0.96] *"]
    assert take(found, rows, {("T5Bias", "copy back"): {0.01: longer}}) == ["RoPE 0.96 [0.96, 0.96]"], "T5 needs a bias"


def test_what_is_done_to_rope_in_longer_texts_is_out_at_the_training_length(rows):
    name = "Rotary, NTK-aware"
    found = cells(Rotary=0.96) | {(name, "copy back"): cells(Rotary=0.96)["Rotary", "copy back"]._replace(scheme=name)}
    both = {"Rotary": rows["Rotary"], name: rows["Rotary"]}
    for times, fault in ((1, "length"), (2, "")):
        faults = {s.scheme: s.fault for s in who_remains(found, both, {}, Needs("copy back", times))}
        assert faults == {"Rotary": "", name: fault}


def test_a_scheme_must_be_first_in_all_tasks_and_tell_the_sides(rows):
    both = best(8, "copy back", "look-up")
    found = cells(Rotary=0.5, Alibi=0.96) | cells("look-up", Rotary=0.96, Alibi=0.5)
    assert both(found, rows, {}) == ["no scheme is first in all of these"]
    level = cells("reverse", (12, 24, 48, 96), Rotary=0.96, Alibi=0.96)
    assert best(1, "reverse", sides=("both",))(level, rows, {}) == ["one that learns it: RoPE"]
    level = cells("reverse", (12, 24, 48, 96), Rotary=0.96, T5Bias=0.96)
    assert best(1, "reverse")(level, rows, {}) == ["one that learns it: RoPE, T5"]
    assert named(best(2, "reverse")(level, rows, {})) == ["RoPE, T5"]


def test_with_no_need_a_scheme_is_named_and_what_another_has_before_it(rows):
    def text(**bits):
        return cells("next character", TASKS["next character"].lengths(64), **bits)

    take = unless("Rotary", "next character")
    assert take(text(Rotary=2.0, T5Bias=2.0), rows, {}) == ["RoPE"]
    assert take(text(Rotary=2.5, T5Bias=2.25, Kerple=2.25), rows, {}) == ["RoPE; T5 needs 0.25 bits less"]
    rates = {("Rotary", "next character"): {0.01: dict.fromkeys(TASKS["next character"].lengths(64), 2.0)}}
    said = "RoPE; T5 needs 0.25 bits less, not at every rate"
    assert take(text(Rotary=2.5, T5Bias=2.25), rows, rates) == [said]
    assert take(table([]), rows, {}) == ["RoPE"]


def test_a_scheme_that_another_rate_brings_near_is_named(rows):
    found = cells(Rotary=0.5, Alibi=0.96, Kerple=0.2)
    others = {("Rotary", "copy back"): {0.01: {32: 1.0, 64: 1.0, 128: 1.0, 256: 0.95}}}
    assert named(best(8, "copy back")(found, rows, others)) == ["ALiBi *"]
    assert perhaps(8, "copy back")(found, rows, others) == ["at other rates perhaps also RoPE"]
    assert perhaps(8, "copy back", sides=("alike",))(found, rows, others) == []
    assert perhaps(8, "copy back")(found, rows, {}) == perhaps(8, "copy back")(table([]), rows, {}) == []
    turned = cells("look-up", Rotary=0.96, Alibi=0.5, Kerple=0.2)
    assert perhaps(8, "copy back", "look-up")(found | turned, rows, others) == [], "where nobody is first in both"


def test_of_many_that_another_rate_brings_near_the_farthest_is_named(rows):
    found = cells(Alibi=0.96, Rotary=0.6, Kerple=0.5, Shaw=0.4, T5Bias=0.3)
    others = {
        (name, "copy back"): {0.01: dict.fromkeys((32, 64, 128, 256), far)}
        for name, far in (("Rotary", 0.97), ("Kerple", 0.98), ("Shaw", 0.99), ("T5Bias", 0.965))
    }
    assert perhaps(8, "copy back")(found, rows, others) == ["at other rates perhaps also Shaw and 3 others"]
    del others["T5Bias", "copy back"]
    assert perhaps(8, "copy back")(found, rows, others) == ["at other rates perhaps also RoPE, KERPLE, Shaw"]


def test_an_answer_names_those_that_most_models_ship_then_the_cheapest_then_by_name(rows):
    ships = {"Shaw": 1, "Kerple": 2, "XPos": 1}
    kept = {
        "Shaw": 2.0,
        "Kerple": 9.0,
        "XPos": 1.0,
        "Cope": 1.0,
        "Huang": None,
        "MusicTransformer": 0.5,
        "Learned": 0.5,
    }
    mine = {s: rows[s]._replace(models=[{}] * ships.get(s, 0), kept=numbers) for s, numbers in kept.items()}
    order = ["Kerple", "XPos", "Shaw", "Huang", "Learned", "MusicTransformer", "Cope"]
    names = [name_of(s) for s in order]
    assert names[4:6] == ["learned", "Music Transformer"]
    for count, more in ((2, ""), (3, ""), (4, " or one more"), (5, " or one of 2 more"), (7, " or one of 4 more")):
        found = cells(**dict.fromkeys(order[:count][::-1], 0.96), **dict.fromkeys(order[count:], 0.1))
        assert named(best(8, "copy back")(found, mine, {})) == [", ".join(names[: min(count, SHOWN)]) + more]
        every = f"all that share the first place: {', '.join(names[:count])}"
        assert everybody(8, "copy back")(found, mine, {}) == [every]


def test_the_answer_in_flash_names_as_many(rows):
    fit = ("XPos", "SelectiveRotary", "Rotary", "DecoupledRotary")
    found = cells(**dict.fromkeys(fit, 0.96), Alibi=0.5)
    level = cells("look-up", **dict.fromkeys(fit, 0.96))
    other = cells("look-up", **dict.fromkeys(fit, 0.5), Alibi=0.96)
    take, said = in_flash(8, "copy back", "look-up"), "RoPE, decoupled RoPE, selective RoPE or one more"
    assert named(take(found | level, rows, {})) == [said]
    assert take(found | other, rows, {}) == [f"nobody in all of these; first in copy back {said}; in look-up ALiBi"]


def test_all_that_fit_are_named_in_the_evidence(rows):
    assert everybody(8, "copy back")(table([]), rows, {}) == []
    level = cells("reverse", (12, 24, 48, 96), T5Bias=0.96, Rotary=0.96, Alibi=0.96)
    assert everybody(1, "reverse", sides=("both",))(level, rows, {}) == ["all that share the first place: RoPE, T5"]


def everywhere(**values):
    """The same on every task, as accuracy or as bits; what is done to a trained RoPE has no runs."""
    found = table([], ["Rotary"])
    for name, task in TASKS.items():
        measures = {s: 1 - value if task.bits else value for s, value in values.items()}
        found |= cells(name, task.lengths(task.length), **measures)
    return found


def test_the_evidence_of_each_answer_of_the_results_names_all_that_fit(rows):
    found = everywhere(**dict.fromkeys(("Rotary", "T5Bias", "Shaw", "TransformerXL", "Deberta"), 0.96))
    told = "all that share the first place: RoPE, T5, DeBERTa, Shaw, Transformer-XL"
    said = "RoPE, T5, DeBERTa or one of 2 more"
    answers = "RoPE", said, f"one that learns it: {said}"
    short = [q for q in PATH if named(q.take(found, rows, {}))[0] in answers]
    assert [q for q in PATH if told in q.evidence(found, rows, {})] == short
    assert len(short) == 7


def test_the_evidence_of_each_answer_of_the_results_names_who_may_come_near(rows):
    found = everywhere(Rotary=0.96, T5Bias=0.5)
    lengths = {name: task.lengths(task.length) for name, task in TASKS.items()}
    others = {("T5Bias", t): {0.01: dict.fromkeys(lengths[t], 0.04 if TASKS[t].bits else 0.96)} for t in TASKS}
    alone = [q for q in PATH if named(q.take(found, rows, others))[0] in ("RoPE", "RoPE *", "one that learns it: RoPE")]
    assert [q for q in PATH if "at other rates perhaps also T5" in q.evidence(found, rows, others)] == alone
    assert len(alone) == 7


def test_what_is_done_to_a_trained_model_is_no_answer(rows):
    found = cells(Rotary=0.96, **{"Rotary, YaRN": 0.9})
    assert named(best(8, "copy back")(found, rows, {})) == ["RoPE"]
    assert everybody(8, "copy back")(found, rows, {}) == ["all that share the first place: RoPE"]
    found = cells(Rotary=0.96, Alibi=0.6, **{"Rotary, YaRN": 0.5})
    others = {("Rotary", "copy back"): {0.01: dict.fromkeys((32, 64, 128, 256), 0.4)}}
    assert perhaps(8, "copy back")(found, rows, others) == ["at other rates perhaps also ALiBi"]


def test_trained(rows):
    assert trained("copy back")(table([]), rows, {}) == ["copy back: no scheme is trained yet"]
    assert trained("copy back")(cells(Rotary=0.5, Alibi=0.9), rows, {}) == [
        "copy back: trained 2; the best of them at 2 x: 0.90"
    ]


def test_at_home(rows):
    unmet = cells(Rotary=0.5)["Rotary", "copy back"]._replace(met=(True, False, True, True, True), task="look-up")
    found = cells(Rotary=0.5, Alibi=0.9) | {("Rotary", "look-up"): unmet}
    said = "RoPE: trained on 1 of 2 tasks; look-up: not trained: the criterion met in 4 of 5 seeds"
    assert at_home("Rotary")(found, rows, {}) == [said]


def test_in_flash_a_scheme_stays_unless_somebody_there_is_surely_ahead(rows):
    take, lengths = unless_in_flash("Rotary", "next character"), TASKS["next character"].lengths(64)
    assert take(cells("next character", lengths, Rotary=2.5, XPos=2.5, T5Bias=2.25), rows, {}) == ["RoPE"]
    ahead = cells("next character", lengths, Rotary=2.5, XPos=2.25, T5Bias=2.0)
    assert named(take(ahead, rows, {})) == ["xPos"]


def test_the_answer_in_flash_is_who_is_first_of_those_that_add_slopes_at_most(rows):
    assert named(in_flash(8, "copy back")(cells(Rotary=0.5, Alibi=0.96, T5Bias=0.96), rows, {})) == ["ALiBi"]
    found = cells(Rotary=0.5, XPos=0.3, Kerple=0.96, T5Bias=0.96)
    assert named(in_flash(8, "copy back")(found, rows, {})) == ["none keeps it at these rates; RoPE"]
    assert in_flash(8, "copy back")(table([]), rows, {}) == ["not known yet"]
    other = cells("look-up", Rotary=0.5, XPos=0.96)
    assert in_flash(8, "copy back", "look-up")(found | other, rows, {}) == [
        "nobody in all of these; first in copy back RoPE; in look-up xPos"
    ]
    assert in_flash(8, "copy back", "look-up")(found, rows, {}) == ["not known yet"]


def test_in_flash_and_without_a_mask_those_remain_that_tell_both_sides(rows):
    level = cells("reverse", (12, 24, 48, 96), Rotary=0.5, NoPosition=0.9)
    assert in_flash(1, "reverse")(level, rows, {}) == ["none"]
    assert in_flash(1, "reverse", mask="both, without a mask")(level, rows, {}) == ["RoPE"]


FLASH, FLEX, ONE_MASK = (kernel for kernel in KERNELS if kernel != "any kernel")
FREE = "both, without a mask"
NAMES = ("Rotary", "Alibi", "T5Bias", "TransformerXL", "Fox", "PaTH", "Shaw")


def remaining(found, rows, needs, others=None):
    return [one.scheme for one in who_remains(found, rows, others or {}, needs) if not one.fault]


@pytest.mark.parametrize(
    ("kernel", "left"), [("any kernel", NAMES), (FLASH, NAMES[:2]), (FLEX, NAMES[:5]), (ONE_MASK, NAMES[:3])]
)
def test_a_kernel_leaves_those_whose_needs_it_meets(rows, kernel, left):
    found = cells(**dict.fromkeys(NAMES, 0.9))
    assert set(remaining(found, rows, Needs("copy back", 8, kernel))) == set(left)
    for one in who_remains(found, rows, {}, Needs("copy back", 8, kernel)):
        reason = "" if one.scheme in left else FUSED[rows[one.scheme].kernel].needs
        assert (one.fault, one.reason) == ("kernel" if reason else "", reason)


def test_without_a_mask_those_remain_that_tell_both_sides(rows):
    found = cells(Rotary=0.9, Alibi=0.9, PaTH=0.9)
    assert len(remaining(found, rows, Needs("copy back", 8))) == 3
    assert remaining(found, rows, Needs("copy back", 8, mask=FREE)) == ["Rotary"]
    standings = {one.scheme: one for one in who_remains(found, rows, {}, Needs("copy back", 8, mask=FREE))}
    assert (standings["Alibi"].fault, standings["Alibi"].reason) == ("mask", UNSAID["alike"])
    assert standings["PaTH"].reason == UNSAID["before only"]
    assert set(UNSAID) | set(MASKS[FREE]) == set(MASKS["causal"]) == {row.both for row in rows.values()}


def test_who_has_no_result_is_out_for_that_whatever_is_needed(rows):
    unmet = {key: cell._replace(met=(True, False, True, True, True)) for key, cell in cells(Alibi=0.9).items()}
    for kernel in KERNELS:
        told = excluded(unmet["Alibi", "copy back"], rows["Alibi"], Needs("copy back", 8, kernel, FREE))
        assert told == ("training", "not trained: met in 4 of 5 seeds")
    assert excluded(None, rows["Alibi"], Needs("grid", kernel=FLASH)) == ("task", "takes no part")
    standings = who_remains(table([], ["MRope", "Alibi"]), rows, {}, Needs("copy back"))
    assert [(one.scheme, one.fault) for one in standings] == [("Alibi", "training"), ("MRope", "task")]


def test_the_order_stays_whatever_is_needed_and_who_is_excluded_takes_no_place(rows):
    found = cells(Shaw=0.9, Rotary=0.5, XPos=0.4) | cells("copy back", Alibi=0.2)
    for times in (1, 8):
        for kernel in KERNELS:
            standings = who_remains(found, rows, {}, Needs("copy back", times, kernel))
            assert [one.scheme for one in standings] == ["Shaw", "Rotary", "XPos", "Alibi"]
            first = "Shaw" if kernel == "any kernel" else "Rotary"
            assert [one.scheme for one in standings if one.first] == [first]
    assert [one.spread.mean for one in standings] == pytest.approx([0.9, 0.5, 0.4, 0.2])


def test_who_has_no_result_comes_last_by_reasons_whatever_the_measure(rows):
    found = cells("next character", (64, 128, 256, 512), Fox=9.0, Alibi=1.0, Rotary=3.0)
    text = "next character"
    found["Alibi", text] = found["Alibi", text]._replace(met=(True, True, False, True, True))
    found |= table([], ["Kerple", "MRope"], [text])
    standings = who_remains(found | table([], ["MRope"], ["grid"]), rows, {}, Needs(text))
    assert [one.scheme for one in standings] == ["Rotary", "Fox", "Kerple", "Alibi", "MRope"]
    assert [one.spread is None for one in standings] == [False, False, True, True, True]


def test_fewer_bits_are_better(rows):
    found = cells("next character", (64, 128, 256, 512), Shaw=2.0, Rotary=3.0)
    standings = who_remains(found, rows, {}, Needs("next character", 2))
    assert [(one.scheme, one.first) for one in standings] == [("Shaw", True), ("Rotary", False)]


def test_the_means_are_those_of_the_length_and_the_order_that_of_the_longest(rows):
    found = cells(Rotary=0.5, Alibi=0.9)
    alibi = found["Alibi", "copy back"]
    found["Alibi", "copy back"] = alibi._replace(measures=alibi.measures | {64: (0.1,) * 5})
    standings = who_remains(found, rows, {}, Needs("copy back", 2))
    assert [(one.scheme, one.first) for one in standings] == [("Alibi", False), ("Rotary", True)]
    assert standings[0].spread.mean == pytest.approx(0.1)


def test_another_rate_counts_against_those_that_remain(rows):
    found, n = cells(Rotary=0.5, XPos=0.6, Shaw=0.9), (32, 64, 128, 256)
    others = {("Rotary", "copy back"): {0.01: dict.fromkeys(n, 0.7)}}
    near = [one.scheme for one in who_remains(found, rows, others, Needs("copy back", 8)) if one.perhaps]
    assert near == []  # nobody comes near Shaw
    standings = who_remains(found, rows, others, Needs("copy back", 8, FLASH))
    assert [one.scheme for one in standings if one.perhaps] == ["Rotary"]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (("copy",), "task"),
        (("grid", 3), "times"),
        (("grid", 8, "Triton"), "kernel"),
        (("grid", 8, FLASH, "left"), "mask"),
    ],
)
def test_needs_that_nobody_can_ask_are_refused(rows, wrong, named):
    for ask in (
        lambda needs: excluded(None, rows["Rotary"], needs),
        lambda needs: who_remains(table([]), rows, {}, needs),
    ):
        with pytest.raises(ValueError, match=f"{named} must be"):
            ask(Needs(*wrong))
