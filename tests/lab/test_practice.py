"""The practitioner's table: what it says of kernels, caches, memory and sides is what attention does."""

import pytest
import torch
import torch.nn.functional as F

from posenc_lib.attention import attend
from posenc_lib.lab.catalog import build, scheme_classes
from posenc_lib.lab.measure import randn
from posenc_lib.lab.practice import FUSED, deciding, further, kept_per_pair, kernel, keys_final, practice, sides
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


def test_tables_have_an_entry_for_each_column_and_say_what_the_rows_say():
    rows = {name: practice(name) for name in ("T5Bias", "Alibi", "Learned", "Rotary")}
    for heads, found in (deciding(rows), further(rows)):
        assert [row[0] for row in found] == ["T5", "ALiBi", "learned", "RoPE"]
        assert {len(row) for row in found} == {len(heads)}
    by_head = [dict(zip(deciding(rows)[0], row, strict=True)) for row in deciding(rows)[1]]
    assert [(row["Flash"], row["Flex"], row["SDPA"]) for row in by_head[:2]] == [
        ("no", "yes", "yes"),
        ("slopes", "yes", "yes"),
    ]
    assert [row["per pair"] for row in by_head] == ["1.0", "0.0", "0.0", "0.0"]
    assert by_head[0]["ships in"] == "T5 2019-10" and by_head[2]["ships in"] == "BERT 2018-10, 3 in all"
    more = [dict(zip(further(rows)[0], row, strict=True)) for row in further(rows)[1]]
    assert [row["last place"] for row in more] == ["any", "any", "511", "any"]
    assert more[0]["parameters"] == "128" and more[1]["one set"] == "-" and more[2]["one set"] == "per model"
    assert "0..511" in more[2]["what it says of a later one"]
