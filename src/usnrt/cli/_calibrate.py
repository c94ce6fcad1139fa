"""``usnrt calibrate``: a model file calibrated on recent rows, as a new model file."""

from pathlib import Path
from typing import Annotated

import typer

from usnrt.cli._errors import UserError
from usnrt.cli._fit import save_model
from usnrt.cli._options import Data, Force, GroupColumn, Json, Model, Quiet, Target
from usnrt.cli._output import check_writable, notice, print_json, say, silent, warnings_as_notices
from usnrt.cli._reading_options import reads_tables
from usnrt.cli._streams import check_one_input, messages_to_stderr
from usnrt.tables.read_options import ReadOptions


@reads_tables
def calibrate(
    model: Model,
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")],
    target: Target = None,
    window: Annotated[
        int | None, typer.Option(help="Use the most recent rows only, this many; default: all rows.", min=1)
    ] = None,
    by: Annotated[str, typer.Option(help="region: every region by its own rows. global: all together.")] = "region",
    group_column: GroupColumn = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
    *,
    reading: ReadOptions,
) -> None:
    """Calibrate a model on rows that it was not fitted to, such as recent ones."""
    from usnrt.cli._data import features_target_and_groups, load_model
    from usnrt.estimators.tree_regressor import TreeRegressor

    check_writable(output, force, model, data)
    check_one_input(model, data)
    if by not in ("region", "global"):
        raise UserError(f"--by must be region or global, got {by}")
    notify = silent if quiet else notice
    fitted = load_model(model)
    if not isinstance(fitted, TreeRegressor):
        raise UserError(f"{model} must be a model with regions to be calibrated, got a {type(fitted).__name__}")
    X, y, groups = features_target_and_groups(fitted, data, target, group_column, notify, reading)
    with warnings_as_notices(notify):
        fitted.calibrate(X, y, by=by, window=window, groups=groups)
    save_model(fitted, output)
    n_rows = len(y) if window is None else min(window, len(y))
    with messages_to_stderr(output):
        if as_json:
            print_json({"model": str(output), "rows": n_rows})
        else:
            say(f"wrote {output}, calibrated on {n_rows:,} rows")
