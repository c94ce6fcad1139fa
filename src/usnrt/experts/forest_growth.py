"""Growing the trees of the forest expert, several at the same time."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from usnrt.tables.training import TreeRows
from usnrt.utils.context import FitContext
from usnrt.utils.types import Floats

MIN_ROWS, MAX_ROWS = 100, 200_000
# Fewer trees of large tables: 4 million nodes of 14 bytes, 56 MB, or of MAX_ROWS rows 16 trees, 90 MB.
MIN_TREES, MAX_NODES = 16, 4_000_000
# Columns are padded with constant ones to a multiple of this number: rows are then read in whole registers.
ALIGNED = 8


class Grown(NamedTuple):
    """One tree, depth first, see `usnrt.experts.forest.ForestExpert`, and the gains of its inputs."""

    feature: NDArray[np.int16]
    right: NDArray[np.int32]
    value: NDArray[np.float32]
    gains: Floats


def n_trees_of(wanted: int, n_rows: int) -> int:
    """The number of trees for a table of some size.

    Examples
    --------
    >>> from usnrt.experts.forest_growth import n_trees_of
    >>> [n_trees_of(64, n) for n in (1000, 50_000, 200_000)]
    [64, 40, 16]
    """
    return min(wanted, max(MIN_TREES, MAX_NODES // (2 * n_rows)))


@dataclass(frozen=True)
class Growth:
    """Rows that trees grow on.

    Attributes
    ----------
    x : ndarray of shape (n, p), float32, in C order
        Network inputs, padded with constant columns.
    n_inputs : int
        Without these.
    y, weight : ndarray of shape (n,)
    context : FitContext
    """

    x: NDArray[np.float32]
    n_inputs: int
    y: Floats
    weight: Floats
    context: FitContext

    @classmethod
    def of(cls, rows: TreeRows, context: FitContext, max_rows: int = MAX_ROWS) -> "Growth":
        """On the first training rows, which are in random order."""
        table, training = rows.table, rows.training[:max_rows]
        return cls.on(table.inputs[training], table.y[training], table.weight[training], context)

    @classmethod
    def on(cls, inputs: NDArray[np.float32], y: Floats, weight: Floats, context: FitContext) -> "Growth":
        """On these rows."""
        n_rows, n_inputs = inputs.shape
        x = np.zeros((n_rows, -(-n_inputs // ALIGNED) * ALIGNED), dtype=np.float32)
        x[:, :n_inputs] = inputs
        return cls(x, n_inputs, y, weight, context)

    def grown(self, share: float, n_trees: int, least: float = 0.0) -> list[Grown]:
        """Trees, fewer of large tables; of any number, the first ones are the same.

        Parameters
        ----------
        share : float
            Of the inputs that are not constant in a node, how many its split tries, as a share of all inputs.
        n_trees : int
        least : float, default=0
            Weight that both sides of a split have at least.
        """
        n_tried = max(1, int(share * self.n_inputs))
        sequence = np.random.SeedSequence(self.context.seed, spawn_key=(2, 0, 7))
        seeds = sequence.generate_state(n_trees_of(n_trees, len(self.y)), np.uint64)
        if self.context.n_threads == 1:
            return [self._tree(n_tried, least, seed) for seed in seeds]
        with ThreadPoolExecutor(self.context.n_threads) as pool:
            return list(pool.map(lambda seed: self._tree(n_tried, least, seed), seeds))

    def _tree(self, n_tried: int, least: float, seed: np.uint64) -> Grown:
        from usnrt.experts._forest_kernel import grow_tree

        self.context.progress.check()
        n, gains = len(self.y), np.zeros(self.x.shape[1])
        feature, right, value = np.empty(2 * n, np.int16), np.empty(2 * n, np.int32), np.empty(2 * n, np.float32)
        rows = np.arange(n, dtype=np.int32)
        n_nodes = grow_tree(self.x, self.y, self.weight, rows, n_tried, least, seed, feature, right, value, gains)
        parts = feature[:n_nodes].copy(), right[:n_nodes].copy(), value[:n_nodes].copy()
        return Grown(*parts, gains[: self.n_inputs])
