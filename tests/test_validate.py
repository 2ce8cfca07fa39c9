"""Refusals name the argument and the value, and what is accepted comes back unchanged."""

import math
import re

import numpy as np
import pytest
import torch

from posenc_lib import validate


@pytest.mark.parametrize("value", [3, -2.5, 0, np.float64(1.5), np.int64(4)])
def test_real_returns_its_argument(value):
    assert validate.real("base", value) == value


@pytest.mark.parametrize("value", [8, np.int64(8), np.int8(8)])
def test_integer_returns_a_plain_int(value):
    result = validate.integer("clip", value, at_least=8, even=True)
    assert type(result) is int
    assert result == 8


@pytest.mark.parametrize("dtype", validate.INTEGER_DTYPES)
def test_positions_of_every_integer_dtype_pass_through(dtype):
    p = torch.arange(3).to(dtype)
    assert validate.positions("positions", p, length=3) is p
    assert validate.integers("positions", p) is p


@pytest.mark.parametrize("shape, dims", [("(L,)", 1), ("(B, Lk)", 2), ("(d/2,)", 1), ("(B, H, L, d)", 4)])
def test_tensor_counts_the_axes_that_the_shape_names(shape, dims):
    x = torch.zeros((2,) * dims)
    assert validate.tensor("x", x, shape=shape) is x
    for other in {dims - 1, dims + 1}:
        with pytest.raises(ValueError, match=re.escape(shape)):
            validate.tensor("x", torch.zeros((2,) * other), shape=shape)


def test_other_good_values_come_back():
    x = torch.zeros(2, 5, dtype=torch.bfloat16)
    assert validate.floating("x", x) is x
    assert validate.last_axis("x", x, 5) is x
    assert validate.width("dim", 2) == 2
    assert validate.choice("layout", "half", ("interleaved", "half")) == "half"
    assert validate.vectors("x", x) is x
    for p in (torch.arange(3), torch.zeros(2, 1, 3, dtype=torch.int8)):
        assert validate.positions("p", p, length=3) is p
        assert validate.coordinates("p", p) is p
    assert validate.coordinates("p", x) is x
    assert validate.vector("p", INTS, length=3) is INTS
    assert validate.heads("q", Q, 2, 4) is validate.heads("q", Q, None, 4) is Q
    for p in (INTS, INTS.expand(2, -1)):
        validate.embedded(X, p, 8)


INTS, FLOATS, Q, X = torch.arange(3), torch.zeros(3), torch.zeros(1, 2, 3, 4), torch.zeros(2, 3, 8)
REFUSED = [
    (lambda: validate.real("base", "10"), TypeError, ("base", "'10'", "str")),
    (lambda: validate.real("base", None), TypeError, ("base", "None")),
    (lambda: validate.real("base", True), TypeError, ("base", "True")),
    (lambda: validate.real("base", 1j), TypeError, ("base", "1j")),
    (lambda: validate.real("base", FLOATS), TypeError, ("base", "Tensor")),
    (lambda: validate.real("base", math.nan), ValueError, ("base", "nan", "finite")),
    (lambda: validate.real("base", math.inf), ValueError, ("base", "inf", "finite")),
    (lambda: validate.real("base", -math.inf), ValueError, ("base", "-inf", "finite")),
    (lambda: validate.real("base", 0, above=0), ValueError, ("base", "got 0", "greater than 0")),
    (lambda: validate.real("base", 1.5, above=2.5), ValueError, ("base", "1.5", "greater than 2.5")),
    (lambda: validate.integer("clip", 2.0), ValueError, ("clip", "2.0", "integer")),
    (lambda: validate.integer("clip", True), TypeError, ("clip", "True")),
    (lambda: validate.integer("clip", "4"), TypeError, ("clip", "'4'")),
    (lambda: validate.integer("clip", -1, at_least=0), ValueError, ("clip", "-1", "at least 0")),
    (lambda: validate.width("dim", 7), ValueError, ("dim", "7", "even")),
    (lambda: validate.width("dim", 0), ValueError, ("dim", "0", "at least 1")),
    (lambda: validate.width("dim", -4), ValueError, ("dim", "-4", "at least 1")),
    (lambda: validate.choice("layout", "split", ("a", "b")), ValueError, ("layout", "'split'", "'a', 'b'")),
    (lambda: validate.tensor("q", [1.0], shape="(L,)"), TypeError, ("q", "list", "(L,)")),
    (lambda: validate.tensor("q", FLOATS, shape="(B, L)"), ValueError, ("q", "(3,)", "(B, L)")),
    (lambda: validate.floating("q", INTS), TypeError, ("q", "int64")),
    (lambda: validate.floating("q", FLOATS + 0j), TypeError, ("q", "complex64")),
    (lambda: validate.last_axis("q", FLOATS, 4), ValueError, ("q", "4", "got 3")),
    (lambda: validate.integers("r", 3), TypeError, ("r", "int")),
    (lambda: validate.integers("r", FLOATS), TypeError, ("r", "float32")),
    (lambda: validate.positions("p", [0, 1]), TypeError, ("p", "list")),
    (lambda: validate.positions("p", FLOATS), TypeError, ("p", "float32")),
    (lambda: validate.positions("p", FLOATS.bool()), TypeError, ("p", "bool")),
    (lambda: validate.positions("p", INTS[0]), ValueError, ("p", "(..., L)", "single number")),
    (lambda: validate.positions("p", INTS, length=4), ValueError, ("p", "4", "got 3")),
    (lambda: validate.positions("p", INTS.view(3, 1), length=3), ValueError, ("p", "3", "got 1")),
    (lambda: validate.vector("p", [0, 1]), TypeError, ("p", "list", "(L,)")),
    (lambda: validate.vector("p", INTS[None]), ValueError, ("p", "(L,)", "(1, 3)")),
    (lambda: validate.vector("p", FLOATS), TypeError, ("p", "float32")),
    (lambda: validate.vector("p", INTS, length=2), ValueError, ("p", "2", "got 3")),
    (lambda: validate.coordinates("p", [0.5]), TypeError, ("p", "list")),
    (lambda: validate.coordinates("p", INTS > 1), TypeError, ("p", "bool")),
    (lambda: validate.coordinates("p", FLOATS + 0j), TypeError, ("p", "complex64")),
    (lambda: validate.vectors("x", [1.0]), TypeError, ("x", "list", "(..., L, d)")),
    (lambda: validate.vectors("x", FLOATS), ValueError, ("x", "(..., L, d)", "(3,)")),
    (lambda: validate.vectors("x", INTS[None]), TypeError, ("x", "int64")),
    (lambda: validate.heads("q", Q[0], 2, 4), ValueError, ("q", "(B, H, L, d)", "(2, 3, 4)")),
    (lambda: validate.heads("q", Q, 2, 6), ValueError, ("q", "head_dim = 6", "got 4")),
    (lambda: validate.heads("q", Q, 3, 4), ValueError, ("q", "num_heads = 3", "got 2")),
    (lambda: validate.heads("q", None, 3, 4), TypeError, ("q", "NoneType")),
    (lambda: validate.embedded(X[0], INTS, 8), ValueError, ("x", "(B, L, D)", "(3, 8)")),
    (lambda: validate.embedded(X.long(), INTS, 8), TypeError, ("x", "int64")),
    (lambda: validate.embedded(X, INTS, 6), ValueError, ("x", "width 6", "got 8")),
    (lambda: validate.embedded(X, FLOATS, 8), TypeError, ("positions", "float32")),
    (lambda: validate.embedded(X, INTS[:2], 8), ValueError, ("positions", "(3,)", "(2, 3)", "got (2,)")),
    (lambda: validate.embedded(X, INTS[None], 8), ValueError, ("positions", "(2, 3)", "got (1, 3)")),
]


@pytest.mark.parametrize(
    "call, error, words", REFUSED, ids=lambda value: "-".join(value) if type(value) is tuple else ""
)
def test_refusal_names_argument_and_value(call, error, words):
    with pytest.raises(error) as refusal:
        call()
    assert refusal.type is error
    for word in words:
        assert word in str(refusal.value)
