"""Bounded and logarithmic targets: probabilities, moments and CRPS against integration of the quantile function."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

sys.path.insert(0, str(Path(__file__).parent))
from families import make

from usnrt.distributions import Normal, QuantileDistribution, ResidualDistribution, TargetMap, TransformedDistribution

BOUNDED = {
    "low": TargetMap(low=0.0),
    "both": TargetMap(low=0.0, high=4.0),
    "high": TargetMap(high=1.0),
    "masses": TargetMap(low=0.0, high=4.0, low_end=0.5, high_end=3.5),
}
LOG = {
    "log": TargetMap(low=0.0, log=True, knee=40.0),
    "log with zeros": TargetMap(low=0.0, log=True, shift=1.0, knee=40.0, low_end=0.3),
    "log of a share": TargetMap(low=-1.0, high=9.0, log=True, shift=0.5, knee=10.0, high_end=8.0),
}
MAPS = {**BOUNDED, **LOG}
Y = np.array([0.0, 0.0, 0.3, 0.9, 2.0, 3.7, 4.0])


def outcomes(target_map):
    return np.clip(Y, target_map.low, target_map.high)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("family", ["quantile", "normal"])
def test_nothing_is_outside_the_bounds(family, name):
    target_map = MAPS[name]
    dist = TransformedDistribution(make(family), target_map)
    low, high = target_map.low, target_map.high
    for values in (dist.mean(), dist.ppf([1e-9, 0.5, 1 - 1e-9]), dist.interval([0.5, 0.999]), dist.rvs(500, 0)):
        assert (values >= low).all()
        assert (values <= high).all()
    for outside in {low - 1.0, high + 1.0} & set(np.arange(-5.0, 15.0, 0.5)):
        np.testing.assert_array_equal(dist.pdf(outside), np.zeros(7))
        np.testing.assert_array_equal(dist.cdf(outside), np.full(7, float(outside > high)))


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("family", ["quantile", "normal"])
def test_probabilities_fit_together(family, name):
    """The mass of the bounds and the integral of the density are 1, cdf and ppf are inverse, draws follow the cdf."""
    target_map = MAPS[name]
    dist = TransformedDistribution(make(family), target_map)
    levels = ndtr(np.linspace(-5.0, 5.0, 20_001))
    for row in range(0, 7, 3):
        one = dist[row]
        x = one.ppf(levels)[0]
        middle, width = (x[1:] + x[:-1]) / 2, np.diff(x)
        inside = (middle > target_map.low_end) & (middle < target_map.high_end)
        density = (one.pdf(middle[None, :])[0] * width)[inside].sum()
        masses = sum(float(one.pdf(bound)[0]) for bound in (target_map.low, target_map.high) if np.isfinite(bound))
        assert density + masses == pytest.approx(1.0, abs=5e-4)
        at = one.cdf(x[None, ::201])[0]
        assert (np.diff(at) >= 0).all()
        assert (one.cdf_left(x[None, ::201])[0] <= at).all()
    levels = np.linspace(0.01, 0.99, 50)
    quantiles = dist.ppf(levels)
    assert (dist.cdf(quantiles) >= levels - 1e-9).all()
    assert (dist.cdf_left(quantiles) <= levels + 1e-9).all()
    draws = dist.rvs(4000, random_state=1)
    for value in (0.0, 1.0, 3.9):
        share, expected = (draws <= value).mean(axis=1), dist.cdf(value)
        assert (np.abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / 4000) + 1e-9).all()


def by_integration(dist, y):
    """Mean, std and CRPS by integrating the quantile function over 40,001 points of the normal scale."""
    s = np.linspace(-7.5, 7.5, 40_001)
    level, weight = ndtr(s), np.exp(-(s**2) / 2)
    weight /= weight.sum()
    quantiles = dist.ppf(level)
    mean = (quantiles * weight).sum(axis=1)
    std = np.sqrt(((quantiles - mean[:, None]) ** 2 * weight).sum(axis=1))
    distance = quantiles - y[:, None]
    return mean, std, ((np.abs(distance) - (2 * level - 1) * distance) * weight).sum(axis=1)


@pytest.mark.parametrize("name", MAPS)
def test_moments_and_crps_by_integration(name):
    target_map, base = MAPS[name], make("quantile")
    dist, y = TransformedDistribution(base, target_map), outcomes(MAPS[name])
    mean, std, crps = by_integration(dist, y)
    # exact but for the steps of the integration: at a jump of the quantile function half a step of it
    scale = 1e-4 if name in BOUNDED else 2e-3
    unit = np.maximum(base.std(), std)
    np.testing.assert_allclose(dist.mean() / unit, mean / unit, atol=scale)
    np.testing.assert_allclose(dist.std() / unit, std / unit, atol=10 * scale)
    np.testing.assert_allclose(dist.crps(y) / unit, crps / unit, atol=scale)


def test_crps_outside_the_bounds_is_the_distance_more():
    dist = TransformedDistribution(make("quantile"), BOUNDED["both"])
    np.testing.assert_allclose(dist.crps(-2.0), dist.crps(0.0) + 2.0, rtol=1e-12)
    np.testing.assert_allclose(dist.crps(7.0), dist.crps(4.0) + 3.0, rtol=1e-12)


def test_bounds_that_are_never_reached_change_nothing():
    base = make("quantile")
    dist = TransformedDistribution(base, TargetMap(low=-1e6, high=1e6))
    y = base.ppf(0.3)
    for method in ("logpdf", "cdf", "crps"):
        np.testing.assert_allclose(getattr(dist, method)(y), getattr(base, method)(y), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(dist.mean(), base.mean(), atol=1e-9)
    np.testing.assert_allclose(dist.std(), base.std(), rtol=1e-6)


def test_mean_of_a_lognormal():
    """exp of a normal up to far beyond its quantiles: the closed form of the mean, not exp of the mean of the logs."""
    sigma = np.array([0.1, 0.5, 1.0])
    dist = TransformedDistribution(Normal(np.ones(3), sigma), TargetMap(low=0.0, log=True, knee=1e9))
    mean = np.exp(1.0 + sigma**2 / 2)
    np.testing.assert_allclose(dist.mean(), mean, rtol=1e-10)
    np.testing.assert_allclose(dist.std(), mean * np.sqrt(np.expm1(sigma**2)), rtol=1e-7)
    y = np.array([1.0, 3.0, 10.0])
    np.testing.assert_allclose(dist.logpdf(y), Normal(np.ones(3), sigma).logpdf(np.log(y)) - np.log(y), rtol=1e-12)


def test_heavy_tails_of_a_logarithm_have_a_mean():
    """Beyond the largest target the map is linear: the mean of an exponentiated Pareto tail would be infinite."""
    residual = ResidualDistribution.from_residuals(np.random.default_rng(0).standard_t(3, size=500))
    base = QuantileDistribution([[-1.0, 0.0, 1.0]], [-1.0, 0.0, 1.0], [0], [residual])
    means = [TransformedDistribution(base, TargetMap(low=0.0, log=True, knee=knee)).mean()[0] for knee in (5.0, 50.0)]
    assert 1.0 < means[0] < means[1] < 5.0


def test_rows_scale_and_parts():
    dist = TransformedDistribution(make("quantile"), BOUNDED["masses"])
    part = dist[[2, 5]]
    np.testing.assert_array_equal(part.mean(), dist.mean()[[2, 5]])
    moved = dist.scaled(3.0, 2.0)
    np.testing.assert_allclose(moved.mean(), 3.0 + 2.0 * dist.mean())
    np.testing.assert_allclose(moved[1].std(), 2.0 * dist.std()[1])
    np.testing.assert_allclose(moved.crps(3.0 + 2.0 * Y), 2.0 * dist.crps(Y))
    np.testing.assert_allclose(moved.cdf(3.0 + 2.0 * Y), dist.cdf(Y))
    np.testing.assert_allclose(moved.logpdf(5.0), dist.logpdf(1.0) - np.log(2.0))
    assert (moved.ppf(1e-9) == 3.0).all() or (moved.ppf(1e-9) >= 3.0).all()
    np.testing.assert_allclose(dist.aleatoric, dist.var())
    assert dist.epistemic is None
    shares = TransformedDistribution(make("quantile").with_parts(np.ones(7), None), BOUNDED["low"])
    np.testing.assert_allclose(shares.aleatoric, shares.var() / make("quantile").var())


def test_bounds_in_the_wrong_order():
    with pytest.raises(ValueError, match="bounds and the knee of a target map must be in order"):
        TargetMap(low=1.0, high=0.0)
