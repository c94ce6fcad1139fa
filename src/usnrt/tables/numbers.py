"""Numbers written as text, with decimal and thousands marks, units and durations; and integers that are too large."""

import re
import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from usnrt.utils.notices import RoundedIntegersWarning, users_level
from usnrt.utils.types import Floats, TableLike

# Missing values as spreadsheets, statistics programs and pandas write them. "None" may be a category.
NULL_TEXTS = (
    "", "NA", "N/A", "n/a", "NaN", "nan", "NAN", "-nan", "-NaN", "null", "NULL", "Null", "<NA>", "#N/A", "#NA",
    "#N/A N/A", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN", "?",
)  # fmt: skip
# What people write where a number or a date is missing, in small letters: text among numbers, a category among texts.
MISSING_WORDS = (
    *(text.lower() for text in NULL_TEXTS if text),
    "na", "n.a.", "n. a.", "none", "nil", "unknown", "not known", "missing", "not available", "not applicable", "tbd",
    "tba", "-", "--", "---", "–", "—", ".", "..", "...", "??", "???", "*", "x.x", "k.a.", "k. a.", "keine angabe",
    "unbekannt", "inconnu", "desconocido", "sconosciuto", "#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!",
    "#wert!", "#bezug!", "#zahl!", "#nv",
)  # fmt: skip
LARGEST_EXACT = 2**53  # integers that float64 holds
SPACES = "\u00a0\u202f\u2009"  # that separate digits, besides the plain space


_CURRENCY = r"US\$|[$€£¥₹₽₩₺]|(?i:USD|EUR|GBP|CHF|JPY|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|INR|CNY|BRL|kr|zł)"
# A number with a currency before or after it or a percent sign, perhaps negative in parentheses; also of RE2.
WITH_UNIT = (
    rf"^(?P<open>\(?)(?P<sign>[+-]?) ?(?P<prefix>{_CURRENCY})? ?(?P<inner>[+-]?)"
    rf"(?P<number>[\d.,](?:[\d., '_]*[\d.,])?) ?(?P<suffix>{_CURRENCY}|%)?(?P<close>\)?)$"
)
DURATION = r"^(?:(?P<hours>\d{1,4}):)?(?P<minutes>\d{1,3}):(?P<seconds>[0-5]\d(?:\.\d{1,6})?)$"


class NumberFormat(NamedTuple):
    """The decimal mark and the thousands mark of numbers; "" for no thousands mark."""

    decimal: str = "."
    thousands: str = ""


PLAIN = NumberFormat()
# The simplest first.
NUMBER_FORMATS = (
    PLAIN,
    NumberFormat(",", ""),
    NumberFormat(".", ","),
    NumberFormat(",", "."),
    NumberFormat(".", " "),
    NumberFormat(",", " "),
    NumberFormat(".", "'"),
    NumberFormat(",", "'"),
    NumberFormat(".", "_"),
)


def number_pattern(format: NumberFormat) -> str:
    """Regular expression, also of RE2, of the numbers that have at least one of these marks, or none.

    Examples
    --------
    >>> pattern = number_pattern(NumberFormat(",", "."))
    >>> [bool(re.search(pattern, text)) for text in ("1.234,5", "12.34,5", "0,5", "0.123", "-7")]
    [True, False, True, False, True]
    """
    digits = r"\d+"
    if format.thousands:
        digits = rf"(?:[1-9]\d{{0,2}}(?:{re.escape(format.thousands)}\d{{3}})+|\d+)"
    decimal = re.escape(format.decimal)
    return rf"^[+-]?(?:(?:{digits}(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+-]?\d+)?|(?i:inf|infinity|nan))$"


def grouped_pattern(mark: str) -> str:
    """Regular expression of numbers of which a mark may separate either decimals or thousands: 1,234 or 12."""
    return rf"^[+-]?(?:[1-9]\d{{0,2}}{re.escape(mark)}\d{{3}}|\d+)$"


def possible_formats(present: Iterable[str], allowed: Sequence[NumberFormat] = NUMBER_FORMATS) -> list[NumberFormat]:
    """Formats of numbers in which exactly these of the characters ``. , ' _`` and space occur.

    Examples
    --------
    >>> possible_formats([","])
    [NumberFormat(decimal=',', thousands=''), NumberFormat(decimal='.', thousands=',')]
    >>> possible_formats([",", "."])
    [NumberFormat(decimal='.', thousands=','), NumberFormat(decimal=',', thousands='.')]
    """
    found = set(present)
    return [format for format in allowed if {format.thousands} - {""} <= found <= set(format)]


@lru_cache(maxsize=32)
def _matcher(format: NumberFormat) -> re.Pattern[str]:
    return re.compile(number_pattern(format))


def parse_number(text: str, format: NumberFormat = PLAIN) -> float | None:
    """A number from text, perhaps with a unit, or a duration in seconds; None if it is neither.

    Examples
    --------
    >>> parse_number(" 1.234,5 €", NumberFormat(",", ".")), parse_number("4:24"), parse_number("large")
    (1234.5, 264.0, None)
    """
    text = text.strip()
    for space in SPACES:
        text = text.replace(space, " ")
    if found := re.match(DURATION, text):
        return 3600 * int(found["hours"] or 0) + 60 * int(found["minutes"]) + float(found["seconds"])
    if not _matcher(format).match(text) and (found := re.match(WITH_UNIT, text)):
        text = ("-" if found["open"] else "") + found["sign"] + found["inner"] + found["number"]
    if _matcher(format).match(text):
        if format.thousands:
            text = text.replace(format.thousands, "")
        return float(text.replace(format.decimal, "."))
    return None


def is_missing_word(text: str) -> bool:
    """Whether a text means a missing value where a number or a date is expected."""
    return text.strip().lower() in MISSING_WORDS or not text


def parse_numbers(texts: Sequence[str | None] | NDArray[Any], format: NumberFormat = PLAIN) -> Floats | None:
    """Numbers from text, NaN for None and for texts that mean a missing value; None if one of them is no number."""
    known: dict[str | None, float] = {None: np.nan}
    for text in texts:
        if text in known or text is None:
            continue
        number = np.nan if is_missing_word(text) else parse_number(text, format)
        if number is None:
            return None
        known[text] = number
    return np.array([known[text] for text in texts], dtype=np.float64)


def warn_of_large_integers(X: TableLike, frame: Any = None) -> None:
    """Warn of the first column of integers beyond 2**53 that a float64 rounds; X is used if there is no narwhals frame.

    Examples
    --------
    >>> warn_of_large_integers(np.array([[2**53]]))  # exact
    """
    columns: Any = ()
    if frame is not None:
        columns = (
            (str(name), [series.min(), series.max()], series)
            for name, series in zip(frame.columns, frame.iter_columns())
            if series.dtype.is_integer() and len(series)
        )
    elif isinstance(X, np.ndarray) and X.ndim == 2 and X.size and X.dtype.kind in "iu" and X.dtype.itemsize == 8:
        columns = ((f"x{j}", [X[:, j].min(), X[:, j].max()], X[:, j]) for j in range(X.shape[1]))
    elif isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "O":
        whole = ([v for v in X[:, j] if type(v) is int] or [0] for j in range(X.shape[1]))
        columns = ((f"x{j}", [min(values), max(values)], values) for j, values in enumerate(whole))
    for name, ends, values in columns:
        if all(end is None or abs(int(end)) <= LARGEST_EXACT for end in ends):
            continue
        listed = values.drop_nulls().to_list() if hasattr(values, "drop_nulls") else values
        rounded = next((int(value) for value in listed if int(float(value)) != int(value)), None)
        if rounded is not None:
            warnings.warn(
                f"column {name!r} holds integers beyond 2**53, which are rounded: {rounded} becomes "
                f"{int(float(rounded))}; make it text if it is an identifier",
                RoundedIntegersWarning,
                stacklevel=users_level(),
            )
            return
