"""Rows before a fit: sample weights as repetitions, equal rows merged, an order that depends on contents only.

Weighting a row by 2 and giving it twice must be the same thing, bit for bit, and so must the same table in another
order. Both follow if equal rows are merged (their weights added) and the rest is put in an order of its own.
"""

import numpy as np
from numpy.typing import NDArray

_MIX = np.uint64(0x9E3779B97F4A7C15)


def merge_equal_rows(
    raw: NDArray[np.float64], y: NDArray[np.float64], weight: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Find one representative of each group of equal rows and add up their weights.

    Rows of weight 0 are left out. The order of the result depends on what the rows hold, not on where they stood.

    Parameters
    ----------
    raw : ndarray of shape (n, d)
        May hold NaN for missing values, which equal each other here.
    y, weight : ndarray of shape (n,)

    Returns
    -------
    rows : ndarray of int, shape (m,)
        Row numbers of the representatives.
    weight : ndarray of shape (m,)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.rows import merge_equal_rows
    >>> raw = np.array([[1.0], [2.0], [1.0], [3.0]])
    >>> rows, weight = merge_equal_rows(raw, np.array([5.0, 6.0, 5.0, 7.0]), np.array([1.0, 1.0, 2.0, 0.0]))
    >>> sorted(zip(raw[rows, 0].tolist(), weight.tolist()))
    [(1.0, 3.0), (2.0, 1.0)]
    """
    kept = np.flatnonzero(weight > 0)
    hashes = _hash(y[kept], np.zeros(len(kept), dtype=np.uint64))
    for column in range(raw.shape[1]):
        hashes = _hash(raw[kept, column], hashes)
    # The target breaks the rare tie of two hashes; what is still tied then is looked at in full.
    order = np.lexsort((y[kept], hashes))
    rows, hashes = kept[order], hashes[order]
    candidates = np.flatnonzero(hashes[1:] == hashes[:-1])
    same = np.zeros(len(rows), dtype=bool)
    if len(candidates):
        a, b = rows[candidates], rows[candidates + 1]
        equal = y[a] == y[b]
        for column in range(raw.shape[1]):
            left, right = raw[a, column], raw[b, column]
            equal &= (left == right) | (np.isnan(left) & np.isnan(right))
        same[candidates + 1] = equal
    group = np.cumsum(~same) - 1
    return rows[~same], np.bincount(group, weights=weight[rows])


def counted_weight(sample_weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights as counts: whole numbers are repetitions as they are, others are scaled to average 1.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.rows import counted_weight
    >>> counted_weight(np.array([1.0, 3.0]))
    array([1., 3.])
    >>> counted_weight(np.array([0.25, 0.75]))
    array([0.5, 1.5])
    """
    if np.array_equal(sample_weight, np.floor(sample_weight)):
        return sample_weight
    return sample_weight / sample_weight[sample_weight > 0].mean()


def draw_validation(
    rows: NDArray[np.intp], fraction: float, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Part rows at random into those to train on and those that early stopping looks at.

    Fewer than 5 rows all train.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.rows import draw_validation
    >>> train, valid = draw_validation(np.arange(10), 0.2, np.random.default_rng(0))
    >>> len(train), len(valid)
    (8, 2)
    """
    n_valid = round(fraction * len(rows)) if len(rows) >= 5 else 0
    shuffled = rng.permutation(rows)
    return np.sort(shuffled[n_valid:]), np.sort(shuffled[:n_valid])


def _hash(values: NDArray[np.float64], seed: NDArray[np.uint64]) -> NDArray[np.uint64]:
    # + 0.0 turns -0.0 into 0.0; all NaNs become one
    bits = np.where(np.isnan(values), np.nan, values + 0.0).view(np.uint64)
    mixed = (bits ^ (seed + _MIX)) * _MIX
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return mixed ^ (mixed >> np.uint64(32))
