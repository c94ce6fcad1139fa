"""Base of all estimators: fitting to tables in memory, outside it and on a cluster."""

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from usnrt.estimators.cluster_fit import active_client, fit_on_cluster
from usnrt.estimators.fit_identity import check_resumable, identity_of
from usnrt.estimators.predictions import DistributionPredictor
from usnrt.nn.jax_process import DISK_CACHE
from usnrt.tables import read_table
from usnrt.tables.dask_rows import DaskRows, dask_rows, is_dask
from usnrt.tables.find_source import as_source, read_whole, training_source
from usnrt.tables.store import MemoryStore, RowStore
from usnrt.tables.streaming import BLOCK_ROWS, TrainingSource, build_store
from usnrt.tables.training import DistinctRows
from usnrt.utils.blas import ONE_BLAS_THREAD
from usnrt.utils.checkpoint import NO_CHECKPOINT, Checkpoint, Folder, opened
from usnrt.utils.constraints import Constraint, check_parameters
from usnrt.utils.progress import Progress
from usnrt.utils.scratch import scratch_folder


class DistributionalRegressor(RegressorMixin, DistributionPredictor):
    """Base of all estimators: a scikit-learn regressor that predicts distributions.

    A subclass defines ``_CONSTRAINTS``, the constraints of all its parameters; ``_fit(rows)``, which fits it to
    `DistinctRows` (most call ``_scaled_table`` first); and ``_distribution(raw)``, which returns the distributions of
    the *scaled* target for encoded rows. Reading tables is in `TableReader`, predicting in `DistributionPredictor`.

    A fit that fails or is interrupted leaves the estimator as it was.
    """

    # Constraints of all parameters, by name.
    _CONSTRAINTS: ClassVar[Mapping[str, Constraint]] = {}
    # Whether a fit stores its state in `_checkpoint`, which `fit` sets for the time of the fit.
    _RESUMABLE: ClassVar[bool] = False
    _checkpoint: Checkpoint = NO_CHECKPOINT
    # Whether rows of a group stay together in a fit.
    _TAKES_GROUPS: ClassVar[bool] = False

    def fit(
        self,
        X: Any,
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
            The target; the name of its column if X is a source of rows other than a ``numpy.memmap``. For Dask
            collections a Series or Array with the partitions of X, or the name of a column.
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
            with ONE_BLAS_THREAD, DISK_CACHE, opened(checkpoint) as folder:
                source = as_source(X)
                if groups is not None and not self._TAKES_GROUPS:
                    raise ValueError(f"groups are for USNRTRegressor and USNRTEnsemble, not for {type(self).__name__}")
                if is_dask(X):
                    self._fit_dask(dask_rows(X, y, sample_weight, groups), scratch, folder)
                elif source is None:
                    self._fit_rows(self._read_rows(X, y, sample_weight, groups), folder)
                else:
                    self._fit_source(training_source(source, y, sample_weight, groups), scratch, folder)
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
        if self._parameter("time_column") is not None:
            raise ValueError(
                f"time_column needs a table in memory, of at most {BLOCK_ROWS:,} rows; fit a sample of the rows"
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
            self._fit_rows(self._read_rows(whole.X, whole.target, whole.weight, whole.groups), checkpoint)
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
        rows.remember(self.encoder_)
        self.target_name_ = rows.target if isinstance(rows.target, str) else None

    def _fit_dask(self, rows: DaskRows, scratch: str | os.PathLike[str] | None, checkpoint: Folder | None) -> None:
        """Fit to a Dask collection: on the workers of the active client, or here, partition by partition."""
        client = active_client()
        if client is None:
            self._fit_source(rows, scratch, checkpoint)
        else:
            fit_on_cluster(self, rows, client, checkpoint)

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
