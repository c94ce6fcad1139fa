"""Reading tables and targets for a fit, and encoding rows for predictions."""

import os
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted

from usnrt.estimators.targets import check_target, read_target
from usnrt.tables import TableEncoder, read_table
from usnrt.tables.dask_rows import is_dask
from usnrt.tables.fingerprint import Fingerprint, fingerprint
from usnrt.tables.group_labels import check_codes_differ
from usnrt.tables.groups import groups_and_table, read_groups, warn_of_blocks
from usnrt.tables.reading import FeatureTable
from usnrt.tables.rows import counted_weight
from usnrt.tables.target_notices import left_out_sentence, warn_of_target
from usnrt.tables.time import read_time, time_position
from usnrt.tables.training import DistinctRows, distinct_rows
from usnrt.utils.arrays import plain_array
from usnrt.utils.names import need_column
from usnrt.utils.notices import MissingTargetWarning, users_level
from usnrt.utils.types import Floats, Rows, TableLike
from usnrt.utils.weights import check_total_weight

if TYPE_CHECKING:
    from usnrt.estimators.base import DistributionalRegressor


@dataclass(frozen=True)
class TrainingColumns:
    """A table in memory, divided into features, target, weights and groups.

    Attributes
    ----------
    X, y, sample_weight, groups
        As ``fit`` takes them.
    kept : ndarray of int or None
        Positions of the rows in the table that was given; None if it is all of them.
    """

    X: Any
    y: Any
    sample_weight: Any
    groups: Any
    kept: Rows | None = None


def training_columns(X: TableLike, y: str, sample_weight: Any = None, groups: Any = None) -> TrainingColumns:
    """Take the columns that have a name out of a data frame, and the rows that have a target.

    Parameters
    ----------
    X : data frame of shape (n_samples, n_columns)
    y : str
    sample_weight, groups : str, array-like or None

    Examples
    --------
    >>> import pandas as pd
    >>> from usnrt.estimators.reading import training_columns
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
        warnings.warn(left_out_sentence(len(given) - len(kept)), MissingTargetWarning, stacklevel=users_level())

    def column(values: Any) -> Any:
        if isinstance(values, str):
            return frame[values].to_numpy()
        return values if values is None or kept is None else plain_array(values, "sample_weight or groups")[kept]

    return TrainingColumns(
        frame.drop(names).to_native(), frame[y].to_native(), column(sample_weight), column(groups), kept
    )


@dataclass(frozen=True)
class ReadRows:
    """Rows of a table that was read for a fit.

    Attributes
    ----------
    rows : DistinctRows
    encoder : TableEncoder
    fingerprint : Fingerprint
        Of the rows that have a weight.
    target_name : str or None
        If the target had one.
    """

    rows: DistinctRows
    encoder: TableEncoder
    fingerprint: Fingerprint
    target_name: str | None


def read_training_rows(
    model: "DistributionalRegressor",
    X: TableLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    groups: Any = None,
) -> ReadRows:
    """Encode a table, and merge its equal rows.

    Parameters
    ----------
    model : DistributionalRegressor
        Its parameters are used; the names of its features are set.
    X, y, sample_weight, groups
        As given to ``fit``.
    """
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
    position = None if column is None else time_position(column, features)
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
    target_name = getattr(y, "name", None)
    return ReadRows(
        rows,
        encoder,
        fingerprint(rows.raw, rows.target, rows.weight),
        target_name if isinstance(target_name, str) else None,
    )


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


def encode_rows(model: "DistributionalRegressor", X: TableLike) -> NDArray[np.float64]:
    """Encoded rows of a table in memory, for a prediction by a fitted model."""
    if not hasattr(model, "encoder_"):
        check_is_fitted(model)
    if isinstance(X, str | os.PathLike):
        raise TypeError(f"predict_table and predict_blocks take files, this takes a table in memory, got {X!r}")
    if is_dask(X):
        raise TypeError("predict and predict_table take Dask collections, this takes a table in memory")
    return model.encoder_.transform(read_table(model, X, reset=False))
