"""Reading and checking targets."""

import datetime
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import column_or_1d

from usnrt.model.target import bounds_of
from usnrt.tables.store import RowStore
from usnrt.tables.training import DistinctRows
from usnrt.utils.arrays import plain_array
from usnrt.utils.names import first_text, shown_value
from usnrt.utils.types import Floats


def check_target(
    y: Floats, target_bounds: Any, target_transform: str | None = None, *, is_numbered: bool = True
) -> None:
    """Raise a ValueError that names the first row whose target is outside the bounds, or below those of a logarithm.

    If rows have no numbers that the user knows, the error states the value only.

    Examples
    --------
    >>> check_target(np.array([3.0, -1.0]), (0, None))
    Traceback (most recent call last):
        ...
    ValueError: y must be within target_bounds=(0, None), got y[1]=-1.0
    """

    def shown(row: np.intp) -> str:
        return f"y[{row}]={y[row]}" if is_numbered else str(y[row])

    low, high = bounds_of(target_bounds)
    bad = np.flatnonzero((y < low) | (y > high))
    if len(bad):
        raise ValueError(f"y must be within target_bounds={target_bounds!r}, got {shown(bad[0])}")
    bad = np.flatnonzero(y < 0)
    if target_transform == "log" and low == -np.inf and len(bad):
        raise ValueError(
            f"y must be at least 0 for target_transform='log', got {shown(bad[0])}; "
            "target_bounds=(low, None) sets another lower bound"
        )


def check_stored_target(store: RowStore, target_bounds: Any, target_transform: str | None) -> None:
    """`check_target` for all rows of a store; it is not read if there is nothing to check."""
    if target_bounds is not None or target_transform == "log":
        for _ in store.map_buckets(_check_bucket, target_bounds, target_transform):
            pass


def _check_bucket(
    rows: DistinctRows, hashes: NDArray[np.uint64], target_bounds: Any, target_transform: str | None
) -> None:
    check_target(rows.target, target_bounds, target_transform, is_numbered=False)


def read_target(y: ArrayLike) -> Floats:
    """Check a target: one finite number per row."""
    y = plain_array(y, "y")
    try:
        values = column_or_1d(y, warn=True)
    except ValueError:
        shape = np.asarray(y).shape
        if len(shape) != 2 or shape[1] < 2:
            raise
        raise ValueError(
            f"y should be a 1d array, got an array of shape {shape}: for several targets use "
            "sklearn.multioutput.MultiOutputRegressor(model), which fits one model per target"
        ) from None
    if np.iscomplexobj(values):
        raise ValueError("Complex data not supported, but y holds complex numbers")
    if values.dtype.kind in "mM":
        _refuse_times(values.dtype.kind, getattr(y, "name", None))
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        row = first_text(values) or 0
        value = values[row : row + 1].tolist()[0]  # of Python, not of numpy
        if isinstance(value, datetime.date | datetime.timedelta):
            _refuse_times("m" if isinstance(value, datetime.timedelta) else "M", getattr(y, "name", None))
        raise ValueError(f"y must hold numbers, got y[{row}]={shown_value(value)}") from None
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        raise ValueError(
            f"y must be finite, got y[{bad[0]}]={numbers[bad[0]]} "
            "(Input y contains NaN, infinity or a value too large for dtype('float64').)"
        )
    return numbers


def _refuse_times(kind: str, name: object) -> NoReturn:
    """Raise the error for a target of dates ("M") or durations ("m")."""
    column = f" in {name!r}" if isinstance(name, str) else ""
    if kind == "M":
        raise ValueError(
            f"y must hold numbers, got dates{column}; convert them, for example to days since the first: "
            "(y - y.min()) / numpy.timedelta64(1, 'D')"
        )
    raise ValueError(
        f"y must hold numbers, got durations{column}; convert them, for example to days: y / numpy.timedelta64(1, 'D')"
    )
