"""The common interface: shapes, inverse functions, moments, slicing, scaling, error messages."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from families import FAMILIES, make

pytestmark = pytest.mark.parametrize("family", FAMILIES)
LEVELS = np.array([1e-9, 0.001, 0.05, 0.3, 0.5, 0.8, 0.99, 0.99999])


def test_shapes(family):
    dist = make(family)
    n, y = len(dist), np.linspace(-1, 1, 7)
    assert n == 7
    for values in (dist.mean(), dist.std(), dist.var(), dist.pdf(y), dist.logpdf(0.0), dist.cdf(y), dist.crps(y)):
        assert values.shape == (n,)
        assert np.isfinite(values).all()
    many = np.tile(y, (n, 1))
    assert dist.cdf(many).shape == dist.logpdf(many).shape == dist.pdf(many).shape == (7, 7)
    np.testing.assert_allclose(dist.cdf(many)[:, 2], dist.cdf(y[2]), rtol=1e-14)
    assert dist.ppf(0.3).shape == (n,)
    assert dist.ppf([0.3]).shape == (n, 1)
    assert dist.ppf(LEVELS).shape == (n, 8)
    assert dist.interval(0.9).shape == (n, 2)
    assert dist.interval([0.5, 0.9, 0.95]).shape == (n, 2, 3)
    np.testing.assert_allclose(dist.interval([0.5, 0.9])[:, :, 1], dist.ppf([0.05, 0.95]), rtol=1e-12)
    assert dist.rvs(random_state=0).shape == dist.rvs(size=None, random_state=0).shape == (n,)
    assert dist.rvs(5, random_state=0).shape == (n, 5)
    assert repr(dist) == f"<{type(dist).__name__} of 7 rows>"


def test_quantile_is_the_inverse_of_cdf(family):
    dist = make(family)
    quantiles = dist.ppf(LEVELS)
    assert (np.diff(quantiles, axis=1) > 0).all()
    np.testing.assert_allclose(dist.cdf(quantiles), np.tile(LEVELS, (7, 1)), rtol=1e-7, atol=1e-12)
    for row in range(7):
        one = dist[row]
        y = one.mean() + one.std() * np.linspace(-1.5, 2, 9)
        np.testing.assert_allclose(one.ppf(one.cdf(y[None, :])[0])[0], y, rtol=1e-9, atol=1e-9)


def test_survival_function(family):
    dist = make(family)
    at = dist.ppf(LEVELS)
    np.testing.assert_allclose(dist.sf(at) + dist.cdf(at), 1.0, atol=1e-14)
    assert dist.sf(at[:, 0]).shape == (7,)
    # Far in the tail 1 - cdf is rounded, but sf still decreases by the integral of the density.
    far = dist.ppf(np.nextafter(1.0, 0.0))
    upper = far + 1e-3 * dist.std()
    decrease = dist.sf(far) - dist.sf(upper)
    expected = (upper - far) * (dist.pdf(far) + dist.pdf(upper)) / 2
    np.testing.assert_allclose(decrease, expected, rtol=1e-4)
    assert (dist.sf(far) > 0).all()
    assert (dist.sf(far) < 1e-14).all()
    beyond = dist.sf(far + 5 * dist.std())
    assert ((beyond > 0) & (beyond < dist.sf(far))).all()


def test_density_is_the_slope_of_cdf(family):
    dist = make(family)
    at = dist.ppf([0.02, 0.3, 0.7, 0.97])
    step = 1e-6
    slope = (dist.cdf(at + step) - dist.cdf(at - step)) / (2 * step)
    np.testing.assert_allclose(dist.pdf(at), slope, rtol=2e-3, atol=1e-8)
    np.testing.assert_allclose(np.log(dist.pdf(at)), dist.logpdf(at), rtol=1e-12)


@pytest.mark.parametrize("row", [0, 1, 2])
def test_moments_and_crps_by_integration(family, row):
    one, y = make(family, n=3)[row], (-2.0, 0.3, 5.0)[row]
    # x = y + sinh(t) reaches 1e11 on both sides with an even grid in t; y itself is the point in the middle
    # the density of a quantile function jumps at its knots, where the error of the sum is of first order in the step
    t = np.linspace(-26.0, 26.0, 1_000_001 if family == "quantile" else 40_001)
    x, dx = y + np.sinh(t), np.cosh(t) * (t[1] - t[0])
    density, below = one.pdf(x[None, :])[0], one.cdf(x[None, :])[0]
    mean = (x * density * dx).sum()
    np.testing.assert_allclose(one.mean()[0], mean, atol=1e-5)
    np.testing.assert_allclose(one.var()[0], ((x - mean) ** 2 * density * dx).sum(), rtol=1e-4)
    weight = np.where(t == 0, 0.5, 1.0) * dx
    crps = (weight * below**2)[t <= 0].sum() + (weight * (1 - below) ** 2)[t >= 0].sum()
    np.testing.assert_allclose(one.crps(y)[0], crps, rtol=1e-5)


def test_draws_follow_the_distribution(family):
    dist = make(family, n=3)
    draws = dist.rvs(4000, random_state=1)
    pit = np.sort(dist.cdf(draws), axis=1)
    # Kolmogorov-Smirnov distance; 1.95 / sqrt(n) is passed once in 1000
    assert np.abs(pit - (np.arange(4000) + 0.5) / 4000).max() < 1.95 / np.sqrt(4000)
    np.testing.assert_array_equal(draws, dist.rvs(4000, random_state=1))
    generator = np.random.default_rng(1)
    np.testing.assert_array_equal(draws, dist.rvs(4000, random_state=generator))
    assert (dist.rvs(4000, random_state=generator) != draws).all()
    assert dist.rvs(2, random_state=np.random.RandomState(0)).shape == (3, 2)


def test_crps_is_that_of_the_draws(family):
    dist, y = make(family, n=3), np.array([-1.0, 0.0, 4.0])
    draws = np.sort(dist.rvs(20000, random_state=3), axis=1)
    weights = (2 * np.arange(1, 20001) - 20001) / 20000**2
    estimate = np.abs(draws - y[:, None]).mean(axis=1) - draws @ weights
    np.testing.assert_allclose(dist.crps(y), estimate, rtol=0.05)


def test_slicing(family):
    dist = make(family)
    mean, quantile = dist.mean(), dist.ppf(0.9)
    mask = np.array([True, False, True, True, False, False, True])
    for index in (slice(1, 4), slice(None, None, -2), [0, 5, 5], mask, 3, -1, np.int64(2), []):
        part = dist[index]
        assert type(part) is type(dist)
        rows = np.atleast_1d(np.arange(7)[np.asarray(index, int) if isinstance(index, list) else index])
        assert len(part) == rows.size
        np.testing.assert_array_equal(part.mean(), mean[rows])
        np.testing.assert_allclose(part.ppf(0.9), quantile[rows], rtol=1e-14)
    parts = dist.with_parts(np.arange(7.0), np.ones(7))[mask]
    np.testing.assert_array_equal(parts.aleatoric, [0, 2, 3, 6])
    np.testing.assert_array_equal(parts.epistemic, np.ones(4))
    with pytest.raises(IndexError, match=r"a mask must have one value per row \(7\), got 2"):
        dist[[True, False]]
    with pytest.raises(TypeError, match="index must be a slice, row indices or a mask, got 'a'"):
        dist["a"]


@settings(deadline=None, max_examples=15)
@given(shift=st.floats(-1e3, 1e3), factor=st.floats(1e-3, 1e3), level=st.floats(1e-6, 1 - 1e-6))
def test_scaling_moves_everything_along(family, shift, factor, level):
    dist = make(family)
    moved = dist.scaled(shift, factor)
    unit = factor * 3 + abs(shift)
    np.testing.assert_allclose(moved.mean(), factor * dist.mean() + shift, atol=1e-10 * unit)
    np.testing.assert_allclose(moved.std(), factor * dist.std(), rtol=1e-10)
    np.testing.assert_allclose(moved.ppf(level), factor * dist.ppf(level) + shift, rtol=1e-6, atol=1e-8 * unit)
    y = dist.ppf(0.7)
    np.testing.assert_allclose(moved.crps(factor * y + shift), factor * dist.crps(y), rtol=1e-7, atol=1e-9 * unit)
    np.testing.assert_allclose(moved.logpdf(factor * y + shift), dist.logpdf(y) - np.log(factor), atol=1e-6)


def test_scaling_of_parts_and_by_row(family):
    dist = make(family).with_parts(np.ones(7), None)
    moved = dist.scaled(np.arange(7.0), 2.0)
    np.testing.assert_array_equal(moved.aleatoric, np.full(7, 4.0))
    np.testing.assert_allclose(moved.mean(), 2.0 * dist.mean() + np.arange(7.0), rtol=1e-12)
    with pytest.raises(ValueError, match="factor must be positive, but its smallest value is -1.0"):
        dist.scaled(0.0, -1.0)


def test_to_frame(family):
    dist = make(family)
    frame = dist.to_frame(levels=[0.1, 0.9])
    parts = [name for name in ("aleatoric", "epistemic") if getattr(dist, name) is not None]
    assert list(frame.columns) == ["mean", "std", *parts, "q0.1", "q0.9"]
    np.testing.assert_array_equal(frame["q0.9"], dist.ppf([0.1, 0.9])[:, 1])
    assert list(dist.with_parts(None, np.ones(7)).to_frame([]).columns)[-1] == "epistemic"


def test_to_frame_without_pandas(family, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"to_frame needs pandas: pip install 'usnrt\[data\]'"):
        make(family).to_frame()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: d.cdf(np.zeros(3)), r"y must be a number or have shape \(7,\) or \(7, k\), got \(3,\)"),
        (lambda d: d.crps(np.zeros((7, 2))), r"y must be a number or have shape \(7,\), got \(7, 2\)"),
        (lambda d: d.logpdf(np.nan), "y must not contain NaN, but it does"),
        (lambda d: d.crps(np.inf), "y must be finite, but it contains infinity"),
        (lambda d: d.ppf(1.5), r"q must be in \(0, 1\), got 1.5"),
        (lambda d: d.ppf([0.5, 0.0]), r"q must be in \(0, 1\), got 0.0"),
        (lambda d: d.ppf(np.full((3, 2), 0.5)), r"q must have shape \(k,\) or \(7, k\), got \(3, 2\)"),
        (lambda d: d.expect(lambda y: y[:, 0]), r"function must return values of the shape that it is given"),
        (lambda d: d.interval(1.0), r"coverage must be in \(0, 1\), got 1.0"),
        (lambda d: d.interval(np.nan), r"coverage must be in \(0, 1\), got nan"),
        (lambda d: d.rvs(0), "size must be an int >= 1, got 0"),
        (lambda d: d.rvs(1.5), "size must be an int >= 1, got 1.5"),
    ],
)
def test_bad_input(family, call, message):
    with pytest.raises(ValueError, match=message):
        call(make(family))


def test_ends_of_the_line(family):
    dist = make(family)
    np.testing.assert_array_equal(dist.cdf(-np.inf), np.zeros(7))
    np.testing.assert_array_equal(dist.cdf(np.inf), np.ones(7))
    np.testing.assert_array_equal(dist.pdf(np.inf), np.zeros(7))
    far = dist.logpdf(np.tile([-1e30, 1e30], (7, 1)))
    assert (far < -50).all()
    assert np.isfinite(far).all()


def test_levels_and_values_broadcast_as_of_scipy(family):
    dist, level = make(family), np.linspace(0.05, 0.95, 7)
    of_row = dist.ppf(level[:, None])
    assert of_row.shape == (7, 1)
    np.testing.assert_allclose(of_row[:, 0], [dist[row].ppf(q)[0] for row, q in enumerate(level)], rtol=1e-12)
    np.testing.assert_allclose(dist.ppf([[0.1, 0.9]]), dist.ppf([0.1, 0.9]), rtol=1e-14)
    both = dist.ppf(np.column_stack([level, level[::-1]]))
    np.testing.assert_allclose(both[:, :1], of_row, rtol=1e-12)
    np.testing.assert_allclose(dist.cdf(of_row)[:, 0], level, atol=1e-9)
    np.testing.assert_array_equal(dist.cdf([[0.0, 1.0]]), np.column_stack([dist.cdf(0.0), dist.cdf(1.0)]))


def test_median_and_expected_values(family):
    dist = make(family)
    np.testing.assert_array_equal(dist.median(), dist.ppf(0.5))
    np.testing.assert_allclose(dist.expect(lambda y: y), dist.mean(), atol=1e-3 * dist.std().max())
    np.testing.assert_allclose(dist.expect(lambda y: y > 1.0), dist.sf(1.0), atol=0.002)
    np.testing.assert_allclose(dist.expect(np.ones_like), 1.0, rtol=1e-12)
