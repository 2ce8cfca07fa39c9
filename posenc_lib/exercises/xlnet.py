"""Checks of the exercises in notebook 06."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from posenc_lib.attention import attend
from posenc_lib.exercises.check import Check
from posenc_lib.lab.measure import randn
from posenc_lib.schemes.xlnet import XLNet, permutation_mask

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]  # (states, context, mask) to what is added to the states
Predict = Callable[[Tensor, Tensor], Tensor]  # (x, order) to the states from which the words are predicted

WIDTH = 6
_ORDERS = [torch.tensor(z) for z in ([2, 0, 3, 1], [3, 0, 4, 1, 2], [1, 2, 0])]
_W = randn(WIDTH, seed=40)


def _scheme() -> XLNet:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return XLNet(1, WIDTH).double().requires_grad_(False)


def _layer(seed: int) -> Attention:
    """Attention of one layer: queries from the states, keys and values from the context, XLNet's score."""
    scheme, projections = _scheme(), randn(3, WIDTH, WIDTH, seed=seed) / WIDTH**0.5

    def attention(states: Tensor, context: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (x @ W for x, W in zip((states, context, context), projections, strict=True))
        return attend(q[None, None], k[None, None], v[None, None], scheme, mask=mask)[0, 0]

    return attention


_LAYERS = [_layer(41), _layer(42)]


def _streams(
    x: Tensor,
    w: Tensor,
    order: Tensor,
    layers: Sequence[Attention],
    see_themselves: Sequence[bool] = (True, False),
    step: Tensor | None = None,
    turned: bool = False,
    start: Tensor | None = None,
    residual: bool = True,
    own_keys: bool = False,
    content_first: bool = False,
) -> Tensor:
    """Two streams, or what comes of a mistake in them."""
    step = order.argsort() if step is None else step
    before, own = step < step[:, None], torch.eye(len(order), dtype=torch.bool)
    before = before.T if turned else before
    of_h, of_g = (before | own if see else before for see in see_themselves)
    h, g = x, w.expand(x.shape) if start is None else start
    for attention in layers:
        higher = residual * h + attention(h, h, of_h)
        context = g if own_keys else higher if content_first else h
        h, g = higher, residual * g + attention(g, context, of_g)
    return torch.stack([h, g])


check_my_two_streams = Check(
    "my_two_streams",
    _streams,
    cases=[
        (randn(len(order), WIDTH, seed=50 + n), _W, order, _LAYERS[: 2 - (n == 2)]) for n, order in enumerate(_ORDERS)
    ],
    mistakes=[
        (
            "order[0] is the place of the first step, not the step of place 0; who sees whom depends on the step of "
            "each place, the inverse permutation",
            lambda x, w, order, layers: _streams(x, w, order, layers, step=order),
        ),
        (
            "the query stream sees the word that it is to predict; its mask is strict",
            lambda x, w, order, layers: _streams(x, w, order, layers, (True, True)),
        ),
        (
            "the content stream sees its own word too",
            lambda x, w, order, layers: _streams(x, w, order, layers, (False, False)),
        ),
        (
            "the two masks are exchanged: g is strict, h sees its own word",
            lambda x, w, order, layers: _streams(x, w, order, layers, (False, True)),
        ),
        (
            "g takes keys and values from g, which know no word; both streams take them from h",
            lambda x, w, order, layers: _streams(x, w, order, layers, own_keys=True),
        ),
        (
            "g looks at the h that this layer has just made; both start from the h of the layer below",
            lambda x, w, order, layers: _streams(x, w, order, layers, content_first=True),
        ),
        (
            "g starts as x and so knows the word from the beginning; it starts as w at every place",
            lambda x, w, order, layers: _streams(x, w, order, layers, start=x),
        ),
        (
            "the mask is turned: row i says what i sees",
            lambda x, w, order, layers: _streams(x, w, order, layers, turned=True),
        ),
        (
            "attention is added to the state, it does not replace it",
            lambda x, w, order, layers: _streams(x, w, order, layers, residual=False),
        ),
        (
            "only the first layer has run; go through all of them",
            lambda x, w, order, layers: _streams(x, w, order, layers[:1]),
        ),
        (
            "you return g before h",
            lambda x, w, order, layers: _streams(x, w, order, layers).flip(0),
        ),
    ],
)


def _partial_mask(order: Tensor, given: int) -> Tensor:
    mask = permutation_mask(order, True)
    mask[order[:given, None], order[:given]] = True
    return mask


def _by_place(order: Tensor, given: int) -> Tensor:
    mask = permutation_mask(order, True)
    mask[:given, :given] = True
    return mask


def _everybody_sees_targets(order: Tensor, given: int) -> Tensor:
    mask = permutation_mask(order, True)
    mask[order[:given]] = True
    return mask


def _targets_see_given_only(order: Tensor, given: int) -> Tensor:
    mask = torch.eye(len(order), dtype=torch.bool)
    mask[:, order[:given]] = True
    return mask


def _first_target_among_given(order: Tensor, given: int) -> Tensor:
    step = order.argsort().clamp(min=given)
    return step <= step[:, None]


def _without_itself(order: Tensor, given: int) -> Tensor:
    return _partial_mask(order, given) & ~torch.eye(len(order), dtype=torch.bool)


check_partial_mask = Check(
    "partial_mask",
    _partial_mask,
    cases=[
        (torch.tensor([2, 0, 3, 1]), 2),
        (torch.tensor([3, 1, 5, 0, 4, 2]), 3),
        (torch.tensor([4, 0, 1, 2, 3]), 0),
        (torch.tensor([4, 3, 1, 2, 0, 5]), 4),
    ],
    mistakes=[
        (
            "the given tokens see each other in order only; all of them may see all of them",
            lambda order, given: permutation_mask(order, True),
        ),
        ("given are the first tokens of the order, not the first places of the text", _by_place),
        ("now the given tokens see the targets: a leak", _everybody_sees_targets),
        ("a target also sees the targets before it in the order", _targets_see_given_only),
        (
            "the first target shares the step of the given tokens, so they see it; theirs must be smaller",
            _first_target_among_given,
        ),
        ("a token must see itself: this is the content stream", _without_itself),
    ],
)


def _predict(**mistake: Any) -> Predict:
    return lambda x, order: _streams(x, _W, order, _LAYERS, **mistake)[1]


def _one_stream(x: Tensor, order: Tensor) -> Tensor:
    return _streams(x, _W, order, _LAYERS, (False, False))[0]


def _flipped_bit(x: Tensor, order: Tensor) -> Tensor:
    """The first token of the order is shown the last one."""
    strict, own = permutation_mask(order), permutation_mask(order, True)
    own[order[0], order[-1]] = True
    h, g = x, _W.expand(x.shape)
    for attention in _LAYERS:
        h, g = h + attention(h, h, own), g + attention(g, h, strict)
    return g


_X, _Z = randn(5, WIDTH, seed=60), _ORDERS[1]


def _changed(predict: Predict, x: Tensor, order: Tensor, forbidden: Callable[[int], Tensor]) -> Tensor:
    """Whether the prediction of each step changes when the words that are forbidden to it are replaced."""
    before, answer = predict(x, order), torch.zeros(len(order), dtype=torch.bool)
    for t, i in enumerate(order.tolist()):
        other = x.clone()
        other[forbidden(t)] += 1
        answer[i] = (predict(other, order)[i] - before[i]).abs().max() > 1e-9
    return answer


def _leaking(predict: Predict, x: Tensor, order: Tensor) -> Tensor:
    return _changed(predict, x, order, lambda t: order[t:])


check_leaking = Check(
    "leaking",
    _leaking,
    cases=[
        (predict, _X, _Z)
        for predict in (
            _predict(),
            _predict(see_themselves=(True, True)),
            _flipped_bit,
            _one_stream,
            _predict(step=_Z),
            _predict(own_keys=True),
        )
    ],
    mistakes=[
        (
            "you replace its own word only; the words later in the order are forbidden too",
            lambda predict, x, order: _changed(predict, x, order, lambda t: order[t : t + 1]),
        ),
        (
            "you replace the later words only; its own word is forbidden too",
            lambda predict, x, order: _changed(predict, x, order, lambda t: order[t + 1 :]),
        ),
        (
            "forbidden is what comes later in the order, not what stands to the right",
            lambda predict, x, order: _changed(predict, x, order, lambda t: torch.arange(int(order[t]), len(order))),
        ),
        (
            "you replace the words that the prediction may see as well",
            lambda predict, x, order: _changed(predict, x, order, lambda t: order),
        ),
        (
            "entry t of your answer belongs to step t; it should belong to place t",
            lambda predict, x, order: _leaking(predict, x, order)[order],
        ),
    ],
)


def _at(joint: Tensor, x: Sequence[int], known: Sequence[int]) -> Tensor:
    """Probability that the known places hold the words of x."""
    return joint[tuple(x[i] if i in known else slice(None) for i in range(joint.dim()))].sum()


def _log_p(joint: Tensor, x: tuple, groups: tuple) -> Tensor:
    total, known = torch.zeros((), dtype=torch.float64), ()
    for group in groups:
        for i in group:
            total = total + (_at(joint, x, (*known, i)) / _at(joint, x, known)).log()
        known = (*known, *group)
    return total


def _from_all_others(joint: Tensor, x: tuple, groups: tuple) -> Tensor:
    everywhere = tuple(range(joint.dim()))
    others = [tuple(j for j in everywhere if j != i) for group in groups for i in group]
    return torch.stack([(_at(joint, x, everywhere) / _at(joint, x, known)).log() for known in others]).sum()


def _joint(*shape: int, seed: int) -> Tensor:
    p = randn(*shape, seed=seed).exp()
    return p / p.sum()


check_log_p = Check(
    "log_p",
    _log_p,
    cases=[
        (_joint(3, 3, 3, seed=1), (1, 0, 2), ((2,), (0, 1))),
        (_joint(2, 3, 2, 4, seed=2), (1, 2, 0, 3), ((3, 1), (0, 2))),
        (_joint(3, 3, seed=3), (0, 2), ((1,), (0,))),
        (_joint(2, 2, 2, seed=4), (0, 1, 1), ((0, 1, 2),)),
    ],
    mistakes=[
        ("this is the probability; take the logarithm", lambda *case: _log_p(*case).exp()),
        (
            "words of one group must not see each other; yours are predicted one by one",
            lambda joint, x, groups: joint[x].log(),
        ),
        (
            "no word sees the groups before its own",
            lambda joint, x, groups: _log_p(joint, x, (tuple(range(joint.dim())),)),
        ),
        ("every word sees all the others, those of later groups too", _from_all_others),
        ("the groups come in the order given, the first one first", lambda j, x, groups: _log_p(j, x, groups[::-1])),
    ],
)
