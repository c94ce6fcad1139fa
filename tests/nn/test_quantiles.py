"""Quantile networks: monotonicity, loss, mean, and training."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import integrate, stats

from usnrt.nn.forward import predict
from usnrt.nn.mlp import MLP
from usnrt.nn.quantile_functions import value_at
from usnrt.nn.quantiles import (
    N_OUTPUTS,
    POSITIONS,
    predicted_quantiles,
    quantile_function_mean,
    start_at,
    to_quantiles,
)


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
