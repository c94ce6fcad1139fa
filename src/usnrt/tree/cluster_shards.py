"""Logical shards on the workers of a Dask cluster.

The rows of a shard are encoded where they are and stay there. In a round, tasks where the rows are cut out the pieces
that are wanted, and one task per shard trains on them. What the tasks share, such as the common weights, is kept by the
worker that runs the fit; everything else Dask can compute again if a worker dies. The pieces of the next round are cut
while a round is trained.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from usnrt.nn.rounds import EncodedRows, RoundPlan, Runner, ShardTask, pieces_of
from usnrt.tables.cluster_store import RETRIES, Chunk, ClusterStore
from usnrt.tree.shard_encoding import ShardEncoding, kept_rows
from usnrt.utils.threads import ONE_BLAS_THREAD

ShardParts = dict[int, EncodedRows]  # rows of a chunk by the number of their shard
Cut = list[tuple[int, EncodedRows]]  # pieces with their numbers


@dataclass(frozen=True)
class ClusterShard:
    """The rows of a shard, on workers.

    Attributes
    ----------
    number : int
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
    """Encode the training rows of a store on the workers that have them.

    Parameters
    ----------
    store : ClusterStore
    encoding : ShardEncoding

    Returns
    -------
    list of ClusterShard
    """
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
