"""Validation of X: arrays and data frames of any library become typed columns of numpy arrays.

There are three types: numbers (missing is NaN), text (missing is None) and dates (missing is NaT). A fourth, "empty",
is a column whose values are all missing; it is compatible with the others.
"""

import datetime
import decimal
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from usnrt.tables.numbers import warn_of_large_integers
from usnrt.utils.arrays import plain_array
from usnrt.utils.names import missing_names, shown_value
from usnrt.utils.types import Floats, TableLike

ColumnType = Literal["number", "text", "date", "empty"]
_MISSING_TYPES = {"NoneType", "NAType", "NaTType"}


@dataclass(frozen=True)
class FeatureColumn:
    """One input column: type, values, for ordered categories the labels in their order, whether it is declared so."""

    type: ColumnType
    values: NDArray[Any]
    labels: tuple[str, ...] | None = None
    boolean: bool = False
    category: bool = False


@dataclass(frozen=True)
class FeatureTable:
    """A validated table: names and typed columns.

    A purely numeric array is kept as ``matrix`` instead of ``columns``, which avoids copies.
    """

    names: list[str]
    n_rows: int
    columns: list[FeatureColumn] | None = None
    matrix: NDArray[Any] | None = None

    @property
    def n_columns(self) -> int:
        """Number of input columns."""
        return len(self.names)

    def column(self, index: int) -> FeatureColumn:
        """The column at a position."""
        if self.columns is not None:
            return self.columns[index]
        assert self.matrix is not None
        values = self.matrix[:, index]
        return _number_column(values.astype(np.float64), boolean=values.dtype == bool)


def read_table(estimator: Any, X: TableLike, *, reset: bool) -> FeatureTable:
    """Read and validate X with the checks and messages of scikit-learn.

    Parameters
    ----------
    estimator : object
        The model. Its ``n_features_in_`` and ``feature_names_in_`` are set (``reset=True``, in fit) or compared with X
        (``reset=False``, in predict). Nothing is set if X is invalid.
    X : array-like or data frame of shape (n_rows, n_features)
        numpy, pandas, polars, pyarrow; numbers, booleans, text, categories and dates; missing values allowed.
    reset : bool
        True in fit.

    Returns
    -------
    FeatureTable
        Input of `TableEncoder`.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> from usnrt.tables import read_table
    >>> model = BaseEstimator()
    >>> read_table(model, [[1, 2.5], [3, 4.5]], reset=True).names
    ['x0', 'x1']
    >>> model.n_features_in_
    2
    """
    X = plain_array(X, "X")
    frame = _as_frame(X)
    if not reset and frame is not None:
        frame = _by_name(estimator, frame)
    if not reset and frame is not None and not _has_fitted_names(estimator, frame):
        # names first: the more likely mistake, with the clearer message
        _check_names(estimator, X, frame)
    if reset:
        warn_of_large_integers(X, frame)
    table, checked = _read_array(X, estimator) if frame is None else (_read_frame(frame, estimator), X)
    if reset:
        _refuse_surrogates(table)
    if reset or (frame is None and not _has_fitted_width(estimator, table)):
        _validate(estimator, checked, reset)
    fitted_names = getattr(estimator, "feature_names_in_", None)
    if frame is None and fitted_names is not None:
        return FeatureTable([str(n) for n in fitted_names], table.n_rows, table.columns, table.matrix)
    return table


def _validate(estimator: Any, X: TableLike, reset: bool) -> None:
    """Set or check number and names of the features of an estimator."""
    from sklearn.utils.validation import validate_data

    validate_data(estimator, X, reset=reset, skip_check_array=True)


def _refuse_surrogates(table: FeatureTable) -> None:
    """Refuse text that UTF-8, hence a CSV or Parquet file, cannot hold."""
    texts = {"X must have column names that are valid text": table.names}
    for name, column in zip(table.names, table.columns or ()):
        if column.type == "text":
            labels = [value for value in column.values if value is not None]
            texts[f"X must hold valid text in column {name!r}"] = labels
    for sentence, values in texts.items():
        try:
            "".join(values).encode()
        except UnicodeEncodeError:
            bad = next(value for value in values if any("\ud800" <= letter <= "\udfff" for letter in value))
            raise ValueError(f"{sentence}, got a lone surrogate in {shown_value(bad)}") from None


def _check_names(estimator: Any, X: TableLike, frame: nw.DataFrame[Any]) -> None:
    """The checks of scikit-learn, whose message begins with the columns that are missing."""
    try:
        _validate(estimator, X, reset=False)
    except ValueError as error:
        fitted = [str(name) for name in getattr(estimator, "feature_names_in_", ())]
        absent = [name for name in fitted if name not in frame.columns]
        sentence = missing_names(absent, [str(name) for name in frame.columns if name not in fitted])
        if not sentence.endswith("?"):  # nothing to add
            raise
        raise ValueError(f"{sentence} {error}") from None


def _by_name(estimator: Any, frame: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """The columns that were fitted, in their order, if the frame has all of them.

    scikit-learn's checks demand that the fitted columns in another order, and no others, are refused after a fit to X
    and an array; of a target with a name the model knows that the columns of the table have meanings.
    """
    names = list(getattr(estimator, "feature_names_in_", ()))
    if not names or list(frame.columns) == names or not set(names) <= set(frame.columns):
        return frame
    is_named = getattr(estimator, "target_name_", None) is not None
    return frame.select(names) if is_named or len(frame.columns) > len(names) else frame


def _has_fitted_names(estimator: Any, frame: nw.DataFrame[Any]) -> bool:
    """Whether the checks of `validate_data` would pass for a frame: they take longer than a prediction."""
    fitted = getattr(estimator, "feature_names_in_", None)
    return fitted is not None and len(fitted) == len(frame.columns) and list(fitted) == frame.columns


def _has_fitted_width(estimator: Any, table: FeatureTable) -> bool:
    """Whether the checks of `validate_data` would pass for an array."""
    return not hasattr(estimator, "feature_names_in_") and getattr(estimator, "n_features_in_", -1) == table.n_columns


def as_table(X: TableLike) -> FeatureTable:
    """Read and validate X without comparing it with the features of an estimator."""
    if isinstance(X, FeatureTable):
        return X
    X = plain_array(X, "X")
    frame = _as_frame(X)
    return _read_array(X, None)[0] if frame is None else _read_frame(frame, None)


def read_column(X: TableLike, name: str) -> FeatureColumn:
    """One column of a data frame.

    Examples
    --------
    >>> import pyarrow as pa
    >>> read_column(pa.table({"a": [1, None]}), "a").values
    array([ 1., nan])
    """
    return _from_series(nw.from_native(X, eager_only=True)[name], name)


def column_position(parameter: str, column: str | int, names: Sequence[str]) -> int:
    """The position of a column that a parameter names, or whose position it is.

    Examples
    --------
    >>> column_position("time_column", "day", ["size", "day"]), column_position("time_column", -1, ["size", "day"])
    (1, 1)
    """
    if isinstance(column, str):
        if column not in names:
            raise ValueError(f"{parameter} must name a column of X, but {column!r} is not one")
        return names.index(column)
    if not -len(names) <= column < len(names):
        raise ValueError(f"{parameter} must be a position below {len(names)}, got {int(column)}")
    return int(column) % len(names)


def _as_frame(X: TableLike) -> Any:
    """X as a narwhals frame, or None if it is not a data frame."""
    if isinstance(X, np.ndarray | list):
        return None
    try:
        frame = nw.from_native(X, pass_through=True)
    except nw.exceptions.DuplicateError:
        names = list(X.column_names if hasattr(X, "column_names") else X.columns)  # pyarrow, pandas
        duplicate = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"X must have unique column names, but {duplicate!r} is duplicated") from None
    if isinstance(frame, nw.LazyFrame):
        raise TypeError(f"X must be a table in memory (collect it first), got {type(X).__name__}")
    return frame if isinstance(frame, nw.DataFrame) else None


# ---------------------------------------------------------------------------------------------- numpy arrays


def _read_array(X: TableLike, estimator: Any) -> tuple[FeatureTable, NDArray[Any]]:
    array = X
    # check_array does not support dates, and would return an array of numbers as it is
    if not (type(X) is np.ndarray and X.dtype.kind in "Mbiuf" and X.ndim == 2 and X.size):
        from sklearn.utils.validation import check_array

        array = check_array(X, dtype=None, ensure_all_finite=False, estimator=estimator, input_name="X")
    n_rows, n_columns = array.shape
    names = [f"x{j}" for j in range(n_columns)]
    if array.dtype.kind in "biuf":
        if array.dtype.kind == "f":
            _refuse_infinity(array, names)
        return FeatureTable(names, n_rows, matrix=array), array
    if array.dtype.kind == "M":
        columns = [_date_column(array[:, j]) for j in range(n_columns)]
    elif array.dtype.kind in "OUST":
        columns = [_from_objects(array[:, j].astype(object), name) for j, name in enumerate(names)]
    else:
        raise TypeError(f"X must hold numbers, text, booleans or dates, got {array.dtype}")
    return FeatureTable(names, n_rows, columns), array


def _refuse_infinity(values: NDArray[Any], names: Sequence[str]) -> None:
    # The sum is finite unless a value is not, or it overflows; only then are the values checked one by one.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return
    bad = np.isinf(values)
    if bad.any():
        name = names[int(np.flatnonzero(bad.any(axis=0))[0])] if values.ndim == 2 else names[0]
        raise ValueError(f"X must be finite, but column {name!r} holds infinity")


def _from_objects(values: NDArray[Any], name: str) -> FeatureColumn:
    """Infer the type of a column from an array of Python objects."""
    kinds = {kind: _kind_of(kind, name) for kind in set(map(type, values))}
    missing = np.array([kinds[type(v)] == "missing" or v != v for v in values], dtype=bool)
    # Without missing values: NaN is a number, but pandas also uses it for missing text.
    present = {kinds[kind] for kind in set(map(type, values[~missing]))}
    if present <= {"number", "boolean"}:
        numeric = np.full(len(values), np.nan)
        numeric[~missing] = [_as_number(v) for v in values[~missing]]
        _refuse_infinity(numeric, [name])
        return _number_column(numeric, boolean=present == {"boolean"})
    if present == {"date"}:
        dates = np.full(len(values), np.datetime64("NaT", "us"), dtype="datetime64[us]")
        dates[~missing] = [_as_datetime64(v) for v in values[~missing]]
        return _date_column(dates)
    if "date" in present:
        raise TypeError(f"a column must hold one type of value, but {name!r} mixes dates with others")
    text = np.full(len(values), None, dtype=object)
    text[~missing] = [label_of(v) for v in values[~missing]]
    return _text_column(text)


def _kind_of(kind: type, name: str) -> str:
    if kind.__name__ in _MISSING_TYPES:
        return "missing"
    if issubclass(kind, bool | np.bool_):
        return "boolean"
    if issubclass(kind, numbers.Real | decimal.Decimal | datetime.time | datetime.timedelta):
        return "number"
    if issubclass(kind, str):
        return "text"
    if issubclass(kind, datetime.date | np.datetime64):
        return "date"
    if issubclass(kind, numbers.Complex):
        raise ValueError(f"Complex data not supported, but column {name!r} holds {kind.__name__}")
    raise TypeError(f"argument must be a string or a number, but column {name!r} holds a {kind.__name__}")


def _as_number(value: Any) -> float:
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, datetime.time):  # hours since midnight
        return value.hour + value.minute / 60 + (value.second + value.microsecond / 1e6) / 3600
    return float(value)


def _as_datetime64(value: Any) -> np.datetime64:
    if isinstance(value, datetime.datetime):
        value = value.replace(tzinfo=None)  # local wall time
    return np.datetime64(value, "us")


def label_of(value: Any) -> str:
    """Label of a category; 3 and 3.0 are the same category."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    number = _as_number(value)
    return str(int(number)) if number.is_integer() else repr(number)


def _number_column(values: Floats, boolean: bool = False) -> FeatureColumn:
    if np.isnan(values).all():
        return FeatureColumn("empty", values)
    return FeatureColumn("number", values, boolean=boolean)


def _text_column(values: NDArray[Any], labels: tuple[str, ...] | None = None, category: bool = False) -> FeatureColumn:
    if all(value is None for value in values):
        return FeatureColumn("empty", np.full(len(values), np.nan))
    return FeatureColumn("text", values, labels, category=category)


def _date_column(values: NDArray[Any]) -> FeatureColumn:
    dates = values.astype("datetime64[us]")
    if np.isnat(dates).all():
        return FeatureColumn("empty", np.full(len(dates), np.nan))
    return FeatureColumn("date", dates)


# ----------------------------------------------------------------------------------------------- data frames


def _read_frame(frame: nw.DataFrame[Any], estimator: Any) -> FeatureTable:
    names = [str(name) for name in frame.columns]
    n_rows, n_columns = frame.shape
    by = f" by {type(estimator).__name__}" if estimator is not None else ""
    for count, what in ((n_rows, "sample(s)"), (n_columns, "feature(s)")):
        if count == 0:
            raise ValueError(f"Found array with 0 {what} (shape={frame.shape}) while a minimum of 1 is required{by}.")
    matrix = _as_matrix(frame)
    if matrix is not None:
        _refuse_infinity(matrix, names)
        return FeatureTable(names, n_rows, matrix=matrix)
    columns = [_from_series(series, name) for series, name in zip(frame.iter_columns(), names)]
    return FeatureTable(names, n_rows, columns)


def _as_matrix(frame: nw.DataFrame[Any]) -> Floats | None:
    """A pandas frame of numpy numbers as one writable matrix; None for other frames, which are read by column."""
    if not frame.implementation.is_pandas():
        return None
    native = frame.to_native()
    if not all(isinstance(dtype, np.dtype) and dtype.kind in "fiu" for dtype in native.dtypes.unique()):
        return None
    matrix: Floats = native.to_numpy(dtype=np.float64)
    return matrix if matrix.flags.writeable else matrix.copy(order="K")


def _as_floats(series: nw.Series[Any]) -> Floats:
    try:
        return series.cast(nw.Float64).to_numpy().astype(np.float64, copy=False)
    except ValueError:  # pyarrow refuses integers that would be rounded
        return np.array([np.nan if value is None else float(value) for value in series.to_list()])


def _from_series(series: nw.Series[Any], name: str) -> FeatureColumn:
    dtype = series.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        values = _as_floats(series)
        _refuse_infinity(values, [name])
        return _number_column(values, boolean=dtype == nw.Boolean)
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        # to_list, not to_numpy: narwhals 2 fills missing entries of arrow dictionaries with their neighbours
        text = np.array(series.cast(nw.String).to_list(), dtype=object)
        text[series.is_null().to_numpy()] = None  # pandas has several missing values
        labels = tuple(str(label) for label in dtype.categories) if isinstance(dtype, nw.Enum) else None
        return _text_column(text, labels, category=dtype != nw.String)
    if dtype in (nw.List, nw.Array, nw.Struct, nw.Binary):
        raise TypeError(f"X must hold numbers, text, booleans or dates, but column {name!r} is {dtype}")
    if isinstance(dtype, nw.Datetime) and dtype.time_zone is not None:
        series = series.dt.replace_time_zone(None)  # local wall time
    values = series.to_numpy()
    if values.dtype.kind == "M":
        return _date_column(values)
    if values.dtype.kind == "m":
        return _number_column(series.to_numpy() / np.timedelta64(1, "s"))
    if values.dtype.kind == "c":
        raise ValueError(f"Complex data not supported, but column {name!r} holds complex numbers")
    return _from_objects(values.astype(object), name)
