"""Which inputs are left out: irrelevant ones, if they are many."""

from dataclasses import replace

import numpy as np
import pytest

from usnrt.tables.training import TrainingTable, TreeRows
from usnrt.tree.screening import relevant_inputs
from usnrt.utils.context import FitContext

N = 1500


def rows_of(x, y, seed=0):
    """Rows of standardised numbers, a fifth of which validate."""
    is_validation = np.random.default_rng(seed).random(len(y)) < 0.2
    scaled = ((x - x.mean(0)) / x.std(0)).astype(np.float32)
    table = TrainingTable(x, scaled, (y - y.mean()) / y.std(), np.ones(len(y)))
    return TreeRows(table, np.arange(x.shape[1]), np.zeros(x.shape[1], dtype=int), is_validation)


def planted(n_more, seed=0, n=N):
    rng = np.random.default_rng(seed)
    x = rng.random((n, 3 + n_more))
    y = np.sin(6 * x[:, 0]) + 2 * x[:, 1] + 1.5 * x[:, 0] * x[:, 2] + (0.1 + 0.5 * x[:, 1]) * rng.normal(size=n)
    return rows_of(x, y, seed)


@pytest.mark.parametrize("n_more", [6, 20, 100])
def test_irrelevant_columns_are_left_out(n_more):
    kept = relevant_inputs(planted(n_more), FitContext(0))
    assert kept[:3].tolist() == [0, 1, 2]
    assert len(kept) <= 6


def twelve_useful(noise, seed):
    rng = np.random.default_rng(seed)
    x = rng.random((N, 12))
    y = np.sin(3 * x + np.arange(12)) @ np.linspace(1, 2, 12) + 2 * x[:, 0] * x[:, 5] + noise * rng.normal(size=N)
    return rows_of(x, y)


@pytest.mark.parametrize(("noise", "most_lost"), [(0.0, 0), (2.0, 0), (5.0, 1)])
def test_twelve_useful_columns_stay(noise, most_lost):
    """Of 12 tables with much noise one may lose some; with forests of scikit-learn 4 did."""
    n_kept = [len(relevant_inputs(twelve_useful(noise, seed), FitContext(seed))) for seed in range(12)]
    assert sum(kept < 12 for kept in n_kept) <= most_lost


def test_a_column_of_which_only_the_noise_depends_stays():
    rng = np.random.default_rng(0)
    x = rng.random((N, 22))
    y = 2 * x[:, 0] + (0.2 + 0.4 * x[:, 1]) * rng.normal(size=N)
    kept = relevant_inputs(rows_of(x, y), FitContext(0))
    assert kept[:2].tolist() == [0, 1]
    assert len(kept) <= 5


def test_columns_that_tell_only_together_stay():
    rng = np.random.default_rng(0)
    x = rng.random((N, 24))
    y = 2 * x[:, 0] + np.where((x[:, 2] > 0.5) == (x[:, 3] > 0.5), 1, -1) + 0.3 * rng.normal(size=N)
    assert {0, 2, 3} <= set(relevant_inputs(rows_of(x, y), FitContext(0)).tolist())


def test_few_and_many_rows_keep_all():
    for n in (600, 13_000):
        assert len(relevant_inputs(planted(20, n=n), FitContext(0))) == 23


def test_inputs_that_are_no_numbers_stay():
    n_kept = []
    for seed in range(6):
        kept = relevant_inputs(replace(planted(20, seed), numeric=np.arange(10)), FitContext(seed)).tolist()
        assert kept[:3] == [0, 1, 2]
        assert kept[-13:] == list(range(10, 23))
        n_kept.append(len(kept))
    # of seven irrelevant numbers; now and then they look like weak ones by chance
    assert np.sort(n_kept)[:5].max() <= 17


def test_validation_rows_and_threads_do_not_matter():
    rows = planted(20)
    expected = relevant_inputs(rows, FitContext(0)).tolist()
    y = rows.table.y.copy()
    y[rows.is_validation] = 1e3 * rows.table.inputs[rows.is_validation, 9]
    other = replace(rows, table=replace(rows.table, y=y))
    assert relevant_inputs(other, FitContext(0, n_threads=2)).tolist() == expected
