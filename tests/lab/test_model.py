"""The tiny transformer: shapes, seeds, causality, texts of different length, and training."""

from functools import partial

import pytest
import torch
from torch import nn

from posenc_lib.lab import IGNORE, TinyTransformer, accuracy, copy_back, train
from posenc_lib.scheme import PositionScheme
from posenc_lib.schemes.fox import Fox
from posenc_lib.schemes.grid import AxialRotary, MRope, grid_coordinates
from posenc_lib.schemes.learned import positions_without_padding
from posenc_lib.schemes.none import NoPosition
from posenc_lib.schemes.rope import Rotary
from posenc_lib.schemes.selective import SelectiveRotary
from posenc_lib.schemes.shaw import Shaw
from posenc_lib.schemes.sinusoidal import Sinusoidal
from posenc_lib.schemes.t5 import T5Bias


def test_shapes():
    model = TinyTransformer(NoPosition(), vocabulary=7, classes=5, dim=12, num_heads=3, num_layers=2)
    assert model(torch.zeros(2, 4, dtype=torch.int64)).shape == (2, 4, 5)
    assert TinyTransformer(NoPosition(), 7, dim=4)(torch.zeros(2, 4, dtype=torch.int64)).shape == (2, 4, 7)
    assert len(model.blocks) == 2


REACHED = {
    "input": partial(Sinusoidal, 64),
    "query and key": partial(Rotary, 16),
    "score": partial(T5Bias, 4),
    "value": partial(Shaw, 16, 4),
    "the text": partial(Fox, 64, 4),
    "the text, for queries and keys": partial(SelectiveRotary, 64, 4, 16),
    "a grid": partial(MRope, 16, (2, 3, 3)),
}


def of_kind(scheme, positions):
    """Positions of texts, as the scheme takes them: on a grid, the same number on every axis."""
    return positions if scheme.num_axes is None else positions[..., None].expand(*positions.shape, scheme.num_axes)


@torch.no_grad()
@pytest.mark.parametrize("place", REACHED)
def test_positions_reach_the_scheme_at_every_place(place):
    scheme = REACHED[place]()
    model, tokens = TinyTransformer(scheme, 9).double().eval(), torch.randint(9, (2, 5))
    logits = model(tokens)
    assert torch.equal(logits, model(tokens, torch.arange(5)))
    assert (logits - model(tokens, torch.tensor([4, 0, 30, 2, 31]))).abs().max() > 1e-3
    p = torch.stack([torch.arange(5), torch.tensor([0, 2, 5, 1, 9])])
    together = model(tokens, of_kind(scheme, p))
    for b in range(2):
        torch.testing.assert_close(together[b : b + 1], model(tokens[b : b + 1], p[b]), rtol=0, atol=1e-10)


@torch.no_grad()
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("place", REACHED)
def test_texts_with_padding_are_what_they_are_alone(place, causal):
    scheme = REACHED[place]()
    model, tokens = TinyTransformer(scheme, 9, causal=causal).double().eval(), torch.randint(9, (2, 6))
    for row in ([True, True, False, False, False, False], [False, False, False, False, True, True]):
        padding = torch.tensor([row, [False] * 6])
        together = model(tokens, of_kind(scheme, positions_without_padding(padding)), padding)
        for b in range(2):
            alone = model(tokens[b : b + 1, ~padding[b]])
            torch.testing.assert_close(together[b : b + 1, ~padding[b]], alone, rtol=0, atol=1e-10)


class Reader(PositionScheme):
    """Remembers what it reads."""

    def __init__(self):
        super().__init__()
        self.words = []

    def read_tokens(self, x, query_token, key_token):
        self.words.append(x)
        return query_token, key_token

    def read(self, x, pair):
        self.words.append(x)
        return pair


@torch.no_grad()
def test_a_scheme_reads_in_every_layer_what_queries_and_keys_are_made_of():
    scheme, tokens = Reader(), torch.randint(9, (2, 5))
    model = TinyTransformer(scheme, 9, num_layers=3)
    made_of = []
    for block in model.blocks:
        block.qkv.register_forward_pre_hook(lambda module, inputs: made_of.append(inputs[0]))
    model(tokens)
    assert len(made_of) == 3
    assert len(scheme.words) == 6  # for queries and keys, then for pairs
    assert all(torch.equal(read, made_of[n // 2]) for n, read in enumerate(scheme.words))


@torch.no_grad()
def test_points_on_a_grid():
    model, tokens = TinyTransformer(AxialRotary(16), 9, causal=False).double().eval(), torch.randint(9, (2, 6))
    points = torch.stack([grid_coordinates(2, 3), grid_coordinates(3, 2)])
    together = model(tokens, points)
    for b in range(2):
        torch.testing.assert_close(together[b : b + 1], model(tokens[b : b + 1], points[b]), rtol=0, atol=1e-10)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    moved = model(tokens[:, order], points[0, order])
    torch.testing.assert_close(moved, model(tokens, points[0])[:, order], rtol=0, atol=1e-10)
    assert (model(tokens, points[0]) - model(tokens, points[1])).abs().max() > 1e-3


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
    ("argument", "value"),
    [("vocabulary", 0), ("dim", -4), ("num_heads", 5), ("num_heads", 0), ("num_layers", 0), ("dim", 6.5)],
)
def test_refusals(argument, value):
    with pytest.raises(ValueError, match=f"{argument} must .*{value}"):
        TinyTransformer(NoPosition(), **{"vocabulary": 4, "dim": 64} | {argument: value})


previous_token = partial(copy_back, vocabulary=4, back=1)


def trained(scheme, steps):
    model = TinyTransformer(scheme, 4, dim=32, num_layers=1)
    train(model, previous_token, length=6, steps=steps)
    return model


def test_training_is_repeatable():
    first, again = (trained(Rotary(8), steps=5).state_dict() for _ in range(2))
    untrained = TinyTransformer(Rotary(8), 4, dim=32, num_layers=1).state_dict()
    for name, weight in first.items():
        assert torch.equal(weight, again[name])
    assert not torch.equal(first["answer.weight"], untrained["answer.weight"])


def test_training_learns_what_needs_position():
    assert accuracy(trained(Rotary(8), steps=150), previous_token, 6) > 0.95
    assert accuracy(trained(NoPosition(), steps=150), previous_token, 6) < 0.75


def test_training_stops_early_once_the_loss_is_low():
    easy = partial(copy_back, vocabulary=4, back=0)
    made = [
        train(TinyTransformer(NoPosition(), 4, dim=32, num_layers=1), easy, 8, steps=100, batch=16, stop_below=loss)
        for loss in (0.1, 0.0)
    ]
    assert 10 <= made[0] < made[1] == 100


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


@torch.no_grad()
def test_every_layer_has_the_scheme_and_the_window_of_its_place_in_the_list():
    """The model with a list against one layer after the other by hand."""
    schemes, windows = [Sinusoidal(64), Rotary(16), T5Bias(4)], [2, None, 3]
    model = TinyTransformer(schemes, 9, num_layers=3, windows=windows).double()
    tokens, p = torch.randint(9, (2, 7)), torch.arange(7)
    x = schemes[0].embed(model.embedding(tokens), p)
    for block, scheme, window in zip(model.blocks, schemes, (2, 7, 3), strict=True):
        near = (p[:, None] - p).abs() < window
        x = block(x, scheme.at(7, like=x), None, near)
    torch.testing.assert_close(model(tokens), model.answer(model.norm(x)), rtol=0, atol=1e-12)
    assert model.schemes == schemes
    turned = TinyTransformer(schemes[::-1], 9, num_layers=3, windows=windows[::-1]).double()
    assert (model(tokens) - turned(tokens)).abs().max() > 1e-3
    assert [name for name, _ in model.named_parameters() if name.startswith("scheme")] == ["scheme.2.weight"]


@torch.no_grad()
@pytest.mark.parametrize("causal", [False, True])
def test_a_window_hides_what_is_further_away(causal):
    model = TinyTransformer(NoPosition(), 9, num_layers=2, causal=causal, windows=[3, 3]).double()
    tokens = torch.randint(9, (1, 12))
    other = tokens.clone()
    other[0, 5] = (tokens[0, 5] + 1) % 9
    changed = ((model(tokens) - model(other)).abs().amax(-1)[0] > 1e-12).nonzero().flatten().tolist()
    assert changed == list(range(5 if causal else 1, 10))  # two layers reach 2 (3 - 1) tokens


@torch.no_grad()
def test_a_sink_takes_attention_and_has_no_position():
    tokens = torch.randint(9, (2, 6))
    plain, with_sinks = (TinyTransformer(Rotary(16), 9, sinks=sinks).double().eval() for sinks in (False, True))
    for block in with_sinks.blocks:
        block.sinks.fill_(-torch.inf)
    torch.testing.assert_close(with_sinks(tokens), plain(tokens), rtol=0, atol=1e-12)
    for block in with_sinks.blocks:
        block.sinks.fill_(2.0)
    logits = with_sinks(tokens)
    assert (logits - plain(tokens)).abs().max() > 1e-3
    torch.testing.assert_close(with_sinks(tokens, torch.arange(6) + 1000), logits, rtol=0, atol=1e-9)
    assert [tuple(block.sinks.shape) for block in with_sinks.blocks] == [(4,)] * 2


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"scheme": [NoPosition()]}, ValueError, "scheme must have one entry for each of 2 layers, got 1"),
        (
            {"scheme": [NoPosition(), None]},
            TypeError,
            "scheme must be a PositionScheme or a list of them, got NoneType",
        ),
        ({"windows": [1, 2, 3]}, ValueError, "windows must have one entry for each of 2 layers, got 3"),
        ({"windows": [None, 0]}, ValueError, "windows must be at least 1, got 0"),
    ],
)
def test_lists_that_fit_no_layers_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        TinyTransformer(**{"scheme": NoPosition(), "vocabulary": 4} | options)
