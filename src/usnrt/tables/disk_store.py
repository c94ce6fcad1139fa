"""A store of rows on disk: rows are scattered to files by their hashes, then each file is sorted.

A file holds the rows whose hashes begin with the same bits. So the sorted files, one after the other, are the whole
table sorted by hash, and only one of them is in memory at a time. Numbers that float32 holds exactly are written so.
"""

import itertools
import os
from collections import Counter
from collections.abc import Iterator
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

    Rows with equal features are a group if ``by_features`` and no groups were given; then groups are not stored.
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
        for part, place, column in self._places():
            values = raw[:, column]
            records[part][:, place] = np.where(np.isnan(values), np.nan, values + 0.0)
        return records

    def _places(self) -> Iterator[tuple[str, int, int]]:
        """The part of a record and the place in it of each feature."""
        for part, columns in (("wide", np.flatnonzero(~self.narrow)), ("narrow", np.flatnonzero(self.narrow))):
            for place, column in enumerate(columns.tolist()):
                yield part, place, column

    def features(self, records: Records) -> Floats:
        """The features of records, in Fortran order."""
        raw = np.empty((len(records), len(self.narrow)), order="F")
        for part, place, column in self._places():
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


def scattered(records: Records, bits: int) -> list[Records]:
    """Records by the leading bits of their hashes, in 2**bits parts."""
    records = records[np.argsort(records["hash"], kind="stable")]
    return [records[start:stop] for start, stop in itertools.pairwise(bucket_starts(records["hash"], bits))]


def overlaps(starts: Rows, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """The parts that hold rows of a range: number of the part, first row in it, and row after the last."""
    for number, (begin, end) in enumerate(itertools.pairwise(starts.tolist())):
        low, high = max(start, begin) - begin, min(stop, end) - begin
        if low < high:
            yield number, low, high


@dataclass(frozen=True)
class StoreContents:
    """What is known of all rows of a store."""

    layout: RecordLayout
    starts: Rows  # shape (n_buckets + 1,); number of the first row of each bucket, and the number of rows
    weight_sum: float
    fingerprint: Fingerprint


class DiskStore(RowStore):
    """A store of rows in files; see `StoreWriter`."""

    def __init__(self, files: list[Path], file_starts: Rows, contents: StoreContents) -> None:
        super().__init__(contents.starts, len(contents.layout.narrow), contents.weight_sum)
        self._files, self._file_starts, self._layout = files, file_starts, contents.layout
        self.fingerprint = contents.fingerprint
        self.folder = files[0].parent
        self.n_bytes = self.n_rows * self._layout.dtype.itemsize

    def rows(self, start: int, stop: int) -> DistinctRows:
        return self._layout.rows(self._records(start, stop), start)

    def row_hashes(self, start: int, stop: int) -> NDArray[np.uint64]:
        return np.ascontiguousarray(self._records(start, stop)["hash"])

    def _records(self, start: int, stop: int) -> Records:
        dtype = self._layout.dtype
        found = overlaps(self._file_starts, start, stop)
        parts = [read_records(self._files[number], dtype, low, high - low) for number, low, high in found]
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, dtype=dtype), *parts])


class StoreWriter:
    """Writes a store of 2**bits buckets: `add` records in any order and any portions, then `finish`.

    The files remain until the folder is removed.
    """

    def __init__(self, folder: Path, layout: RecordLayout, bits: int, bucket_rows: int = BUCKET_ROWS) -> None:
        self._layout, self._bits, self._bucket_rows = layout, bits, bucket_rows
        self._files = [folder / f"rows-{number:04d}" for number in range(2 ** file_bits(bits))]
        self._buffer: list[Records] = []

    def add(self, records: Records) -> None:
        """Add rows."""
        self._buffer.append(records)
        if sum(records.nbytes for records in self._buffer) > BUFFER_BYTES:
            self._flush()

    def _flush(self) -> None:
        """Append the rows in memory to their files."""
        records = np.concatenate([np.empty(0, dtype=self._layout.dtype), *self._buffer])
        self._buffer = []
        for file, part in zip(self._files, scattered(records, file_bits(self._bits))):
            if len(part):
                with open(file, "ab") as stream:
                    stream.write(part.data)

    def finish(self) -> DiskStore:
        """Sort the rows of each file and merge copies."""
        self._flush()
        totals = StoreTotals(self._bits)
        file_starts = np.zeros(len(self._files) + 1, dtype=np.intp)
        for number, file in enumerate(self._files):
            if file.exists():
                file_starts[number + 1] = self._sort(file, totals)
        return DiskStore(self._files, np.cumsum(file_starts), totals.contents(self._layout, self._bucket_rows))

    def _sort(self, file: Path, totals: "StoreTotals") -> int:
        """Sort the rows of one file, merge copies, and return how many rows there are."""
        records = sorted_records(self._layout, read_records(file, self._layout.dtype))
        sorted_file = file.with_suffix(".sorted")
        with open(sorted_file, "wb") as stream:
            stream.write(records.data)
        os.replace(sorted_file, file)
        totals.add(records, self._layout)
        return len(records)


def file_bits(bits: int) -> int:
    """Binary logarithm of the number of files of a store of 2**bits buckets."""
    return min(bits, MAX_FILES.bit_length() - 1)


class StoreTotals:
    """Sums over the sorted files of a store with 2**bits buckets."""

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

    def contents(self, layout: RecordLayout, bucket_rows: int) -> StoreContents:
        """What is known of the rows, and their layout with what all of them say of their groups."""
        if layout.has_groups:
            check_codes_differ(int(self._groups[0]), int(self._groups[-1]))
        layout = replace(layout, by_features=len(self._groups) >= MIN_DISTINCT)
        # there are fewer buckets where many rows were copies: their number follows from the distinct rows
        merged = self.bucket_rows.reshape(2 ** bucket_bits(int(self.bucket_rows.sum()), bucket_rows), -1).sum(axis=1)
        starts = np.append(0, np.cumsum(merged)).astype(np.intp)
        return StoreContents(layout, starts, self.weight_sum, self._fingerprint())

    def _fingerprint(self) -> Fingerprint:
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
