"""Equal rows merged, weights as repetitions, and an order that depends on contents only."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from usnrt import rows as rows_module
from usnrt.rows import counted_weight, merge_equal_rows

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


def merged(raw, y, weight):
    """The result of merging as a list, in its order."""
    rows, total = merge_equal_rows(raw, y, weight)
    return [(key(raw[row], y[row]), w) for row, w in zip(rows, total)]


@settings(deadline=None, max_examples=150)
@given(tables)
def test_merging_adds_up_the_weights_of_equal_rows(table):
    raw, y, weight = as_arrays(table)
    expected = {}
    for raw_row, target, w in zip(raw, y, weight):
        if w > 0:
            expected[key(raw_row, target)] = expected.get(key(raw_row, target), 0.0) + w
    found = merged(raw, y, weight)
    assert dict(found) == expected
    assert len(found) == len(expected)


@settings(deadline=None, max_examples=100)
@given(tables, st.randoms(use_true_random=False))
def test_the_order_of_the_result_depends_on_contents_only(table, random):
    before = merged(*as_arrays(table))
    shuffled = list(table)
    random.shuffle(shuffled)
    assert merged(*as_arrays(shuffled)) == before


@settings(deadline=None, max_examples=50)
@given(tables)
def test_a_weight_is_a_repetition(table):
    repeated = [(raw, y, 1) for raw, y, weight in table for _ in range(weight)]
    if repeated:
        assert merged(*as_arrays(repeated)) == merged(*as_arrays(table))


def test_rows_whose_hashes_collide_stay_apart(monkeypatch):
    """With one hash for everything, only the look at the cells tells rows apart."""
    monkeypatch.setattr(rows_module, "_hash", lambda values, seed: np.zeros(len(values), dtype=np.uint64))
    raw = np.array([[1.0, np.nan], [1.0, 2.0], [1.0, np.nan]])
    _, weight = merge_equal_rows(raw[:2], np.array([5.0, 6.0]), np.ones(2))
    assert weight.tolist() == [1.0, 1.0]
    _, weight = merge_equal_rows(raw[[0, 2]], np.array([5.0, 5.0]), np.ones(2))
    assert weight.tolist() == [2.0]


def test_no_two_of_many_distinct_rows_collide():
    raw = np.random.default_rng(0).standard_normal((100_000, 2))
    rows, weight = merge_equal_rows(raw, np.zeros(len(raw)), np.ones(len(raw)))
    assert len(rows) == len(raw)
    assert (weight == 1).all()


def test_whole_weights_count_as_they_are_and_others_average_one():
    np.testing.assert_array_equal(counted_weight(np.array([0.0, 1.0, 5.0])), [0, 1, 5])
    np.testing.assert_allclose(counted_weight(np.array([0.0, 0.5, 1.0])), [0, 2 / 3, 4 / 3])
