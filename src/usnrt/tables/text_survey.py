"""What a column of text holds, decided by all of its values: integers, numbers with marks, truth values, dates or text.

Blocks of a column are added one after the other, and the result depends neither on the blocks nor on their order.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from usnrt.tables.csv_format import CsvFormat
from usnrt.tables.dates import DateFormat, DateSurvey, order_of, parse_dates
from usnrt.tables.numbers import (
    DURATION,
    MISSING_WORDS,
    PLAIN,
    SPACES,
    WITH_UNIT,
    NumberFormat,
    grouped_pattern,
    number_pattern,
    possible_formats,
)

_MARKS = (".", ",", " ", "'", "_")
_FIRST_DAY, _LAST_DAY = 1900_01_01, 2099_12_31  # of dates that look like integers
NUMERIC = r"^[+-]?(?:[\d., '_]*\d[\d., '_]*(?:[eE][+-]?\d+)?|(?i:inf|infinity|nan))$"


class TextSurvey:
    """What the values of a column of text have in common.

    It may hold numbers of some formats, and dates if it has a `DateSurvey`.

    Examples
    --------
    >>> from usnrt.tables.numbers import NUMBER_FORMATS
    >>> survey = TextSurvey(NUMBER_FORMATS, None)
    >>> survey.add(pa.chunked_array([["1", None]]))
    >>> survey.add(pa.chunked_array([["1.234,5"]]))
    >>> survey.possible_formats()
    [NumberFormat(decimal=',', thousands='.')]
    """

    def __init__(self, formats: Sequence[NumberFormat], dates: DateSurvey | None) -> None:
        self.n_values = 0  # that are not missing
        # those among them that only mean a missing value, such as "unknown", if the others are numbers or dates
        self.n_odd, self.odd = 0, set[str]()
        self.formats, self.dates = list(formats), dates  # of numbers: those in which all values are numbers
        # whether all values are integers of 64 bits, truth values, integers of any size, or durations such as 4:24
        self.is_integer = self.is_boolean = self.is_large = self.is_duration = bool(formats)
        self.units: set[str] = set()  # currencies and percent signs; "" for numbers without
        self.odd_one = ""  # a text because of which a block of numbers is none, if few are; only a hint
        self.marks: set[str] = set()
        # of values such as 1,234, whose mark may separate decimals or thousands:
        self.is_grouped, self.has_ungrouped, self.is_small = True, False, True

    @property
    def is_over(self) -> bool:
        """Whether the column is text, whatever follows."""
        is_number = self.is_integer or self.is_boolean or self.is_large or self.is_duration or bool(self.formats)
        return self.n_values > 0 and not is_number and (self.dates is None or self.dates.is_over)

    def add(self, column: pa.ChunkedArray) -> None:
        """Learn from a block; null is a missing value."""
        column = column.drop_null()
        if len(column) == 0 or self.is_over:
            self.n_values += len(column)
            return
        self.n_values += len(column)
        integers = cast_or_none(column, pa.int64()) if self.is_large else None
        if integers is None and self.formats == [PLAIN] and can_be(column, pa.float64()):  # the usual case, quickly
            self.is_integer = self.is_boolean = self.is_large = self.is_duration = False
            self.units.add("")
            self.dates = None
            return
        if integers is None:
            column = self._without_odd(trimmed(column))
            integers = cast_or_none(column, pa.int64()) if self.is_large else None
        if len(column) == 0:
            return
        if integers is None:
            self._add_numbers(column)
        else:
            self._add_integers(integers, column)
        if self.dates is not None and not self.dates.is_over:
            self.dates.add(pc.unique(column).to_pylist())

    @property
    def is_mostly_odd(self) -> bool:
        """Whether too many values mean a missing one for the others to be numbers or dates."""
        return 2 * self.n_odd > self.n_values

    def _without_odd(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """The values that do not only mean a missing one."""
        odd = is_odd(column)
        if not pc.any(odd).as_py():
            return column
        texts = column.filter(odd)
        self.n_odd += len(texts)
        self.odd.update(pc.unique(texts).to_pylist())
        self.is_boolean = False
        return column.filter(pc.invert(odd))

    def _add_integers(self, integers: pa.ChunkedArray, column: pa.ChunkedArray) -> None:
        ends = pc.min_max(integers).as_py()
        self.is_boolean = self.is_boolean and 0 <= ends["min"] <= ends["max"] <= 1 and can_be(column, pa.bool_())
        self.is_duration = False
        self.units.add("")
        self.has_ungrouped = True
        self.is_small &= -1000 < ends["min"] <= ends["max"] < 1000
        if not _FIRST_DAY <= ends["min"] <= ends["max"] <= _LAST_DAY:
            self.dates = None

    def _add_numbers(self, column: pa.ChunkedArray) -> None:
        """Learn from a block whose values are not all integers of 64 bits."""
        self.is_integer = False
        self.is_boolean = self.is_boolean and can_be(column, pa.bool_())
        self.is_large = self.is_large and all_match(column, r"^[+-]?\d+$")
        self.is_duration = self.is_duration and all_match(column, DURATION)
        numbers, units = without_units(column) if self.formats else (None, set())
        self.units |= units
        if numbers is None or len(self.units - {""}) > 1 or {"", "%"} <= self.units:
            self._note_odd_one(column)
            self.formats = []
            return
        found = {mark for mark in _MARKS if pc.any(pc.match_substring(numbers, mark)).as_py()}
        self.marks |= found
        matches: dict[str, bool] = {}
        for format in list(self.formats):
            pattern = _pattern_with(format, found)
            if pattern and pattern not in matches:
                matches[pattern] = all_match(numbers, pattern)
            if not pattern or not matches[pattern]:
                self.formats.remove(format)
        if set(self.formats) >= {NumberFormat(","), NumberFormat(".", ",")}:
            self._add_grouped(numbers)

    def _note_odd_one(self, column: pa.ChunkedArray) -> None:
        texts = column.filter(pc.invert(pc.match_substring_regex(column, NUMERIC)))
        if self.formats and 0 < 10 * len(texts) <= self.n_values:
            self.odd_one = texts[0].as_py()

    def _add_grouped(self, column: pa.ChunkedArray) -> None:
        self.is_grouped = self.is_grouped and all_match(column, grouped_pattern(","))
        without = column.filter(pc.invert(pc.match_substring(column, ",")))
        if len(without):
            self.has_ungrouped = True
            self.is_small = self.is_small and all_match(without, r"^[+-]?\d{1,3}$")

    def is_grouped_by(self, formats: Sequence[NumberFormat]) -> bool:
        """Whether the marks of the numbers may separate thousands."""
        return any(format.thousands in self.marks for format in formats)

    def possible_formats(self) -> list[NumberFormat]:
        """The formats of the numbers, if all values are; several if nothing in the column decides."""
        return possible_formats(self.marks, self.formats) if not self.is_mostly_odd else []


def _pattern_with(format: NumberFormat, marks: set[str]) -> str:
    """The pattern of numbers of a format that have these marks only; "" if the format has not all of them."""
    if not marks <= set(format):
        return ""
    thousands = format.thousands if format.thousands in marks else ""
    decimal = format.decimal if format.decimal in marks else "," if thousands == "." else "."
    return number_pattern(NumberFormat(decimal, thousands))


def choose_formats(
    surveys: Mapping[str, TextSurvey], delimiter: str, thousands: str | None, prior: CsvFormat | None
) -> dict[str, NumberFormat]:
    """The formats of those columns that are numbers, decided by all columns together.

    A number such as 1,234 does not tell whether its mark separates thousands. Then the mark that the user has named
    decides; then other columns; then, whether values below 1,000 lack the mark; then the file that the model was fitted
    on (``prior``); then the separator: semicolons are for files with decimal commas.
    """
    possible = {name: survey.possible_formats() for name, survey in surveys.items()}
    certain = {name: found[0] for name, found in possible.items() if len(found) == 1}
    decimals = {format.decimal for name, format in certain.items() if format.decimal in surveys[name].marks}
    prior = prior if prior is not None and prior.delimiter == delimiter else None
    decisions = {}
    for name, found in possible.items():
        if found:
            is_certain = name in certain
            decisions[name] = found[0] if is_certain else _choose(
                surveys[name], found, decimals, prior, delimiter, thousands
            )  # fmt: skip
    return decisions


def _choose(
    survey: TextSurvey,
    found: list[NumberFormat],
    decimals: set[str],
    prior: CsvFormat | None,
    delimiter: str,
    thousands: str | None,
) -> NumberFormat:
    """One of several formats that a column may have."""

    def with_decimal(mark: str) -> NumberFormat:
        return next((format for format in found if format.decimal == mark), found[0])

    if thousands:
        return next((format for format in found if format.thousands == thousands), found[0])
    if survey.units - {"", "%"} and survey.is_grouped_by(found):  # 215.000 EUR: no currency has three decimals
        return next(format for format in found if format.thousands in survey.marks)
    if len(decimals) == 1:
        return with_decimal(next(iter(decimals)))
    if PLAIN in found:  # 12.345
        return PLAIN if prior is None else with_decimal(prior.decimal)
    if survey.is_grouped and survey.has_ungrouped and all("," in format for format in found):  # 1,234 and 950
        return next(format for format in found if (format.thousands == ",") == survey.is_small)
    return with_decimal(prior.decimal if prior is not None else "," if delimiter == ";" else ".")


def choose_dates(surveys: Mapping[str, TextSurvey], has_decimal_comma: bool) -> dict[str, DateFormat]:
    """The formats of those columns that are dates; what is open in one is decided by the others and decimal commas."""
    open_ = {n: survey.dates for n, survey in surveys.items() if survey.dates is not None and not survey.is_mostly_odd}
    found = {name: date for name, dates in open_.items() if (date := dates.format()) is not None}
    orders = {order_of(date.format) for date in found.values() if not date.ambiguous} & {"dmy", "mdy"}
    if not orders and has_decimal_comma:
        orders = {"dmy"}
    for name, date in found.items():
        if date.ambiguous and len(orders) == 1:
            found[name] = open_[name].format(next(iter(orders))) or date
    return found


def likeliest_format(
    columns: Iterable[pa.ChunkedArray | None], formats: Sequence[NumberFormat], prior: CsvFormat | None
) -> NumberFormat | None:
    """The format that most texts have, of equal ones that of the model's file; None if no text is a number."""
    known = [] if prior is None else [NumberFormat(prior.decimal, prior.thousands)]
    counts = dict.fromkeys([*(format for format in known if format in formats), *formats], 0)
    for column in columns:
        if column is not None:
            texts = trimmed(column)
            for format in counts:
                counts[format] += len(texts) - numbers_only(texts, format).null_count
    best = max(counts, key=lambda format: counts[format])
    return best if counts[best] else None


# -- columns of text as columns of their types ----------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnType:
    """The type of a column of text, and how its values are written."""

    kind: Literal["empty", "integer", "number", "boolean", "duration", "date", "text", "category"]
    number: NumberFormat = PLAIN
    date: DateFormat | None = None
    has_odd: bool = False  # whether some values only mean a missing one
    unit: str = ""  # a currency or a percent sign
    is_lenient: bool = False  # whether values that are no numbers are missing


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
