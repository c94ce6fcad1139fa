"""Is the split test honest and does it see? Its size under a homogeneous null, its power, and where it cuts.

Every tolerance follows from the number of trials: a rate p estimated from m trials has the standard error
sqrt(p (1 - p) / m), and four of them are allowed, which a right test exceeds once in some 16,000 runs. The seeds are
fixed, so that a run gives the same answer every time.
"""

from math import log10, sqrt

import numpy as np
import pytest

from usnrt.tree.split import best_split


def rejection_rate(alpha, n_trials, make_node, criterion="levene", bonferroni=False, seed=0, **how):
    """Share of trials whose best split has p <= alpha."""
    rng = np.random.default_rng(seed)
    rejected = 0
    for _ in range(n_trials):
        X, residuals = make_node(rng)
        split = best_split(X, residuals, residuals, criterion=criterion, **how)
        correction = log10(split.n_candidates) if bonferroni else 0.0
        rejected += split.log10_p + correction <= log10(alpha)
    return rejected / n_trials


def allowed(rate, n_trials):
    return 4 * sqrt(rate * (1 - rate) / n_trials)


def one_threshold(n, draw=lambda rng, n: rng.normal(size=n)):
    """A column of two values: one candidate only."""
    return lambda rng: ((np.arange(n) % 2.0)[:, None], draw(rng, n))


def homogeneous(n, d):
    return lambda rng: (rng.normal(size=(n, d)), rng.normal(size=n))


def planted(n, d, boundary=0.5, ratio=2.0):
    """Feature 1 is uniform; beyond the boundary the noise is `ratio` times as large."""

    def make(rng):
        X = rng.uniform(size=(n, d))
        return X, rng.normal(size=n) * np.where(X[:, 1] > boundary, ratio, 1.0)

    return make


CRITERIA = ("levene", "brown-forsythe", "cart")


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_a_single_threshold_has_its_size(criterion, alpha):
    n_trials = 4000
    rate = rejection_rate(alpha, n_trials, one_threshold(400), criterion)
    assert abs(rate - alpha) < allowed(alpha, n_trials)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_a_single_threshold_has_its_size_in_many_trials(criterion, alpha):
    n_trials = 60_000
    rate = rejection_rate(alpha, n_trials, one_threshold(1000), criterion, seed=1)
    assert abs(rate - alpha) < allowed(alpha, n_trials)


def test_skewed_residuals_inflate_mean_but_not_median_centring():
    # why Brown and Forsythe changed the centre; the estimator documents it
    n_trials, alpha = 2000, 0.05
    skewed = one_threshold(200, lambda rng, n: rng.exponential(size=n))
    by_mean = rejection_rate(alpha, n_trials, skewed, "levene")
    by_median = rejection_rate(alpha, n_trials, skewed, "brown-forsythe")
    assert by_mean > alpha + 2 * allowed(alpha, n_trials)
    assert abs(by_median - alpha) < allowed(alpha, n_trials)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_corrected_splits_keep_the_family_wise_error_below_alpha(criterion):
    n_trials, alpha = 1000, 0.05
    rate = rejection_rate(alpha, n_trials, homogeneous(200, 3), criterion, bonferroni=True, min_samples_leaf=20)
    assert rate < alpha + allowed(alpha, n_trials)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_corrected_splits_keep_the_error_in_many_trials(alpha):
    n_trials = 20_000
    rate = rejection_rate(alpha, n_trials, homogeneous(300, 5), bonferroni=True, min_samples_leaf=30, seed=1)
    # neighbouring thresholds test nearly the same thing, so the correction is far on the safe side
    assert rate < alpha / 2


def test_the_uncorrected_best_split_rejects_far_too_often():
    # the paper compares the smallest of many p-values with alpha: on pure noise it splits nearly every time
    n_trials, alpha = 500, 0.05
    rate = rejection_rate(alpha, n_trials, homogeneous(200, 3), min_samples_leaf=20)
    assert rate > 0.5


@pytest.mark.parametrize("criterion", ["levene", "brown-forsythe"])
def test_power_grows_with_the_rows_and_with_the_difference(criterion):
    how = {"alpha": 0.01, "n_trials": 200, "criterion": criterion, "bonferroni": True}
    power = {
        (n, ratio): rejection_rate(make_node=planted(n, 3, ratio=ratio), min_samples_leaf=n // 10, **how)
        for n in (100, 400)
        for ratio in (1.3, 2.0)
    }
    assert power[400, 2.0] > 0.99
    assert power[100, 2.0] > 0.4
    assert power[100, 1.3] < power[100, 2.0] < power[400, 2.0]
    assert power[100, 1.3] < power[400, 1.3] < power[400, 2.0]


def test_cart_does_not_see_a_difference_of_spreads():
    rate = rejection_rate(0.01, 200, planted(400, 3), "cart", bonferroni=True, min_samples_leaf=40)
    assert rate < 0.1


@pytest.mark.parametrize("boundary", [0.25, 0.5, 0.7])
def test_the_planted_boundary_is_found(boundary):
    rng = np.random.default_rng(3)
    errors, features = [], []
    for _ in range(60):
        X, residuals = planted(1500, 4, boundary, ratio=3.0)(rng)
        split = best_split(X, residuals, min_samples_leaf=150)
        features.append(split.feature)
        errors.append(abs(split.threshold - boundary))
    assert set(features) == {1}
    assert np.median(errors) < 0.01
    assert np.quantile(errors, 0.9) < 0.04


@pytest.mark.slow
def test_the_boundary_is_found_at_the_rate_of_one_over_n():
    # as for every jump: ten times the rows, a tenth of the error
    rng = np.random.default_rng(5)
    medians = []
    for n in (1000, 10_000):
        errors = []
        for _ in range(200):
            X, residuals = planted(n, 2, ratio=2.0)(rng)
            errors.append(abs(best_split(X, residuals, min_samples_leaf=n // 10).threshold - 0.5))
        medians.append(np.median(errors))
    assert 4 < medians[0] / medians[1] < 25


def test_planted_categories_are_found():
    rng = np.random.default_rng(7)
    noisy = (1, 4, 6)
    for _ in range(20):
        codes = rng.integers(0, 8, size=1200).astype(float)
        residuals = rng.normal(size=1200) * np.where(np.isin(codes, noisy), 2.5, 1.0)
        X = np.column_stack([rng.normal(size=1200), codes])
        split = best_split(X, residuals, n_categories=[0, 8], min_samples_leaf=100)
        assert split.feature == 1
        assert split.left_categories == (0, 2, 3, 5, 7)
        assert split.statistic < 0
