"""CatBoost (a normal distribution), LightGBM and XGBoost (quantiles at many levels) with tuned default settings.

The settings are the tuned defaults for regression of Holzmüller, Grinsztajn and Steinwart, *Better by default: strong
pre-tuned MLPs and boosted trees on tabular data* (NeurIPS 2024), from ``DefaultParams`` of their package pytabkit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from usnrt.comparison.peers.base import TINY, BoostingPeer
from usnrt.comparison.peers.boosting import FEW_LEVELS, CatBoostRegressor, LightGBMQuantileRegressor
from usnrt.comparison.quantiles import InterpolatedQuantiles, check_levels, separated
from usnrt.distributions import Distribution
from usnrt.tables.training import TrainingTable
from usnrt.utils.constraints import check_number, check_whole


@dataclass(kw_only=True, eq=False, repr=False)
class CatBoostTunedRegressor(CatBoostRegressor):
    """CatBoost with the loss ``RMSEWithUncertainty`` and tuned default settings.

    Settings: depth 9, learning rate 0.09, 1,000 rounds, patience of 300 rounds, which are those of ``CB_TD_REG`` in
    pytabkit (Holzmüller, Grinsztajn and Steinwart, 2024). CatBoost's defaults are kept for the others.

    Parameters
    ----------
    n_estimators : int, default=1000
        Maximum number of boosting rounds.
    learning_rate : float, default=0.09
    max_depth : int, default=9
    {shared}

    Attributes
    ----------
    model_ : ndarray of uint8
        The model in CatBoost's own format.

    Examples
    --------
    >>> from usnrt_experiments.peers import CatBoostTunedRegressor
    >>> from usnrt.datasets import make_heteroscedastic
    >>> data = make_heteroscedastic("jump", n_samples=500, random_state=0)
    >>> model = CatBoostTunedRegressor(n_estimators=50, random_state=0).fit(data.data, data.target)
    >>> model.predict_dist(data.data)
    <Normal of 500 rows>
    """

    n_estimators: int = 1000
    learning_rate: float = 0.09
    early_stopping_rounds: int | None = 300
    max_depth: int = 9


@dataclass(kw_only=True, eq=False, repr=False)
class LightGBMTunedRegressor(LightGBMQuantileRegressor):
    """LightGBM quantile regression with tuned default settings: one model per level.

    Settings: 1,000 rounds at a learning rate of 0.05, 100 leaves of at least 3 rows, a subsample of 0.7 in each round;
    those of ``LGBM_TD_REG`` in pytabkit (Holzmüller, Grinsztajn and Steinwart, 2024), without early stopping, because
    all rounds on all rows had the lower pinball loss on inner splits of Electrical (by 3 to 10 %) and Physicochemical
    (up to 3 %). Crossing quantiles are sorted; the distribution between them is that of `InterpolatedQuantiles`.

    Parameters
    ----------
    n_estimators : int, default=1000
        Maximum number of boosting rounds of each level.
    learning_rate : float, default=0.05
    num_leaves : int, default=100
    min_child_samples : int, default=3
        Minimum number of rows per leaf.
    subsample : float, default=0.7
        Fraction of the rows that each tree is fitted to.
    levels : sequence of float, default=(0.01, 0.05, 0.1, 0.2, ..., 0.9, 0.95, 0.99)
        Levels of the quantiles; 13 by default.
    {shared}

    Attributes
    ----------
    models_ : list of str
        The models in LightGBM's own format, one per level.

    Examples
    --------
    >>> from usnrt_experiments.peers import LightGBMTunedRegressor
    >>> from usnrt.datasets import make_heteroscedastic
    >>> data = make_heteroscedastic("jump", n_samples=500, random_state=0)
    >>> model = LightGBMTunedRegressor(n_estimators=20, random_state=0, n_jobs=1).fit(data.data, data.target)
    >>> model.predict_dist(data.data)
    <InterpolatedQuantiles of 500 rows>
    """

    n_estimators: int = 1000
    early_stopping_rounds: int | None = None
    num_leaves: int = 100
    min_child_samples: int = 3
    subsample: float = 0.7
    levels: Sequence[float] = FEW_LEVELS

    def _check(self) -> None:
        super()._check()
        check_whole("min_child_samples", self.min_child_samples, 1)
        check_number("subsample", self.subsample, 0, 1)

    def _more_settings(self) -> dict[str, Any]:
        return {
            "min_data_in_leaf": self.min_child_samples,
            "min_sum_hessian_in_leaf": 1e-7,
            "bagging_fraction": self.subsample,
            "bagging_freq": 1,
        }


@dataclass(kw_only=True, eq=False, repr=False)
class XGBoostQuantileRegressor(BoostingPeer):
    """XGBoost with the objective ``reg:quantileerror`` and a list of levels: one model, one tree per level and round.

    Settings: 1,000 rounds at a learning rate of 0.05, depth 9, a minimum child weight of 2, no L2 penalty, a subsample
    of 0.7, histograms of 256 bins, those of ``XGB_TD_REG`` in pytabkit (Holzmüller, Grinsztajn and Steinwart, 2024);
    XGBoost's own example of quantile regression stops early by the mean pinball loss, as here. Crossing quantiles are
    sorted; the distribution between them is that of `InterpolatedQuantiles`. Categories are passed to XGBoost as such.

    Parameters
    ----------
    n_estimators : int, default=1000
        Maximum number of boosting rounds.
    learning_rate : float, default=0.05
    max_depth : int, default=9
    min_child_weight : float, default=2.0
    subsample : float, default=0.7
        Fraction of the rows that each tree is fitted to.
    levels : sequence of float, default=(0.01, 0.05, 0.1, 0.2, ..., 0.9, 0.95, 0.99)
        Levels of the quantiles; 13 by default.
    {shared}

    Attributes
    ----------
    model_ : ndarray of uint8
        The model in XGBoost's own format, up to the best round.

    Examples
    --------
    >>> from usnrt_experiments.peers import XGBoostQuantileRegressor
    >>> XGBoostQuantileRegressor(max_depth=6).max_depth
    6
    """

    n_estimators: int = 1000
    early_stopping_rounds: int | None = 300
    max_depth: int = 9
    min_child_weight: float = 2.0
    subsample: float = 0.7
    levels: Sequence[float] = FEW_LEVELS

    def _check(self) -> None:
        check_whole("max_depth", self.max_depth, 1)
        check_number("min_child_weight", self.min_child_weight, 0, np.inf)
        check_number("subsample", self.subsample, 0, 1)
        check_levels(self.levels)

    def _boost(self, table: TrainingTable, train: NDArray[np.intp], valid: NDArray[np.intp], seed: int) -> None:
        import xgboost

        settings = {
            "objective": "reg:quantileerror",
            "quantile_alpha": np.asarray(self.levels, dtype=np.float64),
            "tree_method": "hist",
            "learning_rate": self.learning_rate,
            "max_depth": self.max_depth,
            "min_child_weight": self.min_child_weight,
            "reg_lambda": 0.0,
            "subsample": self.subsample,
            "seed": seed,
            "nthread": effective_n_jobs(self.n_jobs),
            "verbosity": 1 if self.verbose else 0,
        }
        data, check = (
            self._matrix(table.raw[rows], label=table.y[rows], weight=table.weight[rows]) for rows in (train, valid)
        )
        booster = xgboost.train(
            settings,
            data,
            self.n_estimators,
            evals=[(check, "validation")],
            early_stopping_rounds=self.early_stopping_rounds,
            verbose_eval=bool(self.verbose),
        )
        if self.early_stopping_rounds is not None:
            booster = booster[: booster.best_iteration + 1]
        self.model_ = np.frombuffer(booster.save_raw("ubj"), dtype=np.uint8)

    def _matrix(self, raw: NDArray[np.float64], **columns: Any) -> Any:
        import xgboost

        is_category = self.encoder_.n_categories_ > 0
        known = np.where(is_category & (raw < 0), np.nan, raw)  # unknown categories are missing values to XGBoost
        return xgboost.DMatrix(
            known,
            **columns,
            feature_types=np.where(is_category, "c", "float").tolist(),
            enable_categorical=True,
            nthread=effective_n_jobs(self.n_jobs),
        )

    def _predict_scaled(self, raw: NDArray[np.float64]) -> Distribution:
        import xgboost

        booster = xgboost.Booster({"nthread": effective_n_jobs(self.n_jobs)})
        booster.load_model(bytearray(self.model_.tobytes()))
        return InterpolatedQuantiles(self.levels, separated(booster.predict(self._matrix(raw)), TINY))
