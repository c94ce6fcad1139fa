"""Encoded columns: their metadata, and values of any library as numbers and codes.

In fit, text becomes dates if it is all dates of one format. In predict, a column is converted to the type it had in fit
where that is unambiguous, so that a model takes the same table whatever program has read it. Columns of times are read
here, too.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usnrt.tables.dates import DateFormatError, find_format, order_of, parse_dates
from usnrt.tables.numbers import NULL_TEXTS, PLAIN, NumberFormat, is_missing_word, parse_numbers
from usnrt.tables.reading import FeatureColumn, label_of
from usnrt.utils.names import shown_value
from usnrt.utils.notices import AmbiguousDateWarning, IgnoredColumnWarning, users_level
from usnrt.utils.types import Floats


@dataclass(frozen=True)
class Column:
    """One column of the encoded table.

    A date column of the input is encoded as several columns, one per calendar part; any other as one.

    Parameters
    ----------
    name : str
        Display name, e.g. ``"price"`` or ``"date (month)"``.
    kind : {"numeric", "categorical"}
        Categorical columns hold codes ``0 .. K-1``, ``-1`` for a category unseen in training.
    source : str
        Name of the input column.
    source_index : int
        Position of that input column.
    part : str
        Calendar part of a date, ``""`` for other columns.
    categories : tuple of str
        Labels by code; empty for numeric columns.
    codes : tuple of float
        The input values of ``categories`` if the input is numeric (integer codes); empty for text. The rest has none.
    has_missing : bool
        Whether the column has missing values in the training rows.
    boolean : bool
        Whether the input is boolean, encoded as 1 and 0.
    rest : bool
        Whether the last category stands for all values that are not listed: rare ones of a table larger than memory,
        and those unseen in training.

    Examples
    --------
    >>> from usnrt.tables import Column
    >>> Column("size", "categorical", "size", categories=("large", "small")).n_categories
    2
    """

    name: str
    kind: Literal["numeric", "categorical"]
    source: str
    source_index: int = 0
    part: str = ""
    categories: tuple[str, ...] = ()
    codes: tuple[float, ...] = ()
    has_missing: bool = False
    boolean: bool = False
    rest: bool = False

    @property
    def is_categorical(self) -> bool:
        """Whether the column holds category codes."""
        return self.kind == "categorical"

    @property
    def n_categories(self) -> int:
        """Number of categories seen in training; 0 for numeric columns."""
        return len(self.categories)


# Rows from which a text that differs in every row is ignored: no new row has one of them.
MIN_DISTINCT = 50
_WORDS = {"number": "numbers", "text": "text", "date": "dates"}


def understood(column: FeatureColumn, name: str) -> tuple[FeatureColumn, str]:
    """A column of the training table as dates if its text is all dates; as empty if it differs in every row.

    Also the format of the dates; "" if they were no text.

    Examples
    --------
    >>> column = FeatureColumn("text", np.array(["31/12/2015", None], dtype=object))
    >>> understood(column, "sold")
    (FeatureColumn(type='date', values=array(['2015-12-31T00:00:00.000000', 'NaT'], dtype='datetime64[us]'),
    labels=None, boolean=False, category=False), '%d/%m/%Y')
    """
    if column.type != "text" or column.category:
        return column, ""
    found = find_format(column.values)
    if found is not None:
        if found.ambiguous:
            warnings.warn(
                f"column {name!r} holds dates such as {shown_value(_example(column.values))}, read as {found.format}; "
                "convert it to dates if day and month are the other way round",
                AmbiguousDateWarning,
                stacklevel=users_level(),
            )
        return FeatureColumn("date", parse_dates(column.values, found.format)), found.format
    if _differs_everywhere(column.values):
        warnings.warn(
            f"column {name!r} is ignored: its text differs in every row, so that new rows have none of it; "
            "make it categorical to keep it",
            IgnoredColumnWarning,
            stacklevel=users_level(),
        )
        return FeatureColumn("empty", np.full(len(column.values), np.nan)), ""
    return column, ""


def _differs_everywhere(values: NDArray[Any]) -> bool:
    """Whether text can help no new row; missing values might."""
    if len(values) < MIN_DISTINCT:
        return False
    distinct = set(values)
    return len(distinct) == len(values) and None not in distinct


def converted(
    column: FeatureColumn, expected: str, name: str, format: str = "", file_marks: Mapping[str, str] | None = None
) -> FeatureColumn:
    """A column with the type it had in fit (number, text or date); a ValueError if the values do not have it.

    ``format`` is that of dates that were text in fit. ``file_marks`` are the "decimal" and "thousands" of the file that
    the model was fitted on, if it was one: then numbers may be text, and text numbers.
    """
    if column.type == expected and not (expected == "text" and file_marks is not None):
        return column
    if expected == "date":
        dates = _as_dates(column, format)
        if dates is not None:
            return FeatureColumn("date", dates)
        if column.type == "text" and format:
            raise ValueError(
                f"column {name!r} must hold dates as in fit ({format}), got {shown_value(_no_date(column, format))}"
            )
    elif file_marks is not None and expected == "number" and column.type == "text":
        numbers = _as_numbers(column, file_marks)
        if numbers is not None:
            return FeatureColumn("number", numbers, boolean=column.boolean)
    elif file_marks is not None and expected == "text" and column.type != "date":
        return _as_text(column)
    raise ValueError(f"column {name!r} must hold {_WORDS[expected]} as in fit, but it holds {_WORDS[column.type]}")


def _as_dates(column: FeatureColumn, format: str) -> NDArray[Any] | None:
    """Dates of a format, or of any that is unambiguous."""
    values = column.values
    if column.type == "number":  # 20141013
        if format != "%Y%m%d" or not np.array_equal(values, np.floor(values), equal_nan=True):
            return None
        values = np.array([None if value != value else str(int(value)) for value in values], dtype=object)
    elif column.type == "text":
        values = np.array(
            [None if value is None or is_missing_word(value) else value for value in values], dtype=object
        )
    if format:
        try:
            return parse_dates(values, format)
        except DateFormatError:
            pass
    found = find_format(values, order_of(format))
    return None if found is None or found.ambiguous else parse_dates(values, found.format)


def _no_date(column: FeatureColumn, format: str) -> str:
    try:
        parse_dates(column.values, format)
    except DateFormatError as error:
        return error.text
    return _example(column.values)


def _as_numbers(column: FeatureColumn, file_marks: Mapping[str, str]) -> Floats | None:
    numbers = parse_numbers(
        column.values, NumberFormat(file_marks.get("decimal", "."), file_marks.get("thousands", ""))
    )
    return parse_numbers(column.values, PLAIN) if numbers is None else numbers


def _as_text(column: FeatureColumn) -> FeatureColumn:
    """Text, where a text that means a missing value is one; numbers have the labels of the text they came from."""
    if column.type == "number":
        labels = [None if value != value else label_of(value) for value in column.values]
    else:
        labels = [None if value in NULL_TEXTS else value for value in column.values]
    return FeatureColumn("text", np.array(labels, dtype=object))


def _example(values: NDArray[Any]) -> str:
    return min(str(value) for value in values if value is not None)


def read_time(column: FeatureColumn, name: str) -> Floats:
    """The time of each row: a number as it is, a date in seconds since 1970; a ValueError names the column.

    Examples
    --------
    >>> read_time(FeatureColumn("date", np.array(["1970-01-02", "1970-01-03"], dtype="datetime64[us]")), "day")
    array([ 86400., 172800.])
    """
    if column.type == "text":
        raise ValueError(f"time_column must hold numbers or dates, but {name!r} holds text")
    missing = np.isnat(column.values) if column.type == "date" else np.isnan(column.values)
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise ValueError(f"time_column must not have missing values, but {name!r} is missing in row {row}")
    if column.type == "date":
        seconds: Floats = column.values.astype("datetime64[us]").astype(np.int64) / 1e6
        return seconds
    return np.asarray(column.values, dtype=np.float64)


def dates_of_texts(values: NDArray[Any], format: str = "") -> NDArray[np.datetime64]:
    """Dates that are written as text, in the one format that fits all texts; a ValueError if there is none.

    ``format`` is tried first. None, NaN and the empty text are missing, hence NaT.

    Examples
    --------
    >>> dates_of_texts(np.array(["31.12.2023", None, "01.02.2024"])).astype("datetime64[D]")
    array(['2023-12-31',        'NaT', '2024-02-01'], dtype='datetime64[D]')
    """
    texts = [None if v is None or v != v or v == "" else v for v in values.tolist()]
    if all(isinstance(text, str | None) for text in texts):
        found = (find_format(texts, format) if format else None) or find_format(texts)
        if found is not None:
            return parse_dates(texts, found.format)
    return np.array(["NaT" if text is None else str(text) for text in texts], dtype="datetime64[us]")


def numbers_or_dates(values: ArrayLike, name: str, format: str = "") -> NDArray[Any]:
    """Times as numbers or datetimes, NaN or NaT where missing; text is read as by `dates_of_texts`, errors name it."""
    times = np.asarray(values)
    if times.dtype.kind in "OUST":
        try:
            times = dates_of_texts(times, format)
        except (ValueError, TypeError):
            raise ValueError(f"{name} must hold numbers or dates, got {times.ravel()[:1].tolist()[0]!r}") from None
    if times.dtype.kind not in "iufM":
        raise ValueError(f"{name} must hold numbers or dates, got {times.dtype}")
    return times
