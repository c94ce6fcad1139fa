"""The compiled sort equals numpy's stable one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from usnrt.tree._sorting import argsort


@settings(deadline=None, max_examples=100)
@given(
    values=npst.arrays(np.float64, st.integers(0, 40), elements=st.floats(width=64) | st.sampled_from([0.0, -0.0, 1.0]))
)
def test_any_numbers(values):
    order = argsort(values)
    assert order.dtype == np.int64
    np.testing.assert_array_equal(order, np.argsort(values, kind="stable"))


@pytest.mark.parametrize("n", [1, 2, 1000, 5000])
def test_many_numbers_few_numbers_and_specials(n):
    rng = np.random.default_rng(n)
    values = rng.normal(size=n) * 10.0 ** rng.integers(-300, 300, size=n)
    values[::7], values[1::50], values[2::50], values[3::9] = np.nan, np.inf, -np.inf, -0.0
    values[4::11] = -np.nan
    for column in (values, rng.integers(0, 5, n).astype(float), np.full(n, 2.5), np.full(n, np.nan)):
        before = column.copy()
        np.testing.assert_array_equal(argsort(column), np.argsort(column, kind="stable"))
        np.testing.assert_array_equal(column, before)
