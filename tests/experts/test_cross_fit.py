"""Experts that learn from all rows in the end predict rows of the table as if they were new."""

from dataclasses import replace

import numpy as np
import pytest

from usnrt import USNRTRegressor, load
from usnrt.experts.base import Query
from usnrt.experts.cross_fit import CrossFitted, cross_fitted, fitted_in_parts, refitted
from usnrt.experts.forest import ForestExpert
from usnrt.nn.quantiles import MEDIAN
from usnrt.tables.training import TrainingTable, TreeRows
from usnrt.utils.context import FitContext


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 2))
    table = TrainingTable(x, x.astype(np.float32), rng.normal(size=500), np.ones(500))
    return TreeRows(table, np.arange(2), np.zeros(2, dtype=np.int64), np.arange(500) % 5 == 0)


def medians(expert, rows, without):
    table = rows.table
    query = Query(table.raw, table.inputs, np.zeros(500, dtype=np.int64), np.arange(500) if without else None)
    return expert.quantile_functions(query)[:, MEDIAN]


@pytest.mark.parametrize("in_time_order", [False, True])
def test_noise_is_not_predicted_out_of_fold(rows, in_time_order):
    expert = ForestExpert.fit(rows, FitContext(0))
    both = cross_fitted(expert, rows, FitContext(0), in_time_order)
    y = rows.table.y
    assert abs(np.corrcoef(medians(both, rows, without=True), y)[0, 1]) < 0.15
    known = medians(both, rows, without=False) == y.astype(np.float32)
    assert known[~rows.is_validation].all()
    assert known[rows.is_validation].all() == (not in_time_order)


def test_rows_that_validate_are_predicted_as_when_weights_were_chosen(rows):
    expert = ForestExpert.fit(rows, FitContext(0))
    both = cross_fitted(expert, rows, FitContext(0), in_time_order=False)
    held = rows.is_validation
    np.testing.assert_array_equal(medians(both, rows, True)[held], medians(expert, rows, False)[held])


def test_parts_do_not_predict_noise(rows):
    parts = fitted_in_parts(ForestExpert.fit(rows, FitContext(0)), rows, FitContext(0))
    both = refitted(parts, rows, FitContext(0))
    y, held = rows.table.y, rows.is_validation
    predicted = medians(both, rows, without=True)
    assert abs(np.corrcoef(predicted, y)[0, 1]) < 0.15
    assert abs(np.corrcoef(predicted[held], y[held])[0, 1]) < 0.25
    # new rows are predicted by trees that have learnt from all rows
    known = medians(both, rows, without=False) == y.astype(np.float32)
    assert known.all()


def test_targets_of_a_part_do_not_reach_its_predictions(rows):
    """Targets of one part change: its own predictions remain, those of the other parts follow."""
    trial = ForestExpert.fit(rows, FitContext(0))
    before = fitted_in_parts(trial, rows, FitContext(0))
    own = before.fold_of == 1
    changed = replace(rows, table=replace(rows.table, y=np.where(own, 50.0, rows.table.y)))
    after = fitted_in_parts(trial, changed, FitContext(0))
    one, two = medians(before, rows, without=True), medians(after, changed, without=True)
    np.testing.assert_array_equal(one[own], two[own])
    others = rows.is_validation & ~own
    means = after.quantile_functions(
        Query(rows.table.raw, rows.table.inputs, np.zeros(500, dtype=np.int64), np.arange(500))
    ).mean(axis=1)
    assert (means[others] > 10.0).any()


def test_parts_keep_groups_together(rows):
    group = np.arange(500) // 7
    grouped = replace(rows, table=replace(rows.table, group=group), is_validation=group % 3 == 0)
    fold_of = fitted_in_parts(ForestExpert.fit(grouped, FitContext(0)), grouped, FitContext(0)).fold_of
    assert all(len(set(fold_of[group == own])) == 1 for own in range(72))
    assert set(fold_of) == set(range(ForestExpert.n_parts + 1))
    assert set(fold_of[~grouped.is_validation]) == {ForestExpert.n_parts}


def test_models_keep_only_what_predicts_new_rows(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (1200, 6))
    y = np.floor(8.0 * x[:, 0]) + 0.01 * rng.normal(size=1200)
    quick = USNRTRegressor(hidden=(16,), max_epochs=10, random_state=0, n_jobs=1)
    model = quick.fit(x, y)
    further = [expert for member in model.model_.members for expert in member.further]
    assert further
    assert not any(isinstance(expert, CrossFitted) for expert in further)
    resumed = USNRTRegressor(hidden=(16,), max_epochs=10, random_state=0, n_jobs=1).fit(x, y, checkpoint=tmp_path / "c")
    np.testing.assert_array_equal(model.predict_interval(x), resumed.predict_interval(x))
    model.save(tmp_path / "m.usnrt")
    np.testing.assert_array_equal(load(tmp_path / "m.usnrt").predict_interval(x), model.predict_interval(x))
