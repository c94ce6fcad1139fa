"""Refinement of quantile functions by validation rows: planted gains are found, and nothing is changed for nothing."""

from dataclasses import replace

import numpy as np
import pytest

from usnrt import USNRTRegressor
from usnrt.datasets import make_heteroscedastic
from usnrt.experts.refine import LARGEST, Refinement, blend_and_refine, half_widths, pinball_losses
from usnrt.nn.quantiles import POSITIONS, quantile_function_mean


def rows(n=4000, seed=0):
    """Normal targets in two regions of half width 0.2 and 1, with what perfect networks predict."""
    rng = np.random.default_rng(seed)
    leaf = rng.integers(0, 2, n)
    mean, std = rng.normal(size=n), np.where(leaf == 0, 0.2, 1.0)
    return rng, leaf, mean, std, mean + std * rng.normal(size=n)


def test_perfect_networks_are_left_as_they_are():
    _, leaf, mean, std, y = rows()
    quantiles = mean[:, None] + std[:, None] * POSITIONS
    refined = Refinement.fit(leaf, mean, quantiles, y, np.ones(len(y)), 2).apply(leaf, mean, quantiles)
    np.testing.assert_allclose(refined, quantiles, atol=1e-12)


def test_only_a_better_mean_moves_the_quantile_function():
    rng, leaf, mean, std, y = rows()
    error = 0.8 * std * rng.normal(size=len(y))
    off = (mean + error)[:, None] + std[:, None] * POSITIONS
    better = Refinement.fit(leaf, mean, off, y, np.ones(len(y)), 2)
    assert (better.location_share == 1.0).all()
    right = mean[:, None] + std[:, None] * POSITIONS
    worse = Refinement.fit(leaf, mean + error, right, y, np.ones(len(y)), 2)
    assert (worse.location_share <= 0.25).all()
    np.testing.assert_allclose(quantile_function_mean(better.apply(leaf, mean, off)), mean, atol=1e-9)


def test_only_half_widths_that_are_noise_shrink_to_their_regions():
    rng, leaf, mean, std, y = rows()
    noisy = std * np.exp(0.7 * rng.normal(size=len(y)))
    quantiles = mean[:, None] + noisy[:, None] * POSITIONS
    found = Refinement.fit(leaf, mean, quantiles, y, np.ones(len(y)), 2)
    assert (found.spread_share >= 0.75).all()
    refined = found.apply(leaf, mean, quantiles)
    assert pinball_losses(refined, y).mean() < pinball_losses(quantiles, y).mean()
    true_widths = np.where(leaf == 0, 1.0, noisy / std)  # in the second region the noise is the truth
    target = mean + std * true_widths * rng.normal(size=len(y))
    assert Refinement.fit(leaf, mean, quantiles, target, np.ones(len(y)), 2).spread_share[1] == 0.0


def test_small_regions_follow_the_table():
    rng, leaf, mean, std, y = rows()
    off = (mean + 0.8 * std * rng.normal(size=len(y)))[:, None] + std[:, None] * POSITIONS
    kept = np.concatenate([np.flatnonzero(leaf == 0)[:3], np.flatnonzero(leaf == 1)])
    few = Refinement.fit(leaf[kept], mean[kept], off[kept], y[kept], np.ones(len(kept)), 3)
    assert few.location_share[0] == few.location_share[1] == 1.0
    assert np.isfinite(few.log_half_width).all(), "a region without rows"


def test_weights_are_repetitions():
    rng, leaf, mean, std, y = rows(300)
    quantiles = (mean + 0.3 * rng.normal(size=300))[:, None] + std[:, None] * POSITIONS
    weight = rng.integers(1, 4, 300)
    again = np.repeat(np.arange(300), weight)
    weighted = Refinement.fit(leaf, mean, quantiles, y, weight.astype(float), 2)
    repeated = Refinement.fit(leaf[again], mean[again], quantiles[again], y[again], np.ones(len(again)), 2)
    np.testing.assert_array_equal(weighted.location_share, repeated.location_share)
    np.testing.assert_allclose(weighted.log_half_width, repeated.log_half_width)


@pytest.mark.parametrize("kind", ["piecewise", "zero_inflated", "heavy_tails"])
def test_predict_is_the_mean_of_the_distribution(kind):
    """Of its quantile function, not of a number that came from elsewhere."""
    data = make_heteroscedastic(kind, n_samples=900, random_state=0)
    model = USNRTRegressor(max_epochs=10, min_samples_leaf=200, random_state=0).fit(data.data, data.target)
    dist = model.predict_dist(data.data[:50])
    levels = np.linspace(0.0005, 0.9995, 1000)
    body = dist.ppf(levels)
    tails = body[:, [0, -1]]
    integral = body.mean(axis=1)
    # Beyond the levels lies a thousandth on either side at most; it may add what a heavy tail holds there.
    assert (np.abs(model.predict(data.data[:50]) - integral) < 0.05 * dist.std() + 0.002 * np.ptp(tails, axis=1)).all()


def test_half_widths_are_never_zero():
    assert (half_widths(np.zeros((2, len(POSITIONS)))) > 0).all()


@pytest.mark.parametrize("blend", [0.0, 0.3])
def test_blending_and_refining_in_place(blend):
    rng = np.random.default_rng(4)
    quantiles = np.cumsum(rng.uniform(0.0, 2.0, size=(5000, len(POSITIONS))), axis=1)
    mean, leaf = rng.normal(size=5000), rng.integers(0, 3, size=5000)
    shares = np.array([0.0, 0.5, 1.0]), np.array([0.1, -0.4, 2.0]), np.array([0.25, 0.0, 1.0])
    refinement = Refinement(*shares, low=2.0, high=12.0)
    expected_mean = mean + blend * (quantile_function_mean(quantiles) - mean)
    expected = refinement.apply(leaf, expected_mean, quantiles)
    for n_threads in (1, 2):
        found_mean, found = mean.copy(), quantiles.copy()
        blend_and_refine(leaf, found_mean, found, blend, refinement, n_threads)
        np.testing.assert_allclose(found_mean, expected_mean, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
        assert found.min() == 2.0
        assert found.max() == 12.0


def exploding(model, scale):
    """The model with networks whose logarithm of the scale is this for every row."""
    tree = model.model_.trees
    params = []
    for *hidden, (weights, bias) in tree.params:
        bias = bias.copy()
        bias[1] += scale
        params.append((*hidden, (weights, bias)))
    return replace(model.model_, trees=replace(tree, params=params))


def test_no_prediction_ends_far_beyond_the_targets():
    """Planted: networks whose scale explodes, as for a row of Blog, whose CRPS was in the millions."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    y = x[:, 0] + 0.1 * rng.normal(size=400)
    model = USNRTRegressor(hidden=(8,), max_epochs=3, memory=False, experts=["network"], validation=1, random_state=0)
    model.fit(x, y)
    low, high = y.min() - np.ptp(y), y.max() + np.ptp(y)
    for scale in (0.0, 8.0, 12.0):
        quantiles = exploding(model, scale).predict(model._encode(x)).quantiles * y.std() + y.mean()
        assert low - 1e-6 <= quantiles.min()
        assert quantiles.max() <= high + 1e-6
    assert np.ptp(quantiles) > 2.0 * np.ptp(y)  # without ends it would be a million times that


def test_ends_change_no_ordinary_prediction():
    """The null case: the same bits without ends."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 3))
    model = USNRTRegressor(hidden=(8,), max_epochs=10, memory=False, validation=1, random_state=0)
    model.fit(x, x[:, 0] + 0.3 * rng.normal(size=400))
    trees = model.model_.trees
    without = replace(trees, refinement=replace(trees.refinement, low=-LARGEST, high=LARGEST))
    new = model._encode(rng.normal(size=(500, 3)))
    expected = replace(model.model_, trees=without).predict(new).quantiles
    np.testing.assert_array_equal(model.model_.predict(new).quantiles, expected)
