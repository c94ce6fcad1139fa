"""What fitted trees predict of rows that they were not trained on: scores and quantile functions for calibration."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from usnrt.model.ensembles import TreeEnsemble
from usnrt.model.pairs import Pairs, capped_disagreement, level_factors, mean_error_factor, own_error_share
from usnrt.nn.quantile_functions import conformity_scores
from usnrt.tables import NetworkInputs
from usnrt.tree.held_out import HeldOut, mean_quantiles
from usnrt.tree.model import ExpertTree
from usnrt.utils.types import Floats, Rows

# How much smaller the errors of held-out rows are than those of new rows, see `calibration.small_tables`: of a single
# network, and of several, whose errors are extrapolated.
SELECTION, SELECTION_OF_SEVERAL = 4.0, 8.0


@dataclass(frozen=True)
class OutOfSample:
    """Fitted trees, and what is known of their errors on new rows.

    Attributes
    ----------
    trees : ExpertTree or TreeEnsemble
    members : sequence of ExpertTree
    held_out : HeldOut
    quantiles : ndarray of shape (m, n_positions)
        Quantile functions of the m rows that are held out, each by the members that were not trained on it.
    scores : ndarray of shape (m,)
        Estimates of the conformity scores that the model would have on them as new rows.
    selection : float
        See `usnrt.calibration.small_tables`.
    """

    trees: ExpertTree | TreeEnsemble
    members: Sequence[ExpertTree]
    held_out: HeldOut
    quantiles: Floats
    scores: Floats
    selection: float

    @classmethod
    def of(cls, members: Sequence[ExpertTree], held_out: HeldOut, quantiles: Sequence[Floats]) -> "OutOfSample":
        """Combine fitted members.

        Parameters
        ----------
        members : sequence of ExpertTree
        held_out : HeldOut
        quantiles : sequence of ndarray
            Quantile functions of the rows that each member was not trained on.
        """
        mean = mean_quantiles(held_out, quantiles)
        scores = conformity_scores(mean, held_out.table.y[held_out.rows])
        if len(members) == 1:
            return cls(members[0], members, held_out, mean, scores, SELECTION)
        trees, factors = _extrapolated(members, held_out, quantiles, scores)
        return cls(trees, members, held_out, mean, scores * factors, SELECTION_OF_SEVERAL)

    @property
    def rows(self) -> Rows:
        """The rows that are held out."""
        return self.held_out.rows

    def quantiles_of(self, inputs: NetworkInputs, rows: Rows, raw: Floats, n_threads: int) -> Floats:
        """Quantile functions of modified values of rows, each by the members that were not trained on the row."""
        transformed = inputs.transform(raw)

        def predict(member: int, own: Rows) -> Floats:
            return self.members[member].quantile_functions(raw[own], transformed[own], n_threads, rows[own]).quantiles

        return self.held_out.mean(rows, predict)


def _extrapolated(
    members: Sequence[ExpertTree], held_out: HeldOut, quantiles: Sequence[Floats], scores: Floats
) -> tuple[TreeEnsemble, Floats]:
    """The ensemble with factors that narrow its quantile functions, and factors of the conformity scores."""
    counts = held_out.counts(held_out.rows)
    ensemble = TreeEnsemble(members, np.ones(members[0].tree.n_leaves), 0.0, mean_error_factor(held_out.is_validation))
    if (counts == len(members)).all():  # no member was trained on these rows: they have scores of the ensemble itself
        return ensemble, np.ones(len(scores))
    pairs = _pairs(held_out, quantiles)
    own = own_error_share(pairs)
    own_factor = own / max(float(np.average(pairs.disagreement, weights=pairs.weight)), 1e-12)
    shared = np.full(ensemble.tree.n_leaves, max(1.0 - own, 0.05))
    factors = level_factors(pairs, scores, counts, own, len(members))
    return replace(ensemble, shared=shared, own_factor=own_factor), factors


def _pairs(held_out: HeldOut, quantiles: Sequence[Floats]) -> Pairs:
    """Disagreement and conformity scores of any two members that were not trained on a row, and of their mean."""
    table, by_member, parts = held_out.table, held_out.by_member, []
    for pair in combinations(range(len(by_member)), 2):
        rows = np.intersect1d(by_member[pair[0]], by_member[pair[1]], assume_unique=True)
        y = table.y[rows]
        both = np.stack([quantiles[m][np.searchsorted(by_member[m], rows)] for m in pair])
        single = np.stack([conformity_scores(own, y) for own in both])
        joint = conformity_scores(both.mean(axis=0), y)
        parts.append(Pairs(rows, table.validation_weight[rows], capped_disagreement(both), single, joint))
    return Pairs(*(np.concatenate([getattr(part, name) for part in parts], axis=-1) for name in Pairs.names()))
