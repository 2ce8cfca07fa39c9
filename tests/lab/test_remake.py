"""A model made again is that of the trial."""

from posenc_lib.lab.remake import measured, remake
from posenc_lib.lab.trial import trial

SETTING = {"scheme": "Shaw", "task": "copy back", "seed": 3, "learning_rate": 3e-3, "length": 8, "maximum": 4}


def test_it_measures_what_the_trial_measured():
    assert measured(remake(**SETTING), **SETTING) == trial(**SETTING)["measure"]


def test_another_seed_is_another_model():
    other = SETTING | {"seed": 4}
    assert measured(remake(**other), **other) != measured(remake(**SETTING), **SETTING)


def test_the_scheme_may_learn_at_another_rate_than_its_own():
    t5, own = SETTING | {"scheme": "T5Bias", "length": 32}, {"own_rate": 1}
    assert measured(remake(**t5, **own), **t5) == trial(**t5, **own)["measure"]
    before, after = (remake(**t5, **rate).scheme.weight for rate in ({}, own))
    assert not before.equal(after)
