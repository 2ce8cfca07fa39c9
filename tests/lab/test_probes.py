"""The probes find what the mathematics says, for every scheme; and each can say no."""

import sys
from pathlib import Path

import pytest
import torch

from posenc_lib import schemes
from posenc_lib.lab import probes
from posenc_lib.lab.catalog import scheme_classes
from posenc_lib.lab.probes import PROBES, attention_by_distance, drawn, places, probe, shift_invariant
from posenc_lib.scheme import PositionScheme

CLASSES = scheme_classes()

# place, relative, symmetric, bounded, up to, keeps norms, nothing at 0, parameters; D = 64, H = 4, d = 16, K = k = 32
EXPECTED = {
    "NoPosition": ("nowhere", True, True, True, None, True, True, 0),
    "Sinusoidal": ("input", False, False, True, None, False, False, 0),
    "Learned": ("input", False, False, True, 100, False, False, 512 * 64),
    "Shaw": ("score, value", True, False, True, None, True, False, 2 * 65 * 16),
    "MusicTransformer": ("score", True, False, True, 100, True, False, 512 * 16),
    "TransformerXL": ("score", True, False, True, None, True, False, 2 * 64 + 64 * 64),
    "XLNet": ("score", True, False, True, None, True, False, 3 * 64 + 2 * 64 + 64 * 64),
    "Nezha": ("score, value", True, False, True, None, True, False, 0),
    "Tener": ("score", True, False, True, None, True, False, 2 * 64),
    "Huang": ("score", True, False, True, 100, True, False, 1023 * 16),
    "Deberta": ("score", True, False, True, None, True, False, 3 * 64 * 64 + 64),
    "T5Bias": ("score", True, False, True, None, True, False, 32 * 4),
    "Alibi": ("score", True, True, False, None, True, True, 0),
    "Cope": ("score", True, False, True, None, True, False, 65 * 16),
    "Kerple": ("score", True, True, False, None, True, True, 2 * 4),
    "Fire": ("score", False, True, True, None, True, False, 2 * 32 + 33 * 4 + 2),
    "Rotary": ("query and key", True, False, True, None, True, True, 0),
    "XPos": ("query and key", True, False, False, None, False, True, 0),
    "Fox": ("score", True, False, False, None, True, True, 64 * 4 + 4),
    "SelectiveRotary": ("query and key", True, False, True, None, True, True, (64 + 1) * 4 * 8),
    "PaTH": ("score", True, False, True, None, True, True, 64 * 64 + 64 * 4 + 4),
    "LearnedProfile": ("score", True, False, True, None, True, False, 16 * (64 * 4 + 1024)),
    "MRope": ("query and key", True, False, True, None, True, True, 0),
    "AxialRotary": ("query and key", True, False, True, None, True, True, 0),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_probes_agree_with_the_mathematics(name):
    assert probe(CLASSES[name]) == dict(zip(PROBES, EXPECTED[name], strict=True))


@pytest.mark.parametrize("name", EXPECTED)
def test_schemes_declare_all_that_the_probes_find(name):
    """The contract asks less of every scheme: that what it promises is true."""
    scheme = drawn(CLASSES[name])
    assert set(places(scheme)) == set(scheme.places)
    assert shift_invariant(scheme) == scheme.relative


class Shifted(PositionScheme):
    """Declares every place and uses one, and breaks its promise to be relative."""

    relative = True

    def transform(self, x, token):
        return x + 0.1 * token[..., None]


def test_a_promise_that_is_broken_and_a_place_that_is_not_used_are_seen():
    assert not shift_invariant(Shifted())
    assert places(Shifted()) == ["query and key"]


def test_every_probe_tells_some_schemes_apart():
    for column in zip(*EXPECTED.values(), strict=True):
        assert len(set(column)) > 1


def test_drawn_parameters_are_random_and_repeatable():
    one, again, other = (drawn(CLASSES["T5Bias"], seed) for seed in (0, 0, 1))
    assert torch.equal(one.weight, again.weight)
    assert not torch.equal(one.weight, other.weight)


def test_attention_by_distance():
    flat = attention_by_distance(drawn(CLASSES["NoPosition"]), equal=True, length=8, draws=3)
    assert torch.allclose(flat, torch.full((8,), 1 / 8, dtype=torch.float64))
    falling = attention_by_distance(drawn(CLASSES["Alibi"]), equal=True, length=8, draws=3)
    assert (falling.diff() < 0).all()
    assert torch.allclose(falling.sum(), torch.tensor(1.0, dtype=torch.float64))
    noisy = attention_by_distance(drawn(CLASSES["NoPosition"]), equal=False, length=8, draws=3)
    assert (noisy - 1 / 8).abs().max() > 0.01


def test_a_new_module_is_found_and_probed_without_an_edit(tmp_path, monkeypatch):
    lines = ("from posenc_lib.schemes.alibi import Alibi", "class Steeper(Alibi):", "    steep = True")
    (tmp_path / "steeper.py").write_text("\n".join(lines))
    monkeypatch.setattr(schemes, "__path__", [*schemes.__path__, str(tmp_path)])
    try:
        found = scheme_classes()
        assert set(found) == {*CLASSES, "Steeper"}
        assert probe(found["Steeper"])["symmetric"]
    finally:
        sys.modules.pop("posenc_lib.schemes.steeper", None)


def test_no_probe_knows_a_scheme_by_its_name():
    source = Path(probes.__file__).read_text()
    assert [name for name in EXPECTED if name in source] == ["NoPosition"]
