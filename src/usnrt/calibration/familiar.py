"""Familiar rows: new rows whose features training has seen before, in tables where that tells the target.

Copies of a row stay together in every split, so a validation row is never the copy of a training row, and its error is
that of a row with new features. In a table that repeats itself, as one does that photographs the same subjects again
and again, many new rows *are* copies, and models err less on them. Such rows are recognised by a hash of their
features and get a residual distribution of their own, from training rows that came more than once: what remains of
their copies when one is taken away has been trained on, just as the copies of a familiar row.

Equal features must have come with equal targets for this. A table that was given twice, or whole weights, make all
training rows look so; but new rows with new features are not familiar, and nothing changes for them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usnrt.tables.rows import row_hashes

# Rows that came more than once must make up this share of the table and be so many to calibrate by; and of those
# whose features came more than once, this share must have had the same target each time.
MIN_SHARE, MIN_REPEATED, MIN_DETERMINED = 0.05, 100, 0.9


@dataclass(frozen=True)
class Familiar:
    """The features that training has seen.

    Attributes
    ----------
    hashes : ndarray of uint64 of shape (m,)
        Of the distinct features, sorted.
    """

    hashes: NDArray[np.uint64]

    def holds(self, raw: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether training has seen the features of each row, shape (n,).

        Parameters
        ----------
        raw : ndarray of shape (n, d)
            Encoded rows.

        Examples
        --------
        >>> import numpy as np
        >>> from usnrt.calibration.familiar import Familiar, feature_hashes
        >>> familiar = Familiar(np.sort(feature_hashes(np.array([[1.0, np.nan], [2.0, 0.0]]))))
        >>> familiar.holds(np.array([[2.0, -0.0], [2.0, 1.0], [1.0, np.nan]]))
        array([ True, False,  True])
        """
        hashes = feature_hashes(raw)
        place = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return self.hashes[place] == hashes


def feature_hashes(raw: NDArray[np.float64]) -> NDArray[np.uint64]:
    """A 64-bit hash of the features of each row, shape (n,)."""
    return row_hashes(raw, np.zeros(len(raw)))


def find_familiar(raw: NDArray[np.float64], weight: NDArray[np.float64]) -> tuple[Familiar | None, NDArray[np.intp]]:
    """The features of a table, if it repeats itself, and the rows that came more than once.

    Parameters
    ----------
    raw : ndarray of shape (n, d)
        Features of distinct rows, as from `usnrt.tables.rows.merged_rows`.
    weight : ndarray of shape (n,)
        How often each came.

    Returns
    -------
    familiar : Familiar or None
        None if too few rows repeat, or if equal features came with different targets.
    rows : ndarray of int
        Row numbers; none in that case.
    """
    hashes, place, n_targets = np.unique(feature_hashes(raw), return_inverse=True, return_counts=True)
    total = np.bincount(place, weights=weight)
    repeats, determined = total >= 2.0, n_targets == 1
    repeated_weight = total[repeats].sum()
    rows = np.flatnonzero((repeats & determined)[place])
    if (
        repeated_weight < MIN_SHARE * weight.sum()
        or total[repeats & determined].sum() < MIN_DETERMINED * repeated_weight
        or len(rows) < MIN_REPEATED
    ):
        return None, np.zeros(0, dtype=np.intp)
    return Familiar(hashes), rows
