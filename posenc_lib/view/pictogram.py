"""Where a scheme enters attention, as one small picture that all notebooks share."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from posenc_lib.scheme import HOOKS, PLACES, Place, PositionScheme
from posenc_lib.view.figure import COLORS, show

INK, GREY, LIT, TINT = "#111111", "#6b6b6b", COLORS[0], "#cfe6f5"
# Every place with its symbol and the horizontal centre of its box, in units of a tenth of an inch.
BOXES: dict[Place, tuple[str, float]] = {
    "input": ("$x_i$", 17),
    "query and key": ("$q_i,\\; k_j$", 35.5),
    "score": ("$s_{ij}$", 52),
    "value": ("$v_j$", 77),
}
WIDTH: dict[Place, float] = {"input": 10, "query and key": 16, "score": 10, "value": 10}
HEIGHT, MIDDLE, BELOW = 6, 8.2, 2.2
STEPS = {"tokens": 4.5, "softmax": 65, "output": 88}


def used_places(scheme: PositionScheme) -> tuple[Place, ...]:
    """The places of a scheme at which it does something: it names them and defines a hook of theirs."""
    own, empty = type(scheme), PositionScheme
    defined = {place for hook, place in HOOKS.items() if getattr(own, hook) is not getattr(empty, hook)}
    return tuple(place for place in PLACES if place in scheme.places and place in defined)


def pictogram(scheme: PositionScheme, *more: PositionScheme) -> None:
    """Display the path from tokens to output, with those of the four places lit that one of the schemes uses."""
    schemes = (scheme, *more)
    lit = {place for one in schemes for place in used_places(one)}
    each = [f"{one.name}: {', '.join(used_places(one)) or 'nowhere'}" for one in schemes]
    show(
        draw(lit),
        caption=f"Four places where position can enter attention, and where it does. {'; '.join(each)}.",
        alt="The path of attention from tokens to output. Position enters at its coloured boxes. " + "; ".join(each),
    )


def draw(lit: set[Place]) -> Figure:
    """The path of attention, the places in ``lit`` in colour and bold and the others in grey."""
    fig = Figure(figsize=(9.2, 1.3), dpi=100, facecolor="white")
    fig.set_layout_engine("none")  # the style of the course has another, which would not find its axes
    ax = fig.add_axes((0, 0, 1, 1), xlim=(0, 92), ylim=(0, 13))
    ax.axis("off")
    for place, (symbol, x) in BOXES.items():
        _box(ax, place, symbol, x, place in lit)
    for word, x in STEPS.items():
        ax.text(x, MIDDLE, word, ha="center", va="center", size=12, color=INK)
    right = {place: x + WIDTH[place] / 2 for place, (_, x) in BOXES.items()}
    left = {place: x - WIDTH[place] / 2 for place, (_, x) in BOXES.items()}
    path = (
        (8.2, left["input"]),
        (right["input"], left["query and key"]),
        (right["query and key"], left["score"]),
        (right["score"], 61),
        (69, left["value"]),
        (right["value"], 84.6),
    )
    for start, end in path:
        _arrow(ax, (start, MIDDLE), (end, MIDDLE))
    fork, value = right["input"] + 2, BOXES["value"][1]
    ax.plot([fork, fork, value], [MIDDLE, BELOW, BELOW], color=INK, lw=1.3, solid_joinstyle="miter")
    _arrow(ax, (value, BELOW), (value, MIDDLE - HEIGHT / 2))
    return fig


def _box(ax: Axes, place: Place, symbol: str, x: float, lit: bool) -> None:
    ax.add_patch(
        FancyBboxPatch(
            (x - WIDTH[place] / 2, MIDDLE - HEIGHT / 2),
            WIDTH[place],
            HEIGHT,
            boxstyle="round,pad=0,rounding_size=1",
            facecolor=TINT if lit else "white",
            edgecolor=LIT if lit else "#a0a0a0",
            linewidth=2.5 if lit else 1.2,
            zorder=3,
        )
    )
    color = INK if lit else GREY
    name, weight = place.capitalize(), "bold" if lit else "normal"
    ax.text(x, MIDDLE + 1.3, name, ha="center", va="center", size=12, color=color, weight=weight, zorder=4)
    ax.text(x, MIDDLE - 1.5, symbol, ha="center", va="center", size=12, color=color, zorder=4)


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    style = {"arrowstyle": "-|>", "mutation_scale": 12, "color": INK, "lw": 1.3, "shrinkA": 0, "shrinkB": 1}
    ax.annotate("", end, start, arrowprops=style)
