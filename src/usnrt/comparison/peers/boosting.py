"""CatBoost, NGBoost and LightGBM with this library's interface, each in its usual configuration."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeRegressor

from usnrt.comparison.peers.base import LEVELS, TINY, BoostingPeer, import_optional
from usnrt.comparison.quantiles import InterpolatedQuantiles, check_levels, separated
from usnrt.distributions import Distribution, Normal
from usnrt.tables.training import TrainingTable
from usnrt.utils.constraints import check_whole
from usnrt.utils.sklearn_trees import FlatForest

# 13 levels instead of 21, to save time.
FEW_LEVELS = (0.01, 0.05, *(i / 10 for i in range(1, 10)), 0.95, 0.99)


@dataclass(kw_only=True, eq=False, repr=False)
class CatBoostRegressor(BoostingPeer):
    """CatBoost with the loss ``RMSEWithUncertainty``: mean and variance of a normal distribution, boosted together.

    Categories are passed to CatBoost as such.

    Parameters
    ----------
    n_estimators : int, default=2000
        Maximum number of boosting rounds.
    learning_rate : float, default=0.05
    max_depth : int, default=6
    {shared}

    Attributes
    ----------
    model_ : ndarray of uint8
        The model in CatBoost's own format.
    """

    max_depth: int = 6

    def _check(self) -> None:
        check_whole("max_depth", self.max_depth, 1, 16)

    def _loss(self) -> dict[str, Any]:
        """Settings of CatBoost for the loss."""
        return {"loss_function": "RMSEWithUncertainty"}

    def _boost(self, table: TrainingTable, train: NDArray[np.intp], valid: NDArray[np.intp], seed: int) -> None:
        catboost = import_optional("catboost", self)
        model = catboost.CatBoost(
            {
                **self._loss(),
                "iterations": self.n_estimators,
                "learning_rate": self.learning_rate,
                "depth": self.max_depth,
                **self._stopping(),
                "random_seed": seed,
                "thread_count": effective_n_jobs(self.n_jobs),
                "allow_writing_files": False,
                "allow_const_label": True,
                "logging_level": "Verbose" if self.verbose else "Silent",
            }
        )
        pools = [
            catboost.Pool(self._features(table.raw[rows]), table.y[rows], weight=table.weight[rows])
            for rows in (train, valid)
        ]
        model.fit(pools[0], eval_set=pools[1])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.cbm"
            model.save_model(str(path))
            self.model_ = np.frombuffer(path.read_bytes(), dtype=np.uint8)

    def _stopping(self) -> dict[str, Any]:
        if self.early_stopping_rounds is None:
            return {"use_best_model": False}
        return {"od_type": "Iter", "od_wait": self.early_stopping_rounds, "use_best_model": True}

    def _features(self, raw: NDArray[np.float64]) -> Any:
        catboost = import_optional("catboost", self)
        is_category = self.encoder_.n_categories_ > 0
        numbers = np.ascontiguousarray(raw[:, ~is_category], dtype=np.float32)
        labels = np.nan_to_num(raw[:, is_category], nan=-2.0).astype(np.int64).astype("S").astype(object)
        return catboost.FeaturesData(
            num_feature_data=None if is_category.all() else numbers,
            cat_feature_data=labels if is_category.any() else None,
        )

    def _outputs(self, raw: NDArray[np.float64], kind: str) -> NDArray[np.float64]:
        """CatBoost's prediction of a type, shape (n, n_outputs)."""
        catboost = import_optional("catboost", self)
        model = catboost.CatBoost().load_model(blob=self.model_.tobytes())
        n_threads = effective_n_jobs(self.n_jobs)
        return np.asarray(model.predict(self._features(raw), prediction_type=kind, thread_count=n_threads))

    def _predict_scaled(self, raw: NDArray[np.float64]) -> Distribution:
        mean, variance = self._outputs(raw, "RMSEWithUncertainty").T
        variance = np.maximum(variance, TINY**2)
        return Normal(mean, np.sqrt(variance)).with_parts(variance, None)


@dataclass(kw_only=True, eq=False, repr=False)
class CatBoostQuantileRegressor(CatBoostRegressor):
    """CatBoost with the loss ``MultiQuantile``: one model of symmetric trees for the quantiles at all levels.

    Settings: the tuned defaults ``CB_TD_REG`` of pytabkit (Holzmüller, Grinsztajn and Steinwart, *Better by default:
    strong pre-tuned MLPs and boosted trees on tabular data*, 2024), but 64 instead of 254 bins per feature, to save
    time: on an inner split of Electrical a round took 0.07 instead of 0.27 s, and the loss after 30 rounds was 1 %
    higher.
    Crossing quantiles are sorted; the distribution between them is that of `InterpolatedQuantiles`. Categories are
    passed to CatBoost as such.

    Parameters
    ----------
    n_estimators : int, default=1000
        Maximum number of boosting rounds.
    learning_rate : float, default=0.09
    max_depth : int, default=9
    max_bins : int, default=64
        Bins per feature.
    levels : sequence of float, default=(0.01, 0.05, 0.1, 0.2, ..., 0.9, 0.95, 0.99)
        Levels of the quantiles; 13 by default.
    {shared}

    Attributes
    ----------
    model_ : ndarray of uint8
        The model in CatBoost's own format.
    """

    n_estimators: int = 1000
    learning_rate: float = 0.09
    early_stopping_rounds: int | None = 300
    max_depth: int = 9
    max_bins: int = 64
    levels: Sequence[float] = FEW_LEVELS

    def _check(self) -> None:
        super()._check()
        check_whole("max_bins", self.max_bins, 1, 65535)
        check_levels(self.levels)

    def _loss(self) -> dict[str, Any]:
        levels = ",".join(str(float(level)) for level in self.levels)
        return {"loss_function": f"MultiQuantile:alpha={levels}", "border_count": self.max_bins}

    def _predict_scaled(self, raw: NDArray[np.float64]) -> Distribution:
        return InterpolatedQuantiles(self.levels, separated(self._outputs(raw, "RawFormulaVal"), TINY))


@dataclass(kw_only=True, eq=False, repr=False)
class NGBoostRegressor(BoostingPeer):
    """NGBoost: mean and log standard deviation of a normal distribution, boosted along the natural gradient.

    Categories are one-hot encoded. NGBoost uses one thread.

    Parameters
    ----------
    n_estimators : int, default=2000
        Maximum number of boosting rounds.
    learning_rate : float, default=0.05
    {shared}

    Attributes
    ----------
    start_ : ndarray of shape (2,)
        Mean and logarithm of the standard deviation before the first round.
    forests_ : list of FlatForest
        The trees of the mean and of the log standard deviation, up to the best round.
    """

    def _boost(self, table: TrainingTable, train: NDArray[np.intp], valid: NDArray[np.intp], seed: int) -> None:
        ngboost = import_optional("ngboost", self)
        model = ngboost.NGBRegressor(
            Base=DecisionTreeRegressor(max_depth=3, random_state=seed),  # NGBoost's default, but seeded
            n_estimators=self.n_estimators,
            learning_rate=self.learning_rate,
            random_state=seed,
            verbose=bool(self.verbose),
        )
        model.fit(
            table.inputs[train],
            table.y[train],
            X_val=table.inputs[valid],
            Y_val=table.y[valid],
            sample_weight=table.weight[train],
            val_sample_weight=table.weight[valid],
            early_stopping_rounds=self.early_stopping_rounds,
        )
        stopped = self.early_stopping_rounds is not None
        n_rounds = model.best_val_loss_itr + 1 if stopped else len(model.base_models)
        self.start_ = np.asarray(model.init_params, dtype=np.float64)
        factors = -self.learning_rate * np.array(model.scalings[:n_rounds], dtype=np.float64)
        rounds = model.base_models[:n_rounds]
        self.forests_ = [_as_sum([trees[k] for trees in rounds], factors) for k in range(2)]

    def _predict_scaled(self, raw: NDArray[np.float64]) -> Normal:
        inputs = self.inputs_.transform(raw)
        n_threads = effective_n_jobs(self.n_jobs)
        mean, log_std = (
            start + forest.moments(inputs, n_threads=n_threads)[0, 0, 0]
            for start, forest in zip(self.start_, self.forests_)
        )
        std = np.exp(np.clip(log_std, np.log(TINY), 50.0))
        return Normal(mean, std).with_parts(std**2, None)


def _as_sum(trees: Sequence[Any], factors: NDArray[np.float64]) -> FlatForest:
    """A forest whose mean over the trees is the sum of the trees times their factors."""
    forest = FlatForest.of(trees)
    sizes = np.diff(np.append(forest.root, len(forest.mean)))
    return replace(forest, mean=forest.mean * np.repeat(factors * len(trees), sizes))


@dataclass(kw_only=True, eq=False, repr=False)
class LightGBMQuantileRegressor(BoostingPeer):
    """LightGBM quantile regression: one model per level, each with early stopping by its own loss.

    Crossing quantiles are sorted; the distribution between them is that of `InterpolatedQuantiles`. Categories are
    passed to LightGBM as such.

    Parameters
    ----------
    n_estimators : int, default=2000
        Maximum number of boosting rounds of each level.
    learning_rate : float, default=0.05
    num_leaves : int, default=31
    levels : sequence of float, default=(0.01, 0.05, 0.1, ..., 0.95, 0.99)
        Levels of the quantiles; 21 by default.
    {shared}

    Attributes
    ----------
    models_ : list of str
        The models in LightGBM's own format, one per level.
    """

    num_leaves: int = 31
    levels: Sequence[float] = LEVELS

    def _check(self) -> None:
        check_whole("num_leaves", self.num_leaves, 2)
        check_levels(self.levels)

    def _more_settings(self) -> dict[str, Any]:
        """Settings of LightGBM beyond the number and the leaves of the trees."""
        return {}

    def _boost(self, table: TrainingTable, train: NDArray[np.intp], valid: NDArray[np.intp], seed: int) -> None:
        lightgbm = import_optional("lightgbm", self)
        categories = np.flatnonzero(self.encoder_.n_categories_ > 0).tolist()
        settings = {
            "objective": "quantile",
            "learning_rate": self.learning_rate,
            "num_leaves": self.num_leaves,
            "num_threads": effective_n_jobs(self.n_jobs),
            "seed": seed,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": 1 if self.verbose else -1,
            **self._more_settings(),
        }
        data = lightgbm.Dataset(
            table.raw[train],
            table.y[train],
            weight=table.weight[train],
            categorical_feature=categories,
            params=settings,
        )
        check = lightgbm.Dataset(table.raw[valid], table.y[valid], weight=table.weight[valid], reference=data)
        self.models_ = []
        for level in self.levels:
            stopping: dict[str, Any] = {}
            if self.early_stopping_rounds is not None:
                stop = lightgbm.early_stopping(self.early_stopping_rounds, verbose=bool(self.verbose))
                stopping = {"valid_sets": [check], "callbacks": [stop]}
            booster = lightgbm.train({**settings, "alpha": float(level)}, data, self.n_estimators, **stopping)
            self.models_.append(booster.model_to_string(num_iteration=booster.best_iteration))

    def _predict_scaled(self, raw: NDArray[np.float64]) -> InterpolatedQuantiles:
        lightgbm = import_optional("lightgbm", self)
        n_threads = effective_n_jobs(self.n_jobs)
        values = np.column_stack(
            [lightgbm.Booster(model_str=text).predict(raw, num_threads=n_threads) for text in self.models_]
        )
        return InterpolatedQuantiles(self.levels, separated(values, TINY))
