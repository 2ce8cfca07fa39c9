"""Positions with more than one coordinate: identities, four implementations by others, precision, refusals."""

import math
from itertools import pairwise
from types import MethodType, SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb
from transformers.models.perceiver.modeling_perceiver import generate_fourier_features
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen
from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLTextConfig, Qwen2VLVisionConfig
from transformers.models.sam.configuration_sam import SamVisionConfig
from transformers.models.sam.modeling_sam import SamPositionalEmbedding

from loops import assert_refused
from posenc_lib.exercises.grid import check_joint_positions
from posenc_lib.schemes.grid import axial_angles, fourier_features, grid_coordinates, rotate_by, section_angles
from posenc_lib.schemes.rope import LAYOUTS, inverse_frequencies, rotate, rotation_matrix

each_layout = pytest.mark.parametrize("layout", LAYOUTS)
each_grid = pytest.mark.parametrize("height, width", [(1, 1), (1, 7), (5, 3), (7, 9)])
each_precision = pytest.mark.parametrize("dtype, near", [(torch.float64, 1e-12), (torch.float32, 2e-6)], ids=str)
layouts = st.sampled_from(LAYOUTS)
reals = st.floats(-50, 50)


def close(left, right, atol=1e-12):
    torch.testing.assert_close(left.double(), right.double(), rtol=0, atol=atol)


def random(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=torch.float64).to(dtype)


@each_grid
def test_grid_is_read_row_by_row(height, width):
    coordinates = grid_coordinates(height, width)
    assert coordinates.dtype == torch.int64
    assert coordinates.tolist() == [[p // width, p % width] for p in range(height * width)]


@given(st.lists(st.lists(reals, min_size=3, max_size=3), min_size=1, max_size=4), layouts)
def test_rotate_by_turns_every_pair_by_its_angle(rows, layout):
    angles = torch.tensor(rows, dtype=torch.float64)
    x = random(2, len(rows), 6)
    pairs = x.unflatten(-1, (3, 2)) if layout == "interleaved" else x.unflatten(-1, (2, 3)).mT
    turned = torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angles), angles)
    parts = torch.view_as_real(turned)
    close(rotate_by(x, angles, layout), parts.flatten(-2) if layout == "interleaved" else parts.mT.flatten(-2), 1e-13)


@each_layout
@each_precision
@pytest.mark.parametrize("shape", [(5, 8), (2, 5, 8), (2, 3, 5, 8)], ids=str)
def test_rotate_by_is_rotate_where_the_angles_are_those_of_positions(layout, dtype, near, shape, device):
    x, p, f = random(*shape, dtype=dtype), torch.tensor([0, 3, -7, 100, 2]), inverse_frequencies(8)
    y = rotate_by(x.to(device), p[:, None] * f, layout)
    assert (y.dtype, y.device.type, y.shape) == (dtype, device.type, x.shape)
    close(y.cpu(), rotate(x, p, f, layout), near)
    close(section_angles(p[:, None], f, [4]), p[:, None] * f, 0)
    close(axial_angles(p[:, None], 8, 77.0), p[:, None] * inverse_frequencies(8, 77.0), 0)


@each_layout
def test_memory_layout_does_not_matter_and_the_input_stays(layout):
    angles, base = random(3, 2), random(2, 4, 3, 8)
    for x in (base[..., :4], base[..., ::2], base.transpose(0, 1)[..., 1:5]):
        original = x.clone()
        y = rotate_by(x, angles, layout)
        assert torch.equal(y, rotate_by(x.contiguous(), angles, layout))
        assert torch.equal(x, original)
        assert y.data_ptr() != x.data_ptr()


@each_layout
@pytest.mark.parametrize("shape", [(1, 2, 0, 8), (0, 2, 3, 8), (0, 8)], ids=str)
def test_nothing_to_rotate(layout, shape):
    assert rotate_by(torch.zeros(shape), torch.zeros(shape[-2], 4), layout).shape == shape


@each_layout
def test_gradients(layout):
    x, angles = random(2, 3, 4).requires_grad_(), random(3, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, a: rotate_by(x, a, layout), (x, angles))
    v, B = random(3, 2).requires_grad_(), random(4, 2).requires_grad_()
    assert torch.autograd.gradcheck(fourier_features, (v, B))


@each_layout
@each_grid
@pytest.mark.parametrize("shift", [(5, 0), (0, -3), (400, 250)], ids=str)
def test_axial_scores_do_not_change_when_the_grid_moves_along_an_axis(layout, height, width, shift):
    v = grid_coordinates(height, width)
    q, k = random(2, 3, height * width, 16)

    def scores(v):
        angles = axial_angles(v, 16)
        return rotate_by(q, angles, layout) @ rotate_by(k, angles, layout).mT

    close(scores(v), scores(v + torch.tensor(shift)), 1e-10)


@given(reals, reals, reals, reals, layouts)
def test_axial_score_is_a_score_of_rows_plus_a_score_of_columns(a, b, c, d, layout):
    q, k = random(2, 1, 8)
    v, w = torch.tensor([[a, b]], dtype=torch.float64), torch.tensor([[c, d]], dtype=torch.float64)
    score = (rotate_by(q, axial_angles(v, 8, 50.0), layout) * rotate_by(k, axial_angles(w, 8, 50.0), layout)).sum()
    if layout == "half":  # pairs 0, 1 of the rows are the components 0, 1, 4, 5
        q, k = (x.unflatten(-1, (2, 4)).mT.flatten(-2) for x in (q, k))
    f = inverse_frequencies(4, 50.0)
    offset = (w - v)[0]
    parts = [q[0, 4 * n : 4 * n + 4] @ rotation_matrix(offset[n].item(), f) @ k[0, 4 * n : 4 * n + 4] for n in (0, 1)]
    close(score, sum(parts), 1e-10)


def test_axial_score_depends_on_the_pair_of_offsets_and_a_flat_one_does_not():
    """Equal offsets give equal scores anywhere on a grid, and other offsets other scores; on a line rows run on."""
    height, width = 5, 7
    v = grid_coordinates(height, width)
    q, k = (random(1, 16).expand(height * width, 16) for _ in range(2))
    angles, p, f = axial_angles(v, 16), torch.arange(height * width), inverse_frequencies(16)
    s, s_flat = rotate_by(q, angles) @ rotate_by(k, angles).T, rotate(q, p, f) @ rotate(k, p, f).T
    by_offset = {}
    for i, j in torch.cartesian_prod(*(torch.arange(len(v)),) * 2).tolist():
        by_offset.setdefault(tuple((v[j] - v[i]).tolist()), []).append(s[i, j].item())
    assert max(max(found) - min(found) for found in by_offset.values()) < 1e-12
    means = sorted(found[0] for found in by_offset.values())
    assert len(by_offset) == (2 * height - 1) * (2 * width - 1)
    assert min(b - a for a, b in pairwise(means)) > 1e-6
    assert s_flat[width - 1, width].item() == pytest.approx(s_flat[0, 1].item(), abs=1e-12)  # end of a row, next row
    assert abs(s[width - 1, width] - s[0, 1]) > 1e-2


@given(st.permutations([8, 6, 2]), st.lists(st.integers(0, 3000), min_size=1, max_size=6), layouts)
def test_equal_coordinates_give_plain_rope_whatever_the_sections(sections, positions, layout):
    p, f, x = torch.tensor(positions), inverse_frequencies(32, 1e6), random(2, len(positions), 32)
    angles = section_angles(p[:, None].expand(-1, 3), f, sections)
    close(rotate_by(x, angles, layout), rotate(x, p, f, layout), 1e-13)


def test_pinned_angles():
    expected = torch.tensor([[2.0, 0.2, 5.0, 0.5]], dtype=torch.float64)
    close(axial_angles(torch.tensor([[2, 5]]), 8, 100.0), expected, 1e-14)
    expected = torch.tensor([[0.5, 0.05, -1, -0.1, 3, 0.3]], dtype=torch.float64)
    close(axial_angles(torch.tensor([[0.5, -1.0, 3.0]]), 12, 100.0), expected, 1e-14)
    f = torch.tensor([1.0, 0.5, 0.25, 0.125])
    close(section_angles(torch.tensor([[8, 16, 24]]), f, (1, 2, 1)), torch.tensor([[8.0, 8.0, 4.0, 3.0]]), 0)
    close(section_angles(torch.tensor([[8, 16, 24]]), f, (0, 0, 4)), 24 * f[None], 0)
    close(
        fourier_features(torch.tensor([[0.25, 0.5]], dtype=torch.float64), torch.tensor([[1.0, 0.0], [1.0, 0.5]])),
        torch.tensor([[0.0, -1.0, 1.0, 0.0]]),
    )


@each_grid
@pytest.mark.parametrize("head_dim", [8, 64])
def test_axial_is_that_of_rotary_embedding_torch(height, width, head_dim):
    theirs, x = RotaryEmbedding(head_dim // 2, theta=500, cache_if_possible=False), random(2, height * width, head_dim)
    theirs.freqs.data = 500.0 ** (-torch.arange(0, head_dim // 2, 2).double() / (head_dim // 2))
    expected = apply_rotary_emb(theirs.get_axial_freqs(height, width), x.unflatten(1, (height, width)))
    ours = rotate_by(x, axial_angles(grid_coordinates(height, width), head_dim, 500))
    close(ours, expected.flatten(1, 2), 1e-12)


def test_axial_with_three_axes_is_that_of_rotary_embedding_torch():
    theirs, x = RotaryEmbedding(4), random(3 * 2 * 5, 12)
    expected = apply_rotary_emb(theirs.get_axial_freqs(3, 2, 5).double(), x.unflatten(0, (3, 2, 5)))
    v = torch.cartesian_prod(torch.arange(3), torch.arange(2), torch.arange(5))
    close(rotate_by(x, axial_angles(v, 12)), expected.flatten(0, 2), 2e-6)


@each_grid
def test_axial_is_that_of_the_image_encoder_of_qwen2_vl(height, width):
    config = Qwen2VLVisionConfig(embed_dim=96, num_heads=3)
    theirs, v = qwen.Qwen2VLVisionRotaryEmbedding(config), grid_coordinates(height, width)
    q, k = random(2, height * width, 3, 32, dtype=torch.float32)  # their shape: tokens, heads, d
    cos, sin = theirs(q, v)
    angles = axial_angles(v, 32, config.rope_parameters["rope_theta"])
    for x, expected in zip((q, k), qwen.apply_rotary_pos_emb_vision(q, k, cos, sin), strict=True):
        close(rotate_by(x.transpose(0, 1), angles, "half").transpose(0, 1), expected, 1e-5)


@pytest.mark.parametrize("sections", [[16, 24, 24], [8, 40, 16]], ids=str)
def test_sections_are_those_of_qwen2_vl(sections):
    config = Qwen2VLTextConfig(
        hidden_size=256,
        num_attention_heads=2,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6, "mrope_section": sections},
    )
    theirs = qwen.Qwen2VLRotaryEmbedding(config)
    v = torch.tensor([[0, 0, 0], [1, 1, 1], [2, 2, 2], [2, 2, 3], [2, 3, 2], [2, 3, 3], [9, 4, 4], [30, 70, 110]])
    q, k = random(2, 1, 2, len(v), 128, dtype=torch.float32)
    cos, sin = theirs(q, v.T[:, None])
    angles = section_angles(v, inverse_frequencies(128, 1e6), sections)
    for x, expected in zip((q, k), qwen.apply_rotary_pos_emb(q, k, cos, sin), strict=True):
        close(rotate_by(x, angles, "half"), expected, 110 * 2.0**-22 * 5)
    other = section_angles(v, inverse_frequencies(128, 1e6), sections[::-1])
    assert (rotate_by(q, other, "half") - qwen.apply_rotary_pos_emb(q, k, cos, sin)[0]).abs().max() > 0.1


@pytest.mark.parametrize("sizes", [(4, 3, 5, 3), (2, 6, 2, 4), (0, 3, 3, 1), (5, 24, 32, 7)], ids=str)
def test_coordinates_of_words_and_a_picture_are_those_of_qwen2_vl(sizes):
    """The reference of notebook 16's third exercise; theirs merges 2 x 2 patches of the image encoder into one."""
    before, height, width, after = sizes
    model = SimpleNamespace(config=SimpleNamespace(vision_config=SimpleNamespace(spatial_merge_size=2)))
    model.get_vision_position_ids = MethodType(qwen.Qwen2VLModel.get_vision_position_ids, model)
    kinds = torch.tensor([[0] * before + [1] * (height * width) + [0] * after])
    merged = torch.tensor([[1, 2 * height, 2 * width]])
    theirs, _ = qwen.Qwen2VLModel.get_rope_index(model, torch.ones_like(kinds), kinds, image_grid_thw=merged)
    assert torch.equal(check_joint_positions.reference(*sizes), theirs[:, 0].T)


@given(st.integers(1, 3), st.integers(1, 9), reals)
def test_kernel_of_fourier_features_depends_on_the_difference_only(n, m, shift):
    v, w, B = random(4, n), random(5, n), random(m, n)
    kernel = fourier_features(v, B) @ fourier_features(w, B).T
    close(kernel, torch.cos(2 * math.pi * ((v[:, None] - w) @ B.T)).sum(-1), 1e-12)
    close(kernel, fourier_features(v + shift, B) @ fourier_features(w + shift, B).T, 1e-10)
    close(fourier_features(v, B).norm(dim=-1), torch.full((4,), m**0.5, dtype=torch.float64))


def test_fourier_features_are_the_orbit_of_one_vector():
    v, B = random(5, 2), random(3, 2)
    start = torch.cat([torch.ones(3), torch.zeros(3)]).double().expand(5, 6)
    close(rotate_by(start, 2 * math.pi * v @ B.T, "half"), fourier_features(v, B))


def test_normal_frequencies_give_a_gaussian_kernel_on_average():
    delta, m = torch.tensor([[0.0, 0.0], [0.05, 0.0], [0.0, -0.05], [0.1, 0.1], [0.3, -0.2]]).double(), 200_000
    kernel = fourier_features(delta, 2 * random(m, 2))[:, :m].mean(-1)
    close(kernel, torch.exp(-2 * math.pi**2 * 4 * delta.square().sum(-1)), 5 / m**0.5)


@pytest.mark.parametrize(
    "n, bands, resolution", [(1, 4, (16,)), (2, 6, (224, 224)), (2, 3, (9, 40)), (3, 5, (8, 6, 4))]
)
def test_fourier_features_are_those_of_perceiver(n, bands, resolution):
    """Theirs: linearly spaced bands per axis, in half periods, sines first."""
    v = random(11, n).clamp(-1, 1)
    theirs = generate_fourier_features(v[None], bands, resolution, concat_pos=False)
    B = torch.block_diag(*(torch.linspace(1, res / 2, bands)[:, None] for res in resolution)) / 2
    cos, sin = fourier_features(v, B).chunk(2, dim=-1)
    close(torch.cat([sin, cos], dim=-1), theirs, 1e-4)  # their bands are rounded to float32 in another order


def test_fourier_features_are_those_of_segment_anything():
    """Theirs: normal frequencies, points moved from [0, 1] to [-1, 1], sines first."""
    theirs = SamPositionalEmbedding(SamVisionConfig(num_pos_feats=16, scale=2.0)).double().requires_grad_(False)
    v = torch.rand(3, 5, 7, 2, dtype=torch.float64)
    cos, sin = fourier_features(2 * v - 1, theirs.positional_embedding.T).chunk(2, dim=-1)
    close(torch.cat([sin, cos], dim=-1), theirs(v))


@pytest.mark.parametrize("dtype, near", [(torch.float32, 1e-6), (torch.bfloat16, 8e-3)], ids=str)
def test_fourier_features_keep_dtype_and_device_and_exact_angles(dtype, near, device):
    v, B = random(4, 5, 2, dtype=dtype), 50 * random(6, 2)
    y = fourier_features(v.to(device), B)
    assert (y.dtype, y.device.type, y.shape) == (dtype, device.type, (4, 5, 12))
    close(y.cpu(), fourier_features(v.double(), B), near)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.float32, torch.float64], ids=str)
def test_coordinates_may_be_integers_or_real_numbers(dtype, device):
    v = grid_coordinates(3, 5)
    angles = axial_angles(v.to(device, dtype), 8)
    assert (angles.dtype, angles.device.type) == (torch.float64, device.type)
    close(angles.cpu(), axial_angles(v, 8), 0)
    halved = axial_angles(v / 2, 8)
    close(2 * halved, axial_angles(v, 8), 0)


V, F4, X = torch.zeros(3, 2), inverse_frequencies(8), torch.zeros(1, 3, 8)
REFUSED = [
    (lambda: grid_coordinates(0, 3), ValueError, ["height", "0"]),
    (lambda: grid_coordinates(3, 2.5), ValueError, ["width", "2.5"]),
    (lambda: grid_coordinates("3", 2), TypeError, ["height", "'3'"]),
    (lambda: axial_angles(V[0], 8), ValueError, ["coordinates", "(2,)"]),
    (lambda: axial_angles([[0, 1]], 8), TypeError, ["coordinates", "list"]),
    (lambda: axial_angles(V > 0, 8), TypeError, ["coordinates", "bool"]),
    (lambda: axial_angles(V + 0j, 8), TypeError, ["coordinates", "complex"]),
    (lambda: axial_angles(V[:, :0], 8), ValueError, ["coordinates", "(3, 0)"]),
    (lambda: axial_angles(V, 6), ValueError, ["head_dim", "4", "6"]),
    (lambda: axial_angles(V, 7), ValueError, ["head_dim", "7"]),
    (lambda: axial_angles(V, 8, 0), ValueError, ["base", "0"]),
    (lambda: section_angles(V, F4, [1, 2]), ValueError, ["sections", "pairs", "4", "[1, 2]", "3"]),
    (lambda: section_angles(V, F4, [4, 4]), ValueError, ["sections", "pairs", "4", "[4, 4]", "8"]),
    (lambda: section_angles(V, F4, [1, 1, 2]), ValueError, ["sections", "2", "[1, 1, 2]"]),
    (lambda: section_angles(V, F4, [5, -1]), ValueError, ["sections[1]", "-1"]),
    (lambda: section_angles(V, F4, [1.5, 2.5]), ValueError, ["sections[0]", "1.5"]),
    (lambda: section_angles(V, F4, "22"), TypeError, ["sections", "str"]),
    (lambda: section_angles(V, F4, 4), TypeError, ["sections", "int"]),
    (lambda: section_angles(V, F4[None], [2, 2]), ValueError, ["inv_freq", "(1, 4)"]),
    (lambda: section_angles(V, F4.long(), [2, 2]), TypeError, ["inv_freq", "int64"]),
    (lambda: rotate_by(X, torch.zeros(3, 3)), ValueError, ["(3, 6)", "(1, 3, 8)"]),
    (lambda: rotate_by(X, torch.zeros(2, 4)), ValueError, ["(2, 8)", "(1, 3, 8)"]),
    (lambda: rotate_by(X, torch.zeros(3, 4), "pairs"), ValueError, ["layout", "'pairs'"]),
    (lambda: rotate_by(X, torch.zeros(4)), ValueError, ["angles", "(4,)"]),
    (lambda: rotate_by(X, torch.zeros(3, 4).long()), TypeError, ["angles", "int64"]),
    (lambda: rotate_by(X.long(), torch.zeros(3, 4)), TypeError, ["x", "int64"]),
    (lambda: rotate_by(X[0, 0], torch.zeros(3, 4)), ValueError, ["x", "(8,)"]),
    (lambda: rotate_by([0.0], torch.zeros(3, 4)), TypeError, ["x", "list"]),
    (lambda: fourier_features(V.long(), torch.zeros(4, 2)), TypeError, ["coordinates", "int64"]),
    (lambda: fourier_features([0.5], torch.zeros(4, 2)), TypeError, ["coordinates", "list"]),
    (lambda: fourier_features(V, torch.zeros(4, 3)), ValueError, ["coordinates", "3", "(3, 2)"]),
    (lambda: fourier_features(torch.tensor(0.5), torch.zeros(4, 1)), ValueError, ["coordinates", "()"]),
    (lambda: fourier_features(V, torch.zeros(2)), ValueError, ["B", "(2,)"]),
    (lambda: fourier_features(V, torch.zeros(4, 2).long()), TypeError, ["B", "int64"]),
]


@pytest.mark.parametrize("call, error, words", REFUSED)
def test_refusals_name_argument_and_value(call, error, words):
    assert_refused(call, error, words)
