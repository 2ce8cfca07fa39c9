"""What an explorer shows, recorded for pages without a kernel: one control at a time, and groups that go together."""

import hashlib
import random
from collections.abc import Iterable
from itertools import product
from typing import Any

import ipywidgets

from posenc_lib.view.controls import SWEEP, Toggles, spread, sweep, text
from posenc_lib.view.explorer import Explorer, composed
from posenc_lib.view.pixels import webp

PAIR = 10  # values of each of the sliders that belong together, at most
RATIO = 2  # pixels per point
AGAIN = 6  # states of each explorer that are looked at again, and as a notebook that runs shows them
HEAVIEST = 900_000  # bytes of the pictures of one control
KINDS = {ipywidgets.Dropdown: "menu", ipywidgets.Checkbox: "box", Toggles: "row"}


def record(explorer: Explorer, most: int = SWEEP, pair: int = PAIR) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Every value of each control with the others at the start; every combination of those that belong together.

    A slider whose pictures would be heavier than ``HEAVIEST`` has fewer values, spread evenly over them.

    The explorer is left as it was, but draws with ``RATIO`` pixels per point from then on.

    Args:
        explorer: what to record.
        most: values of a control at most.
        pair: values of each of the sliders that belong together, at most.
    Returns:
        What the page has to know, for JSON: alt text, width in points, controls, and states by what is set;
        and the pictures by name, WebP. A state is a list: layer, background (both null where the picture stays as it
        was), words, and the values of all controls as texts if some of them had to move.
    Raises:
        RuntimeError: if a state looks different when the explorer comes to it a second time, from other states, or when
            it is shown as in a notebook that runs.
    """
    live, start, pictures = explorer.encode, explorer.values, {}
    explorer.encode = webp
    explorer.ratio = RATIO

    def keep(data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()[:16]
        pictures[name] = data
        return name

    def state(**values: object) -> list:
        followed = explorer.set(**start | values)
        background, layer = map(keep, explorer.layers) if followed else (None, None)
        asked, controls = start | values, explorer.controls
        moved = {name: text(controls[name], v) for name, v in explorer.values.items() if v != asked[name]}
        return [layer, background, explorer.words, moved]

    def named(shown: Iterable[list]) -> list[str]:
        return list(dict.fromkeys(picture for one in shown for picture in one[:2] if picture))

    def swept(name: str, control: ipywidgets.Widget) -> tuple[list, list[list]]:
        values = sweep(control, most)
        shown = [state(**{name: value}) for value in values]
        weight = sum(len(pictures[picture]) for picture in named(shown))
        if weight <= HEAVIEST or type(control) in KINDS:
            return values, shown
        few = spread(len(values), values.index(start[name]), max(3, int(len(values) * HEAVIEST / weight)))
        return [values[n] for n in few], [shown[n] for n in few]

    sweeps, wanted, states, controls, together = {}, {}, {}, [], []
    for name, control in explorer.controls.items():
        sweeps[name], shown = swept(name, control)
        for n, value in enumerate(sweeps[name]):
            wanted[f"{name}={n}"], states[f"{name}={n}"] = {name: value}, shown[n]
        described = {"name": name, "label": control.description, "kind": KINDS.get(type(control), "slider")}
        described["texts"] = [text(control, value) for value in sweeps[name]]
        described["start"] = sweeps[name].index(start[name])
        if isinstance(control, Toggles):
            described |= {"names": control.names, "values": sweeps[name]}
        controls.append(described)
    for names in explorer.together:
        places = []
        for name in names:
            count, few = len(sweeps[name]), type(explorer.controls[name]) in KINDS  # of a menu all values
            places.append(spread(count, sweeps[name].index(start[name]), count if few else pair))
        together.append({"names": names, "places": places})
        for here in product(*places):
            key = ",".join(f"{name}={n}" for name, n in zip(names, here, strict=True))
            wanted[key] = {name: sweeps[name][n] for name, n in zip(names, here, strict=True)}
            states[key] = state(**wanted[key])
    again = random.Random(0).sample(list(wanted), min(AGAIN, len(wanted)))
    for key in again:
        if state(**wanted[key]) != states[key]:
            raise RuntimeError(f"the explorer {explorer.alt!r} at {key} depends on what it showed before")
    explorer.encode = live
    for key in again:
        layer, background = states[key][:2]
        if not explorer.set(**start | wanted[key]):
            continue
        both = composed(*explorer.layers, explorer.margins), composed(pictures[background], pictures[layer])
        if both[0].tobytes() != both[1].tobytes():
            raise RuntimeError(f"the explorer {explorer.alt!r} at {key} is recorded other than it is shown")
    explorer.set(**start)
    pictures = {name: pictures[name] for name in named(states.values())}
    page = {"alt": explorer.alt, "width": explorer.width, "play": explorer.play, "together": together}
    page["resets"] = {name: list(others) for name, others in explorer.resets.items()}
    return page | {"controls": controls, "states": states}, pictures
