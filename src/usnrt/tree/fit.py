"""Fitting a tree, given a recipe and rows."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from usnrt.experts.base import FurtherExpert
from usnrt.experts.builtin import TOGETHER
from usnrt.experts.weights import NETWORK
from usnrt.memory.retrieval import N_GUIDES, Retrieval, fit_retrieval
from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.mlp import MLP, Params, hidden_sizes
from usnrt.nn.quantiles import N_OUTPUTS, constant_network, quantile_function_mean
from usnrt.nn.train import History
from usnrt.tables.training import TrainingTable, TreeRows
from usnrt.tree.further import FurtherExperts, with_spreads
from usnrt.tree.grow import GrownTree, grow
from usnrt.tree.held_out import HeldOut, mean_quantiles, refine
from usnrt.tree.model import ExpertTree, TreeModel, VarianceTree
from usnrt.tree.recipe import Hidden, PaperTreeRecipe, QuantileTreeRecipe
from usnrt.tree.rivals import Rivals
from usnrt.tree.screening import relevant_inputs
from usnrt.tree.stored import CODEC
from usnrt.tree.strategies import (
    FromScratch,
    NetworkTraining,
    PaperNetworks,
    SharedNetworks,
    member_names,
    train_root,
)
from usnrt.tree.streamed import StreamedRows, train_root_on_store
from usnrt.tree.structure import TreeBuilder
from usnrt.utils.context import FitContext
from usnrt.utils.jit import compilation_notice
from usnrt.utils.threads import run_members
from usnrt.utils.types import Floats, Rows

ModelT = TypeVar("ModelT", bound=TreeModel)

# Smaller tables have no memory: a metric learnt from fewer rows is arbitrary.
MIN_ROWS_TO_REMEMBER = 200
# Phases of a fit with their shares of its processor time, as measured on 4,000 to 60,000 rows; for the progress bar.
PHASES = {"memory": 0.33, "network": 0.52, "regions": 0.15}
# Those of one of several members, whose regions are found together.
MEMBER_PHASES = {"memory": 0.39, "network": 0.61, "done": 0.0}


@dataclass(frozen=True)
class FittedTree(Generic[ModelT]):
    """A fitted tree, and further results of the fit.

    Attributes
    ----------
    members : list of TreeModel
        One per network that was trained on rows of its own; all have the same tree.
    history : list of dict of str to History
        One per node.
    quantiles : list of ndarray of shape (m, n_positions)
        Per member, quantile functions of the rows that it was not trained on; empty for trees of the paper.
    split_params : list of Params or None
        For trees of the paper, the splitting network of each node; None in nodes that were too small to be split.
    """

    members: list[ModelT]
    history: list[dict[str, History]]
    quantiles: list[Floats] = field(default_factory=list)
    split_params: list[Params | None] = field(default_factory=list)


def fit_quantile_tree(
    recipe: QuantileTreeRecipe,
    folds: Sequence[TreeRows],
    seeds: Sequence[Any],
    context: FitContext,
    streamed: StreamedRows | None = None,
) -> FittedTree[ExpertTree]:
    """Learn memories and train networks, one per fold, and grow one tree by what they predict of held-out rows.

    Parameters
    ----------
    recipe : QuantileTreeRecipe
    folds : sequence of TreeRows
        One per member; the same table with other validation rows.
    seeds : sequence
        One per member.
    context : FitContext
    streamed : StreamedRows, optional
        All rows, if those of the single fold are a sample of them. The network is trained on all training rows;
        everything else, the memory, the splits, their fine-tuning and the weights of the experts, uses the sample.

    Returns
    -------
    FittedTree
    """
    fitted = _stored(folds[0], context, lambda within: _fit_quantile_tree(recipe, folds, seeds, within, streamed))
    # a checkpoint does not keep groups
    group = folds[0].table.group
    members = [
        member if member.memory is None else replace(member, memory=member.memory.grouped(group))
        for member in fitted.members
    ]
    return replace(fitted, members=members)


def fit_paper_tree(recipe: PaperTreeRecipe, rows: TreeRows, context: FitContext) -> FittedTree[VarianceTree]:
    """Grow a tree of the paper: mean and variance networks."""
    return _stored(rows, context, lambda within: _fit_paper_tree(recipe, rows, within))


def _stored(rows: TreeRows, context: FitContext, fit: Callable[[FitContext], FittedTree[ModelT]]) -> FittedTree[ModelT]:
    """The fitted tree in the checkpoint; if there is none, it is fitted and stored in place of its parts."""
    shared = {"numeric": rows.numeric}
    saved: FittedTree[ModelT] | None = context.checkpoint.load("tree", CODEC, shared)
    if saved is not None:
        return saved
    within = context.within("tree")
    fitted = fit(within)
    if any(isinstance(member, ExpertTree) and member.user_models for member in fitted.members):  # fitted again
        return fitted
    if context.checkpoint.save("tree", fitted, CODEC, shared):
        within.checkpoint.clear()
    return fitted


# -- the default tree -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Root:
    """What a member has learnt before the tree grows.

    Attributes
    ----------
    model : ExpertTree
        The whole table as one region.
    guides : ndarray of shape (n, n_guides) or None
        Of all rows, by a memory of the training rows.
    history : dict of str to History
    """

    model: ExpertTree
    guides: NDArray[np.float32] | None
    history: dict[str, History]

    def training(self, recipe: QuantileTreeRecipe, rows: TreeRows, context: FitContext) -> NetworkTraining:
        """How its network is fine-tuned in regions."""
        return NetworkTraining(recipe, rows, self.model.encoding, self.guides, self.model.network, context)


def _fit_quantile_tree(
    recipe: QuantileTreeRecipe,
    folds: Sequence[TreeRows],
    seeds: Sequence[Any],
    context: FitContext,
    streamed: StreamedRows | None,
) -> FittedTree[ExpertTree]:
    if context.progress.verbose and (notice := compilation_notice()):
        context.progress.note(notice)
    if recipe.n_bins > 0 and recipe.network:
        folds = [replace(rows, relevant=relevant_inputs(rows, context)) for rows in folds]
    held_out = HeldOut.of(folds)
    if min(len(rows.training) for rows in folds) < MIN_ROWS_TO_REMEMBER or not folds[0].is_validation.any():
        recipe = replace(recipe, memory=False)
    if not recipe.network:
        recipe = replace(recipe, memory=False, schedule=replace(recipe.schedule, child_steps=0))
    further = FurtherExperts(recipe, folds, context)
    fitted = _fit_roots(recipe, folds, seeds, context, streamed, further)
    # A network that learnt to follow guides is a worse one without them. A store is not read again for that.
    if fitted is None or (recipe.memory and not fitted[1][0].uses_memory and streamed is None):
        recipe = replace(recipe, memory=False)
        fitted = _fit_roots(recipe, folds, seeds, context.within("alone"), streamed, further)
    assert fitted is not None  # without a memory there is nothing to give up
    roots, members = fitted
    trainings = [root.training(recipe, rows, context) for root, rows in zip(roots, folds)]
    params, history = [member.params[0] for member in members], _numbered([root.history for root in roots])
    strategy = SharedNetworks(trainings, held_out, params, history, functools.partial(_means, members, held_out))
    grown = grow(folds[0], recipe.split, strategy, context)
    table, rows = held_out.table, held_out.rows
    experts = with_spreads(members[0].further, grown.tree, table)
    members, quantiles = refine(
        [_with_regions(member, grown, name, experts) for member, name in zip(members, strategy.names)], held_out
    )
    residuals = table.y[rows] - quantile_function_mean(mean_quantiles(held_out, quantiles))
    leaf = grown.tree.leaf_of(table.raw[rows])
    tree = grown.tree.with_leaf_residuals(leaf, residuals, table.validation_weight[rows])
    members = [replace(member, tree=tree).without_unused() for member in members]
    return FittedTree(members, [node.history for node in grown.nodes], quantiles)


def _fit_roots(
    recipe: QuantileTreeRecipe,
    folds: Sequence[TreeRows],
    seeds: Sequence[Any],
    context: FitContext,
    streamed: StreamedRows | None,
    further: FurtherExperts,
) -> tuple[list[Root], list[ExpertTree]] | None:
    """The members of the whole table as one region, also with the experts and weights that held-out rows choose.

    None if the memory of the first member is useless.
    """
    phases = PHASES if len(folds) == 1 else MEMBER_PHASES

    def fit(member: int, own: FitContext) -> Root | None:
        own.progress.plan(phases)
        root = _fit_root(recipe, folds[member], own, streamed, gives_up=member == 0)
        own.progress.begin(list(phases)[-1])
        return root

    fitted = run_members(fit, seeds, context, is_all=False, goes_on=lambda root: root is not None)
    roots = [root for root in fitted if root is not None]
    if not roots:
        return None
    roots = _trained_alike(roots, recipe, folds, seeds, context)
    beside = further.beside([root.model for root in roots])
    members, _ = refine([root.model.with_further(beside) for root in roots], HeldOut.of(folds))
    members = [member.without_unused_further() for member in members]
    complete = further.completed(members[0].further)
    return roots, [member.with_further(complete) for member in members]


def _trained_alike(
    roots: list[Root],
    recipe: QuantileTreeRecipe,
    folds: Sequence[TreeRows],
    seeds: Sequence[Any],
    context: FitContext,
) -> list[Root]:
    """The members, none with fewer trainings than a third of them: one that stopped too early would spoil the mean."""
    n_rounds = int(np.quantile([len(root.history) for root in roots], 2.0 / 3.0, method="higher"))

    def go_on(member: int, own: FitContext) -> Root:
        root = roots[member]
        if len(root.history) >= n_rounds:
            return root
        rng = np.random.default_rng(np.random.SeedSequence(own.seed, spawn_key=(1, 0, 8)))
        job, trained = root.training(recipe, folds[member], own), (root.model.params[0], root.history)
        params, history = train_root(job, rng, trained=trained, min_rounds=n_rounds) or trained
        return replace(root, model=replace(root.model, params=[params]), history=history)

    if all(len(root.history) >= n_rounds for root in roots):
        return roots
    return run_members(go_on, seeds, context, is_all=False)


def _fit_root(
    recipe: QuantileTreeRecipe, rows: TreeRows, context: FitContext, streamed: StreamedRows | None, gives_up: bool
) -> Root | None:
    """The model of the whole table as one region, without further experts; None if a useless memory is given up."""
    table = rows.table
    rng = np.random.default_rng(np.random.SeedSequence(context.seed, spawn_key=(1, 0, 7)))
    encoding, memory, guides = _encoded_and_guided(recipe, rows, rng, context.within("memory"))
    n_inputs = table.inputs.shape[1] + (0 if guides is None else N_GUIDES)
    n_inputs = n_inputs if encoding is None else encoding.n_outputs
    hidden = recipe.hidden if recipe.network else ()
    network = _network(hidden, "hidden", table, n_inputs, N_OUTPUTS, "algebraic")
    job = NetworkTraining(recipe, rows, encoding, guides, network, context)
    context.progress.begin("network")
    history: dict[str, History] = {}
    if not recipe.network:
        params = constant_network(network, table.y, table.weight)
    elif streamed is None:
        rivals = None
        if gives_up and memory is not None and guides is not None:
            rivals = Rivals.of(network, encoding, memory, rows, guides)
        trained = train_root(job, rng, rivals)
        if trained is None:
            return None
        params, history = trained
    else:
        params, history = train_root_on_store(job, streamed, memory, rng)
    if memory is not None and not recipe.in_time_order:
        # From now on the memory holds the validation rows too; they are predicted like new rows, without themselves.
        memory = memory.with_rows(table, context.n_threads)
    return Root(_one_region(network, params, encoding, memory, table), guides, history)


def _encoded_and_guided(
    recipe: QuantileTreeRecipe, rows: TreeRows, rng: np.random.Generator, context: FitContext
) -> tuple[PiecewiseLinear | None, Retrieval | None, NDArray[np.float32] | None]:
    """Encoding of the network inputs with the guides, memory of the training rows, and its guides.

    The guides of training rows are those of a memory of the other training rows.
    """
    table, training_rows = rows.table, rows.training
    encoding = None
    if recipe.n_bins > 0 and recipe.network:
        encoding = PiecewiseLinear.fit(table.inputs[training_rows], rows.numeric, recipe.n_bins, rows.relevant)
    if not recipe.memory:
        return encoding, None, None
    training = recipe.metric.within(recipe.max_epochs, len(training_rows))
    memory = fit_retrieval(table, encoding, rows.is_validation, training, rng, context)
    guides = memory.guides_of(table.inputs, np.arange(table.n_rows), context.n_threads)
    if encoding is not None:
        encoding = encoding.with_more(N_GUIDES)
    return encoding, memory, guides


def _one_region(
    network: MLP,
    params: Params,
    encoding: PiecewiseLinear | None,
    memory: Retrieval | None,
    table: TrainingTable,
) -> ExpertTree:
    """The model of the whole table as one region."""
    builder = TreeBuilder(table.raw.shape[1], np.zeros(table.raw.shape[1], dtype=np.int64))
    builder.add_root(float(table.weight.sum()))
    weights = np.eye(len(TOGETHER))[[NETWORK]]
    tree, network_of = builder.build()[0], np.zeros(1, dtype=np.int64)
    return ExpertTree(tree, encoding, network, [params], network_of, memory, weights)


def _means(members: Sequence[ExpertTree], held_out: HeldOut, rows: Rows) -> Floats:
    """Predicted means of rows of the table, if possible by members that did not see them."""
    table = held_out.table

    def means_of(member: int, positions: Rows) -> Floats:
        own = rows[positions]
        return members[member].quantile_functions(table.raw[own], table.inputs[own], without=own).mean

    return held_out.mean(rows, means_of)


def _numbered(histories: Sequence[dict[str, History]]) -> dict[str, History]:
    """Histories of all members, with their numbers if there are several."""
    names = member_names(len(histories))
    return {name + label: history for name, own in zip(names, histories) for label, history in own.items()}


def _with_regions(member: ExpertTree, grown: GrownTree, name: str, further: tuple[FurtherExpert, ...]) -> ExpertTree:
    """The member with the regions of a grown tree and the networks that were fine-tuned in them."""
    params = list({id(leaf.networks[name]): leaf.networks[name] for leaf in grown.leaves}.values())
    numbers = {id(own): number for number, own in enumerate(params)}
    network_of = np.array([numbers[id(leaf.networks[name])] for leaf in grown.leaves])
    weights = np.tile(member.expert_weights, (len(network_of), 1))
    return replace(
        member, tree=grown.tree, params=params, network_of=network_of, expert_weights=weights, refinement=None,
        further=further,
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
    tree = VarianceTree(
        grown.tree,
        None,
        networks.mean,
        [leaf.networks["mean"] for leaf in grown.leaves],
        networks.variance,
        [leaf.networks["variance"] for leaf in grown.leaves],
    )
    splitting = [node.networks.get("split") for node in grown.nodes]
    return FittedTree([tree], [node.history for node in grown.nodes], split_params=splitting)


def _network(
    hidden: Hidden, name: str, table: TrainingTable, n_inputs: int, n_outputs: int = 1, activation: str = "relu"
) -> MLP:
    return MLP((n_inputs, *hidden_sizes(hidden, table.raw.shape[1], name), n_outputs), activation)
