"""What a model remembers of its training rows: enough to tell when it is judged on them.

A bottom-k sketch: the k smallest of the distinct row hashes. Hashes are as good as random numbers, so the rows of
another table whose hashes are in the sketch's range are a random sample of it, and the share of these that is in the
sketch estimates the share of rows that are training rows. A table of fewer than k distinct rows is known exactly.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usnrt.tables.rows import row_hashes

SKETCH_SIZE = 1024
# Standard errors by which a share must exceed one half before a model is said to be judged on its training rows.
MARGIN = 2.6


@dataclass(frozen=True)
class Fingerprint:
    """A sketch of a training table.

    Attributes
    ----------
    hashes : ndarray of uint64 of shape (k,)
        The smallest distinct row hashes, sorted; at most `SKETCH_SIZE`.
    repeated : float
        Share of the training rows that another training row equals. New rows of a table of few distinct values equal
        training rows by chance: about this share of them does (Good and Turing's estimate). A table that was given
        several times over counts as one.
    """

    hashes: NDArray[np.uint64]
    repeated: float

    def share_of(self, raw: NDArray[np.float64], y: NDArray[np.float64]) -> float:
        """The share of rows that are training rows, if it is more than half beyond chance; else 0.

        Parameters
        ----------
        raw : ndarray of shape (n, d)
            Encoded features.
        y : ndarray of shape (n,)
            Target in the user's units.

        Returns
        -------
        float
        """
        hashes, complete = row_hashes(raw, y), len(self.hashes) < SKETCH_SIZE
        asked = hashes if complete else hashes[hashes <= self.hashes[-1]]
        if len(asked) == 0:
            return 0.0
        share = float(np.isin(asked, self.hashes).mean())
        half = (1.0 + self.repeated) / 2  # half of the rows that do not equal training rows by chance
        exact = complete and self.repeated == 0
        margin = 0.0 if exact else MARGIN * np.sqrt(half * (1.0 - half) / len(asked))
        return share if share > half + margin else 0.0


def fingerprint(
    raw: NDArray[np.float64], y: NDArray[np.float64], weight: NDArray[np.float64] | None = None
) -> Fingerprint:
    """Sketch a training table; the order of its rows does not matter.

    Parameters
    ----------
    raw : ndarray of shape (n, d)
        Encoded features.
    y : ndarray of shape (n,)
        Target in the user's units.
    weight : ndarray of shape (n,), optional
        How often each row came, if copies were merged; weights that are not whole tell nothing of repetitions.

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
    distinct, place = np.unique(row_hashes(raw, y), return_inverse=True)
    whole = weight is not None and np.array_equal(weight, np.floor(weight))
    counts = np.bincount(place, weights=weight if whole else None).astype(np.int64)
    single = counts[counts == np.gcd.reduce(counts)].sum()
    return Fingerprint(distinct[:SKETCH_SIZE], float(1.0 - single / counts.sum()))
