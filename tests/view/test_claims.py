"""``holds`` prints one line of a fixed form, and refuses what would prove little."""

import pytest
import torch

from posenc_lib.view import holds

ONE = torch.ones(2, 3, dtype=torch.float64)


@pytest.mark.parametrize(
    "left, right, tolerance, verdict",
    [
        (ONE, ONE, 1e-12, True),
        (ONE, ONE + 1e-13, 1e-12, True),
        (ONE, ONE + 1e-11, 1e-12, False),
        (ONE, ONE - 1e-11, 1e-12, False),
        (ONE, ONE + 1e-11, 1e-10, True),
        (ONE, ONE, 0.0, True),
        (ONE, torch.tensor([[1, 1, 1], [1, 1, 2.0]]).double(), 1e-12, False),
        (ONE, ONE * torch.nan, 1e-12, False),
        (ONE * torch.nan, ONE * torch.nan, 1e-12, False),
        (1j * ONE, 1j * ONE, 1e-12, True),
        (1j * ONE, -1j * ONE, 1e-12, False),
        (ONE + 0j, ONE, 1e-12, True),
        (ONE.numpy(), ONE, 1e-12, True),
    ],
)
def test_one_line_with_the_verdict(capsys, left, right, tolerance, verdict):
    assert holds("a = b", left, right, tolerance) is None
    assert capsys.readouterr().out == f"a = b holds: {verdict}\n"


def test_the_usual_tolerance_is_1e_12(capsys):
    holds("a", ONE, ONE + 5e-13)
    holds("b", ONE, ONE + 5e-12)
    assert capsys.readouterr().out == "a holds: True\nb holds: False\n"


@pytest.mark.parametrize(
    "left, right, words",
    [
        (ONE, ONE[0], ("left", "right", "(2, 3)", "(3,)")),
        (ONE, ONE[:, :1], ("left", "right", "(2, 3)", "(2, 1)")),
        (ONE.float(), ONE, ("left", "float32")),
        (ONE, ONE.float(), ("right", "float32")),
        (ONE, ONE.bfloat16(), ("right", "bfloat16")),
        (ONE.long(), ONE, ("left", "int64")),
        (ONE, ONE.cfloat(), ("right", "complex64")),
    ],
)
def test_refusals_print_nothing(capsys, left, right, words):
    with pytest.raises(ValueError) as refusal:
        holds("a", left, right)
    for word in words:
        assert word in str(refusal.value)
    assert capsys.readouterr().out == ""


def test_a_claim_about_nothing_is_refused():
    with pytest.raises(ValueError):
        holds("a", ONE[:0], ONE[:0])
