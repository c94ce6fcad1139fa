"""The split search in a categorical column: all subsets of few levels, cuts along an order of many.

An order of the levels by their residuals is fitted to these residuals. Tested on the same rows it finds differences in
pure noise, the more surely the more levels there are; so the order may come from rows other than those under test.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from usnrt.tree.criteria import Criterion, Cut
from usnrt.tree.split_column import FloatArray, IntArray, Limits, SplitColumn

#: up to this many categories in a node, all their subsets are tested
MAX_CATEGORIES_FOR_SUBSETS = 10

#: rows of the overall mean that are added to each level when other rows than the tested ones order the levels
PSEUDO_COUNT = 5.0


class Levels(NamedTuple):
    """A categorical column of a node: codes 0, 1, ... and NaN for missing.

    ``tested`` are the values of the rows under test; ``members`` and ``weight`` those of all rows of the node, and how
    often each counts; ``min_leaf`` is the least weight of a side of these.
    """

    tested: FloatArray
    members: FloatArray
    weight: FloatArray
    n_codes: int
    min_leaf: float


class LevelOrder(NamedTuple):
    """Rows to order levels by: their values of the column, and what the criterion's ``prepare`` made of them."""

    values: FloatArray
    node: Any
    pseudo_count: float


def best_division(
    judge: Criterion, node: Any, levels: Levels, order: LevelOrder, min_tested: float
) -> tuple[Cut, tuple[int, ...]] | None:
    """The best division of the levels of a column in two, and the codes of its left side.

    All levels of the node's rows are on one of the sides. Where subsets are tested, those that no tested row has go to
    the side with more rows; each side must have enough rows without them.

    Parameters
    ----------
    judge : Criterion
    node : object
        What ``judge.prepare`` made of the rows under test.
    levels : Levels
    order : LevelOrder
    min_tested : float
        The least weight of the tested rows of a side.

    Returns
    -------
    (Cut, tuple of int) or None
    """
    members, tested = _codes(levels.members, levels.n_codes), _codes(levels.tested, levels.n_codes)
    # missing values, code -1, have the last place
    weight_of = np.bincount(members % (levels.n_codes + 1), levels.weight, levels.n_codes + 1).astype(np.float64)
    present = np.flatnonzero(weight_of[:-1] > 0)
    if len(present) == 0:
        return None
    if judge.tests_subsets and len(present) <= MAX_CATEGORIES_FOR_SUBSETS:
        return _best_subset(judge, node, tested, weight_of, levels.min_leaf, min_tested)
    places = _places(judge, order, present, levels.n_codes)
    limits = Limits(places[members], levels.weight, levels.min_leaf)
    cut = judge.best_cut(node, SplitColumn(places[tested], limits), min_tested)
    if cut is None:
        return None
    return cut._replace(threshold=np.nan), tuple(int(code) for code in present[places[present] <= cut.threshold])


def _codes(values: FloatArray, n_codes: int) -> IntArray:
    """Codes as whole numbers, -1 for missing."""
    missing = np.isnan(values)
    if (values[~missing] < 0).any() or (values[~missing] >= n_codes).any():
        seen = f"{np.nanmin(values):g}..{np.nanmax(values):g}"
        raise ValueError(f"codes of categories must be in 0..{n_codes - 1} or NaN, got {seen}")
    return np.where(missing, -1, values).astype(np.int64)


def _best_subset(
    judge: Criterion, node: Any, tested: IntArray, weight_of: FloatArray, min_leaf: float, min_tested: float
) -> tuple[Cut, tuple[int, ...]] | None:
    """The best of all divisions of the levels that were tested; a missing value counts as one more level."""
    codes, group = np.unique(tested, return_inverse=True)
    if len(codes) < 2:
        return None
    if codes[0] == -1:  # missing values are the last group
        codes, group = np.roll(codes, -1), (group - 1) % len(codes)
    masks, weights = subsets(len(codes)), weight_of[codes]
    left = (masks[:, None] >> np.arange(len(codes)) & 1) @ weights
    enough = (left >= min_leaf) & (weights.sum() - left >= min_leaf)
    masks, left = masks[enough], left[enough]
    found = judge.best_subset(node, group, masks, min_tested)
    if found is None:
        return None
    chosen = {int(code) for g, code in enumerate(codes) if masks[found[0]] >> g & 1}
    cut = found[1]._replace(threshold=np.nan, missing_left=-1 in chosen)
    if left[found[0]] >= weights.sum() - left[found[0]]:
        chosen |= set(np.flatnonzero(weight_of[:-1] > 0).tolist()) - set(codes.tolist())
    return cut, tuple(sorted(chosen - {-1}))


def _places(judge: Criterion, order: LevelOrder, present: IntArray, n_codes: int) -> FloatArray:
    """The place of each code in the order, (n_codes + 1,): NaN for absent codes and, last, for missing values."""
    group_of = np.full(n_codes + 1, -1)
    group_of[present] = np.arange(len(present))
    places = np.full(n_codes + 1, np.nan)
    if len(order.values) == 0:
        places[present] = np.arange(len(present))
    else:
        group = group_of[_codes(order.values, n_codes)]
        places[present] = judge.category_values(order.node, group, len(present), order.pseudo_count)
    return places


@lru_cache(maxsize=32)
def subsets(n_groups: int) -> NDArray[np.int64]:
    """Bit masks of the left groups of all divisions in two, in lexicographic order.

    The first group is always on the left: a division and its mirror image are the same.

    Examples
    --------
    >>> from usnrt.tree.levels import subsets
    >>> [f"{mask:03b}" for mask in subsets(3)]
    ['001', '011', '101']
    """
    masks = [mask for mask in range(1, 1 << n_groups, 2) if mask != (1 << n_groups) - 1]
    return np.array(sorted(masks, key=lambda mask: [g for g in range(n_groups) if mask >> g & 1]), np.int64)
