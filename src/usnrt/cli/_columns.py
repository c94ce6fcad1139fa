"""Types of columns that are text: numbers, dates, booleans, or text."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from usnrt.cli._errors import UserError
from usnrt.cli._marks import all_match, allowed_marks, as_numbers, find_marks, trimmed
from usnrt.cli._reading_options import ReadOptions
from usnrt.tables.csv_format import CsvFormat
from usnrt.tables.dates import DateFormat, find_format, order_of, parse_dates
from usnrt.tables.numbers import PLAIN, Marks, grouped_pattern, parse_number
from usnrt.utils.names import shown_value

FIRST_DAY, LAST_DAY = 1900_01_01, 2099_12_31  # of dates that look like integers


@dataclass
class TypedColumns:
    """Columns with their types, and how they were read.

    Attributes
    ----------
    columns : dict of str to pyarrow.ChunkedArray
    marks : dict of str to Marks
        Of the columns that are numbers with marks other than a decimal point.
    dates : dict of str to DateFormat
        Of the columns that are dates.
    too_large : list of str
        Columns of integers beyond 64 bits, which stay text.
    categories : list of str
        Columns of numbers that the user declared categories.
    """

    columns: dict[str, pa.ChunkedArray] = field(default_factory=dict)
    marks: dict[str, Marks] = field(default_factory=dict)
    dates: dict[str, DateFormat] = field(default_factory=dict)
    too_large: list[str] = field(default_factory=list)
    categories: list[str] = field(default_factory=list)


def typed_columns(
    table: pa.Table,
    options: ReadOptions,
    where: str,
    from_csv: bool,
    delimiter: str = ",",
    known: CsvFormat | None = None,
    expected: Mapping[str, str] | None = None,
) -> TypedColumns:
    """Convert the text columns of a table.

    Parameters
    ----------
    table : pyarrow.Table
    options : ReadOptions
    where : str
        The file's name in messages.
    from_csv : bool
        Whether text may be numbers; in other files it is numbers only where the options say so.
    delimiter : str
    known : CsvFormat or None
        Of the file that the model was fitted on.
    expected : mapping of str to str, optional
        Types of the model's columns: its text stays text, and its encoder reads its dates.

    Returns
    -------
    TypedColumns
    """
    for name in options.types:
        if name not in table.column_names:
            raise UserError(f"--types must name columns of {where}, but {name!r} is not one")
    result = TypedColumns(dict(zip(table.column_names, table.itercolumns())))
    kinds = {**(expected or {}), **options.types}
    texts = {name: column for name, column in result.columns.items() if pa.types.is_string(column.type)}
    texts |= {
        name: result.columns[name].cast(pa.string())
        for name in options.types
        if kinds[name] in ("text", "date") and pa.types.is_integer(result.columns[name].type)
    }
    numeric = {
        name: column
        for name, column in texts.items()
        if kinds.get(name, "number" if from_csv else "") in ("number", "category")
    }
    left = _read_numbers(numeric, result, options, delimiter, known, kinds)
    for name, kind in options.types.items():
        if kind == "number" and name in left:
            _refuse_text(name, trimmed(numeric[name]), allowed_marks(options), where)
    others = {name: column for name, column in texts.items() if name in left or name not in numeric}
    if from_csv:
        others |= _compact_dates(result.columns, kinds)
    _read_dates(others, result, options, kinds, where)
    for name, kind in options.types.items():
        _declare(name, kind, result, where)
    return result


def _read_numbers(
    columns: Mapping[str, pa.ChunkedArray],
    result: TypedColumns,
    options: ReadOptions,
    delimiter: str,
    known: CsvFormat | None,
    kinds: Mapping[str, str],
) -> set[str]:
    """Replace the columns that are numbers or booleans; returns the names of the others."""
    left: dict[str, pa.ChunkedArray] = {}
    has_points = False
    for name, column in columns.items():
        if column.null_count == len(column):
            result.columns[name] = pa.chunked_array([pa.nulls(len(column))])
            continue
        number = _plain(column, options)
        if number is None:
            number = _plain(column := trimmed(column), options)
        if number is not None:
            result.columns[name] = number
            has_points |= pa.types.is_floating(number.type)
        elif _beyond_int64(column) and kinds.get(name) != "number":
            result.too_large.append(name)
        else:
            left[name] = column
    for name, marks in find_marks(left, options, delimiter, known, has_points).items():
        result.columns[name] = as_numbers(left.pop(name), marks)
        if marks != PLAIN:
            result.marks[name] = marks
    for name, column in list(left.items()):
        number = _cast(column, (pa.float64(), pa.bool_()) if PLAIN in allowed_marks(options) else (pa.bool_(),))
        if number is not None:
            result.columns[name] = number
            del left[name]
    return {*left, *result.too_large}


def _plain(column: pa.ChunkedArray, options: ReadOptions) -> pa.ChunkedArray | None:
    """Integers, or numbers with decimal points that cannot be thousands marks; None for other columns."""
    numbers = _cast(column, (pa.int64(),))
    if numbers is not None or PLAIN not in allowed_marks(options):
        return numbers
    numbers = _cast(column, (pa.float64(),))
    return None if numbers is None or all_match(column, grouped_pattern(".")) else numbers


def _beyond_int64(column: pa.ChunkedArray) -> bool:
    """Whether a column that is not of 64-bit integers is of integers."""
    whole = r"^[+-]?\d+$"
    return all_match(column.slice(0, 100), whole) and all_match(column, whole)


def _cast(column: pa.ChunkedArray, kinds: tuple[pa.DataType, ...]) -> pa.ChunkedArray | None:
    for kind in kinds:
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:
            continue
    return None


def _refuse_text(name: str, column: pa.ChunkedArray, allowed: list[Marks], where: str) -> None:
    """Raise an error with the first value that is not a number."""
    for row, value in enumerate(column.to_pylist(), start=1):
        if value is not None and all(parse_number(value, marks) is None for marks in allowed):
            raise UserError(
                f"column {name!r} must hold numbers (--types), got {shown_value(value)} in row {row} of {where}"
            )
    raise UserError(f"column {name!r} must hold numbers (--types), but they have different marks in {where}")


def _compact_dates(columns: Mapping[str, pa.ChunkedArray], kinds: Mapping[str, str]) -> dict[str, pa.ChunkedArray]:
    """Columns of integers that might be dates, such as 20141013, as text."""
    found = {}
    for name, column in columns.items():
        if name in kinds or not pa.types.is_int64(column.type):
            continue
        ends = pc.min_max(column).as_py()
        if ends["min"] is not None and ends["min"] >= FIRST_DAY and ends["max"] <= LAST_DAY:
            found[name] = column.cast(pa.string())
    return found


def _read_dates(
    columns: Mapping[str, pa.ChunkedArray],
    result: TypedColumns,
    options: ReadOptions,
    kinds: Mapping[str, str],
    where: str,
) -> None:
    """Replace the columns that are dates."""
    found: dict[str, DateFormat] = {}
    distinct: dict[str, list[str | None]] = {}
    for name, column in columns.items():
        kind = kinds.get(name, "date")
        is_declared = options.types.get(name) == "date"
        if kind != "date" or (name in kinds and not is_declared and not options.dates):
            continue  # the model's encoder reads the model's dates
        distinct[name] = pc.unique(column).to_pylist()
        date = find_format(distinct[name], options.dates) or (find_format(distinct[name]) if options.dates else None)
        if date is None and is_declared:
            date = find_format(distinct[name], "%Y%m%d")
        if date is not None:
            found[name] = date
        elif is_declared:
            example = next((text for text in distinct[name] if text is not None), None)
            raise UserError(
                f"column {name!r} must hold dates of one format (--types), got {shown_value(example)} in {where}"
            )
    orders = {order_of(date.format) for date in found.values() if not date.ambiguous} & {"dmy", "mdy"}
    if not orders and any(marks.decimal == "," for marks in result.marks.values()):
        orders = {"dmy"}
    for name, date in found.items():
        if date.ambiguous and len(orders) == 1:
            date = find_format(distinct[name], next(iter(orders))) or date
        result.dates[name] = date
        values = parse_dates(columns[name].to_pylist(), date.format)
        result.columns[name] = pa.chunked_array([pa.array(values, pa.timestamp("us"))])


def _declare(name: str, kind: str, result: TypedColumns, where: str) -> None:
    """Make a column what the user declared it."""
    column = result.columns[name]
    if kind == "category" and (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        result.categories.append(name)
    elif kind in ("category", "text"):
        if not pa.types.is_dictionary(column.type):
            result.columns[name] = column.cast(pa.string()).dictionary_encode()
    elif kind == "number" and not _is_number(column.type):
        raise UserError(f"column {name!r} must hold numbers (--types), got {column.type} in {where}")


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    )


def describe(
    format: CsvFormat, typed: TypedColumns, kind: str, options: ReadOptions, delimiter_name: Callable[[str], str]
) -> str:
    """What is not the plain default and was not said by the user; "" if nothing."""
    parts: dict[str, str] = {}
    if format.delimiter not in ("," if kind == "csv" else "\t", "\x1f") and options.sep is None:
        parts["--sep"] = f"separator {delimiter_name(format.delimiter)}"
    if format.decimal != "." and options.decimal is None:
        parts["--decimal"] = f"decimal mark {format.decimal!r}"
    if format.thousands and options.thousands is None:
        parts["--thousands"] = f"thousands mark {format.thousands!r}"
    if format.encoding != "utf-8" and options.encoding is None:
        parts["--encoding"] = f"encoding {format.encoding}"
    words = {"d": "day", "m": "month", "y": "year"}
    by_order: dict[str, list[str]] = {}
    for name, date in typed.dates.items():
        order = order_of(date.format)
        if order in ("dmy", "mdy") and not options.dates:
            order_words = "/".join(words[letter] for letter in order) + (", a guess" if date.ambiguous else "")
            by_order.setdefault(order_words, []).append(name)
    for order_words, names in by_order.items():
        shown = ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else "")
        parts["--dates"] = " and ".join(filter(None, [parts.get("--dates"), f"dates {shown} as {order_words}"]))
    if not parts:
        return ""
    flags, facts = list(parts), list(parts.values())
    listed = facts[0] if len(facts) == 1 else ", ".join(facts[:-1]) + f" and {facts[-1]}"
    return f"{listed} ({', '.join(flags)} overrule{'s' if len(flags) == 1 else ''} this)"
