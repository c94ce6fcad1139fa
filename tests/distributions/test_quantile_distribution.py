"""QuantileDistribution: the residual distribution of the group, transformed by the quantile function of the row."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from usnrt.distributions import QuantileDistribution, ResidualDistribution
from usnrt.nn.quantile_functions import position_of, value_at

RNG = np.random.default_rng(0)
RESIDUALS = [
    ResidualDistribution.from_residuals(RNG.normal(size=300)),
    ResidualDistribution.from_residuals(RNG.exponential(size=300) - 1.0),
    ResidualDistribution.from_residuals([0.1, -0.5, 2.0]),
]
GROUP = np.array([2, 0, 0, 1, 2, 0])
POSITIONS = np.array([-2.0, -1.1, -0.4, 0.0, 0.3, 1.0, 2.5])
LEVELS = np.array([1e-9, 0.001, 0.05, 0.3, 0.5, 0.8, 0.99, 0.99999])


def make_nonlinear(positions=POSITIONS, seed=1):
    steps = np.random.default_rng(seed).uniform(0.1, 3.0, size=(6, positions.size))
    return QuantileDistribution(np.cumsum(steps, axis=1) - 4.0, positions, GROUP, RESIDUALS)


@pytest.mark.parametrize("positions", [POSITIONS, [-1.0, 2.0], [0.0, 0.5, 30.0], [-50.0, -40.0, -39.0]])
@settings(deadline=None, max_examples=15)
@given(loc=st.floats(-1e3, 1e3), scale=st.floats(1e-2, 1e3), known=st.booleans())
def test_a_linear_quantile_function_is_a_location_and_a_scale(positions, loc, scale, known):
    loc, scale = loc + np.arange(6.0), scale * np.linspace(1, 2, 6)
    mean = np.arange(6.0) if known else None
    knots = loc[:, None] + scale[:, None] * np.asarray(positions)
    dist = QuantileDistribution(knots, positions, GROUP, RESIDUALS, mean)
    # distant knots determine the scale less precisely
    unit = 1e-11 * (np.abs(loc) + scale).max() * 10
    uniform = np.random.default_rng(0).random((6, 3))
    for row, residual in enumerate(RESIDUALS[g] for g in GROUP):
        z, one = residual.ppf(LEVELS), dist[row]
        y = loc[row] + scale[row] * z
        np.testing.assert_array_less(np.abs(one.ppf(LEVELS)[0] - y), unit + 1e-9 * np.abs(y))
        np.testing.assert_allclose(one.cdf(y[None])[0], residual.cdf(z), rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(one.cdf_left(y[None])[0], residual.cdf(z), rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(
            one.logpdf(y[None])[0], residual.logpdf(z) - np.log(scale[row]), rtol=1e-6, atol=1e-6
        )
        expected_mean = row if known else loc[row] + scale[row] * residual.mean
        np.testing.assert_allclose(one.mean(), expected_mean, rtol=1e-9, atol=unit)
        np.testing.assert_allclose(one.std(), scale[row] * residual.std, rtol=1e-8)
        np.testing.assert_allclose(one.aleatoric, (scale[row] * residual.std) ** 2, rtol=1e-8)
        for value, score in zip(y, residual.crps(z)):
            np.testing.assert_allclose(one.crps(value), scale[row] * score, rtol=1e-8, atol=unit)
        np.testing.assert_allclose(one._positions(y[None])[0][0], z, rtol=1e-8, atol=1e-7)
        np.testing.assert_allclose(
            dist.rvs(3, 0)[row], loc[row] + scale[row] * residual.ppf(uniform[row]), rtol=1e-8, atol=unit
        )


@settings(deadline=None, max_examples=30)
@given(data=st.data(), pieces=st.integers(1, 12))
def test_position_is_the_inverse_of_value(data, pieces):
    steps = st.lists(st.floats(1e-3, 1e3), min_size=pieces, max_size=pieces)
    positions = np.cumsum([data.draw(st.floats(-10, 10)), *data.draw(steps)])
    knots = np.cumsum([data.draw(st.floats(-10, 10)), *data.draw(steps)])[None]
    z = np.array([positions[0] - 5.0, *positions, *(0.3 * positions[1:] + 0.7 * positions[:-1]), positions[-1] + 5.0])
    y = value_at(knots, positions, z)
    np.testing.assert_allclose(value_at(knots, positions, z[None]), y)
    np.testing.assert_allclose(y[0, 1:-1][: pieces + 1], knots[0], rtol=1e-12, atol=1e-9)
    for side in ("right", "left"):
        back, log_slope = position_of(knots, positions, y, side)
        slopes = np.diff(positions) / np.diff(knots[0])
        np.testing.assert_allclose(back[0], z, atol=1e-9 * (1 + slopes.max()) * (1 + np.abs(z).max()))
        assert np.isclose(np.exp(log_slope[0])[:, None], slopes).any(axis=1).all()


@pytest.mark.parametrize("positions", [POSITIONS, np.array([-1.0, 2.0]), np.linspace(-3, 3, 11)])
def test_cdf_ppf_and_conformity_score_are_consistent(positions):
    dist = make_nonlinear(positions)
    quantiles = dist.ppf(LEVELS)
    assert (np.diff(quantiles, axis=1) > 0).all()
    np.testing.assert_allclose(dist.cdf(quantiles), np.tile(LEVELS, (6, 1)), rtol=1e-7, atol=1e-12)
    scores = dist._positions(quantiles[:, [3]])[0][:, 0]
    np.testing.assert_allclose(scores, [RESIDUALS[g].ppf(LEVELS[3]) for g in GROUP], atol=1e-10)


def test_density_integrates_to_the_cdf():
    dist = make_nonlinear()
    for row in range(6):
        # The density jumps at the knots of the quantile function and has kinks at those of the residual distribution.
        residual_knots = value_at(dist.knots[row : row + 1], POSITIONS, RESIDUALS[GROUP[row]].knots)[0]
        edges = np.unique(np.concatenate([dist.knots[row], residual_knots]))
        middle = 0.5 * (edges[1:] + edges[:-1])
        mass = dist[row].pdf(middle[None])[0] * np.diff(edges)
        np.testing.assert_allclose(mass, np.diff(dist[row].cdf(edges[None])[0]), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("row", range(6))
def test_moments_and_crps_against_integration(row):
    dist = make_nonlinear()[row]
    # On the scale of the residual distribution nothing jumps: E[h(Y)] is the integral of h(T(z)) g(z).
    t = np.linspace(-30.0, 30.0, 200001)
    z, dz = np.sinh(t), np.cosh(t) * (t[1] - t[0])
    y, g = value_at(dist.knots, POSITIONS, z)[0], np.exp(RESIDUALS[GROUP[row]].logpdf(z))
    mean = (y * g * dz).sum()
    np.testing.assert_allclose(dist.mean()[0], mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(dist.var()[0], ((y - mean) ** 2 * g * dz).sum(), rtol=1e-5)
    below = RESIDUALS[GROUP[row]].cdf(z)
    for observed in np.concatenate([dist.knots[0], [-60.0, 0.123, 70.0]]):
        wide = np.gradient(y)
        miss = np.where(y >= observed, (1 - below) ** 2, below**2)
        np.testing.assert_allclose(dist.crps(observed)[0], (miss * wide).sum(), rtol=2e-3)


def test_moments_and_crps_against_many_quantiles():
    dist, y = make_nonlinear(), np.linspace(-5.0, 9.0, 6)
    n = 200000
    sample = dist.ppf((np.arange(n) + 0.5) / n)
    np.testing.assert_allclose(dist.mean(), sample.mean(axis=1), rtol=1e-3)
    # The farthest quantiles are not far enough out for the heavy tails.
    np.testing.assert_allclose(dist.std(), sample.std(axis=1), rtol=0.01)
    spread = sample @ ((2 * np.arange(1, n + 1) - n - 1) / n**2)
    np.testing.assert_allclose(dist.crps(y), np.abs(sample - y[:, None]).mean(axis=1) - spread, rtol=1e-3)


def test_partial_moments_of_residuals_against_integration():
    for residual in RESIDUALS:
        for z in (residual.knots[0] - 7.0, residual.knots[0], 0.21, residual.knots[-1], residual.knots[-1] + 40.0):
            # z is an end of the grid, so that no cell is cut.
            t = np.linspace(0.0, 30.0, 300001)
            x, weight = z - np.sinh(t), np.cosh(t) * (t[1] - t[0]) * np.where(t == 0, 0.5, 1.0)
            c, mass = x - residual.mean, np.exp(residual.logpdf(x)) * weight
            expected = [mass.sum(), (c * mass).sum(), (c**2 * mass).sum()]
            np.testing.assert_allclose(residual.moments_below(np.array(z)), expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(residual.moments_below(residual.knots)[0], residual.cdf(residual.knots), rtol=1e-12)


@settings(deadline=None, max_examples=20)
@given(shift=st.floats(-1e3, 1e3), factor=st.floats(1e-3, 1e3))
def test_scaling_and_choosing_rows(shift, factor):
    dist, rows = make_nonlinear(), [4, 1, 1]
    moved, y = dist.scaled(shift, factor)[rows], dist.ppf(0.7)
    unit = 1e-11 * (factor + abs(shift))
    np.testing.assert_allclose(moved.loc[:, None] + moved.knots, (factor * dist.knots + shift)[rows], atol=unit)
    np.testing.assert_allclose(moved.mean(), (factor * dist.mean() + shift)[rows], rtol=1e-10, atol=unit)
    np.testing.assert_allclose(moved.std(), factor * dist.std()[rows], rtol=1e-8)
    np.testing.assert_allclose(
        moved.crps((factor * y + shift)[rows]), factor * dist.crps(y)[rows], rtol=1e-8, atol=unit
    )


def test_a_given_mean_is_kept_by_slices_and_scaling():
    plain = make_nonlinear()
    dist = QuantileDistribution(plain.knots, POSITIONS, GROUP, RESIDUALS, mean=np.arange(6.0))
    np.testing.assert_array_equal(dist.mean(), np.arange(6.0))
    np.testing.assert_array_equal(dist[1:3].scaled(10.0, 2.0).mean(), [12.0, 14.0])
    np.testing.assert_array_equal(dist.std(), plain.std())


@settings(deadline=None, max_examples=60)
@given(
    steps=st.lists(st.sampled_from([0.0, 0.0, 5e-324, 1e-300, 1.0, 1e12]), min_size=6, max_size=6),
    start=st.sampled_from([0.0, -3.0, 1e9]),
    far=st.sampled_from([1e-320, 0.5, 1e200]),
)
def test_flat_segments_give_neither_warnings_nor_nan(steps, start, far):
    knots = start + np.concatenate([[0.0], np.cumsum(steps)])
    y = np.concatenate([knots, [knots[0] - far, knots[-1] + far]])
    dist = QuantileDistribution(np.tile(knots, (y.size, 1)), POSITIONS, np.arange(y.size) % 3, RESIDUALS)
    for values in (dist.mean(), dist.std(), dist.cdf(y), dist.cdf_left(y), dist.crps(y), dist.ppf(LEVELS), dist.rvs(2)):
        assert np.isfinite(values).all()
    assert not np.isnan(dist.logpdf(y)).any()
    assert not np.isnan(dist._positions(y[:, None])[0]).any()
    assert (dist.cdf_left(y) <= dist.cdf(y)).all()
    assert (dist.crps(y) >= -1e-12 * np.abs(y)).all()
    assert (dist.std() >= 0).all()


def test_flat_segments_are_point_masses():
    dist = QuantileDistribution(
        [[1.0, 1.0, 1.0], [0.0, 0.0, 2.0], [0.0, 2.0, 2.0]], [-1.0, 0.0, 1.0], [0, 0, 0], RESIDUALS
    )
    half = RESIDUALS[0].cdf(np.array(0.0))
    at, off = np.array([1.0, 0.0, 2.0]), np.array([0.5, -0.1, 2.1])
    np.testing.assert_allclose(dist.cdf(at), [1.0, half, 1.0])
    np.testing.assert_allclose(dist.cdf_left(at), [0.0, 0.0, half])
    np.testing.assert_array_equal(dist.cdf(off), [0.0, 0.0, 1.0])
    np.testing.assert_array_equal(dist.logpdf(at), np.full(3, np.inf))
    assert (dist.logpdf(off) < -100).all()
    np.testing.assert_allclose(dist.crps(off)[0], 0.5)
    np.testing.assert_allclose(dist.std()[0], 0.0, atol=1e-300)
    # Where the quantile function is flat the CRPS grows with the distance.
    np.testing.assert_allclose(dist.crps(np.array([0.0, -5.0, 7.0])) - dist.crps(at), [1.0, 5.0, 5.0])


def test_extreme_knots_stay_finite():
    dist = QuantileDistribution([[-1e-300, 1e-300], [-1e300, 1e300]], [-1.0, 1.0], [0, 1], RESIDUALS)
    np.testing.assert_allclose(dist.crps([1e200, 1.0])[0], 1e200)
    assert np.isfinite(dist.crps([1e200, 1.0])).all()
    assert np.isfinite(dist.logpdf([1e-300, 1.0])).all()
    np.testing.assert_allclose(dist.std(), np.array([1e-300, 1e300]) * [RESIDUALS[0].std, RESIDUALS[1].std])


def test_no_rows():
    empty = make_nonlinear()[[]]
    assert len(empty) == 0
    assert empty.ppf([0.1, 0.9]).shape == (0, 2)
    assert empty.cdf(0.0).shape == empty.crps(0.0).shape == empty.mean().shape == (0,)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ([[0.0, 1.0]], [0.0, 1.0], [3]),
            r"group must be in \[0, 3\), the number of residual distributions, got values from 3",
        ),
        (([[0.0, 1.0]], [0.0, 1.0], [0.5]), r"group must be integers of shape \(n,\), got float64 of shape"),
        (([[0.0]], [0.0], [0]), r"positions must have shape \(J,\) with J >= 2, got \(1,\)"),
        (([[0.0, 1.0]], [0.0, 0.0], [0]), "positions must be finite and increasing, but they are not"),
        (([0.0, 1.0], [0.0, 1.0], [0]), r"knots must have shape \(1, 2\), got \(2,\)"),
        (([[0.0, np.nan]], [0.0, 1.0], [0]), "knots must be finite, but they contain NaN or infinity"),
        (([[1.0, 0.0]], [0.0, 1.0], [0]), r"knots must be non-decreasing in each row, got knots\[0\]=\[1. 0.\]"),
    ],
)
def test_bad_input(args, message):
    with pytest.raises(ValueError, match=message):
        QuantileDistribution(*args, RESIDUALS)
