"""Texts with a card ask what they say; a lead makes the weight; the watched head is the best of the long layers."""

import math

import pytest
import torch

from posenc_lib.lab import IGNORE, TinyTransformer, cards
from posenc_lib.lab.inside import attention, narrowed, seen_scores, slowed, tempered
from posenc_lib.schemes.rope import Rotary


def model(windows=None, scheme=None):
    return TinyTransformer(scheme or Rotary(16), windows=windows, **cards.SIZE).double()


def last_question(text):
    return (text[0] == cards.ASK).nonzero()[-1, 0]


def carriers(card, windows):
    """The card and, if the first layer has a window, the tokens that saw it there."""
    rolled = [card.roll(after, 1) for after in range(windows[0] or 1 if windows else 1)]
    return torch.stack(rolled).any(0)


@pytest.mark.parametrize("length", [8, 13, 32, 100])
def test_a_text_holds_one_card_and_questions_that_ask_for_it(length):
    text, answer = cards.copy_and_card(50, length, torch.Generator().manual_seed(1))
    for tokens, answers in zip(text.tolist(), answer.tolist(), strict=True):
        (place,) = (i for i, token in enumerate(tokens) if cards.KINDS <= token < cards.ASK)
        assert place < length // 4
        asked = [i for i, token in enumerate(tokens) if token == cards.ASK]
        assert asked == list(range(length // 4 + 3, length, 8))
        for i, said in enumerate(answers):
            before = tokens[i - 3] if i >= 3 else cards.ASK
            expected = before if before < cards.KINDS else IGNORE
            assert said == (tokens[place] - cards.KINDS if i in asked else expected)


def test_only_questions_count_where_the_card_alone_is_asked():
    text, answer = cards.card_only(20, 32, torch.Generator().manual_seed(2))
    both = cards.copy_and_card(20, 32, torch.Generator().manual_seed(2))
    assert torch.equal(text, both[0])
    assert torch.equal(answer != IGNORE, text == cards.ASK)
    assert torch.equal(answer[text == cards.ASK], both[1][text == cards.ASK])


@pytest.mark.parametrize(("batch", "length", "named"), [(0, 32, "batch"), (1, 7, "length"), (1.5, 32, "batch")])
def test_wrong_sizes_are_named(batch, length, named):
    with pytest.raises((ValueError, TypeError), match=named):
        cards.copy_and_card(batch, length, torch.Generator())


def test_unseen_texts_have_all_cards_by_turns():
    text, answer, card = cards.unseen(32, 64)
    assert (card.sum(1) == 1).all()
    assert (text[card] - cards.KINDS).tolist() == [*range(16)] * 2
    assert all((answer[n][text[n] == cards.ASK] == n % 16).all() for n in range(32))


@pytest.mark.parametrize("length", [32, 64, 101])
def test_growing_texts_keep_their_card_and_digits(length):
    text, answer, card = cards.growing(length)
    other = cards.growing(160)
    assert torch.equal(card.nonzero(), other[2].nonzero())
    assert (text[card] - cards.KINDS).tolist() == list(range(16))
    assert (answer[text == cards.ASK].unflatten(0, (16, -1)) == torch.arange(16)[:, None]).all()
    both = (text < cards.KINDS) & (other[0][:, :length] < cards.KINDS)
    assert torch.equal(text[both], other[0][:, :length][both])
    assert both[:, length // 4 + 3 :].any()


def test_growing_texts_are_not_shorter_than_those_of_the_training():
    with pytest.raises(ValueError, match="length must be at least 32, got 31"):
        cards.growing(31)


def test_answers_are_counted_at_the_last_question_and_at_copies():
    class Oracle(torch.nn.Module):
        """Right but at the last question of every second text, and in copies that end before so many last tokens."""

        def __init__(self, copied: int = 0):
            super().__init__()
            self.nothing, self.wrong = torch.nn.Parameter(torch.zeros(())), torch.arange(64) < 64 - copied

        def forward(self, text):
            table = {tuple(one.tolist()): (n, row) for n, (one, row) in enumerate(zip(*given[:2], strict=True))}
            says = torch.zeros(*text.shape, cards.KINDS)
            for b, one in enumerate(text):
                n, row = table[tuple(one.tolist())]
                right = row.clamp(min=0)
                miscopied = self.wrong & (one != cards.ASK)
                right[miscopied] = (right[miscopied] + 1) % cards.KINDS
                if n % 2:
                    last = (one == cards.ASK).nonzero()[-1]
                    right[last] = (right[last] + 1) % cards.KINDS
                says[b] = torch.nn.functional.one_hot(right, cards.KINDS)
            return says

    given = cards.unseen(64, 64)
    assert cards.answered(Oracle(), 64) == (0.5, 0.0)
    assert cards.answered(Oracle(16), 64, last=16) == (0.5, 1.0)
    assert 0 < cards.answered(Oracle(16), 64, last=17).copy < 1
    assert cards.answered(Oracle(64), 64) == (0.5, 1.0)
    with pytest.raises(ValueError, match="last must be"):
        cards.answered(Oracle(), 64, last=0)


def test_the_lead_makes_the_weight():
    s = 3 * torch.randn(5, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    s[:, 30:] = -torch.inf
    right = torch.arange(40) < 3
    m = cards.lead(s, right.expand(5, 40))
    torch.testing.assert_close(m.exp() / (m.exp() + 27), s.softmax(-1)[:, :3].sum(-1), rtol=0, atol=1e-12)
    assert cards.lead(s + 1000, right.expand(5, 40)).isfinite().all()


@pytest.mark.parametrize("windows", [None, [8, None], [None, 8]])
def test_what_the_watched_heads_find(windows):
    watched = cards.Watched(model(windows))
    found = watched.read(64)
    text, answer, card = cards.growing(64)
    last = last_question(text)
    long = [layer for layer in (0, 1) if windows is None or windows[layer] is None]
    assert set(watched.layers.tolist()) <= set(long)
    carries = carriers(card, windows)
    assert torch.equal(found.carries, carries)
    n = int(last) + 1 - carries.sum(1)
    assert found.ln_n == pytest.approx(math.log(n[0]))
    assert torch.equal(found.right, found.says == answer[:, last])
    heads = [attention(watched.model, layer, text)[:, :, last] for layer in long]  # (texts, heads, keys)
    weights = (torch.cat(heads, dim=1) * carries[:, None]).sum(-1)
    mine = found.m.exp() / (found.m.exp() + n)
    assert torch.isclose(weights, mine[:, None], rtol=0, atol=1e-12).any(1).all()
    above = found.s - found.crowd[:, None]
    torch.testing.assert_close(
        above.masked_fill(carries, -torch.inf).logsumexp(-1), n.double().log(), rtol=0, atol=1e-9
    )
    torch.testing.assert_close(found.m, above.masked_fill(~carries, -torch.inf).logsumexp(-1), rtol=0, atol=1e-9)
    short, _, card = cards.growing(cards.TRAINED)
    carries, asked = carriers(card, windows), last_question(short)
    of_all = torch.cat([attention(watched.model, layer, short)[:, :, asked] for layer in long], dim=1)
    best = (of_all * carries[:, None]).sum(-1).amax(1)
    m, n = watched.read(cards.TRAINED).m, asked + 1 - carries.sum(1)
    torch.testing.assert_close(m.exp() / (m.exp() + n), best, rtol=0, atol=1e-12)


@pytest.mark.parametrize("windows", [None, [8, None], [8, 8]])
def test_the_head_that_copies_is_the_best_of_all_layers(windows):
    watched = cards.Watched(model(windows), "copy")
    found = watched.read(64)
    text, answer, _ = cards.growing(64)
    assert (found.carries.nonzero()[:, 1] == 60).all()
    assert torch.equal(found.wanted, answer[:, 63])
    assert torch.equal(found.wanted, text[:, 60])
    layers = {*watched.layers.tolist()}
    assert len(layers) == 1
    window = windows[layers.pop()] if windows else None
    assert found.ln_n == pytest.approx(math.log((window or 64) - 1))
    short = cards.growing(cards.TRAINED)[0]
    query = torch.tensor([cards.TRAINED - 1])
    of_all = torch.cat([seen_scores(watched.model, layer, short, query)[:, :, 0] for layer in (0, 1)], dim=1)
    key = (torch.arange(cards.TRAINED) == cards.TRAINED - 4).expand_as(of_all)
    assert watched.m == pytest.approx(cards.lead(of_all, key).mean(0).max().item())


@pytest.mark.parametrize("windows", [None, [8, None]])
@pytest.mark.parametrize("layer", [0, 1])
def test_the_weight_on_the_right_key_is_the_mean_of_the_best_head(windows, layer):
    small = model(windows)
    text, answer, card = cards.unseen(64, cards.TRAINED)
    s = seen_scores(small, layer, text, torch.arange(cards.TRAINED))
    heads = {"card": [[], []], "copy": [[], []]}
    for n, (tokens, answers) in enumerate(zip(text.tolist(), answer.tolist(), strict=True)):
        asked = [i for i, token in enumerate(tokens) if token == cards.ASK]
        (place,) = card[n].nonzero().tolist()[0]
        carriers = range(place, place + (windows[0] if windows and layer else 1))
        for head in (0, 1):
            w = s[n, head].softmax(-1)
            heads["card"][head].append(w[asked[-1], list(carriers)].sum().item())
            heads["copy"][head] += [
                w[i, i - 3].item() for i, said in enumerate(answers) if said >= 0 and i not in asked
            ]
    for task, of_heads in heads.items():
        best = max(sum(found) / len(found) for found in of_heads)
        assert cards.weight_on(task, small, layer) == pytest.approx(best)


def test_another_task_is_named():
    with pytest.raises(ValueError, match=r"task must be one of \('card', 'copy'\), got 'sort'"):
        cards.Watched(model(), "sort")
    with pytest.raises(ValueError, match=r"task must be one of 'card', 'copy', got 'sort'"):
        cards.weight_on("sort", model(), layer=0)


@pytest.mark.parametrize("cure", cards.CURES)
def test_cured_models_are_read(cure):
    watched = cards.Watched(model([8, None]))
    other = {
        "none": watched.model,
        "queries times T": tempered(watched.model, cards.TRAINED, 1 / watched.m),
        "slow pairs stopped": slowed(watched.model, 30, math.inf),
        "slow pairs interpolated": slowed(watched.model, 30, 4),
        "32 keys seen": narrowed(watched.model, 32),
    }[cure]
    found, text = watched.read(128, cure), cards.growing(128)[0]
    last = last_question(text)
    assert torch.equal(found.says, cards._said(other, text)[:, last])
    every = seen_scores(other, 1, text, last[None])[:, :, 0]
    assert (found.s[:, None] == every).all(-1).any(1).all()
    assert torch.equal(found.carries, watched.read(128).carries)
    assert found.m.isneginf().all() if cure == "32 keys seen" else found.m.isfinite().all()
    assert torch.equal(found.m, watched.read(128).m) == (cure == "none")
    assert all((watched.read(cards.TRAINED, cure).m - watched.m).isfinite())


def test_another_cure_is_named():
    with pytest.raises(ValueError, match="got 'rest'"):
        cards.cured(model(), "rest", m=1.0, length=64)


def test_one_layer_must_see_all():
    with pytest.raises(ValueError, match=r"without a window, got windows \[8, 8\]"):
        cards.Watched(model([8, 8]))


def test_a_typical_text_fares_as_most_do():
    watched = cards.Watched(model())
    number, long = watched.typical(64), watched.read(64)
    assert bool(long.right[number]) == (long.right.double().mean().item() > 0.5)
