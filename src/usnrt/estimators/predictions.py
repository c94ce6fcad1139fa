"""Predictions of all kinds as tables: of tables in memory, of sources read block by block, and of Dask collections."""

import warnings
from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from usnrt.calibration.groups import insufficient_calibration
from usnrt.distributions import Distribution
from usnrt.tables.find_source import as_source
from usnrt.tables.read_options import ModelColumns
from usnrt.tables.sources import Block, TableSource
from usnrt.tables.streaming import pass_rows
from usnrt.utils.constraints import check_number
from usnrt.utils.names import missing_names
from usnrt.utils.notices import UnguaranteedIntervalWarning
from usnrt.utils.result_table import Table
from usnrt.utils.types import Floats, TableLike

if TYPE_CHECKING:
    from usnrt.estimators.base import DistributionalRegressor


@dataclass(frozen=True)
class EncodedPredictions:
    """Predictions for n encoded rows, in units of the target."""

    distribution: Distribution  # without the parts of its variance (aleatoric, epistemic) if the model is calibrated
    bounds: Floats  # shape (n, 2, k); as from ``predict_interval`` with k coverages
    region: NDArray[np.int64] | None  # shape (n,); as from ``apply``; None for models without regions
    supported: NDArray[np.bool_] | None  # shape (n,); as from ``predict_support``; None for models without support
    # shape (n, k); whether there are enough calibration rows for intervals with guaranteed coverage; None if not
    # calibrated
    guaranteed: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class FurtherColumns:
    """What a table of predictions has beside its usual columns.

    Examples
    --------
    >>> from usnrt.distributions import Normal
    >>> FurtherColumns((0.5,), 0.0).of(Normal([0.0], [1.0]))
    {'q0.5': array([0.]), 'probability_above': array([0.5])}
    """

    quantiles: tuple[float, ...] = ()  # levels of the columns ``q<level>``
    above: float | None = None  # the limit of the column ``probability_above``

    def of(self, dist: Distribution) -> dict[str, NDArray[Any]]:
        """The columns."""
        columns: dict[str, NDArray[Any]] = {}
        if self.quantiles:
            levels = dist.ppf(list(self.quantiles)).T
            columns |= {f"q{level:g}": values for level, values in zip(self.quantiles, levels)}
        return columns if self.above is None else {**columns, "probability_above": dist.sf(self.above)}


NOTHING_FURTHER = FurtherColumns()


def prediction_table(
    model: "DistributionalRegressor", X: TableLike, coverage: float = 0.9, further: FurtherColumns = NOTHING_FURTHER
) -> Any:
    """Mean, standard deviation, interval, region and support of every row; see ``predict_table``.

    A pandas, polars or pyarrow table gives the same kind of frame, with the index of a pandas frame kept; anything else
    gives a `usnrt.utils.result_table.Table`.
    """
    check_number("coverage", coverage, 0, 1)
    predicted = model._predict_encoded(model._encode(X), [float(coverage)])
    if predicted.guaranteed is not None and not predicted.guaranteed.all():
        insufficient = insufficient_calibration(getattr(model, "calibration_", None), float(coverage))
        if insufficient is not None:
            warnings.warn(insufficient.unguaranteed, UnguaranteedIntervalWarning, stacklevel=3)
    return like_frame(prediction_columns(predicted) | further.of(predicted.distribution), X)


def like_frame(columns: dict[str, NDArray[Any]], X: TableLike) -> Any:
    """Columns as a frame of the library that X came from, with its index, or as a `Table` if X is no frame.

    Examples
    --------
    >>> like_frame({"mean": np.array([1.0])}, [[0.0]])
       mean
    0     1
    """
    frame = nw.from_native(X, pass_through=True, eager_only=True)
    if not isinstance(frame, nw.DataFrame):
        return Table(columns)
    result = nw.from_dict(columns, backend=frame.implementation).to_native()
    if frame.implementation.is_pandas():
        result.index = X.index
    return result


def prediction_columns(predicted: EncodedPredictions) -> dict[str, NDArray[Any]]:
    """The columns of a table of predictions with one coverage."""
    dist, bounds = predicted.distribution, predicted.bounds
    columns: dict[str, NDArray[Any]] = {"mean": dist.mean(), "std": dist.std()}
    columns |= {"lower": bounds[:, 0, 0], "upper": bounds[:, 1, 0]}
    if predicted.region is not None:
        columns["region"] = predicted.region
    if predicted.supported is not None:
        columns["supported"] = predicted.supported
    if predicted.guaranteed is not None:
        columns["guaranteed"] = predicted.guaranteed[:, 0]
    return columns


# -- block by block ------------------------------------------------------------------------------------------------


def source_for(model: "DistributionalRegressor", X: TableLike) -> TableSource | None:
    """The source that X is or names, read like the table of the fit; None for a table in memory."""
    return as_source(X, model=ModelColumns.of(model.encoder_))


def predict_source(
    model: "DistributionalRegressor",
    source: TableSource,
    coverage: float = 0.9,
    further: FurtherColumns = NOTHING_FURTHER,
) -> Iterator[tuple[Block, Any]]:
    """The blocks of a source with all of its columns, each with its predictions as from `prediction_table`."""
    check_number("coverage", coverage, 0, 1)
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
    """The model's features in their order; other columns are left out. Messages name the place of the table."""
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
    """`usnrt.estimators.predictions.prediction_table` of each partition, as a Dask DataFrame.

    It has the partitions of X and its index, if X is a DataFrame; that may have other columns beside the features.
    """
    import dask.dataframe as dd
    from dask.delayed import delayed

    check_number("coverage", coverage, 0, 1)
    meta, shared = _meta(model, coverage), delayed(model, pure=False)
    if hasattr(X, "columns"):
        X = X[[name for name in getattr(model, "feature_names_in_", X.columns) if name in X.columns]]
        meta.index = X._meta.index[:0]
        return X.map_partitions(_predict_part, shared, coverage, meta, meta=meta)
    part = delayed(_predict_part)
    parts = [part(block, shared, coverage, meta) for block in X.rechunk({1: -1}).to_delayed().ravel()]
    return dd.from_delayed(parts, meta=meta, verify_meta=False)


def predict_dask(model: "DistributionalRegressor", X: TableLike, return_std: bool = False) -> Any:
    """Predicted means, and optionally standard deviations: Series for a DataFrame, Arrays for an Array."""
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


def _predict_block(block: NDArray[Any], model: "DistributionalRegressor", name: str) -> Floats:
    """Means or standard deviations of a block of an Array."""
    if len(block) == 0:
        return np.zeros(0)
    mean, std = model.predict(block, return_std=True)
    return np.asarray(mean if name == "mean" else std)
