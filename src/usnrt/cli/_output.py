"""What commands say: tables and notices for people, JSON for machines, and never over an existing file unasked."""

import json
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from usnrt.cli._errors import UserError


def notice(sentence: str) -> None:
    """Say something beside the result."""
    print(f"usnrt: {sentence}", file=sys.stderr)


def silent(sentence: str) -> None:
    """Say nothing."""


@contextmanager
def results_noticed(say: Callable[[str], None]) -> Iterator[None]:
    """Say in a sentence, once, what Python users are warned of: what a result is worth."""
    from usnrt.utils.notices import ResultWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResultWarning)
        yield
    for warning in caught:
        if not issubclass(warning.category, ResultWarning):  # none of ours
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    for sentence in dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, ResultWarning)):
        say(sentence)


def print_json(value: Any) -> None:
    """Print a result as one JSON document; NaN and infinity become null."""
    print(json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False))


def print_table(rows: Iterable[Mapping[str, Any]], title: str | None = None) -> None:
    """Print rows as a table with a line of headings."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for name in rows[0] if rows else ():
        number = isinstance(rows[0][name], int | float | np.number)
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(text_of(value)) for value in row.values()))
    _console().print(table)


def print_measures(measures: Mapping[str, Any], title: str | None = None) -> None:
    """Print measures by name."""
    print_table([{"measure": name, "value": value} for name, value in measures.items()], title)


def region_table(regions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Regions for people: what matters most, shares in percent."""
    names = ("region", "rule", "rows", "share", "residual_std")
    shown = [{name: region[name] for name in names} for region in regions]
    return [{**region, "share": f"{100 * region['share']:.1f} %"} for region in shown]


def text_of(value: Any) -> str:
    """A value for people: numbers with four digits that mean something."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, int | np.integer):
        return f"{int(value):,}"
    if isinstance(value, float | np.floating):
        number = float(value)
        return f"{int(number):,}" if number.is_integer() and abs(number) < 1e15 else f"{number:.4g}"
    return str(value)


def may_write(path: Path, force: bool) -> None:
    """Make sure, before the work, that a file may be written; asks on a terminal if it exists already."""
    import typer

    if path.is_dir():
        raise UserError(f"{path} is a directory, not a file to write")
    if not path.parent.is_dir():
        raise UserError(f"the folder {path.parent} does not exist")
    if force or not path.is_file():
        return
    if not sys.stdin.isatty():
        raise UserError(f"{path} exists already; --force overwrites it")
    typer.confirm(f"{path} exists already. Overwrite it?", abort=True, err=True)


def _console() -> Any:
    from rich.console import Console

    # In a log there is no width to fit into, and wrapped rules are hard to search.
    return Console() if sys.stdout.isatty() else Console(width=200)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)
