"""What the encoder remembers of fit, and what it does with tables that differ from it."""

import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from usnrt.tables import TableEncoder

NAN = float("nan")


def exactly(message):
    return f"^{re.escape(message)}$"


ONE_OF = "categorical_features must be None, 'from_dtype', names, positions or a mask, got "
TRAIN = pd.DataFrame({"n": [1.0, 2.0], "s": ["a", "b"], "d": pd.to_datetime(["2024-01-01", "2024-01-15"])})


def test_unseen_and_missing_categories():
    encoder = TableEncoder().fit(TRAIN)
    encoded = encoder.transform(TRAIN.assign(s=["c", None]))
    np.testing.assert_array_equal(encoded[:, 1], [-1, NAN])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": ["x", "y"]}, "column 'n' must hold numbers as in fit, but it holds text"),
        ({"s": [1.0, 2.0]}, "column 's' must hold text as in fit, but it holds numbers"),
        ({"d": [1.0, 2.0]}, "column 'd' must hold dates as in fit, but it holds numbers"),
        ({"n": pd.to_datetime(["2024-01-01"] * 2)}, "column 'n' must hold numbers as in fit, but it holds dates"),
    ],
)
def test_changed_types_are_caught_by_name(changes, message):
    with pytest.raises(ValueError, match=exactly(message)):
        TableEncoder().fit(TRAIN).transform(TRAIN.assign(**changes))


def test_a_column_without_a_value_fits_any_type_at_prediction():
    encoder = TableEncoder().fit(TRAIN)
    nothing = pd.DataFrame({"n": [None], "s": [None], "d": [None]})
    np.testing.assert_array_equal(encoder.transform(nothing), [[NAN] * 3])


def test_a_column_without_a_value_in_training_stays_missing():
    encoder = TableEncoder().fit(pd.DataFrame({"a": [None, None], "b": [1, 2]}))
    assert encoder.source_types_ == ["empty", "number"]
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"a": ["x"], "b": [1]})), [[NAN, 1]])
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"a": [3.0], "b": [1]})), [[NAN, 1]])


@pytest.mark.parametrize(
    "spec", [["code"], [1], [-1], [False, True], np.array([False, True]), ("code",), np.array([1])]
)
def test_integer_codes_become_categories(spec):
    frame = pl.DataFrame({"n": [1, 2, 3], "code": [10, None, 2]})
    encoder = TableEncoder().fit(frame, categorical_features=spec)
    assert encoder.columns_[1].categories == ("2", "10")
    assert encoder.columns_[1].codes == (2.0, 10.0)
    np.testing.assert_array_equal(encoder.transform(frame)[:, 1], [1, NAN, 0])
    other = encoder.transform(pl.DataFrame({"n": [0, 0, 0], "code": [3, 11, -5]}))
    assert other[:, 1].tolist() == [-1, -1, -1]


def test_booleans_called_categorical_keep_readable_labels():
    frame = pl.DataFrame({"b": [True, False]})
    assert TableEncoder().fit(frame, ["b"]).columns_[0].categories == ("False", "True")


@pytest.mark.parametrize("spec", [None, "from_dtype", []])
def test_nothing_named(spec):
    assert TableEncoder().fit(np.ones((2, 2)), spec).n_categories_.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (["z"], "categorical_features must name a column of X, but 'z' is not one"),
        ([7], "categorical_features must be a position below 3, got 7"),
        ([True], "categorical_features as a mask must have 3 entries, got 1"),
        ("n", f"{ONE_OF}'n'"),
        (3, f"{ONE_OF}3"),
        ([1.5], "categorical_features must hold names or positions, got 1.5"),
        (["d"], "categorical_features must name numbers or text, but 'd' holds dates"),
    ],
)
def test_wrong_categorical_features(spec, message):
    encoder = TableEncoder()
    with pytest.raises(ValueError, match=exactly(message)):
        encoder.fit(TRAIN, categorical_features=spec)
    assert vars(encoder) == {}


def test_number_of_columns():
    message = "X has 2 features, but TableEncoder is expecting 3 features as input."
    with pytest.raises(ValueError, match=exactly(message)):
        TableEncoder().fit(TRAIN).transform(np.ones((1, 2)))


def test_an_array_of_numbers_meets_an_encoder_with_codes():
    X = np.array([[1.0, 5.0], [2.0, 7.0]])
    encoder = TableEncoder().fit(X, [1])
    assert encoder.transform(np.array([[3, 7], [4, 6]])).tolist() == [[3, 1], [4, -1]]


cells = st.one_of(
    st.none(), st.floats(allow_infinity=False), st.integers(-(2**70), 2**70), st.text(max_size=3), st.booleans()
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=8))
def test_any_cells_give_codes_in_range_and_survive_pickling(rows):
    X = np.empty((len(rows), 2), dtype=object)
    X[:] = rows
    encoder = TableEncoder().fit(X)
    encoded = encoder.transform(X)
    for values, column in zip(encoded.T, encoder.columns_):
        assert np.isnan(values).any() == column.has_missing
        if column.is_categorical:
            present = values[~np.isnan(values)]
            assert set(present) == set(range(column.n_categories))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(encoder)).transform(X), encoded)
