"""Which rows of a table train, validate and calibrate a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from usnrt.tables.groups import draw_groups
from usnrt.tables.roles import CALIBRATION, VALIDATION, RowRoles, is_latest, units_of
from usnrt.tables.store import RowStore
from usnrt.tables.training import DistinctRows
from usnrt.tree.recipe import QuantileTreeRecipe

# Tables with fewer rows have no validation rows; all rows then serve both purposes.
MIN_ROWS_TO_VALIDATE = 5
# Tables of at most this many rows are cross-fitted, see docs/recipe.md; a fold has at least this many rows, or groups.
MAX_ROWS_TO_CROSS_FIT, MIN_UNITS_OF_FOLD = 5000, 4
N_FOLDS = 6
# Share of the rows that two folds hold out: the disagreement of networks shows on rows that neither trained on.
PAIRED = 0.25


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


def draw_validation_rows(
    rows: DistinctRows, recipe: QuantileTreeRecipe, n_members: int | None, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Mark the rows that each network is not trained on.

    Small tables are cross-fitted: every row is held out by some network. So are ensembles. Otherwise, and with a time
    column, a part of the rows is held out: groups drawn at random, or the latest rows.

    Parameters
    ----------
    rows : DistinctRows
    recipe : QuantileTreeRecipe
        Its number of folds, and the share of the rows that are held out where there are none.
    n_members : int or None
        Of an ensemble; None for a single tree. A member of an ensemble that is cross-fitted is several networks.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of bool of shape (n_networks, n)
        All False for fewer than 5 rows.
    """
    index, n_units = np.arange(rows.n_rows), rows.n_rows
    if rows.group is not None:
        labels, index = np.unique(rows.group, return_inverse=True)
        n_units = len(labels)
    n_folds = recipe.n_folds if recipe.network else 1
    if n_folds is None:
        is_small = rows.n_rows <= MAX_ROWS_TO_CROSS_FIT and n_units >= MIN_UNITS_OF_FOLD * N_FOLDS
        n_folds = N_FOLDS if is_small else 1
    _check_units(rows, n_units, {"validation": n_folds, "n_estimators": n_members or 1})
    if rows.time is None and n_folds > 1:
        paired = PAIRED if n_members is None else 0.0
        draws = [draw_folds(n_units, n_folds, rng, paired)[:, index] for _ in range(n_members or 1)]
        return np.concatenate(draws)
    if rows.time is None and n_members is not None and n_units >= MIN_UNITS_OF_FOLD * n_members:
        return draw_folds(n_units, n_members, rng)[:, index]
    is_validation = np.zeros(rows.n_rows, dtype=bool)
    n_validation = round(recipe.tested_fraction * rows.n_rows)
    if rows.n_rows >= MIN_ROWS_TO_VALIDATE and rows.time is not None:
        is_validation = is_latest(rows.time, n_validation)
    elif rows.n_rows >= MIN_ROWS_TO_VALIDATE:
        is_validation = draw_groups(rows.group, n_validation, rows.n_rows, rng)
    return np.tile(is_validation, (n_members or 1, 1))


def _check_units(rows: DistinctRows, n_units: int, needed: Mapping[str, int]) -> None:
    """Raise a ValueError if there are fewer groups than folds, or fewer rows; small ensembles may do without folds."""
    for name, number in needed.items():
        if rows.group is not None and n_units < number:
            raise ValueError(f"groups must have at least {name}={number} different labels, got {n_units}")
        if name == "validation" and n_units < number:
            raise ValueError(f"X must have at least {name}={number} rows, got {n_units}")


def draw_folds(n_rows: int, n_folds: int, rng: np.random.Generator, paired: float = PAIRED) -> NDArray[np.bool_]:
    """Rows that each network is not trained on: every row is held out by one, a share of them by two.

    Parameters
    ----------
    n_rows, n_folds : int
    rng : numpy.random.Generator
    paired : float, default=0.25

    Returns
    -------
    ndarray of bool of shape (n_folds, n_rows)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.model.roles import draw_folds
    >>> is_validation = draw_folds(1000, 5, np.random.default_rng(0))
    >>> is_validation.sum(axis=1)
    array([250, 250, 250, 250, 250])
    >>> np.bincount(is_validation.sum(axis=0))
    array([  0, 750, 250])
    """
    is_validation = np.zeros((n_folds, n_rows), dtype=bool)
    shuffled = rng.permutation(n_rows)
    n_paired = round(paired * n_rows)
    pairs = list(combinations(range(n_folds), 2))
    for pair, row_group in zip(pairs, np.array_split(shuffled[:n_paired], len(pairs))):
        is_validation[np.array(pair)[:, None], row_group] = True
    for member, row_group in enumerate(np.array_split(shuffled[n_paired:], n_folds)):
        is_validation[member, row_group] = True
    return is_validation


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
