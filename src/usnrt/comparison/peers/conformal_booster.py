"""Conformalised quantile regression over scikit-learn's histogram boosting: needs no further package."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.utils import check_random_state

from usnrt.comparison.peers.base import TINY
from usnrt.comparison.quantiles import InterpolatedQuantiles, check_levels, conformal_quantile, separated
from usnrt.distributions import Distribution, Normal
from usnrt.estimators.base import DistributionalRegressor
from usnrt.tables.rows import draw_validation
from usnrt.tables.training import DistinctRows
from usnrt.utils.constraints import check_number, check_running, check_whole
from usnrt.utils.shared_docs import EVERY_MODEL, SharedDocs
from usnrt.utils.sklearn_trees import MAX_CATEGORIES, boosting_threads, without_empty_columns
from usnrt.utils.types import Floats


@dataclass(kw_only=True, eq=False, repr=False)
class ConformalBoosterRegressor(SharedDocs, DistributionalRegressor):
    """Quantile regression by scikit-learn's ``HistGradientBoostingRegressor``, conformalised on held-out rows.

    One model per level; each predicted quantile is moved by the conformal quantile of its errors on the calibration
    rows (Romano, Patterson and Candès, *Conformalized quantile regression*, 2019, with separate tails), so that
    central intervals between two of the levels have at least their nominal coverage on average over all rows. The
    distribution between the quantiles is that of `InterpolatedQuantiles`. Trees have 15 leaves, otherwise
    scikit-learn's defaults; nothing was tuned.

    Parameters
    ----------
    n_estimators : int, default=100
        Maximum number of boosting rounds of each level; beyond 10,000 rows scikit-learn stops early, as by default.
    learning_rate : float, default=0.1
    levels : sequence of float, default=(0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95)
        Levels of the quantiles.
    calibration_fraction : float, default=0.2
        Fraction of the rows for calibration. The models are not refitted with them.
    {shared}

    Attributes
    ----------
    models_ : list of HistGradientBoostingRegressor
        One per level.
    offsets_ : ndarray of shape (n_levels,)
        What the calibration adds to each quantile, in units of the scaled target.

    Examples
    --------
    >>> from usnrt.comparison.peers import ConformalBoosterRegressor
    >>> from usnrt.datasets import make_heteroscedastic
    >>> data = make_heteroscedastic("jump", n_samples=500, random_state=0)
    >>> model = ConformalBoosterRegressor(n_estimators=5, random_state=0, n_jobs=1).fit(data.data, data.target)
    >>> model.predict_dist(data.data)
    <InterpolatedQuantiles of 500 rows>
    """

    n_estimators: int = 100
    learning_rate: float = 0.1
    levels: Sequence[float] = (0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95)
    calibration_fraction: float = 0.2
    categorical_features: Any = None
    random_state: Any = None
    n_jobs: int | None = -1

    _SHARED = EVERY_MODEL.lstrip()

    def _fit(self, rows: DistinctRows) -> None:
        table = self._scaled_table(rows)
        check_whole("n_estimators", self.n_estimators, 1)
        check_number("learning_rate", self.learning_rate, 0, np.inf)
        check_levels(self.levels)
        check_number("calibration_fraction", self.calibration_fraction, 0, 1)
        check_running(self.n_jobs, 0, None)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        rng = np.random.default_rng(seed)
        train, calibration = draw_validation(np.arange(table.n_rows), self.calibration_fraction, rng)
        calibration = calibration if len(calibration) else train
        self.constant_ = float(table.y[train][0]) if np.ptp(table.y[train]) == 0 else None
        if self.constant_ is not None:
            return
        with boosting_threads(self.n_jobs, table.n_rows):
            known = without_empty_columns(table.raw[train])
            self.models_ = [
                self._booster(level, seed).fit(known, table.y[train], table.weight[train]) for level in self.levels
            ]
            errors = table.y[calibration, None] - self._quantiles(table.raw[calibration])
        weight = table.weight[calibration]
        self.offsets_ = np.array(
            [conformal_quantile(errors[:, k], level, weight) for k, level in enumerate(self.levels)]
        )

    def _booster(self, level: float, seed: int) -> HistGradientBoostingRegressor:
        n_categories = self.encoder_.n_categories_
        return HistGradientBoostingRegressor(
            loss="quantile",
            quantile=level,
            learning_rate=self.learning_rate,
            max_iter=self.n_estimators,
            max_leaf_nodes=15,
            categorical_features=(n_categories > 0) & (n_categories <= MAX_CATEGORIES),
            random_state=seed,
        )

    def _quantiles(self, raw: NDArray[np.float64]) -> Floats:
        return np.column_stack([model.predict(raw) for model in self.models_])

    def _distribution(self, raw: NDArray[np.float64]) -> Distribution:
        if self.constant_ is not None:
            return Normal(np.full(len(raw), self.constant_), TINY)
        with boosting_threads(self.n_jobs, len(raw)):
            values = self._quantiles(raw) + self.offsets_
        return InterpolatedQuantiles(self.levels, separated(values, TINY))
