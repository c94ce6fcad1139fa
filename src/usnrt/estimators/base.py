"""Base of all estimators: fitting to tables in memory, outside it and on a cluster, and predictions of all kinds."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from usnrt.distributions import Distribution
from usnrt.distributions.base import check_levels
from usnrt.estimators.cluster_fit import active_client, fit_on_cluster
from usnrt.estimators.predictions import (
    NOTHING_FURTHER,
    EncodedPredictions,
    FurtherColumns,
    joined_predictions,
    predict_dask,
    predict_dask_table,
    predict_source,
    prediction_table,
    source_for,
)
from usnrt.estimators.reading import check_resumable, encode_rows, identity_of, read_training_rows, training_columns
from usnrt.model.scaling import scale_rows
from usnrt.model.target import TargetScale
from usnrt.nn.device import DISK_CACHE
from usnrt.tables import Column, read_table
from usnrt.tables.dask_rows import DaskRows, dask_rows, is_dask
from usnrt.tables.find_source import WholeTable, as_source, read_whole, training_source
from usnrt.tables.rows import fingerprint
from usnrt.tables.store import MemoryStore, RowStore
from usnrt.tables.streaming import BLOCK_ROWS, TrainingSource, build_store
from usnrt.tables.training import DistinctRows, TrainingTable
from usnrt.utils.checkpoint import NO_CHECKPOINT, Checkpoint, Folder, opened
from usnrt.utils.constraints import Constraint, check_choice, check_number, check_parameters
from usnrt.utils.folders import scratch_folder
from usnrt.utils.progress import Progress
from usnrt.utils.result_table import Table
from usnrt.utils.threads import ONE_BLAS_THREAD
from usnrt.utils.types import Floats, Rows, TableLike

Output = Literal["mean", "median", "quantiles", "full"]
DECILES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


class DistributionalRegressor(RegressorMixin, BaseEstimator):
    """Base of all estimators: a scikit-learn regressor that predicts distributions.

    A subclass defines ``_CONSTRAINTS``, the constraints of all its parameters; ``_fit(rows)``, which fits it to
    `DistinctRows` (most call ``_scaled_table`` first); and ``_distribution(raw)``, which returns the distributions of
    the *scaled* target for encoded rows.

    ``fit`` works on a copy of the estimator, so one that fails or is interrupted leaves the estimator as it was.
    """

    # Constraints of all parameters, by name.
    _CONSTRAINTS: ClassVar[Mapping[str, Constraint]] = {}
    # Whether a fit stores its state in a checkpoint, keeps rows of a group together, takes tables larger than memory.
    _RESUMABLE: ClassVar[bool] = False
    _TAKES_GROUPS: ClassVar[bool] = False
    _TAKES_STORES: ClassVar[bool] = False

    categorical_features: Any = None
    # Name of the target, from the Series that was fitted or set by the caller; shown by reports and the command line.
    target_name_: str | None = None
    target_scale_: TargetScale

    # -- fitting ---------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: TableLike,
        y: ArrayLike | str,
        sample_weight: ArrayLike | str | None = None,
        *,
        groups: ArrayLike | str | None = None,
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
            The target, or the name of its column in X (always the name if X is a source of rows other than a
            ``numpy.memmap``). Rows whose named target is missing are left out, with a warning. For Dask collections a
            Series or Array with the partitions of X, or the name of a column.
        sample_weight : array-like of shape (n_samples,), or str, default=None
            Weights of the rows. Whole numbers are repetitions: a weight of 2 is equivalent to repeating the row. Other
            weights say how important a row is for the population to predict, and are scaled to average 1. Neither is
            additional evidence: splits, calibration and the choice of experts count effective rows,
            (sum w)^2 / sum w^2. All copies of a row are training rows, validation rows or calibration rows
            together. The name of a column if ``y`` is one.
        groups : array-like of shape (n_samples,), or str, default=None
            The subject of each row (patient, shop, machine), or the name of its column, which is then no feature. All
            rows of a group are training rows, validation rows or calibration rows together, and no row is predicted by
            the memory of its own group: intervals are those of a *new* group. None: rows with equal features belong
            together. The name of a column if ``y`` is one (or, of Dask collections, a Series or Array with the
            partitions of X). For trees and ensembles of the default recipe only.
        checkpoint : path-like, default=None
            A folder for the state of a long fit: finished parts, and every few minutes the networks in training. If the
            fit is interrupted or its process killed, the same call resumes there, and the model is the same, bit
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
        fitted = copy(self)
        with ONE_BLAS_THREAD, DISK_CACHE, opened(checkpoint) as folder:
            source = as_source(X)
            if groups is not None and not self._TAKES_GROUPS:
                raise ValueError(f"groups are for USNRTRegressor and USNRTEnsemble, not for {type(self).__name__}")
            if is_dask(X):
                fitted._fit_dask(dask_rows(X, y, sample_weight, groups), scratch, folder)
            elif source is None and isinstance(y, str):
                fitted._fit_whole(training_columns(X, y, sample_weight, groups), folder)
                fitted.target_name_ = y
            elif source is None:
                fitted._fit_table(X, y, sample_weight, groups, folder)
            else:
                fitted._fit_source(training_source(source, y, sample_weight, groups), scratch, folder)
        for name in vars(self).keys() - vars(fitted).keys():
            delattr(self, name)
        self.__dict__.update(vars(fitted))
        return self

    def _check_parameters(self) -> None:
        """Check the constraints of all parameters, and their combinations, before any data is read."""
        check_parameters(self.get_params(deep=False), self._CONSTRAINTS)

    def _parameter(self, name: str) -> Any:
        """A parameter about the table, None if the estimator does not have it; ensembles share it with members."""
        return getattr(self, name, None)

    def _fit(self, rows: DistinctRows) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _fit")

    def _fit_rows(self, rows: DistinctRows, checkpoint: Checkpoint) -> None:
        """Fit to rows in memory; estimators without checkpoints define `_fit` only."""
        self._fit(rows)

    def _fit_store(self, store: RowStore, checkpoint: Checkpoint) -> None:
        """Fit to a table larger than memory; ``encoder_``, ``fingerprint_`` and the feature names are set already."""
        raise NotImplementedError(f"{type(self).__name__} must define _fit_store")

    def _check_takes_store(self) -> None:
        """Refuse tables larger than memory before they are read, if the estimator or a parameter needs them whole."""
        if not self._TAKES_STORES:
            raise ValueError(
                f"{type(self).__name__} needs a table in memory, of at most {BLOCK_ROWS:,} rows; "
                "fit USNRTRegressor, or a sample of the rows"
            )
        if self._parameter("time_column") is not None:
            raise ValueError(
                f"time_column needs a table in memory, of at most {BLOCK_ROWS:,} rows; fit a sample of the rows"
            )

    def _resumed(self, folder: Folder | None, store: RowStore) -> Checkpoint:
        """The checkpoint of a fit to these rows, which resumes from what is in the folder."""
        if folder is None:
            return NO_CHECKPOINT
        return folder.resume(identity_of(self, store, self.encoder_.n_categories_))

    def _read_rows(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: Any = None
    ) -> DistinctRows:
        """Encode a table, and merge its equal rows."""
        rows, self.encoder_ = read_training_rows(self, X, y, sample_weight, groups)
        self.fingerprint_ = fingerprint(rows.raw, rows.target, rows.weight)
        name = getattr(y, "name", None)
        self.target_name_ = name if isinstance(name, str) else None
        return rows

    def _scaled_table(self, rows: DistinctRows) -> TrainingTable:
        """Fit the scaling of network inputs and target on these rows, and apply it to them."""
        scaled = scale_rows(rows, self.encoder_.columns_, ranks_if_skewed=False)
        self.inputs_, self.target_scale_ = scaled.inputs, scaled.target
        return scaled.table

    def _fit_table(self, X: TableLike, y: Any, sample_weight: Any, groups: Any, folder: Folder | None) -> None:
        """Fit to a table in memory."""
        rows = self._read_rows(X, y, sample_weight, groups)
        self._fit_rows(rows, NO_CHECKPOINT if folder is None else self._resumed(folder, MemoryStore(rows)))

    def _fit_whole(self, whole: WholeTable, folder: Folder | None) -> None:
        """Fit to a table in memory, of which rows may have been left out."""
        self._fit_table(whole.X, whole.y, whole.sample_weight, whole.groups, folder)
        if whole.kept is not None:
            self._renumber(whole.kept)

    def _renumber(self, kept: Rows) -> None:
        """Number the training rows that the model keeps as in the table that was given, of which these were kept."""

    def _fit_source(self, rows: TrainingSource, scratch: str | os.PathLike[str] | None, folder: Folder | None) -> None:
        """Fit to a table outside memory, in memory if it is small enough."""
        whole = read_whole(rows)
        if whole is not None:
            self._fit_whole(whole, folder)
        else:
            self._check_takes_store()
            notify = Progress(getattr(self, "verbose", 0)).note
            with scratch_folder(scratch) as files:
                stored = build_store(rows, files, self._parameter("categorical_features"), notify)
                read_table(self, stored.example, reset=True)
                self.encoder_, self.fingerprint_ = stored.encoder, stored.store.fingerprint
                self._fit_store(stored.store, self._resumed(folder, stored.store))
        rows.remember(self.encoder_)
        self.target_name_ = rows.target if isinstance(rows.target, str) else None

    def _fit_dask(self, rows: DaskRows, scratch: str | os.PathLike[str] | None, folder: Folder | None) -> None:
        """Fit to a Dask collection: on the workers of the active client, or here, partition by partition."""
        client = active_client()
        if client is None:
            self._fit_source(rows, scratch, folder)
        else:
            fit_on_cluster(self, rows, client, folder)

    # -- predictions -----------------------------------------------------------------------------------------------

    def _distribution(self, raw: Floats) -> Distribution:
        raise NotImplementedError(f"{type(self).__name__} must define _distribution")

    def _predict_dist(self, raw: Floats, parts: bool = True) -> Distribution:
        """Distributions of the target for encoded rows; without the parts of their variance, which cost time."""
        return self.target_scale_.in_units(self._distribution(raw))

    def _predict_encoded(self, raw: Floats, coverages: list[float], guaranteed: bool = False) -> EncodedPredictions:
        """Predictions of all kinds for encoded rows; the networks run once."""
        dist = self._predict_dist(raw)
        return EncodedPredictions(dist, dist.interval(coverages), None, None)

    def _encode(self, X: TableLike) -> Floats:
        return encode_rows(self, X)

    def predict_dist(self, X: TableLike) -> Distribution:
        """Predictive distributions, one per row.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)

        Returns
        -------
        Distribution
            With ``mean()``, ``std()``, ``pdf``, ``logpdf``, ``cdf``, ``ppf``, ``interval``, ``rvs``, ``crps``.
        """
        return self._predict_dist(self._encode(X))

    @overload
    def predict(self, X: TableLike, return_std: Literal[False] = False) -> Floats: ...

    @overload
    def predict(self, X: TableLike, return_std: Literal[True]) -> tuple[Floats, Floats]: ...

    @overload
    def predict(
        self, X: TableLike, return_std: bool = False, *, output_type: Output, quantiles: Sequence[float] = DECILES
    ) -> Any: ...

    def predict(
        self,
        X: TableLike,
        return_std: bool = False,
        *,
        output_type: Output = "mean",
        quantiles: Sequence[float] = DECILES,
    ) -> Any:
        """Predicted mean and optionally standard deviation, or what users of TabPFN ask for.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            The columns of a data frame are found by name; further ones are ignored.
        return_std : bool, default=False
        output_type : {"mean", "median", "quantiles", "full"}, default="mean"
        quantiles : sequence of k floats, default=(0.1, 0.2, ..., 0.9)
            Levels for ``output_type="quantiles"`` and ``"full"``, in (0, 1).

        Returns
        -------
        mean : ndarray of shape (n_samples,)
            With ``output_type="median"`` the median. With ``"quantiles"`` a list of k arrays, one per level
            (`predict_quantiles` returns one matrix). With ``"full"`` a dict with ``mean``, ``median``, ``quantiles``
            and the ``distribution``.
        std : ndarray of shape (n_samples,)
            Only with ``return_std=True``.
        """
        check_choice("output_type", output_type, ("mean", "median", "quantiles", "full"))
        if return_std and output_type != "mean":
            raise ValueError(f"return_std must be False with output_type={output_type!r}, got True")
        if is_dask(X):
            check_is_fitted(self, "encoder_")
            if output_type != "mean":
                raise ValueError(f"output_type must be 'mean' for Dask collections, got {output_type!r}")
            return predict_dask(self, X, return_std)
        dist = self._predict_dist(self._encode(X), parts=output_type == "full")
        if output_type == "median":
            return dist.median()
        if output_type == "quantiles":
            return list(dist.ppf(list(quantiles)).T)
        if output_type == "full":
            by_level = list(dist.ppf(list(quantiles)).T)
            return {"mean": dist.mean(), "median": dist.median(), "quantiles": by_level, "distribution": dist}
        return (dist.mean(), dist.std()) if return_std else dist.mean()

    def predict_interval(self, X: TableLike, coverage: float | Sequence[float] = 0.9) -> Floats:
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
        return self._predict_dist(self._encode(X), parts=False).interval(coverage)

    def predict_quantiles(self, X: TableLike, levels: Sequence[float]) -> Floats:
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
        dist = self._predict_dist(self._encode(X), parts=False)
        return dist.ppf(np.atleast_1d(np.asarray(levels, dtype=np.float64)))

    def predict_variance(self, X: TableLike) -> Table:
        """Variance and its parts.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)

        Returns
        -------
        Table
            Columns ``aleatoric``, ``epistemic`` (squared error of the mean as far as the members of an ensemble reveal
            it, plus the widening for lack of support) and ``total``; NaN where a model does not estimate a part.
        """
        dist = self.predict_dist(X)
        unknown = np.full(len(dist), np.nan)
        parts = {
            "aleatoric": unknown if dist.aleatoric is None else dist.aleatoric,
            "epistemic": unknown if dist.epistemic is None else dist.epistemic,
        }
        return Table({**parts, "total": dist.var()})

    def predict_table(
        self, X: TableLike, coverage: float = 0.9, *, quantiles: Sequence[float] = (), above: float | None = None
    ) -> Any:
        """Mean, standard deviation, interval, region and support as a table of the library that X came from.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features), or source of rows
            A source, as in `fit`, may have other columns beside the features; the predictions are in memory. Those for
            a Dask DataFrame or Array are a lazy Dask DataFrame.
        coverage : float, default=0.9
            Nominal coverage of the interval from ``lower`` to ``upper``.
        quantiles : sequence of k floats, default=()
            Levels of further columns ``q0.1``, ``q0.5``, ... with quantiles.
        above : float or None, default=None
            A limit: the further column ``probability_above`` has the probability that the target exceeds it.

        Returns
        -------
        data frame or Table
            Columns ``mean``, ``std``, ``lower``, ``upper`` and, for models with regions, ``region`` (as from
            ``apply``) and ``supported`` (see ``predict_support``), for calibrated ones ``guaranteed`` (False where an
            interval is that of the distribution, for lack of calibration rows); a pandas index is kept. A pyarrow Table
            for sources.
        """
        check_is_fitted(self, "encoder_")
        further = FurtherColumns(tuple(check_levels(quantiles, "quantiles").ravel().tolist()), above)
        if is_dask(X):
            if further != NOTHING_FURTHER:
                raise ValueError("quantiles and above are for tables that are not Dask collections")
            return predict_dask_table(self, X, coverage)
        source = source_for(self, X)
        if source is None:
            return prediction_table(self, X, coverage, further)
        return joined_predictions([part for _, part in predict_source(self, source, coverage, further)], source)

    def predict_blocks(self, X: TableLike, coverage: float = 0.9) -> Iterator[Any]:
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
        check_number("coverage", coverage, 0, 1)
        source = source_for(self, X)
        if source is None:
            return iter([prediction_table(self, X, coverage)])
        return (part for _, part in predict_source(self, source, coverage))

    @property
    def columns_(self) -> list[Column]:
        """Name, kind and categories of each column."""
        return self.encoder_.columns_

    def save(self, path: Any, user_models: Callable[[Any], bytes] | None = None) -> None:
        """Write the model to one file that `usnrt.load` reads; loading it never runs code.

        Parameters
        ----------
        path : str or path-like
            Conventionally with the extension ``.usnrt``.
        user_models : callable, default=None
            Turns fitted models of yours (parameter ``experts``) into bytes, such as ``pickle.dumps``; `usnrt.load`
            then needs the reverse, and runs code if that does.
        """
        from usnrt.persistence import save

        save(self, path, user_models)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
