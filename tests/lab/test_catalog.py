import pytest
import torch

import posenc_lib
from posenc_lib.attention import scores
from posenc_lib.lab.catalog import build, scheme_classes
from posenc_lib.lab.probes import drawn
from posenc_lib.scheme import PositionScheme

CLASSES = scheme_classes()
PUBLIC = [name for name, home in posenc_lib.HOMES.items() if home.startswith("schemes.")]
ABSOLUTE = {"Sinusoidal", "Learned"}  # added to the input, not inside attention
RELATIVE_UP_TO_A_LENGTH = {"Fire"}  # its denominator max(L, i) moves with the query once i > L


def test_every_public_name_is_found():
    assert PUBLIC
    assert {name: CLASSES[name] for name in PUBLIC} == {name: getattr(posenc_lib, name) for name in PUBLIC}


def test_a_required_argument_without_a_value_is_named():
    class Demanding(PositionScheme):
        def __init__(self, colour):
            super().__init__()

    with pytest.raises(TypeError, match="Demanding requires colour"):
        build(Demanding)
    assert isinstance(build(Demanding, colour=1), Demanding)


def scores_at(scheme, start):
    """The scores of ten queries and thirteen keys whose input was embedded at ``start`` and on."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(1, 13, 64, generator=generator, dtype=torch.float64)
    W_Q, W_K = torch.randn(2, 64, 64, generator=generator, dtype=torch.float64) / 8
    p = torch.arange(start, start + 13)
    x = scheme.embed(x, p)
    q, k = ((x @ W).unflatten(-1, (4, 16)).transpose(1, 2) for W in (W_Q, W_K))
    return scores(q[:, :, 3:], k, scheme, p[3:], p, x=x)


@pytest.mark.parametrize("name", PUBLIC)
@pytest.mark.parametrize("start", [7, 200])
def test_scores_of_the_relative_schemes_alone_survive_a_shift_of_all_positions(name, start):
    scheme = drawn(CLASSES[name])
    shift = 250 if name in ABSOLUTE else 1000
    here, there = scores_at(scheme, start), scores_at(scheme, start + shift)
    same = bool((here - there).abs().max() < 1e-9)
    assert same == (name not in ABSOLUTE | RELATIVE_UP_TO_A_LENGTH)


def test_fire_survives_a_shift_within_its_threshold():
    scheme = drawn(CLASSES["Fire"])
    scheme.log_threshold.fill_(torch.tensor(2000.0).log())
    assert (scores_at(scheme, 0) - scores_at(scheme, 1000)).abs().max() < 1e-12


@pytest.mark.parametrize("name", PUBLIC)
def test_every_scheme_but_none_changes_the_scores_of_some_pair(name):
    scheme = drawn(CLASSES[name])
    assert bool((scores_at(scheme, 0) - scores_at(drawn(CLASSES["NoPosition"]), 0)).abs().max() > 1e-6) == (
        name != "NoPosition"
    )
