"""A scheme at its positions: which shapes they may have, what is computed when, in which precision, and refusals."""

import pytest
import torch

from posenc_lib.attention import attend, scores, weights
from posenc_lib.lab import TinyTransformer
from posenc_lib.scheme import DistanceBias, PositionScheme
from posenc_lib.schemes.none import NoPosition


class Recorder(PositionScheme):
    """Does nothing at every place, and remembers what it was asked."""

    def __init__(self, num_axes=None):
        super().__init__()
        self.num_axes, self.calls = num_axes, []

    def embed(self, x, positions):
        self.calls.append(("embed", tuple(positions.shape)))
        return x

    def per_token(self, positions):
        self.calls.append(("per_token", tuple(positions.shape)))
        return positions

    def per_pair(self, query_positions, key_positions):
        self.calls.append(("per_pair", tuple(query_positions.shape), tuple(key_positions.shape)))
        return super().per_pair(query_positions, key_positions)


class Slope(DistanceBias):
    """One number per distance for two heads; remembers how often it was asked."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def distance_bias(self, relative_position):
        self.calls.append(relative_position.tolist())
        return -relative_position.abs().double().expand(2, -1)


ROW, OTHER = torch.tensor([4, 0, 9, 2]), torch.tensor([1, 8])
PLAIN = [
    ((4,), [0, 1, 2, 3], [0, 1, 2, 3]),
    ((2, 5), [3, 4], [0, 1, 2, 3, 4]),
    ((0,), [], []),
    ((0, 3), [], [0, 1, 2]),
    ((ROW,), [4, 0, 9, 2], [4, 0, 9, 2]),
    ((2, ROW), [9, 2], [4, 0, 9, 2]),
    ((OTHER, ROW), [1, 8], [4, 0, 9, 2]),
    ((OTHER, 3), [1, 8], [0, 1, 2]),
    ((ROW.expand(3, -1),), [[[4, 0, 9, 2]]] * 3, [[[4, 0, 9, 2]]] * 3),
    ((2, ROW.expand(3, -1)), [[[9, 2]]] * 3, [[[4, 0, 9, 2]]] * 3),
    ((OTHER, ROW.expand(3, -1)), [1, 8], [[[4, 0, 9, 2]]] * 3),
]


@pytest.mark.parametrize("arguments, queries, keys", PLAIN)
def test_numbers_and_tensors_stand_for_these_positions(arguments, queries, keys):
    here = NoPosition().at(*arguments)
    assert (here.query_positions.tolist(), here.key_positions.tolist()) == (queries, keys)
    assert here.query_positions.dtype == here.key_positions.dtype == torch.int64
    assert (here.n_queries, here.n_keys) == (here.query_positions.shape[-1], here.key_positions.shape[-1])


POINTS = torch.tensor([[0, 7], [0, 8], [1, 7]])
ON_A_GRID = [
    ((3,), [[0, 0], [1, 1], [2, 2]], [[0, 0], [1, 1], [2, 2]]),
    ((1, 3), [[2, 2]], [[0, 0], [1, 1], [2, 2]]),
    ((OTHER,), [[1, 1], [8, 8]], [[1, 1], [8, 8]]),
    ((POINTS,), POINTS.tolist(), POINTS.tolist()),
    ((2, POINTS), POINTS[1:].tolist(), POINTS.tolist()),
    ((POINTS.expand(2, -1, -1),), [[POINTS.tolist()]] * 2, [[POINTS.tolist()]] * 2),
    ((1, POINTS.expand(2, -1, -1)), [[POINTS[2:].tolist()]] * 2, [[POINTS.tolist()]] * 2),
    ((POINTS / 2,), (POINTS / 2).tolist(), (POINTS / 2).tolist()),
]


@pytest.mark.parametrize("arguments, queries, keys", ON_A_GRID)
def test_numbers_and_tensors_stand_for_these_points_on_a_grid(arguments, queries, keys):
    here = Recorder(num_axes=2).at(*arguments)
    assert (here.query_positions.tolist(), here.key_positions.tolist()) == (queries, keys)
    assert (here.n_queries, here.n_keys) == (here.query_positions.shape[-2], here.key_positions.shape[-2])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32])
def test_small_integers_do_not_overflow(dtype):
    here = NoPosition().at(torch.tensor([100, 0], dtype=dtype), torch.tensor([0, 100], dtype=dtype))
    assert here.pairs.tolist() == [[-100, 0], [0, 100]]


REFUSED = [
    (None, (-1,), ValueError, "key_positions must be at least 0, got -1"),
    (None, (True,), TypeError, "key_positions must be a number, got True"),
    (None, (2.0,), TypeError, "key_positions must be a tensor of integers, got float"),
    (None, ([0, 1],), TypeError, "key_positions must be a tensor of integers, got list"),
    (None, (ROW, [0, 1]), TypeError, "key_positions must be a tensor of integers, got list"),
    (None, ([0, 1], ROW), TypeError, "query_positions must be a tensor of integers, got list"),
    (None, (ROW / 2,), TypeError, "key_positions must hold integers, got torch.float32"),
    (None, (ROW / 2, ROW), TypeError, "query_positions must hold integers, got torch.float32"),
    (None, (ROW[0],), ValueError, r"key_positions must have shape \(L,\) or \(B, L\), got \(\)"),
    (None, (ROW[None, None], ROW), ValueError, r"query_positions must have shape \(L,\) or \(B, L\), got \(1, 1, 4\)"),
    (None, (4, 3), ValueError, "query_positions must be given when there are more queries than keys, got 4 and 3"),
    (None, (5, ROW), ValueError, "query_positions must be given when there are more queries than keys, got 5 and 4"),
    (None, (-1, ROW), ValueError, "query_positions must be at least 0, got -1"),
    (2, (ROW[0],), ValueError, r"key_positions must have shape \(L,\), \(L, 2\) or \(B, L, 2\), got \(\)"),
    (2, (ROW.view(1, 4),), ValueError, r"key_positions must have shape .*\(L, 2\) or \(B, L, 2\), got \(1, 4\)"),
    (2, (ROW.view(1, 1, 2, 2),), ValueError, r"key_positions must have shape .* got \(1, 1, 2, 2\)"),
    (2, (ROW > 1,), TypeError, "key_positions must hold integers or real numbers, got torch.bool"),
    (2, ("ab",), TypeError, "key_positions must be a tensor of numbers, got str"),
]


@pytest.mark.parametrize("num_axes, arguments, error, words", REFUSED)
def test_positions_that_make_no_sense_are_refused(num_axes, arguments, error, words):
    with pytest.raises(error, match=words):
        Recorder(num_axes).at(*arguments)


def test_nothing_is_computed_before_it_is_asked_for_and_nothing_twice():
    scheme = Recorder()
    here = scheme.at(4)
    assert scheme.calls == []
    assert here.query_tokens is here.key_tokens is here.query_tokens
    assert scheme.calls == [("per_token", (4,))]
    assert here.pairs is here.pairs
    assert scheme.calls == [("per_token", (4,)), ("per_pair", (4,), (4,))]


@pytest.mark.parametrize("arguments", [(2, 4), (OTHER, ROW)])
def test_queries_at_places_of_their_own_are_asked_about_by_themselves(arguments):
    scheme = Recorder()
    here = scheme.at(*arguments)
    assert here.query_tokens.tolist() != here.key_tokens.tolist()
    assert scheme.calls == [("per_token", (2,)), ("per_token", (4,))]


@pytest.mark.parametrize("positions", [None, torch.arange(7, 11), torch.arange(8).view(2, 4)], ids=str)
def test_three_layers_ask_once(positions):
    tokens = torch.zeros(2, 4, dtype=torch.int64)
    shape = (4,) if positions is None or positions.dim() == 1 else (2, 1, 4)
    scheme = Recorder()
    TinyTransformer(scheme, 5, dim=8, num_heads=2, num_layers=3)(tokens, positions)
    given = (4,) if positions is None else tuple(positions.shape)
    assert scheme.calls == [("embed", given), ("per_token", shape), ("per_pair", shape, shape)]
    slope = Slope()
    TinyTransformer(slope, 5, dim=8, num_heads=2, num_layers=3)(tokens, positions)
    assert slope.calls == [list(range(-3, 4))]


def test_a_place_that_is_not_declared_is_not_asked_about():
    scheme = Recorder()
    scheme.places = ("score",)
    attend(*torch.randn(3, 1, 1, 4, 2), scheme, causal=True)
    assert scheme.calls == [("per_pair", (4,), (4,))]


class Tables(PositionScheme):
    """Tables of every kind, all in float64 as schemes compute them."""

    def per_token(self, positions):
        return positions, (positions.double(), positions % 2 == 0), "word"

    def per_pair(self, query_positions, key_positions):
        return super().per_pair(query_positions, key_positions) / torch.tensor(3.0, dtype=torch.float64)


@pytest.mark.parametrize(
    "dtype, expected",
    [
        (None, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
    ids=str,
)
def test_tables_have_the_precision_of_the_queries_but_at_least_float32(dtype, expected):
    here = Tables().at(3, like=None if dtype is None else torch.zeros(1, dtype=dtype))
    whole, (real, even), word = here.query_tokens
    assert (whole.dtype, real.dtype, even.dtype, word) == (torch.int64, expected, torch.bool, "word")
    assert here.pairs.dtype == expected
    assert Slope().at(3, like=torch.zeros(1, dtype=dtype or torch.float32)).distance_bias.dtype == expected


OFFSETS = [
    ((4,), 0),
    ((2, 5), 3),
    ((0,), None),
    ((0, 5), None),
    ((torch.arange(7, 9), torch.arange(3, 9)), 4),
    ((torch.arange(3), torch.arange(5, 7)), -5),
    ((torch.tensor([3]), torch.tensor([9])), -6),
    ((ROW,), None),
    ((torch.arange(4), ROW), None),
    ((torch.arange(0, 8, 2),), None),
    ((torch.arange(4).flip(0),), None),
    ((torch.arange(4).expand(2, -1),), None),
    ((2, torch.arange(4).expand(2, -1)), None),
]


@pytest.mark.parametrize("arguments, expected", OFFSETS)
def test_offset_of_positions_without_gaps(arguments, expected):
    here = NoPosition().at(*arguments)
    assert here.offset == expected
    if expected is not None:
        relative = here.key_positions - here.query_positions[:, None]
        assert here.distances.tolist() == relative.unique().tolist()


def test_offset_on_a_grid_goes_by_the_place_in_the_text():
    assert Recorder(2).at(2, POINTS).offset == 1
    assert Recorder(2).at(POINTS.expand(2, -1, -1)).offset == 0


def test_which_keys_are_not_after_the_query():
    here = NoPosition().at(OTHER, ROW)
    assert here.not_after.tolist() == [[False, True, False, False], [True, True, False, True]]
    batch = NoPosition().at(torch.stack([OTHER, OTHER + 1]), ROW.expand(2, -1))
    assert batch.not_after.shape == (2, 1, 2, 4)
    assert batch.not_after[1, 0].tolist() == [[False, True, False, True], [True, True, True, True]]
    assert Recorder(2).at(2, POINTS).not_after.tolist() == [[True, True, False], [True, True, True]]


def test_a_scheme_at_its_positions_takes_the_place_of_scheme_and_positions():
    scheme, (q, k, v) = Slope(), torch.randn(3, 2, 2, 4, 6, dtype=torch.float64)
    here = scheme.at(2, ROW, like=q)
    last = q[:, :, 2:]
    for function, arguments in ((scores, (last, k)), (weights, (last, k)), (attend, (last, k, v))):
        expected = function(*arguments, scheme, query_positions=ROW[2:], key_positions=ROW)
        assert torch.equal(function(*arguments, here), expected)
        with pytest.raises(ValueError, match="query_positions and key_positions must be None with a scheme that is at"):
            function(*arguments, here, key_positions=ROW)
    with pytest.raises(ValueError, match="q must be like what the scheme was placed for"):
        attend(*(x.float() for x in (q[:, :, 2:], k, v)), here)
    with pytest.raises(ValueError, match="query_positions must have 4 entries, one per token, got 2"):
        attend(q, k, v, here)


class Wide(PositionScheme):
    """Biases of more heads than there are, or of more axes."""

    def __init__(self, *shape):
        super().__init__()
        self.shape = shape

    def score_bias(self, q, k, pair):
        return q.new_zeros(self.shape)

    def value_bias(self, weights, pair):
        return weights.new_zeros(self.shape)


@pytest.mark.parametrize("shape", [(3, 4, 4), (2, 2, 4, 4), (1, 1, 1, 4, 4), (4, 3)])
def test_a_bias_that_would_stretch_the_scores_is_refused(shape):
    here, x = Wide(*shape).at(4), torch.zeros(1, 2, 4, 4)
    with pytest.raises(ValueError, match=r"score_bias must fit \(1, 2, 4, 4\), got"):
        here.score_bias(x, x, None)
    with pytest.raises(ValueError, match=r"value_bias must fit \(1, 2, 4, 4\), got"):
        here.value_bias(x, 4)


@pytest.mark.parametrize("shape", [(), (4, 4), (2, 1, 4), (1, 2, 4, 1)])
def test_a_bias_that_is_shared_is_not_refused(shape):
    here, x = Wide(*shape).at(4), torch.zeros(1, 2, 4, 4)
    assert here.score_bias(x, x, None).shape == here.value_bias(x, 4).shape == shape
