"""Predictions come back in the library of the input, from one encoding of it."""

import re
from copy import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from usnrt import USNRTRegressor
from usnrt.distributions import Normal
from usnrt.estimators.base import DistributionalRegressor
from usnrt.estimators.predictions import prediction_table
from usnrt.model.target import TargetScale
from usnrt.utils.result_table import Table


class Plain(DistributionalRegressor):
    """A model without regions: a normal distribution around the first column."""

    def _fit(self, rows):
        self.target_scale_ = TargetScale(0.0, 1.0)

    def _distribution(self, raw):
        return Normal(raw[:, 0], np.full(len(raw), 2.0))


DATA = {"a": [0.0, 1.0, 2.0]}
NAMES = ["mean", "std", "lower", "upper"]


@pytest.fixture(scope="module")
def plain():
    return Plain().fit(pd.DataFrame(DATA), [0.0, 1.0, 2.0])


@pytest.fixture(scope="module")
def tree():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(600, 2))
    y = X[:, 1] + rng.normal(size=600) * np.where(X[:, 0] > 0.5, 1.0, 0.05)
    return USNRTRegressor(min_samples_leaf=100, max_epochs=5, random_state=0).fit(X, y)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_same_library_as_the_input(plain, make):
    X = make(DATA)
    result = prediction_table(plain, X, coverage=0.5)
    assert type(result) is type(X)
    assert list(getattr(result, "column_names", None) or result.columns) == NAMES
    np.testing.assert_array_equal(np.asarray(result["mean"]), [0, 1, 2])
    np.testing.assert_allclose(np.asarray(result["upper"]), np.arange(3) + 2 * 0.6744897501960817, rtol=1e-12)


def test_a_pandas_index_is_kept(plain):
    index = pd.MultiIndex.from_tuples([("x", 1), ("x", 2), ("y", 1)], names=["k", "l"])
    result = prediction_table(plain, pd.DataFrame(DATA, index=index))
    pd.testing.assert_index_equal(result.index, index)
    assert result.loc[("y", 1), "mean"] == 2


def test_models_without_regions_have_no_region_column():
    model = Plain().fit(np.arange(3.0)[:, None], [0.0, 1.0, 2.0])
    result = prediction_table(model, np.ones((3, 1)))
    assert isinstance(result, Table)
    assert result.columns == NAMES


@pytest.mark.parametrize("widens", [True, False])
def test_every_column_is_that_of_its_own_method(tree, widens):
    rng = np.random.default_rng(1)
    X = rng.uniform(-0.5, 1.5, size=(300, 2))  # with rows that lack support
    tree = copy(tree)
    tree.model_ = replace(tree.model_, support=replace(tree.model_.support, widens=widens))
    table = tree.predict_table(X, coverage=0.8)
    assert table.columns == [*NAMES, "region", "supported", "guaranteed"]
    mean, std = tree.predict(X, return_std=True)
    lower, upper = tree.predict_interval(X, 0.8).T
    expected = [mean, std, lower, upper, tree.apply(X), tree.predict_support(X)["supported"], True]
    for name, values in zip(table.columns, expected, strict=True):
        np.testing.assert_array_equal(table[name], values, err_msg=name)
    assert 0 < table["supported"].sum() < 300


def test_the_table_is_encoded_once_and_its_support_measured_once(tree, monkeypatch):
    calls = []
    encode, measure = type(tree)._encode, type(tree.model_.support).measure
    monkeypatch.setattr(type(tree), "_encode", lambda self, X: calls.append("encode") or encode(self, X))
    monkeypatch.setattr(
        type(tree.model_.support), "measure", lambda self, *args: calls.append("measure") or measure(self, *args)
    )
    tree.predict_table(np.zeros((3, 2)))
    assert calls == ["encode", "measure"]


@pytest.mark.parametrize("coverage", [0, 1, 1.5, [0.5, 0.9]])
def test_coverage_out_of_range(plain, coverage):
    message = f"coverage must be in (0, 1), got {coverage!r}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        prediction_table(plain, pd.DataFrame(DATA), coverage=coverage)
