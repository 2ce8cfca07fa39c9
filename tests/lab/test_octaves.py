"""Octaves: what is recovered from means over whole texts is what was measured by place, where three conditions hold."""

import math
from pathlib import Path

import pytest
import torch

from posenc_lib.lab.contest import entries
from posenc_lib.lab.octaves import by_octave, questions, recovered, unlike, within_octaves
from posenc_lib.lab.places import STRETCHES, curves
from posenc_lib.lab.report import length_at
from posenc_lib.lab.statistics import Cell, of_size, table
from posenc_lib.lab.trial import TASKS, TIMES

DATA = Path(__file__).resolve().parents[2] / "notebooks" / "data"


def test_any_curve_is_recovered_within_octaves():
    right = torch.rand(256, dtype=torch.float64)
    asked = torch.rand(256) < 0.6
    lengths = (32, 64, 128, 256)
    means = [right[:n][asked[:n]].mean().item() for n in lengths]
    counts = [int(asked[:n].sum()) for n in lengths]
    parts = zip(right.split((32, 32, 64, 128)), asked.split((32, 32, 64, 128)), strict=True)
    expected = [part[where].mean().item() for part, where in parts]
    assert by_octave(means, counts) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("means", "asked", "said"),
    [
        ([1.0, 0.5], [32], "as many"),
        ([1.0, 0.5], [32, 32], "rise"),
        ([1.0, 0.5], [32, 16], "rise"),
        ([1.0], [0], "more than 0"),
    ],
)
def test_numbers_that_do_not_rise_are_refused(means, asked, said):
    with pytest.raises(ValueError, match=said):
        by_octave(means, asked)


def test_questions_are_counted():
    assert [questions("copy back", length) for length in (32, 256)] == [27, 251]
    assert questions("copy back", 64, 5) == 0
    assert questions("reverse", 24) == 24 and questions("next character", 64) == 64
    assert questions("grid", 25) == 16 and questions("grid", 196) == 169
    assert questions("passkey", 256, 250) == 0 and questions("passkey", 256) == 5
    with pytest.raises(ValueError, match="task"):
        questions("chess", 32)


def test_texts_that_begin_alike_ask_alike():
    """Of which tasks the first places of a longer text are those of a shorter one."""
    alike = set()
    for task, contest in TASKS.items():
        first = [questions(task, length_at(task, times), contest.length) for times in TIMES]
        if max(first) - min(first) < 0.2:
            alike.add(task)
    assert alike == {"copy back", "look-up", "reverse", "next character"}


def test_texts_that_begin_alike_have_like_answers():
    """Of "reverse" the counts are the same, and not the answers."""
    alike = set()
    for task, contest in TASKS.items():
        lengths = [length_at(task, times) for times in TIMES]
        gaps = [unlike(task, lengths[0], longer, contest.length) for longer in lengths[1:]]
        assert min(gaps) > 0.14 or max(gaps) < 0.1
        if max(gaps) < 0.1:
            alike.add(task)
        assert unlike(task, lengths[0], lengths[0], contest.length) < 0.1  # by chance alone
    assert alike == {"copy back", "look-up", "next character"}


def test_places_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match="first"):
        unlike("copy back", 32, 64, 33)
    with pytest.raises(ValueError, match="task"):
        unlike("chess", 32, 64, 32)


def test_a_scheme_that_is_not_trained_is_refused():
    with pytest.raises(ValueError, match="not trained"):
        recovered(Cell("Alibi", "copy back", (), (), {}))


def test_stretches_are_counted():
    with pytest.raises(ValueError, match=f"{STRETCHES} stretches"):
        within_octaves([[1.0] * (STRETCHES - 1)])


def test_octaves_of_stretches():
    steps = [0.1] * 4 + [0.2] * 4 + [0.3] * 8 + [0.4] * 16
    assert within_octaves([steps, steps]) == pytest.approx([0.1, 0.2, 0.3, 0.4])
    found = within_octaves([[None] * 8 + [0.5] * 24])
    assert all(map(math.isnan, found[:2])) and found[2:] == [0.5, 0.5]


def test_the_file_by_place_has_what_the_file_of_means_gives():
    cells = table(of_size(entries(DATA / "contest.jsonl")))
    gaps = {"copy back": [], "look-up": []}
    for scheme, task, seeds in curves(entries(DATA / "places.jsonl")):
        if task in gaps and "," not in scheme:
            pairs = zip(recovered(cells[scheme, task]), within_octaves(seeds), strict=True)
            gaps[task] += [abs(one - other) for one, other in pairs]
    assert max(gaps["copy back"]) < 0.01 and max(gaps["look-up"]) < 0.03
    assert min(map(len, gaps.values())) > 20
