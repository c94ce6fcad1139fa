"""From a source of blocks to a store of encoded rows on disk, in two passes."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from usnrt.tables.disk_store import DiskStore, RecordLayout, Records, StoreWriter, packed_rows
from usnrt.tables.encoder import TableEncoder, encode_column
from usnrt.tables.group_labels import GroupLabels, LabelSurvey, read_labels
from usnrt.tables.reading import FeatureColumn
from usnrt.tables.rows import WeightSum
from usnrt.tables.sources import Block, TableSource
from usnrt.tables.store import BUCKET_ROWS, bucket_bits
from usnrt.tables.survey import TableSurvey
from usnrt.tables.target_notices import warn_of_left_out
from usnrt.utils.arrays import check_total_weight
from usnrt.utils.folders import check_space, size_text
from usnrt.utils.names import first_text, shown_value
from usnrt.utils.types import Floats, Rows

BLOCK_ROWS = 1_048_576  # a table of at most as many rows is read into memory
BLOCK_BYTES = 1 << 29  # ... if its numbers take no more than this
PASS_BYTES = 1 << 24  # of the numbers of the rows that are read at a time, otherwise
MIN_PASS_ROWS = 1024


@dataclass(frozen=True)
class TrainingBlock:
    """Rows with their targets, weights and perhaps groups; the weights are as they were given."""

    X: Block
    target: Floats
    weight: Floats
    group: GroupLabels | None = None
    n_read: int = 0  # rows that were read, of which those without a target may have been left out

    @property
    def codes(self) -> Rows | None:
        """The group of each row."""
        return None if self.group is None else self.group.codes


@dataclass(frozen=True)
class TrainingSource:
    """A source with the names of its target, weight and group columns, or with arrays of them."""

    source: TableSource
    target: Any  # str, or ndarray of shape (n,)
    weight: Any = None  # str, ndarray of shape (n,) or None
    group: Any = None  # labels: str, ndarray of shape (n,) or None
    leaves_out: bool = field(
        default=False, kw_only=True
    )  # whether rows without a target are left out; else they are an error

    def blocks(self, block_rows: int) -> Iterator[TrainingBlock]:
        """The rows in blocks, which may be empty; targets and weights are checked."""
        for block in self.source.blocks(block_rows):
            n_read = block.n_rows
            if self.leaves_out:
                block = block.without_missing(self.target)
            target = self._numbers(block, self.target, "the target")
            weight = np.ones(block.n_rows) if self.weight is None else self._numbers(block, self.weight, "the weight")
            if (weight < 0).any():
                row = int(np.flatnonzero(weight < 0)[0])
                raise ValueError(f"weights must be at least 0, got {weight[row]:g} in {block.row_name(row)}")
            check_total_weight(weight, "weights")
            yield TrainingBlock(self._features(block), target, weight, self._labels(block), n_read)

    def remember(self, encoder: TableEncoder) -> None:
        """Store with the encoder of a fitted model how its files were read."""
        if self.source.reading is not None:
            self.source.reading.remember(encoder)

    def _features(self, block: Block) -> Block:
        names = [name for name in (self.target, self.weight, self.group) if isinstance(name, str)]
        return replace(block, table=block.table.drop_columns(names)) if names else block

    def _labels(self, block: Block) -> GroupLabels | None:
        if self.group is None:
            return None
        named = isinstance(self.group, str)
        labels = block.table[self.group] if named else self.group[block.start : block.start + block.n_rows]
        return read_labels(labels, block.row_name)

    def _numbers(self, block: Block, column: Any, what: str) -> Floats:
        if not isinstance(column, str):
            values = np.asarray(column[block.start : block.start + block.n_rows], dtype=np.float64)
        else:
            what = f"{what} {column!r}"
            values = _as_numbers(block, column, what)
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            found = "a missing value" if np.isnan(values[bad[0]]) else str(values[bad[0]])
            raise ValueError(f"{what} must be finite, got {found} in {block.row_name(int(bad[0]))}")
        return values


@dataclass(frozen=True)
class StoredTable:
    """A table on disk with its encoding."""

    encoder: TableEncoder
    store: DiskStore
    example: Any  # the features of one row: a pyarrow Table or an array


class RowSurvey:
    """What the first pass finds: the encoding, the number of rows, an example, and how weights become counts.

    Surveys of parts of a table can be merged; the result does not depend on the parts.
    """

    def __init__(self, categorical_features: Any = None) -> None:
        self.n_rows = 0
        self.n_left_out = 0  # rows without a target
        self.example: Any = None
        self._categorical_features = categorical_features
        self._table: TableSurvey | None = None
        self._weights = WeightSum()
        self._labels: LabelSurvey | None = None

    @classmethod
    def of(cls, rows: TrainingSource, categorical_features: Any, block_rows: int) -> "RowSurvey":
        """What the rows of a source have."""
        survey = cls(categorical_features)
        for block in rows.blocks(block_rows):
            survey.add(block)
        return survey

    def add(self, block: TrainingBlock) -> None:
        """Learn from the rows of a block."""
        self.n_left_out += block.n_read - block.X.n_rows
        if block.X.n_rows == 0:
            return
        if self._table is None:
            self._table = TableSurvey(column_names(block.X.table), self._categorical_features)
            # copied: a slice of a pyarrow Table is pickled with all rows
            self.example = (
                block.X.table.take([0]) if hasattr(block.X.table, "column_names") else block.X.table[:1].copy()
            )
        self._table.add(block.X.table, block.X.place)
        self.n_rows += block.X.n_rows
        self._weights.add(block.weight)
        if block.group is not None:
            self._labels = self._labels or LabelSurvey()
            self._labels.add(block.group)

    def merge(self, other: "RowSurvey") -> None:
        """Learn what a survey of other rows has learnt."""
        if self._table is None:
            self._table, self.example = copy.deepcopy(other._table), other.example
        elif other._table is not None:
            self._table.merge(other._table)
        self.n_rows += other.n_rows
        self.n_left_out += other.n_left_out
        self._weights.merge(other._weights)
        if other._labels is not None:
            self._labels = self._labels or LabelSurvey()
            self._labels.merge(other._labels)

    def check(self, name: str) -> None:
        """Raise a ValueError if a source of that name has no rows, or none with a weight; warn of rows left out."""
        check_rows(name, self.n_rows, self.n_left_out)
        if self._weights.n_positive == 0:
            raise ValueError("sample_weight must be positive for at least one row, got only zeros")
        if self._labels is not None:
            self._labels.check()

    @property
    def has_groups(self) -> bool:
        """Whether rows have a group that was given."""
        return self._labels is not None

    @property
    def table(self) -> TableSurvey:
        """Survey of the features."""
        assert self._table is not None
        return self._table

    @property
    def whole_weights(self) -> bool:
        """Whether all weights are whole numbers."""
        return self._weights.whole

    @property
    def scale(self) -> float:
        """What weights are divided by."""
        return self._weights.scale


@dataclass(frozen=True)
class StorePlan:
    """How the rows of a survey become records of a store, on disk or on a cluster."""

    encoder: TableEncoder
    layout: RecordLayout
    scale: float  # what weights are divided by
    merge_early: bool  # whether copies may be merged before all are known: sums of whole weights are exact
    n_rows: int  # copies included
    bits: int  # binary logarithm of the number of buckets

    @classmethod
    def of(cls, survey: RowSurvey, bucket_rows: int) -> "StorePlan":
        """The plan for the rows of a survey."""
        layout = RecordLayout(survey.table.narrow(), survey.has_groups)
        bits = bucket_bits(survey.n_rows, bucket_rows)
        encoder = TableEncoder.of(survey.table)
        return cls(encoder, layout, survey.scale, survey.whole_weights, survey.n_rows, bits)

    def records(self, rows: TrainingSource, block_rows: int | None = None) -> Iterator[Records]:
        """The records of rows, block by block."""
        for block in rows.blocks(block_rows or pass_rows(len(self.encoder.columns_))):
            if block.X.n_rows:
                raw, weight = encoded(self.encoder, block.X.table), block.weight / self.scale
                yield packed_rows(self.layout, raw, block.target, weight, self.merge_early, block.codes)


def check_rows(name: str, n_rows: int, n_left_out: int) -> None:
    """Raise a ValueError if a source has no rows with a target; warn of those without."""
    if n_rows == 0:
        raise ValueError(f"{name} has no row with a target" if n_left_out else f"{name} has no rows")
    warn_of_left_out(n_left_out)


def build_store(
    rows: TrainingSource,
    folder: Path,
    categorical_features: Any = None,
    notify: Callable[[str], None] = lambda text: None,
    block_rows: int | None = None,
    bucket_rows: int = BUCKET_ROWS,
) -> StoredTable:
    """Learn the encoding of a table from all of its rows, and write them encoded and sorted by their hashes.

    The files of the store are in an empty folder; sentences about the progress are given to ``notify``. The store is
    the same for any number of rows that are read at a time.
    """
    rows.source.spool(folder)
    survey = RowSurvey.of(rows, categorical_features, block_rows or pass_rows(rows.source.n_columns))
    survey.check(rows.source.name)
    plan = StorePlan.of(survey, bucket_rows)
    n_bytes = survey.n_rows * plan.layout.dtype.itemsize
    check_space(folder, n_bytes)
    notify(f"read {survey.n_rows:,} rows; they take up to {size_text(n_bytes)} in {folder} until the fit has ended")
    writer = StoreWriter(folder, plan.layout, plan.bits, bucket_rows)
    for records in plan.records(rows, block_rows):
        writer.add(records)
    store = writer.finish()
    notify(f"{store.n_rows:,} distinct rows, {size_text(store.n_bytes)} in {folder}")
    return StoredTable(plan.encoder, store, survey.example)


def encoded(encoder: TableEncoder, table: Any) -> Floats:
    """``encoder.transform(table)``; every label of a text column is looked up once per block.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"a": ["x", "y", None, "x"], "b": [1, 2, 3, 4]})
    >>> encoded(TableEncoder().fit(table), table).T
    array([[ 0.,  1., nan,  0.], [ 1.,  2.,  3.,  4.]])
    """
    if isinstance(table, np.ndarray):
        return encoder.transform(table)
    import pyarrow as pa
    import pyarrow.compute as pc

    texts: dict[int, pa.DictionaryArray] = {}
    for index, (name, kind) in enumerate(zip(encoder.source_names_, encoder.source_types_)):
        if kind == "text" and pa.types.is_string(table[name].type):
            texts[index] = pc.dictionary_encode(pa.concat_arrays(table[name].chunks))
            table = table.set_column(index, name, pa.nulls(table.num_rows))
    raw = np.require(encoder.transform(table), requirements="W")
    for position, column in enumerate(encoder.columns_):
        if column.source_index in texts:
            text = texts[column.source_index]
            labels = np.array([*text.dictionary.to_pylist(), None], dtype=object)
            codes = encode_column(FeatureColumn("text", labels), column)
            raw[:, position] = codes[text.indices.fill_null(len(labels) - 1).to_numpy(zero_copy_only=False)]
    return raw


def pass_rows(n_columns: int) -> int:
    """How many rows to read at a time.

    Examples
    --------
    >>> pass_rows(20), pass_rows(10_000)
    (104857, 1024)
    """
    return max(PASS_BYTES // (8 * max(n_columns, 1)), MIN_PASS_ROWS)


def column_names(table: Any) -> list[str]:
    """Names of the columns; x0, x1, ... for arrays."""
    return [f"x{j}" for j in range(table.shape[1])] if isinstance(table, np.ndarray) else list(table.column_names)


def _as_numbers(block: Block, name: str, what: str) -> Floats:
    """A column of a pyarrow table as float64."""
    import pyarrow as pa

    column = block.table[name]
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    try:
        return np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        row = first_text(column.to_pylist()) or 0
        raise ValueError(
            f"{what} must hold numbers, got {shown_value(column[row].as_py())} in {block.row_name(row)}"
        ) from None
