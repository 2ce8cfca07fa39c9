"""How values cross between the grader and the process of a submission.

To the submission they go as a pickle, functions included. Back they come as JSON of tensors, numbers, words and lists
of them: reading it runs no code, whatever a submission sends.
"""

import base64
import json
import math

import numpy as np
import torch

NAMES = "bool, uint8, int8, int16, int32, int64, float16, float32, float64, complex64, complex128"
DTYPES = {name: getattr(torch, name) for name in NAMES.split(", ")}
LARGEST = 12 * 2**20  # characters of an answer: a matrix of 1000 x 1000 float64 fits


def pack(value) -> object:
    """What ``json.dumps`` takes for a value.

    Raises:
        TypeError: for anything but tensors, arrays, numbers, words, None, and tuples, lists and dicts of them.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return pack(value.item())
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value)
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().resolve_conj().resolve_neg()
        name = str(value.dtype).removeprefix("torch.")
        if name not in DTYPES:
            raise TypeError(f"a tensor of {value.dtype} cannot be graded; use float64")
        data = base64.b64encode(value.contiguous().numpy().tobytes()).decode()
        return {"tensor": data, "dtype": name, "shape": list(value.shape)}
    if value is ...:
        return {"ellipsis": True}
    if isinstance(value, (tuple, list)):
        return {"tuple" if isinstance(value, tuple) else "list": [pack(item) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[pack(key), pack(item)] for key, item in value.items()]}
    raise TypeError(f"a {type(value).__name__} cannot be graded: return a tensor, a number, a word, or a list of them")


def unpack(packed) -> object:
    """The value that ``pack`` was given.

    Raises:
        ValueError, TypeError, KeyError: for anything that ``pack`` does not make.
    """
    if packed is None or isinstance(packed, (bool, int, float, str)):
        return packed
    if "tensor" in packed:
        dtype, shape = DTYPES[packed["dtype"]], packed["shape"]
        if not all(type(n) is int and n >= 0 for n in shape):
            raise ValueError(f"a shape holds whole numbers from 0 on, got {shape}")
        data = bytearray(base64.b64decode(packed["tensor"], validate=True))
        if len(data) != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{len(data)} bytes are no tensor of {packed['dtype']} and shape {shape}")
        if dtype == torch.bool:
            return unpack(packed | {"dtype": "uint8"}) != 0  # other bytes than 0 and 1 are no bool
        return torch.frombuffer(data, dtype=dtype).reshape(shape) if data else torch.zeros(shape, dtype=dtype)
    if "ellipsis" in packed:
        return ...
    if "dict" in packed:
        return {unpack(key): unpack(item) for key, item in packed["dict"]}
    if "tuple" in packed:
        return tuple(unpack(item) for item in packed["tuple"])
    return [unpack(item) for item in packed["list"]]


def look_up(namespace: dict, name: str) -> str:
    """In the submission's process: a value as JSON, or that the name is a function or missing."""
    if name not in namespace:
        return json.dumps({"missing": True})
    value = namespace[name]
    return json.dumps({"function": True}) if callable(value) else answer(value)


def call(namespace: dict, name: str, arguments: str) -> str:
    """In the submission's process: the JSON of what a function returns for pickled arguments."""
    import cloudpickle

    positional, named = cloudpickle.loads(base64.b64decode(arguments))
    return answer(namespace[name](*positional, **named))


def answer(value) -> str:
    """In the submission's process: the JSON of a value.

    Raises:
        ValueError: if it is too large to be sent.
    """
    text = json.dumps({"value": pack(value)})
    if len(text) > LARGEST:
        raise ValueError(f"an answer of {len(text) // 2**20} MB cannot be graded; {LARGEST // 2**20} MB is the most")
    return text
