"""The kernels of the search: against brute force, and against weighted quantiles by numpy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from usnrt.memory._search import nearest_rows, weighted_summaries
from usnrt.memory.cells import median_cells
from usnrt.nn.quantiles import LEVELS


def make_cells(points, size):
    """Cells as a memory stores them: padded points, centres, and the point at each place."""
    members = median_cells(points, size)
    width = max(len(cell) for cell in members)
    cells = np.full((len(members), points.shape[1], width), np.inf, dtype=np.float32)
    point = np.full((len(members), width), -1)
    for number, cell in enumerate(members):
        cells[number, :, : len(cell)] = points[cell].T
        point[number, : len(cell)] = cell
    centres = np.stack([points[cell].mean(axis=0) for cell in members], axis=1)
    return cells, centres, point.ravel()


def search(queries, cells, centres, k, n_probes, skipped=None):
    positions, distances = np.empty((len(queries), k), dtype=np.int64), np.empty((len(queries), k), dtype=np.float32)
    skipped = np.full(len(queries), -1, dtype=np.int64) if skipped is None else skipped
    nearest_rows(queries, skipped, centres, cells, n_probes, positions, distances)
    return positions, distances


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 300), st.integers(1, 60))
def test_exact_if_all_cells_are_searched(seed, n, k):
    rng = np.random.default_rng(seed)
    points, queries = rng.normal(size=(n, 5)).astype(np.float32), rng.normal(size=(20, 5)).astype(np.float32)
    cells, centres, point = make_cells(points, size=16)
    positions, distances = search(queries, cells, centres, k, n_probes=len(cells))
    expected = np.sqrt(((queries[:, None].astype(np.float64) - points) ** 2).sum(axis=2))
    n_found = min(k, n)
    np.testing.assert_allclose(distances[:, :n_found], np.sort(expected, axis=1)[:, :n_found], rtol=1e-5)
    found = point[positions[:, :n_found]]
    np.testing.assert_allclose(np.take_along_axis(expected, found, axis=1), distances[:, :n_found], rtol=1e-5)
    assert all(len(set(row)) == n_found for row in found.tolist())
    assert (positions[:, n_found:] == -1).all()
    assert np.isinf(distances[:, n_found:]).all()


def test_a_few_cells_contain_nearly_all_of_the_nearest_rows():
    rng = np.random.default_rng(0)
    points, queries = rng.normal(size=(4000, 3)).astype(np.float32), rng.normal(size=(100, 3)).astype(np.float32)
    cells, centres, _ = make_cells(points, size=64)
    few, _ = search(queries, cells, centres, 10, n_probes=12)
    every, _ = search(queries, cells, centres, 10, n_probes=len(cells))
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(few.tolist(), every.tolist())]) > 0.97


def test_the_skipped_position_is_not_found():
    points = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
    cells, centres, point = make_cells(points, size=16)
    place = np.argsort(point)[-100:]  # empty places come first
    positions, _ = search(points, cells, centres, 3, n_probes=99)
    np.testing.assert_array_equal(positions[:, 0], place)
    others, distances = search(points, cells, centres, 2, n_probes=99, skipped=place)
    np.testing.assert_array_equal(others, positions[:, 1:])
    assert (distances > 0.01).all()


def test_equal_distances_keep_the_first():
    points = np.zeros((50, 2), dtype=np.float32)
    cells, centres, _ = make_cells(points, size=16)
    positions, distances = search(points[:1], cells, centres, 5, n_probes=99)
    assert positions.tolist() == [[0, 1, 2, 3, 4]]
    np.testing.assert_allclose(distances, 1e-3)  # the smallest distance that there is


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
