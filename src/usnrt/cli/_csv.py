"""CSV files: their format is found out, and all their columns are read as text."""

import io
import re
from collections.abc import Collection

import pyarrow as pa
import pyarrow.csv as pa_csv

from usnrt.cli._errors import UserError
from usnrt.cli._reading_options import ReadOptions
from usnrt.cli._streams import Source
from usnrt.tables.csv_format import (
    ONE_COLUMN,
    CsvFormat,
    declared_delimiter,
    decoded_start,
    find_delimiter,
    find_encoding,
    ragged_line,
)
from usnrt.tables.numbers import NULL_TEXTS

SAMPLE = 1 << 18


def read_texts(
    source: Source, options: ReadOptions, known: CsvFormat | None, expected: Collection[str]
) -> tuple[pa.Table, CsvFormat]:
    """All columns as text, and the encoding and separator.

    Parameters
    ----------
    source : Source
    options : ReadOptions
    known : CsvFormat or None
        The format of the file that the model was fitted on.
    expected : collection of str
        Names of columns, if known.

    Returns
    -------
    pyarrow.Table
    CsvFormat
        With plain numbers.
    """
    encoding = options.encoding or _encoding(source, known)
    sample, is_whole = _sample(source, encoding)
    declared = declared_delimiter(sample.split("\n", 1)[0])
    if declared:
        sample = sample.partition("\n")[2]
    preferred = known.delimiter if known and known.delimiter != ONE_COLUMN else "\t" if source.kind == "tsv" else ","
    delimiter = options.sep or declared or find_delimiter(sample, expected, preferred)
    if not sample.strip() and is_whole:
        raise UserError(f"{source.name} is empty")
    table = _read(source, delimiter, encoding, skip_rows=1 if declared else 0)
    return table, CsvFormat(delimiter=delimiter, encoding=encoding)


def _encoding(source: Source, known: CsvFormat | None) -> str:
    try:
        found = find_encoding(source.blocks())
    except ValueError as error:
        raise UserError(f"{source.name} cannot be read: {error}") from None
    single_byte = ("latin-1", "cp1252")
    if known and found in single_byte and known.encoding not in ("utf-8", *single_byte):
        try:  # another encoding that the user has named in fit
            for block in source.blocks():
                block.decode(known.encoding)
            return known.encoding
        except (UnicodeDecodeError, LookupError):
            pass
    return found


def _sample(source: Source, encoding: str) -> tuple[str, bool]:
    """The first lines, and whether they are all."""
    with source.open() as stream:
        data: bytes = stream.read(SAMPLE)
    is_whole = len(data) < SAMPLE
    try:
        return decoded_start(data, encoding, is_whole), is_whole
    except UnicodeError:  # UTF-16 without its byte order mark
        raise _wrong_encoding(source, encoding) from None


def _read(source: Source, delimiter: str, encoding: str, skip_rows: int) -> pa.Table:
    """All columns as text. Arrow would guess types from the first megabyte and fail where a later one differs."""
    read = pa_csv.ReadOptions(encoding=encoding, block_size=16 << 20, skip_rows=skip_rows)
    parse = pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    try:
        with source.open() as stream:
            names = pa_csv.open_csv(stream, read, parse).schema.names
        check_unique(names, source.name)
        convert = pa_csv.ConvertOptions(
            column_types={name: pa.string() for name in names}, strings_can_be_null=True, null_values=list(NULL_TEXTS)
        )
        with source.open() as stream:
            return pa_csv.read_csv(stream, read, parse, convert)
    except pa.ArrowInvalid as error:
        if re.search(r"Expected \d+ columns", str(error)):
            refuse_ragged(source, delimiter, encoding, skip_rows)
        raise
    except UnicodeError:
        raise _wrong_encoding(source, encoding) from None


def _wrong_encoding(source: Source, encoding: str) -> UserError:
    return UserError(f"{source.name} cannot be read as {encoding}; --encoding names another encoding")


def check_unique(names: list[str], where: str) -> None:
    """Refuse a table in which two columns have one name."""
    repeated = [name for name in names if names.count(name) > 1] if len(set(names)) < len(names) else []
    if repeated:
        raise UserError(f"{where} must have unique column names, got {repeated[0]!r} twice")


def refuse_ragged(source: Source, delimiter: str, encoding: str, skip_rows: int) -> None:
    """Raise an error with the number of the first line that has too few or too many values."""
    with source.open() as stream:
        text = io.TextIOWrapper(io.BytesIO(stream.read()), encoding=encoding, errors="replace", newline="")
        for _ in range(skip_rows):
            text.readline()
        found = ragged_line(text, delimiter)
    if found is None:
        return
    line, fields, expected = found
    values = "1 value" if fields == 1 else f"{fields} values"
    names = "1 column name" if expected == 1 else f"{expected} column names"
    raise UserError(
        f"{source.name} cannot be read: line {line + skip_rows} has {values}, but the first line has {names}"
        f" (separator {delimiter_name(delimiter)})"
    )


def delimiter_name(delimiter: str) -> str:
    """A separator in messages."""
    return {"\t": "tab", ONE_COLUMN: "none"}.get(delimiter, repr(delimiter))
