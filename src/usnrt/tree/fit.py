"""Fitting a tree, given a recipe and rows."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from usnrt.experts.base import FurtherExpert
from usnrt.experts.builtin import TOGETHER
from usnrt.experts.cross_fit import CrossFitted, cross_fitted
from usnrt.experts.refine import pinball_losses
from usnrt.experts.registry import FURTHER_EXPERTS
from usnrt.experts.user_model import ModelExpert, completed, fit_models, model_names, with_spread
from usnrt.experts.weights import NETWORK
from usnrt.memory.retrieval import N_GUIDES, Retrieval, fit_retrieval
from usnrt.nn.device import DeviceTable, compilation_notice
from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.forward import GroupedNetworks
from usnrt.nn.mlp import MLP, GuidedMLP, Params, hidden_sizes
from usnrt.nn.quantile_functions import conformity_scores
from usnrt.nn.quantiles import (
    N_OUTPUTS,
    POSITIONS,
    constant_network,
    is_constant,
    predicted_quantiles,
    quantile_function_mean,
)
from usnrt.nn.train import History
from usnrt.tables.training import TrainingTable, TreeRows
from usnrt.tree.grow import GrownTree, grow
from usnrt.tree.model import ExpertTree, TreeModel, VarianceTree
from usnrt.tree.recipe import Hidden, PaperTreeRecipe, QuantileTreeRecipe
from usnrt.tree.stored import CODEC
from usnrt.tree.strategies import FromScratch, NetworkTraining, PaperNetworks, SharedNetwork, train_root
from usnrt.tree.streamed import StreamedRows, train_root_on_store
from usnrt.tree.structure import TreeBuilder
from usnrt.utils.context import FitContext
from usnrt.utils.progress import Progress
from usnrt.utils.types import Floats, Rows

ModelT = TypeVar("ModelT", bound=TreeModel)

# Smaller tables have no memory: a metric learnt from fewer rows is arbitrary.
MIN_ROWS_TO_REMEMBER = 200
# A guided network is given up while it is trained if the memory alone has this times the loss of the network without
# guides, and the guides reduce that by less than this share: judged by at most so many validation rows.
WORSE_MEMORY, LEAST_GUIDED_GAIN, MAX_JUDGES = 1.2, 0.03, 4096
# Phases of a fit with their shares of its processor time, as measured on 4,000 to 60,000 rows; for the progress bar.
PHASES = {"memory": 0.33, "network": 0.52, "regions": 0.15}


@dataclass(frozen=True)
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
    recipe: QuantileTreeRecipe, rows: TreeRows, context: FitContext, streamed: StreamedRows | None = None
) -> FittedTree[ExpertTree]:
    """Learn a memory, train the network, and grow a tree by its residuals.

    Parameters
    ----------
    recipe : QuantileTreeRecipe
    rows : TreeRows
    context : FitContext
    streamed : StreamedRows, optional
        All rows, if ``rows`` are a sample of them. The network is trained on all training rows; everything else, the
        memory, the splits, their fine-tuning and the weights of the experts, uses the sample.

    Returns
    -------
    FittedTree
    """
    fitted = _stored(rows, context, lambda within: _fit_quantile_tree(recipe, rows, within, streamed))
    memory = fitted.model.memory
    if memory is None:
        return fitted
    # a checkpoint does not keep groups
    return replace(fitted, model=replace(fitted.model, memory=memory.grouped(rows.table.group)))


def fit_paper_tree(recipe: PaperTreeRecipe, rows: TreeRows, context: FitContext) -> FittedTree[VarianceTree]:
    """Grow a tree of the paper: mean and variance networks; parameters as for `fit_quantile_tree`."""
    return _stored(rows, context, lambda within: _fit_paper_tree(recipe, rows, within))


def _stored(rows: TreeRows, context: FitContext, fit: Callable[[FitContext], FittedTree[ModelT]]) -> FittedTree[ModelT]:
    """The fitted tree in the checkpoint; if there is none, it is fitted and stored in place of its parts."""
    shared = {"numeric": rows.numeric}
    saved: FittedTree[ModelT] | None = context.checkpoint.load("tree", CODEC, shared)
    if saved is not None:
        return saved
    within = context.within("tree")
    fitted = fit(within)
    if isinstance(fitted.model, ExpertTree) and fitted.model.user_models:  # these are fitted again
        return fitted
    if context.checkpoint.save("tree", fitted, CODEC, shared):
        within.checkpoint.clear()
    return fitted


# -- the default tree -----------------------------------------------------------------------------------------------


def _fit_quantile_tree(
    recipe: QuantileTreeRecipe, rows: TreeRows, context: FitContext, streamed: StreamedRows | None
) -> FittedTree[ExpertTree]:
    context.progress.plan(PHASES)
    announce_compilation(recipe, rows.table, context.progress)
    further = _fit_further(recipe, rows, context)
    if not recipe.network:
        recipe = replace(recipe, memory=False, schedule=replace(recipe.schedule, child_steps=0))
    fitted = _fit_root(recipe, rows, context, streamed, further)
    # A network that learnt to follow guides is a worse one without them. A store is not read again for that.
    if fitted is None or (fitted[0].memory is not None and not fitted[0].uses_memory and streamed is None):
        fitted = _fit_root(replace(recipe, memory=False), rows, context.within("alone"), streamed, further)
    assert fitted is not None  # without a memory there is nothing to give up
    root, strategy = fitted
    context.progress.begin("regions")
    grown = grow(rows, recipe.split, strategy, context)
    table, validation_rows = rows.table, rows.tested
    y, weight = table.y[validation_rows], table.validation_weight[validation_rows]
    model, refined = _with_regions(root, grown, table).refined(table, validation_rows)
    leaf = model.tree.leaf_of(table.raw[validation_rows])
    tree = model.tree.with_leaf_residuals(leaf, y - quantile_function_mean(refined), weight)
    return FittedTree(
        replace(model, tree=tree).without_unused(),
        [node.history for node in grown.nodes],
        validation_rows,
        conformity_scores(refined, y),
        refined,
    )


def _fit_further(recipe: QuantileTreeRecipe, rows: TreeRows, context: FitContext) -> tuple[FurtherExpert, ...]:
    """The experts that are fitted by themselves, so that validation rows can choose their weights."""
    fitted = (kind.fit(rows, context) for kind in FURTHER_EXPERTS if str(kind.name) in recipe.further)
    of_user = fit_models(recipe.models, rows, context, recipe.in_time_order)
    return (*(expert for expert in fitted if expert is not None), *of_user)


def _completed(
    recipe: QuantileTreeRecipe, further: Sequence[FurtherExpert], rows: TreeRows, context: FitContext
) -> tuple[FurtherExpert, ...]:
    """The experts that have a weight, fitted to all rows."""
    models = dict(zip(model_names(recipe.models), recipe.models))
    return tuple(
        completed(expert, models[expert.name], rows, context, recipe.in_time_order)
        if isinstance(expert, CrossFitted)
        else cross_fitted(expert, rows, context, recipe.in_time_order)
        for expert in further
    )


def _fit_root(
    recipe: QuantileTreeRecipe,
    rows: TreeRows,
    context: FitContext,
    streamed: StreamedRows | None,
    further: tuple[FurtherExpert, ...],
) -> tuple[ExpertTree, SharedNetwork] | None:
    """The model of the whole table as one region, and the strategy that grows its tree; None for a useless memory."""
    table = rows.table
    rng = np.random.default_rng(np.random.SeedSequence(context.seed, spawn_key=(1, 0, 7)))
    encoding, memory, guides = _encoded_and_guided(recipe, rows, rng, context.within("memory"))
    n_inputs = table.inputs.shape[1] + (0 if guides is None else N_GUIDES)
    n_inputs = n_inputs if encoding is None else encoding.n_outputs
    hidden = recipe.hidden if recipe.network else ()
    network = _network(hidden, "hidden", table, n_inputs, N_OUTPUTS, "algebraic")
    guided = network
    if memory is not None:
        first = table.inputs.shape[1]
        guided = GuidedMLP(network.sizes, network.activation, network.output, first, N_GUIDES, recipe.guide_dropout)
    job = NetworkTraining(recipe, rows, DeviceTable(table.inputs, encoding, guides), guided, context)
    context.progress.begin("network")
    history: dict[str, History] = {}
    if not recipe.network:
        params = constant_network(network, table.y, table.weight)
    elif streamed is None:
        is_useless = None if memory is None or guides is None else _uselessness(guided, encoding, memory, rows, guides)
        trained = train_root(job, rng, is_useless)
        if trained is None:
            return None
        params, history = trained
    else:
        params, history = train_root_on_store(job, streamed, memory, encoding, rng)
    if memory is not None and not recipe.in_time_order:
        # From now on the memory holds the validation rows too; they are predicted like new rows, without themselves.
        memory = memory.with_rows(table, context.n_threads)
    root, _ = _one_region(network, params, encoding, memory, further, table).refined(table, rows.tested)
    root = root.without_unused_further()
    root = replace(root, further=_completed(recipe, root.further, rows, context))
    return root, SharedNetwork(job, params, history, functools.partial(_means, root, table))


def _uselessness(
    network: MLP, encoding: PiecewiseLinear | None, memory: Retrieval, rows: TreeRows, guides: NDArray[np.float32]
) -> Callable[[Params], bool]:
    """Whether a guided network, while it is trained, shows that its memory is of no use; a function of its weights."""
    table, validation = rows.table, rows.tested[:MAX_JUDGES]
    inputs, y, weight = table.inputs[validation], table.y[validation], table.validation_weight[validation]
    guided = np.concatenate([inputs, guides[validation]], axis=1)
    unguided = np.concatenate([inputs, np.zeros_like(guides[validation])], axis=1)

    def mean_loss(quantiles: Floats) -> float:
        return float(np.average(pinball_losses(quantiles, y), weights=weight))

    of_memory = mean_loss(memory.predict(inputs, validation).quantiles)

    def is_useless(params: Params) -> bool:
        networks, group = GroupedNetworks(network, [params], encoding), np.zeros(len(y), dtype=np.intp)
        with_guides, alone = (mean_loss(predicted_quantiles(networks.predict(x, group))) for x in (guided, unguided))
        return of_memory > WORSE_MEMORY * alone and with_guides > (1.0 - LEAST_GUIDED_GAIN) * alone

    return is_useless


def announce_compilation(recipe: QuantileTreeRecipe, table: TrainingTable, progress: Progress) -> None:
    """Report, if the fit is verbose, that the first fit of a table of this shape takes longer."""
    if not progress.verbose:
        return
    sentence = compilation_notice(table.n_rows, table.inputs.shape[1], recipe.hidden, recipe.n_bins, recipe.memory)
    if sentence:
        progress.note(sentence)


def _encoded_and_guided(
    recipe: QuantileTreeRecipe, rows: TreeRows, rng: np.random.Generator, context: FitContext
) -> tuple[PiecewiseLinear | None, Retrieval | None, NDArray[np.float32] | None]:
    """Encoding of the network inputs with the guides, memory of the training rows, and its guides.

    The guides of training rows are those of a memory of the other training rows.
    """
    table, training_rows = rows.table, np.flatnonzero(~rows.is_validation)
    encoding = None
    if recipe.n_bins > 0 and recipe.network:
        encoding = PiecewiseLinear.fit(table.inputs[training_rows], rows.numeric, recipe.n_bins)
    if not recipe.memory or len(training_rows) < MIN_ROWS_TO_REMEMBER or not rows.is_validation.any():
        return encoding, None, None
    training = recipe.metric.within(recipe.max_epochs, len(training_rows))
    memory = fit_retrieval(table, encoding, rows.is_validation, training, rng, context)
    guides = memory.guides_of(table.inputs, np.arange(table.n_rows), context.n_threads)
    if encoding is not None:
        encoding = PiecewiseLinear(table.inputs.shape[1] + N_GUIDES, encoding.columns, encoding.slope, encoding.offset)
    return encoding, memory, guides


def _one_region(
    network: MLP,
    params: Params,
    encoding: PiecewiseLinear | None,
    memory: Retrieval | None,
    further: tuple[FurtherExpert, ...],
    table: TrainingTable,
) -> ExpertTree:
    """The model of the whole table as one region."""
    builder = TreeBuilder(table.raw.shape[1], np.zeros(table.raw.shape[1], dtype=np.int64))
    builder.add_root(float(table.weight.sum()))
    first = NETWORK if not is_constant(params) or not further else len(TOGETHER)
    weights = np.eye(len(TOGETHER) + len(further))[[first]]
    tree, network_of = builder.build()[0], np.zeros(1, dtype=np.int64)
    return ExpertTree(tree, encoding, network, [params], network_of, memory, weights, further)


def _means(root: ExpertTree, table: TrainingTable, rows: Rows) -> Floats:
    """Predicted means of rows of the table by the experts of the root."""
    return root.quantile_functions(table.raw[rows], table.inputs[rows], without=rows).mean


def _with_regions(root: ExpertTree, grown: GrownTree, table: TrainingTable) -> ExpertTree:
    """The model with the regions of a grown tree, the networks fine-tuned and the errors of models in them."""
    leaf = grown.tree.leaf_of(table.raw)
    further = (
        with_spread(expert, table, leaf, grown.tree.n_leaves)
        if isinstance(expert, CrossFitted) and isinstance(expert.final, ModelExpert)
        else expert
        for expert in root.further
    )
    params = list({id(leaf.networks["network"]): leaf.networks["network"] for leaf in grown.leaves}.values())
    numbers = {id(own): number for number, own in enumerate(params)}
    network_of = [numbers[id(leaf.networks["network"])] for leaf in grown.leaves]
    weights = np.tile(root.expert_weights, (len(network_of), 1))
    return replace(
        root, tree=grown.tree, params=params, network_of=np.array(network_of), expert_weights=weights, refinement=None,
        further=tuple(further),
    )  # fmt: skip


# -- the tree of the paper ------------------------------------------------------------------------------------------


def _fit_paper_tree(recipe: PaperTreeRecipe, rows: TreeRows, context: FitContext) -> FittedTree[VarianceTree]:
    table, n_inputs = rows.table, rows.table.inputs.shape[1]
    sizes = (n_inputs, *hidden_sizes(recipe.variance_hidden, table.raw.shape[1], "variance_hidden"), 1)
    networks = PaperNetworks(
        _network(recipe.split_hidden, "split_hidden", table, n_inputs),
        _network(recipe.mean_hidden, "mean_hidden", table, n_inputs),
        MLP(sizes, "tanh", "softplus"),
    )
    grown = grow(rows, recipe.split, FromScratch(recipe, table, networks, context), context)
    model = VarianceTree(
        grown.tree,
        None,
        networks.mean,
        [leaf.networks["mean"] for leaf in grown.leaves],
        networks.variance,
        [leaf.networks["variance"] for leaf in grown.leaves],
    )
    splitting = [node.networks.get("split") for node in grown.nodes]
    return FittedTree(model, [node.history for node in grown.nodes], split_params=splitting)


def _network(
    hidden: Hidden, name: str, table: TrainingTable, n_inputs: int, n_outputs: int = 1, activation: str = "relu"
) -> MLP:
    return MLP((n_inputs, *hidden_sizes(hidden, table.raw.shape[1], name), n_outputs), activation)
