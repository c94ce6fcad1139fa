"""Drift of the inputs, and the text format of the figures."""

from types import SimpleNamespace

import numpy as np
import pytest

from usnrt.serve._monitor import RECENT_ROWS, ModelMonitor, RequestMonitor, drift_of


@pytest.mark.parametrize("is_categorical", [False, True])
@pytest.mark.parametrize(("n", "m"), [(200, 96), (2000, 320)])
def test_drift_without_drift_stays_below_its_limit(is_categorical, n, m):
    rng = np.random.default_rng(0)
    weight, beyond, n_draws = np.full(m, 1.0 / m), 0, 400
    for _ in range(n_draws):
        draws = [rng.integers(0, 6, size) if is_categorical else rng.normal(size=size) for size in (n, m)]
        drift, limit = drift_of(draws[0].astype(float), draws[1].astype(float), weight, is_categorical)
        beyond += drift > limit
    # 5 %, and four standard errors of the simulated share
    assert beyond / n_draws <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / n_draws)


def test_a_shift_of_one_standard_deviation_is_found():
    rng = np.random.default_rng(0)
    drift, limit = drift_of(rng.normal(1.0, size=500), rng.normal(size=100), np.full(100, 0.01), False)
    assert drift > 1.5 * limit


def test_missing_values_are_a_value_of_their_own():
    recent = np.where(np.arange(100) < 50, np.nan, 1.0)
    assert drift_of(recent, np.ones(50), np.full(50, 0.02), False)[0] == pytest.approx(0.5)


def test_weights_of_regions_count():
    reference, weight = np.array([0.0, 1.0]), np.array([0.9, 0.1])
    assert drift_of(np.r_[np.zeros(90), np.ones(10)], reference, weight, True)[0] == pytest.approx(0.0)


def test_only_recent_rows_are_kept():
    monitor = ModelMonitor("m", SimpleNamespace())
    for _ in range(100):
        monitor.observe(np.zeros((1000, 1)), [{"supported": True}] * 999 + [{"supported": False}])
    assert (monitor.rows, monitor.unsupported) == (100_000, 100)
    assert monitor._n_recent == RECENT_ROWS
    assert monitor.drift() == {}  # without background rows there is nothing to compare with


def test_the_histogram_of_latencies_is_cumulative():
    monitor = RequestMonitor()
    for seconds in (0.0005, 0.003, 99.0):
        monitor.began()
        monitor.ended("/predict", 200, seconds)
    lines = monitor.lines()
    assert 'usnrt_request_seconds_bucket{route="/predict",le="0.001"} 1' in lines
    assert 'usnrt_request_seconds_bucket{route="/predict",le="10.0"} 2' in lines
    assert 'usnrt_request_seconds_bucket{route="/predict",le="+Inf"} 3' in lines
    assert "usnrt_requests_in_progress 0" in lines
