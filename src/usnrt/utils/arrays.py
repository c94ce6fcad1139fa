"""Arrays and weights as users give them, and weights as evidence."""

from typing import Any

import numpy as np

from usnrt.utils.types import Floats, Rows


def plain_array(values: Any, name: str) -> Any:
    """Array-likes whose mask counts as missing values; a ValueError for complex numbers and rows of unequal length.

    Masked values become NaN, NaT or None; anything but masked arrays is returned as it is. ``name`` is that of the
    argument, for the message.

    Examples
    --------
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


# Whole weights count rows; beyond this float64 does not hold every count.
MAX_TOTAL = 2.0**53


def check_total_weight(weight: Floats, name: str) -> None:
    """Raise a ValueError if weights are too large to be added up.

    Examples
    --------
    >>> check_total_weight(np.array([1.0, 1e300]), "sample_weight")
    Traceback (most recent call last):
        ...
    ValueError: sample_weight must add up to at most 2**53, got a weight of 1e+300; divide the weights by a constant
    """
    with np.errstate(over="ignore"):
        if weight.sum() > MAX_TOTAL:
            largest = f"got a weight of {weight.max():g}"
            raise ValueError(f"{name} must add up to at most 2**53, {largest}; divide the weights by a constant")


def effective_weight(weight: Floats) -> Floats:
    """Weights scaled so that their sum is the effective number of rows, (sum w)^2 / sum w^2 (Kish), shape (n,).

    Copies of a row carry no new information, so equal weights become 1, whatever their size.

    Examples
    --------
    >>> effective_weight(np.array([3.0, 3.0])), effective_weight(np.array([1.0, 3.0]))
    (array([1., 1.]), array([0.4, 1.2]))
    """
    if len(weight) == 0 or weight.min() == weight.max():
        return np.ones(len(weight))
    return weight * float(weight.sum() / (weight @ weight))


def evidence(weight: Floats, group: Rows | None = None, correlation: float = 1.0) -> Floats:
    """Weights scaled so that their sum is the effective number of independent scores, shape (n,).

    Without groups that is `effective_weight`. With them it is the effective number of groups, each of which counts once
    and shares its weight among its rows: rows of a group may have everything in common. If the correlation r of scores
    within groups is less, a group of m rows counts m / (1 + (m - 1) r) times.

    Examples
    --------
    >>> evidence(np.ones(3), np.array([7, 7, 8]))
    array([0.5, 0.5, 1. ])
    >>> evidence(np.ones(3), np.array([7, 7, 8]), correlation=0.0)
    array([1., 1., 1.])
    """
    if group is None or len(group) == 0:
        return effective_weight(weight)
    index, sizes = np.unique(group, return_inverse=True, return_counts=True)[1:]
    # Groups count by the mean weight of their rows: a large group is no more likely to be drawn than a small one.
    mean = np.bincount(index, weights=weight) / sizes
    return weight / (mean * (1.0 + (sizes - 1.0) * correlation))[index] * effective_weight(mean)[index]
