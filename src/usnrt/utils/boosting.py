"""What scikit-learn's histogram boosting asks of its callers: few categories, columns with values, few threads."""

import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import threadpool_limits

from usnrt.utils.types import Floats

# Fewer rows are boosted on one thread: threads that wait for each other cost more than they save.
MIN_ROWS_FOR_THREADS = 20_000
# Of scikit-learn's histograms; columns with more categories are treated as numbers.
MAX_CATEGORIES = 255


def boosting_threads(n_jobs: int | None, n_rows: int) -> threadpool_limits:
    """Context in which scikit-learn's boosting uses at most ``n_jobs`` threads, and one for small tables."""
    return threadpool_limits(effective_n_jobs(n_jobs) if n_rows >= MIN_ROWS_FOR_THREADS else 1, user_api="openmp")


def without_empty_columns(raw: Floats) -> Floats:
    """Training rows whose columns all have bins: a column without any value becomes 0, and is never split.

    Parameters
    ----------
    raw : ndarray of shape (n, d)

    Returns
    -------
    ndarray of shape (n, d)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.utils.boosting import without_empty_columns
    >>> without_empty_columns(np.array([[1.0, np.nan], [np.nan, np.nan]]))
    array([[ 1.,  0.],
           [nan,  0.]])
    """
    return np.where(np.isnan(raw).all(axis=0), 0.0, raw)
