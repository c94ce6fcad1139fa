"""Inflation of conformity scores for small tables: what validation rows do not show of the errors on new rows.

Two effects make distributions too narrow if rows are few. A distribution estimated from n scores misses the uncertainty
of its own estimate: as in a Student-t interval of n values, its quantiles are multiplied by t(n - 1) / z sqrt(1 + 1/n).
And validation rows chose the epoch, the experts, the refinement and, in ensembles, the factors by which the errors of
all members are smaller than those of one, so that their own errors are too small, by a share proportional to 1 / rows.
Order statistics need the second correction only. Both fade out up to `LARGE` rows.
"""

import numpy as np
from scipy.special import ndtri, stdtrit

# Tables of this many rows or more are not corrected.
LARGE = 2000
# With fewer scores only a scale is estimated, with heavy tails, which is wide enough (`distributions.residual_fit`).
MIN_SCORES = 10.0
LEVEL = 0.95


def selection_factor(n_rows: int, strength: float) -> float:
    """Factor of conformity scores of rows that were used for choices: 1 + strength / n_rows, fading out.

    Parameters
    ----------
    n_rows : int
        Of the table.
    strength : float
        Measured on generated tables, see docs/calibration.md.

    Examples
    --------
    >>> from usnrt.calibration.small_tables import selection_factor
    >>> round(selection_factor(100, 8.0), 3), selection_factor(2000, 8.0)
    (1.076, 1.0)
    """
    return 1.0 + _fading(n_rows) * strength / n_rows


def sampling_factor(n_scores: float, n_rows: int) -> float:
    """Factor by which quantiles of a distribution estimated from few scores are too narrow, fading out.

    Parameters
    ----------
    n_scores : float
        Effective number of scores.
    n_rows : int
        Of the table.

    Examples
    --------
    >>> from usnrt.calibration.small_tables import sampling_factor
    >>> round(sampling_factor(20.0, 100), 3), sampling_factor(400.0, 2000)
    (1.073, 1.0)
    """
    if n_scores < MIN_SCORES:
        return 1.0
    ratio = float(stdtrit(n_scores - 1.0, LEVEL) / ndtri(LEVEL)) * float(np.sqrt(1.0 + 1.0 / n_scores))
    return 1.0 + _fading(n_rows) * (ratio - 1.0)


def _fading(n_rows: int) -> float:
    return max(1.0 - n_rows / LARGE, 0.0)
