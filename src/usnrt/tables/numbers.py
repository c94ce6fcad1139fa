"""Numbers written as text: decimal and thousands marks."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Missing values as spreadsheets, statistics programs and pandas write them. "None" may be a category.
NULL_TEXTS = (
    "", "NA", "N/A", "n/a", "NaN", "nan", "NAN", "-nan", "-NaN", "null", "NULL", "Null", "<NA>", "#N/A", "#NA",
    "#N/A N/A", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN", "?",
)  # fmt: skip
SPACES = "\u00a0\u202f\u2009"  # that separate digits, besides the plain space


class Marks(NamedTuple):
    """The decimal mark and the thousands mark of numbers; "" for no thousands mark."""

    decimal: str = "."
    thousands: str = ""


PLAIN = Marks()
# The simplest first.
ALL_MARKS = (
    PLAIN,
    Marks(",", ""),
    Marks(".", ","),
    Marks(",", "."),
    Marks(".", " "),
    Marks(",", " "),
    Marks(".", "'"),
    Marks(",", "'"),
    Marks(".", "_"),
)


def number_pattern(marks: Marks) -> str:
    """Regular expression, also of RE2, of the numbers that have at least one of these marks, or none.

    Examples
    --------
    >>> import re
    >>> from usnrt.tables.numbers import Marks, number_pattern
    >>> pattern = number_pattern(Marks(",", "."))
    >>> [bool(re.search(pattern, text)) for text in ("1.234,5", "12.34,5", "0,5", "0.123", "-7")]
    [True, False, True, False, True]
    """
    digits = r"\d+"
    if marks.thousands:
        digits = rf"(?:[1-9]\d{{0,2}}(?:{re.escape(marks.thousands)}\d{{3}})+|\d+)"
    decimal = re.escape(marks.decimal)
    return rf"^[+-]?(?:{digits}(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+-]?\d+)?$"


def grouped_pattern(mark: str) -> str:
    """Regular expression of numbers of which a mark may separate either decimals or thousands: 1,234 or 12."""
    return rf"^[+-]?(?:[1-9]\d{{0,2}}{re.escape(mark)}\d{{3}}|\d+)$"


def possible_marks(present: Iterable[str], allowed: Sequence[Marks] = ALL_MARKS) -> list[Marks]:
    """Marks of numbers in which exactly these characters occur.

    Parameters
    ----------
    present : iterable of str
        Those of ``. , ' _`` and space that occur.
    allowed : sequence of Marks

    Examples
    --------
    >>> from usnrt.tables.numbers import possible_marks
    >>> possible_marks([","])
    [Marks(decimal=',', thousands=''), Marks(decimal='.', thousands=',')]
    >>> possible_marks([",", "."])
    [Marks(decimal='.', thousands=','), Marks(decimal=',', thousands='.')]
    """
    found = set(present)
    required = [({m.thousands} - {""}, {m.decimal, m.thousands}) for m in allowed]
    return [
        marks
        for marks, (least, most) in zip(allowed, required)
        if least <= found <= most and (found or marks.thousands == "")
    ]


@lru_cache(maxsize=32)
def _matcher(marks: Marks) -> re.Pattern[str]:
    return re.compile(number_pattern(marks))


def parse_number(text: str, marks: Marks = PLAIN) -> float | None:
    """A number from text; None if it is not one.

    Examples
    --------
    >>> from usnrt.tables.numbers import Marks, parse_number
    >>> parse_number(" 1.234,5", Marks(",", ".")), parse_number("large")
    (1234.5, None)
    """
    text = text.strip()
    for space in SPACES:
        text = text.replace(space, " ")
    if _matcher(marks).match(text):
        if marks.thousands:
            text = text.replace(marks.thousands, "")
        return float(text.replace(marks.decimal, "."))
    return float(text) if text.lower().lstrip("+-") in ("inf", "infinity", "nan") else None


def parse_numbers(texts: Sequence[str | None] | NDArray[Any], marks: Marks = PLAIN) -> NDArray[np.float64] | None:
    """Numbers from text, NaN for None and for texts that mean a missing value; None if one of them is no number.

    Parameters
    ----------
    texts : sequence of n str or None
    marks : Marks

    Returns
    -------
    ndarray of float64 of shape (n,) or None

    Examples
    --------
    >>> from usnrt.tables.numbers import Marks, parse_numbers
    >>> parse_numbers(["1,5", None, "?", "7"], Marks(",", "."))
    array([1.5, nan, nan, 7. ])
    """
    known: dict[str | None, float] = {None: np.nan}
    for text in texts:
        if text in known or text is None:
            continue
        number = np.nan if text in NULL_TEXTS else parse_number(text, marks)
        if number is None:
            return None
        known[text] = number
    return np.array([known[text] for text in texts], dtype=np.float64)
