"""Sorted values of one feature for the split search, and numerically safe thresholds and scaling."""

from collections.abc import Iterator
from math import ceil, frexp, inf, ldexp, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from usnrt.tree._sorting import argsort

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Limits:
    """Thresholds of a column that leave enough rows of a node on both sides.

    It refers to all rows of the node, of which only a part may be tested.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Values of all rows of the node, NaN where missing.
    weight : ndarray of shape (n,)
        Weights of the rows.
    min_weight : float
        The smallest weight of a side.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.tree.split_column import Limits
    >>> limits = Limits(np.array([1.0, 2.0, 3.0, 4.0, np.nan]), np.ones(5), 2.0)
    >>> limits.interval(missing_left=None), limits.interval(missing_left=True)
    ((2.0, 3.0), (1.0, 3.0))
    """

    def __init__(self, values: FloatArray, weight: FloatArray, min_weight: float) -> None:
        missing = np.isnan(values)
        any_missing = bool(missing.any())
        self.min_weight = min_weight
        self.missing_weight = float(weight[missing].sum()) if any_missing else 0.0
        self._values = values[~missing] if any_missing else values
        self._weight = weight[~missing] if any_missing else weight
        self.present_weight = float(self._weight.sum())

    @property
    def missing_alone(self) -> bool:
        """Whether the missing values, and the present ones, each have enough weight for a side."""
        return min(self.missing_weight, self.present_weight) >= self.min_weight

    def interval(self, missing_left: bool | None) -> tuple[float, float]:
        """The half-open interval [low, high) of the admissible thresholds; empty if low >= high.

        Parameters
        ----------
        missing_left : bool or None
            Whether missing values go left; None if each side must have enough weight without them, because they go to
            the side with more rows.
        """
        need_left = self.min_weight - (self.missing_weight if missing_left is True else 0.0)
        need_right = self.min_weight - (self.missing_weight if missing_left is False else 0.0)
        if max(need_left, need_right) > self.present_weight:
            return inf, -inf
        if len(self._weight) and self._weight.min() == self._weight.max():
            return self._interval_of_equal_weights(need_left, need_right, float(self._weight[0]))
        order = argsort(self._values)
        values, below = self._values[order], np.cumsum(self._weight[order])
        last = len(values) - 1
        low = -inf if need_left <= 0 else float(values[min(int(np.searchsorted(below, need_left)), last)])
        # the largest value such that the rows from it on have enough weight
        above = np.cumsum(self._weight[order][::-1])
        high = inf if need_right <= 0 else float(values[last - min(int(np.searchsorted(above, need_right)), last)])
        return low, high

    def _interval_of_equal_weights(self, need_left: float, need_right: float, weight: float) -> tuple[float, float]:
        """The interval without sorting: the k-th smallest and the k-th largest value."""
        n = len(self._values)
        n_left, n_right = (min(ceil(need / weight), n) for need in (need_left, need_right))
        ranks = [k for k in (n_left - 1, n - n_right) if 0 <= k < n]
        values = np.partition(self._values, ranks) if ranks else self._values
        low = float(values[n_left - 1]) if n_left > 0 else -inf
        return low, float(values[n - n_right]) if n_right > 0 else inf


class Arrangement(NamedTuple):
    """Rows sorted by value, with missing values last or first.

    ``order`` (n,) are the rows, ``values`` (n,) their values in that order, ``allowed`` (n - 1,) whether there may be a
    cut after each position. Thresholds are in [``low``, ``high``), see `Limits`.
    """

    order: IntArray
    values: FloatArray
    allowed: NDArray[np.bool_]
    missing_left: bool
    low: float = -inf
    high: float = inf

    def gap(self, position: int) -> tuple[float, float]:
        """The half-open interval of the thresholds of a cut after this position."""
        upper = float(self.values[position + 1])
        if np.isnan(upper):  # the cut of missing from present values
            return inf, upper
        return max(float(self.values[position]), self.low), min(upper, self.high)

    def threshold(self, position: int) -> float:
        """The threshold of a cut after this position: halfway between the values, if rounding permits."""
        return midpoint(*self.gap(position))

    def admissible(self, weight: FloatArray, min_weight: float) -> IntArray:
        """The allowed positions that leave `min_weight` on both sides."""
        before = np.cumsum(weight[self.order])[:-1]
        total = weight.sum()
        return np.flatnonzero(self.allowed & (before >= min_weight) & (total - before >= min_weight))


class SplitColumn:
    """Values of one feature of the tested rows, sorted; NaN is missing.

    Parameters
    ----------
    values : ndarray of shape (n,)
    limits : Limits, optional
        The thresholds that all rows of the node admit, if only a part of them is tested.
    step : int, default=1
        Only every ``step``-th possible threshold is allowed.
    """

    def __init__(self, values: FloatArray, limits: Limits | None = None, step: int = 1) -> None:
        self.values = values
        self.limits = limits
        self.step = step
        self._order = argsort(values)  # NaN last
        self._sorted = values[self._order]
        # NaN sorts last: no count is needed if the last value is not NaN
        self.n_missing = int(np.isnan(values).sum()) if len(values) and np.isnan(self._sorted[-1]) else 0

    def arrangements(self) -> Iterator[Arrangement]:
        """The rows by value with missing values on the right and, if there are any, also on the left.

        The cut of missing from present values belongs to the first arrangement.
        """
        order, values, n_present = self._order, self._sorted, len(self.values) - self.n_missing
        if self.n_missing == 0:
            yield self._arranged(order, values, False)
        elif n_present > 0:
            arrangement = self._arranged(order, values, False)
            arrangement.allowed[n_present - 1] = self.limits is None or self.limits.missing_alone
            yield arrangement
            yield self._arranged(np.roll(order, self.n_missing), np.roll(values, self.n_missing), True)

    def _arranged(self, order: IntArray, values: FloatArray, missing_left: bool) -> Arrangement:
        with np.errstate(invalid="ignore"):
            allowed = values[1:] > values[:-1]
            if self.step > 1:
                possible = np.flatnonzero(allowed)
                allowed = np.zeros_like(allowed)
                allowed[possible[self.step - 1 :: self.step]] = True
            if self.limits is None:
                return Arrangement(order, values, allowed, missing_left)
            low, high = self.limits.interval(missing_left if self.n_missing else None)
            allowed &= (low < high) & (values[:-1] < high) & (values[1:] > low)
        return Arrangement(order, values, allowed, missing_left, low, high)


def midpoint(low: float, high: float) -> float:
    """A threshold t with low <= t < high: halfway, or `low` where rounding would violate this.

    Examples
    --------
    >>> from usnrt.tree.split_column import midpoint
    >>> midpoint(1.0, 2.0), midpoint(1.0, float("inf")), midpoint(1.0, float("nan"))
    (1.5, 1.0, inf)
    """
    if np.isnan(high):
        return inf
    return between(low, high, 0.5)


def between(low: float, high: float, share: float) -> float:
    """Linear interpolation from `low` (share 0) to `high` (share 1); `low` where rounding would reach `high`."""
    with np.errstate(invalid="ignore"):
        value = float((1 - share) * low + share * high)
    return value if low <= value < high else float(low)


def standardise(values: FloatArray, weight: FloatArray) -> FloatArray:
    """Values minus their mean, divided by their standard deviation, without overflow at any scale."""
    largest = float(np.abs(values).max())
    if largest > 0:
        # Scaling by a power of two is exact.
        half = frexp(largest)[1] // 2
        values = values * ldexp(1.0, -half) * ldexp(1.0, half - frexp(largest)[1])
    values = values - np.average(values, weights=weight)
    spread = sqrt(np.average(values**2, weights=weight))
    return values / spread if spread > 0 else values
