"""One feature's values lined up for the split search, and safe arithmetic on values."""

from collections.abc import Iterator
from math import frexp, inf, ldexp, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from usnrt.tree._sorting import argsort

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Arrangement(NamedTuple):
    """One way to line up the rows: by value, the missing ones last or first.

    ``order`` (n,) are the rows, ``values`` (n,) their values in that order, ``allowed`` (n - 1,) whether the rows up
    to a position may be cut from those behind it.
    """

    order: IntArray
    values: FloatArray
    allowed: NDArray[np.bool_]
    missing_left: bool

    def threshold(self, position: int) -> float:
        """The threshold of a cut behind this position: halfway between the values, if that is safe."""
        return midpoint(float(self.values[position]), float(self.values[position + 1]))

    def admissible(self, weight: FloatArray, min_weight: float) -> IntArray:
        """The allowed positions that leave `min_weight` on both sides."""
        before = np.cumsum(weight[self.order])[:-1]
        total = weight.sum()
        return np.flatnonzero(self.allowed & (before >= min_weight) & (total - before >= min_weight))


class Column:
    """One feature's values in a node, sorted; NaN is missing.

    Parameters
    ----------
    values : ndarray of shape (n,)
    """

    def __init__(self, values: FloatArray) -> None:
        self.values = values
        self._order = argsort(values)  # NaN last
        self._sorted = values[self._order]
        # NaN sorts last, so the last value tells whether any is missing
        self.n_missing = int(np.isnan(values).sum()) if len(values) and np.isnan(self._sorted[-1]) else 0

    def arrangements(self) -> Iterator[Arrangement]:
        """The rows by value with the missing ones on the right and, if there are any, once more on the left.

        The cut between all present and all missing values belongs to the first arrangement.
        """
        order, values, n_present = self._order, self._sorted, len(self.values) - self.n_missing
        with np.errstate(invalid="ignore"):
            allowed = values[1:] > values[:-1]
        if self.n_missing == 0:
            yield Arrangement(order, values, allowed, False)
        elif n_present > 0:
            allowed[n_present - 1] = True
            yield Arrangement(order, values, allowed, False)
            order, values = np.roll(order, self.n_missing), np.roll(values, self.n_missing)
            with np.errstate(invalid="ignore"):
                yield Arrangement(order, values, values[1:] > values[:-1], True)


def midpoint(low: float, high: float) -> float:
    """A threshold t with low <= t < high: halfway, or `low` where rounding would not keep that.

    Examples
    --------
    >>> from usnrt.tree.column import midpoint
    >>> midpoint(1.0, 2.0), midpoint(1.0, float("inf")), midpoint(1.0, float("nan"))
    (1.5, 1.0, inf)
    """
    if np.isnan(high):
        return inf
    return between(low, high, 0.5)


def between(low: float, high: float, share: float) -> float:
    """So far on the way from `low` to `high`, or `low` where rounding would not keep it below `high`."""
    with np.errstate(invalid="ignore"):
        between = float((1 - share) * low + share * high)
    return between if low <= between < high else float(low)


def standardise(values: FloatArray, weight: FloatArray) -> FloatArray:
    """Values less their mean, over their standard deviation, safe for any scale and offset."""
    largest = float(np.abs(values).max())
    if largest > 0:
        # A power of two changes no digit, so that a large offset costs no accuracy.
        half = frexp(largest)[1] // 2
        values = values * ldexp(1.0, -half) * ldexp(1.0, half - frexp(largest)[1])
    values = values - np.average(values, weights=weight)
    spread = sqrt(np.average(values**2, weights=weight))
    return values / spread if spread > 0 else values
