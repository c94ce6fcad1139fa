"""Every kind of table and cell that a user may pass, and the sentences for what is refused."""

import datetime as dt
import decimal
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator

from usnrt.tables import TableEncoder, read_table
from usnrt.tables.reading import as_table

NAN = float("nan")
DAY = dt.date(2024, 2, 29)


def exactly(message):
    return f"^{re.escape(message)}$"


def libraries(data):
    """The same columns as a frame of each library."""
    frame = pl.DataFrame(data)
    return [frame, frame.to_arrow(), pd.DataFrame(data), frame.to_arrow().to_pandas(types_mapper=pd.ArrowDtype)]


@pytest.mark.parametrize("frame", libraries({"n": [1, None, 3], "f": [0.5, None, NAN], "b": [True, None, False]}))
def test_numbers_and_booleans_of_every_library(frame):
    encoder = TableEncoder().fit(frame)
    assert [c.kind for c in encoder.columns_] == ["numeric"] * 3
    assert [c.boolean for c in encoder.columns_] == [False, False, True]
    assert [c.has_missing for c in encoder.columns_] == [True] * 3
    np.testing.assert_array_equal(encoder.transform(frame), [[1, 0.5, 1], [NAN, NAN, NAN], [3, NAN, 0]])


@pytest.mark.parametrize("frame", libraries({"s": ["b", None, "a", "b"], "e": ["", "x", "", "x"]}))
def test_text_of_every_library(frame):
    encoder = TableEncoder().fit(frame)
    assert [c.categories for c in encoder.columns_] == [("a", "b"), ("", "x")]
    assert encoder.n_categories_.tolist() == [2, 2]
    np.testing.assert_array_equal(encoder.transform(frame), [[1, 0], [NAN, 1], [0, 0], [1, 1]])


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame({"c": pl.Series(["y", None, "x"], dtype=pl.Categorical)}),
        pl.DataFrame({"c": pl.Series(["y", None, "x"], dtype=pl.Categorical)}).to_arrow(),
        pd.DataFrame({"c": pd.Categorical(["y", None, "x"])}),
        pd.DataFrame({"c": pd.array(["y", None, "x"], dtype="string")}),
        np.array([["y"], [None], ["x"]], dtype=object),
        np.array([["y"], [NAN], ["x"]], dtype=object),
        pa.table({"c": pa.array(["y", None, "x"]).dictionary_encode()}),
    ],
    ids=lambda frame: f"{type(frame).__module__.split('.')[0]}",
)
def test_categories_of_every_library(frame):
    encoder = TableEncoder().fit(frame)
    assert encoder.columns_[0].categories == ("x", "y")
    np.testing.assert_array_equal(encoder.transform(frame), [[1], [NAN], [0]])


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame({"size": pl.Series(["small", "large"], dtype=pl.Enum(["small", "middle", "large"]))}),
        pd.DataFrame({"size": pd.Categorical(["small", "large"], ["small", "middle", "large"], ordered=True)}),
    ],
    ids=["polars", "pandas"],
)
def test_ordered_categories_keep_order_and_drop_unused_levels(frame):
    encoder = TableEncoder().fit(frame)
    assert encoder.columns_[0].categories == ("small", "large")
    assert encoder.transform(frame).ravel().tolist() == [0, 1]


def test_categories_that_are_numbers_or_ranges():
    frame = pd.DataFrame({"code": pd.Categorical([10, 2, 10]), "range": pd.cut([1.0, 2.0, 3.0], 2)})
    encoder = TableEncoder().fit(frame)
    assert encoder.columns_[0].categories == ("2", "10")  # by size, not by alphabet
    assert encoder.columns_[1].categories == ("(0.998, 2.0]", "(2.0, 3.0]")
    assert encoder.transform(frame).tolist() == [[1, 0], [0, 0], [1, 1]]


PARIS = [dt.datetime(2024, 2, 29, 23, 30), None, dt.datetime(2025, 1, 6, 0, 0)]


@pytest.mark.parametrize(
    "frame",
    [
        *libraries({"d": PARIS}),
        pl.DataFrame({"d": PARIS}).with_columns(pl.col("d").dt.replace_time_zone("Europe/Paris")),
        pd.DataFrame({"d": pd.to_datetime(PARIS).tz_localize("Europe/Paris")}),
        pd.DataFrame({"d": pd.Series(PARIS, dtype=object)}),
        np.array(PARIS, dtype="datetime64[s]").reshape(-1, 1),
        np.array([[v] for v in PARIS], dtype=object),
    ],
)
def test_dates_become_the_calendar_parts_that_differ(frame):
    encoder = TableEncoder().fit(frame)
    source = encoder.source_names_[0]
    parts = ["year", "month", "day", "weekday", "hour", "minute"]
    assert [c.name for c in encoder.columns_] == [f"{source} ({part})" for part in parts]
    assert [c.source for c in encoder.columns_] == [source] * 6
    expected = [[2024, 2, 29, 3, 23, 30], [NAN] * 6, [2025, 1, 6, 0, 0, 0]]
    np.testing.assert_array_equal(encoder.transform(frame), expected)


@pytest.mark.parametrize("frame", libraries({"d": [DAY, dt.date(2024, 3, 7)]}))
def test_days_without_time_have_no_hours(frame):
    assert [c.part for c in TableEncoder().fit(frame).columns_] == ["month", "day"]


def test_a_single_date_keeps_its_year():
    encoder = TableEncoder().fit(pl.DataFrame({"d": [DAY, DAY]}))
    assert [c.name for c in encoder.columns_] == ["d (year)"]


def test_dates_before_1970():
    encoder = TableEncoder().fit(pl.DataFrame({"d": [dt.datetime(1969, 12, 31, 22, 5), dt.datetime(1900, 1, 1)]}))
    assert encoder.transform(pl.DataFrame({"d": [dt.datetime(1969, 12, 31, 22, 5)]})).tolist() == [
        [1969, 12, 31, 2, 22, 5]
    ]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([decimal.Decimal("1.5"), None], [1.5, NAN]),
        ([dt.timedelta(minutes=1), None], [60.0, NAN]),
        ([dt.time(6, 30), dt.time(0, 0, 36)], [6.5, 0.01]),
    ],
)
def test_rarer_types_become_numbers(values, expected):
    for frame in [*libraries({"v": values}), np.array([[v] for v in values], dtype=object)]:
        np.testing.assert_allclose(TableEncoder().fit(frame).transform(frame).ravel(), expected, rtol=1e-15)


def test_an_object_array_of_mixed_columns():
    X = np.array([[1, "a", True, DAY], [2.5, None, None, DAY], [np.float32(3), "a", False, DAY]], dtype=object)
    encoder = TableEncoder().fit(X)
    assert [c.kind for c in encoder.columns_] == ["numeric", "categorical", "numeric", "numeric"]
    np.testing.assert_array_equal(encoder.transform(X), [[1, 0, 1, 2024], [2.5, NAN, NAN, 2024], [3, 0, 0, 2024]])


def test_numbers_among_text_are_labels():
    X = np.array([[1], [1.0], ["a"], [2.5], [True]], dtype=object)
    encoder = TableEncoder().fit(X)
    assert encoder.columns_[0].categories == ("1", "2.5", "True", "a")
    assert encoder.transform(X).ravel().tolist() == [0, 0, 3, 1, 2]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int8, np.uint64, bool, object])
def test_arrays_of_numbers_come_out_as_float64(dtype):
    X = np.array([[1, 0], [0, 1], [1, 1]], dtype=dtype)
    encoded = TableEncoder().fit(X).transform(X)
    assert encoded.dtype == np.float64
    # numbers are not copied into another order: at prediction that would cost more than the routing
    assert encoded.flags.f_contiguous == (dtype is object)
    assert np.shares_memory(encoded, X) == (dtype is np.float64)
    assert encoded.tolist() == [[1, 0], [0, 1], [1, 1]]


@pytest.mark.parametrize(
    "X",
    [
        np.array([[0.0, 1.0], [np.inf, 0.0]]).T,
        np.array([[0.0, 1.0], [-np.inf, 0.0]], dtype=object).T,
        pd.DataFrame({"x0": [0.0, 1.0], "x1": [np.inf, 0.0]}),
        pl.DataFrame({"x0": [0.0, 1.0], "x1": [np.inf, NAN]}),
    ],
)
def test_infinity_is_refused_by_name(X):
    with pytest.raises(ValueError, match=exactly("X must be finite, but column 'x1' holds infinity")):
        as_table(X)


def test_numbers_whose_sum_overflows_are_fine():
    assert as_table(np.full((2, 1), 1.7e308)).n_rows == 2


def test_structures_in_cells_are_refused():
    cases = [
        (
            np.array([[1], [{"a": 1}]], dtype=object),
            "argument must be a string or a number, but column 'x0' holds a dict",
        ),
        (pd.DataFrame({"l": [[1], [2]]}), "argument must be a string or a number, but column 'l' holds a list"),
        (
            pl.DataFrame({"l": [[1], [2]]}),
            "X must hold numbers, text, booleans or dates, but column 'l' is List(Int64)",
        ),
        (
            pd.DataFrame({"p": pd.period_range("2020", periods=2, freq="M")}),
            "argument must be a string or a number, but column 'p' holds a Period",
        ),
        (
            np.array([[1], [DAY]], dtype=object),
            "a column must hold one type of value, but 'x0' mixes dates with others",
        ),
        (
            np.zeros((2, 1), dtype="timedelta64[s]"),
            "X must hold numbers, text, booleans or dates, got timedelta64[s]",
        ),
    ]
    for X, message in cases:
        with pytest.raises(TypeError, match=exactly(message)):
            as_table(X)


@pytest.mark.parametrize("X", [np.array([[1j]]), np.array([[1j, 2]], dtype=object), pd.DataFrame({"z": [1j]})])
def test_complex_numbers_are_refused(X):
    with pytest.raises(ValueError, match="^Complex data not supported"):
        as_table(X)


class Model(BaseEstimator):
    """Stands for a model."""


def test_scikit_learns_words_for_shapes():
    empty = "Found array with 0 sample(s) (shape=(0, 3)) while a minimum of 1 is required by Model."
    for X in [np.empty((0, 3)), pd.DataFrame({"a": [], "b": [], "c": []}), pl.DataFrame({"a": [], "b": [], "c": []})]:
        with pytest.raises(ValueError, match=exactly(empty)):
            read_table(Model(), X, reset=True)
    with pytest.raises(ValueError, match=re.escape("Found array with 0 feature(s) (shape=(2, 0))")):
        read_table(Model(), pd.DataFrame(index=[0, 1]), reset=True)
    with pytest.raises(ValueError, match="Reshape your data either using"):
        read_table(Model(), np.arange(3.0), reset=True)
    with pytest.raises(TypeError, match="Sparse data was passed for X, but dense data is required"):
        read_table(Model(), sparse.csr_array(np.eye(3)), reset=True)
    with pytest.raises(TypeError, match=exactly("X must be a table in memory (collect it first), got LazyFrame")):
        read_table(Model(), pl.LazyFrame({"a": [1]}), reset=True)


def test_equal_names_are_refused():
    for frame in [pd.DataFrame([[1, 2]], columns=["a", "a"]), pa.table([[1], [2]], names=["a", "a"])]:
        with pytest.raises(ValueError, match=exactly("X must have unique column names, but 'a' is duplicated")):
            as_table(frame)


def test_a_refused_table_leaves_the_model_as_it_was():
    model = Model()
    read_table(model, pd.DataFrame({"a": [1.0], "b": [2.0]}), reset=True)
    for bad in [pd.DataFrame({"c": [np.inf]}), np.array([[np.inf]]), np.array([[1j]])]:
        with pytest.raises(ValueError):
            read_table(model, bad, reset=True)
        assert model.n_features_in_ == 2
        assert model.feature_names_in_.tolist() == ["a", "b"]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_names_are_compared_between_fit_and_predict(make):
    model = Model()
    read_table(model, make({"a": [1.0], "b": [2.0]}), reset=True)
    head = "The feature names should match those that were passed during fit.\n"
    cases = [
        ({"b": [1.0], "a": [1.0]}, "Feature names must be in the same order as they were in fit.\n"),
        (
            {"a": [1.0], "c": [1.0]},
            "Feature names unseen at fit time:\n- c\nFeature names seen at fit time, yet now missing:\n- b\n",
        ),
        ({"a": [1.0]}, "Feature names seen at fit time, yet now missing:\n- b\n"),
    ]
    for data, message in cases:
        with pytest.raises(ValueError, match=exactly(head + message)):
            read_table(model, make(data), reset=False)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_renamed_column_is_named_first(make):
    model = Model()
    read_table(model, make({"width": [1.0], "b": [2.0]}), reset=True)
    sentence = r"^'width' is missing; did you mean 'Width'\? The feature names should match those that were passed"
    with pytest.raises(ValueError, match=sentence):
        read_table(model, make({"Width": [1.0], "b": [2.0]}), reset=False)


def test_an_array_where_a_frame_was_warns_and_keeps_the_names():
    model = Model()
    read_table(model, pd.DataFrame({"a": [1.0]}), reset=True)
    with pytest.warns(UserWarning, match="X does not have valid feature names, but Model was fitted with"):
        assert read_table(model, np.ones((1, 1)), reset=False).names == ["a"]
    message = "X has 2 features, but Model is expecting 1 features as input."
    warns = pytest.warns(UserWarning, match="X does not have valid feature names")
    with warns, pytest.raises(ValueError, match=exactly(message)):
        read_table(model, np.ones((1, 2)), reset=False)


def test_names_that_are_no_text():
    model = Model()
    assert read_table(model, pd.DataFrame({0: [1.0], 1: [2.0]}), reset=True).names == ["0", "1"]
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize("dtype", [float, "float32", "int64", "uint8"])
def test_a_pandas_frame_of_numbers_is_one_matrix(dtype):
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [4, 5, 6]}).astype({"a": dtype})
    table = as_table(frame)
    np.testing.assert_array_equal(table.matrix, [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]])
    assert table.matrix.dtype == np.float64
    assert table.matrix.flags.writeable
    assert table.names == ["a", "b"]
    assert as_table(frame.astype({"a": "Float64"})).matrix is None, "missing values of pandas are read by column"
    assert as_table(frame.assign(c=[True, False, True])).matrix is None
