"""Every scheme of the library, found in the modules of posenc_lib.schemes: a new module needs no entry anywhere."""

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from typing import Any

from posenc_lib import schemes, validate
from posenc_lib.scheme import PositionScheme

# Values for the arguments that schemes require, by the name that they have in all of them; D = num_heads * head_dim.
SIZES: dict[str, Any] = {
    "dim": 64,
    "num_heads": 4,
    "head_dim": 16,
    "max_length": 512,
    "clip": 32,
    "max_relative_positions": 32,
    "sections": (2, 3, 3),
    "every": 4,
}


def scheme_classes() -> dict[str, type[PositionScheme]]:
    """The classes of all schemes by their names, in the order of their modules' names."""
    found = {}
    for info in pkgutil.iter_modules(schemes.__path__):
        module = importlib.import_module(f"{schemes.__name__}.{info.name}")
        for name, value in vars(module).items():
            if isinstance(value, type) and issubclass(value, PositionScheme) and value.__module__ == module.__name__:
                found[name] = value
    return found


def build(
    scheme_class: type[PositionScheme],
    variant: str | None = None,
    settings: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> PositionScheme:
    """An instance whose required arguments come from ``sizes``, or else from ``SIZES``.

    With the name of one of its variants it has also the settings of that, and ``settings`` are arguments that go before
    all others.

    Raises:
        TypeError: if a required argument has a value in neither.
        ValueError: an unknown variant.
    """
    if variant is not None:
        validate.choice("variant", variant, tuple(scheme_class.variants))
    values, given = SIZES | sizes, dict(scheme_class.variants[variant] if variant else {})
    given |= settings or {}
    for name, parameter in inspect.signature(scheme_class).parameters.items():
        required = parameter.default is parameter.empty
        if required and name not in given:
            if name not in values:
                raise TypeError(f"{scheme_class.__name__} requires {name}, which must be one of {sorted(values)}")
            given[name] = values[name]
    return scheme_class(**given)


def name_of(scheme: str) -> str:
    """A scheme as its authors write it, from the name of its class; what comes after a comma stays.

    Example:
        >>> name_of("Alibi"), name_of("Rotary, YaRN")
        ('ALiBi', 'RoPE, YaRN')
    """
    known = scheme_classes()
    name, *more = scheme.split(", ", 1)
    return ", ".join([known[validate.choice("scheme", name, tuple(known))].name, *more])
