"""Splits: every row once, groups together, never looking ahead."""

import datetime

import numpy as np
import pandas as pd
import pytest

from usnrt.comparison.splits import copies, random_splits, read_time, time_splits


@pytest.mark.parametrize("folds", [2, 5])
def test_every_row_is_a_test_row_once(folds):
    groups = np.random.default_rng(0).integers(0, 40, 200)
    groups = np.unique(groups, return_inverse=True)[1]
    splits = random_splits(groups, folds, 0.25, 0, "groups")
    assert sorted(splits.test_rows) == list(range(200))
    for train, test in splits.folds:
        assert not set(groups[train]) & set(groups[test])
        assert abs(len(test) - 200 / folds) < 12
    assert np.bincount(splits.fold_of).tolist() == [len(test) for _, test in splits.folds]


def test_one_split_has_the_share_that_was_asked_for():
    splits = random_splits(np.arange(1000), 1, 0.3, 0, "")
    train, test = splits.folds[0]
    assert len(test) == 300
    assert sorted([*train, *test]) == list(range(1000))
    assert splits.how == "one random split"


def test_copies_of_a_row_are_one_group():
    raw = np.array([[1.0, np.nan], [2.0, 0.0], [1.0, np.nan], [1.0, np.nan]])
    group = copies(raw, np.array([0.0, 0.0, 0.0, 1.0]))
    assert group[0] == group[2]
    assert len(set(group)) == 3


@pytest.mark.parametrize("folds", [1, 4])
def test_training_rows_are_earlier_than_test_rows(folds):
    time = np.random.default_rng(0).integers(0, 60, 300)
    splits = time_splits(time, folds, 0.25)
    assert len(splits.folds) == folds
    for train, test in splits.folds:
        assert time[train].max() < time[test].min()
    assert time[splits.folds[-1][1]].max() == time.max()
    assert len(set(splits.test_rows)) == len(splits.test_rows)


def test_times_of_all_kinds_are_read():
    days = ["2024-01-02", "2024-01-01"]
    frame = pd.DataFrame({"day": days, "when": pd.to_datetime(days), "x": [1.0, 2.0], "word": ["b", "a"]})
    for time in ("day", "when", "x", np.array([2, 1])):
        assert len(read_time(time, frame)) == 2
    assert read_time("day", frame)[0] == np.datetime64("2024-01-02")
    german = pd.DataFrame({"day": ["31.01.2024", "01.02.2024"]})
    assert read_time("day", german).tolist() == [datetime.datetime(2024, 1, 31), datetime.datetime(2024, 2, 1)]


@pytest.mark.parametrize(
    ("time", "X", "message"),
    [
        ("word", pd.DataFrame({"word": ["b", "a"]}), "the time column 'word' must hold numbers or dates, got 'b'"),
        ("when", pd.DataFrame({"x": [1, 2]}), "time must be a column of X, got 'when'; columns: x"),
        ("when", np.zeros((2, 1)), "time must be an array if X has no column names, got 'when'"),
        ([1.0], np.zeros((2, 1)), r"time must have one value per row \(2\), got \(1,\)"),
        ([1.0, np.nan], np.zeros((2, 1)), "time must have no missing values, got one in row 1"),
    ],
)
def test_times_that_cannot_be_used(time, X, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        read_time(time, X)


def test_splits_that_leave_no_rows():
    with pytest.raises(ValueError, match="time must leave at least 2 rows on each side"):
        time_splits(np.zeros(10), 1, 0.25)
    with pytest.raises(ValueError, match="folds must leave at least 2 rows on each side, got folds=9"):
        random_splits(np.arange(10), 9, 0.25, 0, "rows")
