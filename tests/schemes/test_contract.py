"""What every scheme of the library must do. Schemes and variants are found, not listed: a new module is tested."""

import copy
import inspect
import itertools
import pickle

import pytest
import torch

from posenc_lib.attention import attend, scores, weights
from posenc_lib.lab.catalog import scheme_classes
from posenc_lib.lab.model import TinyTransformer
from posenc_lib.lab.probes import drawn, places
from posenc_lib.schemes.learned import positions_without_padding

CLASSES = scheme_classes()
CASES = {
    name if variant is None else f"{name}, {variant}": (name, variant)
    for name, scheme_class in CLASSES.items()
    for variant in (None, *scheme_class.variants)
}
B, H, L, D = 2, 4, 7, 64
d = D // H
NEEDS_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
SCATTERED = torch.tensor([[3, 1, 9, 20, 7, 0, 2], [5, 4, 11, 30, 6, 8, 1]])
PADDING = {
    "left": torch.tensor([[True, True, True, False, False, False, False], [False] * L]),
    "right": torch.tensor([[False, False, False, False, True, True, True], [False] * L]),
}


@pytest.fixture(params=CASES)
def scheme(request):
    """An instance in float64 with random parameters."""
    name, variant = CASES[request.param]
    return drawn(CLASSES[name], variant=variant)


def on_axes(scheme, p):
    """The positions p as the scheme counts them: points that differ on the axes of a grid, and move together."""
    if scheme.num_axes is None:
        return p
    return torch.stack([p + (a + 1) * (p % 3) for a in range(scheme.num_axes)], dim=-1)


def words(length=L, batch=B, seed=1):
    return torch.randn(batch, length, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def parts(scheme, x, p):
    """Queries, keys and values (B, H, L, d) of a layer with fixed weights, from the input x at positions p."""
    generator = torch.Generator().manual_seed(2)
    W = torch.randn(3, D, H * d, generator=generator, dtype=torch.float64).to(x) / D**0.5
    embedded = scheme.embed(x, p) if scheme.num_axes is None else x
    return ((embedded @ W_).unflatten(-1, (H, d)).transpose(1, 2) for W_ in W)


def layer(scheme, x, p, causal=True, padding=None, mask=None, last=None):
    """What attention makes of the texts x (B, L, D) at positions p; of their last tokens only, if so many are named."""
    q, k, v = parts(scheme, x, p)
    n = x.shape[1] if last is None else last
    points = on_axes(scheme, p)
    own = points[..., x.shape[1] - n :] if scheme.num_axes is None else points[..., x.shape[1] - n :, :]
    return attend(q[:, :, x.shape[1] - n :], k, v, scheme, causal, own, points, padding, mask, x)


def close(left, right, atol=1e-10):
    torch.testing.assert_close(left, right, rtol=0, atol=atol)


def test_position_enters_where_the_scheme_says(scheme):
    assert set(places(scheme)) <= set(scheme.places)


@pytest.mark.parametrize("shift", [1, 100])
def test_shift(scheme, shift):
    """A scheme that promises to be relative; a grid may move along each axis by another distance."""
    if not scheme.relative:
        pytest.skip("does not promise it")
    q, k, _ = parts(scheme, words(), torch.arange(L))
    for p in (torch.arange(L), SCATTERED):
        points = on_axes(scheme, p)
        moved = points + shift * torch.arange(1, 1 + (scheme.num_axes or 1))
        here, there = (scores(q, k, scheme, at, at, x=words()) for at in (points, moved))
        close(here, there)


def test_order_of_keys_does_not_matter(scheme):
    x, order = words(), torch.tensor([4, 0, 6, 2, 5, 1, 3])
    q, k, v = parts(scheme, x, SCATTERED)
    causal = scheme.num_axes is None  # on a grid the order of the text is what a causal mask goes by
    p = on_axes(scheme, SCATTERED)
    turned = attend(q, k[:, :, order], v[:, :, order], scheme, causal, p, p[:, order], x=x[:, order])
    close(turned, attend(q, k, v, scheme, causal, p, p, x=x))


@NEEDS_CUDA
def test_device(scheme):
    x, p = words(), SCATTERED
    expected = layer(scheme, x, p)
    on_gpu = layer(scheme.cuda(), x.cuda(), p.cuda())
    assert on_gpu.device.type == "cuda"
    close(on_gpu.cpu(), expected)


@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-4), (torch.bfloat16, 0.25)], ids=str)
def test_dtype(scheme, dtype, near):
    x, p = words(), torch.arange(L)
    expected = layer(scheme, x, p)
    o = layer(scheme.to(dtype), x.to(dtype), p)
    assert o.dtype == dtype
    close(o.double(), expected, near)


@pytest.mark.parametrize("causal", [False, True])
def test_gradient(scheme, causal):
    """Along a random direction in the input and all parameters, against a difference of two outputs."""
    scheme.requires_grad_()
    x = words(4).requires_grad_()
    p = torch.tensor([2, 0, 3, 7])
    weight = torch.randn(B, H, 4, d, dtype=torch.float64)
    inputs = [x, *scheme.parameters()]
    directions = [torch.randn_like(value) for value in inputs]
    gradients = torch.autograd.grad((layer(scheme, x, p, causal) * weight).sum(), inputs, allow_unused=True)
    slope = sum((g * u).sum() for g, u in zip(gradients, directions, strict=True) if g is not None)
    step, ends = 1e-6, []
    with torch.no_grad():
        for sign in (1, -2, 1):
            for value, u in zip(inputs, directions, strict=True):
                value += sign * step * u
            ends.append((layer(scheme, x, p, causal) * weight).sum())
    assert ends[0] != ends[1]
    torch.testing.assert_close((ends[0] - ends[1]) / (2 * step), slope, rtol=1e-4, atol=1e-6)


def test_no_token_and_one_token(scheme):
    for n in (0, 1):
        x, p = words(n), torch.arange(n)
        o = layer(scheme, x, p)
        assert o.shape == (B, H, n, d)
        if "value" not in scheme.places:
            close(o, list(parts(scheme, x, p))[2])
    q, k, v = parts(scheme, words(3), torch.arange(3))
    nothing = torch.arange(0)
    without = attend(q, k[:, :, :0], v[:, :, :0], scheme, False, torch.arange(3), nothing, x=words(3)[:, :0])
    assert torch.equal(without, torch.zeros_like(q))


@pytest.mark.parametrize("last", [1, 3])
def test_cached_is_whole(scheme, last):
    x, p = words(), torch.arange(L)
    close(layer(scheme, x, p, last=last), layer(scheme, x, p)[:, :, L - last :])
    q, k, v = parts(scheme, x, p)
    by_default = attend(q[:, :, L - last :], k, v, scheme, True, x=x)
    close(by_default, attend(q, k, v, scheme, True, x=x)[:, :, L - last :])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("side", PADDING)
def test_padded_is_alone(scheme, side, causal):
    x, padding = words(), PADDING[side]
    together = layer(scheme, x, positions_without_padding(padding), causal, padding)
    for b in range(B):
        real = ~padding[b]
        alone = layer(scheme, x[b : b + 1, real], torch.arange(int(real.sum())), causal)
        close(together[b : b + 1, :, real], alone)


def test_packed_is_alone(scheme):
    """Two texts in a row, under a mask; relative positions may start anywhere, others start again."""
    x, first = words(), 4
    start = 100 if scheme.relative else 0
    p = torch.cat([torch.arange(first), start + torch.arange(L - first)]).expand(B, -1)
    text = (torch.arange(L) >= first).long()
    same = (text[:, None] == text).expand(B, -1, -1)
    together = layer(scheme, x, p, mask=same)
    for part in (slice(0, first), slice(first, L)):
        close(together[:, :, part], layer(scheme, x[:, part], p[0, part]))


@pytest.mark.parametrize("causal", [False, True])
def test_batch_is_one_by_one(scheme, causal):
    x = words()
    together = layer(scheme, x, SCATTERED, causal)
    for b in range(B):
        close(together[b : b + 1], layer(scheme, x[b : b + 1], SCATTERED[b], causal))
    close(layer(scheme, x, torch.arange(L).expand(B, -1), causal), layer(scheme, x, torch.arange(L), causal))


MASK = torch.ones(L, L, dtype=torch.bool).tril(2).triu(-3)
PLACES = {"from 0": torch.arange(L), "shifted": torch.arange(L) + 9, "scattered": SCATTERED[0], "batch": SCATTERED}
ASKED = (  # of so many last queries, under these masks
    (L, {}),
    (2, {}),
    (L, {"key_padding_mask": PADDING["right"]}),
    (3, {"mask": MASK[L - 3 :], "key_padding_mask": PADDING["left"]}),
    (L, {"mask": MASK.expand(B, L, L)}),
)


@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 0.1)])
def test_fused_is_plain(scheme, dtype, near):
    """Whatever route attention takes, it is softmax(s) (v + value bias)."""
    scheme = scheme.to(dtype)
    for p, causal, (n, masks) in itertools.product(PLACES.values(), (False, True), ASKED):
        x = words().to(dtype)
        q, k, v = parts(scheme, x, p)
        q, points = q[:, :, L - n :], on_axes(scheme, p)
        own = points[..., L - n :] if scheme.num_axes is None else points[..., L - n :, :]
        where = {"causal": causal, "query_positions": own, "key_positions": points, "x": x}
        w = weights(q, k, scheme, **where, **masks)
        plain = w @ v
        bias = scheme.at(own, points, like=q).value_bias(w, d)
        fused = attend(q, k, v, scheme, **where, **masks)
        assert fused.dtype == dtype
        close(fused, plain if bias is None else plain + bias, near)


def copies(scheme_class, variant, scheme):
    """The same scheme by four ways."""
    other = drawn(scheme_class, seed=1, variant=variant)
    other.load_state_dict(scheme.state_dict())
    yield other
    yield copy.deepcopy(scheme)
    yield pickle.loads(pickle.dumps(scheme))
    yield copy.deepcopy(scheme).to(torch.float64)


@pytest.mark.parametrize("case", CASES)
def test_saved_and_copied(case):
    name, variant = CASES[case]
    scheme = drawn(CLASSES[name], variant=variant)
    expected = layer(scheme, words(), SCATTERED)
    for same in copies(CLASSES[name], variant, scheme):
        assert torch.equal(layer(same, words(), SCATTERED), expected)
        assert repr(same) == repr(scheme)


@pytest.mark.parametrize("name", CLASSES)
def test_compile(name):
    scheme, x = drawn(CLASSES[name]), words()
    q, k, v = parts(scheme, x, torch.arange(L))
    torch._dynamo.reset()
    compiled = torch.compile(lambda q, k, v, x: attend(q, k, v, scheme, True, x=x), backend="eager")
    close(compiled(q, k, v, x), attend(q, k, v, scheme, True, x=x))


def test_repr_names_every_argument(scheme):
    shown = repr(scheme)
    assert shown.startswith(f"{type(scheme).__name__}(")
    for argument in inspect.signature(type(scheme)).parameters:
        assert f"{argument}=" in shown


@pytest.mark.parametrize("name", CLASSES)
def test_what_positions_decide_is_computed_once_per_forward(name):
    scheme = drawn(CLASSES[name]).float()
    calls = []

    def counted(method, ask):
        return lambda *arguments: calls.append(method) or ask(*arguments)

    for method in ("embed", "per_token", "per_pair", "distance_bias"):
        if hasattr(scheme, method):
            setattr(scheme, method, counted(method, getattr(scheme, method)))
    model = TinyTransformer(scheme, vocabulary=9, num_layers=3)
    model(torch.randint(9, (2, 5)))
    assert len(calls) == len(set(calls)), calls
    assert bool(calls) == bool(scheme.places)


def test_wrong_positions_are_refused(scheme):
    q, k, v = parts(scheme, words(), torch.arange(L))
    with pytest.raises(ValueError, match=f"key_positions must have {L} entries"):
        attend(q, k, v, scheme, False, on_axes(scheme, torch.arange(L)), on_axes(scheme, torch.arange(L + 1)))
    with pytest.raises(ValueError, match=f"query_positions must have B = {B} rows"):
        attend(q, k, v, scheme, False, on_axes(scheme, torch.arange(3 * L).view(3, L)))
    with pytest.raises(TypeError, match="query_positions must be a tensor"):
        attend(q, k, v, scheme, False, list(range(L)))
