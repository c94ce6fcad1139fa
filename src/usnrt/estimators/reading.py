"""Reading the rows of a fit, of a prediction and of a window in time, and the identity of a fit in its checkpoint."""

import datetime
import hashlib
import os
from numbers import Integral
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted

from usnrt.estimators.targets import check_target, read_target
from usnrt.tables import TableEncoder, read_table
from usnrt.tables.columns import read_time
from usnrt.tables.dask_rows import is_dask
from usnrt.tables.find_source import WholeTable
from usnrt.tables.group_labels import check_codes_differ
from usnrt.tables.groups import groups_and_table, read_groups, warn_of_blocks
from usnrt.tables.reading import FeatureTable, column_position
from usnrt.tables.rows import counted_weight
from usnrt.tables.store import RowStore
from usnrt.tables.target_notices import warn_of_left_out, warn_of_target
from usnrt.tables.training import DistinctRows, distinct_rows
from usnrt.utils.arrays import check_total_weight, plain_array
from usnrt.utils.names import need_column
from usnrt.utils.result_table import json_value
from usnrt.utils.types import Floats, Rows, TableLike

if TYPE_CHECKING:
    from usnrt.estimators.base import DistributionalRegressor


def training_columns(X: TableLike, y: str, sample_weight: Any = None, groups: Any = None) -> WholeTable:
    """Take the columns that have a name out of a data frame, and the rows that have a target.

    Examples
    --------
    >>> import pandas as pd
    >>> given = training_columns(pd.DataFrame({"size": [1.0, 2.0], "n": [3, 1], "price": [7.5, 9.5]}), "price", "n")
    >>> list(given.X), given.y.tolist(), given.sample_weight.tolist()
    (['size'], [7.5, 9.5], [3, 1])
    """
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise ValueError(f"y must be an array if X has no column names, got {y!r}")
    names = list(dict.fromkeys(name for name in (y, sample_weight, groups) if isinstance(name, str)))
    for name in names:
        need_column([str(column) for column in frame.columns], name, "X")
    given, kept = frame[y], None
    is_missing = (given.is_null() | given.is_nan()) if given.dtype.is_float() else given.is_null()
    if is_missing.any():
        if is_missing.all():
            raise ValueError(f"the target {y!r} has no value in any row")
        kept = np.flatnonzero(~np.asarray(is_missing.to_numpy(), dtype=bool))
        frame = frame[kept]
        warn_of_left_out(len(given) - len(kept))

    def column(values: Any) -> Any:
        if isinstance(values, str):
            return frame[values].to_numpy()
        if values is None or kept is None:
            return values
        check_consistent_length(given, values)
        return np.asarray(plain_array(values, "sample_weight or groups"))[kept]  # by position, whatever an index says

    return WholeTable(frame.drop(names).to_native(), frame[y].to_native(), column(sample_weight), column(groups), kept)


def read_training_rows(
    model: "DistributionalRegressor",
    X: TableLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    groups: Any = None,
) -> tuple[DistinctRows, TableEncoder]:
    """Encode a table given to ``fit``, and merge its equal rows; the model gets the names of its features."""
    name = type(model).__name__
    if y is None:
        raise ValueError(f"This {name} estimator requires y to be passed, but the target y is None.")
    X, groups = groups_and_table(X, groups)
    features = read_table(model, X, reset=True)
    target = read_target(y)
    check_consistent_length(X, target)
    check_target(target, model._parameter("target_bounds"), model._parameter("target_transform"))
    if len(target) < 2:
        raise ValueError(f"{name} needs at least 2 rows, got n_samples={len(target)}")
    weight = _read_weight(name, sample_weight, target)
    column = model._parameter("time_column")
    position = None if column is None else column_position("time_column", column, features.names)
    encoder = TableEncoder().fit(features, model._parameter("categorical_features"), position)
    time = None if position is None else _read_time(encoder, features, position)
    given = None if groups is None else read_groups(groups, len(target))
    if given is not None and time is not None:
        raise ValueError("groups cannot be combined with time_column: validation rows are the latest")
    rows = distinct_rows(encoder.transform(features), target, counted_weight(weight), time, given)
    if rows.has_groups and rows.group is not None:  # of the rows that have a weight
        check_codes_differ(int(rows.group.min()), int(rows.group.max()))
    warn_of_target(rows.target, rows.raw, encoder.columns_, rows.position)
    if time is None and not rows.has_groups:
        warn_of_blocks(rows.raw, [column.name for column in encoder.columns_])
    return rows, encoder


def _read_weight(name: str, sample_weight: ArrayLike | None, target: Floats) -> Floats:
    sample_weight = plain_array(sample_weight, "sample_weight")
    weight: Floats = _check_sample_weight(sample_weight, target, dtype=np.float64, ensure_non_negative=True)
    if not weight.any():
        raise ValueError("sample_weight must be positive for at least one row, got only zeros")
    check_total_weight(weight, "sample_weight")
    if np.count_nonzero(weight) < 2 and weight.sum() < 2:
        raise ValueError(f"{name} needs at least 2 rows with a positive weight, got 1")
    return weight


def _read_time(encoder: TableEncoder, features: FeatureTable, position: int) -> Floats:
    """The time of each row, at least two different ones."""
    name = features.names[position]
    time = read_time(encoder._checked(features.column(position), position), name)
    if time.min() == time.max():
        raise ValueError(f"time_column must have at least two different values, got {name!r}")
    return time


def encode_rows(model: "DistributionalRegressor", X: TableLike) -> Floats:
    """Encoded rows of a table in memory, for a prediction by a fitted model."""
    if not hasattr(model, "encoder_"):
        check_is_fitted(model)
    if isinstance(X, str | os.PathLike):
        raise TypeError(f"predict_table and predict_blocks take files, this takes a table in memory, got {X!r}")
    if is_dask(X):
        raise TypeError("predict and predict_table take Dask collections, this takes a table in memory")
    return model.encoder_.transform(read_table(model, X, reset=False))


# Parameters that do not affect the fitted model.
OF_THE_RUN = ("n_jobs", "verbose", "callbacks")


def check_resumable(estimator: Any, checkpoint: Any) -> None:
    """Refuse a checkpoint for an estimator that has none."""
    if checkpoint is not None and not estimator._RESUMABLE:
        raise ValueError(
            f"checkpoint must be None for {type(estimator).__name__}, which cannot continue a fit, got {checkpoint!r}"
        )


def identity_of(estimator: BaseEstimator, store: RowStore, n_categories: ArrayLike) -> dict[str, dict[str, Any]]:
    """Class, parameters and data of a fit as JSON values, by topic.

    The order of the rows depends on their content only, so a table is the same in any order. Columns have numbers of
    categories, 0 for numbers.
    """
    parameters = {
        name: json_value(value, nonfinite="text", other=_described)
        for name, value in estimator.get_params(deep=True).items()
        if name.split("__")[-1] not in OF_THE_RUN and not hasattr(value, "get_params")
    }
    digest = hashlib.sha256(np.asarray(n_categories, dtype=np.int64).tobytes())
    for bucket in range(store.n_buckets):
        digest.update(store.hashes(bucket).tobytes())
    for bucket in range(store.n_buckets):
        digest.update(store.read(bucket).weight.tobytes())
    data = {"columns": store.n_features, "rows": store.n_rows, "hash of the data": digest.hexdigest()[:16]}
    return {"estimator": {"estimator": type(estimator).__name__}, "parameters": parameters, "data": data}


def _described(value: Any) -> str:
    """Text for a value that JSON does not have: the same for equal random generators."""
    if isinstance(value, np.random.RandomState):
        kind, keys, *position = value.get_state(legacy=True)
        return f"{kind} {hashlib.sha256(np.asarray(keys).tobytes()).hexdigest()[:16]} {position}"
    return repr(value)


def recent_rows(model: "DistributionalRegressor", X: TableLike, n_rows: int, window: Any) -> Rows:
    """Positions, in increasing order, of the rows in a window that ends with the latest row.

    Rows are ordered by the time column of the model, or without one as they are given. The window is a number of rows,
    or a duration, for which the time column must hold dates; None for all rows.
    """
    if window is None:
        return np.arange(n_rows)
    time, is_date = _time(model, X)
    if isinstance(window, datetime.timedelta | np.timedelta64):
        seconds = float(np.timedelta64(window) / np.timedelta64(1, "s"))
        if time is None or not is_date:
            raise ValueError(f"window as a duration needs a model with a time_column of dates, got {window!r}")
        if not seconds > 0:
            raise ValueError(f"window must be positive, got {window!r}")
        return np.flatnonzero(time > time.max() - seconds)
    if not isinstance(window, Integral) or isinstance(window, bool) or window < 1:
        raise ValueError(f"window must be an int >= 1, a timedelta or None, got {window!r}")
    order = np.arange(n_rows) if time is None else np.argsort(time, kind="stable")
    return np.sort(order[max(0, n_rows - int(window)) :])


def _time(model: "DistributionalRegressor", X: TableLike) -> tuple[Floats | None, bool]:
    """Time of each row if the model has a time column, and whether it is a date."""
    column = model._parameter("time_column")
    if column is None:
        return None, False
    table = read_table(model, X, reset=False)
    position = column_position("time_column", column, table.names)
    values = model.encoder_._checked(table.column(position), position)
    return read_time(values, table.names[position]), values.type == "date"
