"""Calibration: guaranteed coverage, residual distributions of small regions, and violated assumptions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from usnrt import USNRTRegressor
from usnrt.calibration.conformal import conformal_bounds
from usnrt.calibration.groups import (
    ENOUGH_SCORES,
    GroupCalibration,
    ScoredRows,
    by_region,
    by_table,
    insufficient_calibration,
)
from usnrt.datasets import make_heteroscedastic
from usnrt.distributions import ResidualDistribution
from usnrt.nn.quantile_functions import conformity_scores
from usnrt.nn.quantiles import POSITIONS
from usnrt.utils.arrays import evidence
from usnrt.utils.notices import InfiniteIntervalWarning, TrainingRowsWarning, UnguaranteedIntervalWarning

TINY = {"hidden": (4,), "memory": False, "max_epochs": 4, "n_jobs": 1, "random_state": 0}


@pytest.fixture(scope="module")
def model():
    data = make_heteroscedastic("piecewise", n_samples=1500, random_state=0)
    return USNRTRegressor(min_samples_leaf=300, **TINY).fit(data.data, data.target)


def simulate(n, seed):
    data = make_heteroscedastic("piecewise", n_samples=n, random_state=seed)
    return data.data, data.target


@pytest.mark.parametrize("n", [1, 5, 18, 19, 20, 99, 100, 1000])
@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.99])
def test_bounds_have_at_least_the_coverage_and_not_much_more(n, coverage):
    """With ranks as scores the coverage of a new rank is counted, not simulated."""
    low, high = conformal_bounds(np.arange(1.0, n + 1), coverage)
    # A new score is equally likely to fall in each of the n + 1 gaps: gap i lies between rank i and i + 1.
    gaps = np.arange(n + 1) + 0.5
    actual = np.mean((gaps > low) & (gaps < high))
    assert actual >= coverage - 1e-12
    assert np.isinf([low, high]).any() or actual <= coverage + 2 / (n + 1)


def test_too_few_scores_give_infinite_bounds():
    assert conformal_bounds(np.zeros(0), 0.5) == (-np.inf, np.inf)
    assert conformal_bounds(np.array([1.0, 2.0, 3.0]), 0.5) == (1.0, 3.0)
    assert conformal_bounds(np.array([1.0, 2.0]), 0.5) == (-np.inf, np.inf)


def test_few_rows_give_a_region_intervals_of_the_distribution(model):
    X, y = simulate(400, 1)
    leaf = model.tree_.leaf_of(model._encode(X))
    small = np.flatnonzero(leaf == 0)
    few = np.concatenate([small[:5], np.flatnonzero(leaf != 0)])
    model.calibrate(X[few], y[few])
    sentence = r"in 1 of \d regions, which has 5 calibration rows; 19 are needed"
    others = leaf != 0
    with pytest.warns(UnguaranteedIntervalWarning, match=f"^the 90 % interval is not guaranteed {sentence}"):
        interval = model.predict_interval(X, 0.9)
    np.testing.assert_allclose(interval[small], model.predict_dist(X[small]).interval(0.9))
    with pytest.warns(UnguaranteedIntervalWarning, match=sentence):
        table = model.predict_table(X, 0.9)
    np.testing.assert_array_equal(table["guaranteed"], others)
    np.testing.assert_array_equal(table["lower"], interval[:, 0])
    with pytest.warns(InfiniteIntervalWarning, match=sentence + "$"):
        guaranteed = model.predict_interval(X, 0.9, guaranteed=True)
    assert np.isinf(guaranteed[small]).all()
    np.testing.assert_array_equal(guaranteed[others], interval[others])
    # Five scores are enough for a 60 % interval: (5 + 1) * 0.2 = 1.2 >= 1.
    assert np.isfinite(model.predict_interval(X, 0.6)[small]).all()


def test_coverage_holds_in_every_leaf(model):
    """The exact guarantee: over fresh calibration sets, each leaf's coverage is at least as stated."""
    n_sets, coverage = 200, 0.8
    X_new, y_new = simulate(4000, 99)
    leaf = model.tree_.leaf_of(model._encode(X_new))
    hits = np.zeros((n_sets, model.n_leaves_))
    sizes = np.zeros((n_sets, model.n_leaves_))
    for seed in range(n_sets):
        X, y = simulate(300, 1000 + seed)
        model.calibrate(X, y)
        interval = model.predict_interval(X_new, coverage)
        inside = (interval[:, 0] < y_new) & (y_new <= interval[:, 1])
        hits[seed] = [inside[leaf == k].mean() for k in range(model.n_leaves_)]
        sizes[seed] = [len(scores) for scores in model.calibration_.scores]
    assert model.n_leaves_ >= 2
    for k in range(model.n_leaves_):
        n_leaf = np.sum(leaf == k)
        # Between calibration sets the coverage is beta distributed; within one, the test rows are binomial. The
        # test rows are shared by all sets, so their part of the error does not average out.
        between = coverage * (1 - coverage) / sizes[:, k].mean() / n_sets
        within = coverage * (1 - coverage) / n_leaf
        band = 3.5 * np.sqrt(between + within)
        assert hits[:, k].mean() > coverage - band, f"leaf {k}"
        assert hits[:, k].mean() < coverage + 2 / sizes[:, k].mean() + band, f"leaf {k}"


def test_rows_that_are_not_exchangeable_are_not_covered(model):
    X, y = simulate(1000, 5)
    model.calibrate(X, y)
    X_new, y_new = simulate(4000, 6)
    shifted = y_new + 3 * y_new.std()
    interval = model.predict_interval(X_new, 0.8)
    inside = (interval[:, 0] < shifted) & (shifted <= interval[:, 1])
    assert inside.mean() < 0.6


def test_calibrate_warns_on_training_rows_as_evaluate_does(model):
    X, y = simulate(1500, 0)
    with pytest.warns(TrainingRowsWarning, match="^100 % of these rows are training rows: intervals .* too narrow"):
        model.calibrate(X, y)
    other, z = simulate(200, 1)
    model.calibrate(np.vstack([X[:100], other]), np.concatenate([y[:100], z]))  # a warning would be an error here


def test_scores_with_heavy_tails_give_calibrated_distributions(model):
    """Student-t errors: the calibrated distribution has their tails, a normal one does not."""
    rng = np.random.default_rng(0)
    tree = model.tree_
    leaf = rng.integers(0, tree.n_leaves, 6000)
    scores = stats.t(3).rvs(6000, random_state=1)
    calibration = by_region(ScoredRows(scores, leaf, np.ones(6000)), tree)
    y = stats.t(3).rvs(20_000, random_state=2)
    new_leaf = rng.integers(0, tree.n_leaves, len(y))
    dist = calibration.distribution(np.tile(POSITIONS, (len(y), 1)), new_leaf)
    levels = np.arange(0.05, 1, 0.05)
    error = [abs(np.mean(dist.cdf(y) < level) - level) for level in levels]
    assert np.mean(error) < 0.313 * np.sqrt(1 / 6000 + 1 / 20_000) * 3
    normal = stats.norm(scale=scores.std()).logpdf(y).mean()
    assert dist.logpdf(y).mean() > normal + 0.1
    assert dist.logpdf(y).mean() > stats.t(3).logpdf(y).mean() - 0.02


def test_global_calibration_puts_all_leaves_in_one_group(model):
    X, y = simulate(500, 3)
    model.calibrate(X, y, by="global")
    assert len(model.calibration_.residuals) == 1
    assert len(model.calibration_.scores[0]) == 500
    assert not model.calibration_.group_of_leaf.any()


def test_small_leaves_share_residuals_of_others_but_not_scores(model):
    tree = model.tree_
    rng = np.random.default_rng(0)
    leaf = np.repeat(np.arange(tree.n_leaves), 1000)
    scores = rng.normal(size=len(leaf))
    few = np.concatenate([np.flatnonzero(leaf == 0)[:10], np.flatnonzero(leaf != 0)])
    small = by_region(ScoredRows(scores[few], leaf[few], np.ones(len(few))), tree)
    assert [len(s) for s in small.scores] == [10] + [1000] * (tree.n_leaves - 1)
    # Ten scores alone would give a poor estimate; with ENOUGH_SCORES it is normal to within sampling error.
    assert small.residuals[0].std == pytest.approx(1.0, abs=4 / np.sqrt(2 * ENOUGH_SCORES))


def test_equal_weights_change_nothing(model):
    """Copies are no additional evidence: a table passed three times gives the intervals of the table itself."""
    scores, leaf = np.sort(np.random.default_rng(0).normal(size=50)), np.zeros(50, dtype=int)
    once, thrice = (by_region(ScoredRows(scores, leaf, np.full(50, w)), model.tree_) for w in (1.0, 3.0))
    quantiles = np.tile(POSITIONS, (2, 1))
    for coverage in (0.5, 0.9, 0.95):
        bounds = once.interval(quantiles, np.zeros(2, dtype=int), coverage)
        np.testing.assert_array_equal(thrice.interval(quantiles, np.zeros(2, dtype=int), coverage), bounds)
    grid = np.linspace(-3, 3, 50)
    np.testing.assert_allclose(thrice.residuals[0].cdf(grid), once.residuals[0].cdf(grid), atol=1e-12)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=60), st.sampled_from([0.5, 0.8, 0.9, 0.95]))
def test_weighted_bounds_leave_the_nominal_mass_on_either_side(weights, coverage):
    """The new score counts as one effective score and may lie beyond the bound."""
    weight, scores = np.array(weights, dtype=float), np.arange(len(weights), dtype=float)
    low, high = conformal_bounds(scores, coverage, evidence(weight))
    new = (weight @ weight) / weight.sum()
    beyond = (weight.sum() + new) * (1 - coverage) / 2
    if new > beyond + 1e-6:
        assert (low, high) == (-np.inf, np.inf)
        return
    assert new + weight[scores < low].sum() <= beyond + 1e-6
    assert new + weight[scores > high].sum() <= beyond + 1e-6
    # and no bound is wider than it has to be
    assert new + weight[scores <= low].sum() > beyond - 1e-6 or low == scores[-1]
    assert new + weight[scores >= high].sum() > beyond - 1e-6 or high == scores[0]


@pytest.mark.parametrize("weight", [0.1, 1 / 3, 1.0, 7.0, 1e6])
@pytest.mark.parametrize("n", [18, 19, 20, 39, 1000])
def test_equal_weights_give_exactly_the_unweighted_bounds(n, weight):
    scores = np.sort(np.random.default_rng(n).normal(size=n))
    for coverage in (0.5, 0.9, 0.99):
        assert conformal_bounds(scores, coverage, evidence(np.full(n, weight))) == conformal_bounds(scores, coverage)


def test_a_few_heavy_rows_are_few_scores(model):
    """Of 400 scores 4 have weight 1,000: 4.8 effective scores, too few for 90 %."""
    rng = np.random.default_rng(0)
    weight = np.where(np.arange(400) < 4, 1000.0, 1.0)
    scores = rng.normal(size=400)
    order = np.argsort(scores)
    assert conformal_bounds(scores[order], 0.9, evidence(weight[order])) == (-np.inf, np.inf)
    calibration = by_table(ScoredRows(scores, np.zeros(400, dtype=int), weight), model.tree_)
    text = str(insufficient_calibration(calibration, 0.9))
    assert text.endswith("which have 4 effective calibration rows, by their weights or groups; 19 are needed")


def test_a_region_of_few_heavy_rows_takes_residuals_of_others(model):
    tree, rng = model.tree_, np.random.default_rng(0)
    leaf = np.repeat(np.arange(tree.n_leaves), 1000)
    weight = np.where((leaf == 0) & (np.arange(len(leaf)) >= 3), 1e-3, 1000.0)
    scores = np.where((leaf == 0) & (weight == 1000.0), 0.01, rng.normal(size=len(leaf)))
    residual = by_region(ScoredRows(scores, leaf, weight), tree).residuals[0]
    # three rows of 100 have errors near 0; on their own they would be all there is
    assert residual.std == pytest.approx(1.0, abs=4 / np.sqrt(2 * ENOUGH_SCORES))


def test_importance_weights_cover_the_population_they_describe():
    """Scores spread with x, new rows from the population with density proportional to exp(x)."""
    rng, hits, n_sets, n_new = np.random.default_rng(0), [], 300, 200
    for _ in range(n_sets):
        x = rng.normal(size=400)
        scores = np.exp(0.5 * x) * rng.normal(size=400)
        order = np.argsort(scores)
        low, high = conformal_bounds(scores[order], 0.9, evidence(np.exp(x)[order]))
        new = np.exp(0.5 * rng.normal(1.0, 1.0, n_new)) * rng.normal(size=n_new)
        hits.append(np.mean((low <= new) & (new <= high)))
    assert np.mean(hits) > 0.9 - 3.5 * np.std(hits) / np.sqrt(n_sets)
    assert np.mean(hits) < 0.95


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, X, y: m.calibrate(X, y[:-1]), "X and y must have the same number of rows, got 50 and 49"),
        (lambda m, X, y: m.calibrate(X, y, by="node"), "by must be one of 'region', 'global', got 'node'"),
        (lambda m, X, y: m.predict_interval(X, 1.0), "coverage must be in (0, 1), got 1.0"),
        (lambda m, X, y: m.predict_interval(X, [0.5, -1]), "coverage must be in (0, 1), got -1.0"),
    ],
)
def test_bad_input(model, call, message):
    X, y = simulate(50, 0)
    before = model.calibration_
    with pytest.raises(ValueError) as caught:
        call(model, X, y)
    assert str(caught.value) == message
    assert model.calibration_ is before


def test_calibration_rows_are_used_for_nothing_else():
    X, y = simulate(800, 2)
    parameters = {**TINY, "calibration_fraction": 0.25, "min_samples_leaf": 150}
    model = USNRTRegressor(**parameters).fit(X, y)
    assert sum(len(scores) for scores in model.calibration_.scores) == 200
    quantiles = model.model_.predict(model._encode(X)).quantiles
    scores = conformity_scores(quantiles, model.target_scale_(y))
    used = np.isin(np.round(scores, 9), np.round(np.concatenate(model.calibration_.scores), 9))
    assert used.sum() == 200
    # Not even the scaling uses them.
    assert model.target_scale_.mean == pytest.approx(y[~used].mean(), rel=1e-12)
    assert model.target_scale_.std == pytest.approx(y[~used].std(), rel=1e-12)
    assert model.tree_.n_rows[0] == 600


def test_calibrating_a_model_of_the_papers_recipe():
    X, y = simulate(600, 4)
    model = USNRTRegressor.paper(max_epochs=3, min_samples_leaf=200, random_state=0).fit(X, y)
    assert model.calibration_ is None
    X_new, y_new = simulate(2000, 5)
    model.calibrate(X_new, y_new)
    X_test, y_test = simulate(4000, 6)
    interval = model.predict_interval(X_test, [0.5, 0.9])
    assert interval.shape == (4000, 2, 2)
    for k, coverage in enumerate((0.5, 0.9)):
        inside = np.mean((interval[:, 0, k] < y_test) & (y_test <= interval[:, 1, k]))
        assert inside == pytest.approx(coverage, abs=4 * np.sqrt(coverage * (1 - coverage) * (1 / 2000 + 1 / 4000)))


def test_nothing_is_guaranteed_without_calibration():
    X, y = simulate(60, 0)
    model = USNRTRegressor(hidden=(8,), max_epochs=2, calibration=None, random_state=0, n_jobs=1).fit(X, y)
    assert "guaranteed" not in model.predict_table(X).columns
    with pytest.raises(ValueError, match="guaranteed must be False for a model that is not calibrated, got True"):
        model.predict_interval(X, guaranteed=True)


def scored_rows(seed, n=600, share_far=0.0):
    """Targets about 0 with noise of each row's own width; that of some rows is predicted a hundredth of it."""
    rng = np.random.default_rng(seed)
    width = np.exp(rng.normal(size=n))
    y = width * rng.normal(size=n)
    predicted = np.where(rng.random(n) < share_far, 0.01, 1.0) * width
    return predicted[:, None] * POSITIONS, y


def calibrated(quantiles, y):
    leaf, weight = np.zeros(len(y), dtype=np.int64), np.ones(len(y))
    residual = ResidualDistribution.from_residuals(conformity_scores(quantiles, y))
    calibration = GroupCalibration(np.zeros(1, dtype=np.int64), [residual], [], [])
    return calibration.with_better_mean(quantiles, leaf, y, weight)


def test_means_do_not_hang_on_a_few_scores_far_away():
    """Planted: 2 % of the widths are far too small."""
    errors = []
    for seed in range(10):
        chosen = calibrated(*scored_rows(seed, share_far=0.02))
        new, truth = scored_rows(100 + seed, share_far=0.02)
        leaf = np.zeros(len(truth), dtype=np.int64)
        means = [
            replace(chosen, mean_of_knots=choice).distribution(new, leaf).mean()
            for choice in (chosen.mean_of_knots, False)
        ]
        errors.append([np.sqrt(np.mean((mean - truth) ** 2)) / np.std(truth) for mean in means])
    of_chosen, of_distributions = np.mean(errors, axis=0)
    assert of_chosen < 1.01
    assert of_chosen < 0.9 * of_distributions


def test_means_of_right_distributions_are_alike():
    """The null case."""
    for seed in range(10):
        quantiles, y = scored_rows(seed)
        chosen, leaf = calibrated(quantiles, y), np.zeros(len(y), dtype=np.int64)
        both = [
            replace(chosen, mean_of_knots=choice).distribution(quantiles, leaf).mean() / quantiles[:, -1]
            for choice in (True, False)
        ]
        assert np.abs(both[0] - both[1]).max() < 0.06


def test_means_of_skewed_residuals_are_those_of_the_distribution():
    """Planted: quantile functions are too low in the mean, which their scores show."""
    quantiles, y = np.tile(POSITIONS, (800, 1)), np.random.default_rng(0).standard_exponential(800)
    assert not calibrated(quantiles, y).mean_of_knots
