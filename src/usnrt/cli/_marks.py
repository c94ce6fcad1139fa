"""Decimal and thousands marks of the text columns of a file, decided by all columns together."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from usnrt.cli._reading_options import ReadOptions
from usnrt.tables.csv_format import CsvFormat
from usnrt.tables.numbers import ALL_MARKS, PLAIN, SPACES, Marks, grouped_pattern, number_pattern, possible_marks

_CHARACTERS = (".", ",", " ", "'", "_")


def trimmed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text without spaces around it, with plain spaces inside."""
    column = pc.utf8_trim_whitespace(column)
    if all_match(column.slice(0, 1000), r"^[[:ascii:]]*$") and all_match(column, r"^[[:ascii:]]*$"):
        return column
    return pc.replace_substring_regex(column, f"[{SPACES}]", " ")


def allowed_marks(options: ReadOptions) -> list[Marks]:
    """The marks that the options leave."""
    allowed = [marks for marks in ALL_MARKS if options.decimal in (None, marks.decimal)]
    if options.thousands is None:
        return allowed
    return [marks for marks in allowed if marks.thousands in ("", options.thousands)]


def find_marks(
    columns: Mapping[str, pa.ChunkedArray],
    options: ReadOptions,
    delimiter: str,
    known: CsvFormat | None,
    has_points: bool = False,
) -> dict[str, Marks]:
    """The marks of those columns of text that are all numbers.

    A number such as 1,234 does not tell whether its mark separates thousands. Then other columns decide; then, whether
    values below 1,000 lack the mark; then the file that the model was fitted on; then the separator: semicolons are
    for files with decimal commas.

    Parameters
    ----------
    columns : mapping of str to pyarrow.ChunkedArray
        As from `trimmed`; null is a missing value.
    options : ReadOptions
    delimiter : str
    known : CsvFormat or None
        Of the file that the model was fitted on.
    has_points : bool
        Whether other columns have decimal points.

    Returns
    -------
    dict of str to Marks
    """
    allowed = allowed_marks(options)
    possible = {name: found for name, column in columns.items() if (found := _possible(column, allowed))}
    certain = {name: found[0] for name, found in possible.items() if len(found) == 1}
    decimals = {marks.decimal for name, marks in certain.items() if _has_decimals(columns[name], marks)}
    decimals |= {"."} if has_points else set()
    decisions = dict(certain)
    for name, found in possible.items():
        if name not in certain:
            prior = known if known is not None and known.delimiter == delimiter else None
            decisions[name] = _decide(columns[name], found, decimals, prior, delimiter, options.thousands)
    return {name: decisions[name] for name in possible}


def _possible(column: pa.ChunkedArray, allowed: Sequence[Marks]) -> list[Marks]:
    """Marks with which every value is a number."""
    if not _looks_numeric(column):
        return []
    present = [character for character in _CHARACTERS if pc.any(pc.match_substring(column, character)).as_py()]
    return [marks for marks in possible_marks(present, allowed) if all_match(column, number_pattern(marks))]


def _looks_numeric(column: pa.ChunkedArray) -> bool:
    """Whether the first values consist of digits and marks; most text is excluded by this alone."""
    start = column.slice(0, 200).drop_null()
    if len(start) == 0:
        start = column.drop_null().slice(0, 1)
    return len(start) > 0 and all_match(start, r"^[+-]?[\d., '_]*\d[\d., '_]*(?:[eE][+-]?\d+)?$")


def all_match(column: pa.ChunkedArray, pattern: str) -> bool:
    """Whether all values that are not missing match a regular expression."""
    if len(column) > 2000 and not all_match(column.slice(0, 1000), pattern):
        return False
    return bool(pc.all(pc.match_substring_regex(column, pattern), min_count=0).as_py())


def _has_decimals(column: pa.ChunkedArray, marks: Marks) -> bool:
    return bool(pc.any(pc.match_substring(column, marks.decimal)).as_py())


def _decide(
    column: pa.ChunkedArray,
    found: list[Marks],
    decimals: set[str],
    prior: CsvFormat | None,
    delimiter: str,
    thousands: str | None,
) -> Marks:
    """One of several marks that a column may have."""
    if thousands:
        return next((marks for marks in found if marks.thousands == thousands), found[0])
    if len(decimals) == 1:
        return next((marks for marks in found if marks.decimal in decimals), found[0])
    with_comma = [marks for marks in found if "," in marks]
    if PLAIN in found:  # 12.345
        of_prior = [marks for marks in found if prior is not None and marks.decimal == prior.decimal]
        return of_prior[0] if of_prior else PLAIN
    if with_comma == found and all_match(column, grouped_pattern(",")):  # 1,234
        without = column.filter(pc.invert(pc.match_substring(column, ","))).drop_null()
        if len(without):
            is_small = all_match(without, r"^[+-]?\d{1,3}$")
            return next(marks for marks in found if (marks.thousands == ",") == is_small)
    if prior is not None:
        return next((marks for marks in found if marks.decimal == prior.decimal), found[0])
    decimal = "," if delimiter == ";" else "."
    return next((marks for marks in found if marks.decimal == decimal), found[0])


def as_numbers(column: pa.ChunkedArray, marks: Marks) -> pa.ChunkedArray:
    """Numbers from text with these marks; raises `pyarrow.ArrowInvalid`."""
    if marks.thousands:
        column = pc.replace_substring(column, marks.thousands, "")
    if marks.decimal != ".":
        column = pc.replace_substring(column, marks.decimal, ".")
    column = pc.replace_substring_regex(column, r"^\+", "")
    for kind in (pa.int64(), pa.float64()):
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:
            continue
    return column.cast(pa.float64())
