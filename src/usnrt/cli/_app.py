"""The ``usnrt`` application: every command is registered here, in the order of the help text."""

from pathlib import Path
from typing import Annotated

import typer

from usnrt.cli._compare import compare
from usnrt.cli._explain import explain
from usnrt.cli._fit import calibrate, fit
from usnrt.cli._inspect import export, info
from usnrt.cli._predict import evaluate, predict
from usnrt.cli._report import report
from usnrt.cli._serve import serve

HELP = "Tabular regression with calibrated predictive distributions."

app = typer.Typer(
    name="usnrt",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help=HELP,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from usnrt._version import __version__

        print(f"usnrt {__version__}")
        raise typer.Exit


@app.callback(help=HELP)
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of the application itself."""


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write to.")] = Path("demo-output"),
) -> None:
    """Fit generated data with known noise and compare the findings with the truth."""
    from usnrt.demo import run

    run(output)


for command in (fit, predict, evaluate, compare, calibrate, explain, report, export, serve, info, demo):
    app.command()(command)
