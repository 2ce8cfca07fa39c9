"""Agreement with implementations that other people wrote, each in its own convention.

An oracle that computes its angles in float32 is off by up to p 2^-24 at position p from rounding the angle, and by
about as much again from rounding the frequency: the tolerance there is p 2^-22 times the size of the input.
"""

import numpy as np
import pytest
import torch
from positional_encodings.torch_encodings import PositionalEncoding1D
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb
from transformers import CohereConfig, GPTNeoXConfig, LlamaConfig
from transformers.models.cohere import modeling_cohere as cohere
from transformers.models.gpt_neox import modeling_gpt_neox as gpt_neox
from transformers.models.gptj import modeling_gptj as gptj
from transformers.models.llama import modeling_llama as llama
from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
from transformers.models.roformer import modeling_roformer as roformer
from transformers.models.whisper.modeling_whisper import sinusoids
from x_transformers.x_transformers import RotaryEmbedding as XRotaryEmbedding
from x_transformers.x_transformers import ScaledSinusoidalEmbedding
from x_transformers.x_transformers import apply_rotary_pos_emb as x_apply

from loops import draw
from posenc_lib.attention import scores
from posenc_lib.schemes.rope import Rotary
from posenc_lib.schemes.sinusoidal import encode, frequencies

each_size = pytest.mark.parametrize("length, dim", [(1, 2), (101, 30), (257, 64)])


def halves(P):
    """All sines, then all cosines."""
    return torch.cat([P[:, ::2], P[:, 1::2]], dim=-1)


def close(left, right, near):
    torch.testing.assert_close(left.double(), right.double(), rtol=0, atol=near)


@each_size
def test_sinusoidal_interleaved_is_positional_encodings(length, dim):
    theirs, ours = PositionalEncoding1D(dim), encode(torch.arange(length), dim)
    close(theirs(torch.zeros(1, length, dim))[0], ours, length * 2.0**-22)
    theirs.inv_freq = torch.from_numpy(10_000.0 ** (-np.arange(0, dim, 2) / dim))  # the same module in float64
    close(theirs(torch.zeros(2, length, dim, dtype=torch.float64))[1], ours, 1e-12)


@each_size
def test_sinusoidal_in_halves_is_marian(length, dim):
    theirs = MarianSinusoidalPositionalEmbedding(length, dim).create_weight()  # float64, rounded to float32 at the end
    close(theirs, halves(encode(torch.arange(length), dim)), 2.0**-24)


@pytest.mark.parametrize("positions", [[0, 1, 2], [1000, 7, 31, 5]], ids=str)
@pytest.mark.parametrize("base", [10_000, 50])
def test_sinusoidal_in_halves_is_scaled_x_transformers(positions, base):
    dim, p = 12, torch.tensor(positions)
    theirs = ScaledSinusoidalEmbedding(dim, theta=base).double()
    theirs.inv_freq = torch.from_numpy(float(base) ** (-np.arange(dim // 2) / (dim // 2)))
    close(theirs(torch.zeros(1, len(p), dim), pos=p.double()) * dim**0.5, halves(encode(p, dim, base)), 1e-6)


@pytest.mark.parametrize("theirs", [sinusoids, M2M100SinusoidalPositionalEmbedding.get_embedding])
@pytest.mark.parametrize("length, dim", [(13, 8), (257, 64)])
def test_whisper_and_m2m100_are_another_base(theirs, length, dim):
    """They divide by dim/2 - 1 in place of dim/2, so that the slowest wavelength is 2 pi base itself.

    10_000**(-t / (dim/2 - 1)) = b**(-2t / dim) for b = 10_000**(dim / (dim - 2)).
    """
    table, p = theirs(length, dim), torch.arange(length)
    base = 10_000 ** (dim / (dim - 2))
    assert frequencies(dim, base)[-1].item() == pytest.approx(1e-4, rel=1e-12)
    close(table, halves(encode(p, dim, base)), length * 2.0**-20)  # their exponent, up to 9.2, is rounded as well
    assert (table - halves(encode(p, dim))).abs().max() > 0.1


def tables(positions, rotated, base, dtype):
    """Cosines and sines (L, rotated / 2), from NumPy in float64."""
    angles = np.outer(positions.numpy(), float(base) ** (-np.arange(0, rotated, 2) / rotated))
    return torch.from_numpy(np.cos(angles)).to(dtype), torch.from_numpy(np.sin(angles)).to(dtype)


def by_gptj(x, positions, rotated, base):
    cos, sin = tables(positions, rotated, base, x.dtype)
    first = gptj.apply_rotary_pos_emb(x[..., :rotated].transpose(1, 2), sin[None], cos[None]).transpose(1, 2)
    return torch.cat([first, x[..., rotated:]], dim=-1)


def by_roformer(x, positions, rotated, base):
    cos, sin = tables(positions, rotated, base, x.dtype)
    rotate = roformer.RoFormerSelfAttention.apply_rotary_position_embeddings
    first, _ = rotate(torch.cat([sin, cos], dim=-1)[None, None], x[..., :rotated], x[..., :rotated])
    return torch.cat([first, x[..., rotated:]], dim=-1)


def by_cohere(x, positions, rotated, base):
    cos, sin = (table.repeat_interleave(2, dim=-1)[None] for table in tables(positions, rotated, base, x.dtype))
    first, _ = cohere.apply_rotary_pos_emb(x[..., :rotated], x[..., :rotated], cos, sin)
    return torch.cat([first, x[..., rotated:]], dim=-1)


def by_llama(x, positions, rotated, base):
    cos, sin = (torch.cat([table, table], dim=-1)[None] for table in tables(positions, rotated, base, x.dtype))
    _, first = llama.apply_rotary_pos_emb(x[..., :rotated], x[..., :rotated], cos, sin)
    return torch.cat([first, x[..., rotated:]], dim=-1)


def by_gpt_neox(x, positions, rotated, base):
    cos, sin = (torch.cat([table, table], dim=-1)[None] for table in tables(positions, rotated, base, x.dtype))
    return gpt_neox.apply_rotary_pos_emb(x, x, cos, sin)[0]


def by_rotary_embedding_torch(x, positions, rotated, base):
    freqs = torch.from_numpy(float(base) ** (-np.arange(0, rotated, 2) / rotated))
    return apply_rotary_emb(RotaryEmbedding(rotated, custom_freqs=freqs)(positions), x)


def by_x_transformers(x, positions, rotated, base):
    theirs = XRotaryEmbedding(rotated)
    theirs.inv_freq = torch.from_numpy(float(base) ** (-np.arange(0, rotated, 2) / rotated))
    return x_apply(x, theirs(positions)[0])


ROTATIONS = [
    (by_gptj, "interleaved"),
    (by_roformer, "interleaved"),
    (by_cohere, "interleaved"),
    (by_rotary_embedding_torch, "interleaved"),
    (by_x_transformers, "interleaved"),
    (by_llama, "half"),
    (by_gpt_neox, "half"),
]
each_rotation = pytest.mark.parametrize("theirs, layout", ROTATIONS)
POSITIONS = {
    "first": ([0], [0, 1, 2]),
    "shifted": (list(range(1000, 1007)), list(range(1000, 1013))),
    "scattered": ([903, 4, 77, 0, 5000], [3, 5000, 12, 903, 0, 1, 77]),
}


def moved(scheme, x, positions):
    """Queries or keys with position applied."""
    return scheme.transform(x, scheme.per_token(positions))


@each_rotation
@pytest.mark.parametrize("fraction, base", [(1.0, 10_000), (0.25, 500_000.0)])
@pytest.mark.parametrize("place", POSITIONS)
def test_rotation_and_scores(theirs, layout, fraction, base, place):
    d = 24
    i, j = (torch.tensor(p) for p in POSITIONS[place])
    q, k = (draw(2, 3, len(p), d) for p in (i, j))
    near = 2e-6 if theirs is by_cohere else 1e-11  # Cohere's rounds x to float32
    scheme = Rotary(d, base, layout, fraction)
    rotated_q, rotated_k = (theirs(x, p, int(d * fraction), base) for x, p in ((q, i), (k, j)))
    close(moved(scheme, q, i), rotated_q, near)
    close(moved(scheme, k, j), rotated_k, near)
    expected = rotated_q.double() @ rotated_k.double().mT / d**0.5
    close(scores(q, k, scheme, i, j), expected, 5 * near)


def test_the_two_layouts_are_told_apart():
    x, p = draw(1, 1, 5, 8), torch.arange(5)
    assert (by_llama(x, p, 8, 10_000) - moved(Rotary(8, layout="interleaved"), x, p)).abs().max() > 0.1
    assert (by_gptj(x, p, 8, 10_000) - moved(Rotary(8, layout="half"), x, p)).abs().max() > 0.1


@pytest.mark.parametrize("Lq, Lk", [(1, 7), (3, 7), (7, 7)])
def test_queries_of_a_cache_stand_where_rotary_embedding_torch_puts_them(Lq, Lk):
    q, k = (draw(2, 3, n, 16) for n in (Lq, Lk))
    freqs = torch.from_numpy(10_000.0 ** (-np.arange(0, 16, 2) / 16))
    theirs = RotaryEmbedding(16, custom_freqs=freqs).double()
    rotated_q, rotated_k = theirs.rotate_queries_with_cached_keys(q, k)
    close(scores(q, k, Rotary(16)), rotated_q @ rotated_k.mT / 4, 1e-11)


def config(kind, fraction=1.0):
    parameters = {"rope_type": "default", "rope_theta": 500_000.0, "partial_rotary_factor": fraction}
    return kind(hidden_size=48, num_attention_heads=2, rope_parameters=parameters)


CLASSES = [
    (llama.LlamaRotaryEmbedding(config(LlamaConfig)), llama.apply_rotary_pos_emb, "half", 1.0),
    (cohere.CohereRotaryEmbedding(config(CohereConfig)), cohere.apply_rotary_pos_emb, "interleaved", 1.0),
    (gpt_neox.GPTNeoXRotaryEmbedding(config(GPTNeoXConfig)), gpt_neox.apply_rotary_pos_emb, "half", 1.0),
    (gpt_neox.GPTNeoXRotaryEmbedding(config(GPTNeoXConfig, 0.25)), gpt_neox.apply_rotary_pos_emb, "half", 0.25),
]


@pytest.mark.parametrize("theirs, rotate, layout, fraction", CLASSES)
def test_models_with_their_own_tables(theirs, rotate, layout, fraction):
    q, k, p = torch.randn(1, 2, 5, 24), torch.randn(1, 2, 5, 24), torch.tensor([300, 4, 77, 0, 256])
    scheme = Rotary(24, 500_000.0, layout, fraction)
    for ours, expected in zip((q, k), rotate(q, k, *theirs(q, p[None])), strict=True):
        close(moved(scheme, ours, p), expected, 300 * 2.0**-22 * 5)


def test_gptj_with_its_own_table():
    x, p = torch.randn(1, 2, 5, 24), torch.tensor([300, 4, 77, 0, 256])
    sin, cos = gptj.create_sinusoidal_positions(301, 24)[p][None].chunk(2, dim=-1)
    expected = gptj.apply_rotary_pos_emb(x.transpose(1, 2), sin, cos).transpose(1, 2)
    close(moved(Rotary(24), x, p), expected, 300 * 2.0**-22 * 5)


def test_roformer_with_its_own_table():
    x, p = torch.randn(1, 2, 5, 24), torch.tensor([300, 4, 77, 0, 256])
    table = roformer.RoFormerSinusoidalPositionalEmbedding(301, 24).create_weight()[p]  # float64, rounded at the end
    expected, _ = roformer.RoFormerSelfAttention.apply_rotary_position_embeddings(table[None, None], x, x)
    close(moved(Rotary(24), x, p), expected, 2e-6)


@pytest.mark.parametrize("base", [10_000, 700])
def test_rotary_embedding_torch_and_x_transformers_with_their_own_frequencies(base):
    x, p = torch.randn(1, 2, 5, 24), torch.tensor([300, 4, 77, 0, 256])
    ours = moved(Rotary(24, base), x, p)
    close(apply_rotary_emb(RotaryEmbedding(24, theta=base)(p), x), ours, 300 * 2.0**-22 * 5)
    close(x_apply(x, XRotaryEmbedding(24, base=base)(p)[0]), ours, 300 * 2.0**-22 * 5)
