"""Mondrian conformal predictive systems of the crepes package over LightGBM, with this library's interface."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.model_selection import KFold
from sklearn.utils import check_random_state

from usnrt.comparison.peers.base import LEVELS, TINY
from usnrt.comparison.quantiles import InterpolatedQuantiles, separated
from usnrt.distributions import Distribution, Normal
from usnrt.estimators.base import DistributionalRegressor
from usnrt.tables.rows import draw_validation
from usnrt.tables.training import DistinctRows, TrainingTable
from usnrt.utils.constraints import check_number, check_running, check_whole
from usnrt.utils.shared_docs import EVERY_MODEL, SharedDocs

# So that the outer levels, 1 and 99 %, are between calibration rows.
MIN_ROWS_PER_BIN = 100
# Added to the difficulty, crepes' default.
BETA = 0.01


@dataclass(kw_only=True, eq=False, repr=False)
class CrepesRegressor(SharedDocs, DistributionalRegressor):
    """Normalised Mondrian conformal predictive system (crepes) over a LightGBM regression.

    A LightGBM model predicts the target, a second one the absolute residual (the *difficulty*, from residuals
    cross-validated on the proper training rows). Calibration rows are divided into bins of equal size by the predicted
    target; the distribution of a row is that of the normalised residuals in its bin. It is stored as
    `InterpolatedQuantiles` at 21 levels. Categories are passed to LightGBM as such.

    Settings: ``ConformalPredictiveSystem`` with a difficulty estimator by function and 10 Mondrian bins, crepes'
    defaults of ``DifficultyEstimator`` (``beta=0.01``) and ``MondrianCategorizer`` (Boström, *Conformal prediction in
    Python with crepes*, 2024); bins by the predicted target as in Boström, Johansson and Löfström, *Mondrian conformal
    predictive distributions* (2021). LightGBM as ``LGBM_TD_REG`` in pytabkit: 1,000 rounds at a learning rate of 0.05,
    100 leaves of at least 3 rows, a subsample of 0.7; the difficulty has 200 rounds and LightGBM's default leaves, our
    own choice, which was not tuned. Calibration rows are repeated as often as they count, because crepes does not use
    weights.

    Parameters
    ----------
    n_estimators : int, default=1000
        Number of boosting rounds of the target.
    learning_rate : float, default=0.05
    num_leaves : int, default=100
    n_folds : int, default=3
        Folds of the cross-validated residuals.
    n_bins : int, default=10
        Maximum number of Mondrian bins; fewer if a bin would have less than 100 calibration rows.
    calibration_fraction : float, default=0.2
        Fraction of the rows for calibration. The models are not refitted with them.
    {shared}

    Attributes
    ----------
    models_ : list of str
        The models of target and difficulty in LightGBM's own format.
    system_ : crepes.ConformalPredictiveSystem
    thresholds_ : ndarray
        Inner boundaries of the bins, in units of the scaled target.

    Examples
    --------
    >>> from usnrt_experiments.peers import CrepesRegressor
    >>> CrepesRegressor(n_bins=5).n_bins
    5
    """

    n_estimators: int = 1000
    learning_rate: float = 0.05
    num_leaves: int = 100
    n_folds: int = 3
    n_bins: int = 10
    calibration_fraction: float = 0.2
    categorical_features: Any = None
    random_state: Any = None
    n_jobs: int | None = -1

    _SHARED = EVERY_MODEL.lstrip()

    def _fit(self, rows: DistinctRows) -> None:
        table = self._scaled_table(rows)
        check_whole("n_estimators", self.n_estimators, 1)
        check_number("learning_rate", self.learning_rate, 0, np.inf)
        check_whole("num_leaves", self.num_leaves, 2)
        check_whole("n_folds", self.n_folds, 2)
        check_whole("n_bins", self.n_bins, 1)
        check_number("calibration_fraction", self.calibration_fraction, 0, 1)
        check_running(self.n_jobs, 0, None)
        import crepes

        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        rng = np.random.default_rng(seed)
        train, calibration = draw_validation(np.arange(table.n_rows), self.calibration_fraction, rng)
        calibration = repeated(calibration if len(calibration) else train, table)
        self.constant_ = float(table.y[train][0]) if np.ptp(table.y[train]) == 0 else None
        if self.constant_ is not None:
            return
        self.models_ = [
            self._boosted(table, train, table.y[train], seed).model_to_string(),
            self._difficulty(table, train, seed).model_to_string(),
        ]
        center, spread = self._point_and_difficulty(table.raw[calibration])
        n_bins = min(self.n_bins, max(1, len(calibration) // MIN_ROWS_PER_BIN))
        thresholds = np.quantile(center, np.arange(1, n_bins) / n_bins)
        # Tied predictions share a bin, and the last bin is not empty.
        self.thresholds_ = np.unique(thresholds[thresholds < center.max()])
        self.system_ = crepes.ConformalPredictiveSystem()
        self.system_.fit(table.y[calibration] - center, sigmas=spread, bins=self._bins(center), seed=seed)

    def _bins(self, center: NDArray[np.float64]) -> NDArray[np.intp] | None:
        """Bin of each row by its predicted target; None if there is only one, for which crepes has another path."""
        return np.searchsorted(self.thresholds_, center) if len(self.thresholds_) else None

    def _boosted(self, table: TrainingTable, rows: NDArray[np.intp], y: NDArray[np.float64], seed: int) -> Any:
        """LightGBM of the target, trained on these rows."""
        return self._lightgbm(
            table, rows, y, seed, self.n_estimators, {"num_leaves": self.num_leaves, "min_data_in_leaf": 3}
        )

    def _difficulty(self, table: TrainingTable, train: NDArray[np.intp], seed: int) -> Any:
        """LightGBM of the absolute residual, from residuals of models that were not trained on the row."""
        y = table.y[train]
        size = np.zeros(len(train))
        folds = min(self.n_folds, len(train))
        for fitted, left in KFold(folds, shuffle=True, random_state=seed % 2**31).split(train):
            model = self._boosted(table, train[fitted], y[fitted], seed)
            size[left] = np.abs(y[left] - model.predict(table.raw[train[left]]))
        return self._lightgbm(table, train, size, seed, min(200, self.n_estimators), {})

    def _lightgbm(
        self, table: TrainingTable, rows: NDArray[np.intp], y: NDArray[np.float64], seed: int, n_rounds: int, more: Any
    ) -> Any:
        import lightgbm

        settings = {
            "objective": "regression",
            "learning_rate": self.learning_rate,
            "min_sum_hessian_in_leaf": 1e-7,
            "bagging_fraction": 0.7 if len(rows) > 1 else 1.0,  # LightGBM fails on a sample without rows
            "bagging_freq": 1,
            "num_threads": effective_n_jobs(self.n_jobs),
            "seed": seed,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
            **more,
        }
        categories = np.flatnonzero(self.encoder_.n_categories_ > 0).tolist()
        data = lightgbm.Dataset(
            table.raw[rows], y, weight=table.weight[rows], categorical_feature=categories, params=settings
        )
        return lightgbm.train(settings, data, n_rounds)

    def _point_and_difficulty(self, raw: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        import lightgbm

        n_threads = effective_n_jobs(self.n_jobs)
        center, size = (lightgbm.Booster(model_str=text).predict(raw, num_threads=n_threads) for text in self.models_)
        return np.asarray(center), np.maximum(size, 0.0) + BETA

    def _distribution(self, raw: NDArray[np.float64]) -> Distribution:
        if self.constant_ is not None:
            return Normal(np.full(len(raw), self.constant_), TINY)
        center, spread = self._point_and_difficulty(raw)
        with warnings.catch_warnings():
            # Quantiles that the calibration rows are too few for are infinite; they are replaced below.
            warnings.filterwarnings("ignore", message="the no. of calibration examples is")
            values = self.system_.predict_percentiles(
                center,
                sigmas=spread,
                bins=self._bins(center),
                lower_percentiles=[100 * level for level in LEVELS if level <= 0.5],
                higher_percentiles=[100 * level for level in LEVELS if level > 0.5],
            )
        finite = np.isfinite(values)
        low = np.where(finite, values, np.inf).min(axis=1, keepdims=True)
        high = np.where(finite, values, -np.inf).max(axis=1, keepdims=True)
        return InterpolatedQuantiles(LEVELS, separated(np.clip(values, low, high), TINY))


def repeated(rows: NDArray[np.intp], table: TrainingTable) -> NDArray[np.intp]:
    """Rows repeated as often as they count, for libraries that do not use weights; fractions are rounded up."""
    return np.repeat(rows, np.ceil(table.weight[rows]).astype(np.intp))
