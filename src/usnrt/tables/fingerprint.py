"""A sketch of the training rows, which detects evaluation on training data.

A bottom-k sketch: the k smallest of the distinct row hashes. Hashes behave like random numbers, so the rows of another
table whose hashes fall in the range of the sketch are a random sample of it, and the share of these found in the sketch
estimates the share of training rows. The sketch of a table with fewer than k distinct rows is exact.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usnrt.tables.rows import row_hashes

SKETCH_SIZE = 1024
# Standard errors by which a share must exceed one half before rows are reported as training rows.
MARGIN = 2.6


@dataclass(frozen=True)
class Fingerprint:
    """A sketch of a training table.

    Attributes
    ----------
    hashes : ndarray of uint64 of shape (k,)
        The smallest distinct row hashes, sorted; at most `SKETCH_SIZE`.
    repeated : float
        Share of the training rows that duplicate another training row. In a table with few distinct values about this
        share of new rows equals a training row by chance (Good-Turing estimate). A table repeated as a whole has no
        duplicates in this sense.
    """

    hashes: NDArray[np.uint64]
    repeated: float

    def share_of(self, raw: NDArray[np.float64], y: NDArray[np.float64]) -> float:
        """Share of rows that are training rows if it significantly exceeds one half beyond chance; else 0.

        Parameters
        ----------
        raw : ndarray of shape (n, d)
            Encoded features.
        y : ndarray of shape (n,)
            Unscaled target.

        Returns
        -------
        float
        """
        hashes, complete = row_hashes(raw, y), len(self.hashes) < SKETCH_SIZE
        sample = hashes if complete else hashes[hashes <= self.hashes[-1]]
        if len(sample) == 0:
            return 0.0
        share = float(np.isin(sample, self.hashes).mean())
        half = (1.0 + self.repeated) / 2  # half of the rows that do not equal training rows by chance
        exact = complete and self.repeated == 0
        margin = 0.0 if exact else MARGIN * np.sqrt(half * (1.0 - half) / len(sample))
        return share if share > half + margin else 0.0


def fingerprint(
    raw: NDArray[np.float64], y: NDArray[np.float64], weight: NDArray[np.float64] | None = None
) -> Fingerprint:
    """Sketch a training table, independently of the order of its rows.

    Parameters
    ----------
    raw : ndarray of shape (n, d)
        Encoded features.
    y : ndarray of shape (n,)
        Unscaled target.
    weight : ndarray of shape (n,), optional
        Number of copies of each row, if copies were merged; fractional weights are ignored.

    Returns
    -------
    Fingerprint

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.tables.fingerprint import fingerprint
    >>> raw, y = np.arange(10.0).reshape(-1, 1), np.zeros(10)
    >>> fingerprint(raw, y).share_of(raw[::-1], y)
    1.0
    >>> fingerprint(raw, y).share_of(raw + 0.5, y)
    0.0
    """
    distinct, index = np.unique(row_hashes(raw, y), return_inverse=True)
    integral = weight is not None and np.array_equal(weight, np.floor(weight))
    counts = np.bincount(index, weights=weight if integral else None).astype(np.int64)
    single = counts[counts == np.gcd.reduce(counts)].sum()
    return Fingerprint(distinct[:SKETCH_SIZE], float(1.0 - single / counts.sum()))
