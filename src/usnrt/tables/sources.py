"""Tables outside memory as sequences of blocks: pyarrow datasets, memory maps and iterators of record batches.

`usnrt.tables.files` and `usnrt.tables.text_files` have those in files, `usnrt.tables.typed_table` types their columns,
and `usnrt.tables.find_source` finds the right one. A block is a pyarrow Table (or rows of a
memory map) of a bounded number of rows. All sources can be read several times; an iterator cannot, so its blocks are
written to the scratch folder as they are read.
"""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from usnrt.utils.types import Rows

if TYPE_CHECKING:
    import pyarrow as pa

    from usnrt.tables.typed_table import Reading


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a source."""

    table: Any  # pyarrow.Table, or ndarray of shape (n, d)
    place: str  # where they are from: a file, or the name of the source
    first_row: int  # number of the first row there, counted from 1
    start: int  # number of the first row in the whole source, counted from 0
    kept: Rows | None = None  # positions of the rows among those that were read; None for all

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.table.shape[0])

    def row_name(self, row: int) -> str:
        """A row of the block in words, for messages."""
        number = row if self.kept is None else int(self.kept[row])
        return f"row {self.first_row + number:,} of {self.place}"

    def without_missing(self, column: str) -> "Block":
        """The rows of a pyarrow Table in which a column has a value."""
        kept = np.flatnonzero(~np.asarray(self.table[column].is_null(nan_is_null=True)))
        return self if len(kept) == self.n_rows else replace(self, table=self.table.take(kept), kept=kept)


class TableSource(ABC):
    """A table outside memory."""

    #: in messages
    name: str = "the table"
    #: whether all columns are text, whose types are found by their values
    is_text: bool = False
    #: numbers, from 0, of rows with cells that are no values of a model's columns
    bad_rows: Set[int] = frozenset()

    @abstractmethod
    def pieces(self, block_rows: int) -> Iterator[tuple[Any, str]]:
        """Tables of at most about ``block_rows`` rows, each with the place that it is from."""

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return next((int(table.shape[1]) for table, _ in self.pieces(1)), 0)

    def known_rows(self) -> int | None:
        """Number of rows, if it is known without reading them."""
        return None

    @property
    def raw(self) -> "TableSource":
        """The source without types that would have to be found first."""
        return self

    @property
    def reading(self) -> "Reading | None":
        """How the files of the table are read; None for other sources."""
        return None

    def spool(self, folder: Path) -> None:  # noqa: B027 (most sources have nothing to write)
        """Write what can be read once only to a folder, from now on."""

    def blocks(self, block_rows: int) -> Iterator[Block]:
        """The rows in blocks of at most ``block_rows``; can be called again."""
        return blocks_of(self.pieces(block_rows), block_rows)


def blocks_of(pieces: Iterable[tuple[Any, str]], block_rows: int) -> Iterator[Block]:
    """The rows of tables, each with its place, in blocks of at most ``block_rows``."""
    start, place, row = 0, "", 0
    for table, where in pieces:
        if where != place:
            place, row = where, 0
        for first in range(0, table.shape[0], block_rows):
            part = table[first : first + block_rows]
            yield Block(part, place, row + 1, start)
            row, start = row + part.shape[0], start + part.shape[0]


class ArraySource(TableSource):
    """A numpy memory map of shape (n, d)."""

    def __init__(self, array: np.memmap[Any, Any]) -> None:
        self.array = array
        self.name = os.path.basename(str(array.filename)) if array.filename else "X"

    @property
    def n_columns(self) -> int:
        return int(self.array.shape[1])

    def known_rows(self) -> int:
        """Number of rows."""
        return len(self.array)

    def pieces(self, block_rows: int) -> Iterator[tuple[Any, str]]:
        """Rows copied from the map."""
        for start in range(0, len(self.array), block_rows):
            yield np.array(self.array[start : start + block_rows]), self.name


class DatasetSource(TableSource):
    """A `pyarrow.dataset.Dataset`; its schema decides what happens to files that differ from it."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.name = "the dataset"

    @property
    def n_columns(self) -> int:
        return len(self.dataset.schema)

    def pieces(self, block_rows: int) -> Iterator[tuple[Any, str]]:
        """The batches of each file, with its path; of other datasets than files, all batches."""
        import pyarrow as pa
        import pyarrow.dataset as ds

        # fewer batches ahead than by default, which are a hundred megabytes or more
        options = {"batch_size": block_rows, "batch_readahead": 1, "fragment_readahead": 1}
        places: list[tuple[Any, str]] = [(self.dataset, self.name)]
        if type(self.dataset) is ds.FileSystemDataset:  # a filtered one has no fragments
            with suppress(ValueError):
                places = [(fragment, fragment.path) for fragment in self.dataset.get_fragments()]
        for part, place in places:
            try:
                # a fragment alone would have the schema of its file
                schema = {} if part is self.dataset else {"schema": self.dataset.schema}
                for batch in part.to_batches(**schema, **options):
                    yield without_index(pa.Table.from_batches([batch])), place
            except (pa.ArrowException, OSError) as error:
                raise unreadable(place, error) from None


class BatchSource(TableSource):
    """An iterator of record batches, tables or data frames, which can be read once.

    Its tables are kept in memory until `spool` is called, and are written to files from then on.
    """

    def __init__(self, batches: Iterator[Any]) -> None:
        self.name = "the iterator"
        self._batches = batches
        self._kept: list[pa.Table] = []
        self._folder: Path | None = None
        self._n_files = 0

    def spool(self, folder: Path) -> None:
        """Write the tables to files in a folder, those that were read already and those to come."""
        self._folder = folder
        for table in self._kept:
            self._write(table)
        self._kept = []

    def pieces(self, block_rows: int) -> Iterator[tuple[Any, str]]:
        """The tables that were read already, then those of the iterator; columns in the order of the first table."""
        names: list[str] = []
        for number, table in enumerate(self._tables(), start=1):
            place = f"table {number:,} of the iterator"
            names = names or table.column_names
            check_columns(table.column_names, names, place, "the first one")
            yield table.select(names), place

    def _tables(self) -> "Iterator[pa.Table]":
        number = 0
        while number < len(self):
            number += 1
            yield self._read(number - 1)
        for batch in self._batches:
            number += 1
            table = as_arrow(batch, f"table {number:,} of the iterator")
            if self._folder is None:
                self._kept.append(table)
            else:
                self._write(table)
            yield table

    def __len__(self) -> int:
        return self._n_files if self._folder else len(self._kept)

    def _write(self, table: "pa.Table") -> None:
        import pyarrow as pa

        assert self._folder is not None
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_file(buffer, table.schema) as writer:
            writer.write_table(table)
        (self._folder / f"table-{self._n_files:06d}").write_bytes(buffer.getvalue())
        self._n_files += 1

    def _read(self, number: int) -> "pa.Table":
        import pyarrow as pa

        if self._folder is None:
            return self._kept[number]
        with open(self._folder / f"table-{number:06d}", "rb") as file:
            return pa.ipc.open_file(pa.BufferReader(file.read())).read_all()


class SelectedColumns(TableSource):
    """Another source without some of its columns, which counts the rows of the last pass."""

    def __init__(self, source: TableSource, dropped: Collection[str]) -> None:
        self._source, self._dropped = source, dropped
        self.name = source.name
        self.n_rows_read = 0

    @property
    def reading(self) -> "Reading | None":
        """How the files of the table are read."""
        return self._source.reading

    def known_rows(self) -> int | None:
        return self._source.known_rows()

    def spool(self, folder: Path) -> None:
        """Write what can be read once only to a folder."""
        self._source.spool(folder)

    def pieces(self, block_rows: int) -> Iterator[tuple[Any, str]]:
        """Tables without the columns."""
        self.n_rows_read = 0
        for table, place in self._source.pieces(block_rows):
            self.n_rows_read += table.num_rows
            yield table.drop_columns(list(self._dropped)), place


def without_index(table: "pa.Table") -> "pa.Table":
    """A table of a Parquet file without the unnamed index that pandas stores in it: it numbers rows, it is no feature.

    Examples
    --------
    >>> import pandas as pd
    >>> import pyarrow as pa
    >>> table = pa.Table.from_pandas(pd.DataFrame({"a": [1, 2]}, index=[5, 6]))
    >>> table.column_names, without_index(table).column_names
    (['a', '__index_level_0__'], ['a'])
    """
    return table.drop_columns([name for name in table.column_names if re.fullmatch(r"__index_level_\d+__", name)])


def as_arrow(batch: Any, place: str) -> "pa.Table":
    """A record batch or a data frame as a pyarrow Table; errors name its place.

    Examples
    --------
    >>> import pandas as pd
    >>> as_arrow(pd.DataFrame({"a": [1, 2]}, index=[5, 6]), "the first").column_names
    ['a']
    """
    import pyarrow as pa

    if isinstance(batch, pa.Table):
        return batch
    if isinstance(batch, pa.RecordBatch):
        return pa.Table.from_batches([batch])
    frame = nw.from_native(batch, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise TypeError(f"{place} must be a record batch, a table or a data frame, got {type(batch).__name__}")
    try:
        is_pandas = frame.implementation.is_pandas()
        return pa.Table.from_pandas(batch, preserve_index=False) if is_pandas else frame.to_arrow()
    except (pa.ArrowException, TypeError) as error:
        raise unreadable(place, error) from None


def check_columns(names: list[str], expected: list[str], place: str, first: str) -> None:
    """Raise a ValueError unless a table has the columns of the first one.

    Examples
    --------
    >>> check_columns(["b", "a"], ["a", "b"], "2.csv", "1.csv")
    >>> check_columns(["a"], ["a", "b"], "2.csv", "1.csv")
    Traceback (most recent call last):
        ...
    ValueError: 2.csv must have the columns of 1.csv, but 'b' is missing
    """
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise ValueError(f"{place} must have unique column names, got {repeated[0]!r} twice")
    absent = [name for name in expected if name not in names]
    if absent:
        raise ValueError(f"{place} must have the columns of {first}, but {absent[0]!r} is missing")
    new = [name for name in names if name not in expected]
    if new:
        raise ValueError(f"{place} must have the columns of {first}, but it also has {new[0]!r}")


def unreadable(place: str, error: Exception) -> ValueError:
    """An error that names the place in one sentence.

    Examples
    --------
    >>> unreadable("a.parquet", OSError("Couldn't deserialize   thrift"))
    ValueError("a.parquet cannot be read: Couldn't deserialize thrift")
    """
    reason = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
    return ValueError(f"{place} cannot be read: {' '.join(reason.split())[:300]}")
