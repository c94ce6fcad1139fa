"""The search for similar rows against comparing all pairs."""

from dataclasses import replace

import numpy as np
import pytest

from usnrt.memory._search import _select
from usnrt.memory.retrieval import Retrieval
from usnrt.tables.training import TrainingTable


def memory_of(points, y=None):
    """A memory whose metric is the identity."""
    points = points.astype(np.float16).astype(np.float32)
    y = np.arange(float(len(points))) if y is None else y
    table = TrainingTable(points.astype(np.float64), points, y, np.ones(len(points)))
    return points, Retrieval.of(None, np.eye(points.shape[1], dtype=np.float32), table, np.arange(len(points)))


def found_by(memory, queries, without=None, k=10):
    result = {}

    def use(start, stop, positions, distances):
        result[start] = np.where(positions < 0, -1, memory.row[positions]), distances.copy()

    replace(memory, n_neighbors=k)._search(queries, without, 1, use)
    return result[0]


@pytest.mark.parametrize(("n", "n_dims"), [(5, 3), (700, 7), (2000, 48)])
@pytest.mark.parametrize("leave_out", [False, True])
def test_nearest_rows_are_those_of_all_pairs(n, n_dims, leave_out):
    rng = np.random.default_rng(0)
    points, memory = memory_of(20.0 + rng.normal(size=(n, n_dims)))
    memory = replace(memory, n_probes=1000)
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
