"""Tables of several files, and tables larger than memory, which are read and written block by block."""

import glob
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from usnrt.cli._csv import refuse_ragged
from usnrt.cli._errors import UserError
from usnrt.cli._reading_options import ReadOptions
from usnrt.cli._streams import Source, is_standard, source_of
from usnrt.tables.csv_files import CsvFiles
from usnrt.tables.csv_format import CsvFormat
from usnrt.tables.files import format_of
from usnrt.tables.find_source import as_source, fits_memory, whole_table
from usnrt.tables.sources import SelectedColumns, TableSource
from usnrt.tables.streaming import BLOCK_BYTES
from usnrt.utils.atomic_write import atomic_write
from usnrt.utils.names import need_column

if TYPE_CHECKING:
    from usnrt.estimators.base import DistributionalRegressor
    from usnrt.estimators.tree_regressor import TreeRegressor


def is_many(path: Path) -> bool:
    """Whether a path is a folder or a pattern such as ``sales/*.parquet``, not the name of a file."""
    return path.is_dir() or (glob.has_magic(str(path)) and not path.exists())


def read_many(path: Path, options: ReadOptions) -> tuple[pa.Table, CsvFormat, Source]:
    """The rows of all files of a folder or pattern, which fit in memory; the columns of CSV files as text."""
    source, format, kind = as_source(path), CsvFormat(), "parquet"
    assert source is not None
    if isinstance(source, CsvFiles):
        source = CsvFiles(source.files, source.name, types={}, delimiter=options.sep, encoding=options.encoding)
        format, kind = source.format, "csv"
    try:
        if not fits_memory(source):
            raise UserError(f"{path} has too many rows for this command; give it some of the files")
        return whole_table(source), format, Source(path, kind)
    except ValueError as error:
        if isinstance(source, CsvFiles) and "Expected" in str(error):  # a line with too few or too many values
            for file in source.files:
                refuse_ragged(source_of(file), format.delimiter, format.encoding, skip_rows=0)
        raise


def large_source(path: Path) -> TableSource | None:
    """The source of a table too large for memory; None if it is not too large, or not a table at all."""
    if not is_many(path) and not (path.is_file() and _may_be_large(path)):
        return None
    source = as_source(path)
    return None if source is None or is_small(source) else source


def is_small(source: TableSource) -> bool:
    """Whether a source fits in memory, or cannot be read: then the reader of small tables says why."""
    try:
        return fits_memory(source)
    except ValueError:
        return True


def _may_be_large(path: Path) -> bool:
    """Whether a single file is worth a look. The rows of a Parquet file are counted quickly."""
    size = path.stat().st_size
    return size > BLOCK_BYTES or (size > 0 and path.suffix.lower() in (".parquet", ".pq"))


def default_output(path: Path) -> Path:
    """The model file of a table, named after it.

    Examples
    --------
    >>> from pathlib import Path
    >>> from usnrt.cli._large import default_output
    >>> default_output(Path("data/houses.csv.gz")), default_output(Path("sales/*.parquet"))
    (PosixPath('data/houses.usnrt'), PosixPath('sales.usnrt'))
    """
    if is_standard(path):
        raise UserError("the model of standard input needs a file to write: --output")
    if glob.has_magic(str(path)) and not path.exists():
        plain = [part for part in path.parent.parts if not glob.has_magic(part) and part not in ("/", "..")]
        return Path(f"{plain[-1] if plain else 'model'}.usnrt")
    return path.with_name(f"{path.name.split('.')[0]}.usnrt")


def fit_large(
    model: "TreeRegressor",
    source: TableSource,
    target: str,
    drop: Sequence[str],
    holdout: float,
    checkpoint: Path | None = None,
    reading: ReadOptions | None = None,
    group_column: str | None = None,
) -> int:
    """Fit a model to a table larger than memory; returns the number of rows."""
    _refuse_options(reading)
    if holdout:
        raise UserError("--holdout applies to tables that fit in memory; evaluate the model on a file of its own")
    names = next(table.column_names for table, _ in source.pieces(1))
    for name in (target, *drop, *([] if group_column is None else [group_column])):
        need_column(names, name, source.name)
    if target in drop:
        raise UserError(f"{target!r} is the target and cannot be left out")
    if target == group_column:
        raise UserError(f"{target!r} is the target and cannot be --group-column")
    rows = SelectedColumns(source, tuple(name for name in dict.fromkeys(drop) if name != group_column))
    model.fit(rows, target, groups=group_column, checkpoint=checkpoint)
    return rows.n_rows_read


def predict_large(
    model: "DistributionalRegressor",
    data: Path,
    output: Path | None,
    coverage: float,
    keep: Sequence[str],
    notify: Callable[[str], None],
    reading: ReadOptions | None = None,
) -> None:
    """Predict a table larger than memory; predictions are written as they are made."""
    from usnrt.estimators.prediction_blocks import predict_source, source_for

    _refuse_options(reading)
    source = source_for(model, data)
    assert source is not None
    lacking = n_rows = 0
    with table_writer(output) as write:
        for block, predicted in predict_source(model, source, coverage):
            for name in keep:
                if name not in block.table.column_names:
                    raise UserError(f"{block.place} has no column {name!r} to keep")
            columns = {name: block.table[name] for name in keep}
            columns |= {name: predicted[name] for name in predicted.column_names}
            write(pa.table(list(columns.values()), names=list(columns)))
            n_rows += predicted.num_rows
            if "supported" in predicted.column_names:
                lacking += predicted["supported"].to_pylist().count(False)
    if lacking:
        notify(f"{lacking:,} of {n_rows:,} rows do not resemble the training rows (column supported)")
    if output is not None and not is_standard(output):
        notify(f"wrote {output}, {n_rows:,} rows")


def _refuse_options(reading: ReadOptions | None) -> None:
    """The options of how to read files are for tables that fit in memory."""
    for name, value in vars(reading or ReadOptions()).items():
        if value not in (None, "", {}):
            raise UserError(f"--{name} applies to tables that fit in memory; convert the files to Parquet before")


class _KeptOpen(io.RawIOBase):
    """A file that stays open when the stream that compresses into it is closed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, data: Any) -> int:
        """Write to the file."""
        return self._file.write(data)


@contextmanager
def table_writer(path: Path | None) -> Iterator[Callable[[pa.Table], None]]:
    """A function that appends tables to a file, which appears when it is complete; CSV to the terminal without one."""
    is_terminal = path is None or is_standard(path)
    kind, compression = ("csv", None) if path is None or is_terminal else format_of(path)
    with ExitStack() as stack:
        stream: Any = sys.stdout.buffer if path is None or is_terminal else stack.enter_context(atomic_write(path))
        if compression is not None:
            stream = stack.enter_context(pa.CompressedOutputStream(pa.PythonFile(_KeptOpen(stream)), compression))
        writers: list[Any] = []

        def write(table: pa.Table) -> None:
            if not writers:
                if kind == "parquet":
                    writer = pq.ParquetWriter(stream, table.schema)
                else:
                    options = pa_csv.WriteOptions(delimiter="\t" if kind == "tsv" else ",")
                    writer = pa_csv.CSVWriter(stream, table.schema, write_options=options)
                writers.append(stack.enter_context(writer))
            writers[0].write_table(table.cast(writers[0].schema) if kind == "parquet" else table)

        yield write
