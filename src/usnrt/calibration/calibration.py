"""Calibration: what held-out rows say about the spread and shape of errors, region by region.

The networks say where a row's quantiles lie. Where the target of a held-out row lies among them, on the scale of a
standard normal, is its score; if the networks say a variance, that is the residual over the standard deviation. In each
region (Mondrian category) scores give two things: a smooth *shape*, which makes the predictive distribution, and *order
statistics*, which make intervals with a guarantee.

The guarantee. If the scores of a region and that of a new row in it are exchangeable, the new score falls between the
l-th and the u-th smallest of n scores with probability at least (u - l) / (n + 1), for any n. So with
l = floor((n + 1) a / 2) and u = ceil((n + 1) (1 - a / 2)) an interval holds the target with probability at least
1 - a, whatever the networks are like. Where l < 1 or u > n, no finite bound has that property, and the bound is
infinite. Exchangeable they are, exactly, if the calibration rows were used for nothing else: with ``calibrate`` on
fresh rows, or with ``calibration_fraction``. The rows held out in an ordinary fit
were also looked at for early stopping and for choosing the splits (and variance networks are tuned on them, by halves);
what they then state is approximate, and measured in docs/calibration.md.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usnrt.distributions import QuantileDistribution, ResidualDistribution
from usnrt.nn.quantile_functions import value_at
from usnrt.nn.quantiles import POSITIONS
from usnrt.tree.structure import Tree

# A region with fewer scores borrows its shape's missing rows from the regions around it.
ENOUGH_SCORES = 100


@dataclass
class Calibration:
    """Shapes and order statistics of the scores, one a group of rows.

    Attributes
    ----------
    group_of_leaf : ndarray of int of shape (n_leaves,)
        Which group each leaf belongs to: its own, or 0 for all. Twice as long if familiar rows have groups.
    shapes : list of ResidualDistribution
        Of the distribution of each group.
    scores : list of ndarray
        The sorted conformity scores of each group, for intervals with a guarantee.
    weights : list of ndarray or None
        How often each of the scores counts; None if once each.
    has_familiar : bool
        Whether familiar rows have groups; they count as rows of leaves of their own, the second half.
    """

    group_of_leaf: NDArray[np.int64]
    shapes: list[ResidualDistribution]
    scores: list[NDArray[np.float64]]
    weights: list[NDArray[np.float64]] | None = None
    has_familiar: bool = False

    @property
    def n_leaves(self) -> int:
        """Number of leaves, without those that stand for familiar rows."""
        return len(self.group_of_leaf) // (2 if self.has_familiar else 1)

    @classmethod
    def from_scores(
        cls,
        scores: NDArray[np.float64],
        leaf: NDArray[np.int64],
        weight: NDArray[np.float64],
        tree: Tree,
        by: str = "region",
    ) -> "Calibration":
        """Learn from held-out rows.

        Parameters
        ----------
        scores : ndarray of shape (n,)
            Where their targets lie among their quantiles.
        leaf : ndarray of int of shape (n,)
            The leaf of each row, counted from 0.
        weight : ndarray of shape (n,)
            How often each row counts.
        tree : Tree
            Tells which leaves are near each other.
        by : {"region", "global"}
            Whether every leaf is a group, or all leaves are one.

        Returns
        -------
        Calibration
        """
        if by == "global":
            order = np.argsort(scores, kind="stable")
            group_of_leaf = np.zeros(tree.n_leaves, dtype=np.int64)
            shape = ResidualDistribution.from_residuals(scores, weights=weight)
            return cls(group_of_leaf, [shape], [scores[order]], [weight[order]])
        shapes, orders = [], []
        for place, node in enumerate(tree.leaves):
            own = np.flatnonzero(leaf == place)
            orders.append(own[np.argsort(scores[own], kind="stable")])
            rows, borrowed = _with_neighbours(tree, int(node), leaf, weight)
            shapes.append(ResidualDistribution.from_residuals(scores[rows], weights=borrowed))
        return cls(
            np.arange(tree.n_leaves), shapes, [scores[order] for order in orders], [weight[order] for order in orders]
        )

    def with_familiar(
        self, scores: NDArray[np.float64], leaf: NDArray[np.int64], weight: NDArray[np.float64], min_rows: int
    ) -> "Calibration":
        """One more group for each of these, for rows that `Familiar` recognises, where they are enough.

        Familiar rows count as rows of other leaves: ``n_leaves`` and on.

        Parameters
        ----------
        scores, weight : ndarray of shape (n,)
            Of familiar rows.
        leaf : ndarray of int of shape (n,)
        min_rows : int
            A group with fewer of them keeps its familiar rows.

        Returns
        -------
        Calibration
        """
        assert self.weights is not None
        shapes, ordered, weights = list(self.shapes), list(self.scores), list(self.weights)
        group_of_familiar = self.group_of_leaf.copy()
        for group in range(len(self.shapes)):
            own = np.flatnonzero(self.group_of_leaf[leaf] == group)
            if len(own) < min_rows:
                continue
            order = own[np.argsort(scores[own], kind="stable")]
            group_of_familiar[self.group_of_leaf == group] = len(shapes)
            shapes.append(ResidualDistribution.from_residuals(scores[own], weights=weight[own]))
            ordered.append(scores[order])
            weights.append(weight[order])
        group_of_leaf = np.concatenate([self.group_of_leaf, group_of_familiar])
        return Calibration(group_of_leaf, shapes, ordered, weights, has_familiar=True)

    def distribution(
        self, quantiles: NDArray[np.float64], leaf: NDArray[np.int64], mean: NDArray[np.float64] | None = None
    ) -> QuantileDistribution:
        """Predictive distributions: a row's quantile function, corrected by the residual distribution of its group.

        Parameters
        ----------
        quantiles : ndarray of shape (n, n_positions)
            Quantiles at `usnrt.nn.quantiles.POSITIONS`.
        leaf : ndarray of int of shape (n,)
        mean : ndarray of shape (n,), optional
            A mean other than that of the distribution, as models of old files have it.

        Returns
        -------
        QuantileDistribution
        """
        return QuantileDistribution(quantiles, POSITIONS, self.group_of_leaf[leaf], self.shapes, mean=mean)

    def interval(self, quantiles: NDArray[np.float64], leaf: NDArray[np.int64], coverage: float) -> NDArray[np.float64]:
        """Intervals with finite-sample coverage in each group; infinite where there are too few scores.

        Parameters
        ----------
        quantiles : ndarray of shape (n, n_positions)
        leaf : ndarray of int of shape (n,)
        coverage : float

        Returns
        -------
        ndarray of shape (n, 2)
        """
        weights = [None] * len(self.scores) if self.weights is None else self.weights
        groups = [conformal_bounds(scores, coverage, weight) for scores, weight in zip(self.scores, weights)]
        bounds = np.array(groups)[self.group_of_leaf[leaf]]
        finite = np.isfinite(bounds)
        return np.where(finite, value_at(quantiles, POSITIONS, np.where(finite, bounds, 0.0)), bounds)


def conformal_bounds(
    scores: NDArray[np.float64], coverage: float, weight: NDArray[np.float64] | None = None
) -> tuple[float, float]:
    """The order statistics between which a new score falls with at least the stated probability.

    A score of weight w counts as w copies. Copies carry no new information: the new score weighs as much as the
    scores do on average, so that the same weight for all gives the bounds of unweighted scores.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Sorted.
    coverage : float
        In (0, 1).
    weight : ndarray of shape (n,), optional
        Of each score; 1 by default.

    Returns
    -------
    low, high : float
        -inf or inf where n is too small.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.calibration.calibration import conformal_bounds
    >>> conformal_bounds(np.arange(1.0, 20.0), 0.9)
    (1.0, 19.0)
    >>> conformal_bounds(np.arange(1.0, 19.0), 0.9)
    (-inf, inf)
    >>> conformal_bounds(np.arange(1.0, 20.0), 0.9, weight=np.full(19, 3.0))
    (1.0, 19.0)
    """
    n = len(scores)
    if n == 0:
        return -np.inf, np.inf
    share = np.ones(n) if weight is None else weight / weight.mean()
    # A hair of tolerance: (n + 1) * tail is 1 for n = 19 and 90 %, but not in floating point.
    tail = (n + 1) * (1.0 - coverage) / 2 + 1e-9
    low = int(np.searchsorted(np.cumsum(share), tail, side="right"))
    high = int(np.searchsorted(np.cumsum(share[::-1]), tail, side="right"))
    return (
        float(scores[low - 1]) if low >= 1 else -np.inf,
        float(scores[n - high]) if high >= 1 else np.inf,
    )


def rows_needed(coverage: float) -> int:
    """The smallest number of calibration rows for which `conformal_bounds` are finite.

    Parameters
    ----------
    coverage : float
        In (0, 1).

    Returns
    -------
    int
        The smallest n with (n + 1) (1 - coverage) / 2 >= 1.

    Examples
    --------
    >>> from usnrt.calibration.calibration import rows_needed
    >>> rows_needed(0.9), rows_needed(0.99), rows_needed(0.999)
    (19, 199, 1999)
    """
    # the same tolerance as in conformal_bounds
    return int(np.ceil((1.0 - 1e-9) / ((1.0 - coverage) / 2))) - 1


def _with_neighbours(
    tree: Tree, node: int, leaf: NDArray[np.int64], weight: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The rows of a leaf; if they are few, those of the smallest enclosing region for the rest, at less weight."""
    own = leaf == tree.leaf_index[node]
    missing = ENOUGH_SCORES - float(weight[own].sum())
    if missing <= 0:
        return np.flatnonzero(own), weight[own]
    for ancestor in tree.path(node)[-2::-1]:
        inside = np.isin(leaf, _leaves_below(tree, ancestor))
        around = inside & ~own
        if weight[around].sum() >= missing or ancestor == 0:
            borrowed = np.where(own, 1.0, missing / max(float(weight[around].sum()), missing)) * weight
            return np.flatnonzero(inside), borrowed[inside]
    return np.flatnonzero(own), weight[own]  # the root is the only node there is


def _leaves_below(tree: Tree, node: int) -> list[int]:
    waiting, found = [node], []
    while waiting:
        current = waiting.pop()
        if tree.feature[current] < 0:
            found.append(int(tree.leaf_index[current]))
        else:
            waiting += [int(tree.left[current]), int(tree.right[current])]
    return found
