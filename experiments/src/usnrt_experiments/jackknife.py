"""Errors of metrics over test rows, in a form small enough for records: metrics without one block of rows each.

The per-row predictions of a cell are megabytes and stay on the machine that made them. 25 numbers per metric suffice
for the standard error of the paired difference between *any* two cells of the same split, for any metric of the rows.
"""

from contextlib import suppress

import numpy as np
from numpy.typing import ArrayLike

from usnrt.metrics.differences import Z, t_quantile
from usnrt.utils.types import Floats
from usnrt_experiments.scores import METRICS, Rows

N_BLOCKS = 25
JACKKNIFED = ("ece", "tce", "sharpness", "rmse", "nll", "crps")


def leave_out_blocks(rows: Rows) -> dict[str, list[float]]:
    """Metrics of the test rows without block 0, without block 1, ...

    Row i is in block i modulo 25, so that blocks of all cells of a split are the same rows.

    Parameters
    ----------
    rows : mapping of str to ndarray of shape (n, ...)
        As in :func:`usnrt_experiments.scores.score`.

    Returns
    -------
    dict of str to list of float
        25 values per metric; empty with fewer than 50 rows, too few for blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt_experiments.jackknife import leave_out_blocks
    >>> leave_out_blocks({"crps": np.ones(100)})["crps"][:3]
    [100.0, 100.0, 100.0]
    """
    n_rows = len(rows["crps"])
    if n_rows < 2 * N_BLOCKS:
        return {}
    block = np.arange(n_rows) % N_BLOCKS
    per_row = {name: array for name, array in rows.items() if len(array) == n_rows}
    kept = [{name: array[block != b] for name, array in per_row.items()} for b in range(N_BLOCKS)]
    found = {}
    for name in JACKKNIFED:
        with suppress(KeyError):  # what it needs is not stored
            found[name] = [float(f"{METRICS[name](part):.7g}") for part in kept]
    return found


def error_over_rows(first: ArrayLike, second: ArrayLike) -> float:
    """Standard error over test rows of the difference of a metric between two cells of the same split.

    Parameters
    ----------
    first, second : array-like of shape (25,)
        Of `leave_out_blocks`.

    Returns
    -------
    float
        Jackknife over blocks; NaN if a value is not finite. It is multiplied by the ratio of the quantiles of t with 24
        degrees of freedom and of the normal distribution, so that 1.96 of it are half of a 95 % interval.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt_experiments.jackknife import error_over_rows
    >>> error_over_rows(np.full(25, 2.0), np.full(25, 1.0))
    0.0
    """
    with np.errstate(invalid="ignore"):
        differences: Floats = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    if not np.isfinite(differences).all():
        return float("nan")
    n_blocks = len(differences)
    error = np.sqrt((n_blocks - 1) / n_blocks * np.sum((differences - differences.mean()) ** 2))
    return float(error * t_quantile(n_blocks - 1) / Z)
