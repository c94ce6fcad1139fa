"""The options that tell how a file is to be read; all commands that read tables have them."""

import codecs
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, get_type_hints

import typer

from usnrt.cli._errors import UserError
from usnrt.tables.dates import ORDERS, compile_format

TYPES = ("number", "text", "date", "category")
_NAMED_SEPARATORS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " ", "pipe": "|"}

Sep = Annotated[str | None, typer.Option("--sep", help="Separator of a CSV file's columns, such as ';' or tab.")]
Decimal = Annotated[str | None, typer.Option("--decimal", help="Decimal mark of a CSV file: . or ,")]
Thousands = Annotated[
    str | None, typer.Option("--thousands", help="Thousands mark of a CSV file: , . ' _ space or none.")
]
Encoding = Annotated[str | None, typer.Option("--encoding", help="Encoding of a CSV file, such as utf-8 or cp1252.")]
Dates = Annotated[
    str | None,
    typer.Option("--dates", help="Order of dates written as text: dmy, mdy or ymd; or a format such as %d.%m.%Y."),
]
Types = Annotated[
    list[str] | None,
    typer.Option("--types", help="Type of a column as name=number|text|date|category; may be repeated."),
]


@dataclass(frozen=True)
class ReadOptions:
    """What the user has said about a file; None and empty where it is to be found out.

    Attributes
    ----------
    sep, decimal, thousands, encoding : str or None
    dates : str
        Order or format of dates; "" if it is to be found out.
    types : mapping of str to {"number", "text", "date", "category"}
        By column.
    """

    sep: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    dates: str = ""
    types: Mapping[str, str] = field(default_factory=dict)


def check_unused(options: ReadOptions) -> None:
    """Refuse options for a table that is read block by block, whose types Arrow decides."""
    if options != ReadOptions():
        raise UserError(
            "--sep, --decimal, --thousands, --encoding, --dates and --types need a table that fits in memory"
        )


def reads_tables(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `ReadOptions`; it gets them as its keyword argument ``reading``."""

    @functools.wraps(command)
    def with_options(**arguments: Any) -> None:
        chosen = {name: arguments.pop(name) for name in added}
        command(**arguments, reading=_read_options(**chosen))

    added = inspect.signature(_read_options).parameters
    own = inspect.signature(command).parameters
    parameters = [*(p for p in own.values() if p.name != "reading"), *added.values()]
    hints = {**get_type_hints(command, include_extras=True), **get_type_hints(_read_options, include_extras=True)}
    hints = {name: hint for name, hint in hints.items() if name not in ("reading", "return")}
    with_options.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [p.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[p.name]) for p in parameters]
    )
    with_options.__annotations__ = hints
    del with_options.__wrapped__  # or typer would look at the command's own hints
    return with_options


def _read_options(
    sep: Sep = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    encoding: Encoding = None,
    dates: Dates = None,
    types: Types = None,
) -> ReadOptions:
    """Check the options."""
    dates = dates or ""
    sep = _NAMED_SEPARATORS.get(sep or "", sep)
    if sep is not None and len(sep) != 1:
        raise UserError(f"--sep must be one character, got {sep!r}")
    if decimal not in (None, ".", ","):
        raise UserError(f"--decimal must be . or , got {decimal!r}")
    thousands = {"none": "", "space": " "}.get(thousands or "", thousands)
    if thousands not in (None, "", ",", ".", " ", "'", "_"):
        raise UserError(f"--thousands must be one of , . ' _ space and none, got {thousands!r}")
    if thousands and thousands == decimal:
        raise UserError(f"--decimal and --thousands must differ, got {decimal!r} for both")
    if encoding is not None:
        try:
            codecs.lookup(encoding)
        except LookupError:
            raise UserError(f"--encoding must be one that Python knows, got {encoding!r}") from None
    if "%" in dates:
        try:
            compile_format(dates)
        except ValueError as error:
            raise UserError(f"--dates: {error}") from None
    elif dates and dates not in ORDERS:
        raise UserError(f"--dates must be dmy, mdy, ymd or a format such as %d.%m.%Y, got {dates!r}")
    return ReadOptions(sep, decimal, thousands, encoding, dates, dict(map(_column_type, types or [])))


def _column_type(text: str) -> tuple[str, str]:
    name, equals, kind = text.rpartition("=")
    if not equals or kind not in TYPES:
        raise UserError(f"--types must be name=type with a type of {', '.join(TYPES)}, got {text!r}")
    return name, kind
