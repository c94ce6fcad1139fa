"""Reliability, PIT, intervals and sharpness: what is drawn is what was computed."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from usnrt import metrics
from usnrt.distributions import Normal
from usnrt.plotting import IntervalDisplay, PITDisplay, ReliabilityDisplay, SharpnessCalibrationDisplay

RNG = np.random.default_rng(0)
N = 400
MEAN, STD = RNG.normal(size=N), RNG.uniform(0.5, 2.0, size=N)
Y = pd.Series(RNG.normal(MEAN, STD), name="power (kW)")
DIST = Normal(MEAN, STD)


class Fake:
    """The smallest model with a predict_dist: it knows the answers."""

    def predict_dist(self, X):
        return DIST[np.asarray(X)]


class Conformal(Fake):
    def predict_interval(self, X, coverage):
        return self.predict_dist(X).interval(coverage) + np.array([-10.0, 10.0])


def test_reliability_draws_the_observed_shares():
    display = ReliabilityDisplay.from_predictions(Y, DIST, name="model")
    levels, observed = metrics.reliability(Y, DIST)
    np.testing.assert_array_equal(display.line_.get_xdata(), levels)
    np.testing.assert_array_equal(display.line_.get_ydata(), observed)
    ece = 100 * metrics.ece(Y, DIST)
    assert [t.get_text() for t in display.ax_.get_legend().get_texts()] == [f"model (ECE {ece:.3g} %)", "95 % chance"]
    assert display.ax_.get_xlim() == display.ax_.get_ylim() == (0.0, 1.0)
    assert display.ax_.get_xlabel() == "nominal probability"
    assert display.figure_ is display.ax_.figure
    assert len(display.ax_.lines) == 2  # the diagonal and the model


def test_reliability_band_is_binomial():
    display = ReliabilityDisplay.from_predictions(Y, DIST, band=0.8)
    corners = display.band_.get_paths()[0].vertices
    at_half = corners[np.isclose(corners[:, 0], 0.5), 1]
    np.testing.assert_allclose([at_half.min(), at_half.max()], stats.binom.ppf([0.1, 0.9], N, 0.5) / N)


def test_reliability_as_difference_and_without_band():
    display = ReliabilityDisplay.from_predictions(Y, DIST, difference=True, band=None)
    levels, observed = metrics.reliability(Y, DIST)
    np.testing.assert_allclose(display.line_.get_ydata(), observed - levels)
    assert display.band_ is None
    assert display.ax_.get_ylabel() == "observed minus nominal"
    assert display.ax_.get_legend().get_texts()[0].get_text().startswith("ECE ")


def test_several_models_share_axes_with_colours_of_their_own():
    _, ax = plt.subplots()
    displays = [ReliabilityDisplay.from_predictions(Y, DIST.scaled(0.0, f), name=str(f), ax=ax) for f in (0.5, 1, 2)]
    assert all(display.ax_ is ax for display in displays)
    assert len({display.line_.get_color() for display in displays}) == 3
    assert len(ax.get_legend().get_texts()) == 4


def test_reliability_from_estimator_and_quantiles():
    display = ReliabilityDisplay.from_estimator(Fake(), np.arange(N), Y)
    assert display.line_.get_label().startswith("Fake (ECE")
    levels = [0.1, 0.5, 0.9]
    few = ReliabilityDisplay.from_predictions(Y, quantiles=DIST.ppf(levels), levels=levels)
    np.testing.assert_array_equal(few.line_.get_xdata(), levels)


def test_pit_bars_are_densities():
    display = PITDisplay.from_predictions(Y, DIST, bins=8, name="model")
    heights = np.array([bar.get_height() for bar in display.bars_])
    np.testing.assert_allclose(heights, np.histogram(DIST.cdf(Y), 8, (0, 1))[0] * 8 / N)
    np.testing.assert_allclose(heights.mean(), 1.0)
    assert display.ax_.get_title() == "model"
    assert [t.get_text() for t in display.ax_.get_legend().get_texts()] == ["95 % chance", "calibrated"]
    assert display.ax_.get_ylim()[1] > heights.max()


def test_pit_from_estimator_and_bad_bins():
    assert PITDisplay.from_estimator(Fake(), np.arange(N), Y).ax_.get_title() == "Fake"
    with pytest.raises(ValueError, match="bins must be an int >= 1, got 0"):
        PITDisplay.from_predictions(Y, DIST, bins=0)


@pytest.mark.parametrize("sort_by", ["median", "width", "outcome"])
def test_intervals_in_order_with_hits_and_misses(sort_by):
    display = IntervalDisplay.from_predictions(Y, DIST, sort_by=sort_by, max_rows=1000)
    key = {"median": MEAN, "width": STD, "outcome": Y.to_numpy()}[sort_by]
    np.testing.assert_array_equal(display.rows_, np.argsort(key, kind="stable"))
    low, high = DIST.interval(0.9).T
    inside = (low <= Y) & (high >= Y)
    assert len(display.hits_.get_xdata()) == inside.sum()
    assert len(display.misses_.get_xdata()) == N - inside.sum()
    seen = Y.to_numpy()[display.rows_]
    np.testing.assert_array_equal(display.misses_.get_ydata(), seen[~inside.to_numpy()[display.rows_]])
    segments = display.ax_.collections[0].get_segments()
    np.testing.assert_allclose(segments[0][:, 1], [low[display.rows_[0]], high[display.rows_[0]]])
    assert display.ax_.get_ylabel() == "power (kW)"
    assert display.ax_.get_xlabel() == f"400 rows, by {sort_by}"
    assert display.ax_.get_title() == f"90 % intervals contain {100 * inside.mean():.3g} % of 400 targets"


def test_intervals_show_evenly_many_rows_of_many():
    display = IntervalDisplay.from_predictions(Y, DIST, max_rows=50)
    assert len(display.rows_) == 50
    assert display.rows_[0] == np.argmin(MEAN)
    assert display.rows_[-1] == np.argmax(MEAN)
    assert display.ax_.get_xlabel() == "50 of 400 rows, by median"


def test_intervals_of_an_estimator_are_its_own():
    plain = IntervalDisplay.from_estimator(Fake(), np.arange(N), Y, coverage=0.5, max_rows=20)
    np.testing.assert_allclose(plain.interval, DIST.interval(0.5))
    wide = IntervalDisplay.from_estimator(Conformal(), np.arange(N), Y, coverage=0.5, name="wide")
    np.testing.assert_allclose(wide.interval[:, 1] - wide.interval[:, 0], np.diff(DIST.interval(0.5))[:, 0] + 20)
    assert wide.ax_.get_title() == "wide: 50 % intervals contain 100 % of 400 targets"


def test_infinite_intervals_can_be_drawn():
    interval = DIST.interval(0.9)
    interval[3] = [-np.inf, np.inf]
    display = IntervalDisplay(Y.to_numpy(), MEAN, interval, 0.9).plot()
    assert np.isfinite(display.ax_.get_ylim()).all()
    assert display.ax_.get_title().endswith("of 400 targets; 1 % are infinite")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sort_by": "name"}, "sort_by must be one of 'median', 'width', 'outcome', got 'name'"),
        ({"max_rows": 0}, "max_rows must be an int >= 1, got 0"),
        ({"coverage": 1.5}, r"coverage must be in \(0, 1\), got 1.5"),
    ],
)
def test_bad_interval_options(change, message):
    with pytest.raises(ValueError, match=message):
        IntervalDisplay.from_predictions(Y, DIST, **change)
    with pytest.raises(TypeError, match="options must be those of from_predictions, got colour="):
        IntervalDisplay.from_estimator(Fake(), np.arange(N), Y, colour="red")


def test_sharpness_against_calibration():
    models = {"right": DIST, "narrow": DIST.scaled(0.0, 0.5), "wide": Normal(MEAN, 3 * STD)}
    display = SharpnessCalibrationDisplay.from_predictions(Y, models, bootstrap=20)
    for k, dist in enumerate(models.values()):
        point = display.points_[k].lines[0]
        assert float(point.get_xdata()[0]) == pytest.approx(metrics.sharpness(dist))
        assert float(point.get_ydata()[0]) == pytest.approx(metrics.ece(Y, dist))
    assert [t.get_text() for t in display.ax_.texts] == [*models, "calibrated, by chance"]
    assert display.ax_.get_xlabel() == "sharpness: mean predicted std of power (kW)"
    assert display.ax_.get_ylim()[0] == 0
    assert (display.ece_error >= 0).all()
    chance = next(line for line in display.ax_.lines if line.get_linestyle() == "--")
    np.testing.assert_allclose(chance.get_ydata()[0], metrics.ece_by_chance(N))


def test_sharpness_of_estimators_and_of_nothing():
    display = SharpnessCalibrationDisplay.from_estimators({"a": Fake()}, np.arange(N), Y, target_name="load")
    assert display.sharpness_error is None
    assert display.ax_.get_xlabel() == "sharpness: mean predicted std of load"
    with pytest.raises(ValueError, match="forecasts must name at least one forecast, got none"):
        SharpnessCalibrationDisplay.from_predictions(Y, {})
