"""Paired differences between two models on the same test rows, and their standard errors."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from usnrt.utils.types import Floats

CONFIDENCE = 0.95
Z = 1.959964


@dataclass(frozen=True)
class Difference:
    """The mean difference of a loss between two models."""

    value: float  # positive if the first model is worse
    std_error_rows: float  # over test rows, with the fitted models as given
    std_error_folds: float  # NaN for a single split
    tie: bool  # whether 0 is in the 95 % confidence interval

    @property
    def std_error(self) -> float:
        """The larger standard error."""
        return float(np.fmax(self.std_error_rows, self.std_error_folds))


def paired_difference(
    loss: Floats,
    other: Floats,
    cluster: NDArray[np.intp],
    fold: NDArray[np.intp],
    test_to_train: float,
    *,
    is_root: bool = False,
) -> Difference:
    r"""Difference of the mean losses of two models on the same rows.

    The error over rows treats clusters (copies of a row, groups, neighbours in time) as one observation each. That over
    folds is the corrected one of Nadeau and Bengio (*Inference for the generalization error*, 2003): the training rows
    of k folds overlap, hence :math:`1/k + n_{test}/n_{train}` instead of :math:`1/k`.

    Parameters
    ----------
    loss, other : ndarray of shape (n,)
        Losses of the rows; squared errors for the RMSE.
    cluster, fold : ndarray of int of shape (n,)
    test_to_train : float
        Ratio of the numbers of test and training rows of a fold.
    is_root : bool, default=False
        Whether to compare the roots of the means.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.metrics.differences import paired_difference
    >>> other = np.random.default_rng(0).exponential(size=400)
    >>> paired_difference(other + 1.0, other, np.arange(400), np.zeros(400, dtype=int), 0.25).tie
    False
    """
    with np.errstate(invalid="ignore"):
        rows = loss - other
    rows = np.where(loss == other, 0.0, rows)  # also where both are infinite
    if not np.isfinite(rows).all():
        value = float("nan") if np.isnan(rows).any() else float(rows.mean())
        return Difference(value, np.inf, np.nan, False)
    if is_root:
        # a - b = (a^2 - b^2) / (a + b)
        rows = rows / max(np.sqrt(loss.mean()) + np.sqrt(other.mean()), np.finfo(float).tiny)
    value = float(rows.mean())
    over_rows = _clustered_error(rows - value, cluster)
    n_folds = int(fold.max()) + 1
    over_folds, reach = np.nan, Z * over_rows
    if n_folds > 1:
        means = np.bincount(fold, rows) / np.bincount(fold)
        over_folds = error_over_splits(means, test_to_train)
        reach = max(reach, t_quantile(n_folds - 1) * over_folds)
    return Difference(value, over_rows, over_folds, abs(value) <= reach)


def error_over_splits(values: Floats, test_to_train: float) -> float:
    """Standard error of the mean of values of k >= 2 splits whose training rows overlap (Nadeau and Bengio).

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.metrics.differences import error_over_splits
    >>> round(error_over_splits(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), 0.25), 4)
    1.0607
    """
    return float(np.sqrt((1.0 / len(values) + test_to_train) * np.var(values, ddof=1)))


def t_quantile(degrees_of_freedom: int) -> float:
    """How many standard errors half of a 95 % confidence interval is wide."""
    return float(stdtrit(degrees_of_freedom, 0.5 + CONFIDENCE / 2))


def _clustered_error(centred: Floats, cluster: NDArray[np.intp]) -> float:
    """Standard error of the mean of rows that are independent between clusters only."""
    sums = np.bincount(np.unique(cluster, return_inverse=True)[1], centred)
    n_clusters = len(sums)
    if n_clusters < 2:
        return float("inf")
    return float(np.sqrt(n_clusters / (n_clusters - 1) * np.sum(sums**2)) / len(centred))
