"""Shards of a store of rows: encoded in files, or on the workers of a cluster.

Pieces are read into memory, not mapped: mapped pages would count as memory of the process.

The rows of a shard are encoded where they are and stay there. In a round, tasks where the rows are cut out the pieces
that are wanted, and one task per shard trains on them. What the tasks share, such as the common weights, is kept by the
worker that runs the fit; everything else Dask can compute again if a worker dies. The pieces of the next round are cut
while a round is trained.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from usnrt.memory.retrieval import Retrieval
from usnrt.nn.rounds import EncodedRows, RoundPlan, Runner, ShardTask, pieces_of
from usnrt.tables.cluster_store import RETRIES, Chunk, ClusterStore
from usnrt.tables.inputs import NetworkInputs
from usnrt.tables.roles import CALIBRATION, TRAINING, RowRoles, shard_of, units_of
from usnrt.tables.training import DistinctRows
from usnrt.utils.threads import ONE_BLAS_THREAD
from usnrt.utils.types import Floats, Rows


@dataclass(frozen=True)
class ShardEncoding:
    """How rows of a store become rows of shards.

    Attributes
    ----------
    scale_target : callable
        From targets to the values that the network learns.
    mean_weight : float
        Weights are divided by it.
    group : ndarray of int or None
        Group of each row of the sample that the memory is from.
    """

    roles: RowRoles
    inputs: NetworkInputs
    scale_target: Callable[[Floats], Floats]
    mean_weight: float
    n_shards: int
    memory: Retrieval | None
    group: Rows | None = None

    def grouped(self) -> "ShardEncoding":
        """The encoding as it was before it was sent here: a memory does not take its groups along."""
        return self if self.memory is None else replace(self, memory=self.memory.grouped(self.group))

    @property
    def n_inputs(self) -> int:
        """Number of network inputs, with the guides."""
        return self.inputs.n_outputs_ + (0 if self.memory is None else self.memory.guide_mean.shape[0])

    def of(
        self, rows: DistinctRows, hashes: NDArray[np.uint64], n_before: int, n_threads: int = 1
    ) -> list[tuple[int, EncodedRows]]:
        """The training rows of a bucket in each shard that has any.

        Parameters
        ----------
        n_before : int
            `kept_rows` of all buckets before.
        """
        roles = self.roles.of(units_of(rows, hashes))
        number = n_before + np.cumsum(roles != CALIBRATION) - 1
        chosen = np.flatnonzero(roles == TRAINING)
        inputs = self.inputs.transform(rows.raw[chosen])
        if self.memory is not None:
            own, group = (number[chosen], None) if rows.group is None else (None, rows.group[chosen])
            guides = self.memory.guides_of(inputs, own, n_threads, group)
            inputs = np.concatenate([inputs, guides], axis=1)
        y = self.scale_target(rows.target[chosen])
        weight, shard = rows.weight[chosen] / self.mean_weight, shard_of(hashes[chosen], self.n_shards)
        parts = [(own, shard == own) for own in np.unique(shard).tolist()]
        return [(own, EncodedRows(inputs[member], y[member], weight[member])) for own, member in parts]


def kept_rows(rows: DistinctRows, hashes: NDArray[np.uint64], roles: RowRoles) -> int:
    """Number of rows of a bucket that are not calibration rows."""
    return int((roles.of(units_of(rows, hashes)) != CALIBRATION).sum())


@dataclass(frozen=True)
class ShardFile:
    """A file of encoded rows; a `usnrt.nn.rounds.ShardRows`.

    Attributes
    ----------
    n_rows, n_inputs : int
        A row is its inputs, its target and its weight.
    """

    path: str
    n_rows: int
    n_inputs: int

    def read(self, start: int, stop: int) -> EncodedRows:
        """Rows from ``start`` to ``stop``."""
        width = self.n_inputs + 2
        flat = np.fromfile(self.path, np.float32, (stop - start) * width, offset=4 * width * start)
        rows = flat.reshape(stop - start, width)
        return EncodedRows(rows[:, :-2], rows[:, -2], rows[:, -1])


class ShardWriter:
    """Appends encoded rows to the files of several shards; a context manager.

    Parameters
    ----------
    folder : path-like

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from usnrt.nn.rounds import EncodedRows
    >>> from usnrt.tree.shards import ShardWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with ShardWriter(folder, n_shards=2, n_inputs=3) as writer:
    ...         writer.append(1, EncodedRows(np.ones((5, 3), np.float32), np.arange(5.0), np.ones(5)))
    ...     writer.files[1].read(3, 5).target
    array([3., 4.], dtype=float32)
    """

    def __init__(self, folder: str | Path, n_shards: int, n_inputs: int) -> None:
        self.n_inputs = n_inputs
        self._paths = [Path(folder) / f"shard-{number}.f32" for number in range(n_shards)]
        self._streams: list[BinaryIO] = []
        self._n_rows = [0] * n_shards

    def __enter__(self) -> Self:
        self._streams = [path.open("wb") for path in self._paths]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for stream in self._streams:
            stream.close()

    def append(self, number: int, rows: EncodedRows) -> None:
        """Append rows to a shard."""
        table = np.empty((len(rows.target), self.n_inputs + 2), dtype=np.float32)
        table[:, :-2], table[:, -2], table[:, -1] = rows
        table.tofile(self._streams[number])
        self._n_rows[number] += len(table)

    @property
    def files(self) -> Sequence[ShardFile]:
        """The files, to be read after the writer is closed."""
        return [ShardFile(str(path), n, self.n_inputs) for path, n in zip(self._paths, self._n_rows)]


ShardParts = dict[int, EncodedRows]  # rows of a chunk by the number of their shard
Cut = list[tuple[int, EncodedRows]]  # pieces with their numbers


@dataclass(frozen=True)
class ClusterShard:
    """The rows of a shard, on workers.

    Attributes
    ----------
    parts : tuple of (Future of ShardParts, int)
        In their order, with their numbers of rows.
    """

    number: int
    parts: tuple[tuple[Any, int], ...]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(n for _, n in self.parts)

    def read(self, start: int, stop: int) -> EncodedRows:
        """Not defined: the rows are read by tasks where they are."""
        raise NotImplementedError("rows of a ClusterShard are read by tasks")

    def cut(self, client: Any, pieces: Sequence[int], piece_rows: int) -> list[Any]:
        """Futures of `Cut`, one per part that has rows of the pieces, in the order of the parts."""
        futures, begin = [], 0
        for future, n_rows in self.parts:
            ranges = []
            for piece in pieces:
                low, high = max(piece * piece_rows - begin, 0), min((piece + 1) * piece_rows - begin, n_rows)
                if low < high:
                    ranges.append((piece, low, high))
            if ranges:
                futures.append(client.submit(_cut_pieces, future, self.number, ranges, pure=False, retries=RETRIES))
            begin += n_rows
        return futures


@dataclass(frozen=True)
class _Window:
    """The rows of a shard that are used in a round; a `usnrt.nn.rounds.ShardRows`."""

    n_rows: int
    piece_rows: int
    pieces: dict[int, EncodedRows]

    def read(self, start: int, stop: int) -> EncodedRows:
        """The rows of a piece."""
        rows = self.pieces[start // self.piece_rows]
        assert len(rows.target) == stop - start
        return rows


def cluster_shards(store: ClusterStore, encoding: ShardEncoding) -> list[ClusterShard]:
    """Encode the training rows of a store on the workers that have them."""
    n_chunks, client = len(store.table.keys), store.client
    counts = client.gather(store.map_chunks(_kept_in_chunk, [()] * n_chunks, encoding.roles))
    before = np.append(0, np.cumsum(counts))[:-1].tolist()
    parts = store.map_chunks(encode_chunk, [(n,) for n in before], encoding)
    sizes = client.gather([client.submit(_sizes, part, pure=False, retries=RETRIES) for part in parts])
    return [
        ClusterShard(number, tuple((part, size[number]) for part, size in zip(parts, sizes) if number in size))
        for number in range(encoding.n_shards)
    ]


def cluster_runner(store: ClusterStore) -> Runner:
    """A `usnrt.nn.rounds.Runner` whose tasks run on workers; its items have a `ClusterShard`."""
    client = store.client
    ready: dict[tuple[int, int], list[Any]] = {}

    def cut(plan: RoundPlan, position: int, shard: ClusterShard) -> list[Any]:
        pieces = pieces_of(plan, shard.n_rows, position, shard.number).tolist()
        return shard.cut(client, pieces, plan.piece_rows)

    def run(task: Callable[[Any], Any], items: Sequence[tuple[ShardTask, ClusterShard]]) -> Iterable[Any]:
        plan, position = items[0][0].plan, items[0][0].position
        common, token = store.share((plan, items[0][0].state))
        futures = []
        for own, shard in items:
            cuts = ready.pop((position, shard.number), None) or cut(plan, position, shard)
            arguments = (task, common, position, own.number, shard.n_rows, cuts)
            # before the cuts of the next round, which can wait
            futures.append(client.submit(_train_window, *arguments, pure=False, retries=RETRIES, priority=1))
        if position + 1 < plan.n_passes * plan.n_rounds:
            ready.update({(position + 1, shard.number): cut(plan, position + 1, shard) for _, shard in items})
        results = list(client.gather(futures))
        store.forget(token)
        return results

    return run


# -- tasks ----------------------------------------------------------------------------------------------------------


def _kept_in_chunk(chunk: Chunk, roles: Any) -> int:
    return sum(kept_rows(rows, hashes, roles) for rows, hashes in chunk.buckets())


def encode_chunk(chunk: Chunk, n_before: int, encoding: ShardEncoding) -> ShardParts:
    """The training rows of a chunk in each shard that has any."""
    parts: dict[int, list[EncodedRows]] = defaultdict(list)
    encoding = encoding.grouped()
    for rows, hashes in chunk.buckets():
        for number, own in encoding.of(rows, hashes, n_before):
            parts[number].append(own)
        n_before += kept_rows(rows, hashes, encoding.roles)
    return {number: _joined(rows) for number, rows in parts.items()}


def _joined(parts: Sequence[EncodedRows]) -> EncodedRows:
    columns = (np.concatenate(values).astype(np.float32, copy=False) for values in zip(*parts))
    return EncodedRows(*columns)


def _sizes(parts: ShardParts) -> dict[int, int]:
    return {number: len(rows.target) for number, rows in parts.items()}


def _cut_pieces(parts: ShardParts, shard: int, ranges: Sequence[tuple[int, int, int]]) -> Cut:
    rows = parts[shard]
    return [(piece, EncodedRows(*(values[low:high] for values in rows))) for piece, low, high in ranges]


def _train_window(
    task: Callable[[Any], Any],
    common: tuple[RoundPlan, Any],
    position: int,
    number: int,
    n_rows: int,
    cuts: Sequence[Cut],
) -> Any:
    plan, state = common
    pieces: dict[int, list[EncodedRows]] = defaultdict(list)
    for cut in cuts:
        for piece, rows in cut:
            pieces[piece].append(rows)
    window = _Window(n_rows, plan.piece_rows, {piece: _joined(rows) for piece, rows in pieces.items()})
    with ONE_BLAS_THREAD:
        return task((ShardTask(plan, state, position, number), window))
