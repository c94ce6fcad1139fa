"""How a file was read, in words: what is not the plain default, and which option overrules it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from usnrt.tables.csv_format import ONE_COLUMN, CsvFormat, delimiter_name
from usnrt.tables.dates import order_of
from usnrt.tables.read_options import ReadOptions

if TYPE_CHECKING:
    from usnrt.tables.text_types import ColumnType


def describe(
    format: CsvFormat, types: "Mapping[str, ColumnType]", options: ReadOptions, plain: str = ",", n_skipped: int = 0
) -> str:
    """What is not the plain default and was not said by the user; "" if nothing."""
    parts: dict[str, str] = {}
    if format.delimiter not in (plain, ONE_COLUMN) and options.sep is None:
        parts["--sep"] = f"separator {delimiter_name(format.delimiter)}"
    if format.decimal != "." and options.decimal is None:
        parts["--decimal"] = f"decimal mark {format.decimal!r}"
    if format.thousands and options.thousands is None:
        parts["--thousands"] = f"thousands mark {format.thousands!r}"
    if format.encoding != "utf-8" and options.encoding is None:
        parts["--encoding"] = f"encoding {format.encoding}"
    if dates := _described_dates(types) if not options.dates else "":
        parts["--dates"] = dates
    units = [f"{name!r} in {type.unit}" for name, type in types.items() if type.unit]
    units += [f"{name!r} as durations, in seconds" for name, type in types.items() if type.kind == "duration"]
    if units:
        parts["--types"] = listed(units)
    sentence = f"with {listed(list(parts.values()), most=len(parts))}" if parts else ""
    if n_skipped and options.skip is None:
        lines = "line" if n_skipped == 1 else f"{n_skipped} lines"
        sentence = f"without its first {lines}" + (f", {sentence}" if sentence else "")
        parts = {"--skip": "", **parts}
    return f"{sentence} ({', '.join(parts)} overrule{'s' if len(parts) == 1 else ''} this)" if parts else ""


def _described_dates(types: "Mapping[str, ColumnType]") -> str:
    """The order of day and month of dates, and whether it is a guess."""
    words = {"d": "day", "m": "month", "y": "year"}
    by_order: dict[str, list[str]] = {}
    for name, type in types.items():
        order = "" if type.date is None else order_of(type.date.format)
        if type.date is not None and order in ("dmy", "mdy"):
            guess = ", a guess" if type.date.ambiguous else ""
            by_order.setdefault("/".join(words[d] for d in order) + guess, []).append(repr(name))
    lists = {order: ", ".join(names[:3]) + (", ..." if len(names) > 3 else "") for order, names in by_order.items()}
    return " and ".join(f"dates {names} as {order}" for order, names in lists.items())


def listed(items: list[str], most: int = 5) -> str:
    """Items in words, separated by commas and an "and"."""
    if len(items) > most:
        items = [*items[:most], f"{len(items) - most:,} more"]
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
