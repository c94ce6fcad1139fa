"""GroupedResiduals: each row has the shape of its group, moved and scaled."""

import numpy as np
import pytest

from usnrt.distributions import GroupedResiduals, ResidualDistribution

RNG = np.random.default_rng(0)
SHAPES = [
    ResidualDistribution.from_residuals(RNG.normal(size=300)),
    ResidualDistribution.from_residuals(RNG.exponential(size=300) - 1.0),
    ResidualDistribution.from_residuals([0.1, -0.5, 2.0]),
]
GROUP = np.array([2, 0, 0, 1, 2, 0])
LOC, SCALE = RNG.normal(size=6), RNG.uniform(0.5, 2.0, size=6)


def test_rows_follow_their_group():
    dist = GroupedResiduals(LOC, SCALE, GROUP, SHAPES)
    y = LOC + np.array([-1.0, 0.3, 0.0, 2.0, 30.0, -4.0])
    for row, shape in enumerate(SHAPES[g] for g in GROUP):
        z = (y[row] - LOC[row]) / SCALE[row]
        np.testing.assert_allclose(dist.cdf(y)[row], shape.cdf(z))
        np.testing.assert_allclose(dist.logpdf(y)[row], shape.logpdf(z) - np.log(SCALE[row]))
        np.testing.assert_allclose(dist.crps(y)[row], SCALE[row] * shape.crps(z))
        np.testing.assert_allclose(dist.ppf([0.01, 0.7])[row], LOC[row] + SCALE[row] * shape.ppf(np.array([0.01, 0.7])))
        np.testing.assert_allclose(dist.mean()[row], LOC[row] + SCALE[row] * shape.mean)
        np.testing.assert_allclose(dist.std()[row], SCALE[row] * shape.std)
    np.testing.assert_array_equal(dist.aleatoric, dist.var())
    assert dist.epistemic is None


def test_scale_of_zero_is_a_point_mass():
    dist = GroupedResiduals([1.0, 1.0, 1.0], 0.0, [0, 0, 1], SHAPES)
    y = np.array([0.5, 1.0, 1.5])
    np.testing.assert_array_equal(dist.cdf(y), [0.0, 1.0, 1.0])
    np.testing.assert_array_equal(dist.cdf_left(y), [0.0, 0.0, 1.0])
    np.testing.assert_array_equal(dist.logpdf(y), [-np.inf, np.inf, -np.inf])
    np.testing.assert_array_equal(dist.crps(y), [0.5, 0.0, 0.5])
    np.testing.assert_array_equal(dist.ppf(0.1), np.ones(3))


def test_extreme_scales_stay_finite():
    dist = GroupedResiduals(0.0, [1e-300, 1e300], [0, 1], SHAPES)
    assert np.isfinite(dist.crps([1e200, 1.0])).all()
    np.testing.assert_allclose(dist.crps([1e200, 1.0])[0], 1e200)
    assert np.isfinite(dist.logpdf([1e-300, 1.0])).all()
    assert np.isfinite(dist.ppf([1e-12, 0.5, 1 - 1e-12])).all()


def test_no_rows_and_unused_shapes():
    empty = GroupedResiduals(LOC, SCALE, GROUP, SHAPES)[[]]
    assert len(empty) == 0
    assert empty.ppf([0.1, 0.9]).shape == (0, 2)
    assert empty.cdf(0.0).shape == (0,)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (([0.0], 1.0, [3]), r"group must be in \[0, 3\), the number of shapes, but it goes from 3 to 3"),
        (([0.0], 1.0, [-1]), r"group must be in \[0, 3\), the number of shapes, but it goes from -1 to -1"),
        (([0.0], 1.0, [0.5]), r"group must be integers of shape \(n,\), got float64 of shape \(1,\)"),
        (([0.0], -1.0, [0]), "scale must be 0 or more, but its smallest value is -1.0"),
        (([0.0, 1.0], 1.0, [0]), r"parameters must have equal lengths, got loc \(2,\), scale \(\), group \(1,\)"),
    ],
)
def test_bad_input(args, message):
    with pytest.raises(ValueError, match=message):
        GroupedResiduals(*args, SHAPES)


def test_a_mean_that_is_known_stays_through_slices_and_scaling():
    shape = ResidualDistribution.from_residuals(np.random.default_rng(0).exponential(size=200))
    dist = GroupedResiduals(np.zeros(3), np.ones(3), np.zeros(3, dtype=int), [shape], mean=[1.0, 2.0, 3.0])
    np.testing.assert_array_equal(dist.mean(), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(dist[1:].scaled(10.0, 2.0).mean(), [14.0, 16.0])
    # Only the mean is told; probabilities are those of the shape.
    plain = GroupedResiduals(np.zeros(3), np.ones(3), np.zeros(3, dtype=int), [shape])
    np.testing.assert_array_equal(dist.ppf(0.9), plain.ppf(0.9))
    assert plain.mean()[0] == pytest.approx(shape.mean)
