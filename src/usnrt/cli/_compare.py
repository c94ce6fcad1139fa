"""``usnrt compare``: our models beside what else is installed, on a table of the user."""

from pathlib import Path
from typing import Annotated, Any

import typer

from usnrt.cli._options import (
    Categorical,
    Coverage,
    Data,
    Drop,
    Force,
    GroupColumn,
    Json,
    Keep,
    NewTarget,
    Quiet,
    reads_tables,
)
from usnrt.cli._output import (
    UserError,
    check_writable,
    messages_to_stderr,
    notice,
    print_json,
    print_table,
    say,
    shown,
    silent,
    warnings_as_notices,
    write_output,
)
from usnrt.tables.read_options import ReadOptions
from usnrt.utils.types import TableLike

STOPPED = 130


@reads_tables
def compare(
    context: typer.Context,
    data: Data,
    target: NewTarget,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="An HTML page to write.")] = None,
    picture: Annotated[Path | None, typer.Option("--picture", help="A .png, .svg or .pdf to write.")] = None,
    models: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", help="A model to compare, such as fast or catboost; may be repeated."),
    ] = None,
    folds: Annotated[int, typer.Option(help="Folds of a cross-validation; 1: one split.", min=1)] = 1,
    test_size: Annotated[float, typer.Option("--test-size", help="Fraction of test rows of one split.")] = 0.25,
    time_column: Annotated[
        str | None, typer.Option("--time-column", help="A column of times: the latest rows are the test rows.")
    ] = None,
    group_column: GroupColumn = None,
    drop: Drop = None,
    keep: Keep = None,
    categorical: Categorical = None,
    coverage: Coverage = 0.9,
    seed: Annotated[int, typer.Option(help="Random seed; the same seed gives the same comparison.")] = 0,
    jobs: Annotated[int, typer.Option("--jobs", help="Threads of each model; -1: all cores.")] = -1,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
    *,
    reading: ReadOptions,
) -> None:
    """Compare our models with others on a table: accuracy, coverage, time, and who is ahead by how much."""
    from usnrt.cli._data import training_data
    from usnrt.cli._tables import open_table

    if not 0 < test_size < 1:
        raise UserError(f"--test-size must be in (0, 1), got {test_size:g}")
    if time_column is not None and group_column is not None:
        raise UserError("--group-column does not apply to --time-column")
    for path, package in ((output, "jinja2"), (picture, "matplotlib")):
        if path is not None:
            check_writable(path, force, data)
            _need_package(package)
    notify = silent if quiet else notice
    drop, categorical = drop or [], categorical or []
    declared = [*categorical, *reading.types, *([time_column] if time_column else [])]
    # A time column that is dropped still orders the rows.
    kept = [name for name in drop if name != time_column]
    source = open_table(data, notify, reading)
    found = training_data(source, target, kept, notify, keep or [], declared, group_column)
    categorical += found.reading.categories
    X, time = _without_time(found.features, time_column, drop)

    from usnrt.comparison import compare as run
    from usnrt.comparison.models import missing_packages

    absent = missing_packages()
    if absent and not models:
        notify(f"not installed, hence not compared: {', '.join(absent)} (pip install 'usnrt[compare]')")
    with warnings_as_notices(notify):
        result = run(
            X, found.target, models or None, folds=folds, test_size=test_size, time=time, groups=found.groups,
            coverage=coverage,
            categorical_features=categorical or None, random_state=seed, n_jobs=jobs, verbose=0 if quiet else 1,
        )  # fmt: skip
    result.target = target
    _write(result, output, picture, shown(data), context.obj, notify)
    with messages_to_stderr(output):
        if as_json:
            print_json(result.to_dict())
        else:
            _print(result, notify)
    if result.n_done == 0:
        raise typer.Exit(1)
    if result.interrupted:
        raise typer.Exit(STOPPED)


def _without_time(X: TableLike, time_column: str | None, drop: list[str]) -> tuple[Any, Any]:
    """Features and times; the time column is a feature unless it is dropped."""
    from usnrt.comparison.splits import read_time

    if time_column is None:
        return X, None
    time = read_time(time_column, X)
    return X.drop_columns([time_column]) if time_column in drop else X, time


def _need_package(package: str) -> None:
    from importlib.util import find_spec

    if find_spec(package) is None:
        extra = {"jinja2": "report", "matplotlib": "plot"}[package]
        raise UserError(f"the output needs {package}: pip install 'usnrt[{extra}]'")


def _write(result: Any, output: Path | None, picture: Path | None, source: str, command: str, notify: Any) -> None:
    if result.n_done == 0:
        return
    if picture is not None:
        result.plot().savefig(picture, dpi=130)
        notify(f"wrote {picture}")
    if output is not None:
        from usnrt.comparison.page import render

        write_output(output, render(result, source, command).encode())
        notify(f"wrote {output}")


def _print(result: Any, notify: Any) -> None:
    from usnrt.comparison.words import notes, shown_rows

    print_table(shown_rows(result), title=f"{result.n_test:,} test rows, the best by CRPS first")
    say(result.verdict.replace("\u00a0", " "))
    for sentence in notes(result):
        notify(sentence)
