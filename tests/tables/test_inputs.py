"""Scaling, one-hot codes and indicators."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from usnrt.tables import NetworkInputs, TableEncoder
from usnrt.tables.inputs import MAX_LEVELS

NAN = float("nan")


def fitted(X, weight=None, **kwargs):
    encoder = TableEncoder().fit(X, **kwargs)
    return encoder, NetworkInputs().fit(encoder.transform(X), encoder.columns_, weight)


def test_numbers_have_mean_0_and_std_1():
    X = np.random.default_rng(0).normal(5, 3, (1000, 4))
    encoder, inputs = fitted(X)
    result = inputs.transform(encoder.transform(X))
    assert result.dtype == np.float32
    assert result.flags.c_contiguous
    np.testing.assert_allclose(result.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(result.std(0), 1, atol=1e-6)
    assert inputs.names_ == ["x0", "x1", "x2", "x3"]
    assert inputs.source_.tolist() == [0, 1, 2, 3]


def test_weights_are_repetitions():
    X = np.array([[1.0], [2.0], [7.0]])
    _, weighted = fitted(X, [1, 2, 3])
    _, repeated = fitted(X.repeat([1, 2, 3], axis=0))
    np.testing.assert_allclose(weighted.mean_, repeated.mean_, rtol=1e-15)
    np.testing.assert_allclose(weighted.factor_, repeated.factor_, rtol=1e-15)


@pytest.mark.parametrize("value", [0.0, 0.1, -3e300, 1e-320])
def test_constant_columns_become_zero_whatever_comes_later(value):
    encoder, inputs = fitted(np.full((7, 1), value))
    assert inputs.transform(encoder.transform([[value], [5.0], [NAN], [-1e308]])).ravel().tolist() == [0, 0, 0, 0]


def test_missing_values_are_the_mean_with_an_indicator():
    X = pd.DataFrame({"a": [1.0, 3.0, None], "b": [1.0, 2.0, 3.0], "c": ["u", None, "v"], "e": [None] * 3})
    encoder, inputs = fitted(X)
    assert inputs.names_ == ["a", "a missing", "b", "c = u", "c = v", "c missing", "e", "e missing"]
    assert inputs.source_.tolist() == [0, 0, 1, 2, 2, 2, 3, 3]
    result = inputs.transform(encoder.transform(X))
    assert result[:, [0, 1, 3, 4, 5, 6, 7]].tolist() == [
        [-1, 0, 1, 0, 0, 0, 1],
        [1, 0, 0, 0, 1, 0, 1],
        [0, 1, 0, 1, 0, 0, 1],
    ]


def test_what_training_did_not_see():
    X = pd.DataFrame({"a": [1.0, 3.0], "c": ["u", "v"]})
    encoder, inputs = fitted(X)
    later = pd.DataFrame({"a": [None, 5.0], "c": ["w", None]})
    assert inputs.transform(encoder.transform(later)).tolist() == [[0, 0, 0], [3, 0, 0]]


def test_rare_categories_of_a_long_list_share_a_column():
    labels = [f"c{i:03d}" for i in range(150) for _ in range(2 if i % 2 else 1)]
    encoder, inputs = fitted(pd.DataFrame({"c": labels}))
    assert inputs.n_outputs_ == MAX_LEVELS
    assert inputs.names_[-1] == "c = (other)"
    result = inputs.transform(encoder.transform(pd.DataFrame({"c": labels})))
    assert (result.sum(1) == 1).all()
    assert all(f"c = c{i:03d}" in inputs.names_ for i in range(1, 150, 2))  # all frequent ones have their own


def test_far_values_stay_finite():
    encoder, inputs = fitted(np.array([[0.0], [1e-300], [2e-300]]))
    result = inputs.transform(encoder.transform([[1e308], [-1e308]]))
    assert result.ravel().tolist() == [1e6, -1e6]


def test_a_constant_column_of_the_largest_numbers_scales_to_0():
    """New values are infinitely far from its mean in floating point."""
    encoder, inputs = fitted(np.array([[-1.79e308], [0.0]]), [1.0, 0.0])
    assert inputs.transform(encoder.transform([[-1.79e308], [1e307]])).ravel().tolist() == [0.0, 0.0]


numbers = st.floats(allow_infinity=False, allow_nan=True)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=10), st.data())
def test_never_nan_never_infinite(rows, data):
    weight = data.draw(st.lists(st.floats(0, 1e6), min_size=len(rows), max_size=len(rows)))
    X = np.array(rows)
    encoder, inputs = fitted(X, weight)
    assert np.isfinite(inputs.transform(encoder.transform(X))).all()


def test_a_skewed_column_is_as_if_it_had_not_been_transformed():
    x = np.random.default_rng(0).normal(size=(2000, 1))
    encoder, inputs = fitted(np.exp(3 * x))
    assert len(inputs.knots_[0]) == 25
    result = inputs.transform(encoder.transform(np.exp(3 * x))).ravel()
    assert np.abs(result - x.ravel())[np.abs(x.ravel()) < 2.5].max() < 0.2
    assert (np.diff(result[np.argsort(x.ravel())]) >= 0).all()
    assert np.abs(result).max() < 5


def test_only_the_distinct_values_decide_whether_a_column_is_skewed():
    rng = np.random.default_rng(0)
    mostly_zero = np.where(rng.random(2000) < 0.9, 0.0, rng.random(2000))
    X = np.column_stack([mostly_zero, rng.normal(size=2000), rng.exponential(size=2000), np.exp(3 * mostly_zero)])
    assert [len(knots) for knots in fitted(X)[1].knots_] == [0, 0, 0, 0]
    assert len(fitted(X**9)[1].knots_[2]) > 0


def test_ranks_do_not_depend_on_weights_and_go_on_beyond_the_training_rows():
    X = np.exp(3 * np.random.default_rng(0).normal(size=(500, 1)))
    repetitions = np.random.default_rng(1).integers(1, 4, 500)
    encoder, weighted = fitted(X, repetitions)
    _, repeated = fitted(X.repeat(repetitions, axis=0))
    np.testing.assert_array_equal(weighted.knots_[0], repeated.knots_[0])
    inside, beyond = X.max(), X.max() * 2
    result = weighted.transform(encoder.transform([[inside], [beyond], [1e308], [-1e308], [NAN]])).ravel()
    assert result[0] < result[1] < result[2]
    assert result[3:].tolist() == [-1e6, 0]


def test_the_paper_scales_skewed_columns():
    X = np.exp(3 * np.random.default_rng(0).normal(size=(500, 1)))
    encoder = TableEncoder().fit(X)
    plain = NetworkInputs().fit(encoder.transform(X), encoder.columns_, ranks_if_skewed=False)
    assert len(plain.knots_[0]) == 0
