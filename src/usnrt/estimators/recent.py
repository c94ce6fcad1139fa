"""The most recent rows of a table, for calibration."""

import datetime
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from usnrt.tables import read_table
from usnrt.tables.time import read_time, time_position
from usnrt.utils.types import Floats, Rows, TableLike

if TYPE_CHECKING:
    from usnrt.estimators.base import DistributionalRegressor


def recent_rows(model: "DistributionalRegressor", X: TableLike, n_rows: int, window: Any) -> Rows:
    """Positions of the rows in a window that ends with the latest row.

    Parameters
    ----------
    model : DistributionalRegressor
        Fitted. Rows are ordered by its time column, or without one as they are given.
    X : array-like or data frame of shape (n_rows, n_features)
    n_rows : int
    window : int, timedelta or None
        A number of rows, or a duration, for which the time column must hold dates; None for all rows.

    Returns
    -------
    ndarray of int
        In increasing order.
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
        raise ValueError(f"window must be a whole number of rows from 1 on, a timedelta or None, got {window!r}")
    order = np.arange(n_rows) if time is None else np.argsort(time, kind="stable")
    return np.sort(order[max(0, n_rows - int(window)) :])


def _time(model: "DistributionalRegressor", X: TableLike) -> tuple[Floats | None, bool]:
    """Time of each row if the model has a time column, and whether it is a date."""
    column = model._parameter("time_column")
    if column is None:
        return None, False
    table = read_table(model, X, reset=False)
    position = time_position(column, table)
    values = model.encoder_._checked(table.column(position), position)
    return read_time(values, table.names[position]), values.type == "date"
