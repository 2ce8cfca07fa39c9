"""What enters a layer is the same in pieces; the lead tells the weight; a tempered copy leaves the model as it is."""

import math

import pytest
import torch

from posenc_lib.attention import scores
from posenc_lib.lab import TinyTransformer
from posenc_lib.lab.inside import Crowd, attention, crowd, entering, tempered
from posenc_lib.lab.measure import randn
from posenc_lib.schemes.none import NoPosition
from posenc_lib.schemes.rope import Rotary
from posenc_lib.schemes.sinusoidal import Sinusoidal
from posenc_lib.schemes.temperature import QueryTemperature


def toy(windows=None, schemes=None):
    return TinyTransformer(schemes or Rotary(16), 7, num_layers=3, windows=windows).double()


def text(length=300):
    return torch.randint(7, (2, length), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("scheme", [Rotary(16), Sinusoidal(64)], ids=["relative", "input"])
@pytest.mark.parametrize("windows", [[5, 9, None], [None, 5, 5], [1, 1, 1], None])
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_what_enters_a_layer_is_the_same_in_pieces(windows, layer, scheme):
    model, caught = toy(windows, scheme), []
    model.blocks[layer].register_forward_pre_hook(lambda _, given: caught.append(given[0]))
    model(text())
    torch.testing.assert_close(entering(model, layer, text()), caught[0], rtol=0, atol=1e-12)


def test_all_layers_are_hidden_below_the_answer():
    model = toy()
    assert torch.equal(model.answer(model.norm(model.hidden(text(9)))), model(text(9)))
    assert torch.equal(model.hidden(text(9), layers=0), model.embedding(text(9)))


@pytest.mark.parametrize("window", [None, 6])
def test_the_weight_is_that_of_attention_and_the_lead_tells_it(window):
    model = toy([None, window, None])
    tokens, queries = text(20), torch.tensor([11, 19])
    right = torch.zeros(2, 20, dtype=torch.bool)
    right[0, [9, 18]] = right[1, [10, 11, 17]] = True
    x = entering(model, 1, tokens)
    found = crowd(model, 1, x, queries, right)
    block, places = model.blocks[1], torch.arange(20)
    q, k, _ = block.qkv(block.norm_1(x)).unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4)
    s = scores(q, k, model.schemes[1], places, places)
    for b in range(2):
        for h in range(4):
            for n, i in enumerate(queries.tolist()):
                near = range(0 if window is None else max(i - window + 1, 0), i + 1)
                terms = {j: s[b, h, i, j].exp().item() for j in near}
                good = sum(terms[j] for j in near if right[b, j])
                bad = [terms[j] for j in near if not right[b, j]]
                assert found.weight[b, h, n].item() == pytest.approx(good / (good + sum(bad)))
                lead = found.lead[b, h, n].item()
                assert lead == pytest.approx(math.log(good) - math.log(sum(bad) / len(bad)))
                assert found.weight[b, h, n].item() == pytest.approx(1 / (1 + len(bad) * math.exp(-lead)))


def test_a_scheme_in_the_place_of_that_of_the_layer():
    model, x, right = toy(schemes=NoPosition()), randn(1, 8, 64), torch.arange(8)[None] == 3
    queries = torch.tensor([7])
    plain = crowd(model, 0, x, queries, right)
    twice = crowd(model, 0, x, queries, right, scheme=QueryTemperature(7, 1 / math.log(2)))
    torch.testing.assert_close(twice.right, 2 * plain.right)
    assert not torch.allclose(twice.weight, plain.weight)
    assert isinstance(plain, Crowd)


def test_a_tempered_copy_leaves_the_model_as_it_is():
    model, tokens = toy(windows=[8, None, None]), text(40)
    before = model(tokens)
    hot = tempered(model, every=8, beta=0.5)
    assert torch.equal(model(tokens), before)
    assert torch.allclose(hot(tokens)[:, :7], before[:, :7]) and not torch.allclose(hot(tokens), before)
    assert torch.allclose(tempered(model, every=8, beta=0.0)(tokens), before)
    assert hot.windows == model.windows


@pytest.mark.parametrize("layer", [-1, 3, 1.0])
def test_layers_that_are_not_there_are_refused(layer):
    x, right = randn(1, 4, 64), torch.arange(4)[None] == 0
    for call in (
        lambda: entering(toy(), layer, text(4)),
        lambda: crowd(toy(), layer, x, torch.tensor([3]), right),
    ):
        with pytest.raises((ValueError, TypeError), match="layer must be"):
            call()


def test_what_does_not_fit_is_refused():
    x = randn(1, 4, 64)
    with pytest.raises(ValueError, match=r"right must have shape \(1, 4\) as x has, got \(1, 3\)"):
        crowd(toy(), 0, x, torch.tensor([3]), torch.ones(1, 3, dtype=torch.bool))
    with pytest.raises((ValueError, TypeError), match="queries must"):
        crowd(toy(), 0, x, torch.tensor([0.5]), torch.ones(1, 4, dtype=torch.bool))


@pytest.mark.parametrize("layer", [0, 2])
def test_the_weights_of_a_layer_make_what_leaves_its_attention(layer):
    model, caught = toy(), []
    block = model.blocks[layer]
    block.out.register_forward_pre_hook(lambda _, given: caught.append(given[0]))
    model(text(9))
    w, x = attention(model, layer, text(9)), entering(model, layer, text(9))
    v = block.qkv(block.norm_1(x)).unflatten(-1, (3, block.num_heads, -1)).permute(2, 0, 3, 1, 4)[2]
    torch.testing.assert_close((w @ v).transpose(1, 2).flatten(-2), caught[0], rtol=0, atol=1e-12)


def test_weights_are_refused_where_they_are_not_those_of_the_whole_text():
    with pytest.raises(ValueError, match="layer must be one without a window"):
        attention(toy([5, None, None]), 0, text(9))
    with pytest.raises(ValueError, match="layer must be less than the 3"):
        attention(toy(), 3, text(9))
