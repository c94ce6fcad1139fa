"""Learning a metric: steps of a reference in jax, for any number of threads, and planted and null tables."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from usnrt.memory import metric as learning
from usnrt.memory.metric import MetricRows, MetricTraining
from usnrt.nn.encoding import PiecewiseLinear
from usnrt.utils.threads import ONE_BLAS_THREAD

N, D = 700, 4


@pytest.fixture(autouse=True)
def one_blas_thread():
    with ONE_BLAS_THREAD:
        yield


def table(encoded=True, grouped=False, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, D)).astype(np.float32)
    y, weight = x[:, 0] + 0.3 * rng.normal(size=N), rng.uniform(0.5, 2.0, N)
    encoding = PiecewiseLinear.fit(x, np.arange(D - 1), 6) if encoded else None
    group = rng.integers(0, 50, N) if grouped else None
    return MetricRows(encoding, x, y, weight, group, np.arange(N - 100))


def steps_of(rows, n_threads=1, **options):
    training = MetricTraining(**{"n_dims": 7, "n_steps": 6, "block_size": 150, "refresh": 3, "dropout": 0.0, **options})

    def embed(metric, chosen):
        x = rows.inputs[chosen]
        return (x if rows.encoding is None else rows.encoding(x)) @ metric

    return learning._Steps(rows, embed, training, n_threads)


def after(steps, n_now=3):
    metric = np.random.default_rng(1).normal(size=steps.shape).astype(np.float32)
    state = steps.start(metric)
    steps.run(state, 0, n_now, 5, np.random.default_rng(2))
    return metric, steps.metric(state)


def block_loss(metric, x, y, log_weight, own, counts, at, gaps):
    """Sum of the CRPS of all rows of some blocks, each predicted by the others, divided by their weight."""
    embedded = x @ metric
    squares = jnp.sum(embedded * embedded, axis=2)
    products = jnp.einsum("bid,bjd->bij", embedded, embedded)
    distance = jnp.sqrt(jnp.maximum(squares[:, :, None] + squares[:, None] - 2.0 * products, 1e-6))
    logits = jnp.where(counts, log_weight, -1e30)[:, None, :] - distance
    logits = jnp.where(own[:, :, None] == own[:, None, :], -1e30, logits)
    below = (y[:, :, None] <= at).astype(jnp.float32)
    predicted = jnp.einsum("bij,bjk->bik", jax.nn.softmax(logits, axis=2), below)
    weight = jnp.where(counts, jnp.exp(log_weight), 0.0)
    return jnp.sum(jnp.sum(gaps * (predicted - below) ** 2, axis=2) * weight) / jnp.sum(weight)


@pytest.mark.parametrize(("encoded", "grouped"), [(True, False), (False, True)])
def test_steps_are_those_of_the_reference(encoded, grouped):
    rows = table(encoded, grouped)
    steps = steps_of(rows)
    before, found = after(steps)
    metric, optimiser = jnp.asarray(before), optax.scale_by_adam()
    state, own = optimiser.init(metric), steps.training
    embedded = steps._embed(before, rows.chosen)
    blocks = learning._draw_blocks(embedded, rows.chosen, rows.y, 150, 6, np.random.default_rng(2)).reshape(3, 2, -1)
    x, group = rows.inputs if rows.encoding is None else rows.encoding(rows.inputs), rows.group
    at, gaps = learning._thresholds(rows.y[rows.chosen], own.n_thresholds)
    for step, block in enumerate(blocks):
        chosen = np.maximum(block, 0)
        gradient = jax.grad(block_loss)(
            metric, x[chosen], rows.y[chosen], np.log(rows.weight[chosen]),
            (np.arange(N) if group is None else group)[chosen], block >= 0, at, gaps,
        )  # fmt: skip
        update, state = optimiser.update(gradient, state)
        metric -= own.learning_rate * 0.5 * (1 + np.cos(np.pi * step / own.n_steps)) * update
    assert np.abs(found - before).max() > 0.02
    np.testing.assert_allclose(found, metric, atol=2e-4)


@pytest.mark.parametrize("n_threads", [2, 3])
def test_bits_do_not_depend_on_the_number_of_threads(n_threads):
    (_, one), (_, other) = (after(steps_of(table(), threads, dropout=0.3)) for threads in (1, n_threads))
    np.testing.assert_array_equal(one, other)


def test_dropped_inputs_are_not_learnt():
    before, found = after(steps_of(table(), dropout=0.5), n_now=1)
    changed = (found != before).any(axis=1)
    assert 0.2 < changed.mean() < 0.8
    assert (found == before).all(axis=1)[~changed].all()


def test_a_row_without_others_in_its_block_learns_nothing():
    rows = table()
    alone = MetricRows(rows.encoding, rows.inputs, rows.y, rows.weight, np.zeros(N, dtype=np.intp), rows.chosen)
    before, found = after(steps_of(alone))
    np.testing.assert_array_equal(found, before)


def test_thresholds_of_few_targets_are_filled_up():
    at, gaps = learning._thresholds(np.array([0.0, 1.0, 1.0]), 24)
    assert at.shape == gaps.shape == (24,)
    assert gaps.sum() == pytest.approx(1.0)


def test_blocks_are_sorted_by_the_target():
    rng = np.random.default_rng(0)
    rows, y = np.arange(10, 110), rng.normal(size=200)
    blocks = learning._draw_blocks(rng.normal(size=(100, 3)), rows, y, 30, 4, rng)
    for block in blocks:
        own = block[block >= 0]
        assert (np.diff(y[own]) >= 0).all()
    np.testing.assert_array_equal(np.sort(blocks[blocks >= 0]), rows)
