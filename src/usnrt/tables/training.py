"""The rows that models learn from: distinct rows as they were given, and the same rows scaled for networks."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usnrt.tables.form import TableForm
from usnrt.tables.groups import feature_groups
from usnrt.tables.rows import merged_rows
from usnrt.utils.types import Floats, Rows

BLOCK = 8192  # rows copied at a time


@dataclass(frozen=True)
class DistinctRows:
    """Distinct rows of a table, encoded, in an order that depends on their content only.

    Attributes
    ----------
    raw : ndarray of shape (n, d), float64
        Split features: numbers as they are, categories as codes, NaN where missing.
    target : ndarray of shape (n,)
        In the user's units.
    weight : ndarray of shape (n,)
        How often each row counts. Copies were merged, see `usnrt.tables.rows`.
    position : ndarray of int of shape (n,)
        Of the first copy of each row in the table that was given.
    time : ndarray of shape (n,) or None
        If the table has a time column.
    group : ndarray of int of shape (n,) or None
        Rows that belong together, see `usnrt.tables.groups`; None if each row is on its own.
    has_groups : bool
        Whether the groups were given; otherwise they are rows with equal features.
    """

    raw: Floats
    target: Floats
    weight: Floats
    position: Rows
    time: Floats | None = None
    group: Rows | None = None
    has_groups: bool = False

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.target)

    @property
    def apart(self) -> Floats | None:
        """What keeps copies of a row apart: times, or groups that were given."""
        return self.group.astype(np.float64) if self.has_groups and self.group is not None else self.time

    def take(self, rows: Rows) -> "DistinctRows":
        """Some of the rows."""
        time = None if self.time is None else self.time[rows]
        group = None if self.group is None else self.group[rows]
        raw, target, weight = take_rows(self.raw, rows), self.target[rows], self.weight[rows]
        return DistinctRows(raw, target, weight, self.position[rows], time, group, self.has_groups)


def distinct_rows(
    raw: Floats, target: Floats, weight: Floats, time: Floats | None = None, groups: Rows | None = None
) -> DistinctRows:
    """Merge equal rows; those of different times or groups stay apart, and rows of weight 0 are dropped.

    Without times and groups, rows with equal features are a group (`usnrt.tables.groups.feature_groups`).

    Examples
    --------
    >>> raw, target = np.array([[1.0], [1.0], [2.0]]), np.array([3.0, 3.0, 4.0])
    >>> distinct_rows(raw, target, np.ones(3)).n_rows
    2
    >>> distinct_rows(raw, target, np.ones(3), groups=np.arange(3)).n_rows
    3
    """
    apart = time if groups is None else groups.astype(np.float64)
    rows, weight = merged_rows(raw, target, weight, apart=apart)
    raw, target = take_rows(raw, rows), target[rows]
    if time is not None:
        return DistinctRows(raw, target, weight, rows, time[rows])
    group = feature_groups(raw) if groups is None else groups[rows]
    return DistinctRows(raw, target, weight, rows, group=group, has_groups=groups is not None)


def take_rows(raw: Floats, rows: Rows) -> Floats:
    """Some rows of a table in Fortran order, block by block: indexing all of them at once would copy them twice.

    Examples
    --------
    >>> take_rows(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1]))
    array([[3., 4.]])
    """
    taken = np.empty((len(rows), raw.shape[1]), order="F")
    for start in range(0, len(rows), BLOCK):
        taken[start : start + BLOCK] = raw[rows[start : start + BLOCK]]
    return taken


@dataclass(frozen=True)
class TrainingTable:
    """Rows that networks learn from, the target scaled to mean 0 and standard deviation 1.

    Attributes
    ----------
    raw : ndarray of shape (n, d), float64
        Split features.
    inputs : ndarray of shape (n, p), float32
        Network inputs: scaled numbers and one-hot categories.
    y : ndarray of shape (n,)
        Scaled target.
    weight : ndarray of shape (n,)
        How often each row counts.
    is_recalled : bool
        Whether the model recalls the targets of copies of training rows, so that only rows with new features depend on
        what validation rows choose.
    group, has_groups
        See `DistinctRows`.
    """

    raw: Floats
    inputs: NDArray[np.float32]
    y: Floats
    weight: Floats
    is_recalled: bool = False
    group: Rows | None = None
    has_groups: bool = False

    @property
    def validation_weight(self) -> Floats:
        """How much each row counts as a validation row, shape (n,).

        Rows with many copies are typical of copies, not of rows with new features: if copies are recalled, each row
        counts once.
        """
        return np.ones(self.n_rows) if self.is_recalled else self.weight

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)


@dataclass(frozen=True)
class GivenRows:
    """The rows of a table as their user gave them, for models of the user."""

    form: TableForm  # turns encoded rows back into the user's table
    target: Floats  # shape (n,); what models of the user learn
    # center, unit: the scaled target is ``(target - center) / unit``
    center: float
    unit: float


@dataclass(frozen=True)
class TreeRows:
    """The rows that a tree and its experts are fitted to."""

    table: TrainingTable
    numeric: NDArray[np.int64]  # positions of the network inputs that hold numbers
    n_categories: NDArray[np.int64]  # shape (d,); number of categories of each column, 0 for numbers
    # shape (n,); the validation rows of the whole tree; trees of the paper draw their own
    is_validation: NDArray[np.bool_]
    given: GivenRows | None = None  # the same rows for models of the user, if there are any
    # positions of the network inputs that are worth learning from, strictly ascending; None for all
    relevant: Rows | None = None

    @property
    def training(self) -> Rows:
        """The rows that are no validation rows."""
        return np.flatnonzero(~self.is_validation)
