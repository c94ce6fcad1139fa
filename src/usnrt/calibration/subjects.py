"""Subjects unlike those of the training rows, by the attributes that all rows of a subject share."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usnrt.calibration.landmarks import Landmarks

# With fewer subjects their distances from each other say little of those of others.
MIN_SUBJECTS = 20


@dataclass(frozen=True)
class Subjects:
    """The numeric columns that are constant within every group of training rows, and one row of each group.

    Among all rows a new subject is as near as the values that vary within subjects are wide; here subjects are compared
    with subjects.

    Attributes
    ----------
    columns : ndarray of int of shape (k,)
    landmarks : Landmarks
        Of the groups, in these columns.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.calibration.subjects import Subjects
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(np.arange(100), 5)
    >>> raw = np.column_stack([rng.normal(size=(100, 2))[group], rng.normal(scale=9.0, size=500)])
    >>> subjects = Subjects.fit(raw, np.zeros(3, dtype=bool), group)
    >>> subjects.columns, subjects.excess(np.array([[0.0, 0.0, 50.0], [6.0, -6.0, 0.0]])) > 0
    (array([0, 1]), array([False,  True]))
    """

    columns: NDArray[np.int64]
    landmarks: Landmarks

    @classmethod
    def fit(
        cls, raw: NDArray[np.float64], categorical: NDArray[np.bool_], group: NDArray[np.intp]
    ) -> "Subjects | None":
        """Find the columns and the groups; None without such columns, or with fewer than `MIN_SUBJECTS` groups.

        Parameters
        ----------
        raw : ndarray of shape (n, d)
            Encoded rows in canonical order.
        categorical : ndarray of bool of shape (d,)
        group : ndarray of int of shape (n,)

        Returns
        -------
        Subjects or None
        """
        first, index = np.unique(group, return_index=True, return_inverse=True)[1:]
        numeric = np.flatnonzero(~categorical)
        shared = [j for j in numeric if np.array_equal(raw[:, j], raw[first[index], j], equal_nan=True)]
        if len(first) < MIN_SUBJECTS or not shared:
            return None
        # in the order of the rows, which is random: groups are numbered by their labels
        return cls(np.array(shared, dtype=np.int64), Landmarks.fit(raw[np.sort(first)][:, shared]))

    def excess(self, raw: NDArray[np.float64], n_threads: int = 1) -> NDArray[np.float64]:
        """`Landmarks.excess` of the subject of each row, shape (n,).

        Parameters
        ----------
        raw : ndarray of shape (n, d)
        n_threads : int, default=1
        """
        return self.landmarks.excess(raw, self.columns, n_threads)
