"""Predictions for tables outside memory, block by block."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from usnrt.estimators.prediction_table import check_coverage, prediction_table
from usnrt.tables.find_source import as_source
from usnrt.tables.sources import Block, TableSource
from usnrt.tables.streaming import pass_rows
from usnrt.utils.result_table import Table

if TYPE_CHECKING:
    from usnrt.estimators.base import DistributionalRegressor


def source_for(model: "DistributionalRegressor", X: Any) -> TableSource | None:
    """The source that X is or names, with the text columns of a model as text; None for a table in memory."""
    encoder = model.encoder_
    text = [name for name, kind in zip(encoder.source_names_, encoder.source_types_) if kind == "text"]
    return as_source(X, text)


def predict_source(
    model: "DistributionalRegressor", source: TableSource, coverage: float = 0.9
) -> Iterator[tuple[Block, Any]]:
    """The blocks of a source and their predictions.

    Parameters
    ----------
    model : DistributionalRegressor
        A fitted model.
    source : TableSource
        With the columns of the model; others are ignored.
    coverage : float, default=0.9
        Nominal coverage of the intervals.

    Yields
    ------
    block : Block
        With all columns of the source.
    predictions : pyarrow.Table, or Table for a memory map
        As from `prediction_table`.
    """
    check_coverage(coverage)
    for block in source.blocks(pass_rows(source.n_columns)):
        yield block, prediction_table(model, features_of(model, block), coverage)


def features_of(model: "DistributionalRegressor", block: Block) -> Any:
    """The model's features in their order; other columns are left out."""
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if isinstance(block.table, np.ndarray):
        return block.table
    if not names:
        if block.table.num_columns != model.n_features_in_:
            raise ValueError(
                f"{block.place} must have {model.n_features_in_} columns, because the model was fitted without names, "
                f"got {block.table.num_columns}"
            )
        return block.table.rename_columns([f"x{j}" for j in range(block.table.num_columns)])
    absent = [name for name in names if name not in block.table.column_names]
    if absent:
        raise ValueError(
            f"{block.place} must have the columns that the model was fitted on, but {absent[0]!r} is missing"
        )
    return block.table.select(names)


def joined_predictions(parts: list[Any], source: TableSource) -> Any:
    """The predictions of all blocks as one table."""
    if not parts:
        raise ValueError(f"{source.name} has no rows")
    if isinstance(parts[0], Table):
        return Table({name: np.concatenate([part[name] for part in parts]) for name in parts[0].columns})
    import pyarrow as pa

    return pa.concat_tables(parts)
