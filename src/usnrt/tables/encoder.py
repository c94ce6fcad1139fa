"""Encoding of typed columns as one numeric matrix, the split features."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.tables.columns import Column, converted
from usnrt.tables.reading import FeatureColumn, as_table
from usnrt.tables.survey import TableSurvey, calendar_part
from usnrt.utils.types import Floats, TableLike


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
        """
        table = as_table(X)
        survey = TableSurvey(table.names, categorical_features, is_limited=False)
        survey.add(table, "X")
        return self._learn(survey, time_position)

    @classmethod
    def of(cls, survey: TableSurvey) -> "TableEncoder":
        """The encoding of the rows that a survey has seen."""
        return cls()._learn(survey)

    def _learn(self, survey: TableSurvey, time_position: int | None = None) -> "TableEncoder":
        columns = survey.columns(time_position)
        if not columns:
            raise ValueError("X must have a column besides time_column that is a feature, got none")
        self.columns_, self.source_names_ = columns, survey.names
        self.source_types_, self.date_formats_ = survey.types(), survey.date_formats()
        self.n_categories_ = np.array([column.n_categories for column in columns], dtype=np.int64)
        return self

    def transform(self, X: TableLike) -> Floats:
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


def encode_column(column: FeatureColumn, target: Column) -> Floats:
    """Values of one encoded column."""
    if column.type == "empty":
        return np.full(len(column.values), np.nan)
    if column.type == "date":
        return calendar_part(column.values, target.part)
    unlisted = target.n_categories - 1.0 if target.rest else -1.0
    if column.type == "text":
        codes: dict[Any, float] = {label: float(code) for code, label in enumerate(target.categories)}
        codes[None] = np.nan
        return np.array([codes.get(value, unlisted) for value in column.values])
    if not target.is_categorical:
        return column.values
    known = np.array(target.codes)
    position = np.searchsorted(known, column.values).clip(max=max(len(known) - 1, 0))
    found = known[position] == column.values
    return np.where(np.isnan(column.values), np.nan, np.where(found, position, unlisted))
