"""The encoded training data."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class TrainingTable:
    """Encoded training data: distinct rows in canonical order, the target scaled to mean 0 and std 1.

    Attributes
    ----------
    raw : ndarray of shape (n, d), float64
        Split features: unscaled numbers, category codes, NaN for missing values.
    inputs : ndarray of shape (n, p), float32
        Network inputs: scaled numbers and one-hot categories.
    y : ndarray of shape (n,)
        Scaled target.
    weight : ndarray of shape (n,)
        Weight of each row; copies were merged, see `usnrt.tables.rows`.
    """

    raw: NDArray[np.float64]
    inputs: NDArray[np.float32]
    y: NDArray[np.float64]
    weight: NDArray[np.float64]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)
