"""Encoding of typed columns as one numeric matrix, the split features."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.tables.columns import Column, converted, understood
from usnrt.tables.reading import FeatureColumn, as_table
from usnrt.tables.time import read_time, recurring_parts
from usnrt.utils.types import TableLike

CALENDAR_PARTS = ("year", "month", "day", "weekday", "hour", "minute")


class TableEncoder:
    """Numeric encoding of a table, with integer codes for categories.

    Numbers are unchanged, booleans become 1 and 0, missing values are NaN. Text and categories become codes
    ``0 .. K-1`` (in alphabetical order, or in the order of the categorical dtype); a category unseen in training
    becomes -1, or the rest if the column has one. A date becomes those of its calendar parts that vary among the
    training rows. Text that is all dates of one format is read as dates; text that differs in every row is ignored,
    with a warning. Both stay text in a column of a categorical dtype, and in columns that ``categorical_features``
    names.

    Attributes
    ----------
    columns_ : list of Column
        The encoded columns.
    n_categories_ : ndarray of int of shape (n_encoded,)
        Number of categories of each encoded column, 0 for numeric ones.
    source_names_ : list of str
        Names of the input columns.
    source_types_ : list of str
        Type of each input column: "number", "text", "date" or "empty" (all values missing, or ignored).
    date_formats_ : mapping of str to str
        Formats of the dates that were text, by input column.
    reading_ : mapping or None
        How the file was read that the table came from, if the command line has read it: "decimal", "thousands" and
        others. Then text is converted to numbers, and numbers to text, where the training table had them.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.tables import TableEncoder
    >>> X = np.array([[1.5, "b"], [2.5, "a"], [None, "b"]], dtype=object)
    >>> encoder = TableEncoder().fit(X)
    >>> [column.kind for column in encoder.columns_]
    ['numeric', 'categorical']
    >>> encoder.transform(X)
    array([[1.5, 1. ], [2.5, 0. ], [nan, 1. ]])
    >>> encoder.transform(np.array([[3, "new"]], dtype=object))
    array([[ 3., -1.]])
    """

    columns_: list[Column]
    n_categories_: NDArray[np.int64]
    source_names_: list[str]
    source_types_: list[str]
    date_formats_: Mapping[str, str] = {}
    reading_: Mapping[str, Any] | None = None

    def fit(self, X: TableLike, categorical_features: Any = None, time_position: int | None = None) -> "TableEncoder":
        """Learn columns, categories and calendar parts.

        Parameters
        ----------
        X : FeatureTable, array-like or data frame of shape (n_rows, n_features)
            The training table.
        categorical_features : None, "from_dtype", list of names, list of positions or boolean mask
            Numeric columns to treat as categories. Text is always categorical.
        time_position : int, optional
            Position of a column that orders the rows. Of a date, the calendar parts that recur within the table are
            encoded; a number is not, as all future values are outside of its range.

        Returns
        -------
        self
        """
        table = as_table(X)
        named = categorical_positions(categorical_features, table.names)
        columns: list[Column] = []
        types: list[str] = []
        formats: dict[str, str] = {}
        for index, name in enumerate(table.names):
            column = table.column(index)
            if index in named:
                refuse_dates(column.type, name)
            else:
                column, format = understood(column, name)
                formats.update({name: format} if format else {})
            described = _describe(column, name, index, index in named)
            columns += described if index != time_position else _of_time(described, column, name)
            types.append(column.type)
        if not columns:
            raise ValueError("X must have a column besides time_column that is a feature, got none")
        return self._set(columns, list(table.names), types, formats)

    @classmethod
    def from_columns(
        cls, columns: list[Column], names: list[str], types: list[str], formats: dict[str, str]
    ) -> "TableEncoder":
        """An encoder whose columns were learnt elsewhere; the arguments are its attributes."""
        return cls()._set(columns, names, types, formats)

    def _set(
        self, columns: list[Column], names: list[str], types: list[str], formats: dict[str, str]
    ) -> "TableEncoder":
        self.columns_, self.source_names_, self.source_types_, self.date_formats_ = columns, names, types, formats
        self.n_categories_ = np.array([column.n_categories for column in columns], dtype=np.int64)
        return self

    def transform(self, X: TableLike) -> NDArray[np.float64]:
        """Encode a table with the columns seen in fit.

        Parameters
        ----------
        X : FeatureTable, array-like or data frame of shape (n_rows, n_features)
            Column types are checked here; `read_table` checks column names.

        Returns
        -------
        ndarray of float64 of shape (n_rows, n_encoded)
            In Fortran order; a purely numeric array keeps its own order and may share memory with X.
        """
        table = as_table(X)
        if table.n_columns != len(self.source_names_):
            raise ValueError(
                f"X has {table.n_columns} features, but TableEncoder is expecting "
                f"{len(self.source_names_)} features as input."
            )
        if table.matrix is not None and self._is_plain():
            return np.asarray(table.matrix, dtype=np.float64)
        encoded = np.empty((table.n_rows, len(self.columns_)), order="F")
        read: dict[int, FeatureColumn] = {}
        for position, column in enumerate(self.columns_):
            index = column.source_index
            if index not in read:
                read = {index: self._checked(table.column(index), index)}  # the parts of a date are adjacent
            encoded[:, position] = encode_column(read[index], column)
        return encoded

    def _is_plain(self) -> bool:
        is_complete = len(self.columns_) == len(self.source_types_)  # a time column may be missing
        return is_complete and all(kind == "number" for kind in self.source_types_) and not self.n_categories_.any()

    def _checked(self, column: FeatureColumn, index: int) -> FeatureColumn:
        """Check that the column has the type seen in fit; empty columns are compatible with any type."""
        expected, name = self.source_types_[index], self.source_names_[index]
        if expected == "empty":
            return FeatureColumn("empty", np.full(len(column.values), np.nan))
        if column.type == "empty":
            return column
        return converted(column, expected, name, self.date_formats_.get(name, ""), self.reading_)

    def source_of(self, name: str) -> list[int]:
        """Positions of the encoded columns of an input column."""
        return [position for position, column in enumerate(self.columns_) if column.source == name]


def categorical_positions(spec: Any, names: Sequence[str]) -> set[int]:
    """Positions of the columns that the parameter ``categorical_features`` declares categorical.

    Examples
    --------
    >>> from usnrt.tables.encoder import categorical_positions
    >>> categorical_positions(["size", 0], ["age", "size", "price"])
    {0, 1}
    """
    if spec is None or (isinstance(spec, str) and spec == "from_dtype"):
        return set()
    if isinstance(spec, str) or not isinstance(spec, Iterable):
        raise ValueError(f"categorical_features must be None, 'from_dtype', names, positions or a mask, got {spec!r}")
    entries = np.asarray(list(spec), dtype=object).ravel()
    if entries.size and all(isinstance(entry, bool | np.bool_) for entry in entries):
        if len(entries) != len(names):
            raise ValueError(f"categorical_features as a mask must have {len(names)} entries, got {len(entries)}")
        return set(np.flatnonzero(entries.astype(bool)).tolist())
    return {_position(entry, names) for entry in entries}


def refuse_dates(kind: str, name: str) -> None:
    """Raise a ValueError if a column that was declared categorical holds dates."""
    if kind == "date":
        raise ValueError(f"categorical_features must name numbers or text, but {name!r} holds dates")


def _position(entry: Any, names: Sequence[str]) -> int:
    if isinstance(entry, str):
        if entry not in names:
            raise ValueError(f"categorical_features must name columns of X, but {entry!r} is not one")
        return names.index(entry)
    if isinstance(entry, int | np.integer) and not isinstance(entry, bool):
        if not -len(names) <= entry < len(names):
            raise ValueError(f"categorical_features must be positions below {len(names)}, got {int(entry)}")
        return int(entry) % len(names)
    raise ValueError(f"categorical_features must hold names or positions, got {entry!r}")


def _describe(column: FeatureColumn, name: str, index: int, named: bool) -> list[Column]:
    """Metadata of the encoded columns of one input column of the training table."""
    base = Column(name, "numeric", name, source_index=index, boolean=column.boolean)
    if column.type == "empty":
        return [replace(base, has_missing=True)]
    if column.type == "date":
        missing = bool(np.isnat(column.values).any())
        parts = {part: calendar_part(column.values, part) for part in CALENDAR_PARTS}
        varying = [part for part, values in parts.items() if np.unique(values[~np.isnan(values)]).size > 1]
        return [
            replace(base, name=f"{name} ({part})", part=part, has_missing=missing) for part in useful_parts(varying)
        ]
    if column.type == "text":
        seen = {value for value in column.values if value is not None}
        order = natural_order(seen) if column.labels is None else [x for x in column.labels if x in seen]
        missing = any(value is None for value in column.values)
        return [replace(base, kind="categorical", categories=tuple(order), has_missing=missing)]
    missing = bool(np.isnan(column.values).any())
    if named:
        codes = np.unique(column.values[~np.isnan(column.values)])
        labels = tuple(number_label(code, column.boolean) for code in codes)
        return [replace(base, kind="categorical", categories=labels, codes=tuple(codes.tolist()), has_missing=missing)]
    return [replace(base, has_missing=missing)]


def useful_parts(varying: list[str]) -> list[str]:
    """The calendar parts to encode; the weekday of dates that are all on one day of the month, as months are, is none.

    Examples
    --------
    >>> from usnrt.tables.encoder import useful_parts
    >>> useful_parts(["year", "month", "weekday"]), useful_parts(["day", "weekday"]), useful_parts([])
    (['year', 'month'], ['day', 'weekday'], ['year'])
    """
    return [part for part in varying if part != "weekday" or "day" in varying] or ["year"]


def _of_time(described: list[Column], column: FeatureColumn, name: str) -> list[Column]:
    """The encoded columns of a time column that are features."""
    if column.type != "date":
        return []
    recurring = recurring_parts(read_time(column, name))
    return [part for part in described if part.part in recurring]


def natural_order(labels: set[str]) -> list[str]:
    """Alphabetical order, or numerical order if all labels are numbers: "2" before "10"."""
    try:
        return sorted(labels, key=lambda label: (float(label), label))
    except ValueError:
        return sorted(labels)


def number_label(code: float, boolean: bool) -> str:
    if boolean:
        return str(bool(code))
    return str(int(code)) if float(code).is_integer() else repr(float(code))


def encode_column(column: FeatureColumn, target: Column) -> NDArray[np.float64]:
    """Values of one encoded column."""
    if column.type == "empty":
        return np.full(len(column.values), np.nan)
    if column.type == "date":
        return calendar_part(column.values, target.part)
    if column.type == "text":
        codes: dict[Any, float] = {label: float(code) for code, label in enumerate(target.categories)}
        codes[None] = np.nan
        unlisted = target.n_categories - 1.0 if target.rest else -1.0
        return np.array([codes.get(value, unlisted) for value in column.values])
    if not target.is_categorical:
        return column.values
    known = np.array(target.codes)
    position = np.searchsorted(known, column.values).clip(max=max(len(known) - 1, 0))
    found = known[position] == column.values
    unlisted = target.n_categories - 1.0 if target.rest else -1.0
    return np.where(np.isnan(column.values), np.nan, np.where(found, position, unlisted))


def calendar_part(dates: NDArray[Any], part: str) -> NDArray[np.float64]:
    """One calendar part of each date as a number, NaN for missing dates.

    Parameters
    ----------
    dates : ndarray of datetime64 of shape (n,)
    part : {"year", "month", "day", "weekday", "hour", "minute"}
        Monday is weekday 0.

    Returns
    -------
    ndarray of float64 of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.tables.encoder import calendar_part
    >>> calendar_part(np.array(["2024-02-29T13:45", "NaT"], dtype="datetime64[us]"), "hour")
    array([13., nan])
    """
    days = dates.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    if part == "year":
        values = dates.astype("datetime64[Y]").astype(np.int64) + 1970
    elif part == "month":
        values = months.astype(np.int64) % 12 + 1
    elif part == "day":
        values = (days - months.astype("datetime64[D]")).astype(np.int64) + 1
    elif part == "weekday":
        values = (days.astype(np.int64) + 3) % 7  # 1970-01-01 was a Thursday
    else:
        minutes = (dates.astype("datetime64[m]") - days.astype("datetime64[m]")).astype(np.int64)
        values = minutes // 60 if part == "hour" else minutes % 60
    return np.where(np.isnat(dates), np.nan, values)
