"""Predictions for Dask collections: lazy, one task per partition."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from usnrt.estimators.prediction_table import check_coverage, prediction_columns, prediction_table
from usnrt.utils.types import TableLike

if TYPE_CHECKING:
    from usnrt.estimators.base import DistributionalRegressor


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
    return_std : bool, default=False
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
