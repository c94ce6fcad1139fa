"""``usnrt fit`` and ``usnrt calibrate``: from a table to a model file."""

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from usnrt.cli._options import (
    Categorical,
    Data,
    Drop,
    Force,
    GroupColumn,
    Json,
    Keep,
    Model,
    NewTarget,
    Quiet,
    Target,
    reads_tables,
)
from usnrt.cli._output import (
    UserError,
    check_one_input,
    check_writable,
    messages_to_stderr,
    notice,
    print_json,
    print_metrics,
    print_table,
    region_table,
    say,
    silent,
    warnings_as_notices,
    written_path,
)
from usnrt.tables.read_options import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from usnrt.estimators.tree_regressor import TreeRegressor


class Preset(StrEnum):
    """Presets of `usnrt fit`."""

    fast = "fast"
    balanced = "balanced"
    ensemble = "ensemble"


class Transform(StrEnum):
    """Transforms of the target of `usnrt fit`."""

    log = "log"
    auto = "auto"


# parameters of the ensemble itself rather than of its trees
ENSEMBLE_PARAMETERS = ("categorical_features", "random_state", "n_jobs", "verbose")


@reads_tables
def fit(
    data: Data,
    target: NewTarget,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The model file to write; default: the data's name.usnrt")
    ] = None,
    drop: Drop = None,
    keep: Keep = None,
    categorical: Categorical = None,
    holdout: Annotated[float, typer.Option(help="Fraction of the rows held out to evaluate the model on.")] = 0.0,
    preset: Annotated[
        Preset,
        typer.Option(help="fast: a first look. balanced: one tree. ensemble: 5 trees, more accurate and slower."),
    ] = Preset.balanced,
    members: Annotated[
        int | None,
        typer.Option(help="Trees in an ensemble; default: 5 with --preset ensemble, otherwise one tree.", min=1),
    ] = None,
    paper: Annotated[bool, typer.Option("--paper", help="Use the paper's recipe instead of ours.")] = False,
    lower: Annotated[float | None, typer.Option(help="Lower bound of the target, such as 0 for counts.")] = None,
    upper: Annotated[float | None, typer.Option(help="Upper bound of the target.")] = None,
    transform: Annotated[
        Transform | None,
        typer.Option(help="log: learn the target's logarithm. auto: if that predicts held-out rows better."),
    ] = None,
    time_column: Annotated[
        str | None,
        typer.Option(help="A column of dates or numbers that orders the rows: the latest ones validate."),
    ] = None,
    group_column: GroupColumn = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter of the model as name=value; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed; the same seed gives the same model.")] = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            help="A folder for the state of a long fit; after an interruption the same command resumes it.",
        ),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
    *,
    reading: ReadOptions,
) -> None:
    """Fit a model to a table and write it to a file."""
    from usnrt.cli._data import training_data
    from usnrt.cli._tables import default_output, fit_large, open_table
    from usnrt.tables.find_source import fits_memory

    output = output or default_output(data)
    check_writable(output, force, data)
    if not 0 <= holdout < 1:
        raise UserError(f"--holdout must be in [0, 1), got {holdout:g}")
    changes = target_parameters(lower, upper, transform, time_column)
    if paper and changes:
        raise UserError("--lower, --upper, --transform and --time-column do not apply to --paper")
    if group_column is not None and (paper or time_column is not None):
        raise UserError(f"--group-column does not apply to {'--paper' if paper else '--time-column'}")
    notify = silent if quiet else notice
    source = open_table(data, notify, reading)
    categorical, held_out, left_out = categorical or [], np.zeros(0, dtype=np.intp), {}
    is_small = fits_memory(source)
    if is_small:
        found = training_data(
            source, target, drop or [], notify, keep or [], [*categorical, *reading.types], group_column
        )
        left_out = found.left_out
        time = time_of(found.features, time_column, data)
        fitted_rows, held_out = split_rows(len(found.target), holdout, seed, time, found.groups)
    categorical += source.reading.categories if source.reading else ()
    if categorical:
        changes["categorical_features"] = categorical
    changes |= {"random_state": seed, "verbose": 0 if quiet else 1}

    # The libraries for training take seconds to import: not before the table is known to be valid.
    from usnrt.cli._predict import evaluation

    model = make_model(preset, paper, members, set_ or [], changes)
    with warnings_as_notices(notify), hint_on_interrupt(checkpoint):
        if is_small:
            X, y, groups = found.take(fitted_rows)
            model.fit(X, y, groups=groups, checkpoint=checkpoint)
            found.reading.remember(model.encoder_)
            n_rows = len(fitted_rows)
        else:
            n_rows = fit_large(model, source, target, drop or [], holdout, checkpoint, group_column)
    model.set_params(verbose=0)  # the verbosity of this run is not part of the model
    model.target_name_ = target
    with written_path(output) as path:
        model.save(path)
    result = {**summary(model, n_rows, target, output), "left out": left_out}
    if len(held_out):
        with warnings_as_notices(notify):
            result["held out"] = evaluation(model, found.features.take(held_out), found.target[held_out])
    with messages_to_stderr(output):
        if as_json:
            print_json(result)
        else:
            _print_summary(result, model, len(held_out), notify)


@contextmanager
def hint_on_interrupt(checkpoint: Path | None) -> Iterator[None]:
    """Say after Ctrl-C how to go on, if there is a checkpoint."""
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint is not None and checkpoint.exists():
            notice(f"the same command resumes from the checkpoint in {checkpoint}")
        raise


def _print_summary(result: dict[str, Any], model: object, n_held_out: int, notify: Callable[[str], None]) -> None:
    from usnrt.estimators.regions import memory_sentence

    for line in result["columns"]:
        notify(line)
    print_table(region_table(model, notify), title="Regions, the least certain first")
    if n_held_out:
        print_metrics(result["held out"], title=f"On {n_held_out:,} held-out rows")
    if result["training rows in memory"]:
        notify(memory_sentence(result["training rows in memory"], result["unmodified training rows"]))
    say(f"wrote {result['model']}")


def make_model(
    preset: Preset, paper: bool, members: int | None, settings: Sequence[str], changes: dict[str, Any]
) -> "TreeRegressor":
    """An unfitted model with changed parameters, and ``settings`` of one tree as name=value."""
    from usnrt import USNRTEnsemble, USNRTRegressor

    if members is None:
        members = USNRTEnsemble().n_estimators if preset is Preset.ensemble else 1
    _check_preset(preset, paper, members)
    one_tree = USNRTRegressor.paper if paper else USNRTRegressor.fast if preset is Preset.fast else USNRTRegressor
    model: TreeRegressor = one_tree()
    known = model.get_params(deep=False)
    changes = dict(changes)
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or name not in known:
            names = ", ".join(sorted(known))
            raise UserError(f"--set must be name=value with a parameter's name, got {setting!r}; names: {names}")
        changes[name] = _parameter_value(value)
    of_ensemble = {name: changes.pop(name) for name in ENSEMBLE_PARAMETERS if name in changes} if members > 1 else {}
    model.set_params(**changes)
    if members == 1:
        return model
    ensemble = USNRTEnsemble.paper if paper else USNRTEnsemble
    return ensemble(estimator=model, n_estimators=members, **of_ensemble)


def _check_preset(preset: Preset, paper: bool, members: int) -> None:
    if paper and preset is Preset.fast:
        raise UserError("--preset fast does not apply to --paper")
    if preset is Preset.ensemble and members == 1:
        raise UserError("--preset ensemble needs --members of at least 2, got 1")


def _parameter_value(text: str) -> Any:
    """A Python literal (number, tuple, None), true or false in any case; anything else is text."""
    try:
        return ast.literal_eval(text.title() if text.lower() in ("true", "false", "none") else text)
    except (ValueError, SyntaxError):
        return text


def target_parameters(
    lower: float | None, upper: float | None, transform: str | None, time_column: str | None
) -> dict[str, Any]:
    """The options about target and time as parameters of a tree."""
    parameters: dict[str, Any] = {}
    if lower is not None or upper is not None:
        parameters["target_bounds"] = (lower, upper)
    if transform is not None:
        parameters["target_transform"] = str(transform)
    return parameters if time_column is None else {**parameters, "time_column": time_column}


def time_of(X: "pa.Table", time_column: str | None, path: Path) -> NDArray[np.float64] | None:
    """The time of each row, to hold out the latest; None without a time column."""
    if time_column is None:
        return None
    from usnrt.tables.columns import read_time, understood
    from usnrt.tables.reading import as_table

    if time_column not in X.column_names:
        raise UserError(f"{path} has no column {time_column!r} for --time-column")
    column, _ = understood(as_table(X.select([time_column])).column(0), time_column)
    return read_time(column, time_column)


def split_rows(
    n_rows: int,
    holdout: float,
    seed: int,
    time: NDArray[np.float64] | None = None,
    groups: NDArray[np.intp] | None = None,
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to fit and to hold out, each in the order of the file; with a time the latest, or whole groups."""
    n_held_out = round(n_rows * holdout)
    if time is not None:
        from usnrt.tables.roles import is_latest

        latest = is_latest(time, n_held_out)
        return np.flatnonzero(~latest), np.flatnonzero(latest)
    from usnrt.tables.groups import draw_groups

    is_held_out = draw_groups(groups, n_held_out, n_rows, np.random.default_rng(seed))
    return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)


def summary(model: "TreeRegressor", n_rows: int, target: str, output: Path) -> dict[str, Any]:
    """The result of a fit: file, target, rows, how the columns were read, regions."""
    from usnrt.estimators.regions import has_examples, region_rows, rows_in_memory

    return {
        "model": str(output),
        "target": target,
        "rows": n_rows,
        "columns": _column_notices(model),
        "regions": region_rows(model),
        "training rows in memory": rows_in_memory(model),
        "unmodified training rows": has_examples(model),
    }


def _column_notices(model: "TreeRegressor") -> list[str]:
    """How columns were read, where that is not obvious."""
    lines = []
    columns = model.columns_
    categorical = [f"{c.name} ({c.n_categories})" for c in columns if c.is_categorical]
    if categorical:
        lines.append(f"categories: {', '.join(categorical)}")
    for source in dict.fromkeys(c.source for c in columns if c.part):
        parts = ", ".join(c.part for c in columns if c.source == source)
        lines.append(f"the date {source!r} became {parts}")
    missing = list(dict.fromkeys(c.source for c in columns if c.has_missing))
    if missing:
        lines.append(f"missing values in {', '.join(missing)}")
    for column in columns:
        if column.n_categories > max(100, len(columns)):
            lines.append(
                f"{column.name!r} has {column.n_categories:,} different texts; is it a name or an id to --drop?"
            )
    return lines


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
    from usnrt.calibration.groups import METHODS
    from usnrt.cli._data import evaluation_data, groups_of, load_model
    from usnrt.estimators.tree_regressor import TreeRegressor

    check_writable(output, force, model, data)
    check_one_input(model, data)
    if by not in METHODS:
        raise UserError(f"--by must be {' or '.join(METHODS)}, got {by}")
    notify = silent if quiet else notice
    fitted = load_model(model)
    if not isinstance(fitted, TreeRegressor):
        raise UserError(f"{model} must be a model with regions to be calibrated, got a {type(fitted).__name__}")
    rows = evaluation_data(fitted, data, target, notify, reading, needed=[group_column])
    groups = None if group_column is None else groups_of(rows.table, group_column, data)
    with warnings_as_notices(notify):
        fitted.calibrate(rows.features, rows.target, by=by, window=window, groups=groups)
    with written_path(output) as path:
        fitted.save(path)
    n_rows = len(rows.target) if window is None else min(window, len(rows.target))
    with messages_to_stderr(output):
        if as_json:
            print_json({"model": str(output), "rows": n_rows})
        else:
            say(f"wrote {output}, calibrated on {n_rows:,} rows")
