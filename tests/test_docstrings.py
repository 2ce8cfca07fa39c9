"""Every public name is shown at work in its docstring, and the examples print what they say."""

import doctest
import importlib
import inspect
import pkgutil
import re
import tokenize
from pathlib import Path

import pytest
import torch

import posenc_lib
from posenc_lib import attention, configs, lab, relative, scheme, schemes
from posenc_lib.configs import asked
from posenc_lib.exercises import in_use
from posenc_lib.lab import (
    cards,
    choosing,
    claims,
    contest,
    crowd,
    distances,
    inside,
    longer,
    looks,
    mended,
    near,
    octaves,
    places,
    practice,
    probes,
    ranks,
    regimes,
    remake,
    report,
    retests,
    settings,
    statistics,
    sweep,
    trial,
    version,
)
from posenc_lib.lab.catalog import name_of, scheme_classes
from posenc_lib.view import labels, markdown

ROOT = Path(posenc_lib.__file__).parent
FINDER, PARSER = doctest.DocTestFinder(recurse=False), doctest.DocTestParser()


def public() -> dict[str, object]:
    """Functions and classes for others to use, by the place where they are written."""
    modules = [attention, relative, scheme, asked]
    for info in pkgutil.iter_modules(schemes.__path__):
        module = importlib.import_module(f"{schemes.__name__}.{info.name}")
        classes = {value.__name__ for value in scheme_classes().values() if value.__module__ == module.__name__}
        if not classes or classes & set(posenc_lib.HOMES):  # a new scheme is public once it has a home
            modules.append(module)
    found = [getattr(posenc_lib, name) for name in posenc_lib.HOMES]
    found += [getattr(lab, name) for name in lab.__all__]
    found += [configs.scheme_of, configs.Reading, configs.groups, configs.described]
    found += [configs.public_models, configs.shipped, configs.cached_numbers, configs.shared_parameters]
    found += [configs.learned_table, configs.t5_bias, configs.projections, configs.Projections]
    found += [settings.arguments, settings.configured, settings.extensions, trial.code_version, version.version]
    found += [contest.left_out, contest.best_rate]
    found += [probes.Verdict, probes.requirements]
    found += [inside.entering, inside.seen_scores, inside.tempered, inside.slowed, inside.narrowed]
    found += [cards.copy_and_card, cards.card_only, cards.unseen, cards.answered, cards.lead]
    found += [cards.growing, cards.weight_on, cards.cured, cards.Watched, in_use.mark_reading]
    found += [name_of, inside.attention]
    found += [practice.kernel, practice.keys_final, practice.kept_per_pair, practice.sides, practice.practice]
    found += [practice.deciding, practice.further, choosing.excluded, choosing.who_remains]
    found += [markdown.markdown_table, markdown.folded, labels.apart]
    found += [report.length_at, report.said, report.in_groups]
    found += [report.first_group, report.of_task]
    found += [report.order_of, report.other_rates, report.at_rates, report.survives, report.guessing]
    found += [report.above_guessing]
    found += [claims.why_not, claims.sure, claims.whatever_rate, remake.remake, remake.measured]
    found += [statistics.Cell, statistics.table, statistics.spread, statistics.distinct_resamples]
    found += [statistics.share_above, statistics.claim, statistics.ranking, statistics.leading]
    found += [statistics.of_size, statistics.resampled, statistics.ordered_by_chance]
    found += [report.explained, report.shuffled, longer.longer_version, longer.cells_after]
    found += [contest.learned, statistics.with_method, places.places_version, places.curves, places.untrue]
    found += [report.chosen_rates, sweep.as_key, statistics.cell_of]
    found += [ranks.fails, ranks.guesses, ranks.ranked_in, ranks.reciprocal_ranks, ranks.on_one_scale, ranks.standing]
    found += [
        looks.place_of,
        looks.colour_of,
        looks.colours,
        looks.colours_of_five,
        looks.not_trained_yet,
        looks.axis_of,
        looks.reached,
    ]
    found += [octaves.questions, octaves.unlike, octaves.by_octave, octaves.recovered, octaves.within_octaves]
    found += [
        distances.to_last_write,
        distances.last_write,
        distances.by_distance,
        distances.capped,
        distances.layers_apart,
    ]
    found += [distances.ending_in_a_read, distances.wanted, distances.with_ignored, distances.with_gap]
    found += [distances.answered, distances.right_at_last, distances.told_to_pairs]
    found += [retests.retest_version, retests.values_of]
    found += [mended.FarKeys, mended.changed_in, mended.mended_version, mended.mended_cells, mended.changed_cells]
    found += [crowd.changed, crowd.crowd_version, crowd.crowd_cells]
    found += [near.Near, near.near_version, near.wanted, near.near_cells, near.free]
    found += [regimes.in_regime, regimes.mixed_lengths, regimes.regime_version, regimes.cells_in]
    for module in modules:
        found += [value for name, value in vars(module).items() if not name.startswith("_")]
    return {
        f"{value.__module__.removeprefix('posenc_lib.')}.{value.__name__}": value
        for value in found
        if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__.startswith("posenc_lib.")
    }


PUBLIC = public()


def complaints(name: str, value: object) -> list[str]:
    """What is wrong with the example of one name: that there is none, or what it printed instead."""
    if not re.search(r"^Example:\n    >>> .*(\n    .*)*\Z", inspect.getdoc(value) or "", re.MULTILINE):
        return [f"{name} does not end with a section Example"]
    said: list[str] = []
    for seed in (1, 2):  # no result may hang on chance
        torch.manual_seed(seed)
        names = {"torch": torch, value.__name__: value}  # everything else is imported in the example
        for test in FINDER.find(value, name, module=False, globs=names):
            doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    return said


def test_public_names_are_found():
    assert {"attention.attend", "schemes.rope.Rotary", "schemes.rope.turn", "relative.distinct"} <= set(PUBLIC)
    assert {"lab.training.train", "lab.model.TinyTransformer", "scheme.DistanceBias"} <= set(PUBLIC)
    assert len(PUBLIC) > len(posenc_lib.HOMES) + 50


@pytest.mark.parametrize("name", PUBLIC)
def test_example(name):
    assert complaints(name, PUBLIC[name]) == []


def test_an_example_that_is_missing_or_wrong_is_noticed():
    def without(x):
        """x."""

    def wrong(x):
        """x.

        Example:
            >>> wrong(1)
            2
        """
        return x

    def random():
        """A number, and not always the same.

        Example:
            >>> int(10 * random())
            7
        """
        return torch.rand(()).item()

    def foreign(x):
        """x.

        Example:
            >>> relative.distinct(torch.zeros(0))
        """

    def early(x):
        """x.

        Example:
            >>> early(1)
            1
        Source: none.
        """
        return x

    for function in (without, early):
        assert complaints("f", function) == ["f does not end with a section Example"]
    assert "Expected:\n    2\nGot:\n    1" in complaints("wrong", wrong)[0]
    assert len(complaints("random", random)) == 1
    assert "NameError: name 'relative' is not defined" in complaints("foreign", foreign)[0]


def test_no_example_is_left_out():
    written = {}
    for path in ROOT.rglob("*.py"):
        with tokenize.open(path) as file:
            written[path.relative_to(ROOT).as_posix()] = len(re.findall(r"^ *>>> ", file.read(), re.MULTILINE))
    run = dict.fromkeys(written, 0)
    for value in PUBLIC.values():
        run[value.__module__.removeprefix("posenc_lib.").replace(".", "/") + ".py"] += len(
            PARSER.get_examples(value.__doc__)
        )
    assert run == written
