"""``usnrt report``: an HTML page on a model and a table with known targets."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from usnrt.cli._errors import UserError
from usnrt.cli._options import Coverage, Force, GroupColumn, Model, OptionalData, Quiet, Target, check_coverage
from usnrt.cli._output import check_writable, notice, say, silent, warnings_as_notices
from usnrt.cli._reading_options import reads_tables
from usnrt.cli._streams import check_one_input, is_standard, messages_to_stderr, output_file, shown
from usnrt.tables.read_options import ReadOptions
from usnrt.utils.types import TableLike

if TYPE_CHECKING:
    import pyarrow as pa

    from usnrt.estimators.base import DistributionalRegressor


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
    from usnrt.cli._data import features_and_target, groups_of, load_model

    check_coverage(coverage)
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
    table, X, y, numbers = evaluated_rows(fitted, data, target, notify, reading)
    named = ((id_column, "name the rows"), (time_column, "order the rows"), (group_column, "group the rows"))
    for name, purpose in named:
        if name is not None and name not in table.column_names:
            raise UserError(f"{shown(data)} has no column {name!r} to {purpose}")
    known = None if train is None else features_and_target(fitted, train, target, notify, reading)
    with warnings_as_notices(notify):
        _write_report(
            fitted, X, y, output, coverage=coverage, source=shown(data), command=context.obj,
            # Rows without a target are left out; the others keep their numbers in the file.
            ids=table[id_column].to_pylist() if id_column else numbers if _has_gaps(numbers) else None,
            id_name=id_column or "row (from 1)", first_row=1,
            time=None if time_column is None else _times(fitted, table, time_column), train=known, booster=booster,
            groups=None if group_column is None else groups_of(table, group_column, data),
        )  # fmt: skip
    with messages_to_stderr(output):
        say(f"wrote {output}")


def _write_what_if(model: Path, output: Path, training_rows: bool, force: bool) -> None:
    """Write the what-if page, and say what is in it."""
    from usnrt.cli._data import load_model
    from usnrt.whatif import write_what_if

    check_writable(output, force, model)
    fitted: Any = load_model(model)
    name = "model" if is_standard(model) else model.stem
    with TemporaryDirectory() as folder, messages_to_stderr(output):
        page = write_what_if(fitted, Path(folder) / "what-if.html", training_rows=training_rows, name=name).read_bytes()
        with output_file(output) as file:
            file.write(page)
        contains = "the model and training rows" if training_rows else "the model, but no training rows"
        say(f"wrote {output}, {len(page) / 1e6:.1f} MB, which contains {contains}")


def _write_report(model: Any, X: TableLike, y: Any, output: Path, **options: Any) -> None:
    """Write the page to a file or to standard output."""
    from usnrt.reporting import write_report

    if not is_standard(output):
        write_report(model, X, y, output, **options)
        return
    with TemporaryDirectory() as folder, output_file(output) as file:
        write_report(model, X, y, Path(folder) / "report.html", **options)
        file.write((Path(folder) / "report.html").read_bytes())


def _times(model: "DistributionalRegressor", table: "pa.Table", name: str) -> NDArray[Any]:
    """The times of the rows; of dates that are text, by the format that the model knows."""
    import pyarrow as pa

    from usnrt.tables.time import dates_of_texts

    values: NDArray[Any] = table[name].to_numpy()
    if not pa.types.is_string(table[name].type):
        return values
    try:
        return dates_of_texts(values, model.encoder_.date_formats_.get(name, ""))
    except ValueError:
        raise UserError(f"--time must name a column of dates or numbers, got {name!r} with {values[0]!r}") from None


def _has_gaps(numbers: NDArray[np.int64]) -> bool:
    return bool(len(numbers)) and int(numbers[-1]) != len(numbers)


def evaluated_rows(
    model: "DistributionalRegressor",
    path: Path,
    target: str | None,
    notify: Callable[[str], None],
    reading: ReadOptions | None = None,
) -> "tuple[pa.Table, pa.Table, NDArray[np.float64], NDArray[np.int64]]":
    """The rows with a target: all columns, the features, the target, and their numbers in the file, from 1."""
    import pyarrow as pa

    from usnrt.cli._data import table_and_features, with_target
    from usnrt.estimators.prediction_blocks import features_of
    from usnrt.utils.names import need_column

    name = target or model.target_name_
    if not name:
        raise UserError("the model file does not contain the name of the target; give it with --target")
    table, _ = table_and_features(model, path, notify, reading)
    need_column(table.column_names, name, shown(path))
    number = "\0number"
    numbered = table.append_column(number, pa.array(np.arange(1, table.num_rows + 1)))
    numbered, y = with_target(numbered, name, path, notify)
    table = numbered.drop_columns([number])
    return table, features_of(model, table, shown(path)), y, numbered[number].to_numpy()
