"""The page of results: generated from the records, never typed."""

import csv
import io
from collections import Counter
from pathlib import Path

from usnrt.bench.aggregate import Means
from usnrt.bench.beyond import beyond, goals_table
from usnrt.bench.figures import FIGURES, draw
from usnrt.bench.findings import agreement, findings, improvements
from usnrt.bench.grid import ONE_SEED, n_rows_of
from usnrt.bench.progress import in_words
from usnrt.bench.scores import METRICS
from usnrt.bench.store import Record, Store
from usnrt.bench.tables import TABLES, make_table
from usnrt.datasets import SEEDS, get_spec, list_datasets, seeds_for
from usnrt.utils.whole_file import whole_file

TIMES = ("fit_seconds", "fit_cpu_seconds", "predict_seconds")


def write_page(store: Store) -> Path:
    """Write ``README.md``, ``cells.csv``, ``tables/`` and ``figures/`` into the store's folder.

    Parameters
    ----------
    store : Store

    Returns
    -------
    Path of the page
    """
    records = list(store.records())
    means = Means(records)
    for name in TABLES:
        for style, ending in (("csv", "csv"), ("latex", "tex")):
            _write(store.root / "tables" / f"{name}.{ending}", make_table(name, means).render(style))
    # A clone of the results has no per-row predictions to draw from, but has the pictures.
    folder = store.root / "figures"
    for name in FIGURES:
        draw(name, store, folder)
    drawn = {name: path for name in FIGURES if (path := folder / f"{name}.png").exists()}
    _write(store.root / "cells.csv", cells_csv(records))
    page = store.root / "README.md"
    _write(page, page_text(records, {name: path.relative_to(store.root) for name, path in drawn.items()}))
    return page


def page_text(records: list[Record], pictures: dict[str, Path]) -> str:
    """The page as Markdown, given the records and where each drawn figure lies."""
    means = Means(records)
    goals, tables = goals_table(means), [make_table(name, means) for name in TABLES]
    parts = [
        "# What the paper's experiments gave here",
        "This page is written by `usnrt bench page` from the records in `cells/`; nothing on it is typed. One line a "
        "cell is in [cells.csv](cells.csv), every table as CSV and LaTeX in [tables/](tables). Numbers are on the "
        "scaled target, times 100, and means over splits. Tables of the paper have three lines a data set: the paper's "
        "number, ours with the paper's recipe, ours with our default recipe. What is said or marked to be better than "
        "something else is so on the splits that all that is compared was run on.",
        "## What was run",
        _what_was_run(records, means),
        "## Where the paper's findings were confirmed, and where not",
        *(findings(means) or ["No table has all its models yet on any data set."]),
        "## How near the paper's recipes come to the paper's numbers",
        "Median difference, ours minus the paper's, and in brackets the number of data sets behind it.",
        "\n".join(f"- {line}" for line in agreement(means)) or "Nothing to compare yet.",
        "## What the default recipes do better",
        *(improvements(means) or ["Nothing to compare yet."]),
        *beyond(means),
        goals.section(),
        "## Tables",
        "\n".join(f"- [{table.title}]({table.anchor})" for table in tables),
        *(table.section() for table in tables),
    ]
    if pictures:
        parts.append("## Figures")
        parts += [
            f"![{FIGURES[name].title}]({path.as_posix()})\n\n{FIGURES[name].caption}" for name, path in pictures.items()
        ]
    if failures := _failures(records):
        parts += ["## What failed", failures]
    return "\n\n".join(parts) + "\n"


def _what_was_run(records: list[Record], means: Means) -> str:
    states = Counter(record.status for record in records)
    seconds = sum(float(record.meta["fit_cpu_seconds"]) for record in records if record.status == "done")
    names = [name for name in list_datasets() if name in means.datasets]
    large = [get_spec(name).title for name in names if len(seeds_for(n_rows_of(name))) == 1]
    chosen = [get_spec(name).title for name in names if name in ONE_SEED]
    missing = [get_spec(name).title for name in list_datasets() if name not in means.datasets]
    lines = [
        f"- {states['done']} cells done, {states['failed']} failed; {len(names)} data sets, {len(means.recipes)} "
        f"recipes; {in_words(seconds)} of processor time for fitting.",
        f"- Planned are the splits of the seeds {', '.join(map(str, SEEDS))}.",
    ]
    if large:
        lines.append(f"- Only the first split, as in the paper, from 100,000 rows on: {', '.join(large)}.")
    if chosen:
        lines.append(f"- Only the first split, other than in the paper, to save hours: {', '.join(chosen)}.")
    if missing:
        lines.append(f"- No records: {', '.join(missing)}.")
    versions = Counter(
        f"{package} {number}"
        for record in records
        if record.status == "done"
        for package, number in record.meta["versions"].items()
        if package in ("usnrt", "python", "jax")
    )
    if versions:
        lines.append(f"- Made with {', '.join(sorted(versions))}.")
    return "\n".join(lines)


def _failures(records: list[Record]) -> str:
    return "\n".join(f"- {record.cell}: {record.meta['error']}" for record in records if record.status == "failed")


def cells_csv(records: list[Record]) -> str:
    """One line a done cell: data set, recipe, seed, every metric, seconds, leaves."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["dataset", "recipe", "seed", *METRICS, *TIMES, "n_leaves"])
    for record in records:
        if record.status != "done":
            continue
        meta = record.meta
        known = meta["metrics"]  # an older record may lack a newer metric
        values = [f"{float(known[name]):.6g}" if name in known else "" for name in METRICS]
        leaves = (meta.get("tree") or {}).get("n_leaves", "")
        cell = record.cell
        times = [meta[name] for name in TIMES]
        writer.writerow([cell.dataset, cell.recipe, cell.seed, *values, *times, leaves])
    return buffer.getvalue()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.write(text.encode())
