"""Normal: against scipy and scoringrules, at the ends of the floats, and as a point mass."""

import numpy as np
import pytest
import scoringrules
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from usnrt.distributions import Normal

RNG = np.random.default_rng(0)
MEAN, STD, Y = RNG.normal(size=50), RNG.exponential(size=50), 3.0 * RNG.normal(size=50)


def test_against_scipy_and_scoringrules():
    dist, frozen = Normal(MEAN, STD), stats.norm(MEAN, STD)
    np.testing.assert_allclose(dist.logpdf(Y), frozen.logpdf(Y), rtol=1e-12)
    np.testing.assert_allclose(dist.cdf(Y), frozen.cdf(Y), rtol=1e-12)
    np.testing.assert_allclose(dist.ppf([0.01, 0.6]), np.column_stack([frozen.ppf(0.01), frozen.ppf(0.6)]), rtol=1e-12)
    np.testing.assert_allclose(dist.crps(Y), scoringrules.crps_normal(Y, MEAN, STD), rtol=1e-10)
    np.testing.assert_array_equal(dist.mean(), MEAN)
    np.testing.assert_array_equal(dist.std(), STD)


def test_numbers_are_repeated():
    assert len(Normal(0.0, 1.0)) == 1
    np.testing.assert_array_equal(Normal([1.0, 2.0], 3.0).std(), [3.0, 3.0])
    np.testing.assert_array_equal(Normal(1, [2, 3]).mean(), [1.0, 1.0])


def test_all_variance_is_aleatoric_unless_set():
    dist = Normal([0.0], [2.0])
    np.testing.assert_array_equal(dist.aleatoric, [4.0])
    assert dist.epistemic is None
    given = dist.with_parts([3.0], [1.0])
    np.testing.assert_array_equal(given.aleatoric, [3.0])
    np.testing.assert_array_equal(given.epistemic, [1.0])
    assert dist.epistemic is None


def test_returned_arrays_are_copies():
    dist = Normal([1.0], [2.0])
    dist.mean()[0] = dist.std()[0] = 7.0
    assert (dist.mean()[0], dist.std()[0]) == (1.0, 2.0)


def test_point_mass():
    dist = Normal([1.0, 1.0, 1.0], 0.0)
    y = np.array([0.5, 1.0, 1.5])
    np.testing.assert_array_equal(dist.cdf(y), [0.0, 1.0, 1.0])
    np.testing.assert_array_equal(dist.cdf_left(y), [0.0, 0.0, 1.0])
    np.testing.assert_array_equal(dist.logpdf(y), [-np.inf, np.inf, -np.inf])
    np.testing.assert_array_equal(dist.crps(y), [0.5, 0.0, 0.5])
    np.testing.assert_array_equal(dist.ppf([0.01, 0.99]), np.ones((3, 2)))
    np.testing.assert_array_equal(dist.rvs(2, random_state=0), np.ones((3, 2)))


@settings(deadline=None, max_examples=60)
@given(
    mean=st.floats(-1e300, 1e300),
    log_std=st.floats(-300, 300),
    z=st.floats(-1e5, 1e5),
    step=st.floats(1e-3, 1e3),
)
def test_extreme_parameters_stay_finite_and_monotone(mean, log_std, z, step):
    std = 10.0**log_std
    dist = Normal(mean, std)
    low, high = mean + std * z, mean + std * (z + step)
    if not np.isfinite([low, high]).all() or abs(high - low) > 1e307:
        return
    assert dist.cdf(low) <= dist.cdf(high)
    assert dist.cdf(mean) == 0.5
    assert np.isfinite(dist.logpdf([[low, high]])).all()
    assert np.isfinite(dist.crps(low)).all()
    assert dist.crps(low) >= 0
    assert np.isfinite(dist.ppf([1e-300, 0.5, 1 - 1e-16])).all()
    assert (np.diff(dist.ppf([1e-300, 0.5, 1 - 1e-16])) >= 0).all()


def test_far_from_the_mean_crps_is_the_distance():
    np.testing.assert_allclose(Normal(0.0, 1e-300).crps(1e200), [1e200])
    np.testing.assert_allclose(Normal(0.0, 1.0).crps(1e6), [1e6 - 1 / np.sqrt(np.pi)], rtol=1e-15)
    assert Normal(0.0, 1e-300).logpdf(1e200)[0] == -np.inf  # -1e1000 is no float


@pytest.mark.parametrize(
    ("mean", "std", "message"),
    [
        ([0.0], [-1.0], "std must be >= 0, but its smallest value is -1.0"),
        ([np.nan], [1.0], "mean must be finite, but it contains NaN or infinity"),
        ([0.0], [np.inf], "std must be finite, but it contains NaN or infinity"),
        ([0.0, 1.0], [1.0, 1.0, 1.0], r"parameters must have equal lengths, got mean \(2,\), std \(3,\)"),
        ([[0.0]], [1.0], r"mean must be a number or have shape \(n,\), got \(1, 1\)"),
    ],
)
def test_bad_parameters(mean, std, message):
    with pytest.raises(ValueError, match=message):
        Normal(mean, std)


def test_bad_parts():
    with pytest.raises(
        ValueError, match=r"parameters must have equal lengths, got aleatoric \(2,\), the distribution \(1,\)"
    ):
        Normal(0.0, 1.0).with_parts([1.0, 2.0], None)
