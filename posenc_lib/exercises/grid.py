"""Checks of the exercises in notebook 16."""

from collections.abc import Sequence

import torch
from torch import Tensor

from posenc_lib.exercises.check import Check
from posenc_lib.lab.measure import randn
from posenc_lib.schemes.grid import axial_angles, grid_coordinates
from posenc_lib.schemes.rope import inverse_frequencies, rotate_by


def _offset(i: int, j: int, width: int) -> tuple[int, int]:
    return j // width - i // width, j % width - i % width


check_offset_on_grid = Check(
    "offset_on_grid",
    _offset,
    cases=[(3, 12, 8), (12, 3, 8), (7, 8, 8), (40, 17, 13), (5, 5, 9), (30, 31, 16)],
    mistakes=[
        (
            "you divided the difference j - i; the end of one row and the start of the next are 1 apart on the line, "
            "and far apart on the grid: find both places first",
            lambda i, j, width: ((j - i) // width, (j - i) % width),
        ),
        (
            "right up to the sign: relative position is key minus query",
            lambda i, j, width: tuple(-n for n in _offset(i, j, width)),
        ),
        ("you gave the column first; the row comes first", lambda i, j, width: _offset(i, j, width)[::-1]),
        ("you returned the row and column of the key; take those of the query off", lambda i, j, w: divmod(j, w)),
        (
            "you returned distances without a sign: above and below become the same",
            lambda i, j, width: tuple(abs(n) for n in _offset(i, j, width)),
        ),
    ],
)


def _by_axes(
    x: Tensor, coordinates: Tensor, base: float, order: Sequence[int] = (0, 1), layout: str = "interleaved"
) -> Tensor:
    return rotate_by(x, axial_angles(coordinates[:, list(order)], x.shape[-1], base), layout)


def _one_list(x: Tensor, coordinates: Tensor, base: float) -> Tensor:
    f = inverse_frequencies(x.shape[-1], base)
    return rotate_by(x, coordinates[:, [0] * (len(f) // 2) + [1] * (len(f) // 2)] * f)


def _in_turn(x: Tensor, coordinates: Tensor, base: float) -> Tensor:
    angles = axial_angles(coordinates, x.shape[-1], base).unflatten(-1, (2, -1)).mT.flatten(-2)
    return rotate_by(x, angles)


def _added(x: Tensor, coordinates: Tensor, base: float) -> Tensor:
    return rotate_by(x, coordinates.sum(-1, keepdim=True) * inverse_frequencies(x.shape[-1], base))


def _flat(x: Tensor, coordinates: Tensor, base: float) -> Tensor:
    return rotate_by(x, torch.arange(len(x))[:, None] * inverse_frequencies(x.shape[-1], base))


check_axial = Check(
    "axial",
    _by_axes,
    cases=[
        (randn(15, 8, seed=1), grid_coordinates(3, 5), 100.0),
        (randn(14, 32, seed=2), grid_coordinates(7, 2) + 30, 10_000.0),
        (randn(3, 16, seed=3), torch.tensor([[4, -1], [0, 9], [2, 2]]), 50.0),
    ],
    mistakes=[
        (
            "each axis gets half of one list of frequencies; in axial RoPE each has a whole list, "
            "base**(-2t / (d/2)), so that rows and columns are treated alike",
            _one_list,
        ),
        (
            "columns turn the first half and rows the second; it is the other way round",
            lambda x, v, base: _by_axes(x, v, base, order=(1, 0)),
        ),
        ("you added the two coordinates before turning: (2, 5) and (5, 2) become one place", _added),
        (
            "rows and columns turn the pairs in turn; rows turn the first half of the pairs, columns the second",
            _in_turn,
        ),
        (
            "you paired component t with t + d/2; in this layout a pair stands side by side",
            lambda x, v, base: _by_axes(x, v, base, layout="half"),
        ),
        ("you turned by the place on the line; the coordinates are given", _flat),
        ("you returned x as it came", lambda x, v, base: x),
    ],
)


def _joint(
    before: int, height: int, width: int, after: int, *, step: str = "larger", start: bool = True, time: str = "still"
) -> Tensor:
    text = torch.arange(before)[:, None].expand(-1, 3)
    picture = torch.cat([torch.zeros(height * width, 1, dtype=torch.int64), grid_coordinates(height, width)], dim=1)
    if time == "runs":
        picture[:, 0] = torch.arange(height * width)
    used = {
        "larger": max(height, width),
        "count": height * width,
        "last": max(height, width) - 1,
        "width": width,
        "one": 1,
    }[step]
    more = (before + used + torch.arange(after))[:, None].expand(-1, 3)
    return torch.cat([text, picture + before * start, more])


check_joint_positions = Check(
    "joint_positions",
    _joint,
    cases=[(4, 3, 5, 3), (2, 6, 2, 4), (0, 3, 3, 1), (7, 1, 1, 2)],
    mistakes=[
        (
            "the text goes on after all the patches, as on a line; it goes on at the largest coordinate plus 1",
            lambda *sizes: _joint(*sizes, step="count"),
        ),
        (
            "the text goes on at the largest coordinate of the picture: add 1",
            lambda *sizes: _joint(*sizes, step="last"),
        ),
        ("the text goes on after the width; a picture may be taller", lambda *sizes: _joint(*sizes, step="width")),
        ("the text goes on after the time of the picture only", lambda *sizes: _joint(*sizes, step="one")),
        (
            "the picture starts at 0 again; all three of its coordinates start where the text stopped",
            lambda *sizes: _joint(*sizes, start=False),
        ),
        ("time runs on within the picture; it is one moment", lambda *sizes: _joint(*sizes, time="runs")),
        (
            "right, but the coordinates are rows: the shape is (L, 3)",
            lambda *sizes: _joint(*sizes).T,
        ),
    ],
)
