"""Values cross from a submission to the grader as they were, or not at all."""

import json
import math

import numpy as np
import pytest
import torch

import wire


def across(value):
    return wire.unpack(json.loads(json.dumps(wire.pack(value))))


@pytest.mark.parametrize("dtype", wire.DTYPES.values(), ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (5, 1, 7)])
def test_tensors_of_every_dtype_and_shape(dtype, shape):
    tensor = (10 * torch.rand(shape)).to(dtype)
    torch.testing.assert_close(across(tensor), tensor, rtol=0, atol=0)


def test_tensors_that_are_no_plain_memory():
    x = torch.randn(4, 6, dtype=torch.complex64, requires_grad=True)
    for tensor in (x.T, x[::2, 1::2], x.conj(), x.expand(3, 4, 6)):
        torch.testing.assert_close(across(tensor), tensor.detach().resolve_conj(), rtol=0, atol=0)


@pytest.mark.parametrize(
    "value", [None, True, 3, -1.5, "two", math.inf, ..., [1, [2.0, "x"]], (1, (2,)), {"a": 1, 2: [3]}]
)
def test_other_values(value):
    assert across(value) == value
    assert type(across(value)) is type(value)


def test_arrays_arrive_as_tensors_and_their_scalars_as_numbers():
    torch.testing.assert_close(across(np.arange(6).reshape(2, 3)), torch.arange(6).reshape(2, 3))
    assert across(np.float64(0.1)) == 0.1
    assert math.isnan(across(math.nan))


@pytest.mark.parametrize("value", [object(), {1, 2}, print, torch.zeros(2, dtype=torch.bfloat16), [object()]])
def test_other_things_are_refused_by_name(value):
    with pytest.raises(TypeError, match="cannot be graded"):
        wire.pack(value)


@pytest.mark.parametrize(
    "forged",
    [
        {},
        {"pickle": "gASVAAA="},
        {"tensor": "AAAA", "dtype": "__class__", "shape": [1]},
        {"tensor": "AAAA", "dtype": "uint8", "shape": [10**9]},
        {"tensor": "not base64", "dtype": "uint8", "shape": [3]},
        {"tensor": "", "dtype": "int64", "shape": [187]},  # nothing that stands for the grader's own memory
        {"tensor": "", "dtype": "int64", "shape": [2**30]},
        {"tensor": "AAAA", "dtype": "uint8", "shape": [-3, -1]},
        {"tensor": "AAAA", "dtype": "uint8", "shape": [3.0]},
        {"tensor": "AA==", "dtype": "uint8", "shape": [True]},
        {"list": 3},
        {"dict": [[{"list": []}, 1]]},
    ],
)
def test_what_pack_does_not_make_is_refused(forged):
    with pytest.raises((ValueError, TypeError, KeyError, RuntimeError)):
        wire.unpack(forged)


def test_a_bool_is_true_or_false_whatever_its_byte_is():
    forged = wire.unpack({"tensor": "Bwc=", "dtype": "bool", "shape": [2]})
    assert forged.view(torch.uint8).tolist() == [1, 1]


def test_an_answer_that_is_too_large_is_refused_where_it_is_made():
    assert wire.answer(np.zeros((1000, 1000)))
    with pytest.raises(ValueError, match="an answer of 20 MB cannot be graded; 12 MB is the most"):
        wire.answer("x" * 20 * 2**20)
