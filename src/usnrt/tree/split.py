"""Exhaustive search for the best split of a node."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usnrt.tree._kernels import TIE
from usnrt.tree.criteria import Criterion, Cut, get_criterion
from usnrt.tree.levels import MAX_CATEGORIES_FOR_SUBSETS, PSEUDO_COUNT, LevelOrder, Levels, best_division
from usnrt.tree.pvalue import log10_p
from usnrt.tree.split_column import Limits, SplitColumn

__all__ = ["MAX_CATEGORIES_FOR_SUBSETS", "Members", "Sample", "Split", "best_split"]

#: the best cut of a feature and, for categories, the codes of its left side
FeatureCut = tuple[Cut, tuple[int, ...] | None]


class Sample(NamedTuple):
    """Rows of a table with residuals, weights and targets; all arrays have shape (n,)."""

    rows: NDArray[np.intp]
    residuals: NDArray[np.float64]
    weight: NDArray[np.float64]
    target: NDArray[np.float64] | None = None


class Members(NamedTuple):
    """All rows of a node, of which a part is tested, and their weights; both of shape (n,)."""

    rows: NDArray[np.intp]
    weight: NDArray[np.float64]


@dataclass(frozen=True)
class Split:
    """A binary split of a node.

    Attributes
    ----------
    feature : int
        The column that is split.
    threshold : float
        Numeric columns: values at most this go left; +inf sends all present values left. NaN for categories.
    left_categories : tuple of int or None
        Categorical columns: the codes that go left, including codes that no row of this node has.
    missing_left : bool
        Whether missing values go left; if the node has none, they go to the side with more rows.
    statistic : float
        The signed test statistic T: positive if the spread (for "cart" the mean) is larger on the left.
    log10_p : float
        log10 of the two-sided p-value, not corrected for the number of candidates.
    n_left, n_right : float
        Weighted number of rows of the node on each side.
    n_candidates : int
        Number of splits tested over all features.
    """

    feature: int
    threshold: float
    left_categories: tuple[int, ...] | None
    missing_left: bool
    statistic: float
    log10_p: float
    n_left: float
    n_right: float
    n_candidates: int

    def goes_left(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which values of the split column go left.

        Parameters
        ----------
        values : ndarray of shape (n,)
            Values of column `feature`, NaN where missing.

        Returns
        -------
        ndarray of bool of shape (n,)
        """
        missing = np.isnan(values)
        if self.left_categories is None:
            left = values <= self.threshold
        else:
            left = np.isin(values, self.left_categories)
            # categories that training did not see follow the majority
            left |= (values < 0) & (self.n_left >= self.n_right)
        return np.where(missing, self.missing_left, left)


def best_split(
    X: NDArray[np.float64],
    residuals: ArrayLike,
    target: ArrayLike | None = None,
    *,
    rows: NDArray[np.int64] | None = None,
    n_categories: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    min_samples_leaf: float = 1,
    criterion: str | Criterion = "levene",
    n_jobs: int | None = 1,
    members: Members | None = None,
    min_tested: float = 2,
    step: int = 1,
    ordering: Sample | None = None,
) -> Split | None:
    """The best split of a node over all features and thresholds.

    Numeric columns are cut between any two neighbouring distinct values. Missing values are tested on both sides of
    every threshold, and against all others. Of up to 10 categories all subsets are tested (a missing value counts as
    one more category); more categories are ordered by their mean absolute residual about the node's mean ("cart": by
    their mean target) and cut like a number. Categories that no row of the node has go to the side with more rows.

    Many categories are ordered by the rows of `ordering`, which are independent of the tested rows: then p, multiplied
    by the number of candidates, is valid for any number of categories. A category without ordering rows is ordered by
    the overall mean, and one without tested rows keeps its position in the order. Without `ordering` the tested rows
    order the categories themselves, as in the paper; with many categories, pure noise is then split nearly always.

    If only a part of a node's rows is tested, `members` are all of them: `min_samples_leaf` refers to all rows of a
    side, and `min_tested` to its tested rows.

    Ties are resolved in favour of the lowest feature, then of the lowest threshold or the lexicographically smallest
    set of left categories. Statistics with a relative difference below 1e-9 are equal.

    Parameters
    ----------
    X : ndarray of shape (n_rows_of_table, n_features)
        The whole table, float64, preferably column-major. NaN is missing; categories are codes 0, 1, ...
    residuals : array-like of shape (n,)
        Residuals of the tested rows.
    target : array-like of shape (n,), optional
        Targets of the tested rows, for the criterion "cart".
    rows : ndarray of int of shape (n,), optional
        The tested rows; by default all rows of the table.
    n_categories : array-like of int of shape (n_features,), optional
        Number of categories of each column, 0 for numeric columns.
    sample_weight : array-like of shape (n,), optional
        Weights of the tested rows: weight 2 is equivalent to repeating the row.
    min_samples_leaf : float, default=1
        The smallest weighted number of rows of the node on each side.
    criterion : str or Criterion, default="levene"
        A key of `usnrt.tree.criteria.CRITERIA`, or a criterion.
    n_jobs : int, default=1
        Number of threads, which share the features; -1 for all processors. The result does not depend on it.
    members : Members, optional
        All rows of the node, including `rows`; by default these are all.
    min_tested : float, default=2
        With `members`, the smallest weight of the tested rows on each side.
    step : int, default=1
        Test every ``step``-th possible threshold of a numeric column, see the paper's section on complexity.
    ordering : Sample, optional
        Other rows of the node than `rows`, which order many categories; with targets for the criterion "cart".

    Returns
    -------
    Split or None
        None if no split leaves enough rows on both sides.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.tree.split import best_split
    >>> x = np.arange(8.0).reshape(-1, 1)
    >>> split = best_split(x, [0.1, -0.1, 0.2, -0.2, 3, -3, 4, -4], min_samples_leaf=2)
    >>> split.threshold, round(split.statistic, 3), round(split.log10_p, 3), split.n_candidates
    (3.5, -11.547, -4.596, 5)
    """
    X = np.asarray(X, dtype=np.float64)
    if rows is None:
        rows = np.arange(X.shape[0])
    values = _aligned("residuals", residuals, len(rows))
    targets = None if target is None else _aligned("target", target, len(rows))
    weight = np.ones(len(rows)) if sample_weight is None else _aligned("sample_weight", sample_weight, len(rows))
    kinds = np.zeros(X.shape[1], np.int64) if n_categories is None else np.asarray(n_categories, np.int64)
    if kinds.shape != (X.shape[1],):
        raise ValueError(f"n_categories must have one entry per column, got {len(kinds)} for {X.shape[1]} columns")
    criterion = get_criterion(criterion)
    if (counted := weight > 0).sum() < len(rows):
        rows, values, weight = rows[counted], values[counted], weight[counted]
        targets = None if targets is None else targets[counted]
    tested = Sample(rows, values, weight, targets)
    all_weight = weight if members is None else members.weight
    min_leaf = _with_tolerance(min_samples_leaf, all_weight)
    min_side = min_leaf if members is None else _with_tolerance(min_tested, weight)
    if len(rows) < 2 or weight.sum() < 2 * min_side or all_weight.sum() < 2 * min_leaf:
        return None
    search = _Search.over(X, kinds, criterion, tested, members, ordering, min_leaf, min_side, step)
    best: tuple[int, FeatureCut] | None = None
    n_candidates = 0
    for feature, found in enumerate(_map_features(search.best_cut, X.shape[1], n_jobs)):
        if found is None:
            continue
        n_candidates += found[0].n_candidates
        if best is None or found[0].merit > best[1][0].merit * (1 + TIE):
            best = feature, found
    return None if best is None else search.make_split(best[0], *best[1], n_candidates)


def _with_tolerance(min_weight: float, weight: NDArray[np.float64]) -> float:
    """The smallest weight of a side, reduced by the rounding error of sums of fractional weights."""
    return max(float(min_weight), np.finfo(float).tiny) - 1e-12 * float(weight.sum())


@dataclass(frozen=True)
class _Search:
    """The inputs of the split search that all features of a node share."""

    X: NDArray[np.float64]
    kinds: NDArray[np.int64]
    criterion: Criterion
    tested: Sample
    members: Members | None
    min_leaf: float
    min_tested: float
    step: int
    node: Any
    ordering: Sample
    order_node: Any

    @classmethod
    def over(
        cls,
        X: NDArray[np.float64],
        kinds: NDArray[np.int64],
        criterion: Criterion,
        tested: Sample,
        members: Members | None,
        ordering: Sample | None,
        min_leaf: float,
        min_tested: float,
        step: int,
    ) -> "_Search":
        node = criterion.prepare(tested.residuals, tested.target, tested.weight)
        order_node = node
        if ordering is not None and len(ordering.rows):
            order_node = criterion.prepare(ordering.residuals, ordering.target, ordering.weight)
        return cls(
            X, kinds, criterion, tested, members, min_leaf, min_tested, step, node, ordering or tested, order_node
        )

    def best_cut(self, feature: int) -> FeatureCut | None:
        """The best cut of one feature."""
        column = self.X[self.tested.rows, feature]
        members, weight = (column, self.tested.weight) if self.members is None else self._all_rows(feature)
        n_codes = int(self.kinds[feature])
        if n_codes == 0:
            limits = None if self.members is None else Limits(members, weight, self.min_leaf)
            cut = self.criterion.best_cut(self.node, SplitColumn(column, limits, self.step), self.min_tested)
            return None if cut is None else (cut, None)
        same = self.ordering is self.tested
        values = column if same else self.X[self.ordering.rows, feature]
        levels = Levels(column, members, weight, n_codes, self.min_leaf)
        order = LevelOrder(values, self.order_node, 0.0 if same else PSEUDO_COUNT)
        return best_division(self.criterion, self.node, levels, order, self.min_tested)

    def _all_rows(self, feature: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Values and weights of all rows of the node."""
        members = Members(self.tested.rows, self.tested.weight) if self.members is None else self.members
        return self.X[members.rows, feature], members.weight

    def make_split(self, feature: int, cut: Cut, left_codes: tuple[int, ...] | None, n_candidates: int) -> Split:
        """The split of a cut: counts the rows, and assigns categories that no row of the node has to a side."""
        column, weight = self._all_rows(feature)
        is_left = column <= cut.threshold if left_codes is None else np.isin(column, left_codes)
        missing_tested = bool(np.isnan(self.X[self.tested.rows, feature]).any())
        n_left, n_right, missing_left = count_sides(
            column, weight, is_left, cut.missing_left if missing_tested else None
        )
        if left_codes is not None:
            present = np.unique(column[~np.isnan(column)]).astype(np.int64)
            absent = np.setdiff1d(np.arange(self.kinds[feature]), present)
            left_codes = tuple(sorted([*left_codes, *(absent.tolist() if n_left >= n_right else [])]))
        return Split(
            feature=feature,
            threshold=cut.threshold,
            left_categories=left_codes,
            missing_left=missing_left,
            statistic=cut.statistic,
            log10_p=log10_p(cut.statistic, cut.df),
            n_left=n_left,
            n_right=n_right,
            n_candidates=n_candidates,
        )


def count_sides(
    column: NDArray[np.float64],
    weight: NDArray[np.float64],
    is_left: NDArray[np.bool_],
    missing_left: bool | None,
) -> tuple[float, float, bool]:
    """Weighted number of rows on each side, and the side of the missing values.

    Parameters
    ----------
    column, weight : ndarray of shape (n,)
        Values and weights of all rows of a node.
    is_left : ndarray of bool of shape (n,)
        Which rows go left; ignored for missing values.
    missing_left : bool or None
        Whether missing values go left; None for the side with more rows.

    Returns
    -------
    n_left, n_right : float
    missing_left : bool

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.tree.split import count_sides
    >>> column = np.array([1.0, 2.0, 3.0, np.nan])
    >>> count_sides(column, np.ones(4), column <= 2.5, None)
    (3.0, 1.0, True)
    """
    missing = np.isnan(column)
    n_left, n_right = float(weight[is_left & ~missing].sum()), float(weight[~is_left & ~missing].sum())
    if missing_left is None:
        missing_left = n_left >= n_right
    if missing.any():
        side = np.where(missing, missing_left, is_left)
        n_left, n_right = float(weight[side].sum()), float(weight[~side].sum())
    return n_left, n_right, missing_left


def _map_features(
    search: Callable[[int], FeatureCut | None], n_features: int, n_jobs: int | None
) -> list[FeatureCut | None]:
    """The best cuts of all features, in order, computed by several threads."""
    n_threads = min(n_features, (cpu_count() or 1) if n_jobs == -1 else n_jobs or 1)
    if n_threads <= 1:
        return [search(feature) for feature in range(n_features)]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(search, range(n_features)))


def _aligned(name: str, values: ArrayLike, n: int) -> NDArray[np.float64]:
    array = np.array(values, dtype=np.float64)  # a copy: kernels are compiled for writable arrays only
    if array.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), one entry per row, got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity in {(~np.isfinite(array)).sum()} of {n} entries")
    return array
