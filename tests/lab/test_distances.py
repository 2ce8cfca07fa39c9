"""Answers by distance: what is counted where, and that a cap changes distances only."""

import pytest
import torch

from posenc_lib.lab import TinyTransformer
from posenc_lib.lab.distances import BINS, WRITE, by_distance, capped, to_last_write
from posenc_lib.lab.inside import narrowed
from posenc_lib.lab.tasks import IGNORE
from posenc_lib.lab.trial import SEEDS, TASKS
from posenc_lib.schemes.alibi import Alibi
from posenc_lib.schemes.rope import Rotary
from posenc_lib.schemes.sinusoidal import Sinusoidal
from posenc_lib.schemes.t5 import T5Bias


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
