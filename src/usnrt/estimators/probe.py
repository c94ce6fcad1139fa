"""The choice of the target's scale by small networks: on which scale they predict held-out rows better."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from usnrt.distributions import TargetMap
from usnrt.tables.training import DistinctRows
from usnrt.tree.fit import ColumnKinds, fit_quantile_tree
from usnrt.tree.recipe import QuantileTreeRecipe
from usnrt.utils.progress import Progress
from usnrt.utils.types import Floats

if TYPE_CHECKING:
    from usnrt.estimators.calibrated import CalibratedRegressor

# Size of the probe: rows, hidden layers, epochs.
MAX_ROWS = 8000
HIDDEN, MAX_EPOCHS = (64, 32), 20
# The logarithm is chosen if it is better by this many standard errors of the difference, and by this share.
MIN_ERRORS, MIN_GAIN = 1.0, 0.005


def choose_map(
    model: "CalibratedRegressor",
    rows: DistinctRows,
    is_validation: NDArray[np.bool_],
    candidates: list[TargetMap | None],
    recipe: QuantileTreeRecipe,
    seed: int,
) -> TargetMap | None:
    """The map with the smaller CRPS of held-out rows, in units of the target, by small networks without regions.

    Two networks, each trained on one half of the rows and judged on the other: the CRPS of skewed targets depends on
    few large ones, so that many rows have to judge. With a time column, validation rows judge.

    Parameters
    ----------
    model : CalibratedRegressor
        Its scaling is set by the probe, and has to be set again.
    rows : DistinctRows
    is_validation : ndarray of bool of shape (n,)
    candidates : list of TargetMap or None
        The simplest one first: the others have to be significantly better.
    recipe : QuantileTreeRecipe
    seed : int

    Returns
    -------
    TargetMap or None
    """
    if len(candidates) == 1 or not is_validation.any():
        return candidates[0]
    chosen = np.arange(rows.n_rows)[:: max(1, -(-rows.n_rows // MAX_ROWS))]
    probed, validates = rows.take(chosen), [is_validation[chosen]]
    if rows.time is None:
        is_odd = np.arange(len(chosen)) % 2 == 1  # rows are in the order of hashes: halves at random
        validates = [is_odd, ~is_odd]
    small = replace(
        recipe,
        hidden=HIDDEN,
        max_epochs=min(MAX_EPOCHS, recipe.max_epochs),
        memory=False,
        split=replace(recipe.split, max_depth=0),
    )
    scores = [
        np.concatenate([_held_out_crps(model, probed, held_out, candidate, small, seed) for held_out in validates])
        for candidate in candidates
    ]
    weight = np.concatenate([probed.weight[held_out] for held_out in validates])
    best, weight = 0, weight / weight.sum()
    for number in range(1, len(candidates)):
        gain = scores[best] - scores[number]
        mean = float((weight * gain).sum())
        error = float(np.sqrt((weight**2 * (gain - mean) ** 2).sum()))
        is_better = mean > max(MIN_ERRORS * error, MIN_GAIN * float((weight * scores[best]).sum()))
        best = number if is_better else best
    return candidates[best]


def _held_out_crps(
    model: "CalibratedRegressor",
    rows: DistinctRows,
    held_out: NDArray[np.bool_],
    candidate: TargetMap | None,
    recipe: QuantileTreeRecipe,
    seed: int,
) -> Floats:
    """CRPS of each row that is held out, in units of the target."""
    model.target_map_ = candidate
    table = model._scaled_table(rows)
    columns = ColumnKinds(model.inputs_.numeric_, model.encoder_.n_categories_)
    fitted = fit_quantile_tree(recipe, table, columns, held_out, seed, 1, Progress(0, None, table.n_rows))
    model.calibration_, model.own_mean_ = None, True
    leaf = np.zeros(len(fitted.validation_rows), dtype=np.int64)
    scaled = model._from_quantiles(leaf, np.zeros(len(leaf)), fitted.quantiles)
    return model._in_units(scaled).crps(rows.target[fitted.validation_rows])
