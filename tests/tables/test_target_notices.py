"""Warnings about targets that are probably not what was meant, and none about ordinary ones."""

import warnings

import numpy as np
import pytest

from usnrt.paper.baselines import ExtraTreesVarianceRegressor
from usnrt.tables.target_notices import _determined, _total, _two_values
from usnrt.utils.notices import SuspiciousTargetWarning


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, 20 + X[:, 0] + rng.normal(size=n)


def fit(X, y):
    return ExtraTreesVarianceRegressor(n_estimators=2, random_state=0).fit(X, y)


def notices(X, y):
    with pytest.warns(SuspiciousTargetWarning) as caught:
        fit(X, y)
    assert caught[0].filename == __file__
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("is_last", [True, False])
def test_a_row_of_totals(is_last):
    X, y = table()
    at = len(y) if is_last else 0
    X, y = np.insert(X, at, 0.0, axis=0), np.insert(y, at, np.round(y.sum()))
    (message,) = notices(X, y)
    assert message.startswith(f"the target of row {at}, ")
    assert message.endswith(" is the sum of all others: leave the row out if it holds totals")


def test_one_target_a_thousand_times_the_others():
    X, y = table()
    y[17] = 5e4
    (message,) = notices(X, y)
    assert message.startswith("the target of row 17, 50000, is 2,")
    assert message.endswith(" times the next largest: leave the row out if it is an error or a total")


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 1), (1, 2)])
def test_a_target_of_two_values(low, high):
    X, y = table()
    (message,) = notices(X, np.where(y > 20, low, high))
    assert message == f"the target has two values only, {low} and {high}: a classifier predicts their probabilities"


@pytest.mark.parametrize("change", [lambda y: 1.2 * y - 3, lambda y: -np.log(y), lambda y: np.exp(y), lambda y: y])
def test_a_column_that_determines_the_target(change):
    X, y = table()
    X[:, 1] = change(y)
    X[:10, 1] = np.nan
    (message,) = notices(X, y)
    assert message == ("column 'x1' determines the target exactly: leave out what is not known before the target")


def test_a_column_determines_a_rounded_target():
    X, y = table()
    X[:, 2] = y
    assert "column 'x2' determines" in notices(X, np.round(y))[0]
    X[:, 1] = y
    assert "columns 'x1', 'x2' determine" in notices(X, np.round(y))[0]


def test_a_column_that_misses_one_row_determines_nothing():
    X, y = table()
    X[:, 1] = y
    X[-1, 1] = y.mean()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(X, y)


HEAVY = {
    "lognormal(1.5)": lambda rng, n: rng.lognormal(0, 1.5, n),
    "t2": lambda rng, n: rng.standard_t(2, n),
    "counts": lambda rng, n: rng.poisson(3, n).astype(float),
    "one event": lambda rng, n: (np.arange(n) == 7) * 3.0 + (np.arange(n) == 5),
    "constant": lambda rng, n: np.ones(n),
}


@pytest.mark.parametrize("kind", HEAVY)
def test_ordinary_and_heavy_tailed_targets_give_no_notice(kind):
    """A chance of one in a million each, so that 400 tables are silent."""
    rng = np.random.default_rng(1)
    columns = fit(*table(30)).columns_
    for _ in range(400):
        n = int(rng.choice([20, 30, 100, 1000]))
        X, y = rng.normal(size=(n, 3)).round(1), HEAVY[kind](rng, n)
        assert _total(y, np.arange(n)) + _two_values(y) + _determined(y, X, columns) == ""
