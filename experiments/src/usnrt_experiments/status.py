"""The contents of a store as text."""

from collections import Counter, defaultdict
from typing import Any
from urllib.parse import unquote

from usnrt.utils.constraints import has_default
from usnrt_experiments.cells import settings_of
from usnrt_experiments.grid import Cell, protocol_seeds
from usnrt_experiments.left import left_lines
from usnrt_experiments.recipes import COVERAGE, get_recipe
from usnrt_experiments.store import Store


def status_text(store: Store) -> str:
    """Finished seeds of every recipe (rows) and data set (columns), then failed, damaged and running cells, then
    what is left of the presets in processor hours.
    """
    seen = cells_of(store)
    states = {cell: store.status(cell) for cell in seen}
    if not states:
        return f"no records in {store.root}"
    datasets, recipes = (list(dict.fromkeys(getattr(cell, field) for cell in seen)) for field in ("dataset", "recipe"))
    done: dict[tuple[str, str], int] = defaultdict(int)
    for cell, state in states.items():
        done[cell.dataset, cell.recipe] += state == "done"
    width = max(len(recipe) for recipe in recipes)
    columns = [max(len(dataset), 3) for dataset in datasets]
    lines = [" " * width + "".join(f"  {dataset:>{size}}" for dataset, size in zip(datasets, columns))]
    for recipe in recipes:
        counts = [
            f"{done[dataset, recipe]}/{_n_planned(dataset, recipe)}" if done[dataset, recipe] else "."
            for dataset in datasets
        ]
        lines.append(f"{recipe:<{width}}" + "".join(f"  {count:>{size}}" for count, size in zip(counts, columns)))
    totals = Counter(states.values())
    lines.append(", ".join(f"{totals[state]} {state}" for state in ("done", "failed", "damaged", "running")))
    for cell, state in states.items():
        if state == "failed":
            lines.append(f"failed: {cell}: {store.read(cell).meta['error']}")
        elif state in ("damaged", "running"):
            lines.append(f"{state}: {cell}")
    return "\n".join([*lines, *left_lines(store)])


def _n_planned(dataset: str, recipe: str) -> int:
    return 1 if recipe == COVERAGE else len(protocol_seeds(dataset))


def outdated(store: Store) -> list[Cell]:
    """Done cells whose recipe has different settings now.

    A parameter that is newer than a record is no difference if it has its default, which changes nothing.
    """
    old = []
    for record in store.records():
        if record.status == "done" and record.cell.recipe != COVERAGE:
            model = get_recipe(record.cell.recipe).build(random_state=record.cell.seed)
            now, then = _compared(settings_of(model)), _compared(record.meta["settings"])
            newer = {name for name in now.keys() - then.keys() if has_default(model, name)}
            if {name: value for name, value in now.items() if name not in newer} != then:
                old.append(record.cell)
    return old


def _compared(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings by their current names, without those that do not affect results."""
    settings = {
        "n_estimators" if name == "n_members" and value != "deprecated" else name: value
        for name, value in settings.items()
        if value != "deprecated"
    }
    return {name: value for name, value in settings.items() if name not in ("n_jobs", "verbose", "callbacks")}


def cells_of(store: Store) -> list[Cell]:
    """Every cell with a record or a claim, ordered by path."""
    paths = sorted(
        {
            path.with_suffix("")
            for ending in ("json", "claim")
            for path in (store.root / "cells").glob(f"*/*/*.{ending}")
        }
    )
    return [
        Cell(unquote(path.parent.parent.name), unquote(path.parent.name), int(path.name))
        for path in paths
        if path.name.isdigit()
    ]
