"""What fitted trees predict of rows that they were not trained on: scores and quantile functions for calibration."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from usnrt.model.ensembles import TreeEnsemble
from usnrt.model.pairs import Pairs, capped_disagreement, level_factors, mean_error_factor, own_error_share
from usnrt.nn.quantile_functions import conformity_scores
from usnrt.nn.quantiles import POSITIONS
from usnrt.tables import NetworkInputs
from usnrt.tables.training import TrainingTable
from usnrt.tree.fit import FittedTree
from usnrt.tree.model import ExpertTree
from usnrt.utils.types import Floats, Rows


@dataclass(frozen=True)
class SingleTree:
    """A tree, and its validation rows."""

    fitted: FittedTree[ExpertTree]

    # How much smaller the errors of validation rows are than those of new rows, see `calibration.small_tables`.
    SELECTION: ClassVar[float] = 4.0

    @property
    def trees(self) -> ExpertTree:
        """The tree."""
        return self.fitted.model

    @property
    def expert_weights(self) -> Floats:
        """Weights of the experts in each region."""
        return self.fitted.model.expert_weights

    @property
    def rows(self) -> Rows:
        """The validation rows."""
        return self.fitted.validation_rows

    @property
    def scored(self) -> tuple[Rows, Floats]:
        """Validation rows and their conformity scores."""
        return self.fitted.validation_rows, self.fitted.scores

    def quantiles(self, inputs: NetworkInputs, table: TrainingTable, n_threads: int) -> Floats:
        """Quantile functions of `rows`."""
        return self.fitted.quantiles

    def quantiles_of(self, inputs: NetworkInputs, rows: Rows, raw: Floats, n_threads: int) -> Floats:
        """Quantile functions of modified values of some of `rows`, which the memory does not find."""
        return self.trees.quantile_functions(raw, inputs.transform(raw), without=rows).quantiles


@dataclass(frozen=True)
class Folds:
    """An ensemble, and the rows that each member was not trained on.

    Attributes
    ----------
    trees : TreeEnsemble
    is_validation : ndarray of bool of shape (n_members, n)
    expert_weights : ndarray of shape (n_leaves, n_experts)
    scored : tuple of ndarray, or None
        Rows, and estimates of the conformity scores that the ensemble would have on them as new rows.
    """

    trees: TreeEnsemble
    is_validation: NDArray[np.bool_]
    expert_weights: Floats
    scored: tuple[Rows, Floats] | None

    SELECTION: ClassVar[float] = 8.0

    @classmethod
    def of(
        cls,
        fitted: Sequence[FittedTree[ExpertTree]],
        table: TrainingTable,
        is_validation: NDArray[np.bool_],
        in_time_order: bool,
    ) -> "Folds":
        """Combine fitted members.

        Parameters
        ----------
        fitted : sequence of FittedTree
        table : TrainingTable
        is_validation : ndarray of bool of shape (n_members, n)
        in_time_order : bool
            Whether all members validate on the latest rows.
        """
        members, scored = [tree.model for tree in fitted], None
        ensemble = TreeEnsemble(members, np.ones(members[0].tree.n_leaves), 1.0, mean_error_factor(is_validation))
        if in_time_order:  # no member was trained on these rows: they have scores of the ensemble itself
            ensemble, rows = replace(ensemble, own_factor=0.0), np.flatnonzero(is_validation[0])
            if len(rows):
                quantiles = ensemble.quantile_functions(table.raw[rows], table.inputs[rows]).quantiles
                scored = rows, conformity_scores(quantiles, table.y[rows])
        elif is_validation.any():
            ensemble, scored = _extrapolated(ensemble, table, is_validation, fitted)
        return cls(ensemble, is_validation, ensemble.mean_expert_weights(table), scored)

    @property
    def rows(self) -> Rows:
        """Rows that validate some member."""
        return np.flatnonzero(self.is_validation.any(axis=0))

    def quantiles(self, inputs: NetworkInputs, table: TrainingTable, n_threads: int) -> Floats:
        """Quantile functions of `rows`."""
        return self.quantiles_of(inputs, self.rows, table.raw[self.rows], n_threads)

    def quantiles_of(self, inputs: NetworkInputs, rows: Rows, raw: Floats, n_threads: int) -> Floats:
        """Quantile functions of modified values of rows, each by the first member that was not trained on the row."""
        member_of = np.argmax(self.is_validation[:, rows], axis=0)
        transformed, quantiles = inputs.transform(raw), np.empty((len(raw), len(POSITIONS)))
        for number, member in enumerate(self.trees.members):
            own = np.flatnonzero(member_of == number)
            predicted = member.quantile_functions(raw[own], transformed[own], n_threads, rows[own])
            quantiles[own] = predicted.quantiles
        return quantiles


def _extrapolated(
    ensemble: TreeEnsemble,
    table: TrainingTable,
    is_validation: NDArray[np.bool_],
    fitted: Sequence[FittedTree[ExpertTree]],
) -> tuple[TreeEnsemble, tuple[Rows, Floats]]:
    """The ensemble with factors that narrow its quantile functions, and conformity scores extrapolated to it."""
    scores = np.full(table.n_rows, np.nan)
    for member in reversed(fitted):  # a row with two scores keeps that of the first member
        scores[member.validation_rows] = member.scores
    known = np.flatnonzero(np.isfinite(scores))
    pairs = _pairs(ensemble.members, table, is_validation)
    if len(pairs.rows) == 0:
        return ensemble, (known, scores[known])
    own = own_error_share(pairs)
    own_factor = own / max(float(np.average(pairs.disagreement, weights=pairs.weight)), 1e-12)
    shared = np.full(ensemble.tree.n_leaves, max(1.0 - own, 0.05))
    factors = level_factors(pairs, scores[known], own, len(fitted))
    return replace(ensemble, shared=shared, own_factor=own_factor), (known, scores[known] * factors)


def _pairs(members: Sequence[ExpertTree], table: TrainingTable, is_validation: NDArray[np.bool_]) -> Pairs:
    """Disagreement and conformity scores of the two members that were not trained on a row, and of their mean."""
    parts: list[Pairs] = []
    twice = is_validation.sum(axis=0) == 2
    for first, second in combinations(range(len(members)), 2):
        rows = np.flatnonzero(twice & is_validation[first] & is_validation[second])
        raw, inputs, y = table.raw[rows], table.inputs[rows], table.y[rows]
        both = np.stack([members[m].quantile_functions(raw, inputs, without=rows).quantiles for m in (first, second)])
        single = np.stack([conformity_scores(quantiles, y) for quantiles in both])
        joint = conformity_scores(both.mean(axis=0), y)
        parts.append(Pairs(rows, table.validation_weight[rows], capped_disagreement(both), single, joint))
    return Pairs(*(np.concatenate([getattr(part, name) for part in parts], axis=-1) for name in Pairs.names()))
