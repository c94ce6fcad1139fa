"""Arguments and options that several commands share, and their checks."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from usnrt.cli._output import UserError
from usnrt.tables.read_options import ReadOptions


def _check_coverage(coverage: float) -> float:
    if not 0 < coverage < 1:
        raise UserError(f"--coverage must be in (0, 1), got {coverage:g}")
    return coverage


# readable=False: unreadable files are reported by our own error messages
_TABLE = typer.Argument(
    help="A .csv, .tsv, .parquet, .feather, .jsonl or .xlsx file, also with .gz, .bz2 or .zst; a folder or a pattern "
    "in quotes; - is standard input.",
    readable=False,
)
Data = Annotated[Path, _TABLE]
OptionalData = Annotated[Path | None, _TABLE]
Model = Annotated[
    Path, typer.Argument(help="A model file written by `usnrt fit`; - is standard input.", readable=False)
]
Target = Annotated[str | None, typer.Option("--target", "-t", help="The target column; default: as in fit.")]
NewTarget = Annotated[str, typer.Option("--target", "-t", help="The column to predict.")]
Drop = Annotated[list[str] | None, typer.Option("--drop", help="A column to leave out; may be repeated.")]
Keep = Annotated[
    list[str] | None,
    typer.Option("--keep", help="A column to keep though it looks like an id or free text; may be repeated."),
]
Categorical = Annotated[
    list[str] | None,
    typer.Option("--categorical", help="A column of category codes; text is categorical anyway."),
]
GroupColumn = Annotated[
    str | None,
    typer.Option(
        "--group-column",
        help="A column of patients, shops or machines: rows of one belong together, and intervals are for new ones.",
    ),
]
Coverage = Annotated[
    float, typer.Option(help="Nominal coverage of the prediction intervals.", callback=_check_coverage)
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite existing files.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notices.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


# How a file is to be read: all commands that read tables have these options.
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
Na = Annotated[
    list[str] | None, typer.Option("--na", help="A text that means a missing value, such as -999; may be repeated.")
]
Skip = Annotated[int | None, typer.Option("--skip", help="Lines of a CSV file before the names of the columns.", min=0)]
Comment = Annotated[str | None, typer.Option("--comment", help="What lines of a CSV file begin with that are no rows.")]


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
    na: Na = None,
    skip: Skip = None,
    comment: Comment = None,
) -> ReadOptions:
    """The options as they are meant."""
    thousands = {"none": "", "space": " "}.get(thousands or "", thousands)
    sep = _NAMED_SEPARATORS.get(sep or "", sep)
    kinds = {name: kind for name, _, kind in (text.rpartition("=") for text in types or [])}
    try:
        return ReadOptions(sep, decimal, thousands, encoding, dates or "", kinds, tuple(na or ()), skip, comment or "")
    except ValueError as error:
        raise UserError(f"--{error}") from None
