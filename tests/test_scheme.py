"""The base scheme tells attention nothing, a scheme declares where it enters, and print shows how it was made."""

import pytest
import torch

from posenc_lib.attention import attend, scores
from posenc_lib.scheme import HOOKS, PLACES, DistanceBias, PositionScheme
from posenc_lib.schemes.none import NoPosition

P, Q = torch.arange(5), torch.tensor([9, 2, 40])


def test_the_base_scheme_promises_nothing_and_does_nothing():
    scheme, (q, k, v) = PositionScheme(), torch.randn(3, 2, 3, 5, 4, dtype=torch.float64)
    assert scheme.places == PLACES
    assert not scheme.relative and not scheme.by_distance
    plain = NoPosition()
    torch.testing.assert_close(attend(q, k, v, scheme, causal=True), attend(q, k, v, plain, causal=True))
    assert torch.equal(scores(q, k, scheme), scores(q, k, plain))
    assert torch.equal(scheme.embed(q[0], P), q[0])


def test_queries_and_keys_are_transformed_alike_unless_a_scheme_says_otherwise():
    class Both(PositionScheme):
        def transform(self, x, token):
            return x * token[:, None]

    class Keys(Both):
        def transform_key(self, k, token):
            return k + token[:, None]

    q, k = torch.randn(2, 3, 3, 4), torch.randn(2, 3, 5, 4)
    for scheme, moved_k in ((Both(), k * P[:, None]), (Keys(), k + P[:, None])):
        ours = scheme.at(Q, P).transform(q, k)
        assert torch.equal(ours[0], q * Q[:, None])
        assert torch.equal(ours[1], moved_k)


@pytest.mark.parametrize("head_dim, expected", [(1, 1.0), (4, 0.5), (64, 0.125)])
def test_scale_is_one_over_the_square_root_of_the_width(head_dim, expected):
    assert PositionScheme().scale(head_dim) == expected


def defined(hook, places, base=PositionScheme):
    """A class with the hook and the places."""
    return type("Mine", (base,), {hook: lambda self, *arguments: None, "places": places})


@pytest.mark.parametrize("hook, place", HOOKS.items())
def test_a_hook_needs_its_place(hook, place):
    others = tuple(other for other in PLACES if other != place)
    with pytest.raises(TypeError, match=rf"Mine defines {hook}, so its places must have '{place}', got \("):
        defined(hook, others)
    with pytest.raises(TypeError, match=f"Mine defines {hook}.*got "):
        defined(hook, ())
    for places in ((place,), PLACES):
        assert defined(hook, places).places == places


def test_places_are_inherited_and_a_hook_of_the_parent_may_be_left_unused():
    class Parent(PositionScheme):
        places = ("score",)

        def score_bias(self, q, k, pair):
            return pair

    assert type("Child", (Parent,), {"score_bias": lambda self, q, k, pair: -pair}).places == ("score",)
    with pytest.raises(TypeError, match="Child defines embed"):
        type("Child", (Parent,), {"embed": lambda self, x, positions: x})
    silent, (q, k) = type("Silent", (Parent,), {"places": ()})(), torch.randn(2, 1, 1, 5, 4)
    assert torch.equal(scores(q, k, silent), scores(q, k, NoPosition()))
    assert not torch.equal(scores(q, k, Parent()), scores(q, k, NoPosition()))


def test_pairs_are_relative_positions_and_differences_of_points_on_a_grid():
    class Grid(PositionScheme):
        num_axes = 2

    assert PositionScheme().per_pair(Q[:2], P[:3]).tolist() == [[-9, -8, -7], [-2, -1, 0]]
    assert PositionScheme().per_pair(Q.expand(2, 1, 3), P.expand(2, 1, 5)).shape == (2, 1, 3, 5)
    i, j = torch.tensor([[1, 10]]), torch.tensor([[0, 0], [3, 14]])
    assert Grid().per_pair(i, j).tolist() == [[[-1, -10], [2, 4]]]
    assert Grid().per_pair(i.expand(3, 1, 1, 2), j.expand(3, 1, 2, 2)).shape == (3, 1, 1, 2, 2)


class Counted(DistanceBias):
    """One head whose bias is 100 times the relative position; remembers what it was asked for."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def distance_bias(self, relative_position):
        self.asked.append(relative_position.tolist())
        return 100.0 * relative_position[None]


def test_a_bias_of_distances_is_asked_once_for_each_distance_that_occurs():
    scheme = Counted()
    bias = scheme.per_pair(torch.tensor([0, 900]), torch.tensor([1, 0, 901]))
    assert bias.tolist() == [[[100, 0, 90100], [-89900, -90000, 100]]]
    assert scheme.asked == [[-900, -899, 0, 1, 901]]
    batch = scheme.per_pair(torch.tensor([[[0, 3]], [[5, 7]]]), torch.tensor([[[1, 0]], [[5, 5]]]))
    assert batch.tolist() == [[[[100, 0], [-200, -300]]], [[[0, 0], [-200, -200]]]]
    assert scheme.asked[1] == [-3, -2, 0, 1]


def test_a_bias_of_distances_that_is_not_defined_is_named():
    with pytest.raises(NotImplementedError, match="Mine must define distance_bias"):
        scores(*torch.zeros(2, 1, 1, 3, 4), type("Mine", (DistanceBias,), {})())


@pytest.mark.filterwarnings("error")
def test_repr_shows_the_arguments_of_the_constructor():
    class Many(PositionScheme):
        def __init__(self, width, base=10_000.0, kind="half", learned=None, start=0.5):
            super().__init__()
            self.width, self.base, self.kind, self.learned = width, base, kind, learned
            self.start = torch.nn.Parameter(torch.tensor(start))

    assert repr(Many(3)) == "Many(width=3, base=10000, kind='half', learned=None, start=0.5)"
    assert repr(Many(3, start=0.1)) == "Many(width=3, base=10000, kind='half', learned=None, start=0.1)"
    assert repr(NoPosition()) == "NoPosition()"
