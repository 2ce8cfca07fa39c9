"""What the authors of each scheme would choose in a given model: settings as data, with a reason each.

A scheme without an entry gets what it requires, from :data:`posenc_lib.lab.catalog.SIZES` and the sizes of the model.
"""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from posenc_lib import validate
from posenc_lib.lab.catalog import build, scheme_classes
from posenc_lib.scheme import PositionScheme
from posenc_lib.schemes.context_extension import ntk_aware, position_interpolation, yarn
from posenc_lib.schemes.rope import Rotary
from posenc_lib.schemes.temperature import QueryTemperature


class Frame(NamedTuple):
    """The model and the texts that a scheme is to work in.

    length: tokens of a text in training.
    longest: tokens of the longest text in a test.
    causal: whether a token sees only what is before it.
    grid: whether the tokens stand on a grid; a scheme whose positions are numbers gets their places in reading order.
    dim, num_heads: width D of the model and heads H.
    """

    length: int
    longest: int
    causal: bool = True
    grid: bool = False
    dim: int = 64
    num_heads: int = 4

    @property
    def head_dim(self) -> int:
        """Width d of a head."""
        return self.dim // self.num_heads


class Setting(NamedTuple):
    """How a scheme is set, and why.

    arguments: what the constructor is given, as JSON keeps it, for a frame.
    reason: one line.
    left_out: why the scheme is not trained in a frame; None if it is.
    rate: how many times as fast as the rest of the model what the scheme learns is learned.
    """

    arguments: Callable[[Frame], dict[str, Any]]
    reason: str
    left_out: Callable[[Frame], str | None] = lambda frame: None
    rate: float = 1.0


def _nothing(frame: Frame) -> dict[str, Any]:
    return {}


def _half(name: str) -> Callable[[Frame], dict[str, Any]]:
    return lambda frame: {name: frame.length // 2}


def _looks_back(frame: Frame) -> str | None:
    return None if frame.causal else "it tells a query nothing about the keys after it"


REQUIRED = Setting(_nothing, "its required arguments; no setting of its authors is entered")
SETTINGS: dict[str, Setting] = {
    "Alibi": Setting(_nothing, "nothing to choose: the slopes follow from the number of heads"),
    "AxialRotary": Setting(
        lambda frame: {"num_axes": 2},
        "base 10 000 as published for RoPE; half of the pairs for rows, half for columns",
        lambda frame: None if frame.grid else "its positions are points on a grid",
    ),
    "Cope": Setting(
        _half("max_position"), "counts to half the training length, so that the last row is trained", _looks_back
    ),
    "Deberta": Setting(
        _half("max_relative_positions"),
        "half the training length, so that the row of all far tokens is trained (published: 512 at 512)",
    ),
    "DecoupledRotary": Setting(_nothing, "half of a head is rotated (published: 64 of 192 components); base 10 000"),
    "Fire": Setting(
        lambda frame: {"c": 0.1, "threshold": frame.length / 4},
        "c and the share of the training length as published: 512 at 2 048; from there on distances are interpolated",
    ),
    "Fox": Setting(_nothing, "gates start nearly open, as in the code that is published"),
    "Huang": Setting(
        lambda frame: {"max_length": frame.longest},
        "method 4, the best in the paper; a row for every distance, those beyond the training stay as drawn",
    ),
    "Kerple": Setting(_nothing, "the logarithmic kernel, the best in the paper, drawn as in its code"),
    "Learned": Setting(
        lambda frame: {"max_length": frame.longest},
        "a row for every place; those beyond the training stay as drawn, as nothing in the scheme says more",
    ),
    "LearnedProfile": Setting(
        lambda frame: {"max_distance": frame.length},
        "curves as long as the training; farther keys are compared by content alone, as the formula says",
        _looks_back,
    ),
    "MRope": Setting(
        lambda frame: {"sections": _sections(frame.head_dim // 2), "in_turn": True},
        "rows and columns take the pairs in turn, as in Qwen3-VL, so that both have fast ones",
        lambda frame: None if frame.grid else "in a text all its coordinates are equal, and it is RoPE",
    ),
    "MusicTransformer": Setting(
        lambda frame: {"max_length": frame.longest},
        "a row for every distance, shared by the heads; those beyond the training stay as drawn",
        _looks_back,
    ),
    "Nezha": Setting(_half("clip"), "clips below the training length (published: 64 at 128 and 512)"),
    "NoPosition": Setting(_nothing, "nothing to choose"),
    "PaTH": Setting(_nothing, "the paper's factors; its short convolution and gates are other schemes", _looks_back),
    "QueryTemperature": Setting(
        lambda frame: {"every": frame.length},
        "one step per training length, as in Ministral 3 (beta .1)",
        lambda frame: "within the training length it changes nothing: it is tested on what RoPE has learned",
    ),
    "Rotary": Setting(lambda frame: {"base": 10_000.0}, "base 10 000 as published, all components"),
    "SelectiveRotary": Setting(_nothing, "factors of base 10 000, as RoPE beside it; steps start at 1"),
    "Shaw": Setting(_half("clip"), "clips below the training length (published: 16 for sentences)"),
    "Sinusoidal": Setting(_nothing, "base 10 000 as published"),
    "T5Bias": Setting(
        lambda frame: {"bidirectional": not frame.causal, "max_distance": 3 * frame.length // 4},
        "32 buckets, the last within the training length and so trained (published: 128 at 512); a higher rate for "
        "them, as T5's optimizer (Adafactor) moves in larger steps what is larger",
        rate=10.0,
    ),
    "Tener": Setting(_nothing, "nothing to choose"),
    "TransformerXL": Setting(_nothing, "nothing to choose"),
    "XLNet": Setting(_nothing, "nothing to choose", lambda frame: "without segments it is Transformer-XL's score"),
    "XPos": Setting(
        _half("scale_base"), "decays over half the training length, as published (512 at 1 024); base 10 000"
    ),
}  # fmt: skip


def _sections(pairs: int) -> tuple[int, int]:
    return pairs - pairs // 2, pairs // 2


def setting(scheme: str) -> Setting:
    """That of the class with this name; one without reason of its own if it has no entry."""
    return SETTINGS.get(scheme, REQUIRED)


def arguments(scheme: str, frame: Frame) -> dict[str, Any]:
    """What its authors would give the constructor of a scheme in this frame, without the sizes of the model.

    Args:
        scheme: name of the class.
        frame: the model and the texts.
    Raises:
        ValueError: an unknown scheme.
        TypeError: an entry with an argument that the scheme does not have.
    Example:
        >>> from posenc_lib.lab.settings import Frame
        >>> arguments("T5Bias", Frame(length=32, longest=256))
        {'bidirectional': False, 'max_distance': 24}
    """
    classes = scheme_classes()
    known = inspect.signature(classes[validate.choice("scheme", scheme, tuple(classes))]).parameters
    given = setting(scheme).arguments(frame)
    if unknown := sorted(set(given) - set(known)):
        raise TypeError(f"the setting of {scheme} has {unknown[0]}, which must be one of {sorted(known)}")
    return given


def configured(scheme: str, frame: Frame) -> PositionScheme:
    """An instance as its authors would build it for this frame; what it draws comes from torch's generator.

    Example:
        >>> from posenc_lib.lab.settings import Frame
        >>> configured("Shaw", Frame(length=32, longest=256))
        Shaw(head_dim=16, clip=16, num_heads=None)
    """
    given = arguments(scheme, frame)
    sizes: dict[str, Any] = {
        "dim": frame.dim,
        "num_heads": frame.num_heads,
        "head_dim": frame.head_dim,
        "max_length": frame.longest,
    }
    return build(scheme_classes()[scheme], settings=given, **sizes)


EXTENDED = "Rotary"  # the scheme whose trained models the methods below change


def extensions(frame: Frame, factor: float, base: float = 10_000.0) -> dict[str, PositionScheme]:
    """What is done to a trained RoPE in a text ``factor`` times as long as those of the training, by name.

    Example:
        >>> from posenc_lib.lab.settings import Frame
        >>> list(extensions(Frame(length=32, longest=256), factor=2.0))
        ['position interpolation', 'NTK-aware', 'YaRN', 'YaRN, fast from 4 turns', 'query temperature']
    """
    d = frame.head_dim
    rescaled = {
        "position interpolation": position_interpolation(d, base, factor),
        "NTK-aware": ntk_aware(d, base, factor),
        # as published, a pair is fast from 32 turns in the training on; in 32 tokens the fastest makes 5
        "YaRN": yarn(d, base, factor, frame.length),
        "YaRN, fast from 4 turns": yarn(d, base, factor, frame.length, beta_fast=4.0),
    }
    schemes = {name: Rotary(d, base, rope_scaling=frequencies) for name, frequencies in rescaled.items()}
    return schemes | {"query temperature": QueryTemperature(every=frame.length, scheme=Rotary(d, base))}
