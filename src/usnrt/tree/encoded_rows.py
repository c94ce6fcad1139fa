"""The rows of a store as the network of the root reads them: encoded in a file, or on the workers of a cluster.

Pieces are read into memory, not mapped: mapped pages would count as memory of the process. The rows of a cluster are
encoded where they are and stay there; only the pieces of a window come to the worker that runs the fit, and Dask can
compute again whatever a worker that dies takes along.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from usnrt.memory.retrieval import Retrieval
from usnrt.nn.windows import EncodedRows, Pending, Span
from usnrt.tables.cluster_store import RETRIES, Chunk, ClusterStore
from usnrt.tables.inputs import NetworkInputs
from usnrt.tables.roles import CALIBRATION, TRAINING, RowRoles, units_of
from usnrt.tables.training import DistinctRows
from usnrt.utils.types import Rows, ScaleTarget


@dataclass(frozen=True)
class RowEncoding:
    """How rows of a store become rows that the network reads.

    Attributes
    ----------
    roles : RowRoles
        Only training rows are encoded.
    inputs : NetworkInputs
    scale_target : callable
        From targets to the values that the network learns; it can be pickled.
    mean_weight : float
        Weights are divided by it.
    memory : Retrieval or None
        Its guides are further inputs.
    group : ndarray of int or None
        Group of each row of the sample that the memory is from.
    """

    roles: RowRoles
    inputs: NetworkInputs
    scale_target: ScaleTarget
    mean_weight: float
    memory: Retrieval | None
    group: Rows | None = None

    def grouped(self) -> "RowEncoding":
        """The encoding as it was before it was sent here: a memory does not take its groups along."""
        return self if self.memory is None else replace(self, memory=self.memory.grouped(self.group))

    @property
    def n_inputs(self) -> int:
        """Number of network inputs, with the guides."""
        return self.inputs.n_outputs_ + (0 if self.memory is None else self.memory.guide_mean.shape[0])

    def of(self, rows: DistinctRows, hashes: NDArray[np.uint64], n_before: int, n_threads: int = 1) -> EncodedRows:
        """The training rows of a bucket.

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
        target, weight = self.scale_target(rows.target[chosen]), rows.weight[chosen] / self.mean_weight
        return EncodedRows(inputs, target.astype(np.float32), weight.astype(np.float32))


def kept_rows(rows: DistinctRows, hashes: NDArray[np.uint64], roles: RowRoles) -> int:
    """Number of rows of a bucket that are not calibration rows."""
    return int((roles.of(units_of(rows, hashes)) != CALIBRATION).sum())


def joined(parts: Sequence[EncodedRows]) -> EncodedRows:
    """Rows one after the other."""
    return EncodedRows(*(np.concatenate(columns) for columns in zip(*parts)))


# -- in a file --------------------------------------------------------------------------------------------------------


class RowFile:
    """A file of encoded rows, which are appended and then read in a thread of its own; a context manager.

    Parameters
    ----------
    path : path-like
    n_inputs : int
        A row is its inputs, its target and its weight.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from usnrt.nn.windows import EncodedRows
    >>> from usnrt.tree.encoded_rows import RowFile
    >>> with RowFile(Path(tempfile.mkdtemp()) / "rows", n_inputs=3) as file:
    ...     file.append(EncodedRows(np.ones((5, 3), np.float32), np.arange(5.0), np.ones(5)))
    ...     file.start_reading([(3, 5), (0, 1)]).result().target
    array([3., 4., 0.], dtype=float32)
    """

    def __init__(self, path: Path, n_inputs: int) -> None:
        self.n_rows, self._path, self._n_inputs = 0, path, n_inputs
        self._stream: BinaryIO = path.open("wb")
        self._reader = ThreadPoolExecutor(1)

    def __enter__(self) -> "RowFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._reader.shutdown()

    def append(self, rows: EncodedRows) -> None:
        """Append rows."""
        table = np.empty((len(rows.target), self._n_inputs + 2), dtype=np.float32)
        table[:, :-2], table[:, -2], table[:, -1] = rows
        table.tofile(self._stream)
        self.n_rows += len(table)

    def start_reading(self, spans: Sequence[Span]) -> Pending:
        """See `usnrt.nn.windows.RowReader`."""
        self._stream.flush()
        return self._reader.submit(lambda: joined([self._read(*span) for span in spans]))

    def _read(self, start: int, stop: int) -> EncodedRows:
        width = self._n_inputs + 2
        flat = np.fromfile(self._path, np.float32, (stop - start) * width, offset=4 * width * start)
        rows = flat.reshape(stop - start, width)
        return EncodedRows(rows[:, :-2], rows[:, -2], rows[:, -1])


# -- on a cluster -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClusterRows:
    """Encoded rows on workers; a `usnrt.nn.windows.RowReader`.

    Attributes
    ----------
    client : distributed.Client
    parts : list of (Future of EncodedRows, int)
        In their order, with their numbers of rows.
    """

    client: Any = field(repr=False)
    parts: Sequence[tuple[Any, int]]

    @classmethod
    def of(cls, store: ClusterStore, encoding: RowEncoding) -> "ClusterRows":
        """Encode the training rows of a store on the workers that have them."""
        n_chunks, client = len(store.table.keys), store.client
        counts = client.gather(store.map_chunks(_kept_in_chunk, [()] * n_chunks, encoding.roles))
        before = np.append(0, np.cumsum(counts))[:-1].tolist()
        parts = store.map_chunks(encode_chunk, [(n,) for n in before], encoding)
        sizes = client.gather([client.submit(_n_rows, part, pure=False, retries=RETRIES) for part in parts])
        return cls(client, list(zip(parts, sizes)))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(n for _, n in self.parts)

    def start_reading(self, spans: Sequence[Span]) -> Pending:
        """See `usnrt.nn.windows.RowReader`."""
        wanted, begin = [], 0
        for future, n_rows in self.parts:
            own = [(number, max(low - begin, 0), min(high - begin, n_rows)) for number, (low, high) in enumerate(spans)]
            own = [(number, low, high) for number, low, high in own if low < high]
            if own:
                wanted.append(self.client.submit(cut_spans, future, own, pure=False, retries=RETRIES))
            begin += n_rows
        return _Gathered(self.client, wanted, len(spans))


@dataclass(frozen=True)
class _Gathered:
    """Cuts of the parts of a cluster."""

    client: Any
    cuts: list[Any]
    n_spans: int

    def result(self) -> EncodedRows:
        """The spans in their order, each put together in the order of the parts."""
        cuts = [piece for cut in self.client.gather(self.cuts) for piece in cut]
        return joined([rows for span in range(self.n_spans) for number, rows in cuts if number == span])


def _kept_in_chunk(chunk: Chunk, roles: Any) -> int:
    return sum(kept_rows(rows, hashes, roles) for rows, hashes in chunk.buckets())


def encode_chunk(chunk: Chunk, n_before: int, encoding: RowEncoding) -> EncodedRows:
    """A task: the training rows of a chunk."""
    parts, encoding = [], encoding.grouped()
    for rows, hashes in chunk.buckets():
        parts.append(encoding.of(rows, hashes, n_before))
        n_before += kept_rows(rows, hashes, encoding.roles)
    return joined(parts)


def _n_rows(rows: EncodedRows) -> int:
    return len(rows.target)


def cut_spans(rows: EncodedRows, spans: Sequence[tuple[int, int, int]]) -> list[tuple[int, EncodedRows]]:
    """A task: spans of rows, each with its number."""
    return [(number, EncodedRows(*(values[low:high] for values in rows))) for number, low, high in spans]
