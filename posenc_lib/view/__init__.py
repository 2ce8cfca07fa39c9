"""What a learner sees: figures with a caption and alt text, sliders that answer, checks that print."""

from posenc_lib.view.claims import holds
from posenc_lib.view.controls import choice, log_slider, slider, toggle, toggles
from posenc_lib.view.explorer import Explorer
from posenc_lib.view.figure import heatmap, show, use_style
from posenc_lib.view.labels import apart
from posenc_lib.view.pictogram import pictogram

__all__ = [
    "Explorer",
    "apart",
    "choice",
    "heatmap",
    "holds",
    "log_slider",
    "pictogram",
    "show",
    "slider",
    "toggle",
    "toggles",
    "use_style",
]
