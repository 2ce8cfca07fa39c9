"""The path to a choice: ten questions at most, each with evidence; other results give other answers."""

import pytest

from posenc_lib.lab.catalog import scheme_classes
from posenc_lib.lab.choosing import PATH, at_home, best, path, trained
from posenc_lib.lab.practice import practice
from posenc_lib.lab.statistics import Cell, table


@pytest.fixture(scope="module")
def rows():
    return {name: practice(name) for name in scheme_classes()}


def cells(task="copy back", lengths=(32, 64, 128, 256), **values):
    seeds = (0, 1, 2, 3, 4)
    return {
        (name, task): Cell(name, task, seeds, (True,) * 5, dict.fromkeys(lengths, (value,) * 5))
        for name, value in values.items()
    }


def test_ten_questions_with_an_answer_and_evidence_each(rows):
    lines = list(path(table([]), rows, {}))
    assert len(PATH) <= 10
    for question in PATH:
        assert question.take(table([]), rows, {}) and question.evidence(table([]), rows, {})
        assert sum(question.asks in line for line in lines) == 1


def test_the_results_decide(rows):
    take = best(8, "copy back")
    assert take(table([]), rows, {}) == ["not known yet: too few are trained"]
    assert take(cells(Rotary=0.5, Alibi=0.9), rows, {}) == ["of those that are trained: ALiBi"]
    assert take(cells(Rotary=0.9, Alibi=0.5), rows, {}) == ["of those that are trained: RoPE"]
    assert take(cells(Rotary=0.9, Alibi=0.9), rows, {})[0].endswith((": RoPE, ALiBi", ": ALiBi, RoPE"))


def test_a_scheme_must_be_first_in_all_tasks_and_tell_the_sides(rows):
    both = best(8, "copy back", "look-up")
    found = cells(Rotary=0.5, Alibi=0.9) | cells("look-up", Rotary=0.9, Alibi=0.5)
    assert both(found, rows, {}) == ["no scheme is first in all of these"]
    level = cells("reverse", (12, 24, 48, 96), Rotary=0.9, Alibi=0.9)
    assert best(1, "reverse", sides=("both",))(level, rows, {}) == ["of those that are trained: RoPE"]


def test_a_scheme_that_another_rate_brings_near_is_named(rows):
    found = cells(Rotary=0.5, Alibi=0.9, Kerple=0.2)
    others = {("Rotary", "copy back"): {0.01: {32: 1.0, 64: 1.0, 128: 1.0, 256: 0.95}}}
    said = "of those that are trained: ALiBi; at other rates perhaps also RoPE"
    assert best(8, "copy back")(found, rows, others) == [said]
    assert best(8, "copy back", sides=("alike",))(found, rows, others) == ["of those that are trained: ALiBi"]


def test_what_is_done_to_a_trained_model_is_no_answer(rows):
    found = cells(Rotary=0.9, **{"Rotary, YaRN": 0.9})
    assert best(8, "copy back")(found, rows, {}) == ["of those that are trained: RoPE"]


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
