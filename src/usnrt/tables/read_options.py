"""What is said about a file by its reader's user, and what a model knows of the tables it was fitted on."""

import codecs
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from usnrt.tables.csv_format import CsvFormat
from usnrt.tables.dates import ORDERS, compile_format
from usnrt.tables.numbers import NUMBER_FORMATS, NumberFormat

if TYPE_CHECKING:
    from usnrt.tables.encoder import TableEncoder

TYPES = ("number", "text", "date", "category")


@dataclass(frozen=True)
class ReadOptions:
    """What the user says about a file; None and empty where it is to be found out.

    Attributes
    ----------
    sep : str or None
        Separator of the columns.
    decimal, thousands : str or None
        Marks in numbers; "" for no thousands mark.
    encoding : str or None
    dates : str
        Order of dates (dmy, mdy or ymd), or a format such as ``"%d.%m.%Y"``.
    types : mapping of str to {"number", "text", "date", "category"}
        By column.
    na : tuple of str
        Texts that mean a missing value in every column, besides the usual ones.
    skip : int or None
        Lines before the names of the columns.
    comment : str
        What lines begin with that are no rows.

    Examples
    --------
    >>> from usnrt.tables.read_options import ReadOptions
    >>> ReadOptions(decimal=",").number_formats[0]
    NumberFormat(decimal=',', thousands='')
    >>> ReadOptions(decimal="x")
    Traceback (most recent call last):
        ...
    ValueError: decimal must be . or , got 'x'
    """

    sep: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    dates: str = ""
    types: Mapping[str, str] = field(default_factory=dict)
    na: tuple[str, ...] = ()
    skip: int | None = None
    comment: str = ""

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
    """What a model knows of its tables: how its file was read, and the types of its columns.

    Attributes
    ----------
    format : CsvFormat or None
        None if it was not fitted to a file.
    types : mapping of str to str
        "number", "text" or "date" by column.
    """

    format: CsvFormat | None = None
    types: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, encoder: "TableEncoder") -> "ModelColumns":
        """What an encoder of a fitted model knows."""
        types = {name: kind for name, kind in zip(encoder.source_names_, encoder.source_types_) if kind != "empty"}
        return cls(None if encoder.reading_ is None else CsvFormat(**encoder.reading_), types)
