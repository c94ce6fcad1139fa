"""SUPPORT's criterion, columns, and criteria of one's own."""

from math import inf

import numpy as np
import pytest
from scipy import stats

from usnrt.tree.criteria import CRITERIA, Criterion, Cut, get_criterion
from usnrt.tree.split import best_split


@pytest.fixture
def signs():
    """Rows of one sign differ from the others in the mean of column 1 and, less so, in the spread of column 2."""
    rng = np.random.default_rng(0)
    residuals = rng.normal(size=300)
    X = rng.normal(size=(300, 3))
    X[:, 1] += 0.8 * (residuals > 0)
    X[:, 2] *= np.where(residuals > 0, 1.2, 1)
    return X, residuals


def test_support_cuts_between_class_means_at_the_smallest_p(signs):
    X, residuals = signs
    split = best_split(X, residuals, criterion="support", min_samples_leaf=30)
    positive, other = X[residuals > 0, 1], X[residuals <= 0, 1]
    test = stats.ttest_ind(positive, other)
    assert split.feature == 1
    assert split.statistic == pytest.approx(test.statistic, rel=1e-10)
    assert split.log10_p == pytest.approx(np.log10(test.pvalue), rel=1e-9)
    wanted = (positive.mean() + other.mean()) / 2
    np.testing.assert_array_equal(split.goes_left(X[:, 1]), X[:, 1] <= wanted)
    assert split.n_candidates == 6


def test_support_sees_a_difference_of_spreads(signs):
    X, residuals = signs
    X[:, 2] *= np.where(residuals > 0, 4, 1)
    split = best_split(X, residuals, criterion="support", min_samples_leaf=30)
    positive, other = X[residuals > 0, 2], X[residuals <= 0, 2]
    test = stats.levene(positive, other, center="mean")
    assert split.feature == 2
    assert split.statistic == pytest.approx(np.sqrt(test.statistic), rel=1e-10)
    assert split.log10_p == pytest.approx(np.log10(test.pvalue), rel=1e-9)


def test_support_clips_the_cut_to_what_is_admissible():
    x = np.array([0.0] * 18 + [1.0, 50.0])[:, None]
    residuals = np.array([-1.0, 1.0] * 9 + [1.0, 1.0])
    assert best_split(x, residuals, criterion="support", min_samples_leaf=1).threshold == pytest.approx(51 / 22)
    # halfway is a value itself: it goes left
    x, residuals = np.array([0.0, 1, 2, 3, 4, 2])[:, None], np.array([-1.0, -1, 1, 1, 1, -1])
    split = best_split(x, residuals, criterion="support", min_samples_leaf=1)
    assert (split.threshold, split.n_left) == (2.0, 4)
    x = np.arange(20.0)[:, None] ** 4
    residuals = np.where(np.arange(20) >= 18, 1.0, -1.0)
    # halfway between the class means two or three rows are on the right; six are asked for
    split = best_split(x, residuals, criterion="support", min_samples_leaf=6)
    assert (split.n_left, split.threshold) == (14, (13**4 + 14**4) / 2)


def test_support_orders_categories_by_positive_residuals():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 4, size=400).astype(float)
    likely = np.array([0.9, 0.1, 0.8, 0.2])[codes.astype(int)]
    residuals = np.where(rng.uniform(size=400) < likely, 1.0, -1.0)
    split = best_split(codes[:, None], residuals, n_categories=[4], criterion="support", min_samples_leaf=40)
    assert split.left_categories == (1, 3)
    assert split.statistic > 20


def test_support_leaves_missing_values_out_of_the_tests(signs):
    X, residuals = signs
    X[::5, 1] = np.nan
    split = best_split(X, residuals, criterion="support", min_samples_leaf=30)
    seen = ~np.isnan(X[:, 1])
    test = stats.ttest_ind(X[seen & (residuals > 0), 1], X[seen & (residuals <= 0), 1])
    assert split.feature == 1
    assert split.log10_p == pytest.approx(np.log10(test.pvalue), rel=1e-9)
    # the missing rows are with more others
    present_left = (X[seen, 1] <= split.threshold).sum()
    assert split.missing_left == (present_left > seen.sum() - present_left)


def test_support_needs_both_signs():
    assert best_split(np.arange(9.0)[:, None], np.ones(9), criterion="support") is None


def test_cart_finds_the_largest_decrease_of_the_sum_of_squares():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(90, 3))
    target = rng.normal(size=90) + (X[:, 2] > 0.4)
    split = best_split(X, np.zeros(90), target, criterion="cart", min_samples_leaf=5)

    def sum_of_squares(j, threshold):
        sides = target[X[:, j] <= threshold], target[X[:, j] > threshold]
        return sum(((side - side.mean()) ** 2).sum() for side in sides) if min(map(len, sides)) >= 5 else inf

    best = min((sum_of_squares(j, t), j, t) for j in range(3) for t in X[:, j])
    assert split.feature == best[1]
    np.testing.assert_array_equal(split.goes_left(X[:, best[1]]), X[:, best[1]] <= best[2])


def test_a_criterion_of_ones_own():
    class FirstCut(Criterion):
        def prepare(self, residuals, target, weight):
            return weight

        def category_values(self, node, group, n_groups, pseudo_count=0.0):
            return np.arange(n_groups, dtype=float)

        def best_cut(self, node, column, min_weight):
            for arrangement in column.arrangements():
                for position in arrangement.admissible(node, min_weight):
                    return Cut(arrangement.threshold(position), arrangement.missing_left, 2.0, 10.0, 2.0, 1)
            return None

    X = np.column_stack([np.zeros(12), np.arange(12.0), np.arange(12) // 3])
    split = best_split(X, np.zeros(12), criterion=FirstCut(), min_samples_leaf=3, n_categories=[0, 0, 4])
    assert (split.feature, split.threshold, split.n_candidates) == (1, 2.5, 2)
    assert split.log10_p == pytest.approx(-1.134375, abs=1e-6)
    split = best_split(X[:, [2]], np.zeros(12), criterion=FirstCut(), min_samples_leaf=4, n_categories=[4])
    assert split.left_categories == (0, 1)


def test_criteria_by_name():
    assert list(CRITERIA) == [
        *("levene", "brown-forsythe", "levene-p", "brown-forsythe-p", "conservative-brown-forsythe", "support", "cart")
    ]
    for name, kind in CRITERIA.items():
        assert type(get_criterion(name)) is kind
    cart = CRITERIA["cart"]()
    assert get_criterion(cart) is cart


def spreads(jumps, n=4000, seed=0):
    """Features in [0, 1], and residuals whose spread grows by a factor where a feature exceeds a threshold."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.uniform(size=(n, len(jumps))), 2)
    sigma = np.ones(n)
    for column, (threshold, factor) in zip(X.T, jumps):
        sigma *= np.where(column > threshold, factor, 1.0)
    return X, sigma * rng.normal(size=n)


@pytest.mark.parametrize("test", ["levene", "brown-forsythe"])
def test_the_first_underflow_wins_by_p(test):
    X, residuals = spreads([(0.5, 1.0), (0.5, 1.5), (0.5, 40.0)], n=8000)
    exact = best_split(X, residuals, min_samples_leaf=100, criterion=test)
    by_p = best_split(X, residuals, min_samples_leaf=100, criterion=f"{test}-p")
    assert (exact.feature, exact.threshold) == (2, pytest.approx(0.505))
    # The statistics of all thresholds of the features before the winner, by scipy in double precision.
    center = {"levene": "mean", "brown-forsythe": "median"}[test]
    p = {
        (j, low): stats.levene(residuals[X[:, j] <= low], residuals[X[:, j] > low], center=center).pvalue
        for j in range(3)
        for low in np.unique(X[:, j])
        if min((X[:, j] <= low).sum(), (X[:, j] > low).sum()) >= 100
    }
    first = min(key for key, value in p.items() if value == 0)
    assert first[0] == 2
    assert first[1] < 0.4
    assert (by_p.feature, by_p.threshold) == (2, pytest.approx(first[1] + 0.005))
    assert by_p.n_candidates == exact.n_candidates
    again = best_split(X[:, [2, 0, 1]], residuals, min_samples_leaf=100, criterion=f"{test}-p")
    assert (again.feature, again.threshold) == (0, by_p.threshold)


def test_of_two_features_whose_p_underflows_the_first_wins():
    X, residuals = spreads([(0.5, 1.0), (0.5, 40.0)], n=8000)
    X[400:, 0] = X[400:, 1]  # nearly as good, and its p underflows, too
    assert best_split(X, residuals, criterion="levene", min_samples_leaf=400).feature == 1
    assert best_split(X, residuals, criterion="levene-p", min_samples_leaf=400).feature == 0
    codes = (X > 0.5).astype(float)
    kinds = {"n_categories": [2, 2], "min_samples_leaf": 400}
    assert best_split(codes, residuals, criterion="levene", **kinds).feature == 1
    assert best_split(codes, residuals, criterion="levene-p", **kinds).feature == 0


@pytest.mark.parametrize("test", ["levene", "brown-forsythe"])
def test_without_underflow_both_rules_choose_the_same(test):
    for seed in range(20):
        X, residuals = spreads([(0.3, 1.0), (0.6, 2.0), (0.5, 1.5)], n=500, seed=seed)
        X[::7, 0] = np.nan
        exact = best_split(X, residuals, min_samples_leaf=20, criterion=test)
        assert exact.log10_p > -300
        assert best_split(X, residuals, min_samples_leaf=20, criterion=f"{test}-p") == exact
