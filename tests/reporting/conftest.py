"""A model that need not be fitted, and a table to judge it on."""

import sys
from pathlib import Path

import pytest

from usnrt.persistence import load

SAMPLES = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="session")
def houses():
    """The maker of tables that the sample model was fitted on."""
    sys.path.insert(0, str(SAMPLES))
    from make_sample import houses

    sys.path.pop(0)
    return houses


@pytest.fixture(scope="session")
def model():
    """A fitted tree of five regions."""
    return load(SAMPLES / "model-v4.usnrt")


@pytest.fixture(scope="session")
def page(model, houses, tmp_path_factory):
    """The report's path."""
    from usnrt.reporting import write_report

    X, y = houses(600, 3)
    return write_report(model, X, y, tmp_path_factory.mktemp("report") / "report.html", source="test.csv", time="sold")


@pytest.fixture(scope="session")
def browser():
    """A browser without a window."""
    from chromium import start

    driver = start()
    yield driver
    driver.quit()
