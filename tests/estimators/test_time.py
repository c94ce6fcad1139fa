"""Tables in time order: which rows validate, what is a feature, calibration on windows, and intervals under drift."""

import datetime
import functools

import numpy as np
import pandas as pd
import pytest

import usnrt
from usnrt import OnlineCalibrator, USNRTEnsemble, USNRTRegressor
from usnrt.distributions import TargetMap
from usnrt.model.roles import draw_validation_rows
from usnrt.tables import TableEncoder
from usnrt.tables.roles import is_latest
from usnrt.tables.training import DistinctRows

QUICK = {"hidden": (32, 16), "max_epochs": 15, "random_state": 0, "n_jobs": 1}


def table(n=1500, seed=0):
    """Rows of one level and noise, an hour apart, in random order."""
    rng = np.random.default_rng(seed)
    when = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(n), unit="h")
    X = pd.DataFrame({"when": when, "a": rng.uniform(-1, 1, n), "b": rng.uniform(-1, 1, n)})
    y = X["a"] + np.where(X["b"] > 0, 1.0, 0.2) * rng.normal(size=n)
    order = rng.permutation(n)
    return X.iloc[order].reset_index(drop=True), y.to_numpy()[order]


@functools.cache
def fitted(kind="tree"):
    X, y = table()
    if kind == "ensemble":
        return USNRTEnsemble(
            USNRTRegressor(**{**QUICK, "n_jobs": -1}), n_estimators=2, time_column="when", random_state=0, n_jobs=1
        ).fit(X, y)
    return USNRTRegressor(**QUICK, time_column="when").fit(X, y)


# -- rows -------------------------------------------------------------------------------------------------------


def test_latest_rows():
    time = np.array([5.0, 1.0, 4.0, 2.0, 3.0])
    np.testing.assert_array_equal(is_latest(time, 2), [True, False, True, False, False])
    assert is_latest(time, 0).sum() == is_latest(np.ones(5), 2).sum() == 0
    # rows of one instant stay together, on the side that is closer to the number wanted
    days = np.repeat(np.arange(4.0), 5)
    assert is_latest(days, 6).sum() == 5
    assert is_latest(days, 8).sum() == 10
    assert is_latest(days, 1).sum() == 5  # at least one instant
    assert is_latest(days, 19).sum() == 15  # but not all of them


@pytest.mark.parametrize("kind", ["tree", "ensemble"])
def test_validation_and_calibration_rows_are_the_latest(kind, monkeypatch):
    """Whatever the order of the table: training rows, then validation rows, then calibration rows."""
    import usnrt.model.fit

    X, _ = table(400)
    seen = {}

    class Stop(Exception):
        pass

    def spy(recipe, folds, *others):
        seen["y"], seen["is_validation"] = folds[0].table.y, folds[0].is_validation
        assert len(folds) == (1 if kind == "tree" else 2)
        raise Stop

    monkeypatch.setattr(usnrt.model.fit, "fit_quantile_tree", spy)
    numbered = X["when"].rank().to_numpy()  # the target is the time itself
    member = USNRTRegressor(calibration_fraction=0.1, time_column="when")
    model = member if kind == "tree" else USNRTEnsemble(member, n_estimators=2, n_jobs=1)
    with pytest.raises(Stop):
        model.fit(X, numbered)
    training, validation = seen["y"][~seen["is_validation"]], seen["y"][seen["is_validation"]]
    assert len(training) == 288
    assert len(validation) == 72
    assert training.max() < validation.min()


def test_the_order_of_rows_does_not_matter():
    X, y = table(1500)
    again = USNRTRegressor(**QUICK, time_column="when").fit(X[::-1].reset_index(drop=True), y[::-1])
    np.testing.assert_array_equal(again.predict(X), fitted().predict(X))


def test_equal_rows_of_different_times_stay_apart():
    rows = DistinctRows(np.zeros((6, 1)), np.arange(6.0), np.ones(6), np.arange(6), np.arange(6.0))
    recipe = USNRTRegressor(validation=0.34)._model_recipe().tree
    assert draw_validation_rows(rows, recipe, None, np.random.default_rng(0)).tolist() == [[False] * 4 + [True] * 2]
    X, y = np.column_stack([np.arange(300.0), np.zeros(300)]), np.tile([0.0, 1.0], 150)
    assert USNRTRegressor(time_column=0)._read_rows(X, y, None).n_rows == 300
    assert USNRTRegressor()._read_rows(X[:, 1:], y, None).n_rows == 2


@pytest.mark.slow
def test_the_memory_does_not_see_validation_rows():
    """Neighbours from the future would make validation rows look too predictable."""
    rng = np.random.default_rng(0)
    # targets wander: a row is predictable from rows near it in the clock, but not from the past
    clock = np.arange(1200.0)
    y = np.cumsum(rng.normal(size=1200))
    X = np.column_stack([clock, clock, rng.normal(size=1200)])
    in_order = USNRTRegressor(**QUICK, time_column=0).fit(X, y)
    at_random = USNRTRegressor(**QUICK).fit(X, y)
    spread = [np.subtract(*model.predict_interval(X[-5:], 0.8).T[::-1]).mean() for model in (in_order, at_random)]
    assert spread[0] > 2 * spread[1]


# -- features ---------------------------------------------------------------------------------------------------


def test_what_of_time_is_a_feature():
    X, _ = table()  # two months
    assert [column.name for column in fitted().columns_] == ["when (day)", "when (weekday)", "when (hour)", "a", "b"]
    numbers = TableEncoder().fit(np.arange(8.0).reshape(4, 2), time_position=0)
    assert [column.name for column in numbers.columns_] == ["x1"]
    np.testing.assert_array_equal(numbers.transform(np.arange(8.0).reshape(4, 2)), [[1], [3], [5], [7]])
    with pytest.raises(ValueError, match="X must have a column besides time_column that is a feature, got none"):
        USNRTRegressor(time_column=0).fit(np.arange(5.0)[:, None], np.arange(5.0))
    # a row of the future is like the training rows
    later = X.assign(when=X["when"] + pd.Timedelta(days=140))
    assert fitted().predict_support(later)["supported"].mean() > 0.95


@pytest.mark.parametrize(
    ("column", "change", "message"),
    [
        ("time", {}, "time_column must name a column of X, but 'time' is not one"),
        (7, {}, "time_column must be a position below 3, got 7"),
        ("a", {"a": "x"}, "time_column must hold numbers or dates, but 'a' holds text"),
        ("a", {"a": 1.0}, "time_column must have at least two different values, got 'a'"),
        ("a", {"a": [1.0, None] * 20}, "time_column must not have missing values, but 'a' is missing in row 1"),
        (1.5, {}, "time_column must be the name or the position of a column or None, got 1.5"),
    ],
)
def test_bad_time_columns(column, change, message):
    X, y = table(40)
    with pytest.raises(ValueError) as caught:
        USNRTRegressor(time_column=column).fit(X.assign(**change), y)
    assert str(caught.value) == message


def test_tables_larger_than_memory_are_refused(tmp_path, monkeypatch):
    import usnrt.estimators.base

    pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 2.0], "y": [1.0, 2.0]}).to_csv(tmp_path / "rows.csv", index=False)
    monkeypatch.setattr(usnrt.estimators.base, "read_whole", lambda rows: None)
    with pytest.raises(ValueError, match="^time_column needs a table in memory, of at most 1,048,576 rows"):
        USNRTRegressor(time_column="a").fit(tmp_path / "rows.csv", "y")


# -- ensembles --------------------------------------------------------------------------------------------------


def test_ensembles_in_time_order():
    """All members validate on the latest rows, which calibrate the ensemble itself."""
    model = fitted("ensemble")
    assert model.model_.trees.own_factor == 0.0
    np.testing.assert_array_equal(model.model_.trees.shared, 1.0)
    assert sum(len(scores) for scores in model.calibration_.scores) == 300
    X, y = table(3000, seed=1)
    bounds = model.predict_interval(X, 0.9)
    covered = ((y >= bounds[:, 0]) & (y <= bounds[:, 1])).mean()
    assert abs(covered - 0.9) < 4 * np.sqrt(0.09 / 300 + 0.09 / 3000)


def test_members_with_a_time_column_use_a_share_for_validation():
    member = USNRTRegressor(validation=0.3)
    with pytest.raises(ValueError, match="^estimator.validation must be an int >= 1 or 'auto' without time_column"):
        USNRTEnsemble(member).fit(*table(40))
    USNRTEnsemble(member, time_column="when")._check_parameters()


# -- windows ----------------------------------------------------------------------------------------------------


def test_calibration_on_a_window():
    X, y = table(900, seed=2)
    is_recent = is_latest(X["when"].astype(np.int64).to_numpy(float), 300)
    y = np.where(is_recent, y + 5.0, y)  # recently, another level
    model = USNRTRegressor(**QUICK, time_column="when").fit(*table())
    expected = model.calibrate(X[is_recent], y[is_recent]).predict_interval(X)
    for window in (300, datetime.timedelta(hours=300), np.timedelta64(300, "h"), pd.Timedelta(hours=300)):
        np.testing.assert_array_equal(model.calibrate(X, y, window=window).predict_interval(X), expected)
    assert not np.array_equal(model.calibrate(X, y).predict_interval(X), expected)


@pytest.mark.parametrize(
    ("window", "message"),
    [
        (0, "window must be an int >= 1, a timedelta or None, got 0"),
        ("all", "window must be an int >= 1, a timedelta or None, got 'all'"),
        (datetime.timedelta(0), r"window must be positive, got datetime.timedelta\(0\)"),
    ],
)
def test_bad_windows(window, message):
    with pytest.raises(ValueError, match=message):
        fitted().calibrate(*table(50), window=window)


def test_windows_without_a_time_column():
    X, y = table()
    model = USNRTRegressor(**QUICK).fit(X[["a", "b"]], y)
    X, y = table(seed=2)
    features = X[["a", "b"]]
    expected = model.calibrate(features[-200:], y[-200:]).predict_interval(features)
    np.testing.assert_array_equal(model.calibrate(features, y, window=200).predict_interval(features), expected)
    with pytest.raises(ValueError, match="window as a duration needs a model with a time_column of dates"):
        model.calibrate(features, y, window=datetime.timedelta(days=1))


# -- online -----------------------------------------------------------------------------------------------------

N_LATER = 6000


def drifted(kind, n=N_LATER):
    """Rows after the fitted ones, in time order, with a drift."""
    X, y = table(n, seed=3)
    order = np.argsort(X["when"].to_numpy(), kind="stable")
    X, y, t = X.iloc[order].reset_index(drop=True), y[order], np.arange(n) / n
    if kind == "none":
        return X, y
    if "noise" in kind:
        return X, X["a"].to_numpy() + (y - X["a"].to_numpy()) * (1 + 2 * t if "slow" in kind else 1 + 2 * (t > 0.5))
    return X, y + (4 * t if "slow" in kind else 2.0 * (t > 0.5))


@pytest.mark.parametrize("kind", ["none", "slow level", "sudden level", "slow noise", "sudden noise"])
def test_long_run_coverage_under_drift(kind):
    """90 +- 1 % in the long run and +- 3 % in all windows of 500 rows, where the static model fails."""
    X, y = drifted(kind)
    online = OnlineCalibrator(fitted())
    bounds = online.predict_then_update(X, y)
    covered = (y >= bounds[:, 0]) & (y <= bounds[:, 1])
    assert online.n_covered_ == covered.sum()
    assert abs(covered.mean() - 0.9) < 0.01
    by_window = np.convolve(covered, np.full(500, 1 / 500), mode="valid")
    # windows that contain the 500 rows after the jump or the start are not settled
    settled = np.ones(len(by_window), dtype=bool)
    settled[:500] = False
    if "sudden" in kind:
        settled[N_LATER // 2 - 500 : N_LATER // 2 + 500] = False
    assert np.abs(by_window[settled] - 0.9).max() <= 0.03
    static = fitted().predict_interval(X)
    static_covered = ((y >= static[:, 0]) & (y <= static[:, 1])).mean()
    assert (abs(static_covered - 0.9) < 0.03) == (kind == "none")
    if kind == "none":  # at hardly any cost in width
        assert np.diff(bounds).mean() < 1.1 * np.diff(static).mean()


def test_regions_have_bounds_of_their_own():
    """A drift of one region only: both keep their coverage."""
    X, y = drifted("none")
    model = fitted()
    assert model.n_leaves_ >= 2
    region = model.apply(X)
    first = region == region.min()
    y = np.where(first, y + 2.0, y)
    bounds = OnlineCalibrator(model).predict_then_update(X, y)
    covered = (y >= bounds[:, 0]) & (y <= bounds[:, 1])
    for own in (first, ~first):
        assert abs(covered[own][500:].mean() - 0.9) < 0.015


@pytest.mark.parametrize("n_jump", [300, 1200])
def test_widths_return_after_a_passing_jump(n_jump):
    """A surplus without limit kept intervals of 642,000 for 6,600 rows after a jump of 1e6 standard deviations."""
    X, y = (part[: n_jump + 1400] for part in drifted("none"))
    jump = np.arange(len(y)) < n_jump
    width = np.diff(OnlineCalibrator(fitted()).predict_then_update(X, np.where(jump, y + 1e6, y)))[:, 0]
    usual = np.diff(fitted().predict_interval(X))[:, 0]
    settled = slice(n_jump + 600, None)
    assert width[n_jump:].max() < 300 * usual.max()
    assert 0.75 < width[settled].mean() / usual[settled].mean() < 1.5  # regions of half the rows take twice as long


def test_one_row_at_a_time_is_the_same():
    X, y = (part[:40] for part in drifted("slow level"))
    at_once, one_by_one = OnlineCalibrator(fitted(), 0.8), OnlineCalibrator(fitted(), 0.8)
    expected = at_once.predict_then_update(X, y)
    for row in range(40):
        np.testing.assert_allclose(one_by_one.predict_interval(X[row : row + 1])[0], expected[row], rtol=1e-12)
        one_by_one.update(X[row : row + 1], y[row])
    np.testing.assert_array_equal(one_by_one.surplus_, at_once.surplus_)
    np.testing.assert_array_equal(one_by_one.region_surplus_, at_once.region_surplus_)


def test_the_model_is_not_changed_and_the_calibrator_is_saved(tmp_path):
    X, y = (part[:300] for part in drifted("sudden level"))
    before = fitted().predict_interval(X)
    online = OnlineCalibrator(fitted()).update(X, y)
    np.testing.assert_array_equal(fitted().predict_interval(X), before)
    online.save(tmp_path / "online.usnrt")
    loaded = usnrt.load(tmp_path / "online.usnrt")
    assert isinstance(loaded, OnlineCalibrator)
    np.testing.assert_array_equal(
        loaded.update(X, y + 1.0).predict_interval(X), online.update(X, y + 1.0).predict_interval(X)
    )
    assert loaded.n_rows_ == online.n_rows_ == 600


def test_a_surplus_of_another_shape_is_refused(tmp_path):
    online = OnlineCalibrator(fitted())
    online.region_surplus_ = np.zeros((1, 1))
    online.save(tmp_path / "online.usnrt")
    with pytest.raises(
        usnrt.persistence.ModelFileError, match="'region_surplus_' of class OnlineCalibrator is invalid$"
    ):
        usnrt.load(tmp_path / "online.usnrt")


def test_bounds_of_the_target_do_not_wind_up():
    """Targets that are all at the bound are never missed; the lower side stays where it is."""
    X, y = table()
    model = USNRTRegressor(**QUICK, target_bounds=(0, None), time_column="when").fit(X, np.maximum(y, 0.0))
    assert isinstance(model.target_map_, TargetMap)
    later = drifted("none", 1000)[0]
    online = OnlineCalibrator(model)
    bounds = online.predict_then_update(later, np.zeros(1000))
    assert (bounds >= 0).all()
    assert online.n_covered_ > 850
    assert (bounds[:, 0] == 0).mean() > 0.8


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: OnlineCalibrator(fitted(), 1.5), ValueError, r"coverage must be in \(0, 1\), got 1.5"),
        (lambda: OnlineCalibrator("model"), TypeError, "model must be a model with regions, got str"),
        (lambda: OnlineCalibrator(USNRTRegressor()), ValueError, "is not fitted yet"),
        (
            lambda: OnlineCalibrator(fitted()).update(table(3)[0], [1.0]),
            ValueError,
            "X and y must have the same number of rows, got 3 and 1",
        ),
    ],
)
def test_bad_calls(call, error, message):
    with pytest.raises(error, match=message):
        call()
