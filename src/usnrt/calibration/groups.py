"""Calibrations per region or for the whole table, and where they have too few rows.

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

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from usnrt.calibration.conformal import conformal_bounds, rows_needed
from usnrt.distributions import Distribution, QuantileDistribution, ResidualDistribution
from usnrt.nn.quantile_functions import group_values
from usnrt.nn.quantiles import POSITIONS, quantile_function_mean
from usnrt.tree.structure import Tree
from usnrt.utils.arrays import evidence
from usnrt.utils.types import Floats, Rows

# The residual distribution of a region with fewer effective scores is completed by scores of the enclosing regions.
ENOUGH_SCORES = 100
# The share of the squared error by which means of quantile functions must be better to be taken instead of those of the
# distributions, which agree with everything else that these say: gains of tables without far tails are less.
MIN_MEAN_GAIN = 0.1


@dataclass(frozen=True)
class ScoredRows:
    """Held-out rows with their conformity scores, by which a model is calibrated."""

    scores: Floats  # shape (n,)
    leaf: NDArray[np.int64]  # shape (n,); region of each row, counted from 0
    weight: Floats  # shape (n,)
    # shape (n,); group of each row, such as its subject: intervals are then those of a new one
    group: Rows | None = None
    correlation: float = 1.0  # of scores within groups; 1 assumes nothing about it
    inflation: float = 1.0  # factor of the scores in residual distributions; order statistics are not changed

    def counted(self, rows: Rows) -> Floats:
        """How many independent scores each of some rows counts for."""
        return evidence(self.weight[rows], None if self.group is None else self.group[rows], self.correlation)


class Calibration(Protocol):
    """What a calibrated model needs of its calibration; `GroupCalibration` is one."""

    def distribution(self, quantiles: Floats, leaf: NDArray[np.int64]) -> Distribution:
        """Predictive distributions of rows with these quantile functions and regions."""

    def interval(
        self, quantiles: Floats, leaf: NDArray[np.int64], coverage: float, n_threads: int = 1, guaranteed: bool = True
    ) -> Floats:
        """Intervals of a coverage, shape (n, 2); infinite where they cannot be guaranteed but have to be."""

    def is_guaranteed(self, leaf: NDArray[np.int64], coverage: float) -> NDArray[np.bool_]:
        """Whether the intervals of a coverage are guaranteed, shape (n,)."""


@dataclass(frozen=True)
class GroupCalibration:
    """Residual distributions and sorted conformity scores, one of each per group of rows."""

    # shape (n_leaves,); group of each leaf: one per leaf, or 0 for all. Of length 2 n_leaves if seen rows have groups
    group_of_leaf: NDArray[np.int64]
    residuals: list[ResidualDistribution]  # of each group
    scores: list[Floats]  # sorted conformity scores of each group, for intervals with guaranteed coverage
    weights: list[Floats]  # how many independent scores each one counts for (`usnrt.utils.arrays.evidence`)
    has_seen: bool = False  # whether seen rows have groups; leaf i of seen rows is then at position n_leaves + i
    # whether the mean of a row is that of its quantile function on the normal scale, not that of its distribution, on
    # which a few scores, many widths away, may decide
    mean_of_knots: bool = False

    @property
    def n_leaves(self) -> int:
        """Number of leaves, not counting those of seen rows."""
        return len(self.group_of_leaf) // (2 if self.has_seen else 1)

    def with_seen(self, seen: ScoredRows, min_rows: int) -> "GroupCalibration":
        """Add groups for seen rows, see `usnrt.calibration.seen_rows`; leaf i of them is ``n_leaves + i``.

        In groups with fewer than ``min_rows`` seen rows, these share the group of the others.
        """
        residuals, ordered, weights = list(self.residuals), list(self.scores), list(self.weights)
        group_of_seen, scores, weight = self.group_of_leaf.copy(), seen.scores, seen.weight
        for group in range(len(self.residuals)):
            own = np.flatnonzero(self.group_of_leaf[seen.leaf] == group)
            if len(own) < min_rows:
                continue
            order = own[np.argsort(scores[own], kind="stable")]
            group_of_seen[self.group_of_leaf == group] = len(residuals)
            residuals.append(ResidualDistribution.from_residuals(scores[own], weights=weight[own]))
            ordered.append(scores[order])
            weights.append(evidence(weight[order]))
        group_of_leaf = np.concatenate([self.group_of_leaf, group_of_seen])
        return replace(
            self,
            group_of_leaf=group_of_leaf,
            residuals=residuals,
            scores=ordered,
            weights=weights,
            has_seen=True,
        )

    def distribution(self, quantiles: Floats, leaf: NDArray[np.int64]) -> QuantileDistribution:
        """Predictive distributions: quantile functions calibrated by the residual distributions of their groups."""
        mean = quantile_function_mean(quantiles) if self.mean_of_knots else None
        return QuantileDistribution(quantiles, POSITIONS, self.group_of_leaf[leaf], self.residuals, mean)

    def with_better_mean(self, quantiles: Floats, leaf: NDArray[np.int64], y: Floats, weight: Floats) -> Self:
        """The calibration whose means of held-out rows have the smaller squared error, by `MIN_MEAN_GAIN`.

        Parameters
        ----------
        quantiles : ndarray of shape (n, n_positions)
        leaf : ndarray of int of shape (n,)
        y, weight : ndarray of shape (n,)
        """
        of_knots, of_distribution = (
            float(weight @ (replace(self, mean_of_knots=choice).distribution(quantiles, leaf).mean() - y) ** 2)
            for choice in (True, False)
        )
        return replace(self, mean_of_knots=of_knots < (1.0 - MIN_MEAN_GAIN) * of_distribution)

    def interval(
        self, quantiles: Floats, leaf: NDArray[np.int64], coverage: float, n_threads: int = 1, guaranteed: bool = True
    ) -> Floats:
        """Intervals with guaranteed coverage in each group, shape (n, 2).

        Those of groups with too few scores are infinite if ``guaranteed``, else those of `distribution`.
        """
        bounds, group = self.bounds(coverage), self.group_of_leaf[leaf]
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
        """Whether the groups of rows have enough scores for finite intervals with guaranteed coverage, shape (n,)."""
        enough: NDArray[np.bool_] = np.isfinite(self.bounds(coverage)[self.group_of_leaf[leaf]])
        return enough[:, 0] & enough[:, 1]

    def bounds(self, coverage: float) -> Floats:
        """Conformal bounds of each group, shape (n_groups, 2); those of the last coverage are kept."""
        kept: tuple[float, Floats] | None = self.__dict__.get("_kept_bounds")  # not a field: not stored
        if kept is None or kept[0] != coverage:
            by_group = [conformal_bounds(scores, coverage, w) for scores, w in zip(self.scores, self.weights)]
            kept = self.__dict__["_kept_bounds"] = (coverage, np.array(by_group))
        return kept[1]


def by_region(scored: ScoredRows, tree: Tree) -> GroupCalibration:
    """A residual distribution and order statistics of its own for every region; the tree has the enclosing regions."""
    residuals, orders, weights = [], [], []
    for index, node in enumerate(tree.leaves):
        own = np.flatnonzero(scored.leaf == index)
        orders.append(own[np.argsort(scored.scores[own], kind="stable")])
        weights.append(scored.counted(orders[-1]))
        rows, row_weight = _with_neighbours(tree, int(node), scored)
        inflated = scored.inflation * scored.scores[rows]
        residuals.append(ResidualDistribution.from_residuals(inflated, weights=row_weight))
    scores = [scored.scores[order] for order in orders]
    return GroupCalibration(np.arange(tree.n_leaves), residuals, scores, weights)


def by_table(scored: ScoredRows, tree: Tree) -> GroupCalibration:
    """One residual distribution, and order statistics of all scores, for all regions."""
    order, counts = np.argsort(scored.scores, kind="stable"), scored.counted(np.arange(len(scored.scores)))
    residual = ResidualDistribution.from_residuals(scored.inflation * scored.scores, weights=counts)
    group_of_leaf = np.zeros(tree.n_leaves, dtype=np.int64)
    return GroupCalibration(group_of_leaf, [residual], [scored.scores[order]], [counts[order]])


# The methods of calibration by name: each is a function of the scored rows of a fit and its tree that returns a
# `Calibration`. To add one, write it in a module of its own and enter it here: the parameter ``calibration`` of the
# estimators then takes its name (`extension_templates/calibration.py`).
METHODS: dict[str, Callable[[ScoredRows, Tree], Calibration]] = {"region": by_region, "global": by_table}


@functools.cache
def standard_normal() -> ResidualDistribution:
    """A standard normal, for quantile functions that are not calibrated."""
    knots = np.linspace(-6.0, 6.0, 241)
    return ResidualDistribution(knots, np.exp(-(knots**2) / 2.0), np.full(2, 2.5e-9), np.full(2, 1e-3))


def uncalibrated(quantiles: Floats) -> QuantileDistribution:
    """The distributions that quantile functions describe, without a calibration."""
    return QuantileDistribution(quantiles, POSITIONS, np.zeros(len(quantiles), dtype=np.int64), [standard_normal()])


def _with_neighbours(tree: Tree, node: int, scored: ScoredRows) -> tuple[Rows, Floats]:
    """Rows of a leaf and how much each counts; if they are few, also those of an enclosing region, counting less."""
    leaf = scored.leaf
    own = leaf == tree.leaf_index[node]
    of_own = scored.counted(np.flatnonzero(own))
    missing = ENOUGH_SCORES - float(of_own.sum())
    if missing <= 0:
        return np.flatnonzero(own), of_own
    for ancestor in tree.path(node)[-2::-1]:
        inside = np.isin(leaf, _leaves_below(tree, ancestor))
        others = inside & ~own
        of_others = scored.counted(np.flatnonzero(others))
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


@dataclass(frozen=True)
class InsufficientCalibration:
    """Regions with too few calibration rows for intervals with guaranteed coverage."""

    coverage: float  # nominal coverage
    # regions, n_regions: number of regions with too few rows, and of all regions
    regions: int
    n_regions: int
    # fewest, most: smallest and largest effective number of calibration rows in these regions
    fewest: int
    most: int
    needed: int  # number of calibration rows that a region needs
    # whether the weights of the rows differ, so that their effective number is smaller than their number
    weighted: bool = False

    def __str__(self) -> str:
        """The message of the warning.

        Examples
        --------
        >>> print(InsufficientCalibration(0.999, 2, 3, 120, 160, 1999))
        the 99.9 % interval is infinite in 2 of 3 regions, which have 120 to 160 calibration rows; 1,999 are needed
        """
        return f"the {100 * self.coverage:g} % interval is infinite {self.where}; {self.needed:,} are needed"

    @property
    def unguaranteed(self) -> str:
        """The message if the intervals of these regions are taken from the distribution.

        Examples
        --------
        >>> InsufficientCalibration(0.9, 1, 1, 12, 12, 19).unguaranteed[:68]
        'the 90 % interval is not guaranteed in 1 of 1 regions, which has 12 '
        """
        return (
            f"the {100 * self.coverage:g} % interval is not guaranteed {self.where}; {self.needed:,} are needed. "
            "It is that of the predicted distribution there"
        )

    @property
    def where(self) -> str:
        """In how many regions, and how many calibration rows they have."""
        rows = f"{self.fewest:,}" if self.fewest == self.most else f"{self.fewest:,} to {self.most:,}"
        verb = "has" if self.regions == 1 else "have"
        kind = "effective calibration rows, by their weights or groups" if self.weighted else "calibration rows"
        return f"in {self.regions} of {self.n_regions} regions, which {verb} {rows} {kind}"


def insufficient_calibration(calibration: Calibration | None, coverage: float) -> InsufficientCalibration | None:
    """Regions with too few calibration rows for intervals of a coverage; None if all have enough."""
    if not isinstance(calibration, GroupCalibration):
        return None
    leaves = np.arange(calibration.n_leaves)
    # intervals of one row per region, so that only `Calibration` defines when bounds are infinite
    bounds = calibration.interval(np.tile(POSITIONS, (len(leaves), 1)), leaves, coverage)
    short = ~np.isfinite(bounds).all(axis=1)
    if not short.any():
        return None
    rows = [calibration_rows(calibration, int(leaf)) for leaf in leaves[short]]
    weighted = sum(rows) < sum(len(calibration.scores[int(calibration.group_of_leaf[leaf])]) for leaf in leaves[short])
    return InsufficientCalibration(
        coverage, int(short.sum()), len(leaves), min(rows), max(rows), rows_needed(coverage), weighted
    )


def calibration_rows(calibration: GroupCalibration, leaf: int) -> int:
    """How many independent calibration rows a region has, by weights and groups; rounded down."""
    group = int(calibration.group_of_leaf[leaf])
    return int(calibration.weights[group].sum() + 1e-9)
