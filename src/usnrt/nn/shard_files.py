"""Files of encoded rows, float32, one per shard: written once, then read piece by piece in every pass.

Pieces are read into memory, not mapped: mapped pages would count as memory of the process.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np

from usnrt.nn.rounds import EncodedRows


@dataclass(frozen=True)
class ShardFile:
    """A file of encoded rows; a `usnrt.nn.rounds.ShardRows`.

    Attributes
    ----------
    path : str
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
    n_shards, n_inputs : int

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from usnrt.nn.rounds import EncodedRows
    >>> from usnrt.nn.shard_files import ShardWriter
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
