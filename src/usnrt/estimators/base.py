"""Base of all estimators: reading tables and targets, and all predictions derived from one distribution."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
)

from usnrt.estimators.cluster_fit import active_client, fit_on_cluster
from usnrt.estimators.dask_predictions import predict_dask, predict_dask_table
from usnrt.estimators.fit_identity import check_resumable, identity_of
from usnrt.estimators.prediction_blocks import joined_predictions, predict_source, source_for
from usnrt.estimators.prediction_table import EncodedPredictions, check_coverage, prediction_table
from usnrt.estimators.targets import check_target, read_target
from usnrt.tables import Column, NetworkInputs, TableEncoder, read_table
from usnrt.tables.dask_rows import DaskRows, dask_rows, is_dask
from usnrt.tables.find_source import as_source, read_whole, training_source
from usnrt.tables.fingerprint import fingerprint
from usnrt.tables.reading import FeatureTable
from usnrt.tables.rows import counted_weight, merged_rows
from usnrt.tables.store import MemoryStore, RowStore
from usnrt.tables.streaming import BLOCK_ROWS, TrainingSource, build_store
from usnrt.tables.time import read_time, time_position
from usnrt.tables.training import DistinctRows, TrainingTable, take_rows
from usnrt.utils.blas import ONE_BLAS_THREAD
from usnrt.utils.checkpoint import NO_CHECKPOINT, Checkpoint, Folder, opened
from usnrt.utils.constraints import Constraint, check_parameters
from usnrt.utils.progress import Progress
from usnrt.utils.result_table import Table
from usnrt.utils.scratch import scratch_folder
from usnrt.utils.types import Floats

if TYPE_CHECKING:
    from usnrt.distributions import Distribution, TargetMap


class DistributionalRegressor(RegressorMixin, BaseEstimator):
    """Base of all estimators: a scikit-learn regressor that predicts distributions.

    A subclass defines ``_CONSTRAINTS``, the constraints of all its parameters; ``_fit(rows)``, which fits it to
    `DistinctRows` (most call ``_scaled_table`` first); and ``_distribution(raw)``, which returns the distributions of
    the *scaled* target for encoded rows. Everything else is here.

    A fit that fails or is interrupted leaves the estimator as it was.
    """

    categorical_features: Any = None
    # Name of the target, from the Series that was fitted or set by the caller; shown by reports and the command line.
    target_name_: str | None = None
    # From the scale that the networks learn to the target, before scaling; None for the identity without bounds.
    target_map_: "TargetMap | None" = None
    # Mean and standard deviation of the training targets if the target is mapped, else None.
    target_moments_: tuple[float, float] | None = None
    # Constraints of all parameters, by name.
    _CONSTRAINTS: ClassVar[Mapping[str, Constraint]] = {}
    # Whether a fit stores its state in `_checkpoint`, which `fit` sets for the time of the fit.
    _RESUMABLE: ClassVar[bool] = False
    _checkpoint: Checkpoint = NO_CHECKPOINT

    def fit(
        self,
        X: Any,
        y: ArrayLike | str,
        sample_weight: ArrayLike | str | None = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        scratch: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Fit the model to a table.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features), or source of rows
            numpy, pandas, polars or pyarrow. Text and categories are categorical; missing values are allowed. Or a
            table outside memory: the path of a Parquet or CSV file, of a folder of them, or a pattern such as
            ``"sales/*.parquet"``; a ``pyarrow.dataset.Dataset``; an iterator of record batches, tables or data frames;
            a ``numpy.memmap``; a Dask DataFrame or Array. It is read as a whole if it has at most 1,048,576 rows and
            512 MB of numbers, and the model is then that of the same table in memory. A larger one is read block by
            block. Dask collections are fitted on the workers of the active ``distributed.Client``, if there is one.
        y : array-like of shape (n_samples,), or str
            The target; the name of its column if X is a source of rows other than a ``numpy.memmap``. For Dask
            collections a Series or Array with the partitions of X, or the name of a column.
        sample_weight : array-like of shape (n_samples,), or str, default=None
            Weights of the rows. Whole numbers are repetitions: a weight of 2 is equivalent to repeating the row. Other
            weights are scaled to average 1. All copies of a row are training rows, validation rows or calibration rows
            together. The name of a column if ``y`` is one.
        checkpoint : path-like, default=None
            A folder for the state of a long fit: finished parts, and every few minutes the networks in training. If the
            fit is interrupted or its process killed, the same call goes on from there, and the model is the same, bit
            for bit. The folder must be new, empty, or that of a fit with the same data and parameters (``n_jobs``,
            ``verbose`` and ``callbacks`` may differ). It is removed when the fit is complete. For trees and their
            ensembles only.
        scratch : path-like, default=None
            Where to write temporary files if the table is too large for memory; None for the system's folder. They are
            about as large as the table and are removed when the fit has ended.

        Returns
        -------
        self
        """
        self._check_parameters()
        check_resumable(self, checkpoint)
        before = dict(self.__dict__)
        try:
            with ONE_BLAS_THREAD, opened(checkpoint) as folder:
                source = as_source(X)
                if is_dask(X):
                    self._fit_dask(dask_rows(X, y, sample_weight), scratch, folder)
                elif source is None:
                    self._fit_rows(self._read_rows(X, y, sample_weight), folder)
                else:
                    self._fit_source(training_source(source, y, sample_weight), scratch, folder)
                self.__dict__.pop("_checkpoint", None)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _check_parameters(self) -> None:
        """Check the constraints of all parameters, and their combinations, before any data is read."""
        check_parameters(self.get_params(deep=False), self._CONSTRAINTS)

    def _fit(self, rows: DistinctRows) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _fit")

    def _fit_store(self, store: RowStore) -> None:
        """Fit to a table larger than memory; ``encoder_``, ``fingerprint_`` and the feature names are set already."""
        raise NotImplementedError(f"{type(self).__name__} must define _fit_store")

    def _check_fits_store(self) -> None:
        """Refuse tables larger than memory before they are read, if the estimator or a parameter needs them whole."""
        if type(self)._fit_store is DistributionalRegressor._fit_store:
            raise ValueError(
                f"{type(self).__name__} needs a table in memory, of at most {BLOCK_ROWS:,} rows; "
                "fit USNRTRegressor, or a sample of the rows"
            )
        for name in ("target_bounds", "target_transform", "time_column"):
            if self._parameter(name) is not None:
                raise ValueError(
                    f"{name} needs a table in memory, of at most {BLOCK_ROWS:,} rows; fit a sample of the rows"
                )

    def _resume(self, checkpoint: Folder, store: RowStore) -> None:
        """Go on from the checkpoint of a fit to these rows, or begin one."""
        self._checkpoint = checkpoint.resume(identity_of(self, store, self.encoder_.n_categories_))

    def _fit_rows(self, rows: DistinctRows, checkpoint: Folder | None) -> None:
        """Fit to rows in memory."""
        if checkpoint is not None:
            self._resume(checkpoint, MemoryStore(rows))
        self._fit(rows)

    def _fit_source(
        self, rows: TrainingSource, scratch: str | os.PathLike[str] | None, checkpoint: Folder | None
    ) -> None:
        """Fit to a table outside memory, in memory if it is small enough."""
        whole = read_whole(rows)
        if whole is not None:
            self._fit_rows(self._read_rows(whole.X, whole.target, whole.weight), checkpoint)
        else:
            self._check_fits_store()
            notify = Progress(getattr(self, "verbose", 0)).note
            with scratch_folder(scratch) as folder:
                stored = build_store(rows, folder, self._parameter("categorical_features"), notify)
                read_table(self, stored.example, reset=True)
                self.encoder_, self.fingerprint_ = stored.encoder, stored.store.fingerprint
                if checkpoint is not None:
                    self._resume(checkpoint, stored.store)
                self._fit_store(stored.store)
        self.target_name_ = rows.target if isinstance(rows.target, str) else None

    def _fit_dask(self, rows: DaskRows, scratch: str | os.PathLike[str] | None, checkpoint: Folder | None) -> None:
        """Fit to a Dask collection: on the workers of the active client, or here, partition by partition."""
        client = active_client()
        if client is None:
            self._fit_source(rows, scratch, checkpoint)
        else:
            fit_on_cluster(self, rows, client, checkpoint)

    def _distribution(self, raw: NDArray[np.float64]) -> "Distribution":
        raise NotImplementedError(f"{type(self).__name__} must define _distribution")

    def _without_parts(self, raw: NDArray[np.float64]) -> "Distribution":
        """``_distribution(raw)``, perhaps without the parts of its variance, which cost time."""
        return self._distribution(raw)

    # -- reading tables -----------------------------------------------------------------------------------------

    def _parameter(self, name: str) -> Any:
        """A parameter about the table, None if the estimator does not have it; ensembles share it with members."""
        return getattr(self, name, None)

    def _read_rows(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> DistinctRows:
        """Encode a table, and merge its equal rows."""
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        features = read_table(self, X, reset=True)
        target = read_target(y)
        check_consistent_length(X, target)
        check_target(target, self._parameter("target_bounds"), self._parameter("target_transform"))
        if len(target) < 2:
            raise ValueError(f"{type(self).__name__} needs at least 2 rows, got n_samples={len(target)}")
        weight = _check_sample_weight(sample_weight, target, dtype=np.float64, ensure_non_negative=True)
        if not weight.any():
            raise ValueError("sample_weight must be positive for at least one row, got only zeros")
        column = self._parameter("time_column")
        position = None if column is None else time_position(column, features)
        encoder = TableEncoder().fit(features, self._parameter("categorical_features"), position)
        time = None if position is None else _read_time(encoder, features, position)
        raw = encoder.transform(features)
        if np.count_nonzero(weight) < 2 and weight.sum() < 2:
            raise ValueError(f"{type(self).__name__} needs at least 2 rows with a positive weight, got 1")
        # Equal rows of different times stay apart.
        compared = raw if time is None else np.column_stack([raw, time])
        rows, weight = merged_rows(compared, target, counted_weight(weight))
        raw, target = take_rows(raw, rows), target[rows]
        self.encoder_ = encoder
        name = getattr(y, "name", None)
        self.target_name_ = name if isinstance(name, str) else None
        self.fingerprint_ = fingerprint(raw, target, weight)  # of the rows that have a weight
        return DistinctRows(raw, target, weight, rows, None if time is None else time[rows])

    def _scaled_table(self, rows: DistinctRows) -> TrainingTable:
        """Fit the scaling of network inputs and target on these rows, and apply it to them."""
        raw, weight = rows.raw, rows.weight
        target, self.target_moments_ = rows.target, None
        if self.target_map_ is not None:
            mean = float(np.average(target, weights=weight))
            self.target_moments_ = mean, float(np.sqrt(np.average((target - mean) ** 2, weights=weight)))
            target = self.target_map_.to_model(target)
        self.inputs_ = NetworkInputs().fit(raw, self.encoder_.columns_, sample_weight=weight)
        self.target_mean_ = float(np.average(target, weights=weight))
        deviation = target - self.target_mean_
        largest = float(np.abs(deviation).max())
        # The standard deviation of a constant target is tiny but positive, so that densities are finite.
        if largest <= 1e-12 * abs(self.target_mean_):
            # That of zeros is far from the smallest number: other targets, in a calibration, are multiples of it.
            self.target_std_ = max(1e-12 * abs(self.target_mean_), 1e-100) if self.target_mean_ else 1e-50
            scaled = np.zeros_like(target)
        else:
            # divided before squaring, so that squares of huge numbers do not overflow
            self.target_std_ = largest * float(np.sqrt(np.average((deviation / largest) ** 2, weights=weight)))
            scaled = deviation / self.target_std_
        return TrainingTable(raw, self.inputs_.transform(raw), scaled, weight)

    def _encode(self, X: Any) -> NDArray[np.float64]:
        if not hasattr(self, "encoder_"):
            check_is_fitted(self)
        if isinstance(X, str | os.PathLike):
            raise TypeError(f"predict_table and predict_blocks take files, this takes a table in memory, got {X!r}")
        if is_dask(X):
            raise TypeError("predict and predict_table take Dask collections, this takes a table in memory")
        return self.encoder_.transform(read_table(self, X, reset=False))

    def _to_model(self, target: Floats) -> Floats:
        """Scaled targets, as the networks predict them."""
        mapped = target if self.target_map_ is None else self.target_map_.to_model(target)
        return (mapped - self.target_mean_) / self.target_std_

    def _to_target(self, scaled: Floats) -> Floats:
        """Values in units of the target, within its bounds, from scaled ones."""
        values = self.target_mean_ + self.target_std_ * scaled
        return values if self.target_map_ is None else self.target_map_.to_target(values)

    def _in_units(self, dist: "Distribution") -> "Distribution":
        """Distributions of the target from those of the scaled target."""
        dist = dist.scaled(self.target_mean_, self.target_std_)
        if self.target_map_ is None:
            return dist
        from usnrt.distributions import TransformedDistribution

        return TransformedDistribution(dist, self.target_map_)

    @property
    def columns_(self) -> list[Column]:
        """Name, kind and categories of each column."""
        return self.encoder_.columns_

    # -- predictions ------------------------------------------------------------------------------------------------

    def predict_dist(self, X: Any) -> "Distribution":
        """Predictive distributions, one per row.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)

        Returns
        -------
        Distribution
            With ``mean()``, ``std()``, ``pdf``, ``logpdf``, ``cdf``, ``ppf``, ``interval``, ``rvs``, ``crps``.
        """
        return self._in_units(self._distribution(self._encode(X)))

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predicted mean and optionally standard deviation.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
        return_std : bool, default=False

        Returns
        -------
        mean : ndarray of shape (n_samples,)
        std : ndarray of shape (n_samples,)
            Only with ``return_std=True``.
        """
        if is_dask(X):
            check_is_fitted(self, "encoder_")
            return predict_dask(self, X, return_std)
        dist = self._in_units(self._without_parts(self._encode(X)))
        return (dist.mean(), dist.std()) if return_std else dist.mean()

    def predict_interval(self, X: Any, coverage: float | Sequence[float] = 0.9) -> NDArray[np.float64]:
        """Central prediction intervals with a nominal coverage.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
        coverage : float or sequence of k floats, default=0.9
            Nominal coverage, in (0, 1).

        Returns
        -------
        ndarray of shape (n_samples, 2), or (n_samples, 2, k) for a sequence
            Lower and upper bounds.
        """
        return self._in_units(self._without_parts(self._encode(X))).interval(coverage)

    def predict_quantiles(self, X: Any, levels: Sequence[float]) -> NDArray[np.float64]:
        """Quantiles; they never cross.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
        levels : sequence of q floats
            In (0, 1).

        Returns
        -------
        ndarray of shape (n_samples, q)
        """
        dist = self._in_units(self._without_parts(self._encode(X)))
        return dist.ppf(np.atleast_1d(np.asarray(levels, dtype=np.float64)))

    def predict_variance(self, X: Any) -> Table:
        """Variance and its parts.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)

        Returns
        -------
        Table
            Columns ``aleatoric``, ``epistemic`` (disagreement between the members of an ensemble, plus the widening
            for lack of support; not all of the uncertainty that more data would reduce) and ``total``; NaN where a
            model does not estimate a part.
        """
        dist = self.predict_dist(X)
        unknown = np.full(len(dist), np.nan)
        parts = {
            "aleatoric": unknown if dist.aleatoric is None else dist.aleatoric,
            "epistemic": unknown if dist.epistemic is None else dist.epistemic,
        }
        return Table({**parts, "total": dist.var()})

    def _predict_encoded(self, raw: Floats, coverages: list[float]) -> EncodedPredictions:
        """Predictions of all kinds for encoded rows; the networks run once.

        Parameters
        ----------
        raw : ndarray of shape (n, n_columns)
            Encoded rows, ``self._encode(X)``.
        coverages : list of k floats
            In (0, 1).
        """
        dist = self._in_units(self._distribution(raw))
        return EncodedPredictions(dist, dist.interval(coverages), None, None)

    def predict_table(self, X: Any, coverage: float = 0.9) -> Any:
        """Mean, standard deviation, interval, region and support as a table of the library that X came from.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features), or source of rows
            A source, as in `fit`, may have other columns beside the features; the predictions are in memory. Those for
            a Dask DataFrame or Array are a lazy Dask DataFrame.
        coverage : float, default=0.9
            Nominal coverage of the interval from ``lower`` to ``upper``.

        Returns
        -------
        data frame or Table
            Columns ``mean``, ``std``, ``lower``, ``upper`` and, for models with regions, ``region`` (as from
            ``apply``) and ``supported`` (see ``predict_support``); a pandas index is kept. A pyarrow Table for sources.
        """
        check_is_fitted(self, "encoder_")
        if is_dask(X):
            return predict_dask_table(self, X, coverage)
        source = source_for(self, X)
        if source is None:
            return prediction_table(self, X, coverage)
        return joined_predictions([part for _, part in predict_source(self, source, coverage)], source)

    def predict_blocks(self, X: Any, coverage: float = 0.9) -> Iterator[Any]:
        """``predict_table`` for a table larger than memory, block by block.

        Parameters
        ----------
        X : source of rows
            As in `fit`: a path, a pattern, a ``pyarrow.dataset.Dataset``, an iterator of record batches, a
            ``numpy.memmap``. It may have other columns beside the features.
        coverage : float, default=0.9
            Nominal coverage of the interval from ``lower`` to ``upper``.

        Yields
        ------
        pyarrow.Table, or Table for a memory map or for a table in memory
            The predictions of the next rows.
        """
        check_is_fitted(self, "encoder_")
        check_coverage(coverage)
        source = source_for(self, X)
        if source is None:
            return iter([prediction_table(self, X, coverage)])
        return (part for _, part in predict_source(self, source, coverage))

    def save(self, path: Any) -> None:
        """Write the model to one file that `usnrt.load` reads; loading it never runs code.

        Parameters
        ----------
        path : str or path-like
            Conventionally with the extension ``.usnrt``.
        """
        from usnrt.persistence import save

        save(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def _read_time(encoder: TableEncoder, features: FeatureTable, position: int) -> Floats:
    """The time of each row, at least two different ones."""
    name = features.names[position]
    time = read_time(encoder._checked(features.column(position), position), name)
    if time.min() == time.max():
        raise ValueError(f"time_column must have at least two different values, got {name!r}")
    return time
