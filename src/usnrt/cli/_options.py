"""Arguments and options that several commands share, and their checks."""

from pathlib import Path
from typing import Annotated

import typer

from usnrt.cli._errors import UserError

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
Coverage = Annotated[float, typer.Option(help="Nominal coverage of the prediction intervals.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite existing files.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notices.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def check_coverage(coverage: float) -> None:
    """Refuse a coverage outside (0, 1)."""
    if not 0 < coverage < 1:
        raise UserError(f"--coverage must be in (0, 1), got {coverage:g}")
