"""Which rows of a table train, validate and calibrate a model."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usnrt.model.ensembles import draw_folds
from usnrt.tables.groups import draw_groups
from usnrt.tables.roles import CALIBRATION, VALIDATION, RowRoles, units_of
from usnrt.tables.store import RowStore
from usnrt.tables.time import is_latest
from usnrt.tables.training import DistinctRows

# Tables with fewer rows have no validation rows; all rows then serve both purposes.
MIN_ROWS_TO_VALIDATE = 5


@dataclass(frozen=True)
class FitRows:
    """The rows of a fit and their roles.

    Attributes
    ----------
    rows : DistinctRows
        Training and validation rows.
    is_validation : ndarray of bool of shape (n_members, n)
        Rows that each member is not trained on.
    calibration : DistinctRows or None
        Rows for calibration only; they affect nothing else.
    store : tuple of RowStore and RowRoles, or None
        Of all rows, if ``rows`` are a sample of a table larger than memory.
    """

    rows: DistinctRows
    is_validation: NDArray[np.bool_]
    calibration: DistinctRows | None = None
    store: tuple[RowStore, RowRoles] | None = None


def draw_calibration_rows(
    rows: DistinctRows, fraction: float, rng: np.random.Generator
) -> tuple[DistinctRows, DistinctRows | None]:
    """Rows to fit on, and calibration rows; with a time column, these are the latest.

    Parameters
    ----------
    rows : DistinctRows
    fraction : float
        Of calibration rows; None of them for 0.
    rng : numpy.random.Generator
    """
    n_calibration = round(fraction * rows.n_rows)
    if n_calibration == 0:
        return rows, None
    if rows.time is not None:
        is_drawn = is_latest(rows.time, n_calibration)
    elif rows.group is not None:
        is_drawn = draw_groups(rows.group, n_calibration, rows.n_rows, rng)
    else:
        calibration, rest = np.split(rng.permutation(rows.n_rows), [n_calibration])
        return rows.take(np.sort(rest)), rows.take(calibration)
    return rows.take(np.flatnonzero(~is_drawn)), rows.take(np.flatnonzero(is_drawn))


def draw_validation_rows(rows: DistinctRows, fraction: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Mark the validation rows of one tree: groups drawn at random, or the latest rows with a time column.

    Returns
    -------
    ndarray of bool of shape (n,)
        All False for fewer than 5 rows.
    """
    is_validation = np.zeros(rows.n_rows, dtype=bool)
    if rows.n_rows < MIN_ROWS_TO_VALIDATE:
        return is_validation
    n_validation = round(fraction * rows.n_rows)
    if rows.time is not None:
        return is_latest(rows.time, n_validation)
    return draw_groups(rows.group, n_validation, rows.n_rows, rng)


def draw_members_rows(
    rows: DistinctRows, fraction: float, n_members: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Mark the validation rows of each member of an ensemble: folds, or the latest rows with a time column.

    Returns
    -------
    ndarray of bool of shape (n_members, n)
    """
    if rows.time is not None:
        return np.tile(draw_validation_rows(rows, fraction, rng), (n_members, 1))
    if rows.group is not None:
        labels, index = np.unique(rows.group, return_inverse=True)
        if len(labels) < n_members:
            raise ValueError(f"groups must have at least n_estimators={n_members} different labels, got {len(labels)}")
        return draw_folds(len(labels), n_members, rng)[:, index]
    if rows.n_rows >= 4 * n_members:
        return draw_folds(rows.n_rows, n_members, rng)
    return np.zeros((n_members, rows.n_rows), dtype=bool)


def roles_in_store(store: RowStore, sample: DistinctRows, validation: float, calibration: float, seed: int) -> FitRows:
    """The rows of a sample of a store; in the store, the hash of a row, or of its group, tells its role.

    Parameters
    ----------
    store : RowStore
    sample : DistinctRows
        Its first rows.
    validation, calibration : float
        Shares of the rows.
    seed : int
    """
    units = units_of(sample, store.row_hashes(0, sample.n_rows))
    roles = RowRoles.balanced(seed, validation, calibration, units)
    role = roles.of(units)
    is_kept = role != CALIBRATION
    calibration_rows = sample.take(np.flatnonzero(~is_kept)) if not is_kept.all() else None
    rows = sample.take(np.flatnonzero(is_kept))
    return FitRows(rows, (role[is_kept] == VALIDATION)[None], calibration_rows, (store, roles))
