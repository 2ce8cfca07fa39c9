"""The practitioner's table: what it says of kernels, caches, memory and sides is what attention does."""

import pytest
import torch
import torch.nn.functional as F

from posenc_lib.attention import attend
from posenc_lib.lab.catalog import build, scheme_classes
from posenc_lib.lab.measure import randn
from posenc_lib.lab.practice import FUSED, kept_per_pair, kernel, keys_final, practice, sides
from posenc_lib.lab.probes import drawn
from posenc_lib.schemes.rope import Rotary

NAMES = list(scheme_classes())


class Rereading(Rotary):
    """Turns every key by the length of the text as well: a cached key does not stay what it is."""

    name = "rereading"

    def transform_key(self, k, token):
        return super().transform_key(k, token) * k.shape[2]


@pytest.mark.parametrize("name", NAMES)
def test_a_scheme_for_any_kernel_is_plain_attention_after_hooks_1_and_2(name):
    scheme = drawn(scheme_classes()[name])
    q, k, v = (randn(1, 4, 9, 16, seed=s) for s in (1, 2, 3))
    x = randn(1, 9, 64)
    here = scheme.at(9, like=q)
    turned = here.transform(q, k, x)
    plain = F.scaled_dot_product_attention(*turned, v, is_causal=True, scale=scheme.scale(16))
    same = torch.allclose(attend(q, k, v, here, causal=True, x=x), plain, rtol=0, atol=1e-9)
    assert same == (kernel(scheme) == "any")


def test_kernels():
    found = {name: kernel(drawn(cls)) for name, cls in scheme_classes().items()}
    bends = {"T5Bias": "place", "Fire": "place", "Kerple": "place", "Alibi": "slope"}
    for name, needs in {**bends, "Deberta": "gather", "Fox": "sum", "PaTH": "mask"}.items():
        assert found[name] == needs
    assert found["Nezha"] == found["Shaw"] == "none"
    assert set(found.values()) == set(FUSED)


def test_a_key_that_changes_with_the_text_is_not_final():
    assert all(keys_final(drawn(cls)) for cls in scheme_classes().values())
    assert not keys_final(Rereading(16).double())


@pytest.mark.parametrize("name", ["NoPosition", "Sinusoidal", "Rotary", "Alibi", "Learned", "SelectiveRotary"])
def test_nothing_is_kept_per_pair(name):
    assert kept_per_pair(build(scheme_classes()[name])) == 0


def test_what_is_kept_per_pair_does_not_depend_on_the_length():
    for name, least in {"T5Bias": 1, "Shaw": 2, "Fire": 10}.items():
        short, long = (kept_per_pair(build(scheme_classes()[name]), n) for n in (64, 128))
        assert short == pytest.approx(long, rel=0.3) and short >= least


def test_sides():
    found = {name: sides(drawn(cls)) for name, cls in scheme_classes().items()}
    assert {found[name] for name in ("Alibi", "Kerple", "Fire", "NoPosition")} == {"alike"}
    assert {found[name] for name in ("Cope", "PaTH", "MusicTransformer")} == {"before only"}
    assert {found[name] for name in ("Rotary", "T5Bias", "Shaw", "Sinusoidal")} == {"both"}


def test_a_row():
    row = practice("Learned")
    assert (row.place, row.last, row.shared, row.values) == ("input", 511, "per model", False)
    assert "0..511" in row.beyond and [model["model"] for model in row.models] == ["BERT", "GPT-2", "OPT"]
    assert practice("Shaw").values and practice("Alibi").shared == ""
    with pytest.raises(ValueError, match=r"scheme must be .*RoPE"):
        practice("RoPE")
