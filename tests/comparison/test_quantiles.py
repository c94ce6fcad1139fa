"""InterpolatedQuantiles against numerical integration of its own density and distribution function."""

import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.integrate import quad

from usnrt.comparison.quantiles import InterpolatedQuantiles, separated

DIST = InterpolatedQuantiles([0.05, 0.3, 0.8, 0.9], [[-1.0, 0.5, 0.7, 4.0], [10.0, 11.0, 12.0, 13.0]])


def pieces(dist, row):
    """Where the density of a row changes its form, with ends so far out that nothing is left."""
    x = dist.values[row]
    return [x[0] - 60.0 * dist._low[row], *x, x[-1] + 60.0 * dist._high[row]]


def integral(function, points):
    return sum(quad(function, a, b, limit=200)[0] for a, b in itertools.pairwise(points))


@pytest.mark.parametrize("row", [0, 1])
def test_density_integrates_to_one_and_to_the_moments(row):
    dist, points = DIST[row], pieces(DIST, row)
    density = lambda x: dist.pdf(x)[0]  # noqa: E731
    mean = integral(lambda x: x * density(x), points)
    assert integral(density, points) == pytest.approx(1.0, abs=1e-9)
    assert dist.mean()[0] == pytest.approx(mean, abs=1e-8)
    assert dist.var()[0] == pytest.approx(integral(lambda x: (x - mean) ** 2 * density(x), points), rel=1e-7)


@given(st.floats(-30, 30))
@settings(deadline=None, max_examples=40)
def test_cdf_is_the_integral_of_the_density_and_crps_of_the_cdf(y):
    dist, points = DIST[0], pieces(DIST, 0)
    inside = [x for x in points if x < y]
    below = integral(lambda x: dist.pdf(x)[0], [*inside, y]) if inside else 0.0
    assert dist.cdf(y)[0] == pytest.approx(below, abs=1e-8)
    ends = sorted([*points, y])
    crps = integral(lambda x: (dist.cdf(x)[0] - (x >= y)) ** 2, ends)
    assert dist.crps(y)[0] == pytest.approx(crps, rel=1e-6, abs=1e-8)


@given(st.floats(1e-6, 1 - 1e-6))
@settings(deadline=None, max_examples=100)
def test_ppf_inverts_the_cdf(q):
    np.testing.assert_allclose(DIST.cdf(DIST.ppf(q)), q, rtol=1e-9)


def test_quantiles_are_kept_and_scaled():
    np.testing.assert_allclose(DIST.ppf(DIST.levels), DIST.values, rtol=1e-14)
    np.testing.assert_allclose(DIST.scaled(3.0, 2.0).ppf(DIST.levels), 3.0 + 2.0 * DIST.values, rtol=1e-14)


def test_a_shift_that_swallows_distances_keeps_the_order():
    moved = InterpolatedQuantiles([0.1, 0.5], [[0.0, 1e-6]]).scaled(1e15, 1.0)
    assert (np.diff(moved.ppf([0.1, 0.5])) > 0).all()


def test_draws_have_the_stated_quantiles():
    draws = DIST.rvs(40_000, random_state=0)
    np.testing.assert_allclose([(draws[0] <= x).mean() for x in DIST.values[0]], DIST.levels, atol=0.01)
    np.testing.assert_allclose(draws.mean(axis=1), DIST.mean(), atol=0.06)


def test_separated_sorts_and_keeps_what_is_apart():
    values = np.array([[3.0, 1.0, 1.0], [1.0, 2.0, 3.0]])
    np.testing.assert_allclose(separated(values, 0.1), [[1.0, 1.1, 3.0], [1.0, 2.0, 3.0]])


@pytest.mark.parametrize(
    ("levels", "values", "message"),
    [
        ([0.5, 0.1], [[1.0, 2.0]], "levels must be at least 2, increasing, in (0, 1), got [0.5, 0.1]"),
        ([0.1, 0.5], [[1.0, 2.0, 3.0]], "values must have shape (n, 2), got (1, 3)"),
        ([0.1, 0.5], [[2.0, 2.0]], "values must be finite and increase along each row"),
    ],
)
def test_bad_arguments_are_one_sentence(levels, values, message):
    with pytest.raises(ValueError) as error:
        InterpolatedQuantiles(levels, values)
    assert str(error.value) == message
