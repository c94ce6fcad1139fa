"""How a table is to be encoded: types, categories and calendar parts, learnt from all rows, at once or in blocks.

Everything kept is independent of the order of the rows and of the blocks. Counts of categories are exact up to a
number of different labels that no useful category reaches; of a table that is read in blocks, only the most frequent
labels become categories.
"""

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from usnrt.tables.columns import Column, understood
from usnrt.tables.reading import FeatureColumn, FeatureTable, as_table, column_position, read_column
from usnrt.utils.notices import IgnoredColumnWarning, users_level
from usnrt.utils.types import Floats

if TYPE_CHECKING:
    import pyarrow as pa

# Seconds in one round of each calendar part; a part is a feature if the table spans two of them.
ROUND = {"month": 366 * 86400.0, "day": 31 * 86400.0, "weekday": 7 * 86400.0, "hour": 86400.0, "minute": 3600.0}
CALENDAR_PARTS = ("year", "month", "day", "weekday", "hour", "minute")
MAX_CATEGORIES = 10_000  # per column, the rest included
MAX_LABELS = 2**20  # different labels that are counted
REST = "(other)"
_WORDS = {"number": "numbers", "text": "text", "date": "dates"}


class TableSurvey:
    """Learns an encoding from tables; ``categorical_features`` as of `usnrt.tables.TableEncoder.fit`.

    If it ``is_limited``, rare labels are put together, and columns of too many labels are ignored.

    Examples
    --------
    >>> import pyarrow as pa
    >>> survey = TableSurvey(["a", "b"])
    >>> survey.add(pa.table({"a": [1, 2], "b": ["x", None]}), "first.parquet")
    >>> survey.add(pa.table({"a": [0.5], "b": ["w"]}), "second.parquet")
    >>> [(column.name, column.categories) for column in survey.columns()]
    [('a', ()), ('b', ('w', 'x'))]
    """

    def __init__(self, names: Sequence[str], categorical_features: Any = None, is_limited: bool = True) -> None:
        named = categorical_positions(categorical_features, names)
        self.names = list(names)
        self._columns = [_ColumnSurvey(name, index, index in named, is_limited) for index, name in enumerate(names)]

    def add(self, table: "FeatureTable | NDArray[Any] | pa.Table", place: str) -> None:
        """Learn from rows, whose place is named in errors."""
        if isinstance(table, FeatureTable | np.ndarray):
            table = as_table(table)
            for survey in self._columns:
                survey.add(table.column(survey.index), place)
            return
        for survey in self._columns:
            try:
                column = _column_of(table, survey.name)
                survey.category |= _is_category(table, survey.name)
            except (TypeError, ValueError) as error:  # for example infinity, or lists
                raise type(error)(f"{error} in {place}") from None
            survey.add(column, place)

    def merge(self, other: "TableSurvey") -> None:
        """Learn what another survey of rows of the same table has learnt."""
        for own, others in zip(self._columns, other._columns, strict=True):
            own.merge(others)

    def understand(self) -> None:
        """Decide which text is dates and which is ignored, once all rows are known; what follows does it first."""
        for survey in self._columns:
            survey.understand()

    def columns(self, time_position: int | None = None) -> list[Column]:
        """The encoded columns; of a time column the calendar parts that recur, as all other future values are new."""
        self.understand()
        encoded: list[Column] = []
        for survey in self._columns:
            encoded += survey.recurring_parts() if survey.index == time_position else survey.columns()
        return encoded

    def types(self) -> list[str]:
        """Types of the input columns: "number", "text", "date" or "empty"; text is text until it is understood."""
        return [survey.type for survey in self._columns]

    def date_formats(self) -> dict[str, str]:
        """Formats of the dates that were text, by input column."""
        return {survey.name: survey.format for survey in self._columns if survey.format}

    def narrow(self) -> NDArray[np.bool_]:
        """Which encoded columns hold float32 numbers only."""
        self.understand()
        return np.array([survey.narrow for survey in self._columns for _ in survey.columns()], dtype=bool)


def _column_of(table: "pa.Table", name: str) -> "FeatureColumn | Counter[Any]":
    """A column; the number of each label of a text column, None for missing values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = table[name]
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return read_column(table, name)
    counts = pc.value_counts(column.cast(kind))
    return Counter(dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist())))


def _is_category(table: "pa.Table", name: str) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_dictionary(table.schema.field(name).type))


class _ColumnSurvey:
    """What is known of one input column."""

    def __init__(self, name: str, index: int, named: bool, is_limited: bool) -> None:
        self.name, self.index, self.named = name, index, named
        self.type = "empty"
        self.format = ""
        self.category = False
        self.narrow = True
        self._is_limited = is_limited
        self._place = ""
        self._missing = False
        self._is_ignored = False
        self._boolean = True
        self._order: tuple[str, ...] | None = None  # of ordered categories
        self._counts: Counter[Any] = Counter()
        self._ranges: dict[str, tuple[float, float]] = {}  # of calendar parts, and of seconds

    def add(self, column: FeatureColumn | Mapping[Any, int], place: str) -> None:
        """Learn from the values of a block."""
        if not isinstance(column, FeatureColumn):
            self._add_labels(column, place)
        elif column.type == "text":
            self.category |= column.category
            self._order = column.labels
            self._add_labels(Counter(column.values.tolist()), place)
        else:
            self._add_values(column, place)
        self._check_counts()

    def merge(self, other: "_ColumnSurvey") -> None:
        """Add what another survey knows of the column."""
        if other.type != "empty":
            self._set_type(other.type, other._place)
        self.category |= other.category
        self.narrow &= other.narrow
        self._missing |= other._missing
        self._boolean &= other._boolean
        self._is_ignored |= other._is_ignored
        self._counts.update(other._counts)
        for part, (low, high) in other._ranges.items():
            self._extend(part, low, high)
        self._check_counts()

    def _check_counts(self) -> None:
        """Too many labels are an error if the column was declared categorical; else it is ignored."""
        if not self._is_limited or len(self._counts) <= MAX_LABELS:
            return
        if self.named or self.category:
            raise ValueError(
                f"column {self.name!r} has more than {MAX_LABELS:,} different values, too many for categories"
            )
        self._is_ignored = True
        self._counts = Counter()

    def _add_labels(self, counts: Mapping[Any, int], place: str) -> None:
        present = {label: count for label, count in counts.items() if label is not None}
        self._missing |= None in counts
        if present:
            self._set_type("text", place)
            if not self._is_ignored:
                self._counts.update(present)

    def _add_values(self, column: FeatureColumn, place: str) -> None:
        values = column.values
        missing = np.isnat(values) if column.type == "date" else np.isnan(values)
        self._missing |= bool(missing.any())
        if column.type == "empty":
            return
        self._set_type(column.type, place)
        present = values[~missing] if missing.any() else values
        if column.type == "date":
            self._add_dates(present)
            return
        self._boolean &= column.boolean
        if self.named:
            codes, counts = np.unique(present + 0.0, return_counts=True)
            self._counts.update(dict(zip(codes.tolist(), counts.tolist())))
        elif self._is_limited and self.narrow and not column.boolean:
            with np.errstate(over="ignore"):
                self.narrow = bool((present.astype(np.float32) == present).all())

    def _set_type(self, kind: str, place: str) -> None:
        if self.type == "empty":
            self.type, self._place = kind, place
            if self.named and kind == "date":
                raise ValueError(f"categorical_features must name numbers or text, but {self.name!r} holds dates")
        elif kind != self.type:
            raise ValueError(
                f"column {self.name!r} must hold {_WORDS[self.type]} as in {self._place}, "
                f"but it holds {_WORDS[kind]} in {place}"
            )

    def _add_dates(self, dates: NDArray[Any]) -> None:
        """Extend the ranges of the calendar parts that have not varied so far, and that of the dates."""
        for part in CALENDAR_PARTS:
            low, high = self._ranges.get(part, (np.inf, -np.inf))
            if not low < high:
                numbers = calendar_part(dates, part)
                self._extend(part, float(numbers.min()), float(numbers.max()))
        seconds = dates.astype("datetime64[us]").astype(np.int64)[[dates.argmin(), dates.argmax()]] / 1e6
        self._extend("seconds", *seconds.tolist())

    def _extend(self, part: str, low: float, high: float) -> None:
        own = self._ranges.get(part, (np.inf, -np.inf))
        self._ranges[part] = min(own[0], low), max(own[1], high)

    def understand(self) -> None:
        """Decide whether text is dates or is ignored, see `usnrt.tables.columns.understood`."""
        if self.type != "text" or self.named or self.category:
            return
        if self._is_ignored:
            warnings.warn(
                f"column {self.name!r} is ignored: it has more than {MAX_LABELS:,} different texts",
                IgnoredColumnWarning,
                stacklevel=users_level(),
            )
            self.type = "empty"
            return
        differs = not self._missing and max(self._counts.values()) == 1
        # a label twice, or a missing value, tells that not every row differs
        labels: list[Any] = [*self._counts, *([] if differs else [next(iter(self._counts))])]
        column, self.format = understood(FeatureColumn("text", np.array(labels, dtype=object)), self.name)
        self.type = column.type
        if column.type == "date":
            self._add_dates(np.unique(column.values))

    def columns(self) -> list[Column]:
        """The encoded columns."""
        missing = self._missing or self.type == "empty"
        base = Column(self.name, "numeric", self.name, source_index=self.index, has_missing=missing)
        if self.type == "empty":
            return [base]
        if self.type == "date":
            return [replace(base, name=f"{self.name} ({part})", part=part) for part in self._useful_parts()]
        limit = MAX_CATEGORIES if self._is_limited else math.inf
        if self.type == "text":
            kept, rest = most_frequent(self._counts, limit)
            seen = set(kept)
            labels = natural_order(seen) if self._order is None else [label for label in self._order if label in seen]
            return [_categorical(base, labels, rest)]
        if self.named:
            kept, rest = most_frequent(self._counts, limit)
            labels = [_number_label(code, self._boolean) for code in sorted(kept)]
            return [replace(_categorical(base, labels, rest), codes=tuple(sorted(kept)), boolean=self._boolean)]
        return [replace(base, boolean=self._boolean)]

    def _useful_parts(self) -> list[str]:
        """The calendar parts to encode; the weekday of dates that are all on one day of the month is none."""
        varying = [part for part in CALENDAR_PARTS if self._ranges[part][0] < self._ranges[part][1]]
        return [part for part in varying if part != "weekday" or "day" in varying] or ["year"]

    def recurring_parts(self) -> list[Column]:
        """The encoded columns of dates of which the table spans at least two rounds; none of numbers."""
        if self.type != "date":
            return []
        low, high = self._ranges["seconds"]
        return [column for column in self.columns() if high - low >= 2 * ROUND.get(column.part, math.inf)]


def categorical_positions(spec: Any, names: Sequence[str]) -> set[int]:
    """Positions of the columns that the parameter ``categorical_features`` declares categorical.

    Examples
    --------
    >>> categorical_positions(["size", 0], ["age", "size", "price"])
    {0, 1}
    """
    if spec is None or (isinstance(spec, str) and spec == "from_dtype"):
        return set()
    if isinstance(spec, str) or not isinstance(spec, Iterable):
        raise ValueError(f"categorical_features must be None, 'from_dtype', names, positions or a mask, got {spec!r}")
    entries = np.asarray(list(spec), dtype=object).ravel()
    if entries.size and all(isinstance(entry, bool | np.bool_) for entry in entries):
        if len(entries) != len(names):
            raise ValueError(f"categorical_features as a mask must have {len(names)} entries, got {len(entries)}")
        return set(np.flatnonzero(entries.astype(bool)).tolist())
    for entry in entries:
        if not isinstance(entry, str | int | np.integer) or isinstance(entry, bool):
            raise ValueError(f"categorical_features must hold names or positions, got {entry!r}")
    return {column_position("categorical_features", entry, names) for entry in entries}


def natural_order(labels: set[str]) -> list[str]:
    """Alphabetical order, or numerical order if all labels are numbers: "2" before "10"."""
    try:
        return sorted(labels, key=lambda label: (float(label), label))
    except ValueError:
        return sorted(labels)


def _number_label(code: float, boolean: bool) -> str:
    if boolean:
        return str(bool(code))
    return str(int(code)) if float(code).is_integer() else repr(float(code))


def most_frequent(counts: Mapping[Any, int], n: float) -> tuple[list[Any], bool]:
    """The labels that become categories, the most frequent first, and whether a rest follows; n with the rest.

    Examples
    --------
    >>> most_frequent({"a": 1, "b": 5, "c": 1, "d": 3}, 3)
    (['b', 'd'], True)
    """
    if len(counts) <= n:
        return list(counts), False
    return sorted(counts, key=lambda label: (-counts[label], label))[: int(n) - 1], True


def _categorical(base: Column, labels: Iterable[str], rest: bool) -> Column:
    categories = list(labels)
    if rest:
        name = REST
        while name in categories:
            name += "_"
        categories.append(name)
    return replace(base, kind="categorical", categories=tuple(categories), rest=rest)


def calendar_part(dates: NDArray[Any], part: str) -> Floats:
    """One of `CALENDAR_PARTS` of each date as a number, NaN for missing dates; Monday is weekday 0.

    Examples
    --------
    >>> calendar_part(np.array(["2024-02-29T13:45", "NaT"], dtype="datetime64[us]"), "hour")
    array([13., nan])
    """
    days = dates.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    if part == "year":
        values = dates.astype("datetime64[Y]").astype(np.int64) + 1970
    elif part == "month":
        values = months.astype(np.int64) % 12 + 1
    elif part == "day":
        values = (days - months.astype("datetime64[D]")).astype(np.int64) + 1
    elif part == "weekday":
        values = (days.astype(np.int64) + 3) % 7  # 1970-01-01 was a Thursday
    else:
        minutes = (dates.astype("datetime64[m]") - days.astype("datetime64[m]")).astype(np.int64)
        values = minutes // 60 if part == "hour" else minutes % 60
    return np.where(np.isnat(dates), np.nan, values)
