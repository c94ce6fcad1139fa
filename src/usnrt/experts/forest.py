"""The forest expert: extremely randomised trees grown to single rows, whose leaves are a sample of the target."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from usnrt.experts.base import Query, register_expert
from usnrt.experts.forest_growth import MIN_ROWS, Grown, Growth
from usnrt.experts.refine import pinball_losses
from usnrt.nn.quantiles import LEVELS
from usnrt.tables.training import TreeRows
from usnrt.utils.context import FitContext
from usnrt.utils.schema import Array, Float, Int, Schema
from usnrt.utils.threads import run_in_blocks
from usnrt.utils.types import Floats

# Trees of the forest, as many as of those that judge it; of trials, of forests that most rows are held out from, and of
# tables with more numbers than this.
N_TREES, FEW_TREES, MANY_NUMBERS = 32, 16, 2_000_000
# Shares of the inputs that a split tries. Validation rows choose, MAX_JUDGES of them, by trees of so many rows.
SHARES_TRIED, SHARE_TREES, SHARE_ROWS, MAX_JUDGES = (1.0, 1 / 3, 1 / 8), 12, 6000, 2048


@register_expert
@dataclass(frozen=True)
class ForestExpert:
    """Trees in flat arrays, each depth first: the left child of a node is the next one.

    Attributes
    ----------
    root : ndarray of int32 of shape (n_trees,)
    feature : ndarray of int16 of shape (n_nodes,)
        Network input of the split; -1 at leaves.
    right : ndarray of int32 of shape (n_nodes,)
        Right child; -1 at leaves.
    value : ndarray of float32 of shape (n_nodes,)
        Threshold: smaller and equal inputs go left. At leaves the mean target of their rows.
    n_inputs : int
    share : float
        Share of the inputs that splits try.
    """

    root: NDArray[np.int32]
    feature: NDArray[np.int16]
    right: NDArray[np.int32]
    value: NDArray[np.float32]
    n_inputs: int
    share: float

    name: ClassVar[str] = "forest"
    # Its widths are far too narrow alone: all trees may end in the same row.
    max_weight: ClassVar[float] = 0.9
    # On twelve tables every gain of validation rows that exceeded this, in standard errors, was one of new rows, too.
    # Smaller gains are not worth the size of the model: 14 bytes per row and tree.
    min_errors: ClassVar[float] = 1.2
    min_gain: ClassVar[float] = 0.005
    n_parts: ClassVar[int] = 4
    FIELDS: ClassVar[Schema] = {
        "root": Array("i4", ("n_trees",), low=0, below="n_nodes", filled=True),
        "feature": Array("i2", ("n_nodes",), low=-1, below="n_inputs"),
        "right": Array("i4", ("n_nodes",), low=-1, below="n_nodes"),
        "value": Array("f4", ("n_nodes",), low=-1e9, high=1e9),  # thresholds of inputs and scaled targets
        "n_inputs": Int(1, 2**15 - 1, size="n_inputs"),
        "share": Float(0.0, 1.0),
    }

    @classmethod
    def fit(cls, rows: TreeRows, context: FitContext) -> "ForestExpert | None":
        """A trial of few trees, grown on the training rows; validation rows choose how many inputs a split tries."""
        n_inputs = rows.table.inputs.shape[1]
        if len(rows.training) < MIN_ROWS or not 0 < n_inputs < 2**15:
            return None
        share = cls._chosen_share(rows, context)
        return cls.of(Growth.of(rows, context).grown(share, FEW_TREES), share, n_inputs)

    @classmethod
    def _chosen_share(cls, rows: TreeRows, context: FitContext) -> float:
        table, judges = rows.table, np.flatnonzero(rows.is_validation)[:MAX_JUDGES]
        n_inputs = table.inputs.shape[1]
        by_number = {max(1, int(share * n_inputs)): share for share in reversed(SHARES_TRIED)}
        shares = [SHARES_TRIED[0]] if len(judges) == 0 else list(by_number.values())
        if len(shares) == 1:
            return shares[0]
        growth, losses = Growth.of(rows, context, SHARE_ROWS), []
        for share in shares:
            forest = cls.of(growth.grown(share, SHARE_TREES), share, n_inputs)
            quantiles = forest._quantiles(table.inputs[judges], context.n_threads)
            losses.append(float(pinball_losses(quantiles, table.y[judges]) @ table.validation_weight[judges]))
        return shares[int(np.argmin(losses))]

    def refit(self, rows: TreeRows, context: FitContext) -> "ForestExpert":
        """See `usnrt.experts.base.FittedExpert`."""
        is_small = rows.table.inputs.size < MANY_NUMBERS and 2 * rows.is_validation.sum() < rows.table.n_rows
        n_trees = N_TREES if is_small else FEW_TREES
        return self.of(Growth.of(rows, context).grown(self.share, n_trees), self.share, self.n_inputs)

    @classmethod
    def of(cls, trees: Sequence[Grown], share: float, n_inputs: int) -> "ForestExpert":
        """From trees and what they were grown with."""
        root = np.concatenate([[0], np.cumsum([len(tree.feature) for tree in trees])[:-1]]).astype(np.int32)
        right = [np.where(tree.feature < 0, -1, tree.right + first) for tree, first in zip(trees, root)]
        feature, value = (np.concatenate([getattr(tree, name) for tree in trees]) for name in ("feature", "value"))
        return cls(root, feature, np.concatenate(right).astype(np.int32), value, n_inputs, share)

    @property
    def n_rows(self) -> int:
        """Number of training rows whose targets are leaves."""
        ends = np.append(self.root[1:], len(self.feature))
        return int(max((self.feature[first:end] < 0).sum() for first, end in zip(self.root, ends)))

    def fits_together(self) -> bool:
        """Whether children follow their parents within the tree, so that no row goes round in a circle."""
        nodes, inner = np.arange(len(self.feature)), self.feature >= 0
        tree = np.searchsorted(self.root, nodes, side="right") - 1
        end = np.append(self.root[1:], len(nodes))[tree]
        return bool(
            self.root[0] == 0
            and (self.root[1:] > self.root[:-1]).all()
            and ((self.right > nodes + 1) & (self.right < end))[inner].all()
        )

    def leaf_values(self, inputs: NDArray[np.float32], n_threads: int = 1) -> NDArray[np.float32]:
        """Sorted targets of the leaves that each row reaches, shape (n, n_trees)."""
        from usnrt.experts._forest_kernel import sorted_leaves

        values = np.empty((len(inputs), len(self.root)), dtype=np.float32)

        def write(start: int, stop: int) -> None:
            sorted_leaves(self.root, self.feature, self.right, self.value, inputs[start:stop], values[start:stop])

        run_in_blocks(write, len(inputs), n_threads)
        return values

    def quantile_functions(self, query: Query) -> Floats:
        """See `usnrt.experts.base.Expert`."""
        return self._quantiles(query.inputs, query.n_threads)

    def _quantiles(self, inputs: NDArray[np.float32], n_threads: int) -> Floats:
        values = self.leaf_values(np.ascontiguousarray(inputs), n_threads)
        low, share = self._places()
        return (1.0 - share) * values[:, low] + share * values[:, np.minimum(low + 1, values.shape[1] - 1)]

    def _places(self) -> tuple[NDArray[np.int64], Floats]:
        """Between which of the sorted values each quantile is, and how far."""
        n = len(self.root)
        place = np.clip(LEVELS * n - 0.5, 0.0, n - 1.0)
        low = np.floor(place).astype(np.int64)
        return low, place - low

    def to_onnx(self, graph: Any, query: Mapping[str, str]) -> str:
        """See `usnrt.experts.base.FittedExpert`."""
        n_trees, nodes = len(self.root), np.arange(len(self.feature))
        tree = np.searchsorted(self.root, nodes, side="right") - 1
        leaf = np.flatnonzero(self.feature < 0)
        left = np.where(self.feature < 0, 0, nodes + 1 - self.root[tree])
        right = np.where(self.feature < 0, 0, self.right - self.root[tree])
        values = graph.op(
            "TreeEnsembleRegressor", query["inputs"], domain="ai.onnx.ml", n_targets=n_trees,
            nodes_treeids=tree, nodes_nodeids=nodes - self.root[tree],
            nodes_featureids=np.maximum(self.feature, 0), nodes_values=self.value,
            nodes_modes=["LEAF" if feature < 0 else "BRANCH_LEQ" for feature in self.feature.tolist()],
            nodes_truenodeids=left, nodes_falsenodeids=right,
            target_treeids=tree[leaf], target_nodeids=(nodes - self.root[tree])[leaf], target_ids=tree[leaf],
            target_weights=self.value[leaf],
        )  # fmt: skip
        ordered, _ = graph.ops("TopK", 2, values, np.array([n_trees]), axis=1, largest=0)
        low, share = self._places()
        ends = (graph.op("Gather", ordered, place, axis=1) for place in (low, np.minimum(low + 1, n_trees - 1)))
        first, second = (graph.cast(end, np.float64) for end in ends)
        return str(graph.op("Add", graph.op("Mul", first, 1.0 - share), graph.op("Mul", second, share)))
