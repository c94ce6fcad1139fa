"""Targets: reading them, which map of them a model learns, and the point masses at their bounds."""

import datetime
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import column_or_1d

from usnrt.distributions.target_map import MIN_SHARE, TargetMap
from usnrt.tables.store import RowStore
from usnrt.tables.training import DistinctRows
from usnrt.utils.arrays import plain_array
from usnrt.utils.names import shown_value
from usnrt.utils.types import Floats

# The interval is at most this share of the gap between the bound and the nearest other target.
MAX_GAP = 0.99
BISECTIONS = 40


def bounds_of(target_bounds: Any) -> tuple[float, float]:
    """Lower and upper bound, infinite where there is none.

    Examples
    --------
    >>> from usnrt.estimators.targets import bounds_of
    >>> bounds_of((0, None)), bounds_of(None)
    ((0.0, inf), (-inf, inf))
    """
    low, high = (None, None) if target_bounds is None else target_bounds
    return -np.inf if low is None else float(low), np.inf if high is None else float(high)


@dataclass(frozen=True)
class TargetScale:
    """From targets to the values that networks learn: the map, then a mean of 0 and a standard deviation of 1.

    Attributes
    ----------
    mean, std : float
        Of the mapped targets.
    target_map : TargetMap or None

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.estimators.targets import TargetScale
    >>> TargetScale(10.0, 2.0)(np.array([10.0, 14.0]))
    array([0., 2.])
    """

    mean: float
    std: float
    target_map: TargetMap | None = None

    def __call__(self, target: Floats) -> Floats:
        """Scaled targets."""
        mapped = target if self.target_map is None else self.target_map.to_model(target)
        return (mapped - self.mean) / self.std


def check_target(
    y: Floats, target_bounds: Any, target_transform: str | None = None, *, is_numbered: bool = True
) -> None:
    """Raise a ValueError that names the first row whose target is outside the bounds, or below those of a logarithm.

    Parameters
    ----------
    y : ndarray of shape (n,)
    target_bounds : pair or None
    target_transform : {"log", "auto", None}
    is_numbered : bool, default=True
        Whether rows have numbers that the user knows; else the error states the value only.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.estimators.targets import check_target
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


def candidate_maps(y: Floats, target_bounds: Any, target_transform: str | None) -> list[TargetMap | None]:
    """The maps that a fit may use: one, or for ``"auto"`` those to choose from, without a logarithm first.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Targets of the rows to fit.
    target_bounds : pair or None
    target_transform : {"log", "auto", None}

    Returns
    -------
    list of TargetMap or None
        None for the identity without bounds.
    """
    low, high = bounds_of(target_bounds)
    plain = None if target_bounds is None else TargetMap(low, high).separated(y)
    from_low = 0.0 if low == -np.inf else low
    if target_transform is None or (target_transform == "auto" and (y.min() < from_low or y.min() == y.max())):
        return [plain]
    logarithm = TargetMap.logarithm(y, from_low, high).separated(y)
    return [logarithm] if target_transform == "log" else [plain, logarithm]


def with_point_masses(target_map: TargetMap, y: Floats, weight: Floats, cdf: Callable[[float], Floats]) -> TargetMap:
    """Choose the intervals that are mapped to the bounds, so that predicted and observed shares of the bounds agree.

    Networks predict values near a bound where many targets are at it. No target is between the bound and the nearest
    other one, so that what is predicted there is a matter of rounding: the part that belongs to the bound is chosen
    such that the mean predicted probability of the bound is the share of the targets at it, as far as the gap allows.

    Parameters
    ----------
    target_map : TargetMap
    y, weight : ndarray of shape (n,)
        Targets of rows that were not trained on.
    cdf : callable
        Predicted probability per row of a value up to a given one, on the target's scale but without bounds.

    Returns
    -------
    TargetMap
    """

    def end(bound: float, inward: float) -> float:
        at = y == bound
        share, others = float(np.average(at, weights=weight)), np.abs(y[~at] - bound)
        if not np.isfinite(bound) or share < MIN_SHARE or len(others) == 0:
            return bound

        def is_enough(distance: float) -> bool:
            below = float(np.average(cdf(bound + inward * distance), weights=weight))
            return (below if inward > 0 else 1.0 - below) >= share

        if is_enough(0.0):
            return bound
        nearest, farthest = 0.0, MAX_GAP * float(others.min())
        for _ in range(BISECTIONS):
            middle = (nearest + farthest) / 2.0
            nearest, farthest = (nearest, middle) if is_enough(middle) else (middle, farthest)
        return bound + inward * farthest

    low_end, high_end = end(target_map.low, 1.0), end(target_map.high, -1.0)
    if low_end >= high_end:  # all targets are at the bounds, and both ends are one quantile, up to rounding
        high_end = float(np.nextafter(low_end, np.inf))
    return replace(target_map, low_end=low_end, high_end=high_end)


def read_target(y: ArrayLike) -> NDArray[np.float64]:
    """Check a target: one finite number per row.

    Examples
    --------
    >>> from usnrt.estimators.targets import read_target
    >>> read_target([1, 2, 3])
    array([1., 2., 3.])
    """
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
        bad_row = next(row for row, value in enumerate(values) if not _is_number(value))
        if isinstance(values[bad_row], datetime.date | datetime.timedelta):
            _refuse_times("m" if isinstance(values[bad_row], datetime.timedelta) else "M", getattr(y, "name", None))
        raise ValueError(
            f"y must hold numbers, got y[{bad_row}]={shown_value(values[bad_row : bad_row + 1].tolist()[0])}"
        ) from None
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


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
