"""Kernels that train quantile networks: the steps of a reference in jax, for any number of threads."""

import numpy as np
import pytest
from reference_steps import outputs_of, pinball, steps_of_adamw
from scipy import stats

from usnrt.nn.encoding import PiecewiseLinear, encode
from usnrt.nn.mlp import MLP
from usnrt.nn.quantile_training import QuantileEpochs, QuantileRows, QuantileSteps
from usnrt.nn.quantiles import LEVELS, N_OUTPUTS, SHARES, quantile_function_mean, start_at, to_quantiles
from usnrt.nn.train import Training, train
from usnrt.utils.threads import ONE_BLAS_THREAD

COSINE = Training(0.01, 128, 10, "cosine", weight_decay=0.1, average=0.9)


@pytest.fixture(autouse=True)
def one_blas_thread():
    with ONE_BLAS_THREAD:
        yield


class Problem:
    """A table with guides, weights, a column of two values and a network for it."""

    def __init__(self, n_bins=8, n_guides=0, hidden=(70, 20), training=COSINE, n=700, d=5, left_out=()):
        rng = np.random.default_rng(0)
        self.x = rng.normal(size=(n, d)).astype(np.float32)
        self.x[:, 1] = self.x[:, 1] > 0
        self.x[:5, 2] = 9.0  # beyond the limit of inputs
        self.guides = rng.normal(size=(n, n_guides)).astype(np.float32) if n_guides else None
        self.y, self.weight = self.x[:, 0] + rng.normal(size=n), rng.uniform(0.5, 2.0, n)
        self.encoding = None
        if n_bins:
            kept = np.setdiff1d(np.arange(d), left_out)
            self.encoding = PiecewiseLinear.fit(self.x, np.arange(d - 1), n_bins, kept).with_more(n_guides)
        self.inputs = self.x if self.guides is None else np.concatenate([self.x, self.guides], axis=1)
        n_inputs = self.inputs.shape[1] if self.encoding is None else self.encoding.n_outputs
        self.network, self.training = MLP((n_inputs, *hidden, N_OUTPUTS), "algebraic"), training
        self.rows = QuantileRows.of(self.encoding, self.x, self.guides, self.y, self.weight)
        self.start = start_at(self.network, np.random.default_rng(1), 0.0, 1.0)
        self.order = rng.permutation(n)

    def steps(self, dropout=0.0, n_threads=1):
        n_guides = 0 if self.guides is None else self.guides.shape[1]
        return QuantileSteps(self.network, self.encoding, self.training, n_guides, dropout, n_threads)

    def after(self, steps, turned=False, n_total=8):
        """Loss and state after all rows."""
        if turned:
            steps.turn(self.rows.inputs, self.rows.guides)
        state = steps.start(self.start)
        return steps.run(state, self.rows, self.order, 0, n_total, seed=3), state

    @property
    def batches(self):
        size = self.training.batch_size
        return [self.order[start : start + size] for start in range(0, len(self.order), size)]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_guides": 3},
        {"n_bins": 0},
        {"n_bins": 0, "n_guides": 3},
        {"hidden": (16,), "left_out": (0, 3)},
        {"training": Training(0.01, 32, 10, "constant")},
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_steps_are_those_of_the_reference(options, turned):
    problem = Problem(**options)
    steps = problem.steps()
    loss, state = problem.after(steps, turned)
    components = None
    if turned:
        x = problem.inputs if problem.encoding is None else encode(np, problem.inputs, *problem.encoding.constants)
        used = np.flatnonzero(x.any(axis=0))
        components = np.eye(x.shape[1])
        components[np.ix_(used, used)] = np.linalg.eigh(x[:, used].T.astype(float) @ x[:, used])[1]
    weights, averaged, expected = steps_of_adamw(
        problem.encoding, problem.start, problem.inputs, problem.y, problem.weight, problem.batches, problem.training,
        8, components,
    )  # fmt: skip
    assert loss == pytest.approx(expected, rel=1e-5)
    lines = state.reshape(4, -1)
    for line, layers in ((lines[0], weights), (lines[3], averaged)):
        for found, own in zip(steps.params(line), layers, strict=True):
            for one, other in zip(found, own, strict=True):
                # Adam divides gradients by their own size: nearly 0 along a component, rounding decides their sign
                np.testing.assert_allclose(one, other, atol=0.02 if turned else 2e-5)
    assert np.abs(lines[0] - np.concatenate([np.ravel(a) for layer in weights for a in layer])).mean() < 2e-4


def test_the_loss_is_that_of_the_reference():
    problem = Problem(n_guides=2)
    steps, chosen = problem.steps(), np.arange(100, 400)
    state = steps.start(problem.start)
    x = encode(np, problem.inputs[chosen], *problem.encoding.constants)
    losses = pinball(outputs_of(problem.start, x), problem.y[chosen])
    expected = np.average(losses, weights=problem.weight[chosen])
    assert steps.loss(state, problem.rows, chosen) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("n_threads", [2, 3])
def test_bits_do_not_depend_on_the_number_of_threads(turned, n_threads):
    problem = Problem(n_guides=3, training=Training(0.01, 256, 10, "cosine", average=0.9), n=1500)
    (loss, state), (other_loss, other) = (
        problem.after(problem.steps(0.3, threads), turned) for threads in (1, n_threads)
    )
    assert loss == other_loss
    np.testing.assert_array_equal(state, other)
    chosen = np.arange(1000)
    assert problem.steps(0.3, n_threads).loss(state, problem.rows, chosen) == problem.steps().loss(
        state, problem.rows, chosen
    )


def test_guides_are_missing_for_their_share_of_the_rows():
    """A guide that is the target: with dropout the loss is that of a mixture of rows with and without it."""
    problem = Problem(n_bins=0, n_guides=1, hidden=(4,), n=6000, training=Training(0.0, 250, 1))
    guides = np.ones((6000, 1), dtype=np.float32)
    rows = QuantileRows.of(None, problem.x, guides, problem.y, np.ones(6000))
    losses = {}
    for share in (0.0, 0.3, 1.0):
        steps = problem.steps(share)
        losses[share] = steps.run(steps.start(problem.start), rows, problem.order, 0, 24, seed=7)
    found = (losses[0.3] - losses[0.0]) / (losses[1.0] - losses[0.0])
    assert losses[0.0] != losses[1.0]
    assert found == pytest.approx(0.3, abs=0.1)
    steps = problem.steps(1.0)
    without = QuantileRows.of(None, problem.x, 0 * guides, problem.y, np.ones(6000))
    assert losses[1.0] == pytest.approx(steps.loss(steps.start(problem.start), without, problem.order), rel=1e-5)


def test_many_bins_of_one_column():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 1)).astype(np.float32)
    encoding = PiecewiseLinear.fit(x, np.array([0]), 600)
    rows = QuantileRows.of(encoding, x, None, x[:, 0], np.ones(900))
    assert rows.bins.dtype == np.uint16
    network = MLP((encoding.n_outputs, 8, N_OUTPUTS), "algebraic")
    steps, params = QuantileSteps(network, encoding, COSINE), start_at(network, rng, 0.0, 1.0)
    expected = float(np.mean(pinball(outputs_of(params, encoding(x)), x[:, 0])))
    assert steps.loss(steps.start(params), rows, np.arange(900)) == pytest.approx(expected, rel=1e-4)


def test_wide_codes_are_not_turned():
    problem = Problem(n_bins=150)
    (_, turned), (_, plain) = (problem.after(problem.steps(), own) for own in (True, False))
    assert problem.encoding.n_outputs > 512
    np.testing.assert_array_equal(turned, plain)


def fitted(x, y, training, seed=0, hidden=(32,)):
    network, n = MLP((x.shape[1], *hidden, N_OUTPUTS), "algebraic"), len(x) * 4 // 5
    rng = np.random.default_rng(seed)
    epochs = QuantileEpochs(
        QuantileSteps(network, None, training), QuantileRows.of(None, x, None, y, np.ones(len(x))), np.arange(n),
        np.arange(n, len(x)),
    )  # fmt: skip
    params, history = train(epochs, start_at(network, rng, 0.0, 1.0), rng)
    return to_quantiles(np.asarray(outputs_of(params, x))), history


def test_it_learns_two_peaks():
    """Half of the rows are near -1, half near 1: a normal distribution would put most of its mass in between."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 2)).astype(np.float32)
    y = np.where(rng.random(3000) < 0.5, -1.0, 1.0) + 0.05 * rng.normal(size=3000)
    quantiles = np.median(fitted(x, y, Training(0.01, 64, 30, "cosine", 30, average=0.99))[0], axis=0)
    np.testing.assert_allclose(quantiles[[0, 1, 2, 3]], -1.0, atol=0.15)
    np.testing.assert_allclose(quantiles[[7, 8, 9, 10]], 1.0, atol=0.15)


@pytest.mark.parametrize("spread", [0.03, 1.0])
def test_differences_of_equal_columns_are_learnt_along_components(spread):
    """Planted: columns that differ by little, on whose differences the target depends; null: columns that differ."""
    rng = np.random.default_rng(0)
    own = rng.standard_normal((1500, 6))
    x, y = (rng.standard_normal((1500, 1)) + spread * own).astype(np.float32), np.sin(own[:, 0] - own[:, 1])
    losses = [
        min(fitted(x, y, Training(0.003, 64, 30, "cosine", 30, along_components=along))[1].valid_loss)
        for along in (False, True)
    ]
    assert losses[1] < (0.7 if spread < 1 else 1.5) * losses[0]


def test_quantiles_of_a_normal_distribution_are_found():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 1)).astype(np.float32)
    quantiles, _ = fitted(x, 2.0 + 3.0 * rng.normal(size=4000), Training(0.01, 128, 20, "cosine", 20, average=0.99))
    assert np.median(quantile_function_mean(quantiles)) == pytest.approx(2.0, abs=0.2)
    np.testing.assert_allclose(np.median(quantiles, axis=0)[2:9], 2.0 + 3.0 * stats.norm.ppf(LEVELS[2:9]), atol=0.35)


def test_the_loss_is_nearly_half_the_crps():
    y = np.linspace(-3, 3, 25)
    crps = y * (2 * stats.norm.cdf(y) - 1) + 2 * stats.norm.pdf(y) - 1 / np.sqrt(np.pi)
    np.testing.assert_allclose(2 * np.asarray(pinball(np.zeros((25, N_OUTPUTS)), y)), crps, atol=0.04)


def test_the_loss_is_the_sum_of_pinball_losses():
    rng = np.random.default_rng(0)
    outputs, target = rng.normal(size=(20, N_OUTPUTS)), rng.normal(size=20)
    distance = target[:, None] - to_quantiles(outputs)
    by_hand = (SHARES * np.where(distance > 0, LEVELS * distance, (LEVELS - 1) * distance)).sum(axis=1)
    np.testing.assert_allclose(np.asarray(pinball(outputs, target)), by_hand, rtol=1e-5)
