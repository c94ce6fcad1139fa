"""``usnrt report``: an HTML page on a model and a table with known targets."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from usnrt.cli._options import Coverage, Force, GroupColumn, Model, OptionalData, Quiet, Target, reads_tables
from usnrt.cli._output import (
    UserError,
    check_one_input,
    check_writable,
    is_standard,
    messages_to_stderr,
    notice,
    say,
    shown,
    silent,
    warnings_as_notices,
    written_path,
)
from usnrt.tables.read_options import ReadOptions

if TYPE_CHECKING:
    pass


@reads_tables
def report(
    context: typer.Context,
    model: Model,
    data: OptionalData = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The page to write; default: report.html, or what-if.html."),
    ] = None,
    target: Target = None,
    coverage: Coverage = 0.9,
    id_column: Annotated[
        str | None, typer.Option("--id", help="A column that names the rows; default: their numbers, from 1.")
    ] = None,
    time_column: Annotated[
        str | None, typer.Option("--time", help="A column of dates or numbers: adds coverage and errors over time.")
    ] = None,
    train: Annotated[
        Path | None,
        typer.Option("--train", help="The training rows, for a fair comparison with a booster.", readable=False),
    ] = None,
    booster: Annotated[bool, typer.Option(help="Compare with a quick booster of scikit-learn.")] = True,
    group_column: GroupColumn = None,
    what_if: Annotated[
        bool,
        typer.Option("--what-if", help="Write a page to play with the inputs of the model instead, without a table."),
    ] = False,
    training_rows: Annotated[
        bool, typer.Option("--training-rows", help="The what-if page may contain training rows, with their targets.")
    ] = False,
    force: Force = False,
    quiet: Quiet = False,
    *,
    reading: ReadOptions,
) -> None:
    """Write an HTML report on a model: accuracy, calibration, and where it is uncertain and why."""
    from usnrt.cli._data import evaluation_data, groups_of, load_model
    from usnrt.reporting import write_report
    from usnrt.tables.columns import numbers_or_dates

    if what_if:
        if data is not None:
            raise UserError(f"--what-if needs a model only, got also {shown(data)}")
        _write_what_if(model, output or Path("what-if.html"), training_rows, force)
        return
    if data is None:
        raise UserError("report needs a table with known targets after the model; --what-if needs none")
    output = output or Path("report.html")
    check_one_input(model, data, *([] if train is None else [train]))
    check_writable(output, force, model, data, train)
    fitted = load_model(model)
    notify = silent if quiet else notice
    found = evaluation_data(fitted, data, target, notify, reading)
    table = found.table
    named = ((id_column, "name the rows"), (time_column, "order the rows"), (group_column, "group the rows"))
    for name, purpose in named:
        if name is not None and name not in table.column_names:
            raise UserError(f"{shown(data)} has no column {name!r} to {purpose}")
    known = None if train is None else evaluation_data(fitted, train, target, notify, reading)
    times = None
    if time_column is not None:
        format = fitted.encoder_.date_formats_.get(time_column, "")
        times = numbers_or_dates(table[time_column].to_numpy(), f"the time column {time_column!r}", format)
    # Rows without a target are left out; the others keep their numbers in the file.
    has_gaps = len(found.rows) > 0 and found.rows[-1] + 1 != len(found.rows)
    with warnings_as_notices(notify), written_path(output) as path:
        write_report(
            fitted, found.features, found.target, path, coverage=coverage, source=shown(data), command=context.obj,
            ids=table[id_column].to_pylist() if id_column else found.rows + 1 if has_gaps else None,
            id_name=id_column or "row (from 1)", first_row=1,
            time=times, booster=booster,
            train=None if known is None else (known.features, known.target),
            groups=None if group_column is None else groups_of(table, group_column, data),
        )  # fmt: skip
    with messages_to_stderr(output):
        say(f"wrote {output}")


def _write_what_if(model: Path, output: Path, training_rows: bool, force: bool) -> None:
    """Write the what-if page, and say what is in it."""
    from usnrt.cli._data import load_model
    from usnrt.whatif import write_what_if

    check_writable(output, force, model)
    fitted = load_model(model)
    name = "model" if is_standard(model) else model.stem
    with written_path(output) as path:
        size = write_what_if(fitted, path, training_rows=training_rows, name=name).stat().st_size
    with messages_to_stderr(output):
        contains = "the model and training rows" if training_rows else "the model, but no training rows"
        say(f"wrote {output}, {size / 1e6:.1f} MB, which contains {contains}")
