"""Standard errors of paired differences: exact formulas, clusters, folds, and honesty over repetitions."""

import numpy as np
import pytest

from usnrt.metrics.differences import paired_difference

ROWS = np.arange(200)
ONE = np.zeros(200, dtype=int)


def test_the_error_over_rows_is_that_of_the_mean():
    rng = np.random.default_rng(0)
    loss, other = rng.exponential(size=(2, 200))
    found = paired_difference(loss, other, ROWS, ONE, 0.25)
    assert found.value == pytest.approx(np.mean(loss - other))
    assert found.std_error_rows == pytest.approx(np.std(loss - other, ddof=1) / np.sqrt(200))
    assert np.isnan(found.std_error_folds)
    assert found.std_error == found.std_error_rows


def test_copies_of_rows_are_no_evidence():
    rng = np.random.default_rng(0)
    loss, other = rng.exponential(size=(2, 200))
    once = paired_difference(loss, other, ROWS, ONE, 0.25)
    thrice = paired_difference(*(np.repeat(x, 3) for x in (loss, other, ROWS, ONE)), 0.25)
    assert thrice.std_error == pytest.approx(once.std_error)


def test_the_error_over_folds_is_the_corrected_one():
    rng = np.random.default_rng(0)
    fold = np.repeat(np.arange(4), 50)
    loss = rng.normal(size=200) * 0.01 + np.array([0.0, 1.0, 2.0, 3.0])[fold]
    found = paired_difference(loss, np.zeros(200), ROWS, fold, 1 / 3)
    means = loss.reshape(4, 50).mean(axis=1)
    assert found.std_error_folds == pytest.approx(np.sqrt((1 / 4 + 1 / 3) * means.var(ddof=1)))
    assert found.std_error == found.std_error_folds > found.std_error_rows
    assert found.tie  # 1.5 is less than 3.18 times 0.99


def test_the_difference_of_roots_of_means():
    rng = np.random.default_rng(0)
    loss, other = rng.exponential(size=(2, 200)) ** 2
    found = paired_difference(loss, other, ROWS, ONE, 0.25, is_root=True)
    assert found.value == pytest.approx(np.sqrt(loss.mean()) - np.sqrt(other.mean()))
    draws = [np.sqrt(loss[rows].mean()) - np.sqrt(other[rows].mean()) for rows in rng.integers(0, 200, (2000, 200))]
    assert found.std_error == pytest.approx(np.std(draws), rel=0.2)


def test_equal_losses_are_a_tie_even_if_infinite():
    loss = np.array([1.0, np.inf])
    found = paired_difference(loss, loss, ROWS[:2], ONE[:2], 0.25)
    assert (found.value, found.std_error, found.tie) == (0.0, 0.0, True)
    worse = paired_difference(loss, np.array([1.0, 2.0]), ROWS[:2], ONE[:2], 0.25)
    assert worse.value == np.inf
    assert not worse.tie


@pytest.mark.parametrize("size", [1, 10], ids=["independent", "groups of ten"])
def test_equal_models_are_called_different_in_five_percent(size):
    """Losses with the same expectation; rows of a group share most of their error."""
    rng = np.random.default_rng(0)
    cluster, trials, wrong = np.repeat(np.arange(300 // size), size), 800, 0
    for _ in range(trials):
        loss, other = (rng.normal(size=300 // size)[cluster] + 0.3 * rng.normal(size=300) for _ in range(2))
        wrong += not paired_difference(loss, other, cluster, np.zeros(300, dtype=int), 0.25).tie
    # 5 % with a standard error of 0.8 %; few clusters (30) cost a little more than 1 %.
    assert 0.025 < wrong / trials < 0.09
