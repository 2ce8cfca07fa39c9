"""The tiny transformer: shapes, seeds, causality, and a scheme that reaches the input and every layer."""

import pytest
import torch
from torch import nn

from posenc_lib.lab import IGNORE, TinyTransformer, accuracy, copy_back, reverse, train
from posenc_lib.scheme import PositionScheme
from posenc_lib.schemes.none import NoPosition
from posenc_lib.schemes.rope import Rotary
from posenc_lib.schemes.sinusoidal import Sinusoidal


class Recorder(PositionScheme):
    """Remembers which hooks were called with which positions."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def embed(self, x, positions):
        self.calls.append(("embed", positions.tolist()))
        return x

    def transform(self, x, positions):
        self.calls.append(("transform", positions.tolist()))
        return x


def test_shapes_and_hooks():
    scheme = Recorder()
    model = TinyTransformer(scheme, vocabulary=7, classes=5, dim=12, heads=3, layers=2)
    assert model(torch.zeros(2, 4, dtype=torch.int64)).shape == (2, 4, 5)
    assert scheme.calls == [("embed", [0, 1, 2, 3])] + 4 * [("transform", [0, 1, 2, 3])]
    scheme.calls.clear()
    model(torch.zeros(2, 3, dtype=torch.int64), positions=torch.tensor([7, 8, 9]))
    assert {tuple(positions) for _, positions in scheme.calls} == {(7, 8, 9)}


def test_seed_decides_the_weights_and_leaves_the_global_generator_alone():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first, again, other = (TinyTransformer(NoPosition(), 5, seed=seed).state_dict() for seed in (0, 0, 1))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["embedding.weight"], other["embedding.weight"])


@pytest.mark.parametrize("causal", [True, False])
def test_causality(causal):
    model = TinyTransformer(Rotary(16), 9, causal=causal).eval()
    tokens = torch.arange(8)[None]
    changed = tokens.clone()
    changed[0, 5] = 0
    moved = (model(tokens) - model(changed)).abs().amax(-1)[0] > 1e-6
    assert moved[5:].all()
    assert moved[:5].any() == (not causal)


@pytest.mark.parametrize(
    ("argument", "value"), [("vocabulary", 0), ("dim", -4), ("heads", 5), ("heads", 0), ("layers", 0), ("dim", 6.5)]
)
def test_refusals(argument, value):
    with pytest.raises(ValueError, match=f"{argument} must .*{value}"):
        TinyTransformer(NoPosition(), **{"vocabulary": 4, "dim": 64} | {argument: value})


def test_training_is_repeatable_and_learns_what_needs_position():
    outcomes = []
    for scheme in (Sinusoidal(32), Sinusoidal(32), NoPosition()):
        model = TinyTransformer(scheme, 4, causal=False, dim=32, layers=1)
        train(model, lambda *args: reverse(*args, vocabulary=4), length=4, steps=300)
        outcomes.append(accuracy(model, lambda *args: reverse(*args, vocabulary=4), 4))
    first, again, without = outcomes
    assert first == again
    assert first > 0.95
    assert without < 0.7


def test_training_stops_early_once_the_loss_is_low():
    easy = lambda *args: copy_back(*args, vocabulary=4, back=0)  # noqa: E731
    made = [
        train(TinyTransformer(NoPosition(), 4, dim=32, layers=1), easy, 8, steps=200, batch=16, stop_below=loss)
        for loss in (0.1, 0.0)
    ]
    assert 10 <= made[0] < made[1] == 200


def test_accuracy_counts_scored_places_only():
    class Echo(nn.Module):
        """Answers with the token it sees."""

        def __init__(self):
            super().__init__()
            self.unused = nn.Parameter(torch.zeros(1))

        def forward(self, tokens):
            return nn.functional.one_hot(tokens, 16).double()

    def half_scored(batch, length, generator):
        tokens = torch.randint(16, (batch, length), generator=generator)
        targets = tokens.clone()
        targets[:, ::2] = IGNORE
        targets[: batch // 4] = (tokens[: batch // 4] + 1) % 16
        targets[: batch // 4, ::2] = IGNORE
        return tokens, targets

    assert accuracy(Echo(), half_scored, 10) == 0.75
    assert accuracy(Echo(), lambda *args: copy_back(*args, back=0), 10) == 1.0
