"""From a file to features and target, with error messages for tables that do not match the model."""

import difflib
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from usnrt.cli._errors import UserError
from usnrt.cli._tables import read_file

if TYPE_CHECKING:
    from usnrt.estimators.base import DistributionalRegressor


def load_model(path: Path) -> "DistributionalRegressor":
    """Load a model from a file; raises `UserError`."""
    from usnrt.persistence import ModelFileError, load

    if not path.exists():
        raise UserError(f"{path} does not exist")
    try:
        model: DistributionalRegressor = load(path)
    except ModelFileError as error:
        raise UserError(str(error)) from None
    return model


def training_data(
    path: Path, target: str, drop: Sequence[str], notice: Callable[[str], None]
) -> tuple[pa.Table, NDArray[np.float64]]:
    """Features and target of the training rows; rows without a target are left out."""
    table = read_file(path, notice)
    for name in (target, *drop):
        _need(table.column_names, name, path)
    if target in drop:
        raise UserError(f"{target!r} is the target and cannot be left out")
    table, y = with_target(table, target, path, notice)
    features = table.drop_columns([target, *dict.fromkeys(drop)])
    if features.num_columns == 0:
        raise UserError(f"{path} must have columns besides the target, got none")
    return features, y


def table_and_features(
    model: "DistributionalRegressor", path: Path, notice: Callable[[str], None]
) -> tuple[pa.Table, pa.Table]:
    """Read a table: all of its columns, and the model's features in their order."""
    encoder = model.encoder_
    text = [name for name, kind in zip(encoder.source_names_, encoder.source_types_) if kind == "text"]
    table = read_file(path, notice, text_columns=text)
    return table, features_of(model, table, path)


def features_and_target(
    model: "DistributionalRegressor", path: Path, target: str | None, notice: Callable[[str], None]
) -> tuple[pa.Table, NDArray[np.float64]]:
    """Features and target to evaluate a model on; the target's name is that of the fit if none is given."""

    name = target or model.target_name_
    if not name:
        raise UserError("the model file does not contain the name of the target; give it with --target")
    table, _ = table_and_features(model, path, notice)
    _need(table.column_names, name, path)
    table, y = with_target(table, name, path, notice)
    return features_of(model, table, path), y


def features_of(model: "DistributionalRegressor", table: pa.Table, path: Path) -> pa.Table:
    """The model's features in their order; other columns of the table are ignored."""
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if not names:
        if table.num_columns != model.n_features_in_:
            raise UserError(
                f"{path} must have {model.n_features_in_} columns, because the model was fitted without names, "
                f"got {table.num_columns}"
            )
        return table.rename_columns([f"x{j}" for j in range(table.num_columns)])
    absent = [name for name in names if name not in table.column_names]
    if absent:
        shown = ", ".join(map(repr, absent[:5])) + (", ..." if len(absent) > 5 else "")
        raise UserError(f"{path} must have the columns that the model was fitted on, but {shown} is missing")
    return table.select(names)


def with_target(
    table: pa.Table, target: str, path: Path, notice: Callable[[str], None]
) -> tuple[pa.Table, NDArray[np.float64]]:
    """The rows that have a target, and the target as float64."""
    column = table[target]
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    try:
        values = column.cast(pa.float64()).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        row, value = _first_text(column)
        raise UserError(f"the target {target!r} must hold numbers, got {value!r} in row {row} of {path}") from None
    known = ~np.isnan(values)
    if not known.any():
        raise UserError(f"the target {target!r} has no value in any row of {path}")
    if not known.all():
        count = int((~known).sum())
        rows = "1 row without a target was" if count == 1 else f"{count:,} rows without a target were"
        notice(f"{rows} left out")
        table, values = table.filter(pa.array(known)), values[known]
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0]) + 1
        raise UserError(f"the target {target!r} must be finite, got infinity in row {row} of {path}")
    return table, values


def _first_text(column: pa.ChunkedArray) -> tuple[int, Any]:
    for row, value in enumerate(column.to_pylist(), start=1):
        try:
            float(value if value is not None else 0)
        except (TypeError, ValueError):
            return row, value
    return 1, column[0].as_py()


def _need(names: Collection[str], name: str, path: Path) -> None:
    if name in names:
        return
    close = difflib.get_close_matches(name, list(names), n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"its columns are {', '.join(list(names)[:12])}"
    raise UserError(f"{path} has no column {name!r}; {hint}")
