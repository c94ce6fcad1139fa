"""Compiled training, numpy prediction, and guarantees about compilation and reproducibility."""

import os
import subprocess
import sys

import numpy as np
import pytest

from usnrt.nn.alternate import Alternation, NetworkRows, inverse_variance_weights, train_alternately
from usnrt.nn.device import DeviceTable, rounded_up
from usnrt.nn.forward import CHUNK, GroupedNetworks, forward, predict
from usnrt.nn.jax_epochs import JaxEpochs, _program
from usnrt.nn.losses import squared_error, variance_nll
from usnrt.nn.mlp import MLP, hidden_sizes
from usnrt.nn.train import History, Training, _should_stop, train
from usnrt.tables.rows import draw_validation


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3000, 4)).astype(np.float32)
    std = np.where(x[:, 0] > 0, 1.0, 0.2)
    y = x[:, 1] - x[:, 2] + std * rng.standard_normal(3000)
    return x, y, std


@pytest.mark.parametrize(("activation", "output"), [("relu", "linear"), ("tanh", "softplus")])
def test_numpy_prediction_equals_the_jax_network(activation, output):
    network = MLP((4, 32, 16, 2), activation, output)
    rng = np.random.default_rng(1)
    params = network.init(rng)
    x = rng.standard_normal((100, 4)).astype(np.float32) * 3
    np.testing.assert_allclose(forward(network, params, x), network(params, x), rtol=2e-5, atol=2e-6)


def test_xavier_weights_have_the_right_spread():
    (weights, bias), _ = MLP((300, 500, 1)).init(np.random.default_rng(0))
    assert weights.std() == pytest.approx(np.sqrt(2 / 800), rel=0.01)
    assert not bias.any()


def test_training_gradient_is_that_of_the_weighted_loss():
    """One full-batch step of Adam moves every weight by the learning rate against the sign of its gradient."""
    network = MLP((2, 1))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 2)).astype(np.float32)
    y, weight = rng.standard_normal(50), rng.uniform(0.1, 3.0, 50)
    start = network.init(rng)
    residual = y - forward(network, start, x)[:, 0]
    gradient = np.array([-2 * np.mean(weight * residual * x[:, j]) for j in range(2)])
    how = Training(learning_rate=1e-3, batch_size=64, max_epochs=1)
    rows = np.arange(50)
    epochs = JaxEpochs(network, squared_error, DeviceTable(x), y, weight, (rows, rows), how)
    params, _ = train(epochs, start, rng)
    np.testing.assert_allclose(params[0][0][:, 0], start[0][0][:, 0] - 1e-3 * np.sign(gradient), rtol=1e-4)


def test_losses_are_reported_as_weighted_means(problem):
    x, y, _ = problem
    network = MLP((4, 1))
    params = network.init(np.random.default_rng(0))
    weight = np.linspace(0.5, 2, len(y))
    valid = np.arange(2000, 3000)
    how = Training(learning_rate=1e-9, max_epochs=1)
    epochs = JaxEpochs(network, squared_error, DeviceTable(x), y, weight, (np.arange(2000), valid), how)
    _, history = train(epochs, params, np.random.default_rng(0))
    residual = y - predict(network, params, x)
    assert history.valid_loss[0] == pytest.approx(np.average(residual[valid] ** 2, weights=weight[valid]), rel=1e-5)
    expected = np.average(residual[:2000] ** 2, weights=weight[:2000])
    assert history.train_loss[0] == pytest.approx(expected, rel=1e-5)


def test_variance_nll_is_the_normal_likelihood():
    from scipy.stats import norm

    rng = np.random.default_rng(0)
    residual, variance = rng.standard_normal(20), rng.uniform(0.1, 3, 20)
    expected = -norm.logpdf(residual, scale=np.sqrt(variance)) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(variance_nll(variance[:, None], residual**2), expected, rtol=1e-5)


@pytest.mark.parametrize("reinitialize", [False, True])
def test_learns_mean_and_variance(problem, reinitialize):
    x, y, std = problem
    networks = (MLP((4, 32, 16, 1)), MLP((4, 16, 8, 1), "tanh", "softplus"))
    how, rng = Training(max_epochs=60, patience=15), np.random.default_rng(0)
    pair = train_alternately(
        networks,
        NetworkRows(DeviceTable(x), x, y, np.ones(len(y))),
        lambda: draw_validation(np.arange(3000), 0.2, rng),
        Alternation((how, how), reinitialize),
        rng,
    )
    assert set(pair.history) == {"mean 1", "variance 1", "mean 2", "variance 2"}
    error = predict(networks[0], pair.mean, x) - (x[:, 1] - x[:, 2])
    assert np.sqrt(np.mean(error[x[:, 0] < 0] ** 2)) < 0.15
    predicted = np.sqrt(predict(networks[1], pair.variance, x))
    inside = np.abs(x[:, 0]) > 0.5
    assert np.median(predicted[inside & (std == 1.0)]) == pytest.approx(1.0, rel=0.25)
    assert np.median(predicted[inside & (std == 0.2)]) == pytest.approx(0.2, rel=0.35)


def test_nodes_of_any_size_share_one_program(problem):
    x, y, _ = problem
    network, table = MLP((4, 7, 1)), DeviceTable(x)
    how = Training(max_epochs=2)
    program = _program(network, squared_error, None, 64, "constant", False, 4)
    before = program._cache_size()
    for n in (3, 64, 65, 1000, 2400):
        rows = np.arange(n)
        epochs = JaxEpochs(network, squared_error, table, y, None, (rows, rows), how)
        train(epochs, network.init(np.random.default_rng(0)), np.random.default_rng(0))
    # A table of about the same length, too.
    shorter = DeviceTable(x[:2950])
    epochs = JaxEpochs(network, squared_error, shorter, y[:2950], None, (rows, rows), how)
    train(epochs, network.init(np.random.default_rng(0)), np.random.default_rng(0))
    assert program._cache_size() - before == 1


BITS = """
import hashlib
import numpy as np
from usnrt.nn.device import DeviceTable
from usnrt.nn.mlp import MLP
from usnrt.nn.jax_epochs import JaxEpochs
from usnrt.nn.losses import EvidentialLoss
from usnrt.nn.train import Training, train
rng = np.random.default_rng(0)
x = rng.standard_normal((1280, 40)).astype(np.float32)
network, parts = MLP((40, 256, 64, 4)), (np.arange(1024), np.arange(1024, 1280))
training = Training(batch_size=256, max_epochs=2)
params, _ = train(
    JaxEpochs(network, EvidentialLoss(), DeviceTable(x), x[:, 0], None, parts, training), network.init(rng), rng
)
print(hashlib.sha256(b"".join(array.tobytes() for layer in params for array in layer)).hexdigest())
"""


def test_xla_gives_the_same_bits_on_one_thread_and_on_several():
    """Programs run on as many threads as there are cores: by default XLA divides sums of batches among them."""
    words = [sys.executable, "-c", BITS]
    bits = [
        subprocess.run(words, env={**os.environ, "NPROC": n_threads}, capture_output=True, text=True, check=True).stdout
        for n_threads in ("1", "3")
    ]
    assert len(bits[0]) == 65
    assert bits[0] == bits[1]


def test_same_generator_gives_the_same_bits(problem):
    x, y, _ = problem
    network, table = MLP((4, 16, 1)), DeviceTable(x)

    def run():
        rng = np.random.default_rng(5)
        parts = np.arange(2000), np.arange(2000, 3000)
        epochs = JaxEpochs(network, squared_error, table, y, None, parts, Training(max_epochs=5))
        return train(epochs, network.init(rng), rng)[0]

    for (w1, b1), (w2, b2) in zip(run(), run()):
        np.testing.assert_array_equal(w1, w2)
        np.testing.assert_array_equal(b1, b2)


def test_predictions_of_rows_do_not_depend_on_other_rows():
    network = MLP((6, 48, 24, 1), "tanh", "softplus")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3 * CHUNK + 17, 6)).astype(np.float32)
    groups = [network.init(rng) for _ in range(3)]
    group = rng.integers(0, 3, len(x))
    full = GroupedNetworks(network, groups).predict(x, group, n_threads=2)
    np.testing.assert_array_equal(full, GroupedNetworks(network, groups).predict(x, group, n_threads=1))
    some = rng.permutation(len(x))[:100]
    np.testing.assert_array_equal(full[some], GroupedNetworks(network, groups).predict(x, group, rows=some))
    np.testing.assert_array_equal(full[some], GroupedNetworks(network, groups).predict(x[some], group[some]))


def test_diverging_training_stops_with_the_last_good_weights(problem):
    x, y, _ = problem
    network = MLP((4, 1))
    start = network.init(np.random.default_rng(0))
    target = np.where(np.arange(len(y)) == 5, np.inf, y)
    parts = np.arange(100), np.arange(100, 200)
    epochs = JaxEpochs(network, squared_error, DeviceTable(x), target, None, parts, Training())
    params, history = train(epochs, start, np.random.default_rng(0))
    assert history.diverged
    assert history.valid_loss == []
    np.testing.assert_array_equal(params[0][0], start[0][0])


def test_stopping_rules():
    papers = Training()
    falling = History(valid_loss=[1.0 / (i + 1) for i in range(40)], best_epoch=39)
    assert not _should_stop(falling, papers)
    rising = History(valid_loss=[1.0 + 0.01 * i for i in range(25)], best_epoch=0)
    assert _should_stop(rising, papers)
    assert not _should_stop(History(valid_loss=rising.valid_loss[:24], best_epoch=0), papers)
    assert _should_stop(rising, Training(patience=24))
    assert not _should_stop(rising, Training(patience=25))
    slowly = History(valid_loss=[1.0 - 1e-6 * i for i in range(25)], best_epoch=24)
    assert not _should_stop(slowly, papers)
    assert _should_stop(slowly, Training(stop_margin=1e-4))


def test_cosine_schedule_ends_with_steps_of_nearly_nothing(problem):
    x, y, _ = problem
    network, seen = MLP((4, 1)), []
    start = network.init(np.random.default_rng(0))
    for schedule in ("constant", "cosine"):
        how = Training(learning_rate=0.05, schedule=schedule, max_epochs=30, patience=30)
        parts = np.arange(2400), np.arange(2400, 3000)
        epochs = JaxEpochs(network, squared_error, DeviceTable(x), y, None, parts, how)
        _, history = train(epochs, start, np.random.default_rng(0))
        seen.append(np.std(history.valid_loss[-4:]))
    assert seen[1] < 0.05 * seen[0]


def test_averaged_weights_validate_more_smoothly(problem):
    x, y, _ = problem
    network, wobble = MLP((4, 16, 1)), []
    start = network.init(np.random.default_rng(0))
    for average in (0.0, 0.99):
        how = Training(learning_rate=0.05, max_epochs=30, patience=30, average=average)
        parts = np.arange(2400), np.arange(2400, 3000)
        epochs = JaxEpochs(network, squared_error, DeviceTable(x), y, None, parts, how)
        _, history = train(epochs, start, np.random.default_rng(0))
        wobble.append(np.std(np.diff(history.valid_loss[10:])))
    assert wobble[1] < 0.5 * wobble[0]


@pytest.mark.parametrize("reinitialize", [False, True])
def test_every_training_starts_anew_on_other_rows_if_asked(problem, reinitialize):
    x, y, _ = problem
    drawn, rng = [], np.random.default_rng(0)

    def draw_parts():
        drawn.append(draw_validation(np.arange(3000), 0.2, rng))
        return drawn[-1]

    networks = (MLP((4, 8, 1)), MLP((4, 4, 1), "tanh", "softplus"))
    how = Training(max_epochs=1, learning_rate=1e-9)
    rows = NetworkRows(DeviceTable(x), x, y, np.ones(len(y)))
    pair = train_alternately(networks, rows, draw_parts, Alternation((how, how), reinitialize), rng)
    assert len(drawn) == (4 if reinitialize else 1)
    assert len({tuple(valid) for _, valid in drawn}) == len(drawn)
    # at this rate weights stay as drawn: those of the first training, unless they were drawn again
    rng = np.random.default_rng(0)
    draw_validation(np.arange(3000), 0.2, rng)
    first = networks[0].init(rng)
    assert np.allclose(pair.mean[0][0], first[0][0], atol=1e-6) != reinitialize


def test_inverse_variance_weights_average_one_and_may_be_bounded():
    variance = np.array([1.0, 1.0, 1.0, 1e-8])
    free, bounded = inverse_variance_weights(variance), inverse_variance_weights(variance, 1e-4)
    assert free.mean() == pytest.approx(1.0)
    assert bounded.mean() == pytest.approx(1.0)
    assert free[3] / free[0] == pytest.approx(1e8)
    assert bounded[3] / bounded[0] == pytest.approx(1e4)


@pytest.mark.parametrize(
    ("hidden", "message"),
    [
        (("8x",), "hidden must hold ints >= 1 or multiples like '8d', got ('8x',)"),
        ((0,), "hidden must hold ints >= 1 or multiples like '8d', got (0,)"),
        ((None,), "hidden must hold ints >= 1 or multiples like '8d', got (None,)"),
    ],
)
def test_bad_hidden_sizes(hidden, message):
    with pytest.raises(ValueError) as caught:
        hidden_sizes(hidden, 3)
    assert str(caught.value) == message


def test_hidden_sizes_may_be_fractions_of_d():
    assert hidden_sizes(("0.5d", 7), 9) == (4, 7)


def test_rounding_up_wastes_an_eighth_beyond_small_tables():
    for n in range(9000, 300_000, 777):
        assert n <= rounded_up(n) <= n * 1.125 + 1
