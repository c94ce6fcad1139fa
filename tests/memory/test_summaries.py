"""Summaries of similar rows against numpy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from usnrt.memory._search import weighted_summaries
from usnrt.memory.cells import median_cells
from usnrt.nn.quantiles import LEVELS


def summarise(positions, distances, target, log_weight):
    shape = positions.shape
    weights, mean, density = np.empty(shape), np.empty(shape[0]), np.empty(shape[0])
    quantiles = np.empty((shape[0], len(LEVELS)))
    weighted_summaries(positions, distances, target, log_weight, LEVELS, weights, mean, quantiles, density)
    return weights, mean, quantiles, density


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_summaries_like_numpy(seed, n_found):
    rng = np.random.default_rng(seed)
    target, log_weight = rng.normal(size=30).round(1), rng.normal(size=30)
    positions = rng.permutation(30)[:12].reshape(1, 12)
    distances = np.sort(rng.exponential(5.0, (1, 12)), axis=1).astype(np.float32)
    positions[:, n_found:], distances[:, n_found:] = -1, np.inf
    weights, mean, quantiles, density = summarise(positions, distances, target, log_weight)

    at = positions[0, :n_found]
    raw = np.exp(log_weight[at] - distances[0, :n_found])
    share = raw / raw.sum()
    np.testing.assert_allclose(weights[0], np.pad(share, (0, 12 - n_found)), rtol=1e-12)
    np.testing.assert_allclose(mean, [share @ target[at]], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(density, [np.log(raw.sum())], rtol=1e-12, atol=1e-12)
    order = np.argsort(target[at], kind="stable")
    middle = np.cumsum(share[order]) - share[order] / 2
    np.testing.assert_allclose(quantiles[0], np.interp(LEVELS, middle, target[at][order]), rtol=1e-9, atol=1e-12)
    assert (np.diff(quantiles[0]) >= 0).all()


def test_far_rows_do_not_underflow():
    positions, distances = np.array([[0, 1]]), np.array([[5000.0, 5000.0]], dtype=np.float32)
    weights, mean, _, density = summarise(positions, distances, np.array([1.0, 3.0]), np.zeros(2))
    assert weights.tolist() == [[0.5, 0.5]]
    assert mean.tolist() == [2.0]
    np.testing.assert_allclose(density, np.log(2.0) - 5000.0)


@pytest.mark.parametrize("by_rows", [True, False])
def test_cells_partition_the_rows_into_equal_parts(by_rows):
    points = np.random.default_rng(0).normal(size=(1000, 4))
    points[:300] = 1.0  # copies
    cells = median_cells(points, 64, np.random.default_rng(1) if by_rows else None)
    assert sorted(np.concatenate(cells).tolist()) == list(range(1000))
    sizes = [len(cell) for cell in cells]
    assert max(sizes) <= 64
    assert max(sizes) - min(sizes) <= 1
    spread = np.mean([points[cell].std(axis=0).mean() for cell in cells])
    assert spread < 0.75 * points.std(axis=0).mean()
