"""Split searches by brute force, written down from the definitions, to check the kernels against."""

from itertools import chain, combinations
from math import inf, sqrt

import numpy as np


def t_statistic(left, right, criterion):
    """Pooled two-sample t of the deviations (or, for cart, of the values) of repeated rows."""
    if criterion == "levene":
        left, right = np.abs(left - left.mean()), np.abs(right - right.mean())
    elif criterion == "brown-forsythe":
        left, right = np.abs(left - np.median(left)), np.abs(right - np.median(right))
    elif criterion == "conservative-brown-forsythe":
        left, right = np.abs(left - far_median(left)), np.abs(right - far_median(right))
    n_l, n_r = len(left), len(right)
    if n_l + n_r <= 2:
        return 0.0
    within = ((left - left.mean()) ** 2).sum() + ((right - right.mean()) ** 2).sum()
    scale = max(np.abs(left).max(), np.abs(right).max())
    difference = left.mean() - right.mean()
    if within <= 1e-24 * scale**2 * (n_l + n_r):
        return 0.0 if abs(difference) <= 1e-9 * scale else np.copysign(inf, difference)
    return difference / sqrt(within / (n_l + n_r - 2)) / sqrt(1 / n_l + 1 / n_r)


def far_median(values):
    """The middle value that is farther from the mean."""
    middle = np.sort(values)[[(len(values) - 1) // 2, len(values) // 2]]
    return middle[np.argmax(np.abs(middle - values.mean()))]


def divisions(column, n_codes=0):
    """All ways to divide rows by a column, as masks of the left rows, mirror images left out."""
    missing = np.isnan(column)
    present = np.unique(column[~missing])
    if len(present) == 0:
        return
    if n_codes == 0:
        for low in present[:-1]:
            yield (column <= low) & ~missing
            if missing.any():
                yield (column <= low) | missing
        if missing.any():
            yield ~missing
        return
    groups = [column == code for code in present] + ([missing] if missing.any() else [])
    rest = range(1, len(groups))
    for others in chain.from_iterable(combinations(rest, k) for k in range(len(groups) - 1)):
        yield np.any([groups[0], *(groups[g] for g in others)], axis=0)


def best(X, values, *, weight=None, n_categories=None, min_samples_leaf=1, criterion="levene"):
    """The largest |T| over all features and the number of candidates; integer weights repeat rows."""
    weight = np.ones(len(values), int) if weight is None else weight
    found, n_candidates = -1.0, 0
    for j in range(X.shape[1]):
        for left in divisions(X[:, j], 0 if n_categories is None else n_categories[j]):
            if min(weight[left].sum(), weight[~left].sum()) < min_samples_leaf:
                continue
            n_candidates += 1
            sides = [np.repeat(values[side], weight[side]) for side in (left, ~left)]
            found = max(found, abs(t_statistic(*sides, criterion)))
    return found, n_candidates
