"""Distinct rows of a table of any size, read bucket by bucket, in an order that depends on their content only.

Rows are sorted by a hash of their content (`usnrt.tables.rows.row_hashes`). So the order does not depend on the order,
files or machine that the rows came from, copies of a row are one row, reading the store from its beginning is reading
the table shuffled, and its first rows are a random sample. A bucket holds the rows whose hashes begin with the same
bits: bucket 3 of 8 those that begin with 011.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.tables.groups import stored_groups
from usnrt.tables.rows import row_hashes
from usnrt.tables.training import DistinctRows
from usnrt.utils.types import Rows

BUCKET_ROWS = 65_536  # the largest average number of rows per bucket


class RowStore(ABC):
    """Distinct rows in the order of their hashes.

    ``starts`` has the number of the first row of each bucket, and the number of rows.

    Examples
    --------
    >>> from usnrt.tables.rows import merged_rows
    >>> raw, y = np.arange(100.0).reshape(-1, 1), np.zeros(100)
    >>> rows, weight = merged_rows(raw, y, np.ones(100))
    >>> store = MemoryStore(DistinctRows(raw[rows], y[rows], weight, rows), bucket_rows=30)
    >>> store.n_rows, store.n_buckets, store.weight_sum
    (100, 4, 100.0)
    >>> [store.read(bucket).n_rows for bucket in range(4)] == np.diff(store.starts).tolist()
    True
    >>> store.sample(10).position
    array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """

    # Where the files of the store are, and where further temporary files may be written; None without files.
    folder: Path | None = None

    def __init__(self, starts: Rows, n_features: int, weight_sum: float) -> None:
        self.starts = starts
        self.n_features = n_features
        self.weight_sum = weight_sum

    @property
    def n_rows(self) -> int:
        """Number of distinct rows."""
        return int(self.starts[-1])

    @property
    def n_buckets(self) -> int:
        """Number of buckets, a power of two."""
        return len(self.starts) - 1

    def read(self, bucket: int) -> DistinctRows:
        """The rows of a bucket, which may be empty; ``position`` numbers the rows of the whole store."""
        return self.rows(int(self.starts[bucket]), int(self.starts[bucket + 1]))

    def hashes(self, bucket: int) -> NDArray[np.uint64]:
        """The hashes of a bucket's rows, in ascending order."""
        return self.row_hashes(int(self.starts[bucket]), int(self.starts[bucket + 1]))

    def sample(self, n: int) -> DistinctRows:
        """The first n rows, a random sample; all rows if there are not more."""
        return self.rows(0, min(n, self.n_rows))

    def map_buckets(self, function: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
        """``function(rows, hashes, *arguments)`` of each bucket, in their order.

        It is a function of a module, so that it can be sent to where the rows are.
        """
        for bucket in range(self.n_buckets):
            yield function(self.read(bucket), self.hashes(bucket), *arguments)

    @abstractmethod
    def rows(self, start: int, stop: int) -> DistinctRows:
        """The rows with the numbers ``start`` to ``stop - 1``."""

    @abstractmethod
    def row_hashes(self, start: int, stop: int) -> NDArray[np.uint64]:
        """The hashes of the rows with the numbers ``start`` to ``stop - 1``."""


class MemoryStore(RowStore):
    """A store of rows that are in memory, in the order of `usnrt.tables.rows.merged_rows`."""

    def __init__(self, rows: DistinctRows, bucket_rows: int = BUCKET_ROWS) -> None:
        self._hashes = row_hashes(rows.raw, rows.target, rows.apart)
        group = rows.group if rows.has_groups or rows.time is not None else stored_groups(rows.raw)
        self._rows = replace(rows, group=group)
        starts = bucket_starts(self._hashes, bucket_bits(rows.n_rows, bucket_rows))
        super().__init__(starts, rows.raw.shape[1], float(rows.weight.sum()))

    def rows(self, start: int, stop: int) -> DistinctRows:
        return replace(self._rows.take(np.arange(start, stop)), position=np.arange(start, stop))

    def row_hashes(self, start: int, stop: int) -> NDArray[np.uint64]:
        return self._hashes[start:stop]


def bucket_bits(n_rows: int, bucket_rows: int = BUCKET_ROWS) -> int:
    """Binary logarithm of the number of buckets: the smallest with at most ``bucket_rows`` rows each on average.

    Examples
    --------
    >>> bucket_bits(65_536), bucket_bits(65_537), bucket_bits(10_000_000)
    (0, 1, 8)
    """
    return max(-(-n_rows // bucket_rows) - 1, 0).bit_length()


def bucket_starts(hashes: NDArray[np.uint64], bits: int) -> Rows:
    """Where each of 2**bits buckets begins among sorted hashes, and their number.

    Examples
    --------
    >>> bucket_starts(np.array([1, 2**62, 2**63, 2**63 + 1], dtype=np.uint64), 1)
    array([0, 2, 4])
    """
    firsts = np.arange(2**bits, dtype=np.uint64) << np.uint64(64 - bits) if bits else np.zeros(1, dtype=np.uint64)
    return np.append(np.searchsorted(hashes, firsts), len(hashes)).astype(np.intp)
