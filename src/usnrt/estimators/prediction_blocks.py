"""Predictions of tables that are read or computed block by block: sources and Dask collections."""

from collections.abc import Iterator, Set
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from usnrt.estimators.prediction_table import (
    NOTHING_FURTHER,
    FurtherColumns,
    check_coverage,
    prediction_columns,
    prediction_table,
)
from usnrt.tables.find_source import as_source
from usnrt.tables.read_options import ModelColumns
from usnrt.tables.sources import Block, TableSource
from usnrt.tables.streaming import pass_rows
from usnrt.utils.names import missing_names
from usnrt.utils.result_table import Table
from usnrt.utils.types import TableLike

if TYPE_CHECKING:
    from usnrt.estimators.base import DistributionalRegressor


def source_for(model: "DistributionalRegressor", X: TableLike) -> TableSource | None:
    """The source that X is or names, read like the table of the fit; None for a table in memory."""
    return as_source(X, model=ModelColumns.of(model.encoder_))


def predict_source(
    model: "DistributionalRegressor",
    source: TableSource,
    coverage: float = 0.9,
    further: FurtherColumns = NOTHING_FURTHER,
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
    further : FurtherColumns, optional

    Yields
    ------
    block : Block
        With all columns of the source.
    predictions : pyarrow.Table, or Table for a memory map
        As from `prediction_table`.
    """
    check_coverage(coverage)
    for block in source.blocks(pass_rows(source.n_columns)):
        predicted = prediction_table(model, features_of(model, block.table, block.place), coverage, further)
        yield block, _without_support(predicted, source.bad_rows, block)


def _without_support(predicted: Any, bad_rows: Set[int], block: Block) -> Any:
    """Predictions in which rows with unreadable cells are not supported."""
    bad = [row in bad_rows for row in range(block.start, block.start + block.n_rows)] if bad_rows else []
    if not any(bad) or "supported" not in predicted.column_names:
        return predicted
    import pyarrow as pa
    import pyarrow.compute as pc

    supported = pc.and_not(predicted["supported"], pa.array(bad))
    return predicted.set_column(predicted.column_names.index("supported"), "supported", supported)


def features_of(model: "DistributionalRegressor", table: Any, place: str) -> Any:
    """The model's features in their order; other columns are left out.

    Parameters
    ----------
    table : pyarrow.Table or ndarray
    place : str
        Where it is from, in messages.
    """
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if isinstance(table, np.ndarray):
        return table
    if not names:
        if table.num_columns != model.n_features_in_:
            raise ValueError(
                f"{place} must have {model.n_features_in_} columns, because the model was fitted without names, "
                f"got {table.num_columns}"
            )
        return table.rename_columns([f"x{j}" for j in range(table.num_columns)])
    absent = [name for name in names if name not in table.column_names]
    if absent:
        others = [name for name in table.column_names if name not in names]
        raise ValueError(
            f"{place} must have the columns that the model was fitted on, but {missing_names(absent, others)}"
        )
    return table.select(names)


def joined_predictions(parts: list[Any], source: TableSource) -> Any:
    """The predictions of all blocks as one table."""
    if not parts:
        raise ValueError(f"{source.name} has no rows")
    if isinstance(parts[0], Table):
        return Table({name: np.concatenate([part[name] for part in parts]) for name in parts[0].columns})
    import pyarrow as pa

    return pa.concat_tables(parts)


def predict_dask_table(model: "DistributionalRegressor", X: TableLike, coverage: float = 0.9) -> Any:
    """`usnrt.estimators.prediction_table.prediction_table` of each partition.

    Parameters
    ----------
    model : DistributionalRegressor
        A fitted model.
    X : dask DataFrame or Array of shape (n, d)
        A DataFrame may have other columns beside the features.
    coverage : float, default=0.9
        Nominal coverage of the intervals.

    Returns
    -------
    dask DataFrame
        With the partitions of X and, if it is a DataFrame, its index.
    """
    import dask.dataframe as dd
    from dask.delayed import delayed

    check_coverage(coverage)
    meta, shared = _meta(model, coverage), delayed(model, pure=False)
    if hasattr(X, "columns"):
        X = X[[name for name in getattr(model, "feature_names_in_", X.columns) if name in X.columns]]
        meta.index = X._meta.index[:0]
        return X.map_partitions(_predict_part, shared, coverage, meta, meta=meta)
    part = delayed(_predict_part)
    parts = [part(block, shared, coverage, meta) for block in X.rechunk({1: -1}).to_delayed().ravel()]
    return dd.from_delayed(parts, meta=meta, verify_meta=False)


def predict_dask(model: "DistributionalRegressor", X: TableLike, return_std: bool = False) -> Any:
    """Predicted means, and optionally standard deviations: Series for a DataFrame, Arrays for an Array.

    Parameters
    ----------
    model : DistributionalRegressor
        A fitted model.
    X : dask DataFrame or Array of shape (n, d)
    """
    if hasattr(X, "columns"):
        table = predict_dask_table(model, X)
        return (table["mean"], table["std"]) if return_std else table["mean"]
    X = X.rechunk({1: -1})
    columns = [X.map_blocks(_predict_block, model, name, drop_axis=1, dtype=np.float64) for name in ("mean", "std")]
    return tuple(columns) if return_std else columns[0]


def _meta(model: "DistributionalRegressor", coverage: float) -> Any:
    """An empty table of predictions."""
    import pandas as pd

    example = np.zeros((1, len(model.columns_)))
    return pd.DataFrame(prediction_columns(model._predict_encoded(example, [float(coverage)])))[:0]


def _predict_part(part: Any, model: "DistributionalRegressor", coverage: float, meta: Any) -> Any:
    """Predictions of a partition, which may be empty."""
    if len(part) == 0:
        return meta.set_axis(part.index) if hasattr(part, "index") else meta
    table = prediction_table(model, part, coverage)
    return table if hasattr(part, "index") else type(meta)({name: table[name] for name in table.columns})


def _predict_block(block: NDArray[Any], model: "DistributionalRegressor", name: str) -> NDArray[np.float64]:
    """Means or standard deviations of a block of an Array."""
    if len(block) == 0:
        return np.zeros(0)
    mean, std = model.predict(block, return_std=True)
    return np.asarray(mean if name == "mean" else std)
