"""Which network inputs tell nothing of the target, by a forest whose columns compete with permuted copies of them.

Networks and metrics learn to ignore a column, but that takes rows: 100 irrelevant columns beside 3 useful ones increase
the CRPS of 1,500 rows by half. Forests need far fewer rows. So irrelevant columns, if they are many, are not encoded.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from usnrt.experts.forest import ForestExpert
from usnrt.experts.forest_growth import Grown, Growth
from usnrt.tables.training import TreeRows
from usnrt.utils.context import FitContext
from usnrt.utils.types import Floats, Rows

# Fewer training rows do not tell weak inputs from irrelevant ones (12 useful inputs of 500 noisy rows: 3 to 5 % of the
# CRPS were lost). Networks with more of them learn what to ignore. Of large and of wide tables, few rows are enough.
MIN_ROWS, MAX_ROWS, ENOUGH_ROWS, MAX_NUMBERS = 800, 10_000, 4000, 500_000
# An input matters if its importance exceeds that of its permuted copies by this many standard deviations.
MIN_DEVIATIONS = 2.5
# Several weak inputs, each too weak alone, have a larger mean deviation than this, significantly: none is left out.
MAX_MEAN, MAX_SUM = 0.4, 1.2
# Inputs are left out if they are at least this share of all: a few do no harm. If they are most, some others only look
# relevant, by chance; a second pass among the others finds those.
MIN_SHARE, MOST = 0.25, 0.5
# Folds, trees of each fold, rows of a leaf, and the share of the columns that a node tries.
N_FOLDS, N_TREES, MIN_LEAF, MAX_FEATURES = 4, 16, 10, 0.3
# Trees and rows of a leaf where inputs are tried together; there a node tries every column.
FEW_TREES, SMALL_LEAF = 8, 5


def relevant_inputs(rows: TreeRows, context: FitContext) -> Rows:
    """Positions of the network inputs that are worth learning from; only numbers are left out.

    An input counts if it tells of the target or of the size of its residuals. None is left out if together they tell of
    the residuals that the others leave: of two columns each may tell nothing alone.

    Parameters
    ----------
    rows : TreeRows
        Only training rows are used.
    context : FitContext

    Returns
    -------
    ndarray of int, strictly ascending
        All of them, unless a quarter tells nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.tables.training import TrainingTable, TreeRows
    >>> from usnrt.tree.screening import relevant_inputs
    >>> from usnrt.utils.context import FitContext
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(1000, 20)).astype(np.float32)
    >>> y, none = x[:, 3] - x[:, 7] + 0.5 * rng.normal(size=1000), np.zeros(1000, dtype=bool)
    >>> table = TrainingTable(x.astype(float), x, y, np.ones(1000))
    >>> relevant_inputs(TreeRows(table, np.arange(20), np.zeros(20, dtype=int), none), FitContext(0))
    array([3, 7])
    """
    everything = np.arange(rows.table.inputs.shape[1])
    training = rows.training
    if not MIN_ROWS <= len(training) <= MAX_ROWS or len(rows.numeric) < max(2, MIN_SHARE * len(everything)):
        return everything
    n_enough = min(max(MAX_NUMBERS // len(everything), MIN_ROWS), ENOUGH_ROWS)
    forest = _Forest(rows, training[:n_enough], context)
    of_target, is_out = forest.deviations(everything, rows.numeric)
    if is_out.mean() < MIN_SHARE or is_out.all() or _are_weak(of_target[is_out]):
        return everything
    candidates = [everything[~is_out]]
    if is_out.mean() >= MOST:
        _, is_out = forest.deviations(candidates[0], rows.numeric)
        candidates += [] if is_out.all() else [candidates[0][~is_out]]
    return next((kept for kept in candidates[::-1] if not forest.others_tell(kept)), everything)


def _are_weak(deviations: Floats) -> bool:
    """Whether deviations are together too large to be those of irrelevant inputs, whose mean is 0."""
    mean = float(deviations.mean())
    return mean > MAX_MEAN and mean * np.sqrt(len(deviations)) > MAX_SUM


class _Forest:
    """Extremely randomised trees, fitted to all folds but one, of which they predict the rows."""

    def __init__(self, rows: TreeRows, training: Rows, context: FitContext) -> None:
        table = rows.table
        self.x, self.y, self.weight = table.inputs[training], table.y[training], table.weight[training]
        self.rng = np.random.default_rng(np.random.SeedSequence(context.seed, spawn_key=(3, 0, 7)))
        self.fold, self.context = self.rng.permutation(len(training)) % N_FOLDS, context

    def deviations(self, inputs: Rows, numeric: Rows) -> tuple[Floats, NDArray[np.bool_]]:
        """Deviations of each input for the target, and which of them are numbers that tell nothing."""
        of_target, predicted = self._deviations(inputs, self.y)
        of_spread, _ = self._deviations(inputs, np.sqrt(np.abs(self.y - predicted)))
        return of_target, (np.maximum(of_target, of_spread) < MIN_DEVIATIONS) & np.isin(inputs, numeric)

    def others_tell(self, kept: Rows) -> bool:
        """Whether the other inputs help to predict the residuals that these leave, or the size of the residuals."""
        others = np.setdiff1d(np.arange(self.x.shape[1]), kept)
        copied = self.x.copy()
        copied[:, others] = self.x[self.rng.permutation(len(copied))][:, others]
        residuals = self.y - self._predicted(self.x[:, kept], self.y)
        return any(self._is_better(copied, target) for target in (residuals, np.sqrt(np.abs(residuals))))

    def _is_better(self, copied: NDArray[np.float32], y: Floats) -> bool:
        """Whether the inputs predict significantly better than if some of them are copied from other rows."""
        gain = (y - self._predicted(copied, y)) ** 2 - (y - self._predicted(self.x, y)) ** 2
        mean = float(np.average(gain, weights=self.weight))
        error = np.sqrt(self.weight**2 @ (gain - mean) ** 2) / self.weight.sum()
        return bool(mean > MIN_DEVIATIONS * error)

    def _predicted(self, x: NDArray[np.float32], y: Floats) -> Floats:
        """Out-of-fold predictions."""
        predicted = np.empty(len(y))
        for fold in range(N_FOLDS):
            outside = self.fold == fold
            predicted[outside] = self._means(self._fit(x, y, fold, SMALL_LEAF, 1.0, FEW_TREES), x[outside])
        return predicted

    def _deviations(self, inputs: Rows, y: Floats) -> tuple[Floats, Floats]:
        """How far the importance of each input exceeds that of its permuted copies; and out-of-fold predictions."""
        own, copies = np.zeros((2, N_FOLDS, len(inputs)))
        predicted = np.empty(len(y))
        for fold in range(N_FOLDS):
            outside = self.fold == fold
            both = np.concatenate([self.x[:, inputs], self.rng.permuted(self.x[:, inputs], axis=0)], axis=1)
            trees = self._fit(both, y, fold, MIN_LEAF, MAX_FEATURES)
            predicted[outside] = self._means(trees, both[outside])
            gains = np.sum([tree.gains for tree in trees], axis=0)
            own[fold], copies[fold] = (gains / max(gains.sum(), 1e-300)).reshape(2, -1)
        is_used = copies.any(axis=0)
        if not is_used.any():  # no tree has a split
            return np.full(len(inputs), np.inf), predicted
        typical = np.maximum(copies.mean(axis=0), 1e-300)
        variance = np.median(np.var(copies / typical, axis=0, ddof=1)[is_used])
        return (own.mean(axis=0) / typical - 1.0) / max(np.sqrt(variance), 1e-9), predicted

    def _fit(
        self, x: NDArray[np.float32], y: Floats, fold: int, min_leaf: int, share: float, n_trees: int = N_TREES
    ) -> list[Grown]:
        inside, context = self.fold != fold, replace(self.context, seed=int(self.rng.integers(2**31)))
        return Growth.on(x[inside], y[inside], self.weight[inside], context).grown(share, n_trees, float(min_leaf))

    def _means(self, trees: list[Grown], x: NDArray[np.float32]) -> Floats:
        leaves = ForestExpert.of(trees, 1.0, x.shape[1]).leaf_values(np.ascontiguousarray(x), self.context.n_threads)
        means: Floats = leaves.mean(axis=1, dtype=np.float64)
        return means
