"""``usnrt demo`` and ``usnrt bench``."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from usnrt.cli._errors import UserError


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write to.")] = Path("demo-output"),
) -> None:
    """Fit generated data with known noise and compare the findings with the truth."""
    from usnrt.demo import run as run_demo

    run_demo(output)


def bench(context: typer.Context) -> None:
    """Run the paper's experiments and compare the results (usnrt bench --help)."""
    try:
        from usnrt.bench.cli import bench_app
    except ImportError as error:
        raise UserError(f"the benchmarks cannot run: {error}") from None
    from typer.main import get_command

    result = get_command(bench_app).main(context.args, prog_name="usnrt bench", standalone_mode=False)
    sys.stdout.flush()
    if isinstance(result, int) and result:
        raise typer.Exit(result)
