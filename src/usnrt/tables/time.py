"""The time of each row, and which rows are the most recent ones."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.tables.dates import find_format, parse_dates
from usnrt.tables.reading import FeatureColumn, FeatureTable
from usnrt.utils.types import Floats

# Seconds in one round of each calendar part; a part is a feature if the table spans two of them.
ROUND = {"month": 366 * 86400.0, "day": 31 * 86400.0, "weekday": 7 * 86400.0, "hour": 86400.0, "minute": 3600.0}


def time_position(time_column: Any, table: FeatureTable) -> int:
    """The position of the time column, given by its name or position.

    Parameters
    ----------
    time_column : str or int
    """
    if isinstance(time_column, str):
        if time_column not in table.names:
            raise ValueError(f"time_column must name a column of X, but {time_column!r} is not one")
        return table.names.index(time_column)
    if not -table.n_columns <= time_column < table.n_columns:
        raise ValueError(f"time_column must be a position below {table.n_columns}, got {int(time_column)}")
    return int(time_column) % table.n_columns


def read_time(column: FeatureColumn, name: str) -> Floats:
    """The time of each row: a number as it is, a date in seconds since 1970.

    Parameters
    ----------
    name : str
        Of the column.

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.tables.reading import FeatureColumn
    >>> from usnrt.tables.time import read_time
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
    """Dates that are written as text, in the format in which all of them are dates.

    Parameters
    ----------
    values : ndarray of object or str of shape (n,)
        Text or dates; None, NaN and the empty text are missing.
    format : str, default=""
        The format to try first, as for ``strptime``.

    Returns
    -------
    ndarray of datetime64[us] of shape (n,)
        NaT where missing.

    Raises
    ------
    ValueError
        If no format fits all texts.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.tables.time import dates_of_texts
    >>> dates_of_texts(np.array(["31.12.2023", None, "01.02.2024"])).astype("datetime64[D]")
    array(['2023-12-31',        'NaT', '2024-02-01'], dtype='datetime64[D]')
    """
    texts = [None if v is None or v != v or v == "" else v for v in values.tolist()]
    if all(isinstance(text, str | None) for text in texts):
        found = (find_format(texts, format) if format else None) or find_format(texts)
        if found is not None:
            return parse_dates(texts, found.format)
    return np.array(["NaT" if text is None else str(text) for text in texts], dtype="datetime64[us]")


def is_latest(time: Floats, n_latest: int) -> NDArray[np.bool_]:
    """Mark the most recent rows, as close to ``n_latest`` of them as possible.

    Rows of one instant stay together, so that no row is older than an unmarked one; at least one row is not marked.

    Parameters
    ----------
    time : ndarray of shape (n,)

    Returns
    -------
    ndarray of bool of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.tables.time import is_latest
    >>> is_latest(np.array([3.0, 1.0, 2.0, 2.0, 5.0]), 2)
    array([ True, False, False, False,  True])
    """
    ordered = np.sort(time)
    if n_latest <= 0 or ordered[0] == ordered[-1]:
        return np.zeros(len(time), dtype=bool)
    cut = ordered[max(len(time) - n_latest, 0)]
    latest: NDArray[np.bool_] = time >= cut
    later: NDArray[np.bool_] = time > cut
    is_closer = latest.sum() - n_latest <= n_latest - later.sum()
    return latest if cut > ordered[0] and (is_closer or not later.any()) else later


def recurring_parts(time: Floats) -> frozenset[str]:
    """The calendar parts that recur within the table: those of which it spans at least two rounds.

    Parameters
    ----------
    time : ndarray of shape (n,)
        Seconds.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.tables.time import recurring_parts
    >>> sorted(recurring_parts(np.array([0.0, 30 * 86400.0])))
    ['hour', 'minute', 'weekday']
    """
    span = float(time.max() - time.min())
    return frozenset(part for part, length in ROUND.items() if span >= 2 * length)
