"""Familiar rows: new rows with the features of a training row, in tables where these determine the target.

Copies of a row stay together in every split, so a validation row is never a copy of a training row, and its error is
that of a row with new features. In tables with many duplicates, such as repeated measurements of the same subjects,
many new rows *are* copies of training rows, and their errors are smaller. Such rows are recognised by a hash of their
features and get a residual distribution of their own, estimated from training rows with duplicates: like a familiar
row, each of them has copies that were trained on.

This requires that equal features have equal targets. A table passed twice, or integer weights, make all training rows
duplicates; but new rows with new features are not familiar, and nothing changes for them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usnrt.tables.rows import row_hashes

# Minimal share of duplicates in the table, minimal number of duplicates to calibrate by, and minimal share of the rows
# with duplicated features whose targets agree.
MIN_SHARE, MIN_REPEATED, MIN_DETERMINED = 0.05, 100, 0.9


@dataclass(frozen=True)
class Familiar:
    """The feature vectors of the training rows.

    Attributes
    ----------
    hashes : ndarray of uint64 of shape (m,)
        Sorted hashes of the distinct feature vectors.
    """

    hashes: NDArray[np.uint64]

    def holds(self, raw: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether each row has the features of a training row, shape (n,).

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
        index = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return np.asarray(self.hashes[index] == hashes)


def feature_hashes(raw: NDArray[np.float64]) -> NDArray[np.uint64]:
    """64-bit hash of the features of each row, shape (n,)."""
    return row_hashes(raw, np.zeros(len(raw)))


def find_familiar(raw: NDArray[np.float64], weight: NDArray[np.float64]) -> tuple[Familiar | None, NDArray[np.intp]]:
    """The features of a table with many duplicates, and the indices of its duplicated rows.

    Parameters
    ----------
    raw : ndarray of shape (n, d)
        Features of distinct rows, as from `usnrt.tables.rows.merged_rows`.
    weight : ndarray of shape (n,)
        Number of copies of each row.

    Returns
    -------
    familiar : Familiar or None
        None if there are too few duplicates, or if equal features often have different targets.
    rows : ndarray of int
        Indices of the duplicated rows; empty in that case.
    """
    hashes, index, n_targets = np.unique(feature_hashes(raw), return_inverse=True, return_counts=True)
    total = np.bincount(index, weights=weight)
    repeats, determined = total >= 2.0, n_targets == 1
    repeated_weight = total[repeats].sum()
    rows = np.flatnonzero((repeats & determined)[index])
    if (
        repeated_weight < MIN_SHARE * weight.sum()
        or total[repeats & determined].sum() < MIN_DETERMINED * repeated_weight
        or len(rows) < MIN_REPEATED
    ):
        return None, np.zeros(0, dtype=np.intp)
    return Familiar(hashes), rows
