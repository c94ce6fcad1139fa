"""Disagreement of an ensemble's members, and what two members that were not trained on a row reveal about all."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from usnrt.experts.refine import half_widths
from usnrt.nn.quantiles import quantile_function_mean
from usnrt.utils.types import Floats, Rows

# Variances between members are capped at this multiple of the variance that they predict, in fitting and in prediction,
# so that noise-free rows do not dominate.
MAX_DISAGREEMENT = 4.0
# Levels at which conformity scores of pairs and of single members are compared, and the window of their moving average.
LEVELS = np.linspace(0.05, 0.95, 19)
SMOOTHED = 5


@dataclass(frozen=True)
class Pairs:
    """Rows that validate two members.

    Attributes
    ----------
    rows : ndarray of int of shape (n,)
    weight : ndarray of shape (n,)
    disagreement : ndarray of shape (n,)
        Variance between the two, see `capped_disagreement`.
    single : ndarray of shape (2, n)
        Conformity scores by each of the two.
    joint : ndarray of shape (n,)
        Conformity scores by the mean of their quantile functions.
    """

    rows: Rows
    weight: Floats
    disagreement: Floats
    single: Floats
    joint: Floats

    @classmethod
    def names(cls) -> list[str]:
        """Names of the attributes, in order."""
        return [field.name for field in fields(cls)]


def disagreement(member_quantiles: Floats) -> Floats:
    """Variance between the means of members, in units of the mean variance that they predict.

    The variance of a member is the square of the half width of its quantile function.

    Parameters
    ----------
    member_quantiles : ndarray of shape (n_members, n, n_positions)

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.model.pairs import disagreement
    >>> from usnrt.nn.quantiles import POSITIONS
    >>> disagreement(np.stack([POSITIONS[None, :], POSITIONS[None, :] + 2.0]))
    array([2.])
    """
    within: Floats = np.mean([half_widths(quantiles) ** 2 for quantiles in member_quantiles], axis=0)
    means = np.stack([quantile_function_mean(quantiles) for quantiles in member_quantiles])
    between: Floats = means.var(axis=0, ddof=1)
    return between / np.maximum(within, 1e-30)


def capped_disagreement(member_quantiles: Floats) -> Floats:
    """`disagreement`, at most ``MAX_DISAGREEMENT``."""
    return np.minimum(disagreement(member_quantiles), MAX_DISAGREEMENT)


def mean_error_factor(is_validation: NDArray[np.bool_]) -> float:
    """Variance of the mean of the members, in units of the variance between them.

    Members that share most of their training rows share most of their errors, so the variance between them is smaller
    than the error of their mean. By how much follows from the folds, as in a jackknife: predictions from a share t of
    the rows have a variance of D / t and, with a share o of the rows in common, a covariance of D o / t^2. D cancels in
    the ratio, which is o / (t - o) + 1 / M for M members; 2.53 for five.

    Parameters
    ----------
    is_validation : ndarray of bool of shape (n_members, n)
        Rows that each member was not trained on.

    Returns
    -------
    float
        1 if all members have the same rows: they then differ by their seeds, which reveal nothing about the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.model.pairs import mean_error_factor
    >>> mean_error_factor(np.array([[True, False], [False, True]]))  # of two halves
    0.5
    >>> mean_error_factor(~np.eye(4, dtype=bool)), mean_error_factor(np.eye(4, dtype=bool))
    (0.25, 2.25)
    """
    is_training = (~is_validation).astype(np.float64)
    n_members = len(is_training)
    share, in_all = float(is_training.mean()), float((is_training.mean(axis=0) ** 2).mean())
    in_common = (n_members * in_all - share) / (n_members - 1)  # of two different members
    return in_common / (share - in_common) + 1.0 / n_members if share - in_common > 1e-9 else 1.0


def own_error_share(pairs: Pairs) -> float:
    """The share of a member's squared error that is specific to it and vanishes in the mean of many members.

    If it is rho, the squared error of the mean of two members is 1 - rho / 2 times that of one. The largest errors are
    excluded: they are few, and common to all members.
    """

    def core(scores: Floats) -> float:
        size = np.abs(scores).ravel()
        weight = np.broadcast_to(pairs.weight, scores.shape).ravel()
        kept = size <= np.quantile(size, 0.9)
        return float(np.average(size[kept], weights=weight[kept]))

    ratio = core(pairs.joint) / max(core(pairs.single), 1e-12)
    return float(np.clip(2.0 * (1.0 - ratio**2), 0.0, 0.95))


def level_factors(pairs: Pairs, scores: Floats, counts: NDArray[np.int64], own: float, n_members: int) -> Floats:
    """Factors that map conformity scores of few members to the distribution of the ensemble's.

    At each level of the absolute score, the errors of pairs are r times those of single members; the errors of m
    members are R times as large, with R² = 1 - 2 (m - 1) / m (1 - r²). The factors are divided by the average narrowing
    of the quantile functions, which is applied separately.

    Parameters
    ----------
    pairs : Pairs
    scores : ndarray of shape (n,)
        Conformity scores by the means of some members.
    counts : ndarray of int of shape (n,)
        How many members.
    own : float
        From `own_error_share`.
    n_members : int

    Returns
    -------
    ndarray of shape (n,)
    """

    def quantiles_of(values: Floats) -> Floats:
        size = np.abs(values).ravel()
        order = np.argsort(size, kind="stable")
        weight = np.broadcast_to(pairs.weight, values.shape).ravel()[order]
        return np.interp(LEVELS, (np.cumsum(weight) - 0.5 * weight) / weight.sum(), size[order])

    ratio = quantiles_of(pairs.joint) / np.maximum(quantiles_of(pairs.single), 1e-12)
    padded = np.pad(np.minimum(ratio, 1.2), SMOOTHED // 2, mode="edge")
    smooth = np.convolve(padded, np.full(SMOOTHED, 1.0 / SMOOTHED), mode="valid")
    level = (np.argsort(np.argsort(np.abs(scores), kind="stable"), kind="stable") + 0.5) / len(scores)
    own_at_level = 2.0 * (1.0 - np.interp(level, LEVELS, smooth) ** 2)
    by_all, by_some = (np.maximum(1.0 - (1.0 - 1.0 / m) * own_at_level, 0.02) for m in (n_members, counts))
    factors: Floats = np.sqrt(by_all / by_some / (1.0 - (1.0 - 1.0 / n_members) * own))
    return factors
