"""Calibrating a fitted model: by rows that no network was trained on, or by the validation rows of its fit."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from usnrt.calibration.conformal import sampling_factor, selection_factor
from usnrt.calibration.groups import METHODS, GroupCalibration, ScoredRows
from usnrt.calibration.seen_rows import (
    MIN_RECALL,
    MIN_REPEATED,
    RepeatedRows,
    SeenRows,
    combined_with_recall,
    find_seen,
    with_recall,
)
from usnrt.model.ensembles import PaperEnsemble
from usnrt.model.fitted import FittedModel, Stage
from usnrt.model.target import with_point_masses
from usnrt.nn.quantile_functions import conformity_scores
from usnrt.tables.groups import group_correlation
from usnrt.tables.training import DistinctRows, TrainingTable
from usnrt.tree.model import VarianceTree
from usnrt.utils.arrays import evidence
from usnrt.utils.types import Floats, Rows

# A correlation within fewer groups is not estimated; 90 % intervals need 19 groups anyway.
MIN_GROUPS = 30
# The point masses at bounds are fitted to about this many rows.
MAX_MASS_ROWS = 4000


@dataclass(frozen=True)
class Repeats:
    """Feature rows that a training table repeats, and whether the model may recall their targets."""

    seen: SeenRows
    repeated: RepeatedRows
    recalls: bool


def find_repeats(table: TrainingTable, recalls: bool) -> Repeats | None:
    """The repeated features of a table that a model should recognise; None if there are none.

    None if groups were given, too, since intervals are then those of a new group.

    Parameters
    ----------
    table : TrainingTable
    recalls : bool
        Whether the model may contain targets of training rows.
    """
    found = None if table.has_groups else find_seen(table.raw, table.y, table.weight, table.group is not None)
    if found is None or not (found[1].is_determined or recalls):
        return None
    return Repeats(*found, recalls)


def calibrate_on(model: FittedModel, rows: DistinctRows, by: str) -> FittedModel:
    """The model, calibrated on rows that no network was trained on; seen rows separately, if there are enough.

    Parameters
    ----------
    model : FittedModel
    rows : DistinctRows
    by : str
        A key of `usnrt.calibration.groups.METHODS`.
    """
    y, leaf, quantiles = model.target(rows.target), model.tree.leaf_of(rows.raw), model.predict(rows.raw).quantiles
    scores = conformity_scores(quantiles, y)
    is_seen = np.zeros(len(y), dtype=bool) if model.seen is None else model.seen.contains(rows.raw)
    # Seen rows that are too few for a group of their own are treated like the others.
    region = leaf if by == "region" else np.zeros_like(leaf)
    is_seen &= (np.bincount(region[is_seen], minlength=model.tree.n_leaves) >= MIN_REPEATED)[region]
    new = ~is_seen
    if not new.any():
        is_seen, new = new, is_seen
    groups = None if rows.group is None else rows.group[new]
    calibration = METHODS[by](ScoredRows(scores[new], leaf[new], rows.weight[new], groups), model.tree)
    if is_seen.any() and isinstance(calibration, GroupCalibration):
        seen = ScoredRows(scores[is_seen], leaf[is_seen], rows.weight[is_seen])
        calibration = calibration.with_seen(seen, MIN_REPEATED)
    model = replace(model, calibration=calibration)
    model = _with_better_mean(model, quantiles[new], leaf[new], y[new], rows.weight[new])
    return _with_point_masses(model, rows.target, rows.weight, leaf, quantiles)


def calibrate_by_validation(
    model: FittedModel,
    table: TrainingTable,
    validated: tuple[Rows, Floats, Floats],
    by: str,
    selection: float,
    repeats: Repeats | None,
) -> FittedModel:
    """The model, calibrated by conformity scores of validation rows; seen rows by those of repeated training rows.

    Parameters
    ----------
    model : FittedModel
    table : TrainingTable
    validated : tuple of ndarray of shape (m,)
        Validation rows, their conformity scores and their quantile functions, these of shape (m, n_positions).
    by : str
        A key of `usnrt.calibration.groups.METHODS`.
    selection : float
        How much smaller errors of validation rows are than those of new rows, see `usnrt.calibration.conformal`.
    repeats : Repeats or None
    """
    rows, scores, quantiles = validated
    leaf, weight = model.tree.leaf_of(table.raw[rows]), table.validation_weight[rows]
    group = None if table.group is None else table.group[rows]
    n_rows = table.n_rows if table.group is None else len(np.unique(table.group))
    scores = selection_factor(n_rows, selection) * scores
    within = 1.0 if group is None else _correlation_of(scores, group)
    inflation = sampling_factor(float(evidence(weight, group, within).sum()), n_rows)
    calibration = METHODS[by](ScoredRows(scores, leaf, weight, group, within, inflation), model.tree)
    calibrated = _with_better_mean(replace(model, calibration=calibration), quantiles, leaf, table.y[rows], weight)
    if repeats is None or not isinstance(calibrated.calibration, GroupCalibration):
        return calibrated
    seen, repeated = repeats.seen, repeats.repeated
    y, weight = table.y[repeated.rows], table.weight[repeated.rows]
    predicted = model.predict(table.raw[repeated.rows], Stage.NONE)
    quantiles = predicted.quantiles
    if repeats.recalls:
        seen = with_recall(seen, repeated, quantiles, y, weight)
        if not repeated.is_determined and seen.weight < MIN_RECALL:
            return calibrated
        quantiles = combined_with_recall(quantiles, repeated.recalled, seen.weight)
    else:
        seen = replace(seen, target=None)
    scored = ScoredRows(conformity_scores(quantiles, y), predicted.leaf, weight)
    return replace(calibrated, seen=seen, calibration=calibrated.calibration.with_seen(scored, MIN_REPEATED))


def _with_better_mean(
    model: FittedModel, quantiles: Floats, leaf: NDArray[np.int64], y: Floats, weight: Floats
) -> FittedModel:
    """The model with the better means; those of mapped targets and of the paper are those of their distributions."""
    calibration, has_normals = model.calibration, isinstance(model.trees, VarianceTree | PaperEnsemble)
    if model.target.target_map is not None or has_normals or not isinstance(calibration, GroupCalibration):
        return model
    return replace(model, calibration=calibration.with_better_mean(quantiles, leaf, y, weight))


def _correlation_of(scores: Floats, group: Rows) -> float:
    """How much rows of a group share, in location or spread; all, if there are too few groups to tell.

    Validation rows have no exactness to lose: their groups count by what their rows do share.
    """
    if len(np.unique(group)) < MIN_GROUPS:
        return 1.0
    return max(group_correlation(values, group) for values in (scores, np.abs(scores)))


# -- what depends on the target's units ---------------------------------------------------------------------------


def fit_target(model: FittedModel, table: TrainingTable, rows: Rows, target: Floats, quantiles: Floats) -> FittedModel:
    """The model with point masses at bounds, and residual moments of a logarithm, by validation rows.

    Parameters
    ----------
    model : FittedModel
    table : TrainingTable
    rows : ndarray of int of shape (m,)
        Validation rows.
    target : ndarray of shape (m,)
        In units of the target.
    quantiles : ndarray of shape (m, n_positions)
        By networks that were not trained on them.
    """
    raw, weight = table.raw[rows], table.weight[rows]
    leaf = model.tree.leaf_of(raw)
    model = _with_point_masses(model, target, weight, leaf, quantiles)
    if model.target.target_map is not None and model.target.target_map.log:
        mean = model.target.in_units(model.from_quantiles(leaf, quantiles)).mean()
        return model.with_tree(model.tree.with_residuals(raw, target - mean, weight))
    return model


def _with_point_masses(
    model: FittedModel, target: Floats, weight: Floats, leaf: NDArray[np.int64], quantiles: Floats
) -> FittedModel:
    """Fit the point masses at the bounds of the target to rows that no network was trained on."""
    target_map = model.target.target_map
    if target_map is None or not target_map.is_bounded or len(target) == 0:
        return model
    rows = np.arange(0, len(target), max(1, len(target) // MAX_MASS_ROWS))  # in the order of hashes: a sample
    dist = model.from_quantiles(leaf[rows], quantiles[rows]).scaled(model.target.mean, model.target.std)

    scale = target_map.scale

    def cdf(value: float) -> Floats:
        return dist.cdf(float(scale(np.array([value]))[0]))

    with_masses = with_point_masses(target_map, target[rows], weight[rows], cdf)
    return replace(model, target=replace(model.target, target_map=with_masses))
