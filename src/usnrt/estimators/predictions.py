"""Predictions of all kinds, derived from one distribution per row."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from usnrt.estimators.dask_predictions import predict_dask, predict_dask_table
from usnrt.estimators.prediction_blocks import joined_predictions, predict_source, source_for
from usnrt.estimators.prediction_table import EncodedPredictions, check_coverage, prediction_table
from usnrt.estimators.reading import TableReader
from usnrt.tables.dask_rows import is_dask
from usnrt.utils.result_table import Table
from usnrt.utils.types import Floats

if TYPE_CHECKING:
    from usnrt.distributions import Distribution


class DistributionPredictor(TableReader):
    """An estimator that predicts distributions; a subclass defines ``_distribution(raw)``."""

    def _distribution(self, raw: NDArray[np.float64]) -> "Distribution":
        raise NotImplementedError(f"{type(self).__name__} must define _distribution")

    def _without_parts(self, raw: NDArray[np.float64]) -> "Distribution":
        """``_distribution(raw)``, perhaps without the parts of its variance, which cost time."""
        return self._distribution(raw)

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

    def _predict_encoded(self, raw: Floats, coverages: list[float], guaranteed: bool = False) -> EncodedPredictions:
        """Predictions of all kinds for encoded rows; the networks run once.

        Parameters
        ----------
        raw : ndarray of shape (n, n_columns)
            Encoded rows, ``self._encode(X)``.
        coverages : list of k floats
            In (0, 1).
        guaranteed : bool, default=False
            As in `usnrt.estimators.calibrated.CalibratedRegressor.predict_interval`.
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
            ``apply``) and ``supported`` (see ``predict_support``), for calibrated ones ``guaranteed`` (False where an
            interval is that of the distribution, for lack of calibration rows); a pandas index is kept. A pyarrow Table
            for sources.
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
