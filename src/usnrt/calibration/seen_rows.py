"""Seen rows: new rows with the features of a training row, in tables where these determine the target.

Copies of a row stay together in every split, so a validation row is never a copy of a training row, and its error is
that of a row with new features. In tables with many duplicates, such as repeated measurements of the same subjects,
many new rows *are* copies of training rows, and their errors are smaller. Such rows are recognised by a hash of their
features and get a residual distribution of their own, estimated from training rows with duplicates: like a seen
row, each of them has copies that were trained on.

A model with a memory also recalls the target that a seen row had: one more expert, which is combined with the
others by averaging quantiles. Its weight is chosen, and the combination calibrated, by leaving out one copy of a
training row at a time: the other copies recall it, as they would recall a new row with these features.

This requires that equal features have equal targets. A table passed twice, or weights with a common factor, are not
repetitions: copies are counted in units of the greatest common divisor of all weights. Weights that are not whole are
importances, and no copies at all.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from usnrt.experts.refine import pinball_losses
from usnrt.tables.rows import row_hashes
from usnrt.utils.types import Floats, Rows

# Minimal share of duplicates in the table, minimal number of duplicates to calibrate by, and minimal share of the rows
# with duplicated features whose targets agree.
MIN_SHARE, MIN_REPEATED, MIN_DETERMINED = 0.05, 100, 0.9
# Where equal features have different targets, recalled targets must have this weight: the networks were trained on the
# repeated rows, and their errors there are too small to calibrate by.
MIN_RECALL = 0.5
# Weights of recalled targets that are tried. The others keep some, since a distribution needs a width.
RECALL_WEIGHTS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99)


@dataclass(frozen=True)
class SeenRows:
    """The feature vectors of the training rows, and perhaps the targets that they had."""

    hashes: NDArray[np.uint64]  # shape (m,); sorted hashes of the distinct feature vectors
    # shape (m,); mean scaled target of the training rows with these features; None if the model has no memory
    target: Floats | None = None
    weight: float = 0.0  # weight of the recalled target in the predictions of seen rows

    def contains(self, raw: Floats) -> NDArray[np.bool_]:
        """Whether each row has the features of a training row, shape (n,)."""
        return self.locate(raw)[1]

    def locate(self, raw: Floats) -> tuple[Rows, NDArray[np.bool_]]:
        """Position of each row among the hashes, and whether it is there; both of shape (n,)."""
        hashes = feature_hashes(raw)
        index = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return index, np.asarray(self.hashes[index] == hashes)

    def recall(self, index: Rows, known: NDArray[np.bool_], quantiles: Floats) -> Floats:
        """Quantile functions combined with the recalled targets of rows that `locate` knows; others are as they are.

        Examples
        --------
        >>> seen = SeenRows(feature_hashes(np.array([[1.0]])), target=np.array([7.0]), weight=0.9)
        >>> index, known = seen.locate(np.array([[1.0], [2.0]]))
        >>> seen.recall(index, known, np.array([[-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0]]))
        array([[ 6.2,  6.3,  6.4],
               [-1. ,  0. ,  1. ]])
        """
        if self.target is None or self.weight == 0.0:
            return quantiles
        rows = np.flatnonzero(known)
        quantiles = quantiles.copy()
        quantiles[rows] = combined_with_recall(quantiles[rows], self.target[index[rows]], self.weight)
        return quantiles


def feature_hashes(raw: Floats) -> NDArray[np.uint64]:
    """64-bit hash of the features of each row, shape (n,)."""
    return row_hashes(raw, np.zeros(len(raw)))


def combined_with_recall(quantiles: Floats, recalled: Floats, weight: float) -> Floats:
    """Average of quantile functions and recalled targets."""
    return (1.0 - weight) * quantiles + weight * recalled[:, None]


@dataclass(frozen=True)
class RepeatedRows:
    """Training rows with copies, by which seen rows are calibrated."""

    rows: Rows  # shape (n,)
    # shape (n,); mean target of the other copies: those with the same features, without one copy of the row itself
    recalled: Floats
    is_determined: bool = True  # whether equal features have equal targets, nearly everywhere


def find_seen(
    raw: Floats, y: Floats, weight: Floats, is_repeated: bool = False
) -> tuple[SeenRows, RepeatedRows] | None:
    """The features of a table with many duplicates, their targets, and its repeated rows; None with too few duplicates.

    Rows are distinct, as from `usnrt.tables.rows.merged_rows`; their weights are numbers of copies, or importances if
    they are not whole. ``is_repeated`` if rows are known to have equal features with different targets.
    """
    copies = _copies(weight)
    # most tables: no row is repeated, and nothing needs to be hashed
    if copies.max(initial=0.0) < 2.0 and not is_repeated:
        return None
    hashes, index, n_targets = np.unique(feature_hashes(raw), return_inverse=True, return_counts=True)
    total = np.bincount(index, weights=copies)
    repeats, determined = total >= 2.0, n_targets == 1
    repeated_weight = total[repeats].sum()
    rows = np.flatnonzero(repeats[index])
    if repeated_weight < MIN_SHARE * copies.sum() or len(rows) < MIN_REPEATED:
        return None
    is_determined = bool(total[repeats & determined].sum() >= MIN_DETERMINED * repeated_weight)
    if not is_determined and not is_repeated:
        return None
    sums = np.bincount(index, weights=copies * y)
    left_out = np.minimum(copies[rows], 1.0)
    others = total[index[rows]] - left_out
    recalled = (sums[index[rows]] - left_out * y[rows]) / others
    # exact where all copies agree: sums of equal numbers round
    recalled = np.where(determined[index[rows]], y[rows], recalled)
    return SeenRows(hashes, sums / total), RepeatedRows(rows, recalled, is_determined)


def _copies(weight: Floats) -> Floats:
    """Copies of each row: weights over their greatest common divisor; 1 if they are not whole, hence importances."""
    if not np.array_equal(weight, np.floor(weight)):
        return np.ones(len(weight))
    return weight / float(np.gcd.reduce(weight.astype(np.int64)))


def with_recall(seen: SeenRows, repeated: RepeatedRows, quantiles: Floats, y: Floats, weight: Floats) -> SeenRows:
    """The weight of recalled targets with the smallest pinball loss on repeated rows, of which all arguments are."""
    losses = [
        float(np.average(pinball_losses(combined_with_recall(quantiles, repeated.recalled, share), y), weights=weight))
        for share in RECALL_WEIGHTS
    ]
    return replace(seen, weight=RECALL_WEIGHTS[int(np.argmin(losses))])
