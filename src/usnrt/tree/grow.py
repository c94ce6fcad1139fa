"""Growing the tree (Algorithm 1 of the paper): residuals of a node, best split, children; networks in the leaves.

How the networks of a node are trained is a strategy (`usnrt.tree.strategies`). In the paper's every node starts from
new weights; in ours there is one network, which regions may fine-tune.

Independent nodes are processed in parallel by threads. The random seed of a node depends on its path from the root
only, so that the result depends neither on the number of threads nor on their order.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from usnrt.nn.mlp import Params
from usnrt.nn.train import History
from usnrt.tables.groups import design_effect
from usnrt.tables.training import TrainingTable, TreeRows
from usnrt.tree.levels import MAX_CATEGORIES_FOR_SUBSETS
from usnrt.tree.recipe import SplitRule
from usnrt.tree.split import Members, Sample, Split, best_split
from usnrt.tree.stored import CODEC
from usnrt.tree.structure import Tree, TreeBuilder
from usnrt.tree.threshold import refine_threshold
from usnrt.utils.arrays import effective_weight
from usnrt.utils.checkpoint import Checkpoint
from usnrt.utils.context import FitContext
from usnrt.utils.threads import run_in_threads
from usnrt.utils.types import Floats, Rows

# The path from the root to a node: 0 for each step left, 1 for each step right.
Path = tuple[int, ...]

# Row numbers and residuals.
Residuals = tuple[Rows, Floats]


@dataclass
class Node:
    """A node of the growing tree.

    Attributes
    ----------
    path : Path
    rows : ndarray of int
        Its rows of the table.
    split : Split or None
        None in leaves.
    networks : dict of str to Params
        Weights by the name of the network: ``"network"``, or ``"mean"``, ``"variance"``, ``"split"``.
    residuals : tuple of ndarray
        Row numbers and residuals: the tested ones; in a leaf, those of its mean network.
    history : dict of str to History
    moments : tuple of float or None
        Weighted mean and standard deviation of the residuals.
    parent : Node or None
        None at the root.
    """

    path: Path
    rows: Rows
    split: Split | None = None
    networks: dict[str, Params] = field(default_factory=dict)
    residuals: Residuals | None = None
    history: dict[str, History] = field(default_factory=dict)
    moments: tuple[float, float] | None = None
    parent: "Node | None" = None

    @property
    def name(self) -> str:
        """``"root"``, or the steps from there, e.g. ``"LR"``."""
        return "".join("LR"[step] for step in self.path) or "root"

    def checkpoint(self, of_tree: Checkpoint) -> Checkpoint:
        """The part of a tree's checkpoint for the trainings of this node."""
        return of_tree.within(f"node {self.name}")

    def save(self, of_tree: Checkpoint) -> None:
        """Store the results of the finished node in place of those of its trainings."""
        if not of_tree.is_active:
            return
        inherited = [name for name in self.networks if self._inherits(name)]
        own = {name: params for name, params in self.networks.items() if name not in inherited}
        if of_tree.save(f"node {self.name}", [self.split, own, inherited, self.history, self.moments], CODEC):
            self.checkpoint(of_tree).clear()

    def restore(self, of_tree: Checkpoint) -> bool:
        """Set the results that `save` has stored; returns whether there are any."""
        saved = of_tree.load(f"node {self.name}", CODEC)
        if saved is None:
            return False
        self.split, self.networks, inherited, self.history, self.moments = saved
        for name in inherited:
            assert self.parent is not None
            self.networks[name] = self.parent.networks[name]
        return True

    def _inherits(self, name: str) -> bool:
        return self.parent is not None and self.networks[name] is self.parent.networks.get(name)


class Strategy(Protocol):
    """How the networks of a node are trained."""

    def compute_residuals(self, node: Node, rng: np.random.Generator) -> None:
        """Train the network whose residuals are tested, and set ``node.residuals``."""

    def untested_residuals(self, node: Node) -> Residuals | None:
        """Residuals of the other rows, after `compute_residuals`; None if all rows are tested.

        They order the categories of a column and locate the threshold, so that the test remains valid.
        """

    def finish_leaf(self, node: Node, rng: np.random.Generator) -> None:
        """Set the networks and residuals of a leaf; without `compute_residuals` before, ``node.residuals`` is None."""


@dataclass
class GrownTree:
    """A tree and its nodes, in the order of the tree.

    Attributes
    ----------
    tree : Tree
    nodes : list of Node
    """

    tree: Tree
    nodes: list[Node]

    @property
    def leaves(self) -> list[Node]:
        """The nodes that were not split, from left to right."""
        return [node for node in self.nodes if node.split is None]


def grow(rows: TreeRows, rule: SplitRule, strategy: Strategy, context: FitContext) -> GrownTree:
    """Grow a tree and train the networks of its leaves; finished nodes are stored in the checkpoint.

    Parameters
    ----------
    rows : TreeRows
    rule : SplitRule
    strategy : Strategy
    context : FitContext

    Returns
    -------
    GrownTree
    """
    table, progress, checkpoint = rows.table, context.progress, context.checkpoint
    smallest = rule.smallest_region(float(table.weight.sum()))

    def compute(node: Node, n_rows: float) -> None:
        rng = np.random.default_rng(np.random.SeedSequence(context.seed, spawn_key=node.path))
        if n_rows >= 2 * smallest and (rule.max_depth is None or len(node.path) < rule.max_depth):
            strategy.compute_residuals(node, rng)
            node.split = _significant_split(node, rows, rule, smallest, strategy, context.n_threads)
        if node.split is None:
            strategy.finish_leaf(node, rng)
        node.moments = None if node.residuals is None else _moments(*node.residuals, table.weight)
        node.save(checkpoint)

    def process(node: Node) -> Node:
        n_rows = float(table.weight[node.rows].sum())
        is_restored = node.restore(checkpoint)
        if not is_restored:
            compute(node, n_rows)
        outcome = "a region" if node.split is None else f"two parts differ in spread, T = {node.split.statistic:.1f}"
        if not node.path and n_rows < 2 * smallest:
            outcome = f"one region: a table needs {2 * smallest:,.0f} rows to be split"
        progress.node_done(node.name, len(node.rows), outcome, node.split is None, is_restored)
        return node

    def children(node: Node) -> list[Node]:
        if node.split is None:
            return []
        goes_left = node.split.goes_left(table.raw[node.rows, node.split.feature])
        return [
            Node((*node.path, side), node.rows[member], parent=node)
            for side, member in enumerate((goes_left, ~goes_left))
        ]

    root = Node((), np.arange(table.n_rows))
    nodes = {node.path: node for node in run_in_threads(process, [root], context.n_threads, progress, children)}
    return _assemble(nodes, rows)


def _significant_split(
    node: Node, rows: TreeRows, rule: SplitRule, smallest: float, strategy: Strategy, n_threads: int
) -> Split | None:
    """The best split of the tested residuals if it is significant, with its final threshold."""
    assert node.residuals is not None
    table, n_categories = rows.table, rows.n_categories
    tested = _sample(node.residuals, table)
    members = Members(node.rows, table.weight[node.rows])
    others: Residuals | None = None
    if (n_categories > MAX_CATEGORIES_FOR_SUBSETS).any():
        others = strategy.untested_residuals(node)
    min_tested = rule.min_tested * float(np.sqrt(tested.weight.sum()))
    split = best_split(
        table.raw,
        tested.residuals,
        tested.target,
        rows=tested.rows,
        n_categories=n_categories,
        sample_weight=tested.weight,
        min_samples_leaf=smallest,
        criterion=rule.criterion,
        n_jobs=1 if node.path else n_threads,
        members=members,
        min_tested=min_tested,
        step=rule.step,
        ordering=None if others is None else _sample(others, table),
    )
    if split is None or not is_significant(split, rule):
        return None
    others = strategy.untested_residuals(node) if others is None else others
    if others is None:
        return split
    return refine_threshold(
        split,
        table.raw,
        [tested, _sample(others, table)],
        members,
        min_samples_leaf=smallest,
        min_tested=min_tested,
        criterion=rule.criterion,
    )


def _sample(residuals: Residuals, table: TrainingTable) -> Sample:
    """Rows with residuals, targets, and weights that sum to the effective number of rows.

    Rows of a group are less evidence than as many independent ones: their residuals have much in common.
    """
    rows, values = residuals
    weight = effective_weight(table.weight[rows])
    if table.group is not None and len(rows):
        weight = weight / design_effect(np.abs(values), table.group[rows])
    return Sample(rows, values, weight, table.y[rows])


def is_significant(split: Split, rule: SplitRule) -> bool:
    """Whether the p-value of a split, Bonferroni-corrected if the rule requires it, is at most alpha."""
    correction = np.log10(max(split.n_candidates, 1)) if rule.bonferroni else 0.0
    return bool(split.log10_p + correction <= np.log10(rule.alpha))


def _moments(rows: Rows, residuals: Floats, weight: Floats) -> tuple[float, float]:
    """Weighted mean and standard deviation of residuals."""
    mean = float(np.average(residuals, weights=weight[rows]))
    variance = float(np.average((residuals - mean) ** 2, weights=weight[rows]))
    return mean, float(np.sqrt(variance))


def _assemble(nodes: dict[Path, Node], rows: TreeRows) -> GrownTree:
    """The tree in flat arrays, and its nodes in the same order."""
    table = rows.table
    builder = TreeBuilder(table.raw.shape[1], rows.n_categories)
    handles: dict[Path, int] = {(): builder.add_root(float(table.weight.sum()))}
    for path in sorted(nodes, key=lambda path: (len(path), path)):
        node = nodes[path]
        if node.split is not None:
            handles[(*path, 0)], handles[(*path, 1)] = builder.add_children(handles[path], node.split)
        if node.moments is not None:
            builder.set_residuals(handles[path], *node.moments)
    tree, node_of = builder.build()
    in_order = sorted(nodes.values(), key=lambda node: node_of[handles[node.path]])
    # weights of all rows of a node, not of the tested ones
    n_rows = np.array([table.weight[node.rows].sum() for node in in_order])
    return GrownTree(tree.with_rows(n_rows), in_order)
