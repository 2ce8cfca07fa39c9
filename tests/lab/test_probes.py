"""The probes find what the mathematics says, for every scheme; and each notices a scheme that is wrong in one place."""

import math
import re
import sys
from pathlib import Path

import nbformat
import pytest
import torch

from posenc_lib import schemes
from posenc_lib.lab import probes
from posenc_lib.lab.catalog import scheme_classes
from posenc_lib.lab.probes import (
    FARTHEST,
    PROBES,
    REQUIREMENTS,
    Verdict,
    any_length,
    attention_by_distance,
    bounded,
    distance_read_off,
    drawn,
    keeps_norms,
    longest,
    nothing_at_zero,
    places,
    probe,
    requirements,
    same_in_every_text,
    score_of,
    shift_invariant,
    source,
    summable,
    symmetric,
    told_apart,
)
from posenc_lib.scheme import PositionScheme

CLASSES = scheme_classes()
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
F, TUNED, ROWS = "formula", "formula, tuned", "learned rows"
Y, N = True, False

# place, source, relative, symmetric, bounded, bounded ahead, summable, keeps norms, nothing at 0, parameters;
# D = 64, H = 4, d = 16, K = k = 32
EXPECTED = {
    "NoPosition": ("nowhere", F, Y, Y, Y, Y, N, Y, Y, 0),
    "Sinusoidal": ("input", F, N, N, Y, Y, N, N, N, 0),
    "Learned": ("input", ROWS, N, N, Y, Y, N, N, N, 512 * 64),
    "Shaw": ("score, value", ROWS, Y, N, Y, Y, N, Y, N, 2 * 65 * 16),
    "MusicTransformer": ("score", ROWS, Y, N, Y, Y, N, Y, N, 512 * 16),
    "TransformerXL": ("score", TUNED, Y, N, Y, Y, N, Y, N, 2 * 64 + 64 * 64),
    "XLNet": ("score", TUNED, Y, N, Y, Y, N, Y, N, 3 * 64 + 2 * 64 + 64 * 64),
    "Nezha": ("score, value", F, Y, N, Y, Y, N, Y, N, 0),
    "Tener": ("score", TUNED, Y, N, Y, Y, N, Y, N, 2 * 64),
    "Huang": ("score", ROWS, Y, N, Y, Y, N, Y, N, 1023 * 16),
    "Deberta": ("score", ROWS, Y, N, Y, Y, N, Y, N, 3 * 64 * 64 + 64),
    "T5Bias": ("score", ROWS, Y, N, Y, Y, N, Y, N, 32 * 4),
    "Alibi": ("score", F, Y, Y, N, N, Y, Y, Y, 0),
    "Cope": ("score", ROWS, Y, N, Y, Y, N, Y, N, 65 * 16),
    "Kerple": ("score", TUNED, Y, Y, N, N, N, Y, Y, 2 * 4),
    "Fire": ("score", TUNED, N, Y, Y, N, N, Y, N, 2 * 32 + 33 * 4 + 2),
    "Rotary": ("query and key", F, Y, N, Y, Y, N, Y, Y, 0),
    "DecoupledRotary": ("query and key", F, Y, N, Y, Y, N, Y, Y, 0),
    "XPos": ("query and key", F, Y, N, Y, N, N, N, Y, 0),
    "Fox": ("score", TUNED, Y, N, N, N, Y, Y, Y, 64 * 4 + 4),
    "SelectiveRotary": ("query and key", TUNED, Y, N, Y, Y, N, Y, Y, (64 + 1) * 4 * 8),
    "PaTH": ("score", TUNED, Y, N, Y, Y, N, Y, Y, 64 * 64 + 64 * 4 + 4),
    "LearnedProfile": ("score", ROWS, Y, N, Y, Y, N, Y, N, 16 * (64 * 4 + 1024)),
    "MRope": ("query and key", F, Y, N, Y, Y, N, Y, Y, 0),
    "AxialRotary": ("query and key", F, Y, N, Y, Y, N, Y, Y, 0),
    "QueryTemperature": ("query and key", F, N, Y, N, N, N, N, Y, 0),
}

# same in every text, bounded, told apart, any length, distance
REQUIRED = {
    "NoPosition": (Y, Y, N, Y, N),
    "Sinusoidal": (Y, Y, Y, Y, N),
    "Learned": (Y, Y, Y, N, N),
    "Shaw": (Y, Y, N, Y, Y),
    "MusicTransformer": (Y, Y, Y, N, Y),
    "TransformerXL": (Y, Y, Y, Y, Y),
    "XLNet": (Y, Y, Y, Y, Y),
    "Nezha": (Y, Y, N, Y, Y),
    "Tener": (Y, Y, Y, Y, Y),
    "Huang": (Y, Y, Y, N, Y),
    "Deberta": (Y, Y, N, Y, Y),
    "T5Bias": (Y, Y, N, Y, Y),
    "Alibi": (Y, N, Y, Y, Y),
    "Cope": (N, Y, N, Y, N),
    "Kerple": (Y, N, Y, Y, Y),
    "Fire": (Y, Y, Y, Y, N),
    "Rotary": (Y, Y, Y, Y, Y),
    "DecoupledRotary": (Y, Y, Y, Y, Y),
    "XPos": (Y, Y, Y, N, Y),
    "Fox": (N, N, Y, Y, N),
    "SelectiveRotary": (N, Y, Y, Y, N),
    "PaTH": (N, Y, N, Y, N),
    "LearnedProfile": (Y, Y, N, Y, Y),
    "MRope": (Y, Y, Y, Y, Y),
    "AxialRotary": (Y, Y, Y, Y, Y),
    "QueryTemperature": (Y, N, N, Y, N),
}


def plain(found):
    """Answers without their evidence."""
    return {name: bool(answer) if isinstance(answer, Verdict) else answer for name, answer in found.items()}


@pytest.mark.parametrize("name", EXPECTED)
def test_probes_agree_with_the_mathematics(name):
    assert plain(probe(CLASSES[name])) == dict(zip(PROBES, EXPECTED[name], strict=True))


@pytest.mark.parametrize("name", REQUIRED)
def test_requirements_agree_with_the_mathematics(name):
    found = requirements([CLASSES[name]])
    assert list(found) == [CLASSES[name].name]
    assert plain(found[CLASSES[name].name]) == dict(zip(REQUIREMENTS, REQUIRED[name], strict=True))


@pytest.mark.parametrize("name", CLASSES)
def test_every_scheme_is_judged_with_evidence_in_one_line(name):
    """Found, not listed; what is bounded is not summable, whoever it is."""
    found = probe(CLASSES[name]) | requirements([CLASSES[name]])[CLASSES[name].name]
    for answer in found.values():
        if isinstance(answer, Verdict):
            assert answer.domain and bool(answer.counter_example) != answer.holds
            assert re.fullmatch(r"(yes: |no: [\w ]+ = ).+", str(answer)), str(answer)
    assert not (found["bounded"] and found["summable"])


@pytest.mark.parametrize("name", EXPECTED)
def test_schemes_declare_all_that_the_probes_find(name):
    """The contract asks less of every scheme: that what it promises is true."""
    scheme = drawn(CLASSES[name])
    assert set(places(scheme)) == set(scheme.places)
    assert bool(shift_invariant(scheme)) == scheme.relative


def test_every_probe_tells_some_schemes_apart():
    for table in (EXPECTED, REQUIRED):
        for column in zip(*table.values(), strict=True):
            assert len(set(column)) > 1


def test_a_verdict_is_true_or_false_and_has_its_evidence():
    yes, no = Verdict(True, "12 places"), Verdict(False, "12 places", {"head": 1, "score": 0.25, "becomes": 1e9})
    assert yes and not no
    assert str(yes) == "yes: 12 places"
    assert str(no) == "no: head = 1, score = 0.2500, becomes = 1.00e+09"
    for holds, evidence in ((True, {"i": 1}), (False, {})):
        with pytest.raises(ValueError, match="counter_example must be given exactly with a no, got"):
            Verdict(holds, "12 places", evidence)


class At(PositionScheme):
    """Adds ``much(i, j)`` to the scores of one head; ``refuse(place)`` says which places it does not take."""

    places = ("score",)

    def __init__(self, much, head=2, refuse=lambda place: False):
        super().__init__()
        self.much, self.head, self.refuse = much, head, refuse

    def per_pair(self, query_positions, key_positions):
        for place in (*query_positions.tolist(), *key_positions.tolist()):
            if self.refuse(place):
                raise ValueError(f"no place {place}")
        return self.much(query_positions[:, None].double(), key_positions.double())

    def score_bias(self, q, k, pair):
        heads = (torch.arange(4) == self.head)[:, None, None] if self.head is not None else torch.ones(4, 1, 1)
        return torch.where(heads.bool(), pair, torch.zeros_like(pair))


def one_pair(i, j, much=1e-3):
    return lambda a, b: much * ((a == i) & (b == j))


def evidence(verdict, *names):
    assert not verdict
    return tuple(verdict.counter_example[name] for name in names)


@pytest.mark.parametrize(("i", "j", "moved"), [(7, 5, 1), (4 + 4096, 9 + 4096, 4096)])
def test_absolute_at_one_pair(i, j, moved):
    verdict = shift_invariant(At(one_pair(i, j)))
    assert evidence(verdict, "head", "moved by") == (2, moved)
    assert verdict.counter_example["i"] - verdict.counter_example["j"] == i - j
    score, becomes = evidence(verdict, "score", "becomes")
    assert becomes - score == pytest.approx(1e-3)


@pytest.mark.parametrize("much", [1e-3, -1e-3, 1e3])
def test_asymmetric_at_one_pair(much):
    """Also where it would vanish in a mean or beside larger scores."""
    assert evidence(symmetric(At(one_pair(24, 30, much))), "head", "i", "j") == (2, 24, 18)
    assert evidence(symmetric(At(lambda i, j: much * (j - i == 7), head=3)), "head", "i", "j") == (3, 7, 0)
    assert symmetric(At(lambda i, j: much * ((j - i).abs() == 7)))
    assert symmetric(At(one_pair(24, 60, much)))  # the place to the other side of 24 is before the text


class OneWord(At):
    """Adds to the score of one pair a number of the word at one place."""

    def read(self, x, pair):
        return pair * (x[0, 5, 0] if x.shape[1] > 5 else 0)


def test_one_word_of_the_text_counts_for_one_pair():
    verdict = same_in_every_text(OneWord(one_pair(9, 2)))
    assert evidence(verdict, "other word at", "head", "i", "j") == (5, 2, 9, 2)
    assert same_in_every_text(OneWord(one_pair(9, 5)))  # it is one of the two


def test_length_of_the_text_counts_for_one_pair():
    class Long(At):
        def read(self, x, pair):
            return pair * (x.shape[1] > 12)

    assert evidence(same_in_every_text(Long(one_pair(9, 2))), "tokens", "i", "j") == (24, 9, 2)


def test_two_distances_alike():
    def penalty(i, j):
        back = i - j
        return -0.01 * torch.where(back == 1700, 1500.0, back)

    assert evidence(told_apart(At(penalty, head=None)), "places back", "and") == (1500, 1700)
    assert told_apart(At(lambda i, j: -0.01 * (i - j), head=3))  # one head is enough
    far = At(lambda i, j: -0.01 * (i - j).clamp(max=2**20), head=0)
    assert evidence(told_apart(far), "places back", "and") == (2**20, 2**21)


def test_last_place_and_holes():
    table = At(one_pair(0, 0), refuse=lambda place: place > 777)
    assert longest(table) == 777
    last, said = evidence(any_length(table), "last place", "beyond")
    assert (last, said) == (777, "no place 778")
    assert longest(At(one_pair(0, 0))) == FARTHEST
    with pytest.raises(ValueError, match="no place 1000"):
        any_length(At(one_pair(0, 0), refuse=lambda place: place == 1000))
    overflow = At(lambda i, j: torch.where((i - j).abs() > 5e5, torch.inf, 0.0))
    assert longest(overflow) == 100_000
    assert "score is inf at" in str(any_length(overflow))


@pytest.mark.parametrize("side", [-1, 1])
def test_unbounded_in_one_head_on_one_side(side):
    def grows(i, j):
        return 0.1 * torch.log1p(((j - i) * side).clamp(min=0))

    scheme = At(grows)
    assert bounded(scheme, -side)
    short, long = evidence(bounded(scheme, side), "change up to place 100000", "up to 100000000")
    assert (short, long) == pytest.approx((0.1 * math.log(10**5 + 1), 0.1 * math.log(10**8 + 1)))
    assert bounded(At(lambda i, j: grows(i, j).cos()), side)


def test_unbounded_where_the_query_stands():
    assert not bounded(At(lambda i, j: torch.log1p(i) + 0 * j))
    assert bounded(At(lambda i, j: torch.sin(j) + 0 * i))
    assert bounded(At(lambda i, j: torch.log1p(i) + 0 * j, refuse=lambda place: place > 777))  # there is no more


def power(exponents):
    """Weights 1 / (1 + r)**a with an exponent for each head."""

    class Power(PositionScheme):
        places = ("score",)

        def score_bias(self, q, k, pair):
            return -torch.tensor(exponents)[:, None, None] * torch.log1p(pair.abs().double())

    return Power()


def test_unbounded_is_not_summable():
    for exponents in ((2.0, 2.0, 2.0, 1.0), (0.5,) * 4):
        assert not bounded(power(exponents))
        assert not summable(power(exponents))
    assert summable(power((2.0,) * 4))
    head, near, far = summable(power((2.0, 2.0, 2.0, 1.0))).counter_example.values()
    assert head == 3
    assert far / near == pytest.approx(1, abs=0.01)


def test_a_sum_that_starts_to_grow_late_is_seen():
    late = At(lambda i, j: torch.where(i - j < 2048, -0.1 * (i - j), -200.0), head=None)
    assert list(summable(late).counter_example) == ["head", "2048 to 4095 back", "4096 to 8191 back"]


class Scaled(PositionScheme):
    """Makes the word, the query or the key of one head a little longer at one place."""

    def __init__(self, what):
        super().__init__()
        self.what = what

    def longer(self, x, positions):
        here = (positions == 17)[:, None]
        if x.dim() == 4:
            here = here & (torch.arange(4) == 1)[:, None, None]
        return x * (1 + 1e-6 * here.double())

    def embed(self, x, positions):
        return self.longer(x, positions) if self.what == "word" else x

    def transform_query(self, q, token):
        return self.longer(q, token) if self.what == "query" else q

    def transform_key(self, k, token):
        return self.longer(k, token) if self.what == "key" else k


@pytest.mark.parametrize("what", ["word", "query", "key"])
def test_one_norm_is_not_kept(what):
    found = keeps_norms(Scaled(what)).counter_example
    assert found["place"] == 17 and found.get("head", 1) == 1
    assert found["becomes"] / found[f"length of {what}"] == pytest.approx(1 + 1e-6, rel=1e-9)


def test_one_head_has_something_at_zero():
    assert evidence(nothing_at_zero(At(one_pair(0, 0))), "head", "i", "j") == (2, 0, 0)
    assert nothing_at_zero(At(one_pair(0, 1)))


def test_another_scale_is_no_position():
    class Unscaled(PositionScheme):
        def scale(self, head_dim):
            return 1.0

    assert nothing_at_zero(Unscaled()) and bounded(Unscaled())


def test_distance_read_off_wants_a_distance_and_nothing_else():
    assert distance_read_off(At(lambda i, j: 1e-3 * (i - j == 3)))
    assert "score at every distance" in distance_read_off(At(one_pair(-1, -1))).counter_example
    assert "moved by" in distance_read_off(At(one_pair(7, 5))).counter_example
    assert "other word at" in distance_read_off(OneWord(lambda i, j: 1.0 * (j - i == -3))).counter_example


class Tuned(PositionScheme):
    """One learned number, which matters where ``where`` says."""

    places = ("score",)

    def __init__(self, where):
        super().__init__()
        self.number, self.where = torch.nn.Parameter(torch.ones(1)), where

    def score_bias(self, q, k, pair):
        return (self.number * self.where(-pair))[None]


def test_a_row_is_a_parameter_between_two_distances():
    assert source(Tuned(lambda back: back == 5)) == ROWS
    for where in (lambda back: back >= 5, lambda back: back <= 5, lambda back: back > -99):
        assert source(Tuned(where)) == TUNED


class Shifted(PositionScheme):
    """Declares every place and uses one, and breaks its promise to be relative."""

    relative = True

    def transform(self, x, token):
        return x + 0.1 * token[..., None]


def test_a_promise_that_is_broken_and_a_place_that_is_not_used_are_seen():
    assert not shift_invariant(Shifted())
    assert places(Shifted()) == ["query and key"]


NAN = At(lambda i, j: torch.full_like(i - j, torch.nan))


@pytest.mark.parametrize("ask", {**PROBES, **REQUIREMENTS, "longest": longest}.items(), ids=lambda item: item[0])
def test_no_number_is_an_error(ask):
    name, question = ask
    if name in ("parameters", "source"):
        pytest.skip("asks for no score")
    with pytest.raises(FloatingPointError, match=r"At: score is nan at .*head = 2, i = 0, j = 0"):
        question(NAN)


@pytest.mark.parametrize("ask", [shift_invariant, symmetric, same_in_every_text])
@pytest.mark.parametrize("much", [torch.nan, torch.inf])
def test_no_number_at_one_pair_is_an_error_that_names_it(ask, much):
    wrong = At(lambda i, j: torch.where((i == 3) & (j == 1), much, 0.0))
    with pytest.raises(FloatingPointError, match=rf"At: score is {much} at .*head = 2, i = 3, j = 1"):
        ask(wrong)


def test_no_number_in_a_query_is_an_error():
    class Broken(PositionScheme):
        def transform_query(self, q, token):
            return torch.where(token[:, None] == 4, torch.nan, q)

    with pytest.raises(FloatingPointError, match="Broken: length of a query is nan at head = 0, place = 4"):
        keeps_norms(Broken())


def test_xpos_is_asked_within_its_range():
    """Its two factors leave float64 before their product does; asked further, there is no number and no verdict."""
    scheme = drawn(CLASSES["XPos"])
    last, error = evidence(any_length(scheme), "last place", "beyond")
    assert last == 100_000 and "xPos: score is" in error
    x, p = torch.ones(2, 64).double(), torch.tensor([0, 10**6])
    with pytest.raises(FloatingPointError, match="xPos"):
        score_of(scheme, x, x, p, p)
    assert bounded(scheme) and not bounded(scheme, side=1)


def test_fire_is_relative_up_to_its_own_threshold():
    scheme = drawn(CLASSES["Fire"])
    moved, i = evidence(shift_invariant(scheme), "moved by", "i")
    assert moved + i <= 2 * scheme.threshold and moved + 11 > scheme.threshold > 300
    scheme.log_threshold += 100
    assert shift_invariant(scheme)


def test_drawn_parameters_are_random_and_repeatable():
    one, again, other = (drawn(CLASSES["T5Bias"], seed) for seed in (0, 0, 1))
    assert torch.equal(one.weight, again.weight)
    assert not torch.equal(one.weight, other.weight)
    assert drawn(CLASSES["Cope"]).table.unique().numel() == 65 * 16  # the constructor makes zeros


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
        monkeypatch.setattr(probes, "scheme_classes", lambda: {name: found[name] for name in ("Alibi", "Steeper")})
        assert list(requirements()) == ["ALiBi", "Steeper"]
    finally:
        sys.modules.pop("posenc_lib.schemes.steeper", None)


def test_no_probe_knows_a_scheme_by_its_name():
    source_code = Path(probes.__file__).read_text()
    assert [name for name in EXPECTED if name in source_code] == ["NoPosition"]


def test_notebook_07_sorts_the_schemes_as_the_probes_do():
    """By its committed map: formula above, learned rows below; tokens left, pairs right."""
    by_name = {cls.name: name for name, cls in CLASSES.items()}
    cells = nbformat.read(NOTEBOOKS / "07_nezha.ipynb", 4).cells
    said = "".join(o.get("data", {}).get("text/plain", "") for c in cells[-3:] for o in c.get("outputs", []))
    on_map = [(x, y, by_name[n]) for x, y, n in re.findall(r"text at (\S+) (\S+): (.+)", said) if n in by_name]
    assert len(on_map) == 12
    for x, y, name in on_map:
        place, made_of = EXPECTED[name][:2]
        assert (float(y) > 0) == (made_of != ROWS), name
        assert (float(x) < 0) == (place in ("input", "query and key")), name


def test_notebook_00_says_of_its_requirements_what_the_probes_find():
    """RoPE has all five, ALiBi is not bounded, T5 cannot tell far distances apart, ..."""
    assert all(REQUIRED["Rotary"])
    named = {"bounded": ["Alibi"], "told apart": ["T5Bias"], "any length": ["Learned"]}
    named["distance"] = ["Sinusoidal", "Learned"]
    for requirement, missing in named.items():
        column = list(REQUIREMENTS).index(requirement)
        assert not any(REQUIRED[name][column] for name in missing)
