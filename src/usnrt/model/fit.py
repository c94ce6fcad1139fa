"""Fitting a model: rows with their roles, trees, support, calibration, put together step by step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from usnrt.calibration.support import Support, measured_rows, robust_variance
from usnrt.model.background import background_of, marginal_background_of
from usnrt.model.calibrate import calibrate_by_validation, calibrate_on, find_repeats, fit_target
from usnrt.model.ensembles import PaperEnsemble, TreeEnsemble
from usnrt.model.fitted import FittedModel, TrainingRows
from usnrt.model.out_of_sample import OutOfSample
from usnrt.model.probe import choose_map
from usnrt.model.roles import (
    FitRows,
    draw_calibration_rows,
    draw_validation_rows,
    roles_in_store,
)
from usnrt.model.scaling import ScaledRows, scale_rows
from usnrt.model.target import candidate_maps
from usnrt.tables import TableEncoder
from usnrt.tables.form import GivenForm, TableForm
from usnrt.tables.roles import RowRoles
from usnrt.tables.store import RowStore
from usnrt.tables.training import DistinctRows, GivenRows, TrainingTable, TreeRows
from usnrt.tree.fit import FittedTree, fit_paper_tree, fit_quantile_tree
from usnrt.tree.held_out import HeldOut
from usnrt.tree.model import ExpertTree, VarianceTree
from usnrt.tree.recipe import PaperTreeRecipe, QuantileTreeRecipe
from usnrt.tree.region_summary import summarize_regions
from usnrt.tree.streamed import StreamedRows, sample_size
from usnrt.tree.structure import Tree
from usnrt.utils.context import FitContext
from usnrt.utils.threads import run_members


class _WithTree(Protocol):
    @property
    def tree(self) -> Tree: ...

    def with_tree(self, tree: Tree) -> Self: ...


TreesT = TypeVar("TreesT", bound=_WithTree)


@dataclass(frozen=True)
class ModelRecipe:
    """Everything but rows and seed that determines a fitted model.

    Attributes
    ----------
    tree : QuantileTreeRecipe or PaperTreeRecipe
    n_members : int or None
        Of an ensemble; None for a single tree.
    target_bounds, target_transform
        See `usnrt.USNRTRegressor`.
    form : GivenForm or None
        How the table was given, for models of the user; None if it is not in memory.
    """

    tree: QuantileTreeRecipe | PaperTreeRecipe
    n_members: int | None = None
    target_bounds: Any = None
    target_transform: str | None = None
    form: GivenForm | None = None


@dataclass(frozen=True)
class ModelFit:
    """A fitted model, and what else its fit found.

    Attributes
    ----------
    model : FittedModel
    trees : list of FittedTree
        One per member of an ensemble of the paper.
    smallest_region : float
        The smallest region that was allowed.
    """

    model: FittedModel
    trees: Sequence[FittedTree[Any]]
    smallest_region: float


def fit_model(recipe: ModelRecipe, rows: DistinctRows, encoder: TableEncoder, context: FitContext) -> ModelFit:
    """Fit a model to rows in memory.

    Parameters
    ----------
    recipe : ModelRecipe
    rows : DistinctRows
    encoder : TableEncoder
        That encoded them.
    context : FitContext

    Returns
    -------
    ModelFit
    """
    tree = recipe.tree
    if isinstance(tree, PaperTreeRecipe):
        return _fit_paper_model(recipe, tree, rows, encoder, context)
    seeds = _Seeds.of(recipe, context)
    kept, calibration_rows = draw_calibration_rows(rows, tree.calibration_fraction, seeds.rows)
    is_validation = draw_validation_rows(kept, tree, recipe.n_members, seeds.rows)
    tree = replace(tree, in_time_order=rows.time is not None)
    return _fit_quantile_model(recipe, tree, FitRows(kept, is_validation, calibration_rows), encoder, seeds, context)


def fit_model_to_store(recipe: ModelRecipe, store: RowStore, encoder: TableEncoder, context: FitContext) -> ModelFit:
    """Fit a single tree to a store larger than its sample: the network of the root to all rows, the rest to the sample.

    Parameters
    ----------
    recipe : ModelRecipe
    store : RowStore
    encoder : TableEncoder
    context : FitContext
    """
    tree, sample = recipe.tree, store.sample(sample_size(store))
    assert isinstance(tree, QuantileTreeRecipe)
    fit_rows = roles_in_store(store, sample, tree.tested_fraction, tree.calibration_fraction, context.seed)
    tree = tree.for_sample(sample.weight.sum() / store.weight_sum)
    return _fit_quantile_model(recipe, tree, fit_rows, encoder, _Seeds.of(recipe, context), context)


@dataclass(frozen=True)
class _Seeds:
    """Random numbers of a fit: of the roles of its rows, of the probe of the target, and of the members."""

    rows: np.random.Generator
    probe: int
    sequence: np.random.SeedSequence

    @classmethod
    def of(cls, recipe: ModelRecipe, context: FitContext) -> "_Seeds":
        sequence = np.random.SeedSequence(context.seed)
        if recipe.n_members is None:
            rows = np.random.SeedSequence(context.seed, spawn_key=(0, 0, 7))
            return cls(np.random.default_rng(rows), context.seed, sequence)
        rows = sequence.spawn(1)[0]
        return cls(np.random.default_rng(rows), int(sequence.generate_state(1)[0]), sequence)


def _seeds_of_members(sequence: np.random.SeedSequence, n_members: int) -> list[int]:
    return [int(seed.generate_state(1)[0]) for seed in sequence.spawn(n_members)]


# -- the default recipe -----------------------------------------------------------------------------------------------


def _fit_quantile_model(
    recipe: ModelRecipe,
    tree: QuantileTreeRecipe,
    fit_rows: FitRows,
    encoder: TableEncoder,
    seeds: _Seeds,
    context: FitContext,
) -> ModelFit:
    rows, is_validation = fit_rows.rows, fit_rows.is_validation
    candidates = candidate_maps(rows.target, recipe.target_bounds, recipe.target_transform)
    target_map = choose_map(rows, encoder, is_validation[0], candidates, tree, seeds.probe)
    scaled = scale_rows(rows, encoder.columns_, target_map)
    by_validation = tree.calibration is not None and fit_rows.calibration is None
    repeats = find_repeats(scaled.table, tree.memory) if by_validation else None
    is_recalled = repeats is not None and repeats.recalls and repeats.repeated.is_determined
    scaled = replace(scaled, table=replace(scaled.table, is_recalled=is_recalled))
    context.progress.expect(scaled.table.n_rows)
    given = None
    if tree.models:
        form, scale = TableForm.of(recipe.form, encoder, rows.raw), scaled.target
        # of a map they learn what the networks learn: their means could not be sent through it
        own = (rows.target, scale.mean, scale.std) if target_map is None else (scaled.table.y, 0.0, 1.0)
        given = GivenRows(form, *own)
    fitted = _fit_tree(tree, scaled, encoder, fit_rows, seeds, context, given)
    held_out = OutOfSample.of(fitted.members, HeldOut(scaled.table, is_validation), fitted.quantiles)
    trees = _in_target_units(held_out.trees, scaled)
    model = FittedModel(
        scaled.inputs,
        scaled.target,
        trees,
        _widening_support(held_out, scaled, trees.tree, encoder, context.n_threads),
        kept=_kept_rows(trees, rows, encoder, tree.memory),
    )
    if fit_rows.store is not None:
        model = _with_all_rows(model, *fit_rows.store)
    if tree.calibration is not None and fit_rows.calibration is not None:
        model = calibrate_on(model, fit_rows.calibration, tree.calibration)
    elif tree.calibration is not None:
        scored = held_out.rows, held_out.scores, held_out.quantiles
        model = calibrate_by_validation(model, scaled.table, scored, tree.calibration, held_out.selection, repeats)
    if target_map is not None:
        model = fit_target(model, scaled.table, held_out.rows, rows.target[held_out.rows], held_out.quantiles)
    assert isinstance(model.trees, ExpertTree | TreeEnsemble)
    model = replace(model, trees=model.trees.without_folds())
    return ModelFit(model, [fitted], tree.split.smallest_region(float(scaled.table.weight.sum())))


def _fit_tree(
    recipe: QuantileTreeRecipe,
    scaled: ScaledRows,
    encoder: TableEncoder,
    fit_rows: FitRows,
    seeds: _Seeds,
    context: FitContext,
    given: GivenRows | None,
) -> FittedTree[ExpertTree]:
    """The tree with its networks."""
    table, streamed = scaled.table, None
    numeric, n_categories = scaled.inputs.numeric_, encoder.n_categories_
    folds = [TreeRows(table, numeric, n_categories, own, given) for own in fit_rows.is_validation]
    if fit_rows.store is not None:
        streamed = StreamedRows(*fit_rows.store, scaled.inputs, scaled.target, table.group)
    members = [context.seed] if len(folds) == 1 else _seeds_of_members(seeds.sequence, len(folds))
    fitted = fit_quantile_tree(recipe, folds, members, context, streamed)
    context.progress.finish()
    return fitted


# -- the recipe of the paper ------------------------------------------------------------------------------------------


def _fit_paper_model(
    recipe: ModelRecipe, tree: PaperTreeRecipe, rows: DistinctRows, encoder: TableEncoder, context: FitContext
) -> ModelFit:
    scaled = scale_rows(rows, encoder.columns_, ranks_if_skewed=False)
    table = scaled.table
    context.progress.expect(table.n_rows)
    given = TreeRows(table, scaled.inputs.numeric_, encoder.n_categories_, np.zeros(table.n_rows, dtype=bool))
    if recipe.n_members is None:
        fitted = [fit_paper_tree(tree, given, context)]
        trees: VarianceTree | PaperEnsemble = fitted[0].members[0]
    else:
        seeds = _seeds_of_members(np.random.SeedSequence(context.seed), recipe.n_members)
        fitted = run_members(lambda _, own: fit_paper_tree(tree, given, own), seeds, context)
        trees = PaperEnsemble([member.members[0] for member in fitted])
    context.progress.finish()
    trees = _in_target_units(trees, scaled)
    support = replace(_support(table, trees.tree, encoder), widens=False)
    model = FittedModel(scaled.inputs, scaled.target, trees, support)
    return ModelFit(model, fitted, tree.split.smallest_region(float(table.weight.sum())))


# -- parts of all models ----------------------------------------------------------------------------------------------


def _in_target_units(trees: TreesT, scaled: ScaledRows) -> TreesT:
    """Trees whose regions have residual moments in units of the target."""
    return trees.with_tree(trees.tree.with_residual_unit(scaled.target.std))


def _support(table: TrainingTable, tree: Tree, encoder: TableEncoder) -> Support:
    group = table.group if table.has_groups else None  # rows with equal features are alike in all columns
    return Support.fit(table.raw, _is_categorical(encoder), tree.leaf_of(table.raw), tree.n_leaves, group)


def _is_categorical(encoder: TableEncoder) -> NDArray[np.bool_]:
    return np.array([column.is_categorical for column in encoder.columns_], dtype=bool)


def _widening_support(
    held_out: OutOfSample, scaled: ScaledRows, tree: Tree, encoder: TableEncoder, n_threads: int
) -> Support:
    """The support of a model whose predictions are wider without it: how much, validation rows tell."""
    table, rows = scaled.table, np.sort(held_out.rows)
    rows = rows[measured_rows(len(rows), table.raw.shape[1])]
    support = _support(table, tree, encoder).with_missing_value_variances(
        lambda raw: held_out.quantiles_of(scaled.inputs, np.tile(rows, len(raw) // len(rows)), raw, n_threads),
        table.raw[rows],
        tree.leaf_of(table.raw[rows]),
        table.y[rows],
    )
    return replace(support, target_variance=robust_variance(table.y))


def _kept_rows(
    trees: ExpertTree | TreeEnsemble, rows: DistinctRows, encoder: TableEncoder, remembers: bool
) -> TrainingRows:
    """Positions of the rows that the memories number, and the background of explanations."""
    members = [trees] if isinstance(trees, ExpertTree) else trees.members
    memories = [member.memory for member in members if member.memory is not None]
    n_numbered = 1 + max((int(memory.row.max()) for memory in memories), default=-1)
    positions = rows.position[:n_numbered].astype(np.int64) if n_numbered else None
    leaf, n_leaves = trees.tree.leaf_of(rows.raw), trees.tree.n_leaves
    if remembers:
        return TrainingRows(background_of(rows.raw, leaf, n_leaves, rows.weight), positions)
    categorical = _is_categorical(encoder)
    return TrainingRows(marginal_background_of(rows.raw, leaf, n_leaves, categorical, rows.weight), positions)


def _with_all_rows(model: FittedModel, store: RowStore, roles: RowRoles) -> FittedModel:
    """The model with the support, and the numbers of rows of the regions, of all rows instead of a sample."""
    summary = summarize_regions(store, roles, model.tree)
    support = model.support.covering(summary.low, summary.high, summary.has_missing)
    return replace(model, support=support).with_tree(model.tree.with_leaf_rows(summary.n_rows))
