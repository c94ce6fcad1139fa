"""Input and output of the commands: standard streams, text for people, JSON for programs, checks before writing."""

import glob
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from usnrt.tables.files import FORMATS
from usnrt.utils.atomic_write import atomic_write
from usnrt.utils.names import escaped, escaped_json, escaped_lines
from usnrt.utils.result_table import json_value


class UserError(Exception):
    """An error that the user can fix; its message is all that is shown."""


def is_standard(path: Path | None) -> bool:
    """Whether a path stands for standard input or output."""
    return path is not None and str(path) == "-"


def shown(path: Path) -> str:
    """The name of an input in messages."""
    return "standard input" if is_standard(path) else str(path)


def read_standard_input() -> bytes:
    """All bytes of standard input."""
    stream = sys.stdin
    if stream is None or stream.isatty():
        raise UserError("- is standard input, but nothing is piped into it")
    data = bytes(stream.buffer.read())
    if not data:
        raise UserError("standard input is empty")
    return data


def check_one_input(*paths: Path | None) -> None:
    """Refuse two inputs that are both standard input."""
    if sum(is_standard(path) for path in paths) > 1:
        raise UserError("only one input can be standard input (-)")


def write_output(path: Path, content: bytes) -> None:
    """Write a file, which appears when it is complete, or to standard output."""
    if is_standard(path):
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        with atomic_write(path) as file:
            file.write(content)


@contextmanager
def written_path(path: Path) -> Iterator[Path]:
    """Where to write a file: its path, or a temporary one of which standard output then gets the content."""
    if not is_standard(path):
        yield path
        return
    with TemporaryDirectory() as folder:
        written = Path(folder) / "output"
        yield written
        write_output(path, written.read_bytes())


@contextmanager
def messages_to_stderr(*outputs: Path | None) -> Iterator[None]:
    """Print messages to standard error if one of the outputs is standard output."""
    if any(is_standard(path) for path in outputs):
        with redirect_stdout(sys.stderr):
            yield
    else:
        yield


def notice(sentence: str) -> None:
    """Print a notice to stderr."""
    print(f"usnrt: {escaped_lines(sentence)}", file=sys.stderr)


def say(text: str) -> None:
    """Print text to stdout."""
    print(escaped_lines(text))


def silent(sentence: str) -> None:
    """Discard a notice."""


@contextmanager
def warnings_as_notices(notify: Callable[[str], None]) -> Iterator[None]:
    """Turn each distinct `ResultWarning` of the block into one notice."""
    from usnrt.utils.notices import ResultWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResultWarning)
        yield
    for warning in caught:
        if not issubclass(warning.category, ResultWarning):  # not one of ours
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    for sentence in dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, ResultWarning)):
        notify(sentence)


def print_json(value: object) -> None:
    """Print a result as one JSON document; NaN and infinity become null."""
    print(escaped_json(json.dumps(json_value(value), indent=2, ensure_ascii=False, allow_nan=False)))


def print_table(rows: Iterable[Mapping[str, Any]], title: str | None = None) -> None:
    """Print rows as a table with a header."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    table = Table(
        title=None if title is None else Text(escaped(title)), box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False
    )
    for name in rows[0] if rows else ():
        number = isinstance(rows[0][name], int | float | np.number)
        table.add_column(Text(escaped(name)), justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(escaped_lines(text_of(value))) for value in row.values()))
    # A log has no width to fit into, and wrapped rules are hard to search.
    console = Console() if sys.stdout.isatty() else Console(width=200)
    console.print(table)


def print_metrics(metrics: Mapping[str, Any], title: str | None = None) -> None:
    """Print metrics by name."""
    print_table([{"metric": name, "value": value} for name, value in metrics.items()], title)


def region_table(model: object, notify: Callable[[str], None]) -> list[dict[str, Any]]:
    """The main columns of `region_rows`, with shares in percent and short rules, for `print_table`."""
    from usnrt.estimators.regions import region_rows
    from usnrt.tree.rules import MAX_LABELS

    regions = region_rows(model, MAX_LABELS)
    if [region["rule"] for region in regions] != [region["rule"] for region in region_rows(model)]:
        notify("rules are shortened here; --json and rules() have all their categories")
    names = ("region", "rule", "rows", "share", "residual_std", "experts")
    shown = [{name: region[name] for name in names if name in region} for region in regions]
    return [{**region, "share": f"{100 * region['share']:.1f} %"} for region in shown]


def text_of(value: object) -> str:
    """A value as text: numbers with four significant digits, or to the unit."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, int | np.integer):
        return f"{int(value):,}"
    if isinstance(value, float | np.floating):
        number = float(value)
        return f"{number:,.0f}" if number.is_integer() or 1e3 <= abs(number) < 1e15 else f"{number:.4g}"
    return str(value)


def check_writable(path: Path, force: bool, *inputs: Path | None) -> None:
    """Check, before any work, that a file may be written; prompt on a terminal if it exists already.

    Inputs of the same command are never overwritten: files, folders or patterns of files.
    """
    import typer

    if is_standard(path):
        return
    for source in inputs:
        if source is not None and _is_read(path, source):
            raise UserError(f"{path} is read by this command and cannot be its output too; name another file")
    if path.is_dir():
        raise UserError(f"{path} is a directory, not a file to write")
    if not path.parent.is_dir():
        raise UserError(f"the folder {path.parent} does not exist")
    if not os.access(path.parent, os.W_OK):
        raise UserError(f"{path} cannot be written: the folder {path.parent} is read-only")
    if force or not path.is_file():
        return
    if not sys.stdin.isatty():
        raise UserError(f"{path} exists already; --force overwrites it")
    typer.confirm(f"{path} exists already. Overwrite it?", abort=True, err=True)


def _is_read(path: Path, source: Path) -> bool:
    """Whether an existing file is an input: itself, under another name, in a folder, or by a pattern."""
    if not path.is_file() or is_standard(source):
        return False
    if source.is_dir():  # the files of its folders are read too, if they are tables
        inside = path.resolve().is_relative_to(source.resolve())
        return inside and any(suffix.lower() in FORMATS for suffix in path.suffixes[-2:])
    found = [source] if source.exists() else [Path(name) for name in glob.iglob(str(source), recursive=True)]
    return any(file.is_file() and path.samefile(file) for file in found)
