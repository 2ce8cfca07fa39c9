"""xPos: loops over the formula, two other implementations, its decay, its range, its group, refusals."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rotary_embedding_torch import RotaryEmbedding
from x_transformers.x_transformers import RotaryEmbedding as XRotaryEmbedding
from x_transformers.x_transformers import apply_rotary_pos_emb as x_apply

from loops import assert_refused, draw
from posenc_lib.attention import attend, scores
from posenc_lib.schemes.rope import Rotary, inverse_frequencies, layout_permutation
from posenc_lib.schemes.xpos import XPos, decay

each_layout = pytest.mark.parametrize("layout", ["interleaved", "half"])
TOLERANCE = {torch.float64: 1e-12, torch.bfloat16: 0.05}


def close(left, right, atol=1e-12):
    torch.testing.assert_close(left, right, rtol=0, atol=atol)


def moved(scheme, x, positions):
    """The vectors x as queries and as keys at these positions."""
    return scheme.at(positions, like=x).transform(x, x)


def close_by_pair(ours, expected, layout, near):
    """Each pair has a size of its own, and may be off by ``near`` times that."""
    error, size = (
        (x.unflatten(-1, (-1, 2)) if layout == "interleaved" else x.unflatten(-1, (2, -1)).mT).norm(dim=-1)
        for x in (ours - expected, expected)
    )
    assert (error <= near * size).all(), (error / size).max()


def by_hand(x, positions, sign, layout="interleaved", base=10_000.0, scale_base=512.0, center=0):
    """Rotation and scale of every pair, one number at a time."""
    d, rows = x.shape[-1], []
    for row, m in zip(x.tolist(), positions.tolist(), strict=True):
        moved = [0.0] * d
        for t in range(d // 2):
            first, second = (2 * t, 2 * t + 1) if layout == "interleaved" else (t, t + d // 2)
            c, s = math.cos(m * base ** (-2 * t / d)), math.sin(m * base ** (-2 * t / d))
            zeta = (t / (d / 2) + 0.4) / 1.4
            scale = zeta ** (sign * (m - center) / scale_base)
            moved[first] = (row[first] * c - row[second] * s) * scale
            moved[second] = (row[first] * s + row[second] * c) * scale
        rows.append(moved)
    return torch.tensor(rows, dtype=torch.float64)


POSITIONS = {
    "cache": (torch.arange(5, 7), torch.arange(7)),
    "scattered": (torch.tensor([3, -8, 400]), torch.tensor([0, 2, 410, 5, -9])),
}
OPTIONS = [{}, {"base": 300.0}, {"scale_base": 64.0}, {"center": 500}, {"center": -3, "scale_base": 100}]


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", POSITIONS)
@each_layout
def test_queries_keys_and_scores_are_those_of_the_formula(layout, name, options, dtype):
    i, j = POSITIONS[name]
    q, k = (draw(1, 2, len(n), 6, dtype=dtype) for n in (i, j))
    scheme, near = XPos(6, layout=layout, **options), TOLERANCE[dtype]
    by_hand_q = torch.stack([by_hand(x.double(), i, 1, layout, **options) for x in q[0]])[None]
    by_hand_k = torch.stack([by_hand(x.double(), j, -1, layout, **options) for x in k[0]])[None]
    for ours, expected in zip(scheme.at(i, j, like=q).transform(q, k), (by_hand_q, by_hand_k), strict=True):
        assert ours.dtype == dtype
        close_by_pair(ours.double(), expected, layout, near)
    expected = by_hand_q @ by_hand_k.mT / 6**0.5
    near *= expected.abs().max().item() + 1
    torch.testing.assert_close(scores(q, k, scheme, i, j).double(), expected, rtol=0, atol=near)


def test_positions_of_their_own_for_every_text():
    x, p = draw(2, 3, 4, 8), torch.tensor([[3, 100, 0, 3], [-7, 1, 2, 900]])
    q, k = moved(XPos(8, center=5), x, p)
    for b in range(2):
        for h in range(3):
            close(q[b, h], by_hand(x[b, h], p[b], 1, center=5))
            close(k[b, h], by_hand(x[b, h], p[b], -1, center=5))


def test_transform_is_the_rotation_that_queries_and_keys_share():
    x, p = draw(1, 2, 3, 8), torch.tensor([7, 1, 400])
    cos, sin, _ = XPos(8, 500.0).per_token(p)
    rope = Rotary(8, 500.0)
    assert torch.equal(XPos(8, 500.0).transform(x, (cos, sin)), rope.transform(x, rope.per_token(p)))


@pytest.mark.parametrize("head_dim, zeta_0, last", [(64, 0.2857, 0.9777), (4, 0.2857, 0.6429), (2, 0.2857, 0.2857)])
def test_decay_of_the_paper(head_dim, zeta_0, last):
    zeta = decay(head_dim)
    assert (zeta.dtype, zeta.shape) == (torch.float64, (head_dim // 2,))
    assert zeta[0].item() == pytest.approx(0.4 / 1.4, rel=1e-15)
    assert (round(zeta[0].item(), 4), round(zeta[-1].item(), 4)) == (zeta_0, last)
    assert (zeta.diff() > 0).all()
    assert decay(8, gamma=1.0).tolist() == [0.5, 0.625, 0.75, 0.875]


@pytest.mark.parametrize("length", [1, 2, 300])
@pytest.mark.parametrize("d, base", [(10, 500), (64, 10_000)])
def test_queries_and_keys_are_those_of_rotary_embedding_torch(length, d, base):
    """It counts from the middle of the text, and rounds its powers and angles to float32."""
    theirs = RotaryEmbedding(d, use_xpos=True, theta=base)
    q, k = draw(2, 1, 3, length, d, dtype=torch.float32).unbind()
    scheme, p = XPos(d, base, center=length // 2), torch.arange(length)
    expected_q, expected_k = theirs.rotate_queries_and_keys(q, k)
    close(moved(scheme, q, p)[0], expected_q, length * 2.0**-20)
    close(moved(scheme, k, p)[1], expected_k, length * 2.0**-20)


@pytest.mark.parametrize("positions", [list(range(13)), [1000, 7, 31, 5]], ids=str)
@pytest.mark.parametrize("d, scale_base", [(4, 512), (10, 512), (64, 100)])
def test_queries_and_keys_are_those_of_x_transformers(positions, d, scale_base):
    """It counts from half of the largest position; in float64 with float64 frequencies."""
    theirs = XRotaryEmbedding(d, use_xpos=True, scale_base=scale_base)
    theirs.inv_freq, theirs.scale = inverse_frequencies(d), theirs.scale.double()
    q, k, p = draw(1, 3, len(positions), d), draw(1, 3, len(positions), d), torch.tensor(positions)
    freqs, scale = theirs(p)
    scheme = XPos(d, scale_base=scale_base, center=(max(positions) + 1) // 2)
    close_by_pair(moved(scheme, q, p)[0], x_apply(q, freqs, scale), "interleaved", 1e-6)
    close_by_pair(moved(scheme, k, p)[1], x_apply(k, freqs, scale**-1), "interleaved", 1e-6)


@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1000, -1000, 4096]), st.integers(-2000, 2000))
def test_moving_the_text_or_the_center_changes_no_score(n_q, n_k, shift, center):
    q, k, i, j = draw(1, 2, n_q, 8), draw(1, 2, n_k, 8), torch.arange(n_q), torch.arange(n_k)
    s = scores(q, k, XPos(8), i, j)
    close(scores(q, k, XPos(8), i + shift, j + shift), s, 1e-10)
    close(scores(q, k, XPos(8, center=center), i, j), s, 1e-10)


def test_score_of_a_pair_falls_to_zeta_in_512_positions():
    """With one pair only, and both vectors alike but for the rotation, that is all that is left."""
    scheme, turn = XPos(2), Rotary(2)
    j = torch.tensor([100])
    k = draw(1, 1, 1, 2)
    for distance in (0, 1, 512, 1024):
        i = j + distance
        q = moved(turn, moved(turn, k, j)[0], -i)[0]  # undoes the rotation of place i
        score = scores(q, k, scheme, i, j) / scores(q, k, turn, i, j)
        assert score.item() == pytest.approx((0.4 / 1.4) ** (distance / 512), rel=1e-12)


def test_score_by_pair_is_that_of_rope_times_the_decay():
    q, k, i, j = draw(1, 1, 5, 8), draw(1, 1, 9, 8), torch.arange(40, 45), torch.arange(9)
    products = [
        (q_i[..., :, None, :] * k_j[..., None, :, :]).unflatten(-1, (-1, 2)).sum(-1)
        for q_i, k_j in (
            XPos(8).at(i, j, like=q).transform(q, k),
            Rotary(8).at(i, j, like=q).transform(q, k),
        )
    ]
    expected = decay(8) ** ((i[:, None] - j) / 512)[..., None].double()
    torch.testing.assert_close((products[0] / products[1])[0, 0], expected, rtol=1e-6, atol=0)
    assert (expected < 1).all()


def test_a_rotation_with_a_real_part_is_the_generator():
    """G(t) = exp(tA), A = theta_t [[0, -1], [1, 0]] - ln(zeta_t) / 512: the score is q^T G(j - i) k."""
    d = 8
    turn, one = torch.tensor([[0.0, -1.0], [1.0, 0.0]]).double(), torch.eye(2).double()
    pairs = zip(inverse_frequencies(d), decay(d), strict=True)
    A = torch.block_diag(*(theta * turn - zeta.log() / 512 * one for theta, zeta in pairs))
    q, k, i, j = draw(1, 1, 4, d), draw(1, 1, 6, d), torch.tensor([5, 9, 0, 30]), torch.arange(6)
    s = scores(q, k, XPos(d), i, j)[0, 0] * d**0.5
    for a in range(4):
        for b in range(6):
            relative = q[0, 0, a] @ torch.matrix_exp((j[b] - i[a]) * A) @ k[0, 0, b]
            inverse, there = torch.linalg.inv(torch.matrix_exp(i[a] * A)), torch.matrix_exp(j[b] * A)
            assert s[a, b].item() == pytest.approx(relative.item(), abs=1e-9)
            assert s[a, b].item() == pytest.approx((q[0, 0, a] @ inverse @ there @ k[0, 0, b]).item(), abs=1e-9)


@pytest.mark.parametrize("dtype, reach", [(torch.float32, 36_000), (torch.bfloat16, 36_000), (torch.float16, 4_000)])
def test_factors_leave_the_range_far_out_unless_centered(dtype, reach):
    q, k = torch.ones(2, 1, 1, 1, 64, dtype=dtype).unbind()
    exact = scores(q.double(), k.double(), XPos(64), torch.tensor([7]), torch.tensor([0])).item()
    near = {torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}[dtype]

    def score(i, center):
        return scores(q, k, XPos(64, center=center), torch.tensor([i]), torch.tensor([i - 7])).item()

    inside, outside = int(0.95 * reach), int(1.15 * reach)
    assert score(inside, 0) == pytest.approx(exact, rel=near)
    assert not math.isfinite(score(outside, 0))
    for i in (7, outside, 2 * inside):
        assert score(i, reach) == pytest.approx(exact, rel=near)


def test_outputs_under_a_causal_mask():
    p, (q, k, v) = torch.arange(9), draw(3, 1, 2, 9, 6)
    moved_q = torch.stack([by_hand(x, p, 1) for x in q[0]])
    moved_k = torch.stack([by_hand(x, p, -1) for x in k[0]])
    s = (moved_q @ moved_k.mT / 6**0.5).masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), -torch.inf)
    close(attend(q, k, v, XPos(6), causal=True)[0], s.softmax(-1) @ v[0])


def test_layouts_differ_by_a_permutation():
    x, p, order = draw(1, 2, 5, 8), torch.tensor([903, 4, 77, 0, -50]), layout_permutation(8)
    half, interleaved = XPos(8, layout="half"), XPos(8)
    for ours, other in zip(moved(interleaved, x, p), moved(half, x[..., order], p), strict=True):
        close(ours[..., order], other)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8], ids=str)
def test_any_integers_are_positions(dtype):
    x, p, scheme = draw(1, 1, 3, 8), torch.tensor([3, 100, 0]), XPos(8, center=50)
    for ours, other in zip(moved(scheme, x, p.to(dtype)), moved(scheme, x, p), strict=True):
        assert torch.equal(ours, other)


X, TOKEN = torch.zeros(1, 1, 3, 8), XPos(8).per_token(torch.arange(3))
REFUSED = [
    (lambda: decay(7), ValueError, ("head_dim", "7", "even")),
    (lambda: decay(0), ValueError, ("head_dim", "0")),
    (lambda: decay(8, 0.0), ValueError, ("gamma", "0.0")),
    (lambda: decay(8, "1"), TypeError, ("gamma", "'1'")),
    (lambda: XPos(9), ValueError, ("head_dim", "9")),
    (lambda: XPos(8, 0), ValueError, ("base", "got 0")),
    (lambda: XPos(8, layout="neox"), ValueError, ("layout", "'neox'")),
    (lambda: XPos(8, scale_base=0), ValueError, ("scale_base", "0")),
    (lambda: XPos(8, scale_base=None), TypeError, ("scale_base", "None")),
    (lambda: XPos(8, center=0.5), ValueError, ("center", "0.5")),
    (lambda: XPos(8, center="0"), TypeError, ("center", "'0'")),
    *(
        refusal
        for hook in (XPos(8).transform_query, XPos(8).transform_key)
        for refusal in (
            (lambda hook=hook: hook(X[0], TOKEN), ValueError, ("x must", "(1, 3, 8)")),
            (lambda hook=hook: hook(X[..., :6], TOKEN), ValueError, ("x must", "8", "got 6")),
            (lambda hook=hook: hook(X.long(), TOKEN), TypeError, ("x must", "int64")),
        )
    ),
]


@pytest.mark.parametrize("call, error, words", REFUSED)
def test_refusals_name_argument_and_value(call, error, words):
    assert_refused(call, error, words)
