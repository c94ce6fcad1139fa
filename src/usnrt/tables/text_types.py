"""Columns of text as columns of their types, and what is common to finding types and converting to them."""

from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from usnrt.tables.dates import DateFormat, parse_dates
from usnrt.tables.numbers import DURATION, MISSING_WORDS, PLAIN, SPACES, WITH_UNIT, NumberFormat, number_pattern

NUMERIC = r"^[+-]?(?:[\d., '_]*\d[\d., '_]*(?:[eE][+-]?\d+)?|(?i:inf|infinity|nan))$"


@dataclass(frozen=True)
class ColumnType:
    """The type of a column of text, and how its values are written.

    Attributes
    ----------
    kind : str
    has_odd : bool
        Whether some values only mean a missing one.
    unit : str
        A currency or a percent sign.
    is_lenient : bool
        Whether values that are no numbers are missing.
    """

    kind: Literal["empty", "integer", "number", "boolean", "duration", "date", "text", "category"]
    number: NumberFormat = PLAIN
    date: DateFormat | None = None
    has_odd: bool = False
    unit: str = ""
    is_lenient: bool = False


def typed(column: pa.ChunkedArray, type: ColumnType) -> pa.ChunkedArray:
    """A column of text with its type."""
    if type.kind == "text":
        return column
    if type.kind == "category":
        return column.dictionary_encode()
    if type.kind == "empty":
        return pa.chunked_array([pa.nulls(len(column))])
    if type.has_odd:
        column = trimmed(column)
        column = pc.if_else(is_odd(column), pa.scalar(None, pa.string()), column)
    if type.kind == "date":
        assert type.date is not None
        values = parse_dates(column.to_pylist(), type.date.format)
        return pa.chunked_array([pa.array(values, pa.timestamp("us"))])
    if type.kind == "duration":
        return _seconds(trimmed(column))
    if type.is_lenient:
        column = numbers_only(trimmed(column), type.number)
    kinds = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
    plain = cast_or_none(column, kinds[type.kind]) if type.number == PLAIN else None
    return as_numbers(trimmed(column), type.number, kinds[type.kind]) if plain is None else plain


def as_numbers(column: pa.ChunkedArray, format: NumberFormat, kind: pa.DataType) -> pa.ChunkedArray:
    """Numbers from text of this format, perhaps with units."""
    numbers, _ = without_units(column)
    column = column if numbers is None else numbers
    if format.thousands:
        column = pc.replace_substring(column, format.thousands, "")
    if format.decimal != ".":
        column = pc.replace_substring(column, format.decimal, ".")
    return pc.replace_substring_regex(column, r"^\+", "").cast(kind)


def without_units(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray | None, set[str]]:
    """Numbers without their currency or percent sign, still text, and these; None if some value is no number.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from usnrt.tables.text_types import without_units
    >>> numbers, units = without_units(pa.chunked_array([["$1,234", "-$5", "($7)"]]))
    >>> numbers.to_pylist(), units
    (['1,234', '-5', '-7'], {'$'})
    """
    if all_match(column, NUMERIC):
        return column, {""}
    parts = pc.extract_regex(column, WITH_UNIT)
    if parts.null_count > column.null_count:
        return None, set()
    prefix, suffix = pc.struct_field(parts, "prefix"), pc.struct_field(parts, "suffix")
    units = {unit.upper() for texts in (prefix, suffix) for unit in pc.unique(texts).to_pylist() if unit}
    has_none = pc.any(pc.equal(pc.binary_join_element_wise(prefix, suffix, ""), "")).as_py()
    return _bare_numbers(parts), units | ({""} if has_none else set())


def _bare_numbers(parts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers without units, with a minus for parentheses, from the groups of `WITH_UNIT`."""
    negative = pc.if_else(pc.equal(pc.struct_field(parts, "open"), "("), "-", "")
    rest = [pc.struct_field(parts, name) for name in ("sign", "inner", "number")]
    return pc.binary_join_element_wise(negative, *rest, "")


def numbers_only(column: pa.ChunkedArray, format: NumberFormat) -> pa.ChunkedArray:
    """The texts that are numbers of a format, without units; null for the others."""
    is_bare = pc.match_substring_regex(column, NUMERIC)
    numbers = pc.if_else(is_bare, column, _bare_numbers(pc.extract_regex(column, WITH_UNIT)))
    is_right = pc.match_substring_regex(numbers, number_pattern(format))
    return pc.if_else(is_right, numbers, pa.scalar(None, pa.string()))


def _seconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Durations such as 1:04:24 or 4:24 in seconds."""
    parts = pc.extract_regex(column, DURATION)
    total: Any = None
    for name, seconds in (("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0)):
        texts = pc.struct_field(parts, name)
        numbers = pc.multiply(pc.if_else(pc.equal(texts, ""), "0", texts).cast(pa.float64()), seconds)
        total = numbers if total is None else pc.add(total, numbers)
    return total


def is_odd(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether each text only means a missing value, if it is among numbers or dates."""
    return pc.is_in(pc.utf8_lower(column), pa.array(MISSING_WORDS))


def trimmed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text without spaces around it, with plain spaces inside."""
    column = pc.utf8_trim_whitespace(column)
    if all_match(column, r"^[[:ascii:]]*$"):
        return column
    return pc.replace_substring_regex(column, f"[{SPACES}]", " ")


def all_match(column: pa.ChunkedArray, pattern: str) -> bool:
    """Whether all values that are not missing match a regular expression."""
    if len(column) > 2000 and not all_match(column.slice(0, 1000), pattern):
        return False
    return bool(pc.all(pc.match_substring_regex(column, pattern), min_count=0).as_py())


def cast_or_none(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | None:
    """The column with another type; None if some value cannot have it."""
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        return None


def can_be(column: pa.ChunkedArray, kind: pa.DataType) -> bool:
    return cast_or_none(column, kind) is not None
