"""Tables in CSV files, read block by block, with all columns as text; `usnrt.tables.typed_table` types them."""

import io
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from usnrt.tables.csv_format import (
    ONE_COLUMN,
    CsvFormat,
    declared_delimiter,
    decoded_start,
    find_delimiter,
    find_encoding,
    ragged_line,
)
from usnrt.tables.files import Input, TableFiles
from usnrt.tables.numbers import NULL_TEXTS
from usnrt.tables.read_options import ModelColumns, ReadOptions
from usnrt.tables.sources import check_columns

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE = 1 << 18
READ_BYTES = 1 << 23


class CsvFiles(TableFiles):
    """CSV files, each with the encoding and the separator that it has or that the options name.

    Parameters
    ----------
    files : list of Input
    name : str
    options : ReadOptions
    model : ModelColumns
        Of the model that the files are for.
    """

    def __init__(
        self, files: list[Input], name: str, options: ReadOptions | None = None, model: ModelColumns | None = None
    ) -> None:
        super().__init__(files, name)
        self._options, self._model = options or ReadOptions(), model or ModelColumns()
        self._formats: dict[Input, tuple[CsvFormat, int]] = {}

    @property
    def format(self) -> CsvFormat:
        """Separator and encoding of the first file, with plain numbers."""
        return self._format_of(self.files[0])[0]

    def tables(self, file: Input, block_rows: int) -> "Iterator[pa.Table]":
        """The rows of one file. Arrow would guess types from the first block and fail where a later one differs."""
        import pyarrow as pa
        import pyarrow.csv as pa_csv

        format, n_skipped = self._format_of(file)
        read = pa_csv.ReadOptions(encoding=format.encoding, block_size=READ_BYTES, skip_rows=n_skipped)
        parse = pa_csv.ParseOptions(delimiter=format.delimiter, newlines_in_values=True)
        with file.open() as stream:
            names = pa_csv.open_csv(stream, read, parse).schema.names
        check_columns(names, names, str(file), str(file))
        texts = {name: pa.string() for name in names}
        convert = pa_csv.ConvertOptions(column_types=texts, strings_can_be_null=True, null_values=list(NULL_TEXTS))
        with file.open() as stream:
            reader = pa_csv.open_csv(stream, read, parse, convert)
            yield reader.schema.empty_table()
            for batch in reader:
                yield pa.Table.from_batches([batch])

    def _format_of(self, file: Input) -> tuple[CsvFormat, int]:
        """Format of a file, and how many lines come before its header."""
        if file not in self._formats:
            file.check()
            encoding = self._options.encoding or self._encoding_of(file)
            with file.open() as stream:
                data = stream.read(SAMPLE)
            sample = decoded_start(data, encoding, is_whole=len(data) < SAMPLE)
            declared = declared_delimiter(sample.split("\n", 1)[0])
            if declared:
                sample = sample.partition("\n")[2]
            if not sample.strip() and len(data) < SAMPLE:
                raise ValueError(f"{file} is empty")
            prior = self._model.format
            usual = prior.delimiter if prior and prior.delimiter != ONE_COLUMN else "\t" if file.kind == "tsv" else ","
            delimiter = self._options.sep or declared or find_delimiter(sample, self._model.types, usual)
            self._formats[file] = CsvFormat(delimiter=delimiter, encoding=encoding), 1 if declared else 0
        return self._formats[file]

    def _encoding_of(self, file: Input) -> str:
        try:
            encoding = find_encoding(file.blocks())
        except ValueError as error:  # binary
            raise ValueError(f"{file} cannot be read: {error}") from None
        prior, single_byte = self._model.format, ("latin-1", "cp1252")
        if prior and encoding in single_byte and prior.encoding not in ("utf-8", *single_byte):
            try:  # another encoding that the user has named in fit
                for block in file.blocks():
                    block.decode(prior.encoding)
                return prior.encoding
            except (UnicodeDecodeError, LookupError):
                pass
        return encoding

    def error(self, file: Input, error: Exception) -> Exception:
        """What to raise instead of an error of Arrow or the system; a line with too many or too few values is named."""
        if isinstance(error, UnicodeError):
            encoding = self._options.encoding or self._formats[file][0].encoding
            return ValueError(f"{file} cannot be read as {encoding}; encoding names another one")
        sentence = self._ragged(file) if re.search(r"Expected \d+ columns", str(error)) else ""
        return ValueError(f"{file} cannot be read: {sentence}") if sentence else super().error(file, error)

    def _ragged(self, file: Input) -> str:
        """The first line that has too few or too many values, in words."""
        format, n_skipped = self._format_of(file)
        with file.open() as stream:
            text = io.TextIOWrapper(stream, encoding=format.encoding, errors="replace", newline="")
            for _ in range(n_skipped):
                text.readline()
            found = ragged_line(text, format.delimiter)
        if found is None:
            return ""
        line, n_values, n_names = found
        values = "1 value" if n_values == 1 else f"{n_values} values"
        names = "1 column name" if n_names == 1 else f"{n_names} column names"
        return (
            f"line {line + n_skipped} has {values}, but the first line has {names} "
            f"(separator {delimiter_name(format.delimiter)})"
        )


def delimiter_name(delimiter: str) -> str:
    """A separator in messages."""
    return {"\t": "tab", ONE_COLUMN: "none"}.get(delimiter, repr(delimiter))
