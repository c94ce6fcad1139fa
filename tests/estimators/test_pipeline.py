"""Pipelines that keep intervals, distributions and tables, and several targets at once."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone, is_regressor
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import usnrt
from usnrt.paper.baselines import ExtraTreesVarianceRegressor
from usnrt.utils.notices import TrainingRowsWarning

QUICK = {"hidden": (4,), "memory": False, "max_epochs": 3, "random_state": 0, "n_jobs": 1}


def frame(n=240, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"size": rng.normal(50, 9, n), "kind": rng.choice(["a", "b"], n)}, index=np.arange(n) + 1000)
    return X, X["size"] / 9 + rng.normal(size=n)


def steps():
    encode = make_column_transformer((StandardScaler(), ["size"]), (OneHotEncoder(sparse_output=False), ["kind"]))
    return make_pipeline(encode, usnrt.USNRTRegressor(**QUICK))


@pytest.fixture(scope="module")
def model():
    return usnrt.in_pipeline(steps()).fit(*frame())


def test_predictions_are_those_of_the_last_step(model):
    X, _ = frame(50, 1)
    last, rows = model[-1], model[:-1].transform(X)
    np.testing.assert_array_equal(model.predict_interval(X, 0.8), last.predict_interval(rows, 0.8))
    np.testing.assert_array_equal(model.predict_quantiles(X, [0.1, 0.5]), last.predict_quantiles(rows, [0.1, 0.5]))
    np.testing.assert_array_equal(model.predict_dist(X).std(), last.predict_dist(rows).std())
    np.testing.assert_array_equal(model.predict_variance(X)["total"], last.predict_variance(rows)["total"])
    np.testing.assert_array_equal(model.apply(X), last.apply(rows))
    assert model.predict_support(X).shape[0] == 50
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, last.predict(rows))
    assert (std > 0).all()
    assert model.rules()["rule"].size >= 1


def test_tables_come_back_in_the_library_of_the_user(model):
    X, _ = frame(5, 1)
    table = model.predict_table(X, 0.5)
    assert isinstance(table, pd.DataFrame)
    assert table.index.tolist() == X.index.tolist()
    assert list(table.columns)[:4] == ["mean", "std", "lower", "upper"]
    polars_model = usnrt.in_pipeline(make_pipeline("passthrough", usnrt.USNRTRegressor(**QUICK)))
    numbers = pl.DataFrame({"x": np.arange(60.0)})
    assert isinstance(polars_model.fit(numbers, np.arange(60.0)).predict_table(numbers, 0.5), pl.DataFrame)


def test_it_is_a_scikit_learn_estimator(model):
    copy = clone(model)
    assert type(copy) is type(model)
    assert isinstance(copy, Pipeline)
    assert is_regressor(copy)
    assert not hasattr(copy[-1], "model_")
    assert model.feature_names_in_.tolist() == ["size", "kind"]
    assert model.n_features_in_ == 2
    name = "usnrtregressor__max_epochs"
    assert clone(model).set_params(**{name: 1}).get_params()[name] == 1
    search = GridSearchCV(clone(model), {name: [1, 2]}, cv=2).fit(*frame(60))
    assert search.best_estimator_.predict_interval(frame(3)[0], 0.5).shape == (3, 2)
    assert np.isfinite(cross_val_score(clone(model), *frame(60), cv=2)).all()


def test_a_fitted_pipeline_needs_no_second_fit():
    fitted = steps().fit(*frame())
    X, _ = frame(4, 1)
    kept = usnrt.in_pipeline(fitted)
    assert kept[-1] is fitted[-1]
    np.testing.assert_array_equal(kept.predict_interval(X), fitted[-1].predict_interval(fitted[:-1].transform(X)))


def test_calibrate_calibrates_the_last_step():
    X, y = frame()
    model = usnrt.in_pipeline(steps()).fit(X, y)
    before = model.predict_interval(X[:5])
    assert model.calibrate(X, y + 10) is model
    assert not np.array_equal(model.predict_interval(X[:5]), before)


def test_what_the_last_step_lacks_the_pipeline_lacks():
    forest = usnrt.in_pipeline(make_pipeline(StandardScaler(), ExtraTreesVarianceRegressor()))
    assert hasattr(forest, "predict_interval")
    assert not hasattr(forest, "apply")
    assert not hasattr(forest, "calibrate")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (LinearRegression(), "pipeline must be a scikit-learn Pipeline, got a LinearRegression"),
        (
            make_pipeline(StandardScaler(), LinearRegression()),
            "pipeline must end in an estimator with predict_dist, got a LinearRegression",
        ),
    ],
)
def test_what_is_not_a_pipeline_of_ours_is_refused(given, message):
    with pytest.raises(TypeError, match=f"^{message}$"):
        usnrt.in_pipeline(given)


def test_evaluate_is_that_of_the_last_step(model):
    X, y = frame(100, 1)
    expected = usnrt.evaluate(model[-1], model[:-1].transform(X), y)["value"]
    np.testing.assert_array_equal(usnrt.evaluate(model, X, y)["value"], expected)
    with pytest.warns(TrainingRowsWarning):
        usnrt.evaluate(model, *frame())


def test_several_targets():
    X, y = frame(80)
    Y = np.column_stack([y, -y])
    both = MultiOutputRegressor(usnrt.USNRTRegressor(**QUICK)).fit(X, Y)
    assert both.predict(X).shape == (80, 2)
    one = usnrt.USNRTRegressor(**QUICK).fit(X, Y[:, 1])
    np.testing.assert_array_equal(both.predict(X)[:, 1], one.predict(X))
    np.testing.assert_array_equal(both.estimators_[1].predict_interval(X, 0.5), one.predict_interval(X, 0.5))


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame], ids=["array", "frame"])
def test_the_error_for_several_targets_names_what_to_use(kind):
    message = (
        "y should be a 1d array, got an array of shape (10, 2): for several targets use "
        "sklearn.multioutput.MultiOutputRegressor(model), which fits one model per target"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        usnrt.USNRTRegressor().fit(np.zeros((10, 1)), kind(np.zeros((10, 2))))
