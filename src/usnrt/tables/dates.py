"""Dates written as text: which format a column has, and its values.

Formats are written as for ``strptime``. A format also matches dates without their time, times without seconds, with
fractions of a second and with a time zone, which is ignored: dates are wall time. Month names are those of English,
Dutch, French, German, Italian, Portuguese and Spanish, in full or abbreviated.
"""

import datetime
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.utils.names import shown_value

ORDERS = ("dmy", "mdy", "ymd")
YEARS = range(1600, 2400)  # of dates that are recognised without being told
MAX_LENGTH = 60  # of a date
MIN_COMPACT = 5  # distinct texts such as 20141013, which might be numbers, that must all be dates

_MONTH_NAMES = """
january janvier januar januari gennaio janeiro enero jan janv gen ene
february février fevrier februar februari febbraio fevereiro febrero feb févr fevr fév fev
march mars märz maerz maart marzo março marco mar mär mrz mrt
april avril aprile abril apr avr abr
may mai mei maggio maio mayo mag
june juin juni giugno junho junio jun giu
july juillet juli luglio julho julio jul juil lug
august août aout augustus agosto aug ago
september septembre settembre setembro septiembre sep sept set
october octobre oktober ottobre outubro octubre oct okt ott out
november novembre novembro noviembre nov
december décembre decembre dezember dicembre dezembro diciembre dec déc dez dic
"""
MONTHS = {
    name: number for number, line in enumerate(_MONTH_NAMES.strip().splitlines(), start=1) for name in line.split()
}

_SEPARATORS = ("-", "/", ".", " ")
# By order: of two formats that match, the first is taken unless they differ in the order of day and month.
_NUMERIC = [
    *(f"%Y{s}%m{s}%d" for s in _SEPARATORS),
    *(f"%d{s}%m{s}%Y" for s in _SEPARATORS),
    *(f"%m{s}%d{s}%Y" for s in _SEPARATORS),
]
_SHORT_YEARS = [f"%{a}{s}%{b}{s}%y" for s in _SEPARATORS[:3] for a, b in ("dm", "md")]
_SHORT_YEARS_FIRST = [f"%y{s}%m{s}%d" for s in _SEPARATORS[:3]]  # only if the order is said to be so
_WITHOUT_DAY = ["%Y-%m", "%m/%Y", "%Y/%m"]
# ISO weeks begin on Mondays, %V, perhaps with the number of the day, %u; quarters of a year are %q.
_WEEKS = ["%Y-W%V", "%YW%V", "%Y W%V", "%Y-W%V-%u", "%YW%V%u", "W%V %Y", "W%V/%Y"]
_QUARTERS = [*(f"%Y{s}Q%q" for s in ("", "-", " ", "/")), *(f"Q%q{s}%Y" for s in (" ", "-", "/", ""))]
_NAMED = [
    *(f"%d{s}%b{s}%{y}" for y in "Yy" for s in (*_SEPARATORS, "")),
    "%d. %b %Y",
    *(f"%b{s}%Y" for s in (*_SEPARATORS[:2], " ", ". ")),
    *("%b %d, %Y", "%b %d %Y", "%b-%d-%Y", "%Y-%b-%d", "%Y %b %d", "%Y %b"),
    "%b-%y",  # as spreadsheets show months
    *_WEEKS,
    *_QUARTERS,
]
_PREFIXES = ("", "%a, ", "%a ")

_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?"
_ZONE = r"(?: ?(?:Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?))?"
_TIMES = {
    "": re.compile(r"(?P<date>.*)"),
    "%Y%m%dT%H%M%S": re.compile(rf"(?P<date>\d{{8}})T\d{{4}}(?:\d{{2}})?{_ZONE}"),
    "T%H:%M:%S": re.compile(rf"(?P<date>.*\d)T{_CLOCK}{_ZONE}"),
    " %I:%M:%S %p": re.compile(rf"(?P<date>.*\d) +{_CLOCK} ?[AaPp]\.?[Mm]\.?"),
    " %H:%M:%S": re.compile(rf"(?P<date>.*\d) +{_CLOCK}{_ZONE}"),
    ", %H:%M:%S": re.compile(rf"(?P<date>.*\d), {_CLOCK}{_ZONE}"),
}
_LETTERS = r"[^\W\d_]+"
_SAME = {"%B": "%b", "%A": "%a", "%I": "%H"}  # directives that are read alike
_PATTERNS = {
    "Y": r"(?P<Y>\d{4})",
    "y": r"(?P<y>\d{2})",
    "m": r"(?P<m>\d{1,2})",
    "d": r"(?P<d>\d{1,2})",
    "b": rf"(?P<b>{_LETTERS})\.?",
    "V": r"(?P<V>\d{1,2})",
    "u": r"(?P<u>[1-7])",
    "q": r"(?P<q>[1-4])",
    "H": r"(?P<H>\d{1,2})",
    "M": r"(?P<M>\d{2})",
    "S": r"(?P<S>\d{2})(?:[.,](?P<f>\d{1,9}))?",
    "f": r"(?P<f>\d{1,9})",
    "p": r"(?P<p>[AaPp])\.?[Mm]\.?",
    "z": _ZONE,
    "a": rf"{_LETTERS}\.?",
    "%": "%",
}


@dataclass(frozen=True)
class DateFormat:
    """The format of a column of dates."""

    format: str  # as for ``strptime``
    # whether the other order of day and month matches every value too, and nothing decides between them
    ambiguous: bool = False


class DateFormatError(ValueError):
    """A text is not a date of a format; ``text`` is that text."""

    def __init__(self, text: str, format: str) -> None:
        super().__init__(f"dates must be written as {format}, got {shown_value(text)}")
        self.text = text


def find_format(texts: Iterable[str | None], order: str = "") -> DateFormat | None:
    """The one format in which all texts are dates, or None; missing values are None.

    ``order`` says how day, month and year are ordered where that is ambiguous (one of `ORDERS`), or is a format with
    ``%``. Without it the day is first if dates have dots or dashes, or fall on the first of a month only so; otherwise
    the month is first, as in pandas.

    Examples
    --------
    >>> find_format(["20141013T000000", None, "20150225T000000"]).format
    '%Y%m%dT%H%M%S'
    >>> find_format(["31/12/2015", "01/02/2016"]).format
    '%d/%m/%Y'
    >>> find_format(["01/02/2016"])
    DateFormat(format='%m/%d/%Y', ambiguous=True)
    >>> find_format(["3 März 2015", "14 Okt 2015"]).format
    '%d %b %Y'
    >>> find_format(["2015-12-31", "unknown"]) is None
    True
    """
    survey = DateSurvey(order)
    survey.add(_distinct(texts))
    return survey.format()


class DateSurvey:
    """Finds the one format in which all texts are dates, from blocks of them; see `find_format`.

    Of texts that are ``declared`` to be dates, eight digits are one, of any year.

    Examples
    --------
    >>> survey = DateSurvey()
    >>> survey.add(["01/02/2016"])
    >>> survey.add(["31/12/2016"])
    >>> survey.format()
    DateFormat(format='%d/%m/%Y', ambiguous=False)
    """

    def __init__(self, order: str = "", declared: bool = False) -> None:
        self._order = order
        self._formats: list[str] | None = None
        self._given = [order] if "%" in order else ["%Y%m%d"] if declared else []
        self._days: dict[str, set[int]] = {}
        self._compact: set[str] = set()

    @property
    def is_over(self) -> bool:
        """Whether some text is no date, whatever follows."""
        return self._formats is not None and not self._formats and not self._given

    def add(self, texts: Sequence[str]) -> None:
        """Learn from distinct texts."""
        if not texts or self.is_over:
            return
        self._given = [format for format in self._given if _fits(texts, format, range(1, 10_000))]
        if self._formats is None:
            first = max(texts, key=lambda text: (len(text), text))  # one with a time, whatever the order of rows
            has_digit = any(character.isdigit() for character in first)
            self._formats = _candidates(first) if has_digit and len(first) <= MAX_LENGTH else []
        if len(self._compact) < MIN_COMPACT and "%Y%m%d" in self._formats:
            self._compact.update(texts[:MIN_COMPACT])
        self._formats = [format for format in self._formats if _fits(texts, format, YEARS, self._days)]

    def format(self, order: str = "") -> DateFormat | None:
        """The format; ``order`` decides where the texts and what was given leave it open."""
        if self._given and "%" in self._order:
            return DateFormat(self._order)
        found = list(self._formats or ())
        if len(self._compact) < MIN_COMPACT and "%Y%m%d" in found:
            found = [format for format in found if not format.startswith("%Y%m%d")]
        order = order if "%" in self._order else self._order or order
        short = _SHORT_YEARS if order == "ymd" else _SHORT_YEARS_FIRST
        found = [format for format in found if not format.startswith(tuple(short))]
        if not found:
            return DateFormat(self._given[0]) if self._given else None
        return _resolved(found, self._days, order)


def parse_dates(texts: Sequence[str | None] | NDArray[Any], format: str) -> NDArray[np.datetime64]:
    """Dates of one format, datetime64[us], NaT where None; a `DateFormatError` if a text is none."""
    read = compile_format(format)
    position: dict[str | None, int] = {None: 0}
    dates: list[datetime.datetime | None] = [None]
    for text in _distinct(texts):
        date = read(text)
        if date is None:
            raise DateFormatError(text, format)
        position[text] = len(dates)
        dates.append(date)
    positions = np.fromiter((position[text] for text in texts), dtype=np.intp, count=len(texts))
    return np.array(dates, dtype="datetime64[us]")[positions]


def order_of(format: str) -> str:
    """The order of day, month and year in a format, such as "dmy"; "" if it has no day or no month number.

    Examples
    --------
    >>> order_of("%d.%m.%Y %H:%M"), order_of("%b %Y")
    ('dmy', '')
    """
    letters = "".join(re.findall("%([dmYy])", format)).lower()
    return letters if letters in ORDERS else ""


@lru_cache(maxsize=1024)
def compile_format(format: str) -> Callable[[str], datetime.datetime | None]:
    """A function that reads one text; it returns None for a text that is no date of the format."""
    match = re.compile(_expression(format)).fullmatch

    def read(text: str) -> datetime.datetime | None:
        found = match(text.strip())
        return None if found is None else _date_of(found.groupdict())

    return read


def _expression(format: str) -> str:
    """The regular expression of a format."""
    if not re.search("%[Yy]", format):
        raise ValueError(f"a date format must have a year (%Y or %y), got {format!r}")
    directives = [_SAME.get(one, one) for one in re.findall("%.", format) if one != "%%"]
    if len(set(directives)) < len(directives):  # of several names of weekdays, matching would take exponential time
        raise ValueError(f"a date format must have each directive once, got {format!r}")
    date, time = re.fullmatch(r"(.*?)([T, ]*%[HI].*)?", format).groups()  # type: ignore[union-attr]
    if not time:
        return _translated(date)
    if re.search("%[YydmbBj]", time):  # a date after the time
        return _translated(format)
    clock = _translated(time)
    for seconds in (":" + _PATTERNS["S"], _PATTERNS["S"]):
        if seconds in clock:
            clock = clock.replace(seconds, f"(?:{seconds})?")
            break
    return f"{_translated(date)}(?:{clock}{_ZONE})?"


def _translated(format: str) -> str:
    """The regular expression of a format of which every part is needed."""
    result = ""
    pieces = re.findall(r"%.?|[^%]+", format)
    for index, piece in enumerate(pieces):
        if piece[0] != "%":
            result += re.sub(r"(\\ )+", " +", re.escape(piece))
            continue
        letter = _SAME.get(piece, piece)[1:]
        if letter not in _PATTERNS:
            raise ValueError(f"a date format has directives such as %d, %m, %b, %Y, %H, got {piece!r} in {format!r}")
        neighbours = [*pieces[index + 1 : index + 2], *pieces[max(index - 1, 0) : index]]
        is_compact = letter == "V" or any(n[0] == "%" and n[1:] not in "bB" for n in neighbours)
        result += _PATTERNS[letter].replace(r"\d{1,2})", r"\d{2})") if is_compact else _PATTERNS[letter]
    return result


def _date_of(parts: dict[str, str | None]) -> datetime.datetime | None:
    """The date of the parts of a match; None if there is no such day or time."""
    year = int(parts.get("Y") or 0) or _full_year(int(parts.get("y") or 0))
    name, hour, fraction = parts.get("b"), int(parts.get("H") or 0), parts.get("f") or ""
    month = MONTHS.get(name.lower(), 0) if name else int(parts.get("m") or 3 * int(parts.get("q") or 1) - 2)
    half = (parts.get("p") or "").lower()
    if half:
        hour = -1 if not 1 <= hour <= 12 else hour % 12 + (12 if half == "p" else 0)
    day = int(parts.get("d") or 1)
    try:
        if parts.get("V"):
            monday = datetime.date.fromisocalendar(year, int(parts["V"] or 0), int(parts.get("u") or 1))
            year, month, day = monday.year, monday.month, monday.day
        return datetime.datetime(
            year, month, day, hour, int(parts.get("M") or 0), int(parts.get("S") or 0), int(fraction[:6].ljust(6, "0"))
        )
    except ValueError:
        return None


def _full_year(year: int) -> int:
    return year + (2000 if year < 69 else 1900)  # as POSIX has it


def _distinct(texts: Iterable[str | None]) -> list[str]:
    return [text for text in dict.fromkeys(texts) if text is not None]


def _candidates(text: str) -> list[str]:
    """Formats that match one text; if it has no time, also those with the times that others may have."""
    text = text.strip()
    formats = []
    for time, pattern in _TIMES.items():
        found = pattern.fullmatch(text)
        if found:
            formats += [time] if time.startswith("%") else [date + time for date in _date_formats(found["date"])]
    formats = [format for format in formats if compile_format(format)(text) is not None]
    times = [time for time in _TIMES if time and not time.startswith("%")]
    return formats + [f"{date}{time}" for time in times for date in formats if "%H" not in date and "%I" not in date]


def _date_formats(date: str) -> list[str]:
    """Formats of dates without time that a text might have, by the characters in it."""
    if any(character.isalpha() for character in date):
        return [prefix + format for prefix in _PREFIXES for format in (*_NAMED, *(_NUMERIC if prefix else ()))]
    if date.isdigit():
        return ["%Y%m%d"] if len(date) == 8 else []
    return [*_NUMERIC, *_SHORT_YEARS, *_SHORT_YEARS_FIRST, *_WITHOUT_DAY]


def _fits(texts: Iterable[str], format: str, years: range, days: dict[str, set[int]] | None = None) -> bool:
    """Whether all texts are dates of a format, of years that are likely; notes the days of the month."""
    read = compile_format(format)
    found = set()
    for text in texts:
        date = read(text)
        if date is None or date.year not in years:
            return False
        found.add(date.day)
    if days is not None:
        days.setdefault(format, set()).update(found)
    return True


def _resolved(found: list[str], days: dict[str, set[int]], order: str) -> DateFormat | None:
    """One of the formats that match all texts."""
    by_order = {order_of(format): format for format in reversed(found)}
    if order in by_order:
        return DateFormat(by_order[order])
    if not {"dmy", "mdy"} <= set(by_order):
        return DateFormat(found[0])
    if "%y" in found[0]:  # 10.11.12 may be anything
        return None
    of = {key: days[by_order[key]] for key in ("dmy", "mdy")}
    firsts = [key for key, other in (("dmy", "mdy"), ("mdy", "dmy")) if of[key] == {1} and len(of[other]) > 1]
    if firsts:
        return DateFormat(by_order[firsts[0]])
    month_first = "/" in by_order["mdy"]
    return DateFormat(by_order["mdy" if month_first else "dmy"], ambiguous="." not in by_order["dmy"])
