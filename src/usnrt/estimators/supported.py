"""Estimators that measure support: predictions of rows unlike the training rows are wider, and flagged."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from usnrt.calibration.support import REACH, RowSupport, Support
from usnrt.calibration.widening import blank_rows, robust_variance
from usnrt.distributions import Distribution
from usnrt.estimators.base import DistributionalRegressor
from usnrt.estimators.prediction_table import EncodedPredictions
from usnrt.nn.quantiles import MEDIAN
from usnrt.tables.training import TrainingTable
from usnrt.tree.census import Census
from usnrt.tree.structure import Tree
from usnrt.utils.blocks import MIN_ROWS
from usnrt.utils.result_table import Table
from usnrt.utils.types import Floats, Rows


@dataclass(frozen=True)
class Prediction:
    """Predictions of encoded rows, in units of the scaled target.

    Attributes
    ----------
    leaf : ndarray of int of shape (n,)
    mean : ndarray of shape (n,)
    quantiles : ndarray of shape (n, n_positions)
        Quantile functions at `usnrt.nn.quantiles.POSITIONS`.
    disagreement : ndarray of shape (n,) or None
        Variance between members in units of that within them; None for a single tree.
    narrow : ndarray of shape (n, n_positions)
        The quantile functions before widening.
    row_support : RowSupport or None
        Support of the rows; None if the model does not widen predictions.
    """

    leaf: NDArray[np.int64]
    mean: Floats
    quantiles: Floats
    disagreement: Floats | None
    narrow: Floats
    row_support: RowSupport | None


class SupportedRegressor(DistributionalRegressor):
    """An estimator with regions that widens predictions for rows unlike the training rows.

    It sets ``support_`` in fit with ``_fit_support``, and defines ``_network_quantiles(raw)``: region, mean, quantile
    functions and disagreement (None for a single tree) of encoded rows as the networks predict them.
    """

    # None for models of old files, whose predictions do not change.
    support_: Support | None = None
    n_jobs: int | None

    @property
    def tree_(self) -> Tree:
        """The tree of regions in flat arrays."""
        raise NotImplementedError(f"{type(self).__name__} must define tree_")

    def _n_threads(self, n_rows: int) -> int:
        """Number of threads for the predictions of some rows."""
        return 1 if n_rows < 2 * MIN_ROWS else effective_n_jobs(self.n_jobs)

    def _network_quantiles(self, raw: Floats) -> tuple[NDArray[np.int64], Floats, Floats, Floats | None]:
        raise NotImplementedError(f"{type(self).__name__} must define _network_quantiles")

    def _from_quantiles(self, leaf: NDArray[np.int64], mean: Floats, quantiles: Floats) -> Distribution:
        raise NotImplementedError(f"{type(self).__name__} must define _from_quantiles")

    def _fit_support(
        self,
        table: TrainingTable,
        validation_rows: Rows | None = None,
        quantiles_of: Callable[[Rows, Floats], Floats] | None = None,
    ) -> None:
        """Fit the support on all rows of a table, and the variance added by missing values on its validation rows.

        Parameters
        ----------
        table : TrainingTable
        validation_rows : ndarray of int, optional
        quantiles_of : callable, optional
            ``quantiles_of(rows, raw)`` returns quantile functions for modified values ``raw`` of these rows, predicted
            by networks that were not trained on them. Without it predictions are not widened.
        """
        categorical = np.array([column.is_categorical for column in self.columns_], dtype=bool)
        leaf = self.tree_.leaf_of(table.raw)
        group = table.group if table.has_groups else None  # rows with equal features are alike in all columns
        support = Support.fit(table.raw, categorical, leaf, self.tree_.n_leaves, group)
        if quantiles_of is not None and validation_rows is not None:
            rows = np.sort(validation_rows)
            rows = rows[blank_rows(len(rows), table.raw.shape[1])]
            support = support.with_missing_value_variances(
                lambda raw: quantiles_of(np.tile(rows, len(raw) // len(rows)), raw),
                table.raw[rows],
                leaf[rows],
                table.y[rows],
            )
        widens = quantiles_of is not None
        self.support_ = replace(support, widens=widens, target_variance=robust_variance(table.y) if widens else np.inf)

    def _count_all(self, census: Census) -> None:
        """Extend the support, and the numbers of rows of the regions, from a sample to all rows."""
        assert self.support_ is not None
        self.support_ = self.support_.covering(census.low, census.high, census.has_missing)
        self.tree_.set_leaf_rows(census.n_rows)

    def _predicted(self, raw: Floats) -> Prediction:
        """Predictions of encoded rows, widened where they lack support."""
        support = self.support_
        if support is None or not support.widens:
            leaf, mean, quantiles, disagreement = self._network_quantiles(raw)
            return Prediction(leaf, mean, quantiles, disagreement, quantiles, None)
        row_support = support.measure(raw, self.tree_.leaf_of(raw), self._n_threads(len(raw)))
        leaf, mean, quantiles, disagreement = self._network_quantiles(support.clamp(raw, row_support))
        rows = np.flatnonzero(row_support.outside)
        if len(rows):  # the location is extrapolated up to REACH, the spread is that at the boundary
            own = row_support.take(rows)
            _, beyond, other, _ = self._network_quantiles(support.clamp(raw[rows], own, REACH))
            quantiles = quantiles.copy()
            quantiles[rows] += (other - quantiles[rows])[:, [MEDIAN]]
            mean[rows] = beyond
        return Prediction(leaf, mean, support.widen(quantiles, row_support), disagreement, quantiles, row_support)

    def _predict_encoded(self, raw: Floats, coverages: list[float], guaranteed: bool = False) -> EncodedPredictions:
        supported = None if self.support_ is None else self.support_.measure(raw, self.tree_.leaf_of(raw)).supported
        return replace(super()._predict_encoded(raw, coverages), region=self.tree_.apply(raw), supported=supported)

    def _quantile_functions(self, raw: Floats) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Region, mean and quantile functions of encoded rows, in units of the scaled target."""
        predicted = self._predicted(raw)
        return predicted.leaf, predicted.mean, predicted.quantiles

    def _within(self, dist: Distribution, predicted: Prediction) -> Floats:
        """Variance of distributions without the widening for lack of support, shape (n,)."""
        variance = dist.var()
        rows = _unsupported_rows(predicted.row_support)
        if len(rows):
            variance = variance.copy()
            narrow = self._from_quantiles(predicted.leaf[rows], predicted.mean[rows], predicted.narrow[rows])
            variance[rows] = narrow.var()
        return variance

    def predict_support(self, X: Any) -> Table:
        """Whether rows resemble the training rows, and how much their distributions are widened otherwise.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)

        Returns
        -------
        Table
            Columns ``supported`` (none of the following), ``outside_range`` (a number is outside the range that it
            has in the row's region, with a margin), ``unseen_category`` (a category that training did not see),
            ``unexpected_missing`` (a value is missing in a column in which training had none missing), ``far`` (far
            from all training rows in the joint space of the numeric columns), ``unlike_subjects`` (of a model fitted
            with ``groups``: the numbers that all rows of a subject share are far from those of every training subject)
            and ``widening``, the factor on the standard deviation, 1 for supported rows.

        Examples
        --------
        >>> import numpy as np
        >>> from usnrt import USNRTRegressor
        >>> X = np.random.default_rng(0).uniform(size=(300, 1))
        >>> model = USNRTRegressor(max_epochs=5, random_state=0).fit(X, np.sin(9 * X[:, 0]))
        >>> support = model.predict_support([[0.5], [3.0], [np.nan]])
        >>> support["supported"], support["outside_range"], support["unexpected_missing"]
        (array([ True, False, False]), array([False,  True, False]), array([False, False,  True]))
        >>> bool(support["widening"][0] == 1.0 and support["widening"][1] > 2.0)
        True
        """
        raw = self._encode(X)
        if self.support_ is None:
            raise ValueError("predict_support needs a model with support, got one of an older version; refit it")
        row_support = self.support_.measure(raw, self.tree_.leaf_of(raw))
        return Table(
            {
                "supported": row_support.supported,
                "outside_range": row_support.outside,
                "unseen_category": row_support.unseen,
                "unexpected_missing": row_support.missing,
                "far": row_support.far,
                "unlike_subjects": row_support.unlike,
                "widening": self._widening(raw, row_support),
            }
        )

    def _widening(self, raw: Floats, row_support: RowSupport) -> Floats:
        """Standard deviations divided by those without widening, shape (n,)."""
        factor = np.ones(len(raw))
        rows = _unsupported_rows(row_support)
        if self.support_ is not None and self.support_.widens and len(rows):
            predicted = self._predicted(raw[rows])
            wide, narrow = (
                self._from_quantiles(predicted.leaf, predicted.mean, quantiles).std()
                for quantiles in (predicted.quantiles, predicted.narrow)
            )
            factor[rows] = wide / np.maximum(narrow, np.finfo(float).tiny)
        return factor


def _unsupported_rows(row_support: RowSupport | None) -> NDArray[np.intp]:
    return np.zeros(0, dtype=np.intp) if row_support is None else np.flatnonzero(~row_support.supported)
