"""Growing from given residuals: what leaves are promised, what weights count for, what orders the levels."""

import numpy as np
import pytest
from given import grow_given
from hypothesis import given, settings
from hypothesis import strategies as st

from usnrt.tree.split import Members, Sample, best_split
from usnrt.utils.arrays import effective_weight


def mixed_table(rng, n, n_levels, missing):
    """A skewed number, one with many ties, few levels and many levels of very different sizes; NaN where missing."""
    shares = 1 / np.arange(1, n_levels + 1)
    X = np.column_stack([
        rng.exponential(size=n),
        rng.integers(0, 6, n),
        rng.choice(7, n, p=np.array([0.4, 0.3, 0.2, 0.06, 0.02, 0.01, 0.01])),
        rng.choice(n_levels, n, p=shares / shares.sum()),
    ]).astype(float)  # fmt: skip
    X[rng.uniform(size=X.shape) < missing] = np.nan
    return X, [0, 0, 7, n_levels]


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_levels=st.sampled_from([11, 60, 400]),
    missing=st.sampled_from([0.0, 0.01, 0.3]),
    weights=st.sampled_from(["one", "three", "whole", "fractional"]),
    criterion=st.sampled_from(["levene", "brown-forsythe", "cart", "support"]),
    part=st.sampled_from([1, 5, 20]),
    share=st.sampled_from([0.02, 0.1, 0.3, 0.45]),
)
def test_no_leaf_has_fewer_rows_than_min_samples_leaf(seed, n_levels, missing, weights, criterion, part, share):
    rng = np.random.default_rng(seed)
    n = 600
    X, kinds = mixed_table(rng, n, n_levels, missing)
    weight = {
        "one": np.ones(n),
        "three": np.full(n, 3.0),
        "whole": rng.integers(1, 6, n).astype(float),
        "fractional": rng.uniform(0.1, 3, n),
    }[weights]
    least = float(np.floor(share * weight.sum()))
    grown = grow_given(
        X, rng.standard_t(3, size=n), kinds, weight, part=part, alpha=0.999, bonferroni=False, max_depth=None,
        min_samples_leaf=least, criterion=criterion,
    )  # fmt: skip
    for node in grown.nodes:
        assert weight[node.rows].sum() >= least * (1 - 1e-9)
        if node.split is not None:
            left = node.split.goes_left(X[node.rows, node.split.feature])
            counted = weight[node.rows][left].sum(), weight[node.rows][~left].sum()
            np.testing.assert_allclose((node.split.n_left, node.split.n_right), counted, rtol=1e-12)
    # routing gives every row the leaf that it grew up in
    leaf_of = grown.tree.leaf_of(X)
    for number, leaf in enumerate(grown.leaves):
        assert set(leaf_of[leaf.rows]) == {number}


def test_min_samples_leaf_holds_where_tested_rows_differ():
    # a fifth of the smallest leaf among the tested rows would be 60: half of them are below 0.06, but 200 rows in all
    n = 2000
    x = np.random.default_rng(0).uniform(size=n)
    x[::10] *= 0.06
    residuals = np.random.default_rng(1).normal(size=n) * np.where(x < 0.06, 1, 5)
    grown = grow_given(x[:, None], residuals, min_samples_leaf=400)
    sizes = [len(leaf.rows) for leaf in grown.leaves]
    assert len(sizes) == 2
    assert min(sizes) >= 400


@pytest.mark.parametrize("criterion", ["levene", "cart"])
@pytest.mark.parametrize("part", [1, 5])
def test_equal_weights_give_the_unweighted_test(criterion, part):
    rng = np.random.default_rng(4)
    X, kinds = mixed_table(rng, 1500, 40, 0.05)
    residuals = rng.normal(size=1500) * np.where(X[:, 0] > 1, 3, 1) + (X[:, 0] > 1)
    trees = [
        grow_given(
            X, residuals, kinds, np.full(1500, w), part=part, min_samples_leaf=100 * w, max_depth=3,
            criterion=criterion,
        ).tree
        for w in (1.0, 3.0, 0.7)
    ]  # fmt: skip
    assert trees[0].n_leaves > 1
    for tree in trees[1:]:
        for name in ("feature", "threshold", "statistic", "log10_p", "left_categories", "missing_left"):
            np.testing.assert_array_equal(getattr(tree, name), getattr(trees[0], name), err_msg=name)


def test_the_effective_number_of_rows():
    weight = np.array([1.0, 1.0, 2.0, 4.0])
    assert effective_weight(weight).sum() == pytest.approx(64 / 22)
    np.testing.assert_allclose(effective_weight(weight) / weight, 8 / 22)
    assert effective_weight(np.full(5, 0.3)).tolist() == [1.0] * 5
    assert effective_weight(np.zeros(0)).tolist() == []


def test_copies_of_rows_make_no_split():
    # 40 rows that look uneven; a hundred copies of each as weights must not turn chance into certainty
    rng = np.random.default_rng(1)
    X, residuals = np.arange(200.0)[:, None], rng.normal(size=200)
    p = [
        grow_given(X, residuals, weight=np.full(200, w), alpha=0.999, bonferroni=False, min_samples_leaf=60 * w)
        .tree.log10_p[0]
        for w in (1.0, 100.0)
    ]  # fmt: skip
    assert p[0] == p[1]


def planted_levels(rng, n, n_levels):
    codes = rng.integers(0, n_levels, n).astype(float)
    return codes, rng.normal(size=n) * np.where(codes % 2 == 0, 3.0, 1.0)


def test_other_rows_order_the_levels():
    rng = np.random.default_rng(0)
    codes, residuals = planted_levels(rng, 2000, 30)
    tested, others = np.arange(0, 2000, 5), np.flatnonzero(np.arange(2000) % 5)
    members = Members(np.arange(2000), np.ones(2000))
    # the tested rows say the opposite of the ordering rows: the order must be that of the others
    residuals[tested] = rng.normal(size=400) * np.where(codes[tested] % 2 == 0, 1.0, 3.0)
    ordering = Sample(others, residuals[others], np.ones(1600))
    split = best_split(
        codes[:, None], residuals[tested], rows=tested, n_categories=[30], members=members, min_samples_leaf=100,
        ordering=ordering,
    )  # fmt: skip
    score = np.array([np.abs(residuals[others][codes[others] == code]).mean() for code in range(30)])
    left = np.isin(np.arange(30), split.left_categories)
    assert score[left].max() < score[~left].min() + 0.1  # shrunk towards the mean, so near scores may swap
    assert split.statistic > 0  # against the order: calm by the ordering rows, noisy by the tested ones


def test_levels_without_tested_or_other_rows_have_their_places():
    rng = np.random.default_rng(2)
    n = 3000
    codes, residuals = planted_levels(rng, n, 20)
    tested = np.arange(n) % 5 == 0
    codes[tested & (codes == 6)] = 8  # noisy, never tested
    codes[tested & (codes == 7)] = 9  # calm, never tested
    codes[~tested & (codes == 3)] = 5  # only tested
    residuals = rng.normal(size=n) * np.where(codes % 2 == 0, 3.0, 1.0)
    tree = grow_given(codes[:, None], residuals, [20], min_samples_leaf=100).tree
    goes_left = tree.left_categories[0]
    assert tree.statistic[0] < 0
    assert not goes_left[6]
    assert goes_left[7]
    order = [code for code in range(20) if code != 3]
    np.testing.assert_array_equal(goes_left[order], np.array(order) % 2 == 1)


def test_levels_without_any_other_rows_are_ordered_by_code():
    rng = np.random.default_rng(3)
    codes, residuals = planted_levels(rng, 500, 30)
    nothing = Sample(np.zeros(0, np.intp), np.zeros(0), np.zeros(0))
    split = best_split(codes[:, None], residuals, n_categories=[30], min_samples_leaf=50, ordering=nothing)
    assert split.left_categories == tuple(range(len(split.left_categories)))


def test_few_levels_count_all_rows_of_the_node():
    # level 2 has tested rows enough for a side, but few others
    codes = np.repeat([0.0, 1.0, 2.0], [400, 400, 200])
    tested = np.concatenate([np.arange(0, 400, 4), np.arange(400, 800, 4), np.arange(800, 1000, 2)])
    residuals = np.random.default_rng(0).normal(size=1000) * np.where(codes == 2, 9, 1)
    how = {"rows": tested, "n_categories": [4], "members": Members(np.arange(1000), np.ones(1000))}
    split = best_split(codes[:, None], residuals[tested], min_samples_leaf=200, **how)
    assert (split.left_categories, split.n_left, split.n_right) == ((0, 1, 3), 800, 200)
    split = best_split(codes[:, None], residuals[tested], min_samples_leaf=201, **how)
    assert set(split.left_categories) != {0, 1, 3}
    assert min(split.n_left, split.n_right) >= 201


def test_few_tested_rows_on_a_side_are_no_side():
    x = np.arange(1000.0)
    residuals = np.random.default_rng(0).normal(size=1000) * np.where(x < 50, 9, 1)
    assert grow_given(x[:, None], residuals, min_samples_leaf=20).tree.n_rows.min() >= 5 * 2.5 * np.sqrt(200) - 5
    assert grow_given(x[:, None], residuals, part=1, min_samples_leaf=20).tree.n_rows.min() < 60
