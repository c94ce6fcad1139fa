"""Columns by name: the target of a fit, and the features of a prediction."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from usnrt import USNRTRegressor
from usnrt.estimators.reading import training_columns
from usnrt.utils.notices import MissingTargetWarning

QUICK = {"hidden": (16, 8), "max_epochs": 3, "random_state": 0}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"years": rng.uniform(0, 30, 400), "team": rng.choice(["a", "b"], 400)})
    frame["Salary"] = 30 + frame["years"] + rng.normal(size=400)
    frame["n"], frame["person"] = rng.integers(1, 3, 400), rng.integers(0, 150, 400)
    return frame


@pytest.fixture(scope="module")
def model(table):
    return USNRTRegressor(**QUICK).fit(table[["years", "team"]], table["Salary"])


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_the_target_may_be_named(table, model, kind):
    named = USNRTRegressor(**QUICK).fit(kind(table[["Salary", "years", "team"]]), y="Salary")
    assert (named.target_name_, list(named.feature_names_in_)) == ("Salary", ["years", "team"])
    np.testing.assert_array_equal(named.predict(table[["years", "team"]]), model.predict(table[["years", "team"]]))


def test_weights_and_groups_may_be_named(table):
    given = table["n"], table["person"]
    by_array = USNRTRegressor(**QUICK).fit(table[["years", "team"]], table["Salary"], given[0], groups=given[1])
    by_name = USNRTRegressor(**QUICK).fit(table, "Salary", "n", groups="person")
    np.testing.assert_array_equal(by_name.predict(table), by_array.predict(table[["years", "team"]]))


def test_rows_without_a_named_target_are_left_out(table, monkeypatch):
    def all_experts(quantiles, leaf, y, weight, n_leaves, traits=None):
        return np.full((n_leaves, len(quantiles)), 1 / len(quantiles))

    monkeypatch.setattr("usnrt.tree.model.fit_weights", all_experts)  # the memory is kept, and numbers its rows
    gaps = table.drop(columns=["n", "person"])
    gaps.loc[::10, "Salary"] = np.nan
    with pytest.warns(MissingTargetWarning, match=r"^40 rows without a target were left out$"):
        left_out = USNRTRegressor(**QUICK).fit(gaps, y="Salary")
    known = gaps.dropna()
    expected = USNRTRegressor(**QUICK).fit(known[["years", "team"]], known["Salary"])
    np.testing.assert_array_equal(left_out.predict(gaps), expected.predict(gaps))
    np.testing.assert_array_equal(left_out.row_positions_, known.index.to_numpy()[expected.row_positions_])
    with pytest.raises(ValueError, match=r"^y must be finite, got y\[0\]=nan"):
        USNRTRegressor(**QUICK).fit(gaps[["years", "team"]], gaps["Salary"])


@pytest.mark.parametrize("kind", [list, np.asarray, lambda values: pd.Series(values, index=range(len(values))[::-1])])
def test_weights_and_groups_beside_a_named_target_stay_with_their_rows(table, kind):
    """Also where rows are left out, and whatever the index of a Series is."""
    gaps = table[["Salary", "years"]].copy()
    gaps.loc[::10, "Salary"] = np.nan
    with pytest.warns(MissingTargetWarning):
        found = training_columns(gaps, "Salary", kind(table["n"].tolist()), kind(table["person"].tolist()))
    known = gaps["Salary"].notna()
    assert list(found.sample_weight) == table["n"][known].tolist()
    assert list(found.groups) == table["person"][known].tolist()
    with (
        pytest.warns(MissingTargetWarning),
        pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[400, 401\]"),
    ):
        training_columns(gaps, "Salary", kind([1] * 401) if kind in (list, np.asarray) else pd.Series([1] * 401))


def test_columns_of_a_prediction_are_found_by_name(table, model):
    expected = model.predict(table[["years", "team"]])
    for X in (table, table[["team", "years"]], pl.from_pandas(table), pa.Table.from_pandas(table)):
        np.testing.assert_array_equal(model.predict(X), expected)
    assert model.predict_table(table).index.equals(table.index)
    assert model.score(table, table["Salary"]) > 0.5
    with pytest.raises(ValueError, match="'Years' is not 'years'|did you mean|years"):
        model.predict(table.rename(columns={"years": "Years"}))


def test_without_a_name_the_order_is_that_of_fit(table):
    """As scikit-learn's checks demand."""
    nameless = USNRTRegressor(**QUICK).fit(table[["years", "team"]], table["Salary"].to_numpy())
    with pytest.raises(ValueError, match="Feature names must be in the same order as they were in fit"):
        nameless.predict(table[["team", "years"]])


@pytest.mark.parametrize(("X", "y", "sentence"), [
    (np.zeros((9, 2)), "Salary", "y must be an array if X has no column names, got 'Salary'"),
    (pd.DataFrame({"a": [1.0, 2.0], "salary": [1, 2]}), "Salary", "X has no column 'Salary'; did you mean 'salary'"),
    (pd.DataFrame({"a": [1.0, 2.0], "b": [None, None]}), "b", "the target 'b' has no value in any row"),
])  # fmt: skip
def test_names_that_cannot_be_used(X, y, sentence):
    with pytest.raises(ValueError, match=sentence):
        USNRTRegressor(**QUICK).fit(X, y)


def test_output_types_are_those_of_tabpfn(table, model):
    X = table[:20]
    dist = model.predict_dist(X)
    np.testing.assert_array_equal(model.predict(X, output_type="mean"), dist.mean())
    np.testing.assert_array_equal(model.predict(X, output_type="median"), dist.median())
    quantiles = model.predict(X, output_type="quantiles", quantiles=[0.1, 0.9])
    assert [values.shape for values in quantiles] == [(20,), (20,)]
    np.testing.assert_array_equal(np.column_stack(quantiles), model.predict_quantiles(X, [0.1, 0.9]))
    full = model.predict(X, output_type="full")
    assert (sorted(full), len(full["quantiles"])) == (["distribution", "mean", "median", "quantiles"], 9)
    np.testing.assert_array_equal(full["distribution"].var(), dist.var())
    with pytest.raises(ValueError, match="output_type must be"):
        model.predict(X, output_type="mode")
    with pytest.raises(ValueError, match="return_std must be False with output_type='median', got True"):
        model.predict(X, return_std=True, output_type="median")
