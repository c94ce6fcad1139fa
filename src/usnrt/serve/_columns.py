"""The columns that a model asks for: their description for clients, and rows of a request as the model's table."""

import csv
import datetime
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from usnrt.serve._errors import RequestError
from usnrt.tables.numbers import NULL_TEXTS, PLAIN, NumberFormat, parse_number
from usnrt.tables.reading import label_of
from usnrt.utils.names import missing_names, shown_value

Kind = Literal["number", "boolean", "text", "date", "ignored"]
Row = Mapping[str, Any]

DELIMITERS = (",", ";", "\t", "|")
_TRUE, _FALSE = ("true", "1", "1.0", "yes"), ("false", "0", "0.0", "no")
_WORDS = {"number": "a number", "boolean": "true or false", "text": "text", "date": "a date"}


@dataclass(frozen=True)
class InputColumn:
    """A column of the model's table.

    Attributes
    ----------
    name : str
    kind : {"number", "boolean", "text", "date", "ignored"}
        A column whose values were all missing in fit is ignored.
    categories : tuple
        Text, or numbers if categories are codes; empty if the column is not categorical.
    low, high : float or None
        Range of the numbers, or of the years of dates, in the training rows, with the margin of the model's support;
        None if unknown.
    has_missing : bool
        Whether values were missing in fit.
    """

    name: str
    kind: Kind
    categories: tuple[Any, ...] = ()
    low: float | None = None
    high: float | None = None
    has_missing: bool = False

    def schema(self) -> dict[str, Any]:
        """The column as JSON schema; values beyond the range or the categories are allowed, but not supported."""
        types = {"number": "number", "boolean": "boolean", "text": "string", "date": "string"}
        described: dict[str, Any] = {"type": [types.get(self.kind, "null"), "null"]}
        sentences = []
        if self.kind == "ignored":
            return {"description": "Ignored: it was empty in the training rows."}
        if self.kind == "date":
            described["format"] = "date-time"
        if self.categories:
            described["x-categories"] = list(self.categories)
            sentences.append(f"one of {len(self.categories)} categories of the training rows")
        if self.low is not None:
            described["x-range"] = [self.low, self.high]
            what = "years" if self.kind == "date" else "range"
            sentences.append(f"{what} of the training rows: {self.low:g} to {self.high:g}")
        if not self.has_missing:
            sentences.append("never missing in the training rows")
        return described | ({"description": "; ".join(sentences)} if sentences else {})

    def to_dict(self) -> dict[str, Any]:
        """The column for the model card."""
        categories = {"categories": list(self.categories)} if self.categories else {}
        bounds = {} if self.low is None else {"range": [self.low, self.high]}
        return {"name": self.name, "type": self.kind, **categories, **bounds, "missing_in_training": self.has_missing}


class InputColumns:
    """The columns of a fitted model, and the conversion of rows to its table.

    Parameters
    ----------
    model : DistributionalRegressor
    """

    def __init__(self, model: Any) -> None:
        encoder = model.encoder_
        self._has_names = hasattr(model, "feature_names_in_")
        self._marks = PLAIN
        if encoder.reading_ is not None:
            self._marks = NumberFormat(encoder.reading_.get("decimal", "."), encoder.reading_.get("thousands", ""))
        self.columns = _described(encoder, *_ranges(model))
        self.names = [column.name for column in self.columns]
        self.needed = [column.name for column in self.columns if column.kind != "ignored"]

    def schema(self) -> dict[str, Any]:
        """A row as JSON schema."""
        properties = {column.name: column.schema() for column in self.columns}
        return {"type": "object", "properties": properties, "required": self.needed}

    def example(self) -> dict[str, Any]:
        """A row in the middle of the training rows."""
        return {column.name: _middle(column) for column in self.columns}

    def ignored(self, rows: Sequence[Row]) -> list[str]:
        """Members of the first row that are no columns of the model."""
        return [name for name in (rows[0] if rows else ()) if name not in self.names]

    def table(self, rows: Sequence[Row], is_text: bool = False) -> Any:
        """Rows as the table that the model predicts.

        Parameters
        ----------
        rows : sequence of dict
            Values by column.
        is_text : bool, default=False
            Whether all values are text, as from CSV.

        Returns
        -------
        pyarrow.Table, or ndarray for models without names of columns
        """
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
                return label_of(value)
            if column.kind == "boolean":
                return _boolean(value)
            return _date_text(value) if column.kind == "date" else self._number(value)
        except (TypeError, ValueError, OverflowError):
            message = f"row {row + 1}: {column.name!r} must be {_WORDS[column.kind]}, got {shown_value(value)}"
            raise RequestError(422, "invalid_value", message, row=row + 1, column=column.name) from None

    def _number(self, value: Any) -> float:
        if isinstance(value, str):
            parsed = parse_number(value, self._marks)
            value = parse_number(value) if parsed is None else parsed
        number = float(value)
        if not math.isfinite(number):
            raise ValueError
        return number


def read_csv(body: bytes, names: Sequence[str], most_rows: int) -> list[dict[str, str]]:
    """The rows of a CSV file with a header; stops after one row more than allowed.

    Parameters
    ----------
    body : bytes
        UTF-8.
    names : sequence of str
        Columns of the model, by which the separator is found.
    most_rows : int
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


def _described(encoder: Any, low: Mapping[int, float], high: Mapping[int, float]) -> list[InputColumn]:
    """The columns of the user's table, from those that the encoder made of them."""
    result = []
    for index, (name, kind) in enumerate(zip(encoder.source_names_, encoder.source_types_)):
        encoded = [(j, column) for j, column in enumerate(encoder.columns_) if column.source_index == index]
        if kind == "empty" or not encoded:
            result.append(InputColumn(name, "ignored" if kind == "empty" else kind))
            continue
        of_range = [j for j, column in encoded if column.part in ("", "year") and not column.is_categorical]
        position = of_range[0] if of_range else -1
        column = encoded[0][1]
        is_boolean = column.boolean and kind == "number"
        ends = (None, None) if is_boolean else (low.get(position), high.get(position))
        if kind == "date" and ends[0] is not None and ends[1] is not None:  # whole years, without the margin
            ends = (math.ceil(ends[0]), math.floor(ends[1]))
        result.append(
            InputColumn(
                name,
                "boolean" if is_boolean else kind,
                () if is_boolean else tuple(column.codes or column.categories),
                *ends,
                column.has_missing,
            )
        )
    return result


def _ranges(model: Any) -> tuple[dict[int, float], dict[int, float]]:
    """Ranges of the encoded columns in all training rows, by position; the only place that knows where they are."""
    support = getattr(model, "support_", None)
    if support is None:
        return {}, {}
    ends = zip(support.low[-1].tolist(), support.high[-1].tolist())
    finite = {j: pair for j, pair in enumerate(ends) if all(map(math.isfinite, pair))}
    return {j: low for j, (low, _) in finite.items()}, {j: high for j, (_, high) in finite.items()}


def _middle(column: InputColumn) -> Any:
    if column.kind == "boolean":
        return False
    if column.categories:
        return column.categories[0]
    if column.low is None or column.high is None:
        return {"number": 0.0, "date": "2000-01-01"}.get(column.kind)
    middle = (column.low + column.high) / 2.0
    return f"{round(middle):04d}-07-01" if column.kind == "date" else float(f"{middle:.4g}")


def _boolean(value: Any) -> bool:
    text = str(value).strip().lower()
    if text not in (*_TRUE, *_FALSE):
        raise ValueError
    return text in _TRUE


def _date_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value.strip()


def _array(values: list[Any], column: InputColumn) -> pa.Array:
    if column.kind == "date":
        try:
            dates = [None if text is None else datetime.datetime.fromisoformat(text) for text in values]
        except ValueError:  # perhaps the format that the dates had in fit: the model knows it
            return pa.array(values, pa.string())
        return pa.array([None if date is None else date.replace(tzinfo=None) for date in dates], pa.timestamp("us"))
    types = {"number": pa.float64(), "boolean": pa.bool_(), "text": pa.string()}
    return pa.array(values, types.get(column.kind, pa.null()))
