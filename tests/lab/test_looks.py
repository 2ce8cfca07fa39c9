"""How the contest is shown: every scheme has the colour of its place, every measure a bar from 0 to 1."""

import sys

import pytest

from posenc_lib import schemes
from posenc_lib.lab.catalog import scheme_classes
from posenc_lib.lab.looks import (
    BITS,
    ELSEWHERE,
    PLACES,
    TOLD,
    axis_of,
    colour_of,
    colours,
    colours_of_five,
    not_trained_yet,
    place_of,
    reached,
)
from posenc_lib.lab.ranks import FIVE
from posenc_lib.lab.statistics import Cell, table
from posenc_lib.lab.trial import TASKS

NEW = """
from posenc_lib.schemes.rope import Rotary

class Strange(Rotary):
    places = ("query and key", "score")

    def score_bias(self, q, k, pair):
        return 0.01 * pair
"""


def test_every_scheme_has_a_place_with_a_colour():
    assert {place_of(name) for name in scheme_classes()} == set(PLACES)
    assert colours(scheme_classes()) == PLACES
    assert {colour_of("Rotary"), colour_of("Rotary, YaRN")} == {PLACES["query and key"]}
    assert len(set(PLACES.values()) | {ELSEWHERE}) == len(PLACES) + 1


def test_a_new_place_has_a_colour_of_its_own_and_stands_last(tmp_path, monkeypatch):
    (tmp_path / "strange.py").write_text(NEW)
    monkeypatch.setattr(schemes, "__path__", [*schemes.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "posenc_lib.schemes.strange", raising=False)
    assert list(colours(["Strange"]).items()) == [*PLACES.items(), (place_of("Strange"), ELSEWHERE)]
    assert not_trained_yet(table([], ["Strange"], ["grid"])) == "not trained yet: Strange"
    monkeypatch.delitem(sys.modules, "posenc_lib.schemes.strange")


def test_the_five_have_five_colours():
    assert list(colours_of_five()) == list(FIVE)
    assert len(set(colours_of_five().values())) == 5


def test_an_unknown_scheme_is_refused():
    with pytest.raises(KeyError):
        place_of("Nobody")


def test_who_has_one_run_is_not_new():
    cells = table([], ["Alibi", "Fire", "Rotary"], ["grid", "look-up"])
    cells["Fire", "grid"] = Cell("Fire", "grid", (0,), (False,), {})
    assert not_trained_yet(cells) == "not trained yet: ALiBi, RoPE"
    runs = {(name, task): cell._replace(seeds=(0,), met=(True,)) for (name, task), cell in cells.items()}
    assert not_trained_yet(runs) == ""


def test_a_long_line_is_folded():
    assert "\n" in not_trained_yet(table([], list(scheme_classes()), ["look-up"]))


@pytest.mark.parametrize("task", TASKS)
def test_a_bar_goes_from_the_worst_to_the_best(task):
    worst, best = axis_of(task)
    assert (axis_of(task) == BITS) == (task == "next character")
    assert [reached(task, value) for value in (worst, (worst + best) / 2, best)] == pytest.approx([0, 0.5, 1])
    assert reached(task, worst - (best - worst)) == 0 and reached(task, best + (best - worst)) == 1


def test_an_unknown_task_is_refused():
    with pytest.raises(ValueError, match="task"):
        axis_of("chess")


def test_every_task_is_told():
    assert set(TOLD) == set(TASKS)
