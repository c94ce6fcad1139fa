"""Folds: which rows each network of a model is not trained on."""

from dataclasses import replace

import numpy as np
import pytest

from usnrt import USNRTEnsemble, USNRTRegressor
from usnrt.model.roles import MAX_ROWS_TO_CROSS_FIT, N_FOLDS, draw_folds, draw_validation_rows
from usnrt.tables.training import DistinctRows


def draw(n, n_members=None, time=None, group=None, **parameters):
    rows = DistinctRows(np.zeros((n, 1)), np.zeros(n), np.ones(n), np.arange(n), time, group, group is not None)
    recipe = USNRTRegressor(**parameters)._model_recipe().tree
    return draw_validation_rows(rows, recipe, n_members, np.random.default_rng(0))


@pytest.mark.parametrize("n_folds", [2, 3, 5, 8])
def test_every_row_is_held_out_and_every_row_trains(n_folds):
    held_out = draw_folds(1003, n_folds, np.random.default_rng(1))
    times = held_out.sum(axis=0)
    assert set(times) == {1, 2}
    assert np.mean(times == 2) == pytest.approx(0.25, abs=0.001)
    if n_folds > 2:
        assert (~held_out).any(axis=0).all()
    assert np.ptp(held_out.sum(axis=1)) <= n_folds


def test_small_tables_are_cross_fitted_and_large_ones_are_not():
    small, large = draw(MAX_ROWS_TO_CROSS_FIT), draw(MAX_ROWS_TO_CROSS_FIT + 1)
    assert small.shape == (N_FOLDS, MAX_ROWS_TO_CROSS_FIT)
    assert small.any(axis=0).all()
    assert large.shape == (1, MAX_ROWS_TO_CROSS_FIT + 1)
    assert large.mean() == pytest.approx(0.2, abs=1e-3)


def test_the_number_of_folds_can_be_given():
    assert len(draw(100, validation=3)) == 3
    assert len(draw(100_000, validation=3)) == 3
    np.testing.assert_array_equal(draw(100, validation=0.3).sum(axis=1), [30])
    with pytest.raises(ValueError, match="^X must have at least validation=9 rows, got 8"):
        draw(8, validation=9)
    with pytest.raises(ValueError, match="^groups must have at least validation=5 different labels, got 4"):
        draw(40, group=np.arange(40) % 4, validation=5)


def test_members_of_an_ensemble_repeat_the_folds():
    held_out = draw(400, n_members=3)
    np.testing.assert_array_equal(held_out.sum(axis=0), np.full(400, 3))
    for repeat in np.split(held_out, 3):
        assert len(repeat) == N_FOLDS
        np.testing.assert_array_equal(repeat.sum(axis=0), 1)
    assert len(draw(400, n_members=3, validation=1)) == 3
    assert len(draw(MAX_ROWS_TO_CROSS_FIT + 1, n_members=3)) == 3


def test_groups_are_held_out_whole():
    group = np.random.default_rng(0).integers(60, size=600)
    held_out = draw(600, group=group)
    assert len(held_out) == N_FOLDS
    for label in range(60):
        assert (held_out[:, group == label] == held_out[:, [np.argmax(group == label)]]).all()
    assert len(draw(600, group=group % 10)) == 1, "too few groups for folds"


@pytest.mark.parametrize("n_members", [None, 4])
def test_the_latest_rows_are_held_out_by_all(n_members):
    held_out = draw(100, n_members, time=np.arange(100.0))
    np.testing.assert_array_equal(held_out, np.tile(np.arange(100) >= 80, (n_members or 1, 1)))


@pytest.mark.parametrize("n", [1, 4, 5, 19])
def test_a_few_rows_have_no_folds(n):
    for n_members in (None, 5):
        assert (draw(n, n_members).sum(axis=1) == (0 if n < 5 else round(0.2 * n))).all()


def test_folds_that_contradict_other_parameters():
    X, y = np.arange(40.0).reshape(20, 2), np.arange(20.0)
    with pytest.raises(ValueError, match="^validation applies to time_column=None only, got 3 with time_column=0"):
        USNRTRegressor(validation=3, time_column=0).fit(X, y)
    recipe = USNRTEnsemble(USNRTRegressor(validation=2))._model_recipe()
    assert replace(recipe.tree, n_folds=None) == USNRTEnsemble()._model_recipe().tree
