"""Growing the tree (Algorithm 1 of the paper): network, residuals, best split, children; then the leaves' networks.

Nodes that do not depend on each other are worked off by several threads. Every node draws its random numbers from
its own place in the tree, so that the result does not depend on how many threads there are or who was first.
"""

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.base import TrainingTable
from usnrt.nn.alternate import MeanAndVariance, train_alternately
from usnrt.nn.device import Table
from usnrt.nn.forward import predict
from usnrt.nn.losses import squared_error
from usnrt.nn.mlp import MLP
from usnrt.nn.train import History, Training, train
from usnrt.progress import FitEvent, FitStopped, Progress
from usnrt.tree.split import Split, best_split
from usnrt.tree.structure import Tree, TreeBuilder

# The way from the root to a node: 0 for each step left, 1 for each step right.
Path = tuple[int, ...]


@dataclass(frozen=True)
class Growth:
    """How a tree grows and what its networks look like.

    Attributes
    ----------
    alpha : float
        A node is split if the p-value of its best split is at most this.
    min_samples_leaf : float
        Rows (counted with their weights) that each side of a split must have.
    max_depth : int or None
    bonferroni : bool
        Whether the p-value is multiplied by the number of splits tried.
    criterion : str
    split_network, mean_network, variance_network : MLP
    training : Training
    validation_fraction : float
        Share of a node's rows that early stopping looks at.
    n_alternations : int
    """

    alpha: float
    min_samples_leaf: float
    max_depth: int | None
    bonferroni: bool
    criterion: str
    split_network: MLP
    mean_network: MLP
    variance_network: MLP
    training: Training
    validation_fraction: float
    n_alternations: int


@dataclass
class Node:
    """What became of a node."""

    path: Path
    rows: NDArray[np.intp]
    split: Split | None = None
    networks: MeanAndVariance | None = None
    history: dict[str, History] = field(default_factory=dict)
    residual_mean: float = 0.0
    residual_std: float = 0.0


@dataclass
class GrownTree:
    """A tree and the networks of its leaves, in the order of the leaves.

    Attributes
    ----------
    tree : Tree
    mean, variance : list of Params
        One a leaf.
    history : list of dict of str to History
        One a node, in the order of the nodes.
    """

    tree: Tree
    mean: list[Any]
    variance: list[Any]
    history: list[dict[str, History]]


def grow(
    table: TrainingTable,
    n_categories: NDArray[np.int64],
    how: Growth,
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
    seed : int
    n_threads : int
    progress : Progress

    Returns
    -------
    GrownTree
    """
    grower = _Grower(table, n_categories, how, seed, n_threads, progress)
    nodes = _work_off(grower, np.arange(table.n_rows), n_threads, progress)
    return _assemble(nodes, table, n_categories)


def draw_validation(
    rows: NDArray[np.intp], fraction: float, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Part rows at random into those to train on and those that early stopping looks at.

    At least one row trains; fewer than 5 rows all train.
    """
    n_valid = int(round(fraction * len(rows))) if len(rows) >= 5 else 0
    shuffled = rng.permutation(rows)
    return np.sort(shuffled[n_valid:]), np.sort(shuffled[:n_valid])


class _Grower:
    """The work on one node, with all it needs."""

    def __init__(
        self,
        table: TrainingTable,
        n_categories: NDArray[np.int64],
        how: Growth,
        seed: int,
        n_threads: int,
        progress: Progress,
    ) -> None:
        self.table = table
        self.device_table = Table(table.inputs)
        self.n_categories = n_categories
        self.how = how
        self.seed = seed
        self.n_threads = n_threads
        self.progress = progress

    def grow_node(self, path: Path, rows: NDArray[np.intp]) -> Node:
        """Split a node, or train the networks of a leaf."""
        how, table = self.how, self.table
        node = Node(path, rows)
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=path))
        train_rows, valid_rows = draw_validation(rows, how.validation_fraction, rng)
        report = self._reporter(node)
        weight = table.weight[rows]
        residuals = None
        if weight.sum() >= 2 * how.min_samples_leaf and (how.max_depth is None or len(path) < how.max_depth):
            params, node.history["split"] = train(
                how.split_network, squared_error, how.split_network.init(rng), self.device_table, table.y,
                table.weight, train_rows, valid_rows, how.training, rng, lambda *state: report("split", *state),
            )  # fmt: skip
            residuals = table.y[rows] - predict(how.split_network, params, table.inputs, rows)
            split = best_split(
                table.raw,
                residuals,
                table.y[rows],
                rows=rows,
                n_categories=self.n_categories,
                sample_weight=weight,
                min_samples_leaf=how.min_samples_leaf,
                criterion=how.criterion,
                n_jobs=self.n_threads if not path else 1,
            )
            if split is not None and is_significant(split, how):
                node.split = split
        if node.split is None:
            node.networks = train_alternately(
                (how.mean_network, how.variance_network), self.device_table, table.inputs, table.y, table.weight,
                train_rows, valid_rows, how.training, rng, n_alternations=how.n_alternations, on_epoch=report,
            )  # fmt: skip
            node.history |= node.networks.history
            residuals = table.y[rows] - predict(how.mean_network, node.networks.mean, table.inputs, rows)
        node.residual_mean = float(np.average(residuals, weights=weight))
        node.residual_std = float(np.sqrt(np.average((residuals - node.residual_mean) ** 2, weights=weight)))
        outcome = "leaf" if node.split is None else f"split, T = {node.split.statistic:.1f}"
        self.progress.node_done(name_of(path), len(rows), outcome, node.split is None)
        return node

    def children(self, node: Node) -> list[tuple[Path, NDArray[np.intp]]]:
        """Paths and rows of the children of a split node."""
        if node.split is None:
            return []
        goes_left = node.split.goes_left(self.table.raw[node.rows, node.split.feature])
        return [((*node.path, 0), node.rows[goes_left]), ((*node.path, 1), node.rows[~goes_left])]

    def _reporter(self, node: Node) -> Callable[[str, int, float, float], None]:
        def report(network: str, epoch: int, train_loss: float, valid_loss: float) -> None:
            self.progress.epoch(FitEvent(name_of(node.path), len(node.rows), network, epoch, train_loss, valid_loss))

        return report


def is_significant(split: Split, how: Growth) -> bool:
    """Whether a split's p-value, corrected for the number of splits tried if asked, is at most alpha."""
    correction = np.log10(max(split.n_candidates, 1)) if how.bonferroni else 0.0
    return bool(split.log10_p + correction <= np.log10(how.alpha))


def name_of(path: Path) -> str:
    """A readable name for a place in the tree.

    Examples
    --------
    >>> from usnrt.tree.grow import name_of
    >>> name_of(()), name_of((0, 1))
    ('root', 'LR')
    """
    return "".join("LR"[step] for step in path) or "root"


def _work_off(grower: _Grower, first_rows: NDArray[np.intp], n_threads: int, progress: Progress) -> dict[Path, Node]:
    """Grow node after node, children as soon as their parent is done, on several threads.

    Whatever ends the work early, Ctrl-C included, ends the threads first.
    """
    nodes: dict[Path, Node] = {}
    with ThreadPoolExecutor(n_threads) as pool:
        running: set[Future[Node]] = {pool.submit(grower.grow_node, (), first_rows)}
        try:
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    node = future.result()
                    nodes[node.path] = node
                    running |= {pool.submit(grower.grow_node, *child) for child in grower.children(node)}
        except BaseException as error:
            progress.stop.set()
            for future in running:
                future.cancel()
            if isinstance(error, FitStopped):  # one thread saw the sign to stop before the cause was seen here
                for future in running:
                    if not future.cancelled() and not isinstance(cause := future.exception(), FitStopped | None):
                        raise cause from None
            raise
    return nodes


def _assemble(nodes: dict[Path, Node], table: TrainingTable, n_categories: NDArray[np.int64]) -> GrownTree:
    """Put the nodes into flat arrays, and the networks into the order of the leaves."""
    builder = TreeBuilder(table.raw.shape[1], n_categories)
    handles = {(): builder.add_root(float(table.weight.sum()))}
    for path in sorted(nodes, key=lambda path: (len(path), path)):
        node = nodes[path]
        builder.set_residuals(handles[path], node.residual_mean, node.residual_std)
        if node.split is not None:
            handles[(*path, 0)], handles[(*path, 1)] = builder.add_children(handles[path], node.split)
    tree, node_of = builder.build()
    in_order = sorted(nodes.values(), key=lambda node: node_of[handles[node.path]])
    leaves = [node.networks for node in in_order if node.networks is not None]
    return GrownTree(
        tree, [leaf.mean for leaf in leaves], [leaf.variance for leaf in leaves], [node.history for node in in_order]
    )
