"""Tables in files: one file, a folder or a pattern of Parquet or CSV files, read block by block."""

import glob
import os
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from usnrt.tables.sources import TableSource, check_columns, unreadable, without_index

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

COMPRESSION = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
FORMATS = {
    **{".csv": "csv", ".txt": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet"},
    **{".feather": "feather", ".arrow": "feather", ".jsonl": "jsonl", ".ndjson": "jsonl", ".xlsx": "xlsx"},
}


@dataclass(frozen=True)
class Input:
    """A file, or all bytes of standard input, which can be read more than once."""

    path: Path  # ``-`` for standard input
    kind: str  # one of "csv", "tsv", "parquet", "feather", "jsonl", "xlsx"
    compression: str | None = None
    data: bytes | None = None  # of standard input

    @classmethod
    def of(cls, path: Path) -> "Input":
        """A file, whose name tells its format."""
        return cls(path, *format_of(path))

    @classmethod
    def standard(cls, data: bytes) -> "Input":
        """Standard input, whose first bytes tell its format."""
        compression = next((name for magic, name in _MAGIC.items() if data.startswith(magic)), None)
        source = cls(Path("-"), "csv", compression, data)
        try:
            start = next(source.blocks(), b"")
        except OSError as error:
            raise unreadable(str(source), error) from None
        return replace(source, kind="parquet") if start.startswith(b"PAR1") else source

    def __str__(self) -> str:
        return str(self.path) if self.data is None else "standard input"

    def open(self) -> "pa.NativeFile":
        """The uncompressed content."""
        import pyarrow as pa

        if self.data is None:
            return pa.input_stream(str(self.path), compression=self.compression)
        buffer = pa.BufferReader(self.data)
        return pa.CompressedInputStream(buffer, self.compression) if self.compression else buffer

    def blocks(self) -> Iterator[bytes]:
        """The uncompressed content, block by block."""
        with self.open() as stream:
            while block := stream.read(1 << 20):
                yield block

    def check(self) -> None:
        """Raise an error unless the file is there, can be opened and holds something."""
        if self.data is None:
            if self.path.is_dir():
                raise ValueError(f"{self} is a folder, not a file")
            if not self.path.exists():
                raise FileNotFoundError(f"{self} does not exist")
            self.path.open("rb").close()  # raises PermissionError
        if not (self.path.stat().st_size if self.data is None else self.data):
            raise ValueError(f"{self} is empty")


class TableFiles(TableSource):
    """Files that hold the rows of one table, by the name that was given; all have the same columns, in any order."""

    def __init__(self, files: list[Input], name: str) -> None:
        self.files = files
        self.name = name

    @abstractmethod
    def tables(self, file: Input, block_rows: int) -> "Iterator[pa.Table]":
        """The rows of one file; the first table has its columns even if there are no rows."""

    def error(self, file: Input, error: Exception) -> Exception:
        """What to raise instead of an error of Arrow or the system."""
        return error if isinstance(error, PermissionError) else unreadable(str(file), error)

    def pieces(self, block_rows: int) -> Iterator[tuple[Any, str]]:
        """The rows of all files, with the columns in the order of the first file."""
        import pyarrow as pa

        names: list[str] = []
        for file in self.files:
            file.check()
            try:
                for table in self.tables(file, block_rows):
                    names = names or table.column_names
                    check_columns(table.column_names, names, str(file), str(self.files[0]))
                    yield table.select(names), str(file)
            except (pa.ArrowException, OSError, EOFError, UnicodeError) as error:
                raise self.error(file, error) from None


class ParquetFiles(TableFiles):
    """Parquet files."""

    def known_rows(self) -> int:
        """Number of rows, from the ends of the files."""
        import pyarrow as pa

        n_rows = 0
        for file in self.files:
            file.check()
            try:
                with _open_parquet(file) as parquet:
                    n_rows += parquet.metadata.num_rows
            except (pa.ArrowException, OSError, EOFError) as error:
                raise self.error(file, error) from None
        return n_rows

    def tables(self, file: Input, block_rows: int) -> "Iterator[pa.Table]":
        """The rows of one file; row groups are decoded one at a time."""
        import pyarrow as pa

        with _open_parquet(file) as parquet:
            yield without_index(parquet.schema_arrow.empty_table())
            for batch in parquet.iter_batches(block_rows, use_threads=False):
                yield without_index(pa.Table.from_batches([batch]))


class FeatherFiles(TableFiles):
    """Feather files, which are files of Arrow's record batches."""

    def tables(self, file: Input, block_rows: int) -> "Iterator[pa.Table]":
        """The rows of one file, by its batches."""
        import pyarrow as pa

        with file.open() as stream:
            # it is read from its end
            whole = stream if file.compression is None else pa.BufferReader(stream.read())
            reader = pa.ipc.open_file(whole)
            yield without_index(reader.schema.empty_table())
            for number in range(reader.num_record_batches):
                yield without_index(pa.Table.from_batches([reader.get_batch(number)]))


def _open_parquet(file: Input) -> "pq.ParquetFile":
    import pyarrow as pa
    import pyarrow.parquet as pq

    if file.compression is None and file.data is None:
        return pq.ParquetFile(str(file.path))
    # Parquet is read from its end, so a file that is compressed as a whole must be in memory.
    with file.open() as stream:
        return pq.ParquetFile(pa.BufferReader(stream.read()))


def files_of(path: str | os.PathLike[str]) -> list[Path]:
    """The files that a path stands for, at least one, sorted by name.

    A path is a file; a folder, which stands for all tables in it and its subfolders whose names do not begin with "."
    or "_"; or a pattern with ``*``, ``?``, ``[`` or ``**``.
    """
    text = os.path.expanduser(os.fspath(path))
    place = Path(text)
    if place.is_dir():
        files = [file for file in sorted(place.rglob("*")) if file.is_file() and _is_shown(file.relative_to(place))]
        _refuse_partitions(files, place)
        files = [file for file in files if _is_table(file)]
        if not files:
            raise FileNotFoundError(f"the folder {path} has no .parquet, .csv or .tsv file")
        return files
    if place.exists() or not glob.has_magic(text):
        if not place.exists():
            raise FileNotFoundError(f"{path} does not exist")
        return [place]
    files = [Path(name) for name in sorted(glob.glob(text, recursive=True)) if os.path.isfile(name)]
    if not files:
        raise FileNotFoundError(f"no file matches {str(path)!r}")
    return files


def format_of(file: Path) -> tuple[str, str | None]:
    """Format and compression of a file, from its name.

    Examples
    --------
    >>> format_of(Path("sales.csv.gz"))
    ('csv', 'gzip')
    """
    suffixes = [suffix.lower() for suffix in file.suffixes]
    compression = COMPRESSION.get(suffixes[-1]) if suffixes else None
    if compression:
        suffixes.pop()
    if suffixes and suffixes[-1] in (".xls", ".ods"):
        raise ValueError(f"{file} is a workbook that cannot be read; save it as .xlsx or as CSV")
    if not suffixes or suffixes[-1] not in FORMATS:
        raise ValueError(
            f"{file} must be a .csv, .tsv, .parquet, .feather, .jsonl or .xlsx file (also with .gz, .bz2 or .zst), "
            f"got the ending {file.suffix!r}"
        )
    return FORMATS[suffixes[-1]], compression


def _is_shown(path: Path) -> bool:
    return not any(part.startswith((".", "_")) for part in path.parts)


def _is_table(file: Path) -> bool:
    try:
        format_of(file)
    except ValueError:
        return False
    return True


def _refuse_partitions(files: list[Path], folder: Path) -> None:
    """Folders such as year=2024 hold a column in their names, which would be lost."""
    for file in files:
        for part in file.relative_to(folder).parts[:-1]:
            if "=" in part:
                raise ValueError(
                    f"the folder {folder} is partitioned ({part}); "
                    f"give pyarrow.dataset.dataset({str(folder)!r}, partitioning='hive') instead"
                )
