"""Dropout networks and their passes against plain numpy, gradients against finite differences."""

import jax
import numpy as np
import pytest
from scipy.special import expit

from usnrt.nn.dropout import (
    MAX_RATE,
    MIN_RATE,
    ConcreteDropoutMLP,
    ConcretePenalty,
    DropoutMLP,
    heteroscedastic_nll,
    random_bits,
    uniform,
)
from usnrt.nn.passes import CHUNK, predict_passes

RNG = np.random.default_rng(0)
NETWORK = ConcreteDropoutMLP((3, 5, 4, 2), first_rate=0.3)
HEADS = ConcreteDropoutMLP((3, 5, 4, 2), first_rate=0.3, activation="elu", separate_heads=True)


def drawn_numbers(params, n_rows):
    """The uniform numbers that the network draws without a key, layer by layer."""
    return [
        np.asarray(
            uniform(random_bits(jax.random.fold_in(jax.random.key(0), layer), (n_rows, len(weights)))), dtype=np.float64
        )
        for layer, (weights, _, _) in enumerate(params)
    ]


def hidden_activation(network, x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)) if network.activation == "elu" else 0)


def objective_in_numpy(network, params, x, y, drawn, length_scale):
    """Equation (3) of Gal, Hron and Kendall with a heteroscedastic normal likelihood, per row, in float64."""
    penalty, outputs = 0.0, []
    for layer, (weights, bias, logit) in enumerate(params):
        rate = MIN_RATE + (MAX_RATE - MIN_RATE) * expit(logit)
        u = drawn[layer]
        dropped = expit((np.log(rate) - np.log(1 - rate) + np.log(u) - np.log(1 - u)) / network.temperature)
        value = (x * (1 - dropped) / (1 - rate)) @ weights + bias
        if layer < len(network.sizes) - 2:
            x = hidden_activation(network, value)
        else:
            outputs.append(value)
        entropy = -rate * np.log(rate) - (1 - rate) * np.log(1 - rate)
        penalty += length_scale**2 / 2 * (weights**2).sum() / (1 - rate) - weights.shape[0] * entropy
    mean, log_variance = np.concatenate(outputs, axis=1).T
    nll = 0.5 * (log_variance + (y - mean) ** 2 / np.exp(log_variance))
    return nll.mean() + penalty / len(y)


def objective_in_jax(params, network, x, y, length_scale):
    values = heteroscedastic_nll(network(params, x), y)
    return values.mean() + ConcretePenalty(length_scale)(params, len(y))


@pytest.fixture(scope="module", params=[NETWORK, HEADS], ids=["one head", "separate heads"])
def problem(request):
    network = request.param
    params = network.init(RNG)
    params = tuple((w, b + RNG.normal(size=b.shape).astype(np.float32) * 0.1, z) for w, b, z in params)
    return network, params, RNG.normal(size=(40, 3)).astype(np.float32), RNG.normal(size=40).astype(np.float32)


def test_concrete_objective_equals_plain_numpy(problem):
    network, params, x, y = problem
    ours = objective_in_jax(params, network, x, y, 0.7)
    drawn = drawn_numbers(params, len(x))
    assert float(ours) == pytest.approx(objective_in_numpy(network, params, x, y, drawn, 0.7), rel=1e-4)


@pytest.mark.parametrize("part", [0, 1, 2], ids=["weights", "biases", "rates"])
def test_concrete_gradient_equals_finite_differences(problem, part):
    network, params, x, y = problem
    gradient = jax.grad(objective_in_jax)(params, network, x, y, 0.7)
    exact = [[np.asarray(a, dtype=np.float64) for a in layer] for layer in params]
    drawn, step = drawn_numbers(params, len(x)), 1e-5
    for layer in range(len(params)):
        for index in np.ndindex(exact[layer][part].shape):
            sides = []
            for sign in (1, -1):
                moved = [[a.copy() for a in parts] for parts in exact]
                moved[layer][part][index] += sign * step
                sides.append(objective_in_numpy(network, moved, x.astype(np.float64), y, drawn, 0.7))
            slope = (sides[0] - sides[1]) / (2 * step)
            assert float(gradient[layer][part][index]) == pytest.approx(slope, rel=2e-2, abs=2e-3)


def test_random_bits_are_uniform_and_differ_between_keys():
    first, second = (np.asarray(random_bits(jax.random.key(seed), (300, 300))) for seed in (1, 2))
    share = [((first >> bit) & 1).mean() for bit in range(32)]
    np.testing.assert_allclose(share, 0.5, atol=0.01)
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.01
    assert abs(np.corrcoef(first[:, 1:].ravel(), first[:, :-1].ravel())[0, 1]) < 0.01
    numbers = np.asarray(uniform(np.uint32([0, 2**32 - 1])))
    assert 0 < numbers[0] < numbers[1] < 1


def test_dropout_drops_at_its_rate_and_keeps_the_mean():
    network = DropoutMLP((2, 400, 1), rate=0.3)
    weights = np.ones((2, 400), dtype=np.float32), np.zeros(400, dtype=np.float32)
    params = (weights, (np.ones((400, 1), dtype=np.float32) / 400, np.zeros(1, dtype=np.float32)))
    x = np.ones((500, 2), dtype=np.float32)
    outputs = np.asarray(network(params, x, jax.random.key(0)))[:, 0]  # 2 * share kept / 0.7
    assert np.asarray(network(params, x))[0, 0] == pytest.approx(2.0)
    assert outputs.mean() == pytest.approx(2.0, rel=0.01)
    assert outputs.std() == pytest.approx(2.0 * np.sqrt(0.3 / 0.7 / 400), rel=0.1)


@pytest.mark.parametrize(
    "network", [DropoutMLP((3, 7, 5, 1), 0.5), NETWORK, HEADS], ids=["fixed rate", "learned rates", "separate heads"]
)
def test_passes_equal_a_loop_in_numpy(network):
    params = network.init(np.random.default_rng(1))
    masks = network.draw_masks(params, 60, np.random.default_rng(2))
    x = RNG.normal(size=(CHUNK + 30, 3)).astype(np.float32)
    means, noises = [], []
    for t in range(60):
        state, n_hidden = x.astype(np.float64), len(network.sizes) - 2
        for layer, parts in enumerate(params[:n_hidden]):
            state = hidden_activation(network, (state * masks[layer][t]) @ parts[0] + parts[1])
        heads = params[n_hidden:]
        masks_of_heads = np.atleast_2d(masks[-1][t])
        state = np.hstack([(state * mask) @ parts[0] + parts[1] for mask, parts in zip(masks_of_heads, heads)])
        means.append(state[:, 0])
        noises.append(np.exp(state[:, 1]) if state.shape[1] > 1 else np.zeros(len(x)))
    layers = network.layers(params)
    mean, variance, noise = predict_passes(layers, masks, x, n_threads=2, activation=network.activation)
    np.testing.assert_allclose(mean, np.mean(means, axis=0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(variance, np.var(means, axis=0), rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(noise, np.mean(noises, axis=0), rtol=1e-4)


def test_masks_drop_at_the_stated_rate():
    fixed = DropoutMLP((3, 200, 1), 0.2)
    inputs, hidden = fixed.draw_masks(fixed.init(RNG), 500, RNG)
    assert (inputs == 1).all()
    assert set(np.unique(hidden).tolist()) == {0.0, np.float32(1.25)}
    assert (hidden == 0).mean() == pytest.approx(0.2, abs=0.01)
    learned = ConcreteDropoutMLP((200, 200, 2), first_rate=0.3)
    for mask in learned.draw_masks(learned.init(RNG), 500, RNG):
        assert (mask * 0.7 < 0.5).mean() == pytest.approx(0.3, abs=0.01)


def test_a_pass_that_drops_everything_answers_with_the_biases():
    layers = [(np.ones((2, 3), np.float32), np.ones(3, np.float32)), (np.ones((3, 1), np.float32), np.float32([4.0]))]
    masks = [np.ones((2, 2), np.float32), np.zeros((2, 3), np.float32)]
    mean, variance, _ = predict_passes(layers, masks, np.ones((5, 2), np.float32))
    np.testing.assert_array_equal(mean, 4.0)
    np.testing.assert_array_equal(variance, 0.0)


@pytest.mark.parametrize(("n_inputs", "units", "n_outputs"), [(900, 4, 1), (3, 900, 1), (3, 4, 3)])
def test_passes_of_networks_that_do_not_fit_are_refused(n_inputs, units, n_outputs):
    layers = [(np.ones((n_inputs, 4), np.float32), np.ones(4, np.float32))]
    layers += [(np.ones((units, n_outputs), np.float32), np.ones(n_outputs, np.float32))]
    masks = [np.ones((2, 3), np.float32), np.ones((2, 4), np.float32)]
    with pytest.raises(ValueError, match=r"must fit (together|the network), got"):
        predict_passes(layers, masks, np.ones((5, 3), np.float32))
