"""Wider quantile functions: adding the variance of an error, and finding how much is needed."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from usnrt.calibration.landmarks import evenly
from usnrt.nn.quantile_functions import value_at
from usnrt.nn.quantiles import MEDIAN, POSITIONS

MEASURED_LEVELS = (0.5, 0.8, 0.9, 0.95)
# Bounds of the number of rows used to measure missing-value variances, and of rows times columns.
MIN_MEASURED_ROWS, FEW_MEASURED_ROWS, MAX_MEASURED_ROWS, MAX_MEASURED_CELLS = 20, 200, 1000, 25_000
MAX_MEASURED_COLUMNS = 1024  # predictions of all these rows: their number times the width of the rows is the work


def widened(quantiles: NDArray[np.float64], variance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add the variance of an independent normal error to quantile functions, with unchanged median.

    The distances of the quantiles from the median are added in quadrature to those of the error. This is exact for
    normal distributions; in general the result is increasing and not narrower.

    Parameters
    ----------
    quantiles : ndarray of shape (n, n_positions)
        At `usnrt.nn.quantiles.POSITIONS`.
    variance : ndarray of shape (n,)

    Returns
    -------
    ndarray of shape (n, n_positions)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.nn.quantiles import POSITIONS
    >>> from usnrt.calibration.widening import widened
    >>> quantiles = widened(2.0 + 3.0 * POSITIONS[None, :], np.array([16.0]))  # 9 + 16 = 25
    >>> bool(np.allclose(quantiles, 2.0 + 5.0 * POSITIONS))
    True
    """
    median = quantiles[:, [MEDIAN]]
    distance = np.hypot(quantiles - median, np.sqrt(variance)[:, None] * POSITIONS)
    wider: NDArray[np.float64] = median + np.sign(POSITIONS) * distance
    return wider


def robust_variance(y: NDArray[np.float64]) -> float:
    """Variance of a normal distribution with the quantiles of values; a single outlier hardly changes it.

    Parameters
    ----------
    y : ndarray of shape (n,)

    Returns
    -------
    float
        The larger of those by the 25 % and 75 % and by the 5 % and 95 % quantiles. If both are 0, the ordinary
        variance; if that is 0, too, 1, the variance of scaled targets.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.calibration.widening import robust_variance
    >>> y = np.random.default_rng(0).normal(size=1000)
    >>> round(robust_variance(y), 1), round(robust_variance(np.append(y, 1e6)), 1)
    (0.9, 0.9)
    """
    variance = 0.0
    for level in (0.25, 0.05):
        # order statistics on the inner side: an interpolated quantile of few values would include an outlier
        low, high = np.quantile(y, level, method="higher"), np.quantile(y, 1.0 - level, method="lower")
        variance = max(variance, (max(float(high - low), 0.0) / (2.0 * float(ndtri(1.0 - level)))) ** 2)
    return variance or float(np.var(y)) or 1.0


def measured_rows(n_rows: int, n_columns: int) -> NDArray[np.intp]:
    """Indices of the validation rows used to measure missing-value variances: evenly spaced, fewer for wide tables.

    Examples
    --------
    >>> from usnrt.calibration.widening import measured_rows
    >>> len(measured_rows(800, 4)), len(measured_rows(5000, 4)), len(measured_rows(5000, 90))
    (800, 1000, 277)
    """
    return evenly(n_rows, int(np.clip(MAX_MEASURED_CELLS // n_columns, FEW_MEASURED_ROWS, MAX_MEASURED_ROWS)))


def variances_of_columns(
    n_columns: int, variances_of: Callable[[Sequence[NDArray[np.intp]]], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Missing-value variance of each column, from those of at most `MAX_MEASURED_COLUMNS` groups of columns.

    More columns than that are first missing in groups, each column with an equal share of its group's variance; then
    the columns of the groups with the largest variances one by one.

    Parameters
    ----------
    variances_of : callable
        Takes groups of columns, returns the variance of each group.

    Returns
    -------
    ndarray of shape (n_columns,)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.calibration.widening import variances_of_columns
    >>> truth = np.where(np.arange(5000) % 1000 == 7, 0.5, 0.0)
    >>> variances = variances_of_columns(5000, lambda groups: np.array([truth[group].sum() for group in groups]))
    >>> bool(np.array_equal(variances, truth))
    True
    """
    if n_columns <= MAX_MEASURED_COLUMNS:
        return variances_of(list(np.arange(n_columns)[:, None]))
    groups = np.array_split(np.arange(n_columns), MAX_MEASURED_COLUMNS // 2)
    by_group = variances_of(groups)
    variances = np.concatenate([np.full(len(group), value / len(group)) for group, value in zip(groups, by_group)])
    largest = np.argsort(-by_group, kind="stable")[: max(MAX_MEASURED_COLUMNS // 2 // len(groups[0]), 1)]
    columns = np.concatenate([groups[k] for k in largest])
    variances[columns] = variances_of(list(columns[:, None]))
    return variances


def needed_variance(quantiles: NDArray[np.float64], y: NDArray[np.float64], reference: NDArray[np.float64]) -> float:
    """The smallest variance whose addition makes absolute conformity scores no larger than reference scores.

    Parameters
    ----------
    quantiles : ndarray of shape (n, n_positions)
    y : ndarray of shape (n,)
    reference : ndarray of shape (4,)
        Quantiles of the reference absolute scores at the levels 0.5, 0.8, 0.9 and 0.95.

    Returns
    -------
    float
        0 if none is needed.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.special import ndtri
    >>> from usnrt.nn.quantiles import POSITIONS
    >>> from usnrt.calibration.widening import needed_variance
    >>> y = 5.0 * ndtri((np.arange(1000) + 0.5) / 1000)
    >>> reference = ndtri([0.75, 0.9, 0.95, 0.975])
    >>> round(needed_variance(np.tile(3.0 * POSITIONS, (1000, 1)), y, reference), 1)
    16.0
    """
    needed = 0.0
    error = y - quantiles[:, MEDIAN]
    for level, score in zip(MEASURED_LEVELS, np.maximum(reference, 0.05)):
        # With added variance v a row has this score if error² = (distance of its quantile at the score)² + score² v.
        at_score = value_at(quantiles, POSITIONS, np.copysign(score, error)[:, None])[:, 0] - quantiles[:, MEDIAN]
        needed = max(needed, float(np.quantile((error**2 - at_score**2) / score**2, level)))
    return needed
