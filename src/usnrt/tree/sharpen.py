"""Where exactly to cut the feature that the test has chosen.

The largest |T| finds the feature, but not the best place: where the noise jumps, |T| is flat on the noisier side. The
likelihood of two spreads has its peak at the jump. Residuals of the rows that a network was trained on are smaller
than those of others, but jump at the same place; so they help to find it, with spreads of their own.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from usnrt.tree.column import Arrangement, Column, Limits
from usnrt.tree.criteria import Criterion, get_criterion
from usnrt.tree.pvalue import log10_p
from usnrt.tree.split import Members, Sample, Split, count_sides

# A spread below this share of the whole sample's is not believed: constant residuals have no finite likelihood.
MIN_SPREAD = 1e-6


def sharpened(
    split: Split,
    X: NDArray[np.float64],
    samples: Sequence[Sample],
    members: Members,
    *,
    min_samples_leaf: float = 1,
    min_tested: float = 2,
    criterion: str = "levene",
) -> Split:
    """The split of a numeric feature with the threshold of the largest likelihood.

    Every sample has a Laplace distribution on each side of a cut, with a scale of its own; the threshold maximises the
    sum of their log-likelihoods over all values of all samples. Feature and place of the missing values stay; other
    splits (of categories, by means, of the missing values from all others) are returned as they are.

    Parameters
    ----------
    split : Split
        The split of the largest |T| of the first sample.
    X : ndarray of shape (n_rows_of_table, n_features)
    samples : sequence of Sample
        The tested rows, then others of the node, none twice.
    members : Members
        All rows of the node.
    min_samples_leaf, min_tested : float
        The least weight of the members, and of the tested rows, on both sides.
    criterion : str, default="levene"
        What the statistic of the new threshold comes from.

    Returns
    -------
    Split
        With the statistic, p and numbers of rows of the new threshold.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.tree.sharpen import sharpened
    >>> from usnrt.tree.split import Members, Sample, best_split
    >>> x = np.arange(1000.0)
    >>> residuals = np.random.default_rng(1).normal(size=1000) * np.where(x < 700, 1, 3)
    >>> split = best_split(x[:, None], residuals, min_samples_leaf=100)
    >>> rows, weight = np.arange(1000), np.ones(1000)
    >>> sharp = sharpened(split, x[:, None], [Sample(rows, residuals, weight)], Members(rows, weight))
    >>> split.threshold, sharp.threshold
    (700.5, 699.5)
    """
    judge = get_criterion(criterion)
    if not judge.compares_spreads or split.left_categories is not None or not np.isfinite(split.threshold):
        return split
    samples = [sample for sample in samples if len(sample.rows)]
    tested, column = samples[0], X[members.rows, split.feature]
    limits = Limits(column, members.weight, min_samples_leaf - 1e-12 * float(members.weight.sum()))
    values = [X[sample.rows, split.feature] for sample in samples]
    missing_left = split.missing_left if np.isnan(values[0]).any() else None
    threshold = _likeliest(samples, values, limits, missing_left, min_tested)
    if threshold is None:
        return split
    n_left, n_right, missing_left = count_sides(column, members.weight, column <= threshold, missing_left)
    sharp = replace(split, threshold=threshold, missing_left=missing_left, n_left=n_left, n_right=n_right)
    statistic = _statistic(judge, tested, sharp.goes_left(values[0]))
    p = log10_p(statistic, float(tested.weight.sum()) - 2)
    return replace(sharp, statistic=statistic, log10_p=p)


def _likeliest(
    samples: Sequence[Sample],
    values: Sequence[NDArray[np.float64]],
    limits: Limits,
    missing_left: bool | None,
    min_tested: float,
) -> float | None:
    """The admissible threshold of the largest likelihood; None without any."""
    present = np.concatenate(values)
    # without missing values under test, those of other rows are left out: they follow the side with more rows
    keep = np.ones(len(present), bool) if missing_left is not None else ~np.isnan(present)
    arrangement = _arranged(present[keep], limits, bool(missing_left))
    start = 0
    loss = np.zeros(len(arrangement.allowed))
    allowed = arrangement.allowed & ~np.isnan(arrangement.values[1:]) & ~np.isnan(arrangement.values[:-1])
    for number, sample in enumerate(samples):
        weight, deviation = np.zeros(len(present)), np.zeros(len(present))
        stop = start + len(sample.rows)
        weight[start:stop] = sample.weight
        centre = np.average(sample.residuals, weights=sample.weight)
        deviation[start:stop] = sample.weight * np.abs(sample.residuals - centre)
        left, sums = np.cumsum(weight[keep][arrangement.order]), np.cumsum(deviation[keep][arrangement.order])
        if number == 0:
            least = min_tested - 1e-12 * left[-1]
            allowed &= (left[:-1] >= least) & (left[-1] - left[:-1] >= least)
        loss += _loss(left[:-1], sums[:-1], left[-1], sums[-1])
        loss += _loss(left[-1] - left[:-1], sums[-1] - sums[:-1], left[-1], sums[-1])
        start = stop
    if not allowed.any():
        return None
    return arrangement.threshold(int(np.argmin(np.where(allowed, loss, np.inf))))


def _arranged(values: NDArray[np.float64], limits: Limits, missing_left: bool) -> Arrangement:
    return next(a for a in Column(values, limits).arrangements() if a.missing_left == missing_left)


def _loss(
    weight: NDArray[np.float64], sums: NDArray[np.float64], total_weight: float, total: float
) -> NDArray[np.float64]:
    """Weight times the logarithm of the mean deviation, relative to that of the whole sample."""
    overall = total / total_weight
    mean = np.divide(sums, weight, out=np.full(len(sums), overall), where=weight > 0)
    return weight * np.log(np.maximum(mean / overall, MIN_SPREAD)) if overall > 0 else np.zeros(len(sums))


def _statistic(judge: Criterion, tested: Sample, left: NDArray[np.bool_]) -> float:
    """T of one division of the tested rows."""
    node = judge.prepare(tested.residuals, tested.target, tested.weight)
    found = judge.best_subset(node, np.where(left, 0, 1), np.array([1], np.int64), 0.0)
    assert found is not None
    return found[1].statistic
