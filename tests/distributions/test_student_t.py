"""Student-t: against scipy and scoringrules, in far tails, and at the limit of a normal."""

import mpmath
import numpy as np
import pytest
import scipy
import scoringrules
from scipy import stats

from usnrt.distributions import Normal, StudentT

RNG = np.random.default_rng(0)
DF, LOC, SCALE = 1.05 + RNG.exponential(6.0, size=60), RNG.normal(size=60), RNG.exponential(size=60)
Y = 5.0 * RNG.standard_t(2, size=60)


def test_against_scipy_and_scoringrules():
    dist, frozen = StudentT(DF, LOC, SCALE), stats.t(DF, LOC, SCALE)
    np.testing.assert_allclose(dist.logpdf(Y), frozen.logpdf(Y), rtol=1e-10)
    np.testing.assert_allclose(dist.cdf(Y), frozen.cdf(Y), rtol=1e-10)
    np.testing.assert_allclose(dist.ppf(0.03), frozen.ppf(0.03), rtol=1e-9)
    np.testing.assert_allclose(dist.std(), frozen.std(), rtol=1e-10)
    np.testing.assert_allclose(dist.crps(Y), scoringrules.crps_t(Y, DF, LOC, SCALE), rtol=1e-8)
    np.testing.assert_array_equal(dist.ppf(0.5), LOC)


def test_infinite_variance():
    np.testing.assert_array_equal(StudentT([1.5, 2.0], 0.0, 1.0).std(), [np.inf, np.inf])
    np.testing.assert_array_equal(StudentT([1.5, 2.0], 0.0, 0.0).std(), [0.0, 0.0])
    assert np.isfinite(StudentT(1.5, 0.0, 1.0).crps(3.0)).all()


@pytest.mark.parametrize("df", [1.01, 1.5, 3.0, 8.0, 40.0])
@pytest.mark.parametrize("t", [-1e200, -1e60, -1e12, -1e7, -30.0])
def test_far_tail_against_mpmath(df, t):
    with mpmath.workdps(60):
        v, x = mpmath.mpf(df), mpmath.mpf(t)
        exact = mpmath.betainc(v / 2, mpmath.mpf(1) / 2, 0, v / (v + x * x), regularized=True) / 2
    dist = StudentT(df, 0.0, 1.0)
    if exact > mpmath.mpf("1e-290"):
        np.testing.assert_allclose(dist.cdf(t)[0], float(exact), rtol=1e-7)
        # scipy's own inverse was off by 6 % at a probability of 1e-252 before 1.17
        is_exact = exact > mpmath.mpf("1e-200") or tuple(map(int, scipy.__version__.split(".")[:2])) >= (1, 17)
        np.testing.assert_allclose(dist.ppf(float(exact))[0], t, rtol=1e-6 if is_exact else 0.1)
    else:
        assert dist.cdf(t)[0] < 1e-280
    assert np.isfinite(dist.logpdf(t)[0])


def test_many_degrees_of_freedom_are_a_normal():
    y = np.array([[-7.0, -0.3, 0.0, 2.0]])
    for df in (1e9, 1e15, 1e300):
        dist, normal = StudentT(df, 0.0, 2.0), Normal(0.0, 2.0)
        np.testing.assert_allclose(dist.logpdf(y), normal.logpdf(y), rtol=1e-7)
        np.testing.assert_allclose(dist.cdf(y), normal.cdf(y), rtol=1e-6)
        np.testing.assert_allclose(dist.crps(0.3), normal.crps(0.3), rtol=1e-7)


def test_quantiles_of_extreme_levels_are_finite_and_increase():
    levels = [5e-324, 1e-300, 1e-100, 1e-10, 0.5, 1 - 1e-16]
    quantiles = StudentT([1.001, 2.0, 5.0, 1e6], 0.0, 1.0).ppf(levels)
    assert np.isfinite(quantiles).all()
    assert (np.diff(quantiles, axis=1) > 0).all()


def test_point_mass():
    dist = StudentT(3.0, [1.0, 1.0, 1.0], 0.0)
    y = np.array([0.5, 1.0, 1.5])
    np.testing.assert_array_equal(dist.cdf(y), [0.0, 1.0, 1.0])
    np.testing.assert_array_equal(dist.cdf_left(y), [0.0, 0.0, 1.0])
    np.testing.assert_array_equal(dist.logpdf(y), [-np.inf, np.inf, -np.inf])
    np.testing.assert_array_equal(dist.crps(y), [0.5, 0.0, 0.5])


@pytest.mark.parametrize(
    ("df", "scale", "message"),
    [
        (1.0, 1.0, "df must be > 1, but its smallest value is 1.0"),
        (3.0, -0.5, "scale must be >= 0, but its smallest value is -0.5"),
    ],
)
def test_bad_parameters(df, scale, message):
    with pytest.raises(ValueError, match=message):
        StudentT(df, 0.0, scale)
