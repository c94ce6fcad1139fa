"""Fitting a tree, given a recipe and a table."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.device import DeviceTable
from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.mlp import MLP, Params, hidden_sizes
from usnrt.nn.quantile_functions import conformity_scores
from usnrt.nn.quantiles import N_OUTPUTS
from usnrt.nn.train import History
from usnrt.tables.training import TrainingTable
from usnrt.tree.from_scratch import FromScratch
from usnrt.tree.grow import grow
from usnrt.tree.model import QuantileTree, TreeModel, VarianceTree
from usnrt.tree.recipe import Hidden, PaperTreeRecipe, QuantileTreeRecipe
from usnrt.tree.warm_start import WarmStart
from usnrt.utils.progress import Progress
from usnrt.utils.types import Floats, Rows

ModelT = TypeVar("ModelT", bound=TreeModel)


@dataclass(frozen=True)
class ColumnKinds:
    """Kinds of the columns, for the networks and the split search.

    Attributes
    ----------
    numeric : ndarray of int
        Positions of the network inputs that hold numbers.
    n_categories : ndarray of int of shape (d,)
        Number of categories of each split feature, 0 for numbers.
    """

    numeric: NDArray[np.int64]
    n_categories: NDArray[np.int64]


@dataclass
class FittedTree(Generic[ModelT]):
    """A fitted tree, and further results of the fit.

    Attributes
    ----------
    model : TreeModel
    history : list of dict of str to History
        One per node.
    validation_rows : ndarray of int of shape (m,)
        Rows of the table that have a conformity score; empty for trees of the paper.
    scores : ndarray of shape (m,)
        Their conformity scores, by networks that were not trained on them.
    split_params : list of Params or None
        For trees of the paper, the splitting network of each node; None in nodes that were too small to be split.
    """

    model: ModelT
    history: list[dict[str, History]]
    validation_rows: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    scores: Floats = field(default_factory=lambda: np.zeros(0))
    split_params: list[Params | None] = field(default_factory=list)


def fit_quantile_tree(
    recipe: QuantileTreeRecipe,
    table: TrainingTable,
    columns: ColumnKinds,
    is_validation: NDArray[np.bool_],
    seed: int,
    n_threads: int,
    progress: Progress,
) -> FittedTree[QuantileTree]:
    """Grow a tree of mean and quantile networks.

    Parameters
    ----------
    recipe : QuantileTreeRecipe
    table : TrainingTable
    columns : ColumnKinds
    is_validation : ndarray of bool of shape (n,)
        The validation rows of the whole tree.
    seed : int
    n_threads : int
    progress : Progress

    Returns
    -------
    FittedTree
    """
    encoding = None
    if recipe.n_bins > 0:
        encoding = PiecewiseLinear.fit(table.inputs[~is_validation], columns.numeric, recipe.n_bins)
    n_inputs = table.inputs.shape[1] if encoding is None else encoding.n_outputs
    mean_network = _network(recipe.mean_hidden, "mean_hidden", table, n_inputs)
    quantile_network = _network(recipe.quantile_hidden, "quantile_hidden", table, n_inputs, N_OUTPUTS)
    strategy = WarmStart(
        recipe, table, DeviceTable(table.inputs, encoding), encoding, mean_network, quantile_network, is_validation,
        progress,
    )  # fmt: skip
    grown = grow(table, columns.n_categories, recipe.split, strategy, seed, n_threads, progress)
    leaves = grown.leaves
    model = QuantileTree(
        grown.tree,
        mean_network,
        [leaf.networks["mean"] for leaf in leaves],
        encoding,
        quantile_network,
        [leaf.networks["quantiles"] for leaf in leaves],
    )
    rows = np.concatenate([leaf.scores[0] for leaf in leaves if leaf.scores is not None])
    refined = model.refine(table.raw[rows], table.inputs[rows], table.y[rows], table.weight[rows])
    scores = conformity_scores(refined, table.y[rows])
    return FittedTree(model, [node.history for node in grown.nodes], rows, scores)


def fit_paper_tree(
    recipe: PaperTreeRecipe,
    table: TrainingTable,
    columns: ColumnKinds,
    seed: int,
    n_threads: int,
    progress: Progress,
) -> FittedTree[VarianceTree]:
    """Grow a tree of the paper: mean and variance networks; parameters as for `fit_quantile_tree`.

    Returns
    -------
    FittedTree
    """
    n_inputs = table.inputs.shape[1]
    split_network = _network(recipe.split_hidden, "split_hidden", table, n_inputs)
    mean_network = _network(recipe.mean_hidden, "mean_hidden", table, n_inputs)
    sizes = (n_inputs, *hidden_sizes(recipe.variance_hidden, table.raw.shape[1], "variance_hidden"), 1)
    variance_network = MLP(sizes, "tanh", "softplus")
    strategy = FromScratch(
        recipe, table, DeviceTable(table.inputs), split_network, mean_network, variance_network, progress
    )
    grown = grow(table, columns.n_categories, recipe.split, strategy, seed, n_threads, progress)
    leaves = grown.leaves
    model = VarianceTree(
        grown.tree,
        mean_network,
        [leaf.networks["mean"] for leaf in leaves],
        None,
        variance_network,
        [[leaf.networks["variance"] for leaf in leaves]],
    )
    splitting = [node.networks.get("split") for node in grown.nodes]
    return FittedTree(model, [node.history for node in grown.nodes], split_params=splitting)


def _network(hidden: Hidden, name: str, table: TrainingTable, n_inputs: int, n_outputs: int = 1) -> MLP:
    return MLP((n_inputs, *hidden_sizes(hidden, table.raw.shape[1], name), n_outputs))
