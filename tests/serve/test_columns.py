"""The columns of a model, as clients see them, and rows of requests as its table."""

import json

import numpy as np
import pytest

from usnrt.serve._columns import InputColumns, read_csv
from usnrt.serve._errors import RequestError


@pytest.fixture(scope="module")
def columns(model):
    return InputColumns(model)


def as_json(X):
    return json.loads(X.to_json(orient="records", date_format="iso"))


def test_columns_have_the_types_and_values_of_the_training_table(columns):
    described = {column.name: column for column in columns.columns}
    assert {name: column.kind for name, column in described.items()} == {
        "area": "number",
        "age": "number",
        "district": "text",
        "garden": "boolean",
        "sold": "date",
    }
    assert described["district"].categories == ("harbour", "north", "old town")
    assert described["area"].low < 25
    assert described["area"].high > 195
    assert (described["sold"].low, described["sold"].high) == (2023, 2024)
    assert [name for name, column in described.items() if column.has_missing] == ["area"]


def test_rows_become_the_table_of_the_model(columns, model, houses):
    X, _ = houses(50, 1)
    table = columns.table(as_json(X))
    assert np.array_equal(model.encoder_.transform(table), model.encoder_.transform(X), equal_nan=True)


def test_csv_becomes_the_same_table(columns, model, houses):
    X, _ = houses(50, 1)
    for separator in (",", ";", "\t"):
        rows = read_csv(X.to_csv(index=False, sep=separator).encode("utf-8-sig"), columns.names, 100)
        table = columns.table(rows, is_text=True)
        assert np.array_equal(model.encoder_.transform(table), model.encoder_.transform(X), equal_nan=True)


def test_csv_with_the_marks_of_the_models_own_file(model, rows):
    from copy import copy

    german = copy(model)
    german.encoder_ = copy(model.encoder_)
    german.encoder_.reading_ = {"delimiter": ";", "decimal": ",", "thousands": "."}
    table = InputColumns(german).table([{**rows[0], "area": "1.234,5"}], is_text=False)
    assert table["area"].to_pylist() == [1234.5]


def test_models_without_names_take_rows_by_x0_x1():
    from usnrt import USNRTRegressor

    rng = np.random.default_rng(0)
    X = rng.uniform(size=(80, 2))
    fitted = USNRTRegressor(max_epochs=1, memory=False, random_state=0).fit(X, X[:, 0])
    table = InputColumns(fitted).table([{"x0": 0.25, "x1": None}])
    assert np.array_equal(table, [[0.25, np.nan]], equal_nan=True)
    assert fitted.predict(table).shape == (1,)


def test_codes_are_categories_that_are_numbers(houses):
    from usnrt import USNRTRegressor

    X, y = houses(100, 0)
    X = X[["area", "age"]].assign(age=X["age"] % 3)
    fitted = USNRTRegressor(max_epochs=1, memory=False, categorical_features=["age"], random_state=0).fit(X, y)
    column = InputColumns(fitted).columns[1]
    assert (column.kind, column.categories) == ("number", (0.0, 1.0, 2.0))


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("area", "big", "row 1: 'area' must be a number, got 'big'"),
        ("area", [1], "row 1: 'area' must be a number, got [1]"),
        ("area", float("inf"), "row 1: 'area' must be a number, got inf"),
        ("age", 10**400, "row 1: 'age' must be a number, got 1000000"),
        ("garden", "maybe", "row 1: 'garden' must be true or false, got 'maybe'"),
        ("district", {"a": 1}, "row 1: 'district' must be text, got {'a': 1}"),
        ("sold", 2023, "row 1: 'sold' must be a date, got 2023"),
    ],
)
def test_invalid_values_name_row_and_column(columns, rows, column, value, message):
    with pytest.raises(RequestError) as caught:
        columns.table([{**rows[0], column: value}])
    assert caught.value.message.startswith(message)
    assert (caught.value.status, caught.value.details) == (422, {"row": 1, "column": column})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"area\xff", "the body must be CSV in UTF-8, but it is not UTF-8"),
        (b"area,age\n1,2\n3\n", "row 2 must have 2 fields as the header, got 1"),
        (b"area,area\n1,2\n", "the header must have unique names"),
        (b'area,age\n"1,2\n', "the body must be CSV: unexpected end of data"),
    ],
)
def test_invalid_csv_is_refused(body, message):
    with pytest.raises(RequestError) as caught:
        read_csv(body, ["area", "age"], 10)
    assert (caught.value.status, caught.value.message) == (400, message)


def test_no_more_rows_are_read_than_one_too_many():
    assert len(read_csv(b"a\n" + b"1\n" * 1000, ["a"], 10)) == 11
