"""Metrics from stored rows equal those from the distribution they came from."""

import numpy as np
import pytest

import usnrt.metrics as metrics
from usnrt.distributions import Normal
from usnrt_experiments.scores import METRICS, score, worst_leaf_gap


@pytest.fixture
def forecast():
    rng = np.random.default_rng(0)
    std = rng.uniform(0.2, 2.0, 3000)
    y = rng.normal(0.1, 1.2 * std)
    return y, Normal(np.zeros(3000), std)


def rows_of(y, dist):
    return {
        "y": y,
        "mean": dist.mean(),
        "std": dist.std(),
        "pit": dist.cdf(y),
        "logpdf": dist.logpdf(y),
        "crps": dist.crps(y),
    }


@pytest.mark.parametrize("name", ["ece", "tce", "rmse", "nll", "crps"])
def test_equal_to_the_librarys_metrics(forecast, name):
    y, dist = forecast
    assert METRICS[name](rows_of(y, dist)) == pytest.approx(100 * getattr(metrics, name)(y, dist), rel=1e-9)


def test_sharpness_and_coverage(forecast):
    y, dist = forecast
    found = score(rows_of(y, dist))
    assert found["sharpness"] == pytest.approx(100 * metrics.sharpness(dist))
    assert found["coverage90"] == pytest.approx(100 * metrics.coverage(y, dist, coverage=0.9))
    assert np.isnan(found["worst_leaf_gap"])


def test_half_the_bytes_change_nothing_that_is_shown(forecast):
    y, dist = forecast
    exact = score(rows_of(y, dist))
    stored = score({name: values.astype(np.float32) for name, values in rows_of(y, dist).items()})
    for name in ("ece", "tce", "sharpness", "rmse", "nll", "crps"):
        assert stored[name] == pytest.approx(exact[name], abs=0.005)


def test_by_hand():
    rows = {"pit": np.array([0.005, 0.5, 0.995]), "leaf": np.array([0, 0, 1])}
    # Below every one of the 99 levels lies the first; below those over 0.5 also the second.
    share = np.where(np.arange(1, 100) > 50, 2 / 3, 1 / 3)
    assert METRICS["ece"](rows) == pytest.approx(100 * np.abs(share - np.arange(1, 100) / 100).mean())
    # The middle row alone lies in each of the four intervals.
    assert METRICS["tce"](rows) == pytest.approx(100 * np.abs(1 / 3 - np.array([0.9, 0.8, 0.7, 0.6])).mean())
    assert METRICS["coverage90"](rows) == pytest.approx(100 / 3)
    assert worst_leaf_gap(rows) == pytest.approx(90.0)


def test_the_models_own_interval_counts_where_it_was_stored():
    rows = {"pit": np.array([0.005, 0.5, 0.995]), "leaf": np.array([3, 3, 4])}
    stored = {**rows, "inside90": np.array([True, True, False])}
    assert METRICS["coverage90"](stored) == pytest.approx(200 / 3)
    assert worst_leaf_gap(stored) == pytest.approx(90.0)
    assert worst_leaf_gap({**stored, "inside90": np.array([True, True, True])}) == pytest.approx(10.0)


def test_an_impossible_row_is_infinitely_bad():
    rows = {"logpdf": np.array([0.0, -np.inf])}
    assert METRICS["nll"](rows) == np.inf


def test_floored_densities_bound_the_nll():
    rows = {"logpdf": np.array([0.5, -np.inf, -40.0])}
    assert METRICS["nll"](rows) == np.inf
    assert METRICS["nll_floored"](rows) == pytest.approx(-100 * (0.5 + 2 * np.log(1e-16)) / 3)
    assert METRICS["nll_floored"]({"logpdf": np.array([0.5, -3.0])}) == METRICS["nll"](
        {"logpdf": np.array([0.5, -3.0])}
    )
