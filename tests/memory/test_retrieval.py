"""A memory of training rows: learnt metrics, and predictions by similar rows."""

import dataclasses
import pickle

import numpy as np
import pytest

from usnrt.memory import retrieval
from usnrt.memory.metric import MetricTraining
from usnrt.memory.retrieval import CELL_SIZE, N_GUIDES, N_NEIGHBORS, Retrieval, fit_retrieval
from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.quantiles import LEVELS, MEDIAN, SHARES
from usnrt.tables.training import TrainingTable
from usnrt.utils.context import FitContext
from usnrt.utils.progress import Progress

QUICK = MetricTraining(n_dims=8, n_steps=200, block_size=128, n_thresholds=12)


def make_table(n, target, n_columns=4, seed=0, weight=None):
    """Uniform columns, and a target that is a function of them and of noise."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.7, 1.7, (n, n_columns))
    y = target(x, rng.normal(size=n))
    return TrainingTable(x, x.astype(np.float32), y, np.ones(n) if weight is None else weight)


def learn(table, training=QUICK, seed=0, losses=None, with_bins=True):
    """A memory of the first three quarters of the rows; the others validate."""
    is_validation = np.arange(table.n_rows) >= 3 * table.n_rows // 4
    encoding = None
    if with_bins:
        encoding = PiecewiseLinear.fit(table.inputs[~is_validation], np.arange(table.inputs.shape[1]), 8)
    callbacks = None if losses is None else [lambda event: losses.append(event.valid_loss)]
    context = FitContext(seed, progress=Progress(0, callbacks))
    return fit_retrieval(table, encoding, is_validation, training, np.random.default_rng(seed), context)


def plain(table, rows=None, metric=None):
    """A memory with a given metric, by default the distance of the inputs."""
    metric = np.eye(table.inputs.shape[1], dtype=np.float32) if metric is None else metric
    return Retrieval.of(None, metric, table, np.arange(table.n_rows) if rows is None else rows)


def of_one_column(x, noise):
    return np.sin(3 * x[:, 1]) + 0.1 * noise


@pytest.fixture(scope="module")
def planted():
    table = make_table(1200, of_one_column)
    losses = []
    return table, learn(table, losses=losses), losses


# -- the metric -----------------------------------------------------------------------------------------------------


def test_the_metric_finds_the_column_that_matters(planted):
    table, memory, losses = planted
    moved = np.repeat(table.inputs[:50], 4, axis=0)
    moved[np.arange(200), np.tile(np.arange(4), 50)] += 0.3  # each row four times, each time with another column moved
    start = retrieval.embed(memory.metric, memory.encoding, np.repeat(table.inputs[:50], 4, axis=0))
    distance = np.linalg.norm(retrieval.embed(memory.metric, memory.encoding, moved) - start, axis=1)
    by_column = np.median(distance.reshape(50, 4), axis=0)
    assert by_column[1] > 3 * np.delete(by_column, 1).max()
    off = table.y[:, None] - np.quantile(table.y, LEVELS)
    of_constant = (SHARES * np.maximum(LEVELS * off, (LEVELS - 1) * off)).sum(axis=1).mean()
    assert min(losses) < 0.25 * of_constant


def test_predictions_of_new_rows_are_better_than_a_constant(planted):
    _, memory, _ = planted
    new = make_table(500, of_one_column, seed=1)
    found = memory.predict(new.inputs)
    assert np.mean((found.mean - new.y) ** 2) < 0.1 * new.y.var()
    assert np.mean((found.quantiles[:, MEDIAN] - new.y) ** 2) < 0.1 * new.y.var()
    assert (np.diff(found.quantiles, axis=1) >= 0).all()


def test_an_independent_target_has_its_own_distribution():
    table = make_table(1200, lambda x, noise: noise)
    memory = learn(table)
    new = make_table(500, lambda x, noise: noise, seed=1)
    found = memory.predict(new.inputs)
    # Means of few similar rows are worse than the mean of all rows, but not by much.
    assert 0.9 < np.mean((found.mean - new.y) ** 2) / new.y.var() < 1.5
    inside = (new.y > found.quantiles[:, 1]) & (new.y < found.quantiles[:, -2])
    assert abs(inside.mean() - (LEVELS[-2] - LEVELS[1])) < 0.12


def test_a_seed_makes_the_same_metric(planted):
    table, memory, _ = planted
    again, other = learn(table), learn(table, seed=1)
    assert again.metric.tobytes() == memory.metric.tobytes()
    assert again.cells.tobytes() == memory.cells.tobytes()
    assert other.metric.tobytes() != memory.metric.tobytes()


def test_the_metric_of_the_smallest_validation_loss_is_kept():
    table = make_table(400, of_one_column)
    losses = []
    memory = learn(table, dataclasses.replace(QUICK, n_steps=400, learning_rate=30.0), losses=losses)
    assert np.isfinite(memory.metric).all()
    assert len(losses) < 8  # patience


@pytest.mark.parametrize("with_bins", [True, False])
@pytest.mark.parametrize("n", [30, 200])
def test_small_tables(n, with_bins):
    table = make_table(n, of_one_column)
    memory = learn(table, with_bins=with_bins)
    assert memory.n_rows == 3 * n // 4
    found = memory.predict(table.inputs, np.arange(n))
    assert all(np.isfinite(part).all() for part in found)
    assert np.isfinite(memory.guides(found)).all()


def test_a_constant_target():
    table = make_table(300, lambda x, noise: np.full(len(x), 2.0))
    memory = learn(table)
    found = memory.predict(table.inputs)
    np.testing.assert_allclose(found.mean, 2.0, rtol=1e-12)
    assert (found.quantiles == 2.0).all()
    assert np.isfinite(memory.guides(found)).all()


# -- the memory -----------------------------------------------------------------------------------------------------


def test_a_table_smaller_than_a_cell_is_searched_completely():
    n = N_NEIGHBORS - 4
    assert n < CELL_SIZE
    table = make_table(n, of_one_column)
    memory = plain(table)
    assert memory.cells.shape == (1, 4, n)
    new = make_table(5, of_one_column, seed=1).inputs
    embedded = table.inputs.astype(np.float16).astype(np.float64)
    weight = np.exp(-np.linalg.norm(new[:, None] - embedded, axis=2))
    found = memory.predict(new)
    np.testing.assert_allclose(found.mean, weight @ table.y / weight.sum(axis=1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.log_density, np.log(weight.sum(axis=1)), rtol=1e-5)
    nearest = memory.neighbors(new, 3)
    np.testing.assert_array_equal(nearest.row, np.argsort(-weight, axis=1)[:, :3])
    np.testing.assert_array_equal(nearest.target, table.y[nearest.row])
    share = weight / weight.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(nearest.weight, np.take_along_axis(share, nearest.row, axis=1), rtol=1e-5)


def test_fewer_rows_than_neighbors():
    nearest = plain(make_table(3, of_one_column)).neighbors(np.zeros((1, 4), dtype=np.float32), 5)
    assert (nearest.row[0, 3:] == -1).all()
    assert np.isnan(nearest.target[0, 3:]).all()
    assert nearest.weight[0, 3:].tolist() == [0.0, 0.0]
    assert nearest.weight.sum() == pytest.approx(1.0)


def test_rows_without_themselves():
    table = make_table(500, lambda x, noise: noise)
    # Far apart, so that a row that finds itself predicts its own target.
    memory = plain(table, metric=1000 * np.eye(4, dtype=np.float32))
    rows = np.arange(500)
    np.testing.assert_allclose(memory.predict(table.inputs).mean, table.y, atol=1e-6)
    assert abs(np.corrcoef(memory.predict(table.inputs, rows).mean, table.y)[0, 1]) < 0.3
    one_left = memory.predict(table.inputs[:3], np.array([0, 400, 499]))
    assert one_left.mean[0] != table.y[0]
    np.testing.assert_allclose(one_left.mean[1:], table.y[1:3], atol=1e-6)  # another row was left out


def test_leaving_out_a_row_is_not_remembering_it():
    table = make_table(60, of_one_column)  # in one cell
    whole = plain(table)
    for row in (0, 17, 59):
        without = plain(table, np.delete(np.arange(60), row)).predict(table.inputs[[row]])
        found = whole.predict(table.inputs[[row]], np.array([row]))
        # up to the order of the sums
        np.testing.assert_allclose(found.mean, without.mean, rtol=1e-12)
        np.testing.assert_allclose(found.quantiles, without.quantiles, rtol=1e-12)


def test_rows_that_the_memory_does_not_hold_leave_nothing_out():
    table = make_table(100, of_one_column)
    memory = plain(table, np.arange(10, 60))
    assert memory.n_rows == 50
    everything = memory.predict(table.inputs)
    found = memory.predict(table.inputs, np.arange(100))
    outside = np.r_[:10, 60:100]
    np.testing.assert_array_equal(found.mean[outside], everything.mean[outside])
    assert (found.mean[10:60] != everything.mean[10:60]).all()
    np.testing.assert_array_equal(memory.predict(table.inputs[:1], np.array([10**12])).mean, everything.mean[:1])


def test_a_weight_of_two_is_a_row_that_occurs_twice():
    table = make_table(20, of_one_column)
    weight = np.where(np.arange(20) < 8, 2.0, 1.0)
    repeated = np.r_[np.arange(20), np.arange(8)]
    assert len(repeated) < N_NEIGHBORS
    twice = TrainingTable(table.raw[repeated], table.inputs[repeated], table.y[repeated], np.ones(28))
    new = make_table(20, of_one_column, seed=1).inputs
    by_weight, by_copies = (plain(t).predict(new) for t in (dataclasses.replace(table, weight=weight), twice))
    np.testing.assert_allclose(by_weight.mean, by_copies.mean, rtol=1e-10)
    np.testing.assert_allclose(by_weight.log_density, by_copies.log_density, rtol=1e-10)
    assert abs(by_weight.mean - plain(table).predict(new).mean).max() > 0.01


def test_many_copies_of_one_row():
    """Rows of equal inputs and different targets: the prediction is a sample of their targets."""
    table = make_table(1000, lambda x, noise: noise)
    equal = dataclasses.replace(table, inputs=np.ones_like(table.inputs))
    memory = plain(equal)
    found = memory.predict(equal.inputs[:5])
    assert np.ptp(found.mean) == 0
    assert abs(found.mean[0]) < 0.6
    assert 0.5 < found.quantiles[0, -3] - found.quantiles[0, 2] < 4.0
    without = memory.predict(equal.inputs, np.arange(1000))
    assert np.isfinite(without.mean).all()
    assert len(set(without.mean.tolist())) > 1


def test_bits_depend_neither_on_threads_nor_on_other_rows():
    table = make_table(3000, of_one_column)
    memory = plain(table)
    new = make_table(9000, of_one_column, seed=1).inputs
    once = memory.predict(new)
    for other in (memory.predict(new, n_threads=3), memory.predict(new, np.full(9000, 10**6))):
        assert all(a.tobytes() == b.tobytes() for a, b in zip(once, other))
    some = np.array([8999, 3, 4000])
    alone = [memory.predict(new[[row]]) for row in some]
    for part, parts in zip(once, zip(*alone)):
        assert part[some].tobytes() == np.concatenate(parts).tobytes()


def test_a_memory_holds_a_limited_number_of_rows(monkeypatch):
    monkeypatch.setattr(retrieval, "MAX_ROWS", 150)
    table = make_table(800, of_one_column)
    memory = learn(table)
    assert memory.n_rows == 150
    np.testing.assert_array_equal(np.sort(memory.row[memory.row >= 0]), np.arange(150))
    wider = memory.with_rows(table)
    assert wider.n_rows == 150
    found = wider.predict(table.inputs, np.arange(800))
    assert np.mean((found.mean - table.y)[150:] ** 2) < 0.3 * table.y.var()


def test_more_rows_with_the_same_metric(planted):
    table, memory, _ = planted
    wider = memory.with_rows(table)
    assert (memory.n_rows, wider.n_rows) == (900, 1200)
    np.testing.assert_array_equal(wider.guide_mean, memory.guide_mean)
    np.testing.assert_array_equal(wider.metric, memory.metric)


def test_guides_of_training_rows_are_standardised(planted):
    table, memory, _ = planted
    rows = np.arange(900)
    guides = memory.guides(memory.predict(table.inputs[rows], rows))
    assert guides.shape == (900, N_GUIDES)
    assert guides.dtype == np.float32
    np.testing.assert_allclose(guides.mean(axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(guides.std(axis=0), 1.0, rtol=1e-4)


def test_far_rows_and_huge_metrics_stay_finite(planted):
    table, memory, _ = planted
    found = memory.predict(np.full((2, 4), 1e30, dtype=np.float32))
    assert all(np.isfinite(part).all() for part in found)
    huge = plain(table, metric=1e6 * np.eye(4, dtype=np.float32))
    assert np.isfinite(huge.cells).sum() == 1200 * 4
    assert all(np.isfinite(part).all() for part in huge.predict(table.inputs, np.arange(1200)))


def test_caches_are_not_pickled(planted):
    table, memory, _ = planted
    fresh = dataclasses.replace(memory)
    size = len(pickle.dumps(fresh))
    before = fresh.predict(table.inputs, np.arange(1200))
    assert len(pickle.dumps(fresh)) == size
    after = pickle.loads(pickle.dumps(fresh)).predict(table.inputs, np.arange(1200))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(before, after))
