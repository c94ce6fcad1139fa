"""Base of trees and ensembles: predictions calibrated per region."""

import functools
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from usnrt.calibration.calibration import Calibration
from usnrt.calibration.familiar import (
    MIN_RECALL,
    MIN_REPEATED,
    RepeatedRows,
    SeenRows,
    combined_with_recall,
    find_familiar,
    with_recall,
)
from usnrt.calibration.small_tables import sampling_factor, selection_factor
from usnrt.distributions import Distribution, QuantileDistribution, ResidualDistribution
from usnrt.estimators.prediction_table import EncodedPredictions
from usnrt.estimators.recent import recent_rows
from usnrt.estimators.region_regressor import RegionRegressor
from usnrt.estimators.regions import shortage
from usnrt.estimators.supported import Prediction
from usnrt.estimators.targets import check_target, read_target, with_point_masses
from usnrt.nn.quantile_functions import conformity_scores
from usnrt.nn.quantiles import POSITIONS
from usnrt.tables.groups import draw_groups, group_correlation, groups_and_table, read_groups
from usnrt.tables.time import is_latest
from usnrt.tables.training import DistinctRows, TrainingTable, distinct_rows
from usnrt.utils.checks import check_choice, check_number
from usnrt.utils.notices import (
    InfiniteIntervalWarning,
    TrainingRowsWarning,
    UnguaranteedIntervalWarning,
    share_text,
    users_level,
)
from usnrt.utils.types import Floats, Rows
from usnrt.utils.weights import evidence

# A correlation within fewer groups is not estimated; 90 % intervals need 19 groups anyway.
MIN_GROUPS = 30
# The point masses at bounds are fitted to about this many rows.
MAX_MASS_ROWS = 4000


class CalibratedRegressor(RegionRegressor):
    """An estimator with regions that may be calibrated.

    It sets ``tree_``, ``support_`` and ``calibration_`` in fit, and defines ``_network_quantiles(raw)``: region, mean,
    quantile functions and disagreement of encoded rows, in units of the scaled target.
    """

    # How much smaller errors of validation rows are than those of new rows, see `calibration.small_tables`.
    _SELECTION: ClassVar[float] = 4.0

    calibration_: Calibration | None
    # Files of format 1 hold models whose mean was not that of their distribution; fit sets True.
    own_mean_: bool = False
    # Set if feature rows of the training table are repeated.
    familiar_: SeenRows | None = None

    def _predicted(self, raw: Floats) -> Prediction:
        predicted = super()._predicted(raw)
        if self.familiar_ is None or self.calibration_ is None:
            return predicted
        index, known = self.familiar_.locate(raw)
        return replace(
            predicted,
            leaf=predicted.leaf + self.n_leaves_ * known if self.calibration_.has_familiar else predicted.leaf,
            quantiles=self.familiar_.recall(index, known, predicted.quantiles),
            narrow=self.familiar_.recall(index, known, predicted.narrow),
        )

    def _remembers(self) -> bool:
        """Whether the model may contain targets of training rows: the parameter ``memory``, if there is one."""
        return False

    def _without_parts(self, raw: Floats) -> Distribution:
        predicted = self._predicted(raw)
        return self._from_quantiles(predicted.leaf, predicted.mean, predicted.quantiles)

    def _distribution(self, raw: Floats) -> Distribution:
        predicted = self._predicted(raw)
        dist = self._from_quantiles(predicted.leaf, predicted.mean, predicted.quantiles)
        if predicted.row_support is None:
            return dist
        return dist.with_parts(self._within(dist, predicted), None)

    def _from_quantiles(self, leaf: NDArray[np.int64], mean: Floats, quantiles: Floats) -> QuantileDistribution:
        """Distributions from predicted quantile functions, calibrated if the model is; their mean is the prediction."""
        mean_of_file = None if self.own_mean_ else mean
        if self.calibration_ is None:
            dist = QuantileDistribution(
                quantiles, POSITIONS, np.zeros_like(leaf), [standard_normal()], mean=mean_of_file
            )
        else:
            dist = self.calibration_.distribution(quantiles, leaf, mean_of_file)
        dist._n_threads = self._n_threads(len(leaf))
        return dist

    def _scale_residuals(self) -> None:
        """Convert the residual moments of the tree to units of the target, for users."""
        self.tree_.residual_mean *= self.target_std_
        self.tree_.residual_std *= self.target_std_

    def _draw_calibration_rows(
        self, rows: DistinctRows, fraction: float, rng: np.random.Generator
    ) -> tuple[DistinctRows, DistinctRows | None]:
        """Rows to fit on, and calibration rows, drawn before scaling so that they affect nothing in the fit.

        With a time column, calibration rows are the latest.
        """
        n_calibration = round(fraction * rows.n_rows)
        if n_calibration == 0:
            return rows, None
        if rows.time is not None:
            latest = is_latest(rows.time, n_calibration)
            return rows.take(np.flatnonzero(~latest)), rows.take(np.flatnonzero(latest))
        if rows.group is not None:
            drawn = draw_groups(rows.group, n_calibration, rows.n_rows, rng)
            return rows.take(np.flatnonzero(~drawn)), rows.take(np.flatnonzero(drawn))
        calibration, rest = np.split(rng.permutation(rows.n_rows), [n_calibration])
        return rows.take(np.sort(rest)), rows.take(calibration)

    def _marked_if_recalled(self, table: TrainingTable, calibrates_by_validation: bool) -> TrainingTable:
        """The table, marked if `_calibrate_by_validation` will recall the targets of copies of its rows."""
        is_recalled = (
            calibrates_by_validation
            and self._remembers()
            and (found := _find_familiar(table)) is not None
            and found[1].is_determined
        )
        return replace(table, is_recalled=is_recalled)

    def _calibrate_on(self, rows: DistinctRows, by: str) -> None:
        """Calibrate on rows that no network was trained on; familiar rows separately, if there are enough."""
        y, quantiles, leaf = (
            self._to_model(rows.target),
            self._quantile_functions(rows.raw)[2],
            self.tree_.leaf_of(rows.raw),
        )
        scores = conformity_scores(quantiles, y)
        known = np.zeros(len(y), dtype=bool) if self.familiar_ is None else self.familiar_.contains(rows.raw)
        # Familiar rows that are too few for a group of their own are treated like the others.
        group = leaf if by == "region" else np.zeros_like(leaf)
        known &= (np.bincount(group[known], minlength=self.n_leaves_) >= MIN_REPEATED)[group]
        new = ~known
        if not new.any():
            known, new = new, known
        groups = None if rows.group is None else rows.group[new]
        calibration = Calibration.from_scores(scores[new], leaf[new], rows.weight[new], self.tree_, by, group=groups)
        self.calibration_ = calibration
        if known.any():
            self.calibration_ = calibration.with_familiar(scores[known], leaf[known], rows.weight[known], MIN_REPEATED)
        self._fit_point_masses(rows.target, rows.weight, leaf, quantiles)

    def _fit_target(self, table: TrainingTable, rows: Rows, target: Floats, quantiles: Floats) -> None:
        """Fit what depends on the target's units, by validation rows: point masses and the residuals of a logarithm.

        Parameters
        ----------
        table : TrainingTable
        rows : ndarray of int of shape (m,)
            Validation rows.
        target : ndarray of shape (m,)
            In units of the target.
        quantiles : ndarray of shape (m, n_positions)
            By networks that were not trained on the rows.
        """
        raw, weight = table.raw[rows], table.weight[rows]
        leaf = self.tree_.leaf_of(raw)
        self._fit_point_masses(target, weight, leaf, quantiles)
        if self.target_map_ is not None and self.target_map_.log:
            mean = self._in_units(self._from_quantiles(leaf, np.zeros(len(leaf)), quantiles)).mean()
            self.tree_.set_residuals(raw, target - mean, weight)

    def _fit_point_masses(self, target: Floats, weight: Floats, leaf: NDArray[np.int64], quantiles: Floats) -> None:
        """Fit the point masses at the bounds of the target to rows that no network was trained on."""
        target_map = self.target_map_
        if target_map is None or not target_map.is_bounded or len(target) == 0:
            return
        rows = np.arange(0, len(target), max(1, len(target) // MAX_MASS_ROWS))  # in the order of hashes: a sample
        dist = self._from_quantiles(leaf[rows], np.zeros(len(rows)), quantiles[rows])
        scaled = dist.scaled(self.target_mean_, self.target_std_)

        def cdf(value: float) -> Floats:
            return scaled.cdf(float(target_map.scale(np.array([value]))[0]))

        self.target_map_ = with_point_masses(target_map, target[rows], weight[rows], cdf)

    def _calibrate_by_validation(self, table: TrainingTable, rows: NDArray[np.intp], scores: Floats, by: str) -> None:
        """Calibrate by the conformity scores of validation rows; familiar rows by those of repeated training rows."""
        leaf, weight = self.tree_.leaf_of(table.raw[rows]), table.validation_weight[rows]
        group = None if table.group is None else table.group[rows]
        n_rows = table.n_rows if table.group is None else len(np.unique(table.group))
        scores = selection_factor(n_rows, self._SELECTION) * scores
        within = 1.0 if group is None else _correlation_of(scores, group)
        inflation = sampling_factor(float(evidence(weight, group, within).sum()), n_rows)
        self.calibration_ = Calibration.from_scores(scores, leaf, weight, self.tree_, by, inflation, group, within)
        found = _find_familiar(table)
        if found is None or not (found[1].is_determined or self._remembers()):
            return
        familiar, repeated = found
        y, weight = table.y[repeated.rows], table.weight[repeated.rows]
        leaf, _, quantiles, _ = self._network_quantiles(table.raw[repeated.rows])
        if self._remembers():
            familiar = with_recall(familiar, repeated, quantiles, y, weight)
            if not repeated.is_determined and familiar.weight < MIN_RECALL:
                return
            quantiles = combined_with_recall(quantiles, repeated.recalled, familiar.weight)
        else:
            familiar = replace(familiar, target=None)
        scores = conformity_scores(quantiles, y)
        self.familiar_ = familiar
        self.calibration_ = self.calibration_.with_familiar(scores, leaf, weight, MIN_REPEATED)

    def calibrate(
        self, X: Any, y: ArrayLike, by: str = "region", window: Any = None, groups: ArrayLike | str | None = None
    ) -> Self:
        """Calibrate on new rows: replaces the residual distributions, and nothing else.

        The coverage of `predict_interval` is then guaranteed, in every region, for rows that are exchangeable with
        these, without assumptions about the networks or the distribution. Rows of one patient, shop or machine are not
        exchangeable with those of a new one: pass ``groups``, and the guarantee is for a row of a new group.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Rows that were not used in fitting. If most of them were, a
            `usnrt.utils.notices.TrainingRowsWarning` says so.
        y : array-like of shape (n_samples,)
        by : {"region", "global"}, default="region"
            Whether every region, or the whole table, gets a residual distribution of its own.
        window : int, timedelta or None, default=None
            Use the most recent rows only: this many, or those of this duration before the latest, by the model's
            ``time_column``; without one the last rows given are the most recent. None for all rows.
        groups : array-like of shape (n_samples,), or str, default=None
            Labels of rows that belong together, or the name of a column of X. Each group counts as one row, so 90 %
            intervals need 19 groups in a region. By default rows with equal features are a group.

        Returns
        -------
        self
        """
        check_choice("by", by, ("region", "global"))
        X, groups = groups_and_table(X, groups)
        raw, target = self._encode(X), read_target(y)
        check_target(target, self._parameter("target_bounds"))
        if len(raw) != len(target):
            raise ValueError(f"X and y must have the same number of rows, got {len(raw)} and {len(target)}")
        recent = recent_rows(self, X, len(target), window)
        self._warn_of_training_rows(raw[recent], target[recent])
        given = None if groups is None else read_groups(groups, len(target))[recent]
        rows = distinct_rows(raw[recent], target[recent], np.ones(len(recent)), groups=given)
        self._calibrate_on(rows, by)
        return self

    def _warn_of_training_rows(self, raw: Floats, target: Floats) -> None:
        fingerprint = getattr(self, "fingerprint_", None)  # None in files of old versions
        share = 0.0 if fingerprint is None else fingerprint.share_of(raw, target)
        if share > 0:
            warnings.warn(
                f"{share_text(share)} of these rows are training rows: intervals calibrated on them are too narrow; "
                "calibrate on new rows",
                TrainingRowsWarning,
                stacklevel=users_level(),
            )

    def predict_interval(self, X: Any, coverage: float | Sequence[float] = 0.9, guaranteed: bool = False) -> Floats:
        """Central prediction intervals with a nominal coverage.

        Calibrated models use order statistics of the conformity scores in the row's region (see
        `usnrt.calibration.calibration`). A region with too few calibration rows for the coverage
        (`usnrt.calibration.conformal.rows_needed`; 19 at 90 %) has the intervals of the predicted distribution, which
        are not guaranteed. A `usnrt.utils.notices.UnguaranteedIntervalWarning` then states how many rows it has and how
        many are needed, and ``guaranteed`` is False in `predict_table`.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
        coverage : float or sequence of k floats, default=0.9
            Nominal coverage, in (0, 1).
        guaranteed : bool, default=False
            Whether bounds that cannot be guaranteed are infinite.

        Returns
        -------
        ndarray of shape (n_samples, 2), or (n_samples, 2, k) for a sequence
            Lower and upper bounds.
        """
        check_is_fitted(self)
        if self.calibration_ is None:
            if guaranteed:
                raise ValueError("guaranteed must be False for a model that is not calibrated, got True")
            return super().predict_interval(X, coverage)
        for level in np.atleast_1d(coverage):
            check_number("coverage", float(level), 0, 1)
        leaf, _, quantiles = self._quantile_functions(self._encode(X))
        n_threads = self._n_threads(len(leaf))
        levels = [float(level) for level in np.atleast_1d(coverage)]
        bounds = [
            self._to_target(self.calibration_.interval(quantiles, leaf, level, n_threads, guaranteed))
            for level in levels
        ]
        self._warn_of_shortage(leaf, levels, guaranteed)
        return bounds[0] if np.ndim(coverage) == 0 else np.stack(bounds, axis=2)

    def _warn_of_shortage(self, leaf: NDArray[np.int64], coverages: list[float], guaranteed: bool) -> None:
        """Warn of regions with too few calibration rows, for the highest coverage that lacks them."""
        assert self.calibration_ is not None
        lacking = [level for level in coverages if not self.calibration_.is_guaranteed(leaf, level).all()]
        lack = shortage(self.calibration_, max(lacking)) if lacking else None
        if lack is not None and guaranteed:
            warnings.warn(str(lack), InfiniteIntervalWarning, stacklevel=3)
        elif lack is not None:
            warnings.warn(lack.unguaranteed, UnguaranteedIntervalWarning, stacklevel=3)

    def _predict_encoded(self, raw: Floats, coverages: list[float], guaranteed: bool = False) -> EncodedPredictions:
        """Predictions with intervals from the calibration; the support is measured only once."""
        if self.calibration_ is None:
            return super()._predict_encoded(raw, coverages, guaranteed)
        predicted = self._predicted(raw)
        dist = self._from_quantiles(predicted.leaf, predicted.mean, predicted.quantiles)
        n_threads = self._n_threads(len(raw))
        ends = [
            self.calibration_.interval(predicted.quantiles, predicted.leaf, coverage, n_threads, guaranteed)
            for coverage in coverages
        ]
        row_support = predicted.row_support
        if row_support is None and self.support_ is not None:
            row_support = self.support_.measure(raw, self.tree_.leaf_of(raw), n_threads)
        return EncodedPredictions(
            self._in_units(dist),
            np.stack([self._to_target(end) for end in ends], axis=2),
            self.tree_.apply(raw),
            None if row_support is None else row_support.supported,
            np.stack([self.calibration_.is_guaranteed(predicted.leaf, coverage) for coverage in coverages], axis=1),
        )


def _correlation_of(scores: Floats, group: Rows) -> float:
    """How much rows of a group share, in location or spread; all, if there are too few groups to tell.

    Validation rows have no exactness to lose: their groups count by what their rows do share.
    """
    if len(np.unique(group)) < MIN_GROUPS:
        return 1.0
    return max(group_correlation(values, group) for values in (scores, np.abs(scores)))


def _find_familiar(table: TrainingTable) -> tuple[SeenRows, RepeatedRows] | None:
    """The features that are repeated; None if groups were given, since intervals are then those of a new group."""
    return None if table.has_groups else find_familiar(table.raw, table.y, table.weight, table.group is not None)


@functools.cache
def standard_normal() -> ResidualDistribution:
    """A standard normal, for quantile functions that are not calibrated."""
    knots = np.linspace(-6.0, 6.0, 241)
    return ResidualDistribution(knots, np.exp(-(knots**2) / 2.0), np.full(2, 2.5e-9), np.full(2, 1e-3))
