"""A store of rows on the workers of a Dask cluster.

Everything is a task of Dask: each partition is encoded where it is, and divided by the hashes of its rows; the parts
with the same leading bits are sent to one worker, which sorts them and merges copies. The sorted chunks stay on the
workers. If a worker dies, Dask computes its chunks again from the partitions, with the same bits.
"""

import operator
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from usnrt.tables.dask_rows import DaskRows, Partition, PartitionKind
from usnrt.tables.disk_store import (
    RecordLayout,
    Records,
    StoreContents,
    StoreTotals,
    file_bits,
    overlaps,
    scattered,
    sorted_records,
)
from usnrt.tables.store import BUCKET_ROWS, RowStore, bucket_bits, bucket_starts
from usnrt.tables.streaming import RowSurvey, StorePlan, pass_rows
from usnrt.tables.training import DistinctRows
from usnrt.utils.threads import ONE_BLAS_THREAD
from usnrt.utils.types import Rows

CHUNK_ROWS = 524_288  # the largest average number of rows per chunk ...
MAX_CHUNKS = 512  # ... unless there would be more chunks than that
RETRIES = 2  # of tasks whose data were checked before, for example after a file system was away
_FAN_IN = 32  # surveys that one task merges
_SHARED: dict[str, Any] = {}  # values of the fits of this process that tasks use


@dataclass(frozen=True)
class ChunkTable:
    """Where the rows of a store are: what workers need to know of it."""

    keys: tuple[str, ...]  # of the tasks whose results are the chunks
    chunk_starts: Rows  # shape (n_chunks + 1,); number of the first row of each chunk, and the number of rows
    contents: StoreContents  # no bucket is in two chunks


class ClusterStore(RowStore):
    """The rows of chunks on workers, seen from a task on one of them, which has a `distributed.Client`."""

    def __init__(self, table: ChunkTable, client: Any) -> None:
        from distributed import Future

        contents = table.contents
        super().__init__(contents.starts, len(contents.layout.narrow), contents.weight_sum)
        self.table, self.layout, self.client = table, contents.layout, client
        self._chunks: list[Any] = [Future(key, client) for key in table.keys]
        self._tokens: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.forget(*self._tokens)

    def share(self, value: Any) -> tuple[Any, str]:
        """A future of a value of this process, and the token that `forget` takes; the end of the store forgets it too.

        A task on this worker returns the value, which is sent directly to workers that need it. So it is not lost
        before this worker is: values that are given to `Client.scatter` are lost with the one worker on which Dask
        keeps the last copy.
        """
        from distributed import get_worker

        token, worker = uuid.uuid4().hex, get_worker().address
        _SHARED[token] = value
        self._tokens.append(token)
        return self.client.submit(_shared_value, token, workers=[worker], key=f"usnrt-shared-{token}"), token

    def forget(self, *tokens: str) -> None:
        """Release shared values."""
        for token in tokens:
            _SHARED.pop(token, None)
        self._tokens = [token for token in self._tokens if token not in tokens]

    def rows(self, start: int, stop: int) -> DistinctRows:
        """The rows with the numbers ``start`` to ``stop - 1``, which are sent here."""
        records = self._gathered(_cut, start, stop, self.layout.dtype)
        return self.layout.rows(records, start)

    def row_hashes(self, start: int, stop: int) -> NDArray[np.uint64]:
        return self._gathered(_cut_hashes, start, stop, np.dtype(np.uint64))

    def _gathered(self, cut: Callable[..., Any], start: int, stop: int, dtype: Any) -> NDArray[Any]:
        futures = [
            self.client.submit(cut, self._chunks[number], low, high, pure=False, retries=RETRIES)
            for number, low, high in overlaps(self.table.chunk_starts, start, stop)
        ]
        return np.concatenate([np.empty(0, dtype=dtype), *self.client.gather(futures)])

    def map_buckets(self, function: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
        """``function(rows, hashes, *arguments)`` of each bucket, where the bucket is; results are sent here."""
        futures = self.map_chunks(_map_chunk, [()] * len(self._chunks), function, arguments)
        return (result for results in self.client.gather(futures) for result in results)

    def map_chunks(self, function: Callable[..., Any], own: Sequence[tuple[Any, ...]], *shared: Any) -> list[Any]:
        """Futures of ``function(chunk, *own[i], shared)`` for each `Chunk`; the results stay where the chunks are.

        ``shared`` is sent to each worker once.
        """
        common, _ = self.share(shared)
        starts, futures = self.table.chunk_starts, []
        for number, (records, more) in enumerate(zip(self._chunks, own, strict=True)):
            first, last = (int(row) for row in starts[number : number + 2])
            # the buckets of the chunk; empty ones belong to either neighbour
            inner = self.starts[(self.starts > first) & (self.starts < last)]
            bounds = np.concatenate([[first], inner, [last]]).astype(np.intp)
            arguments = (function, records, self.layout, bounds, more, common)
            futures.append(self.client.submit(_run_on_chunk, *arguments, pure=False, retries=RETRIES))
        return futures


@dataclass(frozen=True)
class Chunk:
    """The rows of a chunk, where it is."""

    records: Records
    layout: RecordLayout
    bounds: Rows  # numbers of the first rows of its buckets in the store, and of the row after the last

    def buckets(self) -> Iterator[tuple[DistinctRows, NDArray[np.uint64]]]:
        """Rows and hashes of each bucket."""
        for start, stop in zip(self.bounds[:-1].tolist(), self.bounds[1:].tolist()):
            part = self.records[start - self.bounds[0] : stop - self.bounds[0]]
            yield self.layout.rows(part, start), np.ascontiguousarray(part["hash"])


# -- on the client: graphs of tasks ---------------------------------------------------------------------------------


def survey_graph(rows: DaskRows, categorical_features: Any) -> Any:
    """A delayed `RowSurvey` of all rows: one task per partition, and tasks that merge the results."""
    from dask.delayed import delayed

    survey, merge = delayed(survey_partition), delayed(merged_surveys)
    level = [
        survey(number, partition, rows.kind, rows.source.n_columns, categorical_features)
        for number, partition in enumerate(rows.partitions)
    ]
    while len(level) > 1:
        level = [merge(level[start : start + _FAN_IN]) for start in range(0, len(level), _FAN_IN)]
    return level[0]


def build_chunks(client: Any, rows: DaskRows, survey: RowSurvey) -> tuple[ChunkTable, list[Any]]:
    """Encode the partitions on the workers, and divide and sort their rows; returns when that is done.

    The futures of the chunks are returned to be kept as long as the table is used.
    """
    from dask.delayed import delayed

    plan = StorePlan.of(survey, BUCKET_ROWS)
    chunk_bits = min(bucket_bits(plan.n_rows, CHUNK_ROWS), MAX_CHUNKS.bit_length() - 1, file_bits(plan.bits))
    shared = delayed(plan, pure=False)
    scatter, part_of = delayed(scattered_partition, nout=None), delayed(operator.getitem)
    parts = [scatter(number, part, rows.kind, shared, chunk_bits) for number, part in enumerate(rows.partitions)]
    merge, total = delayed(merged_chunk), delayed(chunk_totals)
    delayed_chunks = [merge([part_of(part, number) for part in parts], shared) for number in range(2**chunk_bits)]
    delayed_totals = [total(chunk, number, shared, chunk_bits) for number, chunk in enumerate(delayed_chunks)]
    chunks = client.compute(delayed_chunks, retries=RETRIES)
    totals = StoreTotals(plan.bits)
    n_rows = []
    for files in client.gather(client.compute(delayed_totals, retries=RETRIES)):
        n_rows.append(sum(int(file.bucket_rows.sum()) for file in files))
        for file in files:
            totals.merge(file)
    contents = totals.contents(plan.layout, BUCKET_ROWS)
    per_bucket = max(1, len(chunks) // (len(contents.starts) - 1))
    if per_bucket > 1:  # many copies: the buckets are larger than the chunks
        groups = [chunks[first : first + per_bucket] for first in range(0, len(chunks), per_bucket)]
        chunks = [client.submit(np.concatenate, group, pure=False, retries=RETRIES) for group in groups]
    chunk_starts = np.append(0, np.cumsum(np.reshape(n_rows, (-1, per_bucket)).sum(axis=1))).astype(np.intp)
    keys = tuple(chunk.key for chunk in chunks)
    return ChunkTable(keys, chunk_starts, contents), chunks


# -- tasks ----------------------------------------------------------------------------------------------------------


def survey_partition(
    number: int, partition: Partition, kind: PartitionKind, n_columns: int, categorical_features: Any
) -> RowSurvey:
    """Survey of a partition."""
    return RowSurvey.of(kind.source(number, *partition), categorical_features, pass_rows(n_columns))


def merged_surveys(surveys: Sequence[RowSurvey]) -> RowSurvey:
    """Surveys as one; those of partitions are left as they are."""
    total = RowSurvey()
    for survey in surveys:
        total.merge(survey)
    return total


def scattered_partition(
    number: int, partition: Partition, kind: PartitionKind, plan: StorePlan, chunk_bits: int
) -> list[Records]:
    """The rows of a partition, encoded, for each chunk."""
    with ONE_BLAS_THREAD:
        blocks = [np.empty(0, dtype=plan.layout.dtype), *plan.records(kind.source(number, *partition))]
    return [part.copy() for part in scattered(np.concatenate(blocks), chunk_bits)]


def merged_chunk(parts: Sequence[Records], plan: StorePlan) -> Records:
    """The rows of a chunk from all partitions, sorted, copies merged."""
    return sorted_records(plan.layout, np.concatenate(parts))


def chunk_totals(records: Records, number: int, plan: StorePlan, chunk_bits: int) -> list[StoreTotals]:
    """Totals of a chunk, divided as the files of the same rows on disk would be: sums are rounded alike."""
    starts = bucket_starts(records["hash"], file_bits(plan.bits))
    per_chunk = 2 ** (file_bits(plan.bits) - chunk_bits)
    first, files = number * per_chunk, []
    for start, stop in zip(starts[first : first + per_chunk], starts[first + 1 : first + per_chunk + 1]):
        files.append(StoreTotals(plan.bits))
        files[-1].add(records[start:stop], plan.layout)
    return files


def _shared_value(token: str) -> Any:
    return _SHARED[token]


def _cut(records: Records, start: int, stop: int) -> Records:
    return records[start:stop]


def _cut_hashes(records: Records, start: int, stop: int) -> NDArray[np.uint64]:
    return np.ascontiguousarray(records["hash"][start:stop])


def _run_on_chunk(
    function: Callable[..., Any],
    records: Records,
    layout: RecordLayout,
    bounds: Rows,
    own: tuple[Any, ...],
    shared: tuple[Any, ...],
) -> Any:
    with ONE_BLAS_THREAD:
        return function(Chunk(records, layout, bounds), *own, *shared)


def _map_chunk(chunk: Chunk, function: Callable[..., Any], arguments: tuple[Any, ...]) -> list[Any]:
    return [function(rows, hashes, *arguments) for rows, hashes in chunk.buckets()]
