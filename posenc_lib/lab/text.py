"""Real text without a download: the source code of Python's own standard library.

It differs a little between versions of Python, so a result on it may be compared as a coarse fact only.
"""

import sysconfig
from functools import cache
from pathlib import Path

import torch
from torch import Generator, Tensor

from posenc_lib import validate

CHARACTERS = 128  # ASCII; every other character becomes a question mark
MODULES = {  # long modules with much prose in them, and others to test on
    "train": ("argparse", "ast", "calendar", "csv", "datetime", "decimal", "difflib", "doctest", "enum", "heapq",
              "inspect", "ipaddress", "pathlib", "pickle", "random", "statistics", "subprocess", "tarfile", "typing"),
    "test": ("configparser", "functools", "optparse", "shutil", "textwrap", "threading", "zipfile"),
}  # fmt: skip


@cache
def characters(part: str) -> Tensor:
    """The text of one part, one int64 code from 0 to 127 for each character.

    Args:
        part: ``"train"`` or ``"test"``; they have no module in common.
    """
    folder = Path(sysconfig.get_path("stdlib"))
    texts = []
    for module in MODULES[validate.choice("part", part, tuple(MODULES))]:
        places = (folder / f"{module}.py", folder / f"_py{module}.py", folder / module / "__init__.py")
        texts.append(next(p for p in places if p.is_file()).read_text(encoding="utf-8"))
    return torch.tensor(list("\n".join(texts).encode("ascii", "replace")))


def next_character(batch: int, length: int, generator: Generator, part: str = "train") -> tuple[Tensor, Tensor]:
    """A task of the lab: pieces of the standard library; the answer is the next character. Vocabulary 128.

    Example:
        >>> text, following = next_character(2, 16, torch.Generator().manual_seed(0))
        >>> torch.equal(text[:, 1:], following[:, :-1])
        True
    """
    for name, value in (("batch", batch), ("length", length)):
        validate.integer(name, value, at_least=1)
    text = characters(part)
    start = torch.randint(len(text) - length, (batch, 1), generator=generator)
    piece = text[start + torch.arange(length + 1)]
    return piece[:, :-1], piece[:, 1:]
