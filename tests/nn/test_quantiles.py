"""Quantile networks: monotonicity, loss, mean, and training."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import integrate, stats

from usnrt.nn.device import DeviceTable
from usnrt.nn.forward import predict
from usnrt.nn.mlp import MLP
from usnrt.nn.quantile_functions import value_at
from usnrt.nn.quantiles import (
    LEVELS,
    N_OUTPUTS,
    POSITIONS,
    SHARES,
    pinball,
    predicted_quantiles,
    quantile_function_mean,
    start_at,
    to_quantiles,
)
from usnrt.nn.train import Training, train


@settings(deadline=None)
@given(arrays(np.float64, (3, N_OUTPUTS), elements=st.floats(-100, 100)))
def test_quantiles_never_cross(outputs):
    quantiles = to_quantiles(outputs)
    assert np.isfinite(quantiles).all()
    assert (np.diff(quantiles, axis=1) >= 0).all()


@pytest.mark.parametrize("n_threads", [1, 2])
def test_compiled_quantiles(n_threads):
    outputs = np.random.default_rng(0).normal(scale=4.0, size=(5000, 1 + N_OUTPUTS))
    found = predicted_quantiles(outputs, first=1, n_threads=n_threads)
    np.testing.assert_allclose(found, to_quantiles(outputs[:, 1:]), rtol=1e-12, atol=1e-9)
    assert (np.diff(found, axis=1) >= 0).all()


def test_the_loss_is_the_sum_of_pinball_losses():
    rng = np.random.default_rng(0)
    outputs, target = rng.normal(size=(20, N_OUTPUTS)).astype(np.float32), rng.normal(size=20).astype(np.float32)
    from sklearn.metrics import mean_pinball_loss

    quantiles = to_quantiles(outputs)
    by_hand = [
        sum(w * mean_pinball_loss([y], [q], alpha=p) for w, p, q in zip(SHARES, LEVELS, row))
        for y, row in zip(target, quantiles)
    ]
    np.testing.assert_allclose(np.asarray(pinball(outputs, target)), by_hand, rtol=1e-5)


def test_the_loss_is_nearly_half_the_crps():
    y = np.linspace(-3, 3, 25)
    outputs = np.zeros((25, N_OUTPUTS), dtype=np.float32)
    crps = y * (2 * stats.norm.cdf(y) - 1) + 2 * stats.norm.pdf(y) - 1 / np.sqrt(np.pi)
    np.testing.assert_allclose(2 * np.asarray(pinball(outputs, y.astype(np.float32))), crps, atol=0.04)


def test_the_mean_of_a_quantile_function_against_integration():
    rng = np.random.default_rng(1)
    quantiles = to_quantiles(rng.normal(size=(4, N_OUTPUTS)))
    for row, mean in zip(quantiles, quantile_function_mean(quantiles)):
        edges = [-12.0, *POSITIONS, 12.0]
        parts = [
            integrate.quad(
                lambda z, row=row: value_at(row[None], POSITIONS, np.array([z]))[0, 0] * stats.norm.pdf(z), a, b
            )
            for a, b in itertools.pairwise(edges)
        ]
        assert mean == pytest.approx(sum(part[0] for part in parts), abs=1e-9)


def test_a_new_network_starts_at_the_spread_of_the_target():
    network = MLP((4, 32, N_OUTPUTS))
    params = start_at(network, np.random.default_rng(0), mean=3.0, std=2.0)
    x = np.random.default_rng(1).normal(size=(200, 4)).astype(np.float32)
    quantiles = to_quantiles(predict(network, params, x))
    assert np.mean(quantile_function_mean(quantiles)) == pytest.approx(3.0, abs=0.3)
    assert np.mean(quantiles[:, 8] - quantiles[:, 2]) == pytest.approx(4.0, rel=0.3)


def test_it_learns_two_peaks():
    """Half of the rows are near -1, half near 1: a normal distribution would put most of its mass in between."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 2)).astype(np.float32)
    y = np.where(rng.random(3000) < 0.5, -1.0, 1.0) + 0.05 * rng.normal(size=3000)
    network = MLP((2, 32, N_OUTPUTS))
    params, _ = train(
        network, pinball, start_at(network, rng, 0.0, 1.0), DeviceTable(x), y, None, np.arange(2400),
        np.arange(2400, 3000), rng=rng,
        how=Training(learning_rate=0.01, batch_size=64, max_epochs=30, schedule="cosine", patience=30, average=0.99),
    )  # fmt: skip
    quantiles = np.median(to_quantiles(predict(network, params, x)), axis=0)
    np.testing.assert_allclose(quantiles[[0, 1, 2, 3]], -1.0, atol=0.15)
    np.testing.assert_allclose(quantiles[[7, 8, 9, 10]], 1.0, atol=0.15)
