"""From a file to features and target, with error messages for tables that do not match the model."""

import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from usnrt.cli._left_out import question_about, reason_to_leave_out
from usnrt.cli._output import UserError, is_standard, read_standard_input, shown
from usnrt.cli._tables import check_roles, in_memory, open_table
from usnrt.tables.read_options import ModelColumns, ReadOptions
from usnrt.tables.sources import TableSource
from usnrt.tables.target_notices import left_out_sentence
from usnrt.tables.typed_table import Reading
from usnrt.utils.names import first_text, need_column, shown_value

if TYPE_CHECKING:
    from usnrt.estimators.base import DistributionalRegressor


@dataclass(frozen=True)
class TrainingData:
    """Features and target to fit a model to."""

    features: pa.Table
    target: NDArray[np.float64]
    reading: Reading  # how the file was read
    left_out: dict[str, str]  # columns that look like identifiers or free text, with the reason
    groups: NDArray[np.intp] | None = None  # the group of each row

    def take(self, rows: NDArray[np.intp]) -> tuple[pa.Table, NDArray[np.float64], NDArray[np.intp] | None]:
        """Features, target and groups of some rows."""
        return self.features.take(rows), self.target[rows], None if self.groups is None else self.groups[rows]


def load_model(path: Path, name: str = "") -> "DistributionalRegressor":
    """Load a model from a file or from standard input; ``name`` is that of the file in errors."""
    from usnrt.persistence import ModelFileError, load

    with model_file(path) as file:
        if not file.exists():
            raise UserError(f"{path} does not exist")
        try:
            model: DistributionalRegressor = load(file)
        except ModelFileError as error:
            raise UserError(str(error).replace(str(file), name or shown(path))) from None
    return model


@contextmanager
def model_file(path: Path) -> Iterator[Path]:
    """The path of a model file, or of a copy of standard input."""
    if not is_standard(path):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "model.usnrt"
        copy.write_bytes(read_standard_input())
        yield copy


def training_data(
    source: TableSource,
    target: str,
    drop: Sequence[str],
    notice: Callable[[str], None],
    keep: Sequence[str] = (),
    declared: Collection[str] = (),
    group_column: str | None = None,
) -> TrainingData:
    """Features and target of the training rows; rows without a target are left out.

    Columns in ``keep`` are kept though they look like identifiers or free text; so are those that the user has
    ``declared`` otherwise. The group column is no feature.
    """
    table, path = in_memory(source), Path(source.name)
    check_roles(table.column_names, source.name, target, drop, group_column)
    for name in keep:
        need_column(table.column_names, name, source.name)
    if contradictory := set(drop) & set(keep):
        raise UserError(f"--drop and --keep must name different columns, got {min(contradictory)!r} in both")
    rows, y = known_targets(table, target, path, notice)
    table = table.take(rows)
    groups = None if group_column is None else groups_of(table, group_column, path)
    features = table.drop_columns(list(dict.fromkeys([target, *drop, *([group_column] if group_column else [])])))
    if features.num_columns == 0:
        raise UserError(f"{shown(path)} must have columns besides the target, got none")
    named = {*keep, *declared}
    left_out = _left_out(features, named)
    if len(left_out) == features.num_columns:
        raise UserError(
            f"{shown(path)} has only columns to leave out: {_listed(left_out)}; --keep brings a column back"
        )
    if left_out:
        notice(f"left out: {_listed(left_out)}; --keep brings a column back")
        features = features.drop_columns(list(left_out))
    for name in features.column_names:
        if name not in named and (question := question_about(name, features[name])):
            notice(question)
    return TrainingData(_as_categories(features, keep), y, source.reading or Reading(), left_out, groups)


def groups_of(table: pa.Table, name: str, path: Path) -> NDArray[np.intp]:
    """The group of each row, from a column of any type."""
    from usnrt.tables.groups import read_groups

    if table[name].null_count:
        raise UserError(f"{shown(path)} must have a value of {name!r}, the group, in every row, got missing ones")
    return read_groups(table[name].to_numpy(), table.num_rows)


def _left_out(features: pa.Table, named: Collection[str]) -> dict[str, str]:
    reasons = {n: reason_to_leave_out(n, features[n]) for n in features.column_names if n not in named}
    return {name: reason for name, reason in reasons.items() if reason}


def _listed(left_out: dict[str, str]) -> str:
    items = [f"{name!r} ({reason})" for name, reason in left_out.items()]
    return ", ".join(items[:10]) + (f" and {len(items) - 10} more" if len(items) > 10 else "")


def _as_categories(features: pa.Table, keep: Sequence[str]) -> pa.Table:
    """Text that the user keeps is declared categorical, since the encoder ignores text that differs in every row."""
    for name in keep:
        if name in features.column_names and pa.types.is_string(features[name].type):
            position = features.column_names.index(name)
            features = features.set_column(position, name, features[name].dictionary_encode())
    return features


def table_and_features(
    model: "DistributionalRegressor",
    path: Path,
    notice: Callable[[str], None],
    options: ReadOptions | None = None,
) -> tuple[pa.Table, pa.Table]:
    """Read a table: all of its columns, and the model's features in their order."""
    from usnrt.estimators.predictions import features_of

    table = in_memory(open_table(path, notice, options, ModelColumns.of(model.encoder_)))
    return table, features_of(model, table, shown(path))


@dataclass(frozen=True)
class EvaluationData:
    """The rows of a table that have a target, to evaluate or to calibrate a model on."""

    table: pa.Table  # all columns
    features: pa.Table
    target: NDArray[np.float64]
    rows: NDArray[np.intp]  # numbers of the rows in the file, from 0


def evaluation_data(
    model: "DistributionalRegressor",
    path: Path,
    target: str | None,
    notice: Callable[[str], None],
    options: ReadOptions | None = None,
    needed: Sequence[str | None] = (),
) -> EvaluationData:
    """Read a table with further columns that are ``needed``; the target's name is that of the fit if none is given."""
    from usnrt.estimators.predictions import features_of

    name = target or model.target_name_
    if not name:
        raise UserError("the model file does not contain the name of the target; give it with --target")
    table, _ = table_and_features(model, path, notice, options)
    for column in (name, *needed):
        if column is not None:
            need_column(table.column_names, column, shown(path))
    rows, y = known_targets(table, name, path, notice)
    table = table.take(rows)
    return EvaluationData(table, features_of(model, table, shown(path)), y, rows)


def known_targets(
    table: pa.Table, target: str, path: Path, notice: Callable[[str], None]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The rows that have a target, and their targets as float64."""
    column = table[target]
    if pa.types.is_temporal(column.type):
        example = column.drop_null()[0].as_py() if column.null_count < len(column) else None
        raise UserError(f"the target {target!r} must hold numbers, got dates such as {example} in {shown(path)}")
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    try:
        values = column.cast(pa.float64()).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        row = first_text(column.to_pylist()) or 0
        value = shown_value(column[row].as_py())
        raise UserError(
            f"the target {target!r} must hold numbers, got {value} in row {row + 1} of {shown(path)}"
        ) from None
    rows = np.flatnonzero(~np.isnan(values))
    if len(rows) == 0:
        raise UserError(f"the target {target!r} has no value in any row of {shown(path)}")
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0]) + 1
        raise UserError(f"the target {target!r} must be finite, got infinity in row {row} of {shown(path)}")
    if len(rows) < len(values):
        notice(left_out_sentence(len(values) - len(rows)))
    return rows, values[rows]
