"""Of the exercises of notebook 22: other right ways to write them pass, and are the library's rule."""

from pathlib import Path

import pytest
import torch

from posenc_lib.exercises.how_far import check_between, check_by_octave, check_cliff
from posenc_lib.lab import octaves
from posenc_lib.lab.contest import entries
from posenc_lib.lab.statistics import of_size, table

DATA = Path(__file__).resolve().parents[2] / "notebooks" / "data"


def octaves_by_loops(means, asked):
    found, rights, questions = [], 0.0, 0.0
    for mean, n in zip(means.tolist(), asked.tolist(), strict=True):
        found.append((mean * n - rights) / (n - questions))
        rights, questions = mean * n, n
    return found


def octaves_of_the_library(means, asked):
    return octaves.by_octave(means.tolist(), asked.tolist())


@pytest.mark.parametrize("way", [octaves_by_loops, octaves_of_the_library])
def test_other_ways_to_write_octaves_pass(way):
    assert check_by_octave.verdict(way)[0]


def test_another_way_to_write_a_cliff_passes():
    assert check_cliff.verdict(lambda mean, asked, guess: (mean * asked - guess * asked) / (1 - guess))[0]


def test_the_cliff_of_a_curve_is_found():
    n, guess = 40, 0.25
    curve = torch.where(torch.arange(200) < n, 1.0, guess).double()
    asked = torch.tensor([50, 100, 200])
    means = torch.stack([curve[:length].mean() for length in asked])
    assert torch.allclose(check_cliff.reference(means, asked, guess), torch.full((3,), 40.0, dtype=torch.float64))


def between_by_search(before, after, asked):
    """Of all ways to share out what is added between the two lengths, the extremes."""
    n, here, last = asked.tolist()
    added = after * last - before * n
    inside = [min(max(added - x, 0.0), here - n) for x in (0.0, last - here)]
    return torch.tensor([before * n + min(inside), before * n + max(inside)], dtype=torch.float64) / here


def test_another_way_to_write_between_passes():
    assert check_between.verdict(between_by_search)[0]


def test_a_curve_stays_between():
    asked = torch.tensor([64.0, 90.0, 128.0], dtype=torch.float64)
    for seed in range(50):
        curve = torch.rand(128, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).round()
        before, here, after = (curve[: int(n)].mean().item() for n in asked)
        least, most = check_between.reference(before, after, asked)
        assert least - 1e-12 <= here <= most + 1e-12


def test_what_the_solutions_say_of_the_file():
    cells = table(of_size(entries(DATA / "contest.jsonl")))
    asked = torch.tensor([octaves.questions("copy back", length) for length in (32, 64, 128, 256)]).double()

    def means(scheme):
        return torch.tensor([cells[scheme, "copy back"].at(n).mean() for n in (32, 64, 128, 256)], dtype=torch.float64)

    said = {"Learned": [27, 27, 27], "Sinusoidal": [30, 32, 34], "Fire": [31, 31, 33], "Rotary": [59, 122, 159]}
    for scheme, places in said.items():
        assert check_cliff.reference(means(scheme)[1:], asked[1:], 1 / 16).round().tolist() == places
    before, after = means("Rotary")[2:].tolist()
    at_six = check_between.reference(before, after, torch.tensor([asked[2], 6 * 32 - 5, asked[3]]).double())
    assert at_six.tolist() == pytest.approx([0.65, 0.88], abs=0.005)
