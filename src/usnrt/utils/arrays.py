"""Arrays as users give them: masked, complex, or lists of unequal length."""

from typing import Any

import numpy as np


def plain_array(values: Any, name: str) -> Any:
    """Array-likes whose mask counts as missing values; a ValueError for complex numbers and rows of unequal length.

    Parameters
    ----------
    values : object
        Anything but masked arrays and lists is returned as it is.
    name : str
        That of the argument, for the message.

    Returns
    -------
    object
        For a masked array one with NaN, NaT or None in place of masked values.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.utils.arrays import plain_array
    >>> plain_array(np.ma.array([1, 2], mask=[False, True]), "y")
    array([ 1., nan])
    >>> plain_array([[1, 2], [3]], "X")
    Traceback (most recent call last):
        ...
    ValueError: X must have rows of equal length, got 2 values in row 0 and 1 in row 1
    """
    if isinstance(values, np.ma.MaskedArray):
        values = _without_mask(values)
    if isinstance(values, np.ndarray) and values.dtype.kind == "c":
        raise ValueError(f"Complex data not supported, but {name} holds complex numbers")
    if isinstance(values, list | tuple):
        _check_lengths(values, name)
    return values


def _without_mask(values: Any) -> Any:
    if not np.ma.is_masked(values):
        return values.data
    if values.dtype.kind in "iuf":
        return values.astype(np.float64).filled(np.nan)
    if values.dtype.kind in "mM":
        return values.filled(np.array("NaT", dtype=values.dtype))
    if values.dtype.kind == "c":
        return values.data
    objects = values.data.astype(object)
    objects[np.ma.getmaskarray(values)] = None
    return objects


def _length(row: Any) -> int:
    """Number of values of a row, -1 for a single value."""
    is_row = hasattr(row, "__len__") and not isinstance(row, str | bytes) and getattr(row, "ndim", 1) > 0
    return len(row) if is_row else -1


def _check_lengths(rows: list[Any] | tuple[Any, ...], name: str) -> None:
    lengths = [_length(row) for row in rows]
    other = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
    if other is None:
        return
    first, second = (f"{n} values" if n >= 0 else "one value" for n in (lengths[0], lengths[other]))
    second = second.removesuffix(" values")
    raise ValueError(f"{name} must have rows of equal length, got {first} in row 0 and {second} in row {other}")
