"""Copies merged into one row of their total weight, in an order that depends on contents only."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import usnrt.tables.rows
from usnrt.tables.rows import counted_weight, merged_rows

cells = st.sampled_from([0.0, -0.0, 1.0, 2.5, -3.0, 1e300, np.nan])
tables = st.integers(1, 3).flatmap(
    lambda d: st.lists(
        st.tuples(st.lists(cells, min_size=d, max_size=d), st.sampled_from([0.0, 1.0, 7.0]), st.integers(0, 3)),
        min_size=1,
        max_size=25,
    )
)


def as_arrays(table):
    raw, y, weight = zip(*table)
    return np.array(raw), np.array(y), np.array(weight, dtype=float)


def key(raw_row, target):
    """What two equal rows share: NaN equals NaN, and -0.0 equals 0.0."""
    return (*("missing" if np.isnan(x) else x + 0.0 for x in raw_row), target)


def ordered(raw, y, weight):
    """The result as a list, in its order."""
    rows, kept = merged_rows(raw, y, weight)
    return [(key(raw[row], y[row]), w) for row, w in zip(rows, kept)]


@settings(deadline=None, max_examples=150)
@given(tables)
def test_equal_rows_become_one_of_their_total_weight(table):
    raw, y, weight = as_arrays(table)
    expected = Counter()
    for raw_row, target, w in zip(raw, y, weight):
        expected[key(raw_row, target)] += w
    found = ordered(raw, y, weight)
    assert dict(found) == dict(+expected)
    assert len(found) == len(+expected)


@settings(deadline=None, max_examples=100)
@given(tables, st.randoms(use_true_random=False))
def test_the_order_of_the_result_depends_on_contents_only(table, random):
    before = ordered(*as_arrays(table))
    shuffled = list(table)
    random.shuffle(shuffled)
    assert ordered(*as_arrays(shuffled)) == before


@settings(deadline=None, max_examples=50)
@given(tables)
def test_a_weight_is_a_repetition(table):
    repeated = [(raw, y, 1) for raw, y, weight in table for _ in range(weight)]
    if repeated:
        assert ordered(*as_arrays(repeated)) == ordered(*as_arrays(table))


def test_weights_that_are_not_whole_are_summed_in_an_order_of_their_own():
    rng = np.random.default_rng(0)
    raw, y, weight = np.zeros((40, 1)), np.zeros(40), rng.uniform(size=40)
    totals = {merged_rows(raw, y, weight[rng.permutation(40)])[1].item() for _ in range(20)}
    assert len(totals) == 1
    assert totals.pop() == pytest.approx(weight.sum(), rel=1e-14)


def test_rows_whose_hashes_collide_stay_apart(monkeypatch):
    monkeypatch.setattr(usnrt.tables.rows, "row_hashes", lambda raw, y, apart: np.zeros(len(y), dtype=np.uint64))
    rows, weight = merged_rows(np.array([[1.0], [2.0], [1.0]]), np.array([5.0, 6.0, 5.0]), np.ones(3))
    assert dict(zip(rows.tolist(), weight.tolist())) == {0: 2.0, 1: 1.0}
    rows, weight = merged_rows(np.ones((3, 1)), np.ones(3), np.ones(3), apart=np.array([7.0, 7.0, 8.0]))
    assert dict(zip(rows.tolist(), weight.tolist())) == {0: 2.0, 2: 1.0}


def test_whole_weights_count_as_they_are_and_others_average_one():
    np.testing.assert_array_equal(counted_weight(np.array([0.0, 1.0, 5.0])), [0, 1, 5])
    np.testing.assert_allclose(counted_weight(np.array([0.0, 0.5, 1.0])), [0, 2 / 3, 4 / 3])


def test_the_scale_of_weights_does_not_depend_on_the_order_of_the_rows():
    """Found by the soak: the mean of permuted weights differs in its last bits, hence the whole fit."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        weight, order = 10.0 ** rng.uniform(-8, 8, 326), rng.permutation(326)
        np.testing.assert_array_equal(counted_weight(weight)[order], counted_weight(weight[order]))
