"""``usnrt predict`` and ``usnrt evaluate``: a model file applied to a table."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from usnrt.cli._options import Coverage, Data, Force, Json, Model, Quiet, Target, reads_tables
from usnrt.cli._output import (
    UserError,
    check_one_input,
    check_writable,
    is_standard,
    notice,
    print_json,
    print_metrics,
    silent,
    warnings_as_notices,
)
from usnrt.tables.read_options import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from usnrt.estimators.base import DistributionalRegressor


@reads_tables
def predict(
    model: Model,
    data: Data,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The table to write; default: CSV to the terminal.")
    ] = None,
    coverage: Coverage = 0.9,
    quantiles: Annotated[
        str | None, typer.Option("--quantiles", help="Levels of further columns q0.1, q0.9: such as 0.1,0.9.")
    ] = None,
    above: Annotated[
        float | None,
        typer.Option("--above", help="A limit: adds probability_above, that of a target above the limit."),
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option("--keep", help="A column of the data to copy, such as an id; may be repeated.")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
    *,
    reading: ReadOptions,
) -> None:
    """Predict mean, std, lower, upper, region, supported and guaranteed for every row.

    supported: whether the row resembles training rows. guaranteed: whether there are enough calibration rows to
    guarantee the coverage of the interval; if not, it is that of the predicted distribution.
    """
    from usnrt.cli._data import load_model
    from usnrt.cli._tables import open_table, predict_blocks, table_writer
    from usnrt.estimators.predictions import FurtherColumns
    from usnrt.tables.files import format_of
    from usnrt.tables.find_source import fits_memory
    from usnrt.tables.read_options import ModelColumns

    levels = _levels(quantiles)
    check_one_input(model, data)
    if output is not None and not is_standard(output):
        format_of(output)
        check_writable(output, force, model, data)
    notify = silent if quiet else notice
    fitted = load_model(model)
    source = open_table(data, notify, reading, ModelColumns.of(fitted.encoder_))
    if as_json and not fits_memory(source):
        raise UserError("--json applies to tables that fit in memory; --output writes the predictions to a file")
    n_rows = n_unsupported = 0
    rows: list[dict[str, Any]] = []
    with warnings_as_notices(notify), nullcontext(None) if as_json else table_writer(output) as write:
        for table in predict_blocks(fitted, source, coverage, keep or [], FurtherColumns(levels, above)):
            n_rows += table.num_rows
            if "supported" in table.column_names:
                n_unsupported += table["supported"].to_pylist().count(False)
            if write is None:
                rows += table.to_pylist()
            else:
                write(table)
        if n_rows == 0:
            raise UserError(f"{source.name} has no rows")
    if n_unsupported:
        notify(f"{n_unsupported:,} of {n_rows:,} rows do not resemble the training rows (column supported)")
    if as_json:
        print_json(rows)
    elif output is not None and not is_standard(output):
        notify(f"wrote {output}, {n_rows:,} rows")


def _levels(text: str | None) -> tuple[float, ...]:
    """The levels of --quantiles."""
    try:
        levels = tuple(float(level) for level in (text or "").split(",") if text)
    except ValueError:
        levels = (np.nan,)
    if not all(0 < level < 1 for level in levels):
        raise UserError(f"--quantiles must be levels in (0, 1) with commas, such as 0.1,0.9; got {text}")
    return levels


@reads_tables
def evaluate(
    model: Model,
    data: Data,
    target: Target = None,
    coverage: Coverage = 0.9,
    quiet: Quiet = False,
    as_json: Json = False,
    *,
    reading: ReadOptions,
) -> None:
    """Evaluate a model on a table with known targets."""
    from usnrt.cli._data import evaluation_data, load_model

    check_one_input(model, data)
    notify = silent if quiet else notice
    fitted = load_model(model)
    rows = evaluation_data(fitted, data, target, notify, reading)
    with warnings_as_notices(notify):
        result = {"rows": len(rows.target), **evaluation(fitted, rows.features, rows.target, coverage)}
    if as_json:
        print_json(result)
    else:
        print_metrics(result)


def evaluation(
    model: "DistributionalRegressor", X: "pa.Table", y: NDArray[np.float64], coverage: float = 0.9
) -> dict[str, Any]:
    """All metrics of a model, by name."""
    from usnrt.metrics.evaluate import evaluate as evaluate_metrics

    table = evaluate_metrics(model, X, y, coverage=coverage)
    return dict(zip(table["metric"].tolist(), table["value"].tolist()))
