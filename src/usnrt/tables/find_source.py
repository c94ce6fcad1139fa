"""Which source of rows an argument of `fit` stands for, and tables of sources that fit in memory."""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from usnrt.tables import streaming
from usnrt.tables.files import FeatherFiles, Input, ParquetFiles, files_of
from usnrt.tables.group_labels import joined_labels
from usnrt.tables.read_options import ModelColumns, ReadOptions
from usnrt.tables.reading import read_column
from usnrt.tables.sources import ArraySource, BatchSource, Block, DatasetSource, SelectedColumns, TableSource
from usnrt.tables.streaming import TrainingBlock, TrainingSource, check_rows, column_names, pass_rows
from usnrt.tables.survey import TableSurvey
from usnrt.utils.arrays import plain_array
from usnrt.utils.names import check_different, need_column
from usnrt.utils.types import Rows, TableLike

if TYPE_CHECKING:
    import pyarrow as pa


def as_source(
    X: TableLike,
    options: ReadOptions | None = None,
    model: ModelColumns | None = None,
    notify: Callable[[str], None] | None = None,
) -> TableSource | None:
    """The source that X is or names; None for a table in memory.

    A source is a path (a file, a folder or a pattern), a `pyarrow.dataset.Dataset`, an iterator of record batches,
    tables or data frames, a numpy memory map too large to be read as a whole, or a `TableSource`. Files are read as
    `usnrt.tables.typed_table.TypedTable` says.
    """
    if isinstance(X, TableSource):
        return X
    if isinstance(X, str | os.PathLike):
        _need_pyarrow()
        path = os.fspath(X)
        return file_source([Input.of(file) for file in files_of(path)], path, options, model, notify)
    if isinstance(X, np.memmap):
        # results of arithmetic with maps are instances too, but have no file
        large = X.ndim == 2 and not rows_fit_memory(len(X), X.shape[1])
        return ArraySource(X) if large and X.filename is not None else None
    dataset, pyarrow = sys.modules.get("pyarrow.dataset"), sys.modules.get("pyarrow")
    if dataset is not None and isinstance(X, dataset.Dataset):
        return DatasetSource(X)
    if hasattr(X, "__next__") or (pyarrow is not None and isinstance(X, pyarrow.RecordBatchReader)):
        _need_pyarrow()
        return BatchSource(iter(X))
    return None


def file_source(
    files: list[Input],
    name: str,
    options: ReadOptions | None = None,
    model: ModelColumns | None = None,
    notify: Callable[[str], None] | None = None,
) -> TableSource:
    """The table in files of one format; ``name`` is for messages."""
    from usnrt.tables.text_files import CsvFiles, JsonLines, Workbooks
    from usnrt.tables.typed_table import TypedTable

    kinds = {"csv" if file.kind == "tsv" else file.kind for file in files}
    if len(kinds) > 1:
        raise ValueError(f"{name} must stand for files of one format, got {' and '.join(sorted(kinds))}")
    kind = kinds.pop()
    readers: dict[str, Any] = {"parquet": ParquetFiles, "feather": FeatherFiles, "jsonl": JsonLines, "xlsx": Workbooks}
    source = CsvFiles(files, name, options, model) if kind == "csv" else readers[kind](files, name)
    return TypedTable(source, options, model, notify)


def _need_pyarrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise ImportError("files and record batches are read by pyarrow; install it, or usnrt[data]") from None


def training_source(source: TableSource, y: Any, sample_weight: Any = None, groups: Any = None) -> TrainingSource:
    """A source with its target, weights and groups: names of columns, or arrays if the source is a memory map."""
    if isinstance(source, ArraySource):
        n_rows = len(source.array)
        arrays = [_checked_array(name, values, n_rows) for name, values in (("y", y), ("sample_weight", sample_weight))]
        if arrays[0] is None:
            raise ValueError("y must be an array of one number per row, got None")
        labels = None if groups is None else np.asarray(groups)
        if labels is not None and labels.shape != (n_rows,):
            raise ValueError(f"groups must have one label per row, shape ({n_rows},), got shape {labels.shape}")
        return TrainingSource(source, arrays[0], arrays[1], labels)
    names = next((column_names(table) for table, _ in source.raw.pieces(1)), None)
    if names is None:
        raise ValueError(f"{source.name} has no rows")
    given = {"y": y, "sample_weight": sample_weight, "groups": groups}
    given = {argument: name for argument, name in given.items() if name is not None or argument == "y"}
    for argument, name in given.items():
        if not isinstance(name, str):
            raise TypeError(f"{argument} must be the name of a column of {source.name}, got {type(name).__name__}")
        need_column(names, name, source.name)
    check_different(given)
    if not set(names) - set(given.values()):
        raise ValueError(f"{source.name} must have columns besides the target, got none")
    from usnrt.tables.typed_table import TypedTable

    if not isinstance(
        source, TypedTable | SelectedColumns
    ):  # a target or weights that are text: numbers, in the format that all of them have
        source = TypedTable(source, numbers=[name for name in (y, sample_weight) if name is not None])
    return TrainingSource(source, y, sample_weight, groups, leaves_out=True)


def _checked_array(name: str, values: Any, n_rows: int) -> Any:
    if values is None:
        return None
    array = np.asarray(plain_array(values, name))
    if array.shape != (n_rows,) or array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be {n_rows:,} numbers, one per row of X, got {array.dtype} of {array.shape}")
    return array


def fits_memory(source: TableSource) -> bool:
    """Whether a source is small enough to be read as a whole: `streaming.BLOCK_ROWS` and `streaming.BLOCK_BYTES`."""
    n_columns, known = source.n_columns, source.known_rows()
    if known is not None:
        return rows_fit_memory(known, n_columns)
    blocks = source.raw.blocks(pass_rows(n_columns))
    return all(rows_fit_memory(block.start + block.n_rows, n_columns) for block in blocks)


def whole_table(source: TableSource) -> "pa.Table":
    """All rows and columns of a source."""
    blocks = list(source.blocks(pass_rows(source.n_columns)))
    if not blocks:
        raise ValueError(f"{source.name} has no rows")
    return joined(blocks)


@dataclass(frozen=True)
class WholeTable:
    """A table in memory, divided into features, target, weights and groups as ``fit`` takes them."""

    X: Any
    y: Any
    sample_weight: Any
    groups: Any
    kept: Rows | None = None  # positions of the rows in the table that was given; None if it is all of them


def read_whole(rows: TrainingSource) -> WholeTable | None:
    """All rows of a source, or None if they are too many to be held in memory.

    What is too many is `usnrt.tables.streaming.BLOCK_ROWS` and `BLOCK_BYTES`.
    """
    n_columns, known = rows.source.n_columns, rows.source.known_rows()
    # types are found by reading all rows, which are counted before
    if (known is not None or rows.source.raw is not rows.source) and not fits_memory(rows.source):
        return None
    blocks, n_rows, n_read = [], 0, 0
    for block in rows.blocks(pass_rows(n_columns)):
        blocks.append(block)
        n_rows, n_read = n_rows + block.X.n_rows, n_read + block.n_read
        if not rows_fit_memory(n_rows, n_columns):
            return None
    check_rows(rows.source.name, n_rows, n_read - n_rows)
    return whole_of(blocks, rows.weight is not None)


def whole_of(blocks: Sequence[TrainingBlock], weighted: bool) -> WholeTable:
    """Blocks of rows as one table; without weights unless ``weighted``."""
    target, weight = (np.concatenate([getattr(block, name) for block in blocks]) for name in ("target", "weight"))
    labels = [block.group for block in blocks if block.group is not None and block.X.n_rows]
    groups = joined_labels(labels) if labels else None
    starts = np.cumsum([0, *(block.n_read for block in blocks)])
    kept = [start + (np.arange(b.n_read) if b.X.kept is None else b.X.kept) for start, b in zip(starts, blocks)]
    return WholeTable(
        joined([block.X for block in blocks]),
        target,
        weight if weighted else None,
        groups,
        np.concatenate(kept) if len(target) < starts[-1] else None,
    )


def rows_fit_memory(n_rows: int, n_columns: int) -> bool:
    """Whether a table is small enough to be held in memory: `streaming.BLOCK_ROWS` and `streaming.BLOCK_BYTES`."""
    return n_rows <= streaming.BLOCK_ROWS and 8 * n_rows * n_columns <= streaming.BLOCK_BYTES


def joined(blocks: "list[Block]") -> Any:
    """Blocks as one table. Types of a column that differ, such as whole numbers and others, become one."""
    tables = [block.table for block in blocks]
    if isinstance(tables[0], np.ndarray):
        return np.concatenate(tables)
    import pyarrow as pa

    names = tables[0].column_names
    mixed = [name for name in names if len({table.schema.field(name).type for table in tables}) > 1]
    if mixed:
        survey = TableSurvey(names)
        for block in blocks:
            survey.add(block.table, block.place)
        kinds = dict(zip(names, survey.types()))
        types = {"number": pa.float64(), "text": pa.string(), "date": pa.timestamp("us"), "empty": pa.null()}
        tables = [_with_types(table, {name: types[kinds[name]] for name in mixed}) for table in tables]
    return pa.concat_tables([table.replace_schema_metadata(None) for table in tables])


def _with_types(table: "pa.Table", types: "dict[str, pa.DataType]") -> "pa.Table":
    import pyarrow as pa

    for name, kind in types.items():
        column = read_column(table, name)
        if column.type == "empty":
            values = pa.nulls(table.num_rows, kind)
        else:
            values = pa.array(column.values, type=kind, from_pandas=True)
        table = table.set_column(table.column_names.index(name), pa.field(name, kind), values)
    return table
