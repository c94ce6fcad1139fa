"""Fitting a tree, given a recipe and a table."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from usnrt.memory.retrieval import N_GUIDES, PREDICT_ROWS, Retrieval, fit_retrieval
from usnrt.nn.device import DeviceTable, compilation_notice
from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.guided import GuidedMLP
from usnrt.nn.mlp import MLP, Params, hidden_sizes
from usnrt.nn.quantile_functions import conformity_scores
from usnrt.nn.quantiles import N_OUTPUTS, POSITIONS, quantile_function_mean
from usnrt.nn.train import History
from usnrt.tables.training import TrainingTable
from usnrt.tree.experts import EXPERTS, NETWORK
from usnrt.tree.from_scratch import FromScratch
from usnrt.tree.grow import GrownTree, grow
from usnrt.tree.model import ExpertTree, TreeModel, VarianceTree
from usnrt.tree.recipe import Hidden, PaperTreeRecipe, QuantileTreeRecipe
from usnrt.tree.shared_network import SharedNetwork
from usnrt.tree.stored import CODEC
from usnrt.tree.streamed import StreamedRows, train_root_on_store
from usnrt.tree.structure import TreeBuilder
from usnrt.utils.checkpoint import NO_CHECKPOINT, Checkpoint
from usnrt.utils.progress import Progress
from usnrt.utils.types import Floats, Rows

ModelT = TypeVar("ModelT", bound=TreeModel)

# Smaller tables have no memory: a metric learnt from fewer rows is arbitrary.
MIN_ROWS_TO_REMEMBER = 200
# Phases of a fit with their shares of its processor time, as measured on 4,000 to 60,000 rows; for the progress bar.
PHASES = {"memory": 0.33, "network": 0.52, "regions": 0.15}


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
    quantiles : ndarray of shape (m, n_positions)
        Their quantile functions, by the same networks.
    split_params : list of Params or None
        For trees of the paper, the splitting network of each node; None in nodes that were too small to be split.
    """

    model: ModelT
    history: list[dict[str, History]]
    validation_rows: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    scores: Floats = field(default_factory=lambda: np.zeros(0))
    quantiles: Floats = field(default_factory=lambda: np.zeros((0, len(POSITIONS))))
    split_params: list[Params | None] = field(default_factory=list)


def fit_quantile_tree(
    recipe: QuantileTreeRecipe,
    table: TrainingTable,
    columns: ColumnKinds,
    is_validation: NDArray[np.bool_],
    seed: int,
    n_threads: int,
    progress: Progress,
    checkpoint: Checkpoint = NO_CHECKPOINT,
    streamed: StreamedRows | None = None,
) -> FittedTree[ExpertTree]:
    """Learn a memory, train the network, and grow a tree by its residuals.

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
    checkpoint : Checkpoint, default=NO_CHECKPOINT
    streamed : StreamedRows, optional
        All rows, if ``table`` is a sample of them. The network is trained on all training rows; everything else, the
        memory, the splits, their fine-tuning and the weights of the experts, uses the sample.

    Returns
    -------
    FittedTree
    """
    fitted = _remembered(
        checkpoint,
        columns,
        lambda within: _fit_quantile_tree(
            recipe, table, columns, is_validation, seed, n_threads, progress, within, streamed
        ),
    )
    if fitted.model.memory is not None:  # a checkpoint does not keep groups
        fitted.model.memory = fitted.model.memory.grouped(table.group)
    return fitted


def _remembered(
    checkpoint: Checkpoint, columns: ColumnKinds, fit: Callable[[Checkpoint], FittedTree[ModelT]]
) -> FittedTree[ModelT]:
    """The fitted tree in a checkpoint; if there is none, it is fitted and stored in place of its parts."""
    shared = {"numeric": columns.numeric}
    saved: FittedTree[ModelT] | None = checkpoint.load("tree", CODEC, shared)
    if saved is not None:
        return saved
    within = checkpoint.within("tree")
    fitted = fit(within)
    if checkpoint.save("tree", fitted, CODEC, shared):
        within.clear()
    return fitted


def _fit_quantile_tree(
    recipe: QuantileTreeRecipe,
    table: TrainingTable,
    columns: ColumnKinds,
    is_validation: NDArray[np.bool_],
    seed: int,
    n_threads: int,
    progress: Progress,
    checkpoint: Checkpoint,
    streamed: StreamedRows | None,
) -> FittedTree[ExpertTree]:
    progress.plan(PHASES)
    announce_compilation(recipe, table, progress)
    given = table, columns, is_validation, seed, n_threads, progress
    root, strategy = _trained_root(recipe, *given, checkpoint, streamed)
    # A network that learnt to follow guides is a worse one without them. A store is not read again for that.
    if root.memory is not None and not root.uses_memory and streamed is None:
        root, strategy = _trained_root(replace(recipe, memory=False), *given, checkpoint.within("alone"), streamed)
    progress.begin("regions")
    strategy.mean_of = functools.partial(_means, root, table)
    grown = grow(table, columns.n_categories, recipe.split, strategy, seed, n_threads, progress, checkpoint)
    model, rows = _with_regions(root, grown), _validating(is_validation)
    weight = table.validation_weight[rows]
    refined = model.refine(table.raw[rows], table.inputs[rows], table.y[rows], weight, rows)
    scores = conformity_scores(refined, table.y[rows])
    leaf = grown.tree.leaf_of(table.raw[rows])
    grown.tree.set_leaf_residuals(leaf, table.y[rows] - quantile_function_mean(refined), weight)
    return FittedTree(model.without_unused(), [node.history for node in grown.nodes], rows, scores, refined)


def _trained_root(
    recipe: QuantileTreeRecipe,
    table: TrainingTable,
    columns: ColumnKinds,
    is_validation: NDArray[np.bool_],
    seed: int,
    n_threads: int,
    progress: Progress,
    checkpoint: Checkpoint,
    streamed: StreamedRows | None,
) -> tuple[ExpertTree, SharedNetwork]:
    """Memory, if the recipe has one, and network of the root; validation rows choose the weights of the experts."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1, 0, 7)))
    encoding, memory, guides = _encoded_and_guided(
        recipe, table, columns, is_validation, rng, n_threads, progress, checkpoint.within("memory")
    )
    n_inputs = table.inputs.shape[1] + (0 if guides is None else N_GUIDES)
    n_inputs = n_inputs if encoding is None else encoding.n_outputs
    network = _network(recipe.hidden, "hidden", table, n_inputs, N_OUTPUTS, "algebraic")
    guided = network
    if memory is not None:
        first = table.inputs.shape[1]
        guided = GuidedMLP(network.sizes, network.activation, network.output, first, N_GUIDES, recipe.guide_dropout)
    on_device = DeviceTable(table.inputs, encoding, guides)
    strategy = SharedNetwork(recipe, table, on_device, guided, is_validation, progress, checkpoint)
    progress.begin("network")
    if streamed is None:
        strategy.train_root(rng)
    else:
        train_root_on_store(strategy, streamed, memory, encoding, seed, rng, n_threads)
    if memory is not None and not recipe.in_time_order:
        # From now on the memory holds the validation rows too; they are predicted like new rows, without themselves.
        memory = memory.with_rows(table, n_threads)
    root, rows = _root_model(network, strategy.params, encoding, memory, table), _validating(is_validation)
    root.refine(table.raw[rows], table.inputs[rows], table.y[rows], table.validation_weight[rows], rows)
    return root, strategy


def _validating(is_validation: NDArray[np.bool_]) -> Rows:
    """The validation rows; all rows if there are none."""
    return np.flatnonzero(is_validation if is_validation.any() else np.ones_like(is_validation))


def announce_compilation(recipe: QuantileTreeRecipe, table: TrainingTable, progress: Progress) -> None:
    """Report, if the fit is verbose, that the first fit of a table of this shape takes longer."""
    if not progress.verbose:
        return
    sentence = compilation_notice(table.n_rows, table.inputs.shape[1], recipe.hidden, recipe.n_bins, recipe.memory)
    if sentence:
        progress.note(sentence)


def _encoded_and_guided(
    recipe: QuantileTreeRecipe,
    table: TrainingTable,
    columns: ColumnKinds,
    is_validation: NDArray[np.bool_],
    rng: np.random.Generator,
    n_threads: int,
    progress: Progress,
    checkpoint: Checkpoint,
) -> tuple[PiecewiseLinear | None, Retrieval | None, NDArray[np.float32] | None]:
    """Encoding of the network inputs with the guides, memory of the training rows, and its guides.

    The guides of training rows are those of a memory of the other training rows.
    """
    training_rows, validation_rows = np.flatnonzero(~is_validation), np.flatnonzero(is_validation)
    encoding = None
    if recipe.n_bins > 0:
        encoding = PiecewiseLinear.fit(table.inputs[training_rows], columns.numeric, recipe.n_bins)
    if not recipe.memory or len(training_rows) < MIN_ROWS_TO_REMEMBER or len(validation_rows) == 0:
        return encoding, None, None
    how = recipe.metric.within(recipe.max_epochs, len(training_rows))
    report = progress.reporter("root", table.n_rows, "memory", how.n_steps, "step")
    memory = fit_retrieval(
        table, encoding, training_rows, validation_rows, how, rng,
        lambda n_steps, loss: report(n_steps, loss, loss), n_threads, checkpoint,
    )  # fmt: skip
    guides = memory.guides_of(table.inputs, np.arange(table.n_rows), n_threads)
    if encoding is not None:
        encoding = PiecewiseLinear(table.inputs.shape[1] + N_GUIDES, encoding.columns, encoding.slope, encoding.offset)
    return encoding, memory, guides


def _root_model(
    network: MLP, params: Params, encoding: PiecewiseLinear | None, memory: Retrieval | None, table: TrainingTable
) -> ExpertTree:
    """The model of the whole table as one region."""
    builder = TreeBuilder(table.raw.shape[1], np.zeros(table.raw.shape[1], dtype=np.int64))
    builder.add_root(float(table.weight.sum()))
    weights = np.eye(len(EXPERTS))[[NETWORK]]
    return ExpertTree(builder.build()[0], encoding, network, [params], np.zeros(1, dtype=np.int64), memory, weights)


def _means(root: ExpertTree, table: TrainingTable, params: Params, rows: Rows) -> Floats:
    """Predicted means of rows of the table by the experts of the root, with another network."""
    model, means = replace(root, params=[params]), np.empty(len(rows))
    for start in range(0, len(rows), PREDICT_ROWS):
        own = rows[start : start + PREDICT_ROWS]
        means[start : start + len(own)] = model.quantile_functions(table.raw[own], table.inputs[own], without=own)[1]
    return means


def _with_regions(root: ExpertTree, grown: GrownTree) -> ExpertTree:
    """The model with the regions of a grown tree and the networks that were fine-tuned in them."""
    params = list({id(leaf.networks["network"]): leaf.networks["network"] for leaf in grown.leaves}.values())
    numbers = {id(own): number for number, own in enumerate(params)}
    network_of = [numbers[id(leaf.networks["network"])] for leaf in grown.leaves]
    weights = np.tile(root.expert_weights, (len(network_of), 1))
    return replace(
        root, tree=grown.tree, params=params, network_of=np.array(network_of), expert_weights=weights, refinement=None
    )


def fit_paper_tree(
    recipe: PaperTreeRecipe,
    table: TrainingTable,
    columns: ColumnKinds,
    seed: int,
    n_threads: int,
    progress: Progress,
    checkpoint: Checkpoint = NO_CHECKPOINT,
) -> FittedTree[VarianceTree]:
    """Grow a tree of the paper: mean and variance networks; parameters as for `fit_quantile_tree`.

    Returns
    -------
    FittedTree
    """
    return _remembered(
        checkpoint, columns, lambda within: _fit_paper_tree(recipe, table, columns, seed, n_threads, progress, within)
    )


def _fit_paper_tree(
    recipe: PaperTreeRecipe,
    table: TrainingTable,
    columns: ColumnKinds,
    seed: int,
    n_threads: int,
    progress: Progress,
    checkpoint: Checkpoint,
) -> FittedTree[VarianceTree]:
    n_inputs = table.inputs.shape[1]
    split_network = _network(recipe.split_hidden, "split_hidden", table, n_inputs)
    mean_network = _network(recipe.mean_hidden, "mean_hidden", table, n_inputs)
    sizes = (n_inputs, *hidden_sizes(recipe.variance_hidden, table.raw.shape[1], "variance_hidden"), 1)
    variance_network = MLP(sizes, "tanh", "softplus")
    strategy = FromScratch(
        recipe,
        table,
        DeviceTable(table.inputs),
        split_network,
        mean_network,
        variance_network,
        progress,
        checkpoint,
    )
    grown = grow(table, columns.n_categories, recipe.split, strategy, seed, n_threads, progress, checkpoint)
    leaves = grown.leaves
    model = VarianceTree(
        grown.tree,
        None,
        mean_network,
        [leaf.networks["mean"] for leaf in leaves],
        variance_network,
        [[leaf.networks["variance"] for leaf in leaves]],
    )
    splitting = [node.networks.get("split") for node in grown.nodes]
    return FittedTree(model, [node.history for node in grown.nodes], split_params=splitting)


def _network(
    hidden: Hidden, name: str, table: TrainingTable, n_inputs: int, n_outputs: int = 1, activation: str = "relu"
) -> MLP:
    return MLP((n_inputs, *hidden_sizes(hidden, table.raw.shape[1], name), n_outputs), activation)
