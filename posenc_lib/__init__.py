"""How does a transformer know where a token is? The library behind the notebooks.

Everything for a model of one's own can be imported from here; torch is loaded when the first of these names is used.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posenc_lib.attention import attend as attend
    from posenc_lib.attention import scores as scores
    from posenc_lib.attention import weights as weights
    from posenc_lib.scheme import DistanceBias as DistanceBias
    from posenc_lib.scheme import PositionScheme as PositionScheme
    from posenc_lib.schemes.alibi import Alibi as Alibi
    from posenc_lib.schemes.cope import Cope as Cope
    from posenc_lib.schemes.deberta import Deberta as Deberta
    from posenc_lib.schemes.decoupled import DecoupledRotary as DecoupledRotary
    from posenc_lib.schemes.fire import Fire as Fire
    from posenc_lib.schemes.fox import Fox as Fox
    from posenc_lib.schemes.grid import AxialRotary as AxialRotary
    from posenc_lib.schemes.grid import MRope as MRope
    from posenc_lib.schemes.huang import Huang as Huang
    from posenc_lib.schemes.kerple import Kerple as Kerple
    from posenc_lib.schemes.learned import Learned as Learned
    from posenc_lib.schemes.learned_profile import LearnedProfile as LearnedProfile
    from posenc_lib.schemes.music_transformer import MusicTransformer as MusicTransformer
    from posenc_lib.schemes.nezha import Nezha as Nezha
    from posenc_lib.schemes.none import NoPosition as NoPosition
    from posenc_lib.schemes.path import PaTH as PaTH
    from posenc_lib.schemes.rope import Rotary as Rotary
    from posenc_lib.schemes.selective import SelectiveRotary as SelectiveRotary
    from posenc_lib.schemes.shaw import Shaw as Shaw
    from posenc_lib.schemes.sinusoidal import Sinusoidal as Sinusoidal
    from posenc_lib.schemes.t5 import T5Bias as T5Bias
    from posenc_lib.schemes.temperature import QueryTemperature as QueryTemperature
    from posenc_lib.schemes.tener import Tener as Tener
    from posenc_lib.schemes.transformer_xl import TransformerXL as TransformerXL
    from posenc_lib.schemes.xlnet import XLNet as XLNet
    from posenc_lib.schemes.xpos import XPos as XPos

__version__ = "0.2.0"

HOMES = {
    "attend": "attention",
    "scores": "attention",
    "weights": "attention",
    "DistanceBias": "scheme",
    "PositionScheme": "scheme",
    "Alibi": "schemes.alibi",
    "AxialRotary": "schemes.grid",
    "Cope": "schemes.cope",
    "Deberta": "schemes.deberta",
    "DecoupledRotary": "schemes.decoupled",
    "Fire": "schemes.fire",
    "Fox": "schemes.fox",
    "Huang": "schemes.huang",
    "Kerple": "schemes.kerple",
    "Learned": "schemes.learned",
    "LearnedProfile": "schemes.learned_profile",
    "MRope": "schemes.grid",
    "MusicTransformer": "schemes.music_transformer",
    "Nezha": "schemes.nezha",
    "NoPosition": "schemes.none",
    "PaTH": "schemes.path",
    "QueryTemperature": "schemes.temperature",
    "Rotary": "schemes.rope",
    "SelectiveRotary": "schemes.selective",
    "Shaw": "schemes.shaw",
    "Sinusoidal": "schemes.sinusoidal",
    "T5Bias": "schemes.t5",
    "Tener": "schemes.tener",
    "TransformerXL": "schemes.transformer_xl",
    "XLNet": "schemes.xlnet",
    "XPos": "schemes.xpos",
}
__all__ = ["__version__", *HOMES]


if not TYPE_CHECKING:  # or a type checker would take any name for one of these

    def __getattr__(name: str) -> object:
        """A public name, from the module that it lives in."""
        if name not in HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{HOMES[name]}"), name)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
