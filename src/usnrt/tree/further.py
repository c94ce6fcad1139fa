"""The experts of a tree that are fitted by themselves: which are worth fitting, and how they learn from all rows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from usnrt.experts.base import FURTHER_EXPERTS, FurtherExpert
from usnrt.experts.cross_fit import CrossFitted, cross_fitted, fitted_in_parts, fitted_to_folds, is_trial, refitted
from usnrt.experts.user_model import ModelExpert, completed, fit_models, model_names, with_spread
from usnrt.experts.weights import is_promising
from usnrt.tables.training import TrainingTable, TreeRows
from usnrt.tree.held_out import HeldOut
from usnrt.tree.model import ExpertTree
from usnrt.tree.recipe import QuantileTreeRecipe
from usnrt.tree.structure import Tree
from usnrt.utils.context import FitContext

# Validation rows that judge a trial, and the share of the loss by which it must reduce that of the others. Trials of 16
# trees gained 0.7 % and more where forests gained 1 to 40 %, and 0.25 % at most where forests gained less than that.
MAX_JUDGES, MIN_PROMISE = 2048, 0.003


class FurtherExperts:
    """The experts beside those that are trained together, which all members share; held-out rows choose their weights.

    Parameters
    ----------
    recipe : QuantileTreeRecipe
    folds : sequence of TreeRows
    context : FitContext
    """

    def __init__(self, recipe: QuantileTreeRecipe, folds: Sequence[TreeRows], context: FitContext) -> None:
        self._recipe, self._folds, self._context = recipe, folds, context
        kinds = [kind for kind in FURTHER_EXPERTS if str(kind.name) in recipe.further]
        first = [kind.fit(folds[0], context) for kind in kinds]
        self._trials: list[Any] = [expert for expert in first if expert is not None]
        self._fitted: dict[str, FurtherExpert] = {}
        self._of_user = fit_models(recipe.models, folds[0], context, recipe.in_time_order)

    def beside(self, members: Sequence[ExpertTree]) -> tuple[FurtherExpert, ...]:
        """Those that are worth combining with the experts of some members, each fitted without the rows it predicts."""
        worthwhile = [expert for expert in self._trials if not is_trial(expert) or self._promises(expert, members)]
        return (*(self._fit(expert) for expert in worthwhile), *self._of_user)

    def completed(self, experts: Sequence[FurtherExpert]) -> tuple[FurtherExpert, ...]:
        """Some of them, fitted to all rows."""
        recipe, rows, context = self._recipe, self._folds[0], self._context
        models = dict(zip(model_names(recipe.models), recipe.models))

        def complete(expert: FurtherExpert) -> FurtherExpert:
            if not isinstance(expert, CrossFitted):
                return cross_fitted(expert, rows, context, recipe.in_time_order)
            if expert.name in models:
                return completed(expert, models[expert.name], rows, context, recipe.in_time_order)
            return refitted(expert, rows, context)

        return tuple(complete(expert) for expert in experts)

    def _promises(self, trial: Any, members: Sequence[ExpertTree]) -> bool:
        """Whether a trial improves what the members predict; which is not asked if fits are cheap beside others."""
        if trial.name in self._fitted or not self._recipe.network or len(self._folds) > 1:
            return True  # several folds: small tables, or ensembles, whose fits take long
        held_out, judges = HeldOut.of(self._folds), np.flatnonzero(self._folds[0].is_validation)[:MAX_JUDGES]
        table, together = held_out.table, [member.with_further((trial,)) for member in members]
        quantiles = held_out.mean(judges, lambda member, own: together[member].expert_quantiles(table, judges[own]))
        y, weight = table.y[judges], table.validation_weight[judges]
        return is_promising(np.moveaxis(quantiles, 1, 0), y, weight, together[0].traits, MIN_PROMISE)

    def _fit(self, expert: Any) -> FurtherExpert:
        if expert.name not in self._fitted:
            folds, context = self._folds, self._context
            is_out = np.logical_or.reduce([rows.is_validation for rows in folds])
            if not is_trial(expert):
                self._fitted[expert.name] = fitted_to_folds(expert, folds, context)
            elif is_out.any() and not self._recipe.in_time_order:
                self._fitted[expert.name] = fitted_in_parts(expert, replace(folds[0], is_validation=is_out), context)
            else:
                self._fitted[expert.name] = expert.refit(folds[0], context)
        return self._fitted[expert.name]


def with_spreads(experts: Sequence[FurtherExpert], tree: Tree, table: TrainingTable) -> tuple[FurtherExpert, ...]:
    """Further experts, models of the user with the distribution of their errors in the regions of a tree."""
    leaf = tree.leaf_of(table.raw)
    return tuple(
        with_spread(expert, table, leaf, tree.n_leaves)
        if isinstance(expert, CrossFitted) and isinstance(expert.final, ModelExpert)
        else expert
        for expert in experts
    )
