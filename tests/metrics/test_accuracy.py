"""Scores against scikit-learn, scoringrules, properscoring, uncertainty-toolbox and plain loops."""

import numpy as np
import properscoring
import pytest
import scoringrules
import sklearn.metrics
import uncertainty_toolbox.metrics_scoring_rule as toolbox
from hypothesis import given, settings
from hypothesis import strategies as st

from usnrt import metrics
from usnrt.distributions import Mixture, Normal

RNG = np.random.default_rng(0)
N = 200
MEAN, STD = RNG.normal(size=N), RNG.uniform(0.5, 2.0, size=N)
Y = RNG.normal(MEAN, STD)
SAMPLES = RNG.normal(MEAN[:, None], STD[:, None], size=(N, 31))


def test_point_scores_against_sklearn():
    np.testing.assert_allclose(metrics.rmse(Y, mean=MEAN), sklearn.metrics.root_mean_squared_error(Y, MEAN))
    np.testing.assert_allclose(metrics.mae(Y, mean=MEAN), sklearn.metrics.mean_absolute_error(Y, MEAN))
    np.testing.assert_allclose(metrics.r2(Y, mean=MEAN), sklearn.metrics.r2_score(Y, MEAN))
    assert np.isnan(metrics.r2([1.0, 1.0], mean=[1.0, 2.0]))


def test_normal_scores_against_the_toolbox():
    np.testing.assert_allclose(metrics.nll(Y, mean=MEAN, std=STD), toolbox.nll_gaussian(MEAN, STD, Y))
    np.testing.assert_allclose(metrics.crps(Y, mean=MEAN, std=STD), toolbox.crps_gaussian(MEAN, STD, Y))
    levels = np.linspace(0.01, 0.99, 9)
    np.testing.assert_allclose(
        metrics.pinball(Y, mean=MEAN, std=STD, at=levels), toolbox.check_score(MEAN, STD, Y, resolution=9)
    )
    scores = [metrics.interval_score(Y, mean=MEAN, std=STD, coverage=c) for c in levels]
    np.testing.assert_allclose(np.mean(scores), toolbox.interval_score(MEAN, STD, Y, resolution=9))


def test_crps_against_properscoring_and_scoringrules():
    np.testing.assert_allclose(metrics.crps(Y, mean=MEAN, std=STD), properscoring.crps_gaussian(Y, MEAN, STD).mean())
    np.testing.assert_allclose(metrics.crps(Y, samples=SAMPLES), properscoring.crps_ensemble(Y, SAMPLES).mean())
    np.testing.assert_allclose(metrics.crps(Y, samples=SAMPLES), scoringrules.crps_ensemble(Y, SAMPLES).mean())


@pytest.mark.parametrize("level", [0.05, 0.5, 0.83])
def test_pinball_against_sklearn(level):
    q = Normal(MEAN, STD).ppf(level)
    expected = sklearn.metrics.mean_pinball_loss(Y, q, alpha=level)
    np.testing.assert_allclose(metrics.pinball(Y, mean=MEAN, std=STD, at=level), expected)
    np.testing.assert_allclose(metrics.pinball(Y, quantiles=q[:, None], levels=[level]), expected)


def test_pinball_takes_the_deciles_by_default():
    single = [metrics.pinball(Y, mean=MEAN, std=STD, at=k / 10) for k in range(1, 10)]
    np.testing.assert_allclose(metrics.pinball(Y, mean=MEAN, std=STD), np.mean(single))


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_interval_score_against_scoringrules_and_a_loop(coverage):
    low, high = Normal(MEAN, STD).interval(coverage).T
    score = metrics.interval_score(Y, mean=MEAN, std=STD, coverage=coverage)
    np.testing.assert_allclose(score, scoringrules.interval_score(Y, low, high, 1 - coverage).mean())
    total = 0.0
    for y, a, b in zip(Y, low, high):
        total += b - a
        if y < a:
            total += 2 / (1 - coverage) * (a - y)
        if y > b:
            total += 2 / (1 - coverage) * (y - b)
    np.testing.assert_allclose(score, total / N)
    np.testing.assert_allclose(metrics.interval_score(Y, interval=np.c_[low, high], coverage=coverage), score)


def test_mixtures_are_scored_as_mixtures():
    mixture = Mixture([Normal(MEAN - 2, STD), Normal(MEAN + 2, STD)])
    density = 0.5 * Normal(MEAN - 2, STD).pdf(Y) + 0.5 * Normal(MEAN + 2, STD).pdf(Y)
    np.testing.assert_allclose(metrics.nll(Y, mixture), -np.log(density).mean())
    parts = np.c_[MEAN - 2, MEAN + 2], np.c_[STD, STD], np.full((N, 2), 0.5)
    np.testing.assert_allclose(metrics.crps(Y, mixture), scoringrules.crps_mixnorm(Y, *parts, m_axis=-1).mean())


def test_crps_of_a_point_forecast_is_the_absolute_error():
    np.testing.assert_allclose(metrics.crps(Y, mean=MEAN, std=np.zeros(N)), metrics.mae(Y, mean=MEAN))
    np.testing.assert_allclose(metrics.crps(Y, samples=MEAN[:, None]), metrics.mae(Y, mean=MEAN))


UNCHANGED = [metrics.r2, metrics.ece, metrics.tce, metrics.coverage]
LINEAR = [metrics.rmse, metrics.mae, metrics.crps, metrics.pinball, metrics.interval_score]


@settings(deadline=None, max_examples=15)
@given(shift=st.floats(-100, 100), factor=st.floats(0.01, 100), seed=st.integers(0, 1000))
def test_invariants(shift, factor, seed):
    order = np.random.default_rng(seed).permutation(N)
    dist = Mixture([Normal(MEAN, STD), Normal(MEAN + 1, 2 * STD)])
    moved, y = dist[order].scaled(shift, factor), factor * Y[order] + shift
    for metric in UNCHANGED:
        np.testing.assert_allclose(metric(y, moved), metric(Y, dist), atol=1e-9)
    for metric in LINEAR:
        np.testing.assert_allclose(metric(y, moved), factor * metric(Y, dist), rtol=1e-7)
    np.testing.assert_allclose(metrics.nll(y, moved), metrics.nll(Y, dist) + np.log(factor), atol=1e-8)
    np.testing.assert_allclose(metrics.sharpness(moved), factor * metrics.sharpness(dist), rtol=1e-9)
    np.testing.assert_allclose(metrics.mean_width(moved), factor * metrics.mean_width(dist), rtol=1e-7)


def test_proper_scores_prefer_the_truth():
    y = np.random.default_rng(5).normal(size=20000)
    for score in (metrics.crps, metrics.nll, metrics.interval_score, metrics.pinball):
        truth = score(y, mean=np.zeros(20000), std=np.ones(20000))
        for mean, std in ((0.3, 1.0), (0.0, 0.7), (0.0, 1.4)):
            assert truth < score(y, mean=np.full(20000, mean), std=np.full(20000, std))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mean": MEAN, "std": STD, "coverage": 1.2}, r"coverage must be in \(0, 1\), got 1.2"),
        ({"mean": MEAN, "std": STD, "coverage": [0.5]}, r"coverage must be one number, got \[0.5\]"),
        ({"interval": np.zeros((3, 2))}, r"interval must have shape \(n, 2\) .*, got \(3, 2\) and \(200,\)"),
        ({"interval": np.tile([1.0, 0.0], (N, 1))}, "interval must have lower ends below upper ends,"),
        ({"mean": MEAN, "interval": np.zeros((N, 2))}, "either a forecast or interval= must be given, got both"),
    ],
)
def test_bad_intervals(given, message):
    with pytest.raises(ValueError, match=message):
        metrics.interval_score(Y, **given)


def test_bad_levels():
    with pytest.raises(ValueError, match=r"at must be in \(0, 1\), got 0.0"):
        metrics.pinball(Y, mean=MEAN, std=STD, at=[0.0, 0.5])
    with pytest.raises(ValueError, match=r"at must be in \(0, 1\), got 1.0"):
        metrics.ece(Y, mean=MEAN, std=STD, at=1.0)
