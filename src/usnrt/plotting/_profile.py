"""Rows in which one feature varies over its range and the others are fixed, for arrays and data frames."""

from collections.abc import Callable
from typing import Any

import narwhals as nw
import numpy as np

from usnrt.utils.types import Floats, TableLike


def profile_rows(
    X: TableLike, feature: int | str, n_points: int
) -> tuple[str, Floats, Floats, Callable[[Floats], Any]]:
    """Name and values of a feature, a grid over its range, and a function from values of it to rows.

    Other numeric columns are fixed at their mean, other columns at their most frequent value.
    """
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        names = frame.columns
        position = _position(feature, names, len(names))
        if not frame.schema[names[position]].is_numeric():
            raise ValueError(f"feature must be numeric, got {names[position]} of type {frame.schema[names[position]]}")
        seen = frame[names[position]].to_numpy().astype(np.float64)
        return names[position], seen, _grid(seen, n_points), lambda values: _frame_rows(frame, names[position], values)
    table = np.asarray(X)
    if table.ndim != 2:
        raise ValueError(f"X must have shape (n, d), got {table.shape}")
    position = _position(feature, [], table.shape[1])
    try:
        numbers = table.astype(np.float64)
    except ValueError as error:
        raise ValueError("X must be numeric or a data frame, got an array with text") from error
    center = np.nanmean(numbers, axis=0)

    def build(values: Floats) -> Floats:
        rows = np.tile(center, (values.size, 1))
        rows[:, position] = values
        return rows

    seen = numbers[:, position]
    return f"x{position}", seen, _grid(seen, n_points), build


def _position(feature: int | str, names: list[str], d: int) -> int:
    if isinstance(feature, str):
        if feature not in names:
            raise ValueError(f"feature must be one of {names or 'the positions'}, got {feature!r}")
        return names.index(feature)
    if not 0 <= feature < d:
        raise ValueError(f"feature must be in [0, {d}), got {feature}")
    return int(feature)


def _grid(seen: Floats, n_points: int) -> Floats:
    finite = seen[np.isfinite(seen)]
    if finite.size == 0:
        raise ValueError("feature must have a finite value, got none")
    return np.linspace(finite.min(), finite.max(), n_points)


def _frame_rows(frame: "nw.DataFrame[Any]", name: str, values: Floats) -> Any:
    """Rows with the values of one column and constants in the others; column types are kept."""
    n, backend = values.size, frame.implementation
    changed = []
    for column in frame.columns:
        series = frame[column]
        if column == name:
            changed.append(nw.new_series(column, values, backend=backend))
        elif series.dtype.is_numeric():
            mean = float(np.nanmean(series.to_numpy().astype(np.float64)))
            changed.append(nw.new_series(column, np.full(n, mean), backend=backend))
        else:
            labels = series.to_list()
            present = [label for label in labels if label is not None]
            most_frequent = max(sorted(set(present), key=str), key=present.count) if present else None
            changed.append(series[[labels.index(most_frequent)] * n])
    # A new index from 0: pandas would otherwise align the columns by their index.
    columns = [nw.maybe_reset_index(series.to_frame()) for series in changed]
    return nw.concat(columns, how="horizontal").to_native()
