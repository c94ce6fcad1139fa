"""The place of the cut on the feature that the test has chosen."""

import numpy as np
import pytest
from given import grow_given
from scipy import stats

from usnrt.tree.split import Members, Sample, best_split
from usnrt.tree.threshold import refine_threshold


def node(rng, n=3000, boundary=0.6, ratio=3.0, missing=0.0):
    """A feature with a jump of the noise, residuals, the tested rows (a fifth), the others, and all."""
    x = rng.uniform(size=n)
    residuals = rng.normal(size=n) * np.where(x > boundary, ratio, 1.0)
    x[rng.uniform(size=n) < missing] = np.nan
    rows = np.arange(n)
    parts = [Sample(part, residuals[part], np.ones(len(part))) for part in (rows[::5], rows[rows % 5 > 0])]
    return x[:, None], *parts, Members(rows, np.ones(n))


def split_and_refine(X, tested, others, members, criterion="levene", least=300):
    how = {"min_samples_leaf": least, "criterion": criterion}
    split = best_split(X, tested.residuals, tested.residuals, rows=tested.rows, members=members, **how)
    return split, refine_threshold(split, X, [tested, others], members, **how)


@pytest.mark.parametrize("criterion", ["levene", "brown-forsythe"])
@pytest.mark.parametrize("ratio", [2.0, 4.0, 0.25])
def test_the_boundary_is_found_at_least_twice_as_well(criterion, ratio):
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(40):
        cuts = split_and_refine(*node(rng, ratio=ratio), criterion)
        errors.append([abs(cut.threshold - 0.6) for cut in cuts])
    plain, sharp = np.mean(errors, axis=0)
    assert sharp < plain / 2


def test_a_smoothed_jump_of_the_mean_does_not_move_the_cut():
    rng = np.random.default_rng(1)
    errors = []
    for _ in range(20):
        X, tested, others, members = node(rng, ratio=10.0)
        bias = np.exp(-np.abs(X[:, 0] - 0.6) / 0.02) * np.where(X[:, 0] > 0.6, 10, -10)
        parts = [part._replace(residuals=part.residuals + bias[part.rows]) for part in (tested, others)]
        errors.append([abs(cut.threshold - 0.6) for cut in split_and_refine(X, *parts, members)])
    plain, sharp = np.mean(errors, axis=0)
    assert plain > 0.01
    assert sharp < 0.003


@pytest.mark.parametrize(("criterion", "center"), [("levene", "mean"), ("brown-forsythe", "median")])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_statistic_p_and_rows_are_those_of_the_new_cut(criterion, center, missing):
    X, tested, others, members = node(np.random.default_rng(2), missing=missing)
    split, sharp = split_and_refine(X, tested, others, members, criterion)
    assert sharp.threshold != split.threshold
    left = sharp.goes_left(X[tested.rows, 0])
    test = stats.levene(tested.residuals[left], tested.residuals[~left], center=center)
    assert sharp.statistic**2 == pytest.approx(test.statistic, rel=1e-9)
    assert sharp.log10_p == pytest.approx(np.log10(test.pvalue), rel=1e-9)
    everyone = sharp.goes_left(X[:, 0])
    assert (sharp.n_left, sharp.n_right) == (everyone.sum(), (~everyone).sum())
    assert (sharp.feature, sharp.n_candidates) == (split.feature, split.n_candidates)
    if missing:
        assert sharp.missing_left == split.missing_left
    assert abs(sharp.statistic) <= abs(split.statistic) * (1 + 1e-9)


def test_missing_values_of_untested_rows_follow_the_larger_side():
    X, tested, others, members = node(np.random.default_rng(3), boundary=0.3)
    X[others.rows[::10]] = np.nan
    _, sharp = split_and_refine(X, tested, others, members)
    assert abs(sharp.threshold - 0.3) < 0.01
    assert not sharp.missing_left
    assert sharp.n_right == (~(X[:, 0] <= sharp.threshold)).sum()


def test_the_sharp_cut_leaves_enough_rows():
    X, tested, others, members = node(np.random.default_rng(4), boundary=0.9)
    _, sharp = split_and_refine(X, tested, others, members, least=600)
    assert abs(sharp.threshold - 0.8) < 0.03
    assert 600 <= sharp.n_right < 640


def test_other_splits_stay_as_they_are():
    rng = np.random.default_rng(5)
    X, tested, others, members = node(rng)
    split, same = split_and_refine(X, tested, others, members, "cart")
    assert same is split
    # missing values against all others
    gone = rng.uniform(size=3000) < 0.5
    X[gone] = np.nan
    residuals = rng.normal(size=3000) * np.where(gone, 9, 1)
    parts = [part._replace(residuals=residuals[part.rows]) for part in (tested, others)]
    split, same = split_and_refine(X, *parts, members)
    assert split.threshold == np.inf
    assert same is split


def test_constant_residuals_are_no_trouble():
    X, tested, others, members = node(np.random.default_rng(6))
    flat = [part._replace(residuals=np.where(X[part.rows, 0] > 0.6, part.residuals, 0.0)) for part in (tested, others)]
    _, sharp = split_and_refine(X, *flat, members)
    assert abs(sharp.threshold - 0.6) < 0.005
    split = best_split(X, tested.residuals, rows=tested.rows, members=members, min_samples_leaf=300)
    zero = [part._replace(residuals=np.zeros(len(part.rows))) for part in (tested, others)]
    assert refine_threshold(split, X, zero, members, min_samples_leaf=300).statistic == 0


def test_only_trees_with_untested_rows_are_refined():
    rng = np.random.default_rng(7)
    X, tested, others, members = node(rng)
    residuals = np.empty(3000)
    for part in (tested, others):
        residuals[part.rows] = part.residuals
    of_paper = grow_given(X, residuals, part=1, min_samples_leaf=300).tree
    plain = best_split(X, residuals, min_samples_leaf=300)
    assert (of_paper.threshold[0], of_paper.statistic[0]) == (plain.threshold, plain.statistic)
    ours = grow_given(X, residuals, min_samples_leaf=300).tree
    assert ours.threshold[0] == split_and_refine(X, tested, others, members)[1].threshold
