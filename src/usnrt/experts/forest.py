"""The forest expert: extremely randomised trees grown to single rows, whose leaves are a sample of the target."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from usnrt.experts.base import MIN_STANDARD_ERRORS, Query
from usnrt.experts.refine import pinball_losses
from usnrt.nn.quantiles import LEVELS
from usnrt.tables.training import TreeRows
from usnrt.utils.context import FitContext
from usnrt.utils.schema import Array, Float, Int, Schema
from usnrt.utils.threads import run_in_blocks
from usnrt.utils.types import Floats

MIN_ROWS, MAX_ROWS = 100, 200_000
# Trees of the forest, fewer of large tables: 4 million nodes of 14 bytes, 56 MB, or of MAX_ROWS rows 16 trees, 90 MB.
N_TREES, MIN_TREES, MAX_NODES = 64, 16, 4_000_000
# Shares of the inputs that a split tries. Validation rows choose, MAX_JUDGES of them at most, by forests of this size.
SHARES_TRIED, TRIAL_TREES, MAX_JUDGES = (1.0, 1 / 3), 16, 4000
# Trees of the forest of the training rows, which validation rows judge before there is one of all rows.
JUDGED_TREES = 32
# Most splits that are evaluated, rows times levels times inputs times trees; about 1e-8 s of processor each. Splits of
# wide tables try fewer inputs.
MAX_WORK = 6e8
# Trees between two looks at whether the fit is to end.
BATCH = 8


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
    min_errors: ClassVar[float] = MIN_STANDARD_ERRORS
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
        """Grow the trees on the training rows; validation rows choose how many inputs a split tries."""
        training, judges = np.flatnonzero(~rows.is_validation), np.flatnonzero(rows.is_validation)[:MAX_JUDGES]
        if len(training) < MIN_ROWS or not 0 < rows.table.inputs.shape[1] < 2**15:
            return None
        trials = [_Growth.planned(rows, share, context) for share in SHARES_TRIED[: len(judges) + 1]]
        if len(trials) > 1:
            inputs, y, weight = rows.table.inputs[judges], rows.table.y[judges], rows.table.validation_weight[judges]
            forests = [cls._of(trial.grown(TRIAL_TREES, context)) for trial in trials]
            losses = [pinball_losses(forest._quantiles(inputs, context.n_threads), y) @ weight for forest in forests]
            trials = [trials[int(np.argmin(losses))]]
        return cls._of(trials[0].grown(JUDGED_TREES, context))

    def refit(self, rows: TreeRows, context: FitContext) -> "ForestExpert":
        """See `usnrt.experts.base.FittedExpert`."""
        n_trees = TRIAL_TREES if rows.is_validation.any() else N_TREES
        return self._of(_Growth.planned(rows, self.share, context).grown(n_trees, context))

    @classmethod
    def _of(cls, growth: "_Growth") -> "ForestExpert":
        """From the trees of scikit-learn."""
        parts = [tree.tree_ for tree in growth.forest.estimators_]
        root = np.concatenate([[0], np.cumsum([part.node_count for part in parts])[:-1]]).astype(np.int32)
        is_leaf = [part.children_left < 0 for part in parts]
        feature = [np.where(leaf, -1, part.feature) for part, leaf in zip(parts, is_leaf)]
        right = [np.where(leaf, -1, part.children_right + first) for part, leaf, first in zip(parts, is_leaf, root)]
        value = [
            np.where(leaf, part.value[:, 0, 0], _rounded_down(part.threshold)) for part, leaf in zip(parts, is_leaf)
        ]
        return cls(
            root,
            np.concatenate(feature).astype(np.int16),
            np.concatenate(right).astype(np.int32),
            np.concatenate(value).astype(np.float32),
            growth.x.shape[1],
            growth.share,
        )

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


@dataclass(frozen=True)
class _Growth:
    """A forest of scikit-learn and the rows that it grows on; trees that are added do not change the others."""

    forest: Any
    share: float
    x: NDArray[np.float32]
    y: Floats
    weight: Floats

    @classmethod
    def planned(cls, rows: TreeRows, share: float, context: FitContext) -> "_Growth":
        """A forest without trees."""
        from sklearn.ensemble import ExtraTreesRegressor

        table, training = rows.table, np.flatnonzero(~rows.is_validation)[:MAX_ROWS]
        n_inputs = table.inputs.shape[1]
        most = MAX_WORK / (_n_trees(N_TREES, len(training)) * len(training) * np.log2(len(training) + 1))
        forest = ExtraTreesRegressor(
            max_features=int(np.clip(share * n_inputs, 1, max(most, 1))),
            random_state=_seed(context.seed),
            n_jobs=context.n_threads,
            warm_start=True,
        )
        return cls(forest, share, table.inputs[training], table.y[training], table.weight[training])

    def grown(self, n_trees: int, context: FitContext) -> "_Growth":
        """The same forest with this many trees, fewer of large tables."""
        n_trees = _n_trees(n_trees, len(self.x))
        for number in range(len(getattr(self.forest, "estimators_", ())), n_trees, BATCH):
            context.progress.check()
            self.forest.set_params(n_estimators=min(number + BATCH, n_trees))
            self.forest.fit(self.x, self.y, sample_weight=self.weight)
        return self


def _n_trees(wanted: int, n_rows: int) -> int:
    return min(wanted, max(MIN_TREES, MAX_NODES // (2 * n_rows)))


def _seed(seed: Any) -> int:
    return int(np.random.SeedSequence(seed, spawn_key=(2, 0, 7)).generate_state(1)[0])


def _rounded_down(threshold: Floats) -> NDArray[np.float32]:
    """The largest float32 up to each threshold: float32 inputs are on the same side of both."""
    rounded = threshold.astype(np.float32)
    return np.where(rounded > threshold, np.nextafter(rounded, np.float32(-np.inf)), rounded)
