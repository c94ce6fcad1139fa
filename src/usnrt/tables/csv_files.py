"""Tables in CSV files, read block by block; the type of a column is the narrowest that all of its values have."""

import codecs
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from usnrt.tables.csv_format import CsvFormat, declared_delimiter, find_delimiter, find_encoding
from usnrt.tables.files import TableFiles, check_file, format_of
from usnrt.tables.numbers import NULL_TEXTS
from usnrt.tables.sources import check_columns, unreadable

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE = 1 << 18
READ_BYTES = 1 << 23


class CsvFiles(TableFiles):
    """CSV files.

    Types are decided by all rows of all files, in a pass of its own before the first block.

    Parameters
    ----------
    files : list of Path
    name : str
    text_columns : collection of str
        Columns that stay text even if all of it looks like numbers.
    types : mapping of str to pyarrow.DataType, optional
        Types of columns if they are known: no pass is needed, and other columns are text.
    delimiter, encoding : str, optional
        Of all files; each file's own by default.
    """

    def __init__(
        self,
        files: list[Path],
        name: str,
        text_columns: Collection[str] = (),
        types: "Mapping[str, pa.DataType] | None" = None,
        delimiter: str | None = None,
        encoding: str | None = None,
    ) -> None:
        super().__init__(files, name)
        self.text_columns = text_columns
        self.types = types
        self._delimiter, self._encoding = delimiter, encoding
        self._formats: dict[Path, tuple[CsvFormat, int]] = {}

    def tables(self, file: Path, block_rows: int) -> "Iterator[pa.Table]":
        """The rows of one file, typed."""
        if self.types is None:
            self.types = self._common_types()
        for table in self._texts(file):
            yield _typed(table, self.types, file)

    def _common_types(self) -> "dict[str, pa.DataType]":
        """The narrowest type of each column that all files allow."""
        import pyarrow as pa

        candidates: dict[str, list[pa.DataType]] = {}
        for file in self.files:
            check_file(file)
            try:
                for table in self._texts(file):
                    expected = list(candidates) or table.column_names
                    check_columns(table.column_names, expected, str(file), str(self.files[0]))
                    for name in expected:
                        left = candidates.setdefault(name, [] if name in self.text_columns else column_types())
                        candidates[name] = [kind for kind in left if _has_type(table[name], kind)]
            except (pa.ArrowException, OSError, EOFError) as error:
                raise unreadable(str(file), error) from None
        return {name: kinds[0] if kinds else pa.string() for name, kinds in candidates.items()}

    @property
    def format(self) -> CsvFormat:
        """Separator and encoding of the first file."""
        return self._format_of(self.files[0])[0]

    def _format_of(self, file: Path) -> tuple[CsvFormat, int]:
        """Format of a file, and how many lines come before its header."""
        if file not in self._formats:
            try:
                encoding = self._encoding or find_encoding(_bytes(file))
            except ValueError as error:  # binary
                raise unreadable(str(file), error) from None
            sample = _first_lines(file, encoding)
            declared = declared_delimiter(sample.split("\n", 1)[0])
            if declared:
                sample = sample.partition("\n")[2]
            preferred = "\t" if format_of(file)[0] == "tsv" else ","
            delimiter = self._delimiter or declared or find_delimiter(sample, preferred=preferred)
            self._formats[file] = CsvFormat(delimiter=delimiter, encoding=encoding), 1 if declared else 0
        return self._formats[file]

    def _texts(self, file: Path) -> "Iterator[pa.Table]":
        """All columns as text. Arrow would guess types from the first block and fail where a later one differs."""
        import pyarrow as pa
        import pyarrow.csv as pa_csv

        _, compression = format_of(file)
        format, skipped = self._format_of(file)
        read = pa_csv.ReadOptions(encoding=format.encoding, block_size=READ_BYTES, skip_rows=skipped)
        parse = pa_csv.ParseOptions(delimiter=format.delimiter, newlines_in_values=True)
        with pa.input_stream(str(file), compression=compression) as stream:
            names = pa_csv.open_csv(stream, read, parse).schema.names
        check_columns(names, names, str(file), str(file))
        texts = {name: pa.string() for name in names}
        convert = pa_csv.ConvertOptions(column_types=texts, strings_can_be_null=True, null_values=list(NULL_TEXTS))
        with pa.input_stream(str(file), compression=compression) as stream:
            reader = pa_csv.open_csv(stream, read, parse, convert)
            yield reader.schema.empty_table()
            for batch in reader:
                yield pa.Table.from_batches([batch])


def column_types() -> "list[pa.DataType]":
    """The types that text may have, the narrowest first; the first one is that of columns without values."""
    import pyarrow as pa

    return [pa.null(), pa.int64(), pa.float64(), pa.bool_(), pa.timestamp("us"), pa.timestamp("us", tz="UTC")]


def _has_type(column: "pa.ChunkedArray", kind: "pa.DataType") -> bool:
    import pyarrow as pa

    if kind == pa.null():
        return bool(column.null_count == len(column))
    try:
        _trimmed(column).cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _trimmed(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    import pyarrow.compute as pc

    return pc.utf8_trim_whitespace(column)


def _typed(table: "pa.Table", types: "Mapping[str, pa.DataType]", file: Path) -> "pa.Table":
    import pyarrow as pa

    columns = []
    for name, column in zip(table.column_names, table.itercolumns()):
        kind = types.get(name, pa.string())
        try:
            if kind == pa.null():
                columns.append(pa.chunked_array([pa.nulls(len(column))]))
            else:
                columns.append(column if kind == pa.string() else _trimmed(column).cast(kind))
        except pa.ArrowInvalid as error:
            raise ValueError(f"column {name!r} of {file} must hold {kind}: {error}") from None
    return pa.table(columns, names=table.column_names)


def _bytes(file: Path) -> Iterator[bytes]:
    """The content of a file, uncompressed."""
    import pyarrow as pa

    with pa.input_stream(str(file), compression=format_of(file)[1]) as stream:
        while block := stream.read(READ_BYTES):
            yield block


def _first_lines(file: Path, encoding: str) -> str:
    data = next(_bytes(file), b"")[:SAMPLE]
    is_whole = len(data) < SAMPLE
    text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(data, final=is_whole).lstrip("\ufeff")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if is_whole or "\n" not in text else text[: text.rindex("\n") + 1]
