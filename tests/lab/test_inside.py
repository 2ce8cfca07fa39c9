"""What enters a layer is the same in pieces; its scores make its weights; cured copies leave the model as it is."""

import math

import pytest
import torch

from posenc_lib.attention import scores
from posenc_lib.lab import TinyTransformer
from posenc_lib.lab.inside import attention, entering, narrowed, seen_scores, slowed, tempered
from posenc_lib.schemes.none import NoPosition
from posenc_lib.schemes.rope import Rotary
from posenc_lib.schemes.sinusoidal import Sinusoidal
from posenc_lib.schemes.temperature import temperature


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
def test_scores_are_of_the_keys_that_a_query_sees(window):
    model, queries, places = toy([None, window, None]), torch.tensor([11, 19]), torch.arange(20)
    block = model.blocks[1]
    x = block.norm_1(entering(model, 1, text(20)))
    q, k, _ = block.qkv(x).unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4)
    s = scores(q, k, model.schemes[1], places, places)
    found = seen_scores(model, 1, text(20), queries)
    for n, i in enumerate(queries.tolist()):
        first = 0 if window is None else i - window + 1
        torch.testing.assert_close(found[:, :, n, first : i + 1], s[:, :, i, first : i + 1], rtol=0, atol=1e-12)
        assert found[:, :, n, :first].isneginf().all() and found[:, :, n, i + 1 :].isneginf().all()


def test_scores_of_a_layer_without_a_window_make_its_weights():
    found = seen_scores(toy(), 2, text(20), torch.arange(20)).softmax(-1)
    torch.testing.assert_close(found, attention(toy(), 2, text(20)), rtol=0, atol=1e-12)


def test_a_tempered_copy_leaves_the_model_as_it_is():
    model, tokens = toy(), text(40)
    before = model(tokens)
    hot = tempered(model, every=8, beta=0.5)
    assert torch.equal(model(tokens), before)
    assert torch.allclose(hot(tokens)[:, :7], before[:, :7]) and not torch.allclose(hot(tokens), before)
    assert torch.allclose(tempered(model, every=8, beta=0.0)(tokens), before)


def test_a_temperature_multiplies_the_scores_of_layers_without_a_window_alone():
    model, queries = toy([8, None, None], NoPosition()), torch.tensor([5, 39])
    hot = tempered(model, every=8, beta=0.5)
    assert hot.windows == model.windows
    assert torch.equal(seen_scores(hot, 0, text(40), queries), seen_scores(model, 0, text(40), queries))
    times = temperature(queries, 8, 0.5)[:, None]
    expected = times * seen_scores(model, 1, text(40), queries)
    torch.testing.assert_close(seen_scores(hot, 1, text(40), queries), expected)


def test_slow_pairs_of_a_copy_stand_still():
    model = toy(schemes=[Rotary(16), NoPosition(), Rotary(16, base=1e6)])
    before, turns = model(text(40)), 2 * torch.pi / model.schemes[2].inv_freq  # 6, 35, 199, ... tokens
    other = slowed(model, 199, math.inf)
    assert torch.equal(model(text(40)), before)
    assert torch.equal(other.schemes[2].inv_freq > 0, turns < 199)
    assert (other.schemes[0].inv_freq > 0).sum() == 4  # 6, 20, 63 and 198.7 tokens
    assert torch.equal(slowed(model, 1e9, math.inf)(text(40)), before)
    bare = TinyTransformer(NoPosition(), 7, num_layers=3).double()
    bare.load_state_dict(model.state_dict())
    torch.testing.assert_close(slowed(model, 1, math.inf)(text(40)), bare(text(40)), rtol=0, atol=1e-12)


def test_slow_pairs_of_a_copy_turn_more_slowly():
    model = toy(schemes=[Rotary(16)] * 3)
    theta, other = model.schemes[0].inv_freq, slowed(model, 100, 4).schemes[0].inv_freq
    assert torch.equal(other[:3], theta[:3])  # 6, 20, 63 tokens
    assert torch.equal(other[3:], theta[3:] / 4)
    few = text(20)  # if all pairs turn half as fast, tokens that stand twice as far apart look the same
    torch.testing.assert_close(slowed(model, 1e9, 2)(few), model(few))
    torch.testing.assert_close(slowed(model, 1, 2)(few, 2 * torch.arange(20)), model(few))


def test_a_narrowed_copy_sees_so_many_keys():
    model = toy([None, 5, 30])
    other = narrowed(model, 9)
    assert (model.windows, other.windows) == ([None, 5, 30], [9, 5, 9])
    torch.testing.assert_close(other(text(40)), toy([9, 5, 9])(text(40)), rtol=0, atol=0)


@pytest.mark.parametrize("value", [0, -1.0, float("nan")])
def test_a_cure_by_a_wrong_size_is_refused(value):
    with pytest.raises(ValueError, match="tokens must be finite and greater than 0, got"):
        slowed(toy(), value, 2)
    with pytest.raises(ValueError, match="factor must be at least 1, got"):
        slowed(toy(), 30, value)
    with pytest.raises(ValueError, match="window must be"):
        narrowed(toy(), value)


@pytest.mark.parametrize("layer", [-1, 3, 1.0])
def test_layers_that_are_not_there_are_refused(layer):
    for call in (
        lambda: entering(toy(), layer, text(4)),
        lambda: seen_scores(toy(), layer, text(4), torch.tensor([3])),
    ):
        with pytest.raises((ValueError, TypeError), match="layer must be"):
            call()


def test_places_that_are_no_integers_are_refused():
    with pytest.raises((ValueError, TypeError), match="queries must"):
        seen_scores(toy(), 0, text(4), torch.tensor([0.5]))


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
