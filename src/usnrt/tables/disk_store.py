"""A store of rows on disk: rows are scattered to files by their hashes, then each file is sorted.

A file holds the rows whose hashes begin with the same bits. So the sorted files, one after the other, are the whole
table sorted by hash, and only one of them is in memory at a time. Numbers that float32 holds exactly are written so.
"""

import os
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.tables.group_labels import check_codes_differ
from usnrt.tables.groups import MIN_DISTINCT, feature_codes
from usnrt.tables.rows import SKETCH_SIZE, Fingerprint, merged_rows, row_hashes
from usnrt.tables.store import BUCKET_ROWS, RowStore, bucket_bits, bucket_starts
from usnrt.tables.training import DistinctRows
from usnrt.utils.types import Floats, Rows

MAX_FILES = 1024
BUFFER_BYTES = 1 << 25  # rows kept in memory before they are appended to their files

Records = NDArray[np.void]


@dataclass(frozen=True)
class RecordLayout:
    """How rows are stored: hash, target, weight, group, the features that need float64, and those that fit in float32.

    Parameters
    ----------
    narrow : ndarray of bool of shape (d,)
        The features whose values are all float32 numbers.
    has_groups : bool
        Whether rows have a group that was given; otherwise it is not stored.
    by_features : bool
        Whether rows with equal features are a group, if none was given.
    """

    narrow: NDArray[np.bool_]
    has_groups: bool = False
    by_features: bool = True
    dtype: np.dtype[np.void] = field(init=False)

    def __post_init__(self) -> None:
        n_narrow = int(self.narrow.sum())
        fields = [("hash", "<u8"), ("target", "<f8"), ("weight", "<f8"), *[("group", "<i8")] * self.has_groups]
        parts = [("wide", "<f8", (len(self.narrow) - n_narrow,)), ("narrow", "<f4", (n_narrow,))]
        object.__setattr__(self, "dtype", np.dtype([*fields, *parts]))

    def pack(
        self, raw: Floats, target: Floats, weight: Floats, hashes: NDArray[np.uint64], group: Rows | None = None
    ) -> Records:
        """Records of rows; all NaN become one, and -0.0 becomes 0.0, so that equal rows have equal bytes."""
        records = np.empty(len(target), dtype=self.dtype)
        records["hash"], records["target"], records["weight"] = hashes, target + 0.0, weight
        if self.has_groups:
            records["group"] = group
        for part, columns in (("wide", np.flatnonzero(~self.narrow)), ("narrow", np.flatnonzero(self.narrow))):
            for place, column in enumerate(columns):
                values = raw[:, column]
                records[part][:, place] = np.where(np.isnan(values), np.nan, values + 0.0)
        return records

    def features(self, records: Records) -> Floats:
        """The features of records, in Fortran order."""
        raw = np.empty((len(records), len(self.narrow)), order="F")
        for part, columns in (("wide", np.flatnonzero(~self.narrow)), ("narrow", np.flatnonzero(self.narrow))):
            for place, column in enumerate(columns):
                raw[:, column] = records[part][:, place]
        return raw

    def rows(self, records: Records, start: int) -> DistinctRows:
        """Consecutive rows of a store, of which the first has the number ``start``."""
        raw = self.features(records)
        target, weight = (np.ascontiguousarray(records[name]) for name in ("target", "weight"))
        group = np.ascontiguousarray(records["group"]) if self.has_groups else None
        if self.by_features and not self.has_groups:
            group = feature_codes(raw)
        position = np.arange(start, start + len(records))
        return DistinctRows(raw, target, weight, position, group=group, has_groups=self.has_groups)


def packed_rows(
    layout: RecordLayout, raw: Floats, target: Floats, weight: Floats, merge: bool, group: Rows | None = None
) -> Records:
    """Records of rows with a weight; ``merge`` for one record per distinct row, in the order of their hashes."""
    apart = None if group is None else group.astype(np.float64)
    hashes = row_hashes(raw, target, apart)
    records = layout.pack(raw, target, weight, hashes, group)
    if merge:
        rows, weight = merged_rows(raw, target, weight, hashes, apart)
        if len(rows) < len(records):
            records = records[rows]
            records["weight"] = weight
    elif not weight.all():
        records = records[weight > 0]
    return records


def sorted_records(layout: RecordLayout, records: Records) -> Records:
    """Records in the order of their hashes, copies merged."""
    apart = records["group"].astype(np.float64) if layout.has_groups else None
    rows, weight = merged_rows(layout.features(records), records["target"], records["weight"], records["hash"], apart)
    records = records[rows]
    records["weight"] = weight
    return records


class DiskStore(RowStore):
    """A store of rows in files; see `StoreWriter`.

    Attributes
    ----------
    fingerprint : Fingerprint
        Of all rows.
    n_bytes : int
        Size of the files.
    """

    def __init__(
        self,
        files: list[Path],
        file_starts: Rows,
        layout: RecordLayout,
        starts: Rows,
        weight_sum: float,
        fingerprint: Fingerprint,
    ) -> None:
        super().__init__(starts, len(layout.narrow), weight_sum)
        self._files, self._file_starts, self._layout = files, file_starts, layout
        self.fingerprint = fingerprint
        self.folder = files[0].parent
        self.n_bytes = self.n_rows * layout.dtype.itemsize

    def rows(self, start: int, stop: int) -> DistinctRows:
        """The rows with the numbers ``start`` to ``stop - 1``."""
        return self._layout.rows(self._records(start, stop), start)

    def row_hashes(self, start: int, stop: int) -> NDArray[np.uint64]:
        """The hashes of the rows with the numbers ``start`` to ``stop - 1``."""
        return np.ascontiguousarray(self._records(start, stop)["hash"])

    def _records(self, start: int, stop: int) -> Records:
        parts = [np.empty(0, dtype=self._layout.dtype)]
        first = int(np.searchsorted(self._file_starts, start, side="right")) - 1
        for number in range(first, len(self._files)):
            begin, end = (int(row) for row in self._file_starts[number : number + 2])
            if begin >= stop:
                break
            low, high = max(start, begin), min(stop, end)
            if low < high:
                parts.append(read_records(self._files[number], self._layout.dtype, low - begin, high - low))
        return parts[1] if len(parts) == 2 else np.concatenate(parts)


class StoreWriter:
    """Writes a store: `add` rows in any order and any portions, then `finish`.

    Parameters
    ----------
    folder : Path
        Where the files are written; they remain until the folder is removed.
    n_rows : int
        Rows to come, copies included.
    narrow : ndarray of bool of shape (d,)
        The features whose values are all float32 numbers.
    merge_early : bool
        Whether copies may be merged before all of them are known. Sums of whole weights are exact in any order.
    bucket_rows : int
        The largest average number of rows per bucket.
    has_groups : bool
        Whether `add` gets the group of each row.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.tables.disk_store import StoreWriter
    >>> from usnrt.utils.folders import scratch_folder
    >>> with scratch_folder() as folder:
    ...     writer = StoreWriter(folder, 4, np.array([True]))
    ...     writer.add(np.array([[1.0], [2.0]]), np.zeros(2), np.ones(2))
    ...     writer.add(np.array([[2.0], [3.0]]), np.zeros(2), np.ones(2))
    ...     rows = writer.finish().read(0)
    >>> sorted(zip(rows.raw[:, 0].tolist(), rows.weight.tolist()))
    [(1.0, 1.0), (2.0, 2.0), (3.0, 1.0)]
    """

    def __init__(
        self,
        folder: Path,
        n_rows: int,
        narrow: NDArray[np.bool_],
        merge_early: bool = True,
        bucket_rows: int = BUCKET_ROWS,
        has_groups: bool = False,
    ) -> None:
        self.layout = RecordLayout(narrow, has_groups)
        self._bucket_rows, self._merge_early = bucket_rows, merge_early
        self._bits = bucket_bits(n_rows, bucket_rows)
        self._file_bits = min(self._bits, MAX_FILES.bit_length() - 1)
        self._files = [folder / f"rows-{number:04d}" for number in range(2**self._file_bits)]
        self._buffer: list[Records] = []

    def add(self, raw: Floats, target: Floats, weight: Floats, group: Rows | None = None) -> None:
        """Add rows; those of weight 0 are left out."""
        records = packed_rows(self.layout, raw, target, weight, self._merge_early, group)
        self._buffer.append(records)
        if sum(records.nbytes for records in self._buffer) > BUFFER_BYTES:
            self._flush()

    def _flush(self) -> None:
        """Append the rows in memory to their files."""
        records = np.concatenate(self._buffer) if self._buffer else np.empty(0, dtype=self.layout.dtype)
        self._buffer = []
        records = records[np.argsort(records["hash"], kind="stable")]
        starts = bucket_starts(records["hash"], self._file_bits)
        for file, start, stop in zip(self._files, starts[:-1], starts[1:]):
            if start < stop:
                with open(file, "ab") as stream:
                    stream.write(records[start:stop].data)

    def finish(self) -> DiskStore:
        """Sort the rows of each file and merge copies."""
        self._flush()
        totals = StoreTotals(self._bits)
        file_starts = np.zeros(len(self._files) + 1, dtype=np.intp)
        for number, file in enumerate(self._files):
            if file.exists():
                file_starts[number + 1] = self._sort(file, totals)
        starts, layout = totals.starts(self._bucket_rows), totals.layout(self.layout)
        return DiskStore(
            self._files, np.cumsum(file_starts), layout, starts, totals.weight_sum, totals.fingerprint()
        )  # fmt: skip

    def _sort(self, file: Path, totals: "StoreTotals") -> int:
        """Sort the rows of one file, merge copies, and return how many rows there are."""
        records = sorted_records(self.layout, read_records(file, self.layout.dtype))
        sorted_file = file.with_suffix(".sorted")
        with open(sorted_file, "wb") as stream:
            stream.write(records.data)
        os.replace(sorted_file, file)
        totals.add(records, self.layout)
        return len(records)


class StoreTotals:
    """Sums over the sorted files.

    Parameters
    ----------
    bits : int
        Binary logarithm of the number of buckets.
    """

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self.bucket_rows = np.zeros(2**bits, dtype=np.int64)
        self.weight_sum = 0.0
        self._hashes, self._groups = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.intp)
        self._copies: Counter[float] = Counter()

    def add(self, records: Records, layout: RecordLayout) -> None:
        """Add the rows of a file; files come in the order of their hashes."""
        group = records["group"] if layout.has_groups else None
        if group is not None:  # a fingerprint knows no groups, and these hashes are in no order
            hashes = row_hashes(layout.features(records), records["target"])
            self._hashes = _smallest(SKETCH_SIZE, self._hashes, hashes)
        elif len(self._hashes) < SKETCH_SIZE:
            self._hashes = _smallest(SKETCH_SIZE, self._hashes, records["hash"])
        if len(self._groups) < MIN_DISTINCT:
            codes = feature_codes(layout.features(records)) if group is None else group
            self._groups = _smallest(MIN_DISTINCT, self._groups, codes)
        self.bucket_rows += np.diff(bucket_starts(records["hash"], self._bits))
        self.weight_sum += float(np.ascontiguousarray(records["weight"]).sum())
        values, counts = np.unique(records["weight"], return_counts=True)
        self._copies.update(dict(zip(values.tolist(), counts.tolist())))

    def merge(self, other: "StoreTotals") -> None:
        """Add the totals of the files that follow."""
        self.bucket_rows += other.bucket_rows
        self.weight_sum += other.weight_sum
        self._hashes = _smallest(SKETCH_SIZE, self._hashes, other._hashes)
        self._groups = _smallest(MIN_DISTINCT, self._groups, other._groups)
        self._copies.update(other._copies)

    def starts(self, bucket_rows: int) -> Rows:
        """Number of the first row of each bucket, and the number of rows.

        There are fewer buckets where many rows were copies: their number follows from the distinct rows.
        """
        merged = self.bucket_rows.reshape(2 ** bucket_bits(int(self.bucket_rows.sum()), bucket_rows), -1).sum(axis=1)
        return np.append(0, np.cumsum(merged)).astype(np.intp)

    def layout(self, layout: RecordLayout) -> RecordLayout:
        """The layout with what all rows say of their groups."""
        if layout.has_groups:
            check_codes_differ(int(self._groups[0]), int(self._groups[-1]))
        return replace(layout, by_features=len(self._groups) >= MIN_DISTINCT)

    def fingerprint(self) -> Fingerprint:
        """As `usnrt.tables.rows.fingerprint` of all rows; but copies in different groups are different rows."""
        weights = sorted(self._copies)
        if any(not weight.is_integer() for weight in weights):  # no numbers of copies
            return Fingerprint(self._hashes, 0.0)
        once = int(np.gcd.reduce(np.array(weights, dtype=np.int64)))
        total = sum(weight * count for weight, count in self._copies.items())
        return Fingerprint(self._hashes, float(1.0 - once * self._copies[once] / total))


def _smallest(size: int, *parts: NDArray[Any]) -> NDArray[Any]:
    """The smallest different values of several arrays."""
    return np.unique(np.concatenate(parts))[:size]


def read_records(file: Path, dtype: np.dtype[np.void], start: int = 0, count: int = -1) -> Records:
    """Records of a file, ``count`` of them or all, from number ``start`` on."""
    records = np.fromfile(file, dtype=dtype, count=count, offset=start * dtype.itemsize)
    if count >= 0 and len(records) < count:
        raise OSError(f"the scratch file {file} is truncated: it was changed while it was in use")
    return records
