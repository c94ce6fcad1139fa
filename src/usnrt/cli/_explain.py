"""``usnrt explain``: the rules of a model, or why the rows of a table are uncertain."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from usnrt.cli._options import Coverage, Json, Model, Quiet, reads_tables
from usnrt.cli._output import (
    UserError,
    check_one_input,
    notice,
    print_json,
    print_table,
    region_table,
    say,
    shown,
    silent,
)
from usnrt.tables.read_options import ReadOptions

if TYPE_CHECKING:
    from usnrt.estimators.base import DistributionalRegressor
    from usnrt.explain import Explanation

N_ROWS = 10


@reads_tables
def explain(
    model: Model,
    data: Annotated[
        Path | None, typer.Argument(help="A table of rows to explain; default: the rules.", readable=False)
    ] = None,
    row: Annotated[
        list[int] | None,
        typer.Option("--row", help="A row to explain, from 1, the first one below the header; may be repeated.", min=1),
    ] = None,
    rows: Annotated[int, typer.Option("--rows", help="Number of rows to explain, from the first on.", min=1)] = N_ROWS,
    id_column: Annotated[str | None, typer.Option("--id", help="A column of the data that names the rows.")] = None,
    table: Annotated[
        bool, typer.Option("--table", help="Compare with the average of the whole table, not of the row's region.")
    ] = False,
    coverage: Coverage = 0.9,
    quiet: Quiet = False,
    as_json: Json = False,
    *,
    reading: ReadOptions,
) -> None:
    """Show the rules of a model's regions, or for a table why its rows are as uncertain as they are."""
    from usnrt.cli._data import load_model, table_and_features

    if data is not None:
        check_one_input(model, data)
    fitted = load_model(model)
    if data is None:
        _explain_model(fitted, model, as_json, silent if quiet else notice)
        return
    notify = silent if quiet else notice
    all_columns, X = table_and_features(fitted, data, notify, reading)
    if not hasattr(fitted, "explain"):
        raise UserError(f"a {type(fitted).__name__} has no regions, so its rows cannot be explained")
    if id_column is not None and id_column not in all_columns.column_names:
        raise UserError(f"{shown(data)} has no column {id_column!r} to name the rows")
    numbers = _numbers_of_rows(row, rows, X.num_rows, data, notify)
    positions = [number - 1 for number in numbers]
    # A model that kept no background is explained by the rows of the table.
    background = X if fitted.model_.kept.background is None else None
    if background is not None:
        notify(f"the model kept no background rows: rows are compared with those of {shown(data)}")
    baseline = "table" if table else "region"
    explained = fitted.explain(X.take(positions), coverage=coverage, baseline=baseline, background=background)
    ids = None if id_column is None else all_columns[id_column].take(positions).to_pylist()
    if as_json:
        _print_json(explained, numbers, ids)
        return
    print("Rows are counted from 1, the first one below the header.")
    for place, explanation in enumerate(explained):
        name = f"{id_column} {ids[place]}, row {numbers[place]}" if ids is not None else f"row {numbers[place]}"
        say(f"\n{explanation.text(name)}")


def _explain_model(fitted: "DistributionalRegressor", path: Path, as_json: bool, notify: Any) -> None:
    from usnrt.estimators.regions import (
        has_examples,
        memory_sentence,
        ratio_sentence,
        region_rows,
        rows_in_memory,
        uncertainty_ratio,
    )

    regions = region_rows(fitted)
    if not regions:
        raise UserError(f"{path} has no regions to explain: it is a {type(fitted).__name__}")
    ratio, n_remembered = uncertainty_ratio(fitted), rows_in_memory(fitted)
    if as_json:
        print_json(
            {
                "target": fitted.target_name_,
                "regions": regions,
                "ratio": ratio,
                "training rows in memory": n_remembered,
                "unmodified training rows": has_examples(fitted),
            }
        )
        return
    print_table(region_table(fitted, notify), title="Regions, the least certain first")
    for sentence in (ratio_sentence(ratio), memory_sentence(n_remembered, has_examples(fitted))):
        if sentence:
            say(sentence)


def _numbers_of_rows(
    chosen: list[int] | None, most: int, n_rows: int, data: Path, notify: Callable[[str], None]
) -> list[int]:
    """The rows that are chosen, or the first ones, counted from 1."""
    beyond = [number for number in chosen or [] if number > n_rows]
    if beyond:
        raise UserError(f"--row must be at most {n_rows:,}, the number of rows of {shown(data)}, got {beyond[0]}")
    numbers = chosen or list(range(1, min(most, n_rows) + 1))
    if not chosen and n_rows > len(numbers):
        notify(f"the first {len(numbers):,} of {n_rows:,} rows are explained; --rows or --row changes that")
    return numbers


def _print_json(explained: "Explanation", numbers: list[int], ids: list[Any] | None) -> None:
    result = explained.to_dict()
    for place, entry in enumerate(result["rows"]):
        entry["row"] = numbers[place]
        if ids is not None:
            entry["id"] = ids[place]
    print_json({**result, "first row": 1})
