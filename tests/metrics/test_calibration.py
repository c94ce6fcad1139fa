"""ECE and TCE as the paper writes them, rebuilt with plain loops; coverage, width, PIT and groups."""

import numpy as np
import pytest
import uncertainty_toolbox.metrics_calibration as toolbox

from usnrt import metrics
from usnrt.distributions import Mixture, Normal, QuantileDistribution, ResidualDistribution, StudentT

N = 60
RNG = np.random.default_rng(0)
MEAN, STD = RNG.normal(size=N), RNG.uniform(0.5, 2.0, size=N)
Y = RNG.normal(MEAN, 1.3 * STD)


def ece_of_the_paper(y, quantile):
    """quantile(i, k) is row i's predicted quantile at level k / 100."""
    total = 0.0
    for k in range(1, 100):
        below = 0
        for i in range(len(y)):
            if y[i] < quantile(i, k):
                below += 1
        total += abs(below / len(y) - k / 100)
    return total / 99


def tce_of_the_paper(y, quantile):
    total = 0.0
    for k in (5, 10, 15, 20):
        inside = 0
        for i in range(len(y)):
            if quantile(i, k) < y[i] < quantile(i, 100 - k):
                inside += 1
        total += abs(inside / len(y) - (1 - 2 * k / 100))
    return total / 4


RESIDUAL = ResidualDistribution.from_residuals(RNG.standard_t(4, size=100))
FORECASTS = {
    "normal": Normal(MEAN, STD),
    "student_t": StudentT(3.0, MEAN, STD),
    "mixture": Mixture([Normal(MEAN, STD), Normal(MEAN + 1.0, 0.3 * STD), Normal(MEAN - 2, STD)]),
    "quantile": QuantileDistribution(
        MEAN[:, None] + STD[:, None] * [-1.0, 1.0], [-1.0, 1.0], np.zeros(N, int), [RESIDUAL]
    ),
    "point_mass": Normal(MEAN, np.where(np.arange(N) % 3 == 0, 0.0, STD)),
    "all_point_masses": Normal(np.round(MEAN), 0.0),
    "half_point_masses": Mixture([Normal(np.round(MEAN), 0.0), Normal(np.round(MEAN), STD)], [0.47, 0.53]),
    "two_point_masses": Mixture([Normal(np.round(MEAN), 0.0), Normal(np.round(MEAN) + 1, 0.0)], [0.05, 0.95]),
    "step_on_a_level": Mixture([Normal(np.round(MEAN), 0.0), Normal(np.round(MEAN) + 1, 0.0)], [0.5, 0.5]),
}


@pytest.mark.parametrize("name", FORECASTS)
def test_ece_and_tce_are_those_of_the_paper(name):
    dist = FORECASTS[name]
    # outcomes on, next to and away from the point masses
    y = np.where(np.arange(N) % 2 == 0, np.round(Y), Y) if "point" in name or "step" in name else Y
    y = np.where(np.arange(N) % 6 == 0, dist.ppf(0.3), y) if "mass" in name else y
    table = dist.ppf(np.arange(1, 100) / 100)
    quantile = lambda i, k: table[i, k - 1]  # noqa: E731
    assert metrics.ece(y, dist) == pytest.approx(ece_of_the_paper(y, quantile), abs=1e-15)
    assert metrics.tce(y, dist) == pytest.approx(tce_of_the_paper(y, quantile), abs=1e-15)


def test_on_a_quantile_is_neither_below_nor_inside():
    # every outcome sits exactly on the median, or on the 5 % quantile
    dist = Normal(np.zeros(10), 1.0)
    levels, observed = metrics.reliability(np.zeros(10), dist)
    np.testing.assert_array_equal(observed, (levels > 0.5).astype(float))
    quantiles = dist.ppf([0.05, 0.95])
    assert metrics.tce(quantiles[:, 0], quantiles=quantiles, levels=[0.05, 0.95], coverages=0.9) == pytest.approx(0.9)
    assert metrics.coverage(quantiles[:, 0], quantiles=quantiles, levels=[0.05, 0.95], coverage=0.9) == 1.0


def test_samples_too_follow_the_definition():
    samples = RNG.normal(MEAN[:, None], STD[:, None], size=(N, 40))
    ordered = np.sort(samples, axis=1)
    y = np.where(np.arange(N) % 4 == 0, ordered[:, 19], Y)

    def quantile(i, k):
        # smallest sample with at least k % of the samples at or below it
        for value in ordered[i]:
            if (ordered[i] <= value).sum() * 100 >= k * 40:
                return value
        raise AssertionError

    assert metrics.ece(y, samples=samples) == pytest.approx(ece_of_the_paper(y, quantile), abs=1e-15)
    assert metrics.tce(y, samples=samples) == pytest.approx(tce_of_the_paper(y, quantile), abs=1e-15)


def test_reliability_against_the_toolbox():
    levels, observed = metrics.reliability(Y, mean=MEAN, std=STD)
    expected, theirs = toolbox.get_proportion_lists_vectorized(MEAN, STD, Y, num_bins=101, prop_type="quantile")
    np.testing.assert_allclose(expected[1:-1], levels)
    # theirs looks at mean - y, from the other end
    np.testing.assert_allclose(1.0 - theirs[1:-1][::-1], observed)
    assert metrics.ece(Y, mean=MEAN, std=STD) == pytest.approx(np.abs(theirs[1:-1] - levels).mean())


def test_ece_at_other_levels_in_any_order():
    _, observed = metrics.reliability(Y, mean=MEAN, std=STD, at=[0.9, 0.1])
    np.testing.assert_allclose(
        observed, [np.mean(Y < MEAN - 1.2815515655 * STD), np.mean(Y < MEAN + 1.2815515655 * STD)]
    )
    assert metrics.ece(Y, mean=MEAN, std=STD, at=[0.9, 0.1]) == pytest.approx(np.abs(observed - [0.1, 0.9]).mean())


def test_a_calibrated_forecast_has_the_ece_of_chance():
    rng = np.random.default_rng(1)
    for n in (50, 400):
        eces = [metrics.ece(rng.normal(size=n), mean=np.zeros(n), std=np.ones(n)) for _ in range(300)]
        np.testing.assert_allclose(np.mean(eces), metrics.ece_by_chance(n), rtol=0.06)


def test_coverage_width_and_sharpness_by_hand():
    interval = np.array([[0.0, 2.0], [0.0, 1.0], [-1.0, 0.0], [5.0, np.inf]])
    assert metrics.coverage([2.0, 1.5, -0.5, 6.0], interval=interval) == 0.75
    assert metrics.mean_width(interval=interval[:3]) == pytest.approx(4 / 3)
    assert metrics.mean_width(interval=interval) == np.inf
    width = metrics.mean_width(mean=MEAN, std=STD, coverage=0.95)
    assert width == pytest.approx(2 * 1.959963984540054 * STD.mean())
    assert metrics.sharpness(mean=MEAN, std=STD) == pytest.approx(STD.mean())
    assert metrics.sharpness(samples=[[1.0, 3.0], [2.0, 2.0]]) == 0.5


def test_pit():
    np.testing.assert_array_equal(metrics.pit(Y, mean=MEAN, std=STD), Normal(MEAN, STD).cdf(Y))
    samples = np.array([[1.0, 2.0, 2.0, 3.0]])
    assert metrics.pit([2.0], samples=samples)[0] == 0.5
    assert metrics.pit([0.0], samples=samples)[0] == 0.0
    draws = [metrics.pit([2.0], samples=samples, random_state=seed)[0] for seed in range(50)]
    assert 0.25 <= min(draws) < 0.35
    assert 0.65 < max(draws) <= 0.75
    assert metrics.pit([1.0, 1.0], mean=[1.0, 1.0], std=[0.0, 0.0], random_state=0).std() > 0


def test_calibration_by_group():
    groups = np.where(np.arange(N) < 20, "a", "b")
    dist = Normal(MEAN, STD)
    table = metrics.calibration_by_group(Y, dist, groups)
    assert table.columns == ["group", "rows", "ece", "ece_by_chance", "tce", "coverage_90", "width_90"]
    assert table["ece"][0] >= table["ece"][1]
    for row in table.rows():
        part = groups == row["group"]
        assert row["rows"] == part.sum()
        assert row["ece"] == pytest.approx(metrics.ece(Y[part], dist[part]))
        assert row["tce"] == pytest.approx(metrics.tce(Y[part], dist[part]))
        assert row["coverage_90"] == pytest.approx(metrics.coverage(Y[part], dist[part]))
        assert row["width_90"] == pytest.approx(metrics.mean_width(dist[part]))
        assert row["ece_by_chance"] == pytest.approx(metrics.ece_by_chance(part.sum()))


def test_calibration_by_group_of_few_quantiles_has_less_columns():
    levels = [0.25, 0.5, 0.75]
    quantiles = Normal(MEAN, STD).ppf(levels)
    table = metrics.calibration_by_group(Y, groups=np.zeros(N), quantiles=quantiles, levels=levels)
    assert table.columns == ["group", "rows", "ece", "ece_by_chance"]
    assert table["ece"][0] == pytest.approx(metrics.ece(Y, quantiles=quantiles, levels=levels))


def test_quantile_bins():
    x = RNG.normal(size=1000)
    bins = metrics.quantile_bins(x, 4)
    np.testing.assert_array_equal(np.bincount(bins), [250, 250, 250, 250])
    assert x[bins == 0].max() < x[bins == 1].min()
    np.testing.assert_array_equal(metrics.quantile_bins([1.0, 1.0, 1.0, 2.0], 4), [0, 0, 0, 1])
    np.testing.assert_array_equal(metrics.quantile_bins([3.0], 10), [0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.quantile_bins([np.nan], 2), "x must not contain NaN"),
        (lambda: metrics.quantile_bins([], 2), r"x must have shape \(n_rows,\) with at least one row,"),
        (lambda: metrics.quantile_bins([1.0], 0), "n must be an int >= 1, got 0"),
        (
            lambda: metrics.calibration_by_group(Y, Normal(MEAN, STD), [1, 2]),
            r"groups must have one label per row \(60\), got \(2,\)",
        ),
        (
            lambda: metrics.calibration_by_group(Y, Normal(MEAN, STD), np.full(N, np.nan)),
            "groups must not contain NaN",
        ),
        (
            lambda: metrics.tce(Y, Normal(MEAN, STD), coverages=[0.9, 1.0]),
            r"coverages must be in \(0, 1\), got 1.0",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
