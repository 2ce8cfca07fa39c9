"""Every scheme is found in its module and built from the sizes, with the settings of a variant if one is named."""

import pytest

import posenc_lib
from posenc_lib.lab.catalog import SIZES, build, scheme_classes
from posenc_lib.scheme import DistanceBias, PositionScheme
from posenc_lib.schemes.shaw import Shaw

CLASSES = scheme_classes()


def test_every_public_scheme_is_found():
    """There may be more: a new module is found before it is public."""
    public = {name: getattr(posenc_lib, name) for name, home in posenc_lib.HOMES.items() if home.startswith("schemes.")}
    assert len(public) > 20
    for name, scheme_class in public.items():
        assert CLASSES[name] is scheme_class


@pytest.mark.parametrize("name", CLASSES)
def test_what_is_found_is_a_scheme_in_a_module_of_its_own_that_needs_sizes_only(name):
    found = CLASSES[name]
    assert issubclass(found, PositionScheme) and found not in (PositionScheme, DistanceBias)
    assert found.__name__ == name and found.__module__.startswith("posenc_lib.schemes.")
    for variant in (None, *found.variants):
        assert type(build(found, variant)) is found


def test_sizes_that_are_given_go_before_those_of_the_catalog():
    scheme = build(Shaw)
    assert (scheme.head_dim, scheme.clip, scheme.num_heads) == (SIZES["head_dim"], SIZES["clip"], None)
    scheme = build(Shaw, clip=3)
    assert (scheme.head_dim, scheme.clip) == (SIZES["head_dim"], 3)


def test_a_variant_has_its_settings_and_they_go_before_the_sizes():
    class Two(PositionScheme):
        variants = {"narrow": {"head_dim": 6, "layout": "half"}}

        def __init__(self, head_dim, clip, layout="interleaved"):
            super().__init__()
            self.given = head_dim, clip, layout

    assert build(Two).given == (SIZES["head_dim"], SIZES["clip"], "interleaved")
    assert build(Two, "narrow").given == (6, SIZES["clip"], "half")
    assert build(Two, "narrow", clip=3).given == (6, 3, "half")
    assert Two.variants == {"narrow": {"head_dim": 6, "layout": "half"}}  # building changes nothing


def test_an_unknown_variant_is_named():
    with pytest.raises(ValueError, match=r"variant must be one of 'half', .*got 'third'"):
        build(CLASSES["Rotary"], "third")


def test_a_required_argument_without_a_value_is_named():
    class Demanding(PositionScheme):
        def __init__(self, colour):
            super().__init__()

    with pytest.raises(TypeError, match="Demanding requires colour"):
        build(Demanding)
    assert isinstance(build(Demanding, colour=1), Demanding)


def test_each_scheme_has_a_name_of_its_own():
    names = {cls.name: cls for cls in CLASSES.values()}
    assert len(names) == len(CLASSES) and all(name.strip() for name in names)
    assert names["ALiBi"] is CLASSES["Alibi"]

    class Mine(CLASSES["Alibi"]):
        pass

    assert Mine.name == "Mine"
