"""Tables of the commands: files, folders, patterns and standard input, in memory or block by block."""

import glob
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as pa_csv

from usnrt.cli._output import UserError, is_standard, read_standard_input
from usnrt.tables.files import Input, format_of
from usnrt.tables.find_source import as_source, file_source, fits_memory, whole_table
from usnrt.tables.read_options import ModelColumns, ReadOptions
from usnrt.tables.sources import SelectedColumns, TableSource
from usnrt.utils.atomic_write import atomic_write
from usnrt.utils.names import need_column
from usnrt.utils.result_table import json_value

if TYPE_CHECKING:
    from usnrt.estimators.base import DistributionalRegressor
    from usnrt.estimators.predictions import FurtherColumns
    from usnrt.estimators.tree_regressor import TreeRegressor


def open_table(
    path: Path,
    notify: Callable[[str], None],
    options: ReadOptions | None = None,
    model: ModelColumns | None = None,
) -> TableSource:
    """The table of a path, or of standard input; ``notify`` is told what was guessed."""
    if is_standard(path):
        data = read_standard_input()
        return file_source([Input.standard(data)], "standard input", options, model, notify)
    source = as_source(path, options, model, notify)
    assert source is not None
    return source


def in_memory(source: TableSource) -> pa.Table:
    """All rows of a table, for commands that need them at once."""
    if not fits_memory(source):
        raise UserError(f"{source.name} has too many rows for this command; give it some of the files")
    return whole_table(source)


def default_output(path: Path) -> Path:
    """The model file of a table, named after it.

    Examples
    --------
    >>> from pathlib import Path
    >>> from usnrt.cli._tables import default_output
    >>> default_output(Path("data/houses.csv.gz")), default_output(Path("sales/*.parquet"))
    (PosixPath('data/houses.usnrt'), PosixPath('sales.usnrt'))
    """
    if is_standard(path):
        raise UserError("the model of standard input needs a file to write: --output")
    if glob.has_magic(str(path)) and not path.exists():
        plain = [part for part in path.parent.parts if not glob.has_magic(part) and part not in ("/", "..")]
        return Path(f"{plain[-1] if plain else 'model'}.usnrt")
    return path.with_name(f"{path.name.split('.')[0]}.usnrt")


def check_roles(names: Sequence[str], place: str, target: str, drop: Sequence[str], group_column: str | None) -> None:
    """Refuse columns that a table does not have, and a target that is something else too."""
    for name in (target, *drop, *([] if group_column is None else [group_column])):
        need_column(names, name, place)
    if target in drop:
        raise UserError(f"{target!r} is the target and cannot be left out")
    if target == group_column:
        raise UserError(f"{target!r} is the target and cannot be --group-column")


def fit_large(
    model: "TreeRegressor",
    source: TableSource,
    target: str,
    drop: Sequence[str],
    holdout: float,
    checkpoint: Path | None = None,
    group_column: str | None = None,
) -> int:
    """Fit a model to a table larger than memory; returns the number of rows."""
    if holdout:
        raise UserError("--holdout applies to tables that fit in memory; evaluate the model on a file of its own")
    names = next(table.column_names for table, _ in source.raw.pieces(1))
    check_roles(names, source.name, target, drop, group_column)
    rows = SelectedColumns(source, tuple(name for name in dict.fromkeys(drop) if name != group_column))
    model.fit(rows, target, groups=group_column, checkpoint=checkpoint)
    return rows.n_rows_read


def predict_blocks(
    model: "DistributionalRegressor",
    source: TableSource,
    coverage: float,
    keep: Sequence[str],
    further: "FurtherColumns",
) -> Iterator[pa.Table]:
    """The predictions of a table, block by block, after the columns to keep."""
    from usnrt.estimators.predictions import predict_source

    for block, predicted in predict_source(model, source, coverage, further):
        for name in keep:
            if name not in block.table.column_names:
                raise UserError(f"{block.place} has no column {name!r} to keep")
            if name in predicted.column_names:
                raise UserError(f"--keep must name columns that predictions do not have, got {name!r}")
        kept = dict.fromkeys(keep)
        names = [*kept, *predicted.column_names]
        columns = [block.table[name] if name in kept else predicted[name] for name in names]
        yield pa.table(columns, names=names)


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


Write = Callable[[pa.Table], Any]


@contextmanager
def table_writer(path: Path | None) -> Iterator[Write]:
    """A function that appends tables to a file, which appears when it is complete; CSV to the terminal without one."""
    is_terminal = path is None or is_standard(path)
    kind, compression = ("csv", None) if path is None or is_terminal else format_of(path)
    with ExitStack() as stack:
        stream: Any = sys.stdout.buffer if path is None or is_terminal else stack.enter_context(atomic_write(path))
        if compression is not None:
            stream = stack.enter_context(pa.CompressedOutputStream(pa.PythonFile(_KeptOpen(stream)), compression))
        writers: list[Write] = []

        def write(table: pa.Table) -> None:
            if not writers:
                writers.append(stack.enter_context(_WRITERS[kind](stream, table.schema)))
            writers[0](table)

        yield write


def _csv_writer(delimiter: str) -> Callable[[Any, pa.Schema], AbstractContextManager[Write]]:
    @contextmanager
    def open_writer(stream: Any, schema: pa.Schema) -> Iterator[Write]:
        with pa_csv.CSVWriter(stream, schema, write_options=pa_csv.WriteOptions(delimiter=delimiter)) as writer:
            yield writer.write_table

    return open_writer


@contextmanager
def _parquet_writer(stream: Any, schema: pa.Schema) -> Iterator[Write]:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(stream, schema) as writer:
        yield lambda table: writer.write_table(table.cast(writer.schema))


@contextmanager
def _feather_writer(stream: Any, schema: pa.Schema) -> Iterator[Write]:
    with pa.ipc.new_file(stream, schema) as writer:
        yield writer.write_table


@contextmanager
def _json_lines_writer(stream: Any, schema: pa.Schema) -> Iterator[Write]:
    def write(table: pa.Table) -> None:
        lines = [json.dumps(json_value(row), ensure_ascii=False, default=str) + "\n" for row in table.to_pylist()]
        stream.write("".join(lines).encode())

    yield write


@contextmanager
def _workbook_writer(stream: Any, schema: pa.Schema) -> Iterator[Write]:
    try:
        from openpyxl import Workbook
    except ImportError:
        raise UserError("workbooks are written by openpyxl; install usnrt[excel], or write CSV") from None
    book = Workbook(write_only=True)
    sheet = book.create_sheet()
    sheet.append(schema.names)

    def write(table: pa.Table) -> None:
        for row in zip(*(column.to_pylist() for column in table.itercolumns())):
            sheet.append(row)

    yield write
    buffer = io.BytesIO()  # zip files need a stream that can seek
    book.save(buffer)
    stream.write(buffer.getvalue())


_WRITERS = {
    "csv": _csv_writer(","),
    "tsv": _csv_writer("\t"),
    "parquet": _parquet_writer,
    "feather": _feather_writer,
    "jsonl": _json_lines_writer,
    "xlsx": _workbook_writer,
}
