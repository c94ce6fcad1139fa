"""The commands that fit, predict and evaluate; the others are in `usnrt.cli._more`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from usnrt.cli._errors import UserError
from usnrt.cli._output import (
    may_write,
    notice,
    print_json,
    print_measures,
    print_table,
    region_table,
    results_noticed,
    silent,
)

app = typer.Typer(
    name="usnrt",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Regression on tables that says how sure it is, and where it is unsure.",
    context_settings={"help_option_names": ["-h", "--help"]},
)

# readable=False: our own sentences say why a file cannot be read
Data = Annotated[
    Path, typer.Argument(help="A .csv, .tsv or .parquet file, also with .gz, .bz2 or .zst.", readable=False)
]
Model = Annotated[Path, typer.Argument(help="A model file that `usnrt fit` wrote.", readable=False)]
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite files that exist.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notices.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Coverage = Annotated[float, typer.Option(help="Probability that an interval should hold the target.")]


def version(shown: bool) -> None:
    """Print the version and stop."""
    if shown:
        from usnrt._version import __version__

        print(f"usnrt {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Regression on tables that says how sure it is, and where it is unsure."""


@app.command()
def fit(
    data: Data,
    target: Annotated[str, typer.Option("--target", "-t", help="The column to predict.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The model file to write; default: the data's name.usnrt")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option("--drop", help="A column to leave out; may be repeated.")] = None,
    categorical: Annotated[
        list[str] | None, typer.Option("--categorical", help="A column of codes; text is found by itself.")
    ] = None,
    holdout: Annotated[
        float, typer.Option(help="Share of the rows that is kept aside to evaluate the model on.")
    ] = 0.0,
    members: Annotated[
        int, typer.Option(help="Trees in an ensemble: better, and slower by as many times. 1 for one tree.", min=1)
    ] = 1,
    paper: Annotated[bool, typer.Option("--paper", help="The recipe of the paper instead of ours.")] = False,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter of the model as name=value; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same number gives the same model.")] = 0,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn a model from a table and write it to a file."""
    from usnrt.cli._data import training_data

    output = output or data.with_name(f"{data.name.split('.')[0]}.usnrt")
    may_write(output, force)
    if not 0 <= holdout < 1:
        raise UserError(f"--holdout must be in [0, 1), got {holdout:g}")
    say = silent if quiet else notice
    X, y = training_data(data, target, drop or [], say)

    # The libraries that learn take seconds to load: not before the table is known to be good.
    from usnrt.cli._fitting import make_model, split_rows, summary
    from usnrt.persistence import save

    kept, aside = split_rows(len(y), holdout, seed)
    model = make_model(paper, members, set_ or [], categorical or [], seed, verbose=0 if quiet else 1)
    model.fit(X.take(kept), y[kept])
    model.set_params(verbose=0)  # how loud the fit was is no part of the model
    model.target_name_ = target
    save(model, output)
    result = summary(model, X.take(kept), output)
    if len(aside):
        with results_noticed(say):
            result["held out"] = evaluation(model, X.take(aside), y[aside])
    if as_json:
        print_json(result)
        return
    for line in result["columns"]:
        say(line)
    print_table(region_table(result["regions"]), title="Regions, the least certain first")
    if len(aside):
        print_measures(result["held out"], title=f"On {len(aside):,} rows kept aside")
    print(f"wrote {output}")


@app.command()
def predict(
    model: Model,
    data: Data,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The table to write; default: CSV to the terminal.")
    ] = None,
    coverage: Coverage = 0.9,
    keep: Annotated[
        list[str] | None, typer.Option("--keep", help="A column of the data to copy, such as an id; may be repeated.")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Predict mean, std, lower, upper, region and supported (whether it resembles training rows) for every row."""
    import sys

    import pyarrow as pa

    from usnrt.cli._data import known_data, load_model
    from usnrt.cli._tables import format_of, write_file, write_stream
    from usnrt.estimators.prediction_table import prediction_table

    if not 0 < coverage < 1:
        raise UserError(f"--coverage must be in (0, 1), got {coverage:g}")
    if output is not None:
        format_of(output)
        may_write(output, force)
    say = silent if quiet else notice
    fitted = load_model(model)
    table, X = known_data(fitted, data, say)
    absent = [name for name in keep or [] if name not in table.column_names]
    if absent:
        raise UserError(f"{data} has no column {absent[0]!r} to keep")
    with results_noticed(say):
        predicted = prediction_table(fitted, X, coverage)
    if "supported" in predicted.column_names:
        lacking = predicted["supported"].to_pylist().count(False)
        if lacking:
            say(f"{lacking:,} of {predicted.num_rows:,} rows do not resemble the training rows (column supported)")
    columns = {name: table[name] for name in keep or []} | {n: predicted[n] for n in predicted.column_names}
    result = pa.table(list(columns.values()), names=list(columns))
    if as_json:
        print_json(result.to_pylist())
    elif output is None:
        write_stream(result, sys.stdout.buffer, "csv")
    else:
        write_file(result, output)
        say(f"wrote {output}, {result.num_rows:,} rows")


@app.command()
def evaluate(
    model: Model,
    data: Data,
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="The column with the truth; default: as in fit.")
    ] = None,
    coverage: Coverage = 0.9,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Measure a model on a table with known targets."""
    from usnrt.cli._data import judged_data, load_model

    if not 0 < coverage < 1:
        raise UserError(f"--coverage must be in (0, 1), got {coverage:g}")
    say = silent if quiet else notice
    fitted = load_model(model)
    X, y = judged_data(fitted, data, target, say)
    with results_noticed(say):
        result = {"rows": X.num_rows, **evaluation(fitted, X, y, coverage)}
    if as_json:
        print_json(result)
    else:
        print_measures(result)


def evaluation(model: Any, X: Any, y: Any, coverage: float = 0.9) -> dict[str, Any]:
    """All measures of a model, by name."""
    from usnrt.metrics import evaluate as measure

    table = measure(model, X, y, coverage=coverage)
    return dict(zip(table[table.columns[0]].tolist(), table[table.columns[1]].tolist()))


# The other commands register themselves.
import usnrt.cli._more  # noqa: E402, F401
