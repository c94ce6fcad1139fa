"""The rows that models learn from: distinct rows as they were given, and the same rows scaled for networks."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
    """

    raw: Floats
    target: Floats
    weight: Floats
    position: Rows
    time: Floats | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.target)

    def take(self, rows: Rows) -> "DistinctRows":
        """Some of the rows."""
        time = None if self.time is None else self.time[rows]
        return DistinctRows(take_rows(self.raw, rows), self.target[rows], self.weight[rows], self.position[rows], time)


def take_rows(raw: Floats, rows: Rows) -> Floats:
    """Some rows of a table in Fortran order, block by block: indexing all of them at once would copy them twice.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.tables.training import take_rows
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
    """

    raw: Floats
    inputs: NDArray[np.float32]
    y: Floats
    weight: Floats
    is_recalled: bool = False

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
