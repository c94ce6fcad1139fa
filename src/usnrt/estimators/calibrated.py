"""What the tree and the ensemble share: regions, and answers calibrated in them."""

import functools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from usnrt.calibration.calibration import Calibration
from usnrt.calibration.familiar import MIN_REPEATED, Familiar, find_familiar
from usnrt.distributions import Distribution, QuantileDistribution, ResidualDistribution
from usnrt.estimators.base import read_target
from usnrt.estimators.regions import shortage
from usnrt.estimators.supported import Prediction, SupportedRegressor
from usnrt.nn.quantile_functions import conformity_scores
from usnrt.nn.quantiles import POSITIONS
from usnrt.tables.rows import merged_rows
from usnrt.tables.training import TrainingTable
from usnrt.tree.rules import rules_table
from usnrt.utils.checks import check_choice, check_number
from usnrt.utils.notices import InfiniteIntervalWarning
from usnrt.utils.result_table import Table

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True)
class CalibrationRows:
    """Rows that are used to calibrate and for nothing else, the target in the user's units."""

    raw: NDArray[np.float64]
    target: NDArray[np.float64]
    weight: NDArray[np.float64]


class CalibratedRegressor(SupportedRegressor):
    """A model that knows regions, and may be calibrated in them.

    It sets ``tree_``, ``support_`` and ``calibration_`` in fit, and defines ``_network_quantiles(raw)``: leaf, mean,
    quantile functions and disagreement of encoded rows, in units of the scaled target.
    """

    calibration_: Calibration | None
    # Files of format 1 hold models whose mean was not that of their distribution; fit sets True.
    own_mean_: bool = False
    # Set if the table repeats itself.
    familiar_: Familiar | None = None

    def _predicted(self, raw: NDArray[np.float64]) -> Prediction:
        predicted = super()._predicted(raw)
        if self.familiar_ is None or self.calibration_ is None or not self.calibration_.has_familiar:
            return predicted
        return replace(predicted, leaf=predicted.leaf + self.n_leaves_ * self.familiar_.holds(raw))

    def _distribution(self, raw: NDArray[np.float64]) -> Distribution:
        predicted = self._predicted(raw)
        dist = self._from_quantiles(predicted.leaf, predicted.mean, predicted.quantiles)
        if predicted.found is None:
            return dist
        return dist.with_parts(self._within(dist, predicted), None)

    def _from_quantiles(
        self, leaf: NDArray[np.int64], mean: NDArray[np.float64], quantiles: NDArray[np.float64]
    ) -> QuantileDistribution:
        """Distributions from predicted quantile functions, calibrated if the model is; their mean is the prediction."""
        told = None if self.own_mean_ else mean
        if self.calibration_ is None:
            return QuantileDistribution(quantiles, POSITIONS, np.zeros_like(leaf), [standard_normal()], mean=told)
        return self.calibration_.distribution(quantiles, leaf, told)

    def _set_aside(
        self, table: TrainingTable, fraction: float, rng: np.random.Generator
    ) -> tuple[TrainingTable, CalibrationRows | None]:
        """Take calibration rows out of a table; not even the scaling of the others may know of them."""
        n_set_aside = round(fraction * table.n_rows)
        if n_set_aside == 0:
            return table, None
        aside, rest = np.split(rng.permutation(table.n_rows), [n_set_aside])
        rest = np.sort(rest)
        target = self.target_mean_ + self.target_std_ * table.y
        kept = CalibrationRows(table.raw[aside], target[aside], table.weight[aside])
        return self._scaled_table(np.asfortranarray(table.raw[rest]), target[rest], table.weight[rest]), kept

    def _calibrate_on(self, rows: CalibrationRows, by: str) -> None:
        """Calibrate by rows that no network has learnt from; familiar ones by themselves, if they are enough."""
        y = (rows.target - self.target_mean_) / self.target_std_
        scores, leaf = conformity_scores(self._quantile_functions(rows.raw)[2], y), self.tree_.leaf_of(rows.raw)
        known = np.zeros(len(y), dtype=bool) if self.familiar_ is None else self.familiar_.holds(rows.raw)
        # Where familiar rows are too few for a group of their own, they are calibrated and count as the others.
        group = leaf if by == "leaf" else np.zeros_like(leaf)
        known &= (np.bincount(group[known], minlength=self.n_leaves_) >= MIN_REPEATED)[group]
        new = ~known
        if not new.any():
            known, new = new, known
        calibration = Calibration.from_scores(scores[new], leaf[new], rows.weight[new], self.tree_, by)
        self.calibration_ = calibration
        if known.any():
            self.calibration_ = calibration.with_familiar(scores[known], leaf[known], rows.weight[known], MIN_REPEATED)

    def _calibrate_by_validation(
        self, table: TrainingTable, rows: NDArray[np.intp], scores: NDArray[np.float64], by: str
    ) -> None:
        """Calibrate by the conformity scores of validation rows, familiar rows by those of repeated training rows."""
        leaf = self.tree_.leaf_of(table.raw[rows])
        self.calibration_ = Calibration.from_scores(scores, leaf, table.weight[rows], self.tree_, by)
        self.familiar_, repeated = find_familiar(table.raw, table.weight)
        if self.familiar_ is not None:
            leaf, _, quantiles, _ = self._network_quantiles(table.raw[repeated])
            scores = conformity_scores(quantiles, table.y[repeated])
            self.calibration_ = self.calibration_.with_familiar(scores, leaf, table.weight[repeated], MIN_REPEATED)

    def calibrate(self, X: Any, y: ArrayLike, by: str = "leaf") -> Self:
        """Learn the spread and shape of the errors anew from fresh rows, and nothing else.

        The coverage of `predict_interval` is then guaranteed, in every leaf, for rows that are exchangeable with
        these: no assumption is made about the networks or the distribution.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Rows that were not used to fit the model.
        y : array-like of shape (n_samples,)
        by : {"leaf", "global"}, default="leaf"
            Whether every leaf, or all together, get a shape of their own.

        Returns
        -------
        self
        """
        check_choice("by", by, ("leaf", "global"))
        raw, target = self._encode(X), read_target(y)
        if len(raw) != len(target):
            raise ValueError(f"X and y must have the same number of rows, got {len(raw)} and {len(target)}")
        rows, weight = merged_rows(raw, target, np.ones(len(target)))
        self._calibrate_on(CalibrationRows(raw[rows], target[rows], weight), by)
        return self

    def predict_interval(self, X: Any, coverage: float | Sequence[float] = 0.9) -> NDArray[np.float64]:
        """Intervals that hold the target with a stated probability, with equal tails.

        Calibrated models take the order statistics of the conformity scores in the row's region (see
        `usnrt.calibration.calibration`). Bounds are infinite where a region has too few calibration rows for the
        coverage; an `usnrt.utils.notices.InfiniteIntervalWarning` then says how many it has and how many are needed
        (`usnrt.calibration.conformal.rows_needed`).

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
        coverage : float or sequence of k floats, default=0.9
            In (0, 1).

        Returns
        -------
        ndarray of shape (n_samples, 2), or (n_samples, 2, k) for a sequence
        """
        check_is_fitted(self)
        if self.calibration_ is None:
            return super().predict_interval(X, coverage)
        for level in np.atleast_1d(coverage):
            check_number("coverage", float(level), 0, 1)
        leaf, _, quantiles = self._quantile_functions(self._encode(X))
        bounds = [
            self.target_mean_ + self.target_std_ * self.calibration_.interval(quantiles, leaf, float(level))
            for level in np.atleast_1d(coverage)
        ]
        infinite = [float(level) for level, ends in zip(np.atleast_1d(coverage), bounds) if not np.isfinite(ends).all()]
        lack = shortage(self.calibration_, max(infinite)) if infinite else None
        if lack is not None:
            warnings.warn(str(lack), InfiniteIntervalWarning, stacklevel=2)
        return bounds[0] if np.ndim(coverage) == 0 else np.stack(bounds, axis=2)

    # -- reading the regions -----------------------------------------------------------------------------------

    @property
    def n_leaves_(self) -> int:
        """Number of regions."""
        return self.tree_.n_leaves

    def apply(self, X: Any) -> NDArray[np.int64]:
        """The id of the region that each row falls in.

        The same id is in `rules`, `predict_table`, `export_text`, plots, reports and ONNX graphs. It is the number of
        the region's node in the tree, so it is also a column of `decision_path`.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of int of shape (n_samples,)
        """
        raw = self._encode(X)
        return self.tree_.apply(raw)

    def decision_path(self, X: Any) -> Any:
        """The nodes of the tree that each row passes, its region included.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)

        Returns
        -------
        scipy.sparse.csr_matrix of shape (n_samples, n_nodes)
            1 where a row passes a node; the last one is the row's region, ``apply(X)``.
        """
        raw = self._encode(X)
        return self.tree_.decision_path(raw)

    def get_depth(self) -> int:
        """The longest way from the root to a leaf."""
        check_is_fitted(self)
        return self.tree_.max_depth

    def get_n_leaves(self) -> int:
        """Number of leaves."""
        check_is_fitted(self)
        return self.n_leaves_

    @property
    def heterogeneity_(self) -> float:
        """Standard deviation of the logarithms of the leaves' residual standard deviations."""
        leaves = self.tree_.feature < 0
        return float(np.std(np.log(np.maximum(self.tree_.residual_std[leaves], np.finfo(float).tiny))))

    def rules(self) -> Table:
        """The regions as a table.

        Returns
        -------
        Table
            One row per region: ``region`` (its id, as from `apply`), ``rule`` (in words), ``rows`` and ``share`` of
            the training rows, ``residual_std`` in the target's units, and the splits on the way (``statistic``,
            ``log10_p`` of the last one, ``statistics``, ``log10_ps`` of all).
        """
        check_is_fitted(self)
        return rules_table(self.tree_, self.columns_)

    def to_onnx(self, path: Any = None, *, levels: Sequence[float] = (0.05, 0.5, 0.95)) -> "ModelProto":
        """The model as one ONNX graph for other languages: rows as they are go in, answers come out.

        Inputs: if all columns hold numbers, one matrix ``X`` of shape (n, n_features), float64. Else an input of shape
        (n,) for each column, under its name: numbers as float64, text as strings, dates as int64 microseconds of wall
        time since 1970. A missing value is NaN, the empty string or the smallest int64 (every input tells so in its
        description); `usnrt.onnx.feeds` makes all inputs from a table. An input has an underscore after its name if an
        output is called so. Categories that training did not see and values beyond all thresholds are handled as in
        the library; a number that is infinite is not refused but taken as a very large one.

        Outputs: ``mean`` and ``std`` of shape (n,), ``region`` of shape (n,) as from `apply`, ``quantiles`` of shape
        (n, k) as from `predict_quantiles`, and ``supported`` of shape (n,) as from `predict_support`.

        Parameters
        ----------
        path : path-like, optional
            The file to write, by custom ending in ``.onnx``; None for none.
        levels : sequence of k floats, default=(0.05, 0.5, 0.95)
            Of the quantiles, each in (0, 1).

        Returns
        -------
        onnx.ModelProto
        """
        from usnrt.onnx import to_onnx

        return to_onnx(self, path, levels=levels)


@functools.cache
def standard_normal() -> ResidualDistribution:
    """The shape of a standard normal, for quantiles that are taken as the networks say them."""
    knots = np.linspace(-6.0, 6.0, 241)
    return ResidualDistribution(knots, np.exp(-(knots**2) / 2.0), np.full(2, 2.5e-9), np.full(2, 1e-3))
