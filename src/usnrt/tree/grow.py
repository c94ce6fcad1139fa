"""Growing the tree (Algorithm 1 of the paper): residuals of a node, best split, children; networks in the leaves.

How the networks of a node are trained is a strategy of its own: `usnrt.tree.scratch` is the paper's, every node anew;
in `usnrt.tree.inherit` children start from their parent's.

Nodes that do not depend on each other are worked off by several threads. Every node draws its random numbers from
its own place in the tree, so that the result does not depend on how many threads there are or who was first.
"""

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from usnrt.base import TrainingTable
from usnrt.nn.mlp import Params
from usnrt.nn.train import History
from usnrt.progress import FitStopped, Progress
from usnrt.tree.split import Split, best_split
from usnrt.tree.structure import Tree, TreeBuilder

# The way from the root to a node: 0 for each step left, 1 for each step right.
Path = tuple[int, ...]


@dataclass(frozen=True)
class Growth:
    """When a node is split.

    Attributes
    ----------
    alpha : float
        A node is split if the p-value of its best split is at most this.
    min_samples_leaf : float
        Rows, counted with their weights, that each side of a split must have.
    max_depth : int or None
    bonferroni : bool
        Whether the p-value is multiplied by the number of splits tried.
    criterion : str
    """

    alpha: float
    min_samples_leaf: float
    max_depth: int | None
    bonferroni: bool
    criterion: str


@dataclass
class Node:
    """A node while it is worked on, and what became of it.

    Attributes
    ----------
    path : Path
    rows : ndarray of int
        Rows of the table in it.
    state : Any
        What a strategy hands from a parent to its children.
    split : Split or None
        None in leaves.
    mean : Params
    variance : list of Params
        Networks, in leaves.
    residuals : tuple of ndarray
        Row numbers and residuals: those that were tested, in a leaf those of its own mean network.
    scores : tuple of ndarray
        In a leaf, row numbers and standardised residuals of rows that its networks were not trained on.
    history : dict of str to History
    """

    path: Path
    rows: NDArray[np.intp]
    state: Any = None
    split: Split | None = None
    mean: Params = ()
    variance: list[Params] = field(default_factory=list)
    residuals: tuple[NDArray[np.intp], NDArray[np.float64]] | None = None
    scores: tuple[NDArray[np.intp], NDArray[np.float64]] | None = None
    history: dict[str, History] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """``"root"``, or the steps from there, e.g. ``"LR"``."""
        return "".join("LR"[step] for step in self.path) or "root"


class Strategy(Protocol):
    """How the networks of a node are trained."""

    def study(self, node: Node, rng: np.random.Generator) -> None:
        """Set the residuals of a node that may be split."""

    def finish(self, node: Node, rng: np.random.Generator) -> None:
        """Set the networks and residuals of a leaf; ``node.residuals`` is set if it was studied before."""


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


def grow(
    table: TrainingTable,
    n_categories: NDArray[np.int64],
    how: Growth,
    strategy: Strategy,
    seed: int,
    n_threads: int,
    progress: Progress,
) -> GrownTree:
    """Grow a tree and train the networks of its leaves.

    Parameters
    ----------
    table : TrainingTable
    n_categories : ndarray of shape (d,)
        Number of categories of each column, 0 for numbers.
    how : Growth
    strategy : Strategy
    seed : int
    n_threads : int
    progress : Progress

    Returns
    -------
    GrownTree
    """

    def work_on(node: Node) -> Node:
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=node.path))
        n_rows = float(table.weight[node.rows].sum())
        if n_rows >= 2 * how.min_samples_leaf and (how.max_depth is None or len(node.path) < how.max_depth):
            strategy.study(node, rng)
            node.split = _significant_split(node, table, n_categories, how, n_threads)
        if node.split is None:
            strategy.finish(node, rng)
        outcome = "leaf" if node.split is None else f"split, T = {node.split.statistic:.1f}"
        progress.node_done(node.name, len(node.rows), outcome, node.split is None)
        return node

    def children(node: Node) -> list[Node]:
        if node.split is None:
            return []
        goes_left = node.split.goes_left(table.raw[node.rows, node.split.feature])
        return [
            Node((*node.path, side), node.rows[member], node.state)
            for side, member in enumerate((goes_left, ~goes_left))
        ]

    nodes = _work_off(work_on, children, Node((), np.arange(table.n_rows)), n_threads, progress)
    return _assemble(nodes, table, n_categories)


def _significant_split(
    node: Node, table: TrainingTable, n_categories: NDArray[np.int64], how: Growth, n_threads: int
) -> Split | None:
    """The best split of the residuals under test, if chance does not explain it."""
    assert node.residuals is not None
    rows, residuals = node.residuals
    weight = table.weight[rows]
    # Where only a part of the rows is tested, its sides must have that part of the smallest leaf.
    part = weight.sum() / table.weight[node.rows].sum()
    split = best_split(
        table.raw,
        residuals,
        table.y[rows],
        rows=rows,
        n_categories=n_categories,
        sample_weight=weight,
        min_samples_leaf=how.min_samples_leaf * part,
        criterion=how.criterion,
        n_jobs=1 if node.path else n_threads,
    )
    return split if split is not None and is_significant(split, how) else None


def is_significant(split: Split, how: Growth) -> bool:
    """Whether a split's p-value, corrected for the number of splits tried if asked, is at most alpha."""
    correction = np.log10(max(split.n_candidates, 1)) if how.bonferroni else 0.0
    return bool(split.log10_p + correction <= np.log10(how.alpha))


def _work_off(work_on: Any, children: Any, root: Node, n_threads: int, progress: Progress) -> dict[Path, Node]:
    """Grow node after node, children as soon as their parent is done, on several threads.

    Whatever ends the work early, Ctrl-C included, ends the threads first.
    """
    nodes: dict[Path, Node] = {}
    with ThreadPoolExecutor(n_threads) as pool:
        running: set[Future[Node]] = {pool.submit(work_on, root)}
        try:
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    node = future.result()
                    nodes[node.path] = node
                    running |= {pool.submit(work_on, child) for child in children(node)}
        except BaseException as error:
            progress.stop.set()
            for future in running:
                future.cancel()
            if isinstance(error, FitStopped):  # another thread failed first: its error is the cause
                for future in running:
                    cause = None if future.cancelled() else future.exception()
                    if cause is not None and not isinstance(cause, FitStopped):
                        raise cause from None
            raise
    return nodes


def _assemble(nodes: dict[Path, Node], table: TrainingTable, n_categories: NDArray[np.int64]) -> GrownTree:
    """Put the nodes into flat arrays, in the order of the tree."""
    builder = TreeBuilder(table.raw.shape[1], n_categories)
    handles: dict[Path, int] = {(): builder.add_root(float(table.weight.sum()))}
    for path in sorted(nodes, key=lambda path: (len(path), path)):
        node = nodes[path]
        if node.split is not None:
            # Counted anew: of the rows in the node, not only of those that were tested.
            handles[(*path, 0)], handles[(*path, 1)] = builder.add_children(handles[path], node.split)
        if node.residuals is not None:
            rows, residuals = node.residuals
            mean = float(np.average(residuals, weights=table.weight[rows]))
            variance = float(np.average((residuals - mean) ** 2, weights=table.weight[rows]))
            builder.set_residuals(handles[path], mean, float(np.sqrt(variance)))
    tree, node_of = builder.build()
    in_order = sorted(nodes.values(), key=lambda node: node_of[handles[node.path]])
    tree.n_rows = np.array([table.weight[node.rows].sum() for node in in_order])
    return GrownTree(tree, in_order)
