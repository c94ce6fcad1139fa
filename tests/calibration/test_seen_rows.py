"""Tables with many duplicates: rows with features seen in training are recognised and calibrated separately."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from usnrt import USNRTEnsemble, USNRTRegressor, load
from usnrt.calibration.groups import ScoredRows, by_region
from usnrt.calibration.seen_rows import SeenRows, feature_hashes, find_seen
from usnrt.estimators.regions import rows_in_memory
from usnrt.model.fitted import Stage
from usnrt.nn.quantiles import POSITIONS
from usnrt.utils.notices import ResultWarning

TREE = {"hidden": (128, 64), "memory": False, "min_samples_leaf": 2000}


def subjects(n, seed):
    """Subjects that are measured repeatedly: features and a target that never change.

    Without noise, but hard to interpolate: errors on subjects that were trained on are half of those on others.
    """
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 3))
    return X, np.sin(5 * X[:, 0]) * np.cos(5 * X[:, 1]) + X[:, 2]


@pytest.fixture(scope="module")
def repeated():
    """Training rows with repetitions, and the subjects in them."""
    X, y = subjects(800, 0)
    rows = np.random.default_rng(1).integers(0, 800, 3200)
    return X, y, rows


@pytest.fixture(scope="module")
def model(repeated):
    X, y, rows = repeated
    return USNRTRegressor(random_state=0, **TREE).fit(X[rows], y[rows])


def covered(model, X, y):
    low, high = model.predict_interval(X, 0.9).T
    return np.mean((low <= y) & (y <= high))


@pytest.mark.parametrize("ensemble", [False, True])
def test_seen_and_new_rows_both_have_the_nominal_coverage(repeated, model, ensemble):
    """Calibrated by validation rows only, seen rows would be covered too often, or new ones too seldom."""
    X, y, rows = repeated
    if ensemble:
        quick = {**TREE, "max_epochs": 100}
        model = USNRTEnsemble(USNRTRegressor(**quick), n_estimators=3, random_state=0).fit(X[rows], y[rows])
    again = np.random.default_rng(2).integers(0, 800, 4000)
    again = again[np.isin(again, rows)]
    assert model.model_.seen.contains(model._encode(X[again])).all()
    # 150 validation subjects, 780 seen ones: 3.5 standard errors, and 2 points as there are no calibration rows
    assert covered(model, X[again], y[again]) == pytest.approx(0.9, abs=3.5 * np.sqrt(0.09 / 780) + 0.02)
    X_new, y_new = subjects(4000, 3)
    assert not model.model_.seen.contains(model._encode(X_new)).any()
    assert covered(model, X_new, y_new) == pytest.approx(0.9, abs=3.5 * np.sqrt(0.09 / 150) + 0.02)


def test_seen_rows_have_narrower_distributions(repeated, model):
    """Calibrated like new rows, 98 % of them would lie in their 90 % intervals."""
    X, y, rows = repeated
    _, std = model.predict(X[rows[:500]], return_std=True)
    _, std_of_new = model.predict(subjects(500, 3)[0], return_std=True)
    assert std.mean() < 0.8 * std_of_new.mean()
    raw = model._encode(X[rows])
    predicted = model.model_.predict(raw, Stage.ALL & ~Stage.SEEN)
    low, high = model.model_.interval(predicted, 0.9).T
    assert np.mean((low <= y[rows]) & (y[rows] <= high)) > 0.95


def test_files_keep_seen_rows(repeated, model, tmp_path):
    X, _, rows = repeated
    model.save(tmp_path / "model.usnrt")
    again = load(tmp_path / "model.usnrt")
    np.testing.assert_array_equal(again.predict_interval(X[rows[:50]]), model.predict_interval(X[rows[:50]]))


def test_onnx_warns_that_it_does_not_recognise_them(model):
    pytest.importorskip("onnx")
    with pytest.warns(
        ResultWarning, match="^an ONNX graph does not recognise rows whose features were seen in training"
    ):
        model.to_onnx()


def test_new_rows_calibrate_both_kinds(repeated, model):
    X, y, rows = repeated
    model = USNRTRegressor(random_state=0, **{**TREE, "max_epochs": 5}).fit(X[rows], y[rows])
    X_new, y_new = subjects(300, 4)
    seen = np.unique(rows)[:200]
    model.calibrate(np.vstack([X_new, X[seen]]), np.concatenate([y_new, y[seen]]))
    assert model.calibration_.has_seen
    assert len(model.calibration_.scores[-1]) == 200
    model.calibrate(X_new, y_new)
    assert not model.calibration_.has_seen
    assert np.isfinite(model.predict_interval(X[:10])).all(), "seen rows have the intervals of their region then"


def test_regions_with_enough_seen_rows_calibrate_them(model):
    rng = np.random.default_rng(0)
    leaf_index, leaves = np.array([-1, 0, 1]), np.array([1, 2])
    tree = SimpleNamespace(n_leaves=2, leaves=leaves, leaf_index=leaf_index, path=lambda node: [0, node])
    leaf = rng.integers(0, 2, 400)
    new = by_region(ScoredRows(rng.normal(size=400), leaf, np.ones(400)), tree)
    few_in_second = np.repeat([0, 1], [200, 30])
    seen = ScoredRows(0.1 * rng.normal(size=230), few_in_second, np.ones(230))
    both = new.with_seen(seen, min_rows=100)
    np.testing.assert_array_equal(both.group_of_leaf, [0, 1, 2, 1])
    quantiles = np.tile(POSITIONS, (4, 1))
    width = np.ptp(both.interval(quantiles, np.arange(4), 0.9), axis=1)
    assert width[2] < 0.2 * width[0]
    assert width[3] == width[1]


def test_weights_change_nothing_for_new_rows():
    """Integer weights are repetitions, but no new row has the features of a training row."""
    X, y = subjects(500, 0)
    weight = np.where(np.arange(500) % 2, 3, 2)
    model = USNRTRegressor(random_state=0, **{**TREE, "max_epochs": 5}).fit(X, y, sample_weight=weight)
    assert model.calibration_.has_seen
    assert len(model.calibration_.group_of_leaf) == 2 * model.n_leaves_
    assert model.calibration_.n_leaves == model.n_leaves_
    X_new, _ = subjects(200, 1)
    before = model.predict_interval(X_new)
    model.model_ = replace(model.model_, seen=None)
    np.testing.assert_array_equal(model.predict_interval(X_new), before)


def test_no_row_is_seen_where_equal_features_differ_in_target():
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 5, (2000, 3)).astype(float)  # 125 cells, 16 noisy targets in each
    copies = np.where(np.arange(2000) % 2, 3.0, 2.0)
    assert find_seen(raw, rng.normal(size=2000), copies) is None


def test_importances_are_no_copies():
    """Whole weights are repetitions; others say how much a row counts, and rows of weight 2.5 are not known better."""
    rng = np.random.default_rng(0)
    raw, importance = rng.normal(size=(500, 3)), np.exp(1.5 * rng.normal(size=500))
    assert find_seen(raw, raw[:, 0], importance) is None
    assert find_seen(raw, raw[:, 0], np.ceil(importance)) is not None


@pytest.mark.parametrize("copies", [1.0, 3.0])
def test_a_table_passed_several_times_has_no_repetitions(copies):
    """All weights have this factor in common: nothing shows that equal features have equal targets."""
    raw = np.random.default_rng(0).normal(size=(500, 3))
    assert find_seen(raw, raw[:, 0], np.full(500, copies)) is None


def test_recalled_targets_are_those_of_the_other_copies():
    """One subject has two targets: a copy of the first, seen three times, is recalled as two firsts and a second."""
    rng = np.random.default_rng(0)
    raw = np.vstack([rng.normal(size=(200, 2)), np.zeros((2, 2))])
    y = np.concatenate([rng.normal(size=200), [1.0, 4.0]])
    seen, repeated = find_seen(raw, y, np.concatenate([np.full(200, 2.0), [3.0, 1.0]]))
    recalled = dict(zip(repeated.rows.tolist(), repeated.recalled.tolist()))
    assert all(recalled[row] == y[row] for row in range(200))
    assert recalled[200] == pytest.approx((1.0 + 1.0 + 4.0) / 3)
    assert recalled[201] == 1.0
    index, known = seen.locate(np.zeros((1, 2)))
    assert known.all()
    assert seen.target[index] == pytest.approx([(3 * 1.0 + 4.0) / 4])


@pytest.fixture(scope="module")
def remembering(repeated):
    """A model with memory of subjects of whom one in twenty changes its target from visit to visit."""
    X, y, rows = repeated
    noise = np.where(rows < 40, np.random.default_rng(5).normal(size=len(rows)), 0.0)
    return USNRTRegressor(hidden=(64, 32), max_epochs=30, min_samples_leaf=2000, random_state=0).fit(
        X[rows], y[rows] + noise
    )


def test_a_model_with_memory_recalls_the_targets_of_seen_rows(repeated, remembering):
    X, y, rows = repeated
    steady = np.setdiff1d(rows, np.arange(40))
    error = np.abs(remembering.predict(X[steady]) - y[steady])
    X_new, y_new = subjects(800, 6)
    error_of_new = np.abs(remembering.predict(X_new) - y_new)
    assert error.mean() < 0.35 * error_of_new.mean()
    assert rows_in_memory(remembering) >= len(np.unique(rows))


def test_recalled_rows_have_the_nominal_coverage(repeated, remembering):
    X, y, rows = repeated
    again = np.random.default_rng(7).integers(0, 800, 4000)
    again = again[np.isin(again, rows)]
    noise = np.where(again < 40, np.random.default_rng(8).normal(size=len(again)), 0.0)
    # 780 subjects; intervals of subjects that never change are narrow, not empty
    tolerance = 3.5 * np.sqrt(0.09 / 780) + 0.02
    assert covered(remembering, X[again], y[again] + noise) == pytest.approx(0.9, abs=tolerance)
    assert (np.ptp(remembering.predict_interval(X[again]), axis=1) > 0).all()


def test_without_memory_no_target_is_stored(model):
    assert model.model_.seen.target is None
    assert rows_in_memory(model) == 0


def test_files_keep_recalled_targets(repeated, remembering, tmp_path):
    X, _, rows = repeated
    remembering.save(tmp_path / "model.usnrt")
    again = load(tmp_path / "model.usnrt")
    np.testing.assert_array_equal(again.predict(X[rows[:50]]), remembering.predict(X[rows[:50]]))


def test_no_row_is_seen_in_a_table_without_repetitions():
    raw = np.random.default_rng(0).normal(size=(500, 3))
    assert find_seen(raw, raw[:, 0], np.ones(500)) is None


def test_hashes_find_equal_features_only():
    raw = np.random.default_rng(0).normal(size=(300, 4))
    raw[::7, 2] = np.nan
    seen = SeenRows(np.unique(feature_hashes(raw[:200])))
    np.testing.assert_array_equal(seen.contains(raw), np.arange(300) < 200)
