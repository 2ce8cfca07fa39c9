"""Every test of a picture starts from matplotlib's own style and leaves no figure open."""

import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def _own_style():
    with plt.rc_context():
        plt.rcdefaults()
        plt.switch_backend("agg")
        yield
    plt.close("all")
