"""Columns lined up for the search, thresholds between values, and scaling."""

from math import inf

import numpy as np
import pytest

from usnrt.tree.split_column import SplitColumn, midpoint, standardise


def test_a_column_lines_up_missing_values_on_either_side():
    right, left = SplitColumn(np.array([2.0, np.nan, 1.0, 2.0])).arrangements()
    assert (right.missing_left, left.missing_left) == (False, True)
    np.testing.assert_array_equal(right.values, [1, 2, 2, np.nan])
    np.testing.assert_array_equal(right.allowed, [True, False, True])
    np.testing.assert_array_equal(left.values, [np.nan, 1, 2, 2])
    np.testing.assert_array_equal(left.allowed, [False, True, False])
    assert (right.threshold(0), right.threshold(2), left.threshold(1)) == (1.5, inf, 1.5)
    np.testing.assert_array_equal(right.admissible(np.ones(4), 2), [])
    np.testing.assert_array_equal(left.admissible(np.ones(4), 2), [1])
    assert len(list(SplitColumn(np.array([1.0, 2.0])).arrangements())) == 1
    assert list(SplitColumn(np.array([np.nan, np.nan])).arrangements()) == []


@pytest.mark.parametrize("scale", [5e-324, 1e-308, 1e-150, 1.0, 1e150, 1.7e308])
def test_standardise_any_scale(scale):
    values = np.array([-1.0, 0, 0, 1]) * scale
    expected = np.array([-1, 0, 0, 1]) * np.sqrt(2)
    np.testing.assert_allclose(standardise(values, np.ones(4)), expected, rtol=1e-12)


def test_standardise_weighs_rows():
    values = standardise(np.array([0.0, 3.0]), np.array([2.0, 1.0]))
    np.testing.assert_allclose(values, [-1 / np.sqrt(2), np.sqrt(2)], rtol=1e-12)
    np.testing.assert_array_equal(standardise(np.zeros(3), np.ones(3)), np.zeros(3))


def test_midpoint_is_below_the_upper_value():
    for low, high in [(0.1, 0.2), (1.0, np.nextafter(1, 2)), (-inf, 0.0), (1e308, 1.7e308), (0.0, 5e-324)]:
        assert low <= midpoint(low, high) < high
