"""The choice of the target's scale by small networks: on which scale they predict held-out rows better."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from usnrt.calibration.groups import uncalibrated
from usnrt.distributions import TargetMap
from usnrt.model.scaling import scale_rows
from usnrt.tables import TableEncoder
from usnrt.tables.training import DistinctRows, TreeRows
from usnrt.tree.fit import fit_quantile_tree
from usnrt.tree.recipe import QuantileTreeRecipe
from usnrt.utils.context import FitContext
from usnrt.utils.types import Floats

# Size of the probe: rows, hidden layers, epochs.
MAX_ROWS = 8000
HIDDEN, MAX_EPOCHS = (64, 32), 20
# The logarithm is chosen if it is better by this many standard errors of the difference, and by this share.
MIN_ERRORS, MIN_GAIN = 1.0, 0.005


def choose_map(
    rows: DistinctRows,
    encoder: TableEncoder,
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
    rows : DistinctRows
    encoder : TableEncoder
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
        further=(),
        models=(),
        network=True,
        split=replace(recipe.split, max_depth=0),
    )
    scores = [
        np.concatenate([_held_out_crps(probed, encoder, held_out, candidate, small, seed) for held_out in validates])
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
    rows: DistinctRows,
    encoder: TableEncoder,
    held_out: NDArray[np.bool_],
    candidate: TargetMap | None,
    recipe: QuantileTreeRecipe,
    seed: int,
) -> Floats:
    """CRPS of each row that is held out, in units of the target."""
    scaled = scale_rows(rows, encoder.columns_, candidate)
    given = TreeRows(scaled.table, scaled.inputs.numeric_, encoder.n_categories_, held_out)
    (quantiles,) = fit_quantile_tree(recipe, [given], [seed], FitContext(seed)).quantiles
    return scaled.target.in_units(uncalibrated(quantiles)).crps(rows.target[held_out])
