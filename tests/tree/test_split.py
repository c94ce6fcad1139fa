"""The split search against scipy and against brute force."""

import brute
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from usnrt.tree.criteria import BrownForsythe, Cart, ConservativeBrownForsythe, Levene
from usnrt.tree.levels import subsets
from usnrt.tree.split import Split, best_split
from usnrt.tree.split_column import SplitColumn

SEARCHES = ("levene", "brown-forsythe", "conservative-brown-forsythe", "cart")
# Multiples of 1/8: sums of them are exact, so ties and zero spreads are what they are.
eighths = st.integers(-24, 24).map(lambda k: k / 8)


@st.composite
def nodes(draw, max_rows=14, max_features=2, missing=True, max_codes=0):
    """A table with ties and missing values, residuals and integer weights."""
    n = draw(st.integers(2, max_rows))
    d = draw(st.integers(1, max_features))
    few = st.integers(0, 4).map(float)
    codes = draw(st.lists(st.integers(0, max_codes), min_size=d, max_size=d))
    columns = []
    for n_codes in codes:
        value = st.integers(0, n_codes - 1).map(float) if n_codes else few | eighths
        value = value | st.just(np.nan) if missing else value
        columns.append(draw(st.lists(value, min_size=n, max_size=n)))
    residuals = draw(st.lists(eighths, min_size=n, max_size=n))
    weight = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    return np.array(columns).T, np.array(residuals), np.array(weight), np.array(codes)


def check_against_brute_force(X, values, weight, codes, min_samples_leaf, criterion):
    split = best_split(
        X, values, values, n_categories=codes, sample_weight=weight, min_samples_leaf=min_samples_leaf,
        criterion=criterion,
    )  # fmt: skip
    # a row of weight 0 is not there
    there = weight > 0
    X, values, weight = X[there], values[there], weight[there]
    statistic, n_candidates = brute.best(
        X, values, weight=weight, n_categories=codes, min_samples_leaf=min_samples_leaf, criterion=criterion
    )
    if split is None:
        assert n_candidates == 0
        return
    assert split.n_candidates == n_candidates
    np.testing.assert_allclose(abs(split.statistic), statistic, rtol=1e-7, atol=1e-7)
    left = split.goes_left(X[:, split.feature])
    assert (split.n_left, split.n_right) == (weight[left].sum(), weight[~left].sum())
    assert min(split.n_left, split.n_right) >= min_samples_leaf
    sides = [np.repeat(values[side], weight[side]) for side in (left, ~left)]
    np.testing.assert_allclose(split.statistic, brute.t_statistic(*sides, criterion), rtol=1e-7, atol=1e-7)


@settings(deadline=None, max_examples=150)
@given(node=nodes(), min_samples_leaf=st.integers(1, 4), criterion=st.sampled_from(SEARCHES))
def test_best_split_of_ties_and_weights_equals_brute_force(node, min_samples_leaf, criterion):
    check_against_brute_force(*node, min_samples_leaf, criterion)


@settings(deadline=None, max_examples=40)
@given(
    node=nodes(max_rows=16, max_codes=7),
    min_samples_leaf=st.integers(1, 3),
    criterion=st.sampled_from(SEARCHES),
)
def test_best_split_of_categories_equals_brute_force(node, min_samples_leaf, criterion):
    check_against_brute_force(*node, min_samples_leaf, criterion)


@pytest.mark.parametrize("criterion", SEARCHES)
def test_few_rows_below_a_centre_do_not_limit_t(criterion):
    X = np.array([[0.0], [0.0], [1.0], [np.nan]])
    values, weight = np.array([0.125, 0.0, 0.0, 0.0]), np.array([2, 1, 1, 1])
    check_against_brute_force(X, values, weight, np.array([2]), 1, criterion)


@pytest.mark.parametrize("criterion", SEARCHES)
@pytest.mark.parametrize("any_missing", [False, True])
def test_ten_categories_try_allsubsets(criterion, any_missing):
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 10, size=120).astype(float)
    residuals = rng.normal(size=120) * rng.uniform(0.5, 2, size=10)[codes.astype(int)]
    if any_missing:
        codes[::7] = np.nan
    X = codes[:, None]
    weight = rng.integers(1, 3, size=120)
    split = best_split(
        X, residuals, residuals, n_categories=[10], sample_weight=weight, min_samples_leaf=9, criterion=criterion
    )
    statistic, n_candidates = brute.best(
        X, residuals, weight=weight, n_categories=[10], min_samples_leaf=9, criterion=criterion
    )
    assert abs(split.statistic) == pytest.approx(statistic, rel=1e-10)
    assert split.n_candidates == n_candidates
    assert np.isnan(split.threshold)


def statistics(criterion, x, values, weight=None, min_weight=1):
    """T of every threshold of a column without missing values, and each threshold."""
    judge = criterion()
    weight = np.ones(len(x)) if weight is None else weight.astype(float)
    node = judge.prepare(values, values, weight)
    arrangement = next(SplitColumn(x).arrangements())
    every = judge.statistics(node, arrangement, min_weight)
    positions = np.flatnonzero(~np.isnan(every))
    return every[positions], [arrangement.threshold(position) for position in positions]


def check_every_threshold_against_scipy(criterion, center, x, values, rtol=1e-9):
    every, thresholds = statistics(criterion, x, values, min_weight=2)
    for statistic, threshold in zip(every, thresholds):
        sides = values[x <= threshold], values[x > threshold]
        if center is None:
            expected = stats.ttest_ind(*sides).statistic
        else:
            expected = np.sqrt(stats.levene(*sides, center=center).statistic)
            z = [np.abs(side - getattr(np, center)(side)).mean() for side in sides]
            expected *= np.sign(z[0] - z[1])
        np.testing.assert_allclose(statistic, expected, rtol=rtol, atol=1e-9)
    return thresholds


@pytest.mark.parametrize(("criterion", "center"), [(Levene, "mean"), (BrownForsythe, "median"), (Cart, None)])
@pytest.mark.parametrize("n", [7, 64, 301])
@pytest.mark.parametrize("scale", [1.0, 1e-150, 1e150])
def test_every_threshold_equals_scipy(criterion, center, n, scale):
    rng = np.random.default_rng(n)
    x, values = rng.normal(size=n).round(1), rng.standard_t(3, size=n)
    every, _ = statistics(criterion, x, values * scale, min_weight=2)
    np.testing.assert_allclose(every, statistics(criterion, x, values, min_weight=2)[0], rtol=1e-9)
    thresholds = check_every_threshold_against_scipy(criterion, center, x, values)
    assert len(thresholds) == len(every)


def test_the_conservative_test_is_scipy_on_odd_sides():
    rng = np.random.default_rng(2)
    x, values = np.repeat(np.arange(31.0), 2)[1:-1], rng.lognormal(size=60)  # 1, 2, ..., 2, 1 rows of each value
    assert len(check_every_threshold_against_scipy(ConservativeBrownForsythe, "median", x, values)) == 28
    x, values = np.arange(60.0), rng.choice([-1.0, 1.0], size=60) + rng.normal(size=60) / 9
    ours, scipy = (statistics(test, x, values, min_weight=2)[0] for test in (ConservativeBrownForsythe, BrownForsythe))
    assert (np.abs(ours) <= np.abs(scipy) * (1 + 1e-9)).all()
    assert (np.abs(ours) < np.abs(scipy) * 0.9).any()


def test_a_constant_target_has_nothing_to_split():
    x = np.arange(200.0)
    errors = 1e-9 * np.random.default_rng(0).normal(size=200) * np.where(x < 100, 1, 5)
    how = {"min_samples_leaf": 20, "criterion": "conservative-brown-forsythe"}
    assert best_split(x[:, None], errors, np.full(200, 3.0), **how).log10_p == 0
    assert best_split(x[:, None], errors, 3 + errors, **how).log10_p < -10


@settings(deadline=None, max_examples=60)
@given(
    rows=st.lists(st.tuples(eighths, st.floats(-100, 100).map(lambda v: round(v, 3))), min_size=6, max_size=30),
    kind=st.sampled_from([(Levene, "mean"), (BrownForsythe, "median"), (Cart, None)]),
)
def test_every_threshold_equals_scipy_on_made_up_rows(rows, kind):
    x, values = np.array(rows).T
    if np.unique(values).size < len(values):  # scipy warns about, and divides by, spreads of zero
        values = values + np.arange(len(values)) ** 2 / 7
    check_every_threshold_against_scipy(*kind, x, values, rtol=1e-6)


@pytest.mark.parametrize("criterion", SEARCHES)
@pytest.mark.parametrize("offset", [0.0, 1e9, -1e12])
def test_a_large_offset_of_the_residuals_changes_nothing(criterion, offset):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    residuals = rng.integers(-64, 64, size=200) / 8.0  # exact also next to the offset
    plain = best_split(X, residuals, residuals, min_samples_leaf=10, criterion=criterion)
    moved = best_split(X, residuals + offset, residuals + offset, min_samples_leaf=10, criterion=criterion)
    assert (plain.feature, plain.threshold) == (moved.feature, moved.threshold)
    assert moved.statistic == pytest.approx(plain.statistic, rel=1e-9)


@pytest.mark.parametrize("criterion", [*SEARCHES, "support"])
def test_weights_count_as_repetitions(criterion):
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=80).round(1), rng.integers(0, 4, 80), rng.integers(0, 15, 80)])
    X[::9, 0] = np.nan
    X[4::11, 1] = np.nan
    residuals, weight = rng.normal(size=80), rng.integers(0, 4, size=80)
    how = {"n_categories": [0, 4, 15], "min_samples_leaf": 20, "criterion": criterion}
    weighted = best_split(X, residuals, residuals, sample_weight=weight, **how)
    again = np.repeat(np.arange(80), weight)
    repeated = best_split(X, residuals[again], residuals[again], rows=again, **how)
    assert weighted.statistic == pytest.approx(repeated.statistic, rel=1e-9)
    for name in set(Split.__dataclass_fields__) - {"statistic", "log10_p", "threshold"}:
        assert getattr(weighted, name) == getattr(repeated, name), name
    np.testing.assert_array_equal(weighted.threshold, repeated.threshold)


@pytest.mark.parametrize("criterion", SEARCHES)
@pytest.mark.parametrize("scale", [0.1, 1 / 3, 2.7])
@pytest.mark.parametrize("n_codes", [0, 7])
def test_fractional_weights_change_only_the_degrees_of_freedom(criterion, scale, n_codes):
    rng = np.random.default_rng(6)
    X = rng.integers(0, 7, size=(90, 1)).astype(float)
    residuals, weight = rng.normal(size=90), rng.integers(1, 4, size=90)
    how = {"n_categories": [n_codes], "criterion": criterion}
    whole = best_split(X, residuals, residuals, sample_weight=weight, min_samples_leaf=10, **how)
    part = best_split(X, residuals, residuals, sample_weight=scale * weight, min_samples_leaf=10 * scale, **how)
    df, part_df = weight.sum() - 2, scale * weight.sum() - 2
    assert part.statistic == pytest.approx(whole.statistic * np.sqrt(part_df / df), rel=1e-9)
    assert (part.left_categories, part.n_candidates) == (whole.left_categories, whole.n_candidates)


@pytest.mark.parametrize(("criterion", "center"), [(Levene, "mean"), (BrownForsythe, "median")])
@pytest.mark.parametrize("shape", ["sorted", "alternating", "outliers", "two clusters"])
def test_centres_that_jump_far_are_followed(criterion, center, shape):
    # the kernels follow the centre among the ranks step by step, and look it up when it jumps
    rng = np.random.default_rng(9)
    x = np.arange(700.0)
    values = {
        "sorted": np.sort(rng.normal(size=700)),
        "alternating": rng.normal(size=700) + np.where(x % 2 == 0, 50, -50),
        "outliers": rng.standard_cauchy(size=700) ** 3,
        "two clusters": np.where(rng.uniform(size=700) < 0.5, 0, 9) + rng.normal(size=700) / 100,
    }[shape]
    check_every_threshold_against_scipy(criterion, center, x, values, rtol=1e-7)


@pytest.mark.parametrize("criterion", SEARCHES)
@pytest.mark.parametrize("min_samples_leaf", [1, 60])
def test_many_weighted_rows_with_outliers_equal_brute_force(criterion, min_samples_leaf):
    rng = np.random.default_rng(11)
    X = rng.normal(size=(400, 1))
    X[rng.uniform(size=400) < 0.1] = np.nan
    residuals = rng.standard_t(1.2, size=400).round(2)
    weight = rng.integers(0, 4, size=400)
    check_against_brute_force(X, residuals, weight, np.array([0]), min_samples_leaf, criterion)


@pytest.mark.parametrize("criterion", SEARCHES)
def test_rows_select_the_node(criterion):
    rng = np.random.default_rng(1)
    X, residuals = np.asfortranarray(rng.normal(size=(300, 3))), rng.normal(size=300)
    rows = rng.permutation(300)[:120]
    chosen = best_split(X, residuals[rows], residuals[rows], rows=rows, min_samples_leaf=8, criterion=criterion)
    alone = best_split(X[rows], residuals[rows], residuals[rows], min_samples_leaf=8, criterion=criterion)
    assert chosen == alone


@pytest.mark.parametrize("criterion", [*SEARCHES, "support"])
def test_the_number_of_threads_does_not_matter(criterion):
    rng = np.random.default_rng(2)
    X = rng.integers(0, 6, size=(400, 9)).astype(float)
    residuals = rng.normal(size=400)
    results = {
        best_split(X, residuals, residuals, min_samples_leaf=40, criterion=criterion, n_jobs=n_jobs)
        for n_jobs in (1, 2, 5, -1, None)
    }
    assert len(results) == 1


def test_the_first_of_equally_good_splits_is_taken():
    residuals = np.array([1.0, -1, 2, -2, 2, -2, 1, -1])
    x = np.array([0.0, 0, 1, 1, 2, 2, 3, 3])
    # cutting off either end gives the same |T|, and so does the mirrored column
    split = best_split(np.column_stack([x, x, -x]), residuals, min_samples_leaf=2)
    assert (split.feature, split.threshold, split.n_candidates) == (0, 0.5, 9)
    split = best_split(np.column_stack([-x, x]), residuals, min_samples_leaf=2)
    assert (split.feature, split.threshold) == (0, -2.5)
    # categories 0 and 3 are calm, 1 and 2 are not: {0, 3} wins outright; {0} ties with {3}, {1, 2, 3}
    split = best_split(x[:, None], residuals, n_categories=[4], min_samples_leaf=2)
    assert split.left_categories == (0, 3)
    split = best_split(x[:6, None], np.array([1.0, -1, 2, -2, 1, -1]), n_categories=[3], min_samples_leaf=2)
    assert split.left_categories == (0, 2)
    split = best_split(x[:4, None], np.zeros(4), n_categories=[2], min_samples_leaf=1)
    assert (split.left_categories, split.statistic, split.log10_p) == ((0,), 0.0, 0.0)


def test_subsets_have_lexicographic_order_and_no_mirror_images():
    assert subsets(3).tolist() == [0b001, 0b011, 0b101]
    assert subsets(4).tolist() == [0b0001, 0b0011, 0b0111, 0b1011, 0b0101, 0b1101, 0b1001]
    assert len(subsets(10)) == 511


@pytest.mark.parametrize("step", [1, 3, 10])
def test_a_step_tests_every_so_many_thresholds_exactly(step):
    """Of the distinct values but the last, every step-th is a threshold; each is Levene's test of scipy."""
    rng = np.random.default_rng(0)
    x, residuals = rng.integers(0, 80, 300).astype(float), rng.standard_t(4, size=300)
    cuts = np.unique(x)[:-1][step - 1 :: step]
    tests = {cut: stats.levene(residuals[x <= cut], residuals[x > cut], center="mean").statistic for cut in cuts
             if min((x <= cut).sum(), (x > cut).sum()) >= 30}  # fmt: skip
    split = best_split(x[:, None], residuals, min_samples_leaf=30, step=step)
    best = max(tests, key=tests.get)
    assert split.n_candidates == len(tests)
    assert split.statistic**2 == pytest.approx(tests[best], rel=1e-9)
    assert best <= split.threshold < np.unique(x)[np.unique(x) > best][0]


def test_twice_the_least_leaf_is_enough_and_one_row_less_is_not():
    X = np.arange(20.0)[:, None]
    residuals = np.random.default_rng(0).normal(size=20)
    split = best_split(X, residuals, min_samples_leaf=10)
    assert (split.threshold, split.n_left, split.n_right, split.n_candidates) == (9.5, 10, 10, 1)
    assert best_split(X[:19], residuals[:19], min_samples_leaf=10) is None
    assert best_split(X, residuals, sample_weight=np.full(20, 0.95), min_samples_leaf=10) is None
    # ten times a tenth is short of 1 in floating point
    split = best_split(X, residuals, sample_weight=np.full(20, 0.1), min_samples_leaf=1)
    assert split.threshold == 9.5


def test_two_rows():
    split = best_split(np.array([[0.0], [1.0]]), [1.0, 5.0], min_samples_leaf=1)
    assert split == Split(0, 0.5, None, True, 0.0, 0.0, 1.0, 1.0, 1)
    assert best_split(np.array([[0.0], [0.0]]), [1.0, 5.0]) is None
    assert best_split(np.array([[0.0]]), [1.0]) is None


@pytest.mark.parametrize("criterion", [*SEARCHES, "support"])
def test_columns_that_cannot_be_cut_give_no_candidate(criterion):
    X = np.column_stack([np.full(8, 3.0), np.full(8, np.nan), np.full(8, 2.0), np.full(8, np.nan)])
    residuals = np.arange(8.0) - 3
    assert best_split(X, residuals, residuals, n_categories=[0, 0, 3, 3], criterion=criterion) is None


def test_constant_residuals_make_every_statistic_zero():
    X = np.random.default_rng(0).normal(size=(30, 2))
    for value in (0.0, 0.1, 1e10):
        split = best_split(X, np.full(30, value), min_samples_leaf=3)
        assert (split.statistic, split.log10_p, split.feature) == (0.0, 0.0, 0)


def test_deviations_without_spread_make_an_infinite_statistic():
    X = np.arange(8.0)[:, None]
    split = best_split(X, [1.0, -1, 1, -1, 3, -3, 3, -3], min_samples_leaf=2)
    assert (split.threshold, split.statistic, split.log10_p) == (3.5, -np.inf, -np.inf)
    split = best_split(X, np.zeros(8), [5.0, 5, 5, 5, 2, 2, 2, 2], criterion="cart")
    assert (split.threshold, split.statistic, split.log10_p) == (3.5, np.inf, -np.inf)
    # two constant but different halves have the same spread: none
    split = best_split(X, [0.1] * 4 + [0.7] * 4, min_samples_leaf=4)
    assert (split.threshold, split.statistic) == (3.5, 0.0)


@pytest.mark.parametrize(
    ("low", "high", "threshold"),
    [
        (1.0, np.nextafter(1.0, 2), 1.0),
        (1e308, 1.7e308, 1.35e308),
        (-1.7e308, 1.7e308, 0.0),
        (0.0, 5e-324, 0.0),
        (2.0, np.inf, 2.0),
        (-np.inf, 2.0, -np.inf),
        (-np.inf, np.inf, -np.inf),
    ],
)
def test_thresholds_part_the_rows_whatever_the_rounding(low, high, threshold):
    X = np.array([low] * 3 + [high] * 3)[:, None]
    split = best_split(X, [1.0, -1, 0.5, 3, -3, 4])
    assert split.threshold == threshold
    np.testing.assert_array_equal(split.goes_left(X[:, 0]), [True] * 3 + [False] * 3)


def test_missing_values_against_all_others():
    residuals = np.array([1.0, -1, 1.1, -1.2, 5, -5, 6, -6])
    X = np.array([0.0, 1, 0, 1, np.nan, np.nan, np.nan, np.nan])[:, None]
    split = best_split(X, residuals, min_samples_leaf=2)
    assert (split.threshold, split.missing_left, split.n_left, split.n_candidates) == (np.inf, False, 4, 3)
    split = best_split(X, residuals, min_samples_leaf=2, n_categories=[2])
    assert (split.left_categories, split.missing_left, split.n_left, split.n_candidates) == ((0, 1), False, 4, 3)


def test_missing_values_join_the_side_they_are_like():
    rng = np.random.default_rng(0)
    x = np.repeat([0.0, 1.0, np.nan], 60)
    for calm in (0, 1):
        noise = rng.normal(size=180) * np.where(x == calm, 0.2, 3)
        split = best_split(x[:, None], noise, min_samples_leaf=20)
        assert (split.threshold, split.missing_left) == (0.5, calm == 1)


def test_without_missing_values_the_larger_side_takes_later_ones():
    rng = np.random.default_rng(0)
    for share, missing_left in ((0.3, False), (0.7, True)):
        x = np.arange(200.0)
        split = best_split(x[:, None], rng.normal(size=200) * np.where(x < 200 * share, 1, 9), min_samples_leaf=20)
        assert abs(split.threshold - 200 * share) < 10
        assert split.missing_left is missing_left
        assert split.goes_left(np.array([np.nan])).tolist() == [missing_left]


def test_absent_and_unseen_categories_go_to_the_larger_side():
    rng = np.random.default_rng(0)
    codes = np.repeat([1.0, 4.0], [30, 70])
    residuals = rng.normal(size=100) * np.where(codes == 1, 1, 9)
    split = best_split(codes[:, None], residuals, n_categories=[6], min_samples_leaf=20)
    assert (split.left_categories, split.n_candidates) == ((1,), 1)
    np.testing.assert_array_equal(split.goes_left(np.array([0, 1, 4, 5, -1.0])), [False, True, False, False, False])
    split = best_split(5 - codes[:, None], residuals, n_categories=[6], min_samples_leaf=20)
    assert split.left_categories == (0, 1, 2, 3, 5)
    np.testing.assert_array_equal(split.goes_left(np.array([0, 1, 4, 5, -1.0])), [True, True, False, True, True])


@pytest.mark.parametrize(("criterion", "score"), [("levene", "absolute"), ("cart", "target")])
@pytest.mark.parametrize("any_missing", [False, True])
def test_many_categories_are_ordered_and_cut(criterion, score, any_missing):
    rng = np.random.default_rng(8)
    codes = rng.integers(0, 25, size=600).astype(float)
    residuals = rng.normal(size=600) * rng.uniform(0.3, 3, size=25)[codes.astype(int)]
    if any_missing:
        codes[::9] = np.nan
    split = best_split(
        codes[:, None], residuals, residuals, n_categories=[25], min_samples_leaf=50, criterion=criterion
    )
    values = np.abs(residuals - residuals.mean()) if score == "absolute" else residuals
    means = np.array([values[codes == code].mean() for code in range(25)])
    ranks = np.where(np.isnan(codes), np.nan, np.argsort(np.argsort(means))[np.nan_to_num(codes).astype(int)])
    statistic, n_candidates = brute.best(ranks[:, None], residuals, min_samples_leaf=50, criterion=criterion)
    assert abs(split.statistic) == pytest.approx(statistic, rel=1e-10)
    assert split.n_candidates == n_candidates
    assert means[list(split.left_categories)].max() < np.delete(means, split.left_categories).min()
    assert split.left_categories == tuple(sorted(split.left_categories))


def test_bad_input_is_named():
    X = np.zeros((4, 2))
    with pytest.raises(ValueError) as error:
        best_split(X, np.zeros(3))
    assert str(error.value) == "residuals must have shape (4,), one entry per row, got (3,)"
    with pytest.raises(ValueError) as error:
        best_split(X, np.zeros(4), criterion="gini")
    names = (
        "'levene', 'brown-forsythe', 'levene-p', 'brown-forsythe-p', 'conservative-brown-forsythe', 'support', 'cart'"
    )
    assert str(error.value) == f"criterion must be one of {names}, got 'gini'"
    with pytest.raises(ValueError) as error:
        best_split(X, np.zeros(4), n_categories=[0])
    assert str(error.value) == "n_categories must have one entry per column, got 1 for 2 columns"
    with pytest.raises(ValueError) as error:
        best_split(X, np.zeros(4), criterion="cart")
    assert str(error.value) == "target must be given for the criterion 'cart', got None"
    with pytest.raises(ValueError) as error:
        best_split(X - [0, 1], np.zeros(4), n_categories=[0, 3])
    assert str(error.value) == "codes of categories must be in 0..2 or NaN, got -1..-1"
    with pytest.raises(ValueError) as error:
        best_split(X, [0.0, np.nan, np.inf, 1.0])
    assert str(error.value) == "residuals must be finite, got NaN or infinity in 2 of 4 entries"
