"""The machinery of exercise checks: every verdict can be reached, and nothing a learner writes raises into the page."""

import pytest
import torch

from posenc_lib.exercises.check import Check

check = Check(
    "double",
    lambda x: 2 * x,
    cases=[(torch.tensor([1.0, -2.0], dtype=torch.float64),), (torch.tensor([0.1], dtype=torch.float64),)],
    mistakes=[("you squared", lambda x: x**2), ("right up to the sign", lambda x: -2 * x)],
)


def write_into(x):
    return x.mul_(2)


@pytest.mark.parametrize(
    ("candidate", "verdict"),
    [
        (lambda x: x + x, "\N{CHECK MARK} double: all 2 cases agree"),
        (write_into, "\N{CHECK MARK} double: all 2 cases agree"),
        (lambda x: None, "not done yet: double returned None"),
        (lambda x: ..., "not done yet: double returned Ellipsis"),
        (lambda x: x * x, "not yet: you squared"),
        (lambda x: -2 * x, "not yet: right up to the sign"),
        (lambda x: 1 / 0, "double raised ZeroDivisionError in case 1: division by zero"),
        (lambda: 1, "double raised TypeError in case 1"),
        (lambda x: "two", "double must return a tensor, a number or several of these, got 'two'"),
        (lambda x: (2, None), r"double must return a tensor, a number or several of these, got (2, None)"),
        (lambda x: (2 * x)[:1], "double, case 1 of 2: shape (2,) expected, got (1,)"),
        (lambda x: (2 * x).float(), "double, case 2 of 2: right to the precision of float32; compute in float64"),
        (lambda x: 2 * x.float().double(), "double, case 2 of 2: right to the precision of float32"),
        (lambda x: 2 * x + 0.5, "double, case 1 of 2: the values differ, by 0.5 where they differ most"),
        (lambda x: x * float("nan"), "double, case 1 of 2: the values differ, by inf where they differ most"),
        (7, "double must be a function, got int"),
    ],
)
def test_every_verdict(candidate, verdict, capsys):
    assert check.verdict(candidate).message.startswith(verdict)
    assert check.verdict(candidate).passed == verdict.startswith("\N{CHECK MARK}")
    assert check(candidate) is None
    assert capsys.readouterr().out == check.verdict(candidate).message + "\n"


def test_a_dtype_can_be_asked_for():
    exact = Check("half", [torch.tensor(0.5)], cases=[(1,)], dtype=torch.float64)
    assert exact.verdict(lambda n: torch.tensor(n / 2)).message == "half must return torch.float64, got torch.float32"
    assert exact.verdict(lambda n: torch.tensor(n / 2, dtype=torch.float64)).passed


def test_numbers_are_compared_in_float64():
    third = Check("third", [1 / 3, torch.tensor(2 / 3, dtype=torch.float64)], cases=[(1,), (2,)], tolerance=1e-12)
    assert third.verdict(lambda n: n / 3).passed
    assert third.verdict(lambda n: [n / 3][0]).passed
    assert "compute in float64" in third.verdict(lambda n: torch.tensor(n / 3)).message


@pytest.mark.parametrize("shown", [torch.inf, -torch.inf])
def test_infinities_agree_with_themselves_only(shown):
    wanted = torch.tensor([1.0, shown], dtype=torch.float64)
    mask = Check("mask", [wanted], cases=[(1,)])
    assert mask.verdict(lambda n: wanted.clone()).passed
    for wrong in (5.0, -shown, torch.nan):
        found = mask.verdict(lambda n, wrong=wrong: torch.tensor([1.0, wrong], dtype=torch.float64))
        assert found.message == "mask, case 1 of 1: the values differ, by inf where they differ most"
