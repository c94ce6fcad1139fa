"""Weights as repetitions, and an order that depends on contents only."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from usnrt.rows import MAX_GROWTH, counted_weight, ordered_rows

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
    rows, kept = ordered_rows(raw, y, weight)
    return [(key(raw[row], y[row]), w) for row, w in zip(rows, kept)]


@settings(deadline=None, max_examples=150)
@given(tables)
def test_rows_are_repeated_as_their_weights_say(table):
    raw, y, weight = as_arrays(table)
    expected = Counter()
    for raw_row, target, w in zip(raw, y, weight):
        expected[key(raw_row, target)] += int(w)
    found = ordered(raw, y, weight)
    assert Counter(row for row, _ in found) == +expected
    assert all(w == 1.0 for _, w in found)


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


def test_equal_rows_stay_two_rows():
    """A row held out may equal one that trains, as a new row may."""
    rows, weight = ordered_rows(np.ones((4, 1)), np.ones(4), np.ones(4))
    assert sorted(rows) == [0, 1, 2, 3]
    assert weight.tolist() == [1.0] * 4


def test_weights_that_are_not_whole_or_too_large_stay_weights():
    raw, y = np.arange(3.0)[:, None], np.zeros(3)
    rows, weight = ordered_rows(raw, y, np.array([0.5, 1.5, 0.0]))
    assert dict(zip(rows.tolist(), weight.tolist())) == {0: 0.5, 1: 1.5}
    rows, weight = ordered_rows(raw, y, np.array([1.0, 3.0 * MAX_GROWTH, 1.0]))
    assert dict(zip(rows.tolist(), weight.tolist())) == {0: 1.0, 1: 3.0 * MAX_GROWTH, 2: 1.0}


def test_whole_weights_count_as_they_are_and_others_average_one():
    np.testing.assert_array_equal(counted_weight(np.array([0.0, 1.0, 5.0])), [0, 1, 5])
    np.testing.assert_allclose(counted_weight(np.array([0.0, 0.5, 1.0])), [0, 2 / 3, 4 / 3])
