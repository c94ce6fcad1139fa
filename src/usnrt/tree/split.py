"""The exact search for the best split of a node."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from os import cpu_count

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usnrt.tree._kernels import TIE
from usnrt.tree.column import Column
from usnrt.tree.criteria import Criterion, Cut, get_criterion
from usnrt.tree.pvalue import log10_p

#: up to this many categories in a node, all their subsets are tested
MAX_CATEGORIES_FOR_SUBSETS = 10

#: a feature's best cut and, for categories, the codes of its left side
Found = tuple[Cut, tuple[int, ...] | None]


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
        Rows on each side, counted by weight.
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
) -> Split | None:
    """The best split of a node over all features and thresholds.

    Numeric columns are cut between any two neighbouring distinct values. Missing values are tried on both sides of
    every threshold, and against all others. Of up to 10 categories all subsets are tried (a missing value counts as
    one more category); more categories are put in the order of their mean absolute residual about the node's mean
    ("cart": of their mean target) and cut like a number. Categories that no row of the node has go to the side with
    more rows.

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
        The least number of rows, counted by weight, on both sides.
    criterion : str or Criterion, default="levene"
        "levene", "brown-forsythe", "support" or "cart", see `usnrt.tree.criteria`.
    n_jobs : int, default=1
        Threads to spread the features over; -1 for all processors. The result does not depend on it.

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
        raise ValueError(f"n_categories must have one entry a column, however: {len(kinds)} for {X.shape[1]} columns")
    judge = get_criterion(criterion)
    if (counted := weight > 0).sum() < len(rows):
        rows, values, weight = rows[counted], values[counted], weight[counted]
        targets = None if targets is None else targets[counted]
    total = float(weight.sum())
    # Sums of fractional weights round; a side may fall short by that much.
    min_weight = max(float(min_samples_leaf), np.finfo(float).tiny) - 1e-12 * total
    if len(rows) < 2 or total < 2 * min_weight:
        return None

    node = judge.prepare(values, targets, weight)

    def search(feature: int) -> Found | None:
        column = X[rows, feature]
        if kinds[feature] > 0:
            return _best_of_categories(judge, node, column, int(kinds[feature]), min_weight)
        cut = judge.best_cut(node, Column(column), min_weight)
        return None if cut is None else (cut, None)

    best: tuple[int, Found] | None = None
    n_candidates = 0
    for feature, found in enumerate(_each(search, X.shape[1], n_jobs)):
        if found is None:
            continue
        n_candidates += found[0].n_candidates
        if best is None or found[0].merit > best[1][0].merit * (1 + TIE):
            best = feature, found
    if best is None:
        return None
    feature, (cut, left_codes) = best
    return _finish(X[rows, feature], weight, feature, cut, left_codes, int(kinds[feature]), n_candidates)


def _best_of_categories(
    judge: Criterion, node: object, column: NDArray[np.float64], n_codes: int, min_weight: float
) -> Found | None:
    """The best division of the categories of a column, and the codes of its left side."""
    missing = np.isnan(column)
    if (column[~missing] < 0).any() or (column[~missing] >= n_codes).any():
        seen = f"{np.nanmin(column):g}..{np.nanmax(column):g}"
        raise ValueError(f"codes of categories must be in 0..{n_codes - 1} or NaN, however: {seen}")
    codes, group = np.unique(column[~missing].astype(np.int64), return_inverse=True)
    groups = np.full(len(column), -1)
    groups[~missing] = group
    any_missing = bool(missing.any())
    if len(codes) + any_missing < 2 or len(codes) == 0:
        return None
    if judge.tests_subsets and len(codes) <= MAX_CATEGORIES_FOR_SUBSETS:
        groups[missing] = len(codes)
        masks = _subsets(len(codes) + any_missing)
        found = judge.best_subset(node, groups, masks, min_weight)
        if found is None:
            return None
        mask, cut = int(masks[found[0]]), found[1]
        left = tuple(int(code) for g, code in enumerate(codes) if mask >> g & 1)
        return cut._replace(threshold=np.nan, missing_left=bool(mask >> len(codes) & 1)), left
    values = judge.category_values(node, groups, len(codes))
    best = judge.best_cut(node, Column(np.where(missing, np.nan, values[groups])), min_weight)
    if best is None:
        return None
    return best._replace(threshold=np.nan), tuple(int(code) for code in codes[values <= best.threshold])


def _finish(
    column: NDArray[np.float64],
    weight: NDArray[np.float64],
    feature: int,
    cut: Cut,
    left_codes: tuple[int, ...] | None,
    n_codes: int,
    n_candidates: int,
) -> Split:
    """Count the rows, and give missing values and absent categories their place."""
    missing = np.isnan(column)
    left = column <= cut.threshold if left_codes is None else np.isin(column, left_codes)
    left = np.where(missing, cut.missing_left, left)
    n_left, n_right = float(weight[left].sum()), float(weight[~left].sum())
    larger_left = n_left >= n_right
    if left_codes is not None:
        present = np.unique(column[~missing]).astype(np.int64)
        absent = np.setdiff1d(np.arange(n_codes), present)
        left_codes = tuple(sorted([*left_codes, *(absent.tolist() if larger_left else [])]))
    return Split(
        feature=feature,
        threshold=cut.threshold,
        left_categories=left_codes,
        missing_left=cut.missing_left if missing.any() else larger_left,
        statistic=cut.statistic,
        log10_p=log10_p(cut.statistic, cut.df),
        n_left=n_left,
        n_right=n_right,
        n_candidates=n_candidates,
    )


@lru_cache(maxsize=32)
def _subsets(n_groups: int) -> NDArray[np.int64]:
    """Bit masks of the left groups of all divisions in two, in lexicographic order.

    The first group is always on the left: a division and its mirror image are the same.
    """
    masks = [mask for mask in range(1, 1 << n_groups, 2) if mask != (1 << n_groups) - 1]
    return np.array(sorted(masks, key=lambda mask: [g for g in range(n_groups) if mask >> g & 1]), np.int64)


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
        raise ValueError(f"{name} must have shape ({n},), one entry a row of the node, however: {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, however: {(~np.isfinite(array)).sum()} of {n} entries are not")
    return array
