"""The split search in a categorical column: all subsets of few levels, cuts along an order of many.

An order of the levels by their mean residuals is overfitted to these residuals: tested on the same rows, it finds
differences in pure noise, the more so the more levels there are. So the order can be computed from rows other than
those under test.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from usnrt.tree.criteria import Criterion, Cut
from usnrt.tree.split_column import FloatArray, IntArray, Limits, SplitColumn

#: maximal number of categories in a node for which all subsets are tested
MAX_CATEGORIES_FOR_SUBSETS = 10

#: pseudo-count of the overall mean in the mean of each level, if rows other than the tested ones order the levels
PSEUDO_COUNT = 5.0


class Levels(NamedTuple):
    """A categorical column of a node: codes 0, 1, ... and NaN for missing values.

    ``tested`` are the codes of the rows under test; ``members`` and ``weight`` the codes and weights of all rows of the
    node; ``min_leaf`` is the minimal weight of either side.
    """

    tested: FloatArray
    members: FloatArray
    weight: FloatArray
    n_codes: int
    min_leaf: float


class LevelOrder(NamedTuple):
    """Rows to order levels by: their codes, and their data as prepared by the criterion's ``prepare``."""

    values: FloatArray
    node: Any
    pseudo_count: float


def best_division(
    criterion: Criterion, node: Any, levels: Levels, order: LevelOrder, min_tested: float
) -> tuple[Cut, tuple[int, ...]] | None:
    """The best partition of the levels of a column in two sides, and the codes of its left side.

    The partition covers all levels of the node's rows. If subsets are tested, levels without tested rows go to the
    larger side; each side must have enough rows without them.

    Parameters
    ----------
    node : object
        The rows under test, as prepared by ``criterion.prepare``.
    min_tested : float
        Minimal weight of the tested rows of a side.

    Returns
    -------
    (Cut, tuple of int) or None
    """
    members, tested = _codes(levels.members, levels.n_codes), _codes(levels.tested, levels.n_codes)
    # missing values, code -1, are at the last index
    weight_of = np.bincount(members % (levels.n_codes + 1), levels.weight, levels.n_codes + 1).astype(np.float64)
    present = np.flatnonzero(weight_of[:-1] > 0)
    if len(present) == 0:
        return None
    if criterion.tests_subsets and len(present) <= MAX_CATEGORIES_FOR_SUBSETS:
        return _best_subset(criterion, node, tested, weight_of, levels.min_leaf, min_tested)
    score = _order_scores(criterion, order, present, levels.n_codes)
    limits = Limits(score[members], levels.weight, levels.min_leaf)
    cut = criterion.best_cut(node, SplitColumn(score[tested], limits), min_tested)
    if cut is None:
        return None
    return cut._replace(threshold=np.nan), tuple(int(code) for code in present[score[present] <= cut.threshold])


def _codes(values: FloatArray, n_codes: int) -> IntArray:
    """Codes as integers, -1 for missing values."""
    missing = np.isnan(values)
    if (values[~missing] < 0).any() or (values[~missing] >= n_codes).any():
        found = f"{np.nanmin(values):g}..{np.nanmax(values):g}"
        raise ValueError(f"codes of categories must be in 0..{n_codes - 1} or NaN, got {found}")
    return np.where(missing, -1, values).astype(np.int64)


def _best_subset(
    criterion: Criterion, node: Any, tested: IntArray, weight_of: FloatArray, min_leaf: float, min_tested: float
) -> tuple[Cut, tuple[int, ...]] | None:
    """The best of all partitions of the tested levels; missing values are an additional level."""
    codes, group = np.unique(tested, return_inverse=True)
    if len(codes) < 2:
        return None
    if codes[0] == -1:  # missing values are the last group
        codes, group = np.roll(codes, -1), (group - 1) % len(codes)
    masks, weights = subsets(len(codes)), weight_of[codes]
    left = (masks[:, None] >> np.arange(len(codes)) & 1) @ weights
    enough = (left >= min_leaf) & (weights.sum() - left >= min_leaf)
    masks, left = masks[enough], left[enough]
    found = criterion.best_subset(node, group, masks, min_tested)
    if found is None:
        return None
    chosen = {int(code) for g, code in enumerate(codes) if masks[found[0]] >> g & 1}
    cut = found[1]._replace(threshold=np.nan, missing_left=-1 in chosen)
    if left[found[0]] >= weights.sum() - left[found[0]]:
        chosen |= set(np.flatnonzero(weight_of[:-1] > 0).tolist()) - set(codes.tolist())
    return cut, tuple(sorted(chosen - {-1}))


def _order_scores(criterion: Criterion, order: LevelOrder, present: IntArray, n_codes: int) -> FloatArray:
    """Values to order codes by, (n_codes + 1,): NaN for absent codes and, last, for missing values."""
    group_of = np.full(n_codes + 1, -1)
    group_of[present] = np.arange(len(present))
    scores = np.full(n_codes + 1, np.nan)
    if len(order.values) == 0:
        scores[present] = np.arange(len(present))
    else:
        group = group_of[_codes(order.values, n_codes)]
        scores[present] = criterion.category_values(order.node, group, len(present), order.pseudo_count)
    return scores


@lru_cache(maxsize=32)
def subsets(n_groups: int) -> NDArray[np.int64]:
    """Bit masks of the left groups of all partitions in two sides, in lexicographic order.

    The first group is always on the left, since a partition and its mirror image are the same.

    Examples
    --------
    >>> from usnrt.tree.levels import subsets
    >>> [f"{mask:03b}" for mask in subsets(3)]
    ['001', '011', '101']
    """
    masks = [mask for mask in range(1, 1 << n_groups, 2) if mask != (1 << n_groups) - 1]
    return np.array(sorted(masks, key=lambda mask: [g for g in range(n_groups) if mask >> g & 1]), np.int64)
