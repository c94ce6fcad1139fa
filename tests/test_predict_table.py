"""Predictions come back in the library of the input."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from usnrt.distributions import Normal
from usnrt.estimators.prediction_table import prediction_table
from usnrt.utils.result_table import Table


class Plain:
    """A model without leaves."""

    def predict_dist(self, X):
        n = X.shape[0]
        return Normal(np.arange(n, dtype=float), np.full(n, 2.0))

    def predict_interval(self, X, coverage):
        return self.predict_dist(X).interval(coverage)


class Leafy(Plain):
    """A model with leaves."""

    def apply(self, X):
        return np.arange(X.shape[0]) % 2


class Forest(Plain):
    """A model with a leaf in each of three trees."""

    def apply(self, X):
        return np.zeros((X.shape[0], 3), dtype=int)


DATA = {"a": [1.0, 2.0, 3.0]}
NAMES = ["mean", "std", "lower", "upper", "region"]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_same_library_as_the_input(make):
    X = make(DATA)
    result = prediction_table(Leafy(), X, coverage=0.5)
    assert type(result) is type(X)
    assert list(getattr(result, "column_names", None) or result.columns) == NAMES
    np.testing.assert_array_equal(np.asarray(result["mean"]), [0, 1, 2])
    np.testing.assert_allclose(np.asarray(result["upper"]), np.arange(3) + 2 * 0.6744897501960817, rtol=1e-12)
    np.testing.assert_array_equal(np.asarray(result["region"]), [0, 1, 0])


def test_a_pandas_index_is_kept():
    index = pd.MultiIndex.from_tuples([("x", 1), ("x", 2), ("y", 1)], names=["k", "l"])
    result = prediction_table(Leafy(), pd.DataFrame(DATA, index=index))
    pd.testing.assert_index_equal(result.index, index)
    assert result.loc[("y", 1), "mean"] == 2


def test_arrays_give_a_table():
    result = prediction_table(Leafy(), np.ones((3, 1)))
    assert isinstance(result, Table)
    assert result.columns == NAMES


@pytest.mark.parametrize("model", [Plain(), Forest()])
def test_models_without_one_leaf_a_row_have_no_leaf_column(model):
    assert prediction_table(model, np.ones((3, 1))).columns == NAMES[:-1]


@pytest.mark.parametrize("coverage", [0, 1, 1.5, [0.5, 0.9]])
def test_coverage_out_of_range(coverage):
    message = f"coverage must be in (0, 1), got {coverage!r}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        prediction_table(Plain(), np.ones((3, 1)), coverage=coverage)
