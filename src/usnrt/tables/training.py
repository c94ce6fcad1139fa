"""The rows that models learn from: distinct rows as they were given, and the same rows scaled for networks."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usnrt.utils.types import Floats, Rows


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
    """

    raw: Floats
    target: Floats
    weight: Floats

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.target)

    def take(self, rows: Rows) -> "DistinctRows":
        """Some of the rows."""
        return DistinctRows(np.asfortranarray(self.raw[rows]), self.target[rows], self.weight[rows])

    def repeated(self) -> "DistinctRows":
        """Each row as often as its weight says, if all weights are whole numbers; else the rows themselves.

        Examples
        --------
        >>> import numpy as np
        >>> from usnrt.tables.training import DistinctRows
        >>> rows = DistinctRows(np.array([[1.0], [2.0]]), np.array([5.0, 6.0]), np.array([1.0, 2.0]))
        >>> rows.repeated().target
        array([5., 6., 6.])
        """
        if not np.array_equal(self.weight, np.floor(self.weight)):
            return self
        copies = self.take(np.repeat(np.arange(self.n_rows), self.weight.astype(np.int64)))
        return DistinctRows(copies.raw, copies.target, np.ones(copies.n_rows))


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
    """

    raw: Floats
    inputs: NDArray[np.float32]
    y: Floats
    weight: Floats

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)
