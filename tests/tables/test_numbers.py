"""Integers that float64 rounds: a warning with the name of the column, in every library."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator

from usnrt.tables import TableEncoder, read_table
from usnrt.utils.notices import RoundedIntegersWarning

BIG = 2**53 + 1


def tables_of(values):
    return [
        pd.DataFrame({"x0": values}), pd.DataFrame({"x0": pd.array(values, dtype="Int64")}),
        pd.DataFrame({"x0": values, "t": "a"}), pl.DataFrame({"x0": values}), pl.DataFrame({"x0": [*values, None]}),
        pa.table({"x0": values}), pa.table({"x0": [*values, None]}), np.array([[v] for v in values]),
        np.array([[v, "a"] for v in values], dtype=object),
    ]  # fmt: skip


@pytest.mark.parametrize("table", tables_of([5, BIG]))
def test_rounded_integers(table):
    message = (
        rf"^column 'x0' holds integers beyond 2\*\*53, which are rounded: {BIG} becomes {BIG - 1}; "
        "make it text if it is an identifier$"
    )
    with pytest.warns(RoundedIntegersWarning, match=message):
        features = read_table(BaseEstimator(), table, reset=True)
    assert TableEncoder().fit(features).transform(features)[1, 0] == float(BIG)


@pytest.mark.parametrize("table", tables_of([-(2**53), 2**60]))
def test_large_integers_that_are_exact(table):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_table(BaseEstimator(), table, reset=True)


def test_prediction_does_not_repeat_the_warning():
    model = BaseEstimator()
    with pytest.warns(RoundedIntegersWarning):
        read_table(model, pd.DataFrame({"a": [BIG]}), reset=True)
    read_table(model, pd.DataFrame({"a": [BIG]}), reset=False)
