"""Checks of the exercises in notebook 07."""

import torch
from torch import Tensor

from posenc_lib.attention import scores
from posenc_lib.exercises.check import Check
from posenc_lib.lab.measure import randn
from posenc_lib.scheme import PositionScheme
from posenc_lib.schemes.learned import Learned
from posenc_lib.schemes.nezha import Nezha
from posenc_lib.schemes.none import NoPosition
from posenc_lib.schemes.rope import Rotary
from posenc_lib.schemes.shaw import Shaw
from posenc_lib.schemes.sinusoidal import Sinusoidal, encode, frequencies, shift_matrix
from posenc_lib.schemes.t5 import T5Bias


def _distances(clip: int) -> Tensor:
    return torch.arange(-clip, clip + 1)


check_relative_table = Check(
    "relative_table",
    lambda clip, d: encode(_distances(clip), d),
    cases=[(4, 8), (2, 6), (64, 16), (1, 2)],
    mistakes=[
        (
            "your rows are P_0 ... P_{2 clip}, as in the authors' code; here r starts at -clip",
            lambda clip, d: encode(_distances(clip) + clip, d),
        ),
        (
            "you took |r|: left and right get the same vector, and the direction is lost",
            lambda clip, d: encode(_distances(clip).abs(), d),
        ),
        ("right up to the sign of r: the first row belongs to -clip", lambda clip, d: encode(-_distances(clip), d)),
        (
            "you put all sines first; here sine and cosine of a pair stand side by side",
            lambda clip, d: torch.cat([encode(_distances(clip), d)[:, s::2] for s in (0, 1)], dim=-1),
        ),
        ("off by one: the middle row, r = 0, must hold P_0", lambda clip, d: encode(_distances(clip) + 1, d)),
    ],
)


def _strengths_by_halves(q: Tensor) -> Tensor:
    return (q.chunk(2)[0].square() + q.chunk(2)[1].square()).sqrt()


check_strengths = Check(
    "strengths",
    lambda q: q.view(-1, 2).norm(dim=-1),
    cases=[(randn(8),), (randn(16, seed=1),), (3 * randn(6, seed=2),), (torch.tensor([0.0, -2.0]).double(),)],
    mistakes=[
        ("you paired component t with t + d/2; here 2t and 2t + 1 belong together", _strengths_by_halves),
        ("you returned the squares; A_t is the length of the pair", lambda q: q.view(-1, 2).square().sum(-1)),
        ("you added the two components; A_t is the length of the pair", lambda q: q.view(-1, 2).sum(-1)),
        (
            "you added the sizes of the components; A_t is the length of the pair, a root of squares",
            lambda q: q.view(-1, 2).abs().sum(-1),
        ),
    ],
)


check_turned_query = Check(
    "turned_query",
    lambda q, k: q @ shift_matrix(k, len(q)),
    cases=[(randn(8), 3), (randn(16, seed=1), -7), (randn(6, seed=2), 0), (randn(2, seed=3), 40)],
    mistakes=[
        (
            "right up to the sign of k: q . (M_k a_r) = (M_k^T q) . a_r, with the transpose",
            lambda q, k: shift_matrix(k, len(q)) @ q,
        ),
        ("you added P_k; moving is a rotation, not a sum", lambda q, k: q + encode(torch.tensor([k]), len(q))[0]),
        ("you returned the query as it came", lambda q, k: q),
        (
            "you multiplied each pair by cos(k theta_t); a rotation needs the sine too",
            lambda q, k: q * torch.cos(k * frequencies(len(q))).repeat_interleave(2),
        ),
    ],
)


_X, _W_Q, _W_K = randn(1, 9, 8), randn(8, 8, seed=1), randn(8, 8, seed=2)


def _moves(scheme: PositionScheme, embed: bool = True) -> bool:
    """Whether the scores of some tokens are the same at positions 0..8 and 5..13."""
    results = []
    for positions in (torch.arange(9), torch.arange(5, 14)):
        x = scheme.embed(_X, positions) if embed else _X
        q, k = (x @ W for W in (_W_Q, _W_K))
        results.append(scores(q[:, None], k[:, None], scheme, positions, positions))
    return bool((results[0] - results[1]).abs().max() < 1e-9)


def _schemes() -> list[tuple[PositionScheme]]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        schemes = (Sinusoidal(8), Learned(8, 32), Shaw(8, 4), Nezha(8), Rotary(8), T5Bias(1), NoPosition())
        return [(scheme.double(),) for scheme in schemes]


def _acts_on_pairs(scheme: PositionScheme) -> bool:
    return not {"input", "query and key"} & set(scheme.places)


check_is_relative = Check(
    "is_relative",
    _moves,
    cases=_schemes(),
    mistakes=[
        (
            "you left out embed: a scheme that is added to the input looks relative if it is never added",
            lambda scheme: _moves(scheme, embed=False),
        ),
        (
            "you asked where the scheme acts; RoPE acts on single tokens, and its scores are relative all the same",
            _acts_on_pairs,
        ),
        (
            "you asked whether the scheme is learned; that is the other question",
            lambda scheme: not list(scheme.parameters()),
        ),
        (
            "you asked whether the scheme has parameters; that is the other question",
            lambda scheme: bool(list(scheme.parameters())),
        ),
    ],
)
