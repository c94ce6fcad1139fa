"""The linear expert: ridge regression where the truth is linear, with the spread that the residuals have."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.linear_model import RidgeCV

from usnrt import USNRTRegressor
from usnrt.experts.base import Query
from usnrt.experts.linear import LinearExpert
from usnrt.nn.quantiles import LEVELS, POSITIONS, quantile_function_mean
from usnrt.tables.training import TrainingTable, TreeRows
from usnrt.utils.context import FitContext


def tree_rows(x, y, weight=None):
    weight = np.ones(len(y)) if weight is None else weight
    table = TrainingTable(x, x.astype(np.float32), y, weight)
    none = np.zeros(x.shape[1], dtype=np.int64)
    return TreeRows(table, np.arange(x.shape[1]), none, np.zeros(len(y), dtype=bool))


def linear(n, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 8))
    return x, x @ np.arange(1.0, 9.0) / 8.0 + noise * rng.normal(size=n)


def query(x):
    return Query(x, x.astype(np.float32), np.zeros(len(x), dtype=np.int64))


def test_means_and_quantiles_of_a_linear_model():
    x, y = linear(2000)
    expert = LinearExpert.fit(tree_rows(x, y), FitContext(0))
    new, target = linear(20_000, seed=1)
    quantiles = expert.quantile_functions(query(new))
    peer = RidgeCV(np.logspace(-4, 4, 20)).fit(x, y)
    np.testing.assert_allclose(quantile_function_mean(quantiles), peer.predict(new), atol=0.05)
    np.testing.assert_allclose((target[:, None] <= quantiles).mean(axis=0), LEVELS, atol=0.02)


def test_a_spread_that_grows_with_an_input_is_learnt():
    x, _ = linear(3000)
    y = x[:, 0] + np.exp(0.7 * x[:, 1]) * np.random.default_rng(1).normal(size=3000)
    expert = LinearExpert.fit(tree_rows(x, y), FitContext(0))
    low, high = np.zeros((1, 8)), np.zeros((1, 8))
    low[0, 1], high[0, 1] = -1.0, 1.0
    width = [float(np.ptp(expert.quantile_functions(query(row))[:, [3, 7]])) for row in (low, high)]
    assert 0.6 < np.log(width[1] / width[0]) / 1.4 < 1.2


def test_weights_are_repetitions():
    x, y = linear(200)
    count = np.random.default_rng(0).integers(1, 4, 200)
    again = np.repeat(np.arange(200), count)
    weighted = LinearExpert.fit(tree_rows(x, y, count.astype(float)), FitContext(0))
    repeated = LinearExpert.fit(tree_rows(x[again], y[again]), FitContext(0))
    # the penalty is chosen by leaving out rows, of which the copies know: only the coefficients are close
    np.testing.assert_allclose(weighted.coefficients, repeated.coefficients, atol=0.05)


def test_small_and_wide_tables_have_none():
    x, y = linear(15)
    assert LinearExpert.fit(tree_rows(x, y), FitContext(0)) is None
    assert LinearExpert.fit(tree_rows(np.zeros((50, 600)), np.zeros(50)), FitContext(0)) is None


@pytest.mark.parametrize("target", [np.zeros(60), np.arange(60.0)])
def test_targets_without_noise_have_finite_distributions(target):
    x = np.arange(60.0)[:, None] / 60.0
    expert = LinearExpert.fit(tree_rows(x, target), FitContext(0))
    quantiles = expert.quantile_functions(query(x))
    assert np.isfinite(quantiles).all()
    assert (np.diff(quantiles, axis=1) >= 0).all()
    assert quantiles.shape == (60, len(POSITIONS))


@pytest.mark.parametrize("n", [200, 800])
def test_linear_data_are_predicted_as_well_as_by_ridge(n):
    x, y = linear(n)
    new, target = linear(4000, seed=1)
    model = USNRTRegressor(random_state=0, n_jobs=1).fit(x, y)
    rmse = [
        np.sqrt(np.mean((own.predict(new) - target) ** 2)) for own in (model, RidgeCV(np.logspace(-4, 4, 20)).fit(x, y))
    ]
    assert rmse[0] < 1.03 * rmse[1]
    assert model.rules()["linear"][0] >= 0.6


def test_data_that_are_not_linear_have_no_linear_model():
    x, y = make_friedman1(800, 8, noise=1.0, random_state=0)
    model = USNRTRegressor(random_state=0, n_jobs=1).fit(x, y)
    assert "linear" not in model.model_.expert_names or (model.rules()["linear"] <= 0.2).all()
