import matplotlib
import pytest

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _close_figures():
    """Pictures of one test do not pile up in the next; nor does any test change matplotlib's settings."""
    import matplotlib.pyplot as plt

    before = dict(plt.rcParams)
    yield
    plt.close("all")
    assert dict(plt.rcParams) == before
