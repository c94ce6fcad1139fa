"""Predictions have the same bits for one row and for many, in one thread and in several."""

import pickle

import numpy as np
import pandas as pd
import pytest

from usnrt import USNRTEnsemble, USNRTRegressor

QUICK = USNRTRegressor(min_samples_leaf=300, max_epochs=3, hidden=(40, 24), memory=False, random_state=0)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-1, 1, size=(9000, 4)), columns=list("abcd"))
    X["kind"] = rng.choice(["low", "high"], size=len(X))
    X.loc[::50, "c"] = np.nan
    X.loc[::70, "d"] = 5.0
    y = X["a"] + np.where(X["b"] > 0, 1.0, 0.1) * rng.normal(size=len(X))
    return X, y


@pytest.fixture(scope="module", params=["tree", "ensemble"])
def model(request, table):
    X, y = (part[:2000] for part in table)
    if request.param == "tree":
        return QUICK.fit(X, y)
    member = USNRTRegressor(min_samples_leaf=300, max_epochs=3, hidden=(40,), memory=False)
    return USNRTEnsemble(member, n_estimators=2, random_state=0).fit(X, y)


def predictions(model, X):
    table = model.predict_table(X)
    mean, std = model.predict(X, return_std=True)
    return np.column_stack([table, mean, std, model.predict(X), model.predict_interval(X, 0.8)])


def test_rows_and_threads(model, table):
    X = table[0]
    model.set_params(n_jobs=2)
    many = predictions(model, X)
    np.testing.assert_array_equal(many, predictions(model.set_params(n_jobs=1), X))
    for row in (0, 1, 70, 8999):
        np.testing.assert_array_equal(predictions(model, X[row : row + 1])[0], many[row])


def test_the_mean_and_the_distribution_agree(model, table):
    X = table[0][:200]
    dist = model.predict_dist(X)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, dist.mean())
    np.testing.assert_array_equal(std, dist.std())
    np.testing.assert_array_equal(model.predict_quantiles(X, [0.1, 0.9]), dist.ppf([0.1, 0.9]))


def test_prepared_networks_are_not_part_of_a_copied_model(model, table):
    X = table[0][:50]
    fresh = pickle.loads(pickle.dumps(model))
    before = len(pickle.dumps(fresh))
    expected = fresh.predict(X)
    copied = pickle.dumps(fresh)
    assert len(copied) < 1.1 * before
    np.testing.assert_array_equal(pickle.loads(copied).predict(X), expected)
