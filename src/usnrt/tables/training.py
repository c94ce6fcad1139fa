"""The table that models learn from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class TrainingTable:
    """A table ready to learn from: rows in an order of their own, the target scaled to mean 0 and std 1.

    Attributes
    ----------
    raw : ndarray of shape (n, d), float64
        Numbers as they are, categories as codes, NaN where missing: what splits look at.
    inputs : ndarray of shape (n, p), float32
        Scaled numbers and one-hot categories: what networks look at.
    y : ndarray of shape (n,)
        Scaled target.
    weight : ndarray of shape (n,)
        How often each row counts. Rows are distinct: copies were merged, see `usnrt.tables.rows`.
    """

    raw: NDArray[np.float64]
    inputs: NDArray[np.float32]
    y: NDArray[np.float64]
    weight: NDArray[np.float64]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)
