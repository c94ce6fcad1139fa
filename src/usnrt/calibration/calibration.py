"""Calibration of predicted quantile functions by conformity scores, region by region.

The networks predict a quantile function per row. The position of the target in it, on the scale of a standard normal,
is the conformity score; if the networks predict a variance, that is the residual over the standard deviation. In each
region (Mondrian category) the scores of held-out rows give two things: a smooth *residual distribution*, which
calibrates the predictive distribution, and *order statistics*, which give intervals with guaranteed coverage
(`usnrt.calibration.conformal`).

The guarantee requires exchangeable scores. They are exactly exchangeable if the calibration rows were used for nothing
else: with ``calibrate`` on new rows, or with ``calibration_fraction``. The validation rows of an ordinary fit were also
used for early stopping and for choosing the splits (and variance networks are tuned on them, by halves); coverage is
then approximate, as measured in docs/calibration.md.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usnrt.calibration.conformal import conformal_bounds
from usnrt.distributions import QuantileDistribution, ResidualDistribution
from usnrt.nn.quantile_functions import group_values
from usnrt.nn.quantiles import POSITIONS
from usnrt.tree.structure import Tree
from usnrt.utils.types import Rows
from usnrt.utils.weights import evidence

# The residual distribution of a region with fewer effective scores is completed by scores of the enclosing regions.
ENOUGH_SCORES = 100


@dataclass
class Calibration:
    """Residual distributions and sorted conformity scores, one of each per group of rows.

    Attributes
    ----------
    group_of_leaf : ndarray of int of shape (n_leaves,)
        Group of each leaf: one per leaf, or 0 for all. Of length 2 n_leaves if familiar rows have groups.
    residuals : list of ResidualDistribution
        Residual distribution of each group.
    scores : list of ndarray
        Sorted conformity scores of each group, for intervals with guaranteed coverage.
    weights : list of ndarray or None
        How many independent scores each one counts for (`usnrt.utils.weights.evidence`); None if all are 1.
    has_familiar : bool
        Whether familiar rows have groups; leaf i of familiar rows is then at position n_leaves + i.
    """

    group_of_leaf: NDArray[np.int64]
    residuals: list[ResidualDistribution]
    scores: list[NDArray[np.float64]]
    weights: list[NDArray[np.float64]] | None = None
    has_familiar: bool = False

    @property
    def n_leaves(self) -> int:
        """Number of leaves, not counting those of familiar rows."""
        return len(self.group_of_leaf) // (2 if self.has_familiar else 1)

    @classmethod
    def from_scores(
        cls,
        scores: NDArray[np.float64],
        leaf: NDArray[np.int64],
        weight: NDArray[np.float64],
        tree: Tree,
        by: str = "region",
        inflation: float = 1.0,
        group: Rows | None = None,
        correlation: float = 1.0,
    ) -> "Calibration":
        """Calibrate by the conformity scores of held-out rows.

        Parameters
        ----------
        scores : ndarray of shape (n,)
            Conformity scores.
        leaf : ndarray of int of shape (n,)
            Leaf of each row, counted from 0.
        weight : ndarray of shape (n,)
            Weight of each row.
        tree : Tree
            Defines the enclosing regions of a leaf.
        by : {"region", "global"}
            Whether each leaf is a group, or all leaves are one.
        inflation : float, default=1.0
            Factor of the scores in residual distributions; order statistics are not changed.
        group : ndarray of int of shape (n,), optional
            Group of each row, such as its subject: intervals are then those of a new one.
        correlation : float, default=1.0
            Of scores within groups; 1 assumes nothing about it.

        Returns
        -------
        Calibration
        """

        def counted(rows: Rows) -> NDArray[np.float64]:
            return evidence(weight[rows], None if group is None else group[rows], correlation)

        if by == "global":
            order, counts = np.argsort(scores, kind="stable"), counted(np.arange(len(scores)))
            group_of_leaf = np.zeros(tree.n_leaves, dtype=np.int64)
            residual = ResidualDistribution.from_residuals(inflation * scores, weights=counts)
            return cls(group_of_leaf, [residual], [scores[order]], [counts[order]])
        residuals, orders, weights = [], [], []
        for index, node in enumerate(tree.leaves):
            own = np.flatnonzero(leaf == index)
            orders.append(own[np.argsort(scores[own], kind="stable")])
            weights.append(counted(orders[-1]))
            rows, row_weight = _with_neighbours(tree, int(node), leaf, counted)
            residuals.append(ResidualDistribution.from_residuals(inflation * scores[rows], weights=row_weight))
        return cls(np.arange(tree.n_leaves), residuals, [scores[order] for order in orders], weights)

    def with_familiar(
        self, scores: NDArray[np.float64], leaf: NDArray[np.int64], weight: NDArray[np.float64], min_rows: int
    ) -> "Calibration":
        """Add groups for familiar rows, see `usnrt.calibration.familiar`.

        Leaf i of familiar rows is ``n_leaves + i``.

        Parameters
        ----------
        scores, weight : ndarray of shape (n,)
            Of familiar rows.
        leaf : ndarray of int of shape (n,)
        min_rows : int
            In groups with fewer familiar rows, these share the group of the others.

        Returns
        -------
        Calibration
        """
        assert self.weights is not None
        residuals, ordered, weights = list(self.residuals), list(self.scores), list(self.weights)
        group_of_familiar = self.group_of_leaf.copy()
        for group in range(len(self.residuals)):
            own = np.flatnonzero(self.group_of_leaf[leaf] == group)
            if len(own) < min_rows:
                continue
            order = own[np.argsort(scores[own], kind="stable")]
            group_of_familiar[self.group_of_leaf == group] = len(residuals)
            residuals.append(ResidualDistribution.from_residuals(scores[own], weights=weight[own]))
            ordered.append(scores[order])
            weights.append(evidence(weight[order]))
        group_of_leaf = np.concatenate([self.group_of_leaf, group_of_familiar])
        return Calibration(group_of_leaf, residuals, ordered, weights, has_familiar=True)

    def distribution(
        self, quantiles: NDArray[np.float64], leaf: NDArray[np.int64], mean: NDArray[np.float64] | None = None
    ) -> QuantileDistribution:
        """Predictive distributions: quantile functions calibrated by the residual distributions of their groups.

        Parameters
        ----------
        quantiles : ndarray of shape (n, n_positions)
            Quantiles at `usnrt.nn.quantiles.POSITIONS`.
        leaf : ndarray of int of shape (n,)
        mean : ndarray of shape (n,), optional
            Means to use instead of those of the distribution, for models from old files.

        Returns
        -------
        QuantileDistribution
        """
        return QuantileDistribution(quantiles, POSITIONS, self.group_of_leaf[leaf], self.residuals, mean=mean)

    def interval(
        self,
        quantiles: NDArray[np.float64],
        leaf: NDArray[np.int64],
        coverage: float,
        n_threads: int = 1,
        guaranteed: bool = True,
    ) -> NDArray[np.float64]:
        """Intervals with guaranteed coverage in each group.

        Parameters
        ----------
        quantiles : ndarray of shape (n, n_positions)
        leaf : ndarray of int of shape (n,)
        coverage : float
        n_threads : int, default=1
        guaranteed : bool, default=True
            Whether intervals of groups with too few scores are infinite; else they are those of `distribution`.

        Returns
        -------
        ndarray of shape (n, 2)
        """
        bounds, group = self._bounds(coverage), self.group_of_leaf[leaf]
        if not guaranteed:
            levels = np.array([(1.0 - coverage) / 2.0, (1.0 + coverage) / 2.0])
            bounds = np.array(
                [
                    ends if np.isfinite(ends).all() else residual.ppf(levels)
                    for residual, ends in zip(self.residuals, bounds)
                ]
            )
        finite = np.isfinite(bounds)
        values = group_values(quantiles, POSITIONS, np.where(finite, bounds, 0.0), group, n_threads)
        return values if finite.all() else np.where(finite[group], values, bounds[group])

    def is_guaranteed(self, leaf: NDArray[np.int64], coverage: float) -> NDArray[np.bool_]:
        """Whether the groups of rows have enough scores for finite intervals with guaranteed coverage.

        Parameters
        ----------
        leaf : ndarray of int of shape (n,)
        coverage : float

        Returns
        -------
        ndarray of bool of shape (n,)
        """
        enough: NDArray[np.bool_] = np.isfinite(self._bounds(coverage)[self.group_of_leaf[leaf]])
        return enough[:, 0] & enough[:, 1]

    def _bounds(self, coverage: float) -> NDArray[np.float64]:
        """Conformal bounds of each group, shape (n_groups, 2); those of the last coverage are kept."""
        kept: tuple[float, NDArray[np.float64]] | None = self.__dict__.get("_kept_bounds")  # not a field: not stored
        if kept is None or kept[0] != coverage:
            weights = [None] * len(self.scores) if self.weights is None else self.weights
            by_group = [conformal_bounds(scores, coverage, weight) for scores, weight in zip(self.scores, weights)]
            kept = self.__dict__["_kept_bounds"] = (coverage, np.array(by_group))
        return kept[1]


def _with_neighbours(
    tree: Tree, node: int, leaf: NDArray[np.int64], counted: Callable[[Rows], NDArray[np.float64]]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Rows of a leaf and how much each counts; if they are few, also those of an enclosing region, counting less."""
    own = leaf == tree.leaf_index[node]
    of_own = counted(np.flatnonzero(own))
    missing = ENOUGH_SCORES - float(of_own.sum())
    if missing <= 0:
        return np.flatnonzero(own), of_own
    for ancestor in tree.path(node)[-2::-1]:
        inside = np.isin(leaf, _leaves_below(tree, ancestor))
        others = inside & ~own
        of_others = counted(np.flatnonzero(others))
        found = float(of_others.sum())
        if found >= missing or ancestor == 0:
            row_weight = np.zeros(len(leaf))
            row_weight[own], row_weight[others] = of_own, missing / max(found, missing) * of_others
            return np.flatnonzero(inside), row_weight[inside]
    return np.flatnonzero(own), of_own  # the root is the only node


def _leaves_below(tree: Tree, node: int) -> list[int]:
    stack, leaves = [node], []
    while stack:
        current = stack.pop()
        if tree.feature[current] < 0:
            leaves.append(int(tree.leaf_index[current]))
        else:
            stack += [int(tree.left[current]), int(tree.right[current])]
    return leaves
