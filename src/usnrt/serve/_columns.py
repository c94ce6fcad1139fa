"""The columns that a model asks for: their description for clients, and rows of a request as the model's table."""

import csv
import datetime
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from usnrt.serve._errors import RequestError
from usnrt.tables.numbers import NULL_TEXTS, PLAIN, NumberFormat, parse_number
from usnrt.tables.reading import label_of
from usnrt.utils.names import missing_names, shown_value
from usnrt.whatif.card import InputColumn, input_columns

Row = Mapping[str, Any]

DELIMITERS = (",", ";", "\t", "|")
_TRUE, _FALSE = ("true", "1", "1.0", "yes"), ("false", "0", "0.0", "no")
_WORDS = {"number": "a number", "boolean": "true or false", "text": "text", "date": "a date"}


class InputColumns:
    """The columns of a fitted model, and the conversion of rows to its table."""

    def __init__(self, model: Any) -> None:
        encoder = model.encoder_
        self._has_names = hasattr(model, "feature_names_in_")
        self._marks = PLAIN
        if encoder.reading_ is not None:
            self._marks = NumberFormat(encoder.reading_.get("decimal", "."), encoder.reading_.get("thousands", ""))
        self.columns = input_columns(model)
        self.names = [column.name for column in self.columns]
        self.needed = [column.name for column in self.columns if column.kind != "ignored"]

    def schema(self) -> dict[str, Any]:
        """A row as JSON schema."""
        properties = {column.name: column.schema() for column in self.columns}
        return {"type": "object", "properties": properties, "required": self.needed}

    def example(self) -> dict[str, Any]:
        """A row of typical values of the training rows."""
        return {column.name: column.example() for column in self.columns}

    def ignored(self, rows: Sequence[Row]) -> list[str]:
        """Members of the first row that are no columns of the model."""
        return [name for name in (rows[0] if rows else ()) if name not in self.names]

    def table(self, rows: Sequence[Row], is_text: bool = False) -> Any:
        """Rows as the table that the model predicts; ``is_text`` if all values are text, as from CSV."""
        self._check_names(rows)
        values = [[self._cell(row.get(c.name), c, i, is_text) for i, row in enumerate(rows)] for c in self.columns]
        if not self._has_names:
            kinds = {column.kind for column in self.columns}
            return np.array(values, dtype=np.float64 if kinds <= {"number", "ignored"} else object).T
        return pa.table([_array(own, c) for own, c in zip(values, self.columns)], names=self.names)

    def _check_names(self, rows: Sequence[Row]) -> None:
        for number, row in enumerate(rows, start=1):
            if not isinstance(row, Mapping):
                raise RequestError(
                    422, "invalid_rows", f"row {number} must be an object of values by column", row=number
                )
            absent = [name for name in self.needed if name not in row]
            if absent:
                others = [name for name in row if name not in self.names]
                sentence = missing_names(absent, others)
                raise RequestError(422, "missing_columns", f"row {number}: {sentence}", row=number, columns=absent)

    def _cell(self, value: Any, column: InputColumn, row: int, is_text: bool) -> Any:
        if value is None or column.kind == "ignored" or (is_text and value.strip() in NULL_TEXTS):
            return None
        try:
            if column.kind == "text":
                return _text(value)
            if column.kind == "boolean":
                return _boolean(value)
            return _date_text(value) if column.kind == "date" else self._number(value)
        except (TypeError, ValueError, OverflowError):
            message = f"row {row + 1}: {column.name!r} must be {_WORDS[column.kind]}, got {shown_value(value)}"
            raise RequestError(422, "invalid_value", message, row=row + 1, column=column.name) from None

    def _number(self, value: Any) -> float:
        if isinstance(value, bool):
            raise TypeError
        if isinstance(value, str):
            parsed = parse_number(value, self._marks)
            value = parse_number(value) if parsed is None else parsed
        number = float(value)
        if not math.isfinite(number):
            raise ValueError
        return number


def take_rows(table: Any, rows: Any) -> Any:
    """Some rows of a model's table."""
    return table[rows] if isinstance(table, np.ndarray) else table.take(rows)


def read_csv(body: bytes, names: Sequence[str], most_rows: int) -> list[dict[str, str]]:
    """The rows of a CSV file in UTF-8 with a header; stops after one row more than allowed.

    The separator is the one that finds most of the ``names`` of the model's columns.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise RequestError(400, "invalid_csv", "the body must be CSV in UTF-8, but it is not UTF-8") from None
    first = text.partition("\n")[0]
    delimiter = max(DELIMITERS, key=lambda mark: len(set(names) & set(next(csv.reader([first], delimiter=mark), []))))
    rows: list[dict[str, str]] = []
    header: list[str] = []
    try:
        for line in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True):
            if not line:
                continue
            if not header:
                header = line
            elif len(line) != len(header):
                message = f"row {len(rows) + 1} must have {len(header)} fields as the header, got {len(line)}"
                raise RequestError(400, "invalid_csv", message, row=len(rows) + 1)
            else:
                rows.append(dict(zip(header, line)))
            if len(rows) > most_rows:
                break
    except csv.Error as error:
        raise RequestError(400, "invalid_csv", f"the body must be CSV: {error}") from None
    if len(set(header)) < len(header):
        raise RequestError(400, "invalid_csv", "the header must have unique names")
    return rows


def _text(value: Any) -> str:
    text = label_of(value)
    text.encode()  # a lone surrogate is no text
    return text


def _boolean(value: Any) -> bool:
    text = str(value).strip().lower()
    if text not in (*_TRUE, *_FALSE):
        raise ValueError
    return text in _TRUE


def _date_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return _text(value).strip()


def _array(values: list[Any], column: InputColumn) -> pa.Array:
    if column.kind == "date":
        try:
            dates = [None if text is None else datetime.datetime.fromisoformat(text) for text in values]
        except ValueError:  # perhaps the format that the dates had in fit: the model knows it
            return pa.array(values, pa.string())
        return pa.array([None if date is None else date.replace(tzinfo=None) for date in dates], pa.timestamp("us"))
    types = {"number": pa.float64(), "boolean": pa.bool_(), "text": pa.string()}
    return pa.array(values, types.get(column.kind, pa.null()))
