import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression

from usnrt import USNRTEnsemble, USNRTRegressor, compare
from usnrt.paper.baselines import HNNRegressor
from usnrt.tables.group_labels import read_labels
from usnrt.tables.groups import (
    design_effect,
    draw_groups,
    feature_groups,
    group_correlation,
    read_groups,
    warn_of_blocks,
)
from usnrt.utils.arrays import evidence
from usnrt.utils.notices import GroupedRowsWarning, InfiniteIntervalWarning

SMALL = {"hidden": (64, 32), "max_epochs": 30, "random_state": 0, "n_jobs": 1}


def subjects(seed: int, n_subjects: int, n_rows: int, n_own: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of subjects: four features of the subject, others of the row, an effect of the subject, little noise."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_subjects), n_rows)
    X = np.column_stack([rng.normal(size=(n_subjects, 4))[group], rng.normal(size=(len(group), n_own))])
    y = 0.3 * X[:, 0] + rng.normal(size=n_subjects)[group] + 0.1 * rng.normal(size=len(group))
    return X, y, group


def coverage_of_new(model, X, y, is_new) -> float:
    low, high = model.predict_interval(X[is_new]).T
    return float(np.mean((low <= y[is_new]) & (y[is_new] <= high)))


def test_replicates_of_new_subjects_are_covered():
    # Before rows with equal features stayed together: 0.2. One table has 40 validation subjects: the coverage of one
    # fit has a standard deviation of about 0.05.
    X, y, group = subjects(0, 400, 10)
    new = group >= 200
    model = USNRTRegressor(**SMALL).fit(X[~new], y[~new])
    assert coverage_of_new(model, X, y, new) > 0.75


def test_seen_subjects_stay_sharp():
    X, y, group = subjects(0, 210, 10)
    new, held_out = group >= 200, np.arange(len(y)) % 10 == 0
    train = ~new & ~held_out
    model = USNRTRegressor(**SMALL).fit(X[train], y[train])
    low, high = model.predict_interval(X[~new & held_out]).T
    covered = (low <= y[~new & held_out]) & (y[~new & held_out] <= high)
    assert np.median(high - low) < 0.6  # the noise alone: 0.33; of a new subject: 3.3
    assert covered.mean() > 0.9 - 3 * np.sqrt(0.09 / covered.size) - 0.02


def test_given_groups_make_intervals_those_of_new_subjects():
    X, y, group = subjects(1, 300, 20, n_own=2)
    new = group >= 100
    model = USNRTRegressor(**SMALL)
    with pytest.warns(GroupedRowsWarning, match="100 combinations in 2,000 rows"):
        model.fit(X[~new], y[~new])
    assert coverage_of_new(model, X, y, new) < 0.5
    model.fit(X[~new], y[~new], groups=group[~new])
    assert coverage_of_new(model, X, y, new) > 0.65


def test_groups_by_name_are_no_feature():
    X, y, group = subjects(2, 60, 5, n_own=1)
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = USNRTRegressor(hidden=(8,), max_epochs=2, random_state=0, n_jobs=1)
    by_array = model.fit(frame, y, groups=group).predict(frame)
    for named in (frame.assign(who=group), pl.DataFrame(frame.assign(who=group)), pa.table(frame.assign(who=group))):
        model.fit(named, y, groups="who")
        assert list(model.feature_names_in_) == list("abcde")
        np.testing.assert_array_equal(model.predict(frame), by_array)


def test_groups_do_not_depend_on_rows_threads_or_labels_types():
    X, y, group = subjects(3, 60, 5)
    shuffled = np.random.default_rng(0).permutation(len(y))
    quick = {"hidden": (8,), "max_epochs": 2, "random_state": 0}
    first = USNRTRegressor(**quick, n_jobs=1).fit(X, y, groups=group).predict(X)
    other = USNRTRegressor(**quick, n_jobs=2).fit(X[shuffled], y[shuffled], groups=group[shuffled]).predict(X)
    np.testing.assert_array_equal(first, other)


def test_members_of_an_ensemble_validate_by_groups():
    X, y, group = subjects(4, 300, 10, n_own=1)
    new = group >= 150
    model = USNRTEnsemble(USNRTRegressor(hidden=(64, 32), max_epochs=30), n_estimators=3, random_state=0, n_jobs=1)
    model.fit(X[~new], y[~new], groups=group[~new])
    assert coverage_of_new(model, X, y, new) > 0.75


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([1.0], r"groups must have one label per row, shape \(40,\), got shape \(1,\)"),
        ([1.0] * 40, "groups must have at least 2 different labels, got 1"),
        ([np.nan] * 40, "groups must have a label for every row, got a missing one in row 0"),
        (np.array(["a", 1] * 20, dtype=object), "groups must be all text or all numbers, got numbers and text"),
        ("who", "groups must be an array if X has no column names, got 'who'"),
    ],
)
def test_bad_groups_get_one_sentence(groups, message):
    X, y, _ = subjects(0, 10, 4)
    with pytest.raises(ValueError, match=message):
        USNRTRegressor().fit(X, y, groups=groups)


def test_estimators_without_groups_refuse_them():
    X, y, group = subjects(0, 10, 4)
    with pytest.raises(ValueError, match="groups are for USNRTRegressor and USNRTEnsemble, not for HNNRegressor"):
        HNNRegressor().fit(X, y, groups=group)
    with pytest.raises(ValueError, match="groups must have at least n_estimators=5 different labels, got 4"):
        USNRTEnsemble().fit(X, y, groups=group % 4)


def test_drawn_groups_are_whole_and_leave_some():
    rng = np.random.default_rng(0)
    for _ in range(50):
        group = rng.integers(0, rng.integers(2, 30), size=100)
        drawn = draw_groups(group, 20, 100, rng)
        assert not set(group[drawn]) & set(group[~drawn])
        assert drawn.any()
        assert not drawn.all()


def test_drawn_groups_have_about_the_number_of_rows():
    rng = np.random.default_rng(0)
    sizes = [draw_groups(np.repeat(np.arange(100), 5), 100, 500, rng).sum() for _ in range(20)]
    assert set(sizes) == {100}


def test_few_different_features_are_not_grouped():
    assert feature_groups(np.repeat(np.arange(8.0), 50)[:, None]) is None


def as_series(values, dtype):
    return pd.Series(values, dtype=dtype)


@pytest.mark.parametrize(
    "alike",
    [
        [[3, 2**60 + 1, 3], np.array([3, 2**60 + 1, 3], dtype=np.uint64), as_series([3, 2**60 + 1, 3], "Int64")],
        [[1, 2, 1], [1.0, 2.0, 1.0], np.array([1, 2, 1], dtype=np.float32), np.array([1, 2.0, 1], object)],
        [["a", "b c", "a"], as_series(["a", "b c", "a"], "string"), as_series(["a", "b c", "a"], "category")],
        [as_series(["2024-01-01", "2024-02-01", "2024-01-01"], kind) for kind in ("datetime64[s]", "datetime64[ns]")],
        [[0.5, -3.25, 0.5], as_series([0.5, -3.25, 0.5], "Float64")],
    ],
)
def test_a_label_has_one_code_in_all_types(alike):
    codes = [read_groups(labels, 3) for labels in alike]
    codes += [read_labels(pa.chunked_array([pa.array(labels)])).codes for labels in alike]
    for other in codes:
        np.testing.assert_array_equal(other, codes[0])
        assert other[0] == other[2] != other[1]
        assert 0 <= other.min() <= other.max() < 2**53


def test_labels_that_are_nearly_equal_have_codes_of_their_own():
    texts = [f"{word}{k}" for word in ("", "a", "aa", "ab", "ba", "Ω", "a" * 300) for k in range(3000)]
    assert len(np.unique(read_groups(texts, 21_000))) == 21_000
    assert len(np.unique(read_groups(np.arange(10**17, 10**17 + 9000), 9000))) == 9000
    pairs = ["ab", "ba", "", "a", "\0a", "a\0"]
    assert len(np.unique(read_groups(np.array(pairs, dtype=object), 6))) == 6


@pytest.mark.parametrize(
    "labels", [[pd.NaT, 1], [pd.NA, "a"], [None, 2.0], pd.to_datetime(pd.Series([None, "2024-01-01"]))]
)
def test_missing_labels_of_any_type(labels):
    with pytest.raises(ValueError, match="^groups must have a label for every row, got a missing one in row 0$"):
        read_groups(labels, 2)


def test_design_effect_of_independent_rows_is_one():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(200), 5)
    effects = [design_effect(rng.normal(size=1000), group) for _ in range(50)]
    assert np.mean(effects) < 1.1


def test_independent_columns_of_few_values_are_no_subjects(recwarn):
    rng = np.random.default_rng(0)
    raw = np.column_stack([rng.integers(0, k, 2000) for k in (2, 3, 5, 7, 12)] + [rng.normal(size=2000)])
    warn_of_blocks(raw.astype(float), list("abcdef"))
    assert not recwarn.list


def test_rare_values_and_hierarchies_are_no_subjects(recwarn):
    rng = np.random.default_rng(0)
    rare = np.minimum(rng.zipf(2.0, (3000, 4)), 100)
    warn_of_blocks(np.column_stack([rare, rng.normal(size=3000)]), list("abcde"))
    city = rng.integers(0, 100, 3000)
    warn_of_blocks(np.column_stack([city, city // 10, city // 34, rng.normal(size=3000)]), list("abcd"))
    assert not recwarn.list


def test_attributes_of_few_values_may_be_those_of_subjects():
    rng = np.random.default_rng(0)
    subject = np.repeat(np.arange(120), 12)
    attributes = np.column_stack([rng.integers(20, 90, 120), rng.integers(40, 110, 120), rng.integers(0, 2, 120)])
    raw = rng.permutation(np.column_stack([attributes[subject], rng.normal(size=len(subject))]))
    with pytest.warns(GroupedRowsWarning, match="'age', 'weight', 'sex' have only 120 combinations in 1,440 rows"):
        warn_of_blocks(raw, ["age", "weight", "sex", "dose"])


def test_each_group_counts_once_in_a_guarantee():
    # Hierarchical conformal prediction: 19 groups are needed for 90 %, however many rows they have.
    X, y, group = subjects(2, 240, 20, n_own=2)
    train, shown, new = group < 100, (group >= 100) & (group < 140), group >= 140
    model = USNRTRegressor(**SMALL).fit(X[train], y[train], groups=group[train])
    model.calibrate(X[shown], y[shown], by="global", groups=group[shown])
    assert model.calibration_.weights[0].sum() == pytest.approx(40)
    # 40 groups: the coverage of one calibration has a standard deviation of at most sqrt(0.09 / 42)
    assert coverage_of_new(model, X, y, new) > 0.9 - 3 * np.sqrt(0.09 / 42)
    few = group[shown] < 118
    model.calibrate(X[shown][few], y[shown][few], by="global", groups=group[shown][few])
    with pytest.warns(InfiniteIntervalWarning, match="18 effective calibration rows, by their weights or groups"):
        assert np.isinf(model.predict_interval(X[:3], guaranteed=True)).all()


def test_a_column_of_groups_calibrates_and_compares():
    X, y, group = subjects(3, 60, 4, n_own=2)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = USNRTRegressor(**SMALL).fit(frame, y, groups=group)
    named = model.calibrate(frame.assign(patient=group), y + 0.01, by="global", groups="patient").predict_interval(
        frame
    )
    given = model.calibrate(frame, y + 0.01, by="global", groups=group).predict_interval(frame)
    np.testing.assert_array_equal(named, given)
    result = compare(frame.assign(patient=group), y, {"linear": LinearRegression()}, groups="patient")
    assert result.splits.how == "one random split; groups stay together"


@pytest.mark.parametrize("shared", [0.0, 0.3, 1.0])
def test_groups_count_by_what_their_rows_share(shared):
    """The correlation is found, and the counts are those that give a mean the variance that it has."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(400), 6)
    values = np.sqrt(shared) * rng.normal(size=400)[group] + np.sqrt(1 - shared) * rng.normal(size=2400)
    found = group_correlation(values, group)
    assert found == pytest.approx(shared, abs=0.05)
    assert evidence(np.ones(2400), group, found).sum() == pytest.approx(2400 / (1 + 5 * found))


def test_rows_that_share_nothing_are_calibrated_like_single_rows():
    rng = np.random.default_rng(1)
    X, group = rng.normal(size=(1600, 2)), np.repeat(np.arange(200), 8)  # 40 groups validate
    y = X[:, 0] + rng.normal(size=1600)
    model = USNRTRegressor(hidden=(8,), max_epochs=10, memory=False, validation=1, random_state=0)
    alike = model.fit(X, y + 3 * rng.normal(size=200)[group], groups=group).calibration_.weights
    assert sum(counts.sum() for counts in alike) < 60
    apart = model.fit(X, y, groups=group).calibration_.weights
    assert sum(counts.sum() for counts in apart) > 180
    few = model.fit(X[:800], y[:800], groups=group[:800]).calibration_.weights  # 20 groups do not tell what they share
    assert sum(counts.sum() for counts in few) < 21
