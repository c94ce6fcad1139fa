"""Files whose cells are read as text and typed by all values of their columns: JSON lines and workbooks."""

import datetime
import io
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from usnrt.tables.files import Input, TableFiles
from usnrt.tables.numbers import NULL_TEXTS
from usnrt.utils.names import shown_value

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_ROWS = 10_000


class TextFiles(TableFiles):
    """Files whose columns are all text."""


class JsonLines(TextFiles):
    """Files with a JSON object in each line; a key that a line lacks is a missing value."""

    def tables(self, file: Input, block_rows: int) -> "Iterator[pa.Table]":
        """The rows of one file."""
        names = list(dict.fromkeys(name for row in _objects(file) for name in row))
        yield _text_table(names, [])
        for rows in _batches(_objects(file)):
            yield _text_table(names, ([row.get(name) for name in names] for row in rows))


class Workbooks(TextFiles):
    """The first sheets of Excel workbooks, whose first rows have the names of the columns."""

    def tables(self, file: Input, block_rows: int) -> "Iterator[pa.Table]":
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


def _text_table(names: list[str], rows: Iterable[Iterable[Any]]) -> "pa.Table":
    import pyarrow as pa

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
