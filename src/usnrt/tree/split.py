"""The exact search for the best split of a node."""

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

#: a feature's best cut and, for categories, the codes of its left side
Found = tuple[Cut, tuple[int, ...] | None]


class Sample(NamedTuple):
    """Rows of a table with residuals, weights and targets; all arrays have shape (n,)."""

    rows: NDArray[np.intp]
    residuals: NDArray[np.float64]
    weight: NDArray[np.float64]
    target: NDArray[np.float64] | None = None


class Members(NamedTuple):
    """All rows of a node, of which a part is tested, and how often each counts; both of shape (n,)."""

    rows: NDArray[np.intp]
    weight: NDArray[np.float64]


@dataclass(frozen=True)
class Split:
    """A division of a node's rows in two.

    Attributes
    ----------
    feature : int
        The column that decides.
    threshold : float
        Numeric columns: values at most this go left. +inf sends all but the missing ones left. NaN for categories.
    left_categories : tuple of int or None
        Categorical columns: the codes that go left, those that no row of this node has included.
    missing_left : bool
        Whether missing values go left; without any in the node, the side with more rows takes them.
    statistic : float
        T of the test, signed: positive when the left side's spread (of "cart": its mean) is larger.
    log10_p : float
        log10 of the two-sided p-value, not corrected for the number of candidates.
    n_left, n_right : float
        Rows of the node on each side, counted by weight.
    n_candidates : int
        How many splits were tested over all features.
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
        """Which values of the deciding column go left.

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
            # a code that training never saw follows the majority
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

    Numeric columns are cut between any two neighbouring distinct values. Missing values are tried on both sides of
    every threshold, and against all others. Of up to 10 categories all subsets are tried (a missing value counts as
    one more category); more categories are put in the order of their mean absolute residual about the node's mean
    ("cart": of their mean target) and cut like a number. Categories that no row of the node has go to the side with
    more rows.

    The order of many categories comes from the rows of `ordering`, which the noise of the tested rows knows nothing
    of: then p, multiplied by the number of candidates, is honest for any number of categories. A category without
    ordering rows has a neutral place in the order, and one without tested rows still goes where the order puts it.
    Without `ordering` the tested rows order the categories themselves, as the paper has it, and with many categories
    pure noise is split nearly always.

    Where only a part of a node's rows is tested, `members` are all of them: `min_samples_leaf` counts these, so that
    no side has fewer rows than promised, and `min_tested` counts the tested rows of a side.

    The first of equally good splits wins: the lowest feature, then the lowest threshold or the lexicographically
    smallest set of left categories. Two statistics that differ by less than 1e-9 of their size are equal.

    Parameters
    ----------
    X : ndarray of shape (n_rows_of_table, n_features)
        The whole table, float64, best column-major. NaN is missing; categories are codes 0, 1, ...
    residuals : array-like of shape (n,)
        Residuals of the node's rows.
    target : array-like of shape (n,), optional
        Targets of the node's rows, for the criterion "cart".
    rows : ndarray of int of shape (n,), optional
        The rows of the table that are in the node; all by default.
    n_categories : array-like of int of shape (n_features,), optional
        Number of categories of each column, 0 for numeric columns.
    sample_weight : array-like of shape (n,), optional
        How often each row counts: weight 2 is the same as the row twice.
    min_samples_leaf : float, default=1
        The least number of rows of the node, counted by weight, on both sides.
    criterion : str or Criterion, default="levene"
        "levene", "brown-forsythe", "support" or "cart", see `usnrt.tree.criteria`.
    n_jobs : int, default=1
        Threads to spread the features over; -1 for all processors. The result does not depend on it.
    members : Members, optional
        All rows of the node, among them `rows`; by default the tested rows are all.
    min_tested : float, default=2
        The least weight of the tested rows on both sides, with `members`.
    step : int, default=1
        Test every ``step``-th of the possible thresholds of a numeric column, see the paper's section on complexity.
    ordering : Sample, optional
        Rows of the node, not among `rows`, to order many categories by; with targets for the criterion "cart".

    Returns
    -------
    Split or None
        None when no split leaves `min_samples_leaf` rows on both sides.

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
        raise ValueError(f"n_categories must have one entry a column, got {len(kinds)} for {X.shape[1]} columns")
    judge = get_criterion(criterion)
    if (counted := weight > 0).sum() < len(rows):
        rows, values, weight = rows[counted], values[counted], weight[counted]
        targets = None if targets is None else targets[counted]
    tested = Sample(rows, values, weight, targets)
    all_weight = weight if members is None else members.weight
    min_leaf = _least(min_samples_leaf, all_weight)
    least = min_leaf if members is None else _least(min_tested, weight)
    if len(rows) < 2 or weight.sum() < 2 * least or all_weight.sum() < 2 * min_leaf:
        return None
    search = _Search.over(X, kinds, judge, tested, members, ordering, min_leaf, least, step)
    best: tuple[int, Found] | None = None
    n_candidates = 0
    for feature, found in enumerate(_each(search.feature, X.shape[1], n_jobs)):
        if found is None:
            continue
        n_candidates += found[0].n_candidates
        if best is None or found[0].merit > best[1][0].merit * (1 + TIE):
            best = feature, found
    return None if best is None else search.finish(best[0], *best[1], n_candidates)


def _least(asked: float, weight: NDArray[np.float64]) -> float:
    """The least weight of a side; sums of fractional weights round, so a side may fall short by that much."""
    return max(float(asked), np.finfo(float).tiny) - 1e-12 * float(weight.sum())


@dataclass(frozen=True)
class _Search:
    """What the search of every feature of a node needs."""

    X: NDArray[np.float64]
    kinds: NDArray[np.int64]
    judge: Criterion
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
        judge: Criterion,
        tested: Sample,
        members: Members | None,
        ordering: Sample | None,
        min_leaf: float,
        min_tested: float,
        step: int,
    ) -> "_Search":
        node = judge.prepare(tested.residuals, tested.target, tested.weight)
        order_node = node
        if ordering is not None and len(ordering.rows):
            order_node = judge.prepare(ordering.residuals, ordering.target, ordering.weight)
        return cls(X, kinds, judge, tested, members, min_leaf, min_tested, step, node, ordering or tested, order_node)

    def feature(self, feature: int) -> Found | None:
        """The best cut of one feature."""
        column = self.X[self.tested.rows, feature]
        members, weight = (column, self.tested.weight) if self.members is None else self._all(feature)
        n_codes = int(self.kinds[feature])
        if n_codes == 0:
            limits = None if self.members is None else Limits(members, weight, self.min_leaf)
            cut = self.judge.best_cut(self.node, SplitColumn(column, limits, self.step), self.min_tested)
            return None if cut is None else (cut, None)
        same = self.ordering is self.tested
        values = column if same else self.X[self.ordering.rows, feature]
        levels = Levels(column, members, weight, n_codes, self.min_leaf)
        order = LevelOrder(values, self.order_node, 0.0 if same else PSEUDO_COUNT)
        return best_division(self.judge, self.node, levels, order, self.min_tested)

    def _all(self, feature: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Values and weights of all rows of the node."""
        everyone = Members(self.tested.rows, self.tested.weight) if self.members is None else self.members
        return self.X[everyone.rows, feature], everyone.weight

    def finish(self, feature: int, cut: Cut, left_codes: tuple[int, ...] | None, n_candidates: int) -> Split:
        """Count the rows, and give the categories that no row of the node has their place."""
        column, weight = self._all(feature)
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
    """Rows on each side, counted by weight, and the side of the missing values.

    Parameters
    ----------
    column, weight : ndarray of shape (n,)
        Values and weights of all rows of a node.
    is_left : ndarray of bool of shape (n,)
        Which rows go left; it does not matter for missing values.
    missing_left : bool or None
        Where missing values go; None for the side with more rows.

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


def _each(search: Callable[[int], Found | None], n_features: int, n_jobs: int | None) -> list[Found | None]:
    """The answers for all features, in their order, worked out on several threads."""
    n_threads = min(n_features, (cpu_count() or 1) if n_jobs == -1 else n_jobs or 1)
    if n_threads <= 1:
        return [search(feature) for feature in range(n_features)]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(search, range(n_features)))


def _aligned(name: str, values: ArrayLike, n: int) -> NDArray[np.float64]:
    array = np.array(values, dtype=np.float64)  # a copy: read-only arrays would need kernels of their own
    if array.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), one entry a row of the node, got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, but {(~np.isfinite(array)).sum()} of {n} entries are not")
    return array
