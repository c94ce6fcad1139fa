"""The search for similar rows against comparing all pairs, and the weighted summaries against numpy."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from usnrt.memory._search import _select, weighted_summaries
from usnrt.memory.cells import median_cells
from usnrt.memory.retrieval import Retrieval
from usnrt.nn.quantiles import LEVELS
from usnrt.tables.training import TrainingTable


def memory_of(points, y=None):
    """A memory whose metric is the identity."""
    points = points.astype(np.float16).astype(np.float32)
    y = np.arange(float(len(points))) if y is None else y
    table = TrainingTable(points.astype(np.float64), points, y, np.ones(len(points)))
    return points, Retrieval.of(None, np.eye(points.shape[1], dtype=np.float32), table, np.arange(len(points)))


def found_by(memory, queries, without=None, k=10, n_probes=1000):
    result = {}

    def use(start, stop, positions, distances):
        result[start] = np.where(positions < 0, -1, memory.row[positions]), distances.copy()

    dataclasses.replace(memory, n_probes=n_probes, n_neighbors=k)._search(queries, without, 1, use)
    return result[0]


@pytest.mark.parametrize(("n", "n_dims"), [(5, 3), (700, 7), (2000, 48)])
@pytest.mark.parametrize("leave_out", [False, True])
def test_nearest_rows_are_those_of_all_pairs(n, n_dims, leave_out):
    rng = np.random.default_rng(0)
    points, memory = memory_of(20.0 + rng.normal(size=(n, n_dims)))
    queries, without = points[:300], np.arange(min(n, 300)) if leave_out else None
    rows, distances = found_by(memory, queries, without)
    squares = ((queries[:, None].astype(np.float64) - points[None]) ** 2).sum(axis=2)
    if leave_out:
        squares[without, without] = np.inf
    expected = np.sort(np.sqrt(np.maximum(squares, 1e-6)), axis=1)[:, :10]
    order = np.sort(distances, axis=1)
    finite = np.isfinite(expected)
    np.testing.assert_allclose(order[:, : expected.shape[1]][finite], expected[finite], rtol=2e-3)
    assert ((rows < 0) == np.isinf(distances)).all()
    if leave_out:
        assert (rows != without[:, None]).all()
    else:
        np.testing.assert_allclose(order[:, 0], 1e-3, rtol=1e-5)  # a row is as near to itself as rows can be


def test_a_few_cells_contain_nearly_all_of_the_nearest_rows():
    rng = np.random.default_rng(0)
    _, memory = memory_of(rng.normal(size=(4000, 3)))
    queries = rng.normal(size=(100, 3)).astype(np.float32)
    few, every = (found_by(memory, queries, n_probes=n_probes)[0].tolist() for n_probes in (12, 1000))
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(few, every)]) > 0.97


def test_queries_do_not_depend_on_each_other():
    rng = np.random.default_rng(1)
    _, memory = memory_of(rng.normal(size=(3000, 16)))
    queries = rng.normal(size=(2000, 16)).astype(np.float32)
    many = memory.predict(queries)
    for row in (0, 5, 1999):
        for part, whole in zip(memory.predict(queries[row : row + 1]), many):
            np.testing.assert_array_equal(part[0], whole[row])


@pytest.mark.parametrize("k", [1, 3, 7, 12])
def test_selection_of_equal_and_infinite_values(k):
    rng = np.random.default_rng(k)
    for values in (
        np.full(9, 2.0), np.full(9, np.inf), np.repeat([3.0, 1.0, 2.0], 4), rng.integers(0, 4, size=40) - 2.0,
        np.where(rng.random(30) < 0.8, np.inf, rng.normal(size=30)), np.array([1e-45, 0.0, -1e-45, 3e38, -3e38]),
        1.0 + np.arange(20) * 1e-7,
    ):  # fmt: skip
        values = values.astype(np.float32)
        chosen = np.empty(len(values) + 1, dtype=np.int64)
        found = np.sort(chosen[: _select(values, k, chosen)])
        n_finite = np.isfinite(values).sum()
        expected = np.sort(np.argsort(values, kind="stable")[: min(k, n_finite)])
        np.testing.assert_array_equal(found, expected)


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
