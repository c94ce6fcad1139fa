"""Tables in files: CSV, TSV and Parquet, compressed or not, read and written by pyarrow."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as pa_csv

from usnrt.cli._columns import TypedColumns, describe, typed_columns
from usnrt.cli._csv import check_unique, delimiter_name, read_texts
from usnrt.cli._errors import UserError
from usnrt.cli._large import is_many, read_many
from usnrt.cli._reading_options import ReadOptions
from usnrt.cli._streams import Source, is_standard, output_file, source_of
from usnrt.tables.csv_format import CsvFormat
from usnrt.tables.files import format_of
from usnrt.tables.sources import without_index


@dataclass(frozen=True)
class Known:
    """What a model knows of its tables: how its file was read, and the types of its columns.

    Attributes
    ----------
    format : CsvFormat or None
    types : mapping of str to str
        "number", "text" or "date" by column.
    """

    format: CsvFormat | None = None
    types: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FileTable:
    """A table, and how its file was read.

    Attributes
    ----------
    table : pyarrow.Table
    format : CsvFormat
        The default for files that are not CSV.
    typed : TypedColumns
    """

    table: pa.Table
    format: CsvFormat
    typed: TypedColumns

    def reading(self) -> dict[str, Any]:
        """The format as the model stores it."""
        return dict(vars(self.format))

    def date_formats(self) -> dict[str, str]:
        """Formats of the dates that are not ISO 8601, which needs none."""
        return {n: d.format for n, d in self.typed.dates.items() if not d.format.startswith("%Y-%m-%d")}


def read_file(
    path: Path,
    notice: Callable[[str], None],
    options: ReadOptions | None = None,
    known: Known | None = None,
) -> FileTable:
    """Read a table.

    Parameters
    ----------
    path : Path
        ``-`` is standard input.
    notice : callable
        Called with a message about anything that was guessed.
    options : ReadOptions, optional
    known : Known, optional
        Of the model that the table is for.

    Returns
    -------
    FileTable
    """
    options, known = options or ReadOptions(), known or Known()
    if is_many(path):
        table, format, source = read_many(path, options)
        return _typed(table, format, source, notice, options, known)
    source = source_of(path)
    table, format = _texts(source, options, known.format, known.types)
    if table.num_rows == 0:
        raise UserError(f"{source.name} has no rows")
    check_unique(table.column_names, source.name)
    return _typed(table, format, source, notice, options, known)


def _texts(
    source: Source, options: ReadOptions, like: CsvFormat | None, expected: Mapping[str, str]
) -> tuple[pa.Table, CsvFormat]:
    """`read_texts`, or a table with typed columns of a Parquet file; errors in one sentence."""
    try:
        if source.kind == "parquet":
            return _read_parquet(source), CsvFormat()
        return read_texts(source, options, like, expected)
    except pa.ArrowException as error:
        raise UserError(f"{source.name} cannot be read: {' '.join(str(error).split())[:300]}") from None
    except EOFError:
        raise UserError(f"{source.name} cannot be read: the file is truncated") from None


def _typed(
    table: pa.Table,
    format: CsvFormat,
    source: Source,
    notice: Callable[[str], None],
    options: ReadOptions,
    known: Known,
) -> FileTable:
    """Convert text columns, and say how."""
    is_csv = source.kind != "parquet"
    typed = typed_columns(table, options, source.name, is_csv, format.delimiter, known.format, known.types)
    if typed.marks:
        used = list(typed.marks.values())
        decimal = "," if any(marks.decimal == "," for marks in used) else "."
        thousands = next((marks.thousands for marks in used if marks.thousands), "")
        format = replace(format, decimal=decimal, thousands=thousands)
    else:
        format = replace(format, decimal=options.decimal or ".", thousands=options.thousands or "")
    sentence = describe(format, typed, source.kind if is_csv else "csv", options, delimiter_name)
    if sentence:
        notice(f"{source.name} was read with {sentence}")
    for name in typed.too_large:
        notice(f"{name!r} holds integers of more than 64 bits and was read as text (--types {name}=number overrules)")
    return FileTable(pa.table(list(typed.columns.values()), names=list(typed.columns)), format, typed)


def _read_parquet(source: Source) -> pa.Table:
    import pyarrow.parquet as pq

    if source.compression is None and source.data is None:
        return without_index(pq.read_table(source.path))
    with source.open() as stream:
        return without_index(pq.read_table(pa.BufferReader(stream.read())))


def write_file(table: pa.Table, path: Path) -> None:
    """Write a table atomically, in the format of the file name; CSV to standard output (-)."""
    kind, compression = ("csv", None) if is_standard(path) else format_of(path)
    with output_file(path) as file:
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
