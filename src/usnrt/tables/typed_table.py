"""A table outside memory whose columns of text have the types that all of their values allow."""

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from usnrt.tables import streaming
from usnrt.tables.csv_format import CsvFormat
from usnrt.tables.dates import DateFormat, DateSurvey
from usnrt.tables.encoder import TableEncoder
from usnrt.tables.files import TableFiles
from usnrt.tables.numbers import PLAIN, NumberFormat, parse_number
from usnrt.tables.read_options import ModelColumns, ReadOptions, describe, listed
from usnrt.tables.sources import Block, TableSource, blocks_of
from usnrt.tables.text_files import CsvFiles
from usnrt.tables.text_survey import ColumnType, TextSurvey, choose_dates, choose_formats, likeliest_format, typed
from usnrt.utils.names import shown_value
from usnrt.utils.notices import AmbiguousDateWarning, UnreadCellsWarning, users_level


@dataclass(frozen=True)
class Reading:
    """How a table was read."""

    format: CsvFormat = field(default_factory=CsvFormat)  # the default for files that are not CSV
    types: Mapping[str, ColumnType] = field(default_factory=dict)  # of the columns that were text
    categories: tuple[str, ...] = ()  # columns of numbers that the user declared categories
    n_rows: int | None = None  # if all rows were read

    def remember(self, encoder: TableEncoder) -> None:
        """Store with the encoder of a fitted model how its file was read, so that other files are read alike."""
        dates = {name: type.date.format for name, type in self.types.items() if type.date is not None}
        # ISO 8601 needs no format
        dates = {n: f for n, f in dates.items() if n in encoder.source_names_ and not f.startswith("%Y-%m-%d")}
        encoder.reading_ = dict(vars(self.format))
        encoder.date_formats_ = {**encoder.date_formats_, **dates}


class TypedTable(TableSource):
    """Another source with typed columns, decided by all rows in a pass of its own.

    The text of CSV files may be numbers, dates and truth values; that of other sources is dates, and numbers where the
    options say so. For a model, its text stays text, and its encoder reads its dates. ``numbers`` are the only columns
    to type if given, and may be numbers: those of the target and of weights. Anything that was guessed is told to
    ``notify``; without it, what matters is a warning.
    """

    def __init__(
        self,
        source: TableSource,
        options: ReadOptions | None = None,
        model: ModelColumns | None = None,
        notify: Callable[[str], None] | None = None,
        numbers: Collection[str] | None = None,
    ) -> None:
        self.source, self.name = source, source.name
        self._options, self._model = options or ReadOptions(), model or ModelColumns()
        self._notify, self._numbers = notify, numbers
        self._is_text = source.is_text
        self._texts: list[tuple[pa.Table, str]] = []
        self.bad_rows: set[int] = set()

    @property
    def n_columns(self) -> int:
        return self.source.n_columns

    def known_rows(self) -> int | None:
        """Number of rows, if it is known; files of text are read for it, as they are for the types."""
        return self._reading.n_rows if self._is_text else self.source.known_rows()

    def spool(self, folder: Path) -> None:
        """Write what can be read once only to a folder."""
        self.source.spool(folder)

    @property
    def raw(self) -> TableSource:
        """The source without types."""
        return self.source

    @property
    def reading(self) -> Reading | None:
        """How the table is read; None if it is not in files."""
        return self._reading if self._numbers is None else None

    @cached_property
    def _reading(self) -> Reading:
        surveys, n_rows = self._surveys()
        format = self.source.format if isinstance(self.source, CsvFiles) else CsvFormat()
        types = self._types_of(surveys, format.delimiter)
        format = self._with_marks(format, types)
        self._tell(format, types, surveys)
        self._read_bad_cells(surveys, types)
        return Reading(format, types, tuple(self._categories), n_rows)

    def pieces(self, block_rows: int) -> Iterator[tuple[Any, str]]:
        """The tables of the source with typed columns."""

        types = {name: type for name, type in self._reading.types.items() if type.kind != "text"}
        for table, place in self._raw_pieces(block_rows):
            for name, type in types.items():
                column = self._text_of(table, name)
                if column is not None:
                    table = table.set_column(table.column_names.index(name), name, typed(column, type))
            yield table, place

    def _raw_pieces(self, block_rows: int) -> Iterator[tuple[pa.Table, str]]:
        pieces = iter(self._texts) if self._texts else self.source.pieces(block_rows)
        na = self._options.na
        return ((_without_na(table, na), place) for table, place in pieces) if na else pieces

    def _raw_blocks(self) -> Iterator[Block]:
        block_rows = streaming.pass_rows(self.n_columns)
        return blocks_of(self._raw_pieces(block_rows), block_rows)

    def _surveys(self) -> tuple[dict[str, TextSurvey], int | None]:
        """What the columns of text hold, and the number of rows; the text of a small CSV table is kept."""
        surveys: dict[str, TextSurvey] = {}
        texts, n_rows, n_bytes = [], 0, 0
        for number, (table, place) in enumerate(self._raw_pieces(streaming.pass_rows(self.n_columns))):
            if number == 0:
                surveys = self._new_surveys(table)
            for name, survey in surveys.items():
                column = self._text_of(table, name)
                if column is not None:
                    survey.add(column)
            n_rows, n_bytes = n_rows + table.num_rows, n_bytes + table.nbytes
            if not self._is_text and all(survey.is_over for survey in surveys.values()):
                return surveys, None
            if self._is_text and n_bytes <= streaming.BLOCK_BYTES and n_rows <= streaming.BLOCK_ROWS:
                texts.append((table, place))
            else:
                texts = []
        self._texts = texts
        return surveys, n_rows

    def _text_of(self, table: pa.Table, name: str) -> pa.ChunkedArray | None:
        """A column as text; None if it is not, as it may be in other files, and was not declared so."""

        column = table[name]
        if pa.types.is_string(column.type):
            return column
        is_text = pa.types.is_large_string(column.type) or self._options.types.get(name) in ("text", "date")
        return column.cast(pa.string()) if is_text else None

    def _new_surveys(self, table: pa.Table) -> dict[str, TextSurvey]:

        declared = self._options.types
        for name in declared:
            if name not in table.column_names:
                raise ValueError(f"types must name columns of {self.name}, but {name!r} is not one")
        self._categories = [n for n, kind in declared.items() if kind == "category" and _is_number(table[n].type)]
        surveys = {}
        for name in table.column_names if self._numbers is None else self._numbers:
            type, kind = table[name].type, declared.get(name, self._model.types.get(name, ""))
            is_text = pa.types.is_string(type) or pa.types.is_large_string(type)
            if not is_text and not (pa.types.is_integer(type) and declared.get(name) in ("text", "date")):
                if declared.get(name) == "number" and not _is_number(type):
                    raise ValueError(f"column {name!r} must hold numbers (types), got {type} in {self.name}")
                continue
            is_number = kind in ("number", "category") or (not kind and (self._is_text or self._numbers is not None))
            is_date = declared.get(name) == "date" or (kind == "date" and bool(self._options.dates)) or not kind
            surveys[name] = TextSurvey(
                self._options.number_formats if is_number else (),
                DateSurvey(self._options.dates, declared.get(name) == "date")
                if is_date and self._numbers is None
                else None,
            )
        return surveys

    def _types_of(self, surveys: Mapping[str, TextSurvey], delimiter: str) -> dict[str, ColumnType]:

        declared, types = self._options.types, {}
        others = {n: s for n, s in surveys.items() if s.n_values and not s.is_integer}
        formats = choose_formats(others, delimiter, self._options.thousands, self._model.format)
        formats = {n: f for n, f in formats.items() if not self._is_too_large(n, surveys[n])}
        has_comma = any(format.decimal == "," for format in formats.values())
        dates = choose_dates({n: s for n, s in surveys.items() if n not in formats}, has_comma)
        for name, survey in surveys.items():
            kind = declared.get(name, "")
            found = self._type_of(survey, formats.get(name), dates.get(name))
            if found.kind in ("text", "boolean") and kind in ("number", "date"):
                self._refuse(name, kind)
            if kind == "category" and found.kind in ("integer", "number"):
                self._categories.append(name)
            elif kind in ("text", "category") and found.kind == "text":
                found = ColumnType("category")
            types[name] = found
        return types

    @staticmethod
    def _type_of(survey: TextSurvey, number: NumberFormat | None, date: DateFormat | None) -> ColumnType:

        has_odd = survey.n_odd > 0
        if survey.n_values == 0:
            return ColumnType("empty")
        if date is not None:
            return ColumnType("date", date=date, has_odd=has_odd)
        if survey.n_values == survey.n_odd or survey.is_mostly_odd:
            return ColumnType("text")
        if survey.is_integer:
            return ColumnType("integer", has_odd=has_odd)
        if number is not None:
            unit = max(survey.units, default="")
            return ColumnType("number", number, has_odd=has_odd, unit=unit)
        if survey.is_duration:
            return ColumnType("duration", has_odd=has_odd)
        return ColumnType("boolean" if survey.is_boolean else "text")

    def _is_too_large(self, name: str, survey: TextSurvey) -> bool:
        kind = self._options.types.get(name, self._model.types.get(name))
        return survey.is_large and not survey.is_integer and kind != "number"

    def _refuse(self, name: str, kind: str) -> None:
        """Raise an error with the first value that is not of the declared type."""
        formats = self._options.number_formats
        for block in self._raw_blocks():
            column = self._text_of(block.table, name)
            for row, value in enumerate([] if column is None else column.to_pylist()):
                if value is None:
                    continue
                if kind == "date":
                    raise ValueError(
                        f"column {name!r} must hold dates of one format (types), "
                        f"got {shown_value(value)} in {block.row_name(row)}"
                    )
                if all(parse_number(value, format) is None for format in formats):
                    raise ValueError(
                        f"column {name!r} must hold numbers (types), got {shown_value(value)} in {block.row_name(row)}"
                    )
        raise ValueError(f"column {name!r} must hold numbers (types), but they have different marks in {self.name}")

    def _with_marks(self, format: CsvFormat, types: Mapping[str, ColumnType]) -> CsvFormat:
        """The format with the marks of the numbers that were found, or else named."""
        used = [type.number for type in types.values() if type.number != PLAIN]
        if not used:
            return replace(format, decimal=self._options.decimal or ".", thousands=self._options.thousands or "")
        decimal = "," if any(number.decimal == "," for number in used) else "."
        return replace(
            format, decimal=decimal, thousands=next((number.thousands for number in used if number.thousands), "")
        )

    def _read_bad_cells(self, surveys: Mapping[str, TextSurvey], types: dict[str, ColumnType]) -> None:
        """Let cells of a model's numbers that are none be missing; their rows are `bad_rows`."""

        columns = [n for n in surveys if self._model.types.get(n) == "number" and n not in self._options.types]
        columns = [n for n in columns if types[n].kind == "text" or types[n].has_odd]
        bad: list[tuple[str, str]] = []
        for name in columns:
            if types[name].kind == "text":
                texts = (self._text_of(block.table, name) for block in self._raw_blocks())
                format = likeliest_format(texts, self._options.number_formats, self._model.format)
                if format is None:
                    continue
                types[name] = replace(types[name], kind="number", number=format, is_lenient=True)
            for block in self._raw_blocks():
                column = self._text_of(block.table, name)
                if column is None:
                    continue
                missing = np.asarray(typed(column, types[name]).is_null()) & np.asarray(column.is_valid())
                for row in np.flatnonzero(missing).tolist():
                    bad.append((block.row_name(row), f"{shown_value(column[row].as_py())} in {name!r}"))
                    self.bad_rows.add(block.start + row)
        if bad:
            where, what = bad[0]
            cells = "this cell is a missing value, and its row has" if len(bad) == 1 else (
                f"{len(bad):,} such cells are missing values, and their rows have"
            )  # fmt: skip
            self._warn(f"{where} has {what}, which is no number: {cells} no support", UnreadCellsWarning)

    def _warn(self, sentence: str, category: type[Warning]) -> None:
        """Say something that matters, as a notice or as a warning."""
        if self._notify is not None:
            self._notify(sentence)
        else:
            warnings.warn(sentence, category, stacklevel=users_level())

    def _tell(self, format: CsvFormat, types: Mapping[str, ColumnType], surveys: Mapping[str, TextSurvey]) -> None:
        """State what was guessed."""
        odd = {n: s.odd for n, s in surveys.items() if types[n].has_odd and self._model.types.get(n) != "number"}
        if odd:
            cells = [f"{', '.join(map(repr, sorted(texts)[:5]))} in {name!r}" for name, texts in odd.items()]
            self._warn(
                f"{listed(cells)} of {self.name} are missing values (--types {next(iter(odd))}=text keeps them)",
                UnreadCellsWarning,
            )
        for name, survey in surveys.items():
            if survey.odd_one and types[name].kind == "text":
                text = shown_value(survey.odd_one)
                self._warn(
                    f"{name!r} of {self.name} is text because of few cells such as {text}; "
                    f"--na {text} makes them missing",
                    UnreadCellsWarning,
                )
        if self._notify is None:
            for name, type in types.items():
                if type.date is not None and type.date.ambiguous:
                    self._warn(
                        f"column {name!r} of {self.name} holds dates that could have day and month the other way "
                        f"round, read as {type.date.format}",
                        AmbiguousDateWarning,
                    )
            return
        files = self.source.files if isinstance(self.source, TableFiles) and self._is_text else []
        plain = "\t" if files and files[0].kind == "tsv" else ","
        n_skipped = self.source.n_titles if isinstance(self.source, CsvFiles) else 0
        sentence = describe(format, types, self._options, plain, n_skipped)
        if sentence:
            self._notify(f"{self.name} was read {sentence}")
        for name, survey in surveys.items():
            if types[name].kind == "text" and survey.is_large:
                self._notify(
                    f"{name!r} holds integers of more than 64 bits and was read as text "
                    f"(--types {name}=number overrules)"
                )


def _without_na(table: pa.Table, na: Sequence[str]) -> pa.Table:
    """A table in which some texts, and the numbers that they stand for, are missing values."""

    numbers = [number for text in na if (number := parse_number(text)) is not None]
    for position, column in enumerate(table.itercolumns()):
        if pa.types.is_string(column.type):
            missing = pc.is_in(column, pa.array(na))
        elif numbers and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            missing = pc.is_in(column.cast(pa.float64()), pa.array(numbers))
        else:
            continue
        column = pc.if_else(missing, pa.scalar(None, column.type), column)
        table = table.set_column(position, table.column_names[position], column)
    return table


def _is_number(type: pa.DataType) -> bool:

    kinds = pa.types
    return bool(
        kinds.is_integer(type)
        or kinds.is_floating(type)
        or kinds.is_boolean(type)
        or kinds.is_decimal(type)
        or kinds.is_null(type)
    )
