"""Files whose cells are text, typed by all values of their columns: CSV, JSON lines and workbooks."""

import datetime
import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from usnrt.tables.csv_format import (
    ONE_COLUMN,
    CsvFormat,
    Preamble,
    decoded_start,
    delimiter_name,
    find_delimiter,
    find_encoding,
    find_preamble,
    ragged_line,
    what_it_is,
)
from usnrt.tables.files import Input, TableFiles
from usnrt.tables.numbers import NULL_TEXTS
from usnrt.tables.read_options import ModelColumns, ReadOptions
from usnrt.tables.sources import check_columns
from usnrt.utils.names import shown_value

BLOCK_ROWS = 10_000


class JsonLines(TableFiles):
    """Files with a JSON object in each line; a key that a line lacks is a missing value."""

    is_text = True

    def tables(self, file: Input, block_rows: int) -> Iterator[pa.Table]:
        """The rows of one file."""
        names = list(dict.fromkeys(name for row in _objects(file) for name in row))
        yield _text_table(names, [])
        for rows in _batches(_objects(file)):
            yield _text_table(names, ([row.get(name) for name in names] for row in rows))


class Workbooks(TableFiles):
    """The first sheets of Excel workbooks, whose first rows have the names of the columns."""

    is_text = True

    def tables(self, file: Input, block_rows: int) -> Iterator[pa.Table]:
        """The rows of one file; empty rows and columns without name and values are left out."""
        try:
            from openpyxl import load_workbook
        except ImportError:
            raise ImportError(f"workbooks are read by openpyxl; install usnrt[excel], or save {file} as CSV") from None
        with file.open() as stream:
            data = io.BytesIO(stream.read())
        try:
            book = load_workbook(data, read_only=True, data_only=True)
        except Exception as error:  # of zip files and of XML, by many classes
            raise OSError(f"it is no workbook ({error})") from None
        rows = (row for row in book.worksheets[0].iter_rows(values_only=True) if any(v is not None for v in row))
        header = next(rows, ())
        width = max((place + 1 for place, name in enumerate(header) if name is not None), default=0)
        names = ["" if name is None else str(name) for name in header[:width]]
        yield _text_table(names, [])
        for block in _batches(rows):
            yield _text_table(names, (row[:width] for row in block))


def _batches(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while batch := list(islice(rows, BLOCK_ROWS)):
        yield batch


def _objects(file: Input) -> Iterator[dict[str, Any]]:
    with file.open() as stream:
        for number, line in enumerate(io.TextIOWrapper(stream, encoding="utf-8-sig"), start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            if not isinstance(row, dict):
                raise OSError(
                    f"line {number:,} must be a JSON object, got {shown_value(line.strip())}".replace("'", "")
                )
            yield row


def _text_table(names: list[str], rows: Iterable[Iterable[Any]]) -> pa.Table:

    columns = list(zip(*rows)) or [()] * len(names)
    return pa.table([pa.array(map(_text_of, column), pa.string()) for column in columns], names=names)


def _text_of(value: Any) -> str | None:
    """A cell as a CSV file would have it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    if isinstance(value, dict | list):
        return json.dumps(value)
    text = None if value is None else str(value)
    return None if text in NULL_TEXTS else text


SAMPLE = 1 << 18
READ_BYTES = 1 << 23


class CsvFiles(TableFiles):
    """CSV files, each with the encoding and the separator that it has or that the options name; perhaps for a model."""

    is_text = True

    def __init__(
        self, files: list[Input], name: str, options: ReadOptions | None = None, model: ModelColumns | None = None
    ) -> None:
        super().__init__(files, name)
        self._options, self._model = options or ReadOptions(), model or ModelColumns()
        self._formats: dict[Input, tuple[CsvFormat, Preamble]] = {}

    @property
    def format(self) -> CsvFormat:
        """Separator and encoding of the first file, with plain numbers."""
        return self._format_of(self.files[0])[0]

    @property
    def n_titles(self) -> int:
        """Lines before the names of the columns of the first file, without one that declares the separator."""
        preamble = self._format_of(self.files[0])[1]
        return preamble.n_lines - bool(preamble.delimiter)

    def tables(self, file: Input, block_rows: int) -> Iterator[pa.Table]:
        """The rows of one file. Arrow would guess types from the first block and fail where a later one differs."""

        format, preamble = self._format_of(file)
        comment = preamble.comment
        read = pa_csv.ReadOptions(encoding=format.encoding, block_size=READ_BYTES, skip_rows=preamble.n_lines)
        parse = pa_csv.ParseOptions(delimiter=format.delimiter, newlines_in_values=True)
        if comment:
            parse.invalid_row_handler = lambda row: "skip" if row.text.startswith(comment) else "error"
        with file.open() as stream:
            names = pa_csv.open_csv(stream, read, parse).schema.names
        check_columns(names, names, str(file), str(file))
        texts = {name: pa.string() for name in names}
        convert = pa_csv.ConvertOptions(
            column_types=texts, strings_can_be_null=True, null_values=[*NULL_TEXTS, *self._options.na]
        )
        with file.open() as stream:
            reader = pa_csv.open_csv(stream, read, parse, convert)
            yield reader.schema.empty_table()
            for batch in reader:
                yield pa.Table.from_batches([batch])

    def _format_of(self, file: Input) -> tuple[CsvFormat, Preamble]:
        """Format of a file, and what comes before the names of its columns."""
        if file not in self._formats:
            file.check()
            with file.open() as stream:
                data = stream.read(SAMPLE)
            if found := what_it_is(data):
                raise ValueError(f"{file} is no CSV file: it is {found}")
            encoding = self._options.encoding or self._encoding_of(file)
            sample = decoded_start(data, encoding, is_whole=len(data) < SAMPLE)
            preamble = self._preamble_of(sample)
            lines = sample.split("\n")[preamble.n_lines :]
            sample = "\n".join(line for line in lines if not (preamble.comment and line.startswith(preamble.comment)))
            if not sample.strip() and len(data) < SAMPLE:
                raise ValueError(f"{file} is empty")
            prior = self._model.format
            usual = prior.delimiter if prior and prior.delimiter != ONE_COLUMN else "\t" if file.kind == "tsv" else ","
            delimiter = self._options.sep or preamble.delimiter or find_delimiter(sample, self._model.types, usual)
            self._formats[file] = CsvFormat(delimiter=delimiter, encoding=encoding), preamble
        return self._formats[file]

    def _preamble_of(self, sample: str) -> Preamble:
        """What comes before the names of the columns, as the user says or else as it seems."""
        skip, comment = self._options.skip, self._options.comment
        found = find_preamble(sample) if skip is None else Preamble(skip)
        if not comment:
            return found
        n_lines = found.n_lines
        for line in sample.split("\n")[n_lines:]:
            if not line.startswith(comment):
                break
            n_lines += 1
        return replace(found, n_lines=n_lines, comment=comment)

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
            encoding = self._options.encoding or "text"
            return ValueError(f"{file} cannot be read as {encoding}; encoding names another one")
        sentence = self._ragged(file) if re.search(r"Expected \d+ columns", str(error)) else ""
        return ValueError(f"{file} cannot be read: {sentence}") if sentence else super().error(file, error)

    def _ragged(self, file: Input) -> str:
        """The first line that has too few or too many values, in words."""
        format, preamble = self._format_of(file)
        n_skipped, comment = preamble.n_lines, preamble.comment
        with file.open() as stream:
            text = io.TextIOWrapper(stream, encoding=format.encoding, errors="replace", newline="")
            for _ in range(n_skipped):
                text.readline()
            lines = ("\n" if comment and line.startswith(comment) else line for line in text)
            found = ragged_line(lines, format.delimiter)
        if found is None:
            return ""
        line, n_values, n_names = found
        values = "1 value" if n_values == 1 else f"{n_values} values"
        names = "1 column name" if n_names == 1 else f"{n_names} column names"
        return (
            f"line {line + n_skipped} has {values}, but the first line has {names} "
            f"(separator {delimiter_name(format.delimiter)})"
        )
