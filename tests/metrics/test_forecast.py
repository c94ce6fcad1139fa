"""The adapter: the same numbers from every way to state a forecast, and one sentence for each wrong way."""

import numpy as np
import pytest

from usnrt import metrics
from usnrt.distributions import Normal, StudentT
from usnrt.metrics.forecast import QuantileForecast, SampleForecast, as_forecast

RNG = np.random.default_rng(0)
N = 400
MEAN, STD = RNG.normal(size=N), RNG.uniform(0.5, 2.0, size=N)
Y = RNG.normal(MEAN, STD)
DIST = Normal(MEAN, STD)
LEVELS = np.arange(1, 100) / 100
QUANTILES = DIST.ppf(LEVELS)
WHOLE = [
    metrics.ece,
    metrics.tce,
    metrics.crps,
    metrics.pinball,
    metrics.interval_score,
    metrics.coverage,
]


@pytest.mark.parametrize("metric", [*WHOLE, metrics.rmse, metrics.mae, metrics.r2, metrics.nll])
def test_mean_and_std_are_a_normal(metric):
    assert metric(Y, DIST) == metric(Y, mean=MEAN, std=STD)


@pytest.mark.parametrize("metric", [metrics.ece, metrics.tce, metrics.interval_score, metrics.coverage])
def test_quantiles_at_the_levels_needed_are_exact(metric):
    np.testing.assert_allclose(metric(Y, quantiles=QUANTILES, levels=LEVELS), metric(Y, DIST), rtol=1e-12)
    # in any order of the levels
    shuffled = RNG.permutation(99)
    np.testing.assert_allclose(
        metric(Y, quantiles=QUANTILES[:, shuffled], levels=LEVELS[shuffled]), metric(Y, DIST), rtol=1e-12
    )


def test_quantiles_between_levels_are_interpolated():
    f = QuantileForecast([[0.0, 1.0, 4.0]], [0.1, 0.5, 0.9])
    np.testing.assert_allclose(f.quantile(np.array([0.1, 0.3, 0.5, 0.8, 0.9])), [[0.0, 0.5, 1.0, 3.25, 4.0]])
    np.testing.assert_allclose(f.cdf(np.array([2.5]))[1], [0.7])
    for y, expected in ((-1.0, 0.05), (0.0, 0.1), (0.5, 0.3), (4.0, 0.9), (5.0, 0.95)):
        np.testing.assert_allclose(f.cdf(np.array([y]))[0], [expected])


def test_one_quantile_is_enough_for_its_own_level():
    median = QuantileForecast(MEAN[:, None], [0.5])
    np.testing.assert_allclose(metrics.pinball(Y, median), metrics.mae(Y, mean=MEAN) / 2)
    np.testing.assert_allclose(metrics.ece(Y, median), abs((MEAN > Y).mean() - 0.5))


def test_crps_of_dense_quantiles_is_near_the_exact_one():
    fine = np.arange(1, 2000) / 2000
    np.testing.assert_allclose(metrics.crps(Y, quantiles=DIST.ppf(fine), levels=fine), metrics.crps(Y, DIST), rtol=1e-3)
    np.testing.assert_allclose(metrics.crps(Y, quantiles=QUANTILES, levels=LEVELS), metrics.crps(Y, DIST), rtol=0.01)


@pytest.mark.parametrize("metric", [*WHOLE, metrics.rmse, metrics.mae])
def test_samples_come_near_the_distribution_they_are_of(metric):
    samples = DIST.rvs(3000, random_state=1)
    np.testing.assert_allclose(metric(Y, samples=samples), metric(Y, DIST), rtol=0.02, atol=2e-3)


def test_samples_are_an_empirical_distribution():
    f = SampleForecast([[3.0, 1.0, 2.0, 2.0]])
    np.testing.assert_array_equal(f.quantile(np.array([0.2, 0.25, 0.26, 0.75, 0.9])), [[1.0, 1.0, 2.0, 2.0, 3.0]])
    left, right = f.cdf(np.array([2.0]))
    assert (left[0], right[0]) == (0.25, 0.75)
    assert f.mean()[0] == 2.0
    np.testing.assert_allclose(f.std(), [np.sqrt(0.5)])


def test_a_point_forecast_may_stand_alone():
    assert metrics.rmse(Y, MEAN) == metrics.rmse(Y, mean=MEAN) == metrics.rmse(Y, DIST)


@pytest.mark.parametrize(
    ("metric", "given", "message"),
    [
        (
            metrics.nll,
            {"samples": np.zeros((N, 3))},
            "this metric needs a density, but the forecast is given by samples",
        ),
        (
            metrics.nll,
            {"quantiles": QUANTILES, "levels": LEVELS},
            "needs a density, but the forecast is given by quantiles",
        ),
        (
            metrics.rmse,
            {"quantiles": QUANTILES, "levels": LEVELS},
            "needs a mean, but the forecast is given by quantiles",
        ),
        (metrics.crps, {"mean": MEAN}, "needs a distribution, but the forecast is given by a mean alone"),
        (metrics.ece, {"mean": MEAN}, "needs quantiles, but the forecast is given by a mean alone"),
        (metrics.coverage, {"mean": MEAN}, "needs quantiles, but the forecast is given by a mean alone"),
        (
            metrics.tce,
            {"quantiles": QUANTILES[:, 10:90], "levels": LEVELS[10:90]},
            r"this metric needs level 0.05, but quantiles are given in \[0.11, 0.9\]",
        ),
    ],
)
def test_what_a_forecast_cannot_give(metric, given, message):
    with pytest.raises(ValueError, match=message):
        metric(Y, **given)


def test_sharpness_needs_a_std():
    with pytest.raises(ValueError, match="needs a standard deviation, but the forecast is given by quantiles"):
        metrics.sharpness(quantiles=QUANTILES, levels=LEVELS)


@pytest.mark.parametrize(
    ("args", "given", "message"),
    [
        ((Y,), {}, "a forecast must be a distribution or keywords such as mean=, std=, got neither"),
        ((Y, DIST), {"mean": MEAN}, "a forecast must be a distribution or keywords .*, got both"),
        ((Y,), {"std": STD}, "a forecast is given by mean=, .* or by samples=, got std"),
        ((Y,), {"quantiles": QUANTILES}, ".*, got quantiles"),
        ((Y,), {"mean": MEAN, "samples": QUANTILES}, ".*, got mean, samples"),
        ((Y[:5], DIST), {}, r"y_true must have one value per row of the forecast \(400\), got 5 values"),
        ((Y[:, None], DIST), {}, r"y_true must have shape \(n,\), got \(400, 1\)"),
        (([], DIST), {}, r"y_true must have at least one row, got \(0,\)"),
        (([np.nan] * N, DIST), {}, "y_true must be finite, got NaN or infinity"),
        ((Y,), {"mean": MEAN, "std": -STD}, "std must be >= 0, but its smallest value is -"),
        (
            (Y,),
            {"mean": MEAN, "std": STD[:3]},
            r"parameters must have equal lengths, got mean \(400,\), std \(3,\)",
        ),
        (
            (Y,),
            {"quantiles": QUANTILES, "levels": LEVELS[:4]},
            r"quantiles must have one column per level \(4\),",
        ),
        ((Y,), {"quantiles": QUANTILES, "levels": LEVELS + 0.01}, r"levels must be in \(0, 1\), got 1.0"),
        (
            (Y,),
            {"quantiles": QUANTILES[:, ::-1], "levels": LEVELS},
            "quantiles must not decrease with their level,",
        ),
        (
            (Y,),
            {"quantiles": QUANTILES[:, :2], "levels": [0.5, 0.5]},
            "levels must be unique, got one twice",
        ),
        ((Y,), {"samples": np.full((N, 2), np.inf)}, "samples must be finite, got NaN or infinity"),
        ((Y,), {"samples": Y}, r"samples must have shape \(n, k\), got \(400,\)"),
    ],
)
def test_bad_forecasts(args, given, message):
    with pytest.raises(ValueError, match=message):
        metrics.crps(*args, **given)


def test_an_unknown_keyword():
    with pytest.raises(TypeError, match=r"a forecast is given by \['levels', .*\], got variance="):
        metrics.crps(Y, mean=MEAN, variance=STD)


def test_a_student_t_is_scored_as_such():
    t = StudentT(3.0, MEAN, STD)
    assert metrics.nll(Y, t) == pytest.approx(-t.logpdf(Y).mean())
    assert metrics.nll(Y, t) != pytest.approx(metrics.nll(Y, mean=t.mean(), std=t.std()))


def test_an_adapted_forecast_passes_through():
    f = as_forecast(samples=QUANTILES)
    assert as_forecast(f) is f
