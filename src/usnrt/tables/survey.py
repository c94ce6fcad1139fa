"""The encoding of a table that is read block by block: the columns that `TableEncoder.fit` would learn from all rows.

Everything kept is independent of the order of the rows and of the blocks. Counts of categories are exact up to a
number of different labels that no useful category reaches; only the most frequent labels become categories.
"""

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from usnrt.tables.columns import Column, understood
from usnrt.tables.encoder import (
    CALENDAR_PARTS,
    TableEncoder,
    calendar_part,
    categorical_positions,
    natural_order,
    number_label,
    refuse_dates,
    useful_parts,
)
from usnrt.tables.reading import FeatureColumn, as_table, read_column
from usnrt.tables.sources import Block
from usnrt.utils.notices import IgnoredColumnWarning

if TYPE_CHECKING:
    import pyarrow as pa

MAX_CATEGORIES = 10_000  # per column, the rest included
MAX_LABELS = 2**20  # different labels that are counted
REST = "(other)"
_WORDS = {"number": "numbers", "text": "text", "date": "dates"}


class TableSurvey:
    """Learns an encoding from blocks.

    Parameters
    ----------
    names : list of str
        Names of the features.
    categorical_features : None, "from_dtype", list of names, list of positions or boolean mask
        Numeric columns to treat as categories.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from usnrt.tables.sources import Block
    >>> from usnrt.tables.survey import TableSurvey
    >>> survey = TableSurvey(["a", "b"])
    >>> survey.add(Block(pa.table({"a": [1, 2], "b": ["x", None]}), "first.parquet", 1, 0))
    >>> survey.add(Block(pa.table({"a": [0.5], "b": ["w"]}), "second.parquet", 1, 2))
    >>> [(column.name, column.categories) for column in survey.encoder().columns_]
    [('a', ()), ('b', ('w', 'x'))]
    """

    def __init__(self, names: list[str], categorical_features: Any = None) -> None:
        named = categorical_positions(categorical_features, names)
        self.names = names
        self._columns = [_ColumnSurvey(name, index, index in named) for index, name in enumerate(names)]

    def add(self, block: Block) -> None:
        """Learn from the rows of a block."""
        if isinstance(block.table, np.ndarray):
            table = as_table(block.table)
            for survey in self._columns:
                survey.add(table.column(survey.index), block.place)
            return
        for survey in self._columns:
            try:
                column = _column_of(block.table, survey.name)
                survey.category |= _is_category(block.table, survey.name)
            except (TypeError, ValueError) as error:  # for example infinity, or lists
                raise type(error)(f"{error} in {block.place}") from None
            survey.add(column, block.place)

    def merge(self, other: "TableSurvey") -> None:
        """Learn what another survey of rows of the same table has learnt."""
        for own, others in zip(self._columns, other._columns, strict=True):
            own.merge(others)

    def encoder(self) -> TableEncoder:
        """The encoding of all rows so far. Text that is all dates becomes dates, and ids are ignored, as in memory."""
        for survey in self._columns:
            survey.understand()
        columns = [column for survey in self._columns for column in survey.columns()]
        types = [survey.final_type for survey in self._columns]
        formats = {survey.name: survey.format for survey in self._columns if survey.format}
        return TableEncoder.from_columns(columns, self.names, types, formats)

    def types(self) -> list[str]:
        """Types of the input columns: "number", "text", "date" or "empty"."""
        return [survey.type for survey in self._columns]

    def narrow(self) -> NDArray[np.bool_]:
        """Which encoded columns hold float32 numbers only."""
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

    def __init__(self, name: str, index: int, named: bool) -> None:
        self.name, self.index, self.named = name, index, named
        self.type = "empty"
        self.final_type = "empty"
        self.format = ""
        self.category = False
        self.narrow = True
        self._place = ""
        self._missing = False
        self._is_ignored = False
        self._boolean = True
        self._counts: Counter[Any] = Counter()
        self._ranges: dict[str, tuple[float, float]] = {}

    def add(self, column: FeatureColumn | Mapping[Any, int], place: str) -> None:
        """Learn from the values of a block."""
        if isinstance(column, FeatureColumn) and column.type == "text":
            column = Counter(column.values.tolist())
        if isinstance(column, FeatureColumn):
            self._add_values(column, place)
        else:
            self._add_labels(column, place)
        self._check_counts()

    def merge(self, other: "_ColumnSurvey") -> None:
        """Add what another survey knows of the column."""
        if other.type != "empty":
            self._set_type(other.type, other._place)
        self.narrow &= other.narrow
        self._missing |= other._missing
        self._boolean &= other._boolean
        self._counts.update(other._counts)
        for part, (low, high) in other._ranges.items():
            own = self._ranges.get(part, (np.inf, -np.inf))
            self._ranges[part] = (min(own[0], low), max(own[1], high))
        self._check_counts()

    def _check_counts(self) -> None:
        if len(self._counts) > MAX_LABELS:
            self._refuse_or_ignore()

    def _refuse_or_ignore(self) -> None:
        """Too many labels are an error if the column was declared categorical; else it is ignored."""
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
        elif self.narrow and not column.boolean:
            with np.errstate(over="ignore"):
                self.narrow = bool((present.astype(np.float32) == present).all())

    def _set_type(self, kind: str, place: str) -> None:
        if self.type == "empty":
            self.type, self._place = kind, place
            if self.named:
                refuse_dates(kind, self.name)
        elif kind != self.type:
            raise ValueError(
                f"column {self.name!r} must hold {_WORDS[self.type]} as in {self._place}, "
                f"but it holds {_WORDS[kind]} in {place}"
            )

    def _add_dates(self, dates: NDArray[Any]) -> None:
        """Extend the ranges of the calendar parts that have not varied so far."""
        for part in CALENDAR_PARTS:
            low, high = self._ranges.get(part, (np.inf, -np.inf))
            if not low < high:
                numbers = calendar_part(dates, part)
                self._ranges[part] = (min(low, float(numbers.min())), max(high, float(numbers.max())))

    def understand(self) -> None:
        """Decide whether text is dates or is ignored, see `usnrt.tables.columns.understood`."""
        self.final_type = self.type
        if self.type != "text" or self.named or self.category:
            return
        if self._is_ignored:
            warnings.warn(
                f"column {self.name!r} is ignored: it has more than {MAX_LABELS:,} different texts",
                IgnoredColumnWarning,
                stacklevel=2,
            )
            self.final_type = "empty"
            return
        differs = not self._missing and max(self._counts.values()) == 1
        # a label twice, or a missing value, tells that not every row differs
        labels: list[Any] = [*self._counts, *([] if differs else [next(iter(self._counts))])]
        column, self.format = understood(FeatureColumn("text", np.array(labels, dtype=object)), self.name)
        self.final_type = column.type
        if column.type == "date":
            self._add_dates(np.unique(column.values))

    def columns(self) -> list[Column]:
        """The encoded columns."""
        missing = self._missing or (self.final_type == "empty")
        base = Column(self.name, "numeric", self.name, source_index=self.index, has_missing=missing)
        if self.final_type == "empty":
            return [base]
        if self.final_type == "date":
            parts = useful_parts([part for part, (low, high) in self._ranges.items() if low < high])
            return [replace(base, name=f"{self.name} ({part})", part=part) for part in parts]
        if self.final_type == "text":
            kept, rest = most_frequent(self._counts, MAX_CATEGORIES)
            labels = natural_order(set(kept))
            return [_categorical(base, labels, rest)]
        boolean = self._boolean and self.type == "number"
        if self.named and self.type == "number":
            kept, rest = most_frequent(self._counts, MAX_CATEGORIES)
            labels = [number_label(code, boolean) for code in sorted(kept)]
            return [replace(_categorical(base, labels, rest), codes=tuple(sorted(kept)), boolean=boolean)]
        return [replace(base, boolean=boolean)]


def most_frequent(counts: Mapping[Any, int], n: int) -> tuple[list[Any], bool]:
    """The labels that become categories, the most frequent first, and whether a rest follows; n with the rest.

    Examples
    --------
    >>> from usnrt.tables.survey import most_frequent
    >>> most_frequent({"a": 1, "b": 5, "c": 1, "d": 3}, 3)
    (['b', 'd'], True)
    """
    if len(counts) <= n:
        return list(counts), False
    return sorted(counts, key=lambda label: (-counts[label], label))[: n - 1], True


def _categorical(base: Column, labels: Iterable[str], rest: bool) -> Column:
    categories = list(labels)
    if rest:
        name = REST
        while name in categories:
            name += "_"
        categories.append(name)
    return replace(base, kind="categorical", categories=tuple(categories), rest=rest)
