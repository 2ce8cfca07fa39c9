"""Checks of the exercises in notebook 21."""

import torch
from torch import Tensor

from posenc_lib.exercises.check import Check
from posenc_lib.lab.cards import lead
from posenc_lib.lab.measure import randn


def _log_mean_exp(s: Tensor) -> Tensor:
    return s.logsumexp(0) - torch.tensor(len(s), dtype=s.dtype).log()


def _unseen(s: Tensor, *places: int) -> Tensor:
    s = s.clone()
    s[list(places)] = -torch.inf
    return s


def _mask(n: int, *right: int) -> Tensor:
    mask = torch.zeros(n, dtype=torch.bool)
    mask[list(right)] = True
    return mask


check_lead_of = Check(
    "lead_of",
    lead,
    cases=[
        (3 * randn(20), _mask(20, 4)),
        (3 * randn(20, seed=1), _mask(20, 2, 7, 8)),
        (_unseen(3 * randn(20, seed=2), 16, 17, 18, 19), _mask(20, 2, 7)),
    ],
    mistakes=[
        (
            "divide the sum of e^s of the crowd by N: it is a mean",
            lambda s, right: s[right].logsumexp(0) - s[~right].logsumexp(0),
        ),
        (
            "the mean is that of e^s, not of s",
            lambda s, right: s[right].logsumexp(0) - s[~right & s.isfinite()].mean(),
        ),
        (
            "the crowd is the others: right keys do not belong to it",
            lambda s, right: s[right].logsumexp(0) - _log_mean_exp(s[s.isfinite()]),
        ),
        (
            "keys with the score -inf are not seen, and do not count in N",
            lambda s, right: s[right].logsumexp(0) - _log_mean_exp(s[~right]),
        ),
        (
            "several right keys count with the sum of their e^s, not with their mean",
            lambda s, right: _log_mean_exp(s[right]) - _log_mean_exp(s[~right & s.isfinite()]),
        ),
        (
            "several right keys count with the sum of their e^s, not with the largest",
            lambda s, right: s[right].max() - _log_mean_exp(s[~right & s.isfinite()]),
        ),
    ],
)


def _with_sink(s: Tensor, sink: float) -> Tensor:
    return (s - torch.logaddexp(s.logsumexp(-1, keepdim=True), torch.tensor(sink, dtype=s.dtype))).exp()


check_with_sink = Check(
    "with_sink",
    _with_sink,
    cases=[
        (randn(5), 0.5),
        (3 * randn(2, 4, 6, seed=1), -1.0),
        (randn(3, 5, seed=2), 3.0),
    ],
    mistakes=[
        ("the weights still sum to 1: the sink takes none", lambda s, sink: s.softmax(-1)),
        (
            "the weight of the sink is thrown away: as many weights as scores",
            lambda s, sink: torch.cat([s, torch.full_like(s[..., :1], sink)], dim=-1).softmax(-1),
        ),
        ("the sink adds e^c to the denominator, not c", lambda s, sink: s.exp() / (s.exp().sum(-1, True) + sink)),
    ],
)
