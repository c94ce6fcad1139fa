"""Integers that float64 cannot hold."""

import warnings
from typing import Any

import numpy as np

from usnrt.utils.notices import RoundedIntegersWarning, users_level
from usnrt.utils.types import TableLike

LARGEST_EXACT = 2**53


def warn_of_large_integers(X: TableLike, frame: Any = None) -> None:
    """Warn of the first column of integers beyond 2**53 that a float64 rounds.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
        Used if there is no frame.
    frame : narwhals.DataFrame, optional

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.tables.large_integers import warn_of_large_integers
    >>> warn_of_large_integers(np.array([[2**53]]))  # exact
    """
    columns: Any = ()
    if frame is not None:
        columns = (
            (str(name), [series.min(), series.max()], series)
            for name, series in zip(frame.columns, frame.iter_columns())
            if series.dtype.is_integer() and len(series)
        )
    elif isinstance(X, np.ndarray) and X.ndim == 2 and X.size and X.dtype.kind in "iu" and X.dtype.itemsize == 8:
        columns = ((f"x{j}", [X[:, j].min(), X[:, j].max()], X[:, j]) for j in range(X.shape[1]))
    elif isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "O":
        whole = ([v for v in X[:, j] if type(v) is int] or [0] for j in range(X.shape[1]))
        columns = ((f"x{j}", [min(values), max(values)], values) for j, values in enumerate(whole))
    for name, ends, values in columns:
        if all(end is None or abs(int(end)) <= LARGEST_EXACT for end in ends):
            continue
        listed = values.drop_nulls().to_list() if hasattr(values, "drop_nulls") else values
        rounded = next((int(value) for value in listed if int(float(value)) != int(value)), None)
        if rounded is not None:
            warnings.warn(
                f"column {name!r} holds integers beyond 2**53, which are rounded: {rounded} becomes "
                f"{int(float(rounded))}; make it text if it is an identifier",
                RoundedIntegersWarning,
                stacklevel=users_level(),
            )
            return
