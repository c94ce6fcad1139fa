"""Experts that learn from all rows in the end predict rows of the table as if they were new."""

import numpy as np
import pytest

from usnrt import USNRTRegressor, load
from usnrt.experts.base import Query
from usnrt.experts.cross_fit import CrossFitted, cross_fitted
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
