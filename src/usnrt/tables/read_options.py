"""What is said about a file, what a model knows of its tables, and how a file was read, in words."""

import codecs
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from usnrt.tables.csv_format import ONE_COLUMN, CsvFormat, delimiter_name
from usnrt.tables.dates import ORDERS, compile_format, order_of
from usnrt.tables.numbers import NUMBER_FORMATS, NumberFormat

if TYPE_CHECKING:
    from usnrt.tables.encoder import TableEncoder
    from usnrt.tables.text_survey import ColumnType

TYPES = ("number", "text", "date", "category")


@dataclass(frozen=True)
class ReadOptions:
    """What the user says about a file; None and empty where it is to be found out.

    Examples
    --------
    >>> ReadOptions(decimal=",").number_formats[0]
    NumberFormat(decimal=',', thousands='')
    >>> ReadOptions(decimal="x")
    Traceback (most recent call last):
        ...
    ValueError: decimal must be . or , got 'x'
    """

    sep: str | None = None  # separator of the columns
    # decimal, thousands: marks in numbers; "" for no thousands mark
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    dates: str = ""  # order of dates (dmy, mdy or ymd), or a format such as ``"%d.%m.%Y"``
    types: Mapping[str, str] = field(default_factory=dict)  # by column, one of `TYPES`
    na: tuple[str, ...] = ()  # texts that mean a missing value in every column, besides the usual ones
    skip: int | None = None  # lines before the names of the columns
    comment: str = ""  # what lines begin with that are no rows

    def __post_init__(self) -> None:
        if self.sep is not None and len(self.sep) != 1:
            raise ValueError(f"sep must be one character, got {self.sep!r}")
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"decimal must be . or , got {self.decimal!r}")
        if self.thousands not in (None, "", ",", ".", " ", "'", "_"):
            raise ValueError(f"thousands must be one of , . ' _ space and none, got {self.thousands!r}")
        if self.thousands and self.thousands == self.decimal:
            raise ValueError(f"decimal and thousands must differ, got {self.decimal!r} for both")
        self._check_encoding()
        self._check_dates()
        for name, kind in self.types.items():
            if kind not in TYPES:
                raise ValueError(f"types must be name=type with a type of {', '.join(TYPES)}, got {f'{name}={kind}'!r}")

    def _check_encoding(self) -> None:
        try:
            codecs.lookup(self.encoding or "utf-8")
        except LookupError:
            raise ValueError(f"encoding must be one that Python knows, got {self.encoding!r}") from None

    def _check_dates(self) -> None:
        if "%" in self.dates:
            try:
                compile_format(self.dates)
            except ValueError as error:
                raise ValueError(f"dates: {error}") from None
        elif self.dates and self.dates not in ORDERS:
            raise ValueError(f"dates must be dmy, mdy, ymd or a format such as %d.%m.%Y, got {self.dates!r}")

    @property
    def number_formats(self) -> list[NumberFormat]:
        """The formats of numbers that the options leave."""
        return [
            format
            for format in NUMBER_FORMATS
            if self.decimal in (None, format.decimal)
            and (self.thousands is None or format.thousands in ("", self.thousands))
        ]


@dataclass(frozen=True)
class ModelColumns:
    """What a model knows of its tables: how its file was read, and the types of its columns."""

    format: CsvFormat | None = None  # None if it was not fitted to a file
    types: Mapping[str, str] = field(default_factory=dict)  # "number", "text" or "date" by column

    @classmethod
    def of(cls, encoder: "TableEncoder") -> "ModelColumns":
        """What an encoder of a fitted model knows."""
        types = {name: kind for name, kind in zip(encoder.source_names_, encoder.source_types_) if kind != "empty"}
        return cls(None if encoder.reading_ is None else CsvFormat(**encoder.reading_), types)


def describe(
    format: CsvFormat, types: "Mapping[str, ColumnType]", options: ReadOptions, plain: str = ",", n_skipped: int = 0
) -> str:
    """What is not the plain default and was not said by the user; "" if nothing."""
    parts: dict[str, str] = {}
    if format.delimiter not in (plain, ONE_COLUMN) and options.sep is None:
        parts["--sep"] = f"separator {delimiter_name(format.delimiter)}"
    if format.decimal != "." and options.decimal is None:
        parts["--decimal"] = f"decimal mark {format.decimal!r}"
    if format.thousands and options.thousands is None:
        parts["--thousands"] = f"thousands mark {format.thousands!r}"
    if format.encoding != "utf-8" and options.encoding is None:
        parts["--encoding"] = f"encoding {format.encoding}"
    if dates := _described_dates(types) if not options.dates else "":
        parts["--dates"] = dates
    units = [f"{name!r} in {type.unit}" for name, type in types.items() if type.unit]
    units += [f"{name!r} as durations, in seconds" for name, type in types.items() if type.kind == "duration"]
    if units:
        parts["--types"] = listed(units)
    sentence = f"with {listed(list(parts.values()), most=len(parts))}" if parts else ""
    if n_skipped and options.skip is None:
        lines = "line" if n_skipped == 1 else f"{n_skipped} lines"
        sentence = f"without its first {lines}" + (f", {sentence}" if sentence else "")
        parts = {"--skip": "", **parts}
    return f"{sentence} ({', '.join(parts)} overrule{'s' if len(parts) == 1 else ''} this)" if parts else ""


def _described_dates(types: "Mapping[str, ColumnType]") -> str:
    """The order of day and month of dates, and whether it is a guess."""
    words = {"d": "day", "m": "month", "y": "year"}
    by_order: dict[str, list[str]] = {}
    for name, type in types.items():
        order = "" if type.date is None else order_of(type.date.format)
        if type.date is not None and order in ("dmy", "mdy"):
            guess = ", a guess" if type.date.ambiguous else ""
            by_order.setdefault("/".join(words[d] for d in order) + guess, []).append(repr(name))
    lists = {order: ", ".join(names[:3]) + (", ..." if len(names) > 3 else "") for order, names in by_order.items()}
    return " and ".join(f"dates {names} as {order}" for order, names in lists.items())


def listed(items: list[str], most: int = 5) -> str:
    """Items in words, separated by commas and an "and"."""
    if len(items) > most:
        items = [*items[:most], f"{len(items) - most:,} more"]
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
