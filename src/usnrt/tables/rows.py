"""Distinct rows: equal ones merged, hashes, and a sketch that detects evaluation on training data.

Weighting a row by 2 and repeating it must give the same model, bit for bit, and so must a permutation of the rows. Both
follow if equal rows are merged into one row with the sum of their weights, and rows are sorted by their contents.
Copies of a row then also stay together in every split into training, validation and calibration rows: otherwise a
network that memorised a row would be evaluated on its copy, and errors would be underestimated.

A bottom-k sketch: the k smallest of the distinct row hashes. Hashes behave like random numbers, so the rows of another
table whose hashes fall in the range of the sketch are a random sample of it, and the share of these found in the sketch
estimates the share of training rows. The sketch of a table with fewer than k distinct rows is exact.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from usnrt.utils.types import Floats, Rows

_MIX = np.uint64(0x9E3779B97F4A7C15)


def merged_rows(
    raw: Floats, y: Floats, weight: Floats, hashes: NDArray[np.uint64] | None = None, apart: Floats | None = None
) -> tuple[Rows, Floats]:
    """Merge equal rows, adding up their weights, and sort rows by contents: indices of first copies, and total weights.

    Missing values are equal; rows that differ in ``apart`` are not. Rows of weight 0 are dropped. ``hashes`` are
    ``row_hashes(raw, y, apart)``, if known.

    Examples
    --------
    >>> raw, y = np.array([[1.0], [2.0], [3.0], [2.0]]), np.array([5.0, 6.0, 7.0, 6.0])
    >>> rows, weight = merged_rows(raw, y, np.array([1.0, 2.0, 0.0, 2.0]))
    >>> sorted(zip(y[rows].tolist(), weight.tolist()))
    [(5.0, 1.0), (6.0, 4.0)]
    """
    rows = np.flatnonzero(weight > 0)
    hashes = (row_hashes(raw, y, apart) if hashes is None else hashes)[rows]
    order = np.argsort(hashes)
    if not (hashes[order[1:]] == hashes[order[:-1]]).any():
        return rows[order], weight[rows[order]]
    # The target breaks ties of hashes, which occur about once in ten billion tables; the weight makes the order of
    # summation, hence its rounding, independent of the order of the copies.
    order = np.lexsort((weight[rows], y[rows], hashes))
    rows, hashes = rows[order], hashes[order]
    is_first = np.ones(len(rows), dtype=bool)
    same = np.flatnonzero(hashes[1:] == hashes[:-1]) + 1
    is_first[same] = ~_equal(raw, y, rows[same], rows[same - 1])
    if apart is not None:
        is_first[same] |= apart[rows[same]] != apart[rows[same - 1]]
    starts = np.flatnonzero(is_first)
    return np.minimum.reduceat(rows, starts), np.add.reduceat(weight[rows], starts)


def _equal(raw: Floats, y: Floats, first: Rows, second: Rows) -> NDArray[np.bool_]:
    """Whether pairs of rows are equal in all features, missing values included, and in the target."""
    a, b = raw[first], raw[second]
    equal: NDArray[np.bool_] = (y[first] == y[second]) & ((a == b) | (np.isnan(a) & np.isnan(b))).all(axis=1)
    return equal


def row_hashes(raw: Floats, y: Floats, apart: Floats | None = None) -> NDArray[np.uint64]:
    """Hash each row, its target and what keeps it apart from copies; equal rows have equal hashes on every machine.

    All NaN are equal, and so are 0.0 and -0.0.

    Examples
    --------
    >>> first, second, third = row_hashes(np.array([[np.nan], [np.nan], [1.0]]), np.array([0.0, -0.0, 0.0]))
    >>> bool(first == second), bool(first == third)
    (True, False)
    """
    hashes = _hash(y, np.zeros(len(y), dtype=np.uint64))
    for column in range(raw.shape[1]):
        hashes = _hash(raw[:, column], hashes)
    return hashes if apart is None else _hash(apart, hashes)


def mix_bits(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers as good as random from different numbers (the finaliser of splitmix64).

    Examples
    --------
    >>> mix_bits(np.array([1, 2], dtype=np.uint64)) >> np.uint64(48)
    array([22162, 56274], dtype=uint64)
    """
    mixed = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def counted_weight(sample_weight: Floats) -> Floats:
    """Weights as counts: integral weights are unchanged, others are scaled to average 1."""
    if np.array_equal(sample_weight, np.floor(sample_weight)):
        return sample_weight
    weights = WeightSum()  # exact, as any other sum depends on the order of the rows by its last bits
    weights.add(sample_weight)
    return sample_weight / weights.scale


def draw_validation(rows: Rows, fraction: float, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Split rows at random into training rows and validation rows for early stopping.

    Fewer than 5 rows are all training rows.

    Examples
    --------
    >>> train, valid = draw_validation(np.arange(10), 0.2, np.random.default_rng(0))
    >>> len(train), len(valid)
    (8, 2)
    """
    n_valid = round(fraction * len(rows)) if len(rows) >= 5 else 0
    shuffled = rng.permutation(rows)
    return np.sort(shuffled[n_valid:]), np.sort(shuffled[:n_valid])


def _hash(values: Floats, seed: NDArray[np.uint64]) -> NDArray[np.uint64]:
    # + 0.0 turns -0.0 into 0.0; all NaNs become one
    bits = np.where(np.isnan(values), np.nan, values + 0.0).view(np.uint64)
    mixed = (bits ^ (seed + _MIX)) * _MIX
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return mixed ^ (mixed >> np.uint64(32))


class WeightSum:
    """The exact sum of weights, in any order of the rows; see `usnrt.tables.rows.counted_weight`.

    Examples
    --------
    >>> weights = WeightSum()
    >>> weights.add(np.array([0.5, 1.0, 0.0]))
    >>> weights.scale
    0.75
    """

    def __init__(self) -> None:
        self.whole = True
        self.n_positive = 0
        self._sum = Fraction(0)

    def add(self, weight: Floats) -> None:
        """Add the weights of a block."""
        self.n_positive += int(np.count_nonzero(weight))
        if self.whole and not np.array_equal(weight, np.floor(weight)):
            self.whole = False
        mantissa, exponent = np.frexp(weight)
        digits = (mantissa * 2**53).astype(np.int64)
        for power in np.unique(exponent):
            part = digits[exponent == power]
            # halves of the digits, as a sum of 2**31 whole numbers of 53 digits would overflow
            total = (int((part >> 26).sum()) << 26) + int((part & (2**26 - 1)).sum())
            self._sum += Fraction(total) * Fraction(2) ** (int(power) - 53)

    def merge(self, other: "WeightSum") -> None:
        """Add the weights of another sum."""
        self.whole &= other.whole
        self.n_positive += other.n_positive
        self._sum += other._sum

    @property
    def scale(self) -> float:
        """What weights are divided by: 1 if they are whole numbers, else their mean."""
        return 1.0 if self.whole else float(self._sum / self.n_positive)


SKETCH_SIZE = 1024
# Standard errors by which a share must exceed one half before rows are reported as training rows.
MARGIN = 2.6


@dataclass(frozen=True)
class Fingerprint:
    """A sketch of a training table."""

    hashes: NDArray[np.uint64]  # shape (k,); the smallest distinct row hashes, sorted; at most `SKETCH_SIZE`
    # share of the training rows that duplicate another training row. In a table with few distinct values about this
    # share of new rows equals a training row by chance (Good-Turing estimate). A table repeated as a whole has no
    # duplicates in this sense
    repeated: float

    def share_of(self, raw: Floats, y: Floats) -> float:
        """Share of rows that are training rows if it significantly exceeds one half beyond chance; else 0."""
        hashes, complete = row_hashes(raw, y), len(self.hashes) < SKETCH_SIZE
        sample = hashes if complete else hashes[hashes <= self.hashes[-1]]
        if len(sample) == 0:
            return 0.0
        share = float(np.isin(sample, self.hashes).mean())
        half = (1.0 + self.repeated) / 2  # half of the rows that do not equal training rows by chance
        exact = complete and self.repeated == 0
        margin = 0.0 if exact else MARGIN * np.sqrt(half * (1.0 - half) / len(sample))
        return share if share > half + margin else 0.0


def fingerprint(raw: Floats, y: Floats, weight: Floats | None = None) -> Fingerprint:
    """Sketch a training table, independently of the order of its rows.

    The weights are numbers of copies, if copies were merged; fractional weights are ignored.
    """
    distinct, index = np.unique(row_hashes(raw, y), return_inverse=True)
    integral = weight is not None and np.array_equal(weight, np.floor(weight))
    counts = np.bincount(index, weights=weight if integral else None).astype(np.int64)
    single = counts[counts == np.gcd.reduce(counts)].sum()
    return Fingerprint(distinct[:SKETCH_SIZE], float(1.0 - single / counts.sum()))
