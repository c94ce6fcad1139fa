"""What all rows of a store add to a model that was fitted to a sample: ranges and numbers of rows per region."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usnrt.tables.roles import CALIBRATION, RowRoles, units_of
from usnrt.tables.store import RowStore
from usnrt.tables.training import DistinctRows
from usnrt.tree.structure import Tree
from usnrt.utils.types import Floats


@dataclass(frozen=True)
class RegionSummary:
    """Ranges and numbers of rows per region.

    Attributes
    ----------
    low, high : ndarray of shape (n_leaves + 1, d)
        Smallest and largest value of each column in each leaf and in the whole table; NaN if there is none.
    has_missing : ndarray of bool of shape (d,)
    n_rows : ndarray of shape (n_leaves,)
        Weighted number of rows.
    """

    low: Floats
    high: Floats
    has_missing: NDArray[np.bool_]
    n_rows: Floats


def summarize_regions(store: RowStore, roles: RowRoles, tree: Tree) -> RegionSummary:
    """Count all rows of a store but the calibration rows, which affect nothing in a fit.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.tables.roles import RowRoles
    >>> from usnrt.tables.store import MemoryStore
    >>> from usnrt.tables.training import DistinctRows
    >>> from usnrt.tree.region_summary import summarize_regions
    >>> from usnrt.tree.structure import TreeBuilder
    >>> builder = TreeBuilder(1)
    >>> root = builder.add_root(2)
    >>> rows = DistinctRows(np.array([[1.0], [3.0]]), np.zeros(2), np.ones(2), np.arange(2))
    >>> summary = summarize_regions(MemoryStore(rows), RowRoles(0, 0.2), builder.build()[0])
    >>> summary.low.tolist(), summary.high.tolist(), summary.n_rows.tolist()
    ([[1.0], [1.0]], [[3.0], [3.0]], [2.0])
    """
    shape = tree.n_leaves + 1, store.n_features
    low, high = np.full(shape, np.nan), np.full(shape, np.nan)
    has_missing, n_rows = np.zeros(store.n_features, dtype=bool), np.zeros(tree.n_leaves)
    for part in store.map_buckets(_summarize_bucket, roles, tree):
        low, high = np.fmin(low, part.low), np.fmax(high, part.high)
        has_missing |= part.has_missing
        n_rows += part.n_rows
    low[-1], high[-1] = np.fmin.reduce(low[:-1], axis=0), np.fmax.reduce(high[:-1], axis=0)
    return RegionSummary(low, high, has_missing, n_rows)


def _summarize_bucket(rows: DistinctRows, hashes: NDArray[np.uint64], roles: RowRoles, tree: Tree) -> RegionSummary:
    """The summary of one bucket, without the range of the whole table."""
    shape = tree.n_leaves + 1, rows.raw.shape[1]
    low, high = np.full(shape, np.nan), np.full(shape, np.nan)
    kept = np.flatnonzero(roles.of(units_of(rows, hashes)) != CALIBRATION)
    raw, leaf = rows.raw[kept], tree.leaf_of(rows.raw)[kept]
    for own in np.unique(leaf).tolist():
        part = raw[leaf == own]
        low[own], high[own] = np.fmin.reduce(part, axis=0), np.fmax.reduce(part, axis=0)
    n_rows: Floats = np.bincount(leaf, rows.weight[kept], tree.n_leaves).astype(np.float64, copy=False)
    return RegionSummary(low, high, np.asarray(np.isnan(raw).any(axis=0)), n_rows)
