"""``python -m usnrt_experiments``: run the experiments, show their status, write tables, figures and page."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="The paper's experiments: run and resume them, write their tables, figures and results page.",
    no_args_is_help=True,
    add_completion=False,
)

# The records of this repository, for commands that run in a checkout.
RESULTS = Path("experiments/results")
StoreOption = Annotated[Path, typer.Option("--store", help="Folder of the records.")]


@contextmanager
def _errors_as_messages() -> Iterator[None]:
    """Print expected errors as one line; bugs keep their traceback."""
    try:
        yield
    except typer.Exit:  # it is a RuntimeError
        raise
    except (ValueError, ImportError, OSError, KeyError, RuntimeError) as error:
        text = error.args[0] if isinstance(error, KeyError) else error
        typer.echo(f"error: {text}", err=True)
        raise typer.Exit(2) from error


@app.command()
def run(
    preset: Annotated[str | None, typer.Option(help="paper, stability, ablation, quick, small or coverage.")] = None,
    dataset: Annotated[list[str] | None, typer.Option("--dataset", "-d", help="Data set; may be repeated.")] = None,
    recipe: Annotated[list[str] | None, typer.Option("--recipe", "-r", help="Model; may be repeated.")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="Seed of a split; default: the paper's seeds.")] = None,
    store: StoreOption = RESULTS,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Cells run in parallel; -1: one per core.")] = 1,
    cluster: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, e.g. tcp://host:8786.")] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Try failed cells again.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Run every cell of a grid that has no record; may be stopped at any time and resumed by the same command."""
    from usnrt_experiments import Store, make_grid, run_grid
    from usnrt_experiments.grid import OWN_FOLDER
    from usnrt_experiments.grid import preset as preset_grid
    from usnrt_experiments.progress import Reporter

    with _errors_as_messages():
        if (preset is None) == (not dataset or not recipe):
            raise ValueError("run needs either --preset, or both --dataset and --recipe")
        cells = preset_grid(preset) if preset else make_grid(dataset or [], recipe or [], seeds=seed or None)
        if not cells:
            raise ValueError("the grid is empty: no data set was found; set USNRT_DATA to their folder")
        try:
            folder = store / preset if preset in OWN_FOLDER else store
            summary = run_grid(cells, Store(folder), jobs, cluster, retry, Reporter(quiet=quiet))
        except KeyboardInterrupt:
            typer.echo("stopped: run the same command again to resume", err=True)
            raise typer.Exit(130) from None
    typer.echo(
        f"{summary.done} done, {summary.failed} failed, {summary.skipped} skipped (done before or running elsewhere)"
    )
    if summary.failed:
        raise typer.Exit(1)


@app.command()
def status(store: StoreOption = RESULTS) -> None:
    """Show the finished seeds of every data set and recipe, errors of failed cells, and what is left in hours."""
    from usnrt_experiments import Store
    from usnrt_experiments.status import status_text

    with _errors_as_messages():
        typer.echo(status_text(Store(_existing(store))))


@app.command()
def forget(
    dataset: Annotated[list[str] | None, typer.Option("--dataset", "-d", help="Only this; may be repeated.")] = None,
    recipe: Annotated[list[str] | None, typer.Option("--recipe", "-r", help="Only this; may be repeated.")] = None,
    outdated: Annotated[bool, typer.Option("--outdated", help="Only if settings have changed since.")] = False,
    store: StoreOption = RESULTS,
) -> None:
    """Remove records, so that 'run' repeats them: of a data set, of a recipe, or of recipes that have changed."""
    from usnrt_experiments import Store
    from usnrt_experiments.status import cells_of
    from usnrt_experiments.status import outdated as outdated_cells

    with _errors_as_messages():
        if not (dataset or recipe or outdated):
            raise ValueError("forget needs --dataset, --recipe or --outdated")
        opened = Store(_existing(store))
        chosen = [
            cell
            for cell in (outdated_cells(opened) if outdated else cells_of(opened))
            if (not dataset or cell.dataset in dataset) and (not recipe or cell.recipe in recipe)
        ]
        typer.echo(f"{sum(opened.forget(cell) for cell in chosen)} records removed")


@app.command()
def rescore(store: StoreOption = RESULTS) -> None:
    """Recompute the metrics of all records from their stored predictions, without a refit."""
    from usnrt_experiments import Store
    from usnrt_experiments.rescore import rescore as rescore_store

    with _errors_as_messages():
        found = rescore_store(Store(_existing(store)))
        typer.echo(
            f"{found.changed} changed, {found.unchanged} unchanged, {found.without_predictions} without predictions"
        )


@app.command()
def table(
    name: Annotated[str, typer.Argument(help="A table's name, or 'all'.")] = "all",
    style: Annotated[str, typer.Option("--format", "-f", help="'text', 'markdown', 'latex' or 'csv'.")] = "text",
    store: StoreOption = RESULTS,
) -> None:
    """Print a table in the paper's layout from the available records."""
    from usnrt_experiments import Store
    from usnrt_experiments.tables import TABLES, make_table

    with _errors_as_messages():
        records = list(Store(_existing(store)).records())
        names = list(TABLES) if name == "all" else [name]
        typer.echo("\n\n".join(make_table(each, records).render(style).rstrip("\n") for each in names))


@app.command()
def figure(
    name: Annotated[str, typer.Argument(help="A figure's name, or 'all'.")] = "all",
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the figures.")] = Path("figures"),
    store: StoreOption = RESULTS,
) -> None:
    """Draw a figure of the paper from the available records."""
    from usnrt_experiments import Store
    from usnrt_experiments.figures import FIGURES, draw

    with _errors_as_messages():
        opened = Store(_existing(store))
        for each in list(FIGURES) if name == "all" else [name]:
            path = draw(each, opened, output)
            typer.echo(str(path) if path else f"{each}: no records to draw from")


@app.command()
def page(store: StoreOption = RESULTS) -> None:
    """Write the results page README.md, tables and figures of all records to the store's folder."""
    from usnrt_experiments import Store
    from usnrt_experiments.page import write_page

    with _errors_as_messages():
        typer.echo(str(write_page(Store(_existing(store)))))


def _existing(store: Path) -> Path:
    if not (store / "store.json").is_file():
        raise ValueError(f"store must be a folder of records that 'run' has written, got {store}")
    return store
