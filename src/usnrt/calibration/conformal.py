"""Conformal bounds, and factors of conformity scores for small tables.

If the n conformity scores and the score of a new row are exchangeable, the new score falls between the l-th and the
u-th smallest of the n scores with probability at least (u - l) / (n + 1), for any n. With l = floor((n + 1) a / 2) and
u = ceil((n + 1) (1 - a / 2)) an interval then covers the target with probability at least 1 - a, whatever the quality
of the model. Where l < 1 or u > n no finite bound has this property, and the bound is infinite.

With weights, n is the effective number of scores, (sum w)^2 / sum w^2 (Kish), and the new score counts as one of them:
its weight is sum w^2 / sum w, the mean weight of rows of the population that the weights describe. With groups of rows,
n is the number of groups: each counts once, and so does the group of the new score (hierarchical conformal prediction,
Lee, Barber and Willett 2023). `usnrt.utils.arrays.evidence` scales weights so.

Two effects make distributions too narrow if rows are few. A distribution estimated from n scores misses the uncertainty
of its own estimate: as in a Student-t interval of n values, its quantiles are multiplied by t(n - 1) / z sqrt(1 + 1/n).
And validation rows chose the epoch, the experts, the refinement and, in ensembles, the factors by which the errors of
all members are smaller than those of one, so that their own errors are too small, by a share proportional to 1 / rows.
Order statistics need the second correction only. Both fade out up to `LARGE` rows.
"""

import numpy as np
from scipy.special import ndtri, stdtrit

from usnrt.utils.types import Floats


def conformal_bounds(scores: Floats, coverage: float, weight: Floats | None = None) -> tuple[float, float]:
    """The order statistics between which a new score falls with at least a given probability.

    The scores are sorted. Each counts for as many independent scores as its weight says (`usnrt.utils.arrays.evidence`;
    1 by default), the new one for 1. The bounds are infinite if the weights sum to less than `rows_needed`.

    Examples
    --------
    >>> conformal_bounds(np.arange(1.0, 20.0), 0.9)
    (1.0, 19.0)
    >>> conformal_bounds(np.arange(1.0, 19.0), 0.9)
    (-inf, inf)
    >>> conformal_bounds(np.arange(1.0, 39.0), 0.9, weight=np.full(38, 0.5))
    (1.0, 38.0)
    >>> conformal_bounds(np.arange(1.0, 39.0), 0.9, weight=np.full(38, 0.4))
    (-inf, inf)
    """
    n = len(scores)
    if n == 0:
        return -np.inf, np.inf
    share = np.ones(n) if weight is None else weight
    # With a tolerance: (n + 1) * tail is 1 for n = 19 and 90 %, but not in floating point.
    tail = (float(share.sum()) + 1.0) * (1.0 - coverage) / 2 + 1e-9
    # Beyond a bound are the scores beyond it and the new score, which counts as 1.
    low = int(np.searchsorted(1.0 + np.cumsum(share) - share, tail, side="right"))
    high = int(np.searchsorted(1.0 + np.cumsum(share[::-1]) - share[::-1], tail, side="right"))
    return (float(scores[low - 1]) if low >= 1 else -np.inf, float(scores[n - high]) if high >= 1 else np.inf)


def rows_needed(coverage: float) -> int:
    """The smallest number of calibration rows for which `conformal_bounds` are finite: (n + 1) (1 - coverage) / 2 >= 1.

    Examples
    --------
    >>> rows_needed(0.9), rows_needed(0.99), rows_needed(0.999)
    (19, 199, 1999)
    """
    # the same tolerance as in conformal_bounds
    return int(np.ceil((1.0 - 1e-9) / ((1.0 - coverage) / 2))) - 1


# Tables of this many rows or more are not corrected.
LARGE = 2000
# With fewer scores only a scale is estimated, with heavy tails, which is wide enough (`distributions.residual_fit`).
MIN_SCORES = 10.0
LEVEL = 0.95


def selection_factor(n_rows: int, strength: float) -> float:
    """Factor of conformity scores of rows that were used for choices: 1 + strength / n_rows, fading out.

    The strength was measured on generated tables, see docs/calibration.md.

    Examples
    --------
    >>> round(selection_factor(100, 8.0), 3), selection_factor(2000, 8.0)
    (1.076, 1.0)
    """
    return 1.0 + _fading(n_rows) * strength / n_rows


def sampling_factor(n_scores: float, n_rows: int) -> float:
    """Factor by which quantiles of a distribution estimated from few (effective) scores are too narrow, fading out.

    Examples
    --------
    >>> round(sampling_factor(20.0, 100), 3), sampling_factor(400.0, 2000)
    (1.073, 1.0)
    """
    if n_scores < MIN_SCORES:
        return 1.0
    ratio = float(stdtrit(n_scores - 1.0, LEVEL) / ndtri(LEVEL)) * float(np.sqrt(1.0 + 1.0 / n_scores))
    return 1.0 + _fading(n_rows) * (ratio - 1.0)


def _fading(n_rows: int) -> float:
    return max(1.0 - n_rows / LARGE, 0.0)
