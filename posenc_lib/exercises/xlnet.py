"""Checks of the exercises in notebook 06."""

import torch
from torch import Tensor

from posenc_lib.exercises.check import Check
from posenc_lib.lab.measure import randn
from posenc_lib.schemes.xlnet import permutation_mask

_ORDERS = [torch.tensor(z) for z in ([2, 0, 3, 1], [3, 1, 5, 0, 4, 2], [4, 0, 1, 2, 3], [0], [1, 2, 0])]

check_order_of = Check(
    "order_of",
    lambda mask: mask.sum(-1).argsort(),
    cases=[(permutation_mask(order),) for order in _ORDERS],
    mistakes=[
        (
            "you returned the step of each place; the order is the place of each step, the inverse permutation",
            lambda mask: mask.sum(-1),
        ),
        (
            "that is the order backwards: row i says whom i sees, column i who sees i",
            lambda mask: mask.sum(0).argsort(),
        ),
    ],
)


def _marginals(joint: Tensor, x: tuple, order: tuple) -> Tensor:
    """p of the first t words of the order, t = 0..L."""
    places = range(joint.dim())
    known = [order[:t] for t in range(len(order) + 1)]
    return torch.stack([joint[tuple(x[i] if i in k else slice(None) for i in places)].sum() for k in known])


def _log_factors(joint: Tensor, x: tuple, order: tuple) -> Tensor:
    return _marginals(joint, x, order).log().diff()


def _given_all_others(joint: Tensor, x: tuple, order: tuple) -> Tensor:
    rows = [joint[tuple(slice(None) if i == z else x[i] for i in range(joint.dim()))] for z in order]
    return torch.stack([row[x[z]] / row.sum() for row, z in zip(rows, order, strict=True)]).log()


def _joint(*shape: int, seed: int) -> Tensor:
    p = randn(*shape, seed=seed).exp()
    return p / p.sum()


check_log_factors = Check(
    "log_factors",
    _log_factors,
    cases=[
        (_joint(3, 3, 3, seed=1), (1, 0, 2), (2, 0, 1)),
        (_joint(2, 3, 2, 4, seed=2), (1, 2, 0, 3), (3, 1, 0, 2)),
        (_joint(3, 3, seed=3), (0, 2), (0, 1)),
    ],
    mistakes=[
        ("these are the factors; take their logarithm", lambda joint, x, z: _log_factors(joint, x, z).exp()),
        (
            "these are the logarithms of p(x_{z_1}, ..., x_{z_t}); divide by the one before",
            lambda joint, x, z: _marginals(joint, x, z)[1:].log(),
        ),
        (
            "every word is conditioned on all the others, as in BERT; only the earlier ones in the order are known",
            _given_all_others,
        ),
        (
            "you went from left to right; the order says which place comes when",
            lambda joint, x, z: _log_factors(joint, x, tuple(range(len(z)))),
        ),
        (
            "right, but sorted by place; entry t belongs to step t",
            lambda joint, x, z: _log_factors(joint, x, z)[torch.tensor(z).argsort()],
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
        ("a token must see itself: this is the content stream", _without_itself),
    ],
)
