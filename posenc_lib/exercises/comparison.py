"""Checks of the exercises of notebook 20."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from posenc_lib.exercises.check import Check, JudgeCheck


def _ranks(values: Tensor, margin: float) -> Tensor:
    """(schemes, tasks); of who has nan it is 1, and nobody is behind it."""
    return 1 + (values[None] > values[:, None] + margin).double().sum(1)


def _ranks_but(values: Tensor, fails: Tensor, margin: float) -> Tensor:
    """As if who fails took no part."""
    return _ranks(values.masked_fill(fails, torch.nan), margin)


def _mean_reciprocal_rank(values: Tensor, fails: Tensor, margin: float) -> Tensor:
    return (1 / _ranks_but(values, fails, margin)).masked_fill(fails, torch.nan).nanmean(1)


def _contest(seed: int, schemes: int, tasks: int, steps: int = 64) -> tuple[Tensor, Tensor]:
    """Multiples of 1 / steps, with some failures; everybody learns the first task, and who fails may have the most."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(steps, (schemes, tasks), generator=generator).double() / steps
    fails = torch.rand(schemes, tasks, generator=generator) < 0.3
    fails[:, 0] = False
    return values, fails


check_mean_reciprocal_rank = Check(
    "mean_reciprocal_rank",
    _mean_reciprocal_rank,
    cases=[
        (*_contest(0, 5, 8), 0.1),
        (*_contest(1, 5, 8, steps=8), 0.125),  # some are ahead by just the margin
        (*_contest(2, 3, 4), 0.0),
        (*_contest(3, 7, 2), 0.3),
    ],
    mistakes=[
        ("the margin is not used", lambda values, fails, margin: _mean_reciprocal_rank(values, fails, 0.0)),
        (
            "ahead is who is better by more than the margin, not by just as much",
            lambda values, fails, margin: _mean_reciprocal_rank(values, fails, margin - 1e-9),
        ),
        (
            "who fails is ahead of nobody, but is counted in the ranks of the others",
            lambda values, fails, margin: (1 / _ranks(values, margin)).masked_fill(fails, torch.nan).nanmean(1),
        ),
        (
            "a failure counts 0 here; leave the task out of that scheme's mean",
            lambda values, fails, margin: (1 / _ranks_but(values, fails, margin)).masked_fill(fails, 0.0).mean(1),
        ),
        (
            "a failure counts 1 here; leave the task out of that scheme's mean",
            lambda values, fails, margin: (1 / _ranks_but(values, fails, margin)).mean(1),
        ),
        (
            "failures have ranks here",
            lambda values, fails, margin: (1 / _ranks(values, margin)).mean(1),
        ),
        (
            "take the mean of 1 / rank, not 1 over the mean rank",
            lambda values, fails, margin: (
                1 / _ranks_but(values, fails, margin).masked_fill(fails, torch.nan).nanmean(1)
            ),
        ),
        (
            "take the mean of 1 / rank, not of the rank",
            lambda values, fails, margin: _ranks_but(values, fails, margin).masked_fill(fails, torch.nan).nanmean(1),
        ),
        (
            "more is better: a rank counts those above",
            lambda values, fails, margin: _mean_reciprocal_rank(-values, fails, margin),
        ),
        (
            "a mean for each scheme: over the tasks, not over the schemes",
            lambda values, fails, margin: (
                (1 / _ranks_but(values, fails, margin)).masked_fill(fails, torch.nan).nanmean(0)
            ),
        ),
    ],
)


Record = Mapping[str, Any]
_FAIR: dict[str, Any] = {
    "rates": 3,
    "rate seed": 100,
    "seeds": (0, 1, 2, 3, 4),
    "met": (True,) * 5,
    "maximum": 1000,
    "own rate": 1,
    "test lengths": (32, 64, 256),
}
_CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("nothing is different", {}),
    ("ten rates tried for it, three for the other", {"rates": 10}),
    ("its rate was chosen on one of its own seeds", {"rate seed": 3}),
    ("two seeds, and five of the other", {"seeds": (0, 1), "met": (True, True)}),
    ("one seed did not meet the criterion", {"met": (True, True, False, True, True)}),
    ("no seed met the criterion", {"met": (False,) * 5}),
    ("up to 4 000 updates, and 1 000 of the other", {"maximum": 4000}),
    ("what it learns of places learns ten times as fast as the model", {"own rate": 10}),
    ("tested on shorter texts", {"test lengths": (32, 64)}),
    ("other seeds, as many", {"seeds": (5, 6, 7, 8, 9)}),
    ("its rate was chosen on another seed, that is not among its own", {"rate seed": 101}),
]


def _fair(
    a: Record,
    b: Record,
    rates: bool = True,
    apart: bool = True,
    seeds: bool = True,
    met: Callable[[Sequence[bool]], bool] = all,
    maximum: bool = True,
    own: bool = True,
    lengths: bool = True,
) -> bool:
    return (
        (not rates or a["rates"] == b["rates"])
        and (not apart or all(r["rate seed"] not in r["seeds"] for r in (a, b)))
        and (not seeds or len(a["seeds"]) == len(b["seeds"]) >= 5)
        and met(a["met"])
        and met(b["met"])
        and (not maximum or a["maximum"] == b["maximum"])
        and (not own or a["own rate"] == b["own rate"])
        and (not lengths or a["test lengths"] == b["test lengths"])
    )


_TWO = {"seeds": (0, 1), "met": (True, True)}

check_is_fair = JudgeCheck(
    "is_fair",
    _fair,
    cases=[
        *((_FAIR | change, _FAIR) for _, change in _CHANGES),
        (_FAIR, _FAIR | {"met": (False, True, True, True, True)}),
        (_FAIR | _TWO, _FAIR | _TWO),
    ],
    judged=[
        *((words, "") for words, _ in _CHANGES),
        ("one seed of the second scheme did not meet the criterion", ""),
        ("both have two seeds only", ""),
    ],
    mistakes=[
        ("who may try more learning rates is luckier: compare how many", lambda a, b: _fair(a, b, rates=False)),
        (
            "a rate that was chosen on a seed of the test knows it: look at the rate seed",
            lambda a, b: _fair(a, b, apart=False),
        ),
        (
            "the numbers of seeds do not matter to you; they must be equal, and five",
            lambda a, b: _fair(a, b, seeds=False),
        ),
        (
            "a scheme that did not learn the task says nothing about length: look at met",
            lambda a, b: _fair(a, b, met=lambda m: True),
        ),
        (
            "one seed that met the criterion is not enough for you to call a scheme trained: all must",
            lambda a, b: _fair(a, b, met=any),
        ),
        ("who may train longer is luckier: compare the maxima", lambda a, b: _fair(a, b, maximum=False)),
        ("whose own parameters learn faster has an advantage: compare own rate", lambda a, b: _fair(a, b, own=False)),
        ("they must be tested at the same lengths", lambda a, b: _fair(a, b, lengths=False)),
        (
            "other seeds are no fault, if they are as many: the records need not be equal",
            lambda a, b: _fair(a, b) and a["seeds"] == b["seeds"] and a["rate seed"] == b["rate seed"],
        ),
    ],
)


Trial = Callable[[float, int], Mapping[str, Any]]


def _trials(rows: Mapping[float, tuple[bool, float, float]], final: float) -> Trial:
    """A trial that was made before: by rate whether the criterion was met on seed 100, the loss and the measure."""

    def trial(rate: float, seed: int) -> Mapping[str, Any]:
        met, loss, far = rows[rate]
        if seed == 100:
            return {"met": met, "loss": loss, "far": far}
        return {"met": met, "loss": loss / 2, "far": round(final + 10 * rate + seed / 100, 4)}

    return trial


def _far(trial: Trial, merit: Callable[[float, Mapping[str, Any]], Any], then: int = 0) -> float:
    best = max((1e-3, 3e-3, 1e-2), key=lambda rate: merit(rate, trial(rate, 100)))
    return trial(best, then)["far"]


def _merit(rate: float, result: Mapping[str, Any]) -> tuple[bool, float]:
    """The rule of the contest: the least rate that met the criterion, or the smallest loss if none did."""
    return result["met"], -(rate if result["met"] else result["loss"])


check_rerun = Check(
    "rerun",
    lambda trial: _far(trial, _merit),
    cases=[
        (_trials({1e-3: (True, 0.02, 0.9), 3e-3: (True, 0.01, 0.5), 1e-2: (False, 0.3, 0.95)}, 0.4),),
        (_trials({1e-3: (False, 0.05, 0.3), 3e-3: (True, 0.09, 0.8), 1e-2: (True, 0.02, 0.1)}, 0.3),),
        (_trials({1e-3: (False, 2.0, 0.2), 3e-3: (False, 1.1, 0.3), 1e-2: (False, 1.5, 0.1)}, 0.2),),
        (_trials({1e-3: (True, 0.01, 0.6), 3e-3: (True, 0.03, 0.7), 1e-2: (True, 0.02, 0.4)}, 0.3),),
        (_trials({1e-3: (True, 0.03, 0.3), 3e-3: (False, 0.02, 0.8), 1e-2: (False, 0.9, 0.1)}, 0.3),),
    ],
    mistakes=[
        (
            "you chose the rate by what is to be measured, the accuracy on long texts; choose by the criterion",
            lambda trial: _far(trial, lambda rate, r: r["far"]),
        ),
        (
            "a smaller loss without the criterion met does not win against a rate that met it",
            lambda trial: _far(trial, lambda rate, r: -r["loss"]),
        ),
        (
            "of several rates that met the criterion take the least, not that with the smallest loss",
            lambda trial: _far(trial, lambda rate, r: (r["met"], -r["loss"])),
        ),
        (
            "of several rates that met the criterion take the least, not the greatest",
            lambda trial: _far(trial, lambda rate, r: (r["met"], rate if r["met"] else -r["loss"])),
        ),
        (
            "if no rate met the criterion, the smallest loss decides",
            lambda trial: _far(trial, lambda rate, r: (r["met"], -rate)),
        ),
        (
            "seed 100 is for the choice of the rate; what is reported is a run on seed 0",
            lambda trial: _far(trial, _merit, then=100),
        ),
        ("you took the least rate without trying", lambda trial: trial(1e-3, 0)["far"]),
    ],
)
