"""The maker of tables of houses."""

import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def houses():
    """Numbers, categories, truth values, dates, missing values."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "data"))
    from make_sample import houses

    sys.path.pop(0)
    return houses
