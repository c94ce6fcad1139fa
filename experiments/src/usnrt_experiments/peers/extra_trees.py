"""Quantile extra-trees (the quantile-forest package) with this library's interface."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from usnrt.comparison.peers.base import LEVELS, TINY, import_optional
from usnrt.comparison.quantiles import InterpolatedQuantiles, separated
from usnrt.estimators.base import DistributionalRegressor
from usnrt.tables.training import DistinctRows, TrainingTable
from usnrt.utils.constraints import Number, check_parameters, check_running, check_whole
from usnrt.utils.sklearn_trees import FlatForest

# Rows predicted at once, which bounds the memory for their leaf rows.
CHUNK = 4096


@dataclass(kw_only=True, eq=False, repr=False)
class QuantileExtraTreesRegressor(DistributionalRegressor):
    """Quantile extra-trees: the quantiles of the training targets in the row's leaves, all trees with equal weight.

    Every tree is fitted to all rows and grown until its leaves hold one row or one target. The distribution is that of
    `InterpolatedQuantiles` with the quantiles of these targets at 21 levels. Categories are one-hot encoded.

    Settings: those of Geurts, Ernst and Wehenkel (2006) and scikit-learn for regression: 100 trees, all features at
    each split, no bootstrap, single-row leaves. All rows of a leaf count, as in Meinshausen (2006); in quantile-forest
    these are ``max_samples_leaf=None`` and ``weighted_leaves=True``.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of trees.
    min_samples_leaf : int, default=1
    max_features : float, default=1.0
        Fraction of the features considered for each split, in (0, 1].
    categorical_features : list of names or positions, or bool mask, default=None
        Columns of category codes. Text and category columns are categorical anyway.
    random_state : int, RandomState or None, default=None
    n_jobs : int, default=-1
        Number of threads; -1 for all cores.

    Attributes
    ----------
    forest_ : FlatForest
        The trees in flat arrays, with the number of each node as its mean.
    start_ : ndarray of shape (n_nodes + 1,)
        Where the targets of each leaf start in ``targets_``.
    targets_, weights_ : ndarray of shape (n_targets,)
        The distinct training targets of each leaf in increasing order, and their fractions of the leaf's weight.

    Examples
    --------
    >>> from usnrt_experiments.peers import QuantileExtraTreesRegressor
    >>> from usnrt.datasets import make_heteroscedastic
    >>> data = make_heteroscedastic("jump", n_samples=500, random_state=0)
    >>> model = QuantileExtraTreesRegressor(n_estimators=50, random_state=0).fit(data.data, data.target)
    >>> model.predict_dist(data.data)
    <InterpolatedQuantiles of 500 rows>
    """

    n_estimators: int = 100
    min_samples_leaf: int = 1
    max_features: float = 1.0
    categorical_features: Any = None
    random_state: Any = None
    n_jobs: int | None = -1

    def _fit(self, rows: DistinctRows) -> None:
        table = self._scaled_table(rows)
        check_whole("n_estimators", self.n_estimators, 1)
        check_whole("min_samples_leaf", self.min_samples_leaf, 1)
        check_parameters({"max_features": self.max_features}, {"max_features": Number(0, 1, include_high=True)})
        check_running(self.n_jobs, 0, None)
        quantile_forest = import_optional("quantile_forest", self)
        model = quantile_forest.ExtraTreesQuantileRegressor(
            n_estimators=self.n_estimators,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self.max_features,
            random_state=int(check_random_state(self.random_state).randint(2**31 - 1)),
            n_jobs=effective_n_jobs(self.n_jobs),
        )
        model.fit(table.inputs, table.y, sample_weight=table.weight)
        forest = FlatForest.of(model.estimators_)
        self.forest_ = replace(forest, mean=np.arange(len(forest.mean), dtype=np.float64))
        self._keep_targets(table)

    def _keep_targets(self, table: TrainingTable) -> None:
        # The library stores one block of the size of the largest leaf for every node, which does not fit into memory
        # if a leaf holds thousands of rows with the same target. Equal targets of a leaf are stored once here.
        order = np.argsort(table.y, kind="stable")
        leaf = self._leaves(table.inputs[order]).ravel()
        y, weight = (np.repeat(values[order], self.n_estimators) for values in (table.y, table.weight))
        by_leaf = np.argsort(leaf, kind="stable")  # targets of a leaf stay in increasing order
        leaf, y, weight = leaf[by_leaf], y[by_leaf], weight[by_leaf]
        first = np.flatnonzero(np.r_[True, (np.diff(leaf) > 0) | (np.diff(y) > 0)])
        sums = np.bincount(leaf, weight, minlength=len(self.forest_.mean))
        self.targets_ = y[first]
        self.weights_ = np.add.reduceat(weight, first) / sums[leaf[first]]
        self.start_ = np.searchsorted(leaf[first], np.arange(len(sums) + 1))

    def _leaves(self, inputs: NDArray[np.float32]) -> NDArray[np.int32]:
        """Node number of the leaf of each row in each tree, shape (n, n_trees)."""
        return self.forest_.leaf_means(inputs, effective_n_jobs(self.n_jobs)).astype(np.int32)

    def _distribution(self, raw: NDArray[np.float64]) -> InterpolatedQuantiles:
        inputs = self.inputs_.transform(raw)
        parts = [self._quantiles(inputs[start : start + CHUNK]) for start in range(0, len(raw), CHUNK)]
        return InterpolatedQuantiles(LEVELS, separated(np.concatenate(parts), TINY))

    def _quantiles(self, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
        """Weighted quantiles of the leaf targets, interpolated as in quantile-forest, shape (n, n_levels)."""
        leaf = self._leaves(inputs)
        sizes = self.start_[leaf + 1] - self.start_[leaf]
        ends = np.cumsum(sizes)
        position = np.repeat(self.start_[leaf].ravel() - (ends - sizes.ravel()), sizes.ravel()) + np.arange(ends[-1])
        row = np.repeat(np.arange(len(inputs)), sizes.sum(axis=1))
        targets, weights = self.targets_[position], self.weights_[position]
        order = np.lexsort((targets, row))
        cuts = np.cumsum(sizes.sum(axis=1))[:-1]
        ranks = 1.0 + np.array(LEVELS) * (self.n_estimators - 1.0)  # a tree has weight 1
        pairs = zip(np.split(targets[order], cuts), np.split(weights[order], cuts))
        return np.array([np.interp(ranks, np.cumsum(weight), target) for target, weight in pairs])
