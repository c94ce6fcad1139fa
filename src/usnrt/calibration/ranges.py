"""The range of a column in the training rows, extended by a margin, and the unit of distances beyond it."""

import numpy as np
from numpy.typing import NDArray

# The range of a region is extended by the largest of: this share of the range, this share of the column's standard
# deviation, and the distance between the most and the tenth most extreme value (heavy tails).
RANGE_MARGIN, STD_MARGIN, TAIL_ROWS = 0.1, 0.1, 10
CONSTANT_MARGIN = 1e-6  # relative margin of a column that is constant in training
# Distances outside a range are measured in standard deviations, but the unit is at least this share of the range of the
# whole column (a rare 1 among zeros is many standard deviations away) and at least the margin.
RANGE_UNIT = 0.25


def column_scale(values: NDArray[np.float64]) -> tuple[float, float]:
    """Standard deviation of a column, and the minimal unit of distances outside its range."""
    largest = float(np.abs(values).max())
    # Scaled first, since squares of huge numbers would overflow.
    std = largest * float(np.std(values / largest)) if largest > 0 else 0.0
    if std <= 1e-12 * largest:  # constant: its value is the only scale
        return 0.0, max(largest, 1.0)
    return std, max(std, RANGE_UNIT * float(np.ptp(values / largest)) * largest)


def extended_range(values: NDArray[np.float64], std: float, unit: float) -> tuple[float, float, float, float]:
    """Range of the values with a margin, and the units of distances below and above it."""
    k = min(TAIL_ROWS, len(values)) - 1
    ordered = np.partition(values, [0, k, len(values) - 1 - k, len(values) - 1])
    low, high = ordered[0], ordered[-1]
    with np.errstate(over="ignore"):
        margin = max(RANGE_MARGIN * (high - low), STD_MARGIN * std, CONSTANT_MARGIN * unit)
        below, above = max(margin, ordered[k] - low), max(margin, high - ordered[-1 - k])
        return float(low - below), float(high + above), max(unit, float(below)), max(unit, float(above))
