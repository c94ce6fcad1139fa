"""The mean of weights without rounding, so that it does not depend on the order of rows or on their blocks."""

from fractions import Fraction

import numpy as np

from usnrt.utils.types import Floats


class WeightSum:
    """The exact sum of weights, in any order of the rows; see `usnrt.tables.rows.counted_weight`.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.tables.weight_sum import WeightSum
    >>> weights = WeightSum()
    >>> weights.add(np.array([0.5, 1.0, 0.0]))
    >>> weights.scale
    0.75
    """

    def __init__(self) -> None:
        self.whole = True
        self.n_positive = 0
        self._sum = Fraction(0)

    def add(self, weight: Floats) -> None:
        """Add the weights of a block."""
        self.n_positive += int(np.count_nonzero(weight))
        if self.whole and not np.array_equal(weight, np.floor(weight)):
            self.whole = False
        mantissa, exponent = np.frexp(weight)
        digits = (mantissa * 2**53).astype(np.int64)
        for power in np.unique(exponent):
            part = digits[exponent == power]
            # halves of the digits, as a sum of 2**31 whole numbers of 53 digits would overflow
            total = (int((part >> 26).sum()) << 26) + int((part & (2**26 - 1)).sum())
            self._sum += Fraction(total) * Fraction(2) ** (int(power) - 53)

    def merge(self, other: "WeightSum") -> None:
        """Add the weights of another sum."""
        self.whole &= other.whole
        self.n_positive += other.n_positive
        self._sum += other._sum

    @property
    def scale(self) -> float:
        """What weights are divided by: 1 if they are whole numbers, else their mean."""
        return 1.0 if self.whole else float(self._sum / self.n_positive)
