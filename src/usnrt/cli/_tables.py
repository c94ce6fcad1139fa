"""Tables in files: CSV, TSV and Parquet, compressed or not, read and written by pyarrow."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv as pa_csv

from usnrt.cli._errors import UserError
from usnrt.cli._large import is_many, read_many
from usnrt.utils.whole_file import whole_file

COMPRESSION = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
FORMATS = {".csv": "csv", ".tsv": "tsv", ".txt": "csv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet"}
# Missing values as spreadsheets and statistics programs write them. "None" may be a category.
NULL_TEXTS = ["", "NA", "N/A", "n/a", "NaN", "nan", "NAN", "null", "NULL", "Null", "#N/A", "#NA", "?"]


def format_of(path: Path) -> tuple[str, str | None]:
    """Format and compression of a file, from its name."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compression = COMPRESSION.get(suffixes[-1]) if suffixes else None
    if compression:
        suffixes.pop()
    if not suffixes or suffixes[-1] not in FORMATS:
        raise UserError(
            f"{path} must be a .csv, .tsv or .parquet file (also with .gz, .bz2 or .zst), "
            f"got the ending {path.suffix!r}"
        )
    return FORMATS[suffixes[-1]], compression


def read_file(path: Path, notice: Callable[[str], None], text_columns: Collection[str] = ()) -> pa.Table:
    """Read a table.

    Parameters
    ----------
    path : Path
    notice : callable
        Called with a message about anything that was guessed.
    text_columns : collection of str
        Columns that stay text even if all of it looks like numbers.

    Returns
    -------
    pyarrow.Table
    """
    if is_many(path):
        return read_many(path, text_columns)
    kind, _ = format_of(path)
    if not path.exists():
        raise UserError(f"{path} does not exist")
    path.open("rb").close()  # raises PermissionError
    if path.stat().st_size == 0:
        raise UserError(f"{path} is empty")
    try:
        table = _read_parquet(path) if kind == "parquet" else _read_csv(path, kind, notice, text_columns)
    except pa.ArrowException as error:
        raise UserError(f"{path} cannot be read: {' '.join(str(error).split())[:300]}") from None
    except EOFError:
        raise UserError(f"{path} cannot be read: the file is truncated") from None
    if table.num_rows == 0:
        raise UserError(f"{path} has no rows")
    _check_unique(table.column_names, path)
    return table


def _check_unique(names: list[str], path: Path) -> None:
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise UserError(f"{path} must have unique column names, got {repeated[0]!r} twice")


def _read_parquet(path: Path) -> pa.Table:
    import pyarrow.parquet as pq

    _, compression = format_of(path)
    if compression is None:
        return pq.read_table(path)
    with pa.input_stream(str(path), compression=compression) as stream:
        return pq.read_table(pa.BufferReader(stream.read()))


def _read_csv(path: Path, kind: str, notice: Callable[[str], None], text_columns: Collection[str]) -> pa.Table:
    header = _first_line(path)
    delimiter = "\t" if kind == "tsv" or (b"\t" in header and b"," not in header) else ","
    if delimiter == "," and b"," not in header and b";" in header:
        delimiter = ";"
        notice(f"{path} was read as separated by semicolons")
    try:
        table = _read_texts(path, delimiter, "utf8")
    except (UnicodeDecodeError, pa.ArrowInvalid) as error:
        if "utf" not in str(error).lower():
            raise
        table = _read_texts(path, delimiter, "latin1")
        notice(f"{path} is not UTF-8 and was read as latin-1")
    columns = [
        column if name in text_columns else _typed(column)
        for name, column in zip(table.column_names, table.itercolumns())
    ]
    return pa.table(columns, names=table.column_names)


def _first_line(path: Path) -> bytes:
    _, compression = format_of(path)
    with pa.input_stream(str(path), compression=compression) as stream:
        header: bytes = stream.read(65536)
    return header.split(b"\n", 1)[0]


def _read_texts(path: Path, delimiter: str, encoding: str) -> pa.Table:
    """All columns as text. Arrow would guess types from the first megabyte and fail where a later one differs."""
    _, compression = format_of(path)
    read = pa_csv.ReadOptions(encoding=encoding, block_size=16 << 20)
    parse = pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    with pa.input_stream(str(path), compression=compression) as stream:
        names = pa_csv.open_csv(stream, read, parse).schema.names
    _check_unique(names, path)
    convert = pa_csv.ConvertOptions(
        column_types={name: pa.string() for name in names}, strings_can_be_null=True, null_values=NULL_TEXTS
    )
    with pa.input_stream(str(path), compression=compression) as stream:
        return pa_csv.read_csv(stream, read, parse, convert)


def _typed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The narrowest type that every value of a text column has."""
    import pyarrow.compute as pc

    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column))])
    trimmed = pc.utf8_trim_whitespace(column)
    for kind in (pa.int64(), pa.float64(), pa.bool_(), pa.timestamp("us"), pa.timestamp("us", tz="UTC")):
        try:
            return trimmed.cast(kind)
        except pa.ArrowInvalid:
            continue
    return column


def write_file(table: pa.Table, path: Path) -> None:
    """Write a table atomically, in the format of the file name."""
    kind, compression = format_of(path)
    with whole_file(path) as file:
        if compression is None:
            write_stream(table, file, kind)
        else:
            buffer = pa.BufferOutputStream()
            with pa.CompressedOutputStream(buffer, compression) as stream:
                write_stream(table, stream, kind)
            file.write(buffer.getvalue())


def write_stream(table: pa.Table, stream: BinaryIO | pa.NativeFile, kind: str) -> None:
    """Write a table to an open file."""
    if kind == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, stream)
    else:
        pa_csv.write_csv(table, stream, pa_csv.WriteOptions(delimiter="\t" if kind == "tsv" else ","))
