"""The encoding of a table that is read block by block: the columns that `TableEncoder.fit` would learn from all rows.

Everything kept is independent of the order of the rows and of the blocks. Counts of categories are exact up to a
number of different labels that no useful category reaches; only the most frequent labels become categories.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from usnrt.tables.columns import Column
from usnrt.tables.encoder import (
    CALENDAR_PARTS,
    TableEncoder,
    calendar_part,
    categorical_positions,
    natural_order,
    number_label,
    refuse_dates,
)
from usnrt.tables.reading import FeatureColumn, as_table, read_column
from usnrt.tables.sources import Block

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
            except (TypeError, ValueError) as error:  # for example infinity, or lists
                raise type(error)(f"{error} in {block.place}") from None
            survey.add(column, block.place)

    def encoder(self) -> TableEncoder:
        """The encoding of all rows so far."""
        columns = [column for survey in self._columns for column in survey.columns()]
        return TableEncoder.from_columns(columns, self.names, [survey.type for survey in self._columns])

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


class _ColumnSurvey:
    """What is known of one input column."""

    def __init__(self, name: str, index: int, named: bool) -> None:
        self.name, self.index, self.named = name, index, named
        self.type = "empty"
        self.narrow = True
        self._place = ""
        self._missing = False
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
        if len(self._counts) > MAX_LABELS:
            raise ValueError(
                f"column {self.name!r} has more than {MAX_LABELS:,} different values, too many for categories; "
                "is it a name or an id to leave out?"
            )

    def _add_labels(self, counts: Mapping[Any, int], place: str) -> None:
        present = {label: count for label, count in counts.items() if label is not None}
        self._missing |= None in counts
        if present:
            self._set_type("text", place)
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

    def columns(self) -> list[Column]:
        """The encoded columns."""
        base = Column(self.name, "numeric", self.name, source_index=self.index, has_missing=self._missing)
        if self.type == "date":
            parts = [part for part, (low, high) in self._ranges.items() if low < high] or ["year"]
            return [replace(base, name=f"{self.name} ({part})", part=part) for part in parts]
        if self.type == "text":
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
