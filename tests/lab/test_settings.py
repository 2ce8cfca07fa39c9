"""Each scheme is set as its authors would set it, with a reason that fits on a line; none is left out without one."""

import inspect

import pytest
import torch

import posenc_lib
from posenc_lib.lab import TinyTransformer, settings
from posenc_lib.lab.catalog import scheme_classes
from posenc_lib.lab.settings import (
    EXTENDED,
    REQUIRED,
    SETTINGS,
    Frame,
    Setting,
    arguments,
    configured,
    extensions,
    setting,
)
from posenc_lib.lab.trial import SEEDS, TASKS, frame
from posenc_lib.schemes.grid import grid_coordinates

CLASSES = scheme_classes()
TEXT = Frame(length=32, longest=256)
FRAMES = {task: frame(task, contest.length, 64, 4) for task, contest in TASKS.items()}
LEFT_OUT = {  # every scheme that some task does without, and these tasks
    **{name: {"reverse"} for name in ("Cope", "LearnedProfile", "MusicTransformer", "PaTH")},
    **{name: set(TASKS) - {"grid"} for name in ("AxialRotary", "MRope")},
    **{name: set(TASKS) for name in ("QueryTemperature", "XLNet")},
}


@pytest.mark.parametrize("name", sorted(set(CLASSES) & set(posenc_lib.HOMES)))
def test_every_public_scheme_has_an_entry_with_a_reason_of_one_line(name):
    entry = SETTINGS[name]
    assert 10 < len(entry.reason) < 200 and "\n" not in entry.reason and not entry.reason.endswith(".")
    assert entry.rate >= 1


def test_every_entry_is_of_a_scheme():
    assert set(SETTINGS) <= set(CLASSES)


def test_a_scheme_without_an_entry_gets_what_it_requires():
    assert setting("Newcomer") is REQUIRED
    assert REQUIRED.arguments(TEXT) == {} and REQUIRED.left_out(TEXT) is None
    assert "no setting of its authors" in REQUIRED.reason


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", CLASSES)
def test_what_is_left_out_has_a_reason_and_nothing_else_is(name, task):
    reason = setting(name).left_out(FRAMES[task])
    assert (reason is not None) == (task in LEFT_OUT.get(name, ()))
    assert reason is None or (len(reason) > 20 and "\n" not in reason)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", CLASSES)
def test_what_takes_part_answers_the_longest_test(name, task):
    here = FRAMES[task]
    if setting(name).left_out(here) is not None:
        return
    scheme = configured(name, here)
    assert type(scheme) is CLASSES[name]
    model = TinyTransformer(scheme, TASKS[task].vocabulary, causal=here.causal, num_layers=1)
    side = round(here.longest**0.5)
    positions = grid_coordinates(side, side) if scheme.num_axes else None
    with torch.no_grad():
        assert model(torch.zeros(1, here.longest, dtype=torch.long), positions).isfinite().all()


@pytest.mark.parametrize("name", CLASSES)
def test_arguments_are_those_of_the_constructor_and_json_keeps_them(name):
    for here in (TEXT, Frame(64, 512), Frame(12, 96, causal=False), Frame(25, 196, grid=True)):
        given = arguments(name, here)
        assert set(given) <= set(inspect.signature(CLASSES[name]).parameters)
        assert all(isinstance(value, bool | int | float | tuple) for value in given.values())


def test_arguments_follow_the_frame():
    assert arguments("Shaw", Frame(64, 512)) == {"clip": 32}
    assert arguments("T5Bias", Frame(32, 256, causal=False)) == {"bidirectional": True, "max_distance": 24}
    assert arguments("Learned", Frame(32, 256)) == {"max_length": 256}
    assert configured("MRope", Frame(25, 196, grid=True)).sections == (4, 4)
    assert configured("MRope", Frame(25, 196, grid=True, dim=72)).sections == (5, 4)
    assert configured("Alibi", Frame(32, 256, dim=256, num_heads=8)).num_heads == 8


def test_no_table_ends_in_rows_that_training_does_not_reach_unless_it_says_so():
    """A clip or a last bucket lies within the training; the tables with a row for every place say that they do not."""
    for name in SETTINGS:
        given = arguments(name, TEXT)
        for argument in ("clip", "max_relative_positions", "max_distance", "max_position", "scale_base", "threshold"):
            assert given.get(argument, 0) <= TEXT.length
        assert given.get("max_length", 0) in (0, TEXT.longest)
        assert "max_length" not in given or "stay as drawn" in SETTINGS[name].reason


def test_an_unknown_argument_is_an_error(monkeypatch):
    monkeypatch.setitem(settings.SETTINGS, "Shaw", Setting(lambda frame: {"clip": 4, "window": 3}, "a slip"))
    for function in (arguments, configured):
        with pytest.raises(TypeError, match=r"the setting of Shaw has window, which must be one of \['clip', "):
            function("Shaw", TEXT)


def test_an_unknown_scheme_is_an_error():
    for function in (arguments, configured):
        with pytest.raises(ValueError, match=r"scheme must be one of .*'Rope'"):
            function("Rope", TEXT)


def likeness(name, seed):
    """The greatest cosine between a row that a scheme learns and one of the embedding of a model with seed 0."""
    torch.manual_seed(seed)
    scheme = configured(name, TEXT)
    words = torch.nn.functional.normalize(TinyTransformer(scheme, 16, seed=0).embedding.weight, dim=-1)
    tables = [p for p in scheme.parameters() if p.dim() == 2 and p.shape[-1] == words.shape[-1]]
    return max(((torch.nn.functional.normalize(table, dim=-1) @ words.T).max().item() for table in tables), default=0.0)


def test_learned_tables_are_not_the_vectors_of_the_words():
    assert likeness("Learned", 0) > 0.99, "what a seed shared with the model would do"
    for name in CLASSES:
        if setting(name).left_out(TEXT) is None:
            assert likeness(name, SEEDS["scheme"]) < 0.6


@pytest.mark.parametrize("factor", [2.0, 4.0, 8.0])
def test_extensions_of_rope_differ_from_it_and_from_one_another(factor):
    torch.manual_seed(0)
    assert EXTENDED in CLASSES
    tokens = torch.randint(16, (1, 128))
    model = TinyTransformer(configured(EXTENDED, TEXT), 16)
    methods = {"plain": model.scheme} | extensions(TEXT, factor)
    answers = []
    for scheme in methods.values():
        model.scheme = scheme
        with torch.no_grad():
            answers.append(model(tokens))
    for n, one in enumerate(answers):
        assert all((one - other).abs().max() > 1e-3 for other in answers[:n])
    assert torch.allclose(answers[0][:, :32], answers[-1][:, :32], atol=1e-5), "a temperature of 1 within the training"


def test_extensions_keep_the_base():
    frequencies = {base: extensions(TEXT, 2.0, base)["position interpolation"].inv_freq for base in (100.0, 10_000.0)}
    assert not torch.equal(*frequencies.values())
